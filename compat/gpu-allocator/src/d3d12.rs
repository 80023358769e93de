//! Direct3D 12 memory, over the crate `windows`.
//!
//! ```text
//!   location            heap
//!   Unknown, GpuOnly    DEFAULT
//!   CpuToGpu            custom, write-combined memory of the host,     resources in it may have any state, as users of
//!                       or cached if the device requires it            gpu-allocator expect
//!   GpuToCpu            custom, cached memory of the host
//! ```
//!
//! Heaps are created with `CREATE_NOT_ZEROED` if the device supports it. Then the contents of a new resource are
//! undefined.

mod resource;

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Deref;

use ringfence::d3d12::{Device, Memory};
use ringfence::device::{DeviceError, Requirements, ResourceClass};
use windows::Win32::Graphics::Direct3D12::*;

pub use self::resource::{
    CommittedAllocationStatistics, Resource, ResourceCreateDesc, ResourceStateOrBarrierLayout, ResourceType,
};
use crate::pool::{Pool, Ticket, Wish};
use crate::{AllocationError, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryLocation, Result};

/// Category of the resources in an allocation. Devices of heap tier 1 separate the categories; others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceCategory {
    /// Buffers.
    Buffer,
    /// Render targets and depth-stencils.
    RtvDsvTexture,
    /// All other textures.
    OtherTexture,
}

impl From<&D3D12_RESOURCE_DESC> for ResourceCategory {
    fn from(desc: &D3D12_RESOURCE_DESC) -> Self {
        let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
        match desc.Dimension {
            D3D12_RESOURCE_DIMENSION_BUFFER => Self::Buffer,
            _ if desc.Flags & target != D3D12_RESOURCE_FLAG_NONE => Self::RtvDsvTexture,
            _ => Self::OtherTexture,
        }
    }
}

impl From<ResourceCategory> for ResourceClass {
    fn from(category: ResourceCategory) -> Self {
        match category {
            ResourceCategory::Buffer => Self::Buffer,
            ResourceCategory::RtvDsvTexture => Self::RenderTarget,
            ResourceCategory::OtherTexture => Self::Texture,
        }
    }
}

/// Description of an allocation.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// Name for reports.
    pub name: &'a str,
    /// Preferred location.
    pub location: MemoryLocation,
    /// Size in bytes, from `ID3D12Device::GetResourceAllocationInfo`.
    pub size: u64,
    /// Alignment in bytes, from the same call.
    pub alignment: u64,
    /// Category of the resource.
    pub resource_category: ResourceCategory,
}

impl<'a> AllocationCreateDesc<'a> {
    /// Returns the description of an allocation for a resource. One driver call.
    pub fn from_d3d12_resource_desc(
        device: &ID3D12Device,
        desc: &D3D12_RESOURCE_DESC,
        name: &'a str,
        location: MemoryLocation,
    ) -> Self {
        // SAFETY: the slice has one description, which lives through the call.
        let info = unsafe { device.GetResourceAllocationInfo(0, std::slice::from_ref(desc)) };
        let (size, alignment, resource_category) = (info.SizeInBytes, info.Alignment, desc.into());
        Self { name, location, size, alignment, resource_category }
    }
}

/// A device, in the newest version that the program has.
#[derive(Clone, Debug)]
pub enum ID3D12DeviceVersion {
    /// Sufficient for resources with an initial state.
    Device(ID3D12Device),
    /// Needed for resources with an initial barrier layout.
    Device10(ID3D12Device10),
    /// Needed for castable formats.
    Device12(ID3D12Device12),
}

impl Deref for ID3D12DeviceVersion {
    type Target = ID3D12Device;

    fn deref(&self) -> &ID3D12Device {
        match self {
            Self::Device(device) => device,
            Self::Device10(device) => device,
            Self::Device12(device) => device,
        }
    }
}

/// Description of an allocator.
#[derive(Debug)]
pub struct AllocatorCreateDesc {
    /// The device.
    pub device: ID3D12DeviceVersion,
    /// Logging settings.
    pub debug_settings: AllocatorDebugSettings,
    /// Sizes of blocks.
    pub allocation_sizes: AllocationSizes,
}

/// A range of a heap. [`Allocator::free`] frees it. If it is dropped instead, it stays allocated until the allocator is
/// dropped, because it may contain a resource.
#[derive(Debug)]
pub struct Allocation {
    ticket: Ticket,
    heap: ID3D12Heap,
    offset: u64,
    size: u64,
}

impl Allocation {
    /// Returns the number of the allocation.
    #[must_use]
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        Some(self.ticket.number)
    }

    /// Returns the heap of the allocation, which other allocations may share.
    ///
    /// # Safety
    /// Resources are placed in the heap at [`Allocation::offset`]. They are released before the allocation is freed and
    /// before the allocator is dropped.
    #[must_use]
    pub unsafe fn heap(&self) -> &ID3D12Heap {
        &self.heap
    }

    /// Returns the offset of the first byte in the heap.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Always returns `false`: this type has no null value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        false
    }
}

/// Allocates and frees memory of a Direct3D 12 device. See the [module](self).
pub struct Allocator {
    // Declared before the device, because it must be dropped first.
    pool: Pool<Device>,
    device: ID3D12DeviceVersion,
    committed: CommittedAllocationStatistics,
}

impl Allocator {
    /// Creates an allocator. It allocates no memory before the first allocation.
    ///
    /// # Errors
    /// The device is lost, or does not report properties that every device has.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        let failed = |error: DeviceError| AllocationError::Internal(error.to_string());
        let device = Device::with_custom_heaps(&desc.device, None).map_err(failed)?;
        Ok(Self {
            pool: Pool::new(device, desc.debug_settings, desc.allocation_sizes),
            device: desc.device.clone(),
            committed: CommittedAllocationStatistics { num_allocations: 0, total_size: 0 },
        })
    }

    /// Returns the device that was passed in.
    #[must_use]
    pub fn device(&self) -> &ID3D12DeviceVersion {
        &self.device
    }

    /// Allocates memory. O(log blocks) if a block has space; a new block is a driver call.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, there is no memory, or the driver failed. The allocator is
    /// unchanged then.
    pub fn allocate(&mut self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        let AllocationCreateDesc { name, location, size, alignment, resource_category } = *desc;
        let memory_type = self.memory_type(location)?;
        let needs = Requirements {
            size,
            alignment,
            memory_type_bits: 1 << memory_type,
            class: resource_category.into(),
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let wish = Wish { name, needs, dedicated: false };
        self.pool.log_allocation(&wish);
        let (ticket, made) = self.pool.allocate(&wish, memory_type, |memory, desc| memory.allocate(needs, desc))?;
        let heap = made.memory().heap().cloned();
        // Only committed resources have memory without a heap, and the pool creates none.
        let heap = heap.ok_or_else(|| AllocationError::Internal("memory without a heap".into()))?;
        Ok(Allocation { ticket, heap, offset: made.offset(), size })
    }

    fn memory_type(&self, location: MemoryLocation) -> Result<u32> {
        let heap_type = match location {
            MemoryLocation::Unknown | MemoryLocation::GpuOnly => D3D12_HEAP_TYPE_DEFAULT,
            MemoryLocation::CpuToGpu => D3D12_HEAP_TYPE_UPLOAD,
            MemoryLocation::GpuToCpu => D3D12_HEAP_TYPE_READBACK,
        };
        self.pool.device().memory_type(heap_type).ok_or(AllocationError::NoCompatibleMemoryTypeFound)
    }

    /// Frees memory, which may be reused immediately. The program must have released the resources in it: that is the
    /// contract of [`Allocation::heap`].
    ///
    /// # Errors
    /// The allocation belongs to another allocator. Its memory then stays reserved until that allocator is dropped.
    #[allow(clippy::needless_pass_by_value, reason = "a free consumes the allocation")]
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        let Allocation { ticket, heap, .. } = allocation;
        drop(heap); // the block must have the last reference
        // SAFETY: `Allocation::heap` requires that the resources in it are released before.
        unsafe { self.pool.free(ticket) }
    }

    /// Renames an allocation.
    ///
    /// # Errors
    /// The allocation belongs to another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        self.pool.rename(allocation.ticket, name)
    }

    /// Logs the live allocations, at this level.
    pub fn report_memory_leaks(&self, log_level: log::Level) {
        self.pool.log_leaks(log_level);
    }

    /// Returns a report of all allocations and blocks. O(allocations).
    #[must_use]
    pub fn generate_report(&self) -> AllocatorReport {
        self.pool.report(Memory::size)
    }

    /// Returns the size of all memory blocks, in bytes. O(memory types).
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.pool.capacity()
    }
}

impl fmt::Debug for Allocator {
    /// Writes the report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.generate_report().fmt(f)
    }
}
