//! Empty blocks, pools that are closed, and shared buffers in which nothing lives: back to the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::blocks::BlockId;

use super::memory_object::Memory;
use super::place::{ArenaRef, RangeOwner, SharedBuffer};
use super::pool_state::PoolState;
use super::shared::Shared;
use crate::device::{Buffers, Create, Device};
use crate::observe::{Call, Event};

impl<D: Device> Shared<D> {
    /// Frees all that is empty, however short it has been so; says how many blocks.
    pub(crate) fn trim(&self) -> usize {
        self.empty_caches().0 + self.free_pools(|_| true) + self.free_empty_blocks(|_| true, 0).0
    }

    /// Destroys what is recycled, and shared buffers in which nothing lives; says how many memory objects went with
    /// them, and their bytes. What other threads free or take meanwhile is among that.
    pub(super) fn empty_caches(&self) -> (usize, u64) {
        let freed = || self.observers.calls.get(Call::FreeMemory);
        let before = (freed(), self.reserved_bytes());
        self.empty_recycled(|_| true);
        self.trim_small_buffers();
        (freed().saturating_sub(before.0) as usize, before.1.saturating_sub(self.reserved_bytes()))
    }

    /// What this allocator holds of all heaps.
    pub(super) fn reserved_bytes(&self) -> u64 {
        (0..self.budgets.heap_count()).map(|heap| self.budgets.heap(heap).reserved_bytes).sum()
    }

    /// Frees blocks that have been empty for longer than their grace, and those of pools that are closed; says how
    /// many.
    pub(super) fn free_surplus(&self, tick: u64) -> usize {
        let free_all = |next: &mut dyn FnMut() -> Option<Memory<D>>| {
            std::iter::from_fn(next).map(|memory| self.free_memory(memory)).count()
        };
        let mut blocks = self.free_pools(|pool| pool.is_closed());
        blocks += self.arenas.iter().map(|arena| free_all(&mut || arena.take_surplus(tick))).sum::<usize>();
        if self.custom_pools.read().is_empty() {
            return blocks;
        }
        self.collect_closed_pools();
        let pools = self.custom_pools.read().clone();
        blocks + pools.iter().map(|pool| free_all(&mut || pool.arena.take_surplus(tick))).sum::<usize>()
    }

    /// Frees empty blocks of some heaps until this allocator holds no more than `target_bytes` of all heaps;
    /// says how many, and their bytes. A custom pool keeps the blocks that it was made with.
    pub(crate) fn free_empty_blocks(&self, heaps: impl Fn(u32) -> bool, target_bytes: u64) -> (usize, u64) {
        let (mut blocks, mut bytes) = (0, 0);
        let mut free_all = |next: &dyn Fn() -> Option<Memory<D>>| {
            while self.reserved_bytes() > target_bytes
                && let Some(memory) = next()
            {
                blocks += 1;
                bytes += memory.size;
                self.free_memory(memory);
            }
        };
        for arena in self.arenas.iter().filter(|arena| heaps(arena.desc.heap)) {
            free_all(&|| arena.take_empty());
        }
        let pools = self.custom_pools.read().clone();
        for pool in pools.iter().filter(|pool| heaps(pool.arena.desc.heap)) {
            free_all(&|| pool.take_empty());
        }
        (blocks, bytes)
    }

    /// Frees a block, if it is here and empty and its pool does not keep it; says whether it did.
    pub(crate) fn free_empty_block(&self, arena: &ArenaRef<D>, block: BlockId) -> bool {
        let taken = match arena {
            ArenaRef::Pool(pool) if !pool.may_free_block() => None,
            arena => self.compact(arena).take_block(block),
        };
        taken.map(|memory| self.free_memory(memory)).is_some()
    }

    /// Frees the empty blocks of pools whose handle is gone, and forgets those pools that have no block left.
    pub(crate) fn collect_closed_pools(&self) {
        let is_closed = |pool: &Arc<PoolState<D>>| pool.is_closed.load(Ordering::Acquire);
        let closed: Vec<_> = self.custom_pools.read().iter().filter(|pool| is_closed(pool)).cloned().collect();
        if closed.is_empty() {
            return;
        }
        for pool in &closed {
            std::iter::from_fn(|| pool.take_empty()).for_each(|memory| self.free_memory(memory));
        }
        let is_over = |pool: &Arc<PoolState<D>>| {
            let statistics = pool.arena.statistics();
            is_closed(pool) && statistics.block_count + statistics.dedicated_count == 0
        };
        self.custom_pools.write().retain(|pool| !is_over(pool));
    }

    /// Registers an owner of ranges: each reclaim visits it as long as it has blocks.
    pub fn add_pool(&self, pool: Arc<dyn RangeOwner<D>>) {
        let mut pools = self.pools.lock();
        pools.retain(|held| !held.is_gone());
        pools.push(pool);
    }

    /// Destroys the empty blocks of those owners of ranges that are `due`; says how many those were.
    fn free_pools(&self, due: impl Fn(&dyn RangeOwner<D>) -> bool) -> usize {
        let next = || self.pools.lock().iter().filter(|pool| due(&***pool)).find_map(|pool| pool.take_empty());
        // SAFETY: a `RangeOwner` promises it.
        std::iter::from_fn(next).map(|backing| unsafe { self.free_backing(backing) }).count()
    }

    /// Destroys a buffer that small ones shared, the device being done with all of them.
    pub(super) fn destroy_shared_buffer(&self, buffer: Arc<SharedBuffer<D>>) {
        let buffer = Arc::into_inner(buffer).expect("the buffer is dropped before its last range is freed");
        // SAFETY: each small buffer in it was freed, which is when the device is done with it.
        unsafe { Create::<Buffers>::destroy(&self.device, buffer.object) };
        self.notify(Event::Called(Call::DestroyObject));
        self.free_place(buffer.place);
    }

    pub(super) fn trim_small_buffers(&self) {
        for state in self.small.each() {
            let next = || state.blocks.lock().take_empty();
            std::iter::from_fn(next).for_each(|(_, buffer)| self.destroy_shared_buffer(buffer));
        }
    }
}
