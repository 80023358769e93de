//! The state of the descriptor heaps after each event of a trace.

use std::collections::{BTreeMap, BTreeSet};

use super::event::Event;
use crate::snapshot::{DescriptorSnapshot, region};

/// Names of the kinds of descriptors, indexed by the numbers that traces contain.
pub const HEAP_KINDS: [&str; 4] = ["resources", "samplers", "render targets", "depth-stencils"];

/// Maximum capacity of a heap. If it were larger, sums could overflow.
const SLOTS_MAX: u64 = 1 << 40;

/// Use of the slots of one descriptor allocator, in all of its heaps together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescriptorUse {
    /// Number of the descriptor allocator.
    pub owner: u64,
    /// Name of the descriptor allocator.
    pub name: String,
    /// `true` if the allocator's heaps are shader-visible.
    pub shader_visible: bool,
    /// Number of slots of all heaps.
    pub slot_count: u64,
    /// Number of slots in use: allocated, or used by frame tables.
    pub used_count: u64,
    /// Number of slots that frame tables use. `used_count` includes them.
    pub frame_count: u64,
}

/// Descriptor heaps by number. An event takes O(log n) for n runs and bindless entries; the free of a run also takes
/// O(log n) for each entry in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors(BTreeMap<u64, Heap>);

#[derive(Clone, Debug, Default)]
struct Heap {
    owner: u64,
    kind: u32,
    shader_visible: bool,
    capacity: u64,
    frame_capacity: u64,
    name: String,
    /// Allocated runs of slots: the number of slots, by the first slot.
    runs: BTreeMap<u64, u64>,
    /// Number of slots in `runs`.
    given_out: u64,
    /// Slots that contain entries of bindless tables. Each slot is in a run.
    entries: BTreeSet<u64>,
    frame_used: u64,
    frame_used_max: u64,
    tables_made: u64,
    tables_shared: u64,
}

impl Descriptors {
    /// Applies an event. Returns `false` if the event is impossible in this state. An event that does not concern
    /// descriptors changes nothing and returns `true`.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::DescriptorHeap { heap, owner, kind, shader_visible, capacity, frame_capacity, name } => {
                if *capacity > SLOTS_MAX || frame_capacity > capacity {
                    return false;
                }
                let held = self.0.entry(*heap).or_default();
                (held.owner, held.kind, held.shader_visible) = (*owner, *kind, *shader_visible);
                (held.capacity, held.frame_capacity) = (*capacity, *frame_capacity);
                held.name.clone_from(name);
                true
            }
            Event::DescriptorHeapFreed { heap } => self.0.remove(heap).is_some(),
            Event::DescriptorsAllocated { heap, first, count } => {
                self.0.get_mut(heap).is_some_and(|heap| heap.allocate(*first, *count))
            }
            Event::DescriptorsFreed { heap, first, count } => {
                self.0.get_mut(heap).is_some_and(|heap| heap.free(*first, *count))
            }
            Event::DescriptorTables { heap, frame_used, made, shared } => {
                let Some(heap) = self.0.get_mut(heap) else { return false };
                heap.frame_used = *frame_used;
                heap.frame_used_max = heap.frame_used_max.max(*frame_used);
                heap.tables_made = heap.tables_made.saturating_add(*made);
                heap.tables_shared = heap.tables_shared.saturating_add(*shared);
                *frame_used <= heap.frame_capacity
            }
            Event::BindlessInserted { heap, slot } => {
                self.0.get_mut(heap).is_some_and(|heap| heap.run_of(*slot).is_some() && heap.entries.insert(*slot))
            }
            Event::BindlessRemoved { heap, slot } => self.0.get_mut(heap).is_some_and(|heap| heap.entries.remove(slot)),
            _ => true,
        }
    }

    /// Returns the use of the slots of each descriptor allocator. O(heaps).
    pub(super) fn uses(&self) -> Vec<DescriptorUse> {
        let mut uses: BTreeMap<u64, DescriptorUse> = BTreeMap::new();
        for heap in self.0.values() {
            let (owner, name, shader_visible) = (heap.owner, &heap.name, heap.shader_visible);
            let held = uses.entry(owner).or_insert_with(|| DescriptorUse {
                owner,
                name: name.clone(),
                shader_visible,
                ..DescriptorUse::default()
            });
            held.slot_count = held.slot_count.saturating_add(heap.capacity);
            held.used_count = held.used_count.saturating_add(heap.given_out.saturating_add(heap.frame_used));
            held.frame_count = held.frame_count.saturating_add(heap.frame_used);
        }
        uses.into_values().collect()
    }

    /// Returns the regions of all heaps in the order of an allocator's snapshot: first the CPU-only allocators, then
    /// the shader-visible heaps, each ordered by number. The heaps of a CPU-only allocator are one region.
    pub(super) fn snapshot(&self) -> Vec<DescriptorSnapshot> {
        let mut regions = Vec::new();
        let mut cpu_only: BTreeMap<u64, DescriptorSnapshot> = BTreeMap::new();
        for heap in self.0.values() {
            if heap.shader_visible {
                heap.regions(&mut regions);
                continue;
            }
            let sum = cpu_only.entry(heap.owner).or_insert_with(|| heap.region(region::CPU_ONLY));
            sum.slot_count = sum.slot_count.saturating_add(heap.capacity);
            sum.used_count += heap.given_out;
            sum.heap_count += 1;
        }
        cpu_only.into_values().chain(regions).collect()
    }
}

impl Heap {
    /// Returns the first slot and the count of the run that contains `slot`; `None` if the slot is not allocated.
    fn run_of(&self, slot: u64) -> Option<(u64, u64)> {
        let (first, count) = self.runs.range(..=slot).next_back()?;
        (slot - first < *count).then_some((*first, *count))
    }

    fn allocate(&mut self, first: u64, count: u64) -> bool {
        let end = first.saturating_add(count);
        let is_taken = self.run_of(first).is_some() || self.runs.range(first..end).next().is_some();
        if count == 0 || end > self.capacity || first < self.frame_capacity || is_taken {
            return false;
        }
        self.runs.insert(first, count);
        self.given_out += count;
        true
    }

    fn free(&mut self, first: u64, count: u64) -> bool {
        if self.runs.get(&first) != Some(&count) {
            return false;
        }
        self.runs.remove(&first);
        self.given_out -= count;
        // The entries of a bindless table are removed with their run.
        let gone: Vec<u64> = self.entries.range(first..first + count).copied().collect();
        for slot in gone {
            self.entries.remove(&slot);
        }
        true
    }

    fn region(&self, region: &str) -> DescriptorSnapshot {
        let kind = HEAP_KINDS.get(self.kind as usize).unwrap_or(&"unknown");
        DescriptorSnapshot {
            name: self.name.clone(),
            kind: (*kind).to_owned(),
            region: region.into(),
            ..Default::default()
        }
    }

    /// Appends the regions of a shader-visible heap to `into`.
    fn regions(&self, into: &mut Vec<DescriptorSnapshot>) {
        let persistent = DescriptorSnapshot {
            slot_count: self.capacity - self.frame_capacity,
            used_count: self.given_out,
            heap_count: 1,
            ..self.region(region::PERSISTENT)
        };
        let frame = DescriptorSnapshot {
            slot_count: self.frame_capacity,
            used_count: self.frame_used,
            high_water: Some(self.frame_used_max),
            heap_count: 1,
            tables_made: self.tables_made,
            tables_shared: self.tables_shared,
            ..self.region(region::FRAME)
        };
        into.extend([persistent, frame].into_iter().filter(|region| region.slot_count > 0));
        for (first, count) in &self.runs {
            let used_count = self.entries.range(*first..first + count).count() as u64;
            if used_count > 0 {
                let bindless = self.region(region::BINDLESS);
                into.push(DescriptorSnapshot { slot_count: *count, used_count, heap_count: 1, ..bindless });
            }
        }
    }
}
