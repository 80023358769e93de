//! How a transient allocator is set up, and the figures of its use: plain data.

/// How a transient allocator is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransientDesc<'a> {
    /// Bytes of a heap; a resource that needs more gets a larger one.
    pub heap_bytes: u64,
    /// How many unused objects each heap keeps of each kind, however old they are.
    pub objects_kept: usize,
    /// For how many frames objects beyond those are kept after their last use. After a resize
    /// [`TransientAllocator::trim`](super::TransientAllocator::trim) releases those of the old size at once.
    pub latency_frames: u64,
    /// For how many frames an empty heap is kept.
    pub heap_idle_frames: u64,
    /// How many steps, of some nanoseconds each, are spent on a new shape of planned frames to find a layout of the
    /// same height with fewer aliasing barriers; 0 for none. With the default a frame of 55 resources is still planned
    /// in less than 0.1 ms (`docs/planner.md`); for a frame that never changes, a million may be worth it.
    pub transition_steps: u64,
    /// What the heaps are called in reports.
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

/// Usage of a transient allocator, and how good the layout of its last planned frame is.
///
/// Figures that do not name the last execution are present values or totals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransientFigures {
    /// Heaps with objects.
    pub heap_count: usize,
    /// Their bytes.
    pub heap_bytes: u64,
    /// Empty heaps in the cache.
    pub idle_heap_count: usize,
    /// Their bytes.
    pub idle_heap_bytes: u64,
    /// Driver objects that are kept.
    pub object_count: usize,
    /// Acquires that made nothing.
    pub hits: u64,
    /// Acquires that made an object.
    pub misses: u64,
    /// Objects that were released; they are destroyed once the submissions that had begun are complete.
    pub released: u64,
    /// Heaps that went to the cache.
    #[cfg_attr(feature = "serde", serde(default))]
    pub heaps_cached: u64,
    /// Bytes that the resources of the last execution would need side by side.
    pub requested_bytes: u64,
    /// Bytes that they took, shared.
    pub peak_bytes: u64,
    /// Aliasing barriers of the last execution.
    pub aliasing_count: usize,
    /// Memory dependencies of the last execution.
    pub dependency_count: usize,
    /// Resources that were still in use when the last execution ended.
    #[cfg_attr(feature = "serde", serde(default))]
    pub left_in_use: usize,
    /// Bytes of the heaps that the last execution was planned into, all groups together; 0 if it was not planned.
    #[cfg_attr(feature = "serde", serde(default))]
    pub planned_bytes: u64,
    /// The greatest proven lower bound of the bytes of any layout of it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lower_bound_bytes: u64,
    /// Groups of its resources that are kept apart.
    #[cfg_attr(feature = "serde", serde(default))]
    pub group_count: usize,
    /// Whether its layout was that of an earlier frame of the same shape.
    #[cfg_attr(feature = "serde", serde(default))]
    pub is_reused: bool,
}

impl TransientFigures {
    /// Bytes that aliasing saved in the last execution.
    #[must_use]
    pub fn saved_bytes(&self) -> u64 {
        self.requested_bytes.saturating_sub(self.peak_bytes)
    }

    /// Forgets what is of the last execution.
    pub(super) fn begin(&mut self) {
        let Self { hits, misses, released, heaps_cached, .. } = *self;
        *self = Self { hits, misses, released, heaps_cached, ..Self::default() };
    }
}
