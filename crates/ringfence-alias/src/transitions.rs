//! Aliasing transitions: pairs of items where the second begins on bytes that the first had last.
//!
//! ```text
//!   space ▲  ┌──a──┐ ┌────c────┐     c begins on bytes of a and of b: two transitions, two barriers
//!         │  ├──b──┤ │         │
//!         └──┴─────┴─┴─────────┴─▶ time
//! ```
//!
//! A sweep over time finds them with a map of the last owner of each byte: O(n log n). The map has runs of bytes, which
//! a new item splits and replaces. So an item is met once for each run that it still has.
//! [`lower_transitions`](super::lower_transitions) counts in another way, with columns; tests compare the two.

use super::item::Item;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A required barrier: `after` begins on bytes that `before` had last. Items are identified by their indices in the
/// slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Transition {
    /// The item that had the bytes before.
    pub before: usize,
    /// The item that has the bytes now.
    pub after: usize,
}

/// Returns the transitions of a plan, in the order in which the items [`after`](Transition::after) begin. Each pair
/// occurs once. The offsets must be a plan of the items.
///
/// # Panics
/// If the number of offsets differs from the number of items, or if an item ends above `u64::MAX`;
/// [`verify`](super::verify) rejects such offsets.
#[must_use]
pub fn transitions(items: &[Item], offsets: &[u64]) -> Vec<Transition> {
    assert_eq!(items.len(), offsets.len(), "there is one offset per item");
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| (items[index].lifetime.lower, index));
    in_order(order.into_iter(), |index| items[index].size, offsets)
}

/// Returns the transitions if items get their bytes in this order.
pub(super) fn in_order(
    order: impl Iterator<Item = usize>,
    size: impl Fn(usize) -> u64,
    offsets: &[u64],
) -> Vec<Transition> {
    let mut owners = Owners::default();
    let mut found = Vec::new();
    for after in order {
        let end = offsets[after].checked_add(size(after)).expect("the item ends below 2^64");
        let before = owners.take(offsets[after], end, after);
        found.extend(before.into_iter().map(|before| Transition { before, after }));
    }
    found
}

/// The last owner of each byte, as runs: first byte, end and item.
#[derive(Default)]
struct Owners {
    runs: BTreeMap<u64, (u64, usize)>,
}

impl Owners {
    /// Assigns `start..end` to an item. Returns the items that had bytes of the range.
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
