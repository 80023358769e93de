//! The form of a heap that a command buffer binds.

use std::fmt;

use ash::vk;

/// The form of a heap that a command buffer binds: a descriptor set, or the address of a descriptor buffer. A clone of
/// a `Bound` refers to the same heap.
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
    /// Returns the set layout that the pipeline layout must have at this set number.
    #[must_use]
    pub const fn set_layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// Returns `true` if pipelines must be created with `VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT`.
    #[must_use]
    pub const fn needs_descriptor_buffer_pipelines(&self) -> bool {
        matches!(self.how, How::Buffer { .. })
    }
}
