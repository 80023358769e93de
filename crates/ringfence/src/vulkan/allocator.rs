//! The allocator over a Vulkan device, and Vulkan's own handles of what it makes.

use ash::vk;

use super::{Device, DeviceDesc};
use crate::device::DeviceError;
use crate::memory::AllocatorDesc;

/// An allocator over a Vulkan device.
pub type Allocator = crate::memory::Allocator<Device>;
/// A buffer of a Vulkan device.
pub type Buffer = crate::resource::Buffer<Device>;
/// An image of a Vulkan device.
pub type Texture = crate::resource::Texture<Device>;
/// A queue's progress on a Vulkan device.
pub type Timeline = crate::lifetime::Timeline<Device>;
/// An upload ring of a Vulkan device.
pub type UploadRing = crate::upload::UploadRing<Device>;

impl Allocator {
    /// An allocator over a device that the program has made, without optional features. For those there is
    /// [`Device::new`] with a [`DeviceDesc`], and [`Allocator::over`].
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device is older than Vulkan 1.2, or out of memory.
    ///
    /// # Safety
    /// - `device` was made from `physical`, with the feature `timelineSemaphore` enabled, and `physical` comes from
    ///   `instance`, which was made for Vulkan 1.2 or newer.
    /// - Instance and device outlive the allocator and all that it makes.
    pub unsafe fn new(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        desc: AllocatorDesc,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the caller promises the same; no feature is claimed.
        let device = unsafe { Device::new(instance, physical, device, DeviceDesc::default()) }?;
        Ok(Self::over(device, desc))
    }
}

impl Buffer {
    /// Vulkan's handle. It is valid as long as this value lives and submissions that use it are not complete.
    #[must_use]
    pub fn raw(&self) -> vk::Buffer {
        *self.object()
    }
}

impl Texture {
    /// Vulkan's handle. It is valid as long as this value lives and submissions that use it are not complete.
    #[must_use]
    pub fn raw(&self) -> vk::Image {
        *self.object()
    }
}
