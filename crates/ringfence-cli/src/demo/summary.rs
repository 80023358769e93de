//! What the demo says at its end: a table for people, or JSON.
//!
//! On the simulated device the output depends on the seed and the frames alone; times go to standard error.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::stream::Outcome;
use crate::args::DemoOptions;
use crate::units::bytes;

/// The lines of the table: label and value.
pub fn facts(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let ring = outcome.snapshot.rings.first().cloned().unwrap_or_default();
    let calls = outcome.statistics.calls;
    let mut facts = vec![
        ("device", outcome.device.clone()),
        ("seed", outcome.seed.to_string()),
        ("frames", outcome.frames.to_string()),
        ("things made", outcome.things.to_string()),
        ("pictures compared", format!("{} ({})", outcome.pictures, drawn(outcome))),
        ("bytes checked", bytes(outcome.checked_bytes)),
        ("bytes wrong", outcome.wrong_bytes.to_string()),
        ("hazards", outcome.messages.len().to_string()),
        ("left behind", outcome.left.to_string()),
        ("ring high water", format!("{} of {}", bytes(ring.high_water_bytes), bytes(ring.capacity_bytes))),
        ("ring waits", waits(outcome, ring.wait_count, ring.wait_ns)),
        ("staged through the ring", bytes(ring.written_bytes)),
        ("driver calls made", calls.made().to_string()),
        ("driver calls saved", calls.saved().to_string()),
        ("digest", format!("{:016x}", outcome.digest)),
    ];
    facts.extend(outcome.first_wrong.iter().map(|what| ("first wrong byte", what.clone())));
    facts
}

fn drawn(outcome: &Outcome) -> &'static str {
    match (outcome.drawn_by_device, outcome.simulated) {
        (true, true) => "drawn by the simulated device",
        (true, false) => "drawn by a compute shader",
        (false, _) => "drawn by the host, copied by the device",
    }
}

fn waits(outcome: &Outcome, count: u64, ns: u64) -> String {
    if outcome.simulated { count.to_string() } else { format!("{count} ({:.1} ms)", ns as f64 / 1e6) }
}

/// Prints the outcome to standard output, and the time and the first messages to standard error.
pub fn print(outcome: &Outcome, options: &DemoOptions) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &Json::of(outcome))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}\n{}", type_table(outcome), fact_table(outcome))?;
    }
    for message in outcome.messages.iter().take(20) {
        eprintln!("ringfence: {message}");
    }
    eprintln!("{:.2} s", outcome.elapsed.as_secs_f64());
    Ok(())
}

fn fact_table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (label, value) in facts(outcome) {
        table.add_row([label, &value]);
    }
    table
}

/// Blocks and bytes by memory type, as they were in the last frame.
fn type_table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "type",
        "properties",
        "blocks",
        "block bytes",
        "high water",
        "ranges",
        "range bytes",
        "high water",
        "dedicated",
    ]);
    for (index, held) in outcome.snapshot.types.iter().enumerate() {
        let figures = held.statistics;
        if figures.block_bytes_high_water + figures.dedicated_bytes == 0 {
            continue;
        }
        let mut row = vec![Cell::new(index), Cell::new(held.properties.join(" ").to_lowercase())];
        let numbers = [
            figures.block_count.to_string(),
            bytes(figures.block_bytes),
            bytes(figures.block_bytes_high_water),
            figures.range_count.to_string(),
            bytes(figures.range_bytes),
            bytes(figures.range_bytes_high_water),
            format!("{} ({})", figures.dedicated_count, bytes(figures.dedicated_bytes)),
        ];
        row.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    table
}

/// The same as data.
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
    types: &'a [ringfence::memory::TypeSnapshot],
    rings: &'a [ringfence::memory::RingSnapshot],
}

impl<'a> Json<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        Self {
            device: &outcome.device,
            seed: outcome.seed,
            frames: outcome.frames,
            things: outcome.things,
            pictures: outcome.pictures,
            drawn_by_device: outcome.drawn_by_device,
            checked_bytes: outcome.checked_bytes,
            wrong_bytes: outcome.wrong_bytes,
            first_wrong: outcome.first_wrong.as_deref(),
            hazards: &outcome.messages,
            left: outcome.left,
            digest: format!("{:016x}", outcome.digest),
            calls_made: outcome.statistics.calls.made(),
            calls_saved: outcome.statistics.calls.saved(),
            types: &outcome.snapshot.types,
            rings: &outcome.snapshot.rings,
        }
    }
}
