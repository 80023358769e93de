//! The program's interface to budgets: figures of each memory heap, freeing unused memory, creating blocks ahead of
//! need, and the eviction callback.
//!
//! | operation | cost |
//! |---|---|
//! | [`MemoryBudgets::heap`], [`MemoryBudgets::memory_object_count`] | a few loads |
//! | [`MemoryBudgets::trim`], [`MemoryBudgets::trim_to`] | O(blocks + recycled objects), a driver call for each freed block |
//! | [`MemoryBudgets::reserve`], [`MemoryBudgets::maintain`] | a driver call for each block |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::budget::Budget;
use super::growth::Maintenance;
use super::pressure::Evict;
use super::request::AllocationDesc;
use super::shared::Shared;
use super::shortage::Attempt;
use crate::device::{Device, ResourceClass};
use crate::error::Error;

/// The budgets of an allocator's memory heaps, and the blocks that are kept ahead of need within them. Created by
/// [`Allocator::budgets`](crate::Allocator::budgets).
pub struct MemoryBudgets<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> MemoryBudgets<'_, D> {
    /// Returns usage and limits of a memory heap: the budget that the driver reported last, with the allocations since.
    /// A few loads, no driver call.
    ///
    /// # Panics
    /// If there is no such heap.
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.0.budgets.heap(heap)
    }

    /// Returns the number of this allocator's memory objects in all heaps, imported ones included. The allocator keeps
    /// it below [`memory_objects_max`](crate::device::Capabilities::memory_objects_max). One load.
    #[must_use]
    pub fn memory_object_count(&self) -> u64 {
        self.0.memory_objects.load(Ordering::Relaxed)
    }

    /// Destroys recycled objects, frees every empty block (also those of placements), and returns the number of freed
    /// memory objects.
    pub fn trim(&self) -> usize {
        self.0.trim()
    }

    /// If this allocator has more than `target_bytes` in all heaps, destroys recycled objects and frees empty blocks,
    /// those of placements last, until it has at most that or no empty block is left. Returns the number of freed
    /// bytes.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        self.0.trim_to(target_bytes)
    }

    /// Sets the eviction callback, which is called if memory runs short and no other step has helped: see the fallback
    /// order in [`memory`](crate::memory). The callback releases resources and returns `true` if it did. Then retired
    /// objects that the device is done with are destroyed and the request is tried again, at most 8 times. `None`
    /// removes the callback.
    ///
    /// It is called on the thread whose allocation failed, with no lock held, and may use the allocator. Its own
    /// requests, to any allocator, call no callback. A callback that owns a clone of the allocator keeps the allocator
    /// and its memory alive until the callback is removed: by `None`, or by a successful
    /// [`Allocator::shutdown`](crate::Allocator::shutdown). If it panics, the request creates nothing and leaks
    /// nothing. The previous callback is dropped here, or at the end of its current call.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.0.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Announces that the program will allocate `bytes` for resources of `class` with `desc`, for example before it
    /// loads a level. The blocks are created now, with a driver call each on this thread, and the allocations then need
    /// no driver call for memory. Returns the number of bytes that were requested from the driver: fewer than announced
    /// if there are empty blocks.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) does not free these blocks before as many bytes were allocated
    /// in them. [`MemoryBudgets::trim`] and a shortage of memory free them and cancel the announcement. If memory is
    /// short for a further announcement, all other empty blocks and recycled objects are freed, and announced blocks
    /// are kept. Resources that get dedicated memory, for their size or because the driver prefers it, do not use these
    /// blocks. If the free space at the ends of blocks is too small, the last allocations may need one more block.
    ///
    /// Of `desc`, only the location, the memory types and properties, `within_budget` and `never_grow` are used. Only
    /// the best memory type is tried; if the resources' requirements are known, set `memory_types` to the types that
    /// they allow. The call holds no lock that an allocation needs, so a separate thread may make it.
    ///
    /// # Errors
    /// The announcement exceeds the heap or the budget, or there is no memory type or no memory. Earlier announcements
    /// are then kept, and the blocks of this one are freed again.
    pub fn reserve(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<u64, Error> {
        let shared = self.0;
        shared.check_lost()?;
        if bytes == 0 {
            return Ok(0);
        }
        let capabilities = shared.device.capabilities();
        let types = shared.order.candidates_for(capabilities, &desc, u32::MAX);
        let no_type = Error::NoMemoryType { location: desc.location, memory_type_bits: desc.memory_types };
        let memory_type = types.clone().next().ok_or(no_type)?;
        let max = capabilities.memory_heaps[shared.heap_of(memory_type) as usize].bytes;
        if bytes > max {
            return Err(Error::TooLarge { size: bytes, max });
        }
        let mut attempt = Attempt::at(memory_type, bytes, &desc);
        attempt.constraints.spares_announced = true;
        attempt.constraints.beyond_window =
            { types }.all(|memory_type| shared.budgets.is_window(shared.heap_of(memory_type)));
        let arena = &shared.arenas[shared.shared_arena_index(memory_type, class) as usize];
        let made = shared.announce(arena, bytes, &mut attempt);
        made.map_err(|failure| shared.give_up(&attempt, None, failure))
    }

    /// Creates a block in each arena whose free bytes are below the low-water mark, with a driver call each, so that
    /// allocations do not wait for one. Returns the number of created blocks. For programs that call it on a thread of
    /// their own; otherwise use
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
    pub fn maintain(&self) -> usize {
        self.0.maintain()
    }

    /// Starts a thread that creates blocks before they are needed. It sleeps until an arena falls below its low-water
    /// mark; it ends when the returned value is dropped.
    ///
    /// The mark is half a block, or more if the program uses more while the driver creates a block: up to four blocks.
    /// If the program allocates faster than the driver creates blocks, only [`MemoryBudgets::reserve`] avoids waiting.
    ///
    /// The thread may be in a driver call when the allocator is dropped: drop the returned value before the device is
    /// destroyed.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(self.0)
    }
}
