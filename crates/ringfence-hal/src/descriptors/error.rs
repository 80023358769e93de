//! Errors of descriptors, with the numbers of the request.

use std::fmt;

use super::{HeapKind, ViewTypes};
use crate::DeviceError;

/// A part of a shader-visible heap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Region {
    /// Descriptors that are allocated until the program releases them.
    Persistent,
    /// Descriptors that are allocated for one frame.
    Frame,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Persistent => "persistent region",
            Self::Frame => "frame region",
        })
    }
}

/// The reason why a descriptor operation failed. The failed call has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The request is for zero descriptors.
    #[error("0 descriptors were requested")]
    ZeroCount,
    /// The request exceeds the capacity of the heap, or the largest 32-bit number.
    #[error("{count} descriptors were requested, but at most {max} are possible")]
    TooMany {
        /// Number of requested descriptors.
        count: u64,
        /// Maximum number of descriptors of a request.
        max: u64,
    },
    /// No range of free slots is large enough. A later request can succeed, once descriptors are released.
    #[error(
        "the {region} has no room for {need} descriptors: {free} are free, at most {largest_free} of them in a row; \
         release some or create a larger heap"
    )]
    Full {
        /// The region that was searched.
        region: Region,
        /// Number of required slots.
        need: u32,
        /// Total number of free slots.
        free: u32,
        /// Size of the largest range of free slots.
        largest_free: u32,
    },
    /// The bindless table has no free entry. A table never grows. A later request can succeed, once entries are
    /// released.
    #[error(
        "the bindless table has no free entry of its {entries}; its heap has {heap_free} free persistent slots: release \
         entries, or create a table with a larger `BindlessDesc::capacity`"
    )]
    TableFull {
        /// Number of entries of the table.
        entries: u32,
        /// Number of free slots in the heap's persistent region, which a new table could have.
        heap_free: u64,
    },
    /// The device already has a shader-visible heap of this kind. A device has one per kind, and every command list
    /// binds it. A dropped heap counts until a call of `reclaim` has destroyed it.
    #[error("the device has a shader-visible heap of {kind} already, or a dropped one that is not yet reclaimed")]
    SecondHeap {
        /// The kind of heap.
        kind: HeapKind,
    },
    /// The command list has already bound a heap of this kind. A command list may bind only one heap per kind, and only
    /// once.
    #[error("a heap of {kind} is already bound to this command list")]
    AlreadyBound {
        /// The kind of heap.
        kind: HeapKind,
    },
    /// The heap does not accept descriptors of this kind.
    #[error("a heap of {heap} does not accept descriptors of {found}")]
    WrongKind {
        /// The kind of the heap.
        heap: HeapKind,
        /// The kind of the descriptor.
        found: HeapKind,
    },
    /// The heap was created without this type of view.
    #[error("the heap was created for {heap:?}, not for views of type {found:?}")]
    WrongType {
        /// The types of the heap.
        heap: ViewTypes,
        /// The type of the view.
        found: ViewTypes,
    },
    /// The resource or the heap belongs to another allocator.
    #[error("the resource or the heap belongs to another allocator")]
    Foreign,
    /// The index is not less than the number of slots.
    #[error("descriptor {index} is out of range: there are {count}")]
    OutOfRange {
        /// The requested index.
        index: u64,
        /// Number of slots.
        count: u64,
    },
    /// The source slot of a copy was never written.
    #[error("descriptor {index} was never written")]
    Unwritten {
        /// The slot, relative to its allocation.
        index: u32,
    },
    /// The alignment is 0 or not a power of two.
    #[error("an alignment of {alignment} slots is not a power of two")]
    BadAlignment {
        /// The requested alignment, in slots.
        alignment: u64,
    },
    /// Another thread is growing the heap. Call again.
    #[error("another thread is growing the heap; call again")]
    GrownMeanwhile,
    /// The slot was already written, and shaders may be reading it. Release the descriptor and allocate another one.
    #[error("descriptor {index} was already written, and shaders may be reading it; allocate another one")]
    InUse {
        /// The slot, relative to its allocation.
        index: u32,
    },
    /// The entry was removed, or was never in this table.
    #[error("entry {slot} of generation {generation} is not in the table")]
    Stale {
        /// The slot of the entry.
        slot: u32,
        /// The generation of the entry.
        generation: u32,
    },
    /// The entry belongs to another table.
    #[error("entry {slot} belongs to another table")]
    ForeignEntry {
        /// The slot of the entry.
        slot: u32,
    },
    /// The resource does not support the view.
    #[error("the view is not valid: {0}")]
    BadView(&'static str),
    /// The range of a view is misaligned or outside of the buffer.
    #[error("a view of bytes {offset}..{offset}+{size} is not possible: {rule} {limit}")]
    BadRange {
        /// Offset of the range in bytes.
        offset: u64,
        /// Size of the range in bytes.
        size: u64,
        /// The broken rule.
        rule: &'static str,
        /// The limit that the rule names.
        limit: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
