//! The allocator over a Vulkan device, and the types and handles of this API.

use ash::vk;

use crate::device::DeviceError;
pub use ringfence_descriptor::ConstantSets;
use ringfence_memory::memory::AllocatorDesc;
pub use ringfence_vulkan::*;

native_types!("Vulkan");

// Inlined into the program, so that the allocator is compiled once, there, and not in this crate too.
impl Allocator {
    /// Creates an allocator over a device that was opened with optional features.
    #[must_use]
    #[inline]
    pub fn over(device: Device, desc: AllocatorDesc) -> Self {
        Self(ringfence_memory::Allocator::over(device, desc))
    }

    /// Creates an allocator over the program's device, without optional features. For optional features, use
    /// [`Device::new`] with a [`DeviceDesc`], and [`Allocator::over`].
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device is older than Vulkan 1.2; or the device is out of memory.
    ///
    /// # Safety
    /// - `device` must have been created from `physical` with the feature `timelineSemaphore` enabled, and `physical`
    ///   from `instance`, which must have been created for Vulkan 1.2 or newer.
    /// - Instance and device must outlive the allocator and everything created from it.
    #[inline]
    pub unsafe fn new(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: AllocatorDesc,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the caller makes the same promises, and no feature is claimed.
        let device = unsafe { Device::new(instance, physical, device, DeviceDesc::default()) }?;
        Ok(Self::over(device, desc))
    }
}
