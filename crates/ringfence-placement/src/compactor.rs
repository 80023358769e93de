//! Compaction that a program leaves on: a little in each frame, and nothing while memory is compact.
//!
//! ```text
//!   resting ── enough frames have passed, and a memory type wastes too much ──▶ moving
//!      ▲                                                                          │  each step: moves within the limits
//!      └── the run is done; it freed nothing? the next rest is twice as long ─────┘  of bytes and of time; out of time:
//!                                                                                    the next step plans anew
//! ```
//!
//! The *waste* of a memory type is the free part of its blocks. The size of one average block is subtracted, because
//! the last block of each memory type is partly free in any program.
//!
//! | operation | cost |
//! |---|---|
//! | a step while nothing moves | O(memory types) |
//! | a step with moves | [`Defrag::begin_pass`], plus the moves |

use std::time::{Duration, Instant};

use ringfence_hal::Device;
use ringfence_hal::record::Record;
use ringfence_memory::defrag::{
    BeginPassError, Defrag, DefragDesc, DefragPass, DefragState, DefragStatistics, MoveError, MoveOutcome,
};
use ringfence_memory::{Allocator, Frame};

/// Maximum number of times that the rest is doubled.
const DOUBLINGS_MAX: u32 = 4;

/// Conditions and limits of the moves of a [`Compactor`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompactorDesc {
    /// Limits of the moves of a frame: 16 MiB and 64 moves by default. Blocks that cannot be emptied are not compacted
    /// by default, because that frees no memory.
    pub defrag: DefragDesc,
    /// Host time for the moves of a frame. After it, the remaining moves are planned again in a later frame. At least
    /// one move is tried. Default: 1 ms.
    pub time_max: Duration,
    /// Smallest waste of a memory type at which resources are moved, as a fraction of the bytes of its blocks (0 to 1).
    /// The waste is the free part of the blocks, less the size of one average block. Default: 0.1.
    pub waste_min: f64,
    /// Smallest waste of a memory type at which resources are moved, in bytes. Both limits must be reached. Default: 32
    /// MiB.
    pub waste_bytes_min: u64,
    /// Number of steps ([`Compactor::step`]) from the end of a run to the begin of the next run. A run is a
    /// defragmentation until it is done ([`DefragState::Done`]). Each run that frees no block doubles this number, at
    /// most to its 16-fold. A run that frees a block resets the number. Default: 10.
    pub rest_steps: u32,
}

impl Default for CompactorDesc {
    fn default() -> Self {
        Self {
            defrag: DefragDesc {
                bytes_per_pass_max: 16 << 20,
                moves_per_pass_max: 64,
                compacts: false,
                ..Default::default()
            },
            time_max: Duration::from_millis(1),
            waste_min: 0.1,
            waste_bytes_min: 32 << 20,
            rest_steps: 10,
        }
    }
}

/// The moves of one [`Compactor::step`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CompactorStep {
    /// Number of moves that were made.
    pub moved_count: u32,
    /// Bytes that these moves copy.
    pub moved_bytes: u64,
    /// Number of moves that were planned and not made: the time was over, or the program's function did not move the
    /// resource.
    pub left_count: u32,
    /// The last error of the program's function. The resource of the move stays in place.
    pub failed: Option<MoveError>,
}

/// Moves resources of an allocator while its blocks waste memory. Call [`Compactor::step`] once a frame.
///
/// Only resources that were created as [`movable`](ringfence_memory::AllocationDesc::movable) are moved.
pub struct Compactor<D: Device> {
    memory: Allocator<D>,
    desc: CompactorDesc,
    run: Option<Defrag<D>>,
    /// Number of steps until the next run may begin.
    rest: u32,
    /// Number of times that the rest is doubled.
    doublings: u32,
    /// Results of earlier runs.
    finished: DefragStatistics,
}

impl<D: Device> Compactor<D> {
    /// Creates a compactor of all memory of an allocator, custom pools included.
    #[must_use]
    pub fn new(memory: &Allocator<D>, desc: CompactorDesc) -> Self {
        let finished = DefragStatistics::default();
        Self { memory: memory.clone(), desc, run: None, rest: 0, doublings: 0, finished }
    }

    /// Moves some resources if a run of moves is under way, or if a memory type wastes more than [`CompactorDesc`]
    /// allows. Until the time is over, calls `move_one` for each move, with the pass and the index of the move.
    /// `move_one` finds the resource by the move's `user_data`, and passes it to [`DefragPass::copy_buffer`] or
    /// [`DefragPass::copy_texture`], or leaves it in place. Then `step` records the copies, even if `move_one` panics.
    /// Does nothing while the device has to complete earlier moves first.
    ///
    /// # Errors
    /// The frame belongs to another allocator. Nothing has changed.
    ///
    /// # Safety
    /// As for [`DefragPass::record`]: the recorder's command list is submitted as `frame`, and its commands before this
    /// call do not use the moved resources.
    pub unsafe fn step(
        &mut self,
        frame: &Frame,
        recorder: &mut impl Record<D>,
        mut move_one: impl FnMut(&mut DefragPass<'_, D>, usize) -> Result<(), MoveError>,
    ) -> Result<CompactorStep, BeginPassError> {
        let mut step = CompactorStep::default();
        if !self.is_due() {
            return Ok(step);
        }
        let started = Instant::now();
        let mut begun = None;
        let run = match &mut self.run {
            Some(run) => run,
            None => begun.insert(self.memory.defragment(self.desc.defrag)),
        };
        // The copies of the moves that were made are recorded even if the program's function panics.
        let record = |(mut pass, recorder): (DefragPass<'_, D>, &mut _)| {
            if moved(&pass).next().is_some() {
                // SAFETY: the caller promises it.
                unsafe { pass.record(recorder) };
            }
        };
        let mut pass = scopeguard::guard((run.begin_pass(frame)?, recorder), record);
        let (count, mut is_late) = (pass.0.moves().len(), false);
        for index in 0..count {
            is_late = index != 0 && started.elapsed() >= self.desc.time_max;
            if is_late {
                break;
            }
            if let Err(error) = move_one(&mut pass.0, index) {
                step.failed = Some(error);
            }
        }
        (step.moved_count, step.moved_bytes) =
            moved(&pass.0).fold((0, 0), |(moves, bytes), size| (moves + 1, bytes + size));
        step.left_count = count as u32 - step.moved_count;
        drop(pass);
        self.run = begun.or(self.run.take());
        self.end_if_over(is_late);
        Ok(step)
    }

    /// Returns `true` while a run is under way, so that the next step can move resources.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.run.is_some()
    }

    /// Returns the results of all runs. The fields about the current blocks are those of the run under way, and 0 while
    /// no run is. O(blocks) while a run is under way.
    #[must_use]
    pub fn statistics(&self) -> DefragStatistics {
        let now = self.run.as_ref().map_or_else(DefragStatistics::default, Defrag::statistics);
        sum(self.finished, now)
    }

    /// Counts a step. Returns `true` if a run can continue or begin now.
    fn is_due(&mut self) -> bool {
        if let Some(run) = &self.run {
            return run.state() != DefragState::Waiting;
        }
        self.rest = self.rest.saturating_sub(1);
        self.rest == 0 && self.wastes()
    }

    /// Returns `true` if the blocks of a memory type waste too much.
    fn wastes(&self) -> bool {
        let desc = &self.desc;
        self.memory.statistics().types.iter().any(|held| {
            let spare = held.block_bytes.checked_div(held.block_count).unwrap_or(0);
            let waste = held.block_bytes.saturating_sub(held.range_bytes).saturating_sub(spare);
            waste >= desc.waste_bytes_min && waste as f64 >= desc.waste_min * held.block_bytes as f64
        })
    }

    /// Ends the run if it is done, and begins the rest. A run that left moves for lack of time ends too, without a
    /// rest: the next run plans the remaining moves of the same block first.
    fn end_if_over(&mut self, is_late: bool) {
        let Some(run) = self.run.take_if(|run| is_late || run.state() == DefragState::Done) else { return };
        let statistics = run.statistics();
        if !is_late {
            let is_futile = statistics.freed_block_count == 0;
            self.doublings = if is_futile { (self.doublings + 1).min(DOUBLINGS_MAX) } else { 0 };
            self.rest = self.desc.rest_steps.saturating_mul(1 << self.doublings).saturating_add(1);
        }
        let blocks =
            DefragStatistics { block_count: 0, block_bytes: 0, used_bytes: 0, scattered_bytes: 0, ..statistics };
        self.finished = sum(self.finished, blocks);
    }
}

/// Returns the sizes of the moves that were made.
fn moved<D: Device>(pass: &DefragPass<'_, D>) -> impl Iterator<Item = u64> {
    pass.moves().iter().filter(|made| made.outcome == MoveOutcome::Moved).map(|made| made.size)
}

/// Adds the results of two runs.
fn sum(one: DefragStatistics, other: DefragStatistics) -> DefragStatistics {
    DefragStatistics {
        pass_count: one.pass_count + other.pass_count,
        planned_count: one.planned_count + other.planned_count,
        moved_count: one.moved_count + other.moved_count,
        moved_bytes: one.moved_bytes + other.moved_bytes,
        ignored_count: one.ignored_count + other.ignored_count,
        freed_block_count: one.freed_block_count + other.freed_block_count,
        freed_block_bytes: one.freed_block_bytes + other.freed_block_bytes,
        joined_bytes: one.joined_bytes + other.joined_bytes,
        planning_ns: one.planning_ns + other.planning_ns,
        planning_ns_max: one.planning_ns_max.max(other.planning_ns_max),
        block_count: one.block_count + other.block_count,
        block_bytes: one.block_bytes + other.block_bytes,
        used_bytes: one.used_bytes + other.used_bytes,
        scattered_bytes: one.scattered_bytes + other.scattered_bytes,
    }
}

impl<D: Device> std::fmt::Debug for Compactor<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compactor").field("desc", &self.desc).field("run", &self.run).field("rest", &self.rest).finish()
    }
}
