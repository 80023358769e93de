//! The location of a resource's memory.

use crate::device::MemoryProperties as P;

/// The location of a resource's memory, named by the accesses that it is fast for.
#[doc(alias("VmaMemoryUsage", "MemoryLocation", "D3D12_HEAP_TYPE"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Location {
    /// Fast for the device; the host does not access it (D3D12: DEFAULT).
    #[default]
    Device,
    /// Written by the host, read by the device once or a few times (D3D12: UPLOAD).
    Upload,
    /// Written by the device, read by the host (D3D12: READBACK).
    Readback,
    /// Written by the host directly into device memory, if the device has such memory (D3D12: GPU_UPLOAD).
    DeviceUpload,
}

impl Location {
    /// Every location.
    pub const ALL: [Self; 4] = [Self::Device, Self::Upload, Self::Readback, Self::DeviceUpload];

    /// Returns the properties that a memory type must have for this location.
    pub(crate) const fn required(self) -> P {
        match self {
            Self::Device => P::empty(),
            Self::Upload | Self::Readback | Self::DeviceUpload => P::HOST_VISIBLE,
        }
    }

    /// Returns the cost of a memory type for this location, most important criterion first. The lowest cost is best.
    pub(crate) fn cost(self, held: P) -> [bool; 3] {
        let (has, lacks) = (|flag| held.contains(flag), |flag| !held.contains(flag));
        match self {
            Self::Device => [lacks(P::DEVICE_LOCAL), has(P::HOST_VISIBLE), has(P::HOST_CACHED)],
            Self::Upload => [has(P::DEVICE_LOCAL), lacks(P::HOST_COHERENT), has(P::HOST_CACHED)],
            Self::Readback => [lacks(P::HOST_CACHED), has(P::DEVICE_LOCAL), lacks(P::HOST_COHERENT)],
            Self::DeviceUpload => [lacks(P::DEVICE_LOCAL), lacks(P::HOST_COHERENT), has(P::HOST_CACHED)],
        }
    }
}
