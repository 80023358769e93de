//! `ringfence plan` with several heaps, pinned offsets and granularity pages.

use crate::command;

use std::fs;

use command::{folder, ringfence_with_input};
use serde_json::Value;

const FRAME: &str = "id,lower,upper,size,alignment,heaps,pinned,kind
imported,0,9,256,256,0,512,buffer
color,0,4,512,256,0 1,,image
depth,2,6,300,256,0 1,,image
readback,3,9,128,64,1,,buffer
";

fn planned(arguments: &[&str], text: &str) -> Vec<Vec<String>> {
    let all = [&["plan", "-", "--output", "-"], arguments].concat();
    let answer = ringfence_with_input(&all, text.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    answer.out.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn rows_lie_where_they_are_pinned_and_in_the_heap_they_prefer_while_it_holds_them() {
    let rows = planned(&["--heap", "1024", "--heap", "1MiB"], FRAME);
    assert_eq!(rows[0][8..], ["offset", "heap"].map(str::to_owned));
    assert_eq!(rows[1][8..], ["512", "0"].map(str::to_owned), "pinned");
    assert_eq!(rows[2][8..], ["0", "0"].map(str::to_owned), "below it");
    assert_eq!(rows[3][9], "1", "only 256 are left in the first heap");
    assert_eq!(rows[4][9], "1");
    let json = |arguments: &[&str]| -> Value {
        let all = [&["plan", "-", "--json"], arguments].concat();
        let answer = ringfence_with_input(&all, FRAME.as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        serde_json::from_str(&answer.out).expect("it is JSON")
    };
    let small = json(&["--heap", "1024", "--heap", "1MiB"]);
    assert_eq!((&small["fallback_bytes"], &small["is_proven"]), (&300.into(), &true.into()));
    assert_eq!((&small["heaps"][0]["peak_bytes"], &small["heaps"][0]["rows"]), (&768.into(), &2.into()));
    let large = json(&["--heap", "4096", "--heap", "1MiB"]);
    assert_eq!((&large["fallback_bytes"], &large["heaps"][0]["rows"]), (&0.into(), &3.into()));
    // A heap that no row names may be empty. The output can be used as input.
    let again: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    let arguments = ["--offsets", "replace", "--heap", "1024", "--heap", "1MiB"];
    assert_eq!(planned(&arguments, &(again.join("\n") + "\n")), rows);
}

#[test]
fn rows_of_different_kind_share_no_page() {
    let text = "id,lower,upper,size,kind\na,0,9,10,linear\nb,0,9,10,optimal\nc,0,9,10,linear\n";
    let peak = |arguments: &[&str]| {
        let all = [&["plan", "-", "--json"], arguments].concat();
        let answer = ringfence_with_input(&all, text.as_bytes());
        let json: Value = serde_json::from_str(&answer.out).expect("it is JSON");
        json["peak_bytes"].as_u64()
    };
    assert_eq!(peak(&[]), Some(30));
    assert_eq!(peak(&["--granularity", "64"]), Some(74), "a and c on one page, b on the next");
    let rows = planned(&["--granularity", "64"], text);
    assert_eq!(rows[0].len(), 6, "one heap needs no column");
}

#[test]
fn what_heaps_cannot_hold_is_exit_code_2_and_nonsense_is_1_with_its_line() {
    let edit = |from: &str, to: &str| FRAME.replace(from, to);
    let two = ["--heap", "1024", "--heap", "64KiB"];
    let cases: [(String, &[&str], i32, &str); 9] = [
        (edit("0 1,,", "0,,"), &two, 2, "standard input: at 2 1068 bytes are alive"),
        (
            edit("color,0,4,512,256,0 1", "color,0,4,600,256,0"),
            &two,
            2,
            "there is no plan: 600 would end at 1368 in heap 0",
        ),
        (FRAME.to_owned(), &["--heap", "1024"], 1, "standard input:3: expected heaps to be numbers from 0 to 0"),
        (edit("0 1,,", "0 2,,"), &two, 1, "standard input:3: expected heaps to be numbers from 0 to 1"),
        (edit(",512,buffer", ",x,buffer"), &two, 1, "standard input:2: expected pinned to be an offset, found \"x\""),
        (edit(",512,buffer", ",100,buffer"), &two, 1, "standard input:2: expected pinned to be a multiple of 256"),
        (edit(",512,buffer", ",1024,buffer"), &two, 2, "standard input:2: expected 256 at 1024 to end within"),
        (
            edit("0 1,,image\ndepth", "0,512,image\ndepth"),
            &two,
            1,
            "standard input:3: expected a pinned range in heap 0 that does not overlap line 2",
        ),
        (edit("128,64,1", "70000,64,1"), &two, 2, "standard input:5: expected one of its heaps to hold 70000"),
    ];
    for (text, arguments, code, expected) in cases {
        let all = [&["plan", "-"], arguments].concat();
        let answer = ringfence_with_input(&all, text.as_bytes());
        assert_eq!(answer.code, Some(code), "{expected}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(expected), "{expected}: {}", answer.err);
        assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
    }
    let answer = ringfence_with_input(&["plan", "-", "--heap", "64KiB", "--granularity", "3"], FRAME.as_bytes());
    assert!(answer.code == Some(1) && answer.err.contains("expected a power of two up to 4GiB"), "{}", answer.err);
}

#[test]
fn a_capacity_that_the_heaps_together_do_not_meet_is_exit_code_2() {
    let arguments = ["plan", "-", "--heap", "1024", "--heap", "64KiB", "--capacity", "1000"];
    let answer = ringfence_with_input(&arguments, FRAME.as_bytes());
    assert_eq!(answer.code, Some(2), "{}", answer.err);
    assert!(answer.out.contains("Capacity     1,000 (1,000 B), not met"), "{}", answer.out);
    assert!(answer.out.contains("Heap 0       768 (768 B) of 1,024 (1 KiB), 2 rows"), "{}", answer.out);
}

#[test]
fn heaps_that_are_too_small_say_so_as_json_where_that_was_asked() {
    let rows = "id,lower,upper,size\na,0,2,3\nb,1,3,3\n";
    // The heaps are too small for both rows together, or for one row.
    for (heap, why) in [("5", "alive"), ("2", "expected one of its heaps to hold 3")] {
        let out = folder("plan-heaps-not-met").join("out.csv");
        let path = out.to_str().expect("a plain path");
        let answer = ringfence_with_input(&["plan", "-", "--heap", heap, "--json", "--output", path], rows.as_bytes());
        assert_eq!((answer.code, answer.err.as_str()), (Some(2), ""), "{heap}");
        let json: Value = serde_json::from_str(&answer.out).expect("it is JSON");
        assert_eq!((&json["is_capacity_met"], &json["rows"]), (&false.into(), &2.into()), "{json}");
        assert!(json["why"].as_str().is_some_and(|text| text.contains(why)), "{json}");
        assert!(!out.exists());
        let answer = ringfence_with_input(&["plan", "-", "--heap", heap], rows.as_bytes());
        assert!(answer.code == Some(2) && answer.err.contains(why), "{}", answer.err);
    }
}

#[test]
fn without_heaps_of_a_size_there_are_as_many_as_the_rows_name() {
    let text = "id,lower,upper,size,heaps\na,0,9,10,0\nb,0,9,10,2\nc,0,9,10,\n";
    let rows = planned(&[], text);
    let heaps: Vec<&str> = rows[1..].iter().map(|row| row[6].as_str()).collect();
    assert_eq!(heaps, ["0", "2", "0"]);
    let unknown = ringfence_with_input(&["plan", "-"], text.replace(",2\n", ",q\n").as_bytes());
    assert!(unknown.err.contains("expected heaps to be numbers from 0 to 63 "), "{}", unknown.err);
    let answer = ringfence_with_input(&["plan", "-"], text.replace(",2\n", ",900\n").as_bytes());
    assert!(answer.code == Some(1) && answer.err.contains("standard input:3: expected heaps to be"), "{}", answer.err);
}

#[test]
fn the_heaps_of_an_earlier_plan_do_not_stay_where_there_is_one() {
    let text = "id,lower,upper,size,offset,heap\na,0,9,10,7,1\nb,0,9,10,0,3\n";
    for arguments in [&["--offsets", "replace", "--heap", "1KiB"][..], &["--offsets", "replace"]] {
        let rows = planned(arguments, text);
        assert_eq!(rows[0].join(","), "id,lower,upper,size,offset,heap");
        assert!(rows[1][5] == "0" && rows[2][5] == "0", "{rows:?}");
    }
}

#[test]
fn the_page_shows_the_heaps_one_upon_the_other() {
    let page = folder("plan-heaps").join("plan.html");
    let path = page.to_str().expect("a plain path");
    let arguments = ["plan", "-", "--heap", "1024", "--heap", "64KiB", "--report", path];
    let answer = ringfence_with_input(&arguments, FRAME.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let html = fs::read_to_string(&page).expect("it was written");
    assert!(html.contains("\"heaps\":[0,768]") && html.contains("heap 0, 512"), "offsets from each heap's beginning");
}
