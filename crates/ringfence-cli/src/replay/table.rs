//! Output of `replay`: a table for readers, or JSON.

use std::io::{self, Write};

use comfy_table::{Cell, Table};
use ringfence_report::bytes as whole_bytes;
use serde::Serialize;

use super::Replay;
use super::measure::{Outcome, Smallest};
use crate::table::{self, number};
use crate::units::{bytes, count};

/// The result as JSON.
#[derive(Serialize)]
struct Json<'a> {
    trace: &'a str,
    notes: &'a [String],
    operations: u64,
    allocations: u64,
    peak_live_count: usize,
    peak_live_bytes: u64,
    capacity_bytes: u64,
    allocators: Vec<Line>,
}

/// The figures of a strategy.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    about: String,
    ns_per_operation: f64,
    ns_p999: u64,
    peak_live_bytes: u64,
    high_water_bytes: u64,
    smallest_capacity_bytes: Option<u64>,
    smallest_capacity_over_peak: Option<f64>,
    is_smallest_searched: bool,
    failures: u64,
}

impl Line {
    fn of(outcome: &Outcome, peak: u64) -> Self {
        let smallest = match outcome.smallest {
            Smallest::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        Self {
            name: outcome.kind.name(),
            about: outcome.about.clone(),
            ns_per_operation: (outcome.ns_per_operation * 10.0).round() / 10.0,
            ns_p999: outcome.ns_999,
            peak_live_bytes: peak,
            high_water_bytes: outcome.high_water_bytes,
            smallest_capacity_bytes: smallest,
            smallest_capacity_over_peak: smallest.map(|bytes| bytes as f64 / peak as f64),
            is_smallest_searched: outcome.smallest != Smallest::NotSearched,
            failures: outcome.failure_count,
        }
    }
}

pub fn print(replay: &Replay, json: bool) -> io::Result<()> {
    let peak = replay.spool.peak_live_bytes();
    let lines: Vec<Line> = replay.outcomes.iter().map(|outcome| Line::of(outcome, peak)).collect();
    let mut out = io::stdout().lock();
    if json {
        let spool = &replay.spool;
        let answer = Json {
            trace: &replay.trace,
            notes: &replay.notes,
            operations: spool.operation_count(),
            allocations: spool.allocation_count(),
            peak_live_count: spool.peak_live_count(),
            peak_live_bytes: peak,
            capacity_bytes: replay.capacity,
            allocators: lines,
        };
        serde_json::to_writer_pretty(&mut out, &answer)?;
        return writeln!(out);
    }
    let spool = &replay.spool;
    let heading = format!(
        "{}: {} operations, {} allocations, at most {} alive with {}; a heap of {}",
        replay.trace,
        count(spool.operation_count()),
        count(spool.allocation_count()),
        count(spool.peak_live_count() as u64),
        bytes(peak),
        bytes(replay.capacity)
    );
    writeln!(out, "{}", table::wrapped(&heading, 2))?;
    writeln!(out, "{}", table::text(&table(&lines)))?;
    for line in &lines {
        writeln!(out, "{}", table::wrapped(&format!("{:>10}  {}", line.name, line.about), 12))?;
    }
    let mut note = |note: &String| writeln!(out, "{}", table::wrapped(&format!("      note  {note}"), 12));
    replay.notes.iter().try_for_each(&mut note)
}

fn table(lines: &[Line]) -> Table {
    let heading = ["allocator", "ns/op", "99.9\u{a0}% ns", "high water", "smallest capacity", "over peak", "failures"];
    let row = |line: &Line| {
        let none = if line.is_smallest_searched { "none found" } else { "not searched" };
        [
            Cell::new(line.name),
            number(format!("{:.1}", line.ns_per_operation)),
            number(count(line.ns_p999)),
            number(whole_bytes(line.high_water_bytes)),
            number(line.smallest_capacity_bytes.map_or(none.into(), whole_bytes)),
            number(line.smallest_capacity_over_peak.map_or("–".into(), |ratio| format!("{ratio:.3}"))),
            number(count(line.failures)),
        ]
    };
    table::bordered(heading, lines.iter().map(row))
}
