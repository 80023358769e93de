//! Tests of all numbers in the page's tables and figures: they are read from the browser's document and compared with
//! direct sums over the snapshot, the frames and the trace.
//!
//! The texts on the page are rounded to three digits. So a test rounds the exact number to the last digit of the text.

use std::collections::HashMap;

use ringfence_report::Report;
use ringfence_trace::{BlockSnapshot, Snapshot};

use super::{made_up, open};

/// The expected value of a cell.
enum Cell {
    Text(String),
    /// Bytes, nanoseconds or a count.
    Number(u64),
    Percent(f64),
    /// A change from one number to another.
    Change(u64, u64),
}

use Cell::{Change, Number, Percent, Text};

type Rows = Vec<Vec<Cell>>;

#[test]
fn every_number_of_every_table_is_the_snapshots() {
    let mut report = made_up::report(40, 3000, 90);
    report.history = Some(made_up::history(60, 2000));
    report.compared = Some(made_up::compared());
    let Some(page) = open("tables", &report, "") else { return };
    let snapshot = &report.snapshot;
    let tables = [
        ("Heaps as a table", heaps(snapshot)),
        ("Calls as a table", calls(snapshot)),
        ("Upload rings when the snapshot was taken", rings(snapshot)),
        ("Descriptors as a table", descriptors(snapshot)),
        ("Blocks as a table", blocks(snapshot)),
        ("Memory by name prefix: the part of the name before a / : . # or a digit", consumers(snapshot)),
        ("Frames as a table", frames(&report)),
        ("The trace as a table", moments(&report)),
        ("Figures compared", compared(&report)),
    ];
    for (caption, expected) in tables {
        compare(caption, &rows(&page.dom, caption), &expected);
    }
}

#[test]
fn every_figure_at_the_head_is_the_snapshots() {
    let report = made_up::report(40, 3000, 90);
    let Some(page) = open("head", &report, "") else { return };
    let Snapshot { blocks, retired_count, calls, .. } = &report.snapshot;
    let (reserved, used) = (sum(blocks, |block| block.bytes), sum(blocks, used_bytes));
    let made = calls.allocate_memory + calls.free_memory + calls.create_object + calls.destroy_object;
    let saved = calls.placed + calls.recycled + 2 * calls.staged - calls.allocate_memory;
    let expected = [
        ("reserved_bytes", reserved.to_string()),
        ("used_bytes", used.to_string()),
        ("free_bytes", (reserved - used).to_string()),
        ("waste_percent", format!("{:.3}", (reserved - used) as f64 * 100.0 / reserved as f64)),
        ("block_count", blocks.len().to_string()),
        ("allocation_count", sum(blocks, range_count).to_string()),
        ("retired_count", retired_count.to_string()),
        ("calls_saved", saved.to_string()),
        ("calls_made", made.to_string()),
        ("calls_without", (made + saved).to_string()),
    ];
    for (name, value) in expected {
        assert_eq!(page.value(&format!("data-figure=\"{name}\"")), value, "{name}");
    }
}

fn heaps(snapshot: &Snapshot) -> Rows {
    let or_unknown = |value: Option<u64>| value.map_or(Text("unknown".into()), Number);
    let row = |(index, heap): (usize, &ringfence::memory::HeapSnapshot)| {
        let in_heap = |block: &&BlockSnapshot| snapshot.types[block.memory_type as usize].heap as usize == index;
        vec![
            Number(index as u64),
            Text(if heap.device_local { "on the device" } else { "on the host" }.into()),
            Number(heap.bytes),
            Number(heap.reserved_bytes),
            Number(snapshot.blocks.iter().filter(in_heap).map(used_bytes).sum()),
            or_unknown(heap.usage_bytes),
            or_unknown(heap.budget_bytes),
        ]
    };
    snapshot.heaps.iter().enumerate().map(row).collect()
}

fn calls(snapshot: &Snapshot) -> Rows {
    let calls = &snapshot.calls;
    let rows = [
        ("Memory objects allocated", calls.allocate_memory),
        ("Memory objects freed", calls.free_memory),
        ("Buffers and textures created", calls.create_object),
        ("Buffers and textures destroyed", calls.destroy_object),
        ("Waits for the device", calls.wait),
        ("Resources placed in a block", calls.placed),
        ("Writes to an upload ring", calls.staged),
    ];
    rows.into_iter().map(|(name, value)| vec![Text(name.into()), Number(value)]).collect()
}

fn rings(snapshot: &Snapshot) -> Rows {
    let row = |ring: &ringfence_trace::RingSnapshot| {
        vec![
            Text(ring.name.clone()),
            Number(ring.capacity_bytes),
            Number(ring.used_bytes),
            Number(ring.high_water_bytes),
            Number(ring.submission_count),
            Number(ring.written_bytes),
            Number(ring.wait_count),
            Number(ring.wait_ns),
        ]
    };
    snapshot.rings.iter().map(row).collect()
}

fn descriptors(snapshot: &Snapshot) -> Rows {
    let row = |region: &ringfence_trace::DescriptorSnapshot| {
        vec![
            Text(region.name.clone()),
            Text(region.kind.clone()),
            Text(region.region.clone()),
            Number(region.slot_count),
            Number(region.used_count),
            Number(region.waiting_count),
            region.high_water.map_or(Text("not counted".into()), Number),
            Number(region.largest_free),
            Number(region.heap_count),
            Number(region.tables_made),
            Number(region.tables_shared),
        ]
    };
    snapshot.descriptors.iter().map(row).collect()
}

fn blocks(snapshot: &Snapshot) -> Rows {
    let row = |block: &BlockSnapshot| {
        let class = if block.class == "all" { "any kind" } else { &block.class };
        let dedicated = if block.dedicated { ", dedicated" } else { "" };
        vec![
            Text(format!("#{}", block.number)),
            Number(block.memory_type.into()),
            Text(snapshot.types[block.memory_type as usize].properties.join(", ")),
            Text(format!("{class}{dedicated}")),
            Number(block.bytes),
            Number(used_bytes(block)),
            Number(block.bytes - used_bytes(block)),
            Number(largest_free(block)),
            Number(range_count(block)),
        ]
    };
    snapshot.blocks.iter().map(row).collect()
}

fn consumers(snapshot: &Snapshot) -> Rows {
    let mut by_prefix: HashMap<&str, Vec<u64>> = HashMap::new();
    for range in snapshot.blocks.iter().flat_map(|block| &block.ranges) {
        by_prefix.entry(ringfence_report::prefix(&range.name)).or_default().push(range.bytes);
    }
    let whole: u64 = by_prefix.values().flatten().sum();
    let mut all: Vec<_> = by_prefix.into_iter().map(|(name, sizes)| (sizes.iter().sum::<u64>(), name, sizes)).collect();
    all.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let row = |(bytes, name, sizes): (u64, &str, Vec<u64>)| {
        vec![
            Text(if name.is_empty() { "(no name)" } else { name }.into()),
            Number(bytes),
            Percent(bytes as f64 * 100.0 / whole as f64),
            Number(sizes.len() as u64),
            Number(sizes.into_iter().max().unwrap_or(0)),
        ]
    };
    all.into_iter().map(row).collect()
}

fn frames(report: &Report) -> Rows {
    let row = |frame: &ringfence_report::FrameSample| {
        let values = [frame.frame, frame.ring_used_bytes, frame.ring_capacity_bytes, frame.used_bytes];
        let more = [frame.reserved_bytes, frame.retired_count, frame.live_count];
        values.into_iter().chain(more).map(Number).collect()
    };
    report.frames.iter().map(row).collect()
}

fn moments(report: &Report) -> Rows {
    let history = report.history.as_ref().expect("it was put there");
    let row = |moment: &ringfence_report::Moment| {
        vec![
            Number(moment.frame),
            Number(moment.elapsed_ns),
            Number(moment.heaps.iter().map(|heap| heap.used_bytes).sum()),
            Number(moment.heaps.iter().map(|heap| heap.reserved_bytes).sum()),
            Percent(moment.fragmentation_percent),
            Number(moment.live_count),
            Number(moment.retired_count),
            Number(moment.descriptors.iter().map(|held| held.used_count).sum()),
            Number(moment.transient_count),
        ]
    };
    history.moments.iter().map(row).collect()
}

fn compared(report: &Report) -> Rows {
    let now = &report.compared.as_ref().expect("it was put there").snapshot;
    let row = |name: &str, value: fn(&Snapshot) -> u64| {
        let (then, now) = (value(&report.snapshot), value(now));
        vec![Text(name.into()), Number(then), Number(now), Change(then, now)]
    };
    vec![
        row("Reserved", |of| sum(&of.blocks, |block| block.bytes)),
        row("Used", |of| sum(&of.blocks, used_bytes)),
        row("Free in blocks", |of| sum(&of.blocks, |block| block.bytes - used_bytes(block))),
        row("Blocks", |of| of.blocks.len() as u64),
        row("Dedicated", |of| sum(&of.blocks, |block| block.dedicated.into())),
        row("Allocations", |of| sum(&of.blocks, range_count)),
        row("Retired", |of| of.retired_count),
    ]
}

fn sum(blocks: &[BlockSnapshot], value: impl Fn(&BlockSnapshot) -> u64) -> u64 {
    blocks.iter().map(value).sum()
}

fn used_bytes(block: &BlockSnapshot) -> u64 {
    block.ranges.iter().map(|range| range.bytes).sum()
}

fn range_count(block: &BlockSnapshot) -> u64 {
    block.ranges.len() as u64
}

fn largest_free(block: &BlockSnapshot) -> u64 {
    let begins = block.ranges.iter().map(|range| range.offset).chain([block.bytes]);
    let ends = [0].into_iter().chain(block.ranges.iter().map(|range| range.offset + range.bytes));
    begins.zip(ends).map(|(begin, end)| begin - end).max().unwrap_or(0)
}

/// Returns the texts of the table with this caption, row by row, without the row of headings.
fn rows(dom: &str, caption: &str) -> Vec<Vec<String>> {
    let table = dom.split_once(&format!("<caption>{caption}</caption>")).unwrap_or_else(|| panic!("no {caption}")).1;
    let body = table.split_once("<tbody>").and_then(|(_, rest)| rest.split_once("</tbody>")).expect("it has a body").0;
    let cell = |tag: &str| tag.split_once('>').and_then(|(_, text)| text.split_once('<')).map(|(text, _)| plain(text));
    let row = |row: &str| row.split("<t").skip(1).filter_map(cell).collect();
    body.split("<tr>").skip(1).map(row).collect()
}

/// Replaces the browser's escapes by the characters that they stand for.
fn plain(text: &str) -> String {
    let escapes = [("&nbsp;", "\u{a0}"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    escapes.iter().fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

fn compare(caption: &str, found: &[Vec<String>], expected: &Rows) {
    assert!(!expected.is_empty(), "{caption}: nothing to compare");
    assert_eq!(found.len(), expected.len(), "{caption}: rows");
    for (line, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{caption}: cells of row {line}");
        for (found, expected) in found.iter().zip(expected) {
            let place = format!("{caption}, row {line}: {found}");
            match *expected {
                // Control characters are not compared, because browsers treat them differently.
                Text(ref text) if text.contains(char::is_control) => {}
                Text(ref text) => assert_eq!(found, text, "{place}"),
                Number(exact) => says(found, exact as f64, &place),
                Percent(exact) => says(found, exact, &place),
                Change(then, now) if then == now => assert_eq!(found, "–", "{place}"),
                Change(then, now) => {
                    let sign = if now > then { '+' } else { '−' };
                    let text = found.strip_prefix(sign).unwrap_or_else(|| panic!("{place}: the sign is {sign}"));
                    says(text, then.abs_diff(now) as f64, &place);
                }
            }
        }
    }
}

/// Checks that `text` is the number `exact` in the text's unit, rounded to the text's last digit.
fn says(text: &str, exact: f64, place: &str) {
    let (digits, unit) = text.split_once('\u{a0}').unwrap_or((text, ""));
    let one = match unit {
        "" | "B" | "ns" | "%" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => {
            let power = ["KiB", "MiB", "GiB", "TiB"].iter().position(|name| *name == unit);
            1024_f64.powi(power.unwrap_or_else(|| panic!("{place}: the unit {unit}")) as i32 + 1)
        }
    };
    let value: f64 = digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{place}: no number"));
    let last = 0.1_f64.powi(digits.split_once('.').map_or(0, |(_, fraction)| fraction.len()) as i32);
    assert!((exact / one - value).abs() <= last / 2.0 + 1e-9, "{place}: is {exact}");
}
