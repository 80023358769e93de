//! What an allocator knows of its descriptor heaps: enough to reclaim them, and to destroy them when it goes.
//!
//! ```text
//!   handle (CpuDescriptorHeap, ShaderVisibleHeap, …) ──▶ Arc<state> ◀── Rooms, in what all share
//!                                                           │
//!   last handle dropped: closed ── points passed ──▶ destroyed by reclaim, and out of the list
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use ringfence_core::range::Invalid;
use ringfence_core::sync::SyncSet;

use super::DescriptorSnapshot;
use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::lifetime::{Passed, RetireBin};
use crate::memory::Shared;
use crate::trace::Trace;

/// Something with slots that come back when points have passed.
pub(crate) trait Room<D: Device>: Send + Sync {
    /// Takes back what has passed; everything, if the device is lost. Says whether there is any more to come: `false` once
    /// it is closed and destroyed.
    fn reclaim(&self, device: &D, trace: &Trace, passed: &Passed, device_lost: bool) -> bool;

    /// Adds its regions.
    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>);

    /// Destroys all that is left.
    ///
    /// # Safety
    /// No work that uses it is pending, and nobody uses it any more.
    unsafe fn destroy(&self, device: &D, trace: &Trace);
}

/// Every room of an allocator.
pub(crate) struct Rooms<D: Device> {
    rooms: Mutex<Vec<Arc<dyn Room<D>>>>,
    /// A bit for each kind that has a shader-visible heap.
    visible_kinds: Arc<AtomicU8>,
}

/// The right to have the shader-visible heap of a kind; given back when it is dropped.
pub(super) struct OnlyOne {
    visible_kinds: Arc<AtomicU8>,
    bit: u8,
}

impl<D: Device> Rooms<D> {
    pub(crate) fn new() -> Self {
        Self { rooms: Mutex::new(Vec::new()), visible_kinds: Arc::default() }
    }

    pub(super) fn add(&self, room: Arc<dyn Room<D>>) {
        self.rooms.lock().push(room);
    }

    /// `None` if there is a shader-visible heap of this kind.
    pub(super) fn claim(&self, kind: HeapKind) -> Option<OnlyOne> {
        let bit = 1 << kind as u8;
        let before = self.visible_kinds.fetch_or(bit, Ordering::AcqRel);
        (before & bit == 0).then(|| OnlyOne { visible_kinds: Arc::clone(&self.visible_kinds), bit })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rooms.lock().is_empty()
    }

    pub(crate) fn reclaim(&self, device: &D, trace: &Trace, passed: &Passed, device_lost: bool) {
        self.rooms.lock().retain(|room| room.reclaim(device, trace, passed, device_lost));
    }

    pub(crate) fn snapshot(&self) -> Vec<DescriptorSnapshot> {
        let mut regions = Vec::new();
        self.rooms.lock().iter().for_each(|room| room.snapshot(&mut regions));
        regions
    }

    /// Forgets them: what pending work may still use is better leaked than destroyed under it.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.rooms.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and nobody else has the allocator any more.
    pub(crate) unsafe fn destroy(&self, device: &D, trace: &Trace) {
        for room in self.rooms.lock().drain(..) {
            // SAFETY: as the caller promises.
            unsafe { room.destroy(device, trace) };
        }
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        self.visible_kinds.fetch_and(!self.bit, Ordering::AcqRel);
    }
}

/// Things that wait for points, put in by any number of threads.
pub(super) struct Waiting<T> {
    bin: RetireBin<T>,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        Self { bin: RetireBin::new() }
    }

    /// Keeps it until every submission that has begun is complete.
    pub(super) fn until_now<D: Device>(&self, shared: &Shared<D>, item: T) {
        shared.lifetimes.retire_into(&self.bin, item);
    }

    /// Keeps it until these points have passed.
    pub(super) fn until(&self, points: &SyncSet, item: T) {
        self.bin.retire(points, item);
    }

    /// Gives out what need not wait any more. Nobody who puts something in waits meanwhile.
    pub(super) fn release(&self, passed: &Passed, device_lost: bool, each: impl FnMut(T)) {
        if self.bin.is_empty() {
            return;
        }
        if device_lost {
            self.drain().into_iter().for_each(each);
        } else {
            self.bin.release(passed, usize::MAX, each);
        }
    }

    /// Everything, whether it has waited or not.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut all = Vec::new();
        self.bin.collect_all(&mut all);
        all
    }

    pub(super) fn len(&self) -> usize {
        self.bin.len()
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.bin.validate()
    }
}
