//! Single descriptors for a thread that takes and releases many: no step that other threads see.
//!
//! ```text
//!   LocalDescriptors   ▢▢▢▢▢ ── allocate ──▶ CpuDescriptors          a pop, a push: nothing atomic
//!                        ▲    ◀─── free ────       │ dropped, by whichever thread
//!                        └ none: a batch           ▼
//!                  the heap, under its lock ◀── its thread cache
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free | O(1), nothing atomic; a batch under the heap's lock now and then |

use std::fmt;

use ringfence_core::buddy::Buddy;

use super::cpu::{CpuDescriptorHeap, CpuDescriptors, let_go};
use super::singles::BoxedRun;
use super::{DescriptorError, SlotAllocator};
use crate::device::descriptors::Descriptors;

/// So many slots it holds at the most.
const ROOM: usize = 64;

/// Takes single descriptors from a [`CpuDescriptorHeap`] for one thread, and takes them back. Made by
/// [`CpuDescriptorHeap::local`].
///
/// What it hands out are descriptors like any others: any thread may drop them. The few slots that it keeps cached count
/// as in use until it is dropped.
pub struct LocalDescriptors<D: Descriptors, A: SlotAllocator = Buddy> {
    heap: CpuDescriptorHeap<D, A>,
    /// Each of one slot that shows nothing; the last goes first.
    ready: Vec<BoxedRun<D, A>>,
    /// How many the next batch has.
    batch: usize,
}

impl<D: Descriptors, A: SlotAllocator> LocalDescriptors<D, A> {
    pub(super) fn new(heap: CpuDescriptorHeap<D, A>) -> Self {
        Self { heap, ready: Vec::with_capacity(ROOM), batch: 1 }
    }

    /// One slot. O(1).
    ///
    /// # Errors
    /// As [`CpuDescriptorHeap::allocate`].
    #[inline]
    pub fn allocate(&mut self) -> Result<CpuDescriptors<D, A>, DescriptorError> {
        match self.ready.pop() {
            Some(single) => Ok(self.heap.handed_out(single)),
            None => self.allocate_from_heap(),
        }
    }

    #[cold]
    fn allocate_from_heap(&mut self) -> Result<CpuDescriptors<D, A>, DescriptorError> {
        let first = self.heap.allocate(1)?;
        self.heap.take_singles(self.batch, &mut self.ready);
        self.batch = (self.batch * 2).min(ROOM / 2);
        Ok(first)
    }

    /// Takes a descriptor back, for the next that is asked for. One that is another heap's, or of several slots, goes back
    /// where it came from. O(1).
    #[inline]
    pub fn free(&mut self, mut descriptors: CpuDescriptors<D, A>) {
        if self.ready.len() == ROOM || !descriptors.is_single_of(&self.heap) {
            return;
        }
        if let Some(mut run) = descriptors.take_run() {
            let_go(&mut run);
            self.ready.push(run);
        }
    }

    /// The heap that it takes from.
    #[must_use]
    pub fn heap(&self) -> &CpuDescriptorHeap<D, A> {
        &self.heap
    }
}

impl<D: Descriptors, A: SlotAllocator> Drop for LocalDescriptors<D, A> {
    fn drop(&mut self) {
        self.heap.put_singles(&mut self.ready);
    }
}

impl<D: Descriptors, A: SlotAllocator> fmt::Debug for LocalDescriptors<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalDescriptors({} cached of {:?})", self.ready.len(), self.heap)
    }
}
