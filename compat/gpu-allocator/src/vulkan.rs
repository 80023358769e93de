//! Vulkan memory, over `ash` 0.38. Works with every instance, because it calls only functions of Vulkan 1.0.
//!
//! ```text
//!   location    first choice, in driver order                 otherwise, and if the first fails (CpuToGpu)
//!   Unknown     any type
//!   GpuOnly     DEVICE_LOCAL
//!   CpuToGpu    HOST_VISIBLE, HOST_COHERENT, DEVICE_LOCAL     HOST_VISIBLE, HOST_COHERENT
//!   GpuToCpu    HOST_VISIBLE, HOST_COHERENT, HOST_CACHED      HOST_VISIBLE, HOST_COHERENT
//! ```
//!
//! Lazily allocated and protected types, and those that the device refuses, are chosen only if no other type fits.
//! Users who predict the type do the same.

mod allocation;
mod types;

use std::fmt;

use ash::vk;
use ringfence::device::{Buffers, Requirements, ResourceClass, Textures};
use ringfence::vulkan::{Device, DeviceDesc, Features, Memory};

pub use self::allocation::{Allocation, MappedAllocationSlab};
use self::types::Types;
use crate::pool::{Pool, Wish};
use crate::{AllocationError, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryLocation, Result};

/// Kind of memory for a resource.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum AllocationScheme {
    /// A dedicated memory object for this buffer; the driver is informed if it supports that. The requirements must be
    /// the buffer's.
    DedicatedBuffer(vk::Buffer),
    /// A dedicated memory object for this image; the driver is informed if it supports that. The requirements must be
    /// the image's.
    DedicatedImage(vk::Image),
    /// A range of a block, or a memory object for a large request.
    GpuAllocatorManaged,
}

/// Description of an allocation.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// Name for reports.
    pub name: &'a str,
    /// Memory requirements of the resource, from Vulkan.
    pub requirements: vk::MemoryRequirements,
    /// Preferred location.
    pub location: MemoryLocation,
    /// `true` for a buffer or an image of linear tiling; `false` for images of optimal tiling.
    pub linear: bool,
    /// Kind of memory.
    pub allocation_scheme: AllocationScheme,
}

/// Description of an allocator. Instance and device must outlive the allocator.
pub struct AllocatorCreateDesc {
    /// The instance of `physical_device`.
    pub instance: ash::Instance,
    /// The device, created from `physical_device`.
    pub device: ash::Device,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// Logging settings.
    pub debug_settings: AllocatorDebugSettings,
    /// `true` if the device has the feature `bufferDeviceAddress` enabled. Then memory for buffers supports device
    /// addresses.
    pub buffer_device_address: bool,
    /// Sizes of blocks.
    pub allocation_sizes: AllocationSizes,
}

/// Allocates and frees memory of a Vulkan device. See the [module](self).
pub struct Allocator {
    pool: Pool<Device>,
    types: Types,
}

impl Allocator {
    /// Creates an allocator. It allocates no memory before the first allocation.
    ///
    /// # Errors
    /// [`AllocationError::InvalidAllocatorCreateDesc`] if the physical device is null.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        if desc.physical_device == vk::PhysicalDevice::null() {
            return Err(AllocationError::InvalidAllocatorCreateDesc("the physical device is null".into()));
        }
        let mut features = Features::empty();
        features.set(Features::BUFFER_DEVICE_ADDRESS, desc.buffer_device_address);
        let enabled = DeviceDesc { features, ..Default::default() };
        // SAFETY: as everywhere in Vulkan, the program guarantees the handles in its description: they belong together
        // and outlive the allocator, which frees all its memory on drop.
        let device = unsafe { Device::for_memory(&desc.instance, desc.physical_device, desc.device.clone(), enabled) };
        // SAFETY: as above.
        let listed = unsafe { desc.instance.get_physical_device_memory_properties(desc.physical_device) };
        let types = Types::new(ringfence::device::Driver::capabilities(&device), listed.memory_types_as_slice());
        Ok(Self { pool: Pool::new(device, desc.debug_settings, desc.allocation_sizes), types })
    }

    /// Allocates memory. O(log blocks) if a block has space; a new block is a driver call.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, there is no memory type or no memory, or the driver failed.
    /// The allocator is unchanged then.
    pub fn allocate(&mut self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        let vk::MemoryRequirements { size, alignment, memory_type_bits, .. } = desc.requirements;
        let needs = Requirements {
            size,
            alignment,
            memory_type_bits,
            class: if desc.linear { ResourceClass::Buffer } else { ResourceClass::Texture },
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let dedicated = desc.allocation_scheme != AllocationScheme::GpuAllocatorManaged;
        let wish = Wish { name: desc.name, needs, dedicated };
        self.pool.log_allocation(&wish);
        if size == 0 || !alignment.is_power_of_two() {
            return Err(AllocationError::InvalidAllocationCreateDesc);
        }
        let (best, fallback) = self.types.choose(desc.location, memory_type_bits);
        let best = best.ok_or(AllocationError::NoCompatibleMemoryTypeFound)?;
        match (self.allocate_of(&wish, best, desc.allocation_scheme), fallback) {
            (Err(_), Some(other)) if other != best => self.allocate_of(&wish, other, desc.allocation_scheme),
            (result, _) => result,
        }
    }

    fn allocate_of(&mut self, wish: &Wish<'_>, memory_type: u32, scheme: AllocationScheme) -> Result<Allocation> {
        let needs = wish.needs;
        let (ticket, made) = self.pool.allocate(wish, memory_type, |memory, desc| match scheme {
            // SAFETY: the caller guarantees the handle, and that these are its requirements.
            AllocationScheme::DedicatedBuffer(buffer) => unsafe {
                memory.allocate_for::<Buffers>(&buffer, needs, desc)
            },
            // SAFETY: as above.
            AllocationScheme::DedicatedImage(image) => unsafe { memory.allocate_for::<Textures>(&image, needs, desc) },
            AllocationScheme::GpuAllocatorManaged => memory.allocate(needs, desc),
        })?;
        Ok(Allocation::new(ticket, made, self.types.flags(memory_type)))
    }

    /// Frees memory, which may be reused immediately. The program must have destroyed the resources in it: that is the
    /// contract of [`Allocation::memory`].
    ///
    /// # Errors
    /// The allocation belongs to another allocator. Its memory then stays reserved until that allocator is dropped.
    #[allow(clippy::needless_pass_by_value, reason = "a free consumes the allocation")]
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        let Some(ticket) = allocation.ticket() else {
            self.pool.log_free("<null>");
            return Ok(());
        };
        // SAFETY: `Allocation::memory` requires that the resources in it are destroyed before.
        unsafe { self.pool.free(ticket) }
    }

    /// Renames an allocation.
    ///
    /// # Errors
    /// The allocation belongs to another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        allocation.ticket().map_or(Ok(()), |ticket| self.pool.rename(ticket, name))
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
