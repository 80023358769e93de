//! Events: one type of event, one sink for it, and its subscribers. The module does not depend on the rest of the
//! allocator: events contain numbers, names and bytes, and a trait of this module provides everything else.
//!
//! ```text
//!                                                              ┌─▶ Calls        counters, for statistics
//!   timeline, memory, resource, libraries ── Event ─▶ Observers ┼─▶ Trace        a file, while one is recorded
//!                                                              ├─▶ Debugger     guards, fills, leaks, history; if on
//!                                                              └─▶ slow_paths   spans and events of `tracing`, if on
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | an event that no subscriber takes | the loads of [`Observers::is_watching`] |
//! | a call that is counted | an addition to a counter of this thread |
//! | an event that is recorded | see [`trace`] |
//! | an event that debugging records | one lock, a map of all live ranges |

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) mod calls;
pub mod debugging;
mod recorder;
mod slow_paths;
pub(crate) mod unlocked;

pub(crate) use calls::{Call, Calls};
pub use debugging::DebugDesc;
use debugging::{Debugger, Key, NewPlace, NewRange, Watched};
use recorder::Trace;
pub(crate) use slow_paths::{SlowPath, Warning};

/// The numbers by which subscribers identify a range of a memory object.
#[derive(Clone, Copy)]
pub(crate) struct RangeId {
    /// The beginning of the owner's bytes.
    pub(crate) key: Key,
    /// The beginning of the range itself, before its guard, if it has one.
    pub(crate) begin: u64,
}

/// An event. It owns nothing, so an event without a subscriber has nothing to drop.
pub(crate) enum Event<'a, M: Watched> {
    /// A call was made.
    Called(Call),
    /// Data was written to rings for the device.
    Staged { writes: u64, bytes: u64 },
    /// An object was created in a range, or the range was allocated without an object.
    Made(NewRange<'a, M>),
    /// The range was handed to the program, to the code at this line.
    HandedOut { key: Key, at: &'static Location<'static>, device_address: Option<u64> },
    /// The range got another name.
    Named { range: RangeId, name: &'a str },
    /// The contents of one range moved to another, which was allocated before. The old range is not retired yet.
    Moved { from: RangeId, to: RangeId, place: NewPlace<'a, M> },
    /// The owner released the range; the device may still use it.
    Retired(RangeId),
    /// The device is done with the range. The object in it may still be alive.
    Released(RangeId),
    /// The range's bytes can be allocated again from now on, and not before.
    Freed(RangeId),
    /// An event that only traces use: blocks, frames, rings, descriptors.
    Recorded(&'a trace::Event<&'a str>),
    /// A failure, or a finding of debugging.
    Warned(Warning<'a>),
    /// The allocator is shut down, or the shutdown failed because the device may still use objects. Live ranges are
    /// reported as leaks; retired ranges are reported only if `is_over`.
    Ended { is_over: bool },
}

pub(crate) struct Observers<M: Watched> {
    pub(crate) calls: Calls,
    pub(crate) trace: Trace,
    /// `Some` if a debugging check is on.
    debug: Option<Box<Debugger<M>>>,
    numbers: [AtomicU64; 3],
}

/// Kinds of numbered objects. Numbers begin at 1.
#[derive(Clone, Copy)]
pub(crate) enum Numbered {
    /// Memory objects.
    Block,
    /// Descriptor heaps and their owners.
    Descriptors,
    /// Objects of transient heaps.
    Transient,
}

impl<M: Watched> Observers<M> {
    pub(crate) fn new(debug: DebugDesc) -> Self {
        let numbers = [const { AtomicU64::new(1) }; 3];
        Self { calls: Calls::default(), trace: Trace::new(), debug: Debugger::new(debug), numbers }
    }

    /// Passes an event to each subscriber. `context` gives access to the bytes of memory.
    #[inline(always)]
    pub(crate) fn notify(&self, context: &M::Context, event: Event<'_, M>) {
        match &event {
            Event::Called(_) => return self.calls.on(&event),
            Event::Warned(warning) => return slow_paths::warn(warning),
            Event::Staged { .. } => self.calls.on(&event),
            _ => {}
        }
        self.trace.on(&event);
        if let Some(debug) = &self.debug {
            debug.on(context, event);
        }
    }

    /// Records an event that only traces use. `event` is called only while a trace is recorded.
    #[inline]
    pub(crate) fn record<'a>(&self, event: impl FnOnce() -> trace::Event<&'a str>) {
        if self.is_recording() {
            self.trace.on::<M>(&Event::Recorded(&event()));
        }
    }

    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.trace.is_on()
    }

    /// Begins a slow operation, which lasts until the returned value is dropped.
    #[inline]
    pub(crate) fn during(&self, path: SlowPath) -> impl Sized + use<M> {
        slow_paths::during(path)
    }

    /// Returns `true` if a subscriber needs the events of each range.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.debug.is_some() || self.trace.is_on()
    }

    /// Returns the debugger, if a debugging check is on.
    #[inline]
    pub(crate) fn debug(&self) -> Option<&Debugger<M>> {
        self.debug.as_deref()
    }

    /// Returns the size of the guard on each side of every range, in bytes.
    pub(crate) fn margin_bytes(&self) -> u32 {
        self.debug().map_or(0, Debugger::margin_bytes)
    }

    /// Returns a number that is unique among objects of this kind.
    pub(crate) fn number(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number that the next object of this kind will get.
    pub(crate) fn numbered(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].load(Ordering::Acquire)
    }
}

pub mod trace {
    //! Traces: the events of an allocator in a compact file. It is readable however the recording ended.
    //!
    //! ```text
    //!   allocator ── hooks: one load each while nothing is recorded
    //!       │ events, a few bytes each, appended under one short lock
    //!       ▼
    //!   Chunk ──(once a frame, when there is enough)──▶ Writer: length, count, checksum, events ──▶ any `io::Write`
    //!                                                       │
    //!   Reader ◀────────────────────────────────────────────┘   event by event; an error says where it stopped
    //!       │
    //!   State: the memory as it was after any event, as a [`Snapshot`](crate::memory::Snapshot)
    //! ```
    //!
    //! A recording is started with `Recording::start`, on an allocator that has not created anything yet. It ends with
    //! `Recording::stop` or with the allocator. [`Allocator::trace`](crate::Allocator::trace) returns the `Recording`.
    //! The crate `ringfence-trace` defines the format; tools that only read traces need no other crate.
    //! `docs/trace-format.md` describes the format byte by byte. `ringfence replay` and `ringfence report` read it.
    //!
    //! | operation | cost |
    //! |---|---|
    //! | a hook while nothing is recorded | one relaxed load |
    //! | an event | one short lock, 5 to 30 bytes; no system call, except one reading of the clock every 64 events |
    //! | [`Allocator::reclaim`](crate::Allocator::reclaim) | one write, if 64 KiB have gathered or a quarter of a second has passed |
    //!
    //! An event is written before the bytes that it frees can be allocated again, and after the bytes that it allocates
    //! were allocated. So no prefix of a trace shows two overlapping ranges, even if many threads allocate.

    pub use super::recorder::StartTraceError;
    pub use ringfence_trace::{
        Chunk, DescriptorUse, Event, HEAP_KINDS, Live, MAGIC, PlannedRange, Reader, State, TraceError, TraceSummary,
        TransientObject, VERSION, VERSION_MIN, Writer,
    };
}
