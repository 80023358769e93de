//! Aliasing transitions: how often an item begins on bytes that another had before.
//!
//! ```text
//!   space ▲  ┌──a──┐ ┌────c────┐     c begins on bytes of a and of b: two transitions, two barriers
//!         │  ├──b──┤ │         │
//!         └──┴─────┴─┴─────────┴─▶ time
//! ```
//!
//! Counting walks over time with a map of which item had which bytes last: O(n log n + transitions). The map splits and
//! joins, so that an item is met once for each run of bytes that it still has.
//! [`lower_transitions`](super::lower_transitions) counts in another way, once it has made its columns; the two are
//! compared by tests.

use super::item::Item;
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
/// There are not as many offsets as items, or an item ends above `u64::MAX`; [`verify`](super::verify) refuses such
/// offsets.
#[must_use]
pub fn transitions(items: &[Item], offsets: &[u64]) -> Vec<Transition> {
    assert_eq!(items.len(), offsets.len(), "there is one offset per item");
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| (items[index].lifetime.lower, index));
    in_order(order.into_iter(), |index| items[index].size, offsets)
}

/// The transitions where items get their bytes in this order.
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

/// Of every byte the item that had it last: by first byte, the end and the item.
#[derive(Default)]
struct Owners {
    runs: BTreeMap<u64, (u64, usize)>,
}

impl Owners {
    /// Gives `start..end` to an item, and returns which items had bytes of it.
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
