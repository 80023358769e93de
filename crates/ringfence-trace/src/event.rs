//! The events of a trace. Each event is declared once, with its code and its fields. The name after `as` is the module
//! that encodes and decodes the field.
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
        /// An event of a trace. Blocks are numbered from 1 in the order of their creation. A range is identified by its
        /// block and its offset.
        ///
        /// Events that were read own their texts. Events to write can borrow them, as `Event<&str>`.
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
            /// Decodes the next event of a payload of a trace of `version`. Returns `None` if the bytes are not such an
            /// event.
            pub(crate) fn take(from: &mut Parts<'_>, version: u32) -> Option<Self> {
                Some(match from.byte().filter(|code| since(*code) <= version)? {
                    $($code => Self::$name { $($part: $coding::take(from)?),* },)*
                    _ => return None,
                })
            }

            /// Returns the number of texts at the end of an event with this code, for events without a list.
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
    /// Device of the allocator. The first event of a trace.
    Device = 0x01 {
        /// Name of the device, as the driver reports it.
        name: Text as text,
    }
    /// A memory heap. Heaps are recorded in the order of their indices.
    Heap = 0x02 {
        /// Size of the heap.
        bytes: u64 as number,
        /// `true` if the heap is device-local.
        device_local: bool as flag,
    }
    /// A memory type. Types are recorded in the order of their indices.
    Type = 0x03 {
        /// Index of its heap.
        heap: u32 as index,
        /// Names of its properties.
        properties: Vec<Text> as texts,
    }
    /// Time passed.
    Time = 0x10 {
        /// Nanoseconds since the previous event of this kind, or since the recording began.
        elapsed_ns: u64 as number,
    }
    /// A submission was opened: its commands are being recorded.
    FrameBegun = 0x11 {
        /// Index of its timeline.
        timeline: u32 as index,
        /// Value that the submission will signal.
        value: u64 as number,
    }
    /// A submission was submitted.
    Submitted = 0x12 {
        /// Index of its timeline.
        timeline: u32 as index,
        /// Value that the submission will signal.
        value: u64 as number,
    }
    /// A timeline was observed at this value.
    Completed = 0x13 {
        /// Index of the timeline.
        timeline: u32 as index,
        /// Value that the timeline has reached.
        value: u64 as number,
    }
    /// The allocator reclaimed the resources that the device has finished using. Most programs do this once per frame.
    Reclaimed = 0x14 {
        /// Resources that were destroyed.
        objects: u64 as number,
        /// Blocks that were freed.
        blocks: u64 as number,
    }
    /// The driver reported the usage and the budget of a heap.
    Budget = 0x15 {
        /// Index of the heap.
        heap: u32 as index,
        /// Bytes that the process uses.
        usage_bytes: u64 as number,
        /// Budget of the process, in bytes.
        budget_bytes: u64 as number,
    }
    /// A block was created.
    BlockMade = 0x20 {
        /// Number of the block.
        block: u64 as number,
        /// Index of its memory type.
        memory_type: u32 as index,
        /// `true` if it is a dedicated allocation of one resource.
        dedicated: bool as flag,
        /// Size of the block.
        bytes: u64 as number,
        /// Class of its resources, see [`BlockSnapshot::class`](crate::BlockSnapshot::class).
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
        /// Offset of the range in its block.
        offset: u64 as number,
        /// Size of the range, including the allocator's padding.
        bytes: u64 as number,
        /// Requested alignment, a power of two.
        alignment: u64 as exponent,
        /// Name of the resource, or empty.
        name: Text as text,
    }
    /// A range was released by its owner. The device may still use it.
    Retired = 0x23 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block.
        offset: u64 as number,
    }
    /// A range was freed.
    Freed = 0x24 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block.
        offset: u64 as number,
    }
    /// The contents of a range were moved to another range, which was allocated before. An event of its own frees the
    /// old range.
    Moved = 0x25 {
        /// Block of the old range.
        from_block: u64 as number,
        /// Offset of the old range.
        from_offset: u64 as number,
        /// Block of the new range.
        to_block: u64 as number,
        /// Offset of the new range.
        to_offset: u64 as number,
    }
    /// A range was renamed.
    Named = 0x26 {
        /// Block of the range.
        block: u64 as number,
        /// Offset of the range in its block.
        offset: u64 as number,
        /// The new name.
        name: Text as text,
    }
    /// Data was written to upload rings.
    Staged = 0x30 {
        /// Number of writes.
        writes: u64 as number,
        /// Bytes that they wrote.
        bytes: u64 as number,
    }
    /// An upload ring, a readback ring or a set of pages for constants was created. Recorded at the next `reclaim`.
    RingMade = 0x31 {
        /// Number of the ring.
        ring: u64 as number,
        /// Name of the ring.
        name: Text as text,
    }
    /// State of a ring at a `reclaim`, before that `reclaim` freed anything. Recorded only if it has changed since the
    /// last time.
    Ring = 0x32 {
        /// Number of the ring.
        ring: u64 as number,
        /// State of the ring. The name is empty.
        figures: RingSnapshot as ring,
    }
    /// A ring was destroyed.
    RingGone = 0x33 {
        /// Number of the ring.
        ring: u64 as number,
    }
    /// A frame with a new shape was planned. There is one event for each heap of the plan.
    Planned = 0x50 {
        /// Number of the plan. All heaps of the plan have the same number.
        plan: u64 as number,
        /// Size of the heap in this plan.
        height_bytes: u64 as number,
        /// Proven lower bound of the size, in bytes.
        lower_bound_bytes: u64 as number,
        /// Number of passes of the frame.
        pass_count: u64 as number,
        /// Resources in the heap.
        resources: Vec<PlannedRange<Text>> as planned,
    }
    /// An object was created in a transient heap. Other objects can share its bytes. Since version 2.
    TransientMade = 0x51 {
        /// Number of the object, from 1.
        object: u64 as number,
        /// Block of the heap.
        block: u64 as number,
        /// Offset of the object in the heap.
        offset: u64 as number,
        /// Size of the object.
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
    /// A descriptor heap was created. If a shader-visible heap with this number exists, the heap has grown.
    DescriptorHeap = 0x40 {
        /// Number of the heap.
        heap: u64 as number,
        /// Number of the descriptor allocator that owns the heap.
        owner: u64 as number,
        /// Kind of its descriptors, as an index into [`HEAP_KINDS`](crate::HEAP_KINDS).
        kind: u32 as index,
        /// `true` if the heap is shader-visible.
        shader_visible: bool as flag,
        /// Number of slots.
        capacity: u64 as number,
        /// Number of slots at the start of the heap that are reserved for tables of single frames.
        frame_capacity: u64 as number,
        /// Name of the heap.
        name: Text as text,
    }
    /// A descriptor heap was destroyed.
    DescriptorHeapFreed = 0x43 {
        /// Number of the heap.
        heap: u64 as number,
    }
    /// Descriptors were allocated. They stay allocated until they are released.
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
    /// Use of the frame tables of a shader-visible heap since the previous event of this kind.
    DescriptorTables = 0x44 {
        /// Number of the heap.
        heap: u64 as number,
        /// Number of slots that frame tables use now.
        frame_used: u64 as number,
        /// Number of tables that were copied.
        made: u64 as number,
        /// Number of tables that were already in the heap.
        shared: u64 as number,
    }
    /// An entry was inserted into a bindless table.
    BindlessInserted = 0x45 {
        /// Number of the heap.
        heap: u64 as number,
        /// Index of the slot in the heap.
        slot: u64 as number,
    }
    /// An entry was removed from a bindless table. Its slot is free once the device has finished using it.
    BindlessRemoved = 0x46 {
        /// Number of the heap.
        heap: u64 as number,
        /// Index of the slot in the heap.
        slot: u64 as number,
    }
    /// The recording was stopped. The last event of a complete trace.
    End = 0x7f {
        /// Number of events before this one.
        event_count: u64 as number,
    }
}

/// Returns the first version of the format that has this code. A code above the version of a trace is not valid in it.
const fn since(code: u8) -> u32 {
    match code {
        0x51 | 0x52 => 2,
        _ => 1,
    }
}

/// A resource in a plan of transient memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedRange<Text = String> {
    /// First pass that uses the resource.
    pub first_pass: u64,
    /// One past the last pass that uses it.
    pub end_pass: u64,
    /// Offset of the resource in the heap.
    pub offset: u64,
    /// Size of the resource.
    pub bytes: u64,
    /// Name of the resource, or empty.
    pub name: Text,
}
