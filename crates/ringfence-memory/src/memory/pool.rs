//! The state that a custom pool shares with its resources.

use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_core::algorithm::AnyAllocator;
use ringfence_decision::Error;

use crate::device::Device;
use ringfence_arena::Memory;
use ringfence_arena::{Arena, ArenaDesc};

pub(crate) struct PoolState<D: Device> {
    pub(crate) name: Box<str>,
    pub(crate) arena: Arena<D, AnyAllocator>,
    /// Number of blocks that are kept until the pool is dropped.
    pub(crate) block_count_min: usize,
    pub(crate) is_closed: AtomicBool,
}

impl<D: Device> PoolState<D> {
    /// Takes out an empty block, if the pool has more blocks than it keeps.
    pub(crate) fn take_empty(&self) -> Option<Memory<D>> {
        if self.may_free_block() { self.arena.take_empty(false) } else { None }
    }

    /// Returns `true` if the pool has more blocks than it keeps.
    pub(crate) fn may_free_block(&self) -> bool {
        let held = self.arena.statistics().block_count;
        let kept = if self.is_closed.load(Ordering::Acquire) { 0 } else { self.block_count_min as u64 };
        held > kept
    }

    /// Returns the error for a request that no block of the pool can serve.
    pub(crate) fn full(&self, size: u64) -> Error {
        let ArenaDesc { block_count_max, sizes, algorithm, .. } = self.arena.desc;
        let max = algorithm.capacity_max();
        if size > max {
            return Error::TooLarge { size, max };
        }
        Error::PoolFull { size, block_count_max, block_bytes: sizes.max }
    }
}
