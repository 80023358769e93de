//! The figures of a snapshot and of a block, as sums of their ranges.

use ringfence_trace::{BlockSnapshot, Snapshot};

use crate::Source;

/// The figures at the top of a page: sums over a snapshot.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Total size of the driver's memory objects (blocks and dedicated memory), in bytes.
    pub reserved_bytes: u64,
    /// Total size of the ranges in use, in bytes.
    pub used_bytes: u64,
    /// Bytes of the memory objects that belong to no range.
    pub free_bytes: u64,
    /// Largest value of `reserved_bytes` so far. From a snapshot without a trace, it is an estimate: the sum of the
    /// memory types' high-water marks of blocks, plus the current dedicated memory. `None` if unknown.
    pub reserved_bytes_high_water: Option<u64>,
    /// Number of the driver's memory objects, including dedicated ones.
    pub block_count: u64,
    /// Number of dedicated memory objects, each for one resource.
    pub dedicated_count: u64,
    /// Number of ranges in use.
    pub allocation_count: u64,
    /// Unused share of the reserved bytes, in per cent.
    pub waste_percent: f64,
    /// Number of objects that wait for the device; `None` if unknown.
    pub retired_count: Option<u64>,
    /// Number of driver calls so far; `None` if calls were not counted.
    pub calls_made: Option<u64>,
    /// Number of driver calls that Ringfence avoided so far; `None` if calls were not counted.
    pub calls_saved: Option<u64>,
}

impl Figures {
    /// Returns the figures of a snapshot from an allocator or a trace, in which all figures are known. O(ranges).
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut figures = Self {
            retired_count: Some(snapshot.retired_count),
            calls_made: Some(snapshot.calls.made()),
            calls_saved: Some(snapshot.calls.saved()),
            ..Self::default()
        };
        snapshot.blocks.iter().for_each(|block| figures.add(block));
        let marks = snapshot.types.iter().map(|kind| &kind.statistics);
        let marks = marks.flat_map(|use_of| [use_of.block_bytes_high_water, use_of.dedicated_bytes]);
        let marks = marks.fold(0, u64::saturating_add);
        figures.reserved_bytes_high_water = Some(marks.max(figures.reserved_bytes));
        figures.waste_percent = percent(figures.free_bytes, figures.reserved_bytes);
        figures
    }

    /// Returns these figures with `None` in place of each figure that a snapshot from `source` does not contain.
    #[must_use]
    pub fn known_by(self, source: Source) -> Self {
        if source.counts_calls() {
            return self;
        }
        Self { reserved_bytes_high_water: None, retired_count: None, calls_made: None, calls_saved: None, ..self }
    }

    fn add(&mut self, block: &BlockSnapshot) {
        let of_block = BlockFigures::of(block);
        self.reserved_bytes = self.reserved_bytes.saturating_add(block.bytes);
        self.free_bytes = self.free_bytes.saturating_add(of_block.free_bytes);
        self.used_bytes = self.used_bytes.saturating_add(of_block.used_bytes);
        self.block_count += 1;
        self.dedicated_count += u64::from(block.dedicated);
        self.allocation_count += block.ranges.len() as u64;
    }
}

/// The figures of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct BlockFigures {
    /// Total size of the block's ranges, in bytes.
    pub used_bytes: u64,
    /// Bytes of the block that belong to no range.
    pub free_bytes: u64,
    /// Size of the longest free range, in bytes.
    pub free_bytes_largest: u64,
}

impl BlockFigures {
    /// Returns the figures of `block`. Its ranges must be ordered by offset. O(ranges).
    #[must_use]
    pub fn of(block: &BlockSnapshot) -> Self {
        let (mut end, mut used, mut largest) = (0, 0u64, 0);
        for range in &block.ranges {
            used = used.saturating_add(range.bytes);
            largest = largest.max(range.offset.saturating_sub(end));
            end = end.max(range.offset.saturating_add(range.bytes));
        }
        let used_bytes = used.min(block.bytes);
        let free_bytes_largest = largest.max(block.bytes.saturating_sub(end));
        Self { used_bytes, free_bytes: block.bytes - used_bytes, free_bytes_largest }
    }
}

/// Returns `part` as a percentage of `whole`; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
