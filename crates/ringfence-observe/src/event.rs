//! Events, and the numbers by which they name ranges.

#![expect(missing_docs, reason = "the names of the fields describe them")]

use std::panic::Location;
use std::sync::Arc;

use crate::calls::Call;
use crate::device::Mapped;
use crate::guard::Margins;
use crate::slow_paths::Warning;
use crate::trace;
use crate::watched::Watched;

/// The identity of a live range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub block: u64,
    pub offset: u64,
    /// `true` for a range of a buffer that small buffers share.
    pub is_small: bool,
}

/// The numbers by which subscribers identify a range of a memory object.
#[derive(Clone, Copy)]
pub struct RangeId {
    /// The block, and the offset of the owner's first byte.
    pub key: Key,
    /// Offset of the range itself: of its front guard, if it has guards.
    pub begin: u64,
}

/// An event. It owns nothing, so an event without a subscriber has nothing to drop.
pub enum Event<'a, M: Watched> {
    /// A call was made.
    Called(Call),
    /// Data was written to rings for the device.
    Staged { writes: u64, bytes: u64 },
    /// An object was created in a range, or the range was allocated without an object.
    Made(NewRange<'a, M>),
    /// The range was returned to the program; `at` is the line of the program's call.
    HandedOut { key: Key, at: &'static Location<'static>, device_address: Option<u64> },
    /// The range got another name.
    Named { range: RangeId, name: &'a str },
    /// The contents of the range `from` moved to the range `to`, which was allocated before. `from` is not retired yet.
    Moved { from: RangeId, to: RangeId, place: NewPlace<'a, M> },
    /// The owner released the range; the device may still use it.
    Retired(RangeId),
    /// The device is done with the range. The object in it may still be alive.
    Released(RangeId),
    /// The range's bytes can be allocated again from now on, and not before.
    Freed(RangeId),
    /// An event that only traces use: blocks, frames, rings, descriptors.
    Recorded(&'a trace::Event<&'a str>),
    /// A failure, or a finding of debugging.
    Warned(Warning<'a>),
    /// The allocator is shut down (`is_over`), or the shutdown failed because the device may still use objects. Live
    /// ranges are reported as leaks; retired ranges are reported only if `is_over`.
    Ended { is_over: bool },
}

/// A range that was just allocated.
pub struct NewRange<'a, M: Watched> {
    pub key: Key,
    pub memory: &'a Arc<M>,
    /// Size of the owner's bytes, in whole atoms.
    pub size: u64,
    pub name: &'a str,
    pub user_data: u64,
    pub margins: Margins,
    /// Mapped address of the first byte after the front guard; `None` if the memory is not mapped.
    pub host: Option<Mapped>,
}

/// The new place of a range that was just moved.
pub struct NewPlace<'a, M: Watched> {
    pub memory: &'a Arc<M>,
    /// Mapped address of the owner's first byte.
    pub host: Option<Mapped>,
    pub device_address: Option<u64>,
}
