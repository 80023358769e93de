//! A defragmentation under way: its arenas, its passes and its statistics.
//!
//! ```text
//!   Defrag ─▶ ArenaRun, for each memory type and class, and for each pool; a pass continues where the last one ended
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use ringfence_core::blocks::BlockAllocation;
use ringfence_timeline::Frame;

use super::DefragDesc;
use super::arena::ArenaRun;
use super::pass::{DefragPass, Pending, Room};
use crate::device::Device;
use crate::device::lock::run_unlocked;
use crate::memory::{ArenaRef, BlockFacts, PassLimits, Shared};
use crate::resource::Pool;

/// A defragmentation under way, of a whole allocator or of a pool. See the [module](super).
///
/// It holds no lock and no driver object between passes, and may be dropped at any time.
pub struct Defrag<D: Device> {
    shared: Arc<Shared<D>>,
    desc: DefragDesc,
    arenas: Vec<ArenaRun<D>>,
    /// New places of the moves of the current pass, by index of the move, until the move is made or given up. They
    /// belong to the run and not to the pass, so a pass that is forgotten (`mem::forget`) leaks none of them.
    pub(super) rooms: Vec<Option<Room<D>>>,
    /// The arena that the next pass begins with.
    first: usize,
    statistics: DefragStatistics,
}

/// The state of a defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefragState {
    /// The next pass may have moves.
    Working,
    /// No move can be planned before the device has completed earlier ones: submit the frame, and call `reclaim` later.
    Waiting,
    /// The run plans no further move: moves would free no block, they would copy too many bytes
    /// ([`DefragDesc::bytes_per_byte_won_max`]), or the maximum number of cycles is reached.
    Done,
}

/// Progress of a run, and the fragmentation of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DefragStatistics {
    /// Number of passes that had moves.
    pub pass_count: u64,
    /// Number of moves that were planned.
    pub planned_count: u64,
    /// Number of moves that were made.
    pub moved_count: u64,
    /// Bytes of the moves that were made.
    pub moved_bytes: u64,
    /// Number of moves that were not made, because they were ignored or their resource was dropped or pinned.
    pub ignored_count: u64,
    /// Number of blocks that were freed.
    pub freed_block_count: u64,
    /// Total size of the blocks that were freed, in bytes.
    pub freed_block_bytes: u64,
    /// Bytes by which the longest free ranges of compacted blocks have grown.
    pub joined_bytes: u64,
    /// Time spent on planning, in nanoseconds.
    pub planning_ns: u64,
    /// Longest time spent on planning a pass, in nanoseconds.
    pub planning_ns_max: u64,
    /// Current number of blocks.
    pub block_count: u64,
    /// Total size of the current blocks, in bytes.
    pub block_bytes: u64,
    /// Bytes of the current blocks that are in use: by resources, by retired ranges that the device may still use, and
    /// by recycled objects.
    pub used_bytes: u64,
    /// Free bytes outside of the longest free range of their block. A run reduces this number.
    pub scattered_bytes: u64,
}

impl DefragStatistics {
    /// Returns the number of free bytes in the blocks.
    #[must_use]
    pub fn waste_bytes(&self) -> u64 {
        self.block_bytes - self.used_bytes
    }

    /// Returns the free share of the blocks, from 0 to 1.
    #[must_use]
    pub fn waste(&self) -> f64 {
        if self.block_bytes == 0 { 0.0 } else { self.waste_bytes() as f64 / self.block_bytes as f64 }
    }

    fn add(&mut self, facts: &BlockFacts) {
        self.block_count += 1;
        self.block_bytes += facts.bytes;
        self.used_bytes += facts.bytes - facts.free;
        self.scattered_bytes += facts.free.saturating_sub(facts.largest_free);
    }
}

/// The reason why a pass did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginPassError {
    /// The frame belongs to another allocator, so it would not keep the old places alive.
    #[error("the frame belongs to another allocator than the one that is defragmented")]
    ForeignFrame,
}

impl<D: Device> Defrag<D> {
    /// Begins a defragmentation of a custom pool. Moves nothing yet.
    #[must_use]
    pub fn of_pool(pool: &Pool<D>, desc: DefragDesc) -> Self {
        let (shared, arena) = pool.arena();
        Self::new(Arc::clone(shared), vec![arena], desc)
    }

    /// Begins a defragmentation of an allocator, its custom pools included.
    pub(crate) fn of_all(shared: &Arc<Shared<D>>, desc: DefragDesc) -> Self {
        let own = (0..shared.arenas.len() as u64).map(ArenaRef::Own);
        let pools = shared.custom_pools.read().iter().map(|pool| ArenaRef::Pool(Arc::clone(pool))).collect::<Vec<_>>();
        Self::new(Arc::clone(shared), own.chain(pools).collect(), desc)
    }

    fn new(shared: Arc<Shared<D>>, arenas: Vec<ArenaRef<D>>, desc: DefragDesc) -> Self {
        let arenas = arenas.into_iter().filter(|arena| !shared.compact(arena).is_ordered());
        let arenas = arenas.map(ArenaRun::new).collect();
        Self { shared, desc, arenas, rooms: Vec::new(), first: 0, statistics: DefragStatistics::default() }
    }

    /// Begins a pass: plans moves within the limits of [`DefragDesc`] and allocates room for them. The copies must be
    /// recorded in this frame, which stays open as long as the pass.
    ///
    /// Destroys all recycled objects first, because they cannot be moved and would keep their blocks. A pass may have
    /// no moves: [`Defrag::state`] then reports why. If an earlier pass was forgotten (`mem::forget`), its open moves
    /// are given up.
    ///
    /// # Errors
    /// The frame belongs to another allocator.
    pub fn begin_pass<'r>(&'r mut self, frame: &'r Frame) -> Result<DefragPass<'r, D>, BeginPassError> {
        if !self.shared.lifetimes.owns(frame) {
            return Err(BeginPassError::ForeignFrame);
        }
        self.close_pass();
        // A recycled object cannot be moved, and would keep its block.
        self.shared.empty_recycled(|_| true);
        let started = Instant::now();
        let (mut limits, mut pending) =
            (PassLimits::new(self.desc.bytes_per_pass_max, self.desc.moves_per_pass_max), Vec::new());
        let count = self.arenas.len();
        for step in 0..count {
            let at = (self.first + step) % count;
            let mut reserved = Vec::new();
            self.arenas[at].plan(&self.shared, &self.desc, &mut limits, &mut reserved, &mut self.statistics);
            pending.extend(reserved.into_iter().map(|reserved| Pending { arena: at, reserved }));
            if limits.is_over() {
                self.first = at;
                break;
            }
        }
        let took = started.elapsed().as_nanos() as u64;
        self.statistics.planning_ns += took;
        self.statistics.planning_ns_max = self.statistics.planning_ns_max.max(took);
        self.statistics.pass_count += u64::from(!pending.is_empty());
        self.statistics.planned_count += pending.len() as u64;
        Ok(DefragPass::new(self, frame, pending))
    }

    /// Returns the state of the run. O(memory types + pools).
    #[must_use]
    pub fn state(&self) -> DefragState {
        let is_waiting = |run: &ArenaRun<D>| run.waits(&self.shared) || run.is_done();
        if self.arenas.iter().all(ArenaRun::is_done) {
            DefragState::Done
        } else if self.arenas.iter().all(is_waiting) {
            DefragState::Waiting
        } else {
            DefragState::Working
        }
    }

    /// Returns the progress of the run so far, and the current fragmentation of its blocks. O(blocks).
    #[must_use]
    pub fn statistics(&self) -> DefragStatistics {
        let mut statistics = self.statistics;
        for run in &self.arenas {
            self.shared.compact(&run.arena).facts().iter().for_each(|facts| statistics.add(facts));
        }
        statistics
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    pub(super) fn arena(&self, at: usize) -> &ArenaRef<D> {
        &self.arenas[at].arena
    }

    pub(super) fn moved(&mut self, at: usize, old: BlockAllocation) {
        self.statistics.moved_count += 1;
        self.statistics.moved_bytes += old.size();
        self.arenas[at].moved(old);
        self.shared.observers.calls.add_moved(old.size());
    }

    /// Gives up a move: its resource stays in place, and the room is freed.
    pub(super) fn give_up(&mut self, room: Room<D>) {
        room.give_up(&self.shared);
        self.left();
    }

    pub(super) fn close_pass(&mut self) {
        for room in std::mem::take(&mut self.rooms).into_iter().flatten() {
            self.give_up(room);
        }
    }

    pub(super) fn left(&mut self) {
        self.statistics.ignored_count += 1;
    }
}

impl<D: Device> Drop for Defrag<D> {
    fn drop(&mut self) {
        let (shared, rooms) = (Arc::clone(&self.shared), std::mem::take(&mut self.rooms));
        run_unlocked(move || rooms.into_iter().flatten().for_each(|room| room.give_up(&shared)));
    }
}

impl<D: Device> fmt::Debug for Defrag<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defrag").field("state", &self.state()).field("statistics", &self.statistics).finish()
    }
}
