//! The location of a resource's memory.

use crate::device::MemoryProperties as P;

/// The location of a resource's memory, named by the accesses that it is fast for.
///
/// The allocator chooses the memory type from the location, and falls back to another type if the best one has no room.
/// To change the location, create another resource.
///
/// # Examples
///
/// `memory` is an `Allocator`.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// use ringfence::device::{BufferDesc, BufferUsage, MemoryProperties};
/// use ringfence::{AllocationDesc, Location};
///
/// let desc = BufferDesc { size: 256, usage: BufferUsage::STORAGE | BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
/// let create = |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
/// let mesh = create(Location::Device)?; // read in each frame; filled by copies
/// let mut staging = create(Location::Upload)?; // the source of these copies
/// let counts = create(Location::Readback)?; // results that the host reads
/// let mut bones = create(Location::DeviceUpload)?; // written in each frame, read by many draws
///
/// staging.write(0, &[1; 256])?;
/// bones.write(0, &[2; 256])?;
/// assert!(staging.is_mapped() && counts.is_mapped() && bones.is_mapped());
///
/// let types = &memory.capabilities().memory_types;
/// assert!(types[mesh.memory_type() as usize].properties.contains(MemoryProperties::DEVICE_LOCAL));
/// assert!(types[counts.memory_type() as usize].properties.contains(MemoryProperties::HOST_CACHED));
/// // If the host cannot write any device memory, `DeviceUpload` uses host memory.
/// assert!(types[bones.memory_type() as usize].properties.contains(MemoryProperties::DEVICE_LOCAL));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
