//! The heaps of plain sets. Their slots must be cleared before the resources that they refer to are destroyed.
//!
//! ```text
//!   a resource is released ──▶ Counts: does a slot refer to it, by its hash? ── no ──▶ nothing to do, no lock
//!                                └─ maybe ──▶ each heap: its index has the slots          (descriptor/slots.rs)
//! ```

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ash::vk;
use ringfence_hal::lock::Lock;

/// A resource that a slot refers to. Handles of different kinds may be equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Resource {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

/// A heap whose slots refer to buffers and images.
pub(super) trait ShowsResources: Send + Sync {
    /// Clears every slot that refers to `resource`.
    fn clear_slots_of(&self, resource: Resource);
}

/// The heaps of plain sets. A bind writes all of their slots into a set, even if no shader reads them.
#[derive(Default)]
pub(super) struct PlainHeaps {
    heaps: Lock<Vec<Weak<dyn ShowsResources>>>,
    /// Created with the first heap. Without a heap, the release of a resource has nothing to clear.
    counts: OnceLock<Arc<Counts>>,
}

impl PlainHeaps {
    pub(super) fn add(&self, heap: Weak<dyn ShowsResources>) {
        let mut heaps = self.heaps.lock();
        heaps.retain(|held| held.strong_count() > 0);
        heaps.push(heap);
    }

    /// Returns the counts for the slots of heaps that are added.
    pub(super) fn counts(&self) -> &Arc<Counts> {
        self.counts.get_or_init(|| Arc::new(Counts::new()))
    }

    #[inline]
    pub(super) fn clear_slots_of(&self, resource: Resource) {
        if self.counts.get().is_some_and(|counts| counts.may_show(resource)) {
            self.clear_in_heaps(resource);
        }
    }

    /// Returns a guard during which no slot is cleared, so that a copy from one heap to another is consistent.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.heaps.lock()
    }

    #[cold]
    fn clear_in_heaps(&self, resource: Resource) {
        self.heaps.lock().iter().filter_map(Weak::upgrade).for_each(|heap| heap.clear_slots_of(resource));
    }
}

/// Number of slots that refer to resources, by a hash of the resource. It is 0 for most resources that are released.
pub(super) struct Counts(Box<[AtomicU32]>);

impl Counts {
    const COUNT: usize = 1 << 14;

    fn new() -> Self {
        Self((0..Self::COUNT).map(|_| AtomicU32::new(0)).collect())
    }

    fn of(&self, resource: Resource) -> &AtomicU32 {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(resource);
        &self.0[hash as usize % Self::COUNT]
    }

    // Relaxed: the thread that releases a resource has synchronised with the thread that wrote the slot.
    fn may_show(&self, resource: Resource) -> bool {
        self.of(resource).load(Ordering::Relaxed) > 0
    }

    pub(super) fn add(&self, resource: Resource) {
        self.of(resource).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, resource: Resource) {
        self.of(resource).fetch_sub(1, Ordering::Relaxed);
    }
}
