//! Features and extensions that a device was created with.

bitflags::bitflags! {
    /// Features and extensions that the program enabled. Vulkan does not report which ones are enabled, so the program
    /// lists those that this crate uses.
    ///
    /// Set a flag only if its feature was enabled. If a feature was enabled but its flag is not set, the feature is not
    /// used. `VK_EXT_memory_budget` has no flag: its properties can be read whenever the physical device lists the
    /// extension.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Features: u32 {
        /// The feature `bufferDeviceAddress`.
        ///
        /// Memory that may contain buffers is then allocated with `VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`, which
        /// buffers with `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT` require. Without this flag, such buffers are
        /// refused.
        const BUFFER_DEVICE_ADDRESS = 1 << 0;
        /// `VK_EXT_debug_utils`, of the instance. Debuggers and validation messages then show the names of objects.
        /// Without this flag, names are ignored.
        const DEBUG_UTILS = 1 << 1;
        /// `VK_EXT_descriptor_buffer` with its feature `descriptorBuffer`. Needs [`Features::BUFFER_DEVICE_ADDRESS`],
        /// and is ignored without it. Descriptors are then bytes in buffers.
        const DESCRIPTOR_BUFFER = 1 << 2;
        /// The features `descriptorBindingPartiallyBound` and `descriptorBindingUpdateUnusedWhilePending`, and
        /// `descriptorBinding…UpdateAfterBind` for every type of view that the program's heaps contain. Unless
        /// [`Features::DESCRIPTOR_BUFFER`] is set too, a heap is then one descriptor set, which is written while it is
        /// bound.
        const UPDATE_AFTER_BIND = 1 << 3;
        /// The feature `nullDescriptor` of `VK_EXT_robustness2`. Empty slots are then null descriptors, except in heaps
        /// of samplers.
        ///
        /// Without this flag, an empty slot contains:
        ///
        /// - with [`Features::UPDATE_AFTER_BIND`]: its last descriptor, if it had one;
        /// - with [`Features::DESCRIPTOR_BUFFER`]: zeros;
        /// - in plain sets: no descriptor with [`Features::PARTIALLY_BOUND`], otherwise the descriptor of another slot
        ///   or a placeholder.
        const NULL_DESCRIPTOR = 1 << 4;
        /// The feature `descriptorBindingPartiallyBound`. Used for plain sets.
        const PARTIALLY_BOUND = 1 << 5;
        /// The feature `robustBufferAccess`. It changes the size of descriptors in descriptor buffers.
        const ROBUST_BUFFER_ACCESS = 1 << 6;
        /// `VK_EXT_memory_priority` with its feature `memoryPriority`. Memory is then allocated with its priority.
        const MEMORY_PRIORITY = 1 << 7;
        /// `VK_EXT_pageable_device_local_memory` with its feature. Needs [`Features::MEMORY_PRIORITY`], and is ignored
        /// without it. The priority of memory can then be changed after the allocation, and the system may page memory
        /// by priority.
        const PAGEABLE_DEVICE_LOCAL_MEMORY = 1 << 8;
        /// The feature `samplerAnisotropy`. Without this flag, portable samplers are created without anisotropy.
        const SAMPLER_ANISOTROPY = 1 << 9;
        /// `VK_KHR_external_memory_fd`. Memory can then be shared through file descriptors.
        const EXTERNAL_MEMORY_FD = 1 << 10;
        /// `VK_EXT_external_memory_dma_buf`. Needs [`Features::EXTERNAL_MEMORY_FD`], and is ignored without it. Memory
        /// can then be shared as a dma-buf.
        const EXTERNAL_MEMORY_DMA_BUF = 1 << 11;
        /// `VK_KHR_external_memory_win32`. Memory can then be shared through Windows handles.
        const EXTERNAL_MEMORY_WIN32 = 1 << 12;
        /// The features `sparseBinding` and `sparseResidencyBuffer`. Needed for sparse buffers.
        const SPARSE_BUFFERS = 1 << 13;
        /// The features `sparseBinding` and `sparseResidencyImage2D`. Needed for sparse textures.
        const SPARSE_TEXTURES = 1 << 14;
        /// `VK_KHR_acceleration_structure` with its feature. [`BufferInfo::new`](crate::BufferInfo::new) then accepts
        /// the extension's usage flags. The next three flags do the same for their extensions.
        const ACCELERATION_STRUCTURE = 1 << 15;
        /// `VK_KHR_ray_tracing_pipeline` with its feature.
        const RAY_TRACING_PIPELINE = 1 << 16;
        /// `VK_EXT_transform_feedback` with its feature.
        const TRANSFORM_FEEDBACK = 1 << 17;
        /// `VK_EXT_conditional_rendering` with its feature.
        const CONDITIONAL_RENDERING = 1 << 18;
        /// The feature `protectedMemory`. Without this flag, memory of protected types is refused.
        const PROTECTED_MEMORY = 1 << 19;
        /// `VK_AMD_device_coherent_memory` with its feature. Without this flag, memory of device-coherent types is
        /// refused.
        const DEVICE_COHERENT_MEMORY = 1 << 20;
        /// The feature `imageCubeArray`. Without this flag, portable views of cube arrays are refused.
        const IMAGE_CUBE_ARRAY = 1 << 21;
    }
}

impl Features {
    /// Returns the set without the flags that need a missing flag.
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
