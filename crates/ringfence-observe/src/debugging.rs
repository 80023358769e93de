//! Debugging: checks that the program turns on at run time, in any build, with `AllocatorDesc::debug`.
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
//! | none | one comparison with null in each step: about 50 instructions for an allocation and its release |
//! | any | one lock for all threads, an entry in a map for each live range |
//! | margins | a guard on each side of every range in a block; written when the range is created, read at its release |
//! | fills | every mapped byte is written twice: when its range is created and when it is released |
//! | history | host memory for each operation, up to the requested number |
//!
//! The host writes guards and fills, so they exist only in host-visible memory types. (Direct3D 12 maps resources and
//! not heaps: there the host writes guards through a buffer over each heap.) The front guard is rounded up to a
//! multiple of the range's alignment. In memory that only the device accesses, margins are bytes that no resource owns.
//! An overrun within the margin damages no other resource, but is not detected ([`GuardCheck::unchecked_count`] counts
//! these ranges). Dedicated memory and pools of equal slots have no guards.
//!
//! # Misuse that is detected
//!
//! Resources, allocations, frames and slots are values with one owner: freeing one twice does not compile. With or
//! without debugging, an object of another allocator, or of a frame that has ended, is refused by a typed error
//! (`FrameError`, `UploadError`, `Error`). The simulated device also detects the use of objects of the API after their
//! destruction (`Hazard`).

pub use ringfence_trace::{Finding, GuardCheck, Leak, MemoryAddress, Operation, OperationKind, Overrun, Side};

/// The debugging checks to run; none by default. See the [module](self) for the cost of each.
///
/// A range that a `Defrag` moves gets its guards and fill at the new place, with its name and the line that created it,
/// and the history contains the move. The old place is checked until it is free.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DebugDesc {
    /// Size of the guard on each side of every range in a block, in bytes; 0 for no guards. The size is rounded up to a
    /// multiple of 16, and in non-coherent memory to a multiple of `nonCoherentAtomSize`. The front guard is also
    /// rounded up to a multiple of the range's alignment.
    pub margin_bytes: u32,
    /// Value that is written to every mapped byte of new memory; `None` to write nothing.
    pub fill_new: Option<u8>,
    /// Value that is written to every mapped byte of released memory once the device is done with it; `None` to write
    /// nothing. Memory that is shared with other processes is not written.
    pub fill_released: Option<u8>,
    /// `true` if `Allocator::shutdown` reports live ranges as leaks, with their names and lines.
    pub leaks: bool,
    /// Number of operations that the history contains; 0 for no history.
    pub history_count: u32,
}

impl DebugDesc {
    /// Returns the description with all checks: margins of 64 bytes, `0xcd` in new memory and `0xdd` in released
    /// memory, leaks, a history of 4096 operations.
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
