//! Errors of descriptors, with the numbers that show why.

use std::fmt;

use super::{HeapKind, ViewTypes};
use crate::DeviceError;

/// A part of a shader-visible heap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Region {
    /// What lives until it is released.
    Persistent,
    /// What lives for a frame.
    Frame,
    /// The slots of a `BindlessTable`.
    Bindless,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Persistent => "persistent region",
            Self::Frame => "frame region",
            Self::Bindless => "bindless table",
        })
    }
}

/// Why nothing was done. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// No slot was asked for.
    #[error("0 descriptors were asked for")]
    ZeroCount,
    /// More than the heap can ever hold, or than a 32-bit count can express.
    #[error("{count} descriptors were asked for, at most {max} are to be had")]
    TooMany {
        /// Slots that were asked for.
        count: u64,
        /// The most there could be.
        max: u64,
    },
    /// No room now.
    #[error(
        "the {region} has no room for {need} descriptors: {free} are free, the longest run of them is {largest_free}"
    )]
    Full {
        /// Where it was looked for.
        region: Region,
        /// Slots that were needed.
        need: u32,
        /// Slots that are free, all runs together.
        free: u32,
        /// The longest run of free slots.
        largest_free: u32,
    },
    /// There is one already: a device has one shader-visible heap of each kind, which every command list binds.
    /// A dropped one counts until a reclaim has destroyed it.
    #[error("there is a shader-visible heap of {kind} already, or a dropped one that is not reclaimed yet")]
    SecondHeap {
        /// Its kind.
        kind: HeapKind,
    },
    /// A command list binds one heap a kind, once.
    #[error("a heap of {kind} is bound to this command list already")]
    AlreadyBound {
        /// Its kind.
        kind: HeapKind,
    },
    /// The heap takes no such descriptors.
    #[error("a heap of {heap} takes no descriptors of {found}")]
    WrongKind {
        /// What the heap holds.
        heap: HeapKind,
        /// What it was given.
        found: HeapKind,
    },
    /// The heap was not made for this type of view.
    #[error("a view of type {found:?} in a heap for {heap:?}")]
    WrongType {
        /// What the heap was made for.
        heap: ViewTypes,
        /// What it was given.
        found: ViewTypes,
    },
    /// The resource, or the heap, is another allocator's.
    #[error("the resource or the heap belongs to another allocator")]
    Foreign,
    /// There is no such slot.
    #[error("descriptor {index} of {count}")]
    OutOfRange {
        /// What was asked for.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A slot is to be copied that was never written.
    #[error("descriptor {index} was never written")]
    Unwritten {
        /// The slot, counted from the start of its allocation.
        index: u32,
    },
    /// An alignment of slots that is 0 or not a power of two.
    #[error("an alignment of {alignment} slots is not a power of two")]
    BadAlignment {
        /// What was asked for.
        alignment: u64,
    },
    /// Another thread makes the heap larger: call again.
    #[error("another thread makes the heap larger")]
    GrownMeanwhile,
    /// A slot that shaders may read was to be written: release it and allocate another.
    #[error("descriptor {index} was written already, and shaders may be reading it")]
    InUse {
        /// The slot, counted from the start of its allocation.
        index: u32,
    },
    /// The entry was removed, or was never in this table.
    #[error("entry {slot} of generation {generation} is not in the table")]
    Stale {
        /// The entry's slot.
        slot: u32,
        /// Its generation.
        generation: u32,
    },
    /// The entry is of another table.
    #[error("entry {slot} is of another table")]
    ForeignEntry {
        /// The entry's slot.
        slot: u32,
    },
    /// The resource does not support the view.
    #[error("the view is not valid: {0}")]
    BadView(&'static str),
    /// A range of a view is not aligned or not inside.
    #[error("bytes {offset}..{offset}+{size} cannot be shown: {rule} {limit}")]
    BadRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
        /// What does not hold.
        rule: &'static str,
        /// The number that the rule is about.
        limit: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
