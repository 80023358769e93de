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
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet, TimelineId};

use crate::device::Device;
use crate::device::descriptors::HeapKind;
use crate::lifetime::Passed;
use crate::memory::Shared;

/// Something with slots that come back when points have passed.
pub(crate) trait Room<D: Device>: Send + Sync {
    /// Takes back what has passed; everything, if the device is lost. Says whether there is any more to come: `false` once
    /// it is closed and destroyed.
    fn reclaim(&self, device: &D, passed: &Passed, device_lost: bool) -> bool;

    /// Destroys all that is left.
    ///
    /// # Safety
    /// No work that uses it is pending, and nobody uses it any more.
    unsafe fn destroy(&self, device: &D);
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

    pub(crate) fn reclaim(&self, device: &D, passed: &Passed, device_lost: bool) {
        self.rooms.lock().retain(|room| room.reclaim(device, passed, device_lost));
    }

    /// Forgets them: what pending work may still use is better leaked than destroyed under it.
    pub(crate) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.rooms.lock()));
    }

    /// # Safety
    /// No work that uses the heaps is pending, and nobody else has the allocator any more.
    pub(crate) unsafe fn destroy(&self, device: &D) {
        for room in self.rooms.lock().drain(..) {
            // SAFETY: as the caller promises.
            unsafe { room.destroy(device) };
        }
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        self.visible_kinds.fetch_and(!self.bit, Ordering::AcqRel);
    }
}

/// Things that wait for points.
pub(super) struct Waiting<T>(Mutex<RetireQueue<T>>);

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(RetireQueue::new()))
    }

    /// Keeps it until every submission that has begun is complete.
    pub(super) fn until_now<D: Device>(&self, shared: &Shared<D>, item: T) {
        let mut begun = SyncSet::new();
        shared.lifetimes.begun(&mut begun);
        self.until(&begun, item);
    }

    /// Keeps it until these points have passed.
    pub(super) fn until(&self, points: &SyncSet, item: T) {
        self.0.lock().retire(points, item);
    }

    /// One that need not wait any more. No lock is held when it is given.
    pub(super) fn next(&self, passed: &Passed, device_lost: bool) -> Option<T> {
        let mut found = None;
        let mut queue = self.0.lock();
        if device_lost {
            queue.reclaim_at_most(&EndOfTime, 1, |item| found = Some(item));
        } else {
            queue.reclaim_at_most(passed, 1, |item| found = Some(item));
        }
        found
    }

    /// Everything, whether it has waited or not.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut all = Vec::new();
        self.0.lock().release_all(|item| all.push(item));
        all
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.0.lock().validate()
    }
}

/// When every timeline has passed everything.
struct EndOfTime;

impl Progress for EndOfTime {
    fn completed(&self, _: TimelineId) -> u64 {
        u64::MAX
    }
}
