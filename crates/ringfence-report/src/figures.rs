//! The figures at the head of the page, and those of a block: sums over a snapshot.

use ringfence_trace::{BlockSnapshot, Snapshot};

use crate::Source;

/// What a snapshot adds up to.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Bytes of all blocks, dedicated memory included.
    pub reserved_bytes: u64,
    /// Bytes of all ranges in use.
    pub used_bytes: u64,
    /// Bytes of the blocks that no range has.
    pub free_bytes: u64,
    /// The most that was ever reserved at once. Of a snapshot alone, as far as the memory types know it: the marks of
    /// their blocks added up, with the dedicated memory that there is now. `None` if that is not known.
    pub reserved_bytes_high_water: Option<u64>,
    /// Driver memory objects, dedicated ones included.
    pub block_count: u64,
    /// Those of them that belong to one resource.
    pub dedicated_count: u64,
    /// Ranges in use.
    pub allocation_count: u64,
    /// Reserved bytes that nothing uses, in per cent of what is reserved.
    pub waste_percent: f64,
    /// Objects that wait for the device; `None` if that is not known.
    pub retired_count: Option<u64>,
    /// Calls made to the driver; `None` if they were not counted.
    pub calls_made: Option<u64>,
    /// Calls that were never needed; `None` if they were not counted.
    pub calls_saved: Option<u64>,
}

impl Figures {
    /// Adds up `snapshot`, of an allocator or a trace: all figures are known. O(ranges).
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

    /// The same without what a snapshot of this source does not know.
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

/// What a block adds up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct BlockFigures {
    /// Bytes of its ranges.
    pub used_bytes: u64,
    /// Bytes that no range has.
    pub free_bytes: u64,
    /// The longest stretch of free bytes.
    pub free_bytes_largest: u64,
}

impl BlockFigures {
    /// Adds up `block`, whose ranges are in order. O(ranges).
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

/// `part` in per cent of `whole`; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
