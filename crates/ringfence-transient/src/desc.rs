//! Configuration of a transient allocator, and statistics of its use.

/// Configuration of a transient allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransientDesc<'a> {
    /// Size of a heap for resources that are acquired pass by pass, in bytes. A larger resource gets a larger heap. The
    /// heaps of a planned frame have the sizes of its layouts.
    pub heap_bytes: u64,
    /// Number of unused buffers, and of unused textures, that each heap keeps regardless of their age.
    pub objects_kept: usize,
    /// Number of frames for which further unused objects are kept after their last use. After a resize,
    /// [`TransientAllocator::trim`](super::TransientAllocator::trim) releases the objects of the old size immediately.
    pub latency_frames: u64,
    /// Number of frames for which an empty heap is kept.
    pub heap_idle_frames: u64,
    /// After a layout is planned, a search tries to lower the number of its aliasing barriers without more memory. This
    /// is the maximum number of steps of the search; a step takes some nanoseconds. The search runs once for each new
    /// shape of planned frames and each group of at most 2,000 resources ([`TransientFigures::group_count`]). 0
    /// disables the search. With the default, a frame of 55 resources is still planned in less than 0.1 ms
    /// (`planner/docs/measured.md` of the repository). For a frame that never changes, a million steps may be worth the
    /// time.
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

/// Statistics of a transient allocator, and the quality of the layout of its last planned frame.
///
/// Fields that do not mention the last execution are current values or totals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransientFigures {
    /// Number of heaps that contain objects.
    pub heap_count: usize,
    /// Total size of the heaps that contain objects, in bytes.
    pub heap_bytes: u64,
    /// Number of empty heaps in the cache.
    pub idle_heap_count: usize,
    /// Total size of the empty heaps, in bytes.
    pub idle_heap_bytes: u64,
    /// Number of driver objects, both in use and cached.
    pub object_count: usize,
    /// Number of acquires that reused an object.
    pub hits: u64,
    /// Number of acquires that created an object.
    pub misses: u64,
    /// Number of objects that were released. They are destroyed once the submissions that had begun are complete.
    pub released: u64,
    /// Number of heaps that became empty and were moved to the cache.
    #[cfg_attr(feature = "serde", serde(default))]
    pub heaps_cached: u64,
    /// Total size of the resources of the last execution, in bytes: the memory that they would need without aliasing.
    pub requested_bytes: u64,
    /// Memory that the resources of the last execution used with aliasing, in bytes: the end of the highest used range
    /// of each heap, and the dedicated memory.
    pub peak_bytes: u64,
    /// Number of aliasing barriers of the last execution.
    pub aliasing_count: usize,
    /// Number of memory dependencies of the last execution.
    pub dependency_count: usize,
    /// Number of resources that were still in use when the last execution ended.
    #[cfg_attr(feature = "serde", serde(default))]
    pub left_in_use: usize,
    /// Size of the layouts of the last execution, in bytes, for all groups together; 0 if the execution was not
    /// planned.
    #[cfg_attr(feature = "serde", serde(default))]
    pub planned_bytes: u64,
    /// Greatest proven lower bound for the size of any layout of the last execution, in bytes; 0 if the execution was
    /// not planned.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lower_bound_bytes: u64,
    /// Number of groups of resources in the last execution; 0 if the execution was not planned. Resources of different
    /// groups do not share a heap.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_begins_with_the_totals_of_the_earlier_ones() {
        let mut figures = TransientFigures {
            heap_count: 1,
            heap_bytes: 2,
            idle_heap_count: 3,
            idle_heap_bytes: 4,
            object_count: 5,
            hits: 6,
            misses: 7,
            released: 8,
            heaps_cached: 9,
            requested_bytes: 10,
            peak_bytes: 11,
            aliasing_count: 12,
            dependency_count: 13,
            left_in_use: 14,
            planned_bytes: 15,
            lower_bound_bytes: 16,
            group_count: 17,
            is_reused: true,
        };
        figures.begin();
        let kept = TransientFigures { hits: 6, misses: 7, released: 8, heaps_cached: 9, ..Default::default() };
        assert_eq!(figures, kept);
    }

    #[test]
    fn aliasing_saves_the_requested_bytes_above_the_peak() {
        for (requested_bytes, peak_bytes, saved) in [(0, 0, 0), (100, 30, 70), (100, 100, 0), (30, 100, 0)] {
            let figures = TransientFigures { requested_bytes, peak_bytes, ..Default::default() };
            assert_eq!(figures.saved_bytes(), saved, "{requested_bytes} requested, {peak_bytes} used");
        }
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let TransientDesc { heap_bytes, objects_kept, latency_frames, heap_idle_frames, transition_steps, name } =
            TransientDesc::default();
        assert_eq!((heap_bytes, objects_kept, latency_frames), (134_217_728, 64, 32));
        assert_eq!((heap_idle_frames, transition_steps, name), (20, 6000, "transient"));
    }
}
