//! Requests for memory that an arena serves, and the record of a range.

use std::sync::Arc;

use ringfence_decision::{AllocationDesc, Location};
use ringfence_lockfree::ticket::{Moves, Ticket};
use ringfence_trace::RangeSnapshot;

/// The part of a request that an arena needs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Request<'a> {
    /// Size in bytes.
    pub size: u64,
    /// Alignment of the offset, in bytes.
    pub alignment: u64,
    /// `true` to allocate from the high end, if the algorithm has one.
    pub high: bool,
    /// The moves that are allowed.
    pub moves: Moves,
    /// `true` if each submission declares its uses of the memory, so its block may be evicted.
    pub evictable: bool,
    /// Name for reports.
    pub name: &'a str,
    /// The program's own number.
    pub user_data: u64,
}

impl<'a> Request<'a> {
    /// Creates a request for `size` bytes with the properties of this description.
    pub fn of(desc: &AllocationDesc<'a>, size: u64, alignment: u64) -> Self {
        let AllocationDesc { name, user_data, evictable, .. } = *desc;
        let moves = match (desc.movable, desc.location) {
            (false, _) => Moves::Never,
            (true, Location::Device) => Moves::Device,
            (true, _) => Moves::Host,
        };
        Self { size, alignment, high: false, moves, evictable, name, user_data }
    }
}

/// The record of a range that has a name or user data, or that may be moved or evicted.
#[derive(Clone, Default, Debug)]
pub struct RangeInfo {
    /// Name for reports.
    pub name: Box<str>,
    /// The program's own number.
    pub user_data: u64,
    /// `true` if each submission declares its uses of the range.
    pub evictable: bool,
    /// `Some` if the range may be moved.
    pub ticket: Option<Arc<Ticket>>,
}

impl RangeInfo {
    /// Creates the record of a request; `None` if there is nothing to record.
    #[inline(always)]
    pub fn of(request: &Request<'_>) -> Option<Self> {
        let Request { name, user_data, moves, evictable, .. } = *request;
        let is_noted = !name.is_empty() || user_data != 0 || moves != Moves::Never || evictable;
        is_noted.then(|| Self { name: name.into(), user_data, evictable, ticket: None })
    }
}

/// Returns the snapshot of a range in use, with its name and user data.
pub fn range_snapshot(offset: u64, bytes: u64, info: Option<&RangeInfo>) -> RangeSnapshot {
    let (name, user_data) = info.map_or((String::new(), 0), |info| (info.name.to_string(), info.user_data));
    RangeSnapshot { offset, bytes, name, user_data }
}
