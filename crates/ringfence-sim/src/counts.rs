//! What was called how often, and what is alive.

/// How often each call was made, and what all of them would have cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// Memory objects made, `dedicate` included; failed attempts too.
    pub allocate_memory: u64,
    /// Memory objects freed.
    pub free_memory: u64,
    /// Buffers measured.
    pub create_buffer: u64,
    /// Buffers destroyed or discarded.
    pub destroy_buffer: u64,
    /// Textures measured.
    pub create_texture: u64,
    /// Textures destroyed or discarded.
    pub destroy_texture: u64,
    /// Resources placed, `dedicate` included.
    pub place: u64,
    /// Buffers and textures that went from one owner to the next.
    pub recycle: u64,
    /// Flushes.
    pub flush: u64,
    /// Bytes that they moved.
    pub flush_bytes: u64,
    /// Read-backs.
    pub read_back: u64,
    /// Calls that made memory resident.
    pub make_resident: u64,
    /// Bytes that they brought back.
    pub make_resident_bytes: u64,
    /// Calls that evicted memory.
    pub evict: u64,
    /// Bytes that they took away.
    pub evict_bytes: u64,
    /// Readings of a fence.
    pub completed: u64,
    /// Waits for a fence.
    pub wait: u64,
    /// Descriptor heaps made.
    pub make_heap: u64,
    /// Descriptors written or cleared.
    pub write_view: u64,
    /// Calls that copied descriptors.
    pub copy_views: u64,
    /// Submissions.
    pub submit: u64,
    /// What all of it costs by the profile's prices, in nanoseconds, and the time that waits passed.
    pub simulated_ns: u64,
}

/// What is alive: all 0 after a program that gave everything back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Live {
    /// Memory objects.
    pub memories: u64,
    /// Buffers, unplaced ones included.
    pub buffers: u64,
    /// Textures, unplaced ones included.
    pub textures: u64,
    /// Descriptor heaps.
    pub descriptor_heaps: u64,
}
