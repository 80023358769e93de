//! Freeing empty blocks, the blocks of closed pools, and empty shared buffers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::blocks::BlockId;
use ringfence_observe::{Call, Event};

use super::place::{ArenaRef, RangeOwner, SharedBuffer};
use super::pool::PoolState;
use super::shared::Shared;
use super::small_buffers::SmallState;
use crate::device::{Buffers, Create, Device};
use ringfence_arena::Memory;

/// After a reclaim, the background thread frees in each arena at most 1 / `FREED_SHARE` of the number of all empty
/// blocks, plus one.
const FREED_SHARE: usize = 4;

impl<D: Device> Shared<D> {
    /// Destroys recycled objects and empty shared buffers, and frees all empty blocks, even if their grace is not over.
    /// A custom pool keeps its minimum number of blocks. Returns the number of freed memory objects.
    pub(crate) fn trim(&self) -> usize {
        let freed = || self.observers.calls.get(Call::FreeMemory);
        let before = freed();
        self.empty_caches(&|_| true);
        self.free_empty_blocks(|_| true, 0, false);
        freed().saturating_sub(before) as usize
    }

    /// Frees empty memory until this allocator has at most `target_bytes` in all heaps together. Returns the number of
    /// freed bytes, including bytes that other threads free meanwhile.
    pub(super) fn trim_to(&self, target_bytes: u64) -> u64 {
        if self.reserved_bytes() <= target_bytes {
            return 0;
        }
        let freed = || (0..self.budgets.heap_count()).map(|heap| self.budgets.freed_bytes(heap)).sum::<u64>();
        let before = freed();
        self.empty_recycled(|_| true);
        self.trim_small_buffers(&|_| true);
        self.free_empty_blocks(|_| true, target_bytes, false);
        if self.reserved_bytes() > target_bytes {
            // Buffers of placements leave empty blocks in the allocator's arenas.
            self.free_pools(|_| true, &|_| self.reserved_bytes() > target_bytes);
            self.free_empty_blocks(|_| true, target_bytes, false);
        }
        freed().saturating_sub(before)
    }

    /// In the heaps for which `heaps` returns `true`, destroys the recycled objects, the empty shared buffers, and the
    /// empty blocks of the owners of ranges ([`Shared::add_pool`]). Destroys recycled objects in shared buffers in all
    /// heaps. Keeps the blocks of arenas. Returns `true` if anything was destroyed.
    pub(super) fn empty_caches(&self, heaps: &dyn Fn(u32) -> bool) -> bool {
        let any_recycled = self.empty_recycled(heaps);
        let any_shared = self.trim_small_buffers(heaps);
        self.free_pools(|_| true, heaps) > 0 || any_recycled || any_shared
    }

    /// Returns the total size of this allocator's memory objects in all heaps, in bytes.
    pub(super) fn reserved_bytes(&self) -> u64 {
        (0..self.budgets.heap_count()).map(|heap| self.budgets.heap(heap).reserved_bytes).sum()
    }

    /// Frees empty blocks that are above the limit or have been empty for longer than their grace, at most `most` of
    /// each arena. Returns their number, including the empty blocks of closed owners of ranges, which it frees too.
    /// Also frees the empty blocks of dropped custom pools, without counting them.
    pub(super) fn free_surplus(&self, tick: u64, most: usize) -> usize {
        let closed = self.free_pools(|pool| pool.is_closed(), &|_| true);
        let own = self.arenas.iter().map(|arena| self.free_each(most, || arena.take_surplus(tick)));
        let blocks = closed + own.sum::<usize>();
        if self.custom_pools.read().is_empty() {
            return blocks;
        }
        self.collect_closed_pools();
        let pools = self.custom_pools.read().clone();
        let free_all = |pool: &Arc<PoolState<D>>| self.free_each(most, || pool.arena.take_surplus(tick));
        blocks + pools.iter().map(free_all).sum::<usize>()
    }

    /// Frees the memory that `next` returns, until it returns `None`, at most `most` times. Returns the number of freed
    /// memory objects.
    fn free_each(&self, most: usize, next: impl FnMut() -> Option<Memory<D>>) -> usize {
        std::iter::from_fn(next).take(most).map(|memory| self.free_memory(memory)).count()
    }

    /// If most of the live bytes were freed, frees recycled objects, empty chunks, empty shared buffers and empty
    /// blocks outside the arenas, because these caches would keep blocks alive. Does so at most once in a grace period.
    pub(super) fn empty_caches_after_unload(&self, tick: u64) {
        let bytes = self.arenas.iter().map(|arena| arena.take_used_bytes());
        let (used, peak) = bytes.fold((0_u64, 0_u64), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (spare, grace) = (self.desc.empty_bytes_min, self.desc.empty_block_grace.max(1));
        let bytes = [used, peak, self.recycled.reserved_bytes()];
        if self.releases.unloads.look(|unloads| unloads.are_seen(bytes, spare, tick, grace)) {
            self.empty_caches(&|_| true);
            self.arenas.iter().for_each(|arena| _ = arena.free_empty_chunks());
        }
    }

    /// As [`Shared::free_surplus`]. If there is a background thread, that thread frees the blocks, because a driver can
    /// take milliseconds to free one; the result is then 0.
    pub(super) fn free_surplus_off_thread(&self, tick: u64) -> usize {
        if !self.wake.has_thread() {
            return self.free_surplus(tick, usize::MAX);
        }
        if self.has_surplus(tick) {
            self.wake.surplus.store(true, Ordering::Relaxed);
            self.wake.wake();
        }
        0
    }

    /// Frees blocks that a reclaim has left to the background thread: in each arena at most a quarter of the number of
    /// all empty blocks, plus one.
    pub(super) fn free_left_surplus(&self) -> usize {
        if !self.wake.surplus.swap(false, Ordering::Relaxed) {
            return 0;
        }
        let empty = self.arenas.iter().map(|arena| arena.empty_count()).sum::<usize>();
        self.free_surplus(self.releases.tick.load(Ordering::Relaxed), empty / FREED_SHARE + 1)
    }

    /// Returns `true` if [`Shared::free_surplus`] would do anything. Reports the tick to every arena.
    fn has_surplus(&self, tick: u64) -> bool {
        // Each arena is visited, not only those up to the first one with a surplus.
        let own = self.arenas.iter().filter(|arena| arena.has_surplus(tick)).count();
        let of_pool = |pool: &Arc<PoolState<D>>| pool.arena.has_surplus(tick) || pool.is_closed.load(Ordering::Relaxed);
        let pools = self.custom_pools.read().iter().filter(|pool| of_pool(pool)).count();
        own > 0 || pools > 0 || self.pools.lock().iter().any(|pool| pool.is_closed())
    }

    /// Frees empty blocks of the heaps for which `heaps` returns `true`, until this allocator has at most
    /// `target_bytes` in all heaps together. Returns the number of freed blocks and their total size. A custom pool
    /// keeps its minimum number of blocks. If `spares_announced`, an arena keeps announced blocks.
    pub(crate) fn free_empty_blocks(
        &self,
        heaps: impl Fn(u32) -> bool,
        target_bytes: u64,
        spares_announced: bool,
    ) -> (usize, u64) {
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
            free_all(&|| arena.take_empty(spares_announced));
        }
        let pools = self.custom_pools.read().clone();
        for pool in pools.iter().filter(|pool| heaps(pool.arena.desc.heap)) {
            free_all(&|| pool.take_empty());
        }
        (blocks, bytes)
    }

    /// Frees a block if it exists, is empty, and its pool may free it. Returns `true` if it was freed.
    pub(crate) fn free_empty_block(&self, arena: &ArenaRef<D>, block: BlockId) -> bool {
        let taken = match arena {
            ArenaRef::Pool(pool) if !pool.may_free_block() => None,
            arena => self.compact(arena).take_block(block),
        };
        taken.map(|memory| self.free_memory(memory)).is_some()
    }

    /// Frees the empty blocks of dropped pools, and removes such pools once they have no block.
    pub(crate) fn collect_closed_pools(&self) {
        let is_closed = |pool: &Arc<PoolState<D>>| pool.is_closed.load(Ordering::Acquire);
        let closed: Vec<_> = self.custom_pools.read().iter().filter(|pool| is_closed(pool)).cloned().collect();
        if closed.is_empty() {
            return;
        }
        for pool in &closed {
            std::iter::from_fn(|| pool.take_empty()).for_each(|memory| self.free_memory(memory));
        }
        // A pool has blocks only.
        let is_over = |pool: &Arc<PoolState<D>>| is_closed(pool) && pool.arena.statistics().block_count == 0;
        self.custom_pools.write().retain(|pool| !is_over(pool));
    }

    /// Registers an owner of ranges. Each reclaim visits it until it is closed and has no block left.
    pub fn add_pool(&self, pool: Arc<dyn RangeOwner<D>>) {
        let mut pools = self.pools.lock();
        pools.retain(|held| !held.is_gone());
        pools.push(pool);
    }

    /// In the heaps for which `heaps` returns `true`, destroys the empty blocks of the owners of ranges for which `due`
    /// returns `true`. Returns the number of destroyed blocks.
    fn free_pools(&self, due: impl Fn(&dyn RangeOwner<D>) -> bool, heaps: &dyn Fn(u32) -> bool) -> usize {
        let may_go = |memory: &Memory<D>| heaps(self.heap_of(memory.memory_type));
        let next = || self.pools.lock().iter().filter(|pool| due(&***pool)).find_map(|pool| pool.take_empty(&may_go));
        // SAFETY: a `RangeOwner` promises it.
        std::iter::from_fn(next).map(|backing| unsafe { self.free_backing(backing) }).count()
    }

    /// Destroys a buffer that small buffers shared. The device must be done with all of them.
    pub(super) fn destroy_shared_buffer(&self, buffer: Arc<SharedBuffer<D>>) {
        let buffer = Arc::into_inner(buffer).expect("the buffer is dropped before its last range is freed");
        // SAFETY: each small buffer in it was freed, so the device is done with it.
        unsafe { Create::<Buffers>::destroy(&self.device, buffer.object) };
        self.notify(Event::Called(Call::DestroyObject));
        self.free_place(buffer.place);
    }

    /// Destroys the empty shared buffers in the heaps for which `heaps` returns `true`. Returns `true` if there were
    /// any.
    fn trim_small_buffers(&self, heaps: &dyn Fn(u32) -> bool) -> bool {
        let may_go = |buffer: &Arc<SharedBuffer<D>>| heaps(self.heap_of(self.memory_of(&buffer.place).memory_type));
        let next = |state: &SmallState<D>| state.blocks.lock().take_empty_of(may_go);
        let empty = self.small.each().flat_map(|state| std::iter::from_fn(|| next(state)));
        empty.map(|(_, buffer)| self.destroy_shared_buffer(buffer)).count() > 0
    }
}
