//! The memory as it was after any event of a trace.

use std::collections::{BTreeMap, HashMap};

use super::descriptors::{DescriptorUse, Descriptors};
use super::event::Event;
use crate::snapshot::{BlockSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot};
use crate::statistics::{DriverCalls, TypeStatistics};

/// More bytes than this no device has: what would bring them there cannot be, and sums could overflow.
const HELD_BYTES_MAX: u64 = 1 << 60;

/// A range that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Bytes.
    pub bytes: u64,
    /// The name that its owner gave it; empty for none.
    pub name: String,
    /// Whether its owner has released it; it waits for the device.
    pub is_retired: bool,
}

/// An object in a transient heap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransientObject {
    /// The heap's block.
    pub block: u64,
    /// First byte in the heap.
    pub offset: u64,
    /// Bytes, which others may share.
    pub bytes: u64,
    /// The name that it was made with; empty for none.
    pub name: String,
}

/// Follows a trace. O(log ranges) an event; host memory grows with what is in memory, not with the trace.
#[derive(Clone, Debug, Default)]
pub struct State {
    device: String,
    heaps: Vec<HeapSnapshot>,
    types: Vec<(u32, Vec<String>)>,
    blocks: BTreeMap<u64, Block>,
    rings: BTreeMap<u64, RingSnapshot>,
    /// By memory type and class, as the allocator counts.
    counts: HashMap<(u32, String), TypeStatistics>,
    calls: DriverCalls,
    descriptors: Descriptors,
    transients: BTreeMap<u64, TransientObject>,
    /// The sum of their bytes.
    transient_bytes: u64,
    retired_count: u64,
    elapsed_ns: u64,
    frame_count: u64,
    /// Bytes of all blocks.
    held_bytes: u64,
    /// The most that they ever were.
    held_bytes_max: u64,
    odd_count: u64,
}

#[derive(Clone, Debug)]
struct Block {
    memory_type: u32,
    dedicated: bool,
    bytes: u64,
    class: String,
    ranges: BTreeMap<u64, Live>,
}

impl State {
    /// Nothing in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What follows from `event`. An event that cannot be, as the end of a range that never began, changes nothing and
    /// is counted in [`State::odd_count`]: a whole trace has none.
    pub fn apply(&mut self, event: &Event) {
        let is_possible = match event {
            Event::Device { name } => {
                self.device.clone_from(name);
                true
            }
            Event::Heap { bytes, device_local } => {
                self.heaps.push(HeapSnapshot { bytes: *bytes, device_local: *device_local, ..Default::default() });
                true
            }
            Event::Type { heap, properties } => {
                self.types.push((*heap, properties.clone()));
                true
            }
            Event::Time { elapsed_ns } => {
                self.elapsed_ns = self.elapsed_ns.saturating_add(*elapsed_ns);
                true
            }
            Event::Budget { heap, usage_bytes, budget_bytes } => self.budget(*heap, *usage_bytes, *budget_bytes),
            Event::Reclaimed { .. } => {
                self.frame_count += 1;
                true
            }
            Event::BlockMade { block, memory_type, dedicated, bytes, class } => {
                self.block_made(*block, *memory_type, *dedicated, *bytes, class)
            }
            Event::BlockFreed { block } => self.block_freed(*block),
            Event::Allocated { block, offset, bytes, name, .. } => self.allocated(*block, *offset, *bytes, name),
            Event::Retired { block, offset } => self.retired(*block, *offset),
            Event::Freed { block, offset } => self.freed(*block, *offset),
            Event::Named { block, offset, name } => match self.live_mut(*block, *offset) {
                Some(live) => {
                    live.name.clone_from(name);
                    true
                }
                None => false,
            },
            Event::Moved { from_block, from_offset, to_block, to_offset } => {
                self.moved((*from_block, *from_offset), (*to_block, *to_offset))
            }
            Event::Staged { writes, .. } => {
                self.calls.staged = self.calls.staged.saturating_add(*writes);
                true
            }
            Event::RingMade { ring, name } => {
                let made = RingSnapshot { name: name.clone(), ..Default::default() };
                self.rings.insert(*ring, made).is_none()
            }
            Event::Ring { ring, figures } => match self.rings.get_mut(ring) {
                Some(held) => {
                    let name = std::mem::take(&mut held.name);
                    *held = RingSnapshot { name, ..*figures };
                    true
                }
                None => false,
            },
            Event::RingGone { ring } => self.rings.remove(ring).is_some(),
            Event::TransientMade { object, block, offset, bytes, name } => {
                let made = TransientObject { block: *block, offset: *offset, bytes: *bytes, name: name.clone() };
                self.transient_made(*object, made)
            }
            Event::TransientReleased { object } => match self.transients.remove(object) {
                Some(gone) => {
                    self.transient_bytes -= gone.bytes;
                    true
                }
                None => false,
            },
            other => self.descriptors.apply(other),
        };
        self.odd_count += u64::from(!is_possible);
    }

    fn budget(&mut self, heap: u32, usage_bytes: u64, budget_bytes: u64) -> bool {
        let Some(heap) = self.heaps.get_mut(heap as usize) else { return false };
        (heap.usage_bytes, heap.budget_bytes) = (Some(usage_bytes), Some(budget_bytes));
        true
    }

    fn block_made(&mut self, block: u64, memory_type: u32, dedicated: bool, bytes: u64, class: &str) -> bool {
        let held_bytes = self.held_bytes.saturating_add(bytes);
        if self.blocks.contains_key(&block) || held_bytes > HELD_BYTES_MAX {
            return false;
        }
        self.held_bytes = held_bytes;
        self.held_bytes_max = self.held_bytes_max.max(held_bytes);
        let counts = self.counts.entry((memory_type, class.to_owned())).or_default();
        if dedicated {
            counts.dedicated_count += 1;
            counts.dedicated_bytes += bytes;
        } else {
            counts.block_count += 1;
            counts.block_bytes += bytes;
            counts.block_bytes_high_water = counts.block_bytes_high_water.max(counts.block_bytes);
        }
        self.calls.allocate_memory += 1;
        let made = Block { memory_type, dedicated, bytes, class: class.to_owned(), ranges: BTreeMap::new() };
        self.blocks.insert(block, made);
        true
    }

    fn block_freed(&mut self, block: u64) -> bool {
        let Some(gone) = self.blocks.remove(&block) else { return false };
        self.held_bytes -= gone.bytes;
        let counts = self.counts.entry((gone.memory_type, gone.class)).or_default();
        if gone.dedicated {
            counts.dedicated_count -= 1;
            counts.dedicated_bytes -= gone.bytes;
        } else {
            counts.block_count -= 1;
            counts.block_bytes -= gone.bytes;
        }
        self.calls.free_memory += 1;
        gone.ranges.is_empty()
    }

    fn allocated(&mut self, block: u64, offset: u64, bytes: u64, name: &str) -> bool {
        let Some(held) = self.blocks.get_mut(&block) else { return false };
        let before = held.ranges.range(..=offset).next_back();
        let after = held.ranges.range(offset..).next();
        let end = offset.saturating_add(bytes);
        let overlaps = before.is_some_and(|(start, live)| start + live.bytes > offset)
            || after.is_some_and(|(start, _)| *start < end)
            || end > held.bytes;
        if overlaps {
            return false;
        }
        if !held.dedicated {
            let counts = self.counts.entry((held.memory_type, held.class.clone())).or_default();
            counts.range_count += 1;
            counts.range_bytes += bytes;
            counts.range_bytes_high_water = counts.range_bytes_high_water.max(counts.range_bytes);
            self.calls.placed += 1;
        }
        held.ranges.insert(offset, Live { bytes, name: name.to_owned(), is_retired: false });
        self.calls.create_object += 1;
        true
    }

    fn transient_made(&mut self, object: u64, made: TransientObject) -> bool {
        let heap_bytes = self.blocks.get(&made.block).map_or(0, |held| held.bytes);
        let is_inside = made.offset.checked_add(made.bytes).is_some_and(|end| end <= heap_bytes);
        let sum = self.transient_bytes.checked_add(made.bytes);
        let (true, Some(sum), false) = (is_inside, sum, self.transients.contains_key(&object)) else { return false };
        self.transient_bytes = sum;
        self.transients.insert(object, made);
        true
    }

    fn live_mut(&mut self, block: u64, offset: u64) -> Option<&mut Live> {
        self.blocks.get_mut(&block)?.ranges.get_mut(&offset)
    }

    fn retired(&mut self, block: u64, offset: u64) -> bool {
        match self.live_mut(block, offset) {
            Some(live) if !live.is_retired => {
                live.is_retired = true;
                self.retired_count += 1;
                true
            }
            _ => false,
        }
    }

    fn freed(&mut self, block: u64, offset: u64) -> bool {
        let Some(held) = self.blocks.get_mut(&block) else { return false };
        let Some(live) = held.ranges.remove(&offset) else { return false };
        if !held.dedicated {
            let counts = self.counts.entry((held.memory_type, held.class.clone())).or_default();
            counts.range_count -= 1;
            counts.range_bytes -= live.bytes;
        }
        self.retired_count -= u64::from(live.is_retired);
        self.calls.destroy_object += 1;
        true
    }

    /// The name goes along; the old range has none of its own any more.
    fn moved(&mut self, from: (u64, u64), to: (u64, u64)) -> bool {
        if self.live(to.0, to.1).is_none() {
            return false;
        }
        let Some(old) = self.live_mut(from.0, from.1) else { return false };
        let name = old.name.clone();
        if let Some(new) = self.live_mut(to.0, to.1).filter(|new| new.name.is_empty()) {
            new.name = name;
        }
        true
    }

    /// A range that is in use.
    #[must_use]
    pub fn live(&self, block: u64, offset: u64) -> Option<&Live> {
        self.blocks.get(&block)?.ranges.get(&offset)
    }

    /// Memory type, size and class of a block that is held.
    #[must_use]
    pub fn block(&self, block: u64) -> Option<(u32, u64, &str)> {
        self.blocks.get(&block).map(|held| (held.memory_type, held.bytes, held.class.as_str()))
    }

    /// Use by memory type: the sums over its classes.
    #[must_use]
    pub fn statistics(&self) -> Vec<TypeStatistics> {
        let mut types = vec![TypeStatistics::default(); self.types.len()];
        for ((memory_type, _), counts) in &self.counts {
            if let Some(sum) = types.get_mut(*memory_type as usize) {
                sum.add(counts);
            }
        }
        types
    }

    /// The heap of a memory type.
    #[must_use]
    pub fn heap_of(&self, memory_type: u32) -> Option<u32> {
        self.types.get(memory_type as usize).map(|(heap, _)| *heap)
    }

    /// Heaps, with what the driver said of them last. What the allocator holds of each is in [`State::snapshot`].
    #[must_use]
    pub fn heaps(&self) -> &[HeapSnapshot] {
        &self.heaps
    }

    /// Free bytes of the blocks that ranges share, and the longest stretch of them in each block, summed up. O(ranges).
    #[must_use]
    pub fn free_bytes(&self) -> (u64, u64) {
        let shared = self.blocks.values().filter(|block| !block.dedicated);
        shared.fold((0, 0), |(free, longest), block| {
            let (mut end, mut gaps, mut gap_max) = (0, 0, 0);
            for (offset, live) in &block.ranges {
                (gaps, gap_max) = (gaps + offset - end, gap_max.max(offset - end));
                end = offset + live.bytes;
            }
            (free + gaps + block.bytes - end, longest + gap_max.max(block.bytes - end))
        })
    }

    /// Rings by number, as they were at the last [`Event::Reclaimed`].
    #[must_use]
    pub fn rings(&self) -> &BTreeMap<u64, RingSnapshot> {
        &self.rings
    }

    /// Objects in transient heaps that were not released, by number. They share their heap's bytes: none is a range.
    #[must_use]
    pub fn transient_objects(&self) -> &BTreeMap<u64, TransientObject> {
        &self.transients
    }

    /// The bytes of all objects in transient heaps, each counted for itself.
    #[must_use]
    pub fn transient_bytes(&self) -> u64 {
        self.transient_bytes
    }

    /// Descriptor heaps that shaders see, and allocators of CPU-only ones: each as a whole, in the order of their
    /// numbers.
    #[must_use]
    pub fn descriptor_uses(&self) -> Vec<DescriptorUse> {
        self.descriptors.uses()
    }

    /// Ranges that are in use.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        let held = self.counts.values();
        held.map(|counts| counts.range_count + counts.dedicated_count).sum()
    }

    /// The most bytes that memory objects ever had at once, dedicated ones included.
    #[must_use]
    pub fn reserved_bytes_high_water(&self) -> u64 {
        self.held_bytes_max
    }

    /// Resources that wait for the device.
    #[must_use]
    pub fn retired_count(&self) -> u64 {
        self.retired_count
    }

    /// Since recording began, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// How often the program has reclaimed: its frames, if it does so once a frame.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.frame_count
    }

    /// Events that could not be.
    #[must_use]
    pub fn odd_count(&self) -> u64 {
        self.odd_count
    }

    /// The memory as the allocator's own snapshot would have shown it, blocks in the order in
    /// which they were made, rings as they were at the last `reclaim` or at the trace's end; without the count of waits
    /// and what users noted of ranges, which a trace does not hold. Its calls count one object a range: what lies in
    /// transient heaps and the like is not among them. The high-water mark of ranges counts ranges alone, not the
    /// chunks that small ones may come from; that of blocks begins with the trace. Names of pools, and what waits of
    /// small buffers and of objects alone, are not in a trace.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let types = self.types.iter().zip(self.statistics()).map(|((heap, properties), statistics)| TypeSnapshot {
            heap: *heap,
            properties: properties.clone(),
            statistics,
        });
        let types: Vec<_> = types.collect();
        let mut heaps = self.heaps.clone();
        for held in &types {
            if let Some(heap) = heaps.get_mut(held.heap as usize) {
                heap.reserved_bytes += held.statistics.reserved_bytes();
            }
        }
        let blocks = self.blocks.iter().map(|(number, block)| BlockSnapshot {
            number: *number,
            pool: String::new(),
            memory_type: block.memory_type,
            class: block.class.clone(),
            dedicated: block.dedicated,
            bytes: block.bytes,
            ranges: block
                .ranges
                .iter()
                .map(|(offset, live)| RangeSnapshot {
                    offset: *offset,
                    bytes: live.bytes,
                    name: live.name.clone(),
                    user_data: 0,
                })
                .collect(),
        });
        Snapshot {
            version: 1,
            device: self.device.clone(),
            heaps,
            types,
            blocks: blocks.collect(),
            rings: self.rings.values().cloned().collect(),
            descriptors: self.descriptors.snapshot(),
            retired_count: self.retired_count,
            calls: self.calls,
        }
    }
}
