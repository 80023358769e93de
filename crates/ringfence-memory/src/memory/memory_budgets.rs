//! Budgets as a program uses them: figures of each memory heap, freeing what is not used, making blocks ahead of need,
//! and the callback for when memory runs short.
//!
//! | operation | cost |
//! |---|---|
//! | [`MemoryBudgets::heap`], [`MemoryBudgets::memory_object_count`] | a few loads |
//! | [`MemoryBudgets::trim`], [`MemoryBudgets::trim_to`] | O(blocks + what is recycled), a driver call for each block that goes |
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

/// The budgets of an allocator's memory heaps, and the blocks that are held ahead of need within them. Made by
/// [`Allocator::budgets`](crate::Allocator::budgets).
pub struct MemoryBudgets<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> MemoryBudgets<'_, D> {
    /// Usage and limits of a memory heap, by the budget that the driver reported last and the allocations since. A few
    /// loads, no driver call.
    ///
    /// # Panics
    /// If there is no such heap.
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.0.budgets.heap(heap)
    }

    /// How many memory objects this allocator holds of any heap, imported ones included. It keeps them below
    /// [`memory_objects_max`](crate::device::Capabilities::memory_objects_max). One load.
    #[must_use]
    pub fn memory_object_count(&self) -> u64 {
        self.0.memory_objects.load(Ordering::Relaxed)
    }

    /// Destroys the objects kept for recycling, frees every empty block (those of placements too), and returns how many
    /// memory objects were freed.
    pub fn trim(&self) -> usize {
        self.0.trim()
    }

    /// If this allocator holds more than `target_bytes` in all heaps, destroys the objects kept for recycling, and
    /// frees empty blocks, those of placements last, until it holds no more than that or has none left. Returns how
    /// many bytes were freed.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        self.0.trim_to(target_bytes)
    }

    /// Sets what is called when memory runs short and nothing else has helped: see the fallback order in
    /// [`memory`](crate::memory). The callback releases resources and returns whether it did; then retired objects that
    /// the device is done with are destroyed and the request is tried again, at most 8 times. `None` removes the
    /// callback.
    ///
    /// It is called on the thread whose allocation failed, with no lock held, and may use the allocator; what it
    /// requests itself, of any allocator, calls no callback. A callback that owns a clone of the allocator keeps it and its memory alive
    /// until the callback is removed: by `None`, or by [`Allocator::shutdown`](crate::Allocator::shutdown) when it
    /// succeeds. If it panics, nothing was made and nothing is lost. The previous callback is
    /// dropped here, or at the end of a call of it that is under way.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.0.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Announces that the program is going to allocate `bytes` for resources of `class` with `desc`, for example before
    /// it loads a level. The blocks for them are made now, with a driver call each on this thread, so that the
    /// allocations need none. Returns how many bytes were requested of the driver: fewer than announced if there are
    /// empty blocks.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) does not free these blocks before as many bytes were allocated
    /// in them. [`MemoryBudgets::trim`] and a shortage of memory do, and cancel the announcement; if memory is short for
    /// a further announcement, all else that is empty or recycled goes, and what was announced stays. Resources that get
    /// dedicated memory, for their size or because the driver prefers it, do not use these blocks. If the free space at
    /// the ends of blocks is too small, the last allocations may need one more block.
    ///
    /// Of `desc`, the location, the memory types and properties, `within_budget` and `never_grow` are used. Only the
    /// best memory type is tried; if the resources' requirements are known, set `memory_types` to the types that they
    /// allow. No lock that an allocation needs is held, so a thread of its own may call it.
    ///
    /// # Errors
    /// More than the heap has, no memory type, no memory, over the budget. Earlier announcements hold then, and the blocks
    /// that were made are freed again.
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

    /// Makes a block wherever free bytes are below the low-water mark, a driver call each, so that no allocation waits
    /// for one. Returns how many it made. For programs that call it on a thread of their own; otherwise use
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
    pub fn maintain(&self) -> usize {
        self.0.maintain()
    }

    /// Starts a thread that makes blocks before they are needed. It sleeps until an arena falls below its low-water
    /// mark; it ends when the value that this returns is dropped.
    ///
    /// The mark is half a block, or more where more is used while the driver makes one: up to four blocks. If the
    /// program allocates faster than the driver makes blocks, only this avoids waiting:
    /// [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).
    ///
    /// The thread may be in a driver call when the allocator is dropped: drop the value that this returns before the
    /// device is destroyed.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(self.0)
    }
}
