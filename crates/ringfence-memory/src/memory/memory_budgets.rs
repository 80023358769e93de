//! The program's interface to budgets: usage of each memory heap, freeing unused memory, creating blocks before they
//! are needed, and the eviction callback.
//!
//! | operation | cost |
//! |---|---|
//! | [`MemoryBudgets::heap`], [`MemoryBudgets::memory_object_count`], [`MemoryBudgets::set_limit`] | a few atomic operations |
//! | [`MemoryBudgets::trim`], [`MemoryBudgets::trim_to`] | O(blocks + recycled objects), a driver call for each destroyed object and each freed block |
//! | [`MemoryBudgets::keep_bytes`] | O(1) |
//! | [`MemoryBudgets::reserve`], [`MemoryBudgets::maintain`] | a driver call for each block |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_decision::{AllocationDesc, Attempt, Budget, Error, Evict};

use super::excess::OnExcess;
use super::growth::Maintenance;
use super::shared::Shared;
use crate::device::{Device, ResourceClass};

/// Interface to the budgets of an allocator's memory heaps, and to the creation of blocks before they are needed.
/// Created by [`Allocator::budgets`](crate::Allocator::budgets).
pub struct MemoryBudgets<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> MemoryBudgets<'_, D> {
    /// Returns usage and limits of a memory heap: the budget and the usage that the driver reported last. The usage
    /// includes this allocator's changes since then. A few loads, no driver call.
    ///
    /// # Panics
    /// If there is no such heap.
    #[doc(alias("vmaGetHeapBudgets", "QueryVideoMemoryInfo"))]
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.0.budgets.heap(heap)
    }

    /// Returns the number of this allocator's memory objects in all heaps, imported ones included. It is at most
    /// [`memory_objects_max`](crate::device::Capabilities::memory_objects_max). One load.
    #[must_use]
    pub fn memory_object_count(&self) -> u64 {
        self.0.memory_objects.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of bytes that the allocator takes from a heap, from now on:
    /// [`AllocatorDesc::heap_bytes_max`](crate::AllocatorDesc::heap_bytes_max). Returns the number of bytes by which
    /// the allocator exceeds the limit. If it is not 0, call [`MemoryBudgets::trim`], and release resources. A `Paging`
    /// (of `ringfence-paging`) moves its resources off the device in its next commits. O(1).
    ///
    /// # Panics
    /// If there is no such heap.
    pub fn set_limit(&self, heap: u32, bytes: u64) -> u64 {
        self.0.budgets.set_limit(heap, bytes)
    }

    /// Destroys recycled objects and empty shared buffers, and frees all empty blocks, also those of placements
    /// (`ringfence-placement`). A custom pool keeps its minimum number of blocks. Returns the number of freed memory
    /// objects.
    pub fn trim(&self) -> usize {
        self.0.trim()
    }

    /// If this allocator has more than `target_bytes` in all heaps together, destroys all recycled objects and empty
    /// shared buffers, then frees empty blocks until the allocator has at most `target_bytes`. Empty blocks of
    /// placements (`ringfence-placement`) are freed last. Returns the number of freed bytes.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        self.0.trim_to(target_bytes)
    }

    /// Sets the eviction callback; `None` removes it. The callback is called if memory is short and every earlier step
    /// of the [fallback order](crate::memory) has failed. The callback releases resources, and returns `true` if it
    /// did. Then the request releases retired objects that the device is done with, and tries again, at most 8 times.
    ///
    /// The callback runs on the thread whose allocation failed, with no lock held, and may use the allocator. If a
    /// request that the callback makes fails, of any allocator, no eviction callback is called. A callback that owns a
    /// clone of the allocator keeps the allocator and its memory alive until the callback is removed: by `None`, or by
    /// a successful [`Allocator::shutdown`](crate::Allocator::shutdown). If the callback panics, the request creates
    /// nothing and leaks nothing. The previous callback is dropped in this call, or if it is running, at the end of its
    /// run.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.0.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }

    /// Sets the callback for heaps whose usage exceeds their budget; `None` removes it. Another process uses memory, or
    /// the driver has lowered the budget: the driver may move memory of this process to the host, which makes it slow.
    /// The callback should lower quality settings, or ask a `Paging` or the program's streaming to hold less.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) calls it with the heap and its figures, on its own thread, with
    /// no lock held: once if the usage exceeds the budget, and again if the budget falls further, or if the usage was
    /// within the budget meanwhile. The callback may use the allocator. A callback that owns a clone of the allocator
    /// keeps the allocator alive until it is removed: by `None`, or by a successful
    /// [`Allocator::shutdown`](crate::Allocator::shutdown).
    pub fn set_excess_callback(&self, callback: Option<Box<OnExcess>>) {
        // The previous one is dropped here, with no lock held: its `Drop` is the program's code.
        drop(self.0.excess.set(callback.map(Arc::from)));
    }

    /// Announces that the program will allocate `bytes` for resources of `class` with `desc`, for example before it
    /// loads a level. This call creates the blocks, with a driver call each; the announced allocations then need no
    /// driver call for memory. Returns the number of bytes that were requested from the driver: less than `bytes` if
    /// there are empty blocks, more if block sizes are rounded up.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) keeps empty blocks for these bytes until the program has
    /// allocated `bytes` from the same memory type and class. [`MemoryBudgets::trim`] and a shortage of memory free
    /// them and cancel the announcement. If memory is short for another announcement, all other empty blocks and
    /// recycled objects are freed, but announced blocks are kept. Dedicated memory (for a large resource, or if the
    /// driver prefers it) does not use these blocks. If the free space at the ends of blocks is too small, the last
    /// allocations may need one more block.
    ///
    /// Of `desc`, only the location, the memory types and properties, `within_budget` and `never_grow` are used. Only
    /// the best memory type is tried: if the requirements of the resources are known, set `memory_types` to the types
    /// that they allow. The call holds no lock that an allocation needs, so a separate thread may make it.
    ///
    /// # Errors
    /// The announcement exceeds the heap or (with `within_budget`) the budget, no memory type fits, or there is no
    /// memory. The blocks of this announcement are then freed; earlier announcements are kept.
    pub fn reserve(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<u64, Error> {
        let shared = self.0;
        shared.check_lost()?;
        if bytes == 0 {
            return Ok(0);
        }
        let memory_type = self.announced_type(bytes, &desc)?;
        let mut attempt = Attempt::at(memory_type, bytes, &desc);
        attempt.constraints.spares_announced = true;
        let mut types = shared.order.candidates_for(shared.device.capabilities(), &desc, u32::MAX);
        attempt.constraints.beyond_window =
            types.all(|memory_type| shared.budgets.is_window(shared.heap_of(memory_type)));
        let arena = &shared.arenas[shared.shared_arena_index(memory_type, class) as usize];
        let made = shared.announce(arena, bytes, &mut attempt);
        made.map_err(|failure| shared.give_up(&attempt, None, failure))
    }

    /// Announces allocations as [`MemoryBudgets::reserve`] does, but creates no block: from now on, blocks that become
    /// empty are kept for these bytes. Call it before a level is unloaded, with the bytes of the next level. O(1), no
    /// driver call.
    ///
    /// # Errors
    /// The announcement exceeds the heap, or no memory type fits.
    pub fn keep_bytes(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<(), Error> {
        let memory_type = self.announced_type(bytes, &desc)?;
        let arena = &self.0.arenas[self.0.shared_arena_index(memory_type, class) as usize];
        arena.insert_announced(bytes, Vec::new());
        Ok(())
    }

    /// Returns the best memory type for announced bytes.
    fn announced_type(&self, bytes: u64, desc: &AllocationDesc<'_>) -> Result<u32, Error> {
        let (shared, capabilities) = (self.0, self.0.device.capabilities());
        let no_type = Error::NoMemoryType { location: desc.location, memory_type_bits: desc.memory_types };
        let memory_type = shared.order.candidates_for(capabilities, desc, u32::MAX).next().ok_or(no_type)?;
        let max = capabilities.memory_heaps[shared.heap_of(memory_type) as usize].bytes;
        if bytes > max { Err(Error::TooLarge { size: bytes, max }) } else { Ok(memory_type) }
    }

    /// Creates blocks in each arena (memory type and class, or custom pool) that has fewer free bytes than its
    /// low-water mark, until the free bytes reach the mark or the budget is used up. One driver call for each block.
    /// Returns the number of created blocks. Call it on a thread that may wait for the driver, or use
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
    pub fn maintain(&self) -> usize {
        self.0.maintain()
    }

    /// Starts a thread that creates blocks before they are needed. It sleeps while the free bytes of each arena are
    /// above the arena's low-water mark. It ends when the returned value is dropped.
    ///
    /// The mark is at least half a block. If the program allocates many bytes while the driver creates a block, the
    /// mark rises, up to four blocks. Free bytes in holes that were too small for a request are added to the mark. If
    /// the program allocates faster than the driver creates blocks, only [`MemoryBudgets::reserve`] avoids waiting.
    ///
    /// After each reclaim, the thread frees a part of the empty blocks that the reclaim would free without the thread.
    /// A driver can make other threads wait meanwhile. On an H100, the creation of an image waits until such a call
    /// returns: 0.9 ms for 32 MiB, 5.5 ms for 256 MiB.
    ///
    /// Drop the returned value before the device is destroyed, because the thread may be in a driver call.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(self.0)
    }
}
