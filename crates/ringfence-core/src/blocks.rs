//! Growable blocks: a growing list of heaps, each with its own range allocator.
//!
//! ```text
//!   slots     [ A: heap, allocator │ –  │ C: heap, allocator │ D: heap, allocator ]
//!                free 0                   free 40              free 100 of 100
//!                                            │                    │
//!   order     [ C, D ]                       the blocks that a request tries: by free size, or by age
//!   empties   [ D since tick 7 ]             the blocks without a range, in the order in which they became empty
//! ```
//!
//! A request tries the blocks that have enough free units, in ascending order of their free units ([`Blocks::new`]), or
//! the oldest block first ([`Blocks::oldest_first`]). So requests fill some blocks, and the others can become empty. A
//! block is skipped if its longest free span is known to be too short.
//!
//! The driver can take milliseconds to create a heap, and no lock that an allocation needs may be held during that
//! time. So the caller creates and destroys the heaps. A caller that protects the blocks with a lock proceeds as
//! follows:
//!
//! 1. locked: [`Blocks::try_allocate`]; if it fails,
//! 2. unlocked: create a heap of [`Blocks::new_block_size`] units and its allocator, and allocate the range from this
//!    allocator, before another thread can use it;
//! 3. locked: [`Blocks::insert`]; the allocation is [`BlockAllocation::new`] of the returned block and the range;
//! 4. once per tick, locked: call [`Blocks::take_surplus`] until it returns `None`; unlocked: destroy the returned
//!    heaps.
//!
//! If no lock protects the blocks, [`Blocks::allocate_with`] or [`GrowableBlocks`] does steps 1 to 3 in one call.
//!
//! | operation | cost, in addition to that of the blocks' allocators |
//! |---|---|
//! | `try_allocate` | O(log blocks), or O(blocks) if the oldest block is first; O(blocks) if the request fails |
//! | … for each block that has enough free units but no fitting span | one attempt, or O(1) if it is skipped |
//! | `try_allocate_by` | the same, but no block is skipped |
//! | `free`, `allocate_in` | O(1), or O(log blocks) if the order of the blocks changes |
//! | … an allocation in an empty block | O(empty blocks) more |
//! | `insert`, `take_surplus`, `take_empty`, `remove_empty` | O(log blocks + empty blocks) |
//! | … `insert` | allocates host memory too |
//! | `get`, `is_live`, `block_count`, `empty_count` | O(1) |
//! | `statistics`, `iter`, `drain` | O(blocks) |

mod check;
mod growable;
mod index;
mod names;
mod order;

pub use growable::{BlockSource, GrowError, GrowableBlocks};
pub use names::{BlockAllocation, BlockId};
pub use order::{FullestFirst, OldestFirst, Order};

use crate::range::{AllocError, FreeError, Range, RangeAllocator, Serial, Serials, check_request};
use alloc::vec::Vec;
use core::fmt;
use index::Key;

/// Sizes of new blocks, and rules by which empty blocks are destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlocksDesc {
    /// Size of a new block, in units. If a request is larger, the new block has the size of the request.
    pub basic_size: u64,
    /// Number of empty blocks that [`Blocks::take_surplus`] always leaves. Further empty blocks are surplus; the block
    /// that has been empty longest is removed first.
    pub destroy_threshold: usize,
    /// Number of ticks after which a surplus block that stays empty is removed. 0 counts as 1, so that a loop that
    /// allocates and frees within one tick does not create and destroy a heap each time. The caller counts ticks
    /// ([`Blocks::take_surplus`]).
    pub grace_ticks: u64,
}

impl Default for BlocksDesc {
    /// Returns a description with blocks of 64 Mi units. One empty block is always left; surplus blocks are removed
    /// after 60 ticks.
    fn default() -> Self {
        Self { basic_size: 64 << 20, destroy_threshold: 1, grace_ticks: 60 }
    }
}

/// Statistics of all blocks together, from [`Blocks::statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlocksStatistics {
    /// Number of blocks.
    pub block_count: usize,
    /// Number of blocks without a live range.
    pub empty_count: usize,
    /// Sum of the capacities of all blocks, in units.
    pub capacity: u64,
    /// Total size of the free spans of all blocks, in units.
    pub free_size: u64,
    /// Largest [`RangeAllocator::largest_free`] of the blocks' allocators, in units. 0 without blocks.
    pub largest_free: u64,
    /// Number of live ranges in all blocks.
    pub live_count: usize,
}

/// A heap and its allocator.
struct Block<A, H> {
    heap: H,
    allocator: A,
    serial: Serial,
    /// Capacity of the allocator, in units.
    initial_size: u64,
    /// Free units of the allocator, as of the last update of the order.
    free_size: u64,
}

/// A block without a live range.
#[derive(Clone, Copy)]
struct Empty {
    slot: u32,
    /// The first tick that was reported after the block became empty; [`NOT_REPORTED`] before this tick.
    since: u64,
}

const NOT_REPORTED: u64 = u64::MAX;

/// A growing list of blocks. Each block has a heap `H` and an allocator `A` of the heap's ranges.
///
/// The caller creates and destroys the heaps, as the [module](self) describes. If the blocks are dropped, the heaps are
/// dropped too.
pub struct Blocks<A, H, O = FullestFirst> {
    /// The block of each slot. The slot of a removed block is reused for a block with another serial.
    slots: Vec<Option<Block<A, H>>>,
    /// Slots without a block.
    vacant: Vec<u32>,
    /// The order in which requests try the blocks.
    order: O,
    /// All blocks without a live range, in the order in which they became empty.
    empties: Vec<Empty>,
    /// The latest reported tick.
    now: u64,
    /// Total size of the empty blocks that were used again, in units; it wraps around.
    reused_size: u64,
    /// Source of the blocks' serials: a later block has a larger serial.
    serials: Serials,
    desc: BlocksDesc,
}

impl<A, H> Blocks<A, H> {
    /// Creates an empty list of blocks. A request first tries the fullest block that has enough free units.
    #[must_use]
    pub const fn new(desc: BlocksDesc) -> Self {
        Self::with_order(desc, FullestFirst(index::Index::new()))
    }
}

impl<A, H> Blocks<A, H, OldestFirst> {
    /// Creates an empty list of blocks. A request first tries the oldest block. A new block takes the position of a
    /// removed block in this order, if there was one. If ranges of many sizes are replaced again and again, this order
    /// needs less memory than the order of [`Blocks::new`].
    #[must_use]
    pub const fn oldest_first(desc: BlocksDesc) -> Self {
        Self::with_order(desc, OldestFirst::new())
    }
}

impl<A, H, O> Blocks<A, H, O> {
    const fn with_order(desc: BlocksDesc, order: O) -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            order,
            empties: Vec::new(),
            now: 0,
            reused_size: 0,
            serials: Serials::new(),
            desc,
        }
    }
}

impl<A: RangeAllocator, H, O: Order> Blocks<A, H, O> {
    /// Returns the description with which the blocks were created.
    #[must_use]
    pub const fn desc(&self) -> &BlocksDesc {
        &self.desc
    }

    /// Returns the size of a new block for a request of `size` units: the larger of `size` and
    /// [`BlocksDesc::basic_size`].
    ///
    /// The alignment of the request does not matter, because offset 0 of an empty block is a multiple of every
    /// alignment.
    #[must_use]
    pub const fn new_block_size(&self, size: u64) -> u64 {
        if size > self.desc.basic_size { size } else { self.desc.basic_size }
    }

    /// Allocates from the existing blocks.
    ///
    /// # Errors
    /// The size is 0, or the alignment is not a power of two. [`AllocError::OutOfSpace`] if no block grants the
    /// request; it reports the free units of all blocks together, and the largest free span of any block (O(blocks)). A
    /// failed call changes no range.
    #[inline]
    pub fn try_allocate(&mut self, size: u64, alignment: u64) -> Result<BlockAllocation, AllocError> {
        check_request(size, alignment, u64::MAX)?;
        let (slots, order) = (&mut self.slots, &mut self.order);
        let found = order.search(size, |slot| {
            let block = slots[slot as usize].as_mut().ok_or(0_u64)?;
            let range = block.grant(size, alignment)?;
            Ok((range, block.note_grant()))
        });
        if let Some((slot, (range, (key, is_first)))) = found {
            self.order.granted(slot, key);
            if is_first {
                self.note_reuse(slot);
            }
            return Ok(BlockAllocation::new(BlockId { serial: key.1, slot }, range));
        }
        Err(self.out_of_space(size, alignment))
    }

    /// Calls `ask` with the allocator of each block that has at least `size` free units, in the order of the blocks,
    /// until `ask` returns a range. Returns `None` if no call returns a range. Used like [`Blocks::try_allocate`], with
    /// another method of the allocator.
    pub fn try_allocate_by(
        &mut self,
        size: u64,
        mut ask: impl FnMut(&mut A) -> Option<Range>,
    ) -> Option<BlockAllocation> {
        let size = size.max(1);
        let mut next = self.with_room(None, size);
        while let Some(slot) = next {
            let block = self.slots[slot as usize].as_mut()?;
            let serial = block.serial;
            if let Some(range) = ask(&mut block.allocator) {
                self.note_allocation(slot);
                return Some(BlockAllocation::new(BlockId { serial, slot }, range));
            }
            next = self.with_room(Some(slot), size);
        }
        None
    }

    /// Returns the slot of the first block with at least `size` free units, in the order of the blocks. If `slot` is
    /// given, searches after that slot. Skips no block because of an earlier failure (see `order.rs`): the failure was
    /// one of `allocate`, not of the caller's method.
    fn with_room(&self, slot: Option<u32>, size: u64) -> Option<u32> {
        self.order.with_room(slot, size, |slot| self.slots[slot].as_ref().map(|block| block.free_size))
    }

    /// Allocates from the given block.
    ///
    /// # Errors
    /// The error of the block's allocator; [`AllocError::TooLarge`] with a capacity of 0 if the block was removed or
    /// belongs to other [`Blocks`]. A failed call changes no range.
    pub fn allocate_in(&mut self, id: BlockId, size: u64, alignment: u64) -> Result<BlockAllocation, AllocError> {
        check_request(size, alignment, u64::MAX)?;
        let block = self.block_mut(id).ok_or(AllocError::TooLarge { size, capacity: 0 })?;
        let range = block.allocator.allocate(size, alignment)?;
        self.note_allocation(id.slot);
        Ok(BlockAllocation::new(id, range))
    }

    /// Calls `ask` with the allocator of the block. Returns `None` if `ask` returns `None`, or if the block was removed
    /// or belongs to other [`Blocks`]. Used like [`Blocks::allocate_in`], with another method of the allocator.
    pub fn allocate_in_by(
        &mut self,
        id: BlockId,
        ask: impl FnOnce(&mut A) -> Option<Range>,
    ) -> Option<BlockAllocation> {
        let range = ask(&mut self.block_mut(id)?.allocator)?;
        self.note_allocation(id.slot);
        Some(BlockAllocation::new(id, range))
    }

    /// Frees an allocation. If its block becomes empty, the block remains until [`Blocks::take_surplus`] or another
    /// call removes it.
    ///
    /// # Errors
    /// [`FreeError::Stale`] if the allocation was freed already, even if its block was removed; [`FreeError::Foreign`]
    /// if the allocation belongs to other [`Blocks`]. A failed call changes nothing.
    pub fn free(&mut self, allocation: &BlockAllocation) -> Result<(), FreeError> {
        let slot = allocation.block_slot;
        let of_slot = self.slots.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(block) = of_slot.filter(|block| block.serial == allocation.block_serial) else {
            return Err(self.refuse(allocation));
        };
        block.allocator.free(allocation.range())?;
        self.note_free(slot);
        Ok(())
    }

    #[cold]
    fn refuse(&self, allocation: &BlockAllocation) -> FreeError {
        // If the block belonged to these blocks, the range was freed before the block was removed, because only empty
        // blocks are removed. (After `drain`, all ranges count as freed.)
        if self.serials.drew(allocation.block_serial) { allocation.stale() } else { allocation.foreign() }
    }

    /// Adds a block with this heap and allocator. Live ranges of the allocator are live ranges of the block. If the
    /// allocator has no live range, the block is empty.
    ///
    /// # Panics
    /// If there are 2³² blocks already.
    pub fn insert(&mut self, heap: H, allocator: A) -> BlockId {
        let serial = self.serials.draw();
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.order.reserve(self.slots.len());
            u32::try_from(self.slots.len() - 1).expect("there are fewer than 2^32 blocks")
        });
        self.reserve_for_every_block();
        let (initial_size, free_size) = (allocator.capacity(), allocator.free_size());
        if allocator.is_empty() {
            self.empties.push(Empty { slot, since: NOT_REPORTED });
        }
        let block = Block { heap, allocator, serial, initial_size, free_size };
        self.order.insert(slot, (free_size, serial));
        self.slots[slot as usize] = Some(block);
        BlockId { serial, slot }
    }

    /// Reserves host memory for all blocks in `vacant` and `empties`, so that only [`Blocks::insert`] allocates host
    /// memory for these lists.
    fn reserve_for_every_block(&mut self) {
        let count = self.slots.len();
        self.vacant.reserve(count - self.vacant.len());
        self.empties.reserve(count - self.empties.len());
    }

    /// Updates the order after the block of `slot` granted a range.
    #[inline]
    fn note_allocation(&mut self, slot: u32) {
        let Some(block) = self.slots[slot as usize].as_mut() else { return };
        let (key, is_first) = block.note_grant();
        self.order.granted(slot, key);
        if is_first {
            self.note_reuse(slot);
        }
    }

    /// Updates the order after a range of the block of `slot` was freed.
    #[inline]
    fn note_free(&mut self, slot: u32) {
        let Some(block) = self.slots[slot as usize].as_mut() else { return };
        block.free_size = block.allocator.free_size();
        let is_empty = block.allocator.is_empty();
        // If a range in the middle of a linear allocator was freed, the free size is unchanged.
        self.order.freed(slot, (block.free_size, block.serial));
        if is_empty {
            self.empties.push(Empty { slot, since: NOT_REPORTED });
        }
    }

    /// Removes a block that was empty until now from the list of empty blocks, and counts its size.
    #[cold]
    fn note_reuse(&mut self, slot: u32) {
        let size = self.slots[slot as usize].as_ref().map_or(0, |block| block.initial_size);
        self.reused_size = self.reused_size.wrapping_add(size);
        self.remove_from_empties(slot);
    }

    fn remove_from_empties(&mut self, slot: u32) {
        // Searches from the back, because usually the block that became empty last is reused first.
        if let Some(at) = self.empties.iter().rposition(|empty| empty.slot == slot) {
            self.empties.remove(at);
        }
    }

    /// Reports tick `now`. If there are more empty blocks than [`BlocksDesc::destroy_threshold`], and the block that
    /// has been empty longest has been so for at least [`BlocksDesc::grace_ticks`], removes this block and returns it.
    /// Otherwise, returns `None`. The caller destroys the returned heap and repeats the call until it returns `None`.
    ///
    /// The caller defines the length of a tick, for example a frame. A block counts as empty from the first call of
    /// this function after it became empty, so a block that is used in every tick is never removed. If `now` is below
    /// the latest tick, the latest tick is used.
    pub fn take_surplus(&mut self, now: u64) -> Option<(BlockId, H)> {
        let id = self.surplus(now, self.desc.grace_ticks)?;
        Some((id, self.remove_empty(id)?))
    }

    /// Reports tick `now`, and returns the block that [`Blocks::take_surplus`] would remove if
    /// [`BlocksDesc::grace_ticks`] were `grace_ticks`. Does not remove the block.
    pub fn surplus(&mut self, now: u64, grace_ticks: u64) -> Option<BlockId> {
        self.now = self.now.max(now);
        for fresh in self.empties.iter_mut().rev().take_while(|empty| empty.since == NOT_REPORTED) {
            fresh.since = self.now;
        }
        let longest = self.empties.first()?;
        let is_due = self.empties.len() > self.desc.destroy_threshold && self.now - longest.since >= grace_ticks.max(1);
        let block = self.slots[longest.slot as usize].as_ref().filter(|_| is_due)?;
        Some(block.id(longest.slot as usize))
    }

    /// Removes the block that has been empty longest, regardless of the threshold and the grace period. Returns `None`
    /// if no block is empty. Used if memory is short. The caller destroys the heap.
    pub fn take_empty(&mut self) -> Option<(BlockId, H)> {
        self.take_empty_of(|_| true)
    }

    /// Removes the block that has been empty longest among those for which `may_go` returns `true`. `may_go` receives
    /// the heap of an empty block. Returns `None` if there is no such block. O(log blocks + empty blocks).
    pub fn take_empty_of(&mut self, may_go: impl Fn(&H) -> bool) -> Option<(BlockId, H)> {
        let found = self.empties.iter().find_map(|empty| {
            let block = self.slots[empty.slot as usize].as_ref()?;
            may_go(&block.heap).then(|| block.id(empty.slot as usize))
        });
        let id = found?;
        Some((id, self.remove_empty(id)?))
    }

    /// Removes this block, regardless of the threshold and the grace period, and returns its heap. Returns `None` if
    /// the block does not exist or is not empty.
    pub fn remove_empty(&mut self, id: BlockId) -> Option<H> {
        let block = self.block(id)?;
        if !block.allocator.is_empty() {
            return None;
        }
        self.order.remove(id.slot);
        self.remove_from_empties(id.slot);
        self.vacant.push(id.slot);
        let block = self.slots[id.slot as usize].take()?;
        Some(block.heap)
    }

    /// Removes all blocks, including blocks with live ranges, and iterates over their heaps in the order of
    /// [`Blocks::iter`]. Live allocations then count as freed. If the iterator is dropped early, the remaining heaps
    /// are dropped.
    pub fn drain(&mut self) -> impl Iterator<Item = (BlockId, H)> + '_ {
        self.order.clear();
        self.empties.clear();
        self.vacant.clear();
        let slots = self.slots.drain(..).enumerate();
        slots.filter_map(|(slot, block)| block.map(|block| (block.id(slot), block.heap)))
    }

    fn block(&self, id: BlockId) -> Option<&Block<A, H>> {
        self.slots.get(id.slot as usize)?.as_ref().filter(|block| block.serial == id.serial)
    }

    #[inline]
    fn block_mut(&mut self, id: BlockId) -> Option<&mut Block<A, H>> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|block| block.serial == id.serial)
    }

    /// Returns the heap and the allocator of a block. Returns `None` if the block was removed or belongs to other
    /// blocks.
    #[must_use]
    pub fn get(&self, id: BlockId) -> Option<(&H, &A)> {
        self.block(id).map(|block| (&block.heap, &block.allocator))
    }

    /// Does the same as [`Blocks::get`], but the heap is mutable.
    #[inline]
    pub fn get_mut(&mut self, id: BlockId) -> Option<(&mut H, &A)> {
        self.block_mut(id).map(|block| (&mut block.heap, &block.allocator))
    }

    /// Returns the heap of a block, mutably. Returns `None` if the block was removed or belongs to other blocks.
    pub fn heap_mut(&mut self, id: BlockId) -> Option<&mut H> {
        self.block_mut(id).map(|block| &mut block.heap)
    }

    /// Returns `true` if this allocation is live: it was allocated here and is not freed.
    #[must_use]
    pub fn is_live(&self, allocation: &BlockAllocation) -> bool {
        self.block(allocation.block()).is_some_and(|block| block.allocator.is_live(&allocation.range()))
    }

    /// Iterates over all blocks in the order of their creation, except that a new block takes the position of a removed
    /// one.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, &H, &A)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, block)| block.as_ref().map(|block| (block.id(slot), &block.heap, &block.allocator)))
    }

    /// Returns the free units and the capacity of a block. Returns `None` if the block was removed or belongs to other
    /// blocks.
    #[must_use]
    pub fn free_and_initial_size(&self, id: BlockId) -> Option<(u64, u64)> {
        self.block(id).map(|block| (block.allocator.free_size(), block.initial_size))
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Returns the number of blocks without a live range.
    #[must_use]
    pub fn empty_count(&self) -> usize {
        self.empties.len()
    }

    /// Returns the total size of the empty blocks that were used again so far, in units. It wraps around.
    #[must_use]
    pub const fn reused_size(&self) -> u64 {
        self.reused_size
    }

    /// Iterates over the blocks without a live range, in the order in which they became empty. Returns for each block
    /// its size in units, and the number of ticks since [`Blocks::take_surplus`] first found the block empty (0 before
    /// that).
    pub fn empties(&self) -> impl DoubleEndedIterator<Item = (BlockId, u64, u64)> + '_ {
        self.empties.iter().filter_map(|empty| {
            let block = self.slots[empty.slot as usize].as_ref()?;
            Some((block.id(empty.slot as usize), block.initial_size, self.now.saturating_sub(empty.since)))
        })
    }

    /// Returns statistics of all blocks together. O(blocks). Sums saturate at `u64::MAX`.
    #[must_use]
    pub fn statistics(&self) -> BlocksStatistics {
        let mut sums =
            BlocksStatistics { empty_count: self.empties.len(), block_count: self.block_count(), ..Default::default() };
        for block in self.slots.iter().flatten() {
            sums.capacity = sums.capacity.saturating_add(block.initial_size);
            sums.free_size = sums.free_size.saturating_add(block.allocator.free_size());
            sums.largest_free = sums.largest_free.max(block.allocator.largest_free());
            sums.live_count += block.allocator.live_count();
        }
        sums
    }

    #[cold]
    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        let BlocksStatistics { free_size: free, largest_free, .. } = self.statistics();
        AllocError::OutOfSpace { size, alignment, free, largest_free }
    }
}

impl<A: RangeAllocator, H> Block<A, H> {
    /// Updates the free size after a grant. Returns the block's key, and `true` if the block was empty before.
    #[inline(always)]
    fn note_grant(&mut self) -> (Key, bool) {
        self.free_size = self.allocator.free_size();
        ((self.free_size, self.serial), self.allocator.live_count() == 1)
    }

    /// Allocates from the block.
    ///
    /// # Errors
    /// Returns an upper bound of the size of requests that the block grants, in units.
    #[inline(always)]
    fn grant(&mut self, size: u64, alignment: u64) -> Result<Range, u64> {
        if !self.allocator.may_hold(size) {
            return Err(size - 1);
        }
        self.allocator.allocate(size, alignment).map_err(|error| match error {
            // The span can be long enough but misaligned, so the bound is the longest span.
            AllocError::OutOfSpace { largest_free, .. } if alignment != 1 => largest_free,
            _ => size - 1,
        })
    }
}

impl<A, H> Block<A, H> {
    fn id(&self, slot: usize) -> BlockId {
        BlockId { serial: self.serial, slot: slot as u32 }
    }
}

impl<A: RangeAllocator, H, O: Order> fmt::Debug for Blocks<A, H, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(f)
    }
}
