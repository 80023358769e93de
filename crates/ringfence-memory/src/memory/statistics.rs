//! Figures that are cheap enough to read each frame: O(memory types), one short lock of each; O(objects that are recycled).

use std::sync::atomic::{AtomicU64, Ordering};

pub use ringfence_trace::{DriverCalls, TypeStatistics};

/// Use of the allocator as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Statistics {
    /// By memory type.
    pub types: Vec<TypeStatistics>,
    /// Objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Objects that are kept for the next request of the same description: not among what is in use. The memory of
    /// those that have their own counts as blocks.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_count: u64,
    /// Bytes of those. Read one after the other: what other threads keep and take meanwhile may be counted twice, or not at all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_bytes: u64,
    /// Bytes by which buffers in use are larger than described
    /// ([`AllocationDesc::may_be_larger`](crate::AllocationDesc::may_be_larger)).
    #[cfg_attr(feature = "serde", serde(default))]
    pub rounded_bytes: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
    /// Resources that were given another place by a [`Defrag`](crate::defrag::Defrag).
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_count: u64,
    /// Bytes of those.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_bytes: u64,
}

impl Statistics {
    /// The sum over all memory types. High-water marks add up to at least the true one.
    #[must_use]
    pub fn total(&self) -> TypeStatistics {
        let mut total = TypeStatistics::default();
        self.types.iter().for_each(|held| total.add(held));
        total
    }
}

/// A counter of things and of their bytes.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, count: u64, bytes: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
