//! What an allocator knows of its descriptor heaps: enough to reclaim them, and to destroy them when it goes.
//!
//! ```text
//!   handle (CpuDescriptorHeap, ShaderVisibleHeap, …) ──▶ Arc<state> ◀── DescriptorHeaps, in what all share
//!                                                           │
//!   last handle dropped: closed ── points passed ──▶ destroyed by reclaim, and out of the list
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use super::snapshot::DescriptorSnapshot;
use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::observe::Trace;
use crate::timeline::Passed;

/// A heap of descriptors, whose slots come back when points have passed.
pub trait ReclaimHeap<D: Device>: Send + Sync {
    /// Takes back what has passed; everything, if the device is lost. Returns `false` once it is closed and destroyed.
    fn reclaim(&self, device: &D, trace: &Trace, passed: &Passed, device_lost: bool) -> bool;

    /// Adds its regions.
    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>);

    /// Destroys all that is left.
    ///
    /// # Safety
    /// No work that uses it is pending, and nothing uses it any more.
    unsafe fn destroy(&self, device: &D, trace: &Trace);
}

/// Every heap of an allocator.
pub(crate) struct DescriptorHeaps<D: Device> {
    heaps: Mutex<Vec<Arc<dyn ReclaimHeap<D>>>>,
    /// A bit for each kind that has a shader-visible heap.
    visible_kinds: Arc<AtomicU8>,
}

/// The right to have the shader-visible heap of a kind. Ends when it is dropped.
pub struct OnlyOne {
    visible_kinds: Arc<AtomicU8>,
    bit: u8,
}

impl<D: Device> DescriptorHeaps<D> {
    pub(crate) fn new() -> Self {
        Self { heaps: Mutex::new(Vec::new()), visible_kinds: Arc::default() }
    }

    /// Has a heap visited by each reclaim from now on, until it says that it is closed.
    pub(crate) fn add(&self, heap: Arc<dyn ReclaimHeap<D>>) {
        self.heaps.lock().push(heap);
    }

    /// `None` if there is a shader-visible heap of this kind.
    pub(crate) fn claim(&self, kind: HeapKind) -> Option<OnlyOne> {
        let bit = 1 << kind as u8;
        let before = self.visible_kinds.fetch_or(bit, Ordering::AcqRel);
        (before & bit == 0).then(|| OnlyOne { visible_kinds: Arc::clone(&self.visible_kinds), bit })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heaps.lock().is_empty()
    }

    pub(crate) fn reclaim(&self, device: &D, trace: &Trace, passed: &Passed, device_lost: bool) {
        self.heaps.lock().retain(|heap| heap.reclaim(device, trace, passed, device_lost));
    }

    pub(crate) fn snapshot(&self) -> Vec<DescriptorSnapshot> {
        let mut regions = Vec::new();
        self.heaps.lock().iter().for_each(|heap| heap.snapshot(&mut regions));
        regions
    }

    /// Forgets them: what pending work may still use is better leaked than destroyed under it.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.heaps.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and no other owner of the allocator is left.
    pub(crate) unsafe fn destroy(&self, device: &D, trace: &Trace) {
        for heap in self.heaps.lock().drain(..) {
            // SAFETY: as the caller promises.
            unsafe { heap.destroy(device, trace) };
        }
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        self.visible_kinds.fetch_and(!self.bit, Ordering::AcqRel);
    }
}
