//! The Vulkan backend, over [`ash`].
//!
//! ```text
//!   ash::Instance ─┐
//!   vk::PhysicalDevice ─┼─▶ vulkan::Device ──▶ Memory      VkDeviceMemory, mapped for its whole life
//!   ash::Device ───┘            │  │
//!                               │  └──────────▶ vk::Buffer, vk::Image, bound to a Memory
//!                               └─────────────▶ vk::Semaphore (timeline) is read, never made
//! ```
//!
//! It opens no instance and no device, and submits nothing: those are the program's. It needs Vulkan 1.2, for timeline
//! semaphores, and holds no lock and no policy. What it cannot read from the driver stands in [`DeviceDesc`]. Programs
//! that make and place their resources themselves get memory on any Vulkan: [`Device::for_memory`].
//!
//! Not served: disjoint (multi-planar) images. Make those by hand, beside Ringfence.

mod buffer;
mod capabilities;
mod descriptor;
mod error;
mod image;
mod info;
mod memory;
mod naming;
mod record;
mod sharing;
mod sparse;
mod valid;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use ringfence_hal::{Capabilities, DeviceError, Driver, HeapBudgets, Mapped, MemoryDesc, MemoryPriority, Priority};

pub use capabilities::{budgets, capabilities};
pub use descriptor::{Bound, DescriptorHeap, Leftover, PlainViews, View};
pub use error::device_error;
pub use image::texel_format;
pub use info::{BufferInfo, TextureInfo};
pub use memory::Memory;
pub use record::CopyRecorder;
pub use sharing::ShareHandle;

/// What a device and its instance were made with, as far as Vulkan does not tell.
///
/// `VK_EXT_memory_budget` needs no mention: a physical device that has it may be asked, enabled or not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceDesc {
    /// Whether the feature `bufferDeviceAddress` was enabled.
    ///
    /// Then every memory object that may hold buffers is allocated with `VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`, as
    /// buffers with `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT` demand; without it such buffers are refused.
    pub buffer_device_address: bool,
    /// Whether the instance was made with `VK_EXT_debug_utils`. Then names reach debuggers and validation messages;
    /// without it they go nowhere.
    pub debug_utils: bool,
    /// Whether `VK_EXT_descriptor_buffer` and its feature `descriptorBuffer` were enabled, and `buffer_device_address` too.
    /// Then descriptors are kept as bytes in buffers.
    pub descriptor_buffer: bool,
    /// Whether the features `descriptorBindingPartiallyBound`, `descriptorBindingUpdateUnusedWhilePending` and
    /// `descriptorBinding…UpdateAfterBind` were enabled, the last for every type of view that heaps are made for.
    pub update_after_bind: bool,
    /// Whether `nullDescriptor` (`VK_EXT_robustness2`) was enabled. Without it slots that show nothing are left as they are;
    /// those of plain sets are left unwritten with [`DeviceDesc::partially_bound`], else show placeholders.
    pub null_descriptor: bool,
    /// Whether the feature `descriptorBindingPartiallyBound` was enabled. Of meaning for plain sets.
    pub partially_bound: bool,
    /// The kinds of image view and of texels that heaps of plain sets have an array for; none stands for
    /// [`PlainViews::USUAL`]. Each costs slots: all arrays share the limits of the device.
    pub plain_views: PlainViews,
    /// Whether the feature `robustBufferAccess` was enabled: descriptors in buffers are longer then.
    pub robust_buffer_access: bool,
    /// Whether `VK_EXT_memory_priority` and its feature `memoryPriority` were enabled. Then memory is allocated with its
    /// priority.
    pub memory_priority: bool,
    /// Whether `VK_EXT_pageable_device_local_memory` and its feature were enabled, and `memory_priority` too. Then
    /// priorities of memory that exists can be changed, and the system may page it by them.
    pub pageable_device_local_memory: bool,
    /// Whether the feature `samplerAnisotropy` was enabled. Without it portable samplers ask for none.
    pub sampler_anisotropy: bool,
    /// Whether `VK_KHR_external_memory_fd` was enabled. Without it no memory is shared by file descriptors.
    pub external_memory_fd: bool,
    /// Whether `VK_EXT_external_memory_dma_buf` was enabled, beside `VK_KHR_external_memory_fd`.
    pub external_memory_dma_buf: bool,
    /// Whether `VK_KHR_external_memory_win32` was enabled.
    pub external_memory_win32: bool,
    /// Whether the features `sparseBinding` and `sparseResidencyBuffer` were enabled. Without them there are no sparse
    /// buffers.
    pub sparse_buffers: bool,
    /// Whether the features `sparseBinding` and `sparseResidencyImage2D` were enabled. Without them there are no sparse
    /// textures.
    pub sparse_textures: bool,
    /// Whether `VK_KHR_acceleration_structure` and its feature were enabled. Here and in the next three: only then
    /// [`BufferInfo::new`] takes the usage flags that the extension brought.
    pub acceleration_structure: bool,
    /// Whether `VK_KHR_ray_tracing_pipeline` and its feature were enabled.
    pub ray_tracing_pipeline: bool,
    /// Whether `VK_EXT_transform_feedback` and its feature were enabled.
    pub transform_feedback: bool,
    /// Whether `VK_EXT_conditional_rendering` and its feature were enabled.
    pub conditional_rendering: bool,
}

/// A Vulkan device, as Ringfence uses it. A copy is the same device; copying costs a reference count.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

/// What the copies of a [`Device`] share.
struct Inner {
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    desc: DeviceDesc,
    found: capabilities::Found,
    /// Whether nothing newer than Vulkan 1.0 may be called.
    memory_only: bool,
    descriptors: descriptor::Facts,
    plain_heaps: descriptor::PlainHeaps,
    /// There iff the instance was made with `VK_EXT_debug_utils`.
    debug_utils: Option<ash::ext::debug_utils::Device>,
    sharing: sharing::Calls,
    /// There iff `VK_EXT_pageable_device_local_memory` was enabled.
    pageable: Option<ash::ext::pageable_device_local_memory::Device>,
}

impl Device {
    /// Wraps a device that the program has made.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device is older than Vulkan 1.2, or out of memory.
    ///
    /// # Safety
    /// - `device` was made from `physical`, and `physical` comes from `instance`, which was made for Vulkan 1.2 or newer.
    /// - The feature `timelineSemaphore` was enabled, and `desc` is true.
    /// - Instance and device outlive this value, its copies, and all that is made through them.
    pub unsafe fn new(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: DeviceDesc,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the caller promises that `physical` comes from `instance`.
        let mut found = unsafe { capabilities::find(instance, physical) }?;
        found.capabilities.memory_priority = memory_priority(desc);
        let pageable = pageable(instance, &device, desc);
        // SAFETY: the caller promises that `device` comes from `instance`.
        let debug_utils = if desc.debug_utils { unsafe { naming::load(instance, &device) } } else { None };
        let desc = DeviceDesc { descriptor_buffer: desc.descriptor_buffer && desc.buffer_device_address, ..desc };
        // SAFETY: as above, and `desc` is true.
        let descriptors = unsafe { descriptor::Facts::read(instance, physical, &device, desc) };
        // SAFETY: as above.
        let sharing = unsafe { sharing::Calls::load(instance, physical, &device, desc) };
        let (instance, memory_only, plain_heaps) = (instance.clone(), false, Default::default());
        let inner = Inner {
            instance,
            physical,
            device,
            desc,
            found,
            memory_only,
            descriptors,
            plain_heaps,
            debug_utils,
            sharing,
            pageable,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Wraps a device of any version of Vulkan, of which only memory is asked:
    /// `Allocator::allocate`, `Allocator::allocate_for` and what
    /// becomes of that. Timelines, resources and descriptor heaps are refused with [`DeviceError::Unsupported`]; budgets and
    /// the largest memory object are not known, as Vulkan 1.0 does not tell them.
    ///
    /// # Safety
    /// - `device` was made from `physical`, which comes from `instance`, and `desc` is true.
    /// - Instance and device outlive this value, its copies, and all that is made through them.
    pub unsafe fn for_memory(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: DeviceDesc,
    ) -> Self {
        // SAFETY: the caller promises that `physical` comes from `instance`.
        let mut found = unsafe { capabilities::find_memory(instance, physical) };
        found.capabilities.memory_priority = memory_priority(desc);
        let pageable = pageable(instance, &device, desc);
        // SAFETY: the caller promises that `device` comes from `instance`.
        let debug_utils = if desc.debug_utils { unsafe { naming::load(instance, &device) } } else { None };
        let descriptors = descriptor::Facts::of_no_heaps(desc);
        let (sharing, desc) =
            (sharing::Calls::none(), DeviceDesc { sparse_buffers: false, sparse_textures: false, ..desc });
        let (instance, memory_only, plain_heaps) = (instance.clone(), true, Default::default());
        let inner = Inner {
            instance,
            physical,
            device,
            desc,
            found,
            memory_only,
            descriptors,
            plain_heaps,
            debug_utils,
            sharing,
            pageable,
        };
        Self(Arc::new(inner))
    }

    /// Refuses what needs more than Vulkan 1.0 on a device that was wrapped for memory alone.
    fn check_whole(&self) -> Result<(), DeviceError> {
        let refused = DeviceError::Unsupported("this on a device that was wrapped for memory alone");
        if self.0.memory_only { Err(refused) } else { Ok(()) }
    }

    /// The device that was passed in.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.0.device
    }

    /// The instance that was passed in.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        &self.0.instance
    }

    /// The physical device that was passed in.
    #[must_use]
    pub fn physical(&self) -> vk::PhysicalDevice {
        self.0.physical
    }

    /// The description that was passed in.
    #[must_use]
    pub fn desc(&self) -> DeviceDesc {
        self.0.desc
    }
}

/// When the system listens to priorities.
const fn memory_priority(desc: DeviceDesc) -> MemoryPriority {
    match desc {
        DeviceDesc { memory_priority: true, pageable_device_local_memory: true, .. } => MemoryPriority::AtAnyTime,
        DeviceDesc { memory_priority: true, .. } => MemoryPriority::AtAllocation,
        _ => MemoryPriority::None,
    }
}

/// The call that changes priorities, if its extension was enabled.
fn pageable(
    instance: &ash::Instance,
    device: &ash::Device,
    desc: DeviceDesc,
) -> Option<ash::ext::pageable_device_local_memory::Device> {
    let listens = memory_priority(desc) == MemoryPriority::AtAnyTime;
    listens.then(|| ash::ext::pageable_device_local_memory::Device::new(instance, device))
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.0.found.capabilities.name)
            .field("raw", &self.0.device.handle())
            .field("desc", &self.0.desc)
            .finish_non_exhaustive()
    }
}

// SAFETY: memory is mapped once when it is made and unmapped by being freed (`memory.rs`); the rest are the driver's
// own objects.
unsafe impl Driver for Device {
    type Memory = Memory;
    type Fence = vk::Semaphore;
    type Pageable = ();

    fn capabilities(&self) -> &Capabilities {
        &self.0.found.capabilities
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller promises that the memory type exists.
        unsafe { self.allocate(desc, None, None) }
    }

    unsafe fn free_memory(&self, memory: Memory) {
        // SAFETY: the caller promises that the memory is this device's and unused; freeing unmaps it.
        unsafe { self.0.device.free_memory(memory.raw(), None) }
    }

    unsafe fn flush(&self, memory: &Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        if size == 0 {
            return Ok(());
        }
        let range = self.mapped_range(memory, offset, size);
        // SAFETY: the caller promises that the memory is mapped; the range is inside it and aligned to atoms.
        unsafe { self.0.device.flush_mapped_memory_ranges(&[range]) }.map_err(device_error)
    }

    unsafe fn read_back(
        &self,
        memory: &Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        if self.capabilities().is_non_coherent(memory.memory_type()) && !into.is_empty() {
            let range = self.mapped_range(memory, offset, into.len() as u64);
            // SAFETY: the caller promises that the memory is mapped; the range is inside it and aligned to atoms.
            unsafe { self.0.device.invalidate_mapped_memory_ranges(&[range]) }.map_err(device_error)?;
        }
        // SAFETY: the caller promises `into.len()` mapped bytes at `mapped`; `into` is exclusive, so they are apart.
        unsafe { std::ptr::copy_nonoverlapping(mapped.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    unsafe fn completed(&self, fence: &vk::Semaphore) -> Result<u64, DeviceError> {
        self.check_whole()?;
        // SAFETY: the caller promises that the semaphore is this device's, a timeline, and alive.
        match unsafe { self.0.device.get_semaphore_counter_value(*fence) } {
            // Some drivers say so of a lost device instead of returning the error.
            Ok(u64::MAX) => Err(DeviceError::Lost),
            Ok(value) => Ok(value),
            Err(error) => Err(device_error(error)),
        }
    }

    unsafe fn wait(&self, fence: &vk::Semaphore, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.check_whole()?;
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let (fences, values) = ([*fence], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&fences).values(&values);
        // SAFETY: the caller promises that the semaphore is this device's, a timeline, and alive.
        match unsafe { self.0.device.wait_semaphores(&info, timeout_ns) } {
            // Vulkan lets a wait on a lost device succeed, so that success proves nothing yet.
            // SAFETY: as above.
            Ok(()) => match unsafe { self.completed(fence) }? {
                reached if reached >= value => Ok(true),
                _ => Err(DeviceError::Lost),
            },
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => Err(device_error(error)),
        }
    }

    fn mapped(&self, memory: &Memory) -> Option<Mapped> {
        memory.mapped()
    }

    unsafe fn set_priority(&self, memory: &Memory, priority: Priority) {
        if let Some(pageable) = &self.0.pageable {
            // SAFETY: the caller promises that the memory is this device's and alive; the extension was enabled.
            unsafe {
                (pageable.fp().set_device_memory_priority_ext)(pageable.device(), memory.raw(), priority.as_f32())
            };
        }
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        // SAFETY: `physical` comes from `instance`, and both are alive as long as this is (see `new`).
        self.0.found.memory_budget.then(|| unsafe { capabilities::read_budgets(&self.0.instance, self.0.physical) })
    }
}
