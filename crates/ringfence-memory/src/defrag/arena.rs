//! The part of a defragmentation (a *run*) in one arena: the blocks to empty, the blocks to compact, and the end of the
//! work. An arena is the blocks of one memory type and class, or of a custom pool.
//!
//! ```text
//!   phase            Emptying ── no block left ──▶ Settling ── old ranges are free ──▶ Compacting ──▶ Done
//!                       ▲                                                                 │
//!                       └── another cycle, if a block was compacted: see `begin_cycle` ───┘
//!   emptied_blocks   blocks that were emptied: freed once their last range is free
//!   old_ranges       old ranges of moves that the device may still use: no round is judged until they are free
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ringfence_core::blocks::{BlockAllocation, BlockId};

use super::DefragDesc;
use super::run::DefragStatistics;
use crate::device::Device;
use crate::memory::{ArenaRef, BlockFacts, Destinations, PassLimits, Reserved, Shared, Ticket};

/// A block is compacted if its free bytes outside of the longest free range are at least the block's size divided by
/// this number.
const COMPACT_SHARE: u64 = 16;
/// Maximum number of rounds in one block, in a cycle.
const ROUNDS_MAX: u32 = 8;
/// Maximum number of cycles in which blocks are emptied again after others were compacted.
const CYCLES_MAX: u32 = 8;

enum Phase {
    /// Not begun yet.
    Waiting,
    Emptying(Emptying),
    /// Waiting until the old ranges of the moves are free: before that, the free ranges that the moves leave are not
    /// known.
    Settling,
    Compacting(Compacting),
    Done,
}

/// Empties blocks into other blocks, one after the other.
#[derive(Default)]
struct Emptying {
    /// Blocks still to be tried, the one with the smallest used share last.
    order: Vec<BlockId>,
    /// The block that is being emptied, and its size in bytes.
    block: Option<(BlockId, u64)>,
    /// Ranges still to be moved out of `block`, the largest last.
    queue: Vec<Arc<Ticket>>,
    /// Free bytes of the blocks in use when emptying began, minus the sizes of the blocks that were emptied since then,
    /// and of the block that is being emptied.
    room_bytes: u64,
    /// Number of ranges of `block` for which no other block had room.
    unplaced: usize,
    /// Bytes of the moves that were planned since a block was last emptied completely.
    bytes_since_emptied: u64,
}

/// Compacts blocks one after the other, and judges their rounds together.
struct Compacting {
    /// Blocks still to be compacted, from the last one on, each with the number of its next round. Before the first
    /// round, the block with the most free bytes outside of its longest free range is last.
    order: Vec<(BlockId, u32)>,
    round: Option<Round>,
    /// Rounds that were planned. They are judged once the device has completed their copies.
    planned: Vec<Round>,
    /// `true` if a block was compacted in this cycle.
    has_compacted: bool,
}

/// A round in a block: each movable range of the block is tried once.
struct Round {
    block: BlockId,
    number: u32,
    /// Ranges still to be tried. The range with the highest offset is last.
    queue: Vec<Arc<Ticket>>,
    longest_before: u64,
}

pub(super) struct ArenaRun<D: Device> {
    pub(super) arena: ArenaRef<D>,
    phase: Phase,
    /// Blocks that were emptied or are being emptied: no range is moved into them.
    emptied: HashSet<BlockId>,
    /// Blocks that were emptied, and their sizes in bytes, until they are freed.
    emptied_blocks: Vec<(BlockId, u64)>,
    /// Old ranges of moves, until they are free.
    old_ranges: VecDeque<BlockAllocation>,
    /// Bytes moved in the current round, by the block that they were moved from.
    moved_bytes: HashMap<BlockId, u64>,
    /// Number of completed cycles of emptying and compacting.
    cycle: u32,
    /// Blocks that were emptied in this cycle.
    emptied_in_cycle: u32,
}

impl<D: Device> ArenaRun<D> {
    pub(super) fn new(arena: ArenaRef<D>) -> Self {
        Self {
            arena,
            phase: Phase::Waiting,
            emptied: HashSet::new(),
            emptied_blocks: Vec::new(),
            old_ranges: VecDeque::new(),
            moved_bytes: HashMap::new(),
            cycle: 0,
            emptied_in_cycle: 0,
        }
    }

    /// Returns `true` if the run plans no further move, and waits for no old range and no emptied block.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done) && self.old_ranges.is_empty() && self.emptied_blocks.is_empty()
    }

    pub(super) fn moved(&mut self, old: BlockAllocation) {
        *self.moved_bytes.entry(old.block()).or_default() += old.size();
        self.old_ranges.push_back(old);
    }

    /// Returns `true` if no further move can be planned before the device has completed earlier ones.
    pub(super) fn waits(&self, shared: &Shared<D>) -> bool {
        let has_plans = match &self.phase {
            Phase::Waiting | Phase::Emptying(_) => true,
            Phase::Compacting(Compacting { order, round, .. }) => round.is_some() || !order.is_empty(),
            Phase::Settling | Phase::Done => false,
        };
        !has_plans && self.old_ranges.front().is_some_and(|old| shared.compact(&self.arena).is_live(old))
    }

    pub(super) fn plan(
        &mut self,
        shared: &Shared<D>,
        desc: &DefragDesc,
        limits: &mut PassLimits,
        into: &mut Vec<Reserved<D>>,
        statistics: &mut DefragStatistics,
    ) {
        self.free_emptied(shared, statistics);
        let mut destinations = None;
        let mut goes_on = true;
        while goes_on {
            goes_on = match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Waiting => self.begin(shared),
                Phase::Emptying(emptying) => self.empty(emptying, shared, desc, limits, &mut destinations, into),
                Phase::Settling => self.find_fragmented(shared, desc, !into.is_empty()),
                Phase::Compacting(compacting) => self.compact(compacting, shared, desc, limits, into, statistics),
                Phase::Done => false,
            };
        }
    }

    /// Removes old ranges that are free, and frees the blocks that have become empty.
    fn free_emptied(&mut self, shared: &Shared<D>, statistics: &mut DefragStatistics) {
        let compact = shared.compact(&self.arena);
        while self.old_ranges.front().is_some_and(|old| !compact.is_live(old)) {
            self.old_ranges.pop_front();
        }
        let all_free = self.old_ranges.is_empty();
        // From the end, because the arena's search for an empty block begins with the latest one.
        let mut staying = Vec::new();
        while let Some((id, bytes)) = self.emptied_blocks.pop() {
            // A reclaim may already have freed the block.
            let is_gone = shared.free_empty_block(&self.arena, id) || compact.fact(id).is_none();
            if is_gone {
                statistics.freed_block_count += 1;
                statistics.freed_block_bytes += bytes;
            } else if !all_free {
                staying.push((id, bytes));
            }
            // If all old ranges are free and the block still exists, it has new allocations, or its pool keeps it.
        }
        staying.reverse();
        self.emptied_blocks = staying;
    }

    /// Begins to empty: sorts the blocks that have movable ranges in the order in which they are tried. Returns `true`.
    fn begin(&mut self, shared: &Shared<D>) -> bool {
        let mut facts = shared.compact(&self.arena).facts();
        let room_bytes =
            facts.iter().filter(|facts| facts.live_count > 0 && !facts.is_evicted).map(|facts| facts.free).sum();
        facts.retain(|facts| facts.live_count > 0 && facts.movable_count > 0 && !facts.is_evicted);
        let used = |facts: &BlockFacts| (facts.bytes - facts.free) as f64 / facts.bytes as f64;
        facts.sort_by(|one, other| used(other).total_cmp(&used(one)));
        let order = facts.iter().map(|facts| facts.id).collect();
        self.phase = Phase::Emptying(Emptying { order, room_bytes, ..Default::default() });
        true
    }

    /// Reserves new places for the queue, or chooses the next block. Returns `true` if planning can continue.
    fn empty(
        &mut self,
        mut emptying: Emptying,
        shared: &Shared<D>,
        desc: &DefragDesc,
        limits: &mut PassLimits,
        destinations: &mut Option<Destinations>,
        into: &mut Vec<Reserved<D>>,
    ) -> bool {
        let compact = shared.compact(&self.arena);
        let Some(block) = emptying.block else {
            if self.choose(&mut emptying, shared, desc) {
                let (id, _) = emptying.block.expect("`choose` has set the block");
                if let Some(destinations) = destinations {
                    destinations.admit(id, 0);
                }
                self.phase = Phase::Emptying(emptying);
            } else {
                self.phase = Phase::Settling;
            }
            return true;
        };
        let destinations = destinations.get_or_insert_with(|| compact.destinations(&self.emptied));
        let planned = into.len();
        emptying.unplaced += compact.reserve_elsewhere(destinations, &mut emptying.queue, limits, into);
        emptying.bytes_since_emptied += into[planned..].iter().map(|reserved| reserved.allocation.size()).sum::<u64>();
        let is_over = emptying.queue.is_empty();
        if is_over {
            self.finish_block(&mut emptying, block, destinations, compact.fact(block.0), desc);
        }
        self.phase = Phase::Emptying(emptying);
        is_over
    }

    /// Ends the emptying of a block after all of its ranges were tried. If all ranges found room, the block is freed
    /// later. Otherwise the block stays, and ranges of other blocks may be moved into it.
    fn finish_block(
        &mut self,
        emptying: &mut Emptying,
        (id, bytes): (BlockId, u64),
        destinations: &mut Destinations,
        facts: Option<BlockFacts>,
        desc: &DefragDesc,
    ) {
        emptying.block = None;
        if std::mem::take(&mut emptying.unplaced) == 0 {
            emptying.bytes_since_emptied = 0;
            self.emptied_blocks.push((id, bytes));
            self.emptied_in_cycle += 1;
            return;
        }
        self.emptied.remove(&id);
        emptying.room_bytes += bytes;
        destinations.admit(id, facts.map_or(0, |facts| facts.largest_free));
        if emptying.bytes_since_emptied > bytes.saturating_mul(desc.bytes_per_byte_won_max.into()) {
            emptying.order.clear();
        }
    }

    /// Chooses the next block that can be emptied, and collects its ranges. Returns `false` if there is no such block.
    fn choose(&mut self, emptying: &mut Emptying, shared: &Shared<D>, desc: &DefragDesc) -> bool {
        let compact = shared.compact(&self.arena);
        while let Some(id) = emptying.order.pop() {
            let Some(BlockFacts { bytes, free, .. }) = compact.fact(id) else { continue };
            let used = bytes - free;
            if emptying.room_bytes < free.saturating_add(used) {
                continue;
            }
            let staying = compact.collect(id, desc.host_memory, &mut emptying.queue);
            if staying > 0 || emptying.queue.is_empty() {
                emptying.queue.clear();
                continue;
            }
            // The queue is used from its end: the largest ranges are placed while there is most room.
            emptying.queue.sort_by_key(|ticket| ticket.allocation().size());
            emptying.room_bytes -= bytes;
            emptying.block = Some((id, bytes));
            self.emptied.insert(id);
            return true;
        }
        false
    }

    /// Once all old ranges are free, finds the fragmented blocks and begins to compact them. If the run does not
    /// compact blocks, ends it. Returns `true` if planning can continue.
    fn find_fragmented(&mut self, shared: &Shared<D>, desc: &DefragDesc, has_planned: bool) -> bool {
        let compact = shared.compact(&self.arena);
        if !desc.compacts || !compact.moves_inside() {
            return false;
        }
        if has_planned || !self.old_ranges.is_empty() {
            self.phase = Phase::Settling;
            return false;
        }
        let mut facts = compact.facts();
        facts.retain(|facts| is_fragmented(facts) && facts.movable_count > 0 && !facts.is_evicted);
        facts.sort_by_key(|facts| facts.free - facts.largest_free);
        let order = facts.iter().map(|facts| (facts.id, 0)).collect();
        self.phase = Phase::Compacting(Compacting { order, round: None, planned: Vec::new(), has_compacted: false });
        true
    }

    /// Reserves new places for the round's queue, begins the next block, or judges the rounds. Returns `true` if
    /// planning can continue.
    fn compact(
        &mut self,
        mut compacting: Compacting,
        shared: &Shared<D>,
        desc: &DefragDesc,
        limits: &mut PassLimits,
        into: &mut Vec<Reserved<D>>,
        statistics: &mut DefragStatistics,
    ) -> bool {
        let goes_on = if let Some(mut round) = compacting.round.take() {
            shared.compact(&self.arena).reserve_below(&mut round.queue, limits, into);
            let is_planned = round.queue.is_empty();
            if is_planned {
                compacting.planned.push(round);
            } else {
                compacting.round = Some(round);
            }
            is_planned
        } else if let Some((block, number)) = compacting.order.pop() {
            compacting.round = self.round(shared, desc, block, number);
            true
        } else {
            // Planned rounds are judged once their moves are made and the device has completed the copies.
            let is_over = into.is_empty() && self.old_ranges.is_empty();
            if is_over {
                let rounds = std::mem::take(&mut compacting.planned);
                compacting.has_compacted |= !rounds.is_empty();
                compacting.order =
                    rounds.iter().filter_map(|round| self.judge(shared, desc, round, statistics)).collect();
                if compacting.order.is_empty() {
                    return self.begin_cycle(compacting.has_compacted);
                }
            }
            is_over
        };
        self.phase = Phase::Compacting(compacting);
        goes_on
    }

    /// Begins another cycle if a block was compacted, because a compacted block has room for larger ranges, and returns
    /// `true`. Ends the run and returns `false` if no block was compacted, if a later cycle than the first emptied no
    /// block, or after `CYCLES_MAX` repeated cycles.
    fn begin_cycle(&mut self, has_compacted: bool) -> bool {
        let goes_on = has_compacted && (self.cycle == 0 || self.emptied_in_cycle > 0) && self.cycle < CYCLES_MAX;
        (self.cycle, self.emptied_in_cycle) = (self.cycle + 1, 0);
        self.phase = if goes_on { Phase::Waiting } else { Phase::Done };
        goes_on
    }

    /// Begins a round in a block, if the block is fragmented.
    fn round(&mut self, shared: &Shared<D>, desc: &DefragDesc, block: BlockId, number: u32) -> Option<Round> {
        let compact = shared.compact(&self.arena);
        let facts = compact.fact(block).filter(is_fragmented)?;
        let mut queue = Vec::new();
        compact.collect(block, desc.host_memory, &mut queue);
        queue.sort_by_key(|ticket| ticket.allocation().offset());
        self.moved_bytes.remove(&block);
        Some(Round { block, number, queue, longest_before: facts.largest_free })
    }

    /// Compares the growth of the longest free range with the moved bytes. Returns the block and the number of its next
    /// round if the growth was worth the copies and the block has rounds left.
    fn judge(
        &self,
        shared: &Shared<D>,
        desc: &DefragDesc,
        round: &Round,
        statistics: &mut DefragStatistics,
    ) -> Option<(BlockId, u32)> {
        let longest = shared.compact(&self.arena).fact(round.block)?.largest_free;
        let won = longest.saturating_sub(round.longest_before);
        let moved = self.moved_bytes.get(&round.block).copied().unwrap_or(0);
        statistics.joined_bytes += won;
        let pays = moved > 0 && won.saturating_mul(desc.bytes_per_byte_won_max.into()) >= moved;
        let next = round.number + 1;
        (pays && next < ROUNDS_MAX).then_some((round.block, next))
    }
}

/// Returns `true` if enough free bytes are outside of the longest free range to be worth a round.
fn is_fragmented(facts: &BlockFacts) -> bool {
    facts.free.saturating_sub(facts.largest_free) >= facts.bytes / COMPACT_SHARE
}

#[cfg(test)]
mod tests;
