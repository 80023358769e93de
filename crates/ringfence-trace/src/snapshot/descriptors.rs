//! Use of the regions of descriptor heaps, as plain data: a part of [`Snapshot`](crate::Snapshot).

/// A region of descriptor slots: a CPU-only heap, a part of a shader-visible heap, or a bindless table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DescriptorSnapshot {
    /// Name of the heap.
    pub name: String,
    /// Kind of the region's descriptors: `resources`, `samplers`, `render targets` or `depth-stencils`.
    pub kind: String,
    /// Kind of the region: `CPU-only`, `persistent`, `frame` or `bindless`. The slots of a bindless table also count in
    /// the persistent region that contains the table.
    pub region: String,
    /// Number of slots.
    pub slot_count: u64,
    /// Number of slots that are not free, including slots that rounding has added to requests. A snapshot from a trace
    /// counts only the requested slots.
    pub used_count: u64,
    /// Number of slots that are released and wait for the device. `used_count` includes them. 0 for a frame region, and
    /// in a snapshot from a trace.
    pub waiting_count: u64,
    /// Highest value of `used_count` so far, for a frame region; `None` for other regions.
    pub high_water: Option<u64>,
    /// Number of slots in the longest run of free slots. For a bindless table, the number of all free slots, because an
    /// entry fits in any slot. 0 in a snapshot from a trace.
    pub largest_free: u64,
    /// Number of driver heaps.
    pub heap_count: u64,
    /// Number of tables that were copied to the heap so far, for a frame region; 0 for other regions.
    pub tables_made: u64,
    /// Number of tables so far that needed no copy, because the heap contained them already, for a frame region; 0 for
    /// other regions.
    pub tables_shared: u64,
}

/// Names of the kinds of regions, for [`DescriptorSnapshot::region`].
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
