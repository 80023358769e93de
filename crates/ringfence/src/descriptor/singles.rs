//! The slots of a heap of CPU-only descriptors, under its lock: blocks, and single slots on their way to the thread
//! caches.
//!
//! ```text
//!   thread caches ◀── batches ──▶ singles ◀──▶ blocks (buddy)         a cached slot counts as taken in the blocks
//!                             └ those that lay there unused from one reclaim to the next ──▶ blocks
//! ```
//!
//! A frame of a renderer takes 18 % more instructions without the singles.
//!
//! | operation | cost |
//! |---|---|
//! | take or put one slot | O(1) while there are singles |
//! | other counts | O(log slots) |
//! | trim | O(log slots) for each that goes back |

use std::sync::Arc;

use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksStatistics};
use ringfence_core::range::{AllocError, Invalid};
use smallvec::SmallVec;

use super::cpu::{Keeper, UNWRITTEN};
use super::{Heap, SlotAllocator};
use crate::device::descriptors::Descriptors;

/// More singles than this are not kept.
const SINGLES_MAX: usize = 256;
/// More emptied boxes of a sort than this are not kept,
const SPARE_MAX: usize = 1024;
/// nor those of longer runs.
const SPARE_SLOTS_MAX: usize = 16;
/// The number of slots whose contents are in the box itself.
const INLINE_SLOTS: usize = 2;

/// Slots that are taken, side by side in a heap. In a box that is used again and again, so that a descriptor is a
/// pointer and a steady frame makes nothing.
pub(super) struct Run<D: Descriptors, A: SlotAllocator> {
    /// There iff slots are taken.
    pub(super) held: Option<Held<D, A>>,
    /// Numbers what each slot shows.
    pub(super) contents: SmallVec<[u64; INLINE_SLOTS]>,
}

pub(super) struct Held<D: Descriptors, A: SlotAllocator> {
    /// Keeps the allocator and this heap of descriptors.
    pub(super) keeper: Arc<Keeper<D, A>>,
    pub(super) heap: Arc<Heap<D>>,
    pub(super) allocation: BlockAllocation,
}

pub(super) type BoxedRun<D, A> = Box<Run<D, A>>;

impl<D: Descriptors, A: SlotAllocator> Run<D, A> {
    #[inline]
    pub(super) fn held(&self) -> &Held<D, A> {
        self.held.as_ref().expect("there while slots are taken")
    }
}

pub(super) struct Slots<D: Descriptors, A: SlotAllocator> {
    pub(super) blocks: Blocks<A, Arc<Heap<D>>>,
    /// Each of one slot that shows nothing; the last goes first.
    singles: Vec<BoxedRun<D, A>>,
    /// The fewest singles there were since the last trim.
    unused: usize,
    /// Without slots, to be used again: for runs whose contents are in the box, and for longer ones, with room for
    /// [`SPARE_SLOTS_MAX`]. Apart, so that each keeps its memory.
    spare: [Vec<BoxedRun<D, A>>; 2],
    /// Nothing is cached any more.
    is_closed: bool,
}

impl<D: Descriptors, A: SlotAllocator> Slots<D, A> {
    pub(super) fn new(blocks: Blocks<A, Arc<Heap<D>>>) -> Self {
        let singles = Vec::with_capacity(SINGLES_MAX);
        Self { blocks, singles, unused: 0, spare: [Vec::new(), Vec::new()], is_closed: false }
    }

    /// One slot.
    pub(super) fn take_single(&mut self, keeper: &Arc<Keeper<D, A>>) -> Result<BoxedRun<D, A>, AllocError> {
        let Some(single) = self.singles.pop() else { return self.take(keeper, 1, 1) };
        self.unused = self.unused.min(self.singles.len());
        Ok(single)
    }

    /// A run of slots out of the blocks.
    pub(super) fn take(
        &mut self,
        keeper: &Arc<Keeper<D, A>>,
        count: u64,
        alignment: u64,
    ) -> Result<BoxedRun<D, A>, AllocError> {
        let allocation = self.blocks.try_allocate(count, alignment)?;
        let (heap, _) = self.blocks.get(allocation.block()).expect("an allocation's block is there");
        let held = Held { keeper: Arc::clone(keeper), heap: Arc::clone(heap), allocation };
        Ok(self.boxed(held))
    }

    /// Slots that were taken already, as a run.
    pub(super) fn boxed(&mut self, held: Held<D, A>) -> BoxedRun<D, A> {
        let count = held.allocation.size() as usize;
        let sort = usize::from(count > INLINE_SLOTS);
        let spare = if count <= SPARE_SLOTS_MAX { self.spare[sort].pop() } else { None };
        let mut run = spare.unwrap_or_else(|| {
            let room = if sort == 0 { INLINE_SLOTS } else { count.max(SPARE_SLOTS_MAX) };
            Box::new(Run { held: None, contents: SmallVec::with_capacity(room) })
        });
        run.contents.resize(count, UNWRITTEN);
        run.held = Some(held);
        run
    }

    /// Takes slots back that show nothing any more: one alone is kept cached. The caller keeps the heap meanwhile.
    pub(super) fn put(&mut self, run: BoxedRun<D, A>) {
        if run.contents.len() == 1 && self.singles.len() < SINGLES_MAX && !self.is_closed {
            self.singles.push(run);
        } else {
            self.give_back(run);
        }
    }

    /// Gives slots back to the blocks. The caller keeps the heap meanwhile.
    pub(super) fn give_back(&mut self, mut run: BoxedRun<D, A>) {
        let Held { keeper: _, heap, allocation } = run.held.take().expect("it is given back once");
        // First, so that the thread that takes the block out when it is empty is the last to hold its heap.
        drop(heap);
        let freed = self.blocks.free(&allocation);
        debug_assert!(freed.is_ok(), "an allocation is given back once");
        run.contents.clear();
        let spare = &mut self.spare[usize::from(run.contents.spilled())];
        if spare.len() < SPARE_MAX && run.contents.capacity() <= SPARE_SLOTS_MAX && !self.is_closed {
            spare.push(run);
        }
    }

    /// Gives those singles back to the blocks that were not needed since the last time.
    pub(super) fn trim(&mut self) {
        self.give_singles_back(self.unused);
    }

    pub(super) fn give_singles_back(&mut self, most: usize) {
        for _ in 0..most {
            let Some(single) = self.singles.pop() else { break };
            self.give_back(single);
        }
        self.unused = self.singles.len();
    }

    /// Keeps nothing cached from now on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.give_singles_back(usize::MAX);
        self.spare.iter_mut().for_each(Vec::clear);
    }

    /// Cached slots count as free: the singles, and `in_thread_caches` more.
    pub(super) fn statistics(&self, in_thread_caches: usize) -> BlocksStatistics {
        let cached = self.singles.len() + in_thread_caches;
        let blocks = self.blocks.statistics();
        BlocksStatistics {
            free_size: blocks.free_size + cached as u64,
            largest_free: blocks.largest_free.max(cached.min(1) as u64),
            live_count: blocks.live_count.saturating_sub(cached),
            ..blocks
        }
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.blocks.validate()?;
        self.singles.iter().try_for_each(|single| self.validate_cached(single))?;
        for (spare, room) in self.spare.iter().zip([INLINE_SLOTS, SPARE_SLOTS_MAX]) {
            let is_spare = |run: &BoxedRun<D, A>| run.held.is_none() && run.contents.is_empty();
            let fits = spare.iter().all(|run| is_spare(run) && run.contents.capacity() == room);
            Invalid::unless(fits, "a spare run has no slots, and the room of its sort", room as u64)?;
        }
        let (singles, kept) = (self.singles.len() as u64, self.unused <= self.singles.len());
        Invalid::unless(kept, "no more lay unused than there are", singles)?;
        Invalid::unless(!self.is_closed || singles == 0, "closed slots keep nothing cached", singles)
    }

    /// A cached slot is one, live in its block, and shows nothing.
    pub(super) fn validate_cached(&self, run: &Run<D, A>) -> Result<(), Invalid> {
        let held = run.held.as_ref();
        let at = held.map_or(0, |held| held.allocation.offset());
        let live = held.is_some_and(|held| self.blocks.is_live(&held.allocation));
        Invalid::unless(live, "a cached slot is live in its block", at)?;
        Invalid::unless(run.contents.as_slice() == [UNWRITTEN], "a cached slot is one and shows nothing", at)
    }
}
