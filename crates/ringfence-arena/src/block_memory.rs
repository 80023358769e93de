//! A reference from a range to the memory of its block, without a reference count.
//!
//! ```text
//!   arena ── Block ── Arc ──▶ Memory ◀┄┄ BlockMemory ┄┄ a range that is live in the block
//! ```
//!
//! An arena takes a block out only if no range in it is live, so a range keeps its block alive. Therefore a range needs
//! no reference count, which would cost two more writes to a cache line that all threads share. All operations are
//! O(1); [`BlockMemory::share`] increments the reference count.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use ringfence_lockfree::slots::SlotMemory;

use crate::device::Device;
use crate::memory_object::Memory;

/// The memory of a block, as the owner of a live range in it sees it.
pub struct BlockMemory<D: Device>(NonNull<Memory<D>>);

// SAFETY: it is a shared reference to memory that several threads may access.
unsafe impl<D: Device> Send for BlockMemory<D> where Memory<D>: Send + Sync {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for BlockMemory<D> where Memory<D>: Send + Sync {}

impl<D: Device> BlockMemory<D> {
    /// # Safety
    /// The value and its copies are read only while a range is live in the block that owns `memory`.
    pub unsafe fn new(memory: &Arc<Memory<D>>) -> Self {
        // From `Arc::as_ptr`, so that `share` can increment the count later.
        Self(NonNull::new(Arc::as_ptr(memory).cast_mut()).expect("an `Arc` has an address"))
    }

    /// Returns a counted reference to the memory. It must be dropped before the range is freed.
    pub fn share(&self) -> Arc<Memory<D>> {
        // SAFETY: the pointer comes from an `Arc` that the block owns as long as the range is live, as `new` requires.
        unsafe {
            Arc::increment_strong_count(self.0.as_ptr());
            Arc::from_raw(self.0.as_ptr())
        }
    }
}

impl<D: Device> Clone for BlockMemory<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for BlockMemory<D> {}

impl<D: Device> SlotMemory for BlockMemory<D> {
    fn is_evicted(&self) -> bool {
        Memory::is_evicted(self)
    }
}

impl<D: Device> Deref for BlockMemory<D> {
    type Target = Memory<D>;

    #[inline]
    fn deref(&self) -> &Memory<D> {
        // SAFETY: the block owns the memory as long as the range is live, as `new` requires.
        unsafe { self.0.as_ref() }
    }
}
