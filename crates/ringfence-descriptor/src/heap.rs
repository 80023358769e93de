//! A driver's heap and the handles of its slots.

use std::fmt;

use crate::device::DeviceError;
use crate::device::descriptors::{CpuHandle, Descriptors, GpuHandle, HeapDesc, HeapKind, HeapStart, ViewTypes};

/// A heap of descriptors. The host address and the shader address of its first slot, and the distance between adjacent
/// slots, are read from the driver once.
pub struct Heap<D: Descriptors> {
    object: D::Heap,
    start: HeapStart,
    kind: HeapKind,
    types: ViewTypes,
    slots: u32,
    /// Number of the heap in a trace.
    number: u64,
}

impl<D: Descriptors> Heap<D> {
    pub(super) fn new(device: &D, desc: &HeapDesc<'_>, number: u64) -> Result<Self, DeviceError> {
        let (object, start) = device.make_heap(desc)?;
        Ok(Self { object, start, kind: desc.kind, types: desc.types, slots: desc.slots, number })
    }

    /// Returns the number of the heap in a trace.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Destroys the driver's heap.
    ///
    /// # Safety
    /// No pending work uses the heap, and this device created it.
    pub(super) unsafe fn destroy(self, device: &D) {
        // SAFETY: the caller promises that the heap is unused. It is destroyed once, because `self` is consumed.
        unsafe { device.destroy_heap(self.object) };
    }

    /// Returns the driver's heap.
    #[must_use]
    pub fn object(&self) -> &D::Heap {
        &self.object
    }

    /// Returns the kind of the descriptors.
    #[must_use]
    pub fn kind(&self) -> HeapKind {
        self.kind
    }

    /// Returns the view types of a heap of resources.
    #[must_use]
    pub fn types(&self) -> ViewTypes {
        self.types
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the API's host handle of the slot. O(1), no driver call.
    ///
    /// # Panics
    /// If `slot` is not less than [`Heap::slots`].
    #[must_use]
    pub fn cpu_handle(&self, slot: u32) -> CpuHandle {
        CpuHandle(self.start.cpu + self.distance(slot))
    }

    /// Returns the device handle of the slot, for command lists. Returns `None` if the heap is not shader-visible.
    /// O(1), no driver call.
    ///
    /// # Panics
    /// If `slot` is not less than [`Heap::slots`].
    #[must_use]
    pub fn gpu_handle(&self, slot: u32) -> Option<GpuHandle> {
        let distance = self.distance(slot);
        self.start.gpu.map(|start| GpuHandle(start + distance))
    }

    fn distance(&self, slot: u32) -> u64 {
        assert!(slot < self.slots, "slot {slot} of a heap of {} slots", self.slots);
        u64::from(slot) * self.start.increment
    }
}

impl<D: Descriptors> fmt::Debug for Heap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("object", &self.object)
            .field("kind", &self.kind)
            .field("slots", &self.slots)
            .finish()
    }
}
