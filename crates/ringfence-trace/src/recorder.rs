//! Records a trace while the program runs.
//!
//! There are two locks, each held for some nanoseconds: `events` guards the buffer that events are appended to, and
//! `output` guards the writer. To write, a thread takes the writer out of its slot, swaps the buffer with an empty one
//! under `events`, and writes without a lock. Only one thread at a time has the writer, so the chunks are in order.
//! Threads that record events never wait for the file.
//!
//! ```text
//!   output   Idle ──start──▶ Out ──the file header is written──▶ Ready ──write_due, stop──▶ Out ──▶ Ready, or Idle
//! ```
//!
//! The output is code of the program, and it may call the allocator. The events of these calls are recorded. If the
//! output calls `stop` or `start`, the call fails. If the output panics, the write counts as failed. [`Recorder::push`]
//! never calls the output, because the caller may hold locks; [`Recorder::write_due`] does.
//!
//! | operation | cost |
//! |---|---|
//! | `is_on` | one relaxed load |
//! | `push` | one short lock, more if the buffer must grow; once per 64 events, also one read of the clock |
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

/// At a call of [`Recorder::frame`], a write becomes due if the chunk has at least this size, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// At a call of [`Recorder::frame`], a write becomes due if this time has passed since the last write.
const CHUNK_AGE_MAX: Duration = Duration::from_millis(250);
/// At a call of [`Recorder::push`], a write becomes due if the chunk has at least this size, in bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Number of events between two reads of the clock. The clock is also read once per frame.
const EVENTS_PER_TIME: u32 = 64;
/// Upper bound of the size of a `Time` event, in bytes.
const TIME_BYTES_MAX: usize = 32;
/// Minimum time between two records of the budgets.
const BUDGET_EVERY: Duration = Duration::from_millis(100);

/// Records a trace while the program runs. Any thread may add events. The output is never called under a lock.
///
/// Recording an event usually takes one short lock. If a write fails or panics, the recording ends, and
/// [`Recorder::stop`] returns the error.
pub struct Recorder {
    is_on: AtomicBool,
    events: Mutex<Events>,
    /// `true` if the next call of [`Recorder::write_due`] must write.
    is_due: AtomicBool,
    output: Mutex<Slot>,
    /// Notified when the writer is put back into `output`.
    back: Condvar,
}

/// The state of the writer.
enum Slot {
    Idle,
    Ready(Box<Output>),
    /// This thread is using the writer.
    Out(ThreadId),
}

struct Events {
    chunk: Chunk,
    /// Number of further events until the clock is read again.
    until_time: u32,
    time_recorded: Instant,
    budget_recorded: Option<Instant>,
}

/// The writer and its state.
struct Output {
    writer: Writer<Box<dyn Write + Send>>,
    /// The empty buffer for the next swap. It keeps its capacity.
    spare: Chunk,
    written: Instant,
    failure: Option<io::Error>,
}

/// Locks `mutex`. Poisoning is ignored: no code of the program runs under these locks, so the data is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Creates a recorder. Recording begins with [`Recorder::start`].
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

    /// Returns `true` while a recording is in progress.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Starts a recording to `to`. `first` adds the first events. Returns `None` if a recording is in progress, or if a
    /// recording has failed and [`Recorder::stop`] was not called.
    ///
    /// # Errors
    /// The file header cannot be written.
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
        // Both are set before `put`, because another thread can stop the recording after `put`.
        self.is_due.store(false, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        self.put(Slot::Ready(Box::new(output)));
        Some(Ok(()))
    }

    fn put(&self, slot: Slot) {
        *lock(&self.output) = slot;
        self.back.notify_all();
    }

    /// Ends the recording, and returns its size. Returns `None` if no recording was started. If another thread is
    /// writing, waits for it.
    ///
    /// # Errors
    /// A write failed, or the output has called this method.
    pub fn stop(&self) -> Option<io::Result<TraceSummary>> {
        let this = std::thread::current().id();
        let mut output = {
            let mut slot = lock(&self.output);
            loop {
                match &*slot {
                    Slot::Idle => return None,
                    Slot::Out(thread) if *thread == this => {
                        return Some(Err(io::Error::other("the output cannot stop the recording from inside a write")));
                    }
                    Slot::Out(_) => slot = self.back.wait(slot).unwrap_or_else(PoisonError::into_inner),
                    Slot::Ready(_) => break,
                }
            }
            self.is_on.store(false, Ordering::Release);
            let Slot::Ready(output) = std::mem::replace(&mut *slot, Slot::Out(this)) else {
                unreachable!("the writer is in the slot")
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
        // The drop of the output runs code of the program, so the slot is idle before.
        drop(writer);
        Some(ended)
    }

    /// Appends an event. Does not call the output.
    pub fn push(&self, event: &Event<&str>) {
        let bytes = encoded(|bytes| {
            event.push(bytes);
            self.append(bytes, 1, None)
        });
        if bytes >= BUFFER_BYTES_MAX {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Appends encoded events as [`Events::try_add`] does; if the chunk is full, enlarges it. Returns the size of the
    /// buffered events, in bytes. Host memory is allocated without the lock, because the program's global allocator may
    /// call this method.
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

    /// Writes the buffered events if a write is due and no other thread is writing. This calls the output, which is
    /// code of the program, so the caller must hold no lock.
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
            let Slot::Ready(output) = taken else { unreachable!("the writer is in the slot") };
            output
        };
        self.is_due.store(false, Ordering::Relaxed);
        output.flush(&self.events);
        if output.failure.is_some() {
            // A failed write (a full disk, for example) must not stop the program. The recording ends, and `stop`
            // returns the error.
            self.is_on.store(false, Ordering::Release);
        }
        self.put(Slot::Ready(output));
    }

    /// Appends a `Time` event, and then the events of a frame that has ended. Returns `true` if the caller should
    /// record the budgets: in the first frame, and when the last record is at least 100 ms old.
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

/// Calls `with` with an empty buffer. Each thread reuses its buffer.
fn encoded<T>(with: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local!(static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    // The buffer is taken out, because a host allocation in `with` can call this function again. While the thread
    // exits, a new buffer is used.
    let mut bytes = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = with(&mut bytes);
    bytes.clear();
    _ = SCRATCH.try_with(|scratch| scratch.set(bytes));
    result
}

/// Calls `write` and returns its result. If `write` panics, returns an error.
fn contained<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
        // The drop of the payload would run code of the program, which may panic again.
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
    /// Stops the recording, if one is in progress.
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

    /// Appends encoded events. If `now` is given, or the clock must be read again, appends a `Time` event before them.
    /// If the chunk's capacity is too small, returns `false` and changes nothing.
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
    /// Writes the buffered events as one chunk. After a failed write, discards them.
    fn flush(&mut self, events: &Mutex<Events>) {
        std::mem::swap(&mut lock(events).chunk, &mut self.spare);
        if self.failure.is_none() {
            self.failure = contained(|| self.writer.write(&self.spare)).err();
        }
        self.spare.clear();
        self.written = Instant::now();
    }
}
