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
//! A range that is kept is neither planned nor moved, in whichever state it is: copies to it are gathered.
//!
//! Its owner never waits: dropping and aliasing are one atomic exchange each, pinning one that is tried again where a
//! pass has changed the state meanwhile; and the pass that has planned a move finds out when it wants to make it. All of it happens with the ticket's owner as `&mut`, but for planning,
//! which takes a ticket only from `FREE`: so that no two plans have the same one.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ringfence_core::blocks::BlockAllocation;

const FREE: u8 = 0;
const PINNED: u8 = 1;
const MOVING: u8 = 2;
const CLOSED: u8 = 3;
const FIXED: u8 = 4;

/// See the [module](self).
#[derive(Debug)]
pub struct Ticket {
    allocation: BlockAllocation,
    alignment: u64,
    user_data: u64,
    moves: Moves,
    state: AtomicU8,
    /// How many rely on it to stay for now.
    kept: AtomicU32,
    /// Which move of its pass it is, while it is one.
    index: AtomicU32,
}

/// What may move a range.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Moves {
    /// Nothing.
    #[default]
    Never,
    /// It is for the device alone: any plan.
    Device,
    /// The host reads or writes it too: a plan that says so.
    Host,
}

/// How a range stands, for a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It may be moved.
    Free,
    /// It will be gone without that.
    Leaving,
    /// It stays.
    Stays,
}

impl Ticket {
    /// Of a range that is allocated now.
    #[must_use]
    pub const fn new(allocation: BlockAllocation, alignment: u64, user_data: u64, moves: Moves) -> Self {
        let (state, kept, index) = (AtomicU8::new(FREE), AtomicU32::new(0), AtomicU32::new(0));
        Self { allocation, alignment, user_data, moves, state, kept, index }
    }

    /// The ticket of the range that this one's bytes have been given instead.
    #[must_use]
    pub const fn renewed(&self, allocation: BlockAllocation) -> Self {
        Self::new(allocation, self.alignment, self.user_data, self.moves)
    }

    /// The range.
    #[must_use]
    pub const fn allocation(&self) -> &BlockAllocation {
        &self.allocation
    }

    /// What its owner asked for.
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Its owner's.
    #[must_use]
    pub const fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Which move of its pass it is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Says which move of its pass it is.
    pub fn set_index(&self, index: usize) {
        self.index.store(index as u32, Ordering::Relaxed);
    }

    /// How it stands now, where what the host reads or writes may be moved or not.
    #[must_use]
    pub fn standing(&self, with_host: bool) -> Standing {
        match self.state.load(Ordering::Relaxed) {
            FREE if self.is_kept() => Standing::Stays,
            FREE if self.moves == Moves::Device || with_host => Standing::Free,
            // The pass that moves it moves it away.
            CLOSED | MOVING => Standing::Leaving,
            _ => Standing::Stays,
        }
    }

    /// Takes it for a move; says whether that went well.
    pub fn take(&self) -> bool {
        !self.is_kept() && self.pass(FREE, MOVING)
    }

    /// Gives up a move that is not made.
    pub fn put_back(&self) {
        self.pass(MOVING, FREE);
    }

    /// Makes a move; says whether it may still be made. The old range is never moved again.
    pub fn commit(&self) -> bool {
        self.pass(MOVING, CLOSED)
    }

    /// Whether a move of it is planned, and may be made.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.state.load(Ordering::Acquire) == MOVING && !self.is_kept()
    }

    /// It is not moved until [`Ticket::release`], not even if a move is planned already. Calls are counted.
    pub fn keep(&self) {
        self.kept.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes one call of [`Ticket::keep`] back.
    pub fn release(&self) {
        self.kept.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire) > 0
    }

    /// Its owner says that it has to stay, or need not.
    pub fn set_pinned(&self, pinned: bool) {
        if pinned {
            // A plan that has it finds it taken away; one that gives it up meanwhile does not win.
            let to_pinned = |state| matches!(state, FREE | MOVING).then_some(PINNED);
            let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, to_pinned);
        } else {
            self.pass(PINNED, FREE);
        }
    }

    /// Whether it has to stay.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), PINNED | FIXED)
    }

    /// Its owner has released it.
    pub fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Several resources lie in it from now on.
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
    use ringfence_core::blocks::{Blocks, BlocksDesc};
    use ringfence_core::tlsf::Tlsf;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn a_pin_holds_whatever_passes_do_meanwhile() {
        let mut blocks = Blocks::<Tlsf, ()>::new(BlocksDesc::default());
        blocks.insert((), Tlsf::new(1024));
        let allocation = blocks.try_allocate(64, 1).expect("there is room");
        let ticket = Ticket::new(allocation, 1, 0, Moves::Device);
        assert!(ticket.take() && ticket.is_moving());
        ticket.keep();
        assert!(!ticket.is_moving(), "planned, and kept since");
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
