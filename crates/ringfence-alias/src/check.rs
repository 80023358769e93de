//! The checker: whether a plan is valid. It shares no code with the planners.
//!
//! ```text
//!   time ──▶   ends first, then beginnings; alive items lie in a map by offset
//!
//!   map:  [a 0..4)      [c 10..12)
//!               [b 4..10)            b is new: it may only touch the one below and the one above
//! ```
//!
//! The items alive are apart from one another at every moment; so a new one need be compared with its two neighbours
//! only. O(n log n).

use super::item::{Item, ItemError, check_lifetimes, check_sizes};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

/// What is wrong with a plan. Items are named by their place in the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// The items themselves cannot be planned.
    Item(ItemError),
    /// There are not as many offsets as items.
    Count {
        /// How many items.
        items: usize,
        /// How many offsets.
        offsets: usize,
    },
    /// An offset is no multiple of the alignment.
    Misaligned {
        /// Which item.
        index: usize,
        /// Its offset.
        offset: u64,
        /// The alignment that it asked for.
        alignment: u64,
    },
    /// An item ends beyond the capacity.
    BeyondCapacity {
        /// Which item.
        index: usize,
        /// Its offset.
        offset: u64,
        /// Its size.
        size: u64,
        /// What there is.
        capacity: u64,
    },
    /// Two items share bytes while both are alive.
    Overlap {
        /// The one.
        first: usize,
        /// The other.
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

/// Proves a plan: no two items overlap in time and space, each is aligned, each ends within `capacity`. O(n log n).
///
/// # Errors
/// The first violation that was found.
pub fn verify(items: &[Item], offsets: &[u64], capacity: u64) -> Result<(), Violation> {
    check_sizes(items.iter().map(|item| (item.size, item.alignment))).map_err(Violation::Item)?;
    check_lifetimes(items).map_err(Violation::Item)?;
    check_places(items.iter().map(|item| (item.size, item.alignment)), offsets, capacity)?;
    check_apart(items, offsets)
}

/// Each item by itself: alignment and capacity.
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

/// The walk over time.
fn check_apart(items: &[Item], offsets: &[u64]) -> Result<(), Violation> {
    let mut alive = BTreeMap::new();
    for (_, begins, index) in events(items) {
        let (offset, end) = (offsets[index], offsets[index] + items[index].size);
        if !begins {
            alive.remove(&offset);
            continue;
        }
        // The one that ends highest among those that begin below `end` is the last of them: they are apart.
        if let Some((_, &(second, second_end))) = alive.range(..end).next_back()
            && second_end > offset
        {
            return Err(Violation::Overlap { first: index.min(second), second: index.max(second) });
        }
        alive.insert(offset, (index, end));
    }
    Ok(())
}

/// Ends and beginnings in order of time, at each moment the ends first: `false` sorts before `true`.
fn events(items: &[Item]) -> Vec<(u64, bool, usize)> {
    let both =
        |(index, item): (usize, &Item)| [(item.lifetime.lower, true, index), (item.lifetime.upper, false, index)];
    let mut events: Vec<_> = items.iter().enumerate().flat_map(both).collect();
    events.sort_unstable();
    events
}
