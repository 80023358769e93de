//! Vulkan memory, over `ash` 0.38. Only functions of Vulkan 1.0 are called, so that any instance will do.
//!
//! ```text
//!   location    first choice, in driver order                 else, and if the first fails (CpuToGpu)
//!   Unknown     any type
//!   GpuOnly     DEVICE_LOCAL
//!   CpuToGpu    HOST_VISIBLE, HOST_COHERENT, DEVICE_LOCAL     HOST_VISIBLE, HOST_COHERENT
//!   GpuToCpu    HOST_VISIBLE, HOST_COHERENT, HOST_CACHED      HOST_VISIBLE, HOST_COHERENT
//! ```
//!
//! Lazily allocated and protected types, and those that the device refuses, are passed over as long as there is another,
//! as those who predict the type do.

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

/// How memory for a resource is managed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum AllocationScheme {
    /// A memory object of its own, which the driver is reported is for this buffer. The requirements are the buffer's.
    DedicatedBuffer(vk::Buffer),
    /// A memory object of its own, which the driver is reported is for this image. The requirements are the image's.
    DedicatedImage(vk::Image),
    /// Wherever it fits.
    GpuAllocatorManaged,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// What it is called in reports.
    pub name: &'a str,
    /// What the resource needs, as Vulkan says.
    pub requirements: vk::MemoryRequirements,
    /// Where it should be.
    pub location: MemoryLocation,
    /// Whether it is for a buffer or an image of linear tiling; `false` for images of optimal tiling.
    pub linear: bool,
    /// How it is managed.
    pub allocation_scheme: AllocationScheme,
}

/// What an allocator is made of. Instance and device outlive the allocator.
pub struct AllocatorCreateDesc {
    /// The instance that `physical_device` comes from.
    pub instance: ash::Instance,
    /// The device, made from `physical_device`.
    pub device: ash::Device,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// What is logged.
    pub debug_settings: AllocatorDebugSettings,
    /// Whether the device has the feature `bufferDeviceAddress` enabled. Then memory for buffers is made for addresses.
    pub buffer_device_address: bool,
    /// How large blocks may be.
    pub allocation_sizes: AllocationSizes,
}

/// Gives memory of a Vulkan device, and takes it back. See the [module](self).
pub struct Allocator {
    pool: Pool<Device>,
    types: Types,
}

impl Allocator {
    /// An allocator. No memory is taken before the first allocation.
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
        // SAFETY: the program vouches for the handles in its description, as everywhere in Vulkan: they belong
        // together and outlive the allocator, which frees all its memory when it is dropped.
        let device = unsafe { Device::for_memory(&desc.instance, desc.physical_device, desc.device.clone(), enabled) };
        // SAFETY: as above.
        let listed = unsafe { desc.instance.get_physical_device_memory_properties(desc.physical_device) };
        let types = Types::new(ringfence::device::Driver::capabilities(&device), listed.memory_types_as_slice());
        Ok(Self { pool: Pool::new(device, desc.debug_settings, desc.allocation_sizes), types })
    }

    /// Gives memory. O(log blocks) with room in a block cached; a new block is a driver call.
    ///
    /// # Errors
    /// Size 0, an alignment that is not a power of two, no memory type, no memory, or what the driver says. Nothing has
    /// changed then.
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
            // SAFETY: the description's owner answers for the handle, and that these are its requirements.
            AllocationScheme::DedicatedBuffer(buffer) => unsafe {
                memory.allocate_for::<Buffers>(&buffer, needs, desc)
            },
            // SAFETY: as above.
            AllocationScheme::DedicatedImage(image) => unsafe { memory.allocate_for::<Textures>(&image, needs, desc) },
            AllocationScheme::GpuAllocatorManaged => memory.allocate(needs, desc),
        })?;
        Ok(Allocation::new(ticket, made, self.types.flags(memory_type)))
    }

    /// Takes memory back; others may get it at once. What was made in it is destroyed before: that is the contract of
    /// [`Allocation::memory`].
    ///
    /// # Errors
    /// The allocation is of another allocator. It is lost then, and its bytes with it until that one is dropped.
    #[allow(clippy::needless_pass_by_value, reason = "what is freed is gone")]
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        let Some(ticket) = allocation.ticket() else {
            self.pool.log_free("<null>");
            return Ok(());
        };
        // SAFETY: the thread that placed a resource there was reported by `Allocation::memory` to destroy it before.
        unsafe { self.pool.free(ticket) }
    }

    /// Gives an allocation another name.
    ///
    /// # Errors
    /// It is of another allocator.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        allocation.ticket().map_or(Ok(()), |ticket| self.pool.rename(ticket, name))
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
