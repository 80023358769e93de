//! Debugging: checks that the program turns on at run time, in any build, with [`AllocatorDesc::debug`].
//!
//! ```text
//!   a range of a block   │ guard │ the owner's bytes             │ guard │
//!                          0x9e    fill_new … fill_released        0x9e
//!                            │                                       │
//!                            └──── compared when it is released, and by check_guards() ────▶ Finding::Overrun
//!   live ranges    name, line of creation ─────── still live at shutdown() ───────────────▶ Finding::Leak
//!   copies to a live range ── their frame was not submitted, or they were never recorded ──▶ Finding::LostContent
//!   history        made, named, moved, retired, released: the last N ── by address ──────────────▶ history_of(address)
//! ```
//!
//! | check | cost |
//! |---|---|
//! | none | a compare with null a step: some 50 instructions an allocation and its release |
//! | any | one lock for all threads, an entry in a map for each live range |
//! | margins | the margin on each side of every range in a block, in front at least its alignment; both are written when the range is created and read when it is released |
//! | fills | every mapped byte is written twice: when its range is created and when it is released |
//! | history | host memory for each operation, up to the requested number |
//!
//! The host writes guards and fills, so they exist only in host-visible memory types (on Direct3D 12, which maps
//! resources and not heaps, through a buffer over each heap). In memory that only the device accesses, margins are
//! bytes that no resource owns: an overrun damages no other resource, but it is not detected
//! ([`GuardCheck::unchecked_count`] counts these ranges). Dedicated memory has no guards, and pools of equal blocks
//! have none.
//!
//! # Misuse that is detected by name
//!
//! Resources, allocations, frames and slots are values with one owner: freeing one twice does not compile. An object of
//! another allocator, or of a frame that is over, is refused by a typed error with or without debugging
//! ([`FrameError`](crate::FrameError), `UploadError`, [`Error`](crate::Error)). Below that level, the simulated device
//! detects the use of objects after their end (`Hazard`).
//!
//! [`AllocatorDesc::debug`]: crate::AllocatorDesc::debug

mod guard;
mod registry;
mod watched;

pub(crate) use guard::Margins;
pub(crate) use registry::{Debugger, Key, NewPlace, NewRange};
pub(crate) use watched::Watched;

pub use ringfence_trace::{Finding, GuardCheck, Leak, MemoryAddress, Operation, OperationKind, Overrun, Side};

/// The checks to run; none by default. See the [module](self) for the cost of each.
///
/// A range that a [`Defrag`](crate::defrag::Defrag) moves gets its guards and fill at the new place, with its name and
/// the line that created it, and the history contains the move. The old place is checked until the device is done with
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DebugDesc {
    /// Size of the guard on each side of every range in a block, in bytes, rounded up to a multiple of 16 and of the
    /// range's alignment if needed; 0 for no guards.
    pub margin_bytes: u32,
    /// The value of every byte of new memory that is mapped.
    pub fill_new: Option<u8>,
    /// The value that every mapped byte of released memory gets once the device is done with it.
    pub fill_released: Option<u8>,
    /// `true` if [`Allocator::shutdown`](crate::Allocator::shutdown) reports live ranges as leaks, by name and by the
    /// line that created them.
    pub leaks: bool,
    /// Number of operations in the history.
    pub history_count: u32,
}

impl DebugDesc {
    /// Returns all checks: margins of 64 bytes, `0xcd` in new memory and `0xdd` in released memory, leaks, 4096
    /// operations.
    #[must_use]
    pub const fn everything() -> Self {
        Self { margin_bytes: 64, fill_new: Some(0xcd), fill_released: Some(0xdd), leaks: true, history_count: 4096 }
    }

    /// Returns `true` if no check is on.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        let Self { margin_bytes, fill_new, fill_released, leaks, history_count } = self;
        *margin_bytes == 0 && fill_new.is_none() && fill_released.is_none() && !*leaks && *history_count == 0
    }
}
