//! The memory of a block, as what lies in the block has it: without a count.
//!
//! ```text
//!   arena ── Block ── Arc ──▶ Memory ◀┄┄ BlockMemory ┄┄ a range that is live in the block
//! ```
//!
//! A range keeps its block where it is: an arena takes a block out only when nothing in it is live. So a range need not
//! count itself among the owners of the memory, which would be two more writes to a line that all threads share.
//!
//! | operation | cost |
//! |---|---|
//! | all | O(1); [`BlockMemory::share`] counts an owner |

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use ringfence_lockfree::slots::SlotMemory;

use super::memory_object::Memory;
use crate::device::Device;

/// A block's memory, for what has a live range of the block. See the [module](self).
pub(crate) struct BlockMemory<D: Device>(NonNull<Memory<D>>);

// SAFETY: it is a shared reference to memory that several threads may look at.
unsafe impl<D: Device> Send for BlockMemory<D> where Memory<D>: Send + Sync {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for BlockMemory<D> where Memory<D>: Send + Sync {}

impl<D: Device> BlockMemory<D> {
    /// # Safety
    /// It and its copies are read only while a range is live in the block that owns `memory`.
    pub(crate) unsafe fn new(memory: &Arc<Memory<D>>) -> Self {
        // As the count's own pointer, so that it can be counted later.
        Self(NonNull::new(Arc::as_ptr(memory).cast_mut()).expect("what is owned has an address"))
    }

    /// Another owner of the memory. It has to go before the range does.
    pub(crate) fn share(&self) -> Arc<Memory<D>> {
        // SAFETY: the pointer is an `Arc`'s, whose block owns it as long as the range is live, as the maker promised.
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
        // SAFETY: the block owns the memory as long as the range is live, as the maker promised.
        unsafe { self.0.as_ref() }
    }
}
