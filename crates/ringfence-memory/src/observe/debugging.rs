//! Debugging: checks that the program turns on at run time, in any build, with [`AllocatorDesc::debug`].
//!
//! ```text
//!   a range of a block   │ guard │ what its owner has            │ guard │
//!                          0x9e    fill_new … fill_released        0x9e
//!                            │                                       │
//!                            └──── compared when it is released, and by check_guards() ────▶ Finding::Overrun
//!   live ranges    name, place of creation ────── what is left at shutdown() ─────────────▶ Finding::Leak
//!   copies to a live range ── their frame was not submitted, or they were never recorded ──▶ Finding::LostContent
//!   history        made, named, moved, retired, released: the last N ── by address ──────────────▶ history_of(address)
//! ```
//!
//! | what is on | what it costs |
//! |---|---|
//! | nothing | a compare with null a step: some 50 instructions an allocation and its release |
//! | anything | one lock for all threads, an entry in a map a live range |
//! | margins | the margin on each side of every range in a block, in front at least its alignment; both written when it is made and read when it is released |
//! | fills | every mapped byte written twice: when it is made and when it is released |
//! | history | host memory for as many operations as there were, up to what is asked for |
//!
//! The host writes guards and fills, so they exist only in memory that the host sees: in every host-visible memory type
//! (on Direct3D 12, which maps resources and not heaps, through a buffer over each heap). In memory that only the
//! device sees, margins are bytes of no resource, so that an overrun hits no other resource; they are not checked
//! ([`GuardCheck::unchecked_count`] says how many). Dedicated memory has no guards, nor have pools of equal blocks.
//!
//! # Misuse that is named
//!
//! Resources, allocations, frames and slots are values with one owner: freeing one twice does not compile, and what
//! belongs to another allocator or to a frame that is over is refused by a typed error with or without debugging
//! ([`FrameError`](crate::FrameError), `UploadError`, [`Error`](crate::Error)). Below that, objects that
//! are used after their end are found by the simulated device (`Hazard`).
//!
//! [`AllocatorDesc::debug`]: crate::AllocatorDesc::debug

mod guard;
mod registry;
mod watched;

pub(crate) use guard::Margins;
pub(crate) use registry::{Debugger, Key, NewPlace, NewRange};
pub(crate) use watched::Watched;

pub use ringfence_trace::{Finding, GuardCheck, Leak, MemoryAddress, Operation, OperationKind, Overrun, Side};

/// Which checks run. None by default. See the [module](self) for what each costs.
///
/// A range that a [`Defrag`](crate::defrag::Defrag) moves has its guards and fill at the new place, under its name and
/// the line that made it, and the history has the move; the old place is checked until the device is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DebugDesc {
    /// Bytes of guard on each side of every range in a block, rounded up to a multiple of 16 and of the range's
    /// alignment where needed; 0 for none.
    pub margin_bytes: u32,
    /// The value of every byte of new memory that the host sees.
    pub fill_new: Option<u8>,
    /// The value that every byte of released memory that the host sees gets once the device is done with it.
    pub fill_released: Option<u8>,
    /// Whether [`Allocator::shutdown`](crate::Allocator::shutdown) reports live ranges as leaks, by name and place of
    /// creation.
    pub leaks: bool,
    /// How many operations are remembered.
    pub history_count: u32,
}

impl DebugDesc {
    /// Everything: margins of 64 bytes, `0xcd` in new memory and `0xdd` in what was released, leaks, 4096 operations.
    #[must_use]
    pub const fn everything() -> Self {
        Self { margin_bytes: 64, fill_new: Some(0xcd), fill_released: Some(0xdd), leaks: true, history_count: 4096 }
    }

    /// Whether nothing is looked for.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        let Self { margin_bytes, fill_new, fill_released, leaks, history_count } = self;
        *margin_bytes == 0 && fill_new.is_none() && fill_released.is_none() && !*leaks && *history_count == 0
    }
}
