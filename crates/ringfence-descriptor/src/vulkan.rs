//! Binding the shader-visible heaps to a Vulkan command buffer.

use ash::vk;
use ringfence_vulkan::{Bound, Device};
use smallvec::SmallVec;

use crate::device::descriptors::{DescriptorError, DescriptorModel, Descriptors, HeapKind};
use crate::{Binding, CpuDescriptors, ShaderVisibleHeap};

impl ShaderVisibleHeap<Device> {
    /// Returns the set layout of the heap, for pipeline layouts. The layout is alive until the heap grows or is
    /// dropped. A pipeline layout that was created with this layout stays compatible with the grown heap.
    #[must_use]
    pub fn set_layout(&self) -> vk::DescriptorSetLayout {
        self.heap_owner.state.core.versions.read().current.heap.object().set_layout()
    }

    /// Returns `true` if pipelines that use the heap must be created with
    /// `VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT`.
    #[must_use]
    pub fn needs_descriptor_buffer_pipelines(&self) -> bool {
        self.heap_owner.shared.device.descriptor_support().model == DescriptorModel::Buffers
    }
}

impl CpuDescriptors<Device> {
    /// Returns the image view of a render target or a depth-stencil target. Returns null if the descriptor has no view
    /// or is not in the run. The view is alive until the descriptor is written again or dropped, and all work that had
    /// begun by then is complete.
    #[must_use]
    pub fn image_view(&self, index: u32) -> vk::ImageView {
        match index < self.len() {
            true => self.heap().object().image_view(self.start() + index),
            false => vk::ImageView::null(),
        }
    }
}

impl Binding<Device> {
    /// Binds the heaps to a command buffer, once, resources before samplers: the first heap at set number `first_set`
    /// of the layout, the second at the next number. For further layouts and bind points of the command buffer, call
    /// [`Binding::set_offsets`].
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

    /// Makes the bound heaps available to another pipeline layout or bind point of the same command buffer. With
    /// descriptor buffers, only sets offsets; with descriptor sets, binds the sets again.
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

    /// Returns the bound heaps, the heap of resources first.
    fn heaps(&self) -> SmallVec<[&Bound; 2]> {
        [HeapKind::Resources, HeapKind::Samplers].into_iter().filter_map(|kind| self.bound(kind)).collect()
    }
}
