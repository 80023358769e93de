//! Recording of the allocator's events in a trace.
//!
//! ```text
//!   Event ──▶ on ──▶ Recorder of `ringfence-trace`: appended under one short lock, written where no lock is held
//! ```

use std::io::{self, Write};

use ringfence_trace::{Chunk, Event, Recorder, TraceSummary};

use crate::device::lock::is_locked;
use crate::device::{Capabilities, HeapBudget, HeapBudgets};
use crate::event::{Event as Observed, RangeId};
use crate::watched::Watched;

/// The reason why no recording was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartTraceError {
    /// A trace is already being recorded.
    #[error("a trace is already being recorded: stop it first")]
    Recording,
    /// Descriptor heaps exist already. A trace that begins later could not show which of their descriptors are in use.
    #[error("descriptor heaps already exist: start the trace before the allocator creates anything")]
    DescriptorHeaps,
    /// Memory objects exist already. A trace that begins later could not show their contents.
    #[error("{memory_objects} memory objects already exist: start the trace before the allocator creates anything")]
    NotEmpty {
        /// Number of existing memory objects.
        memory_objects: u64,
    },
    /// The beginning of the trace could not be written.
    #[error("the trace cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// An allocator's trace.
#[derive(Debug)]
pub struct Trace(Recorder);

impl Trace {
    pub(crate) fn new() -> Self {
        Self(Recorder::new())
    }

    /// Returns `true` while a trace is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_on()
    }

    /// Begins the recording with the device's heaps and memory types.
    ///
    /// # Errors
    /// A trace is already being recorded, or its beginning could not be written.
    pub fn start(&self, to: Box<dyn Write + Send>, capabilities: &Capabilities) -> Result<(), StartTraceError> {
        let started = self.0.start(to, |chunk| push_device(chunk, capabilities));
        Ok(started.ok_or(StartTraceError::Recording)??)
    }

    /// Ends the recording. Returns `None` if no trace was recorded. Waits for a write that is under way on another
    /// thread.
    ///
    /// # Errors
    /// A part could not be written, or the call was made inside a write of the trace.
    pub fn stop(&self) -> Option<io::Result<TraceSummary>> {
        self.0.stop()
    }

    /// Writes the collected events, if a write is due. Does nothing while this thread holds a lock: the write runs the
    /// program's code.
    pub fn write_due(&self) {
        if !is_locked() {
            self.0.write_due();
        }
    }

    /// Adds an event to the trace, if a trace is recorded.
    #[inline(always)]
    pub(crate) fn on<M: Watched>(&self, event: &Observed<'_, M>) {
        if self.is_on() {
            self.add(event);
        }
    }

    #[cold]
    fn add<M: Watched>(&self, event: &Observed<'_, M>) {
        let own = |range: &RangeId| !range.key.is_small;
        self.0.push(&match event {
            Observed::Recorded(event) => return self.0.push(event),
            Observed::Staged { writes, bytes } => Event::Staged { writes: *writes, bytes: *bytes },
            Observed::Named { range, name } if own(range) => {
                Event::Named { block: range.key.block, offset: range.begin, name: *name }
            }
            Observed::Moved { from, to, .. } => Event::Moved {
                from_block: from.key.block,
                from_offset: from.begin,
                to_block: to.key.block,
                to_offset: to.begin,
            },
            Observed::Retired(range) if own(range) => Event::Retired { block: range.key.block, offset: range.begin },
            Observed::Freed(range) if own(range) => Event::Freed { block: range.key.block, offset: range.begin },
            _ => return,
        });
    }

    /// Records the end of a `reclaim`. If a record of the budgets is due, calls `budgets` while no lock is held,
    /// because `budgets` calls the driver.
    pub fn reclaimed(
        &self,
        completed: impl Iterator<Item = u64>,
        (objects, blocks): (usize, usize),
        budgets: impl FnOnce() -> HeapBudgets,
    ) {
        if !self.is_on() {
            return;
        }
        let completed = (0..).zip(completed).map(|(timeline, value)| Event::Completed { timeline, value });
        let reclaimed = Event::Reclaimed { objects: objects as u64, blocks: blocks as u64 };
        if self.0.frame(completed.chain([reclaimed])) {
            for (heap, HeapBudget { usage_bytes, budget_bytes }) in (0..).zip(budgets()) {
                self.0.push(&Event::Budget { heap, usage_bytes, budget_bytes });
            }
        }
    }
}

fn push_device(chunk: &mut Chunk, capabilities: &Capabilities) {
    chunk.push(&Event::Device { name: &capabilities.name });
    for heap in &capabilities.memory_heaps {
        chunk.push(&Event::<&str>::Heap { bytes: heap.bytes, device_local: heap.device_local });
    }
    for held in &capabilities.memory_types {
        let properties = held.properties.iter_names().map(|(name, _)| name).collect();
        chunk.push(&Event::Type { heap: held.heap, properties });
    }
}

#[cfg(test)]
mod tests;
