//! The order in which a request tries the blocks, and the blocks that it skips.
//!
//! ```text
//!   fullest first     [ (40, C), (100, D) ]       by free size, then age; a full block is not in the index
//!
//!   oldest first         100                      by slot, which is the age unless slots were reused; a tree of maxima
//!                   40       100                  finds the next block whose bound reaches the request
//!                 0    40  100
//! ```
//!
//! *Fullest first* is the order of the first document. *Oldest first* needs less memory if objects of many sizes are replaced
//! again and again: the youngest blocks become empty, while the fullest block is often one that a large request has just
//! left. `cargo run --release -- --only churn_bytes` in `bench` measures it.
//!
//! Each block has a *bound*: it grants no larger request. A request that fails in a block lowers the bound of the block,
//! and a free restores it.
//!
//! | operation | fullest first | oldest first |
//! |---|---|---|
//! | `first`, `insert`, `remove` | O(log blocks) | O(log blocks) |
//! | `after` | O(1) | O(log blocks) |
//! | `refused` | O(1) | O(log blocks) |
//! | `granted`, `freed` | O(1), O(log blocks) if the order changes | O(1), O(log blocks) if a request failed in the block before |

use super::index::{Index, Key, class_end};
use crate::fit_tree::FitTree;
use crate::range::Invalid;

/// The order of the blocks.
pub(super) enum Order {
    FullestFirst(Index),
    OldestFirst(FitTree),
}

impl Order {
    pub(super) const fn fullest_first() -> Self {
        Self::FullestFirst(Index::new())
    }

    pub(super) const fn oldest_first() -> Self {
        Self::OldestFirst(FitTree::empty())
    }

    /// Makes room for `slots` slots.
    pub(super) fn reserve(&mut self, slots: usize) {
        match self {
            Self::FullestFirst(index) => index.add_slot(),
            Self::OldestFirst(bounds) => bounds.reserve(slots),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::FullestFirst(index) => index.clear(),
            Self::OldestFirst(bounds) => *bounds = FitTree::empty(),
        }
    }

    /// Returns the slot of the first block that a request of `size` units tries; `None` if there is none.
    #[inline(always)]
    pub(super) fn first(&self, size: u64) -> Option<u32> {
        match self {
            Self::FullestFirst(index) => index.first_of(size),
            Self::OldestFirst(bounds) => bounds.first(size).map(|slot| slot as u32),
        }
    }

    /// Returns the slot of the block that the request tries after `slot`.
    pub(super) fn after(&self, slot: u32, size: u64) -> Option<u32> {
        match self {
            Self::FullestFirst(index) => index.after(slot),
            Self::OldestFirst(bounds) => bounds.first_from(slot as usize + 1, size).map(|slot| slot as u32),
        }
    }

    /// Returns the bound of a block, in units.
    #[inline(always)]
    pub(super) fn bound(&self, slot: u32) -> u64 {
        match self {
            Self::FullestFirst(index) => index.granted_max(slot),
            Self::OldestFirst(bounds) => bounds.get(slot as usize),
        }
    }

    /// Lowers the bound: the block grants no request of more than `units`.
    #[inline]
    pub(super) fn refused(&mut self, slot: u32, units: u64) {
        match self {
            Self::FullestFirst(index) => index.lower_granted_max(slot, units),
            Self::OldestFirst(bounds) => bounds.set(slot as usize, units.min(bounds.get(slot as usize))),
        }
    }

    /// Adds a block of `capacity` units.
    pub(super) fn insert(&mut self, slot: u32, key: Key, capacity: u64) {
        match self {
            Self::FullestFirst(index) => {
                index.forget_granted_max(slot);
                index.update(slot, key);
            }
            Self::OldestFirst(bounds) => bounds.set(slot as usize, capacity),
        }
    }

    /// Records the key of a block that granted a range. If a request failed in the block before, the bound rises to the
    /// largest size in the class of that request: an allocator reads only some spans of a class, and a longer one can now
    /// be among them.
    #[inline(always)]
    pub(super) fn granted(&mut self, slot: u32, key: Key, capacity: u64) {
        match self {
            Self::FullestFirst(index) => {
                index.note_grant(slot);
                index.update(slot, key);
            }
            Self::OldestFirst(bounds) => {
                let bound = bounds.get(slot as usize);
                if bound < capacity {
                    bounds.set(slot as usize, class_end(bound).min(capacity));
                }
            }
        }
    }

    /// Records the key of a block in which a range was freed. The bound no longer holds, because a longer span may exist.
    #[inline(always)]
    pub(super) fn freed(&mut self, slot: u32, key: Key, capacity: u64) {
        match self {
            Self::FullestFirst(index) => {
                index.forget_granted_max(slot);
                index.update(slot, key);
            }
            Self::OldestFirst(bounds) => bounds.set(slot as usize, capacity),
        }
    }

    /// Removes a block.
    pub(super) fn remove(&mut self, slot: u32) {
        match self {
            Self::FullestFirst(index) => index.remove(slot),
            Self::OldestFirst(bounds) => bounds.set(slot as usize, 0),
        }
    }

    /// Checks the entry of a slot: `block` has the key and the longest free span of its block, if there is one.
    ///
    /// # Errors
    /// The first violated rule.
    pub(super) fn validate_slot(&self, slot: u32, block: Option<(Key, u64)>) -> Result<(), Invalid> {
        let at = slot.into();
        if let Self::FullestFirst(index) = self {
            let expected = block.map(|(key, _)| key).filter(|(free_size, _)| *free_size != 0);
            Invalid::unless(index.key(slot) == expected, "the index has the key of every block that is not full", at)?;
        } else if block.is_none() {
            Invalid::unless(self.bound(slot) == 0, "a slot without a block grants nothing", at)?;
        }
        let is_true = block.is_none_or(|((free_size, _), longest)| free_size == 0 || self.bound(slot) >= longest);
        Invalid::unless(is_true, "the bound of a block covers its longest free span", at)
    }

    /// Checks the rules of the structure.
    ///
    /// # Errors
    /// The first violated rule.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::FullestFirst(index) => index.validate(),
            Self::OldestFirst(bounds) => bounds.validate(),
        }
    }
}
