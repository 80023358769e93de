//! Everything that is in memory at a moment, as plain data: for reports, leak hunts and tests. O(ranges).

pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};
