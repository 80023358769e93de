//! Replans the items around a failure, if the smallest change fails.
//!
//! ```text
//!   time        ──────────────┤ failed ├──────────────
//!   replaced                ▓▓▓▓▓▓▓▓▓▓▓▓               all items alive with it; if that fails, in a longer span, …
//!   kept        ░░░░░░░░░░░░                ░░░░░░░░░  the rest
//! ```
//!
//! Items that fail elsewhere have their own spans. A try costs O(n) for each item that is placed.

use super::HeapOffset;
use super::greedy::first;
use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::replan::{Work, filled};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Largest number of times that spans are widened or added.
const ROUNDS_MAX: usize = 24;
/// Orders that are tried in a round, divided among three starting orders.
const TRIES: usize = 120;

/// A half-open range of time: the first moment, and the first moment after the range.
type Range = (u64, u64);

/// Places the items without a location in `at`, and the items that are alive around the item that failed. Returns
/// `None` if that does not help, or if the work is stopped.
pub(super) fn around(
    problem: &HeapProblem,
    at: &[Option<HeapOffset>],
    failed: usize,
    work: &mut Work<'_>,
) -> Option<Vec<HeapOffset>> {
    let mut spans: Vec<Range> = Vec::new();
    widen(&mut spans, span(problem, failed));
    for _ in 0..ROUNDS_MAX {
        let mut kept = at.to_vec();
        let mut freed = Vec::new();
        for item in (0..at.len()).filter(|&item| problem.pinned[item].is_none()) {
            if kept[item].is_none() || spans.iter().any(|&other| overlap(span(problem, item), other)) {
                kept[item] = None;
                freed.push(item);
            }
        }
        match fill(problem, &kept, &mut freed, work) {
            Ok(offsets) => return Some(offsets),
            Err(_) if freed.len() == at.len() || work.is_stopped => return None,
            Err(item) => widen(&mut spans, span(problem, item)),
        }
    }
    None
}

fn span(problem: &HeapProblem, item: usize) -> Range {
    (problem.flat[item].lower, problem.flat[item].upper)
}

fn overlap(a: Range, b: Range) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// If `failed` overlaps a span, makes this span longer by half. Otherwise adds a span for `failed`.
fn widen(spans: &mut Vec<Range>, failed: Range) {
    match spans.iter_mut().find(|other| overlap(failed, **other)) {
        Some(held) => {
            let more = (held.1 - held.0).div_ceil(4);
            *held = (held.0.saturating_sub(more).min(failed.0), held.1.saturating_add(more).max(failed.1));
        }
        None => spans.push(failed),
    }
}

/// Places the freed items, in several orders. If no order works, or the work is stopped, returns the item that failed
/// last as the error.
fn fill(
    problem: &HeapProblem,
    kept: &[Option<HeapOffset>],
    freed: &mut [usize],
    work: &mut Work<'_>,
) -> Result<Vec<HeapOffset>, usize> {
    let heaps = filled(problem, kept);
    let length = |item: usize| problem.flat[item].upper - problem.flat[item].lower;
    let area = |item: usize| u128::from(problem.flat[item].size) * u128::from(length(item));
    let mut failed = 0;
    for start in 0..3 {
        freed.sort_by_key(|&item| {
            Reverse(match start {
                0 => problem.flat[item].size.into(),
                1 => area(item),
                _ => length(item).into(),
            })
        });
        for tried in 0..TRIES / 3 {
            match in_order(problem, kept, heaps.clone(), freed, work) {
                Ok(offsets) => return Ok(offsets),
                Err(place) if work.is_stopped => return Err(freed[place]),
                Err(place) => {
                    failed = freed[place];
                    // Moves the item that failed forward: to the middle of those before it, or to the front.
                    let to = if tried % 3 == 2 { 0 } else { place / 2 };
                    freed[to..=place].rotate_right(1);
                }
            }
        }
    }
    Err(failed)
}

/// Places the items in one order. If an item fits nowhere, or the work is stopped, returns the index of this item in
/// `order` as the error.
fn in_order(
    problem: &HeapProblem,
    kept: &[Option<HeapOffset>],
    mut heaps: Vec<Occupied>,
    order: &[usize],
    work: &mut Work<'_>,
) -> Result<Vec<HeapOffset>, usize> {
    let mut at = kept.to_vec();
    for (place, &item) in order.iter().enumerate() {
        if !work.looked_at(at.len()) {
            return Err(place);
        }
        let found = first(problem, &mut heaps, item).ok_or(place)?;
        heaps[found.heap].put(item as u32, problem.flat[item], found.offset);
        at[item] = Some(found);
    }
    Ok(at.into_iter().map(|at| at.expect("each was placed")).collect())
}
