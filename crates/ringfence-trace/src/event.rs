//! The events of a trace.

mod coding;

use crate::snapshot::RingSnapshot;

/// Something that happened. Blocks are numbered as they are made, from 1; a range is named by its block and offset.
///
/// What is read owns its texts; what is written may borrow them, as `Event<&str>`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event<Text = String> {
    /// The device that the allocator is on. First in a trace.
    Device {
        /// As the driver calls it.
        name: Text,
    },
    /// A physical memory; heaps come in the order of their indices.
    Heap {
        /// Its size.
        bytes: u64,
        /// Whether it is near the device.
        device_local: bool,
    },
    /// A kind of memory; types come in the order of their indices.
    Type {
        /// Index of its heap.
        heap: u32,
        /// Names of its properties.
        properties: Vec<Text>,
    },
    /// Time has passed.
    Time {
        /// Since the last such event, or since recording began, in nanoseconds.
        elapsed_ns: u64,
    },
    /// A submission is being recorded.
    FrameBegun {
        /// Index of its timeline.
        timeline: u32,
        /// What it will signal.
        value: u64,
    },
    /// A submission was submitted.
    Submitted {
        /// Index of its timeline.
        timeline: u32,
        /// What it will signal.
        value: u64,
    },
    /// The device was seen to have come so far.
    Completed {
        /// Index of the timeline.
        timeline: u32,
        /// What it has reached.
        value: u64,
    },
    /// What the device was done with was reclaimed: the end of a frame in most programs.
    Reclaimed {
        /// Resources that were destroyed.
        objects: u64,
        /// Blocks that went back to the driver.
        blocks: u64,
    },
    /// What the driver said of a heap.
    Budget {
        /// Index of the heap.
        heap: u32,
        /// Bytes that the process uses.
        usage_bytes: u64,
        /// Bytes that it may use.
        budget_bytes: u64,
    },
    /// A memory object was made.
    BlockMade {
        /// Its number.
        block: u64,
        /// Index of its memory type.
        memory_type: u32,
        /// Whether it belongs to one resource.
        dedicated: bool,
        /// Its size.
        bytes: u64,
        /// What lies in it, as [`BlockSnapshot::class`](crate::BlockSnapshot::class) says.
        class: Text,
    },
    /// A memory object went back to the driver.
    BlockFreed {
        /// Its number.
        block: u64,
    },
    /// A range was given to a resource.
    Allocated {
        /// Its block.
        block: u64,
        /// First byte.
        offset: u64,
        /// Bytes, what the allocator added to the request included.
        bytes: u64,
        /// What was asked for: a power of two.
        alignment: u64,
        /// The resource's name; empty for none.
        name: Text,
    },
    /// A range was released by its owner; the device may still use it.
    Retired {
        /// Its block.
        block: u64,
        /// First byte.
        offset: u64,
    },
    /// A range is free again.
    Freed {
        /// Its block.
        block: u64,
        /// First byte.
        offset: u64,
    },
    /// What lay in one range lies in another now, which was allocated before. The old one is freed by itself.
    Moved {
        /// The old range's block.
        from_block: u64,
        /// The old range's first byte.
        from_offset: u64,
        /// The new range's block.
        to_block: u64,
        /// The new range's first byte.
        to_offset: u64,
    },
    /// A range got another name.
    Named {
        /// Its block.
        block: u64,
        /// First byte.
        offset: u64,
        /// The name.
        name: Text,
    },
    /// Data was written for the device through upload rings.
    Staged {
        /// How many writes.
        writes: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// An upload ring, a readback ring or a set of pages for constants is there. Recorded with the next `reclaim`.
    RingMade {
        /// Its number.
        ring: u64,
        /// Its name.
        name: Text,
    },
    /// How a ring was when the program reclaimed, before that freed anything; only where it differs from the last time.
    Ring {
        /// Its number.
        ring: u64,
        /// Its figures; the name is empty.
        figures: RingSnapshot,
    },
    /// A ring is gone.
    RingGone {
        /// Its number.
        ring: u64,
    },
    /// A frame of another shape than those before was laid out, for one of its heaps.
    Planned {
        /// Number of the shape's plan; the same for every heap of it.
        plan: u64,
        /// Bytes that the heap needs.
        height_bytes: u64,
        /// Bytes below which no plan can be, as far as was proven.
        lower_bound_bytes: u64,
        /// Passes of the frame.
        pass_count: u64,
        /// What lies in the heap.
        resources: Vec<PlannedRange<Text>>,
    },
    /// An object was made in a transient heap, whatever else lies in its bytes. Since version 2.
    TransientMade {
        /// Its number, from 1.
        object: u64,
        /// The heap's block.
        block: u64,
        /// First byte in the heap.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// The name that it was made with; empty for none.
        name: Text,
    },
    /// An object in a transient heap was released; it is destroyed once the device is done with it. Since version 2.
    TransientReleased {
        /// Its number.
        object: u64,
    },
    /// A descriptor heap was made; or a shader-visible one has grown, if there was one of this number.
    DescriptorHeap {
        /// Its number.
        heap: u64,
        /// The number of the allocator of descriptors that it belongs to.
        owner: u64,
        /// What its descriptors show, in the order of [`HEAP_KINDS`](crate::HEAP_KINDS).
        kind: u32,
        /// Whether shaders see it.
        shader_visible: bool,
        /// How many descriptors it holds.
        capacity: u64,
        /// How many of those, the first ones, are for tables of single frames.
        frame_capacity: u64,
        /// Its name.
        name: Text,
    },
    /// A descriptor heap went back to the driver.
    DescriptorHeapFreed {
        /// Its number.
        heap: u64,
    },
    /// Descriptors were allocated, until they are released.
    DescriptorsAllocated {
        /// Their heap.
        heap: u64,
        /// The first one's index.
        first: u64,
        /// How many.
        count: u64,
    },
    /// Descriptors came back.
    DescriptorsFreed {
        /// Their heap.
        heap: u64,
        /// The first one's index.
        first: u64,
        /// How many.
        count: u64,
    },
    /// What frames have done with the tables of a shader-visible heap since the last such event.
    DescriptorTables {
        /// Their heap.
        heap: u64,
        /// Descriptors for tables of single frames that are in use now.
        frame_used: u64,
        /// Tables that were copied.
        made: u64,
        /// Tables that were there already.
        shared: u64,
    },
    /// An entry came into a bindless table.
    BindlessInserted {
        /// Its heap.
        heap: u64,
        /// Its index there.
        slot: u64,
    },
    /// An entry was taken out of a bindless table; its slot is another's once the device is done with it.
    BindlessRemoved {
        /// Its heap.
        heap: u64,
        /// Its index there.
        slot: u64,
    },
    /// The trace was ended in order. Last in a trace.
    End {
        /// Events before this one.
        event_count: u64,
    },
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
