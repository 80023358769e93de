//! The interface of an arena for defragmentation: the state of its blocks, the ranges that may be moved, and new ranges
//! for them. Every call takes the arena's lock at most once, and makes no driver call under it. A reserved range is
//! allocated like any other, and belongs to the planned move.
//!
//! | call | under the lock |
//! |---|---|
//! | `facts` | O(blocks) |
//! | `collect` | O(ranges of the block that have a record) |
//! | `destinations` | O(blocks); O(blocks log blocks) after it |
//! | `reserve_elsewhere` | O(log blocks) for each move and for each refusal; a block refuses at most 9 requests in a pass |
//! | `reserve_below` | O(log blocks) for each move |
//! | `take_block` | the removal of a block |
//! | the others | O(1) |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ringfence_core::algorithm::{Algorithm, Cutter};
use ringfence_core::blocks::{BlockAllocation, BlockId};
use ringfence_core::fit_tree::FitTree;
use ringfence_core::range::RangeAllocator;

use super::{Arena, State};
use crate::block_memory::BlockMemory;
use crate::device::Device;
use crate::memory_object::Memory;
use crate::request::{RangeInfo, Request};
use crate::residence::ResidencyState;
use ringfence_lockfree::ticket::{Moves, Standing, Ticket};

/// Number of bytes and moves that a pass may still plan.
#[derive(Clone, Copy, Debug)]
pub struct PassLimits {
    bytes: u64,
    moves: usize,
    is_untouched: bool,
}

impl PassLimits {
    /// Creates the limits of a pass: at most `bytes`, but at least one move of any size, and at most `moves`.
    pub fn new(bytes: u64, moves: usize) -> Self {
        Self { bytes, moves: moves.max(1), is_untouched: true }
    }

    /// Returns `true` if a move of `bytes` is within the limits.
    pub fn allow(&self, bytes: u64) -> bool {
        self.moves > 0 && (bytes <= self.bytes || self.is_untouched)
    }

    /// Subtracts a move of `bytes`.
    pub fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.moves -= 1;
        self.is_untouched = false;
    }

    /// Returns `true` if no further move is possible.
    pub fn is_over(&self) -> bool {
        self.moves == 0 || (self.bytes == 0 && !self.is_untouched)
    }
}

/// Figures of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockFacts {
    /// The block.
    pub id: BlockId,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of free bytes.
    pub free: u64,
    /// Size of the largest free range, in bytes.
    pub largest_free: u64,
    /// Number of ranges in use.
    pub live_count: usize,
    /// Number of ranges that have a ticket.
    pub movable_count: usize,
    /// `true` if the memory is evicted.
    pub is_evicted: bool,
}

/// A range that is reserved for a move.
pub struct Reserved<D: Device> {
    /// The ticket of the range to move.
    pub ticket: Arc<Ticket>,
    /// Name of the range to move.
    pub name: Box<str>,
    /// Residency state of its present memory, if this can be evicted.
    pub from_residence: Option<Arc<ResidencyState<D>>>,
    /// Memory of the destination.
    pub memory: BlockMemory<D>,
    /// The reserved range.
    pub allocation: BlockAllocation,
}

/// The blocks that ranges can be moved into: their state at the beginning of a pass, updated by the pass's
/// reservations.
pub struct Destinations {
    tree: FitTree,
    /// The blocks, by leaf of `tree`.
    blocks: Vec<BlockId>,
    /// By leaf of `tree`: number of requests that the block refused although it seemed to have room.
    refusals: Vec<u8>,
    leaves: HashMap<BlockId, usize>,
}

/// Number of refusals of a block in a pass after which the next refusal excludes the block. So a pass does not try all
/// blocks for every range.
const REFUSALS_MAX: u8 = 8;

impl Destinations {
    /// Sets the size of the largest free range of a block, in bytes. If it is 0, no range is moved into the block.
    pub fn admit(&mut self, block: BlockId, largest_free: u64) {
        if let Some(leaf) = self.leaves.get(&block) {
            self.tree.set(*leaf, largest_free);
        }
    }
}

/// An arena, independent of its algorithm.
pub trait Compact<D: Device> {
    /// Returns the figures of all blocks.
    fn facts(&self) -> Vec<BlockFacts>;

    /// Returns the figures of a block. Returns `None` if the block was removed.
    fn fact(&self, block: BlockId) -> Option<BlockFacts>;

    /// Returns `true` if the algorithm can move ranges within a block.
    fn moves_inside(&self) -> bool;

    /// Returns `true` if the order of ranges has a meaning in the algorithm. Ranges must then not be moved.
    fn is_ordered(&self) -> bool;

    /// Collects the ranges of a block that may be moved. Returns the number of ranges that will stay in the block.
    fn collect(&self, block: BlockId, with_host: bool, into: &mut Vec<Arc<Ticket>>) -> usize;

    /// Returns the blocks that ranges may be moved into, the fullest first, without empty and evicted blocks. The
    /// blocks in `emptied` are included, but accept no range until [`Destinations::admit`].
    fn destinations(&self, emptied: &HashSet<BlockId>) -> Destinations;

    /// Reserves ranges in the destinations for the tickets of `queue`, from its end, until `limits` are reached.
    /// Removes tried tickets from the queue. Returns the number of tickets for which no block had room.
    fn reserve_elsewhere(
        &self,
        destinations: &mut Destinations,
        queue: &mut Vec<Arc<Ticket>>,
        limits: &mut PassLimits,
        into: &mut Vec<Reserved<D>>,
    ) -> usize;

    /// Reserves ranges at lower offsets of the same block for the tickets of `queue`, from its end, until `limits` are
    /// reached. Removes tried tickets from the queue.
    fn reserve_below(&self, queue: &mut Vec<Arc<Ticket>>, limits: &mut PassLimits, into: &mut Vec<Reserved<D>>);

    /// Creates a ticket for the reserved range `allocation`, which from now on replaces the range of `ticket`.
    fn renew(&self, ticket: &Ticket, allocation: BlockAllocation) -> Arc<Ticket>;

    /// Returns `true` if the range is in use.
    fn is_live(&self, allocation: &BlockAllocation) -> bool;

    /// Takes out a block, if it exists and is empty.
    fn take_block(&self, block: BlockId) -> Option<Memory<D>>;
}

impl<D: Device, A: Cutter, O> Compact<D> for Arena<D, A, O> {
    fn facts(&self) -> Vec<BlockFacts> {
        let state = self.state.lock();
        state.blocks.iter().map(|(id, block, ranges)| facts(id, block, ranges)).collect()
    }

    fn fact(&self, id: BlockId) -> Option<BlockFacts> {
        let state = self.state.lock();
        state.blocks.get(id).map(|(block, ranges)| facts(id, block, ranges))
    }

    fn moves_inside(&self) -> bool {
        self.desc.algorithm == Algorithm::Tlsf
    }

    fn is_ordered(&self) -> bool {
        self.desc.algorithm == Algorithm::Linear
    }

    fn collect(&self, block: BlockId, with_host: bool, into: &mut Vec<Arc<Ticket>>) -> usize {
        let state = self.state.lock();
        let Some((held, ranges)) = state.blocks.get(block) else { return 0 };
        let mut leaving = 0;
        let before = into.len();
        for ticket in held.infos.values().filter_map(|info| info.ticket.as_ref()) {
            match ticket.standing(with_host) {
                Standing::Free => into.push(Arc::clone(ticket)),
                Standing::Leaving => leaving += 1,
                Standing::Stays => {}
            }
        }
        ranges.live_count() - leaving - (into.len() - before)
    }

    fn destinations(&self, emptied: &HashSet<BlockId>) -> Destinations {
        let mut held: Vec<_> = {
            let state = self.state.lock();
            let blocks = state.blocks.iter();
            let blocks = blocks.filter(|(_, block, ranges)| !ranges.is_empty() && !block.memory.is_evicted());
            blocks.map(|(id, _, ranges)| (ranges.free_size(), id, ranges.largest_free())).collect()
        };
        held.sort_by_key(|(free, ..)| *free);
        let capacity = |(_, id, largest): &(u64, BlockId, u64)| if emptied.contains(id) { 0 } else { *largest };
        let tree = FitTree::new(held.iter().map(capacity));
        let blocks: Vec<_> = held.iter().map(|(_, id, _)| *id).collect();
        let leaves = blocks.iter().enumerate().map(|(leaf, id)| (*id, leaf)).collect();
        Destinations { tree, refusals: vec![0; blocks.len()], blocks, leaves }
    }

    fn reserve_elsewhere(
        &self,
        destinations: &mut Destinations,
        queue: &mut Vec<Arc<Ticket>>,
        limits: &mut PassLimits,
        into: &mut Vec<Reserved<D>>,
    ) -> usize {
        let mut state = self.state.lock();
        let mut unfit = 0;
        while let Some(ticket) = queue.last() {
            if !limits.allow(ticket.allocation().size()) {
                break;
            }
            if ticket.take() {
                if let Some(allocation) = state.allocate_among(destinations, ticket) {
                    limits.take(allocation.size());
                    into.push(state.reserved(Arc::clone(ticket), allocation));
                } else {
                    ticket.put_back();
                    unfit += 1;
                }
            }
            queue.pop();
        }
        unfit
    }

    fn reserve_below(&self, queue: &mut Vec<Arc<Ticket>>, limits: &mut PassLimits, into: &mut Vec<Reserved<D>>) {
        let mut state = self.state.lock();
        while let Some(ticket) = queue.last() {
            let from = *ticket.allocation();
            let (size, alignment) = (from.size(), ticket.alignment());
            if !limits.allow(size) {
                return;
            }
            let ticket = queue.pop().expect("the queue is not empty");
            if !ticket.take() {
                continue;
            }
            let below = |ranges: &mut A| ranges.allocate_below(size, alignment, from.offset());
            match state.blocks.allocate_in_by(from.block(), below) {
                Some(allocation) => {
                    limits.take(size);
                    into.push(state.reserved(ticket, allocation));
                }
                None => ticket.put_back(),
            }
        }
    }

    fn renew(&self, ticket: &Ticket, allocation: BlockAllocation) -> Arc<Ticket> {
        let renewed = Arc::new(ticket.renewed(allocation));
        let mut state = self.state.lock();
        let block = state.blocks.heap_mut(allocation.block()).expect("a block with a live range exists");
        block.movable_count += 1;
        block.infos.entry(allocation.range().slot()).or_default().ticket = Some(Arc::clone(&renewed));
        renewed
    }

    fn is_live(&self, allocation: &BlockAllocation) -> bool {
        self.state.lock().blocks.is_live(allocation)
    }

    fn take_block(&self, block: BlockId) -> Option<Memory<D>> {
        let mut state = self.state.lock();
        let block = state.blocks.remove_empty(block)?;
        Some(state.count_removed(block))
    }
}

fn facts<D: Device>(id: BlockId, block: &super::Block<D>, ranges: &impl RangeAllocator) -> BlockFacts {
    BlockFacts {
        id,
        bytes: block.memory.size,
        free: ranges.free_size(),
        largest_free: ranges.largest_free(),
        live_count: ranges.live_count(),
        movable_count: block.movable_count,
        is_evicted: block.memory.is_evicted(),
    }
}

impl<D: Device, A: Cutter> State<D, A> {
    /// Allocates in the first destination that has room.
    fn allocate_among(&mut self, destinations: &mut Destinations, ticket: &Ticket) -> Option<BlockAllocation> {
        let (size, alignment) = (ticket.allocation().size(), ticket.alignment());
        loop {
            let leaf = destinations.tree.first(size)?;
            let id = destinations.blocks[leaf];
            let granted = self.blocks.allocate_in(id, size, alignment);
            // The block has no aligned free range of this size (perhaps another thread has allocated it since), so the
            // block gets no further request of this size.
            let left = match granted {
                Ok(_) => self.blocks.get(id).map_or(0, |(_, ranges)| ranges.largest_free()),
                Err(_) if destinations.refusals[leaf] == REFUSALS_MAX => 0,
                Err(_) => {
                    destinations.refusals[leaf] += 1;
                    size - 1
                }
            };
            destinations.tree.set(leaf, left);
            if let Ok(allocation) = granted {
                return Some(allocation);
            }
        }
    }

    /// Counts the new range, and records it with the name, user data and flags of the old one.
    fn reserved(&mut self, ticket: Arc<Ticket>, allocation: BlockAllocation) -> Reserved<D> {
        let from = self.blocks.get(ticket.allocation().block()).map(|(block, _)| block);
        let info = from.and_then(|block| block.infos.get(&ticket.allocation().range().slot()));
        let RangeInfo { name, user_data, evictable, .. } = info.cloned().unwrap_or_default();
        let from_residence = from.and_then(|block| block.memory.residence.clone());
        let (size, alignment) = (allocation.size(), ticket.alignment());
        let request = Request { size, alignment, high: false, moves: Moves::Never, evictable, name: &name, user_data };
        let memory = self.count_in(allocation, request).memory;
        Reserved { ticket, name, from_residence, memory, allocation }
    }
}
