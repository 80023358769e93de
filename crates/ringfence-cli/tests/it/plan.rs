//! `ringfence plan`, started as users start it.

use crate::command;

use std::fs;

use command::{cases, folder, ringfence, ringfence_with_input};

/// Two rows of 4 bytes that are never alive together, and one of 6 bytes that is always alive.
const SMALL: &str =
    "id,lower,upper,size,alignment,what\na,0,10,4,,first\nb,10,20,4,4,\"second, quoted\"\nc,0,20,6,1,all\n";

#[test]
fn a_small_plan_is_at_its_bound_and_has_the_same_rows_in_the_same_order() {
    let answer = ringfence_with_input(&["plan", "-", "--output", "-"], SMALL.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let lines: Vec<_> = answer.out.lines().collect();
    assert_eq!(lines[0], "id,lower,upper,size,alignment,what,offset");
    let offset = |line: &str| line.rsplit(',').next().and_then(|text| text.parse::<u64>().ok()).expect("a number");
    let [a, b, c] = [lines[1], lines[2], lines[3]].map(offset);
    assert!(lines[2].starts_with("b,10,20,4,4,\"second, quoted\","), "{}", lines[2]);
    assert_eq!((a, b, c), (a, a, if a == 0 { 4 } else { 0 }), "a and b share, c is beside them");
    assert!(answer.err.contains("Peak         10 (10 B)"), "the figures go elsewhere: {}", answer.err);
    assert!(answer.err.contains("Not read     the columns what"), "{}", answer.err);
    // The output can be used as input; its offsets are then replaced.
    let again = ringfence_with_input(&["plan", "-", "--offsets", "replace", "--output", "-"], answer.out.as_bytes());
    assert_eq!(again.out, answer.out);
}

/// MiniMalloc has two further columns: `gaps` (times at which a buffer is not alive) and `offset` (the required offset
/// of a buffer). The command must not ignore these columns, because the plan would solve another problem.
#[test]
fn what_only_minimalloc_reads_is_refused_by_name_or_planned() {
    let refusals = [
        ("id,lower,upper,size,gaps\nA,0,10,10,3-6\nB,3,6,10,\n", ":2: expected a row for each lifetime"),
        ("id,lower,upper,size,gaps\nA,0,10,10,\nB,3,6,10,4-5@0:2\n", ":3: expected a row for each lifetime"),
        ("id,lower,upper,size,offset\nA,0,10,10,30\n", ":2: expected --offsets replace (to compute new ones)"),
        ("id,lower,upper,size,Gaps\nA,0,10,10,3-6\n", ":1: expected the column Gaps to be called gaps"),
        ("id,lower,upper,size,Alignment\nA,0,10,10,64\n", ":1: expected the column Alignment to be called alignment"),
    ];
    for (text, expected) in refusals {
        let answer = ringfence_with_input(&["plan", "-", "--output", "-"], text.as_bytes());
        assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""), "{text}: {}", answer.err);
        assert!(answer.err.contains(&format!("standard input{expected}")), "{text}: {}", answer.err);
    }
    // The same problem as rows of this command: one row for each lifetime.
    let text = "id,lower,upper,size,again_of,gaps\nA,0,3,10,,\nB,3,6,10,,\nA2,6,10,10,A,\n";
    let answer = ringfence_with_input(&["plan", "-", "--json"], text.as_bytes());
    assert!(answer.is_success() && answer.out.contains("\"peak_bytes\": 10"), "{}{}", answer.out, answer.err);
    let pinned = "id,lower,upper,size,offset\nA,0,10,10,30\nB,3,6,10,\nC,0,10,35,\n";
    let planned =
        |offsets| ringfence_with_input(&["plan", "-", "--output", "-", "--offsets", offsets], pinned.as_bytes());
    let answer = planned("pin");
    assert!(
        answer.out.contains("A,0,10,10,30\n") && answer.out.contains("C,0,10,35,40\n"),
        "{}{}",
        answer.out,
        answer.err
    );
    assert!(answer.err.contains("Peak         75"), "{}", answer.err);
    assert!(planned("replace").err.contains("Peak         55"), "{}", planned("replace").err);
    for (text, expected) in [
        ("id,lower,upper,size\nA,0,10,10\n", ":1: expected a column offset with --offsets pin"),
        ("id,lower,upper,size,offset,heap\nA,0,10,10,0,1\n", ":1: expected no column heap with --offsets pin"),
        ("id,lower,upper,size,offset,pinned\nA,0,10,10,0,8\n", ":1: expected no column pinned with --offsets pin"),
    ] {
        let answer = ringfence_with_input(&["plan", "-", "--offsets", "pin"], text.as_bytes());
        assert!(answer.code == Some(1) && answer.err.contains(expected), "{}", answer.err);
    }
    assert!(planned("keep").err.contains("expected replace or pin"), "{}", planned("keep").err);
}

#[test]
fn columns_that_are_not_read_are_named() {
    for (text, named) in [
        ("id,lower,upper,size,colour,hint\na,0,1,5,red,7\n", "colour, hint"),
        ("a,0,1,5,,red,7\n", "column 6, column 7"),
        ("id,lower,upper,size,kind,colour\na,0,1,5,x,red\n", "colour"),
    ] {
        let answer = ringfence_with_input(&["plan", "-", "--granularity", "64"], text.as_bytes());
        assert!(answer.out.contains(&format!("Not read     the columns {named}\n")), "{}{}", answer.out, answer.err);
    }
    let known = "id,lower,upper,size,name,uses,pool,gaps\na,0,1,5,n,0w,p,\n";
    let answer = ringfence_with_input(&["plan", "-"], known.as_bytes());
    assert!(answer.is_success() && !answer.out.contains("Not read"), "{}{}", answer.out, answer.err);
}

/// In rows without a heading, a column is known by its position. So an offset in the fifth column would be read as the
/// alignment.
#[test]
fn rows_without_a_heading_get_one_with_their_offsets() {
    let arguments = ["plan", "-", "--offsets", "replace", "--output", "-"];
    let planned = |text: &str| ringfence_with_input(&arguments, text.as_bytes()).out;
    let bare = planned("x,0,1,5\ny,1,2,5\n");
    assert_eq!(bare, "id,lower,upper,size,offset\nx,0,1,5,0\ny,1,2,5,0\n");
    assert_eq!(planned(&bare), bare);
    let more = planned("x,0,1,5,4,red,\ny,0,2,5,,,7\n");
    assert!(more.starts_with("id,lower,upper,size,alignment,column 6,column 7,offset\nx,0,1,5,4,red,,"), "{more}");
    assert_eq!(planned(&more), more);
}

#[test]
fn ids_that_look_like_comments_come_back_quoted() {
    let text = "# a comment\n\"#1\",0,1,5\n# another\n 2 ,0,1,5\n";
    let arguments = ["plan", "-", "--offsets", "replace", "--output", "-"];
    let planned = |text: &str| ringfence_with_input(&arguments, text.as_bytes()).out;
    let once = planned(text);
    assert_eq!(once.lines().count(), 3, "{once}");
    assert!(once.contains("\n\"#1\",0,1,5,") && once.contains("\n2,0,1,5,"), "{once}");
    assert_eq!(planned(&once), once);
}

#[cfg(unix)]
#[test]
fn what_a_link_leads_to_is_written_and_keeps_its_mode() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder("plan-link-out");
    fs::create_dir(folder.join("real")).expect("the folder can be written");
    let [link, real, dangling] = ["link.csv", "real/out.csv", "new.csv"].map(|name| folder.join(name));
    fs::write(&real, "old").expect("the folder can be written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("it is ours");
    symlink("real/out.csv", &link).expect("the folder takes links");
    symlink("real/made.csv", &dangling).expect("the folder takes links");
    for path in [&link, &dangling] {
        let path = path.to_str().expect("a plain path");
        let answer = ringfence_with_input(&["plan", "-", "--output", path], SMALL.as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        assert!(fs::symlink_metadata(path).expect("it is there").is_symlink(), "{path}");
    }
    let written = fs::read_to_string(&real).expect("it is there");
    assert!(written.starts_with("id,lower,upper,size"), "{written}");
    assert_eq!(fs::read_to_string(folder.join("real/made.csv")).expect("it was made"), written);
    assert_eq!(fs::metadata(&real).expect("it is there").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.join("real")).expect("it is there").count(), 2);
    fs::remove_file(folder.join("real/made.csv")).expect("it is ours");
    let made = folder.join("real/made.csv");
    let arguments =
        ["plan", "-", "--output", dangling.to_str().expect("plain"), "--report", made.to_str().expect("plain")];
    let answer = ringfence_with_input(&arguments, SMALL.as_bytes());
    assert!(answer.err.contains("expected --report to be another file than --output"), "{}", answer.err);
}

#[cfg(unix)]
#[test]
fn a_hard_link_is_the_same_file() {
    let folder = folder("plan-links");
    let [input, link, page, other] = ["in.csv", "link.csv", "page.html", "other.csv"].map(|name| folder.join(name));
    fs::write(&input, SMALL).expect("the folder can be written");
    fs::write(&page, "").expect("the folder can be written");
    fs::hard_link(&input, &link).expect("the folder takes links");
    fs::hard_link(&page, &other).expect("the folder takes links");
    let [input, link, page, other] = [&input, &link, &page, &other].map(|path| path.to_str().expect("a plain path"));
    let onto_input = ringfence(&["plan", input, "--output", link]);
    assert_eq!(onto_input.code, Some(1));
    assert!(onto_input.err.contains("expected --output to be another file than the input"), "{}", onto_input.err);
    let twice = ringfence(&["plan", input, "--output", other, "--report", page]);
    assert_eq!(twice.code, Some(1));
    assert!(twice.err.contains("expected --report to be another file than --output"), "{}", twice.err);
}

#[test]
fn numbers_that_are_none_are_refused_in_words() {
    for (option, value, expected) in [
        ("--threads", "0", "expected a number of threads, 1 or more"),
        ("--threads", "-1", "expected a number of threads, 1 or more"),
        ("--capacity", "-1", "expected a number of bytes"),
        ("--heap", "-1", "expected a number of bytes"),
        ("--alignment", "-4", "expected a power of two"),
        ("--granularity", "-4", "expected a power of two"),
    ] {
        let answer = ringfence(&["plan", "-", option, value]);
        assert_eq!(answer.code, Some(1));
        assert!(answer.err.contains(expected), "{option} {value}: {}", answer.err);
    }
}

#[test]
fn two_answers_at_one_place_are_refused_before_anything_is_written() {
    let folder = folder("plan-apart");
    let (input, page) = (folder.join("in.csv"), folder.join("page.html"));
    fs::write(&input, SMALL).expect("the folder can be written");
    let (input, page) = (input.to_str().expect("a plain path"), page.to_str().expect("a plain path"));
    let roundabout = folder.join("../plan-apart/page.html");
    let roundabout = roundabout.to_str().expect("a plain path");
    let cases: [(&[&str], &str); 5] = [
        (&["--output", "-", "--report", "-"], "expected --report to be another file than --output, both are standard"),
        (&["--output", page, "--report", page], "expected --report to be another file than --output"),
        (&["--output", page, "--report", roundabout], "expected --report to be another file than --output"),
        (&["--output", input], "expected --output to be another file than the input"),
        (&["--report", input], "expected --report to be another file than the input"),
    ];
    for (arguments, expected) in cases {
        let answer = ringfence(&[&["plan", input], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(answer.err.contains(expected), "{arguments:?}: {}", answer.err);
        assert_eq!(fs::read_to_string(input).expect("it is there"), SMALL);
        assert!(!fs::exists(page).expect("the folder is there"));
    }
}

/// If first fit takes longer than its part of the time limit, it is omitted from the figures.
#[test]
fn first_fit_takes_no_more_time_than_its_part_of_the_limit() {
    let first_fit = |limit: &str| {
        let answer = ringfence_with_input(&["plan", "-", "--json", "--time-limit", limit], SMALL.as_bytes());
        let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
        json["first_fit_bytes"].as_u64()
    };
    assert_eq!((first_fit("0"), first_fit("1000")), (None, Some(10)));
}

#[test]
fn the_figures_are_peak_bound_ratio_and_time() {
    let answer = ringfence_with_input(&["plan", "-", "--json"], SMALL.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((json["rows"].as_u64(), json["peak_bytes"].as_u64()), (Some(3), Some(10)));
    assert_eq!((json["lower_bound_bytes"].as_u64(), json["ratio"].as_f64()), (Some(10), Some(1.0)));
    assert_eq!(json["is_proven"], true);
    assert!(json["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0));
    let aligned = ringfence_with_input(&["plan", "-", "--json", "--alignment", "64"], SMALL.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&aligned.out).expect("it is JSON");
    assert_eq!(json["peak_bytes"].as_u64(), Some(10), "the one that says none is at 0, the next at 4");
}

#[test]
fn a_capacity_that_is_not_met_is_exit_code_2_and_writes_no_plan() {
    let folder = folder("plan-capacity");
    let out = folder.join("out.csv");
    let path = out.to_str().expect("a plain path");
    let answer = ringfence_with_input(&["plan", "-", "--capacity", "9", "--output", path], SMALL.as_bytes());
    assert_eq!(answer.code, Some(2), "{}", answer.err);
    assert!(answer.out.contains("not met"), "{}", answer.out);
    assert!(!out.exists());
    // The page is written although the capacity is exceeded.
    let page = folder.join("page.html");
    let report = page.to_str().expect("a plain path");
    let answer = ringfence_with_input(&["plan", "-", "--capacity", "9", "--report", report], SMALL.as_bytes());
    assert_eq!((answer.code, page.exists()), (Some(2), true), "{}", answer.err);
    let help = ringfence(&["plan", "--help"]).out;
    assert!(help.contains("then no rows are written (--output), but a page"), "{help}");
    let answer = ringfence_with_input(&["plan", "-", "--capacity", "10", "--output", path], SMALL.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    assert!(out.exists());
}

#[test]
fn bad_rows_are_named_with_their_line_and_what_was_expected() {
    let cases = [
        ("", "standard input: expected at least one row"),
        ("id,lower,upper,size\n", "standard input: expected at least one row"),
        ("id,lower,size\n1,0,8\n", "standard input:1: expected the columns id,lower,upper,size"),
        ("name,from,to\n", "standard input:1: expected the columns id,lower,upper,size"),
        ("id,lower,upper,size\n1,0,1,8\n\n2,0,1,0\n", "standard input:4: expected a size above 0, found \"0\""),
        ("# no\r\n\r\n# one\n1,0,1,8\n\n# two\n2,0,1,0\n", "standard input:7: expected a size above 0"),
        ("id,lower,upper,size\n1,5,5,8\n", "standard input:2: expected upper to be above lower, found 5 to 5"),
        ("id,lower,upper,size\n1,7,5,8\n", "standard input:2: expected upper to be above lower, found 7 to 5"),
        ("1,0,1,8\n2,0,1,8\n1,1,2,8\n", "standard input:3: expected a new id, \"1\" is in line 1 too"),
        (
            "id,lower,upper,size,alignment\n1,0,1,8,3\n",
            "standard input:2: expected an alignment that is a power of two",
        ),
        ("1,0,1,8,0\n", "standard input:1: expected an alignment that is a power of two, found \"0\""),
        ("1,0,1\n", "standard input:1: expected a size above 0, found nothing"),
        ("id,lower,upper,size\na,0,2,10,77\n", "standard input:2: expected 4 fields, as in line 1, found 5"),
        ("id,lower,upper,size,name\n\na,0,2,10\n", "standard input:3: expected 5 fields, as in line 1, found 4"),
        ("a,0,2,10\nb,0,2,10,16\n", "standard input:2: expected 4 fields, as in line 1, found 5"),
        ("id,lower,upper,size,size\na,0,2,10,11\n", "standard input:1: expected each column once, found two with"),
        ("id,offset,lower,upper,size,offset\na,0,0,2,10,1\n", "standard input:1: expected each column once"),
        ("id,lower,upper,size\na,0,1,\"8\nb,0,1,8\n", "standard input:2: expected a quoted field to end on its line"),
        ("# no\n1,0,1,8\n\n\"2\n,0,1,8\n", "standard input:4: expected a quoted field to end on its line"),
        ("\"id,lower,upper,size\na,0,1,8\n", "standard input:1: expected a quoted field to end on its line"),
        (",0,1,8\n", "standard input:1: expected an id, found nothing"),
        ("1,-1,1,8\n", "standard input:1: expected lower to be a whole number"),
        ("1,0,1,99999999999999999999\n", "standard input:1: expected a size above 0"),
        (
            "1,0,1,9223372036854775807\n",
            "standard input:1: expected sizes and alignments that add up to less than 2^63",
        ),
        ("1,0,1,8\n2,3,4,9223372036854775800\n", "standard input:2: expected sizes and alignments that add up"),
    ];
    for (input, expected) in cases {
        let answer = ringfence_with_input(&["plan", "-"], input.as_bytes());
        assert_eq!(answer.code, Some(1), "{input:?}: {}", answer.out);
        assert!(answer.err.contains(expected), "{input:?}: {}", answer.err);
        assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
        assert!(answer.out.is_empty());
    }
    for (arguments, expected) in [
        (&["plan", "no such file.csv"][..], "no such file.csv"),
        (&["plan", "-", "--alignment", "3"], "expected a power of two"),
        (&["plan", "-", "--capacity", "0"], "expected a number of bytes"),
        (&["plan", "-", "--time-limit", "-1"], "time-limit"),
        (&["plan", "-", "--threads", "0"], "--threads"),
        (&["plan", "-", "--output", "/no/such/folder/out.csv"], "cannot write"),
    ] {
        let answer = ringfence(arguments);
        assert_eq!(answer.code, Some(1), "{arguments:?}");
        assert!(answer.err.contains(expected), "{arguments:?}: {}", answer.err);
    }
}

/// Returns CSV rows for 160 items: the pieces of one rectangle (200 moments × 1 MiB) that is cut at random. A plan of 1
/// MiB therefore exists, but is hard to find.
fn hard_rows(seed: u64) -> String {
    let mut state = seed;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut pieces = vec![(0, 200, 1 << 20)];
    while pieces.len() < 160 {
        let at = below(pieces.len() as u64) as usize;
        let (lower, upper, size) = pieces[at];
        let (moment, part) = (lower + 1 + below(upper - lower), 1 + below(size));
        if pieces.len() % 2 == 0 && moment < upper {
            (pieces[at].1, _) = (moment, pieces.push((moment, upper, size)));
        } else if part < size {
            (pieces[at].2, _) = (part, pieces.push((lower, upper, size - part)));
        }
    }
    let rows = pieces.iter().enumerate().map(|(id, (lower, upper, size))| format!("{id},{lower},{upper},{size}\n"));
    "id,lower,upper,size\n".to_owned() + &rows.collect::<String>()
}

/// Once a plan fits the capacity, the output does not depend on the time limit, because the reduction of transitions is
/// limited by a number of steps.
#[test]
fn the_same_rows_give_the_same_output_whatever_the_time_limit() {
    let rows = hard_rows(3);
    let planned = |limit: &str| {
        let arguments = ["plan", "-", "--capacity", "1GiB", "--time-limit", limit, "--json", "--output", "-"];
        let answer = ringfence_with_input(&arguments, rows.as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        let json: serde_json::Value = serde_json::from_str(&answer.err).expect("it is JSON");
        assert!(json["transitions"]["left"].as_u64() < json["transitions"]["found"].as_u64(), "{json}");
        assert!(json["seconds"].is_f64() && json["lowering_seconds"].is_f64(), "{json}");
        answer.out
    };
    assert_eq!(planned("0"), planned("100000"));
    let answer = ringfence_with_input(&["plan", "-", "--capacity", "1GiB"], rows.as_bytes());
    assert!(answer.out.contains(" s for fewer transitions"), "{}", answer.out);
}

#[test]
fn several_threads_give_the_same_plan_whatever_their_number() {
    let planned = |rows: &str, threads: &str| {
        let arguments = ["plan", "-", "--threads", threads, "--time-limit", "100000", "--json", "--output", "-"];
        let answer = ringfence_with_input(&arguments, rows.as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        let json: serde_json::Value = serde_json::from_str(&answer.err).expect("it is JSON");
        assert_eq!(json["is_proven"], true, "{json}");
        answer.out
    };
    let differs = |seed| {
        let rows = hard_rows(seed);
        let [one, two, five] = ["1", "2", "5"].map(|threads| planned(&rows, threads));
        assert!(two == five, "seed {seed}");
        one != two
    };
    // The height with one thread equals the height with several. The offsets differ if another worker found the plan
    // first.
    assert!(
        [7, 8, 14].into_iter().any(differs),
        "no case is left that takes longer than the first worker's first round"
    );
    let rows = hard_rows(1);
    let heaps = ringfence_with_input(&["plan", "-", "--threads", "2", "--heap", "1GiB"], rows.as_bytes());
    assert_eq!(heaps.code, Some(1), "{}", heaps.out);
    assert!(heaps.err.contains("--threads is for plans of one heap"), "{}", heaps.err);
}

#[test]
fn the_report_is_a_chart_of_every_row() {
    let folder = folder("plan-report");
    let page = folder.join("plan.html");
    let arguments = ["plan", "-", "--report", page.to_str().expect("a plain path")];
    let answer = ringfence_with_input(&arguments, SMALL.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let html = fs::read_to_string(&page).expect("it was written");
    assert_eq!(html.matches("<rect").count(), 3);
    // The whole page except the element that forbids network requests.
    let rest = html.replacen("http-equiv=\"Content-Security-Policy\"", "", 1);
    assert!(html.contains("Lower bound") && !rest.contains("http"));
    // The data of the slider over time is on the page.
    assert!(html.contains("id=\"slider\"") && html.contains("\"name\":[\"a\",\"b\",\"c\"]"));
}

/// Pass 2 writes a row that only pass 5 reads, so it can run after the row of pass 1 is no longer alive.
#[test]
fn passes_that_can_wait_are_named() {
    let rows = "id,lower,upper,size,uses\na,1,4,100,1w 3\nb,2,6,90,2 5\nc,3,6,10,3w 5\n";
    let answer = ringfence_with_input(&["plan", "-"], rows.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let expected = "with the passes in the order 1 3 2 5 the load is 110 instead of 200: 45.0 % less";
    assert!(answer.out.contains(expected), "{}", answer.out);
    let answer = ringfence_with_input(&["plan", "-", "--json"], rows.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((&json["advice"]["load_after_bytes"], &json["advice"]["order"][1]), (&110.into(), &3.into()));
    let none = ringfence_with_input(&["plan", "-"], b"id,lower,upper,size,uses\na,1,2,100,1 2\n");
    assert!(none.out.contains("no order of the passes was found"), "{}", none.out);
    for bad in ["x", "1 -2", "", "w"] {
        let rows = format!("id,lower,upper,size,uses\na,1,4,100,{bad}\n");
        let answer = ringfence_with_input(&["plan", "-"], rows.as_bytes());
        assert_eq!(answer.code, Some(1), "{bad:?}: {}", answer.out);
        assert!(answer.err.contains("standard input:2: expected the uses to be numbers of passes"), "{}", answer.err);
    }
}

#[test]
fn real_frames_are_at_their_bound() {
    let Some(folder) = cases() else { return };
    for frame in ["o3de_lowend_1080p", "o3de_main_1080p", "o3de_main_1080p_msaa4"] {
        let path = folder.join("alias/frames").join(frame).with_extension("csv");
        // The proof takes a fraction of a second, but on a busy machine it may take any time.
        let answer = ringfence(&["plan", path.to_str().expect("a plain path"), "--json", "--time-limit", "100000"]);
        assert!(answer.is_success(), "{}", answer.err);
        let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
        assert_eq!(json["is_proven"], true, "{frame}: {json}");
        assert!(json["first_fit_bytes"].as_u64() >= json["peak_bytes"].as_u64());
    }
}

#[test]
fn a_page_is_headed_by_the_name_of_the_file_without_its_folders() {
    let folder = folder("plan-heading");
    let (rows, page) = (folder.join("frame.csv"), folder.join("page.html"));
    fs::write(&rows, SMALL).expect("it can be written");
    let [rows, to] = [&rows, &page].map(|path| path.to_str().expect("a plain path"));
    assert!(ringfence(&["plan", rows, "--report", to]).is_success());
    let html = fs::read_to_string(&page).expect("the page is there");
    assert!(html.contains("<h1>Plan of frame.csv</h1>") && !html.contains(rows), "{rows}");
}
