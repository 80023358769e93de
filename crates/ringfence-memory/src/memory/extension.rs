//! Functions for libraries that build on the allocator: timelines, the order of memory types, heaps to reclaim.

use std::panic;
use std::sync::Arc;

use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
use ringfence_decision::Location;
use ringfence_timeline::{Frame, OpenFrame, Passed, RetireBin};

use super::descriptor_heaps::ReclaimHeap;
use super::place::Place;
use super::shared::Shared;
use crate::device::descriptors::HeapKind;
use crate::device::{Device, DeviceError};
use ringfence_arena::Memory;

impl<D: Device> Shared<D> {
    /// Registers a descriptor heap: each reclaim visits it from now on, until it reports that it is closed.
    pub fn add_heap(&self, heap: Arc<dyn ReclaimHeap<D>>) {
        self.descriptor_heaps.add(heap);
    }

    /// Claims the shader-visible heap of this kind until the returned value is dropped. If a dropped heap still has the
    /// claim and the device is done with the heap, destroys the heap first. Returns `None` if the kind is still
    /// claimed.
    pub fn claim_visible(&self, kind: HeapKind) -> Option<Arc<()>> {
        self.descriptor_heaps.claim(kind).or_else(|| {
            self.reclaim_descriptor_heaps();
            self.descriptor_heaps.claim(kind)
        })
    }

    /// Returns the memory types for `location` among `bits`, best first.
    pub fn candidates(&self, location: Location, bits: u32) -> impl Iterator<Item = u32> + '_ {
        self.order.candidates(location, bits)
    }

    /// Returns the allocator's number, which is part of the ids of its timelines.
    pub fn owner(&self) -> u32 {
        self.lifetimes.owner()
    }

    /// Returns `true` if the frame belongs to one of the allocator's timelines.
    pub fn owns(&self, frame: &Frame) -> bool {
        self.lifetimes.owns(frame)
    }

    /// Sets `set` to the points that an object retired now must wait for: the latest begun value of each timeline,
    /// unless the timeline was seen to have reached this value.
    pub fn begun(&self, set: &mut SyncSet) {
        self.lifetimes.begun(set);
    }

    /// Sets `set` to the point of the latest open frame of each timeline that has an open frame: these frames may use
    /// data that is written now.
    pub fn open(&self, set: &mut SyncSet) {
        self.lifetimes.open(set);
    }

    /// Returns the frame of a point, if the frame belongs to this allocator and is open.
    pub fn open_frame(&self, point: SyncPoint) -> Option<OpenFrame> {
        self.lifetimes.open_frame(point)
    }

    /// Returns the last value that a timeline was seen to reach; 0 for a foreign timeline. No driver call.
    pub fn seen(&self, timeline: TimelineId) -> u64 {
        self.lifetimes.seen(timeline)
    }

    /// Reads each timeline once into `progress`. If a timeline cannot be read, uses its last read value, and returns
    /// the error. O(timelines), one driver call for each.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if a timeline reports it, otherwise the driver's last error. `progress` is filled anyway.
    pub fn read(&self, progress: &mut Passed) -> Result<(), DeviceError> {
        // SAFETY: the program promised at `Allocator::timeline` that each fence belongs to this device.
        unsafe { self.lifetimes.read(&self.device, progress) }
    }

    /// Returns `true` if the point has passed. One driver call.
    ///
    /// # Errors
    /// The driver cannot read the timeline: [`DeviceError::Lost`], or out of memory.
    ///
    /// # Panics
    /// If the timeline does not belong to this allocator.
    pub fn has_passed(&self, point: SyncPoint) -> Result<bool, DeviceError> {
        // SAFETY: as in `read`.
        unsafe { self.lifetimes.has_passed(&self.device, point) }
    }

    /// Returns the memory object of a place.
    ///
    /// # Safety
    /// The place belongs to this allocator, and is not freed yet.
    pub unsafe fn memory_under<'a>(&'a self, place: &'a Place<D>) -> &'a Memory<D> {
        self.memory_of(place)
    }

    /// Returns the memory object of a place, for an owner that suballocates it. Drop it before the place is freed.
    ///
    /// # Safety
    /// As [`Shared::memory_under`].
    pub unsafe fn share_memory_under(&self, place: &Place<D>) -> Arc<Memory<D>> {
        self.shared_memory_of(place)
    }

    /// Records `at`, the program's line that requested the resource, for debugging.
    ///
    /// # Safety
    /// As [`Shared::memory_under`].
    pub unsafe fn note_line(&self, place: &Place<D>, at: &'static panic::Location<'static>) {
        self.note_handed_out(place, at, None);
    }

    /// Puts an item into `bin`. The item can be taken out once all submissions that have begun are complete.
    #[inline]
    pub fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        self.lifetimes.retire_into(bin, item);
    }
}
