//! The history from a trace: usage by heap against the budget, fragmentation, lifetimes, and ranges in use at the end.

use crate::chart::Unit;
use crate::history::{
    DescriptorMoment, FramePlan, FramePlanRow, HeapMoment, History, Lifetime, Moment, RingMoment, TransientRow,
};
use crate::plot::{Bar, Drawing, Look, Rectangle, Series, gantt, over_frames, rectangles};
use crate::table::Table;
use crate::units::{bytes, count, nanoseconds, plural};

/// Maximum number of bars that a reader can distinguish.
const BAR_COUNT_MAX: usize = 40;

pub(super) fn html(history: Option<&History>) -> String {
    let Some(history) = history else {
        return String::new();
    };
    let damage = super::damage(history.damage.as_deref(), "trace");
    let drawings: String = drawings(history).iter().map(Drawing::inline).collect();
    format!(
        "{}<p class=\"quiet\">{} events over {} and {}{}.</p>\n<div class=\"drawings\">\n{drawings}</div>\n{}{}{}",
        damage,
        count(history.event_count),
        nanoseconds(history.elapsed_ns),
        plural(history.frame_count, "frame"),
        moves(history),
        moments(history),
        transients(history),
        left(history),
    )
}

/// Returns the charts of a history. `ringfence report --svg` writes them as files.
pub(crate) fn drawings(history: &History) -> Vec<Drawing> {
    let frames: Vec<u64> = history.moments.iter().map(|moment| moment.frame).collect();
    let heap_count = history.moments.iter().map(|moment| moment.heaps.len()).max().unwrap_or(0);
    let is_used = |heap: usize| history.moments.iter().any(|moment| heap_of(moment, heap).reserved_bytes > 0);
    let mut drawings: Vec<_> =
        (0..heap_count).filter(|heap| is_used(*heap)).map(|heap| of_heap(history, &frames, heap)).collect();
    drawings.push(fragmentation(history, &frames));
    drawings.push(live(history, &frames));
    drawings.extend((0..history.rings.len()).map(|ring| of_ring(history, &frames, ring)));
    drawings.extend((0..history.descriptors.len()).map(|heap| of_descriptors(history, &frames, heap)));
    if history.transient_made_count > 0 {
        drawings.push(of_transients(history, &frames));
    }
    drawings.extend(history.plans.iter().enumerate().map(|(at, plan)| of_plan(at, plan)));
    if !history.lifetimes.is_empty() {
        drawings.push(lifetimes(history));
    }
    drawings
}

/// Returns the figures of a heap. A damaged file can have moments with fewer heaps.
fn heap_of(moment: &Moment, heap: usize) -> HeapMoment {
    moment.heaps.get(heap).copied().unwrap_or_default()
}

fn of_heap(history: &History, frames: &[u64], heap: usize) -> Drawing {
    let values = |value: fn(&HeapMoment) -> Option<u64>| {
        history.moments.iter().map(|moment| value(&heap_of(moment, heap))).collect()
    };
    let mut series = vec![
        Series { name: "used".into(), look: Look::Area, values: values(|heap| Some(heap.used_bytes)) },
        Series { name: "reserved".into(), look: Look::Line, values: values(|heap| Some(heap.reserved_bytes)) },
    ];
    if history.moments.iter().any(|moment| heap_of(moment, heap).away_bytes > 0) {
        series.push(Series { name: "away".into(), look: Look::Dots, values: values(|heap| Some(heap.away_bytes)) });
    }
    // A budget of 20 times the reserved bytes or more would make all other lines flat, so only the title mentions it.
    let budget: Vec<Option<u64>> = values(|heap| heap.budget_bytes);
    let reserved = history.moments.iter().map(|moment| heap_of(moment, heap).reserved_bytes).max().unwrap_or(0);
    let least = budget.iter().flatten().min().copied();
    let mut title = format!("Heap {heap}: use against budget");
    match least {
        Some(least) if least / 20 < reserved => {
            series.push(Series { name: "budget".into(), look: Look::Dashes, values: budget });
        }
        Some(least) => title.push_str(&format!(" (budget of at least {}, outside the scale)", bytes(least))),
        None => title.push_str(" (the driver reports no budget)"),
    }
    over_frames(&format!("heap-{heap}"), &title, Unit::Bytes, frames, &series)
}

fn of_ring(history: &History, frames: &[u64], ring: usize) -> Drawing {
    let values = |value: fn(&RingMoment) -> u64| {
        history.moments.iter().map(|moment| moment.rings.get(ring).map(value)).collect()
    };
    let series = [
        Series { name: "in use".into(), look: Look::Area, values: values(|ring| ring.used_bytes) },
        Series { name: "capacity".into(), look: Look::Dashes, values: values(|ring| ring.capacity_bytes) },
    ];
    let name = distinct(&history.rings, ring);
    over_frames(&format!("ring-{ring}"), &format!("Ring: {name}"), Unit::Bytes, frames, &series)
}

fn of_descriptors(history: &History, frames: &[u64], heap: usize) -> Drawing {
    let values = |value: fn(&DescriptorMoment) -> u64| {
        history.moments.iter().map(|moment| moment.descriptors.get(heap).map(value)).collect::<Vec<_>>()
    };
    let frame_counts = values(|held| held.frame_count);
    let mut series = vec![
        Series { name: "in use".into(), look: Look::Area, values: values(|held| held.used_count) },
        Series { name: "slots".into(), look: Look::Dashes, values: values(|held| held.slot_count) },
    ];
    if frame_counts.iter().flatten().any(|count| *count > 0) {
        series.insert(1, Series { name: "for single frames".into(), look: Look::Line, values: frame_counts });
    }
    let name = distinct(&history.descriptors, heap);
    over_frames(&format!("descriptors-{heap}"), &format!("Descriptors: {name}"), Unit::Count, frames, &series)
}

/// Returns the name with index `at`. If the name is empty or occurs several times, the index is added.
fn distinct(names: &[String], at: usize) -> String {
    let name = &names[at];
    match names.iter().filter(|other| *other == name).count() {
        _ if name.is_empty() => format!("(no name), number {at}"),
        0 | 1 => name.clone(),
        _ => format!("{name}, number {at}"),
    }
}

/// Draws the total size of the objects in transient heaps. Objects share bytes, so this size can exceed the size of the
/// heaps.
fn of_transients(history: &History, frames: &[u64]) -> Drawing {
    let values: Vec<_> = history.moments.iter().map(|moment| Some(moment.transient_bytes)).collect();
    let series = [Series { name: "size without aliasing".into(), look: Look::Area, values }];
    over_frames("transients", "Objects in transient heaps", Unit::Bytes, frames, &series)
}

/// Draws a plan: the bytes of each resource over the passes that use it.
fn of_plan(at: usize, plan: &FramePlan) -> Drawing {
    let row = |row: &FramePlanRow| Rectangle {
        note: format!(
            "{}: {} at {}, passes {} to {}",
            named(&row.name),
            bytes(row.bytes),
            bytes(row.offset),
            row.first_pass,
            row.end_pass.saturating_sub(1)
        ),
        name: named(&row.name).to_owned(),
        from: row.first_pass,
        to: row.end_pass,
        low: row.offset,
        high: row.offset.saturating_add(row.bytes),
    };
    let rows: Vec<_> = plan.rows.iter().map(row).collect();
    let title = format!(
        "Aliasing plan {}, heap {} (frame {}): {} instead of {}, lower bound {}",
        plan.plan,
        plan.heap,
        count(plan.frame),
        bytes(plan.height_bytes),
        bytes(plan.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes))),
        bytes(plan.lower_bound_bytes)
    );
    rectangles(&format!("plan-{at}"), &title, plan.pass_count, plan.height_bytes, &rows)
}

fn named(name: &str) -> &str {
    if name.is_empty() { "(no name)" } else { name }
}

fn fragmentation(history: &History, frames: &[u64]) -> Drawing {
    let values = |value: fn(&crate::history::Moment) -> f64| {
        history.moments.iter().map(|moment| Some(value(moment).round() as u64)).collect()
    };
    let series = [
        Series {
            name: "free share of the blocks".into(),
            look: Look::Area,
            values: values(|moment| moment.free_percent),
        },
        Series {
            name: "share of the free bytes outside the longest free range".into(),
            look: Look::Line,
            values: values(|moment| moment.fragmentation_percent),
        },
    ];
    over_frames("fragmentation", "Fragmentation, in per cent", Unit::Percent, frames, &series)
}

fn live(history: &History, frames: &[u64]) -> Drawing {
    let values =
        |value: fn(&crate::history::Moment) -> u64| history.moments.iter().map(|moment| Some(value(moment))).collect();
    let series = [
        Series { name: "in use".into(), look: Look::Area, values: values(|moment| moment.live_count) },
        Series {
            name: "waiting for the device".into(),
            look: Look::Line,
            values: values(|moment| moment.retired_count),
        },
    ];
    over_frames("ranges", "Ranges", Unit::Count, frames, &series)
}

/// Draws the lifetimes with the most bytes × frames.
fn lifetimes(history: &History) -> Drawing {
    let last = history.frame_count.max(1);
    let end = |one: &Lifetime| one.freed.unwrap_or(last);
    let mut heaviest: Vec<&Lifetime> = history.lifetimes.iter().collect();
    let weight = |one: &Lifetime| u128::from(one.bytes) * (u128::from(end(one).saturating_sub(one.born)) + 1);
    heaviest.sort_by_key(|one| std::cmp::Reverse(weight(one)));
    heaviest.truncate(BAR_COUNT_MAX);
    heaviest.sort_by_key(|one| (one.born, end(one)));
    let bar = |one: &&Lifetime| Bar {
        name: one.name.clone(),
        note: format!("{}, frames {} to {}", bytes(one.bytes), count(one.born), count(end(one))),
        from: one.born,
        retired: one.retired.unwrap_or(end(one)),
        to: end(one),
    };
    let bars: Vec<_> = heaviest.iter().map(bar).collect();
    let whole = history.left_out_count.saturating_add(history.lifetimes.len() as u64);
    let title = format!("Lifetimes: the {} heaviest of {}, by bytes × frames", bars.len(), count(whole));
    gantt("lifetimes", &title, last, &bars)
}

fn moves(history: &History) -> String {
    match history.move_count {
        0 => String::new(),
        moves => format!(
            "; <span data-figure=\"move_count\" data-value=\"{moves}\">{} with {} were moved</span>",
            plural(moves, "range"),
            bytes(history.moved_bytes)
        ),
    }
}

fn moments(history: &History) -> String {
    const ROWS: usize = 100;
    let step = history.moments.len().div_ceil(ROWS).max(1);
    let row = |moment: &Moment| {
        let sum = |value: fn(&HeapMoment) -> u64| moment.heaps.iter().map(value).fold(0, u64::saturating_add);
        vec![
            count(moment.frame),
            nanoseconds(moment.elapsed_ns),
            bytes(sum(|heap| heap.used_bytes)),
            bytes(sum(|heap| heap.reserved_bytes)),
            crate::units::percent(moment.fragmentation_percent),
            count(moment.live_count),
            count(moment.retired_count),
            count(moment.descriptors.iter().fold(0, |sum: u64, held| sum.saturating_add(held.used_count))),
            count(moment.transient_count),
        ]
    };
    let table = Table {
        caption: "The trace as a table",
        headings: &[
            "Frame",
            "After",
            "Used",
            "Reserved",
            "Fragmentation",
            "Ranges",
            "Waiting",
            "Descriptors",
            "Transient objects",
        ],
        numbers: &[true; 9],
        rows: history.moments.iter().step_by(step).map(row).collect(),
    };
    table.folded()
}

/// Returns the table of the objects that existed in transient heaps at the end.
fn transients(history: &History) -> String {
    let (made, there) = (history.transient_made_count, history.transient_count);
    if made == 0 {
        return String::new();
    }
    let row = |held: &TransientRow| {
        vec![
            named(&held.name).to_owned(),
            format!("#{}", count(held.block)),
            bytes(held.offset),
            bytes(held.bytes),
            count(held.born),
        ]
    };
    let table = Table {
        caption: "Objects in transient heaps when the trace ended, by heap and offset",
        headings: &["Name", "Block", "Offset", "Bytes", "Created in frame"],
        numbers: &[false, true, true, true, true],
        rows: history.transients.iter().map(row).collect(),
    };
    format!(
        "<p data-figure=\"transient_count\" data-value=\"{there}\">{} created in transient heaps; {} of them existed \
         when the trace ended.</p>\n{}",
        plural(made, "object"),
        count(there),
        table.folded()
    )
}

/// Returns the count and the table of the ranges that had an owner when the trace ended. They are leaks only if the
/// program ended at the same time.
fn left(history: &History) -> String {
    let count_left = history.left_count;
    if count_left == 0 {
        return "<p data-figure=\"left_count\" data-value=\"0\">No range was in use when the trace ended.</p>\n"
            .to_owned();
    }
    let row = |one: &Lifetime| {
        let age = history.frame_count.saturating_sub(one.born);
        vec![named(&one.name).to_owned(), bytes(one.bytes), one.memory_type.to_string(), count(one.born), count(age)]
    };
    let table = Table {
        caption: "In use when the trace ended, oldest first: leaks, if the program ended there",
        headings: &["Name", "Bytes", "Type", "Born in frame", "Age in frames"],
        numbers: &[false, true, true, true, true],
        rows: history.oldest_left.iter().map(row).collect(),
    };
    format!(
        "<p data-figure=\"left_count\" data-value=\"{count_left}\">{} with {} were in use when the trace \
         ended.</p>\n{}",
        plural(count_left, "range"),
        bytes(history.left_bytes),
        table.folded()
    )
}
