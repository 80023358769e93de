//! Memory: which type, which block, which range; when blocks come and go; what is used.

mod snapshot;
mod statistics;

pub use snapshot::{BlockSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot};
pub use statistics::{DriverCalls, Statistics, TypeStatistics};
