//! The largest consumers of memory, by name prefix.

use ringfence_trace::Snapshot;

use super::nothing;
use crate::consumers::{Consumer, consumers};
use crate::figures::percent;
use crate::table::Table;
use crate::units;
use crate::units::{bytes, count};

/// Maximum number of rows. One more row has the sum of all other consumers.
const ROW_COUNT_MAX: usize = 25;

pub(super) fn html(snapshot: &Snapshot) -> String {
    let all = consumers(snapshot);
    if all.is_empty() {
        return nothing("No memory is in use.");
    }
    let sum_of = |some: &[Consumer]| some.iter().fold(0, |sum: u64, one| sum.saturating_add(one.bytes));
    let whole = sum_of(&all);
    let share = |bytes: u64| units::percent(percent(bytes, whole));
    let mut rows: Vec<Vec<String>> = all
        .iter()
        .take(ROW_COUNT_MAX)
        .map(|one| {
            let name = if one.prefix.is_empty() { "(no name)".to_owned() } else { one.prefix.clone() };
            vec![name, bytes(one.bytes), share(one.bytes), count(one.count), bytes(one.largest_bytes)]
        })
        .collect();
    let rest = &all[all.len().min(ROW_COUNT_MAX)..];
    if !rest.is_empty() {
        let sum = sum_of(rest);
        let ranges = rest.iter().map(|one| one.count).sum();
        let largest = rest.iter().map(|one| one.largest_bytes).max().unwrap_or(0);
        let name = format!("{} others", count(rest.len() as u64));
        rows.push(vec![name, bytes(sum), share(sum), count(ranges), bytes(largest)]);
    }
    let table = Table {
        caption: "Memory by name prefix: the part of the name before a / : . # or a digit",
        headings: &["Name begins with", "Bytes", "Share", "Ranges", "Largest"],
        numbers: &[false, true, true, true, true],
        rows,
    };
    table.html()
}
