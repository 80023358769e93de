//! The history that a trace records: usage by heap, fragmentation and lifetimes. The numbers of moments, lifetimes and
//! plans are limited, so that host memory does not grow with the number of frames.

mod peaks;

use std::collections::HashMap;
use std::io::Read;

use ringfence_trace::{Event, PlannedRange, Reader, Snapshot, State, TraceError};

pub use peaks::{DescriptorMoment, HeapMoment, RingMoment};
use peaks::{Peaks, fold};

/// Number of moments that are kept when moments are thinned. They are thinned when there are twice as many.
const MOMENT_COUNT: usize = 1000;
/// Number of lifetimes that are kept when lifetimes are thinned. They are thinned when there are more than twice as
/// many, and at the end of the trace. Those with the most bytes × frames are kept.
const LIFETIME_COUNT: usize = 20_000;
/// Number of plans that are kept: the latest ones. Each is the plan of one heap.
const PLAN_COUNT: usize = 4;
/// Maximum number of objects in transient heaps that are listed.
const TRANSIENT_COUNT: usize = 500;
/// Maximum number of ranges in use at the end that are listed.
const LEFT_COUNT: usize = 50;

/// The history of a recorded run.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct History {
    /// Moments, in order. If the run has too many frames, each moment stands for several frames: the last one for the
    /// remaining frames, all others for the same number of frames.
    pub moments: Vec<Moment>,
    /// Lifetimes of ranges, ordered by the frame of their allocation.
    pub lifetimes: Vec<Lifetime>,
    /// Number of lifetimes that are not in `lifetimes`, because there were too many.
    pub left_out_count: u64,
    /// Number of ranges that had an owner at the end.
    #[serde(default)]
    pub left_count: u64,
    /// Total size of the ranges that had an owner at the end, in bytes.
    #[serde(default)]
    pub left_bytes: u64,
    /// The oldest ranges that had an owner at the end, at most 50; ranges of the same frame are ordered by size, the
    /// largest first.
    #[serde(default)]
    pub oldest_left: Vec<Lifetime>,
    /// Duration of the recording, in nanoseconds.
    pub elapsed_ns: u64,
    /// Number of frames: the number of events [`Event::Reclaimed`](ringfence_trace::Event::Reclaimed).
    pub frame_count: u64,
    /// Number of events that could be read.
    pub event_count: u64,
    /// Largest total size of the driver's memory objects, dedicated ones included, in bytes; 0 if unknown.
    #[serde(default)]
    pub reserved_bytes_high_water: u64,
    /// Names of the rings, in the order of [`Moment::rings`].
    #[serde(default)]
    pub rings: Vec<String>,
    /// Names of the shader-visible descriptor heaps and of the allocators of CPU-only descriptors, in the order of
    /// [`Moment::descriptors`].
    #[serde(default)]
    pub descriptors: Vec<String>,
    /// Number of objects that were created in transient heaps.
    #[serde(default)]
    pub transient_made_count: u64,
    /// Objects that existed in transient heaps at the end, ordered by heap and offset, at most 500.
    #[serde(default)]
    pub transients: Vec<TransientRow>,
    /// Number of objects that existed in transient heaps at the end.
    #[serde(default)]
    pub transient_count: u64,
    /// The latest plans of transient frames, at most 4. Each entry is the plan of one heap.
    #[serde(default)]
    pub plans: Vec<FramePlan>,
    /// Number of plans in the whole trace, counted as in `plans`: one for each heap.
    #[serde(default)]
    pub plan_count: u64,
    /// Number of moves of ranges by defragmentation.
    #[serde(default)]
    pub move_count: u64,
    /// Total size of the moved ranges, in bytes.
    #[serde(default)]
    pub moved_bytes: u64,
    /// The reason why only a part of the trace could be read, or the contradiction between its events; `None` if there
    /// is neither.
    pub damage: Option<String>,
}

/// The memory at the end of a frame. If a moment stands for several frames, the figures of heaps, rings and descriptors
/// are maxima over these frames.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Moment {
    /// Number of the frame, from 1; 0 if the trace has no frame.
    pub frame: u64,
    /// Time since the start of the recording, in nanoseconds.
    pub elapsed_ns: u64,
    /// Figures of each heap.
    pub heaps: Vec<HeapMoment>,
    /// Share of the blocks' free bytes that is outside the longest free range of its block, in per cent.
    pub fragmentation_percent: f64,
    /// Share of the blocks' bytes that is free, in per cent.
    pub free_percent: f64,
    /// Number of ranges in use.
    pub live_count: u64,
    /// Number of ranges that wait for the device.
    pub retired_count: u64,
    /// Figures of each ring, in the order of [`History::rings`]. The list ends before the first ring that did not exist
    /// yet.
    #[serde(default)]
    pub rings: Vec<RingMoment>,
    /// Figures of each descriptor heap or allocator, in the order of [`History::descriptors`]. The list ends before the
    /// first one that did not exist yet.
    #[serde(default)]
    pub descriptors: Vec<DescriptorMoment>,
    /// Number of objects in transient heaps.
    #[serde(default)]
    pub transient_count: u64,
    /// Total size of these objects, in bytes. It can exceed the size of their heaps, because objects share memory.
    #[serde(default)]
    pub transient_bytes: u64,
}

/// The layout of a frame's transient memory in one heap.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FramePlan {
    /// Number of the frame in which the plan was recorded.
    pub frame: u64,
    /// Number of the plan. All heaps of one frame have the same number.
    pub plan: u64,
    /// Index of the heap in the plan, from 0.
    #[serde(default)]
    pub heap: u64,
    /// Size of the heap, in bytes.
    pub height_bytes: u64,
    /// Proven lower bound of the size of the heap, in bytes.
    pub lower_bound_bytes: u64,
    /// Number of passes in the frame.
    pub pass_count: u64,
    /// The resources in the heap.
    pub rows: Vec<FramePlanRow>,
}

/// A resource in a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FramePlanRow {
    /// Name of the resource.
    pub name: String,
    /// Number of the first pass that uses the resource.
    pub first_pass: u64,
    /// Number of the pass after the last pass that uses the resource.
    pub end_pass: u64,
    /// Offset in the heap, in bytes.
    pub offset: u64,
    /// Size, in bytes.
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
    /// Name of the object at its creation.
    pub name: String,
    /// Number of the block that is the heap.
    pub block: u64,
    /// Offset in the heap, in bytes.
    pub offset: u64,
    /// Size, in bytes.
    pub bytes: u64,
    /// Number of the frame in which the object was created.
    pub born: u64,
}

/// The lifetime of a range, in frames.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Lifetime {
    /// Name of the range, as its owner has set it.
    pub name: String,
    /// Index of the memory type.
    pub memory_type: u32,
    /// Size, in bytes.
    pub bytes: u64,
    /// Number of the frame in which the range was allocated.
    pub born: u64,
    /// Number of the frame in which the owner released the range; `None` if it did not.
    pub retired: Option<u64>,
    /// Number of the frame in which the range was freed; `None` if it was not.
    pub freed: Option<u64>,
}

impl Lifetime {
    /// Returns bytes × frames. If the range was not freed, frame `last` is its end.
    fn weight(&self, last: u64) -> u128 {
        u128::from(self.bytes) * (u128::from(self.freed.unwrap_or(last).saturating_sub(self.born)) + 1)
    }
}

impl History {
    /// Reads a trace. Returns its history, and a snapshot of the memory at its end. If the trace is truncated or
    /// damaged, the result covers the readable part, and [`History::damage`] is the reason.
    ///
    /// # Errors
    /// The file is not a trace, has an unknown version, ends inside its header, or cannot be read.
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
    /// Number of frames for which one moment stands.
    stride: u64,
    live: HashMap<(u64, u64), Lifetime>,
    /// For each heap, the maxima at the ends of frames since the previous moment.
    heaps: Vec<HeapMoment>,
    /// For each heap, the bytes of paged resources that are not on the device.
    away_bytes: HashMap<u32, u64>,
    rings: Peaks<RingMoment>,
    descriptors: Peaks<DescriptorMoment>,
    /// `true` if a descriptor event came after the last computation of the descriptor figures.
    descriptors_changed: bool,
    /// Number of the last plan, and the index of the last recorded heap of this plan.
    heap_of_plan: Option<(u64, u64)>,
    /// For each object in a transient heap, the frame in which it was created.
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
            Event::Paged { heap, away_bytes, .. } => _ = self.away_bytes.insert(*heap, *away_bytes),
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

    /// Continues the lifetime of a moved range at the new location. When the old location is freed later, no lifetime
    /// ends.
    fn moved(&mut self, from: (u64, u64), to: (u64, u64)) {
        let Some(old) = self.live.remove(&from) else { return };
        self.history.move_count += 1;
        self.history.moved_bytes = self.history.moved_bytes.saturating_add(old.bytes);
        if let Some(new) = self.live.get_mut(&to) {
            *new = Lifetime { memory_type: new.memory_type, bytes: new.bytes, ..old };
        }
    }

    fn heaps_now(&self) -> Vec<HeapMoment> {
        let recorded = (0..).zip(self.state.heaps()).map(|(index, heap)| {
            let away_bytes = self.away_bytes.get(&index).copied().unwrap_or(0);
            HeapMoment { budget_bytes: heap.budget_bytes, away_bytes, ..HeapMoment::default() }
        });
        let mut heaps: Vec<_> = recorded.collect();
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
            // A moment is kept if its frame is a multiple of the new stride.
            self.stride *= 2;
            let stride = self.stride;
            let mut dropped = (Vec::new(), Vec::new(), Vec::new());
            self.history.moments.retain_mut(|moment| {
                // The peaks of a removed moment are added to the next moment that is kept.
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

    /// Counts the ranges that have an owner at the end. Called before lifetimes are thinned, because the counts must
    /// match the snapshot.
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
        // If as many events are missing as are duplicated, the number of events is right. Therefore contradictions
        // between events are reported too.
        let odd_count = self.state.odd_count();
        if odd_count > 0 && self.history.damage.is_none() {
            self.history.damage = Some(format!("{odd_count} of its events contradict the events before them"));
        }
        self.history.elapsed_ns = self.state.elapsed_ns();
        (self.history, self.state.snapshot())
    }
}
