//! Recording the barriers of transient memory.

use ash::vk;
use ringfence_vulkan::Device;
use smallvec::SmallVec;

use crate::{Pass, TransientAllocator, TransientId};
use ringfence_memory::RawObject;

/// The first use of a texture in a pass that acquires it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VulkanFirstUse {
    /// Layout that the pass needs.
    pub layout: vk::ImageLayout,
    /// All aspects of the texture's format.
    pub aspects: vk::ImageAspectFlags,
}

impl TransientAllocator<Device> {
    /// Records the barriers of a pass ([`Barrier`]) in one driver call, if the pass has any. Call this function at the
    /// beginning of the pass, outside of a render pass, after all its resources were acquired. An [`Execution`] has
    /// this method too.
    ///
    /// `first_use` is called with the id of each texture that the pass acquires. After the barriers, the texture is in
    /// the layout that `first_use` returned, and its contents are undefined. The barriers are for all commands and all
    /// kinds of memory access.
    ///
    /// # Safety
    /// The command buffer must belong to this device, be in the recording state, and be recorded by this thread only.
    /// Each texture must support its layout, and its format must have its aspects.
    ///
    /// [`Barrier`]: crate::Barrier
    /// [`Execution`]: crate::Execution
    pub unsafe fn record_barriers(
        &self,
        pass: Pass,
        commands: vk::CommandBuffer,
        mut first_use: impl FnMut(TransientId) -> VulkanFirstUse,
    ) {
        let (write, both) =
            (vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
        let (mut depends, mut images) = (false, SmallVec::<[vk::ImageMemoryBarrier<'_>; 16]>::new());
        for barrier in self.barriers().iter().filter(|barrier| barrier.pass == pass) {
            depends |= barrier.depends;
            let (true, Ok(RawObject::Texture(image))) = (barrier.discards, self.raw(barrier.after)) else { continue };
            let VulkanFirstUse { layout, aspects } = first_use(barrier.after);
            let range = vk::ImageSubresourceRange::default()
                .aspect_mask(aspects)
                .level_count(vk::REMAINING_MIP_LEVELS)
                .layer_count(vk::REMAINING_ARRAY_LAYERS);
            let barrier = vk::ImageMemoryBarrier::default()
                .src_access_mask(write)
                .dst_access_mask(both)
                .old_layout(vk::ImageLayout::UNDEFINED)
                .new_layout(layout)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(*image)
                .subresource_range(range);
            images.push(barrier);
        }
        if !depends && images.is_empty() {
            return;
        }
        let memory = [vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(both)];
        let memory = if depends { memory.as_slice() } else { &[] };
        let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        // SAFETY: the caller promises that the command buffer is recorded by this thread, and that the layouts and
        // aspects fit. The images are alive, because `self` owns them.
        unsafe { self.device().raw().cmd_pipeline_barrier(commands, all, all, none, memory, &[], &images) };
    }
}
