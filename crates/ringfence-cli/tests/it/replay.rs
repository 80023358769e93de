//! `ringfence replay`, started as users start it.

use crate::command;

use command::{cases, ringfence, ringfence_with_input};

const SMALL: &str = "op,id,size,alignment\na,1,100,1\na,2,50,\nf,1,,\na,1,200,256\n";

#[test]
fn a_small_trace_gives_the_figures_that_one_can_count_by_hand() {
    let answer = ringfence_with_input(&["replay", "-", "--json"], SMALL.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((json["operations"].as_u64(), json["allocations"].as_u64()), (Some(4), Some(3)));
    assert_eq!((json["peak_live_bytes"].as_u64(), json["peak_live_count"].as_u64()), (Some(250), Some(2)));
    let allocators = json["allocators"].as_array().expect("a list");
    let names: Vec<_> = allocators.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["tlsf", "buddy", "free-list", "first-fit", "pools"]);
    for line in allocators {
        assert_eq!(line["failures"], 0, "{line}");
        // The 200 bytes are aligned to 256. They are at 256, above the live 50 bytes (456 bytes in total), or at 0, if
        // a strategy that rounds has placed the 50 bytes at 256 (306 bytes).
        let smallest = line["smallest_capacity_bytes"].as_u64().expect("it is found");
        assert!(smallest >= 306, "{line}");
        assert!(line["ns_per_operation"].as_f64().is_some_and(|ns| ns > 0.0), "{line}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_trace() {
    let figures = |text: &str| {
        let answer = ringfence_with_input(&["replay", "-", "--json", "--allocator", "tlsf"], text.as_bytes());
        assert!(answer.is_success(), "{}", answer.err);
        let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
        (json["operations"].as_u64(), json["peak_live_bytes"].as_u64())
    };
    assert_eq!(figures(&format!("\u{feff}{SMALL}")), figures(SMALL));
    // The first line of a VMA recording has the length of the prefix from which the format is detected.
    let vma = "Vulkan Memory Allocator,Calls recording\n1,8\nConfig,Begin\nConfig,End\n\
        12,0.2,1,vmaCreateBuffer,0,1024,3,0,0,1,0,0,0,00000A,00000B,\n";
    assert_eq!(figures(&format!("\u{feff}{vma}")), figures(vma));
}

#[test]
fn quoted_fields_are_read_as_by_plan() {
    let quoted = "\"op\",\"id\",\"size\",note\n\"a\",\"1\",\" 64 \",\"x, \"\"y\"\"\"\na,2,\"32\"\n\"f\",1\n";
    let answer = ringfence_with_input(&["replay", "-", "--json", "--allocator", "tlsf"], quoted.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!((json["operations"].as_u64(), json["peak_live_bytes"].as_u64()), (Some(3), Some(96)));
}

/// If the input is bad, standard error has one line. Assumptions about the trace are printed under the table instead.
#[test]
fn a_damaged_trace_is_named_in_one_line() {
    let path = command::folder("replay-damaged").join("run.rft");
    let path = path.to_str().expect("a plain path");
    let demo = ringfence(&["demo", "--device", "sim", "--frames", "3", "--trace", path]);
    assert!(demo.is_success(), "{}", demo.err);
    let mut bytes = std::fs::read(path).expect("it was written");
    bytes.truncate(bytes.len() - 5);
    std::fs::write(path, bytes).expect("it can be written");
    let answer = ringfence(&["replay", path]);
    assert_eq!((answer.code, answer.err.lines().count()), (Some(1), 1), "{}", answer.err);
    assert!(answer.out.contains("note  the ranges of all memory types are replayed in one heap"), "{}", answer.out);
}

#[test]
fn a_heap_that_is_too_small_gives_failures_and_not_an_error() {
    let arguments = ["replay", "-", "--json", "--allocator", "tlsf", "--capacity", "300"];
    let answer = ringfence_with_input(&arguments, SMALL.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!(json["allocators"][0]["failures"], 1);
    assert_eq!(json["capacity_bytes"], 300);
}

#[test]
fn bad_lines_are_named_with_their_number_and_what_was_expected() {
    let cases = [
        ("op,id,size\nx,1,2\n", "standard input:2: expected the operation a or f, found \"x\""),
        ("a,one,2\n", "standard input:1: expected an id from 0 to 2^64-1, found \"one\""),
        ("op,id,size\n\n\na,1,0\n", "standard input:4: expected a size in bytes above 0, found \"0\""),
        ("a,1,8,3\n", "standard input:1: expected an alignment that is a power of two, found \"3\""),
        ("a,1,8\na,1,8\n", "standard input:2: expected a new id, 1 is alive already"),
        ("f,7\n", "standard input:1: expected the id of a live allocation, 7 is not alive"),
        ("op,id,size,id\na,1,8,2\n", "standard input:1: expected each column once, found two with the name id"),
        ("a,1,8\na,\"2,8\na,3,8\n", "standard input:2: expected a quoted field to end on its line"),
        ("op,id\na,1\n", "standard input:1: expected the columns op,id,size,alignment"),
        ("a,1,99999999999999999999\n", "expected a size in bytes above 0, found \"99999999999999999999\""),
        ("a,1,1152921504606846976\na,2,1\n", "standard input:2: expected at most 1152921504606846976 live bytes"),
        ("", "standard input: expected at least one operation"),
    ];
    for (input, expected) in cases {
        let answer = ringfence_with_input(&["replay", "-"], input.as_bytes());
        assert_eq!(answer.code, Some(1), "{input:?}");
        assert!(answer.err.contains(expected), "{input:?}: {}", answer.err);
        assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
        assert!(answer.out.is_empty());
    }
    let answer = ringfence(&["replay", "no such file.csv"]);
    assert_eq!((answer.code, answer.err.contains("no such file.csv")), (Some(1), true), "{}", answer.err);
    let answer = ringfence(&["replay", "-", "--allocator", "malloc"]);
    assert!(answer.err.contains("expected tlsf, buddy, free-list, first-fit, pools or all"), "{}", answer.err);
}

#[test]
fn a_recording_by_vma_is_read() {
    let recording = "Vulkan Memory Allocator,Calls recording\n1,2\n\
        7,0.000,0,vmaCreateAllocator\n\
        7,0.010,0,vmaCreateImage,0,1,37,100,100,1,1,1,1,1,1,0,8,36,2,0,0,0,0000000000000000,000001D85B8B1A80,a, \"name\n\
        7,0.017,0,vmaCreateBuffer,0,768,1,0,4,2,0,0,0,0000000000000000,000001D85B8B19E0,\n\
        7,0.017,0,vmaCreateBuffer,0,768,1,0,4,2,0,0,0,0000000000000000,0000000000000000,\n\
        7,0.018,0,vmaAllocateMemory,4096,1024,7,0,0,0,0,0,0000000000000000,00000000000000AA,\n\
        7,0.019,0,vmaDestroyImage,000001D85B8B1A80\n\
        7,0.020,0,vmaDestroyBuffer,00000000DEADBEEF\n";
    let answer = ringfence_with_input(&["replay", "-", "--json", "--allocator", "tlsf"], recording.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    // The recording has an image of 100 × 100 texels of four bytes, a buffer, and memory without a resource. A call
    // that failed in the recording is not an allocation.
    assert_eq!(json["peak_live_bytes"].as_u64(), Some(40_000 + 768 + 4096));
    assert_eq!(json["operations"].as_u64(), Some(4));
    assert_eq!(json["notes"].as_array().map(Vec::len), Some(3), "{}", json["notes"]);
    let broken = recording.replace("vmaCreateBuffer,0,768", "vmaCreateBuffer,0,many");
    let answer = ringfence_with_input(&["replay", "-"], broken.as_bytes());
    assert!(answer.err.contains("standard input:5: expected a buffer's size above 0"), "{}", answer.err);
}

/// One call of VMA can allocate or free several allocations of one size.
#[test]
fn pages_of_a_recording_by_vma_are_read() {
    let recording = "Vulkan Memory Allocator,Calls recording\n1,8\nConfig,Begin\nConfig,End\n\
        12,0.2,1,vmaAllocateMemory,1024,256,3,0,1,0,0,0,0,00000A,\n\
        12,0.3,1,vmaAllocateMemoryPages,1048576,256,3,0,1,0,0,0,0,00000B 00000C 00000D,\n\
        12,0.4,2,vmaResizeAllocation,00000A,512\n\
        12,0.5,2,vmaFreeMemoryPages,00000B 000000 00000D 00000F\n\
        12,0.6,2,vmaAllocateMemoryPages,1048576,256,3,0,1,0,0,0,0,00000E,\n\
        12,0.7,2,vmaFreeMemoryPages,\n";
    let answer = ringfence_with_input(&["replay", "-", "--json", "--allocator", "tlsf"], recording.as_bytes());
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!(json["peak_live_bytes"].as_u64(), Some(1024 + (3 << 20)));
    assert_eq!((json["operations"].as_u64(), json["allocations"].as_u64()), (Some(7), Some(5)));
    let notes = json["notes"].to_string();
    assert!(notes.contains("1 frees of allocations that were not recorded"), "{notes}");
    assert!(notes.contains("1 calls of vmaResizeAllocation are ignored"), "{notes}");
    let broken = recording.replace("00000B 00000C", "00000B seven");
    let answer = ringfence_with_input(&["replay", "-"], broken.as_bytes());
    assert!(answer.err.contains("standard input:6: expected a hexadecimal pointer as value 14"), "{}", answer.err);
}

#[test]
fn real_traces_are_held_by_a_heap_of_little_more_than_their_peak() {
    let Some(folder) = cases() else { return };
    let trace = folder.join("traces/rmv_valloc.csv");
    let answer = ringfence(&["replay", trace.to_str().expect("a plain path"), "--json"]);
    assert!(answer.is_success(), "{}", answer.err);
    let json: serde_json::Value = serde_json::from_str(&answer.out).expect("it is JSON");
    assert_eq!(json["operations"], 957);
    let over = |name: &str| {
        let lines = json["allocators"].as_array().expect("a list");
        let line = lines.iter().find(|line| line["name"] == name).expect("it is there");
        line["smallest_capacity_over_peak"].as_f64().expect("a ratio")
    };
    assert!(over("tlsf") < 1.01 && over("free-list") < 1.01, "{} {}", over("tlsf"), over("free-list"));
    assert!(over("buddy") < 1.5 && over("pools") < 1.5, "{} {}", over("buddy"), over("pools"));
    let recording = folder.join("traces/vma_recording_example.csv");
    let answer = ringfence(&["replay", recording.to_str().expect("a plain path"), "--json"]);
    assert!(answer.is_success(), "{}", answer.err);
}
