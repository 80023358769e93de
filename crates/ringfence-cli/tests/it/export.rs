//! `ringfence export`, on the trace of a simulated demo.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

fn ringfence(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ringfence")).args(arguments).output().expect("the command starts")
}

fn recorded(name: &str, frames: &str) -> (std::path::PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("ringfence-export-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let trace = folder.join("run.rft").to_str().expect("the path is UTF-8").to_owned();
    let made = ringfence(&["demo", "--device", "sim", "--frames", frames, "--trace", &trace]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (folder, trace)
}

/// Slices begin once and end once, in this order; each frame is recorded before it is on the GPU; counters of the heap
/// agree with the statistics of `report`.
#[test]
fn frames_and_blocks_are_slices_and_heaps_are_counters() {
    let (folder, trace) = recorded("whole", "40");
    let output = ringfence(&["export", &trace, "--perfetto", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut open: BTreeMap<(String, String), f64> = BTreeMap::new();
    let (mut ended, mut time) = (BTreeSet::new(), 0.0);
    for event in &events {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let key = (text("cat"), text("id"));
        let at = event["ts"].as_f64().unwrap_or(time);
        assert!(at >= time, "the time never decreases: {event}");
        time = at;
        match event["ph"].as_str() {
            Some("b") => {
                assert!(key.0 != "on the GPU" || ended.contains(&("recorded".to_owned(), key.1.clone())), "{event}");
                assert!(open.insert(key.clone(), at).is_none() && !ended.contains(&key), "begun twice: {event}");
            }
            Some("e") => {
                assert!(open.remove(&key).is_some_and(|begun| begun <= at), "never begun: {event}");
                ended.insert(key);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let frames = ended.iter().filter(|(track, _)| track == "on the GPU").count();
    assert!(frames >= 40, "{frames}");
    let count = |name: &str, part: &str| -> Vec<u64> {
        let found = events.iter().filter(|event| event["ph"] == "C" && event["name"] == name);
        found.map(|event| event["args"][part].as_u64().expect("a number")).collect()
    };
    let used = count("heap 0, bytes", "in use");
    assert!(used.len() >= 40 && used.iter().max() > Some(&(1 << 20)), "{used:?}");
    assert!(count("resources", "live").iter().max() > Some(&10));
    std::fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn a_trace_that_is_cut_off_is_exported_up_to_the_damage() {
    let (folder, trace) = recorded("cut", "400");
    let bytes = std::fs::read(&trace).expect("the trace");
    std::fs::write(&trace, &bytes[..bytes.len() / 2]).expect("a shorter trace");
    let output = ringfence(&["export", &trace, "--perfetto", "-"]);
    let events: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(!output.status.success() && events.len() > 10, "{}", events.len());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cut off"), "{output:?}");
    let other = ringfence(&["export", "/nonexistent/run.rft", "--perfetto", "-"]);
    assert!(!other.status.success() && other.stdout.is_empty());
    let same = ringfence(&["export", &trace, "--perfetto", &trace]);
    assert!(!same.status.success(), "the trace is not overwritten");
    assert_eq!(std::fs::metadata(&trace).expect("still there").len() as usize, bytes.len() / 2);
    std::fs::remove_dir_all(folder).expect("the folder is there");
}
