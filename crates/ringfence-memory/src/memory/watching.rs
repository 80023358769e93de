//! What is recorded and looked for while the program runs: the trace and the debugging of an allocator, and what they are
//! notified of.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::range::Invalid;

use super::memory_object::Memory;
use super::note::Note;
use super::place::{ArenaRef, Hold, Place};
use super::request::{AllocationDesc, Request};
use super::shared::Shared;
use crate::device::{Device, Mapped};
use crate::observe::debugging::{
    Debugger, Finding, GuardCheck, Key, Leak, Margins, MemoryAddress, NewRange, Operation,
};
use crate::observe::trace::{StartTraceError, TraceSummary};

/// The recording of an allocator: see [`trace`](crate::trace). Made by [`Allocator::trace`](crate::Allocator::trace).
pub struct Recording<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Recording<'_, D> {
    /// Records everything that happens to memory from now on into `to`, until [`Recording::stop`] or until the
    /// allocator is gone: see [`crate::trace`]. Writes come in pieces of 64 KiB or of a quarter of a second, from
    /// [`Allocator::reclaim`](crate::Allocator::reclaim), so that a file needs no buffer of its own.
    ///
    /// A write that fails, or panics, ends the recording and nothing else; `stop` says why. It runs with no lock held,
    /// and may use the allocator.
    ///
    /// # Errors
    /// A recording is under way, something was made already, or the beginning cannot be written.
    pub fn start(&self, to: impl std::io::Write + Send + 'static) -> Result<(), StartTraceError> {
        let Shared { memory_objects, descriptor_heaps, rings, trace, device, .. } = &**self.0;
        match memory_objects.load(Ordering::Relaxed) {
            0 if !descriptor_heaps.is_empty() => Err(StartTraceError::DescriptorHeaps),
            0 => {
                rings.forget_recorded();
                trace.start(Box::new(to), device.capabilities())
            }
            memory_objects => Err(StartTraceError::NotEmpty { memory_objects }),
        }
    }

    /// Ends the recording, with how the rings are, and says how large it is; `None` if nothing was being recorded. Waits
    /// for a write that is under way on another thread.
    ///
    /// # Errors
    /// Some of it could not be written: what was written before that can be read. Or the write itself asks for it: the
    /// recording goes on then.
    pub fn stop(&self) -> std::io::Result<Option<TraceSummary>> {
        let Shared { rings, trace, .. } = &**self.0;
        let seen = rings.all();
        rings.tell(&seen, trace);
        rings.look_after(seen);
        trace.stop().transpose()
    }
}

/// What an allocator's debugging has found: see [`debugging`](crate::debugging). Made by
/// [`Allocator::debug`](crate::Allocator::debug).
pub struct Debug<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Debug<'_, D> {
    fn of<T: Default>(&self, look: impl FnOnce(&Debugger<Memory<D>>) -> T) -> T {
        self.0.debug.as_deref().map(look).unwrap_or_default()
    }

    /// Compares the guards of every live range that has some, and mends those that were written: see
    /// [`debugging`](crate::debugging). O(live ranges); nothing without margins.
    #[must_use]
    pub fn check_guards(&self) -> GuardCheck {
        self.of(|debug| debug.check_guards(&self.0.device))
    }

    /// What is alive, by name and place of creation, what waits for the device too; nothing unless something is looked
    /// for ([`AllocatorDesc::debug`](crate::AllocatorDesc::debug)). O(live ranges).
    #[must_use]
    pub fn live(&self) -> Vec<Leak> {
        self.of(Debugger::live)
    }

    /// What was found since the last call: overruns as they are found, leaks at [`Allocator::shutdown`](crate::Allocator::shutdown). The last 1024.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.of(Debugger::take_findings)
    }

    /// What happened last, oldest first: as much as [`DebugDesc::history_count`](crate::DebugDesc::history_count) says.
    #[must_use]
    pub fn history(&self) -> Vec<Operation> {
        self.of(|debug| debug.history(None))
    }

    /// Of what happened last what was about the byte at `address`: who had it, from when to when. O(history).
    #[must_use]
    pub fn history_of(&self, address: MemoryAddress) -> Vec<Operation> {
        self.of(|debug| debug.history(Some(address)))
    }

    /// Checks every rule of the allocator's own structures. For tests; no other thread may use the allocator meanwhile.
    ///
    /// What threads share without a lock is between two states while one of them changes it, and nothing here holds them
    /// up: a sound allocator that is in use may be reported as unsound.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.0.validate()
    }
}

impl<D: Device> Shared<D> {
    /// A memory object was made.
    pub(super) fn trace_block(&self, memory: &Memory<D>, class: &'static str, dedicated: bool) {
        self.trace.block_made(memory.block, memory.memory_type, dedicated, memory.size, class);
    }

    /// A range was allocated, whose first `front` bytes are a guard.
    pub(super) fn trace_allocated(&self, place: &Place<D>, front: u64, request: &Request<'_>) {
        if self.trace.is_on() {
            let (block, offset) = (self.memory_of(place).block, place.offset - front);
            self.trace.allocated(block, offset, place.size(), request.alignment, request.name);
        }
    }

    /// Has debugging note something of a place that it knows.
    #[cold]
    fn debug_note(&self, place: &Place<D>, note: impl FnOnce(&Debugger<Memory<D>>, Key)) {
        if let (Some(debug), Some(key)) = (&self.debug, self.key_of(place)) {
            note(debug, key);
        }
    }

    /// Something was made in a range of so many bytes, guards included.
    #[cold]
    pub(super) fn debug_made(
        &self,
        place: &Place<D>,
        desc: &AllocationDesc<'_>,
        margins: Margins,
        bytes: u64,
        mapped: Option<Mapped>,
    ) {
        let AllocationDesc { name, user_data, .. } = *desc;
        self.debug_note(place, |debug, key| {
            let memory = self.shared_memory_of(place);
            // SAFETY: the place lies inside its memory, which is mapped as a whole if it is mapped.
            let by_memory = || memory.mapped.map(|base| unsafe { base.add(place.offset) });
            let (host, size) = (mapped.or_else(by_memory), bytes - margins.front - margins.back);
            debug.made(&self.device, NewRange { key, memory, size, name, user_data, margins, host });
        });
    }

    /// Something was imported.
    pub(crate) fn debug_imported(&self, place: &Place<D>, desc: &AllocationDesc<'_>, at: &'static Location<'static>) {
        let AllocationDesc { name, user_data, .. } = *desc;
        self.debug_note(place, |debug, key| {
            let memory = self.shared_memory_of(place);
            let size = memory.size - place.offset;
            // Without a place for the host: what others have written there is not filled over.
            let (margins, host) = (Margins::default(), None);
            debug.made(&self.device, NewRange { key, memory, size, name, user_data, margins, host });
            debug.handed_out(key, at, None);
        });
    }

    /// What is retired is not moved any more.
    ///
    /// Pools outside the arenas are one range each in a trace, as in a snapshot: what comes and goes in them is not recorded.
    pub(super) fn note_retired(&self, place: &Place<D>) {
        place.never_move();
        if self.trace.is_on() && place.is_own_range() {
            self.trace.retired(self.memory_of(place).block, self.range_offset(place));
        }
        if self.debug.is_some() {
            self.debug_note(place, |debug, key| debug.retired(key));
        }
    }

    /// The device is done with the place's bytes, and its owner has released them.
    #[inline]
    pub(super) fn note_released(&self, place: &Place<D>) {
        if self.debug.is_some() {
            self.debug_note(place, |debug, key| debug.released(&self.device, key));
        }
    }

    /// A place's bytes go back to where they are from.
    #[inline]
    pub(super) fn note_freed(&self, place: &Place<D>) {
        place.never_move();
        if self.trace.is_on() && place.is_own_range() {
            self.trace.freed(self.memory_of(place).block, self.range_offset(place));
        }
        self.note_released(place);
    }

    /// Notes another name. A place that others use too, or that lies in a pool outside the arenas, has none of its own.
    pub(crate) fn rename(&self, place: &mut Place<D>, name: &str) {
        self.renote(place, name, None);
    }

    /// As [`Shared::rename`], and other user data.
    pub(crate) fn renote(&self, place: &mut Place<D>, name: &str, user_data: Option<u64>) {
        let change = &|note: &mut Note| {
            note.name = name.into();
            note.user_data = user_data.unwrap_or(note.user_data);
        };
        match &mut place.hold {
            Hold::Range { allocation, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].renote(allocation, change),
                ArenaRef::Pool(pool) => pool.arena.renote(allocation, change),
            },
            Hold::Dedicated { number, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].renote_dedicated(*number, change),
                ArenaRef::Pool(pool) => pool.arena.renote_dedicated(*number, change),
            },
            Hold::Slot { class, named, allocation } => {
                *named = true;
                self.arena_slots(&place.arena).renote(*class, allocation, change);
            }
            Hold::Pooled { .. } | Hold::Aliased(_) | Hold::Common(_) | Hold::Small { .. } => return,
        }
        self.debug_note(place, |debug, key| debug.named(key, name));
        self.trace.named(self.memory_of(place).block, place.offset, name);
    }
}
