//! What a trace shows over time: use by heap, fragmentation, lifetimes. Host memory is bounded, however long the trace.

mod peaks;

use std::collections::HashMap;
use std::io::Read;

use ringfence_trace::{Event, PlannedRange, Reader, Snapshot, State, TraceError};

pub use peaks::{DescriptorMoment, HeapMoment, RingMoment};
use peaks::{Peaks, fold};

/// Twice as many are thinned to this many.
const MOMENT_COUNT: usize = 1000;
/// Of more lifetimes than twice this, those that took most (bytes × frames) are kept.
const LIFETIME_COUNT: usize = 20_000;
/// Of more plans of frames, the last ones are kept.
const PLAN_COUNT: usize = 4;
/// How many objects in transient heaps are listed, at most.
const TRANSIENT_COUNT: usize = 500;
/// How much of what was left is listed, at most.
const LEFT_COUNT: usize = 50;

/// A recorded run.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct History {
    /// In order. Where there are more frames than moments, each stands for as many frames as the others.
    pub moments: Vec<Moment>,
    /// Of single ranges, by birth.
    pub lifetimes: Vec<Lifetime>,
    /// Lifetimes that are not listed.
    pub left_out_count: u64,
    /// What was still owned at the end: how many ranges.
    #[serde(default)]
    pub left_count: u64,
    /// Their bytes.
    #[serde(default)]
    pub left_bytes: u64,
    /// The oldest of them, the larger ones of a frame first.
    #[serde(default)]
    pub oldest_left: Vec<Lifetime>,
    /// How long the recording was, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames: how often the program reclaimed.
    pub frame_count: u64,
    /// Events that could be read.
    pub event_count: u64,
    /// The most bytes that memory objects had at once, dedicated ones included; 0 if it was not looked at.
    #[serde(default)]
    pub reserved_bytes_high_water: u64,
    /// Names of the rings, in the order of [`Moment::rings`].
    #[serde(default)]
    pub rings: Vec<String>,
    /// Names of the heaps of descriptors that shaders see, and of the allocators of CPU-only ones, in the order of
    /// [`Moment::descriptors`].
    #[serde(default)]
    pub descriptors: Vec<String>,
    /// Objects that were made in transient heaps.
    #[serde(default)]
    pub transient_made_count: u64,
    /// Those of them that were there at the end, by heap and offset; of many the first ones.
    #[serde(default)]
    pub transients: Vec<TransientRow>,
    /// How many were there at the end.
    #[serde(default)]
    pub transient_count: u64,
    /// The last plans of frames' transient memory, a heap each.
    #[serde(default)]
    pub plans: Vec<FramePlan>,
    /// Plans that were made in all.
    #[serde(default)]
    pub plan_count: u64,
    /// Ranges whose content was moved.
    #[serde(default)]
    pub move_count: u64,
    /// Their bytes.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Why only a part of the trace could be read.
    pub damage: Option<String>,
}

/// The memory at the end of a frame.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Moment {
    /// The frame's number, from 1.
    pub frame: u64,
    /// Since the beginning, in nanoseconds.
    pub elapsed_ns: u64,
    /// By heap.
    pub heaps: Vec<HeapMoment>,
    /// How much of the free bytes in blocks is not in its block's longest stretch, in per cent.
    pub fragmentation_percent: f64,
    /// How much of the blocks' bytes is free, in per cent.
    pub free_percent: f64,
    /// Ranges in use.
    pub live_count: u64,
    /// Ranges that wait for the device.
    pub retired_count: u64,
    /// By ring, in the order of [`History::rings`]; later ones are missing where they were not there yet.
    #[serde(default)]
    pub rings: Vec<RingMoment>,
    /// By heap or allocator of descriptors, in the order of [`History::descriptors`]; as with rings.
    #[serde(default)]
    pub descriptors: Vec<DescriptorMoment>,
    /// Objects in transient heaps.
    #[serde(default)]
    pub transient_count: u64,
    /// Their bytes, each counted for itself: more than the heaps have, where they share.
    #[serde(default)]
    pub transient_bytes: u64,
}

/// The layout of a frame's transient memory in one heap.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FramePlan {
    /// The frame for which it was made.
    pub frame: u64,
    /// The plan's number; heaps of one frame have the same.
    pub plan: u64,
    /// The heap of the plan, counted from 0.
    #[serde(default)]
    pub heap: u64,
    /// Bytes of the heap.
    pub height_bytes: u64,
    /// Bytes below which no plan can be, as far as was proven.
    pub lower_bound_bytes: u64,
    /// Passes of the frame.
    pub pass_count: u64,
    /// What lies in the heap.
    pub rows: Vec<FramePlanRow>,
}

/// A resource in a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FramePlanRow {
    /// Its name.
    pub name: String,
    /// The first pass that uses it.
    pub first_pass: u64,
    /// The first pass after all that use it.
    pub end_pass: u64,
    /// First byte in the heap.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl From<&PlannedRange> for FramePlanRow {
    fn from(held: &PlannedRange) -> Self {
        let PlannedRange { first_pass, end_pass, offset, bytes, ref name } = *held;
        Self { name: name.clone(), first_pass, end_pass, offset, bytes }
    }
}

/// An object in a transient heap.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TransientRow {
    /// The name that it was made with.
    pub name: String,
    /// The heap's block.
    pub block: u64,
    /// First byte in the heap.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// In this frame it was made.
    pub born: u64,
}

/// A range from its beginning to its end, in frames.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Lifetime {
    /// Its owner's name for it.
    pub name: String,
    /// Its memory type.
    pub memory_type: u32,
    /// Bytes.
    pub bytes: u64,
    /// In this frame it was allocated.
    pub born: u64,
    /// In this one its owner retired it.
    pub retired: Option<u64>,
    /// In this one it was free again.
    pub freed: Option<u64>,
}

impl Lifetime {
    /// Bytes × frames, given the last frame.
    fn weight(&self, last: u64) -> u128 {
        u128::from(self.bytes) * (u128::from(self.freed.unwrap_or(last).saturating_sub(self.born)) + 1)
    }
}

impl History {
    /// Reads a trace: its history, and the memory at its end. Of a trace that is cut off or damaged, what could be
    /// read;
    /// [`History::damage`] says why that is not all.
    ///
    /// # Errors
    /// It is no trace, of another version, or the file cannot be read.
    pub fn read(trace: impl Read) -> Result<(Self, Snapshot), TraceError> {
        let mut reading = Reading { stride: 1, ..Reading::default() };
        for event in Reader::new(trace)? {
            match event {
                Ok(event) => reading.apply(&event),
                Err(TraceError::Io(error)) => return Err(error.into()),
                Err(error) => reading.history.damage = Some(error.to_string()),
            }
        }
        Ok(reading.finish())
    }
}

#[derive(Default)]
struct Reading {
    state: State,
    history: History,
    /// One frame in this number gets a moment.
    stride: u64,
    live: HashMap<(u64, u64), Lifetime>,
    /// By heap, the most at the ends of frames since the last moment.
    heaps: Vec<HeapMoment>,
    rings: Peaks<RingMoment>,
    descriptors: Peaks<DescriptorMoment>,
    /// Whether descriptors changed since they were looked at.
    descriptors_changed: bool,
    /// The last plan's number, and which heap of it was recorded last.
    heap_of_plan: Option<(u64, u64)>,
    /// Of each object in a transient heap the frame in which it was made.
    transients_born: HashMap<u64, u64>,
}

impl Reading {
    fn apply(&mut self, event: &Event) {
        self.history.event_count += 1;
        self.state.apply(event);
        let frame = self.state.frame_count() + 1;
        match event {
            Event::Allocated { block, offset, bytes, name, .. } => {
                let memory_type = self.state.block(*block).map_or(0, |(memory_type, ..)| memory_type);
                let (name, bytes) = (name.clone(), *bytes);
                let born = Lifetime { name, memory_type, bytes, born: frame, retired: None, freed: None };
                self.live.insert((*block, *offset), born);
            }
            Event::Retired { block, offset } => {
                if let Some(lifetime) = self.live.get_mut(&(*block, *offset)) {
                    lifetime.retired = Some(frame);
                }
            }
            Event::Freed { block, offset } => {
                if let Some(lifetime) = self.live.remove(&(*block, *offset)) {
                    self.history.lifetimes.push(Lifetime { freed: Some(frame), ..lifetime });
                    self.keep_heaviest(2 * LIFETIME_COUNT, frame);
                }
            }
            Event::Named { block, offset, name } => {
                if let Some(lifetime) = self.live.get_mut(&(*block, *offset)) {
                    lifetime.name.clone_from(name);
                }
            }
            Event::Moved { from_block, from_offset, to_block, to_offset } => {
                self.moved((*from_block, *from_offset), (*to_block, *to_offset));
            }
            Event::RingMade { ring, name } => {
                self.rings.add(*ring);
                self.history.rings.push(name.clone());
            }
            Event::Ring { ring, figures } => {
                let (used_bytes, capacity_bytes) = (figures.used_bytes, figures.capacity_bytes);
                self.rings.now(*ring, RingMoment { used_bytes, capacity_bytes });
            }
            Event::RingGone { ring } => self.rings.now(*ring, RingMoment::default()),
            Event::DescriptorHeap { .. }
            | Event::DescriptorHeapFreed { .. }
            | Event::DescriptorsAllocated { .. }
            | Event::DescriptorsFreed { .. }
            | Event::DescriptorTables { .. } => self.descriptors_changed = true,
            Event::TransientMade { object, .. } => {
                self.history.transient_made_count += 1;
                self.transients_born.insert(*object, frame);
            }
            Event::TransientReleased { object } => _ = self.transients_born.remove(object),
            Event::Planned { plan, height_bytes, lower_bound_bytes, pass_count, resources } => {
                let rows = resources.iter().map(FramePlanRow::from).collect();
                let (plan, pass_count) = (*plan, *pass_count);
                let (height_bytes, lower_bound_bytes) = (*height_bytes, *lower_bound_bytes);
                self.history.plan_count += 1;
                let heap = self.heap_of_plan.filter(|(of, _)| *of == plan).map_or(0, |(_, heap)| heap + 1);
                self.heap_of_plan = Some((plan, heap));
                if self.history.plans.len() == PLAN_COUNT {
                    self.history.plans.remove(0);
                }
                let made = FramePlan { frame, plan, heap, height_bytes, lower_bound_bytes, pass_count, rows };
                self.history.plans.push(made);
            }
            Event::Reclaimed { .. } => {
                self.end_frame();
                if self.state.frame_count().is_multiple_of(self.stride) {
                    self.add_moment();
                }
            }
            _ => {}
        }
    }

    fn end_frame(&mut self) {
        let mut heaps = self.heaps_now();
        fold(&mut heaps, &self.heaps);
        self.heaps = heaps;
        self.look_at_descriptors();
        self.rings.settle();
        self.descriptors.settle();
    }

    fn look_at_descriptors(&mut self) {
        if !std::mem::take(&mut self.descriptors_changed) {
            return;
        }
        let uses = self.state.descriptor_uses();
        self.descriptors.keep(|number| uses.binary_search_by_key(&number, |held| held.owner).is_ok());
        for held in uses {
            if !self.descriptors.knows(held.owner) {
                self.descriptors.add(held.owner);
                self.history.descriptors.push(held.name);
            }
            let (used_count, frame_count, slot_count) = (held.used_count, held.frame_count, held.slot_count);
            self.descriptors.now(held.owner, DescriptorMoment { used_count, frame_count, slot_count });
        }
    }

    /// One life goes on at another place; what is freed there is bytes, not the resource.
    fn moved(&mut self, from: (u64, u64), to: (u64, u64)) {
        let Some(old) = self.live.remove(&from) else { return };
        self.history.move_count += 1;
        self.history.moved_bytes = self.history.moved_bytes.saturating_add(old.bytes);
        if let Some(new) = self.live.get_mut(&to) {
            *new = Lifetime { memory_type: new.memory_type, bytes: new.bytes, ..old };
        }
    }

    fn heaps_now(&self) -> Vec<HeapMoment> {
        let recorded = self.state.heaps().iter();
        let mut heaps: Vec<_> =
            recorded.map(|heap| HeapMoment { budget_bytes: heap.budget_bytes, ..HeapMoment::default() }).collect();
        for (memory_type, held) in (0..).zip(&self.state.statistics()) {
            let heap = self.state.heap_of(memory_type).and_then(|heap| heaps.get_mut(heap as usize));
            if let Some(heap) = heap {
                heap.used_bytes += held.used_bytes();
                heap.reserved_bytes += held.reserved_bytes();
            }
        }
        heaps
    }

    fn add_moment(&mut self) {
        let statistics = self.state.statistics();
        let (free, longest) = self.state.free_bytes();
        let blocks: u64 = statistics.iter().map(|held| held.block_bytes).sum();
        self.history.moments.push(Moment {
            frame: self.state.frame_count(),
            elapsed_ns: self.state.elapsed_ns(),
            heaps: std::mem::take(&mut self.heaps),
            fragmentation_percent: crate::figures::percent(free - longest, free),
            free_percent: crate::figures::percent(free, blocks),
            live_count: self.state.live_count(),
            retired_count: self.state.retired_count(),
            rings: self.rings.take(),
            descriptors: self.descriptors.take(),
            transient_count: self.state.transient_objects().len() as u64,
            transient_bytes: self.state.transient_bytes(),
        });
        if self.history.moments.len() >= 2 * MOMENT_COUNT {
            // Those stay whose frame is a multiple of the new stride.
            self.stride *= 2;
            let stride = self.stride;
            let mut dropped = (Vec::new(), Vec::new(), Vec::new());
            self.history.moments.retain_mut(|moment| {
                // No peak is lost: it is that of the next moment that stays.
                fold(&mut moment.heaps, &dropped.0);
                fold(&mut moment.rings, &dropped.1);
                fold(&mut moment.descriptors, &dropped.2);
                let stays = moment.frame.is_multiple_of(stride);
                dropped = Default::default();
                if !stays {
                    std::mem::swap(&mut moment.heaps, &mut dropped.0);
                    std::mem::swap(&mut moment.rings, &mut dropped.1);
                    std::mem::swap(&mut moment.descriptors, &mut dropped.2);
                }
                stays
            });
        }
    }

    fn keep_heaviest(&mut self, count_max: usize, last: u64) {
        let lifetimes = &mut self.history.lifetimes;
        if lifetimes.len() > count_max {
            lifetimes.sort_by_cached_key(|lifetime| std::cmp::Reverse(lifetime.weight(last)));
            self.history.left_out_count += (lifetimes.len() - LIFETIME_COUNT) as u64;
            lifetimes.truncate(LIFETIME_COUNT);
        }
    }

    /// Before lifetimes are thinned: it is to be what the snapshot holds.
    fn count_left(&mut self) {
        let mut left: Vec<&Lifetime> = self.live.values().filter(|one| one.retired.is_none()).collect();
        left.sort_by_key(|one| (one.born, std::cmp::Reverse(one.bytes), &one.name));
        self.history.left_count = left.len() as u64;
        self.history.left_bytes = left.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        self.history.oldest_left = left.into_iter().take(LEFT_COUNT).cloned().collect();
    }

    fn list_transients(&mut self) {
        let objects = self.state.transient_objects();
        let mut rows: Vec<_> = objects
            .iter()
            .map(|(number, held)| TransientRow {
                name: held.name.clone(),
                block: held.block,
                offset: held.offset,
                bytes: held.bytes,
                born: self.transients_born.get(number).copied().unwrap_or(0),
            })
            .collect();
        rows.sort_by(|a, b| (a.block, a.offset, a.born, &a.name).cmp(&(b.block, b.offset, b.born, &b.name)));
        self.history.transient_count = rows.len() as u64;
        rows.truncate(TRANSIENT_COUNT);
        self.history.transients = rows;
    }

    fn finish(mut self) -> (History, Snapshot) {
        self.end_frame();
        self.add_moment();
        self.list_transients();
        let last = self.state.frame_count().max(1);
        self.count_left();
        self.history.lifetimes.extend(self.live.drain().map(|(_, lifetime)| lifetime));
        self.keep_heaviest(LIFETIME_COUNT, last);
        self.history.lifetimes.sort_by(|one, other| (one.born, &one.name).cmp(&(other.born, &other.name)));
        self.history.frame_count = self.state.frame_count();
        self.history.reserved_bytes_high_water = self.state.reserved_bytes_high_water();
        // Where as much is missing as is there twice, the counts agree.
        let odd_count = self.state.odd_count();
        if odd_count > 0 && self.history.damage.is_none() {
            self.history.damage = Some(format!("{odd_count} of its events cannot follow those before them"));
        }
        self.history.elapsed_ns = self.state.elapsed_ns();
        (self.history, self.state.snapshot())
    }
}
