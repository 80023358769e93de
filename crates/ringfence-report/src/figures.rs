//! The figures at the top of the page, and those of a block: sums over a snapshot.

use ringfence_trace::{BlockSnapshot, Snapshot};

use crate::Source;

/// The sums of a snapshot.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Bytes of all blocks, dedicated memory included.
    pub reserved_bytes: u64,
    /// Bytes of all ranges in use.
    pub used_bytes: u64,
    /// Bytes of blocks outside all ranges.
    pub free_bytes: u64,
    /// Maximum bytes reserved at one time. For a snapshot alone this is an estimate: the sum of the memory types'
    /// high-water marks of blocks, plus the current dedicated memory. `None` if unknown.
    pub reserved_bytes_high_water: Option<u64>,
    /// Number of driver memory objects, dedicated ones included.
    pub block_count: u64,
    /// Number of driver memory objects that belong to one resource.
    pub dedicated_count: u64,
    /// Number of ranges in use.
    pub allocation_count: u64,
    /// Unused share of the reserved bytes, in per cent.
    pub waste_percent: f64,
    /// Number of objects that wait for the device; `None` if unknown.
    pub retired_count: Option<u64>,
    /// Number of driver calls that were made; `None` if they were not counted.
    pub calls_made: Option<u64>,
    /// Number of driver calls that were avoided; `None` if they were not counted.
    pub calls_saved: Option<u64>,
}

impl Figures {
    /// Adds up a snapshot of an allocator or of a trace; all figures are known. O(ranges).
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

    /// Returns the figures without those that a snapshot from `source` does not know.
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

/// The sums of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct BlockFigures {
    /// Bytes of its ranges.
    pub used_bytes: u64,
    /// Bytes outside all ranges.
    pub free_bytes: u64,
    /// Size of the longest free range, in bytes.
    pub free_bytes_largest: u64,
}

impl BlockFigures {
    /// Adds up `block`. Its ranges must be in order of offset. O(ranges).
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

/// Returns `part` in per cent of `whole`; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
