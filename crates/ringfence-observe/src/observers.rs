//! The sink of events: passes each event to the subscribers that take it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::calls::Calls;
use crate::debugger::Debugger;
use crate::debugging::DebugDesc;
use crate::event::Event;
use crate::recorder::Trace;
use crate::slow_paths::{self, SlowPath};
use crate::trace;
use crate::watched::Watched;

/// The subscribers of an allocator, and the sink of its events.
pub struct Observers<M: Watched> {
    /// Counters for statistics.
    pub calls: Calls,
    /// The trace that is recorded, if any.
    pub trace: Trace,
    /// `Some` if a debugging check is on.
    debug: Option<Box<Debugger<M>>>,
    numbers: [AtomicU64; 3],
}

/// Kinds of objects that [`Observers::number`] numbers. The numbers of each kind begin at 1.
#[derive(Clone, Copy)]
pub enum Numbered {
    /// Memory objects.
    Block,
    /// Descriptor heaps and their owners.
    Descriptors,
    /// Objects of transient heaps.
    Transient,
}

impl<M: Watched> Observers<M> {
    /// Creates the subscribers that `debug` describes. No trace is recorded yet.
    #[must_use]
    pub fn new(debug: DebugDesc) -> Self {
        let numbers = [const { AtomicU64::new(1) }; 3];
        Self { calls: Calls::default(), trace: Trace::new(), debug: Debugger::new(debug), numbers }
    }

    /// Passes an event to each subscriber that takes it. `context` gives access to the bytes of memory.
    ///
    /// # Safety
    /// Every memory object that an event names belongs to `context`. A range is live from [`Event::Made`] to
    /// [`Event::Released`] or [`Event::Freed`]. During this time its memory is alive and mapped as the object reports,
    /// the range and its guards are inside the memory, and no resource owns the guards. While `notify` handles one of
    /// these three events, no other code uses the range's bytes.
    #[inline(always)]
    pub unsafe fn notify(&self, context: &M::Context, event: Event<'_, M>) {
        match &event {
            Event::Called(_) => return self.calls.on(&event),
            Event::Warned(warning) => return slow_paths::warn(warning),
            Event::Staged { .. } => self.calls.on(&event),
            _ => {}
        }
        self.trace.on(&event);
        if let Some(debug) = &self.debug {
            // SAFETY: the caller promises the same.
            unsafe { debug.on(context, event) };
        }
    }

    /// Records an event that only traces use. `event` is called only while a trace is recorded.
    #[inline]
    pub fn record<'a>(&self, event: impl FnOnce() -> trace::Event<&'a str>) {
        if self.is_recording() {
            self.trace.on::<M>(&Event::Recorded(&event()));
        }
    }

    /// Returns `true` while a trace is recorded. One load.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.trace.is_on()
    }

    /// Begins a slow operation, which lasts until the returned value is dropped.
    #[inline]
    pub fn during(&self, path: SlowPath) -> impl Sized + use<M> {
        slow_paths::during(path)
    }

    /// Returns `true` if a subscriber needs the events of each range.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.debug.is_some() || self.trace.is_on()
    }

    /// Returns the debugger, if a debugging check is on.
    #[inline]
    pub fn debug(&self) -> Option<&Debugger<M>> {
        self.debug.as_deref()
    }

    /// Returns the requested size of the guards ([`DebugDesc::margin_bytes`]), in bytes; 0 for no guards.
    pub fn margin_bytes(&self) -> u32 {
        self.debug().map_or(0, Debugger::margin_bytes)
    }

    /// Returns a number that is unique among objects of this kind.
    pub fn number(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number that the next object of this kind will get.
    pub fn numbered(&self, of: Numbered) -> u64 {
        self.numbers[of as usize].load(Ordering::Acquire)
    }
}
