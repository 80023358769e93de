//! Comparison of two snapshots: figures side by side, and changes by name.

use std::collections::BTreeMap;

use super::nothing;
use crate::consumers::{Consumer, consumers};
use crate::table::Table;
use crate::units::{bytes, count};
use crate::{Compared, Figures, Report};
use ringfence_trace::Snapshot;

const ROW_COUNT_MAX: usize = 50;

pub(super) fn html(report: &Report) -> String {
    let Report { snapshot, compared: Some(other), .. } = report else { return String::new() };
    let title = crate::html::text(&other.title);
    let damage = super::damage(other.damage.as_deref(), "file to compare with");
    let (figures, names) = (figures(report, other), names(snapshot, other));
    format!("{damage}<p>Then: this page’s snapshot. Now: {title}.</p>\n{figures}{names}")
}

fn figures(then: &Report, now: &Compared) -> String {
    let (then, now) = (then.figures(), Figures::of(&now.snapshot).known_by(now.source));
    let in_bytes =
        |name: &str, then: u64, now: u64| vec![name.to_owned(), bytes(then), bytes(now), signed(then, now, bytes)];
    let counted =
        |name: &str, then: u64, now: u64| vec![name.to_owned(), count(then), count(now), signed(then, now, count)];
    let maybe = |name: &str, then: Option<u64>, now: Option<u64>| match (then, now) {
        (Some(then), Some(now)) => counted(name, then, now),
        (then, now) => {
            let text = |value: Option<u64>| value.map_or("unknown".into(), count);
            vec![name.to_owned(), text(then), text(now), "unknown".into()]
        }
    };
    let table = Table {
        caption: "Figures compared",
        headings: &["Figure", "Then", "Now", "Change"],
        numbers: &[false, true, true, true],
        rows: vec![
            in_bytes("Reserved", then.reserved_bytes, now.reserved_bytes),
            in_bytes("Used", then.used_bytes, now.used_bytes),
            in_bytes("Free in blocks", then.free_bytes, now.free_bytes),
            counted("Blocks", then.block_count, now.block_count),
            counted("Dedicated", then.dedicated_count, now.dedicated_count),
            counted("Allocations", then.allocation_count, now.allocation_count),
            maybe("Retired", then.retired_count, now.retired_count),
        ],
    };
    table.html()
}

/// Returns the table of changes by name prefix, the largest change first. Prefixes without a change are left out.
fn names(then: &Snapshot, now: &Compared) -> String {
    let mut both: BTreeMap<String, (Consumer, Consumer)> = BTreeMap::new();
    for one in consumers(then) {
        let prefix = one.prefix.clone();
        both.entry(prefix).or_default().0 = one;
    }
    for one in consumers(&now.snapshot) {
        let prefix = one.prefix.clone();
        both.entry(prefix).or_default().1 = one;
    }
    let mut changed: Vec<_> =
        both.into_iter().filter(|(_, (then, now))| (then.bytes, then.count) != (now.bytes, now.count)).collect();
    changed.sort_by_key(|(_, (then, now))| std::cmp::Reverse(then.bytes.abs_diff(now.bytes)));
    let rows = changed.iter().take(ROW_COUNT_MAX).map(|(prefix, (then, now))| {
        vec![
            if prefix.is_empty() { "(no name)".to_owned() } else { prefix.clone() },
            bytes(then.bytes),
            bytes(now.bytes),
            signed(then.bytes, now.bytes, bytes),
            signed(then.count, now.count, count),
        ]
    });
    let table = Table {
        caption: "Changes by name prefix",
        headings: &["Name begins with", "Then", "Now", "Change", "Ranges"],
        numbers: &[false, true, true, true, true],
        rows: rows.collect(),
    };
    if changed.is_empty() { nothing("No name has more or fewer bytes.") } else { table.html() }
}

fn signed(then: u64, now: u64, format: fn(u64) -> String) -> String {
    match then.cmp(&now) {
        std::cmp::Ordering::Less => format!("+{}", format(now - then)),
        std::cmp::Ordering::Equal => "–".to_owned(),
        std::cmp::Ordering::Greater => format!("−{}", format(then - now)),
    }
}
