//! Staying within budget: how much is in use, what may be given back, and what to call when memory runs short.

use std::sync::Arc;

use super::budget::Budget;
use super::pressure::Evict;
use super::shared::Shared;
use crate::device::Device;

/// The budgets of an allocator's memory heaps. Made by [`Allocator::budgets`](crate::Allocator::budgets).
pub struct MemoryBudgets<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> MemoryBudgets<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// Use and limits of a memory heap, from what the driver said last and what was taken since. A few loads.
    ///
    /// # Panics
    /// If there is no such heap.
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.shared.budgets.heap(heap)
    }

    /// Gives every empty block back to the driver, and says how many there were.
    pub fn trim(&self) -> usize {
        self.shared.trim()
    }

    /// Gives empty blocks back to the driver until this allocator holds no more than `target_bytes` of all heaps, or has
    /// no empty block left; says how many bytes that were.
    pub fn trim_to(&self, target_bytes: u64) -> u64 {
        self.shared.trim_small_buffers();
        self.shared.free_empty_blocks(|_| true, target_bytes).1
    }

    /// Sets what is called when memory runs short and nothing else has helped: see the fallback order in
    /// [`memory`](crate::memory). It releases what it can do without and says whether it did; then what the device
    /// is done with is reclaimed and everything is tried again, a few times at most. `None` takes the callback away.
    ///
    /// It is called on the thread whose allocation failed, without a lock held, and may use the allocator; what it asks
    /// for itself does not call it again. If it panics, nothing was made and nothing is lost. The callback before goes
    /// here, or with the call of it that is under way.
    pub fn set_eviction(&self, evict: Option<Box<Evict>>) {
        let replaced = std::mem::replace(&mut *self.shared.evict.write(), evict.map(Arc::from));
        // Its `Drop` is the program's code, so it runs with no lock held.
        drop(replaced);
    }
}
