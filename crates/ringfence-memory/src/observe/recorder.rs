//! Writing a trace while the program runs.
//!
//! Two locks, each held for some nanoseconds: `events` guards the buffer that hooks append to, `output` guards what is
//! written to. To write, a thread takes that out, swaps the buffers under `events`, and writes with no lock held:
//! chunks come in order, as only one thread has it, and no hook waits for the file.
//!
//! ```text
//!   output   Idle ──start──▶ Out ──the beginning is written──▶ Ready ──write_due, stop──▶ Out ──▶ Ready, or Idle
//! ```
//!
//! What is written to is the program's code. It may call in: what it allocates is recorded; a stop or a start by the
//! write itself is refused. If it panics, that is a write that failed. Hooks never write, since they run under locks:
//! what is due is written by [`Trace::write_due`], where no lock is held.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use ringfence_trace::{Chunk, Event, TraceSummary, Writer};

use super::debugging::Watched;
use super::unlocked::{contain, is_locked};
use super::{Event as Observed, RangeId};
use crate::device::{Capabilities, HeapBudget, HeapBudgets};

/// A chunk is written when so much has gathered,
const CHUNK_BYTES: usize = 64 << 10;
/// or, by a call of `reclaim`, so long after the last one,
const CHUNK_AGE_MAX: Duration = Duration::from_millis(250);
/// or, where nothing is reclaimed, by what is released once there is so much.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// The clock is read once in this number of events, and with each frame.
const EVENTS_PER_TIME: u32 = 64;
/// The driver is asked for budgets that often at the most.
const BUDGET_EVERY: Duration = Duration::from_millis(100);

/// Why no recording was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartTraceError {
    /// One is under way.
    #[error("a trace is being recorded already")]
    Recording,
    /// A trace that begins in the middle could not say which descriptors are in use.
    #[error("descriptor heaps exist already: a trace begins with an allocator that has made nothing")]
    DescriptorHeaps,
    /// A trace that begins in the middle could not say what is in memory.
    #[error("{memory_objects} memory objects exist already: a trace begins with an allocator that has made nothing")]
    NotEmpty {
        /// Memory objects that exist.
        memory_objects: u64,
    },
    /// The beginning could not be written.
    #[error("the trace cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// An allocator's switch for recording, and what is being recorded.
pub struct Trace {
    is_on: AtomicBool,
    events: Mutex<Events>,
    /// Whether enough has gathered to be written.
    is_due: AtomicBool,
    output: Mutex<Slot>,
    /// Notified when what is written to is put back.
    back: Condvar,
}

/// What is written to, or who has it.
enum Slot {
    Idle,
    Ready(Box<Output>),
    /// A thread writes.
    Out(ThreadId),
}

struct Events {
    chunk: Chunk,
    /// Until the clock is read again.
    until_time: u32,
    time_recorded: Instant,
    budget_recorded: Option<Instant>,
}

/// What is written to, with what belongs to it.
struct Output {
    writer: Writer<Box<dyn Write + Send>>,
    /// What was swapped out last: empty, and as large as it ever was.
    spare: Chunk,
    written: Instant,
    failure: Option<io::Error>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let events = Events::new(0);
        Self {
            is_on: AtomicBool::new(false),
            events: Mutex::new(events),
            is_due: AtomicBool::new(false),
            output: Mutex::new(Slot::Idle),
            back: Condvar::new(),
        }
    }

    /// Whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn start(&self, to: Box<dyn Write + Send>, capabilities: &Capabilities) -> Result<(), StartTraceError> {
        {
            let mut slot = self.output.lock();
            if !matches!(*slot, Slot::Idle) {
                return Err(StartTraceError::Recording);
            }
            *slot = Slot::Out(std::thread::current().id());
        }
        let mut writer = Writer::new(to);
        if let Err(error) = contained(|| writer.begin()) {
            self.put(Slot::Idle);
            return Err(error.into());
        }
        let mut events = self.events.lock();
        *events = Events::new(2 * CHUNK_BYTES);
        events.push_device(capabilities);
        drop(events);
        let spare = Chunk::with_capacity(CHUNK_BYTES);
        let output = Output { writer, spare, written: Instant::now(), failure: None };
        // On before another thread can stop it.
        self.is_due.store(false, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        self.put(Slot::Ready(Box::new(output)));
        Ok(())
    }

    fn put(&self, slot: Slot) {
        *self.output.lock() = slot;
        self.back.notify_all();
    }

    /// Ends the recording; `None` if there was none. Waits for a write of another thread.
    pub(crate) fn stop(&self) -> Option<io::Result<TraceSummary>> {
        let this = std::thread::current().id();
        let mut output = {
            let mut slot = self.output.lock();
            loop {
                match &*slot {
                    Slot::Idle => return None,
                    Slot::Out(thread) if *thread == this => {
                        return Some(Err(io::Error::other("the write itself cannot end the recording")));
                    }
                    Slot::Out(_) => self.back.wait(&mut slot),
                    Slot::Ready(_) => break,
                }
            }
            self.is_on.store(false, Ordering::Release);
            let Slot::Ready(output) = std::mem::replace(&mut *slot, Slot::Out(this)) else {
                unreachable!("it is ready")
            };
            output
        };
        output.flush(&self.events);
        let Output { mut writer, failure, .. } = *output;
        let ended = match failure {
            Some(error) => Err(error),
            None => contained(|| writer.end()),
        };
        self.put(Slot::Idle);
        // The end of what was written to is the program's code: all is over by then.
        drop(writer);
        Some(ended)
    }

    fn push(&self, event: &Event<&str>) {
        let mut events = self.events.lock();
        events.add(event);
        if events.chunk.bytes() >= BUFFER_BYTES_MAX {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Writes what has gathered, if it is time to. Runs the program's code, so that it does nothing under a lock, nor
    /// where another thread is at it.
    pub(crate) fn write_due(&self) {
        if !self.is_due.load(Ordering::Relaxed) || is_locked() {
            return;
        }
        let mut output = {
            let mut slot = self.output.lock();
            if !matches!(*slot, Slot::Ready(_)) {
                return;
            }
            let taken = std::mem::replace(&mut *slot, Slot::Out(std::thread::current().id()));
            let Slot::Ready(output) = taken else { unreachable!("it is ready") };
            output
        };
        self.is_due.store(false, Ordering::Relaxed);
        output.flush(&self.events);
        if output.failure.is_some() {
            // The program must not suffer from a full disk: recording ends, `stop` says why.
            self.is_on.store(false, Ordering::Release);
        }
        self.put(Slot::Ready(output));
    }

    /// Adds what is recorded of an event, if anything is recorded.
    #[inline(always)]
    pub(super) fn on<M: Watched>(&self, event: &Observed<'_, M>) {
        if self.is_on() {
            self.add(event);
        }
    }

    #[cold]
    fn add<M: Watched>(&self, event: &Observed<'_, M>) {
        let own = |range: &RangeId| !range.key.is_small;
        self.push(&match event {
            Observed::Recorded(event) => return self.push(event),
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

    /// The end of a `reclaim`: the clock is read, what is due is written. `budgets` asks the driver.
    pub(crate) fn reclaimed(
        &self,
        completed: impl Iterator<Item = u64>,
        (objects, blocks): (usize, usize),
        budgets: impl FnOnce() -> HeapBudgets,
    ) {
        if !self.is_on() {
            return;
        }
        let now = Instant::now();
        let mut events = self.events.lock();
        events.record_time(now);
        for (timeline, value) in completed.enumerate() {
            events.add(&Event::Completed { timeline: timeline as u32, value });
        }
        events.add(&Event::Reclaimed { objects: objects as u64, blocks: blocks as u64 });
        let is_large = events.chunk.bytes() >= CHUNK_BYTES;
        let is_budget_due = events.budget_recorded.is_none_or(|recorded| now - recorded >= BUDGET_EVERY);
        if is_budget_due {
            events.budget_recorded = Some(now);
        }
        drop(events);
        if is_budget_due {
            // A driver call, so no lock is held.
            let budgets = budgets();
            let mut events = self.events.lock();
            for (heap, HeapBudget { usage_bytes, budget_bytes }) in (0..).zip(budgets) {
                events.add(&Event::Budget { heap, usage_bytes, budget_bytes });
            }
        }
        let is_old = || match &*self.output.lock() {
            Slot::Ready(held) => now.saturating_duration_since(held.written) >= CHUNK_AGE_MAX,
            Slot::Idle | Slot::Out(_) => false,
        };
        if is_large || is_old() {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }
}

/// What a write says; a panic is an error.
fn contained<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    contain(write).unwrap_or_else(|| Err(io::Error::other("the write panicked")))
}

impl Drop for Trace {
    /// A trace that was not stopped is ended in order all the same.
    fn drop(&mut self) {
        contain(|| self.stop());
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({})", if self.is_on.load(Ordering::Relaxed) { "on" } else { "off" })
    }
}

impl Events {
    fn new(capacity_bytes: usize) -> Self {
        let chunk = Chunk::with_capacity(capacity_bytes);
        Self { chunk, until_time: 0, time_recorded: Instant::now(), budget_recorded: None }
    }

    fn add(&mut self, event: &Event<&str>) {
        if self.until_time == 0 {
            self.record_time(Instant::now());
        }
        self.until_time -= 1;
        self.chunk.push(event);
    }

    fn record_time(&mut self, now: Instant) {
        let elapsed_ns = now.saturating_duration_since(self.time_recorded).as_nanos() as u64;
        self.time_recorded = now;
        self.chunk.push(&Event::<&str>::Time { elapsed_ns });
        self.until_time = EVENTS_PER_TIME;
    }

    fn push_device(&mut self, capabilities: &Capabilities) {
        self.chunk.push(&Event::Device { name: &capabilities.name });
        for heap in &capabilities.memory_heaps {
            self.chunk.push(&Event::<&str>::Heap { bytes: heap.bytes, device_local: heap.device_local });
        }
        for held in &capabilities.memory_types {
            let properties = held.properties.iter_names().map(|(name, _)| name).collect();
            self.chunk.push(&Event::Type { heap: held.heap, properties });
        }
    }
}

impl Output {
    /// Writes what has gathered as one chunk.
    fn flush(&mut self, events: &Mutex<Events>) {
        std::mem::swap(&mut events.lock().chunk, &mut self.spare);
        if self.failure.is_none() {
            self.failure = contained(|| self.writer.write(&self.spare)).err();
        }
        self.spare.clear();
        self.written = Instant::now();
    }
}

#[cfg(test)]
mod tests;
