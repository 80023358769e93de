//! What `replay` says at its end: a table for people, or JSON.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::Replay;
use super::measure::{Outcome, Smallest};
use crate::units::bytes;

/// The answer as data.
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

/// A strategy's line.
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
    writeln!(
        out,
        "{}: {} operations, {} allocations, at most {} alive; a heap of {}",
        replay.trace,
        replay.spool.operation_count(),
        replay.spool.allocation_count(),
        replay.spool.peak_live_count(),
        bytes(replay.capacity)
    )?;
    writeln!(out, "{}", table(&lines))?;
    for line in &lines {
        writeln!(out, "{:>10}  {}", line.name, line.about)?;
    }
    replay.notes.iter().try_for_each(|note| writeln!(out, "      note  {note}"))
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "allocator",
        "ns/op",
        "99.9 % ns",
        "peak live",
        "high water",
        "smallest capacity",
        "over peak",
        "failures",
    ]);
    for line in lines {
        let none = if line.is_smallest_searched { "none found" } else { "not searched" };
        let numbers = [
            format!("{:.1}", line.ns_per_operation),
            line.ns_p999.to_string(),
            bytes(line.peak_live_bytes),
            bytes(line.high_water_bytes),
            line.smallest_capacity_bytes.map_or(none.into(), bytes),
            line.smallest_capacity_over_peak.map_or("–".into(), |ratio| format!("{ratio:.3}")),
            line.failures.to_string(),
        ];
        let mut row = vec![Cell::new(line.name)];
        row.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    table
}
