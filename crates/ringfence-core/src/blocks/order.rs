//! The order in which a request tries the blocks, and the blocks that it skips.
//!
//! ```text
//!   FullestFirst    [ (40, C), (100, D) ]            by free size, then age; a full block is not in the index
//!
//!   OldestFirst     bounds  0 40 0 100 │ 9 0 60 0    by slot, which is the age unless slots were reused
//!                   groups     100     │    60       an upper bound of the bounds of a group (here 4 slots)
//! ```
//!
//! [`FullestFirst`] is the order of `Blocks::new`. [`OldestFirst`] needs less memory if objects of many sizes are
//! replaced again and again: it fills the old blocks first, so the youngest ones become empty. [`FullestFirst`] often
//! puts a small object into the gap that a large range has just left, and the next large range may then need another
//! block. `cargo run --release -- --only churn_bytes` in `bench` measures the difference.
//!
//! Each block has a *bound*: a request that is larger than the bound skips the block. If a request fails in a block,
//! the bound is lowered. If a later request is granted, the bound rises to the largest size in the class of the
//! smallest request that failed. If a range is freed in the block, the bound is removed: until the next failure, only
//! the number of free units decides if the block is tried.
//!
//! | operation | fullest first | oldest first |
//! |---|---|---|
//! | `search` | O(log blocks), and O(1) for each block that is skipped | O(blocks / 16), and O(16) for each group that may have a block |
//! | `insert`, `remove` | O(log blocks) | O(1) |
//! | `granted`, `freed` | O(1), O(log blocks) if the order changes | O(1) |

use super::index::{Index, Key, class_end};
use crate::range::Invalid;
use alloc::vec::Vec;

/// Number of slots of a group.
const GROUP: usize = 16;

/// The order of the blocks of [`Blocks`](super::Blocks). Only the two types of this module implement it.
pub trait Order: private::Order {}

/// The order that begins with the fullest block that has enough free units.
pub struct FullestFirst(pub(super) Index);

/// The order that begins with the oldest block.
pub struct OldestFirst {
    /// The bound of each slot, in units; 0 without a block.
    bounds: Vec<u64>,
    /// For each group of slots, an upper bound of the bounds of its slots. A search that finds no slot in the group
    /// lowers it.
    groups: Vec<u64>,
}

impl Order for FullestFirst {}
impl Order for OldestFirst {}

impl OldestFirst {
    pub(super) const fn new() -> Self {
        Self { bounds: Vec::new(), groups: Vec::new() }
    }

    #[inline(always)]
    fn set(&mut self, slot: u32, bound: u64) {
        self.bounds[slot as usize] = bound;
        let group = &mut self.groups[slot as usize / GROUP];
        *group = (*group).max(bound);
    }
}

pub(super) mod private {
    use super::{Invalid, Key};

    /// The operations of an order.
    pub trait Order {
        /// Makes room for `slots` slots.
        fn reserve(&mut self, slots: usize);

        /// Removes all blocks and slots.
        fn clear(&mut self);

        /// Calls `ask` with the slot of each block with a bound of at least `size`, in the order of the blocks, until
        /// `ask` returns a value. If `ask` returns an error, the error is a bound: the block grants no larger request.
        fn search<R>(&mut self, size: u64, ask: impl FnMut(u32) -> Result<R, u64>) -> Option<(u32, R)>;

        /// Returns the slot of the first block with at least `size` free units. If `slot` is given, searches after that
        /// slot. Ignores the bounds, because they hold for one method of the allocators only. `free_size` returns the
        /// free units of the block in a slot.
        fn with_room(&self, slot: Option<u32>, size: u64, free_size: impl Fn(usize) -> Option<u64>) -> Option<u32>;

        /// Adds a block.
        fn insert(&mut self, slot: u32, key: Key);

        /// Records the key of a block that granted a range. If requests failed in the block before, the bound rises to
        /// the largest size in the class of the smallest of them: an allocator tries only some spans of a class, and
        /// after the allocation a longer span can be among them.
        fn granted(&mut self, slot: u32, key: Key);

        /// Records the key of a block in which a range was freed. Removes the bound, because a longer span may exist.
        fn freed(&mut self, slot: u32, key: Key);

        /// Removes a block.
        fn remove(&mut self, slot: u32);

        /// Checks the entry of a slot. `block` has the key and the longest free span of the slot's block, or is `None`
        /// if there is no block.
        ///
        /// # Errors
        /// The first violated rule.
        fn validate_slot(&self, slot: u32, block: Option<(Key, u64)>) -> Result<(), Invalid>;

        /// Checks the rules of the structure.
        ///
        /// # Errors
        /// The first violated rule.
        fn validate(&self) -> Result<(), Invalid>;
    }
}

fn covers(bound: u64, block: Option<(Key, u64)>, slot: u32) -> Result<(), Invalid> {
    let is_true = block.is_none_or(|((free_size, _), longest)| free_size == 0 || bound >= longest);
    Invalid::unless(is_true, "the bound of a block covers its longest free span", slot.into())
}

impl private::Order for FullestFirst {
    fn reserve(&mut self, _: usize) {
        self.0.add_slot();
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    #[inline(always)]
    fn search<R>(&mut self, size: u64, mut ask: impl FnMut(u32) -> Result<R, u64>) -> Option<(u32, R)> {
        let mut next = self.0.first_of(size);
        while let Some(slot) = next {
            if self.0.granted_max(slot) >= size {
                match ask(slot) {
                    Ok(found) => return Some((slot, found)),
                    Err(bound) => self.0.lower_granted_max(slot, bound),
                }
            }
            next = self.0.after(slot);
        }
        None
    }

    fn with_room(&self, slot: Option<u32>, size: u64, _: impl Fn(usize) -> Option<u64>) -> Option<u32> {
        slot.map_or_else(|| self.0.first_of(size), |slot| self.0.after(slot))
    }

    fn insert(&mut self, slot: u32, key: Key) {
        self.freed(slot, key);
    }

    #[inline]
    fn granted(&mut self, slot: u32, key: Key) {
        self.0.note_grant(slot);
        self.0.update(slot, key);
    }

    #[inline]
    fn freed(&mut self, slot: u32, key: Key) {
        self.0.forget_granted_max(slot);
        self.0.update(slot, key);
    }

    fn remove(&mut self, slot: u32) {
        self.0.remove(slot);
    }

    fn validate_slot(&self, slot: u32, block: Option<(Key, u64)>) -> Result<(), Invalid> {
        let expected = block.map(|(key, _)| key).filter(|(free_size, _)| *free_size != 0);
        let is_known = self.0.key(slot) == expected;
        Invalid::unless(is_known, "the index has the key of every block that is not full", slot.into())?;
        covers(self.0.granted_max(slot), block, slot)
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.0.validate()
    }
}

impl private::Order for OldestFirst {
    fn reserve(&mut self, slots: usize) {
        self.bounds.resize(slots.max(self.bounds.len()), 0);
        self.groups.resize(self.bounds.len().div_ceil(GROUP), 0);
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    #[inline(always)]
    fn search<R>(&mut self, size: u64, mut ask: impl FnMut(u32) -> Result<R, u64>) -> Option<(u32, R)> {
        let groups = self.groups.iter_mut().zip(self.bounds.chunks_mut(GROUP)).enumerate();
        for (group, (group_max, bounds)) in groups.filter(|(_, (group_max, _))| **group_max >= size) {
            let mut max = 0;
            for (at, bound) in bounds.iter_mut().enumerate() {
                if *bound >= size {
                    let slot = (group * GROUP + at) as u32;
                    match ask(slot) {
                        Ok(found) => return Some((slot, found)),
                        Err(refused) => *bound = refused.min(*bound),
                    }
                }
                max = max.max(*bound);
            }
            *group_max = max;
        }
        None
    }

    fn with_room(&self, slot: Option<u32>, size: u64, free_size: impl Fn(usize) -> Option<u64>) -> Option<u32> {
        let from = slot.map_or(0, |slot| slot as usize + 1);
        let has_room = |slot: &usize| free_size(*slot).is_some_and(|free_size| free_size >= size);
        (from..self.bounds.len()).find(has_room).map(|slot| slot as u32)
    }

    fn insert(&mut self, slot: u32, key: Key) {
        self.freed(slot, key);
    }

    #[inline]
    fn granted(&mut self, slot: u32, (free_size, _): Key) {
        let bound = self.bounds[slot as usize];
        if bound < free_size {
            self.set(slot, class_end(bound).min(free_size));
        } else {
            self.bounds[slot as usize] = free_size;
        }
    }

    #[inline]
    fn freed(&mut self, slot: u32, (free_size, _): Key) {
        self.set(slot, free_size);
    }

    fn remove(&mut self, slot: u32) {
        self.bounds[slot as usize] = 0;
    }

    fn validate_slot(&self, slot: u32, block: Option<(Key, u64)>) -> Result<(), Invalid> {
        let bound = self.bounds[slot as usize];
        Invalid::unless(block.is_some() || bound == 0, "a slot without a block grants nothing", slot.into())?;
        covers(bound, block, slot)
    }

    fn validate(&self) -> Result<(), Invalid> {
        let is_true = |(slot, bound): (usize, &u64)| self.groups[slot / GROUP] >= *bound;
        let all = self.bounds.iter().enumerate().all(is_true);
        Invalid::unless(all, "a group covers the bounds of its slots", 0)
    }
}
