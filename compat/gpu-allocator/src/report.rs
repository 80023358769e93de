//! Report of the allocations at one moment, for people.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

/// A live allocation.
#[derive(Clone)]
pub struct AllocationReport {
    /// Name of the allocation.
    pub name: String,
    /// Offset of the first byte in the memory block.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// A memory block.
#[derive(Clone)]
pub struct MemoryBlockReport {
    /// Size in bytes.
    pub size: u64,
    /// Range of this block's allocations in [`AllocatorReport::allocations`].
    pub allocations: Range<usize>,
}

/// All allocations and blocks of an allocator.
///
/// The `Debug` output is a summary with the allocations, largest first. A precision (`{report:.10?}`) limits their
/// number.
#[derive(Clone)]
pub struct AllocatorReport {
    /// Live allocations, block by block.
    pub allocations: Vec<AllocationReport>,
    /// All memory blocks, including empty ones.
    pub blocks: Vec<MemoryBlockReport>,
    /// Sum of all allocations, in bytes.
    pub total_allocated_bytes: u64,
    /// Sum of all blocks, in bytes.
    pub total_capacity_bytes: u64,
}

impl fmt::Debug for AllocationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "(unnamed)" } else { &self.name };
        write!(f, "{name:?}: {}", Bytes(self.size))
    }
}

impl fmt::Debug for AllocatorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut largest: Vec<_> = self.allocations.iter().collect();
        largest.sort_by_key(|held| Reverse(held.size));
        largest.truncate(f.precision().unwrap_or(usize::MAX));
        let summary = format_args!("{} of {}", Bytes(self.total_allocated_bytes), Bytes(self.total_capacity_bytes));
        f.debug_struct("AllocatorReport")
            .field("allocated", &summary)
            .field("blocks", &self.blocks.len())
            .field("allocations", &self.allocations.len())
            .field("largest", &largest)
            .finish()
    }
}

/// Bytes, displayed in the unit that needs the fewest digits.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let power = (self.0.checked_ilog2().unwrap_or(0) as usize / 10).min(UNITS.len() - 1);
        match power {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{:.2} {}", self.0 as f64 / (1_u64 << (10 * power)) as f64, UNITS[power]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_limits_how_many_allocations_are_shown() {
        let held = |name: &str, size| AllocationReport { name: name.into(), offset: 0, size };
        let report = AllocatorReport {
            allocations: vec![held("small", 12), held("", 3 << 20), held("middle", 1536)],
            blocks: vec![MemoryBlockReport { size: 4 << 20, allocations: 0..3 }],
            total_allocated_bytes: (3 << 20) + 1548,
            total_capacity_bytes: 4 << 20,
        };
        let shown = format!("{report:.2?}");
        assert!(shown.contains(r#""(unnamed)": 3.00 MiB, "middle": 1.50 KiB]"#), "{shown}");
        assert!(shown.contains("of 4.00 MiB") && !shown.contains("small"), "{shown}");
        assert!(format!("{report:?}").contains(r#""small": 12 B"#));
    }
}
