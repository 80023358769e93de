//! `ringfence export`: converts a trace for Perfetto and other viewers of Chrome's trace events.
//!
//! ```text
//!   trace ──event──▶ State ──each reclaim──▶ counters: heaps, rings, waiting resources
//!              │
//!              └──▶ slices: a frame while it is recorded, then on the GPU; a block from its creation to its end
//! ```
//!
//! The output is the JSON form of Chrome's trace events.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;

use ringfence_trace::{Event, Reader, RingSnapshot, State, TraceError};
use serde_json::{Value, json};

use crate::args::ExportOptions;
use crate::failure::Failure;
use crate::input::{is_dash, name_of, open};
use crate::output;
use crate::units::bytes;

/// Writes the file. If the trace is damaged, writes the part before the damage, and returns an error.
pub fn main(options: &ExportOptions) -> Result<ExitCode, Failure> {
    let target = &options.perfetto;
    output::check_apart(&[&options.trace], &[("--perfetto", Some(target))])?;
    if !is_dash(target) {
        output::check(target)?;
    }
    let name = name_of(&options.trace);
    let file = open(&options.trace).map_err(|error| format!("cannot read {name}: {error}"))?;
    let (events, damage) = chrome_events(file).map_err(|error| format!("{name}: {error}"))?;
    output::write_or_print(target, &lines(&events)?)?;
    match damage {
        Some(damage) => Err(format!("{name}: {damage}").into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the events as a JSON array with one event a line.
fn lines(events: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut text = b"[".to_vec();
    for (index, event) in events.iter().enumerate() {
        text.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut text, event)?;
    }
    text.extend_from_slice(b"\n]\n");
    Ok(text)
}

/// Converts a trace. If the trace is damaged or cannot be read to its end, also returns the error that ended it.
///
/// # Errors
/// The header of the trace cannot be read, or has an unknown version.
fn chrome_events(from: impl Read) -> Result<(Vec<Value>, Option<TraceError>), TraceError> {
    let mut export = Export::default();
    for event in Reader::new(from)? {
        match event {
            Ok(event) => export.apply(&event),
            Err(error) => return Ok((export.finished(), Some(error))),
        }
    }
    Ok((export.finished(), None))
}

/// Number of the process that all events belong to. Perfetto shows the name of the process.
const PROCESS: u32 = 1;
/// Names of the tracks of slices.
const RECORDED: &str = "recorded";
const ON_GPU: &str = "on the GPU";
const BLOCK: &str = "block";

/// A conversion in progress.
#[derive(Default)]
struct Export {
    state: State,
    events: Vec<Value>,
    /// Names of the open slices, by track and id. A slice ends with the trace at the latest.
    open: BTreeMap<(&'static str, String), String>,
    /// For each timeline, the values that are submitted and not complete.
    pending: BTreeMap<u32, Vec<u64>>,
    rings: BTreeMap<u64, RingSnapshot>,
}

impl Export {
    fn apply(&mut self, event: &Event) {
        self.state.apply(event);
        match event {
            Event::Device { name } => {
                let args = json!({ "name": name });
                self.events.push(json!({ "name": "process_name", "ph": "M", "pid": PROCESS, "args": args }));
            }
            Event::FrameBegun { timeline, value } => {
                self.begin(RECORDED, frame(*timeline, *value), format!("frame {value} of timeline {timeline}"));
            }
            Event::Submitted { timeline, value } => {
                self.end(RECORDED, frame(*timeline, *value));
                self.begin(ON_GPU, frame(*timeline, *value), format!("frame {value} of timeline {timeline}"));
                self.pending.entry(*timeline).or_default().push(*value);
            }
            Event::Completed { timeline, value } => self.complete(*timeline, *value),
            Event::BlockMade { block, memory_type, dedicated, bytes: size, class } => {
                let kind = if *dedicated { "dedicated" } else { "block" };
                let name = format!("{kind} {block}: {} of {class}, type {memory_type}", bytes(*size));
                self.begin(BLOCK, format!("block {block}"), name);
            }
            Event::BlockFreed { block } => self.end(BLOCK, format!("block {block}")),
            Event::Ring { ring, .. } => self.note_waits(*ring),
            Event::Reclaimed { objects, blocks } => {
                self.count("freed by reclaim", json!({ "resources": objects, "blocks": blocks }));
                self.count_all();
            }
            _ => {}
        }
    }

    /// Ends the slices of frames with a value that the timeline has reached.
    fn complete(&mut self, timeline: u32, reached: u64) {
        let pending = self.pending.entry(timeline).or_default();
        let passed: Vec<u64> = pending.extract_if(.., |value| *value <= reached).collect();
        for value in passed {
            self.end(ON_GPU, frame(timeline, value));
        }
    }

    /// Marks the waits of a ring since its previous event.
    fn note_waits(&mut self, ring: u64) {
        let Some(now) = self.state.rings().get(&ring).cloned() else { return };
        let before = self.rings.insert(ring, now.clone()).unwrap_or_default();
        // A damaged trace may count backwards.
        let waits = now.wait_count.saturating_sub(before.wait_count);
        let wait_ns = now.wait_ns.saturating_sub(before.wait_ns);
        if waits > 0 {
            let args = json!({ "waits": waits, "microseconds": wait_ns as f64 / 1e3 });
            let name = format!("{} waited for the GPU", now.name);
            self.push(json!({ "name": name, "ph": "i", "s": "p", "args": args }));
        }
    }

    /// Adds the counters: the bytes of each heap and ring, and the numbers of resources.
    fn count_all(&mut self) {
        let mut heaps = vec![(0, 0); self.state.heaps().len()];
        for (memory_type, held) in (0..).zip(self.state.statistics()) {
            let heap = self.state.heap_of(memory_type).and_then(|heap| heaps.get_mut(heap as usize));
            if let Some((used, blocks)) = heap {
                *used = held.range_bytes.saturating_add(held.dedicated_bytes).saturating_add(*used);
                *blocks = held.block_bytes.saturating_add(held.dedicated_bytes).saturating_add(*blocks);
            }
        }
        for (heap, (used, blocks)) in heaps.into_iter().enumerate() {
            self.count(&format!("heap {heap}, bytes"), json!({ "in use": used, "unused": blocks - used.min(blocks) }));
        }
        let rings: Vec<_> = self.state.rings().values().map(|ring| (ring.name.clone(), ring.used_bytes)).collect();
        for (name, used) in rings {
            self.count(&format!("{name}, bytes"), json!({ "in use": used }));
        }
        let (live, retired) = (self.state.live_count(), self.state.retired_count());
        self.count("resources", json!({ "live": live - retired.min(live), "retired": retired }));
    }

    fn count(&mut self, name: &str, args: Value) {
        self.push(json!({ "name": name, "ph": "C", "args": args }));
    }

    fn begin(&mut self, track: &'static str, id: String, name: String) {
        self.push(json!({ "name": name, "cat": track, "ph": "b", "id": id }));
        self.open.insert((track, id), name);
    }

    fn end(&mut self, track: &'static str, id: String) {
        if let Some(name) = self.open.remove(&(track, id.clone())) {
            self.push(json!({ "name": name, "cat": track, "ph": "e", "id": id }));
        }
    }

    /// Adds an event at the current time of the trace.
    fn push(&mut self, mut event: Value) {
        event["pid"] = PROCESS.into();
        event["tid"] = PROCESS.into();
        event["ts"] = (self.state.elapsed_ns() as f64 / 1e3).into();
        self.events.push(event);
    }

    /// Ends the slices that are open, and returns all events.
    fn finished(mut self) -> Vec<Value> {
        let open: Vec<_> = self.open.keys().cloned().collect();
        for (track, id) in open {
            self.end(track, id);
        }
        self.events
    }
}

/// Returns the id of a frame's slices.
fn frame(timeline: u32, value: u64) -> String {
    format!("timeline {timeline}, {value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of a damaged trace may decrease, and exceed 64 bits in sum.
    #[test]
    fn counts_of_a_damaged_trace_do_not_overflow() {
        let mut export = Export::default();
        export.apply(&Event::RingMade { ring: 1, name: "ring".to_owned() });
        for (wait_count, marks) in [(5, 1), (2, 1), (3, 2)] {
            let figures = RingSnapshot { wait_count, wait_ns: wait_count, ..Default::default() };
            export.apply(&Event::Ring { ring: 1, figures });
            assert_eq!(export.events.iter().filter(|event| event["ph"] == "i").count(), marks, "{wait_count} waits");
        }
        export.apply(&Event::Heap { bytes: 1, device_local: true });
        export.apply(&Event::Type { heap: 0, properties: Vec::new() });
        for block in [1, 2] {
            let class = "all".to_owned();
            export.apply(&Event::BlockMade { block, memory_type: 0, dedicated: false, bytes: u64::MAX, class });
        }
        export.apply(&Event::Reclaimed { objects: 0, blocks: 0 });
        assert_eq!(export.finished().iter().filter(|event| event["ph"] == "e").count(), 2, "both blocks end");
    }
}
