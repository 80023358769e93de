//! The allocator over a Vulkan device, and Vulkan's own handles of what it makes.

use ash::vk;
use smallvec::SmallVec;

use crate::descriptor::{Binding, DescriptorError};
use crate::device::DeviceError;
use crate::device::descriptors::HeapKind;
use ringfence_memory::memory::AllocatorDesc;
pub use ringfence_vulkan::*;

native_types!("Vulkan");

impl Allocator {
    /// An allocator over a device: for one with optional features.
    #[must_use]
    pub fn over(device: Device, desc: AllocatorDesc) -> Self {
        Self(ringfence_memory::Allocator::over(device, desc))
    }

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

impl Binding<Device> {
    /// Binds the heaps to a command buffer, once: the first at set number `first_set` of the layout, the second at the
    /// next. With descriptor buffers, call [`Binding::set_offsets`] for other layouts and bind points.
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

    /// Has another pipeline layout or bind point of the same command buffer go through the same heaps. This binds
    /// nothing else; sets are the same sets.
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
