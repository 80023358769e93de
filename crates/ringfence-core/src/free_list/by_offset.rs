//! The offset index: a hash table of the slots of used blocks, with open addressing and linear probing.
//!
//! ```text
//!   table   │ · │ 7 │ 3 │ 9 │ · │ · │ 5 │ · │       · is a gap: 0, the head's slot, which is never an entry
//!                 ▲   ▲   └ home is 1, found after two steps
//!                 │   └ home is 1, found after one step
//!                 └ home is 1
//! ```
//!
//! The *home* of an entry is the position that the hash of its offset gives. There is no gap between the home of an
//! entry and its position, so a search stops at the first gap. When an entry is removed, later entries are moved into
//! the gap where necessary. So the table needs no tombstones, and searches do not become slower over time. The table is
//! at most half full.
//!
//! | operation | cost |
//! |---|---|
//! | `find`, `remove` | O(1) expected |
//! | `insert` | O(1) expected; O(entries) if the table grows |

use super::{HEAD, Slab};
use crate::range::Invalid;
use alloc::boxed::Box;
use alloc::vec;

pub(super) struct OffsetIndex {
    /// Slots of used blocks; 0 is a gap. The length is a power of two.
    table: Box<[u32]>,
    /// Number of entries.
    len: usize,
}

impl OffsetIndex {
    pub(super) fn new() -> Self {
        Self { table: vec![HEAD; 16].into_boxed_slice(), len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot of the used block that begins at `offset`. Returns `None` if there is none.
    pub(super) fn find(&self, offset: u64, slab: &Slab) -> Option<u32> {
        let mut place = self.home(offset);
        loop {
            let slot = self.table[place];
            if slot == HEAD {
                return None;
            }
            if slab.node(slot).offset == offset {
                return Some(slot);
            }
            place = self.after(place);
        }
    }

    /// Inserts the slot of a used block. No other entry may have the offset of this block.
    pub(super) fn insert(&mut self, slot: u32, slab: &Slab) {
        if self.table.len() < 2 * (self.len + 1) {
            self.grow(2 * self.table.len(), slab);
        }
        self.place(slot, slab);
        self.len += 1;
    }

    /// Removes a slot. Its block must still have the offset of its insertion.
    pub(super) fn remove(&mut self, slot: u32, slab: &Slab) {
        let mut gap = self.home(slab.node(slot).offset);
        while self.table[gap] != slot {
            assert!(self.table[gap] != HEAD, "a used block is in the offset index");
            gap = self.after(gap);
        }
        let mut place = gap;
        loop {
            place = self.after(place);
            let moved = self.table[place];
            if moved == HEAD {
                break;
            }
            let home = self.home(slab.node(moved).offset);
            if self.distance(home, place) >= self.distance(gap, place) {
                self.table[gap] = moved;
                gap = place;
            }
        }
        self.table[gap] = HEAD;
        self.len -= 1;
    }

    /// Reserves host memory for `entries` entries in total.
    pub(super) fn reserve(&mut self, entries: usize, slab: &Slab) {
        let wanted = entries.saturating_mul(2).next_power_of_two();
        if wanted > self.table.len() {
            self.grow(wanted, slab);
        }
    }

    #[cold]
    fn grow(&mut self, table_len: usize, slab: &Slab) {
        let before = core::mem::replace(&mut self.table, vec![HEAD; table_len].into_boxed_slice());
        for &slot in before.iter().filter(|&&slot| slot != HEAD) {
            self.place(slot, slab);
        }
    }

    fn place(&mut self, slot: u32, slab: &Slab) {
        let mut place = self.home(slab.node(slot).offset);
        while self.table[place] != HEAD {
            place = self.after(place);
        }
        self.table[place] = slot;
    }

    /// Returns the home of an offset: the position at which the search for it starts. The high bits of the product
    /// depend on all bits of the offset, so multiples of a large power of two are also distributed evenly.
    fn home(&self, offset: u64) -> usize {
        let hash = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.table.len().trailing_zeros())) as usize
    }

    const fn after(&self, place: usize) -> usize {
        (place + 1) & (self.table.len() - 1)
    }

    /// Returns the number of steps from `from` to `place`.
    const fn distance(&self, from: usize, place: usize) -> usize {
        place.wrapping_sub(from) & (self.table.len() - 1)
    }

    /// Checks the counts. `validate_ring` checks that every used block is found by its offset.
    pub(super) fn validate(&self, used: usize) -> Result<(), Invalid> {
        let entries = self.table.iter().filter(|&&slot| slot != HEAD).count();
        Invalid::unless(entries == used, "the offset index holds the used blocks only", entries as u64)?;
        Invalid::unless(self.len == used, "the live count is that of the used blocks", self.len as u64)?;
        Invalid::unless(2 * entries <= self.table.len(), "the offset index is at most half full", entries as u64)
    }

    #[cfg(test)]
    pub(super) fn longest_probe(&self, slab: &Slab) -> usize {
        let probe = |(place, &slot): (usize, &u32)| self.distance(self.home(slab.node(slot).offset), place);
        self.table.iter().enumerate().filter(|(_, slot)| **slot != HEAD).map(probe).max().unwrap_or(0)
    }
}
