//! The allocator over a Vulkan device, and Vulkan's own handles of what it makes.

use ash::vk;
use smallvec::SmallVec;

use crate::descriptor::{Binding, DescriptorError};
use crate::device::DeviceError;
use crate::device::descriptors::HeapKind;
use crate::memory::AllocatorDesc;
pub use ringfence_vulkan::*;

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

impl Binding<Device> {
    /// Binds the heaps to a command buffer, once: the first at set number `first_set` of the layout, the second at the next.
    /// With descriptor buffers, call [`Binding::set_offsets`] for other layouts and bind points.
    ///
    /// # Errors
    /// [`DescriptorError::AlreadyBound`] at every later call.
    ///
    /// # Safety
    /// The command buffer is being recorded, and is of this device; the layout has the heaps' set layouts there.
    pub unsafe fn set(
        &mut self,
        device: &Device,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) -> Result<(), DescriptorError> {
        let _ = self.set_once()?;
        // SAFETY: as the caller promises, and nothing was bound before.
        unsafe { device.bind_heaps(&self.heaps(), commands, point, layout, first_set) };
        Ok(())
    }

    /// Has another pipeline layout or bind point of the same command buffer go through the same heaps. This binds nothing
    /// else; sets are the same sets.
    ///
    /// # Safety
    /// As [`Binding::set`], which has been called.
    pub unsafe fn set_offsets(
        &self,
        device: &Device,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) {
        // SAFETY: as the caller promises.
        unsafe { device.set_heap_offsets(&self.heaps(), commands, point, layout, first_set) };
    }

    /// The resources first.
    fn heaps(&self) -> SmallVec<[&Bound; 2]> {
        [HeapKind::Resources, HeapKind::Samplers].into_iter().filter_map(|kind| self.bound(kind)).collect()
    }
}
