//! What a device has: its memory, which resources may share memory, and its limits.

use std::ops::Range;

use smallvec::SmallVec;

use super::format::TextureAspect;
use super::usage::BufferUsage;

bitflags::bitflags! {
    /// What a memory type is.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct MemoryProperties: u32 {
        /// Near the device.
        const DEVICE_LOCAL = 1 << 0;
        /// Can be mapped.
        const HOST_VISIBLE = 1 << 1;
        /// Host writes need no flush, host reads no invalidation.
        const HOST_COHERENT = 1 << 2;
        /// Host reads go through the host's caches (fast); without it they may be very slow.
        const HOST_CACHED = 1 << 3;
        /// Given out page by page as it is used (tiled renderers' transient targets).
        const LAZILY_ALLOCATED = 1 << 4;
        /// Not readable by the host or by unprotected work.
        const PROTECTED = 1 << 5;
        /// Special purposes only (device-coherent, RDMA and the like): chosen only if it is required or preferred by
        /// name.
        const SPECIAL = 1 << 6;
        /// The device refuses memory of this type: it takes a feature that was not enabled, or has rules that are not
        /// kept here. Chosen only if it is required by name and no other is left, to be refused by name.
        const REFUSED = 1 << 7;
    }
}

/// A physical memory of the device (`VkMemoryHeap`, DXGI segment group).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryHeap {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it is near the device.
    pub device_local: bool,
}

/// A kind of memory (`VkMemoryType`; on Direct3D 12 a heap type).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryType {
    /// Index into [`Capabilities::memory_heaps`].
    pub heap: u32,
    /// What it is.
    pub properties: MemoryProperties,
}

/// How much a memory object matters when device-local memory is short.
///
/// Vulkan's number from 0 to 1 in five steps, of which `Normal` is the default; Direct3D 12's five
/// named ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Priority {
    /// The first to go.
    Lowest,
    /// Before most others.
    Low,
    /// The default.
    #[default]
    Normal,
    /// After most others: what each frame reads.
    High,
    /// Evicted last: render targets, resources that shaders write.
    Highest,
}

impl Priority {
    /// All, the first to go first.
    pub const ALL: [Self; 5] = [Self::Lowest, Self::Low, Self::Normal, Self::High, Self::Highest];

    /// Vulkan's number for it.
    #[must_use]
    pub const fn as_f32(self) -> f32 {
        self as u8 as f32 / 4.0
    }
}

/// When the system takes a [`Priority`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum MemoryPriority {
    /// Not at all: only the library uses priorities.
    #[default]
    None,
    /// When memory is made (`VK_EXT_memory_priority`).
    AtAllocation,
    /// At any time (`VK_EXT_pageable_device_local_memory`, `SetResidencyPriority`).
    AtAnyTime,
}

/// The strictest alignment in bytes of what is used by its address: acceleration structures.
const ADDRESS_ALIGNMENT: u64 = 256;

/// What a device is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device's name, for people.
    pub name: String,
    /// Physical memories.
    pub memory_heaps: Vec<MemoryHeap>,
    /// Kinds of memory, the driver's preference first; at most 32.
    pub memory_types: Vec<MemoryType>,
    /// Which resource classes may share a block without further rules: those with equal numbers, by [`ResourceClass`]
    /// as index (`bufferImageGranularity` above 1 separates buffers and textures; heap tier 1 separates all three).
    /// Buffers may share a block with textures of another number if
    /// [`class_granularity_bytes`](Self::class_granularity_bytes) is above 1 and the distance is kept.
    pub class_groups: [u8; 3],
    /// The alignment in bytes of a memory object that may hold any render target: 4 MiB on Direct3D 12, for
    /// multisampled ones; 1 where the driver aligns memory itself.
    pub target_memory_alignment: u64,
    /// Bytes that must lie between a buffer and a texture in one memory object (`bufferImageGranularity`; 1 if none).
    pub class_granularity_bytes: u64,
    /// Alignment of flushes in bytes (`nonCoherentAtomSize`; 1 if none), a power of two.
    pub non_coherent_atom_bytes: u64,
    /// Whether the device needs flushes of host writes even to coherent memory (the simulated one does).
    pub notice_host_writes: bool,
    /// Largest number of memory objects alive at once.
    pub memory_objects_max: u64,
    /// Largest memory object in bytes.
    pub memory_object_bytes_max: u64,
    /// Alignment in bytes of a buffer range that is copied to a texture.
    pub texture_copy_offset_alignment: u64,
    /// Alignment in bytes of a row in a buffer that is copied to a texture.
    pub texture_copy_row_alignment: u64,
    /// The same of a row of a format with depth and stencil, which are planes of their own on Direct3D 12: drivers there
    /// lay such rows out at twice the distance. At least [`texture_copy_row_alignment`](Self::texture_copy_row_alignment).
    pub depth_stencil_copy_row_alignment: u64,
    /// Whether a part of a mip level of depth or stencil can be copied to or from a buffer; Direct3D 12 copies all of
    /// it.
    pub partial_depth_copies: bool,
    /// Alignment in bytes of constants, in their buffer and in its memory; a power of two.
    pub constant_alignment: u64,
    /// The same of words and structures that shaders read or write; a power of two. Structures lie at multiples of
    /// their stride too.
    pub storage_alignment: u64,
    /// The same of texels in a buffer; a power of two.
    pub texel_alignment: u64,
    /// Whether the program decides what is resident ([`Driver::evict`](super::Driver::evict),
    /// [`Driver::make_resident`](super::Driver::make_resident)); else the system does.
    pub residency: bool,
    /// When the system takes priorities.
    pub memory_priority: MemoryPriority,
}

impl Capabilities {
    /// Alignment in bytes of a row of this aspect in a buffer that is copied to a texture or from one: of depth and of
    /// stencil what a format with both needs.
    #[must_use]
    pub const fn copy_row_alignment(&self, aspect: TextureAspect) -> u64 {
        match aspect {
            TextureAspect::Color => self.texture_copy_row_alignment,
            TextureAspect::Depth | TextureAspect::Stencil => self.depth_stencil_copy_row_alignment,
        }
    }

    /// Bytes of the largest memory object of a memory type: what its heap has, but no more than any object may have.
    ///
    /// # Panics
    /// If there is no such memory type.
    #[must_use]
    pub fn object_bytes_max(&self, memory_type: u32) -> u64 {
        let heap = self.memory_types[memory_type as usize].heap;
        self.memory_heaps[heap as usize].bytes.min(self.memory_object_bytes_max)
    }

    /// Whether host writes to memory of this type have to be followed by [`Driver::flush`](super::Driver::flush).
    #[inline]
    #[must_use]
    pub fn needs_flush(&self, memory_type: u32) -> bool {
        self.notice_host_writes || self.is_non_coherent(memory_type)
    }

    /// Whether memory of this type is host-visible without being coherent.
    #[inline]
    #[must_use]
    pub fn is_non_coherent(&self, memory_type: u32) -> bool {
        let properties = self.properties(memory_type);
        properties.contains(MemoryProperties::HOST_VISIBLE) && !properties.contains(MemoryProperties::HOST_COHERENT)
    }

    /// What a flush of `bytes` of such memory takes with it: the rest of the atoms that they begin and end in. Empty
    /// where memory is coherent, and where no bytes are flushed.
    #[must_use]
    pub fn rest_of_atoms(&self, memory_type: u32, bytes: Range<u64>) -> [Range<u64>; 2] {
        let Range { start, end } = bytes;
        let is_flushed = self.is_non_coherent(memory_type) && !bytes.is_empty();
        let atom = if is_flushed { self.non_coherent_atom_bytes } else { 1 };
        [start / atom * atom..start, end..end.next_multiple_of(atom)]
    }

    /// The alignment in bytes with which a buffer of this usage has to lie in its memory, so that a view of its first
    /// bytes has an address that the API takes. On Vulkan the requirements have at least this alignment; on Direct3D 12
    /// with tight alignment they may have less, as they ignore the usage.
    #[must_use]
    pub fn buffer_alignment(&self, usage: BufferUsage) -> u64 {
        let rules = [
            (BufferUsage::CONSTANT, self.constant_alignment),
            (BufferUsage::STORAGE.union(BufferUsage::STORAGE_READ), self.storage_alignment),
            (BufferUsage::TEXELS, self.texel_alignment),
        ];
        rules.into_iter().filter(|(of, _)| usage.intersects(*of)).map(|(_, bytes)| bytes).fold(1, u64::max)
    }

    /// The alignment in bytes of a range that shares a buffer of this usage, for every rule that a range may meet:
    /// those of [`Capabilities::buffer_alignment`], of flushes, of copies to textures, and of what is reached by its
    /// address (256: acceleration structures; shader tables take 64). The buffer needs this alignment too: an address
    /// is relative to memory, an offset to the buffer.
    #[must_use]
    pub fn range_alignment(&self, usage: BufferUsage) -> u64 {
        let rules = [
            (BufferUsage::COPY_SRC, self.texture_copy_offset_alignment),
            (BufferUsage::DEVICE_ADDRESS, ADDRESS_ALIGNMENT),
        ];
        let shared = rules.into_iter().filter(|(of, _)| usage.contains(*of)).map(|(_, bytes)| bytes);
        shared.fold(self.buffer_alignment(usage).max(self.non_coherent_atom_bytes), u64::max)
    }

    /// The properties of a memory type; none if there is no such type.
    #[inline]
    #[must_use]
    pub fn properties(&self, memory_type: u32) -> MemoryProperties {
        self.memory_types.get(memory_type as usize).map_or(MemoryProperties::empty(), |held| held.properties)
    }
}

/// Resources that some devices keep apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResourceClass {
    /// Buffers, and images with linear tiling.
    Buffer,
    /// Textures that are neither of the next.
    Texture,
    /// Render targets and depth-stencils.
    RenderTarget,
}

/// Usage and budget of a memory heap at a moment, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeapBudget {
    /// What the process uses of the heap.
    pub usage_bytes: u64,
    /// What the process may use before allocations fail or performance drops.
    pub budget_bytes: u64,
}

/// One for each memory heap: no host memory is taken for up to 16, which is all that Vulkan has.
pub type HeapBudgets = SmallVec<[HeapBudget; 16]>;
