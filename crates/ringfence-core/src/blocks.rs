//! Growable blocks: as many heaps as needed, each with a range allocator of its own.
//!
//! ```text
//!   slots     [ A: heap, allocator │ –  │ C: heap, allocator │ D: heap, allocator ]
//!                free 0                   free 40              free 100 of 100
//!                                            │                    │
//!   index     [ (40, C), (100, D) ]          by free size, then age; A is full and stands outside
//!   empties   [ D from tick 7 on ]           in the order in which they became empty
//! ```
//!
//! A request tries the blocks with enough free space in ascending order of it (the fullest first, so that others can
//! drain), and passes over those that are known to have no free span as long.
//!
//! Making a heap may take the driver milliseconds, and no lock that an allocation needs may be held meanwhile. So
//! [`Blocks`] never makes or destroys one. A caller with a lock around it does:
//!
//! 1. locked: [`Blocks::try_allocate`]; if that is refused,
//! 2. unlocked: make a heap of [`Blocks::new_block_size`] and an allocator, and allocate from that, so that no other
//!    thread takes the space and a refusal concerns no other thread;
//! 3. locked: [`Blocks::insert`]; the allocation is [`BlockAllocation::new`] of what that returns and of the range;
//! 4. once a tick, locked: [`Blocks::take_surplus`] until it gives nothing; unlocked: destroy what it gave.
//!
//! A caller without a lock has [`Blocks::allocate_with`] and [`GrowableBlocks`], which do the same in one call.
//!
//! | operation | cost, besides the allocator's own |
//! |---|---|
//! | `try_allocate` | O(log blocks), and a look at each block in turn that has the space but not in one piece |
//! | `free`, `allocate_in` | O(1); O(log blocks) if the block overtakes another one |
//! | `insert`, `take_surplus`, `take_empty`, `remove_empty` | O(log blocks + empty ones); `insert` may take host memory |
//! | `get`, `is_live`, `block_count`, `empty_count` | O(1) |
//! | `statistics`, `iter`, `drain` | O(blocks) |

mod check;
mod growable;
mod index;
mod names;

pub use growable::{BlockSource, GrowError, GrowableBlocks};
pub use names::{BlockAllocation, BlockId};

use crate::range::{AllocError, FreeError, Range, RangeAllocator, Serial, Serials, check_request};
use alloc::vec::Vec;
use core::fmt;
use index::Index;

/// How blocks grow and when empty ones go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlocksDesc {
    /// Units of a block that is made for a request no larger than this; a larger one gets a block of its own size.
    pub basic_size: u64,
    /// How many empty blocks are always kept. Those beyond it are taken out, the longest empty first.
    pub destroy_threshold: usize,
    /// The least number of ticks for which a block stays empty before it is taken out. 0 counts as 1: within one tick
    /// none is, so that a loop that allocates and frees does not make and destroy a heap each time.
    /// [`Blocks::take_surplus`] says what a tick is.
    pub grace_ticks: u64,
}

impl Default for BlocksDesc {
    /// Blocks of 64 Mi units; one empty block is kept, others for 60 ticks.
    fn default() -> Self {
        Self { basic_size: 64 << 20, destroy_threshold: 1, grace_ticks: 60 }
    }
}

/// What [`Blocks::statistics`] adds up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlocksStatistics {
    /// Blocks there are.
    pub block_count: usize,
    /// Blocks in which nothing lives.
    pub empty_count: usize,
    /// Units of all blocks together.
    pub capacity: u64,
    /// Units in free spans, all blocks together.
    pub free_size: u64,
    /// The largest request that some block would grant.
    pub largest_free: u64,
    /// Ranges that are handed out.
    pub live_count: usize,
}

/// One heap and its allocator.
struct Block<A, H> {
    heap: H,
    allocator: A,
    serial: Serial,
    /// Units when empty: the allocator's capacity.
    initial_size: u64,
    /// The allocator's free size, as the index has it; the block stands in the index iff this is not 0.
    free_size: u64,
}

/// A block in which nothing lives.
#[derive(Clone, Copy)]
struct Empty {
    slot: u32,
    /// The first tick that was reported after it became so, or [`NOT_REPORTED`] if there was none.
    since: u64,
}

const NOT_REPORTED: u64 = u64::MAX;

/// Growable blocks over the allocator `A`, each owning a heap `H`.
///
/// It makes no heap and destroys none: the caller does, see the [module](self). Dropping it drops the heaps.
pub struct Blocks<A, H> {
    /// The block of each slot. A vacated slot is used again, under another serial.
    slots: Vec<Option<Block<A, H>>>,
    /// The slots that hold no block.
    vacant: Vec<u32>,
    /// Every block whose free size is not 0, by that and its age.
    index: Index,
    /// Every block in which nothing lives, the longest empty first.
    empties: Vec<Empty>,
    /// The latest tick that was reported.
    now: u64,
    /// Numbers the blocks: a later block has a larger number.
    serials: Serials,
    desc: BlocksDesc,
}

impl<A: RangeAllocator, H> Blocks<A, H> {
    /// No block yet.
    #[must_use]
    pub const fn new(desc: BlocksDesc) -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            index: Index::new(),
            empties: Vec::new(),
            now: 0,
            serials: Serials::new(),
            desc,
        }
    }

    /// What it was made with.
    #[must_use]
    pub const fn desc(&self) -> &BlocksDesc {
        &self.desc
    }

    /// Units that a new block for a request of `size` should have: the basic size, or `size` if that is larger.
    ///
    /// The alignment plays no part: offset 0 of an empty block is a multiple of every alignment.
    #[must_use]
    pub const fn new_block_size(&self, size: u64) -> u64 {
        if size > self.desc.basic_size { size } else { self.desc.basic_size }
    }

    /// Allocates from the blocks that there are.
    ///
    /// # Errors
    /// Size 0, a bad alignment, or [`AllocError::OutOfSpace`] with the sums over all blocks (which costs O(blocks)).
    /// A failed call changes nothing.
    #[inline]
    pub fn try_allocate(&mut self, size: u64, alignment: u64) -> Result<BlockAllocation, AllocError> {
        check_request(size, alignment, u64::MAX)?;
        let mut next = self.index.first_of(size);
        while let Some(slot) = next {
            if let Some(allocation) = self.probe(slot, size, alignment) {
                return Ok(allocation);
            }
            next = self.index.after(slot);
        }
        Err(self.out_of_space(size, alignment))
    }

    /// As [`Blocks::try_allocate`], with another call of the allocator: `ask` is asked for `size` units of each block
    /// that has the space. `None` if all refuse; nothing has changed then.
    pub fn try_allocate_by(
        &mut self,
        size: u64,
        mut ask: impl FnMut(&mut A) -> Option<Range>,
    ) -> Option<BlockAllocation> {
        let mut next = self.index.first_of(size.max(1));
        while let Some(slot) = next {
            let block = self.slots[slot as usize].as_mut()?;
            let serial = block.serial;
            if let Some(range) = ask(&mut block.allocator) {
                self.note_allocation(slot);
                return Some(BlockAllocation::new(BlockId { serial, slot }, range));
            }
            next = self.index.after(slot);
        }
        None
    }

    /// Asks the block of a slot, unless its free spans are known to be too short.
    #[inline(always)]
    fn probe(&mut self, slot: u32, size: u64, alignment: u64) -> Option<BlockAllocation> {
        if self.index.granted_max(slot) < size {
            return None;
        }
        let block = self.slots[slot as usize].as_mut()?;
        let mut longest = size - 1;
        if block.allocator.may_hold(size) {
            match block.allocator.allocate(size, alignment) {
                Ok(range) => {
                    let id = BlockId { serial: block.serial, slot };
                    self.note_allocation(slot);
                    return Some(BlockAllocation::new(id, range));
                }
                // A span may be as long, and begin elsewhere.
                Err(AllocError::OutOfSpace { largest_free, .. }) if alignment != 1 => longest = largest_free,
                Err(_) => {}
            }
        }
        self.index.lower_granted_max(slot, longest);
        None
    }

    /// Allocates from one block, which the caller prefers.
    ///
    /// # Errors
    /// That of the block's allocator; for a block that is not here, or not any more, [`AllocError::TooLarge`] with a
    /// capacity of 0. A failed call changes nothing.
    pub fn allocate_in(&mut self, id: BlockId, size: u64, alignment: u64) -> Result<BlockAllocation, AllocError> {
        check_request(size, alignment, u64::MAX)?;
        let block = self.block_mut(id).ok_or(AllocError::TooLarge { size, capacity: 0 })?;
        let range = block.allocator.allocate(size, alignment)?;
        // It granted something, so it had free space: it stands in the index.
        self.note_allocation(id.slot);
        Ok(BlockAllocation::new(id, range))
    }

    /// As [`Blocks::allocate_in`], with another call of the block's allocator. `None` if that refuses, or the block is
    /// not here (any more); nothing has changed then.
    pub fn allocate_in_by(
        &mut self,
        id: BlockId,
        ask: impl FnOnce(&mut A) -> Option<Range>,
    ) -> Option<BlockAllocation> {
        let range = ask(&mut self.block_mut(id)?.allocator)?;
        self.note_allocation(id.slot);
        Some(BlockAllocation::new(id, range))
    }

    /// Frees an allocation. A block that becomes empty joins the empty ones; none is destroyed here.
    ///
    /// # Errors
    /// [`FreeError::Stale`] if this made the allocation and it was freed already (its block may be gone by now),
    /// [`FreeError::Foreign`] if it did not make it. Nothing has changed then.
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
        // Every block goes empty: if this had the block once, the range was freed before the block was taken out.
        if self.serials.drew(allocation.block_serial) { allocation.stale() } else { allocation.foreign() }
    }

    /// Takes a heap in, with an allocator over it. What lives in the allocator already lives in the block from now on;
    /// if nothing does, the block is empty from now on.
    ///
    /// # Panics
    /// If there are 2³² blocks.
    pub fn insert(&mut self, heap: H, allocator: A) -> BlockId {
        let serial = self.serials.draw();
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.index.add_slot();
            u32::try_from(self.slots.len() - 1).expect("there are fewer than 2^32 blocks")
        });
        self.reserve_for_every_block();
        let (initial_size, free_size) = (allocator.capacity(), allocator.free_size());
        if allocator.is_empty() {
            self.empties.push(Empty { slot, since: NOT_REPORTED });
        }
        let block = Block { heap, allocator, serial, initial_size, free_size };
        self.index.forget_granted_max(slot);
        if free_size != 0 {
            self.index.insert(slot, (free_size, serial));
        }
        self.slots[slot as usize] = Some(block);
        BlockId { serial, slot }
    }

    /// So that no other operation grows host memory.
    fn reserve_for_every_block(&mut self) {
        let count = self.slots.len();
        self.vacant.reserve(count - self.vacant.len());
        self.empties.reserve(count - self.empties.len());
    }

    /// Brings the index up to date after the block of `slot` granted something.
    #[inline]
    fn note_allocation(&mut self, slot: u32) {
        let Some(block) = self.slots[slot as usize].as_mut() else { return };
        block.free_size = block.allocator.free_size();
        let is_first = block.allocator.live_count() == 1;
        self.index.note_grant(slot);
        self.index.update(slot, (block.free_size, block.serial));
        if is_first {
            self.leave_empties(slot);
        }
    }

    /// Brings the index up to date after the block of `slot` took something back.
    #[inline]
    fn note_free(&mut self, slot: u32) {
        let Some(block) = self.slots[slot as usize].as_mut() else { return };
        block.free_size = block.allocator.free_size();
        let is_empty = block.allocator.is_empty();
        self.index.forget_granted_max(slot);
        // What a linear allocator takes back in the middle is not free yet: then it stays as it was.
        self.index.update(slot, (block.free_size, block.serial));
        if is_empty {
            self.empties.push(Empty { slot, since: NOT_REPORTED });
        }
    }

    fn leave_empties(&mut self, slot: u32) {
        // From the back: a block that goes in and out of use is the latest to have become empty.
        if let Some(at) = self.empties.iter().rposition(|empty| empty.slot == slot) {
            self.empties.remove(at);
        }
    }

    /// Advances the time, and takes a block out that is due: there are more empty ones than
    /// [`BlocksDesc::destroy_threshold`], this one is the longest empty, and was so for [`BlocksDesc::grace_ticks`].
    /// The caller destroys the heap, and asks again until there is nothing.
    ///
    /// A tick is what the caller counts, frames for instance. Ticks are reported only here, so a block counts as empty
    /// from the first call after it became so: a block that is used in every tick never goes. A tick lower than one
    /// reported before counts as that one.
    pub fn take_surplus(&mut self, now: u64) -> Option<(BlockId, H)> {
        self.now = self.now.max(now);
        for fresh in self.empties.iter_mut().rev().take_while(|empty| empty.since == NOT_REPORTED) {
            fresh.since = self.now;
        }
        let longest = self.empties.first()?;
        let is_due = self.empties.len() > self.desc.destroy_threshold
            && self.now - longest.since >= self.desc.grace_ticks.max(1);
        if is_due { self.take_empty() } else { None }
    }

    /// Takes the longest empty block out, threshold and grace or not: when memory runs short. The caller destroys
    /// the heap.
    pub fn take_empty(&mut self) -> Option<(BlockId, H)> {
        self.take_empty_of(|_| true)
    }

    /// As [`Blocks::take_empty`], of the blocks whose heap may go. O(empty blocks).
    pub fn take_empty_of(&mut self, may_go: impl Fn(&H) -> bool) -> Option<(BlockId, H)> {
        let found = self.empties.iter().find_map(|empty| {
            let block = self.slots[empty.slot as usize].as_ref()?;
            may_go(&block.heap).then(|| block.id(empty.slot as usize))
        });
        let id = found?;
        Some((id, self.remove_empty(id)?))
    }

    /// Takes this block out if it is here and empty, threshold and grace or not.
    pub fn remove_empty(&mut self, id: BlockId) -> Option<H> {
        let block = self.block(id)?;
        if !block.allocator.is_empty() {
            return None;
        }
        self.index.remove(id.slot);
        self.leave_empties(id.slot);
        self.vacant.push(id.slot);
        let block = self.slots[id.slot as usize].take()?;
        Some(block.heap)
    }

    /// Takes every block out, whatever lives there, in the order of the slots: for teardown. Live allocations count as
    /// freed. Blocks not taken from the iterator are dropped with it.
    pub fn drain(&mut self) -> impl Iterator<Item = (BlockId, H)> + '_ {
        self.index.clear();
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

    /// The heap and the allocator of a block; `None` if it is not here (any more).
    #[must_use]
    pub fn get(&self, id: BlockId) -> Option<(&H, &A)> {
        self.block(id).map(|block| (&block.heap, &block.allocator))
    }

    /// The heap of a block, to be changed; `None` if it is not here (any more).
    pub fn heap_mut(&mut self, id: BlockId) -> Option<&mut H> {
        self.block_mut(id).map(|block| &mut block.heap)
    }

    /// Whether this very allocation is handed out now.
    #[must_use]
    pub fn is_live(&self, allocation: &BlockAllocation) -> bool {
        self.block(allocation.block()).is_some_and(|block| block.allocator.is_live(&allocation.range()))
    }

    /// Every block, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, &H, &A)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, block)| block.as_ref().map(|block| (block.id(slot), &block.heap, &block.allocator)))
    }

    /// Free units and initial units of a block; `None` if it is not here (any more).
    #[must_use]
    pub fn free_and_initial_size(&self, id: BlockId) -> Option<(u64, u64)> {
        self.block(id).map(|block| (block.allocator.free_size(), block.initial_size))
    }

    /// How many blocks there are.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// In how many of them nothing lives.
    #[must_use]
    pub fn empty_count(&self) -> usize {
        self.empties.len()
    }

    /// Sums over the blocks. O(blocks): cheap enough for every frame. Sums beyond 64 bits stop at `u64::MAX`.
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

impl<A, H> Block<A, H> {
    fn id(&self, slot: usize) -> BlockId {
        BlockId { serial: self.serial, slot: slot as u32 }
    }
}

impl<A: RangeAllocator, H> fmt::Debug for Blocks<A, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(f)
    }
}
