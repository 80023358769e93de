//! The checker of plans. It shares no code with the planners, except the checks of the items.
//!
//! ```text
//!   time ──▶   ends first, then beginnings; a map has the live items by offset
//!
//!   map:  [a 0..4)      [c 10..12)
//!               [b 4..10)            b is new: it may touch the items below and above, but must not overlap them
//! ```
//!
//! Live items do not overlap. So a new item is compared only with the highest live item that begins below the end of
//! the new one. O(n log n).

use super::internals::limits::{check_lifetimes, check_sizes};
use super::item::{Item, ItemError};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

/// Fault of a plan. Items are identified by their indices in the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// The items themselves cannot be planned.
    Item(ItemError),
    /// The number of offsets is not the number of items.
    Count {
        /// Number of items.
        items: usize,
        /// Number of offsets.
        offsets: usize,
    },
    /// An offset is not a multiple of the item's alignment.
    Misaligned {
        /// Index of the item.
        index: usize,
        /// Offset of the item.
        offset: u64,
        /// Alignment of the item.
        alignment: u64,
    },
    /// An item ends beyond the capacity.
    BeyondCapacity {
        /// Index of the item.
        index: usize,
        /// Offset of the item.
        offset: u64,
        /// Size of the item.
        size: u64,
        /// The capacity.
        capacity: u64,
    },
    /// Two items share bytes while both are alive.
    Overlap {
        /// Index of one item.
        first: usize,
        /// Index of the other item.
        second: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Item(error) => error.fmt(f),
            Self::Count { items, offsets } => write!(f, "{items} items, but {offsets} offsets"),
            Self::Misaligned { index, offset, alignment } => {
                write!(f, "item {index} is at offset {offset}, which is not a multiple of {alignment}")
            }
            Self::BeyondCapacity { index, offset, size, capacity } => {
                write!(f, "item {index} of size {size} at {offset} ends beyond the capacity {capacity}")
            }
            Self::Overlap { first, second } => write!(f, "items {first} and {second} share bytes while both are alive"),
        }
    }
}

impl core::error::Error for Violation {}

/// Checks a plan: no two items share bytes while both are alive, each is aligned, each ends within `capacity`. O(n log
/// n).
///
/// # Errors
/// The first violation that was found.
pub fn verify(items: &[Item], offsets: &[u64], capacity: u64) -> Result<(), Violation> {
    check_sizes(items.iter().map(|item| (item.size, item.alignment))).map_err(Violation::Item)?;
    check_lifetimes(items).map_err(Violation::Item)?;
    check_places(items.iter().map(|item| (item.size, item.alignment)), offsets, capacity)?;
    check_apart(items, offsets)
}

/// Checks the number of offsets, and the alignment and end of each item.
pub(super) fn check_places(
    items: impl ExactSizeIterator<Item = (u64, u64)>,
    offsets: &[u64],
    capacity: u64,
) -> Result<(), Violation> {
    if items.len() != offsets.len() {
        return Err(Violation::Count { items: items.len(), offsets: offsets.len() });
    }
    for (index, ((size, alignment), &offset)) in items.zip(offsets).enumerate() {
        if offset & (alignment - 1) != 0 {
            return Err(Violation::Misaligned { index, offset, alignment });
        }
        if offset.checked_add(size).is_none_or(|end| end > capacity) {
            return Err(Violation::BeyondCapacity { index, offset, size, capacity });
        }
    }
    Ok(())
}

/// Checks, by a sweep over time, that items that are alive together share no bytes.
fn check_apart(items: &[Item], offsets: &[u64]) -> Result<(), Violation> {
    let mut alive = BTreeMap::new();
    for (_, begins, index) in events(items) {
        let (offset, end) = (offsets[index], offsets[index] + items[index].size);
        if !begins {
            alive.remove(&offset);
            continue;
        }
        // Live items do not overlap, so of those that begin below `end` the last one also ends highest.
        if let Some((_, &(second, second_end))) = alive.range(..end).next_back()
            && second_end > offset
        {
            return Err(Violation::Overlap { first: index.min(second), second: index.max(second) });
        }
        alive.insert(offset, (index, end));
    }
    Ok(())
}

/// Returns the events in the order of time. At each moment the ends come first, because `false` sorts before `true`.
fn events(items: &[Item]) -> Vec<(u64, bool, usize)> {
    let both =
        |(index, item): (usize, &Item)| [(item.lifetime.lower, true, index), (item.lifetime.upper, false, index)];
    let mut events: Vec<_> = items.iter().enumerate().flat_map(both).collect();
    events.sort_unstable();
    events
}
