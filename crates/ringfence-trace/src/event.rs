//! The events of a trace. The macro `events!` declares each event with its code and its fields. The name after `as` is
//! the module that encodes and decodes the field.
//!
//! ```text
//!   │ code │ number │ number │ … │ text │ …      numbers as LEB128, each text after its length
//! ```

mod coding;

use crate::format::Parts;
use crate::snapshot::RingSnapshot;
use coding::{exponent, flag, index, number, planned, ring, text, texts};

macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident = $code:literal { $($(#[$part_doc:meta])* $part:ident: $type:ty as $coding:ident,)* }
    )*) => {
        /// An event of a trace. Blocks are numbered from 1 in the order in which they are requested from the driver;
        /// numbers can be missing. A range is identified by its block and its offset.
        ///
        /// An event that was read owns its texts. An event to write can borrow its texts: `Event<&str>`.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Event<Text = String> {
            $($(#[$doc])* $name { $($(#[$part_doc])* $part: $type,)* },)*
        }

        impl<Text: AsRef<str>> Event<Text> {
            /// Appends the encoded event to `into`.
            pub(crate) fn push(&self, into: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($part),* } => {
                        into.push($code);
                        $($coding::put($part, into);)*
                    })*
                }
            }
        }

        impl Event {
            /// Decodes the next event of a payload, in a trace of version `version`. Returns `None` if the bytes are
            /// not an event of this version.
            pub(crate) fn take(from: &mut Parts<'_>, version: u32) -> Option<Self> {
                Some(match from.byte().filter(|code| since(*code) <= version)? {
                    $($code => Self::$name { $($part: $coding::take(from)?),* },)*
                    _ => return None,
                })
            }

            /// Returns the number of texts at the end of an event with this code. The event must not contain a list.
            #[cfg(test)]
            fn text_count(code: u8) -> usize {
                let codings: &[&str] = match code {
                    $($code => &[$(stringify!($coding)),*],)*
                    _ => &[],
                };
                codings.iter().filter(|coding| **coding == "text").count()
            }
        }
    };
}

events! {
    /// The device of the allocator. This is the first event of a trace.
    Device = 0x01 {
        /// Name of the device, as the driver reports it.
        name: Text as text,
    }
    /// A memory heap. Heaps are recorded in the order of their indices.
    Heap = 0x02 {
        /// Size of the heap, in bytes.
        bytes: u64 as number,
        /// `true` if the heap is device-local.
        device_local: bool as flag,
    }
    /// A memory type. Types are recorded in the order of their indices.
    Type = 0x03 {
        /// Index of the heap of this memory type.
        heap: u32 as index,
        /// Names of the properties of this memory type.
        properties: Vec<Text> as texts,
    }
    /// The time that passed.
    Time = 0x10 {
        /// Time since the previous event of this kind in nanoseconds; for the first one, since the recording began.
        elapsed_ns: u64 as number,
    }
    /// A submission was opened: the program records its commands.
    FrameBegun = 0x11 {
        /// Index of the submission's timeline.
        timeline: u32 as index,
        /// Value that the submission will signal.
        value: u64 as number,
    }
    /// A submission was passed to the device.
    Submitted = 0x12 {
        /// Index of the submission's timeline.
        timeline: u32 as index,
        /// Value that the submission will signal.
        value: u64 as number,
    }
    /// The allocator read the value of a timeline.
    Completed = 0x13 {
        /// Index of the timeline.
        timeline: u32 as index,
        /// Value that the timeline has reached.
        value: u64 as number,
    }
    /// The allocator reclaimed memory: in a call of `reclaim` (most programs call it once per frame), or for a request
    /// that found too little memory.
    Reclaimed = 0x14 {
        /// Number of objects that were destroyed.
        objects: u64 as number,
        /// Number of blocks that were freed.
        blocks: u64 as number,
    }
    /// The driver reported the usage and the budget of a heap.
    Budget = 0x15 {
        /// Index of the heap.
        heap: u32 as index,
        /// Usage of the heap by the process, in bytes.
        usage_bytes: u64 as number,
        /// Budget of the process in the heap, in bytes.
        budget_bytes: u64 as number,
    }
    /// A block was created.
    BlockMade = 0x20 {
        /// Number of the block.
        block: u64 as number,
        /// Index of the block's memory type.
        memory_type: u32 as index,
        /// `true` if the block is dedicated memory of one resource.
        dedicated: bool as flag,
        /// Size of the block, in bytes.
        bytes: u64 as number,
        /// Class of the block's resources: one of the names in [`BlockSnapshot::class`](crate::BlockSnapshot::class).
        class: Text as text,
    }
    /// A block was freed.
    BlockFreed = 0x21 {
        /// Number of the block.
        block: u64 as number,
    }
    /// A range was allocated for a resource.
    Allocated = 0x22 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block, in bytes.
        offset: u64 as number,
        /// Size of the range in bytes, including the allocator's padding.
        bytes: u64 as number,
        /// Requested alignment, in bytes; a power of two.
        alignment: u64 as exponent,
        /// Name of the resource, or empty.
        name: Text as text,
    }
    /// A range was released by its owner. The device may still use it.
    Retired = 0x23 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block, in bytes.
        offset: u64 as number,
    }
    /// A range was freed.
    Freed = 0x24 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block, in bytes.
        offset: u64 as number,
    }
    /// The contents of a range were moved to another range. The new range was allocated by an earlier event, and the
    /// old range is freed by a later event.
    Moved = 0x25 {
        /// Block of the old range.
        from_block: u64 as number,
        /// Offset of the old range in its block, in bytes.
        from_offset: u64 as number,
        /// Block of the new range.
        to_block: u64 as number,
        /// Offset of the new range in its block, in bytes.
        to_offset: u64 as number,
    }
    /// A range was renamed.
    Named = 0x26 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block, in bytes.
        offset: u64 as number,
        /// The new name.
        name: Text as text,
    }
    /// Data was written to upload rings since the previous event of this kind.
    Staged = 0x30 {
        /// Number of writes.
        writes: u64 as number,
        /// Total size of these writes, in bytes.
        bytes: u64 as number,
    }
    /// A ring exists: an upload ring, a readback ring or a set of pages for constants. The event is recorded at the
    /// first `reclaim` after its creation, or at the end of the trace.
    RingMade = 0x31 {
        /// Number of the ring.
        ring: u64 as number,
        /// Name of the ring.
        name: Text as text,
    }
    /// The state of a ring at the start of a `reclaim`, before the ring frees bytes, or at the end of the trace. The
    /// event is recorded only if the state differs from the last recorded one.
    Ring = 0x32 {
        /// Number of the ring.
        ring: u64 as number,
        /// State of the ring. Its name is empty here.
        figures: RingSnapshot as ring,
    }
    /// A ring was destroyed.
    RingGone = 0x33 {
        /// Number of the ring.
        ring: u64 as number,
    }
    /// One heap of a plan of transient memory. If a transient frame has a new shape, its plan is recorded with one
    /// event for each heap.
    Planned = 0x50 {
        /// Number of the plan. All heaps of the plan have the same number.
        plan: u64 as number,
        /// Size of the heap in this plan, in bytes.
        height_bytes: u64 as number,
        /// Lower bound of the size of this heap in any plan, in bytes.
        lower_bound_bytes: u64 as number,
        /// Number of passes of the frame.
        pass_count: u64 as number,
        /// The resources in the heap.
        resources: Vec<PlannedRange<Text>> as planned,
    }
    /// An object was created in a transient heap. Other objects can be placed in the same bytes. Since version 2.
    TransientMade = 0x51 {
        /// Number of the object, from 1.
        object: u64 as number,
        /// Number of the heap's block.
        block: u64 as number,
        /// Offset of the object in the heap, in bytes.
        offset: u64 as number,
        /// Size of the object, in bytes.
        bytes: u64 as number,
        /// Name of the object at its creation, or empty.
        name: Text as text,
    }
    /// An object in a transient heap was released. It is destroyed once the device has finished using it. Since version
    /// 2.
    TransientReleased = 0x52 {
        /// Number of the object.
        object: u64 as number,
    }
    /// A descriptor heap was created. If a shader-visible heap with this number already exists, it was replaced by a
    /// larger one.
    DescriptorHeap = 0x40 {
        /// Number of the heap.
        heap: u64 as number,
        /// Number of the descriptor allocator that owns the heap.
        owner: u64 as number,
        /// Kind of the heap's descriptors, as an index into [`HEAP_KINDS`](crate::HEAP_KINDS).
        kind: u32 as index,
        /// `true` if the heap is shader-visible.
        shader_visible: bool as flag,
        /// Number of slots.
        capacity: u64 as number,
        /// Number of slots at the start of the heap that are reserved for frame tables: descriptor tables that are used
        /// in one frame.
        frame_capacity: u64 as number,
        /// Name of the heap.
        name: Text as text,
    }
    /// A descriptor heap was destroyed.
    DescriptorHeapFreed = 0x43 {
        /// Number of the heap.
        heap: u64 as number,
    }
    /// Descriptors were allocated.
    DescriptorsAllocated = 0x41 {
        /// Heap of the descriptors.
        heap: u64 as number,
        /// Index of the first descriptor.
        first: u64 as number,
        /// Number of descriptors.
        count: u64 as number,
    }
    /// Descriptors were freed.
    DescriptorsFreed = 0x42 {
        /// Heap of the descriptors.
        heap: u64 as number,
        /// Index of the first descriptor.
        first: u64 as number,
        /// Number of descriptors.
        count: u64 as number,
    }
    /// Use of the frame tables of a shader-visible heap. `made` and `shared` are counted since the previous event of
    /// this kind for this heap.
    DescriptorTables = 0x44 {
        /// Number of the heap.
        heap: u64 as number,
        /// Number of slots that frame tables use.
        frame_used: u64 as number,
        /// Number of tables that were copied to the heap.
        made: u64 as number,
        /// Number of tables that needed no copy, because the heap contained them already.
        shared: u64 as number,
    }
    /// An entry was inserted into a bindless table.
    BindlessInserted = 0x45 {
        /// Number of the heap.
        heap: u64 as number,
        /// Index of the slot in the heap.
        slot: u64 as number,
    }
    /// An entry was removed from a bindless table. The slot is reused once the device has finished using it.
    BindlessRemoved = 0x46 {
        /// Number of the heap.
        heap: u64 as number,
        /// Index of the slot in the heap.
        slot: u64 as number,
    }
    /// A paged resource came to the device, or left it, as a whole or in part. Since version 3.
    Paged = 0x60 {
        /// Index of the device's heap.
        heap: u32 as index,
        /// `true` if bytes came to the device.
        arrives: bool as flag,
        /// Number of bytes.
        bytes: u64 as number,
        /// Number of bytes of all paged resources that are not on the device after the event.
        away_bytes: u64 as number,
        /// Name of the resource, or empty.
        name: Text as text,
    }
    /// The recording was stopped. This is the last event of a complete trace.
    End = 0x7f {
        /// Number of events before this one.
        event_count: u64 as number,
    }
}

/// Returns the first version of the format that has this code. A code is not valid in a trace of an earlier version.
const fn since(code: u8) -> u32 {
    match code {
        0x51 | 0x52 => 2,
        0x60 => 3,
        _ => 1,
    }
}

/// A resource in a plan of transient memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedRange<Text = String> {
    /// First pass that uses the resource.
    pub first_pass: u64,
    /// Last pass that uses the resource, plus 1.
    pub end_pass: u64,
    /// Offset of the resource in the heap, in bytes.
    pub offset: u64,
    /// Size of the resource, in bytes.
    pub bytes: u64,
    /// Name of the resource, or empty.
    pub name: Text,
}
