//! The empty blocks of an arena: the next one to free, and the bytes that a trim would free.
//!
//! [`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks) computes the limits.

use std::sync::atomic::Ordering;

use ringfence_core::algorithm::Cutter;
use ringfence_core::blocks::BlockId;
use ringfence_core::empty_blocks::ArenaBytes;

use super::{Arena, ArenaDesc, State};
use crate::device::Device;
use crate::memory_object::Memory;

/// A block that should be freed.
struct Surplus {
    block: BlockId,
    /// The block's size if it is freed because of the limit, before its grace is over; otherwise 0.
    above_limit_bytes: u64,
}

impl<D: Device, A: Cutter, O> Arena<D, A, O> {
    /// Takes out an empty block for the caller to free, if the empty blocks exceed their limit or the block has been
    /// empty for longer than its grace. If bytes are announced, returns `None` until the empty blocks exceed these
    /// bytes by the maximum size of a block.
    pub fn take_surplus(&self, tick: u64) -> Option<Memory<D>> {
        let mut state = self.has_empty(tick).then(|| self.state.lock())?;
        let Surplus { block, above_limit_bytes } = state.surplus(tick, &self.desc)?;
        match above_limit_bytes {
            0 => state.empty_limits.freed_stale(tick),
            bytes => state.empty_limits.freed(bytes, tick),
        }
        state.low_water.idle();
        state.announced_block = 0;
        let block = state.blocks.remove_empty(block)?;
        Some(state.count_removed(block))
    }

    /// Returns `true` if [`Arena::take_surplus`] would return a block.
    pub fn has_surplus(&self, tick: u64) -> bool {
        self.has_empty(tick) && self.state.lock().surplus(tick, &self.desc).is_some()
    }

    /// Returns the number of empty blocks.
    pub fn empty_count(&self) -> usize {
        self.state.look(|state| state.blocks.empty_count())
    }

    /// Records the tick, and frees the chunks that have been empty for longer than their grace. Returns `true` if a
    /// block is empty.
    fn has_empty(&self, tick: u64) -> bool {
        self.tick.store(tick, Ordering::Relaxed);
        while let Some(chunk) = self.slots.take_surplus(tick, self.desc.blocks.grace_ticks) {
            self.free_chunk(chunk);
        }
        self.empty_count() != 0
    }

    /// Frees chunks without a live slot to their blocks, without a driver call. Returns `true` if there were any.
    pub fn free_empty_chunks(&self) -> bool {
        std::iter::from_fn(|| self.slots.take_empty()).map(|chunk| self.free_chunk(chunk)).count() > 0
    }

    /// Takes out an empty block for the caller to free, even if its grace is not over. If `spares_announced`, keeps
    /// blocks for the announced bytes; otherwise, taking a block cancels all announcements.
    pub fn take_empty(&self, spares_announced: bool) -> Option<Memory<D>> {
        self.free_empty_chunks();
        let mut state = self.state.lock();
        let surplus = match spares_announced {
            true => state.empty_bytes().saturating_sub(state.announced),
            false => u64::MAX,
        };
        let (_, block) = state.blocks.take_empty_of(|block| block.memory.size <= surplus)?;
        if !spares_announced {
            (state.announced, state.announced_block) = (0, 0);
        }
        Some(state.count_removed(block))
    }

    /// Returns the total size, in bytes, of the empty blocks that a trim would free if the arena keeps at least `kept`
    /// blocks.
    pub fn empty_bytes(&self, kept: usize) -> u64 {
        self.free_empty_chunks();
        let state = self.state.lock();
        let goes = state.blocks.block_count().saturating_sub(kept);
        state.blocks.empties().take(goes).map(|(_, bytes, _)| bytes).sum()
    }
}

impl<D: Device, A: Cutter> State<D, A> {
    /// Returns the total size of the empty blocks, in bytes. O(empty blocks).
    pub fn empty_bytes(&self) -> u64 {
        self.blocks.empties().map(|(_, bytes, _)| bytes).sum()
    }

    /// Returns `true` if the announced bytes still need an empty block of at most `block` bytes.
    pub fn keeps_empty(&self, block: u64) -> bool {
        self.announced != 0 && self.empty_bytes() < self.announced.saturating_add(block)
    }

    /// Returns the bytes that the limits depend on. Empty blocks for announced bytes are not counted as empty.
    fn bytes(&self, desc: &ArenaDesc) -> ArenaBytes {
        ArenaBytes {
            live: self.counts.range_bytes,
            empty: self.empty_bytes().saturating_sub(self.announced),
            next_block: desc.sizes.present(self.counts.block_bytes),
        }
    }

    /// Reports `tick` to the limits, and returns the next block to free.
    fn surplus(&mut self, tick: u64, desc: &ArenaDesc) -> Option<Surplus> {
        if self.keeps_empty(desc.sizes.max) {
            return None;
        }
        let grace = desc.blocks.grace_ticks.max(1);
        self.empty_limits.passed(tick, grace, self.blocks.reused_size());
        let grace = self.empty_limits.grace(grace);
        if let Some(block) = self.blocks.surplus(tick, grace) {
            return Some(Surplus { block, above_limit_bytes: 0 });
        }
        let bytes = self.bytes(desc);
        let is_spare = self.blocks.empty_count() > desc.blocks.destroy_threshold;
        let is_above = is_spare && self.empty_limits.is_exceeded(&bytes);
        // Of blocks of one size, the one that has been empty longest.
        let (block, size, ticks) = self.blocks.empties().rev().max_by_key(|(_, size, _)| *size)?;
        let is_stale = ticks >= grace && !self.empty_limits.may_stay(size, bytes.live);
        (is_above || is_stale).then_some(Surplus { block, above_limit_bytes: if is_above { size } else { 0 } })
    }
}
