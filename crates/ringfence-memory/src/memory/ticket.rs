//! What says of a range whether it may be moved, now: shared by the range's owner and by the block's notes.
//!
//! ```text
//!            ┌── planned ──▶ MOVING ──┬─ copied ────────▶ CLOSED (the new range has a ticket of its own)
//!   FREE ◀───┴── ignored ◀────────────┤
//!    ▲ │                              ├─ dropped, freed ▶ CLOSED
//!    │ └─ pinned ─▶ PINNED ◀─ pinned ─┤
//!    └─ unpinned ─────┘               └─ aliased ───────▶ FIXED
//! ```
//!
//! Its owner never waits: dropping, pinning and aliasing are one atomic exchange each, and the pass that has planned a move
//! finds out when it wants to make it. All of it happens with the ticket's owner as `&mut`, but for planning, which
//! takes a ticket only from `FREE`: so that no two plans have the same one.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ringfence_core::blocks::BlockAllocation;

use super::request::{Moves, Request};

const FREE: u8 = 0;
const PINNED: u8 = 1;
const MOVING: u8 = 2;
const CLOSED: u8 = 3;
const FIXED: u8 = 4;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ticket {
    allocation: BlockAllocation,
    alignment: u64,
    user_data: u64,
    moves: Moves,
    state: AtomicU8,
    /// Which move of its pass it is, while it is one.
    index: AtomicU32,
}

/// How a range stands, for a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It may be moved.
    Free,
    /// It will be gone without that.
    Leaving,
    /// It stays.
    Stays,
}

impl Ticket {
    pub(crate) fn new(allocation: BlockAllocation, request: &Request<'_>) -> Self {
        let Request { alignment, user_data, moves, .. } = *request;
        Self { allocation, alignment, user_data, moves, state: AtomicU8::new(FREE), index: AtomicU32::new(0) }
    }

    /// The ticket of the range that this one's bytes have been given instead.
    pub(crate) fn renewed(&self, allocation: BlockAllocation) -> Self {
        let Self { alignment, user_data, moves, .. } = *self;
        Self { allocation, alignment, user_data, moves, state: AtomicU8::new(FREE), index: AtomicU32::new(0) }
    }

    pub(crate) fn allocation(&self) -> &BlockAllocation {
        &self.allocation
    }

    pub(crate) fn alignment(&self) -> u64 {
        self.alignment
    }

    pub(crate) fn user_data(&self) -> u64 {
        self.user_data
    }

    pub(crate) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_index(&self, index: usize) {
        self.index.store(index as u32, Ordering::Relaxed);
    }

    pub(crate) fn standing(&self, with_host: bool) -> Standing {
        match self.state.load(Ordering::Relaxed) {
            FREE if self.moves == Moves::Device || with_host => Standing::Free,
            // The pass that moves it moves it away.
            CLOSED | MOVING => Standing::Leaving,
            _ => Standing::Stays,
        }
    }

    /// Takes it for a move; says whether that went well.
    pub(crate) fn take(&self) -> bool {
        self.pass(FREE, MOVING)
    }

    /// Gives up a move that is not made.
    pub(crate) fn put_back(&self) {
        self.pass(MOVING, FREE);
    }

    /// Makes a move; says whether it may still be made. The old range is never moved again.
    pub(crate) fn commit(&self) -> bool {
        self.pass(MOVING, CLOSED)
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.state.load(Ordering::Acquire) == MOVING
    }

    pub(crate) fn set_pinned(&self, pinned: bool) {
        if pinned {
            // A plan that has it finds it taken away.
            let _ = self.pass(FREE, PINNED) || self.pass(MOVING, PINNED);
        } else {
            self.pass(PINNED, FREE);
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), PINNED | FIXED)
    }

    /// Its owner has released it.
    pub(crate) fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Several resources lie in it from now on.
    pub(crate) fn fix(&self) {
        self.state.store(FIXED, Ordering::Release);
    }

    fn pass(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
