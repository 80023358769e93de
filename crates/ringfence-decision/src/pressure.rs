//! The steps that are tried when memory runs short, and the argument of the eviction callback.

use crate::location::Location;

bitflags::bitflags! {
    /// Steps of the fallback order that were tried.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Tried: u32 {
        /// Recycled objects and completed retired objects were destroyed, and empty blocks were freed (in every heap if
        /// memory objects were short).
        const TRIM = 1 << 0;
        /// A block of 1/2, 1/4 or 1/8 of the normal size was requested.
        const SMALLER_BLOCK = 1 << 1;
        /// Dedicated memory was requested.
        const DEDICATED = 1 << 2;
        /// A memory type other than the best was tried.
        const NEXT_TYPE = 1 << 3;
        /// The caller's eviction callback was called.
        const EVICTION = 1 << 4;
        /// Memory that no submission uses was evicted: see the module `ringfence::residency`.
        const RESIDENCY = 1 << 5;
    }
}

/// The shortage of memory for which the eviction callback is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// Size of the request, in bytes.
    pub size: u64,
    /// Location of the request.
    pub location: Location,
    /// The memory heap of the best type.
    pub heap: u32,
    /// Usage of that heap, in bytes.
    pub usage_bytes: u64,
    /// Budget of that heap, in bytes.
    pub budget_bytes: u64,
    /// Number of earlier calls of the callback for this request.
    pub round: u32,
}

/// The eviction callback. It is called if every other step has failed, releases memory, and returns `true` if it has
/// released memory.
pub type Evict = dyn Fn(&Pressure) -> bool + Send + Sync;
