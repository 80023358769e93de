//! Direct3D 12 memory, over the crate `windows`.
//!
//! ```text
//!   location            heap
//!   Unknown, GpuOnly    DEFAULT
//!   CpuToGpu            custom, write-combined memory of the host,     what lies in it may be in any state, as users of
//!                       or cached where the device says so             gpu-allocator expect
//!   GpuToCpu            custom, cached memory of the host
//! ```
//!
//! Heaps are made with `CREATE_NOT_ZEROED` where the device knows it: what a new resource holds is not zeros then.

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

/// What will lie in an allocation. Devices of heap tier 1 keep these apart; others do not care.
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

/// What is asked for.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// What it is called in reports.
    pub name: &'a str,
    /// Where it should be.
    pub location: MemoryLocation,
    /// Bytes, as `ID3D12Device::GetResourceAllocationInfo` says.
    pub size: u64,
    /// Alignment in bytes, from there too.
    pub alignment: u64,
    /// What will lie in it.
    pub resource_category: ResourceCategory,
}

impl<'a> AllocationCreateDesc<'a> {
    /// What a resource of this description needs. One driver call.
    pub fn from_d3d12_resource_desc(
        device: &ID3D12Device,
        desc: &D3D12_RESOURCE_DESC,
        name: &'a str,
        location: MemoryLocation,
    ) -> Self {
        // SAFETY: the slice is of one description that lives through the call.
        let info = unsafe { device.GetResourceAllocationInfo(0, std::slice::from_ref(desc)) };
        let (size, alignment, resource_category) = (info.SizeInBytes, info.Alignment, desc.into());
        Self { name, location, size, alignment, resource_category }
    }
}

/// A device in the newest version that the program has of it.
#[derive(Clone, Debug)]
pub enum ID3D12DeviceVersion {
    /// Enough for resources that begin in a state.
    Device(ID3D12Device),
    /// Needed for those that begin in a barrier layout.
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

/// What an allocator is made of.
#[derive(Debug)]
pub struct AllocatorCreateDesc {
    /// The device.
    pub device: ID3D12DeviceVersion,
    /// What is logged.
    pub debug_settings: AllocatorDebugSettings,
    /// How large blocks may be.
    pub allocation_sizes: AllocationSizes,
}

/// A range of a heap. It goes back by [`Allocator::free`]; one that is dropped stays allocated until the allocator is
/// dropped, as a resource may lie in it.
#[derive(Debug)]
pub struct Allocation {
    ticket: Ticket,
    heap: ID3D12Heap,
    offset: u64,
    size: u64,
}

impl Allocation {
    /// The number of the allocation while it is alive.
    #[must_use]
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        Some(self.ticket.number)
    }

    /// The heap that it lies in, which others may lie in as well.
    ///
    /// # Safety
    /// Resources are placed in it at [`Allocation::offset`], and released before the allocation is freed and before the
    /// allocator is dropped.
    #[must_use]
    pub unsafe fn heap(&self) -> &ID3D12Heap {
        &self.heap
    }

    /// Its first byte in the heap.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it holds nothing: never, here.
    #[must_use]
    pub fn is_null(&self) -> bool {
        false
    }
}

/// Gives memory of a Direct3D 12 device, and takes it back. See the [module](self).
pub struct Allocator {
    // Before the device, which it ends before.
    pool: Pool<Device>,
    device: ID3D12DeviceVersion,
    committed: CommittedAllocationStatistics,
}

impl Allocator {
    /// An allocator. No memory is taken before the first allocation.
    ///
    /// # Errors
    /// The device is lost, or does not answer what every device answers.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        let failed = |error: DeviceError| AllocationError::Internal(error.to_string());
        let device = Device::with_custom_heaps(&desc.device, None).map_err(failed)?;
        Ok(Self {
            pool: Pool::new(device, desc.debug_settings, desc.allocation_sizes),
            device: desc.device.clone(),
            committed: CommittedAllocationStatistics { num_allocations: 0, total_size: 0 },
        })
    }

    /// The device that was passed in.
    #[must_use]
    pub fn device(&self) -> &ID3D12DeviceVersion {
        &self.device
    }

    /// Gives memory. O(log blocks) with room in a block cached; a new block is a driver call.
    ///
    /// # Errors
    /// Size 0, an alignment that is not a power of two, no memory, or what the driver says. Nothing has changed then.
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
        // Only committed resources have memory without a heap, and none is made through the pool.
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

    /// Takes memory back; others may get it at once. What was placed in it is released before: that is the contract of
    /// [`Allocation::heap`].
    ///
    /// # Errors
    /// The allocation is of another allocator. It is lost then, and its bytes with it until that one is dropped.
    #[allow(clippy::needless_pass_by_value, reason = "what is freed is gone")]
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        let Allocation { ticket, heap, .. } = allocation;
        drop(heap); // so that the block's is the last reference
        // SAFETY: the thread that placed a resource there was reported by `Allocation::heap` to release it before.
        unsafe { self.pool.free(ticket) }
    }

    /// Gives an allocation another name.
    ///
    /// # Errors
    /// It is of another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        self.pool.rename(allocation.ticket, name)
    }

    /// Logs what is alive, at this level.
    pub fn report_memory_leaks(&self, log_level: log::Level) {
        self.pool.log_leaks(log_level);
    }

    /// Everything that is held. O(allocations).
    #[must_use]
    pub fn generate_report(&self) -> AllocatorReport {
        self.pool.report(Memory::size)
    }

    /// The bytes of all memory blocks. O(memory types).
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.pool.capacity()
    }
}

impl fmt::Debug for Allocator {
    /// The report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.generate_report().fmt(f)
    }
}
