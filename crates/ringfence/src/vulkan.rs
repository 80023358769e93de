//! The allocator over a Vulkan device, and types and handles of that API.

use ash::vk;
use smallvec::SmallVec;

use crate::descriptor::{Binding, DescriptorError};
use crate::device::DeviceError;
use crate::device::descriptors::HeapKind;
use ringfence_memory::memory::AllocatorDesc;
pub use ringfence_vulkan::*;

native_types!("Vulkan");

impl Allocator {
    /// Creates an allocator over a device that was opened with optional features.
    #[must_use]
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

impl Binding<Device> {
    /// Binds the heaps to a command buffer, once: the first at set number `first_set` of the layout, the second at the
    /// next number. With descriptor buffers, call [`Binding::set_offsets`] for other layouts and bind points.
    ///
    /// # Errors
    /// [`DescriptorError::AlreadyBound`] for every later call.
    ///
    /// # Safety
    /// The command buffer must be in the recording state and belong to this device. The layout must have the heaps' set
    /// layouts at these numbers.
    pub unsafe fn set(
        &mut self,
        device: &Device,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) -> Result<(), DescriptorError> {
        let _ = self.set_once()?;
        // SAFETY: the caller makes the same promises, and no heap was bound before.
        unsafe { device.bind_heaps(&self.heaps(), commands, point, layout, first_set) };
        Ok(())
    }

    /// Makes the bound heaps available to another pipeline layout or bind point of the same command buffer. For
    /// descriptor buffers it only sets offsets; sets are bound again.
    ///
    /// # Safety
    /// As [`Binding::set`], which must have been called before.
    pub unsafe fn set_offsets(
        &self,
        device: &Device,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) {
        // SAFETY: the caller makes the same promises.
        unsafe { device.set_heap_offsets(&self.heaps(), commands, point, layout, first_set) };
    }

    /// Returns the bound heaps, the one of resources first.
    fn heaps(&self) -> SmallVec<[&Bound; 2]> {
        [HeapKind::Resources, HeapKind::Samplers].into_iter().filter_map(|kind| self.bound(kind)).collect()
    }
}
