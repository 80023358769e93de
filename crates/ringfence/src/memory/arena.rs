//! The blocks of one memory type and one resource class.
//!
//! ```text
//!   state (one short lock)                         growth (held while the driver makes a block)
//!   ├ blocks: Blocks<Tlsf, Block>                   taken only by who found every block full,
//!   ├ dedicated: name and size of each              so that whoever fits never waits for the driver
//!   └ counts and high-water marks
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate in a block at hand | O(1) + O(blocks) to keep their order, no driver call |
//! | allocate that needs a block | one driver call, outside the lock of the state |
//! | free | O(1) + O(blocks), no driver call |

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::range::RangeAllocator;
use ringfence_core::tlsf::Tlsf;

use super::shared::Shared;
use super::{BlockSnapshot, RangeSnapshot, TypeStatistics};
use crate::device::{Device, DeviceError, MemoryDesc, ResourceClass};

/// A memory object of the driver and what it was made as.
pub(crate) struct Memory<D: Device> {
    pub(crate) object: D::Memory,
    pub(crate) memory_type: u32,
    pub(crate) size: u64,
    /// Its number in a trace.
    pub(crate) block: u64,
}

/// A block: memory that ranges share, and the names of those that have one.
struct Block<D: Device> {
    memory: Arc<Memory<D>>,
    /// By the range's slot.
    names: HashMap<u32, Box<str>>,
}

/// A request as an arena sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    pub(crate) name: &'a str,
}

/// What an allocation in a block came to.
pub(crate) struct InBlock<D: Device> {
    pub(crate) memory: Arc<Memory<D>>,
    pub(crate) allocation: BlockAllocation,
}

/// Blocks of one memory type and class. See the [module](self).
pub(crate) struct Arena<D: Device> {
    pub(crate) memory_type: u32,
    pub(crate) class: ResourceClass,
    /// With which blocks are made, in bytes: enough for whatever may be placed in them.
    memory_alignment: u64,
    sizes: BlockSizes,
    state: Mutex<State<D>>,
    growth: Mutex<()>,
}

struct State<D: Device> {
    blocks: Blocks<Tlsf, Block<D>>,
    dedicated: HashMap<u64, (u64, Box<str>)>,
    dedicated_made: u64,
    counts: TypeStatistics,
}

/// How large the blocks of an arena are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSizes {
    /// The first block's bytes.
    pub(crate) first: u64,
    /// What blocks grow to, doubling.
    pub(crate) max: u64,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 16;
    const LEAST: u64 = 64 << 10;

    /// Blocks for a heap of this size: an eighth of it at the most, the first one a sixteenth of the largest.
    pub(crate) fn for_heap(heap_bytes: u64, object_bytes_max: u64, wanted_max: u64) -> Self {
        let largest = wanted_max.min(heap_bytes / 8).min(object_bytes_max).max(Self::LEAST);
        let max = 1 << largest.ilog2();
        Self { first: (max / Self::FIRST_PER_MAX).max(Self::LEAST), max }
    }

    /// What to try for a request when `count` blocks are held: the present size, then less, down to what it needs.
    fn tries(self, count: usize, need: u64) -> impl Iterator<Item = u64> {
        let present = self.first.checked_shl(count.min(32) as u32).unwrap_or(self.max).min(self.max);
        let wanted = present.max(need.next_power_of_two().min(self.max)).max(need);
        let halves = (0..4).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need);
        halves.take(4)
    }
}

impl<D: Device> Arena<D> {
    pub(crate) fn new(
        memory_type: u32,
        class: ResourceClass,
        memory_alignment: u64,
        sizes: BlockSizes,
        desc: BlocksDesc,
    ) -> Self {
        let state = State {
            blocks: Blocks::new(desc),
            dedicated: HashMap::new(),
            dedicated_made: 0,
            counts: TypeStatistics::default(),
        };
        Self { memory_type, class, memory_alignment, sizes, state: Mutex::new(state), growth: Mutex::new(()) }
    }

    /// Whether a request is small enough to share a block with others.
    pub(crate) fn shares(&self, size: u64) -> bool {
        size <= self.sizes.max / 2
    }

    /// A range in a block at hand, or in a new one.
    pub(crate) fn allocate(&self, shared: &Shared<D>, request: Request<'_>) -> Result<InBlock<D>, DeviceError> {
        if let Some(found) = self.state.lock().allocate(request) {
            return Ok(found);
        }
        let _growing = self.growth.lock();
        if let Some(found) = self.state.lock().allocate(request) {
            return Ok(found);
        }
        let memory = self.make_block(shared, request)?;
        shared.trace_block(&memory, self.class, false);
        Ok(self.state.lock().insert_and_allocate(memory, request))
    }

    /// Asks the driver for a block that holds the request. Only the growth lock is held.
    fn make_block(&self, shared: &Shared<D>, request: Request<'_>) -> Result<Memory<D>, DeviceError> {
        let count = self.state.lock().blocks.block_count();
        let mut result = Err(DeviceError::OutOfDeviceMemory);
        for size in self.sizes.tries(count, request.size) {
            result = shared.allocate_memory(&MemoryDesc {
                memory_type: self.memory_type,
                size,
                alignment: request.alignment.max(self.memory_alignment),
                class: self.class,
                name: "",
            });
            match result {
                Err(error) if error.is_out_of_memory() => {}
                _ => break,
            }
        }
        result
    }

    /// Gives a range back. Its block's memory must not be held by the caller any more.
    pub(crate) fn free(&self, allocation: BlockAllocation) {
        let mut state = self.state.lock();
        state.free(allocation);
    }

    /// Notes memory of a resource's own; the number finds it again.
    pub(crate) fn add_dedicated(&self, size: u64, name: &str) -> u64 {
        let mut state = self.state.lock();
        state.dedicated_made += 1;
        let number = state.dedicated_made;
        state.dedicated.insert(number, (size, name.into()));
        state.counts.dedicated_count += 1;
        state.counts.dedicated_bytes += size;
        number
    }

    /// Forgets memory of a resource's own.
    pub(crate) fn remove_dedicated(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some((size, _)) = state.dedicated.remove(&number) {
            state.counts.dedicated_count -= 1;
            state.counts.dedicated_bytes -= size;
        }
    }

    /// An empty block that has been so for long enough, taken out to be freed.
    pub(crate) fn take_surplus(&self, tick: u64) -> Option<Memory<D>> {
        let mut state = self.state.lock();
        let (_, block) = state.blocks.take_surplus(tick)?;
        Some(state.taken_out(block))
    }

    /// An empty block, however short it has been so, taken out to be freed.
    pub(crate) fn take_empty(&self) -> Option<Memory<D>> {
        let mut state = self.state.lock();
        let (_, block) = state.blocks.take_empty()?;
        Some(state.taken_out(block))
    }

    pub(crate) fn statistics(&self) -> TypeStatistics {
        self.state.lock().counts
    }

    pub(crate) fn snapshot(&self, class_name: &str, into: &mut Vec<BlockSnapshot>) {
        let state = self.state.lock();
        for (_, block, ranges) in state.blocks.iter() {
            let mut held = BlockSnapshot {
                memory_type: self.memory_type,
                class: class_name.to_owned(),
                dedicated: false,
                bytes: block.memory.size,
                ranges: Vec::with_capacity(ranges.live_count()),
            };
            ranges.for_each_span(&mut |span| {
                if let Some(slot) = span.slot {
                    let name = block.names.get(&slot).map_or("", |name| name).to_owned();
                    held.ranges.push(RangeSnapshot { offset: span.offset, bytes: span.size, name });
                }
            });
            into.push(held);
        }
        let mut dedicated: Vec<_> = state.dedicated.iter().collect();
        dedicated.sort_by_key(|(number, _)| **number);
        into.extend(dedicated.into_iter().map(|(_, (size, name))| BlockSnapshot {
            memory_type: self.memory_type,
            class: class_name.to_owned(),
            dedicated: true,
            bytes: *size,
            ranges: vec![RangeSnapshot { offset: 0, bytes: *size, name: name.to_string() }],
        }));
    }

    /// Checks the blocks and the counts against each other.
    pub(crate) fn validate(&self) -> Result<(), ringfence_core::range::Invalid> {
        let state = self.state.lock();
        state.blocks.validate()?;
        let (mut bytes, mut used, mut count) = (0, 0, 0);
        for (_, block, ranges) in state.blocks.iter() {
            bytes += block.memory.size;
            used += ranges.capacity() - ranges.free_size();
            count += ranges.live_count() as u64;
        }
        let counts = &state.counts;
        let rule = ringfence_core::range::Invalid::unless;
        rule(counts.block_bytes == bytes, "block_bytes is the sum of the blocks", bytes)?;
        rule(counts.range_bytes == used, "range_bytes is the sum of the used spans", used)?;
        rule(counts.range_count == count, "range_count counts the live ranges", count)
    }
}

impl<D: Device> State<D> {
    fn allocate(&mut self, request: Request<'_>) -> Option<InBlock<D>> {
        let allocation = self.blocks.try_allocate(request.size, request.alignment).ok()?;
        Some(self.count_in(allocation, request))
    }

    fn insert_and_allocate(&mut self, memory: Memory<D>, request: Request<'_>) -> InBlock<D> {
        let size = memory.size;
        self.counts.block_count += 1;
        self.counts.block_bytes += size;
        self.counts.block_bytes_high_water = self.counts.block_bytes_high_water.max(self.counts.block_bytes);
        let block = Block { memory: Arc::new(memory), names: HashMap::new() };
        let id = self.blocks.insert(block, Tlsf::new(size));
        let allocation = self
            .blocks
            .allocate_in(id, request.size, request.alignment)
            .expect("a new block holds what it was made for");
        self.count_in(allocation, request)
    }

    fn count_in(&mut self, allocation: BlockAllocation, request: Request<'_>) -> InBlock<D> {
        self.counts.range_count += 1;
        self.counts.range_bytes += allocation.size();
        self.counts.range_bytes_high_water = self.counts.range_bytes_high_water.max(self.counts.range_bytes);
        let block = self.blocks.heap_mut(allocation.block()).expect("an allocation's block is held");
        if !request.name.is_empty() {
            block.names.insert(allocation.range().slot(), request.name.into());
        }
        InBlock { memory: Arc::clone(&block.memory), allocation }
    }

    fn free(&mut self, allocation: BlockAllocation) {
        if let Some(block) = self.blocks.heap_mut(allocation.block()) {
            block.names.remove(&allocation.range().slot());
        }
        // The owner is move-only, so that its range is live: a refusal is a defect of this library.
        self.blocks.free(&allocation).expect("a resource's range is live until it is given back");
        self.counts.range_count -= 1;
        self.counts.range_bytes -= allocation.size();
    }

    fn taken_out(&mut self, block: Block<D>) -> Memory<D> {
        self.counts.block_count -= 1;
        self.counts.block_bytes -= block.memory.size;
        Arc::into_inner(block.memory).expect("whoever frees the last range lets go of the memory first")
    }
}
