//! Configuration of a transient allocator, and statistics of its use.

/// Configuration of a transient allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransientDesc<'a> {
    /// Size of a heap, in bytes. A resource that needs more gets a larger heap.
    pub heap_bytes: u64,
    /// Unused objects of each kind that each heap keeps regardless of their age.
    pub objects_kept: usize,
    /// Frames for which objects beyond that number are kept after their last use. After a resize,
    /// [`TransientAllocator::trim`](super::TransientAllocator::trim) releases the objects of the old size immediately.
    pub latency_frames: u64,
    /// Frames for which an empty heap is kept.
    pub heap_idle_frames: u64,
    /// Steps of some nanoseconds each that the planner spends on a new shape of planned frames, to find a layout of the
    /// same height with fewer aliasing barriers; 0 disables the search. With the default, a frame of 55 resources is
    /// still planned in less than 0.1 ms (`planner/docs/measured.md` of the repository). For a frame that never
    /// changes, a million may be worth the time.
    pub transition_steps: u64,
    /// Name of the heaps in reports.
    pub name: &'a str,
}

impl Default for TransientDesc<'_> {
    fn default() -> Self {
        Self {
            heap_bytes: 128 << 20,
            objects_kept: 64,
            latency_frames: 32,
            heap_idle_frames: 20,
            transition_steps: 6_000,
            name: "transient",
        }
    }
}

/// Usage of a transient allocator, and the quality of the layout of its last planned frame.
///
/// Fields that do not mention the last execution are current values or totals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransientFigures {
    /// Heaps that contain objects.
    pub heap_count: usize,
    /// Size of those heaps, in bytes.
    pub heap_bytes: u64,
    /// Empty heaps in the cache.
    pub idle_heap_count: usize,
    /// Size of the empty heaps, in bytes.
    pub idle_heap_bytes: u64,
    /// Driver objects, both in use and cached.
    pub object_count: usize,
    /// Acquires that reused an object.
    pub hits: u64,
    /// Acquires that created an object.
    pub misses: u64,
    /// Objects that were released. They are destroyed once the submissions that had begun are complete.
    pub released: u64,
    /// Heaps that became empty and were moved to the cache.
    #[cfg_attr(feature = "serde", serde(default))]
    pub heaps_cached: u64,
    /// Bytes that the resources of the last execution would need without aliasing.
    pub requested_bytes: u64,
    /// Bytes that the resources of the last execution used with aliasing.
    pub peak_bytes: u64,
    /// Aliasing barriers of the last execution.
    pub aliasing_count: usize,
    /// Memory dependencies of the last execution.
    pub dependency_count: usize,
    /// Resources that were still in use when the last execution ended.
    #[cfg_attr(feature = "serde", serde(default))]
    pub left_in_use: usize,
    /// Size of the layouts of the last execution, in bytes, for all groups together; 0 if it was not planned.
    #[cfg_attr(feature = "serde", serde(default))]
    pub planned_bytes: u64,
    /// Greatest proven lower bound for the size of any layout of the last execution, in bytes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lower_bound_bytes: u64,
    /// Groups of resources that cannot share a heap, in the last execution.
    #[cfg_attr(feature = "serde", serde(default))]
    pub group_count: usize,
    /// `true` if the last execution reused the layout of an earlier frame of the same shape.
    #[cfg_attr(feature = "serde", serde(default))]
    pub is_reused: bool,
}

impl TransientFigures {
    /// Returns the bytes that aliasing saved in the last execution.
    #[must_use]
    pub fn saved_bytes(&self) -> u64 {
        self.requested_bytes.saturating_sub(self.peak_bytes)
    }

    /// Resets the fields of the last execution.
    pub(super) fn begin(&mut self) {
        let Self { hits, misses, released, heaps_cached, .. } = *self;
        *self = Self { hits, misses, released, heaps_cached, ..Self::default() };
    }
}
