//! What a trace tells over time: use by heap, fragmentation, lifetimes. Host memory is bounded, however long the trace.

use std::collections::HashMap;
use std::io::Read;

use ringfence::memory::Snapshot;
use ringfence::trace::{Event, Reader, State, TraceError};

/// Twice as many are thinned to this many.
const MOMENT_COUNT: usize = 1000;
/// Of more lifetimes than twice this, those that took most (bytes × frames) are kept.
const LIFETIME_COUNT: usize = 20_000;

/// A recorded run.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct History {
    /// In order. Where there are more frames than moments, each stands for as many frames as the others.
    pub moments: Vec<Moment>,
    /// Of single ranges, by birth.
    pub lifetimes: Vec<Lifetime>,
    /// Lifetimes that are not listed.
    pub left_out_count: u64,
    /// How long the recording was, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames: how often the program reclaimed.
    pub frame_count: u64,
    /// Events that could be read.
    pub event_count: u64,
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
    /// How much of the free bytes in blocks is not in its block's longest stretch, in hundredths.
    pub fragmentation_percent: f64,
    /// How much of the blocks' bytes is free, in hundredths.
    pub free_percent: f64,
    /// Ranges in use.
    pub live_count: u64,
    /// Ranges that wait for the device.
    pub retired_count: u64,
}

/// A heap at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct HeapMoment {
    /// Bytes that ranges have.
    pub used_bytes: u64,
    /// Bytes of memory objects.
    pub reserved_bytes: u64,
    /// What the driver said that the process may use.
    pub budget_bytes: Option<u64>,
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
    /// In this one its owner let go of it.
    pub let_go: Option<u64>,
    /// In this one it was free again.
    pub freed: Option<u64>,
}

impl Lifetime {
    /// Bytes × frames, given the last frame.
    fn weight(&self, last: u64) -> u128 {
        u128::from(self.bytes) * u128::from(self.freed.unwrap_or(last).saturating_sub(self.born) + 1)
    }
}

impl History {
    /// Reads a trace: its history, and the memory at its end. Of a trace that is cut off or damaged, what could be read;
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
    /// One frame in so many gets a moment.
    stride: u64,
    live: HashMap<(u64, u64), Lifetime>,
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
                let born = Lifetime { name, memory_type, bytes, born: frame, let_go: None, freed: None };
                self.live.insert((*block, *offset), born);
            }
            Event::Retired { block, offset } => {
                if let Some(lifetime) = self.live.get_mut(&(*block, *offset)) {
                    lifetime.let_go = Some(frame);
                }
            }
            Event::Freed { block, offset } => {
                if let Some(lifetime) = self.live.remove(&(*block, *offset)) {
                    self.history.lifetimes.push(Lifetime { freed: Some(frame), ..lifetime });
                    self.keep_heaviest(2 * LIFETIME_COUNT, frame);
                }
            }
            Event::Reclaimed { .. } if self.state.frame_count().is_multiple_of(self.stride) => self.add_moment(),
            _ => {}
        }
    }

    fn add_moment(&mut self) {
        let statistics = self.state.statistics();
        let told = self.state.heaps().iter();
        let mut heaps: Vec<_> =
            told.map(|heap| HeapMoment { budget_bytes: heap.budget_bytes, ..HeapMoment::default() }).collect();
        for (memory_type, held) in (0..).zip(&statistics) {
            let heap = self.state.heap_of(memory_type).and_then(|heap| heaps.get_mut(heap as usize));
            if let Some(heap) = heap {
                heap.used_bytes += held.used_bytes();
                heap.reserved_bytes += held.reserved_bytes();
            }
        }
        let (free, longest) = self.state.free_bytes();
        let blocks: u64 = statistics.iter().map(|held| held.block_bytes).sum();
        self.history.moments.push(Moment {
            frame: self.state.frame_count(),
            elapsed_ns: self.state.elapsed_ns(),
            heaps,
            fragmentation_percent: crate::figures::percent(free - longest, free),
            free_percent: crate::figures::percent(free, blocks),
            live_count: self.state.live_count(),
            retired_count: self.state.retired_count(),
        });
        if self.history.moments.len() >= 2 * MOMENT_COUNT {
            // Those stay whose frame is a multiple of the new stride.
            self.stride *= 2;
            let stride = self.stride;
            self.history.moments.retain(|moment| moment.frame.is_multiple_of(stride));
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

    fn finish(mut self) -> (History, Snapshot) {
        self.add_moment();
        let last = self.state.frame_count().max(1);
        self.history.lifetimes.extend(self.live.drain().map(|(_, lifetime)| lifetime));
        self.keep_heaviest(LIFETIME_COUNT, last);
        self.history.lifetimes.sort_by(|one, other| (one.born, &one.name).cmp(&(other.born, &other.name)));
        self.history.frame_count = self.state.frame_count();
        self.history.elapsed_ns = self.state.elapsed_ns();
        (self.history, self.state.snapshot())
    }
}
