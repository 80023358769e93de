//! The heaps of a device whose slots must not outlive what they show.
//!
//! ```text
//!   a resource is released ──▶ Counts: does a slot show it, as far as a hash says? ── no ──▶ nothing to do, no lock
//!                                └─ it may ──▶ each heap: its index knows the slots        (descriptor/slots.rs)
//! ```

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ash::vk;
use ringfence_hal::lock::Lock;

/// What a slot shows. Handles of different kinds may be equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Resource {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

/// A heap whose slots show buffers and images.
pub(super) trait ShowsResources: Send + Sync {
    /// Clears every slot that shows this.
    fn clear_slots_of(&self, resource: Resource);
}

/// The heaps of plain sets, where a bind writes whatever the slots show, read or not.
#[derive(Default)]
pub(super) struct PlainHeaps {
    heaps: Lock<Vec<Weak<dyn ShowsResources>>>,
    /// Made with the first heap: without one, what releases resources does nothing.
    counts: OnceLock<Arc<Counts>>,
}

impl PlainHeaps {
    pub(super) fn add(&self, heap: Weak<dyn ShowsResources>) {
        let mut heaps = self.heaps.lock();
        heaps.retain(|held| held.strong_count() > 0);
        heaps.push(heap);
    }

    /// What slots of heaps that are added count in.
    pub(super) fn counts(&self) -> &Arc<Counts> {
        self.counts.get_or_init(|| Arc::new(Counts::new()))
    }

    #[inline]
    pub(super) fn clear_slots_of(&self, resource: Resource) {
        if self.counts.get().is_some_and(|counts| counts.may_show(resource)) {
            self.clear_in_heaps(resource);
        }
    }

    /// As long as this is held, no slot is cleared: what is read of one heap may be written to another.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.heaps.lock()
    }

    #[cold]
    fn clear_in_heaps(&self, resource: Resource) {
        self.heaps.lock().iter().filter_map(Weak::upgrade).for_each(|heap| heap.clear_slots_of(resource));
    }
}

/// How many slots show resources, by a hash of these: 0 for most that are released.
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

    // Relaxed: who releases a resource has it from who wrote the slot.
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
