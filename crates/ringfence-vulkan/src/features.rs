//! Which features and extensions a device was made with.

bitflags::bitflags! {
    /// The features and extensions that the program enabled, as far as Vulkan does not report them: those that this
    /// crate uses.
    ///
    /// A flag that is set here must have been enabled. One that was enabled and is not set is not used.
    /// `VK_EXT_memory_budget` has no flag: its properties can be read wherever the physical device lists it.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Features: u32 {
        /// The feature `bufferDeviceAddress`.
        ///
        /// Memory that may hold buffers is then allocated with `VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`, as buffers with
        /// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT` demand. Without it such buffers are refused.
        const BUFFER_DEVICE_ADDRESS = 1 << 0;
        /// `VK_EXT_debug_utils`, of the instance. Names then reach debuggers and validation messages; without it they
        /// go nowhere.
        const DEBUG_UTILS = 1 << 1;
        /// `VK_EXT_descriptor_buffer` with its feature `descriptorBuffer`; needs [`Features::BUFFER_DEVICE_ADDRESS`]
        /// too, and is ignored without it. Descriptors are then bytes in buffers.
        const DESCRIPTOR_BUFFER = 1 << 2;
        /// The features `descriptorBindingPartiallyBound`, `descriptorBindingUpdateUnusedWhilePending` and
        /// `descriptorBinding…UpdateAfterBind`, the last for every type of view that heaps are made for. A heap is then
        /// one descriptor set, written while it is bound.
        const UPDATE_AFTER_BIND = 1 << 3;
        /// The feature `nullDescriptor` of `VK_EXT_robustness2`. Slots that show nothing are then null descriptors.
        ///
        /// Without it, sets that are written while bound keep the last descriptor, descriptor buffers hold zeros, and
        /// plain sets are left unwritten with [`Features::PARTIALLY_BOUND`] and show placeholders otherwise.
        const NULL_DESCRIPTOR = 1 << 4;
        /// The feature `descriptorBindingPartiallyBound`. Used for plain sets.
        const PARTIALLY_BOUND = 1 << 5;
        /// The feature `robustBufferAccess`. Descriptors in descriptor buffers are longer then.
        const ROBUST_BUFFER_ACCESS = 1 << 6;
        /// `VK_EXT_memory_priority` with its feature `memoryPriority`. Memory is then allocated with its priority.
        const MEMORY_PRIORITY = 1 << 7;
        /// `VK_EXT_pageable_device_local_memory` with its feature; needs [`Features::MEMORY_PRIORITY`] too, and is
        /// ignored without it. The priority of memory can then be changed after its allocation, and the system may page
        /// it by that.
        const PAGEABLE_DEVICE_LOCAL_MEMORY = 1 << 8;
        /// The feature `samplerAnisotropy`. Without it portable samplers are made without anisotropy.
        const SAMPLER_ANISOTROPY = 1 << 9;
        /// `VK_KHR_external_memory_fd`. Memory can then be shared by file descriptors.
        const EXTERNAL_MEMORY_FD = 1 << 10;
        /// `VK_EXT_external_memory_dma_buf`; needs [`Features::EXTERNAL_MEMORY_FD`] too. Memory can then be shared as a
        /// dma-buf.
        const EXTERNAL_MEMORY_DMA_BUF = 1 << 11;
        /// `VK_KHR_external_memory_win32`. Memory can then be shared by Windows handles.
        const EXTERNAL_MEMORY_WIN32 = 1 << 12;
        /// The features `sparseBinding` and `sparseResidencyBuffer`. Without them there are no sparse buffers.
        const SPARSE_BUFFERS = 1 << 13;
        /// The features `sparseBinding` and `sparseResidencyImage2D`. Without them there are no sparse textures.
        const SPARSE_TEXTURES = 1 << 14;
        /// `VK_KHR_acceleration_structure` with its feature. [`BufferInfo::new`](crate::BufferInfo::new) then takes the
        /// usage flags that the extension added; likewise for the next three.
        const ACCELERATION_STRUCTURE = 1 << 15;
        /// `VK_KHR_ray_tracing_pipeline` with its feature.
        const RAY_TRACING_PIPELINE = 1 << 16;
        /// `VK_EXT_transform_feedback` with its feature.
        const TRANSFORM_FEEDBACK = 1 << 17;
        /// `VK_EXT_conditional_rendering` with its feature.
        const CONDITIONAL_RENDERING = 1 << 18;
        /// The feature `protectedMemory`. Without it memory of protected types is refused.
        const PROTECTED_MEMORY = 1 << 19;
        /// `VK_AMD_device_coherent_memory` with its feature. Without it memory of device-coherent types is refused.
        const DEVICE_COHERENT_MEMORY = 1 << 20;
        /// The feature `imageCubeArray`. Without it portable views of cube arrays are refused.
        const IMAGE_CUBE_ARRAY = 1 << 21;
    }
}

impl Features {
    /// The set without the flags that need another one that is not in it.
    pub(crate) fn usable(self) -> Self {
        let needs = [
            (Self::DESCRIPTOR_BUFFER, Self::BUFFER_DEVICE_ADDRESS),
            (Self::PAGEABLE_DEVICE_LOCAL_MEMORY, Self::MEMORY_PRIORITY),
            (Self::EXTERNAL_MEMORY_DMA_BUF, Self::EXTERNAL_MEMORY_FD),
        ];
        let missing = needs.into_iter().filter(|(_, needed)| !self.contains(*needed));
        missing.fold(self, |all, (flag, _)| all.difference(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_without_what_they_need_are_dropped() {
        let alone = Features::DESCRIPTOR_BUFFER | Features::PAGEABLE_DEVICE_LOCAL_MEMORY | Features::SPARSE_BUFFERS;
        assert_eq!(alone.usable(), Features::SPARSE_BUFFERS);
        let both = alone | Features::BUFFER_DEVICE_ADDRESS | Features::MEMORY_PRIORITY;
        assert_eq!(both.usable(), both);
        assert_eq!(format!("{alone:?}"), "Features(DESCRIPTOR_BUFFER | PAGEABLE_DEVICE_LOCAL_MEMORY | SPARSE_BUFFERS)");
    }
}
