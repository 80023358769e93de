//! Everything that is in memory at a moment, as plain data: for reports, leak hunts and tests. O(ranges).

pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};

/// What an arena counts as in use, and a snapshot as free: a recycled object's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cached {
    Range {
        block: u64,
        offset: u64,
    },
    /// Of an arena's own numbers.
    Dedicated {
        number: u64,
    },
}
