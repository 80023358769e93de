//! What a program asks of the budgets of memory heaps: how full they are, less memory held, more held ahead of need,
//! and what is called when memory runs short.
//!
//! | operation | cost |
//! |---|---|
//! | [`MemoryBudgets::heap`] | a few loads |
//! | [`MemoryBudgets::trim`], [`MemoryBudgets::trim_to`] | O(blocks + what is recycled), a driver call for each block that goes |
//! | [`MemoryBudgets::reserve`], [`MemoryBudgets::maintain`] | a driver call for each block |

use std::sync::Arc;

use super::budget::Budget;
use super::growth::Maintenance;
use super::pressure::Evict;
use super::request::AllocationDesc;
use super::shared::Shared;
use super::shortage::Attempt;
use crate::device::{Device, ResourceClass};
use crate::error::Error;

/// The budgets of an allocator's memory heaps, and the blocks that are held ahead of need within them. Made by
/// [`Allocator::budgets`](crate::Allocator::budgets).
pub struct MemoryBudgets<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> MemoryBudgets<'_, D> {
    /// Use and limits of a memory heap, from what the driver said last and what was taken since. A few loads.
    ///
    /// # Panics
    /// If there is no such heap.
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.0.budgets.heap(heap)
    }

    /// Frees every empty block and what is recycled, and says how many memory objects went.
    pub fn trim(&self) -> usize {
        self.0.trim()
    }

    /// Frees what is recycled, if this allocator holds more than `target_bytes` of all heaps, and empty blocks until it
    /// does not or has none left; says how many bytes that were.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        if self.0.reserved_bytes() <= target_bytes {
            return 0;
        }
        self.0.empty_caches().1 + self.0.free_empty_blocks(|_| true, target_bytes).1
    }

    /// Sets what is called when memory runs short and nothing else has helped: see the fallback order in
    /// [`memory`](crate::memory). It releases what it can do without and says whether it did; then what the device
    /// is done with is reclaimed and everything is tried again, a few times at most. `None` takes the callback away.
    ///
    /// It is called on the thread whose allocation failed, without a lock held, and may use the allocator; what it
    /// requests itself does not call it again. If it panics, nothing was made and nothing is lost. The callback before
    /// goes here, or with the call of it that is under way.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.0.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Announces that the program is going to allocate `bytes` for resources of `class`, where `desc` says: before it
    /// loads a level, say. The blocks for them are made now, a driver call each on this thread, so that what is
    /// allocated then needs none. Says how many bytes were requested of the driver: fewer than announced if empty
    /// blocks are there.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) does not free these blocks before as many bytes were allocated
    /// there. [`MemoryBudgets::trim`] and a shortage of memory do: what was announced is void then. Resources that get
    /// memory of their own, for their size or by the driver's wish, find nothing here; and where the ends of blocks are
    /// too small for what comes, the last of it may need a block more.
    ///
    /// Of `desc`, the location, the memory types and properties, `within_budget` and `never_grow` count. The best
    /// memory type is taken and no other tried; where the resources' requirements are known, `memory_types` should name
    /// the types that these allow. No lock is held that an allocation needs: another thread can announce while this one
    /// draws.
    ///
    /// # Errors
    /// More than the heap has, no memory type, no memory, over the budget. Nothing has changed then.
    pub fn reserve(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<u64, Error> {
        let shared = self.0;
        shared.check_lost()?;
        if bytes == 0 {
            return Ok(0);
        }
        let capabilities = shared.device.capabilities();
        let mut types = shared.order.candidates_for(capabilities, &desc, u32::MAX);
        let no_type = Error::NoMemoryType { location: desc.location, memory_type_bits: desc.memory_types };
        let memory_type = types.next().ok_or(no_type)?;
        let max = capabilities.memory_heaps[shared.heap_of(memory_type) as usize].bytes;
        if bytes > max {
            return Err(Error::TooLarge { size: bytes, max });
        }
        let mut attempt = Attempt::at(memory_type, bytes, &desc);
        let arena = &shared.arenas[shared.shared_arena_index(memory_type, class) as usize];
        let made = shared.announce(arena, bytes, &mut attempt);
        made.map_err(|failure| shared.give_up(&attempt, None, failure))
    }

    /// Makes the blocks that are going to be needed soon, so that no allocation waits for them: a driver call each.
    /// Says how many. For programs that have a thread of their own for it; else there is
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
    pub fn maintain(&self) -> usize {
        self.0.maintain()
    }

    /// Starts a thread that makes blocks before they are needed. It sleeps until an arena falls below its low-water
    /// mark; it ends when the value that this returns is dropped.
    ///
    /// The mark is half a block, or more where more is used while the driver makes one: up to four blocks. Where the
    /// program requests more in a second than the driver can make, nothing helps but
    /// [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).
    ///
    /// The thread may be in a driver call when the allocator is dropped: drop the value that this returns before the
    /// device is destroyed.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(self.0)
    }
}
