//! What an allocator knows of its descriptor heaps: enough to reclaim them, and to destroy them when it goes.
//!
//! ```text
//!   handle (CpuDescriptorHeap, ShaderVisibleHeap, …) ──▶ Arc<state> ◀── DescriptorHeaps, in what all share
//!                                                           │
//!   last handle dropped: closed ── points passed ──▶ destroyed by reclaim, and out of the list
//! ```

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::shared::Shared;
use super::snapshot::DescriptorSnapshot;
use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::timeline::Passed;

/// A heap of descriptors, whose slots come back when points have passed.
pub trait ReclaimHeap<D: Device>: Send + Sync {
    /// Takes back what has passed; everything, if the device is lost. Returns `false` once it is closed and destroyed.
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool) -> bool;

    /// Adds its regions.
    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>);

    /// Destroys all that is left.
    ///
    /// # Safety
    /// No work that uses it is pending, and nothing uses it any more.
    unsafe fn destroy(&self, shared: &Shared<D>);
}

pub(crate) struct DescriptorHeaps<D: Device> {
    /// Visited without the lock: a heap may be of the program's own, and call back.
    heaps: Mutex<Vec<Arc<dyn ReclaimHeap<D>>>>,
    /// The claims on the shader-visible heaps, by kind: each is made as long as somewhere its `Arc` is held.
    visible_kinds: Mutex<[Weak<()>; HeapKind::ALL.len()]>,
}

impl<D: Device> DescriptorHeaps<D> {
    pub(crate) fn new() -> Self {
        Self { heaps: Mutex::new(Vec::new()), visible_kinds: Mutex::default() }
    }

    pub(crate) fn add(&self, heap: Arc<dyn ReclaimHeap<D>>) {
        self.heaps.lock().push(heap);
    }

    /// `None` if there is a shader-visible heap of this kind.
    pub(crate) fn claim(&self, kind: HeapKind) -> Option<Arc<()>> {
        let claim = &mut self.visible_kinds.lock()[kind as usize];
        (claim.strong_count() == 0).then(|| {
            let made = Arc::new(());
            *claim = Arc::downgrade(&made);
            made
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heaps.lock().is_empty()
    }

    pub(crate) fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool) {
        let mut closed: SmallVec<[Arc<dyn ReclaimHeap<D>>; 4]> = SmallVec::new();
        for heap in self.all() {
            if !heap.reclaim(shared, passed, device_lost) {
                closed.push(heap);
            }
        }
        if !closed.is_empty() {
            self.heaps.lock().retain(|held| !closed.iter().any(|heap| Arc::ptr_eq(heap, held)));
        }
    }

    fn all(&self) -> SmallVec<[Arc<dyn ReclaimHeap<D>>; 16]> {
        self.heaps.lock().iter().cloned().collect()
    }

    pub(crate) fn snapshot(&self) -> Vec<DescriptorSnapshot> {
        let mut regions = Vec::new();
        self.all().iter().for_each(|heap| heap.snapshot(&mut regions));
        regions
    }

    /// Forgets them: what pending work may still use is better leaked than destroyed under it.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.heaps.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and no other owner of the allocator is left.
    pub(crate) unsafe fn destroy(&self, shared: &Shared<D>) {
        let heaps = std::mem::take(&mut *self.heaps.lock());
        for heap in heaps {
            // SAFETY: as the caller promises.
            unsafe { heap.destroy(shared) };
        }
    }
}

#[cfg(test)]
mod tests;
