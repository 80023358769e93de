//! The descriptor heaps of a device that are plain sets: sets that are not updated while they are bound. Before a
//! buffer or image is destroyed, all slots that refer to it must be cleared.
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

/// Buffer or image that a slot refers to. A buffer and an image may have equal handles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Resource {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

/// Heap with slots that refer to buffers and images.
pub(super) trait ShowsResources: Send + Sync {
    /// Clears every slot that refers to `resource`.
    fn clear_slots_of(&self, resource: Resource);
}

/// Heaps of plain sets, which are descriptor sets that are not updated while they are bound. A bind writes all slots of
/// a heap into a set, even those that no shader reads.
#[derive(Default)]
pub(super) struct PlainHeaps {
    heaps: Lock<Vec<Weak<dyn ShowsResources>>>,
    /// Created with the first heap. Before that, releasing a resource needs no check.
    counts: OnceLock<Arc<Counts>>,
}

impl PlainHeaps {
    pub(super) fn add(&self, heap: Weak<dyn ShowsResources>) {
        let mut heaps = self.heaps.lock();
        heaps.retain(|held| held.strong_count() > 0);
        heaps.push(heap);
    }

    /// Returns the counters, which all heaps of plain sets share. Creates them on the first call.
    pub(super) fn counts(&self) -> &Arc<Counts> {
        self.counts.get_or_init(|| Arc::new(Counts::new()))
    }

    #[inline]
    pub(super) fn clear_slots_of(&self, resource: Resource) {
        if self.counts.get().is_some_and(|counts| counts.may_show(resource)) {
            self.clear_in_heaps(resource);
        }
    }

    /// Returns a guard. While the guard exists, no slot is cleared because of a released resource, so a copy from one
    /// heap to another is consistent.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.heaps.lock()
    }

    #[cold]
    fn clear_in_heaps(&self, resource: Resource) {
        self.heaps.lock().iter().filter_map(Weak::upgrade).for_each(|heap| heap.clear_slots_of(resource));
    }
}

/// Number of slots that refer to a resource, by a hash of the resource. For most released resources it is 0, so no heap
/// has to be searched.
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

    // Relaxed suffices: the thread that releases a resource has already synchronised with each thread that wrote it to
    // a slot.
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
