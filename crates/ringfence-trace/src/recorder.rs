//! Writing a trace while the program runs.
//!
//! Two locks, each held for some nanoseconds: `events` guards the buffer that events are appended to, `output` guards
//! what is written to. To write, a thread takes that out, swaps the buffers under `events`, and writes with no lock
//! held: chunks come in order, as only one thread has it, and no thread that records waits for the file.
//!
//! ```text
//!   output   Idle ──start──▶ Out ──the beginning is written──▶ Ready ──write_due, stop──▶ Out ──▶ Ready, or Idle
//! ```
//!
//! What is written to is the program's code. It may call in: what it records is recorded; a stop or a start by the
//! write itself is refused. If it panics, that is a write that failed. Recording never writes, since it may happen under
//! locks: what is due is written by [`Recorder::write_due`].
//!
//! | operation | cost |
//! |---|---|
//! | `is_on` | one relaxed load |
//! | `push` | one short lock; once in 64 events a reading of the clock |
//! | `write_due` | one relaxed load, and one write if it is due |

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::{Chunk, Event, TraceSummary, Writer};

/// A chunk is written when so much has gathered,
const CHUNK_BYTES: usize = 64 << 10;
/// or, by a call of [`Recorder::frame`], so long after the last one,
const CHUNK_AGE_MAX: Duration = Duration::from_millis(250);
/// or, where no frame ends, once there is so much.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// The clock is read once in this number of events, and with each frame.
const EVENTS_PER_TIME: u32 = 64;
/// The most bytes that an event of time takes.
const TIME_BYTES_MAX: usize = 32;
/// Budgets are recorded that often at the most.
const BUDGET_EVERY: Duration = Duration::from_millis(100);

/// Writes a trace while the program runs: any thread adds events, and what is written to is never called under a lock.
///
/// An event is one short lock; [`Recorder::is_on`] is a load. A write that fails or panics ends the recording, and
/// [`Recorder::stop`] says why.
pub struct Recorder {
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

/// No code of the caller's runs under these locks, so that what a panic leaves behind is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Nothing is recorded yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            events: Mutex::new(Events::new(0)),
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

    /// Starts a recording with the events that `first` adds; `None` if one is under way.
    ///
    /// # Errors
    /// The beginning cannot be written.
    pub fn start(&self, to: Box<dyn Write + Send>, first: impl FnOnce(&mut Chunk)) -> Option<io::Result<()>> {
        {
            let mut slot = lock(&self.output);
            if !matches!(*slot, Slot::Idle) {
                return None;
            }
            *slot = Slot::Out(std::thread::current().id());
        }
        let mut writer = Writer::new(to);
        if let Err(error) = contained(|| writer.begin()) {
            self.put(Slot::Idle);
            return Some(Err(error));
        }
        let mut begun = Events::new(2 * CHUNK_BYTES);
        first(&mut begun.chunk);
        let before = std::mem::replace(&mut *lock(&self.events), begun);
        drop(before); // without the lock
        let spare = Chunk::with_capacity(CHUNK_BYTES);
        let output = Output { writer, spare, written: Instant::now(), failure: None };
        // On before another thread can stop it.
        self.is_due.store(false, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        self.put(Slot::Ready(Box::new(output)));
        Some(Ok(()))
    }

    fn put(&self, slot: Slot) {
        *lock(&self.output) = slot;
        self.back.notify_all();
    }

    /// Ends the recording; `None` if there was none. Waits for a write of another thread.
    ///
    /// # Errors
    /// Something could not be written, or the write itself has called this.
    pub fn stop(&self) -> Option<io::Result<TraceSummary>> {
        let this = std::thread::current().id();
        let mut output = {
            let mut slot = lock(&self.output);
            loop {
                match &*slot {
                    Slot::Idle => return None,
                    Slot::Out(thread) if *thread == this => {
                        return Some(Err(io::Error::other("the write itself cannot end the recording")));
                    }
                    Slot::Out(_) => slot = self.back.wait(slot).unwrap_or_else(PoisonError::into_inner),
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

    /// Appends an event.
    pub fn push(&self, event: &Event<&str>) {
        let bytes = encoded(|bytes| {
            event.push(bytes);
            self.append(bytes, 1, None)
        });
        if bytes >= BUFFER_BYTES_MAX {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Appends events that are encoded already, after the time `now` if it is given; returns how many bytes have
    /// gathered. Host memory is got without the lock: a global allocator of the program's may come back here.
    fn append(&self, encoded: &[u8], event_count: u32, now: Option<Instant>) -> usize {
        let mut room = Vec::new();
        loop {
            let mut events = lock(&self.events);
            events.chunk.grow_into(&mut room);
            if events.try_add(encoded, event_count, now) {
                return events.chunk.bytes();
            }
            let bytes = events.chunk.bytes() + TIME_BYTES_MAX + encoded.len();
            let wanted = bytes.max(2 * events.chunk.capacity());
            drop(events);
            room = Vec::with_capacity(wanted);
        }
    }

    /// Writes what has gathered, if it is time to; nothing where another thread is at it. Runs the program's code: the
    /// caller holds no lock.
    pub fn write_due(&self) {
        if !self.is_due.load(Ordering::Relaxed) {
            return;
        }
        let mut output = {
            let mut slot = lock(&self.output);
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

    /// Appends the events of a frame that ended, after a reading of the clock. Says whether budgets are to be recorded
    /// too.
    pub fn frame<'a>(&self, frame: impl Iterator<Item = Event<&'a str>>) -> bool {
        let now = Instant::now();
        let is_large = encoded(|bytes| {
            let count = frame.map(|event| event.push(bytes)).count();
            self.append(bytes, count as u32, Some(now)) >= CHUNK_BYTES
        });
        let mut events = lock(&self.events);
        let is_budget_due = events.budget_recorded.is_none_or(|recorded| now - recorded >= BUDGET_EVERY);
        if is_budget_due {
            events.budget_recorded = Some(now);
        }
        drop(events);
        let is_old = || match &*lock(&self.output) {
            Slot::Ready(held) => now.saturating_duration_since(held.written) >= CHUNK_AGE_MAX,
            Slot::Idle | Slot::Out(_) => false,
        };
        if is_large || is_old() {
            self.is_due.store(true, Ordering::Relaxed);
        }
        is_budget_due
    }
}

/// Calls `with` with an empty buffer that this thread keeps.
fn encoded<T>(with: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local!(static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    // Taken out: a host allocation may lead here again. At the end of a thread it is gone.
    let mut bytes = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = with(&mut bytes);
    bytes.clear();
    _ = SCRATCH.try_with(|scratch| scratch.set(bytes));
    result
}

/// What a write says; a panic is an error.
fn contained<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
        // Its `Drop` is the caller's code too, and may panic in its turn.
        std::mem::forget(panic);
        Err(io::Error::other("the write panicked"))
    })
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Recorder {
    /// A recording that was not stopped is ended in order all the same.
    fn drop(&mut self) {
        _ = contained(|| {
            self.stop();
            Ok(())
        });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", if self.is_on() { "on" } else { "off" })
    }
}

impl Events {
    fn new(capacity_bytes: usize) -> Self {
        let chunk = Chunk::with_capacity(capacity_bytes);
        Self { chunk, until_time: 0, time_recorded: Instant::now(), budget_recorded: None }
    }

    /// Appends events that are encoded, after the time `now`, or after the present time if it is due. Returns `false`
    /// if the chunk has not enough room: nothing has changed then.
    fn try_add(&mut self, encoded: &[u8], event_count: u32, now: Option<Instant>) -> bool {
        if self.chunk.capacity() - self.chunk.bytes() < encoded.len() + TIME_BYTES_MAX {
            return false;
        }
        if let Some(now) = now.or_else(|| (self.until_time == 0).then(Instant::now)) {
            self.record_time(now);
        }
        self.until_time = self.until_time.saturating_sub(event_count);
        self.chunk.try_append(encoded, event_count)
    }

    fn record_time(&mut self, now: Instant) {
        let elapsed_ns = now.saturating_duration_since(self.time_recorded).as_nanos() as u64;
        self.time_recorded = now;
        self.chunk.push(&Event::<&str>::Time { elapsed_ns });
        self.until_time = EVENTS_PER_TIME;
    }
}

impl Output {
    /// Writes what has gathered as one chunk.
    fn flush(&mut self, events: &Mutex<Events>) {
        std::mem::swap(&mut lock(events).chunk, &mut self.spare);
        if self.failure.is_none() {
            self.failure = contained(|| self.writer.write(&self.spare)).err();
        }
        self.spare.clear();
        self.written = Instant::now();
    }
}
