//! Use of the regions of descriptor heaps, as plain data: a part of [`Snapshot`](crate::Snapshot).

/// A region of descriptor slots: a CPU-only heap, a part of a shader-visible heap, or a bindless table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DescriptorSnapshot {
    /// Name of the heap.
    pub name: String,
    /// Kind of its descriptors: `resources`, `samplers`, `render targets` or `depth-stencils`.
    pub kind: String,
    /// Kind of the region: `CPU-only`, `persistent`, `frame` or `bindless`. The slots of a bindless table are counted
    /// in the persistent region too.
    pub region: String,
    /// Number of slots.
    pub slot_count: u64,
    /// Number of slots that are not free, including those that the suballocation algorithm loses to rounding. A
    /// snapshot from a trace counts only the requested slots.
    pub used_count: u64,
    /// Number of released slots that wait for the device; a part of `used_count`. 0 for a frame region, and in a
    /// snapshot from a trace.
    pub waiting_count: u64,
    /// Largest number of slots in use so far. Only counted for frame regions.
    pub high_water: Option<u64>,
    /// Length of the longest run of free slots. For a bindless table, the number of free slots, since any slot fits an
    /// entry. 0 in a snapshot from a trace.
    pub largest_free: u64,
    /// Number of driver heaps.
    pub heap_count: u64,
    /// Number of tables that were copied, for a frame region.
    pub tables_made: u64,
    /// Number of tables that were already in the heap, for a frame region.
    pub tables_shared: u64,
}

/// Names of the kinds of regions.
pub mod region {
    /// A CPU-only heap.
    pub const CPU_ONLY: &str = "CPU-only";
    /// Slots of a shader-visible heap that are allocated until they are released.
    pub const PERSISTENT: &str = "persistent";
    /// Slots of a shader-visible heap that are allocated for one frame.
    pub const FRAME: &str = "frame";
    /// A table of slots that shaders index.
    pub const BINDLESS: &str = "bindless";
}
