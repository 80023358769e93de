//! Counts of calls and of live objects.

/// Number of calls of each kind, and their total simulated cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// Allocations of memory objects. Includes calls of `dedicate`, imports and failed attempts.
    pub allocate_memory: u64,
    /// Calls that free memory objects, imports or handles. Includes invalid calls.
    pub free_memory: u64,
    /// Calls of `prepare` and `make_sparse` for buffers.
    pub create_buffer: u64,
    /// Buffers destroyed or discarded.
    pub destroy_buffer: u64,
    /// Calls of `prepare` and `make_sparse_texture` for textures.
    pub create_texture: u64,
    /// Textures destroyed or discarded.
    pub destroy_texture: u64,
    /// Calls of `place`, also by `dedicate`. Includes failed calls.
    pub place: u64,
    /// Buffers and textures that were recycled: passed to a new owner instead of destroyed.
    pub recycle: u64,
    /// Flushes.
    pub flush: u64,
    /// Bytes flushed.
    pub flush_bytes: u64,
    /// Read-backs.
    pub read_back: u64,
    /// Calls that made memory resident.
    pub make_resident: u64,
    /// Bytes made resident.
    pub make_resident_bytes: u64,
    /// Calls that evicted memory.
    pub evict: u64,
    /// Bytes evicted.
    pub evict_bytes: u64,
    /// Reads of a fence.
    pub completed: u64,
    /// Waits for a fence.
    pub wait: u64,
    /// Descriptor heaps created.
    pub make_heap: u64,
    /// Descriptors written or cleared.
    pub write_view: u64,
    /// Calls that copied descriptors.
    pub copy_views: u64,
    /// Submissions.
    pub submit: u64,
    /// Sum of the costs of all calls (see [`Costs`](super::Costs)) and of the simulated time of waits, in nanoseconds.
    pub simulated_ns: u64,
}

/// Numbers of live objects. All are 0 once a program has released all of its objects.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Live {
    /// Memory objects.
    pub memories: u64,
    /// Buffers, including those without memory.
    pub buffers: u64,
    /// Textures, including those without memory.
    pub textures: u64,
    /// Descriptor heaps.
    pub descriptor_heaps: u64,
    /// Heaps that were bound for a command list and not unbound yet; a heap that was bound twice counts twice.
    pub bound_heaps: u64,
}
