//! The first plan of many items: plans each heap with the planner of one heap, which is stopped as soon as its plan
//! fits.
//!
//! ```text
//!   capacity ┄┄┄┄┄┄┄▒▒▒┄┄┄┄┄┄┄┄┄┄     items that end above it move to the next heap of their list, which is replanned
//!            ░░░░░░░░░░░░░░░░░░░░     one sweep over time
//!            ▓▓ pinned ▓▓             below all other items
//! ```
//!
//! A greedy order mostly gives a better plan, but costs O(n²): many seconds for 100,000 items. The sweep takes some
//! hundredths of a second.

use super::HeapOffset;
use super::problem::HeapProblem;
use super::search::whole_pages;
use crate::plan::Planner;
use alloc::vec;
use alloc::vec::Vec;
use ringfence_alias::AliasPlan;
use ringfence_alias::Problem;

/// Largest number of rounds in which heaps are replanned with the items that did not fit other heaps.
const ROUNDS_MAX: usize = 8;

/// Returns the location of each item, or `None` if it finds no plan or was stopped. If the first plan of a heap is too
/// high, the planner continues, for at most `steps_left` steps over all heaps. The seed determines the random numbers,
/// and selects one kind of items that are not rounded up to whole pages.
pub(super) fn first_plan(
    problem: &HeapProblem,
    seed: u64,
    mut steps_left: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Option<Vec<HeapOffset>> {
    let mut offsets: Vec<HeapOffset> =
        problem.pinned.iter().map(|pin| pin.unwrap_or(HeapOffset { heap: 0, offset: 0 })).collect();
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); problem.heaps.len()];
    // For each item, the number of heaps of its list that were too full.
    let mut refused = vec![0; problem.len()];
    for item in (0..problem.len()).filter(|&item| problem.pinned[item].is_none()) {
        inside[problem.choices(item)[0].heap as usize].push(item);
    }
    let mut has_more = vec![true; problem.heaps.len()];
    for _ in 0..ROUNDS_MAX {
        for heap in 0..problem.heaps.len() {
            if !core::mem::take(&mut has_more[heap]) {
                continue;
            }
            let items = core::mem::take(&mut inside[heap]);
            let found = above_pins(problem, heap, &items, seed, &mut steps_left, go_on)?;
            for (item, offset) in items.into_iter().zip(found) {
                if offset + problem.flat[item].size <= problem.capacity(heap) {
                    offsets[item] = HeapOffset { heap, offset };
                    inside[heap].push(item);
                    continue;
                }
                refused[item] += 1;
                let next = problem.choices(item).get(refused[item])?.heap as usize;
                inside[next].push(item);
                has_more[next] = true;
            }
        }
        if !has_more.contains(&true) {
            return Some(offsets);
        }
    }
    None
}

/// Returns offsets of these items above all pins of the heap, within its capacity if such a plan is found soon.
fn above_pins(
    problem: &HeapProblem,
    heap: usize,
    inside: &[usize],
    seed: u64,
    steps_left: &mut u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Option<Vec<u64>> {
    let items = whole_pages(problem, heap, inside, seed as usize);
    let most = items.iter().map(|item| item.alignment).max().unwrap_or(1).max(problem.heaps[heap].granularity);
    let pinned_end = problem.pinned_ends()[heap].checked_next_multiple_of(most)?;
    // Sizes rounded up to whole pages may exceed 63 bits.
    let own = Problem::new(&items).ok()?;
    let room = problem.capacity(heap).saturating_sub(pinned_end);
    // The last page of an item may end above the capacity; only the item's own size must fit.
    let height = |offsets: &[u64]| {
        let ends = inside.iter().zip(offsets).map(|(&item, offset)| offset + problem.flat[item].size);
        ends.max().unwrap_or(0)
    };
    let room_with_page = room.saturating_add(problem.heaps[heap].granularity - 1);
    let (mut is_stopped, mut looked_at, mut fitting) = (false, u64::MAX, None);
    let mut asked = |found: &mut AliasPlan, steps| {
        *steps_left = steps_left.saturating_sub(steps);
        if found.height < looked_at {
            looked_at = found.height;
            fitting = (height(&found.offsets) <= room).then(|| found.offsets.clone());
        }
        let is_wanted = fitting.is_none() && found.lower_bound <= room_with_page && *steps_left > 0;
        is_stopped |= is_wanted && !go_on(steps);
        is_wanted && !is_stopped
    };
    let mut planner = Planner::new(&own, &mut asked);
    planner.seed = seed;
    planner.begin();
    planner.go_on();
    let found = planner.best;
    if is_stopped {
        return None;
    }
    let offsets = fitting.unwrap_or(found.offsets);
    found.height.checked_add(pinned_end)?;
    Some(offsets.into_iter().map(|offset| pinned_end + offset).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Heap, HeapItem, verify_heaps};
    use super::*;
    use crate::random::Random;
    use ringfence_alias::Item;

    #[test]
    fn pins_pages_and_full_heaps_are_heeded() {
        let mut random = Random(8);
        let mut planned = 0;
        for round in 0..600_u64 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let capacity = 50 + below(2_000);
            let heaps = [
                Heap { granularity: 1 << (round % 5), ..Heap::new(capacity) },
                Heap { class: 1, alignment: 16, ..Heap::new(2 * capacity) },
                Heap { class: 2, granularity: 64, ..Heap::new(u64::MAX) },
            ];
            let item = |place: u64| {
                let lower = below(40);
                let item = Item::new(1 + below(30), lower, lower + 1 + below(9)).aligned(1 << below(6));
                let held = HeapItem::new(item).of_kind(below(2) as u32).preferring(&[0, 1, 2]);
                if place == 0 { held.pinned_at(0, 0) } else { held }
            };
            let items: Vec<HeapItem> = (0..1 + round % 90).map(item).collect();
            let problem = HeapProblem::new(&heaps, &items).unwrap();
            if let Some(offsets) = first_plan(&problem, round % 3, 100, &mut |_| true) {
                verify_heaps(&heaps, &items, &offsets).unwrap();
                planned += 1;
            }
        }
        assert!(planned > 500, "{planned}");
    }
}
