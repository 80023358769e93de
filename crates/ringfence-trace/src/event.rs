//! The events of a trace. An event is declared once: with its code and, behind `as`, how each part is written and read.
//!
//! ```text
//!   │ code │ number │ number │ … │ text │ …      numbers in groups of seven bits, texts behind their length
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
        /// Something that happened. Blocks are numbered as they are made, from 1; a range is named by its block and
        /// offset.
        ///
        /// What is read owns its texts; what is written may borrow them, as `Event<&str>`.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Event<Text = String> {
            $($(#[$doc])* $name { $($(#[$part_doc])* $part: $type,)* },)*
        }

        impl<Text: AsRef<str>> Event<Text> {
            /// Appends the event's bytes.
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
            /// Takes an event off a payload of a trace of this version; `None` if none begins there.
            pub(crate) fn take(from: &mut Parts<'_>, version: u32) -> Option<Self> {
                Some(match from.byte().filter(|code| since(*code) <= version)? {
                    $($code => Self::$name { $($part: $coding::take(from)?),* },)*
                    _ => return None,
                })
            }

            /// How many texts an event of this code ends with, if it holds no list.
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
    /// The device that the allocator is on. First in a trace.
    Device = 0x01 {
        /// As the driver calls it.
        name: Text as text,
    }
    /// A physical memory; heaps come in the order of their indices.
    Heap = 0x02 {
        /// Its size.
        bytes: u64 as number,
        /// Whether it is near the device.
        device_local: bool as flag,
    }
    /// A kind of memory; types come in the order of their indices.
    Type = 0x03 {
        /// Index of its heap.
        heap: u32 as index,
        /// Names of its properties.
        properties: Vec<Text> as texts,
    }
    /// Time has passed.
    Time = 0x10 {
        /// Since the last such event, or since recording began, in nanoseconds.
        elapsed_ns: u64 as number,
    }
    /// A submission is being recorded.
    FrameBegun = 0x11 {
        /// Index of its timeline.
        timeline: u32 as index,
        /// What it will signal.
        value: u64 as number,
    }
    /// A submission was submitted.
    Submitted = 0x12 {
        /// Index of its timeline.
        timeline: u32 as index,
        /// What it will signal.
        value: u64 as number,
    }
    /// The device was seen to have come so far.
    Completed = 0x13 {
        /// Index of the timeline.
        timeline: u32 as index,
        /// What it has reached.
        value: u64 as number,
    }
    /// What the device was done with was reclaimed: the end of a frame in most programs.
    Reclaimed = 0x14 {
        /// Resources that were destroyed.
        objects: u64 as number,
        /// Blocks that went back to the driver.
        blocks: u64 as number,
    }
    /// What the driver said of a heap.
    Budget = 0x15 {
        /// Index of the heap.
        heap: u32 as index,
        /// Bytes that the process uses.
        usage_bytes: u64 as number,
        /// Bytes that it may use.
        budget_bytes: u64 as number,
    }
    /// A memory object was made.
    BlockMade = 0x20 {
        /// Its number.
        block: u64 as number,
        /// Index of its memory type.
        memory_type: u32 as index,
        /// Whether it belongs to one resource.
        dedicated: bool as flag,
        /// Its size.
        bytes: u64 as number,
        /// What lies in it, as [`BlockSnapshot::class`](crate::BlockSnapshot::class) says.
        class: Text as text,
    }
    /// A memory object went back to the driver.
    BlockFreed = 0x21 {
        /// Its number.
        block: u64 as number,
    }
    /// A range was given to a resource.
    Allocated = 0x22 {
        /// Its block.
        block: u64 as number,
        /// First byte.
        offset: u64 as number,
        /// Bytes, what the allocator added to the request included.
        bytes: u64 as number,
        /// What was asked for: a power of two.
        alignment: u64 as exponent,
        /// The resource's name; empty for none.
        name: Text as text,
    }
    /// A range was released by its owner; the device may still use it.
    Retired = 0x23 {
        /// Its block.
        block: u64 as number,
        /// First byte.
        offset: u64 as number,
    }
    /// A range is free again.
    Freed = 0x24 {
        /// Its block.
        block: u64 as number,
        /// First byte.
        offset: u64 as number,
    }
    /// What lay in one range lies in another now, which was allocated before. The old one is freed by itself.
    Moved = 0x25 {
        /// The old range's block.
        from_block: u64 as number,
        /// The old range's first byte.
        from_offset: u64 as number,
        /// The new range's block.
        to_block: u64 as number,
        /// The new range's first byte.
        to_offset: u64 as number,
    }
    /// A range got another name.
    Named = 0x26 {
        /// Its block.
        block: u64 as number,
        /// First byte.
        offset: u64 as number,
        /// The name.
        name: Text as text,
    }
    /// Data was written for the device through upload rings.
    Staged = 0x30 {
        /// How many writes.
        writes: u64 as number,
        /// Their bytes.
        bytes: u64 as number,
    }
    /// An upload ring, a readback ring or a set of pages for constants is there. Recorded with the next `reclaim`.
    RingMade = 0x31 {
        /// Its number.
        ring: u64 as number,
        /// Its name.
        name: Text as text,
    }
    /// How a ring was when the program reclaimed, before that freed anything; only where it differs from the last time.
    Ring = 0x32 {
        /// Its number.
        ring: u64 as number,
        /// Its figures; the name is empty.
        figures: RingSnapshot as ring,
    }
    /// A ring is gone.
    RingGone = 0x33 {
        /// Its number.
        ring: u64 as number,
    }
    /// A frame of another shape than those before was laid out, for one of its heaps.
    Planned = 0x50 {
        /// Number of the shape's plan; the same for every heap of it.
        plan: u64 as number,
        /// Bytes that the heap needs.
        height_bytes: u64 as number,
        /// Bytes below which no plan can be, as far as was proven.
        lower_bound_bytes: u64 as number,
        /// Passes of the frame.
        pass_count: u64 as number,
        /// What lies in the heap.
        resources: Vec<PlannedRange<Text>> as planned,
    }
    /// An object was made in a transient heap, whatever else lies in its bytes. Since version 2.
    TransientMade = 0x51 {
        /// Its number, from 1.
        object: u64 as number,
        /// The heap's block.
        block: u64 as number,
        /// First byte in the heap.
        offset: u64 as number,
        /// Bytes.
        bytes: u64 as number,
        /// The name that it was made with; empty for none.
        name: Text as text,
    }
    /// An object in a transient heap was released; it is destroyed once the device is done with it. Since version 2.
    TransientReleased = 0x52 {
        /// Its number.
        object: u64 as number,
    }
    /// A descriptor heap was made; or a shader-visible one has grown, if there was one of this number.
    DescriptorHeap = 0x40 {
        /// Its number.
        heap: u64 as number,
        /// The number of the allocator of descriptors that it belongs to.
        owner: u64 as number,
        /// What its descriptors show, in the order of [`HEAP_KINDS`](crate::HEAP_KINDS).
        kind: u32 as index,
        /// Whether shaders see it.
        shader_visible: bool as flag,
        /// How many descriptors it holds.
        capacity: u64 as number,
        /// How many of those, the first ones, are for tables of single frames.
        frame_capacity: u64 as number,
        /// Its name.
        name: Text as text,
    }
    /// A descriptor heap went back to the driver.
    DescriptorHeapFreed = 0x43 {
        /// Its number.
        heap: u64 as number,
    }
    /// Descriptors were allocated, until they are released.
    DescriptorsAllocated = 0x41 {
        /// Their heap.
        heap: u64 as number,
        /// The first one's index.
        first: u64 as number,
        /// How many.
        count: u64 as number,
    }
    /// Descriptors came back.
    DescriptorsFreed = 0x42 {
        /// Their heap.
        heap: u64 as number,
        /// The first one's index.
        first: u64 as number,
        /// How many.
        count: u64 as number,
    }
    /// What frames have done with the tables of a shader-visible heap since the last such event.
    DescriptorTables = 0x44 {
        /// Their heap.
        heap: u64 as number,
        /// Descriptors for tables of single frames that are in use now.
        frame_used: u64 as number,
        /// Tables that were copied.
        made: u64 as number,
        /// Tables that were there already.
        shared: u64 as number,
    }
    /// An entry came into a bindless table.
    BindlessInserted = 0x45 {
        /// Its heap.
        heap: u64 as number,
        /// Its index there.
        slot: u64 as number,
    }
    /// An entry was taken out of a bindless table; its slot is another's once the device is done with it.
    BindlessRemoved = 0x46 {
        /// Its heap.
        heap: u64 as number,
        /// Its index there.
        slot: u64 as number,
    }
    /// The trace was ended in order. Last in a trace.
    End = 0x7f {
        /// Events before this one.
        event_count: u64 as number,
    }
}

/// The version that an event of this code is of: what begins with it cannot be in an older trace.
const fn since(code: u8) -> u32 {
    match code {
        0x51 | 0x52 => 2,
        _ => 1,
    }
}

/// A resource in a plan of transient memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedRange<Text = String> {
    /// The first pass that uses it.
    pub first_pass: u64,
    /// The first pass after all that use it.
    pub end_pass: u64,
    /// First byte in the heap.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its name; empty for none.
    pub name: Text,
}
