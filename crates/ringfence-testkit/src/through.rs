//! Work that goes through descriptors: what a shader would do with a bindless index.

use ringfence::descriptor::Binding;
use ringfence::device::RawBuffer;
use ringfence::device::descriptors::{CpuHandle, Descriptors, GpuHandle};

/// One command list that is bound to a shader-visible heap of resources.
#[derive(Debug)]
pub struct Through<'a, D: Descriptors> {
    /// What the list is bound to; not set on another list yet.
    pub binding: &'a mut Binding<D>,
    /// Slots of the heap: how long shaders know its arrays to be.
    pub slots: u32,
    /// What is done, in order, each after the one before is complete.
    pub jobs: &'a [Job<D>],
}

/// Something that is done to buffers whose descriptors are storage buffers.
#[derive(Debug)]
pub enum Job<D: Descriptors> {
    /// Fills the words that a slot shows.
    Fill {
        /// Where to.
        to: Slot<D>,
        /// How many words, from the first that the slot shows on.
        words: u32,
        /// What each becomes.
        value: u32,
    },
    /// Copies words from what one slot shows to what another does: [`crate::Gpu::can_copy_through`].
    Copy {
        /// Where from.
        from: Slot<D>,
        /// Whether that slot, the heap's first, shows constants, of which the first 64 words can be read, and not
        /// words.
        constants: bool,
        /// Where to.
        to: Slot<D>,
        /// How many words, from the first that the slots show on.
        words: u32,
    },
}

/// A slot as the devices are given it.
#[derive(Debug)]
pub struct Slot<D: Descriptors> {
    /// Its number in the shader-visible heap.
    pub index: u32,
    /// The same slot as command lists name it.
    pub gpu: GpuHandle,
    /// A CPU-only slot that shows the same: Direct3D 12 clears through both.
    pub cpu: CpuHandle,
    /// The buffer that it shows, for barriers.
    pub buffer: RawBuffer<D>,
}

impl<D: Descriptors> Clone for Slot<D> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), ..*self }
    }
}
