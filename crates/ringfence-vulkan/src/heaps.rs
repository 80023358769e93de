//! The heaps of a device whose slots must not outlive what they show.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// A heap whose slots show buffers and images.
pub(super) trait ShowsResources: Send + Sync {
    /// Clears every slot that shows the buffer or image with this handle.
    fn clear_slots_of(&self, resource: u64);
}

/// The heaps of plain sets, where a bind writes whatever the slots show, read or not.
#[derive(Default)]
pub(super) struct PlainHeaps {
    heaps: Mutex<Vec<Weak<dyn ShowsResources>>>,
    /// Whether there ever was one: else what destroys resources takes no lock.
    any: AtomicBool,
}

impl PlainHeaps {
    pub(super) fn add(&self, heap: Weak<dyn ShowsResources>) {
        self.any.store(true, Ordering::Release);
        let mut heaps = self.heaps.lock();
        heaps.retain(|held| held.strong_count() > 0);
        heaps.push(heap);
    }

    pub(super) fn clear_slots_of(&self, resource: u64) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        self.heaps.lock().iter().filter_map(Weak::upgrade).for_each(|heap| heap.clear_slots_of(resource));
    }
}
