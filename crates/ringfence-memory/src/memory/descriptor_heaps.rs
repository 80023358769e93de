//! The descriptor heaps of an allocator, registered so that reclaims visit them and the last drop destroys them.
//!
//! ```text
//!   handle (CpuDescriptorHeap, ShaderVisibleHeap, …) ──▶ Arc<state> ◀── DescriptorHeaps, in `Shared`
//!                                                           │
//!   last handle dropped: closed ── points passed ──▶ destroyed by reclaim, and out of the list
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ringfence_timeline::Passed;
use ringfence_trace::DescriptorSnapshot;
use smallvec::SmallVec;

use super::shared::Shared;
use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::device::lock::Lock;

/// A descriptor heap. Its slots are freed once the points that they wait for have passed.
pub trait ReclaimHeap<D: Device>: Send + Sync {
    /// Frees slots whose points have passed; if the device is lost, all slots. Returns `false` once the heap is closed
    /// and destroyed; this method is then not called again. It is called on one thread at a time: another thread skips
    /// the heap. A call with `is_short` is an additional call within a frame, because memory is short: it must not
    /// advance the age of anything.
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) -> bool;

    /// Appends a [`DescriptorSnapshot`] to `into` for each region of the heap (persistent, frame, bindless, CPU-only).
    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>);

    /// Destroys all remaining objects.
    ///
    /// # Safety
    /// No pending work uses the heap, and the heap is not used afterwards.
    unsafe fn destroy(&self, shared: &Shared<D>);
}

pub(crate) struct DescriptorHeaps<D: Device> {
    /// The registered heaps. They are visited without the lock, because a heap may be the program's own and call the
    /// allocator.
    heaps: Lock<Vec<Arc<Entry<D>>>>,
    /// The claims on shader-visible heaps, by kind. A kind is claimed as long as the `Arc` exists.
    visible_kinds: Lock<[Weak<()>; HeapKind::ALL.len()]>,
}

struct Entry<D: Device> {
    heap: Arc<dyn ReclaimHeap<D>>,
    /// `true` while a thread calls `reclaim`, and after the heap is closed. Several threads may visit the heaps at
    /// once, because a shutdown does not wait for other threads.
    is_taken: AtomicBool,
}

/// A visit of a heap, which ends when this value is dropped, even after a panic.
struct Visit<'a>(&'a AtomicBool);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<D: Device> Entry<D> {
    /// Calls the heap's `reclaim`, unless another thread does. Returns `true` if the heap is now closed.
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) -> bool {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return false;
        }
        let visit = Visit(&self.is_taken);
        let is_closed = !self.heap.reclaim(shared, passed, device_lost, is_short);
        if is_closed {
            std::mem::forget(visit);
        }
        is_closed
    }
}

impl<D: Device> DescriptorHeaps<D> {
    pub(crate) fn new() -> Self {
        Self { heaps: Lock::new(Vec::new()), visible_kinds: Lock::default() }
    }

    pub(crate) fn add(&self, heap: Arc<dyn ReclaimHeap<D>>) {
        self.heaps.lock().push(Arc::new(Entry { heap, is_taken: AtomicBool::new(false) }));
    }

    /// Claims the shader-visible heap of this kind. Returns `None` if the kind is already claimed.
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

    pub(crate) fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) {
        let mut closed: SmallVec<[Arc<Entry<D>>; 4]> = SmallVec::new();
        // One at a time, to allocate no host memory. A heap that is added meanwhile is visited by the next reclaim.
        let count = self.heaps.lock().len();
        for at in 0..count {
            let Some(entry) = self.at(at) else { break };
            if entry.reclaim(shared, passed, device_lost, is_short) {
                closed.push(entry);
            }
        }
        if !closed.is_empty() {
            self.heaps.lock().retain(|held| !closed.iter().any(|entry| Arc::ptr_eq(&entry.heap, &held.heap)));
        }
    }

    fn at(&self, at: usize) -> Option<Arc<Entry<D>>> {
        self.heaps.lock().get(at).cloned()
    }

    pub(crate) fn snapshot(&self) -> Vec<DescriptorSnapshot> {
        let mut regions = Vec::new();
        let heaps: Vec<_> = self.heaps.lock().iter().map(|entry| Arc::clone(&entry.heap)).collect();
        heaps.iter().for_each(|heap| heap.snapshot(&mut regions));
        regions
    }

    /// Leaks the heaps, because pending work may still use them.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.heaps.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and no other owner of the allocator is left.
    pub(crate) unsafe fn destroy(&self, shared: &Shared<D>) {
        let heaps = std::mem::take(&mut *self.heaps.lock());
        for entry in heaps {
            // SAFETY: the caller promises the same.
            unsafe { entry.heap.destroy(shared) };
        }
    }
}

#[cfg(test)]
mod tests;
