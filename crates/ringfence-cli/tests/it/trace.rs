//! The demo records a trace, and the other commands read it.

use crate::command;

use std::fs::{self, File};

use command::{folder, ringfence};
use ringfence::memory::{RingSnapshot, Snapshot};
use ringfence_trace::{Reader, State};

fn demo(folder: &std::path::Path, frames: &str) -> (String, String) {
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (trace, snapshot) = (path("demo.rft"), path("demo.json"));
    let answer = ringfence(&[
        "demo",
        "--device",
        "sim",
        "--frames",
        frames,
        "--seed",
        "3",
        "--trace",
        &trace,
        "--snapshot",
        &snapshot,
    ]);
    assert!(answer.is_success(), "{}", answer.err);
    (trace, snapshot)
}

#[test]
fn a_recorded_demo_is_replayed_to_the_same_end_state() {
    let (trace, snapshot) = demo(&folder("trace-end-state"), "150");
    let mut state = State::new();
    for event in Reader::new(File::open(&trace).expect("it is there")).expect("it is a trace") {
        state.apply(&event.expect("it is whole"));
    }
    let written: Snapshot = serde_json::from_slice(&fs::read(&snapshot).expect("it is there")).expect("a snapshot");
    let replayed = state.snapshot();
    assert_eq!(state.odd_count(), 0);
    assert!(written.retired_count > 0 || written.blocks.iter().map(|block| block.ranges.len()).sum::<usize>() > 50);
    let sorted = |snapshot: &Snapshot| {
        let mut blocks = snapshot.blocks.clone();
        blocks.sort_by_cached_key(|block| format!("{block:?}"));
        blocks
    };
    assert_eq!(sorted(&replayed), sorted(&written));
    let types = |snapshot: &Snapshot| {
        let mut types = snapshot.types.clone();
        // The allocator counts whole chunks of slots, a trace counts ranges.
        types.iter_mut().for_each(|held| held.statistics.range_bytes_high_water = 0);
        types
    };
    assert_eq!(types(&replayed), types(&written), "the statistics, the high-water mark of blocks too");
    assert_eq!(replayed.retired_count, written.retired_count);
    assert_eq!(replayed.device, written.device);
    assert!(!written.rings.is_empty());
    // The snapshot of the demo contains no times, so that it is equal in every run.
    let rings: Vec<_> = replayed.rings.iter().map(|ring| RingSnapshot { wait_ns: 0, ..ring.clone() }).collect();
    assert_eq!(rings, written.rings);
    let reserved = |snapshot: &Snapshot| snapshot.heaps.iter().map(|heap| heap.reserved_bytes).collect::<Vec<_>>();
    assert_eq!(reserved(&replayed), reserved(&written));
    let mut calls = written.calls;
    calls.wait = 0;
    // Objects in a transient heap are not counted as placed ranges in a trace; the heap is counted once.
    let aliased = calls.placed - replayed.calls.placed;
    assert!((1..100).contains(&aliased) && calls.create_object - replayed.calls.create_object <= aliased);
    (calls.placed, calls.create_object) = (replayed.calls.placed, replayed.calls.create_object);
    assert_eq!(replayed.calls, calls);
}

#[test]
fn replay_reads_a_trace_and_what_is_left_of_one() {
    let folder = folder("trace-replay");
    let (trace, _) = demo(&folder, "60");
    let replay = |path: &str| ringfence(&["replay", path, "--allocator", "tlsf", "--json"]);
    let whole = replay(&trace);
    assert!(whole.is_success(), "{}", whole.err);
    let operations = |out: &str| {
        let json: serde_json::Value = serde_json::from_str(out).expect("it is JSON");
        json["operations"].as_u64().expect("a number")
    };
    assert!(operations(&whole.out) > 500);

    let bytes = fs::read(&trace).expect("it is there");
    let damaged_path = folder.join("damaged.rft").to_str().expect("a plain path").to_owned();
    fs::write(&damaged_path, &bytes[..bytes.len() - 9]).expect("it can be written");
    let cut = replay(&damaged_path);
    assert_eq!((cut.code, cut.err.lines().count()), (Some(1), 1), "{}", cut.err);
    assert!(cut.err.contains("damaged.rft: the trace is cut off at byte"), "{}", cut.err);
    assert_eq!(operations(&cut.out), operations(&whole.out), "only the end is missing");

    let mut broken = bytes.clone();
    broken[40] ^= 1;
    fs::write(&damaged_path, &broken).expect("it can be written");
    let broken = replay(&damaged_path);
    assert_eq!(broken.code, Some(1));
    assert!(broken.err.contains("the trace is damaged in the chunk at byte 12: its checksum"), "{}", broken.err);

    let mut other = bytes;
    other[8] = 9;
    fs::write(&damaged_path, &other).expect("it can be written");
    assert!(replay(&damaged_path).err.contains("has version 9; this library reads versions 1 to 3"));
}

#[test]
fn report_shows_a_trace_over_time_and_what_is_left_of_one() {
    let folder = folder("trace-report");
    let (trace, snapshot) = demo(&folder, "100");
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (page, svg) = (path("page.html"), path("figures"));
    let answer = ringfence(&["report", &trace, "-o", &page, "--svg", &svg, "--compare", &snapshot, "--json"]);
    assert!(answer.is_success(), "{}", answer.err);
    let html = fs::read_to_string(&page).expect("the page is there");
    for drawing in ["drawing-heap-0", "drawing-fragmentation", "drawing-lifetimes", "drawing-ranges"] {
        assert!(html.contains(drawing), "{drawing}");
    }
    assert!(html.contains("No name has more or fewer bytes."), "the trace ends where the snapshot was made");
    let written: Snapshot = serde_json::from_slice(&fs::read(&snapshot).expect("it is there")).expect("a snapshot");
    let figures: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    let ranges: usize = written.blocks.iter().map(|block| block.ranges.len()).sum();
    assert_eq!(figures["allocation_count"].as_u64(), Some(ranges as u64));
    let left = written.retired_count;
    assert!(html.contains(&format!("data-figure=\"left_count\" data-value=\"{}\"", ranges as u64 - left)), "{left}");
    for name in ["memory-map", "heap-0", "fragmentation", "lifetimes", "ranges"] {
        let drawing = fs::read_to_string(folder.join("figures").join(name).with_extension("svg")).expect(name);
        assert!(drawing.starts_with("<?xml") && drawing.trim_end().ends_with("</svg>"), "{name}");
    }

    let bytes = fs::read(&trace).expect("it is there");
    let cut = path("cut.rft");
    fs::write(&cut, &bytes[..bytes.len() - 9]).expect("it can be written");
    let answer = ringfence(&["report", &cut, "-o", &page]);
    assert_eq!((answer.code, answer.err.lines().count()), (Some(1), 1), "{}", answer.err);
    assert!(answer.err.contains("cut.rft: the trace is cut off at byte"), "{}", answer.err);
    assert!(
        fs::read_to_string(&page)
            .expect("what could be read is shown")
            .contains("The trace is damaged, and the page shows the part that could be read")
    );
}

/// The page of a recorded demo shows the trace and the frames, with the same block numbers in both.
#[test]
fn a_demo_that_is_recorded_shows_its_trace_on_its_page() {
    let folder = folder("trace-and-report");
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (trace, page, other) = (path("demo.rft"), path("demo.html"), path("trace.html"));
    let run = ["demo", "--device", "sim", "--frames", "60", "--trace", &trace, "--report", &page];
    let answer = ringfence(&run);
    assert!(answer.is_success(), "{}", answer.err);
    let html = fs::read_to_string(&page).expect("the page is there");
    for part in ["drawing-heap-0", "drawing-lifetimes", "chart-ring", "60\u{a0}frames", "href=\"#history\""] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("record a trace"));
    assert!(ringfence(&["report", &trace, "-o", &other]).is_success());
    let of_trace = fs::read_to_string(&other).expect("the page is there");
    let blocks = |html: &str| {
        let table = html.split_once("<caption>Blocks as a table</caption>").expect("there are blocks").1;
        table.split_once("</table>").expect("it ends").0.to_owned()
    };
    assert_eq!(blocks(&html), blocks(&of_trace), "by number, in the same order");
    assert_eq!(html.matches(">frame 1<").count(), html.matches(">frame ").count(), "frames have one number each");
    // The chart and the table have the same high-water mark.
    let ring = html.split_once("id=\"chart-ring\"").expect("there is a chart").1.split_once("</ul>").expect("a key").0;
    let rings = html.split_once("Upload rings when the snapshot was taken</caption>").expect("a table").1;
    let row = rings.split_once("<th scope=\"row\">staging</th>").expect("its ring").1;
    let mark = row.split("<td class=\"number\">").nth(3).and_then(|cell| cell.split('<').next()).expect("high-water");
    assert!(ring.contains(&format!("high-water {mark}<")), "{mark} is not in {ring}");
    let titles: Vec<_> =
        html.split("<text class=\"title\"").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let distinct: std::collections::HashSet<_> = titles.iter().collect();
    assert_eq!(distinct.len(), titles.len(), "no two drawings have one title: {titles:?}");
}

/// If the trace is written to a device, which cannot be read again, the page is written without it.
#[cfg(unix)]
#[test]
fn a_demo_whose_trace_goes_to_a_device_has_a_page_without_it() {
    let page = folder("trace-to-null").join("demo.html");
    let page = page.to_str().expect("a plain path");
    let answer = ringfence(&["demo", "--device", "sim", "--frames", "3", "--trace", "/dev/null", "--report", page]);
    assert!(answer.is_success(), "{}", answer.err);
    assert!(!fs::read_to_string(page).expect("the page is there").contains("id=\"history\""));
}

/// If a damaged file lacks resources, the comparison must not look as if the program had freed them.
#[test]
fn report_says_of_both_files_that_it_compares_what_is_damaged() {
    let folder = folder("trace-compared");
    let (trace, snapshot) = demo(&folder, "20");
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let (page, cut_trace, cut_snapshot) = (path("page.html"), path("cut.rft"), path("cut.json"));
    for (whole, cut) in [(&trace, &cut_trace), (&snapshot, &cut_snapshot)] {
        let bytes = fs::read(whole).expect("it is there");
        fs::write(cut, &bytes[..bytes.len() - 9]).expect("it can be written");
    }
    let compare = |one: &str, other: &str| {
        let answer = ringfence(&["report", one, "--compare", other, "-o", &page]);
        assert_eq!((answer.code, answer.err.lines().count()), (Some(1), 1), "{}", answer.err);
        let html = fs::read_to_string(&page).expect("what could be read is shown");
        (
            answer.err,
            html.contains("The file to compare with is damaged, and the page shows the part that could be read"),
        )
    };
    for cut in [&cut_trace, &cut_snapshot] {
        let (said, is_shown) = compare(&snapshot, cut);
        assert!(said.contains("cut.") && is_shown, "{said}");
    }
    let (said, is_shown) = compare(&cut_trace, &cut_snapshot);
    assert!(said.contains("cut.rft: ") && said.contains("; ") && said.contains("cut.json: ") && is_shown, "{said}");
    let (said, is_shown) = compare(&cut_trace, &snapshot);
    assert!(said.contains("cut.rft: ") && !is_shown, "{said}");
}
