//! Empty blocks, pools that are closed, and shared buffers in which nothing lives: back to the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::memory_object::Memory;
use super::place::SharedBuffer;
use super::pool_state::PoolState;
use super::shared::Shared;
use super::statistics::count;
use crate::device::{Buffers, Create, Device};

impl<D: Device> Shared<D> {
    /// Gives empty blocks of some heaps back until this allocator holds no more than `target_bytes` of all heaps;
    /// says how many, and their bytes. A custom pool keeps the blocks that it was made with.
    pub(crate) fn free_empty_blocks(&self, heaps: impl Fn(u32) -> bool, target_bytes: u64) -> (usize, u64) {
        let held = || self.budgets.all().map(|budget| budget.reserved_bytes).sum::<u64>();
        let (mut blocks, mut bytes) = (0, 0);
        let mut free = |memory: Memory<D>| {
            blocks += 1;
            bytes += memory.size;
            self.free_memory(memory);
        };
        for arena in self.arenas.iter().filter(|arena| heaps(arena.desc.heap)) {
            while held() > target_bytes
                && let Some(memory) = arena.take_empty()
            {
                free(memory);
            }
        }
        let pools = self.custom_pools.read().clone();
        for pool in pools.iter().filter(|pool| heaps(pool.arena.desc.heap)) {
            while held() > target_bytes
                && let Some(memory) = pool.take_empty()
            {
                free(memory);
            }
        }
        (blocks, bytes)
    }

    /// Gives the empty blocks of pools back whose handle is gone, and forgets those that have none left.
    pub(crate) fn collect_closed_pools(&self) {
        let closed: Vec<_> = {
            let pools = self.custom_pools.read();
            if !pools.iter().any(|pool| pool.is_closed.load(Ordering::Acquire)) {
                return;
            }
            pools.iter().filter(|pool| pool.is_closed.load(Ordering::Acquire)).cloned().collect()
        };
        for pool in &closed {
            while let Some(memory) = pool.take_empty() {
                self.free_memory(memory);
            }
        }
        let is_over = |pool: &Arc<PoolState<D>>| {
            let statistics = pool.arena.statistics();
            pool.is_closed.load(Ordering::Acquire) && statistics.block_count + statistics.dedicated_count == 0
        };
        self.custom_pools.write().retain(|pool| !is_over(pool));
    }

    /// Destroys a buffer that small ones shared, the device being done with all of them.
    pub(crate) fn destroy_shared_buffer(&self, buffer: Arc<SharedBuffer<D>>) {
        let buffer = Arc::into_inner(buffer).expect("the buffer is dropped before its last range is freed");
        // SAFETY: each small buffer in it was given back, which is when the device is done with it.
        unsafe { Create::<Buffers>::destroy(&self.device, buffer.object) };
        count(&self.calls.destroy_object);
        self.give_back(buffer.place);
    }

    /// Destroys the shared buffers in which nothing lives.
    pub(crate) fn trim_small_buffers(&self) {
        for state in self.small.each() {
            loop {
                let taken = state.blocks.lock().take_empty();
                let Some((_, buffer)) = taken else { break };
                self.destroy_shared_buffer(buffer);
            }
        }
    }
}
