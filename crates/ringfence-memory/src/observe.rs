//! Events: one type of event, one sink for it, and its subscribers. It knows no other part of the allocator: numbers,
//! names and bytes come in, or what a trait of its own says.
//!
//! ```text
//!                                                              ┌─▶ Calls        counters, for statistics
//!   timeline, memory, resource, libraries ── Event ─▶ Observers ┼─▶ Trace        a file, while one is recorded
//!                                                              ├─▶ Debugger     guards, fills, leaks, history; if asked for
//!                                                              └─▶ slow_paths   spans and warnings of `tracing`, by feature
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | an event that no subscriber takes | the loads of [`Observers::is_watching`] |
//! | a call that is counted | an addition to a line of this thread's |
//! | an event that is recorded | see [`trace`] |
//! | an event that debugging notes | one lock, a map of all live ranges |

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

/// A range of a memory object, by the numbers that each subscriber knows it by.
#[derive(Clone, Copy)]
pub(crate) struct RangeId {
    /// Where its owner's bytes begin.
    pub(crate) key: Key,
    /// Where it begins itself: before its guard, if it has one.
    pub(crate) begin: u64,
}

/// Something that happened. It owns nothing, so that one that no subscriber takes leaves nothing to drop.
pub(crate) enum Event<'a, M: Watched> {
    /// A call was made.
    Called(Call),
    /// Data was written to rings for the device.
    Staged { writes: u64, bytes: u64 },
    /// An object was made in a range, or the range is its owner's as it is.
    Made(NewRange<'a, M>),
    /// It was handed to the program, at this line.
    HandedOut { key: Key, at: &'static Location<'static>, device_address: Option<u64> },
    /// It got another name.
    Named { range: RangeId, name: &'a str },
    /// What lay in one range lies in another now, which was allocated before. The old one is not retired yet.
    Moved { from: RangeId, to: RangeId, place: NewPlace<'a, M> },
    /// Its owner released it; the device may still use it.
    Retired(RangeId),
    /// The device is done with it. Its object may still be alive.
    Released(RangeId),
    /// Its bytes can be handed out again from now on, and not before.
    Freed(RangeId),
    /// What only a trace has: blocks, frames, rings, descriptors.
    Recorded(&'a trace::Event<&'a str>),
    /// Something went wrong.
    Warned(Warning<'a>),
    /// The allocator is shut down, or refuses to be while the device may use something: live ranges are reported, and
    /// retired ones only if all is over.
    Ended { is_over: bool },
}

pub(crate) struct Observers<M: Watched> {
    pub(crate) calls: Calls,
    pub(crate) trace: Trace,
    /// There iff something is looked for.
    debug: Option<Box<Debugger<M>>>,
    numbers: [AtomicU64; 3],
}

/// What is numbered, from 1 on.
#[derive(Clone, Copy)]
pub(crate) enum Numbered {
    /// Memory objects.
    Block,
    /// Descriptor heaps and what they belong to.
    Descriptors,
    /// Objects of transient heaps.
    Transient,
}

impl<M: Watched> Observers<M> {
    pub(crate) fn new(debug: DebugDesc) -> Self {
        let numbers = [const { AtomicU64::new(1) }; 3];
        Self { calls: Calls::default(), trace: Trace::new(), debug: Debugger::new(debug), numbers }
    }

    /// Has each subscriber know. `context` is what the bytes of memory are reached through.
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

    /// Has a trace record what nothing else looks at. It is made only then.
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

    /// Something takes until what is returned is dropped.
    #[inline]
    pub(crate) fn during(&self, path: SlowPath) -> impl Sized + use<M> {
        slow_paths::during(path)
    }

    /// Whether a subscriber looks at each range.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.debug.is_some() || self.trace.is_on()
    }

    /// What debugging has found, where something is looked for.
    #[inline]
    pub(crate) fn debug(&self) -> Option<&Debugger<M>> {
        self.debug.as_deref()
    }

    /// How wide the guard is that each range has on each side.
    pub(crate) fn margin_bytes(&self) -> u32 {
        self.debug().map_or(0, Debugger::margin_bytes)
    }

    /// A number that nothing else of this kind has.
    pub(crate) fn number(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// The next of these numbers.
    pub(crate) fn numbered(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].load(Ordering::Acquire)
    }
}

pub mod trace {
    //! Traces: what an allocator did, event by event, in a compact file that can be read however it ended.
    //!
    //! ```text
    //!   allocator ── hooks: one load each while nothing is recorded
    //!       │ events, a few bytes each, appended under one short lock
    //!       ▼
    //!   Chunk ──(once a frame, when there is enough)──▶ Writer: length, count, checksum, events ──▶ any `io::Write`
    //!                                                       │
    //!   Reader ◀────────────────────────────────────────────┘   event by event; stops with an error that says how far it came
    //!       │
    //!   State: the memory as it was after any event, as a [`Snapshot`](crate::memory::Snapshot)
    //! ```
    //!
    //! Recording is started with `Recording::start`, on an allocator that has not made anything yet, and ended with
    //! `Recording::stop` or with the allocator: both by [`Allocator::trace`](crate::Allocator::trace). The format is
    //! the crate `ringfence-trace`'s, which a tool that only reads traces can use alone; it is described byte by byte
    //! in `docs/trace-format.md`. `ringfence replay` and `ringfence report` read it.
    //!
    //! | operation | cost |
    //! |---|---|
    //! | a hook while nothing is recorded | one relaxed load |
    //! | an event | one short lock, 5 to 30 bytes; no system call, but once in 64 events a reading of the clock |
    //! | [`Allocator::reclaim`](crate::Allocator::reclaim) | one write, if 64 KiB have gathered or a quarter of a second has passed |
    //!
    //! An event is written before the bytes that it frees can be handed out again, and after the bytes that it
    //! allocates were: so no part of a trace, cut off wherever it is, shows two ranges in the same place, whatever the
    //! threads did.

    pub use super::recorder::StartTraceError;
    pub use ringfence_trace::{
        Chunk, DescriptorUse, Event, HEAP_KINDS, Live, MAGIC, PlannedRange, Reader, State, TraceError, TraceSummary,
        TransientObject, VERSION, VERSION_MIN, Writer,
    };
}
