//! What an allocator knows of its descriptor heaps: enough to reclaim them, and to destroy them when it goes.
//!
//! ```text
//!   handle (CpuDescriptorHeap, ShaderVisibleHeap, …) ──▶ Arc<state> ◀── DescriptorHeaps, in what all share
//!                                                           │
//!   last handle dropped: closed ── points passed ──▶ destroyed by reclaim, and out of the list
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ringfence_trace::DescriptorSnapshot;
use smallvec::SmallVec;

use super::shared::Shared;
use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::observe::unlocked::Lock;
use crate::timeline::Passed;

/// A heap of descriptors, whose slots come back when points have passed.
pub trait ReclaimHeap<D: Device>: Send + Sync {
    /// Takes back what has passed; everything, if the device is lost. Returns `false` once it is closed and destroyed,
    /// and is not called again then. One thread at a time is in it; another that comes meanwhile leaves it out. A call
    /// that is made because memory is short counts for no age.
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) -> bool;

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
    heaps: Lock<Vec<Arc<Entry<D>>>>,
    /// The claims on the shader-visible heaps, by kind: each is made as long as somewhere its `Arc` is held.
    visible_kinds: Lock<[Weak<()>; HeapKind::ALL.len()]>,
}

struct Entry<D: Device> {
    heap: Arc<dyn ReclaimHeap<D>>,
    /// Whether a thread is in its reclaim, or it is closed. Several may be at it at a time: a shutdown waits for no
    /// other.
    is_taken: AtomicBool,
}

/// Ends a visit, even after a panic.
struct Visit<'a>(&'a AtomicBool);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<D: Device> Entry<D> {
    /// Has the heap reclaim, unless another thread is at it; says whether it is closed by now.
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

    pub(crate) fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) {
        let mut closed: SmallVec<[Arc<Entry<D>>; 4]> = SmallVec::new();
        // One by one: no host allocation, however many there are. What is added meanwhile is visited the next time.
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

    /// Forgets them: what pending work may still use is better leaked than destroyed under it.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.heaps.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and no other owner of the allocator is left.
    pub(crate) unsafe fn destroy(&self, shared: &Shared<D>) {
        let heaps = std::mem::take(&mut *self.heaps.lock());
        for entry in heaps {
            // SAFETY: as the caller promises.
            unsafe { entry.heap.destroy(shared) };
        }
    }
}

#[cfg(test)]
mod tests;
