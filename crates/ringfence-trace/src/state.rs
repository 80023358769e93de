//! The state of the memory after each event of a trace.

use std::collections::{BTreeMap, HashMap};

use super::descriptors::{DescriptorUse, Descriptors};
use super::event::Event;
use crate::snapshot::{BlockSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot};
use crate::statistics::{DriverCalls, TypeStatistics};

/// Maximum total size of all blocks, in bytes, so that sums cannot overflow. A block that would exceed it counts as an
/// impossible event.
const HELD_BYTES_MAX: u64 = 1 << 60;

/// A range that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Size of the range, in bytes.
    pub bytes: u64,
    /// Name that the owner of the range has set, or empty.
    pub name: String,
    /// `true` if the owner has released the range and it waits for the device.
    pub is_retired: bool,
}

/// An object in a transient heap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransientObject {
    /// Number of the heap's block.
    pub block: u64,
    /// Offset of the object in the heap, in bytes.
    pub offset: u64,
    /// Size of the object, in bytes. Other objects can be placed in the same bytes.
    pub bytes: u64,
    /// Name of the object at its creation, or empty.
    pub name: String,
}

/// State of an allocator's memory, updated by the events of a trace. An event takes O(log n) for n live objects; if it
/// frees a block or a run of descriptors, the objects in it are removed too. The host memory of the state is
/// proportional to the number of live objects, not to the length of the trace.
#[derive(Clone, Debug, Default)]
pub struct State {
    device: String,
    heaps: Vec<HeapSnapshot>,
    types: Vec<(u32, Vec<String>)>,
    blocks: BTreeMap<u64, Block>,
    rings: BTreeMap<u64, RingSnapshot>,
    /// Statistics of each memory type and class.
    counts: HashMap<(u32, String), TypeStatistics>,
    calls: DriverCalls,
    descriptors: Descriptors,
    transients: BTreeMap<u64, TransientObject>,
    /// Total size of `transients`, in bytes.
    transient_bytes: u64,
    retired_count: u64,
    elapsed_ns: u64,
    frame_count: u64,
    /// Total size of all blocks, in bytes.
    held_bytes: u64,
    /// Highest value of `held_bytes` so far.
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
    /// Creates the state of an allocator without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an event. An impossible event, such as the release of an unknown range, is counted in
    /// [`State::odd_count`]. It is not applied, with three exceptions:
    ///
    /// - a block that is freed with ranges in it;
    /// - a ring with the number of an existing ring;
    /// - a use of frame tables beyond their region.
    ///
    /// A complete trace has no impossible events.
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
            Event::Paged { heap, .. } => self.heaps.get(*heap as usize).is_some(),
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

    /// Applies a move: if the new range has no name, copies the name of the old range. Returns `false` if one of the
    /// ranges does not exist.
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

    /// Returns the range in use that begins at `offset` of `block`; `None` if there is none.
    #[must_use]
    pub fn live(&self, block: u64, offset: u64) -> Option<&Live> {
        self.blocks.get(&block)?.ranges.get(&offset)
    }

    /// Returns the memory type, the size in bytes, and the class of a block; `None` if the block does not exist.
    #[must_use]
    pub fn block(&self, block: u64) -> Option<(u32, u64, &str)> {
        self.blocks.get(&block).map(|held| (held.memory_type, held.bytes, held.class.as_str()))
    }

    /// Returns the statistics of each memory type, by index.
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

    /// Returns the heap index of a memory type; `None` if there is no such memory type.
    #[must_use]
    pub fn heap_of(&self, memory_type: u32) -> Option<u32> {
        self.types.get(memory_type as usize).map(|(heap, _)| *heap)
    }

    /// Returns the heaps, with the usage and budget that the driver has reported last. [`HeapSnapshot::reserved_bytes`]
    /// is 0; [`State::snapshot`] returns its value.
    #[must_use]
    pub fn heaps(&self) -> &[HeapSnapshot] {
        &self.heaps
    }

    /// Returns two sums over the blocks that are not dedicated, in bytes: of all their free bytes, and of the longest
    /// free run of each block. O(ranges).
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

    /// Returns the rings by number, in their states of the last event [`Event::Ring`].
    #[must_use]
    pub fn rings(&self) -> &BTreeMap<u64, RingSnapshot> {
        &self.rings
    }

    /// Returns the objects in transient heaps that are not released, by number. They do not count as ranges: a
    /// transient heap is one range, which contains the bytes of all its objects.
    #[must_use]
    pub fn transient_objects(&self) -> &BTreeMap<u64, TransientObject> {
        &self.transients
    }

    /// Returns the total size of the objects in transient heaps that are not released, in bytes.
    #[must_use]
    pub fn transient_bytes(&self) -> u64 {
        self.transient_bytes
    }

    /// Returns the use of each descriptor allocator (a shader-visible heap, or an allocator of CPU-only heaps), in the
    /// order of their numbers.
    #[must_use]
    pub fn descriptor_uses(&self) -> Vec<DescriptorUse> {
        self.descriptors.uses()
    }

    /// Returns the number of ranges in use, including dedicated memory.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        let held = self.counts.values();
        held.map(|counts| counts.range_count + counts.dedicated_count).sum()
    }

    /// Returns the highest total size of the memory objects so far, in bytes, including dedicated memory.
    #[must_use]
    pub fn reserved_bytes_high_water(&self) -> u64 {
        self.held_bytes_max
    }

    /// Returns the number of ranges that were released and wait for the device.
    #[must_use]
    pub fn retired_count(&self) -> u64 {
        self.retired_count
    }

    /// Returns the time since the recording began, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Returns the number of events [`Event::Reclaimed`] so far. It is the number of frames, if the program calls
    /// `reclaim` once per frame and no request found too little memory.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.frame_count
    }

    /// Returns the number of events so far that contradict the state, such as the release of an unknown range: see
    /// [`State::apply`].
    #[must_use]
    pub fn odd_count(&self) -> u64 {
        self.odd_count
    }

    /// Returns the state as a snapshot. Blocks are ordered by number. The states of the rings are those of the last
    /// `reclaim` or of the end of the trace. The snapshot differs from a snapshot of the allocator as follows:
    ///
    /// - The number of waits for the device, the number of recycled requests and the `user_data` of ranges are 0. The
    ///   names of pools are empty.
    /// - The numbers of driver calls count one object per range, and no objects in transient heaps.
    /// - The high-water mark of ranges does not include the unused slots of chunks for small resources. The high-water
    ///   mark of blocks includes only the time of the recording.
    /// - The count of retired objects does not include small buffers and objects without a range.
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
