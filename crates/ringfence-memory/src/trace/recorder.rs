//! Writing a trace while the program runs.
//!
//! Two locks, each held for some nanoseconds: `events` guards the buffer that hooks append to, `writer` guards what is
//! written to. To write, a thread takes that out, swaps the buffers under `events`, and writes with no lock held: chunks
//! come in order, as only one thread has it, and no hook waits for the file.
//!
//! ```text
//!   writer   Idle ──start──▶ Out ──the beginning is written──▶ Ready ──write_due, stop──▶ Out ──▶ Ready, or Idle
//! ```
//!
//! What is written to is the program's code. It may call in: what it allocates is recorded; a stop or a start by the write
//! itself is refused. If it panics, that is a write that failed. Hooks never write, since they run under locks: what is due
//! is written by [`Trace::write_due`], where no lock is held.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::event::{Event, ring_numbers};
use super::format::{MAGIC, VERSION, checksum, code, push_number, push_text};
use crate::device::descriptors::HeapKind;
use crate::device::{Capabilities, HeapBudget, HeapBudgets};
use crate::memory::RingSnapshot;
use crate::telling::{contain, is_locked};

/// A chunk is written when so much has gathered,
const CHUNK_BYTES: usize = 64 << 10;
/// or, by a call of `reclaim`, so long after the last one,
const CHUNK_AGE_MAX: Duration = Duration::from_millis(250);
/// or, where nothing is reclaimed, by what is released once there is so much.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// The clock is read once in so many events, and with each frame.
const EVENTS_PER_TIME: u32 = 64;
/// The driver is asked for budgets that often at the most.
const BUDGET_EVERY: Duration = Duration::from_millis(100);

/// What a recording came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceSummary {
    /// Events that were written.
    pub event_count: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

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
    next_block: AtomicU64,
    /// Numbers descriptor heaps and what they belong to.
    next_descriptors: AtomicU64,
    next_transient: AtomicU64,
    events: Mutex<Events>,
    /// Whether enough has gathered to be written.
    is_due: AtomicBool,
    writer: Mutex<Slot>,
    /// Notified when what is written to is put back.
    back: Condvar,
}

/// What is written to, or who has it.
enum Slot {
    Idle,
    Ready(Box<Writer>),
    /// A thread writes.
    Out(ThreadId),
}

/// A descriptor heap as traces tell of it.
pub struct TracedHeap<'a> {
    pub number: u64,
    /// The number of its allocator.
    pub owner: u64,
    pub kind: HeapKind,
    pub shader_visible: bool,
    pub capacity: u32,
    /// Of those, the slots for tables of single frames: the first ones.
    pub frame_capacity: u32,
    pub name: &'a str,
}

/// What hooks append to.
struct Events {
    buffer: Vec<u8>,
    count: u32,
    /// Until the clock is read again.
    until_time: u32,
    told: Instant,
    budget_told: Option<Instant>,
}

struct Writer {
    to: Box<dyn Write + Send>,
    /// What was swapped out last: empty, and as large as it ever was.
    spare: Vec<u8>,
    summary: TraceSummary,
    written: Instant,
    failure: Option<io::Error>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let events = Events { buffer: Vec::new(), count: 0, until_time: 0, told: Instant::now(), budget_told: None };
        Self {
            is_on: AtomicBool::new(false),
            next_block: AtomicU64::new(1),
            next_descriptors: AtomicU64::new(1),
            next_transient: AtomicU64::new(1),
            events: Mutex::new(events),
            is_due: AtomicBool::new(false),
            writer: Mutex::new(Slot::Idle),
            back: Condvar::new(),
        }
    }

    /// A number for a memory object that is made now.
    pub(crate) fn block_number(&self) -> u64 {
        self.next_block.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a descriptor heap, or for an allocator of descriptors.
    pub fn descriptors_number(&self) -> u64 {
        self.next_descriptors.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for an object in a transient heap.
    pub fn transient_number(&self) -> u64 {
        self.next_transient.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn start(
        &self,
        mut to: Box<dyn Write + Send>,
        capabilities: &Capabilities,
    ) -> Result<(), StartTraceError> {
        {
            let mut slot = self.writer.lock();
            if !matches!(*slot, Slot::Idle) {
                return Err(StartTraceError::Recording);
            }
            *slot = Slot::Out(std::thread::current().id());
        }
        let written = contained(|| {
            to.write_all(&MAGIC)?;
            to.write_all(&VERSION.to_le_bytes())
        });
        if let Err(error) = written {
            self.put(Slot::Idle);
            return Err(error.into());
        }
        let bytes = (MAGIC.len() + size_of_val(&VERSION)) as u64;
        let summary = TraceSummary { event_count: 0, bytes };
        let now = Instant::now();
        let mut events = self.events.lock();
        *events = Events {
            buffer: Vec::with_capacity(2 * CHUNK_BYTES),
            count: 0,
            until_time: 0,
            told: now,
            budget_told: None,
        };
        events.push_device(capabilities);
        drop(events);
        let writer = Writer { to, spare: Vec::with_capacity(CHUNK_BYTES), summary, written: now, failure: None };
        // On before another thread can stop it.
        self.is_due.store(false, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        self.put(Slot::Ready(Box::new(writer)));
        Ok(())
    }

    fn put(&self, slot: Slot) {
        *self.writer.lock() = slot;
        self.back.notify_all();
    }

    /// Ends the recording; `None` if there was none. Waits for a write of another thread.
    pub(crate) fn stop(&self) -> Option<io::Result<TraceSummary>> {
        let this = std::thread::current().id();
        let mut writer = {
            let mut slot = self.writer.lock();
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
            let Slot::Ready(writer) = std::mem::replace(&mut *slot, Slot::Out(this)) else {
                unreachable!("it is ready")
            };
            writer
        };
        writer.flush(&self.events);
        let end = Event::End { event_count: writer.summary.event_count };
        self.events.lock().push(&end);
        writer.flush(&self.events);
        let Writer { mut to, summary, failure, .. } = *writer;
        let ended = match failure {
            Some(error) => Err(error),
            None => contained(|| to.flush()).map(|()| summary),
        };
        self.put(Slot::Idle);
        // The end of what was written to is the program's code: all is over by then.
        drop(to);
        Some(ended)
    }

    /// Adds an event, if anything is recorded.
    #[inline]
    fn note(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_on() {
            self.note_now(write);
        }
    }

    #[cold]
    fn note_now(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut events = self.events.lock();
        events.add(write);
        if events.buffer.len() >= BUFFER_BYTES_MAX {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Writes what has gathered, if it is time to. Runs the program's code, so that it does nothing under a lock, nor where
    /// another thread is at it.
    pub(crate) fn write_due(&self) {
        if !self.is_due.load(Ordering::Relaxed) || is_locked() {
            return;
        }
        let mut writer = {
            let mut slot = self.writer.lock();
            if !matches!(*slot, Slot::Ready(_)) {
                return;
            }
            let taken = std::mem::replace(&mut *slot, Slot::Out(std::thread::current().id()));
            let Slot::Ready(writer) = taken else { unreachable!("it is ready") };
            writer
        };
        self.is_due.store(false, Ordering::Relaxed);
        writer.flush(&self.events);
        if writer.failure.is_some() {
            // The program must not suffer from a full disk: recording ends, `stop` says why.
            self.is_on.store(false, Ordering::Release);
        }
        self.put(Slot::Ready(writer));
    }

    fn numbers<const N: usize>(&self, code: u8, numbers: [u64; N]) {
        self.note(|buffer| push_numbers(buffer, code, numbers));
    }

    pub(crate) fn block_made(&self, block: u64, memory_type: u32, dedicated: bool, bytes: u64, class: &str) {
        self.note(|buffer| {
            push_numbers(buffer, code::BLOCK_MADE, [block, u64::from(memory_type), u64::from(dedicated), bytes]);
            push_text(buffer, class);
        });
    }

    pub(crate) fn block_freed(&self, block: u64) {
        self.numbers(code::BLOCK_FREED, [block]);
    }

    pub(crate) fn allocated(&self, block: u64, offset: u64, bytes: u64, alignment: u64, name: &str) {
        self.note(|buffer| {
            let alignment = u64::from(alignment.trailing_zeros());
            push_numbers(buffer, code::ALLOCATED, [block, offset, bytes, alignment]);
            push_text(buffer, name);
        });
    }

    /// After the new range was allocated, before the old one is let go of.
    pub(crate) fn moved(&self, (from_block, from_offset): (u64, u64), (to_block, to_offset): (u64, u64)) {
        self.numbers(code::MOVED, [from_block, from_offset, to_block, to_offset]);
    }

    pub(crate) fn retired(&self, block: u64, offset: u64) {
        self.numbers(code::RETIRED, [block, offset]);
    }

    /// Before the range can be handed out again.
    pub(crate) fn freed(&self, block: u64, offset: u64) {
        self.numbers(code::FREED, [block, offset]);
    }

    pub(crate) fn frame_begun(&self, timeline: usize, value: u64) {
        self.numbers(code::FRAME_BEGUN, [timeline as u64, value]);
    }

    pub(crate) fn submitted(&self, timeline: usize, value: u64) {
        self.numbers(code::SUBMITTED, [timeline as u64, value]);
    }

    pub(crate) fn named(&self, block: u64, offset: u64, name: &str) {
        self.note(|buffer| {
            push_numbers(buffer, code::NAMED, [block, offset]);
            push_text(buffer, name);
        });
    }

    pub(crate) fn ring_made(&self, ring: u64, name: &str) {
        self.note(|buffer| {
            push_numbers(buffer, code::RING_MADE, [ring]);
            push_text(buffer, name);
        });
    }

    pub(crate) fn ring(&self, ring: u64, figures: &RingSnapshot) {
        self.numbers(code::RING, ring_numbers(ring, figures));
    }

    pub(crate) fn ring_gone(&self, ring: u64) {
        self.numbers(code::RING_GONE, [ring]);
    }

    /// A plan of a frame's transient memory. The event is made only while one is recorded.
    pub fn planned(&self, event: impl FnOnce() -> Event) {
        self.note(|buffer| event().push(buffer));
    }

    /// An object in a transient heap.
    pub fn transient_made(&self, object: u64, block: u64, offset: u64, bytes: u64, name: &str) {
        self.note(|buffer| {
            push_numbers(buffer, code::TRANSIENT_MADE, [object, block, offset, bytes]);
            push_text(buffer, name);
        });
    }

    pub fn transient_let_go(&self, object: u64) {
        self.numbers(code::TRANSIENT_LET_GO, [object]);
    }

    pub(crate) fn staged(&self, writes: u64, bytes: u64) {
        self.numbers(code::STAGED, [writes, bytes]);
    }

    pub fn descriptor_heap(&self, heap: &TracedHeap<'_>) {
        self.note(|buffer| {
            let (kind, visible) = (heap.kind as u64, u64::from(heap.shader_visible));
            let (capacity, frame_capacity) = (u64::from(heap.capacity), u64::from(heap.frame_capacity));
            let numbers = [heap.number, heap.owner, kind, visible, capacity, frame_capacity];
            push_numbers(buffer, code::DESCRIPTOR_HEAP, numbers);
            push_text(buffer, heap.name);
        });
    }

    pub fn descriptor_heap_freed(&self, heap: u64) {
        self.numbers(code::DESCRIPTOR_HEAP_FREED, [heap]);
    }

    #[inline]
    pub fn descriptors_allocated(&self, heap: u64, first: u32, count: u32) {
        self.numbers(code::DESCRIPTORS_ALLOCATED, [heap, first.into(), count.into()]);
    }

    /// Before they can be handed out again.
    #[inline]
    pub fn descriptors_freed(&self, heap: u64, first: u32, count: u32) {
        self.numbers(code::DESCRIPTORS_FREED, [heap, first.into(), count.into()]);
    }

    pub fn descriptor_tables(&self, heap: u64, frame_used: u64, (made, shared): (u64, u64)) {
        self.numbers(code::DESCRIPTOR_TABLES, [heap, frame_used, made, shared]);
    }

    #[inline]
    pub fn bindless_inserted(&self, heap: u64, slot: u32) {
        self.numbers(code::BINDLESS_INSERTED, [heap, slot.into()]);
    }

    /// Before its slot can be another's.
    #[inline]
    pub fn bindless_removed(&self, heap: u64, slot: u32) {
        self.numbers(code::BINDLESS_REMOVED, [heap, slot.into()]);
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
        events.tell_time(now);
        for (timeline, value) in completed.enumerate() {
            events.add(|buffer| push_numbers(buffer, code::COMPLETED, [timeline as u64, value]));
        }
        events.add(|buffer| push_numbers(buffer, code::RECLAIMED, [objects as u64, blocks as u64]));
        let is_large = events.buffer.len() >= CHUNK_BYTES;
        let asks = events.budget_told.is_none_or(|told| now - told >= BUDGET_EVERY);
        if asks {
            events.budget_told = Some(now);
        }
        drop(events);
        if asks {
            // A driver call, so no lock is held.
            let told = budgets();
            let mut events = self.events.lock();
            for (heap, HeapBudget { usage_bytes, budget_bytes }) in told.into_iter().enumerate() {
                events.add(|buffer| push_numbers(buffer, code::BUDGET, [heap as u64, usage_bytes, budget_bytes]));
            }
        }
        let is_old = || match &*self.writer.lock() {
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
    /// A trace that nobody stopped is ended in order all the same.
    fn drop(&mut self) {
        contain(|| self.stop());
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({})", if self.is_on.load(Ordering::Relaxed) { "on" } else { "off" })
    }
}

fn push_numbers<const N: usize>(into: &mut Vec<u8>, code: u8, numbers: [u64; N]) {
    into.push(code);
    numbers.into_iter().for_each(|number| push_number(into, number));
}

impl Events {
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.until_time == 0 {
            self.tell_time(Instant::now());
        }
        self.until_time -= 1;
        write(&mut self.buffer);
        self.count += 1;
    }

    fn tell_time(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.told).as_nanos() as u64;
        self.told = now;
        push_numbers(&mut self.buffer, code::TIME, [elapsed]);
        self.count += 1;
        self.until_time = EVENTS_PER_TIME;
    }

    fn push(&mut self, event: &Event) {
        event.push(&mut self.buffer);
        self.count += 1;
    }

    fn push_device(&mut self, capabilities: &Capabilities) {
        self.push(&Event::Device { name: capabilities.name.clone() });
        for heap in &capabilities.memory_heaps {
            self.push(&Event::Heap { bytes: heap.bytes, device_local: heap.device_local });
        }
        for held in &capabilities.memory_types {
            let properties = held.properties.iter_names().map(|(name, _)| name.to_owned()).collect();
            self.push(&Event::Type { heap: held.heap, properties });
        }
    }
}

impl Writer {
    /// Writes what has gathered as one chunk.
    fn flush(&mut self, events: &Mutex<Events>) {
        let count = {
            let mut events = events.lock();
            std::mem::swap(&mut events.buffer, &mut self.spare);
            std::mem::take(&mut events.count)
        };
        if !self.spare.is_empty() && self.failure.is_none() {
            self.failure = contained(|| self.write_chunk(count)).err();
        }
        self.spare.clear();
        self.written = Instant::now();
    }

    fn write_chunk(&mut self, count: u32) -> io::Result<()> {
        let payload = &self.spare;
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut head = [0; 12];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&count.to_le_bytes());
        let sum = checksum(checksum(0, &head[..8]), payload);
        head[8..].copy_from_slice(&sum.to_le_bytes());
        self.to.write_all(&head)?;
        self.to.write_all(payload)?;
        self.summary.event_count += u64::from(count);
        self.summary.bytes += (head.len() + payload.len()) as u64;
        Ok(())
    }
}
