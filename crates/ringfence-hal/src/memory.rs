//! What a resource needs of its memory, what a memory object is made with, and where the host sees it.

use std::ptr::NonNull;

use super::capabilities::{Priority, ResourceClass};

/// What a resource needs of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// Bytes.
    pub size: u64,
    /// Alignment of its offset in bytes, a power of two.
    pub alignment: u64,
    /// Bit i is set iff memory type i will do.
    pub memory_type_bits: u32,
    /// What it may share a block with.
    pub class: ResourceClass,
    /// Whether the driver prefers dedicated memory for it.
    pub prefers_dedicated: bool,
    /// Whether the driver insists on that.
    pub requires_dedicated: bool,
}

/// A memory object to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDesc<'a> {
    /// Index into [`Capabilities::memory_types`](super::Capabilities::memory_types).
    pub memory_type: u32,
    /// Bytes.
    pub size: u64,
    /// The strictest alignment in bytes of what will be placed in it.
    pub alignment: u64,
    /// The class of what will be placed in it, where [`Capabilities::class_groups`](super::Capabilities::class_groups)
    /// parts them.
    pub class: ResourceClass,
    /// How much it matters.
    pub priority: Priority,
    /// A name for debuggers; empty for none.
    pub name: &'a str,
    /// The kind of handle with which it can be shared, if any.
    pub share: Option<ShareKind>,
}

/// A resource in its memory.
#[derive(Clone, Debug)]
pub struct Placed<O> {
    /// The driver's object.
    pub object: O,
    /// Where the host sees its first byte, if its memory is mapped.
    pub mapped: Option<Mapped>,
}

/// A pointer into mapped memory.
///
/// Only a number until it is used: reading or writing through it is `unsafe`, and the library does so only for ranges
/// that one owner holds exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped(NonNull<u8>);

// SAFETY: mapped memory belongs to no thread; dereferencing the pointer is `unsafe`, and its caller ensures exclusion.
unsafe impl Send for Mapped {}
// SAFETY: a shared `Mapped` only yields a number; dereferencing it is `unsafe` and needs exclusion.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Wraps a pointer that the driver gave.
    #[must_use]
    pub const fn new(pointer: NonNull<u8>) -> Self {
        Self(pointer)
    }

    /// The pointer.
    #[must_use]
    pub const fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The pointer `offset` bytes further.
    ///
    /// # Safety
    /// That is still inside (or one past the end of) the mapped memory.
    #[must_use]
    pub const unsafe fn add(self, offset: u64) -> Self {
        // SAFETY: the caller promises that the result stays inside the mapping.
        Self(unsafe { self.0.add(offset as usize) })
    }
}

/// What a handle to memory is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ShareKind {
    /// A file descriptor that only the same driver on the same device understands (`OPAQUE_FD`).
    OpaqueFd,
    /// A file descriptor of a Linux dma-buf, which other drivers and APIs understand (`DMA_BUF_EXT`).
    DmaBuf,
    /// A Windows handle that only the same driver on the same device understands (`OPAQUE_WIN32`).
    OpaqueWin32,
    /// A Windows handle to a heap of Direct3D 12.
    D3d12Heap,
    /// A handle of the simulated device.
    Simulated,
}

impl ShareKind {
    const ALL: [Self; 5] = [Self::OpaqueFd, Self::DmaBuf, Self::OpaqueWin32, Self::D3d12Heap, Self::Simulated];

    /// As a number, to be sent to another process.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind of that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What a device can do with shared memory for a resource.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShareSupport {
    /// Whether a handle can be made of its memory.
    pub can_export: bool,
    /// Whether its memory can be made from a handle.
    pub can_import: bool,
    /// Whether that takes memory that is tied to the resource: no blocks then.
    pub needs_dedicated: bool,
}
