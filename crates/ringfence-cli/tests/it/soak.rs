//! The soak test: runs the demo for `RINGFENCE_SOAK_FRAMES` frames, or few if the variable is not set. After a warm-up,
//! host memory does not grow, fragmentation does not increase, and every byte is right.

use crate::command;

use std::time::Duration;

use command::command;
use serde_json::Value;

const FRAMES: u64 = 1200;
/// Minimum number of samples of resident memory for a comparison.
const LOOKS: usize = 12;

/// Returns the resident memory of a process in KiB; `None` if unknown, or if the process has ended.
fn resident_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Figures of the last frame of a run: bytes of blocks, free bytes in them, and samples of resident memory.
struct End {
    reserved: u64,
    free: u64,
    resident: Vec<u64>,
}

fn run(frames: u64) -> End {
    let snapshot = std::env::temp_dir().join(format!("ringfence-soak-{}-{frames}.json", std::process::id()));
    let path = snapshot.to_str().expect("text");
    let frames = frames.to_string();
    let mut child = command()
        .args(["demo", "--device", "sim:h200", "--seed", "3", "--frames", &frames, "--snapshot", path])
        .spawn()
        .expect("the command starts");
    let mut resident = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            break status;
        }
        resident.extend(resident_kib(child.id()));
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "every byte is right, nothing is left, no hazard");
    let read: Value = serde_json::from_slice(&std::fs::read(&snapshot).expect("it was written")).expect("JSON");
    std::fs::remove_file(&snapshot).expect("it was written");
    let blocks =
        read["blocks"].as_array().or_else(|| read["snapshot"]["blocks"].as_array()).expect("a snapshot").clone();
    let bytes = |value: &Value| value["bytes"].as_u64().expect("bytes");
    let reserved = blocks.iter().map(bytes).sum();
    let used: u64 = blocks.iter().flat_map(|block| block["ranges"].as_array().expect("ranges")).map(bytes).sum();
    End { reserved, free: reserved - used, resident }
}

#[test]
fn a_long_run_takes_no_more_host_memory_and_fragments_no_more_than_a_short_one() {
    let frames = std::env::var("RINGFENCE_SOAK_FRAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(FRAMES);
    let (quarter, mut whole) = (run(frames / 4), run(frames));
    // Resident memory is sampled at intervals. If a run ends soon, it has too few samples, and a longer one is run.
    let mut more = frames;
    while cfg!(target_os = "linux") && whole.resident.len() < LOOKS && more < 64 * frames {
        more *= 2;
        whole = run(more);
    }
    let third = whole.resident.len() / 3;
    let peak = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    let (middle, last) = (peak(&whole.resident[third..2 * third]), peak(&whole.resident[2 * third..]));
    println!(
        "{frames} frames: {middle} KiB resident in the middle third, {last} KiB in the last; blocks of {} bytes ({} \
         free) after a quarter of them, {} ({} free) at the end",
        quarter.reserved, quarter.free, whole.reserved, whole.free
    );
    assert!(last <= middle + middle / 10 + 2048, "host memory grows: {middle} KiB, then {last} KiB");
    assert!(whole.reserved <= quarter.reserved * 3 / 2 + (16 << 20), "blocks pile up");
}
