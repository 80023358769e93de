//! A free list: exact best fit, with all blocks, free and used, linked in address order. A *block* of this module is a
//! span of the heap: a range, or free space between ranges.
//!
//! ```text
//!   by address: a circular list of slots with a head; the head's offset is the capacity
//!
//!     ┌─▶ head: 16 ◀─▶ used: 0 ◀─▶ free: 4 ◀─▶ used: 7 ◀─▶ free: 8 ◀─┐
//!     └──────────────────────────────────────────────────────────────┘
//!
//!   by size: a treap (a search tree with random priorities) of the free blocks; its root is a child of the head
//!
//!     head ──▶ free: 8 (8 units)
//!               └─ left ──▶ free: 4 (3 units)
//!
//!   by offset: a hash table of the slots of used blocks
//!
//!     │ · │ used: 0 │ · │ · │ used: 7 │ · │ · │ · │
//!
//!   a node, 24 bytes
//!
//!     │ offset: 8 │ serial, or two children: 8 │ prev, with a bit for "used": 4 │ next: 4 │
//! ```
//!
//! Sizes are not stored: a block ends at the offset of the next one. Two neighbouring blocks are never both free.
//!
//! | operation | cost (n: blocks) | host allocations |
//! |---|---|---|
//! | `new` | O(1) | a few |
//! | `reserve` | O(ranges) | at most 2 |
//! | `allocate`, alignment 1 | O(log n) expected | only at a new maximum of blocks or ranges |
//! | … other alignments | O(log n + k) expected; k blocks are too short once aligned | the same |
//! | `free`, `free_at`, `largest_free` | O(log n) expected | 0 |
//! | `find` | O(1) expected | 0 |
//! | `is_live` | O(1) | 0 |
//! | `free_size`, `live_count` | O(1) | 0 |
//! | `for_each_span` | O(n) | 0 |
//! | `validate` | O(n) expected, plus the length of the hash table | some |
//!
//! Expected costs treat the hash values of the slots (in the treap) and of the offsets (in the hash table) as random.
//!
//! Drawbacks: best fit leaves small remainders, and each comparison in the treap reads two nodes. A caller that needs
//! neither [`FreeList::find`] nor exact best fit should use [`tlsf`](crate::tlsf), which is faster. With many odd sizes
//! and large alignments, k is large. If the caller rounds all sizes up to the largest alignment, every block is aligned
//! and k is 0.

mod by_offset;
mod by_size;

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serial, Serials, Span, align_up,
    check_request,
};
use alloc::vec::Vec;
use by_offset::OffsetIndex;
use core::fmt;

/// Slot of the circular list's head. As a child in the treap or as the next vacant slot, it means "none".
const HEAD: u32 = 0;
/// Bit of [`Node::prev_and_used`]: the block is used, not free.
const USED: u32 = 1 << 31;

/// A block of the heap, the head, or a vacant slot.
#[derive(Clone, Copy)]
struct Node {
    /// First unit of the block; the capacity for the head.
    offset: u64,
    /// Used block: its serial. Free block: the slots of its children in the treap, the left child in the low half.
    /// Head: the slot of the treap's root, as the left child. Vacant slot: 0.
    word: u64,
    /// Slot of the previous block, and [`USED`] if this block is used. The head counts as used, so no block merges with
    /// it.
    prev_and_used: u32,
    /// Slot of the next block; for a vacant slot, the next vacant slot.
    next: u32,
}

const _: () = assert!(size_of::<Node>() <= 24, "a node takes 24 bytes");

impl Node {
    const fn used(&self) -> bool {
        self.prev_and_used & USED != 0
    }

    const fn prev(&self) -> u32 {
        self.prev_and_used & !USED
    }

    fn set_prev(&mut self, prev: u32) {
        self.prev_and_used = (self.prev_and_used & USED) | prev;
    }
}

/// The nodes: the circular list of blocks, the treap of free blocks, and the vacant slots.
struct Slab {
    nodes: Vec<Node>,
    /// First vacant slot; [`HEAD`] if there is none.
    vacant: u32,
}

impl Slab {
    fn new(capacity: u64) -> Self {
        let head = Node { offset: capacity, word: 0, prev_and_used: HEAD | USED, next: HEAD };
        Self { nodes: Vec::from([head]), vacant: HEAD }
    }

    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }

    /// Returns the first unit after the block. `slot` must not be the head.
    fn end(&self, slot: u32) -> u64 {
        self.node(self.node(slot).next).offset
    }

    fn size(&self, slot: u32) -> u64 {
        self.end(slot) - self.node(slot).offset
    }

    /// Creates a free block at `offset` after the block `prev`, which becomes shorter. The caller inserts the new block
    /// into the treap.
    fn link_after(&mut self, prev: u32, offset: u64) -> u32 {
        let next = self.node(prev).next;
        let slot = self.take_slot(Node { offset, word: 0, prev_and_used: prev, next });
        self.node_mut(prev).next = slot;
        self.node_mut(next).set_prev(slot);
        slot
    }

    /// Removes a block from the circular list; the previous block grows by its size. The removed block must not be in
    /// the treap.
    fn unlink(&mut self, slot: u32) {
        let (prev, next) = (self.node(slot).prev(), self.node(slot).next);
        self.node_mut(prev).next = next;
        self.node_mut(next).set_prev(prev);
        *self.node_mut(slot) = Node { offset: 0, word: 0, prev_and_used: 0, next: self.vacant };
        self.vacant = slot;
    }

    fn take_slot(&mut self, node: Node) -> u32 {
        let slot = self.vacant;
        if slot == HEAD {
            let slot = self.nodes.len();
            assert!(slot < USED as usize, "the free list has 2^31 blocks already");
            self.nodes.push(node);
            return slot as u32;
        }
        self.vacant = self.node(slot).next;
        *self.node_mut(slot) = node;
        slot
    }
}

/// An allocator with exact best fit. It also finds and frees ranges by their offsets.
///
/// ```
/// use ringfence_core::free_list::FreeList;
/// use ringfence_core::range::{Allocate, RangeAllocator};
///
/// let mut heap = FreeList::new(64);
/// let first = heap.allocate(10, 1)?;
/// let second = heap.allocate(8, 16)?;
/// assert_eq!((first.offset(), second.offset()), (0, 16));
/// assert_eq!(format!("{heap:?}"), "FreeList { 0..10: used, 10..16: free, 16..24: used, 24..64: free }");
/// heap.free(second)?;
/// assert_eq!(heap.largest_free(), 54);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FreeList {
    slab: Slab,
    /// The slots of all used blocks.
    by_offset: OffsetIndex,
    source: Serials,
    /// Total size of the free blocks, in units.
    free: u64,
}

impl FreeList {
    /// Creates an allocator of `capacity` units, all free. O(1).
    ///
    /// # Panics
    /// If the capacity is 0.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        assert!(capacity != 0, "the capacity is 0");
        let mut slab = Slab::new(capacity);
        let whole = slab.link_after(HEAD, 0);
        slab.insert_free(whole);
        Self { slab, by_offset: OffsetIndex::new(), source: Serials::new(), free: capacity }
    }

    /// Reserves host memory for `ranges` live ranges in total. While at most this number of ranges is live, no
    /// allocation and no free allocates host memory. O(ranges).
    pub fn reserve(&mut self, ranges: usize) {
        // For each range, its block and a free block before it; a free block at the end; and the head.
        let nodes = ranges.saturating_mul(2).saturating_add(2);
        self.slab.nodes.reserve(nodes.saturating_sub(self.slab.nodes.len()));
        self.by_offset.reserve(ranges, &self.slab);
    }

    /// Returns the live range that begins at `offset`. Returns `None` if there is none. O(1) expected.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<Range> {
        let slot = self.by_offset.find(offset, &self.slab)?;
        let serial = Serial::from_u64(self.slab.node(slot).word)?;
        Some(Range::new(offset, self.slab.size(slot), slot, serial))
    }

    /// Frees the live range that begins at `offset` and returns it. O(log n) expected.
    ///
    /// This function is for callers that store only offsets. It cannot detect that the caller's range was freed already
    /// if another range begins at the same offset. A caller that has the [`Range`] should call [`Allocate::free`]
    /// instead.
    ///
    /// # Errors
    /// No live range begins at `offset`. A failed call changes nothing.
    pub fn free_at(&mut self, offset: u64) -> Result<Range, UnknownOffset> {
        let range = self.find(offset).ok_or(UnknownOffset { offset })?;
        self.release(range.slot());
        Ok(range)
    }

    /// Creates the used block `start..start + size` from the free block `free`, which contains it. Returns its slot.
    fn carve(&mut self, free: u32, start: u64, size: u64, serial: Serial) -> u32 {
        let (offset, end) = (self.slab.node(free).offset, self.slab.end(free));
        self.slab.remove_free(free);
        let used = if start == offset { free } else { self.slab.link_after(free, start) };
        if start + size != end {
            let rest = self.slab.link_after(used, start + size);
            self.slab.insert_free(rest);
        }
        if used != free {
            self.slab.insert_free(free);
        }
        let node = self.slab.node_mut(used);
        node.word = serial.get();
        node.prev_and_used |= USED;
        self.by_offset.insert(used, &self.slab);
        self.free -= size;
        used
    }

    /// Frees a used block and merges it with its free neighbours. The slot of the block with the lowest offset remains;
    /// the others become vacant.
    fn release(&mut self, slot: u32) {
        self.free += self.slab.size(slot);
        self.by_offset.remove(slot, &self.slab);
        let node = self.slab.node_mut(slot);
        node.word = 0;
        node.prev_and_used &= !USED;
        let (prev, next) = (node.prev(), node.next);
        if !self.slab.node(next).used() {
            self.slab.remove_free(next);
            self.slab.unlink(next);
        }
        let mut merged = slot;
        if !self.slab.node(prev).used() {
            self.slab.remove_free(prev);
            self.slab.unlink(slot);
            merged = prev;
        }
        self.slab.insert_free(merged);
    }

    #[cold]
    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        AllocError::OutOfSpace { size, alignment, free: self.free, largest_free: self.largest_free() }
    }

    /// Checks the circular list. Returns the numbers of free and used blocks.
    fn validate_ring(&self) -> Result<(usize, usize), Invalid> {
        let (mut slot, mut prev, mut offset) = (self.slab.node(HEAD).next, HEAD, 0);
        let (mut free, mut used, mut free_size) = (0, 0, 0);
        while slot != HEAD {
            let node = self.slab.node(slot);
            Invalid::unless(node.offset == offset, "a block begins where the one before ends", node.offset)?;
            Invalid::unless(node.prev() == prev, "the links agree in both directions", node.offset)?;
            Invalid::unless(self.slab.end(slot) > offset, "no block is empty", offset)?;
            if node.used() {
                let found = self.by_offset.find(offset, &self.slab);
                Invalid::unless(found == Some(slot), "a used block is found by its offset", offset)?;
                Invalid::unless(node.word != 0, "a used block has a serial", offset)?;
                used += 1;
            } else {
                let merged = prev == HEAD || self.slab.node(prev).used();
                Invalid::unless(merged, "no two neighbours are free", offset)?;
                free += 1;
                free_size += self.slab.size(slot);
            }
            (prev, offset, slot) = (slot, self.slab.end(slot), node.next);
        }
        Invalid::unless(self.slab.node(HEAD).prev() == prev, "the last block is before the head", u64::from(prev))?;
        Invalid::unless(offset == self.capacity(), "the blocks end at the capacity", offset)?;
        Invalid::unless(free_size == self.free, "the free size is the sum of the free blocks", self.free)?;
        Ok((free, used))
    }

    fn validate_vacant(&self, blocks: usize) -> Result<(), Invalid> {
        let (mut slot, mut vacant) = (self.slab.vacant, 0);
        while slot != HEAD && vacant <= self.slab.nodes.len() {
            let node = self.slab.node(slot);
            Invalid::unless(
                !node.used() && node.word == 0,
                "a vacant slot is not used and has no serial",
                u64::from(slot),
            )?;
            (slot, vacant) = (node.next, vacant + 1);
        }
        let slots = self.slab.nodes.len();
        Invalid::unless(1 + blocks + vacant == slots, "each slot is the head, a block or vacant", slots as u64)
    }
}

impl Allocate for FreeList {
    type Allocation = Range;
    type Error = AllocError;

    /// Allocates from the smallest free block that fits the request; if several have this size, from the one with the
    /// lowest offset. The range begins at the first aligned unit of the block. Units that are skipped for the alignment
    /// remain free.
    ///
    /// # Panics
    /// If there are 2³¹ blocks. Their nodes would take 48 GiB of host memory.
    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity())?;
        let free = self.slab.best_fit(size, alignment).ok_or_else(|| self.out_of_space(size, alignment))?;
        let start = align_up(self.slab.node(free).offset, alignment).expect("best_fit checked that it fits");
        let serial = self.source.draw();
        let slot = self.carve(free, start, size, serial);
        Ok(Range::new(start, size, slot, serial))
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        if !self.is_live(&range) {
            return Err(self.source.refuse(&range));
        }
        self.release(range.slot());
        Ok(())
    }
}

impl RangeAllocator for FreeList {
    fn capacity(&self) -> u64 {
        self.slab.node(HEAD).offset
    }

    fn free_size(&self) -> u64 {
        self.free
    }

    /// Returns exactly the largest size that would be granted with an alignment of 1.
    fn largest_free(&self) -> u64 {
        self.slab.largest_free()
    }

    fn live_count(&self) -> usize {
        self.by_offset.len()
    }

    /// Returns `true` if the node of the range's slot is in use and has the range's serial, offset and size.
    fn is_live(&self, range: &Range) -> bool {
        let slot = range.slot();
        self.slab.nodes.get(slot as usize).is_some_and(|node| {
            node.word == range.serial().get()
                && node.used()
                && slot != HEAD
                && node.offset == range.offset()
                && self.slab.size(slot) == range.size()
        })
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let mut slot = self.slab.node(HEAD).next;
        while slot != HEAD {
            let node = self.slab.node(slot);
            visit(Span { offset: node.offset, size: self.slab.size(slot), slot: node.used().then_some(slot) });
            slot = node.next;
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let (free, used) = self.validate_ring()?;
        self.validate_vacant(free + used)?;
        self.slab.validate_treap(free)?;
        self.by_offset.validate(used)
    }
}

/// Searches as an allocation does, at the same cost.
impl Peek for FreeList {
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity()).ok()?;
        let free = self.slab.best_fit(size, alignment)?;
        align_up(self.slab.node(free).offset, alignment)
    }
}

impl fmt::Debug for FreeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FreeList");
        self.for_each_span(&mut |span| {
            let state = if span.slot.is_some() { "used" } else { "free" };
            shown.field(&alloc::format!("{}..{}", span.offset, span.offset + span.size), &format_args!("{state}"));
        });
        shown.finish()
    }
}

/// Error of [`FreeList::free_at`]: no live range begins at this offset. It may have been freed already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOffset {
    /// The given offset, in units.
    pub offset: u64,
}

impl fmt::Display for UnknownOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no live range begins at offset {}: there was none, or it was freed already", self.offset)
    }
}

impl core::error::Error for UnknownOffset {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn seed_000_09_a_node_is_at_most_24_bytes() {
        assert_eq!(size_of::<Node>(), 24);
        // Each block takes one node, after any number of splits and merges. The head also takes one node.
        let mut list = FreeList::new(64);
        for _ in 0..3 {
            let ranges: Vec<_> = (0..16).map(|_| list.allocate(3, 4).unwrap()).collect();
            assert_eq!(list.slab.nodes.len(), 1 + 2 * 16);
            ranges.into_iter().for_each(|range| list.free(range).unwrap());
        }
    }

    /// Returns a list of 2 · `holes` blocks of `unit` units, alternately free and used: the largest number of free
    /// blocks.
    pub(super) fn checkerboard(holes: u64, unit: u64) -> FreeList {
        let mut list = FreeList::new(2 * holes * unit);
        let ranges: Vec<_> = (0..2 * holes).map(|_| list.allocate(unit, 1).unwrap()).collect();
        for range in ranges.iter().step_by(2) {
            list.free(*range).unwrap();
        }
        list
    }

    #[test]
    fn seed_000_08_both_indexes_are_shallow() {
        // For single units, and for offsets whose low bits are all 0.
        for unit in [1, 256, 64 << 10, 1 << 40] {
            let list = checkerboard(1 << 14, unit);
            // A random search tree of n nodes is about 4.31 ln n - 1.95 ln ln n deep: 37 here. The hash is fixed, so
            // this test is deterministic.
            let (depth, probe) = (list.slab.treap_depth(), list.by_offset.longest_probe(&list.slab));
            assert!(depth <= 45 && probe <= 32, "{depth} deep, {probe} probes for multiples of {unit}");
        }
    }

    /// Blocks of equal size do not form a chain in the size index, so no merge scans it from its start.
    #[test]
    fn fault_04_equal_sizes_do_not_deepen_the_index() {
        let mut list = checkerboard(1 << 12, 1);
        let used: Vec<_> = (0..1 << 13).filter_map(|offset| list.find(offset)).collect();
        for range in used.iter().step_by(2) {
            list.free(*range).unwrap();
        }
        assert!(list.slab.treap_depth() <= 40, "{}", list.slab.treap_depth());
        list.validate().unwrap();
    }

    #[test]
    fn seed_000_12_the_lowest_block_survives_a_merge() {
        let mut list = FreeList::new(4);
        let ranges: Vec<_> = (0..4).map(|_| list.allocate(1, 1).unwrap()).collect();
        for free_first in [0, 2, 1] {
            list.free(ranges[free_first]).unwrap();
        }
        let first = list.slab.node(HEAD).next;
        assert_eq!((first, list.slab.size(first)), (ranges[0].slot(), 3));
    }
}
