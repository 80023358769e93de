//! What is tried when memory runs short, and what an eviction callback sees.

use super::location::Location;

bitflags::bitflags! {
    /// Steps of the fallback order that were tried.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Tried: u32 {
        /// What was complete was reclaimed, and empty blocks of the heap were freed (of every heap, if memory objects were short).
        const TRIM = 1 << 0;
        /// A block of 1/2, 1/4 or 1/8 of the size.
        const SMALLER_BLOCK = 1 << 1;
        /// Memory of its own.
        const DEDICATED = 1 << 2;
        /// Another memory type than the best.
        const NEXT_TYPE = 1 << 3;
        /// The caller's eviction callback.
        const EVICTION = 1 << 4;
        /// Memory that no submission uses was evicted: see [`residency`](crate::residency).
        const RESIDENCY = 1 << 5;
    }
}

/// What an eviction callback sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// Bytes that are needed.
    pub size: u64,
    /// Where they are wanted.
    pub location: Location,
    /// The memory heap of the best type.
    pub heap: u32,
    /// What is in use of that heap, in bytes.
    pub usage_bytes: u64,
    /// What may be, in bytes.
    pub budget_bytes: u64,
    /// How often the callback was called for this request before.
    pub round: u32,
}

/// The eviction callback: releases memory if every other step has failed, and returns whether it did.
pub type Evict = dyn Fn(&Pressure) -> bool + Send + Sync;
