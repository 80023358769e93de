//! Aliasing transitions: how often an item begins on bytes that another had before, and plans with fewer of them.
//!
//! ```text
//!   space ▲  ┌──a──┐ ┌────c────┐     c begins on bytes of a and of b: two transitions, two barriers
//!         │  ├──b──┤ │         │
//!         └──┴─────┴─┴─────────┴─▶ time
//! ```
//!
//! Counting walks over time with a map of which item had which bytes last: O(n log n + transitions). The map splits and
//! joins, so that an item is met once for each run of bytes that it still has.
//!
//! Lowering moves one item at a time to where it costs fewer, within the height: to the offset of another item or to an
//! end of one. Each try counts all transitions again; it is meant for frames, some hundred items.

use super::check::verify;
use super::item::Item;
use super::plan::AliasPlan;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A barrier that is needed: `after` begins on bytes that `before` had last. Items by their place in the slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Transition {
    /// Whose bytes they were.
    pub before: usize,
    /// Whose they are now.
    pub after: usize,
}

/// The transitions of a plan, by when `after` begins; each pair once. The offsets are a plan of the items.
///
/// # Panics
/// There are not as many offsets as items.
#[must_use]
pub fn transitions(items: &[Item], offsets: &[u64]) -> Vec<Transition> {
    assert_eq!(items.len(), offsets.len(), "one offset for each item");
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| (items[index].lifetime.lower, index));
    let mut owners = Owners::default();
    let mut found = Vec::new();
    for after in order {
        let before = owners.take(offsets[after], offsets[after] + items[after].size, after);
        found.extend(before.into_iter().map(|before| Transition { before, after }));
    }
    found
}

/// Of every byte the item that had it last: by first byte, the end and the item.
#[derive(Default)]
struct Owners {
    runs: BTreeMap<u64, (u64, usize)>,
}

impl Owners {
    /// Gives `start..end` to an item, and says who had bytes of it.
    fn take(&mut self, start: u64, end: u64, item: usize) -> BTreeSet<usize> {
        let mut before = BTreeSet::new();
        if let Some((&first, &(last, owner))) = self.runs.range(..start).next_back()
            && last > start
        {
            before.insert(owner);
            self.runs.insert(first, (start, owner));
            if last > end {
                self.runs.insert(end, (last, owner));
            }
        }
        while let Some((&first, &(last, owner))) = self.runs.range(start..end).next() {
            before.insert(owner);
            self.runs.remove(&first);
            if last > end {
                self.runs.insert(end, (last, owner));
            }
        }
        self.runs.insert(start, (end, item));
        before
    }
}

/// Moves items so that fewer transitions are left, at no greater height, as long as the closure says to go on and a
/// move helps. How many are left.
///
/// # Panics
/// The plan is not one of the items.
pub fn lower_transitions(items: &[Item], plan: &mut AliasPlan, mut go_on: impl FnMut(usize) -> bool) -> usize {
    verify(items, &plan.offsets, plan.height).expect("the plan is one of the items");
    let mut least = transitions(items, &plan.offsets).len();
    let mut moved = true;
    while moved {
        moved = false;
        for item in 0..items.len() {
            if !go_on(least) {
                return least;
            }
            let fewer = best_move(items, plan, item, least);
            if let Some((count, offset)) = fewer {
                (least, moved) = (count, true);
                plan.offsets[item] = offset;
            }
        }
    }
    least
}

/// Where the item costs fewest transitions, if that is fewer than `least`.
fn best_move(items: &[Item], plan: &AliasPlan, item: usize, least: usize) -> Option<(usize, u64)> {
    let (size, mask) = (items[item].size, items[item].alignment - 1);
    let mut candidates: BTreeSet<u64> = BTreeSet::from([0]);
    for (other, &offset) in plan.offsets.iter().enumerate() {
        let end = offset + items[other].size;
        candidates.extend([offset, (end + mask) & !mask]);
        candidates.extend(offset.checked_sub(size));
        candidates.extend(end.checked_sub(size));
    }
    candidates.retain(|&offset| offset & mask == 0 && offset + size <= plan.height && offset != plan.offsets[item]);
    let mut offsets = plan.offsets.clone();
    let mut best: Option<(usize, u64)> = None;
    for offset in candidates {
        if is_free(items, &plan.offsets, item, offset) {
            offsets[item] = offset;
            let count = transitions(items, &offsets).len();
            if count < best.map_or(least, |(count, _)| count) {
                best = Some((count, offset));
            }
        }
    }
    best
}

fn is_free(items: &[Item], offsets: &[u64], item: usize, offset: u64) -> bool {
    let end = offset + items[item].size;
    !(0..items.len()).any(|other| {
        let apart = end <= offsets[other] || offsets[other] + items[other].size <= offset;
        other != item && !apart && items[other].lifetime.overlaps(items[item].lifetime)
    })
}
