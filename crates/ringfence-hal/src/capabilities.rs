//! Properties and limits of a device: its memory heaps and types, the resource classes that may share memory, and its
//! alignments.

use std::ops::Range;

use smallvec::SmallVec;

use super::format::TextureAspect;
use super::usage::BufferUsage;

bitflags::bitflags! {
    /// Property flags of a memory type.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct MemoryProperties: u32 {
        /// Device-local: the memory that the device accesses fastest.
        const DEVICE_LOCAL = 1 << 0;
        /// Can be mapped by the host.
        const HOST_VISIBLE = 1 << 1;
        /// Host writes need no flush and host reads need no invalidation.
        const HOST_COHERENT = 1 << 2;
        /// Host reads use the host's caches and are fast. Without this flag, they may be very slow.
        const HOST_CACHED = 1 << 3;
        /// Physical memory is committed only when it is needed (transient targets of tiled renderers).
        const LAZILY_ALLOCATED = 1 << 4;
        /// Protected memory: neither the host nor unprotected work can read it.
        const PROTECTED = 1 << 5;
        /// For special purposes (device-coherent, RDMA and others). The library selects such a type only if the user
        /// requires or prefers this flag.
        const SPECIAL = 1 << 6;
        /// The device does not allocate memory of this type, because the type needs a feature that was not enabled, or
        /// has rules that the device does not implement. The library selects such a type only if the user requires this
        /// flag and no other type matches. The allocation then fails with an error that names the reason.
        const REFUSED = 1 << 7;
    }
}

/// A physical memory of the device (`VkMemoryHeap`, DXGI segment group).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryHeap {
    /// Size in bytes.
    pub bytes: u64,
    /// `true` if the heap is device-local.
    pub device_local: bool,
}

/// A memory type (`VkMemoryType`; a heap type of Direct3D 12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryType {
    /// The memory heap, as an index into [`Capabilities::memory_heaps`].
    pub heap: u32,
    /// The property flags.
    pub properties: MemoryProperties,
}

/// Priority of a memory object when device-local memory is short.
///
/// On Vulkan, the levels are 0, 0.25, 0.5, 0.75 and 1, and `Normal` is Vulkan's default. On Direct3D 12, they are the
/// five values of `D3D12_RESIDENCY_PRIORITY`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Priority {
    /// Evicted first.
    Lowest,
    /// Evicted before most memory.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Evicted after most memory, for data that each frame reads.
    High,
    /// Evicted last, for render targets and resources that shaders write.
    Highest,
}

impl Priority {
    /// All priorities, in the order of eviction.
    pub const ALL: [Self; 5] = [Self::Lowest, Self::Low, Self::Normal, Self::High, Self::Highest];

    /// Returns the priority as Vulkan's number, from 0 to 1.
    #[must_use]
    pub const fn as_f32(self) -> f32 {
        self as u8 as f32 / 4.0
    }
}

/// The times at which the system accepts a [`Priority`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum MemoryPriority {
    /// Never: only the library uses priorities.
    #[default]
    None,
    /// When memory is allocated (`VK_EXT_memory_priority`).
    AtAllocation,
    /// At any time (`VK_EXT_pageable_device_local_memory`, `SetResidencyPriority`).
    AtAnyTime,
}

/// The largest alignment, in bytes, that a use by device address requires: acceleration structures are aligned to it.
const ADDRESS_ALIGNMENT: u64 = 256;

/// Properties and limits of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device's name, for display.
    pub name: String,
    /// The memory heaps.
    pub memory_heaps: Vec<MemoryHeap>,
    /// The memory types, in the driver's order of preference; at most 32.
    pub memory_types: Vec<MemoryType>,
    /// Group number of each class, indexed by [`ResourceClass`]. Resources may share a block if their classes have
    /// equal numbers. On Vulkan, buffers and textures have different numbers if `bufferImageGranularity` is above 1. On
    /// Direct3D 12 with heap tier 1, all three classes have different numbers. If
    /// [`class_granularity_bytes`](Self::class_granularity_bytes) is above 1, buffers and textures with different
    /// numbers may also share a block, as long as no page of `class_granularity_bytes` contains parts of both.
    pub class_groups: [u8; 3],
    /// Alignment in bytes that a memory object needs if any render target may be placed in it: 4 MiB on Direct3D 12,
    /// for multisampled targets; 1 if the driver aligns memory objects itself.
    pub target_memory_alignment: u64,
    /// Size in bytes of the pages that a buffer and a texture in one memory object must not share
    /// (`bufferImageGranularity`; 1 if there is no such rule).
    pub class_granularity_bytes: u64,
    /// Alignment of flushes in bytes (`nonCoherentAtomSize`; 1 if there is no such rule); a power of two.
    pub non_coherent_atom_bytes: u64,
    /// `true` if the device needs flushes of host writes even to coherent memory, as the simulated device does.
    pub notice_host_writes: bool,
    /// Maximum number of memory objects that exist at the same time.
    pub memory_objects_max: u64,
    /// Size of the largest memory object, in bytes.
    pub memory_object_bytes_max: u64,
    /// Alignment in bytes of the offset of texels in a buffer that is copied to or from a texture.
    pub texture_copy_offset_alignment: u64,
    /// Alignment in bytes of the row pitch in a buffer that is copied to or from a texture.
    pub texture_copy_row_alignment: u64,
    /// Alignment in bytes of the row pitch for a format with both depth and stencil. On Direct3D 12, depth and stencil
    /// are separate planes, and some drivers align their rows to 512 bytes instead of 256. At least
    /// [`texture_copy_row_alignment`](Self::texture_copy_row_alignment).
    pub depth_stencil_copy_row_alignment: u64,
    /// `true` if part of a mip level of depth or stencil can be copied to or from a buffer. Direct3D 12 copies whole
    /// mip levels only.
    pub partial_depth_copies: bool,
    /// Alignment in bytes of constants in a buffer, and of that buffer in its memory; a power of two.
    pub constant_alignment: u64,
    /// Alignment in bytes of words and structures that shaders read or write in a buffer, and of that buffer in its
    /// memory; a power of two. Structures are also aligned to their stride.
    pub storage_alignment: u64,
    /// Alignment in bytes of texels in a buffer, and of that buffer in its memory; a power of two.
    pub texel_alignment: u64,
    /// `true` if the program controls residency ([`Driver::evict`](super::Driver::evict),
    /// [`Driver::make_resident`](super::Driver::make_resident)); `false` if the system does.
    pub residency: bool,
    /// The times at which the system accepts priorities.
    pub memory_priority: MemoryPriority,
}

impl Capabilities {
    /// Returns the alignment in bytes of the row pitch in a buffer that is copied to or from this aspect of a texture.
    /// For depth or stencil, returns the alignment for formats that have both aspects.
    #[must_use]
    pub const fn copy_row_alignment(&self, aspect: TextureAspect) -> u64 {
        match aspect {
            TextureAspect::Color => self.texture_copy_row_alignment,
            TextureAspect::Depth | TextureAspect::Stencil => self.depth_stencil_copy_row_alignment,
        }
    }

    /// Returns the size in bytes of the largest memory object of a memory type: the size of the type's heap, or
    /// [`memory_object_bytes_max`](Self::memory_object_bytes_max) if that is smaller.
    ///
    /// # Panics
    /// If there is no such memory type.
    #[must_use]
    pub fn object_bytes_max(&self, memory_type: u32) -> u64 {
        let heap = self.memory_types[memory_type as usize].heap;
        self.memory_heaps[heap as usize].bytes.min(self.memory_object_bytes_max)
    }

    /// Returns `true` if host writes to memory of this type need a [`Driver::flush`](super::Driver::flush).
    #[inline]
    #[must_use]
    pub fn needs_flush(&self, memory_type: u32) -> bool {
        self.notice_host_writes || self.is_non_coherent(memory_type)
    }

    /// Returns `true` if memory of this type is host-visible but not coherent.
    #[inline]
    #[must_use]
    pub fn is_non_coherent(&self, memory_type: u32) -> bool {
        let properties = self.properties(memory_type);
        properties.contains(MemoryProperties::HOST_VISIBLE) && !properties.contains(MemoryProperties::HOST_COHERENT)
    }

    /// Returns the ranges before and after `bytes` that a flush of `bytes` also covers: the other bytes of the first
    /// and of the last atom of [`non_coherent_atom_bytes`](Self::non_coherent_atom_bytes). Both ranges are empty if the
    /// memory is coherent or `bytes` is empty.
    #[must_use]
    pub fn rest_of_atoms(&self, memory_type: u32, bytes: Range<u64>) -> [Range<u64>; 2] {
        let Range { start, end } = bytes;
        let is_flushed = self.is_non_coherent(memory_type) && !bytes.is_empty();
        let atom = if is_flushed { self.non_coherent_atom_bytes } else { 1 };
        [start / atom * atom..start, end..end.next_multiple_of(atom)]
    }

    /// Returns the alignment in bytes that a buffer of this usage needs in its memory, so that a view of its first
    /// bytes has an address that the API accepts. On Vulkan, the driver's requirements already include this alignment.
    /// On Direct3D 12 with tight alignment, the driver's requirements may have a smaller alignment, because they ignore
    /// the usage.
    #[must_use]
    pub fn buffer_alignment(&self, usage: BufferUsage) -> u64 {
        let rules = [
            (BufferUsage::CONSTANT, self.constant_alignment),
            (BufferUsage::STORAGE.union(BufferUsage::STORAGE_READ), self.storage_alignment),
            (BufferUsage::TEXELS, self.texel_alignment),
        ];
        rules.into_iter().filter(|(of, _)| usage.intersects(*of)).map(|(_, bytes)| bytes).fold(1, u64::max)
    }

    /// Returns the alignment in bytes for a range that shares a buffer of this usage with other ranges. It is the
    /// maximum of:
    ///
    /// - [`Capabilities::buffer_alignment`];
    /// - the alignment of flushes (`non_coherent_atom_bytes`);
    /// - the alignment of copies to textures, for [`BufferUsage::COPY_SRC`];
    /// - 256, for [`BufferUsage::DEVICE_ADDRESS`]: acceleration structures need 256, shader tables 64.
    ///
    /// The buffer itself needs this alignment too, because the address of a range depends on the address of the buffer.
    #[must_use]
    pub fn range_alignment(&self, usage: BufferUsage) -> u64 {
        let rules = [
            (BufferUsage::COPY_SRC, self.texture_copy_offset_alignment),
            (BufferUsage::DEVICE_ADDRESS, ADDRESS_ALIGNMENT),
        ];
        let shared = rules.into_iter().filter(|(of, _)| usage.contains(*of)).map(|(_, bytes)| bytes);
        shared.fold(self.buffer_alignment(usage).max(self.non_coherent_atom_bytes), u64::max)
    }

    /// Returns the property flags of a memory type; empty if there is no such type.
    #[inline]
    #[must_use]
    pub fn properties(&self, memory_type: u32) -> MemoryProperties {
        self.memory_types.get(memory_type as usize).map_or(MemoryProperties::empty(), |held| held.properties)
    }
}

/// A class of resources. Some devices cannot place resources of different classes in the same memory object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResourceClass {
    /// Buffers, and images with linear tiling.
    Buffer,
    /// Textures that are neither render targets nor depth-stencil targets.
    Texture,
    /// Render targets and depth-stencil targets.
    RenderTarget,
}

/// Current usage and budget of a memory heap, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeapBudget {
    /// Bytes of the heap that the process uses.
    pub usage_bytes: u64,
    /// Bytes that the process may use before allocations fail or performance drops.
    pub budget_bytes: u64,
}

/// One budget for each memory heap. Up to 16 heaps (Vulkan's maximum) need no host allocation.
pub type HeapBudgets = SmallVec<[HeapBudget; 16]>;

/// Returns the least common multiple of two alignments: the smallest alignment that satisfies both. Neither may be 0.
/// They need not be powers of two: texels of 12 bytes are aligned to 12.
#[must_use]
pub const fn common_alignment(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const VISIBLE: MemoryProperties = MemoryProperties::HOST_VISIBLE;
    const COHERENT: MemoryProperties = MemoryProperties::HOST_COHERENT;

    /// Returns capabilities with a different number for each alignment and size that the tests compare. Its memory
    /// types: device-local in heap 1, coherent, not coherent.
    pub(crate) fn capabilities() -> Capabilities {
        let memory_type = |heap, properties| MemoryType { heap, properties };
        Capabilities {
            name: "table".to_owned(),
            memory_heaps: vec![
                MemoryHeap { bytes: 1000, device_local: false },
                MemoryHeap { bytes: 3000, device_local: true },
            ],
            memory_types: vec![
                memory_type(1, MemoryProperties::DEVICE_LOCAL),
                memory_type(0, VISIBLE | COHERENT),
                memory_type(0, VISIBLE | MemoryProperties::HOST_CACHED),
            ],
            class_groups: [0; 3],
            target_memory_alignment: 1,
            class_granularity_bytes: 1,
            non_coherent_atom_bytes: 64,
            notice_host_writes: false,
            memory_objects_max: 4096,
            memory_object_bytes_max: 2000,
            texture_copy_offset_alignment: 512,
            texture_copy_row_alignment: 128,
            depth_stencil_copy_row_alignment: 256,
            partial_depth_copies: true,
            constant_alignment: 256,
            storage_alignment: 32,
            texel_alignment: 16,
            residency: false,
            memory_priority: MemoryPriority::None,
        }
    }

    #[test]
    fn priorities_are_quarters_from_zero_to_one() {
        assert_eq!(Priority::ALL.map(Priority::as_f32), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(Priority::default().as_f32(), 0.5);
    }

    #[test]
    fn rows_of_depth_and_stencil_have_their_own_alignment() {
        let capabilities = capabilities();
        let found = TextureAspect::ALL.map(|aspect| capabilities.copy_row_alignment(aspect));
        assert_eq!(found, [128, 256, 256]);
    }

    #[test]
    fn an_object_is_as_large_as_its_heap_or_the_limit_of_the_driver() {
        let capabilities = capabilities();
        assert_eq!([0, 1, 2].map(|memory_type| capabilities.object_bytes_max(memory_type)), [2000, 1000, 1000]);
    }

    #[test]
    fn only_visible_memory_that_is_not_coherent_needs_flushes() {
        let quiet = capabilities();
        let strict = Capabilities { notice_host_writes: true, ..capabilities() };
        for (memory_type, is_non_coherent, properties) in [
            (0, false, MemoryProperties::DEVICE_LOCAL),
            (1, false, VISIBLE | COHERENT),
            (2, true, VISIBLE | MemoryProperties::HOST_CACHED),
            // There is no such type.
            (3, false, MemoryProperties::empty()),
        ] {
            assert_eq!(quiet.is_non_coherent(memory_type), is_non_coherent, "type {memory_type}");
            assert_eq!(quiet.needs_flush(memory_type), is_non_coherent, "type {memory_type}");
            assert!(strict.needs_flush(memory_type), "the device notices every host write");
            assert_eq!(strict.is_non_coherent(memory_type), is_non_coherent, "type {memory_type}");
            assert_eq!(quiet.properties(memory_type), properties, "type {memory_type}");
        }
    }

    #[test]
    fn a_flush_covers_whole_atoms_of_memory_that_is_not_coherent() {
        let capabilities = capabilities();
        for (bytes, before, after) in [
            (0..64, 0..0, 64..64),
            (1..64, 0..1, 64..64),
            (64..65, 64..64, 65..128),
            (63..65, 0..63, 65..128),
            (130..190, 128..130, 190..192),
            (256..1024, 256..256, 1024..1024),
        ] {
            assert_eq!(capabilities.rest_of_atoms(2, bytes.clone()), [before, after], "{bytes:?}");
            let exact = [bytes.start..bytes.start, bytes.end..bytes.end];
            assert_eq!(capabilities.rest_of_atoms(1, bytes.clone()), exact, "coherent");
        }
        assert_eq!(capabilities.rest_of_atoms(2, 70..70), [70..70, 70..70], "an empty range flushes nothing");
    }

    #[test]
    fn buffers_have_the_largest_alignment_of_their_usages() {
        let capabilities = capabilities();
        for (usage, of_buffer, of_range) in [
            (BufferUsage::VERTEX, 1, 64),
            (BufferUsage::COPY_DST, 1, 64),
            (BufferUsage::CONSTANT, 256, 256),
            (BufferUsage::STORAGE, 32, 64),
            (BufferUsage::STORAGE_READ, 32, 64),
            (BufferUsage::STORAGE | BufferUsage::STORAGE_READ, 32, 64),
            (BufferUsage::TEXELS, 16, 64),
            (BufferUsage::TEXELS | BufferUsage::STORAGE, 32, 64),
            (BufferUsage::TEXELS | BufferUsage::STORAGE | BufferUsage::CONSTANT, 256, 256),
            (BufferUsage::COPY_SRC, 1, 512),
            (BufferUsage::DEVICE_ADDRESS, 1, 256),
            (BufferUsage::COPY_SRC | BufferUsage::DEVICE_ADDRESS | BufferUsage::CONSTANT, 256, 512),
        ] {
            assert_eq!(capabilities.buffer_alignment(usage), of_buffer, "{usage:?}");
            assert_eq!(capabilities.range_alignment(usage), of_range, "{usage:?}");
        }
        let without_atoms = Capabilities { non_coherent_atom_bytes: 1, ..capabilities };
        assert_eq!(without_atoms.range_alignment(BufferUsage::STORAGE), 32);
        assert_eq!(without_atoms.range_alignment(BufferUsage::VERTEX), 1);
    }

    #[test]
    fn a_common_alignment_is_the_least_common_multiple() {
        for (a, b, common) in
            [(1, 1, 1), (4, 8, 8), (8, 4, 8), (4, 12, 12), (16, 12, 48), (12, 16, 48), (512, 12, 1536), (3, 5, 15)]
        {
            assert_eq!(common_alignment(a, b), common, "{a} and {b}");
        }
    }
}
