//! Greedy placement in one order: each item in the first heap of its choices that has room, at the lowest offset.

use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::{HeapError, HeapOffset, HeapPlan};
use crate::asking::Asking;
use alloc::vec::Vec;

/// A plan and its cost: the fallback bytes first, then the heights.
#[derive(Clone)]
pub(super) struct Candidate {
    pub offsets: Vec<HeapOffset>,
    pub fallback: u128,
    pub heights: Vec<u64>,
}

impl Candidate {
    /// Returns the cost. Less is better.
    pub fn cost(&self) -> (u128, u64) {
        (self.fallback, total(&self.heights))
    }

    /// Creates the candidate of a valid plan.
    pub fn of(problem: &HeapProblem, offsets: Vec<HeapOffset>) -> Self {
        let mut heights: Vec<u64> = problem.heaps.iter().map(|_| 0).collect();
        let mut fallback = 0;
        for (item, at) in offsets.iter().enumerate() {
            let size = problem.flat[item].size;
            heights[at.heap] = heights[at.heap].max(at.offset + size);
            fallback += u128::from(size) * u128::from(rank(problem, item, at.heap));
        }
        Self { offsets, fallback, heights }
    }

    /// Returns the plan in its public form.
    pub fn plan(self, problem: &HeapProblem, is_exhausted: bool) -> HeapPlan {
        let lower_bound = problem.lower_bound();
        let is_proven = is_exhausted || self.cost() == (0, lower_bound);
        HeapPlan { offsets: self.offsets, heights: self.heights, fallback_bytes: self.fallback, lower_bound, is_proven }
    }
}

pub(super) fn total(heights: &[u64]) -> u64 {
    heights.iter().fold(0, |sum, height| sum.saturating_add(*height))
}

/// Returns the number of classes before this heap's class in the item's list.
pub(super) fn rank(problem: &HeapProblem, item: usize, heap: usize) -> u32 {
    let choice = problem.choices(item).iter().find(|choice| choice.heap as usize == heap);
    choice.expect("the heap is one of its choices").rank
}

/// The item that fits none of its heaps, and the number of items placed before it.
pub(super) struct LeftOver {
    pub item: usize,
    pub placed: usize,
    pub error: HeapError,
}

/// Places the items, which are not pinned, in this order. Returns `None` if it was stopped. O(n²).
pub(super) fn place(
    problem: &HeapProblem,
    order: &[u32],
    asking: &mut Asking<'_>,
) -> Option<Result<Candidate, LeftOver>> {
    let mut heaps = problem.with_pins();
    let mut offsets: Vec<HeapOffset> =
        problem.pinned.iter().map(|pin| pin.unwrap_or(HeapOffset { heap: 0, offset: 0 })).collect();
    for (placed, &item) in order.iter().enumerate() {
        let item = item as usize;
        let Some(at) = first(problem, &mut heaps, item) else {
            return Some(Err(LeftOver { item, placed, error: left_over(problem, &mut heaps, item) }));
        };
        heaps[at.heap].put(item as u32, problem.flat[item], at.offset);
        offsets[item] = at;
        // Counts half of the placed items: some are in other heaps, and most are above the gap.
        if !asking.looked_at(placed as u64 / 2) {
            return None;
        }
    }
    Some(Ok(Candidate::of(problem, offsets)))
}

/// Returns the first heap with room for the item, and the lowest offset there.
pub(super) fn first(problem: &HeapProblem, heaps: &mut [Occupied], item: usize) -> Option<HeapOffset> {
    let flat = &problem.flat[item];
    problem.choices(item).iter().find_map(|choice| {
        let heap = choice.heap as usize;
        heaps[heap].lowest(flat).map(|offset| HeapOffset { heap, offset })
    })
}

/// Returns the error for an item that fits nowhere, with the end that it would have in its preferred heap.
pub(super) fn left_over(problem: &HeapProblem, heaps: &mut [Occupied], item: usize) -> HeapError {
    let flat = problem.flat[item];
    let heap = problem.choices(item)[0].heap as usize;
    let end = heaps[heap].lowest_below(&flat, u64::MAX).map_or(u64::MAX, |offset| offset + flat.size);
    let capacity = problem.capacity(heap);
    HeapError::NotFound { index: item, size: flat.size, heap, end, capacity, is_proven: false }
}
