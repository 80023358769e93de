//! The wrapped device, and the properties that are read when it is wrapped.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use ash::vk;

use super::create_lock::CreateLock;
use super::desc::DeviceDesc;
use super::descriptor::facts::Facts;
use super::features::Features;
use super::image_support::ImageSupport;
use super::object_limits::Counts;
use super::plain_heaps::{PlainHeaps, Resource};
use super::{capabilities, external, naming};
use ringfence_hal::descriptors::DescriptorModel;
use ringfence_hal::{DeviceError, MemoryPriority};

/// A Vulkan device. Clones refer to the same device and cost one increment of a reference count.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Inner>);

/// State that the clones of a [`Device`] share.
pub(super) struct Inner {
    pub(super) instance: ash::Instance,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) device: ash::Device,
    pub(super) desc: DeviceDesc,
    pub(super) found: capabilities::Found,
    /// `true` if only commands of Vulkan 1.0 may be called ([`Device::for_memory`]).
    pub(super) memory_only: bool,
    /// `true` if `VkMemoryDedicatedAllocateInfo` may be used.
    pub(super) has_dedicated: bool,
    pub(super) counts: Counts,
    pub(super) descriptors: Facts,
    pub(super) plain_heaps: PlainHeaps,
    pub(super) image_support: ImageSupport,
    pub(super) turns: CreateLock,
    /// `Some` if [`Features::DEBUG_UTILS`] is set and the device has the functions.
    pub(super) debug_utils: Option<ash::ext::debug_utils::Device>,
    pub(super) sharing: external::Calls,
    /// `Some` if and only if `VK_EXT_pageable_device_local_memory` was enabled.
    pub(super) pageable: Option<ash::ext::pageable_device_local_memory::Device>,
}

/// Properties that are read from a device when it is wrapped.
struct Read {
    found: capabilities::Found,
    descriptors: Facts,
    sharing: external::Calls,
    memory_only: bool,
    has_dedicated: bool,
}

impl Device {
    /// Wraps a device that the program has created.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device is older than Vulkan 1.2; or the driver is out of memory.
    ///
    /// # Safety
    /// - `device` was created from `physical`. `physical` comes from `instance`, which was created for Vulkan 1.2 or
    ///   newer.
    /// - The feature `timelineSemaphore` was enabled, and `desc` is correct.
    /// - Instance and device outlive this value, its clones, and all objects that are created through them.
    pub unsafe fn new(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: DeviceDesc,
    ) -> Result<Self, DeviceError> {
        let desc = DeviceDesc { features: desc.features.usable(), ..desc };
        // SAFETY: the caller promises that `physical` comes from `instance`.
        let found = unsafe { capabilities::find(instance, physical, desc.features) }?;
        // SAFETY: the caller promises that the three handles belong together and that `desc` is correct.
        let descriptors = unsafe { Facts::read(instance, physical, &device, desc) };
        // SAFETY: the caller promises that the three handles belong together and that the features are enabled.
        let sharing = unsafe { external::Calls::load(instance, physical, &device, desc.features) };
        let read = Read { found, descriptors, sharing, memory_only: false, has_dedicated: true };
        // SAFETY: the caller promises that the three handles belong together.
        Ok(unsafe { Self::wrap(instance, physical, device, desc, read) })
    }

    /// Wraps a device of any version of Vulkan for memory only: `Allocator::allocate`, `Allocator::allocate_for`, and
    /// their allocations. Timelines, resources and descriptor heaps are refused with [`DeviceError::Unsupported`].
    ///
    /// Vulkan 1.0 reports neither budgets nor the maximum size of a memory object, so both are unknown. If the device
    /// has neither Vulkan 1.1 nor `VK_KHR_dedicated_allocation`, dedicated allocations are plain memory objects.
    ///
    /// # Safety
    /// - `device` was created from `physical`, which comes from `instance`, and `desc` is correct.
    /// - Instance and device outlive this value, its clones, and all objects that are created through them.
    pub unsafe fn for_memory(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: DeviceDesc,
    ) -> Self {
        let sparse = Features::SPARSE_BUFFERS | Features::SPARSE_TEXTURES;
        let desc = DeviceDesc { features: desc.features.usable().difference(sparse), ..desc };
        // SAFETY: the caller promises that `physical` comes from `instance`.
        let found = unsafe { capabilities::find_memory(instance, physical, desc.features) };
        let (descriptors, sharing) = (Facts::of_no_heaps(desc), external::Calls::none());
        // SAFETY: the caller promises that the device is alive and comes from `instance`.
        let has_dedicated = unsafe { has_dedicated_allocation(instance, device.handle()) };
        let read = Read { found, descriptors, sharing, memory_only: true, has_dedicated };
        // SAFETY: the caller promises that the three handles belong together.
        unsafe { Self::wrap(instance, physical, device, desc, read) }
    }

    /// # Safety
    /// `device` was created from `physical`, which comes from `instance`. All are alive, and the features in `desc` are
    /// enabled.
    unsafe fn wrap(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: DeviceDesc,
        read: Read,
    ) -> Self {
        let Read { mut found, descriptors, sharing, memory_only, has_dedicated } = read;
        found.capabilities.memory_priority = memory_priority(desc.features);
        let pageable = pageable(instance, &device, desc.features);
        let debug_utils = if desc.features.contains(Features::DEBUG_UTILS) {
            // SAFETY: the caller promises that `device` comes from `instance`.
            unsafe { naming::load(instance, &device) }
        } else {
            None
        };
        let (instance, plain_heaps) = (instance.clone(), PlainHeaps::default());
        let turns = CreateLock::of(found.driver);
        let counts = Counts::new(&found.capabilities, &descriptors);
        let inner = Inner {
            instance,
            physical,
            device,
            desc,
            found,
            memory_only,
            has_dedicated,
            counts,
            descriptors,
            plain_heaps,
            image_support: ImageSupport::new(),
            turns,
            debug_utils,
            sharing,
            pageable,
        };
        Self(Arc::new(inner))
    }

    /// Names an object. Failures are ignored, because a name has no effect on behaviour.
    ///
    /// # Safety
    /// The object belongs to this device and is alive.
    pub(super) unsafe fn name(&self, object: impl vk::Handle, name: &str) {
        let Some(debug_utils) = &self.0.debug_utils else { return };
        let bytes = naming::terminated(name);
        let Ok(name) = CStr::from_bytes_until_nul(&bytes) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(name);
        // SAFETY: the caller promises that the object is alive; `name` lives until the call returns.
        let _ = unsafe { debug_utils.set_debug_utils_object_name(&info) };
    }

    /// Clears every descriptor slot that refers to `resource`. Called when the owner of the resource releases it, and
    /// before the resource is destroyed. Only plain sets need this; in the other models, does nothing.
    #[inline]
    pub(super) fn clear_slots_of(&self, resource: Resource) {
        if self.0.descriptors.model() == DescriptorModel::PlainSets {
            self.0.plain_heaps.clear_slots_of(resource);
        }
    }

    /// Returns an error if the device was wrapped for memory only. Called by functions that need more than Vulkan 1.0.
    pub(super) fn check_whole(&self) -> Result<(), DeviceError> {
        let refused = DeviceError::unsupported("this call on a device that was wrapped for memory only");
        if self.0.memory_only { Err(refused) } else { Ok(()) }
    }

    /// Returns the wrapped device.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.0.device
    }

    /// Returns the instance of the device.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        &self.0.instance
    }

    /// Returns the physical device.
    #[must_use]
    pub fn physical(&self) -> vk::PhysicalDevice {
        self.0.physical
    }

    /// Returns `true` if a feature was enabled.
    pub(super) fn has(&self, feature: Features) -> bool {
        self.0.desc.features.contains(feature)
    }

    /// Returns the description of the device, without features that need a missing feature. A device for memory only
    /// has no sparse features.
    #[must_use]
    pub fn desc(&self) -> DeviceDesc {
        self.0.desc
    }
}

/// Returns `true` if `VkMemoryDedicatedAllocateInfo` may be chained: with Vulkan 1.1 or `VK_KHR_dedicated_allocation`.
/// That extension has no command of its own. It requires `VK_KHR_get_memory_requirements2`, so this function looks for
/// a command of the latter.
///
/// # Safety
/// The device is alive and comes from `instance`.
unsafe fn has_dedicated_allocation(instance: &ash::Instance, device: vk::Device) -> bool {
    let measures = [c"vkGetBufferMemoryRequirements2", c"vkGetBufferMemoryRequirements2KHR"];
    // SAFETY: the caller promises that the device is alive; the names are terminated.
    measures.into_iter().any(|name| unsafe { instance.get_device_proc_addr(device, name.as_ptr()) }.is_some())
}

/// Returns when the device accepts the priority of memory: at any time, at the allocation, or never.
const fn memory_priority(features: Features) -> MemoryPriority {
    if features.contains(Features::PAGEABLE_DEVICE_LOCAL_MEMORY) {
        MemoryPriority::AtAnyTime
    } else if features.contains(Features::MEMORY_PRIORITY) {
        MemoryPriority::AtAllocation
    } else {
        MemoryPriority::None
    }
}

/// Returns the command that changes priorities, if its extension was enabled.
fn pageable(
    instance: &ash::Instance,
    device: &ash::Device,
    features: Features,
) -> Option<ash::ext::pageable_device_local_memory::Device> {
    let changes = memory_priority(features) == MemoryPriority::AtAnyTime;
    changes.then(|| ash::ext::pageable_device_local_memory::Device::new(instance, device))
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
