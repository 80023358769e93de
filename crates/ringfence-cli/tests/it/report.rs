//! `ringfence report`, `completions`, `man`, and rules for all subcommands, started as users start them.

use crate::command;

use std::io::Read;
use std::process::Stdio;

use command::{Answer, cases, command, folder, ringfence, ringfence_with_input};

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_demo_writes_a_snapshot_and_the_report_of_it_says_its_figures() {
    let folder = folder("report-of-demo");
    let (snapshot, page) = (folder.join("demo.json"), folder.join("page.html"));
    let answer = ringfence(&["demo", "--device", "sim", "--frames", "20", "--snapshot", text(&snapshot)]);
    assert!(answer.is_success(), "{}", answer.err);
    let answer = ringfence(&["report", text(&snapshot), "--output", text(&page), "--json"]);
    assert!(answer.is_success(), "{}", answer.err);
    let figures: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    let html = std::fs::read_to_string(&page).expect("the page is there");
    for name in ["reserved_bytes", "used_bytes", "block_count", "allocation_count"] {
        let value = &figures[name];
        assert!(html.contains(&format!("data-figure=\"{name}\" data-value=\"{value}\"")), "{name} is {value}");
    }
    assert!(html.contains("<title>demo</title>"));
    // The same report, with pipes as input and output.
    let json = std::fs::read(&snapshot).expect("it is there");
    let piped = ringfence_with_input(&["report", "-", "--output", "-", "--title", "demo"], &json);
    assert!(piped.is_success() && piped.out == html, "{}", piped.err);
}

#[test]
fn what_is_no_snapshot_is_refused_in_one_line_and_nothing_is_written() {
    let page = folder("report-refused").join("page.html");
    let refused = |input: &str| -> Answer {
        let answer = ringfence_with_input(&["report", "-", "--output", text(&page)], input.as_bytes());
        assert_eq!((answer.code, answer.err.lines().count()), (Some(1), 1), "{}", answer.err);
        assert!(!page.exists());
        answer
    };
    assert!(refused("").err.contains("standard input:1: expected a snapshot"));
    assert!(refused("{\n\"blocks\":\n}").err.contains("standard input:3: expected a snapshot"));
    assert!(refused("{}").err.contains("expected a snapshot"));
    assert!(refused("[1]").err.contains("expected a snapshot"));
    assert!(refused("{\n\"version\": 1,\n\"blocks\": 7\n}").err.contains("standard input:3: "));
    assert!(refused("{\"MemoryInfo\": {\"Heap 0\": {}}}").err.contains("at MemoryInfo / Heap 0: expected a number"));
    assert!(ringfence(&["report", "-"]).err.contains("required"), "without an answer to give");
}

#[test]
fn two_answers_at_one_place_are_refused_before_anything_is_written() {
    let folder = folder("report-apart");
    let (snapshot, other) = (folder.join("demo.json"), folder.join("other.html"));
    let demo = ["demo", "--device", "sim", "--frames", "3", "--snapshot", text(&snapshot)];
    let same = ringfence(&[&demo[..], &["--report", text(&snapshot)]].concat());
    assert!(same.err.contains("expected --snapshot to be another file than --report"), "{}", same.err);
    assert!(!snapshot.exists());
    assert!(ringfence(&demo).is_success());
    let json = std::fs::read(&snapshot).expect("it is there");
    let cases: [(&[&str], &str); 3] = [
        (&["--output", "-", "--json"], "expected one answer on standard output"),
        (&["--output", text(&snapshot)], "expected --output to be another file than the input"),
        (&["--compare", text(&other), "--output", text(&other)], "expected --output to be another file than the input"),
    ];
    for (arguments, expected) in cases {
        let answer = ringfence(&[&["report", text(&snapshot)], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(answer.err.contains(expected), "{arguments:?}: {}", answer.err);
    }
    assert!(std::fs::read(&snapshot).expect("it is there") == json && !other.exists());
}

#[test]
fn a_dump_of_vma_becomes_a_page() {
    let Some(cases) = cases() else { return };
    let page = folder("report-of-vma").join("page.html");
    let dump = cases.join("traces/vma_Sample.json");
    let answer = ringfence(&["report", text(&dump), "--output", text(&page)]);
    assert!(answer.is_success(), "{}", answer.err);
    let html = std::fs::read_to_string(&page).expect("the page is there");
    assert!(html.contains("data-figure=\"allocation_count\" data-value=\"132\""));
}

#[test]
fn a_reader_that_stops_ends_the_command_without_a_word() {
    for arguments in [vec!["man"], vec!["completions", "bash"], vec!["demo", "--device", "sim", "--frames", "3"]] {
        let mut child = command().args(&arguments).stdout(Stdio::piped()).spawn().expect("the command starts");
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("it ends");
        assert!(!err.contains("panicked") && !err.contains("Broken pipe"), "{arguments:?}: {err}");
        assert_eq!(status.code(), Some(0), "{arguments:?}: {err}");
    }
}

/// Runs the command with the variable `COLUMNS` set to a width; if `columns` is `None`, the variable is not set.
fn in_columns(columns: Option<usize>, arguments: &[&str]) -> Answer {
    let mut command = command();
    command.args(arguments).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    let run = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("the command writes text");
    Answer { out: text(run.stdout), err: text(run.stderr), code: run.status.code() }
}

#[test]
fn tables_and_help_are_as_wide_as_the_terminal_and_no_wider_than_100_without_one() {
    let folder = folder("report-columns");
    let (trace, rows) = (folder.join("trace.csv"), folder.join("rows.csv"));
    std::fs::write(&trace, "op,id,size,alignment\na,1,123456789,256\nf,1,,\n").expect("it can be written");
    std::fs::write(&rows, "id,lower,upper,size\na,0,2,123456789\nb,1,3,123456789\n").expect("it can be written");
    let names = ["demo", "devices", "replay", "plan", "report", "world", "completions", "man"];
    let mut all: Vec<Vec<&str>> = names.iter().map(|name| vec!["help", *name]).collect();
    all.extend([
        vec!["--help"],
        vec!["demo", "--device", "sim", "--frames", "30"],
        vec!["devices"],
        vec!["replay", text(&trace)],
        vec!["plan", text(&rows), "--time-limit", "0.1"],
        vec!["world", "--steps", "5"],
    ]);
    for arguments in all {
        for (columns, width) in [(Some(80), 80), (Some(100), 100), (None, 100)] {
            let answer = in_columns(columns, &arguments);
            assert!(answer.is_success() && !answer.out.is_empty(), "{arguments:?}: {}", answer.err);
            // A word, such as the name of a file, is never broken, so a line of one word may be too long.
            let is_too_wide = |line: &&str| line.chars().count() > width && line.trim().contains(' ');
            let first_word_fits = |line: &str| line.split(' ').all(|word| word.chars().count() <= width / 2);
            let wide = answer.out.lines().filter(|line| first_word_fits(line)).find(is_too_wide);
            assert_eq!(wide, None, "{arguments:?} in {columns:?} columns:\n{}", answer.out);
        }
    }
    let wide = in_columns(Some(160), &["demo", "--device", "sim", "--frames", "3"]).out;
    assert!(wide.contains("device_local host_visible host_coherent"), "where there is room, it is used: {wide}");
}

/// Numbers have the same style on the page and in the terminal: groups of three digits with commas.
#[test]
fn numbers_are_in_groups_of_three_digits_with_commas_everywhere() {
    let page = folder("report-numbers").join("page.html");
    let answer = ringfence(&["demo", "--device", "sim", "--frames", "40", "--report", text(&page)]);
    assert!(answer.is_success(), "{}", answer.err);
    let is_blank_group = |text: &str| {
        let is_group = |part: &[u8]| {
            part[0].is_ascii_digit()
                && part[1] == b' '
                && part[2..5].iter().all(u8::is_ascii_digit)
                && !part[5].is_ascii_digit()
        };
        text.as_bytes().windows(6).any(is_group)
    };
    assert!(answer.out.contains("2,"), "{}", answer.out);
    assert_eq!(answer.out.lines().find(|line| is_blank_group(line) && !line.contains('┆')), None);
    let html = std::fs::read_to_string(&page).expect("the page is there");
    let facts = html.split_once("The run in figures</caption>").expect("there are facts").1;
    let facts = facts.split_once("</table>").expect("it ends").0;
    assert_eq!(facts.lines().find(|line| is_blank_group(line)), None);
    assert!(facts.contains("ringfence demo") || facts.contains("run: driver calls"));
}

#[test]
fn what_a_dump_of_vma_does_not_hold_is_null_and_not_0() {
    let dump = r#"{"MemoryInfo":{"Heap 0":{"Flags":["DEVICE_LOCAL"],"Size":4096,"MemoryPools":{"Type 0":{"Flags":[]}}}},
        "DefaultPools":{"Type 0":{"Blocks":{"0":{"TotalBytes":1024,"Suballocations":
        [{"Offset":0,"Type":"BUFFER","Size":100}]}}}}}"#;
    let answer = ringfence_with_input(&["report", "-", "--json"], dump.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let figures: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((&figures["reserved_bytes"], &figures["used_bytes"]), (&1024.into(), &100.into()));
    for unknown in ["retired_count", "calls_made", "calls_saved", "reserved_bytes_high_water"] {
        assert_eq!(figures[unknown], serde_json::Value::Null, "{unknown}");
    }
}

#[test]
fn completions_and_the_manual_know_every_command() {
    let names = ["demo", "devices", "replay", "report", "completions", "man"];
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = ringfence(&["completions", shell]);
        assert!(answer.is_success() && names.iter().all(|name| answer.out.contains(name)), "{shell}: {}", answer.err);
    }
    let manual = ringfence(&["man"]);
    assert!(manual.out.starts_with(".ie") || manual.out.contains(".TH"), "{}", manual.out);
    assert!(names.iter().all(|name| manual.out.contains(&format!(".SH \"{}\"", name.to_uppercase()))));
}

#[test]
fn help_has_examples_and_exit_codes_and_no_colours() {
    let help = ringfence(&["--help"]);
    assert!(help.is_success() && help.out.contains("Exit codes:") && help.out.contains("Examples:"));
    for name in ["demo", "devices", "replay", "plan", "report", "completions", "man"] {
        let help = ringfence(&[name, "--help"]);
        assert!(help.is_success() && help.out.contains("Example"), "{name}: {}", help.out);
        assert!(!help.out.contains('\u{1b}'), "{name}");
    }
    let wrong = ringfence(&["reprot"]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (Some(1), 1), "{}", wrong.err);
    let lacking = ringfence(&["report", "snapshot.json"]);
    assert_eq!((lacking.code, lacking.err.lines().count()), (Some(1), 1), "{}", lacking.err);
    assert!(lacking.err.contains("not provided: <--output <FILE.html>|--svg <DIR>|--json>"), "{}", lacking.err);
}

#[test]
fn of_a_snapshot_that_is_cut_off_a_page_is_made_and_the_cut_is_named() {
    let folder = folder("report-of-cut");
    let (snapshot, page) = (folder.join("demo.json"), folder.join("page.html"));
    let answer = ringfence(&["demo", "--device", "sim", "--frames", "20", "--snapshot", text(&snapshot)]);
    assert!(answer.is_success(), "{}", answer.err);
    let bytes = std::fs::read(&snapshot).expect("it is there");
    let blocks = bytes.windows(8).position(|part| part == b"\"blocks\"").expect("it has blocks");
    std::fs::write(&snapshot, &bytes[..blocks + (bytes.len() - blocks) / 2]).expect("it can be written");
    let answer = ringfence(&["report", text(&snapshot), "--output", text(&page)]);
    assert_eq!((answer.code, answer.err.lines().count()), (Some(1), 1), "{}", answer.err);
    assert!(answer.err.contains("demo.json: the file is cut off in line "), "{}", answer.err);
    let html = std::fs::read_to_string(&page).expect("what could be read is shown");
    assert!(html.contains("The file is damaged, and the page shows the part that could be read"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_said() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    for arguments in [vec!["man"], vec!["completions", "bash"], vec!["devices"], vec!["devices", "--json"]] {
        let run = command().args(&arguments).stdout(full()).output().expect("the command starts");
        let err = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains("cannot write to standard output: No space left"), "{arguments:?}: {err}");
    }
}
