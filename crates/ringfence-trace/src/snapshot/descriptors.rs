//! What is in use of every region of slots, as plain data: a part of [`Snapshot`](crate::Snapshot).

/// A region of descriptors: a CPU-only heap, a part of the shader-visible one, a bindless table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DescriptorSnapshot {
    /// The name of the heap.
    pub name: String,
    /// What its slots show: `resources`, `samplers`, `render targets`, `depth-stencils`.
    pub kind: String,
    /// `CPU-only`, `persistent`, `frame` or `bindless`. The slots of bindless tables are a part of the persistent
    /// region too.
    pub region: String,
    /// Slots that there are.
    pub slot_count: u64,
    /// Slots that are not free, those included that the algorithm inside loses to rounding; in what is read from a
    /// trace, those that were asked for.
    pub used_count: u64,
    /// Of those, slots that were released and wait for the device; of a frame region, and in what is read from a trace,
    /// 0.
    pub waiting_count: u64,
    /// The most slots that were ever in use, where that is counted: of frame regions.
    pub high_water: Option<u64>,
    /// The longest run of free slots; in a bindless table, where a slot is like any other, all of them. 0 in what is
    /// read from a trace.
    pub largest_free: u64,
    /// Heaps of the driver.
    pub heap_count: u64,
    /// Of frame regions: tables that were copied.
    pub tables_made: u64,
    /// Of frame regions: tables that were there already.
    pub tables_shared: u64,
}

/// The names of the regions.
pub mod region {
    /// A heap that shaders do not see.
    pub const CPU_ONLY: &str = "CPU-only";
    /// Slots of a shader-visible heap that live until they are released.
    pub const PERSISTENT: &str = "persistent";
    /// Slots of a shader-visible heap that live for a frame.
    pub const FRAME: &str = "frame";
    /// A table of slots that shaders index.
    pub const BINDLESS: &str = "bindless";
}
