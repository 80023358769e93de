//! GPU work that accesses buffers through descriptors, as a shader with a bindless index does.

use ringfence::descriptor::Binding;
use ringfence::device::RawBuffer;
use ringfence::device::descriptors::{CpuHandle, Descriptors, GpuHandle};

/// The content of one command list: it binds a shader-visible heap of resource views and executes jobs.
#[derive(Debug)]
pub struct DescriptorWork<'a, D: Descriptors> {
    /// The binding of the heap. It must not be set on a list yet.
    pub binding: &'a mut Binding<D>,
    /// Number of slots of the heap. The arrays in the shaders have this length.
    pub slots: u32,
    /// The jobs, in order. Each job starts when the previous one is complete.
    pub jobs: &'a [Job<D>],
}

/// An operation on buffers. Their descriptors are views of storage buffers.
#[derive(Debug)]
pub enum Job<D: Descriptors> {
    /// Fills the words that a slot refers to.
    Fill {
        /// The destination slot.
        to: Slot<D>,
        /// Number of words, from the first word of the view on.
        words: u32,
        /// The new value of each word.
        value: u32,
    },
    /// Copies words between the views in two slots. Requires [`crate::Gpu::can_copy_through_descriptors`].
    Copy {
        /// The source slot.
        from: Slot<D>,
        /// `true` if the source slot contains constants instead of storage. It must then be the first slot of the heap,
        /// and only the first 64 words of the constants can be read.
        constants: bool,
        /// The destination slot.
        to: Slot<D>,
        /// Number of words, from the first words of the views on.
        words: u32,
    },
}

/// A slot of the heap, in the forms that the devices need.
#[derive(Debug)]
pub struct Slot<D: Descriptors> {
    /// Index in the shader-visible heap.
    pub index: u32,
    /// GPU handle of the slot, for command lists.
    pub gpu: GpuHandle,
    /// CPU handle of a CPU-only slot with the same view. Clears on Direct3D 12 need both handles.
    pub cpu: CpuHandle,
    /// Buffer of the view, for barriers.
    pub buffer: RawBuffer<D>,
}

impl<D: Descriptors> Clone for Slot<D> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), ..*self }
    }
}
