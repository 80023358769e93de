//! A defragmentation under way: what it works on, and what it has done.
//!
//! ```text
//!   Defrag ─▶ ArenaRun, one for each memory type and class, and for each pool; each pass begins with the next one
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | begin a pass | that of planning in each arena until the pass is full; a move of room each |
//! | state, statistics | O(memory types), O(1) |
//! | fragmentation | O(blocks) |

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use ringfence_core::blocks::BlockAllocation;

use super::DefragDesc;
use super::arena::ArenaRun;
use super::pass::{DefragPass, Pending, Room};
use crate::device::Device;
use crate::memory::{ArenaRef, BlockFacts, PassLimits, Shared};
use crate::observe::unlocked::run_unlocked;
use crate::resource::Pool;
use crate::timeline::Frame;

/// A defragmentation under way, of a whole allocator or of a pool. See the [module](super).
///
/// Holds no lock and no driver object between passes; it may be dropped at any time.
pub struct Defrag<D: Device> {
    shared: Arc<Shared<D>>,
    desc: DefragDesc,
    arenas: Vec<ArenaRun<D>>,
    /// Room for the moves of the pass, by move, until each is made or given up. It is the run's and not the pass's, so
    /// that a pass that is forgotten leaves nothing behind.
    pub(super) rooms: Vec<Option<Room<D>>>,
    /// The arena that the next pass begins with.
    first: usize,
    statistics: DefragStatistics,
}

/// Whether there is more to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefragState {
    /// The next pass may have moves.
    Working,
    /// Whether there is more to do is known only once the device has completed the moves that were made: submit, and
    /// reclaim.
    Waiting,
    /// Nothing more is worth moving: no move would free a block, or the copies would cost more than [`DefragDesc`]
    /// allows.
    Done,
}

/// What a run has done, and how scattered what it works on lies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DefragStatistics {
    /// Passes that had moves.
    pub pass_count: u64,
    /// Moves that were planned.
    pub planned_count: u64,
    /// Moves that were made.
    pub moved_count: u64,
    /// Bytes of those.
    pub moved_bytes: u64,
    /// Moves that were not made: ignored, or their resource was dropped or pinned.
    pub ignored_count: u64,
    /// Blocks that went back to the driver.
    pub freed_block_count: u64,
    /// Bytes of those.
    pub freed_block_bytes: u64,
    /// Bytes by which longest holes have grown in blocks that were compacted.
    pub joined_bytes: u64,
    /// What planning has taken, in nanoseconds.
    pub planning_ns: u64,
    /// The longest time that planning a pass took, in nanoseconds.
    pub planning_ns_max: u64,
    /// Blocks that are there now.
    pub block_count: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Bytes of them that are in use, by resources or by retired ranges that the device may still use.
    pub used_bytes: u64,
    /// Free bytes outside of the longest hole of their block: the measure that a run brings down.
    pub scattered_bytes: u64,
}

impl DefragStatistics {
    /// Bytes of blocks that no resource uses.
    #[must_use]
    pub fn waste_bytes(&self) -> u64 {
        self.block_bytes - self.used_bytes
    }

    /// The same as a part of the blocks: 0 for none, below 1.
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

/// Why a pass did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginPassError {
    /// The frame is of another allocator: it would not keep the old places alive.
    #[error("the frame is not of the allocator that is defragmented")]
    ForeignFrame,
}

impl<D: Device> Defrag<D> {
    /// Begins a defragmentation of a custom pool. Nothing is moved yet.
    #[must_use]
    pub fn of_pool(pool: &Pool<D>, desc: DefragDesc) -> Self {
        let (shared, arena) = pool.arena();
        Self::new(Arc::clone(shared), vec![arena], desc)
    }

    /// Begins to bring together what is in an allocator, its custom pools too.
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

    /// Begins a pass: plans moves within the bounds of [`DefragDesc`] and allocates room for them. The copies belong in
    /// this frame, which stays open as long as the pass.
    ///
    /// A pass may have no moves: see [`Defrag::state`] then. Moves that an earlier pass left open because it was
    /// forgotten (`mem::forget`) are given up.
    ///
    /// # Errors
    /// The frame is of another allocator.
    pub fn begin_pass<'r>(&'r mut self, frame: &'r Frame) -> Result<DefragPass<'r, D>, BeginPassError> {
        if !self.shared.lifetimes.owns(frame) {
            return Err(BeginPassError::ForeignFrame);
        }
        self.close_pass();
        // What is recycled cannot be moved, and would keep its block.
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

    /// Whether there is more to do. O(memory types).
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

    /// What the run has done so far, and how scattered what it works on lies now. O(blocks).
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

    /// A move is not made: its resource stays, the room is free again.
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
