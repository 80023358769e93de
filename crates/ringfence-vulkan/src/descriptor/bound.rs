//! What a command buffer binds for a heap.

use std::fmt;

use ash::vk;

/// What a command buffer binds for a heap. A copy is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    pub(super) layout: vk::DescriptorSetLayout,
    pub(super) how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Set(vk::DescriptorSet),
    Buffer { address: vk::DeviceAddress, usage: vk::BufferUsageFlags },
}

impl fmt::Debug for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) => write!(f, "{set:?}"),
            Self::Buffer { address, .. } => write!(f, "buffer at {address:#x}"),
        }
    }
}

impl Bound {
    /// The layout that the pipeline has at this set.
    #[must_use]
    pub const fn set_layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// Whether pipelines have to be made with `VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT`.
    #[must_use]
    pub const fn needs_descriptor_buffer_pipelines(&self) -> bool {
        matches!(self.how, How::Buffer { .. })
    }
}
