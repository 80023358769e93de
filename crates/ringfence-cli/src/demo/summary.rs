//! Output of the demo: a table for readers, or JSON.
//!
//! On the simulated device, equal options give the same standard output. Times are written to standard error.

use std::io::{self, Write};

use comfy_table::{Cell, Table};
use ringfence::memory::{RingSnapshot, TypeStatistics};
use ringfence::upload::{BatchFigures, ConstantFigures};
use ringfence_report::bytes as whole_bytes;
use serde::Serialize;

use super::outcome::Outcome;
use super::staging::{STAGING, THREADS};
use crate::args::DemoOptions;
use crate::table::{self, number};
use crate::units::{bytes, count};

/// A row of the table.
pub struct Fact {
    /// Subject of the row. Rows with the same subject are consecutive.
    subject: &'static str,
    label: &'static str,
    value: String,
}

impl Fact {
    /// Returns the row as label and value, with the subject as part of the label.
    pub fn labelled(self) -> (String, String) {
        (format!("{}: {}", self.subject, self.label), self.value)
    }
}

/// The end of the period in which driver calls are counted. The snapshot of the last frame has smaller counts.
const CALLS_UNTIL: &str = "until all objects were destroyed";

/// Returns all rows of the table.
pub fn facts(outcome: &Outcome) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut subject = |subject, lines: Vec<(&'static str, String)>| {
        facts.extend(lines.into_iter().map(|(label, value)| Fact { subject, label, value }));
    };
    subject("run", run(outcome));
    subject("every byte", every_byte(outcome));
    subject("uploads", uploads(outcome));
    subject("constants", constants(outcome));
    subject("targets", targets(outcome));
    facts
}

fn run(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let calls = outcome.statistics.calls;
    vec![
        ("device", outcome.device.clone()),
        ("frames", format!("{} of seed {}", count(outcome.frames), outcome.seed)),
        ("things made", count(outcome.things)),
        ("driver calls", format!("{} made, {} saved, {CALLS_UNTIL}", count(calls.made()), count(calls.saved()))),
    ]
}

fn every_byte(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let found = &outcome.findings;
    let mut lines = vec![
        ("read back and compared", bytes(found.checked_bytes)),
        ("wrong", count(found.wrong_bytes)),
        ("hazards or messages", count(outcome.messages.len() as u64)),
        ("left behind", count(outcome.left)),
        ("pictures", format!("{}, {}", count(found.pictures), drawn(outcome))),
        ("digest", format!("{:016x}", found.digest)),
    ];
    lines.extend(found.first_wrong.iter().map(|what| ("first wrong", what.clone())));
    lines
}

fn uploads(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let (ring, batches) = (ring(outcome, STAGING), outcome.batches);
    let BatchFigures { copy_count, region_count, call_count, hidden_bytes, .. } = batches;
    let joined = copy_count.saturating_sub(region_count);
    vec![
        ("staged", format!("{} by {THREADS} threads", bytes(ring.written_bytes))),
        ("ring", format!("{} of {} at most", bytes(ring.high_water_bytes), bytes(ring.capacity_bytes))),
        ("waits", waits(outcome, &ring)),
        (
            "copies",
            format!("{} requested, {} regions in {} calls", count(copy_count), count(region_count), count(call_count)),
        ),
        ("copies avoided", format!("{} joined with others, {} overwritten later", count(joined), bytes(hidden_bytes))),
        ("barriers grouped", format!("{} instead of {}", count(batches.barrier_count()), count(2 * copy_count))),
    ]
}

fn constants(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let of = outcome.constants;
    let ConstantFigures { bind_count, copy_count, unchanged_count, shared_count, static_count, .. } = of;
    let spared = format!("{} unchanged, {} equal to another", count(unchanged_count), count(shared_count));
    vec![
        ("dynamic", format!("{} bound, {} copied", count(bind_count), count(copy_count))),
        ("copies avoided", spared),
        ("read often", format!("{} copied to device memory", count(of.promoted_count))),
        ("static", format!("{} staged", count(static_count))),
        ("of one draw", count(outcome.fast_count)),
    ]
}

fn targets(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let totals = outcome.targets;
    let figures = totals.most;
    let saved = 100.0 * figures.saved_bytes() as f64 / figures.requested_bytes.max(1) as f64;
    let heaps = if figures.group_count == 1 { "heap" } else { "heaps, by class" };
    vec![
        ("each by itself", bytes(figures.requested_bytes)),
        ("in shared memory", format!("{} in {} {heaps}", bytes(figures.peak_bytes), figures.group_count)),
        ("lower bound", bytes(figures.lower_bound_bytes)),
        ("memory saved", format!("{} ({saved:.0} %)", bytes(figures.saved_bytes()))),
        ("plans", format!("{} made, {} reused", count(totals.planned), count(totals.frames - totals.planned))),
        ("objects", format!("{} made, {} reused", count(totals.misses), count(totals.hits))),
        ("aliasing barriers", format!("{:.1} a frame", totals.aliasing_barriers as f64 / totals.frames.max(1) as f64)),
    ]
}

/// Returns the ring with a name. If there is no such ring, returns an empty one.
fn ring(outcome: &Outcome, name: &str) -> RingSnapshot {
    outcome.snapshot.rings.iter().find(|ring| ring.name == name).cloned().unwrap_or_default()
}

fn drawn(outcome: &Outcome) -> &'static str {
    match (outcome.drawn_by_device, outcome.simulated) {
        (true, true) => "drawn by the simulated device",
        (true, false) => "drawn by a compute shader",
        (false, _) => "drawn by the host, copied by the device",
    }
}

/// Returns the number and the total time of the waits as text. On the simulated device, work takes no real time, so
/// there is only the number.
fn waits(outcome: &Outcome, ring: &RingSnapshot) -> String {
    if outcome.simulated {
        return count(ring.wait_count);
    }
    format!("{}, {:.1} ms in total", count(ring.wait_count), ring.wait_ns as f64 / 1e6)
}

/// Prints the outcome to standard output, and the elapsed time and the first messages to standard error.
pub fn print(outcome: &Outcome, options: &DemoOptions) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &Json::of(outcome))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}\n{}", table::text(&type_table(outcome)), table::text(&fact_table(outcome)))?;
    }
    for message in outcome.messages.iter().take(20) {
        eprintln!("ringfence: {message}");
    }
    eprintln!("{:.2} s", outcome.elapsed.as_secs_f64());
    Ok(())
}

/// Returns a table with the columns subject, label and value. A subject is printed only in its first row.
fn fact_table(outcome: &Outcome) -> Table {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut last = "";
    for Fact { subject, label, value } in facts(outcome) {
        if subject != last && !last.is_empty() {
            rows.push(Default::default());
        }
        let shown = if subject == last { "" } else { subject };
        last = subject;
        rows.push([shown.to_owned(), label.to_owned(), value]);
    }
    table::plain(rows)
}

/// Returns the table of memory types in the last frame: blocks, ranges and dedicated memory, with high-water marks.
fn type_table(outcome: &Outcome) -> Table {
    let heading = ["type", "properties", "blocks", "block bytes (max)", "ranges", "range bytes (max)", "dedicated"];
    let types = outcome.snapshot.types.iter().enumerate();
    let is_used = |held: &TypeStatistics| held.block_bytes_high_water + held.dedicated_bytes > 0;
    let rows = types.filter(|(_, held)| is_used(&held.statistics)).map(|(index, held)| {
        let figures = held.statistics;
        let most = |now, most| number(format!("{} ({})", whole_bytes(now), whole_bytes(most)));
        [
            Cell::new(index),
            Cell::new(held.properties.join(" ").to_lowercase()),
            number(count(figures.block_count)),
            most(figures.block_bytes, figures.block_bytes_high_water),
            number(count(figures.range_count)),
            most(figures.range_bytes, figures.range_bytes_high_water),
            number(format!("{} ({})", count(figures.dedicated_count), whole_bytes(figures.dedicated_bytes))),
        ]
    });
    table::bordered(heading, rows)
}

/// The outcome as JSON.
#[derive(Serialize)]
struct Json<'a> {
    device: &'a str,
    seed: u64,
    frames: u64,
    things: u64,
    pictures: u64,
    drawn_by_device: bool,
    checked_bytes: u64,
    wrong_bytes: u64,
    first_wrong: Option<&'a str>,
    hazards: &'a [String],
    left: u64,
    digest: String,
    calls_made: u64,
    calls_saved: u64,
    calls_counted: &'static str,
    copies_asked: u64,
    copy_regions: u64,
    copy_calls: u64,
    copies_avoided: u64,
    hidden_bytes: u64,
    barriers: u64,
    barriers_spared: u64,
    constants_bound: u64,
    constants_copied: u64,
    constants_unchanged: u64,
    constants_shared: u64,
    constants_promoted: u64,
    statics_staged: u64,
    fast_constants: u64,
    targets_apart_bytes: u64,
    targets_shared_bytes: u64,
    targets_lower_bound_bytes: u64,
    targets_saved_bytes: u64,
    plans_made: u64,
    plans_reused: u64,
    aliasing_barriers: u64,
    types: &'a [ringfence::memory::TypeSnapshot],
    rings: &'a [ringfence::memory::RingSnapshot],
}

impl<'a> Json<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let Outcome { findings, batches, constants, targets, .. } = outcome;
        let figures = targets.most;
        Self {
            device: &outcome.device,
            seed: outcome.seed,
            frames: outcome.frames,
            things: outcome.things,
            pictures: findings.pictures,
            drawn_by_device: outcome.drawn_by_device,
            checked_bytes: findings.checked_bytes,
            wrong_bytes: findings.wrong_bytes,
            first_wrong: findings.first_wrong.as_deref(),
            hazards: &outcome.messages,
            left: outcome.left,
            digest: format!("{:016x}", findings.digest),
            calls_made: outcome.statistics.calls.made(),
            calls_saved: outcome.statistics.calls.saved(),
            calls_counted: CALLS_UNTIL,
            copies_asked: batches.copy_count,
            copy_regions: batches.region_count,
            copy_calls: batches.call_count,
            copies_avoided: batches.copy_count.saturating_sub(batches.region_count),
            hidden_bytes: batches.hidden_bytes,
            barriers: batches.barrier_count(),
            barriers_spared: batches.barriers_spared(),
            constants_bound: constants.bind_count,
            constants_copied: constants.copy_count,
            constants_unchanged: constants.unchanged_count,
            constants_shared: constants.shared_count,
            constants_promoted: constants.promoted_count,
            statics_staged: constants.static_count,
            fast_constants: outcome.fast_count,
            targets_apart_bytes: figures.requested_bytes,
            targets_shared_bytes: figures.peak_bytes,
            targets_lower_bound_bytes: figures.lower_bound_bytes,
            targets_saved_bytes: figures.saved_bytes(),
            plans_made: targets.planned,
            plans_reused: targets.frames - targets.planned,
            aliasing_barriers: targets.aliasing_barriers,
            types: &outcome.snapshot.types,
            rings: &outcome.snapshot.rings,
        }
    }
}
