//! A ticket records if a range may be moved by defragmentation. The owner of the range and the passes of
//! defragmentation share the ticket.
//!
//! ```text
//!            ┌── planned ──▶ MOVING ──┬─ copied ────────▶ CLOSED (the new range has its own ticket)
//!   FREE ◀───┴── cancelled ◀──────────┤
//!    ▲ │                              ├─ dropped, freed ▶ CLOSED
//!    │ └─ pinned ─▶ PINNED ◀─ pinned ─┤
//!    └─ unpinned ─────┘               └─ aliased ───────▶ FIXED
//! ```
//!
//! While copies to a range are gathered and not recorded yet, the range is *kept*: no move of it is planned or made, in
//! any state.
//!
//! A *pass* is one step of a defragmentation: it plans moves, and then makes them. The owner of a range never waits.
//! Dropping or aliasing the range is one atomic store. Pinning the range is an exchange, which is repeated if a pass
//! has changed the state in between. A pass that has planned a move sees such a change when it makes the move. The
//! owner needs `&mut` of the resource to change the state, so only passes can change the state concurrently. A pass
//! takes a ticket only in the state `FREE`, so two passes never have the same ticket.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ringfence_core::blocks::BlockAllocation;

const FREE: u8 = 0;
const PINNED: u8 = 1;
const MOVING: u8 = 2;
const CLOSED: u8 = 3;
const FIXED: u8 = 4;

/// Records if a range may be moved by defragmentation. Created for a newly allocated range.
#[derive(Debug)]
pub struct Ticket {
    allocation: BlockAllocation,
    alignment: u64,
    user_data: u64,
    moves: Moves,
    state: AtomicU8,
    /// Number of calls of [`Ticket::keep`] that are not yet released.
    kept: AtomicU32,
    /// Index of the planned move in the pass that has planned it.
    index: AtomicU32,
}

/// The passes of defragmentation that may move a range.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Moves {
    /// No pass.
    #[default]
    Never,
    /// Every pass. Only the device accesses the range.
    Device,
    /// Only passes that include host-accessed ranges. The host also reads or writes the range.
    Host,
}

/// State of a range, as a pass sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The range may be moved.
    Free,
    /// The range is freed, or will be freed by a planned move.
    Leaving,
    /// The range must not be moved.
    Stays,
}

impl Ticket {
    /// Creates the ticket of a newly allocated range.
    #[must_use]
    pub const fn new(allocation: BlockAllocation, alignment: u64, user_data: u64, moves: Moves) -> Self {
        let (state, kept, index) = (AtomicU8::new(FREE), AtomicU32::new(0), AtomicU32::new(0));
        Self { allocation, alignment, user_data, moves, state, kept, index }
    }

    /// Creates the ticket of `allocation`, the range to which the contents of this range are moved.
    #[must_use]
    pub const fn renewed(&self, allocation: BlockAllocation) -> Self {
        Self::new(allocation, self.alignment, self.user_data, self.moves)
    }

    /// Returns the range.
    #[must_use]
    pub const fn allocation(&self) -> &BlockAllocation {
        &self.allocation
    }

    /// Returns the alignment that the owner requested.
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Returns the owner's user data.
    #[must_use]
    pub const fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Returns the index of the planned move in its pass.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Sets the index of the planned move in its pass.
    pub fn set_index(&self, index: usize) {
        self.index.store(index as u32, Ordering::Relaxed);
    }

    /// Returns the state of the range. `with_host` is `true` if the pass may move host-accessed ranges.
    #[must_use]
    pub fn standing(&self, with_host: bool) -> Standing {
        match self.state.load(Ordering::Relaxed) {
            FREE if self.is_kept() => Standing::Stays,
            FREE if self.moves == Moves::Device || with_host => Standing::Free,
            // MOVING: the pass that has planned the move is to free this range.
            CLOSED | MOVING => Standing::Leaving,
            _ => Standing::Stays,
        }
    }

    /// Reserves the range for a planned move. Returns `false` if the range is kept or its state is not `FREE`.
    pub fn take(&self) -> bool {
        !self.is_kept() && self.pass(FREE, MOVING)
    }

    /// Cancels a planned move.
    pub fn put_back(&self) {
        self.pass(MOVING, FREE);
    }

    /// Commits a planned move: closes this range, which is never moved again, and returns `true`. Returns `false` if
    /// the owner has pinned, aliased or freed the range meanwhile. Does not check if the range is kept: call
    /// [`Ticket::is_moving`] first.
    pub fn commit(&self) -> bool {
        self.pass(MOVING, CLOSED)
    }

    /// Returns `true` if a move is planned and still allowed.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.state.load(Ordering::Acquire) == MOVING && !self.is_kept()
    }

    /// Prevents moves of the range until [`Ticket::release`] is called, even if a move is already planned. Each call of
    /// `keep` needs one call of `release`.
    pub fn keep(&self) {
        self.kept.fetch_add(1, Ordering::AcqRel);
    }

    /// Reverts one call of [`Ticket::keep`].
    pub fn release(&self) {
        self.kept.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire) > 0
    }

    /// Pins the range if `pinned` is `true`; otherwise, unpins it. Called by the owner.
    pub fn set_pinned(&self, pinned: bool) {
        if pinned {
            // A planned move is revoked. If the pass cancels the move concurrently, the exchange is repeated.
            let to_pinned = |state| matches!(state, FREE | MOVING).then_some(PINNED);
            let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, to_pinned);
        } else {
            self.pass(PINNED, FREE);
        }
    }

    /// Returns `true` if the range is pinned or aliased.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), PINNED | FIXED)
    }

    /// Records that the owner has released the range: it is retired or freed. The range is never moved again.
    pub fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Records that the range is aliased: several resources share it. The range is never moved again.
    pub fn fix(&self) {
        self.state.store(FIXED, Ordering::Release);
    }

    fn pass(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;
    use ringfence_core::blocks::{Blocks, BlocksDesc};
    use ringfence_core::tlsf::Tlsf;

    #[test]
    fn a_pin_holds_whatever_passes_do_meanwhile() {
        let mut blocks = Blocks::<Tlsf, ()>::new(BlocksDesc::default());
        blocks.insert((), Tlsf::new(1024));
        let allocation = blocks.try_allocate(64, 1).expect("there is room");
        let ticket = Ticket::new(allocation, 1, 0, Moves::Device);
        assert!(ticket.take() && ticket.is_moving());
        ticket.keep();
        assert!(!ticket.is_moving(), "the planned move is revoked by `keep`");
        ticket.put_back();
        assert!(!ticket.take() && ticket.standing(true) == Standing::Stays);
        ticket.release();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if ticket.take() {
                        ticket.put_back();
                    }
                }
            });
            let lost = (0..2_000_000).filter(|_| {
                ticket.set_pinned(true);
                let is_lost = !ticket.is_pinned();
                ticket.set_pinned(false);
                is_lost
            });
            let lost = lost.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }
}
