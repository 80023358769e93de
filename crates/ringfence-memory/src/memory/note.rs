//! The record of a range that has a name or user data, or that may be moved or evicted.

use std::sync::Arc;

use super::request::Request;
use ringfence_lockfree::ticket::{Moves, Ticket};
use ringfence_trace::RangeSnapshot;

#[derive(Clone, Default, Debug)]
pub(crate) struct Note {
    pub(crate) name: Box<str>,
    pub(crate) user_data: u64,
    pub(crate) evictable: bool,
    /// `Some` if the range may be moved.
    pub(crate) ticket: Option<Arc<Ticket>>,
}

impl Note {
    /// Creates the record of a request; `None` if there is nothing to record.
    #[inline(always)]
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        let Request { name, user_data, moves, evictable, .. } = *request;
        let is_noted = !name.is_empty() || user_data != 0 || moves != Moves::Never || evictable;
        is_noted.then(|| Self { name: name.into(), user_data, evictable, ticket: None })
    }
}

/// Returns the snapshot of a range in use, with its name and user data.
pub(crate) fn range_snapshot(offset: u64, bytes: u64, note: Option<&Note>) -> RangeSnapshot {
    let (name, user_data) = note.map_or((String::new(), 0), |note| (note.name.to_string(), note.user_data));
    RangeSnapshot { offset, bytes, name, user_data }
}
