//! Work that uses descriptors, like a shader with a bindless index.

use ringfence::descriptor::Binding;
use ringfence::device::RawBuffer;
use ringfence::device::descriptors::{CpuHandle, Descriptors, GpuHandle};

/// One command list with a bound shader-visible heap of resource views.
#[derive(Debug)]
pub struct Through<'a, D: Descriptors> {
    /// The heap's binding. It must not be set on another list yet.
    pub binding: &'a mut Binding<D>,
    /// Number of slots of the heap, which is the length of the shaders' arrays.
    pub slots: u32,
    /// The jobs, in order. Each starts after the previous one is complete.
    pub jobs: &'a [Job<D>],
}

/// An operation on buffers whose descriptors are storage buffers.
#[derive(Debug)]
pub enum Job<D: Descriptors> {
    /// Fills the words that a slot shows.
    Fill {
        /// The destination slot.
        to: Slot<D>,
        /// Number of words, from the first one that the slot shows.
        words: u32,
        /// The new value of each word.
        value: u32,
    },
    /// Copies words from the buffer of one slot to the buffer of another; see [`crate::Gpu::can_copy_through`].
    Copy {
        /// The source slot.
        from: Slot<D>,
        /// `true` if the source slot, which must be the heap's first, shows constants instead of storage. Only the
        /// first 64 words of constants can be read.
        constants: bool,
        /// The destination slot.
        to: Slot<D>,
        /// Number of words, from the first ones that the slots show.
        words: u32,
    },
}

/// A slot, as passed to the devices.
#[derive(Debug)]
pub struct Slot<D: Descriptors> {
    /// Index in the shader-visible heap.
    pub index: u32,
    /// GPU handle of the slot, for command lists.
    pub gpu: GpuHandle,
    /// A CPU-only slot with the same view: clears in Direct3D 12 need both.
    pub cpu: CpuHandle,
    /// The buffer that the slot shows, for barriers.
    pub buffer: RawBuffer<D>,
}

impl<D: Descriptors> Clone for Slot<D> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), ..*self }
    }
}
