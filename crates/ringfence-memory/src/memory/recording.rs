//! The trace and the debugging of an allocator, and the events that both receive.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ringfence_core::range::Invalid;
use ringfence_decision::AllocationDesc;
use ringfence_lockfree::delivery::Losses;
use ringfence_observe::{Debugger, Event, Key, Margins, NewPlace, NewRange, Numbered, RangeId};

use super::place::{ArenaRef, Place, PlaceKind};
use super::shared::Shared;
use crate::debugging::{Finding, GuardCheck, Leak, MemoryAddress, Operation};
use crate::device::{Device, Mapped};
use crate::trace::{self, StartTraceError, TraceSummary};
use ringfence_arena::Memory;
use ringfence_arena::{RangeInfo, Request};

/// Interface to the recording of an allocator: see [`trace`](crate::trace). Created by
/// [`Allocator::trace`](crate::Allocator::trace).
pub struct Recording<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Recording<'_, D> {
    /// Starts a trace: writes every event to `to`, until [`Recording::stop`] is called or the allocator is destroyed.
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) writes once 64 KiB are full or a quarter of a second has
    /// passed, so a file needs no buffer. Other calls write only once 1 MiB of events is buffered.
    ///
    /// If a write fails or panics, only the recording ends, and `stop` returns the error. Writes are made with no lock
    /// held, and may use the allocator.
    ///
    /// # Errors
    /// A trace is already being recorded, the allocator owns memory objects or descriptor heaps (or another thread
    /// creates some before the recording is on), or the beginning cannot be written.
    pub fn start(&self, to: impl std::io::Write + Send + 'static) -> Result<(), StartTraceError> {
        let Shared { rings, observers, device, .. } = &**self.0;
        // Read before the check for existing objects. An object with a later number is found by the second check, or
        // its thread sees that the recording is on.
        let numbered = observers.numbered(Numbered::Block);
        self.check_empty(numbered)?;
        rings.forget_recorded();
        observers.trace.start(Box::new(to), device.capabilities())?;
        fence(Ordering::SeqCst);
        self.check_empty(numbered).inspect_err(|_| _ = observers.trace.stop())
    }

    /// Returns an error if the allocator owns memory objects or descriptor heaps, or has allocated memory objects with
    /// numbers from `numbered` on.
    fn check_empty(&self, numbered: u64) -> Result<(), StartTraceError> {
        let Shared { memory_objects, descriptor_heaps, observers, .. } = &**self.0;
        let since = observers.numbered(Numbered::Block) - numbered;
        match memory_objects.load(Ordering::Acquire).max(since) {
            0 if descriptor_heaps.is_empty() => Ok(()),
            0 => Err(StartTraceError::DescriptorHeaps),
            memory_objects => Err(StartTraceError::NotEmpty { memory_objects }),
        }
    }

    /// Ends the trace with the figures of the rings, and returns the trace's size. Returns `None` if no trace was being
    /// recorded. Waits for a write that is under way on another thread.
    ///
    /// # Errors
    /// A part could not be written (the earlier parts can be read), or the call was made inside a write of the trace
    /// (the recording then continues).
    pub fn stop(&self) -> std::io::Result<Option<TraceSummary>> {
        let Shared { rings, observers, .. } = &**self.0;
        let visited = rings.all();
        rings.report(&visited, observers);
        rings.finish_visit(visited);
        observers.trace.stop().transpose()
    }
}

/// Interface to an allocator's debugging: see [`debugging`](crate::debugging). Created by
/// [`Allocator::debug`](crate::Allocator::debug).
pub struct Debug<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Debug<'_, D> {
    fn of<T: Default>(&self, look: impl FnOnce(&Debugger<Memory<D>>) -> T) -> T {
        self.0.observers.debug().map(look).unwrap_or_default()
    }

    /// Compares the guards of every live range, and restores those that were overwritten: see
    /// [`debugging`](crate::debugging). O(live ranges); does nothing if
    /// [`DebugDesc::margin_bytes`](crate::DebugDesc::margin_bytes) is 0.
    #[doc(alias = "vmaCheckCorruption")]
    #[must_use]
    pub fn check_guards(&self) -> GuardCheck {
        // SAFETY: every memory object belongs to this device.
        self.of(|debug| unsafe { debug.check_guards(&self.0.device) })
    }

    /// Returns the live ranges, retired ones included, with their names and the lines that created them. Unless
    /// [`AllocatorDesc::debug`](crate::AllocatorDesc::debug) turns a check on, the list is empty. O(live ranges).
    #[must_use]
    pub fn live(&self) -> Vec<Leak> {
        self.of(Debugger::live)
    }

    /// Returns the findings since the last call, at most the last 1024. Overruns and lost contents are added when they
    /// are found, leaks at [`Allocator::shutdown`](crate::Allocator::shutdown).
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.0.settle_losses();
        self.of(Debugger::take_findings)
    }

    /// Returns the last operations, oldest first: at most
    /// [`DebugDesc::history_count`](crate::DebugDesc::history_count).
    #[must_use]
    pub fn history(&self) -> Vec<Operation> {
        self.of(|debug| debug.history(None))
    }

    /// Returns the last operations on the byte at `address`, and so which resources owned it and when. O(history).
    #[must_use]
    pub fn history_of(&self, address: MemoryAddress) -> Vec<Operation> {
        self.of(|debug| debug.history(Some(address)))
    }

    /// Checks every invariant of the allocator's structures. For tests: no other thread may use the allocator during
    /// the call. The call does not stop other threads, and while a thread changes a lock-free structure, the structure
    /// may be reported as invalid although it is valid.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.0.validate()
    }
}

impl<D: Device> Shared<D> {
    #[inline(always)]
    pub(crate) fn notify(&self, event: Event<'_, Memory<D>>) {
        // SAFETY: every memory object belongs to this device, and is mapped as a whole if it is mapped. Its ranges are
        // inside it, with room for their guards. The allocator notifies of a range before its owner gets it, and before
        // its bytes can be allocated again.
        unsafe { self.observers.notify(&self.device, event) };
    }

    /// Adds an event to the trace, for libraries. `event` is called only while a trace is recorded.
    #[inline]
    pub fn record<'a>(&self, event: impl FnOnce() -> trace::Event<&'a str>) {
        self.observers.record(event);
    }

    /// Returns `true` while a trace is recorded. One load.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.observers.is_recording()
    }

    /// Writes the collected events of a trace, if a write is due. The write runs the program's code: hold no lock.
    #[inline]
    pub(crate) fn write_due(&self) {
        if self.is_recording() {
            self.observers.trace.write_due();
        }
    }

    /// Returns the record of copies that were lost, or that are lost if their frame is not submitted, for libraries
    /// that gather copies.
    pub fn losses(&self) -> &Arc<Losses<Leak>> {
        &self.losses
    }

    /// Determines which copies were lost because their frames ended without being submitted.
    pub(crate) fn settle_losses(&self) {
        self.losses.settle();
        if let Some(debug) = self.observers.debug() {
            self.losses.take_found().into_iter().for_each(|lost| debug.lost(lost));
        }
    }

    /// Counts writes to rings and their bytes.
    pub fn count_staged(&self, writes: u64, bytes: u64) {
        self.notify(Event::Staged { writes, bytes });
    }

    /// Returns a number for a descriptor heap, or for a descriptor allocator, in traces.
    pub fn descriptors_number(&self) -> u64 {
        self.observers.number(Numbered::Descriptors)
    }

    /// Returns a number for an object in a transient heap, in traces.
    pub fn transient_number(&self) -> u64 {
        self.observers.number(Numbered::Transient)
    }

    /// Returns the id by which subscribers know a place. Returns `None` for a part of another place, and for ranges
    /// outside the arenas, because a trace shows a pool there as one range.
    fn range_id(&self, place: &Place<D>) -> Option<RangeId> {
        let key = self.key_of(place)?;
        Some(RangeId { key, begin: self.range_offset(place) })
    }

    /// Returns the offset in the memory at which the range of a place begins. A guard in front of the place's bytes is
    /// part of the range.
    pub(super) fn range_offset(&self, place: &Place<D>) -> u64 {
        match &place.kind {
            PlaceKind::Range { allocation, .. } => allocation.offset(),
            PlaceKind::Slot { class, allocation, .. } => self.slot_arena(&place.arena).slots.offset(*class, allocation),
            _ => place.offset,
        }
    }

    /// Returns the key of [`Shared::range_id`], which identifies the place's own bytes, without the guard.
    pub(crate) fn key_of(&self, place: &Place<D>) -> Option<Key> {
        let is_small = matches!(place.kind, PlaceKind::Small { .. });
        let is_known = is_small || place.is_own_range();
        is_known.then(|| Key { block: self.memory_of(place).block, offset: place.offset, is_small })
    }

    pub(super) fn note_block(&self, memory: &Memory<D>, class: &'static str, dedicated: bool) {
        let Memory { block, memory_type, size: bytes, .. } = *memory;
        // After the block got its number, and before the check for a recording: see `Recording::start`.
        fence(Ordering::SeqCst);
        self.record(|| trace::Event::BlockMade { block, memory_type, dedicated, bytes, class });
    }

    /// Records a range that was allocated. Its first `front` bytes are a guard.
    #[inline]
    pub(super) fn note_allocated(&self, place: &Place<D>, front: u64, request: &Request<'_>) {
        if self.is_recording() {
            let (block, offset, bytes) = (self.memory_of(place).block, place.offset - front, place.size());
            let Request { alignment, name, .. } = *request;
            self.record(|| trace::Event::Allocated { block, offset, bytes, alignment, name });
        }
    }

    /// Records an object that was created in a range of `bytes`, guards included.
    #[inline]
    pub(super) fn note_made(
        &self,
        place: &Place<D>,
        desc: &AllocationDesc<'_>,
        margins: Margins,
        bytes: u64,
        mapped: Option<Mapped>,
    ) {
        if self.observers.debug().is_some() {
            let host = mapped.or_else(|| self.host_of(place));
            self.note_new(place, desc, bytes - margins.front - margins.back, margins, host);
        }
    }

    #[cold]
    fn note_new(&self, place: &Place<D>, desc: &AllocationDesc<'_>, size: u64, margins: Margins, host: Option<Mapped>) {
        let Some(key) = self.key_of(place) else { return };
        let AllocationDesc { name, user_data, .. } = *desc;
        let memory = &self.shared_memory_of(place);
        self.notify(Event::Made(NewRange { key, memory, size, name, user_data, margins, host }));
    }

    /// Returns the mapped address of a place, if the API maps memory.
    fn host_of(&self, place: &Place<D>) -> Option<Mapped> {
        // SAFETY: the place is inside its memory, which is mapped as a whole if it is mapped.
        self.memory_of(place).mapped.map(|base| unsafe { base.add(place.offset) })
    }

    /// Records memory that was allocated or imported as a whole, with the program's line `at`.
    pub(crate) fn note_whole(&self, place: &Place<D>, desc: &AllocationDesc<'_>, at: &'static Location<'static>) {
        if self.observers.debug().is_some() {
            let size = self.memory_of(place).size - place.offset;
            // Without a mapped address, so that a fill does not overwrite bytes that others have written.
            self.note_new(place, desc, size, Margins::default(), None);
            self.note_handed_out(place, at, None);
        }
    }

    /// Records a range of a shared buffer that is returned to the program.
    pub(crate) fn note_small(&self, place: &Place<D>, size: u64, host: Option<Mapped>) {
        if self.observers.debug().is_some() {
            let desc = AllocationDesc { name: "small buffer", ..Default::default() };
            self.note_new(place, &desc, size, Margins::default(), host);
        }
    }

    /// Records `at`, the program's line that requested the resource, for debugging.
    #[inline]
    pub(crate) fn note_handed_out(&self, place: &Place<D>, at: &'static Location<'static>, address: Option<u64>) {
        if self.observers.debug().is_some()
            && let Some(key) = self.key_of(place)
        {
            self.notify(Event::HandedOut { key, at, device_address: address });
        }
    }

    pub(crate) fn note_moved(
        &self,
        from: Option<RangeId>,
        place: &Place<D>,
        host: Option<Mapped>,
        address: impl FnOnce() -> Option<u64>,
    ) {
        let (Some(from), Some(to)) = (from, self.watched(place)) else { return };
        let memory = &self.shared_memory_of(place);
        let host = host.or_else(|| self.host_of(place));
        self.notify(Event::Moved { from, to, place: NewPlace { memory, host, device_address: address() } });
    }

    /// Returns the id of a place, if a subscriber needs it.
    #[inline]
    pub(crate) fn watched(&self, place: &Place<D>) -> Option<RangeId> {
        if self.observers.is_watching() { self.range_id(place) } else { None }
    }

    #[inline]
    fn notify_range(&self, place: &Place<D>, event: fn(RangeId) -> Event<'static, Memory<D>>) {
        if let Some(range) = self.watched(place) {
            self.notify(event(range));
        }
    }

    /// Records that a place was retired, and prevents further moves.
    #[inline]
    pub(super) fn note_retired(&self, place: &Place<D>) {
        place.never_move();
        self.notify_range(place, Event::Retired);
    }

    /// Records that the device is done with the place's bytes, and that its owner has released them.
    #[inline]
    pub(super) fn note_released(&self, place: &Place<D>) {
        self.notify_range(place, Event::Released);
    }

    #[inline]
    pub(super) fn note_freed(&self, place: &Place<D>) {
        place.never_move();
        self.notify_range(place, Event::Freed);
    }

    /// Renames a place. Does nothing for a place that shares its range, is a small buffer, or is in a pool outside the
    /// arenas: such a place has no name.
    pub(crate) fn rename(&self, place: &mut Place<D>, name: &str) {
        self.change_info(place, name, None);
    }

    /// As [`Shared::rename`], and sets other user data.
    pub(crate) fn change_info(&self, place: &mut Place<D>, name: &str, user_data: Option<u64>) {
        let change = &|info: &mut RangeInfo| {
            info.name = name.into();
            info.user_data = user_data.unwrap_or(info.user_data);
        };
        match &mut place.kind {
            PlaceKind::Range { allocation, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].change_info(allocation, change),
                ArenaRef::Pool(pool) => pool.arena.change_info(allocation, change),
            },
            PlaceKind::Dedicated { number, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].change_dedicated_info(*number, change),
                ArenaRef::Pool(pool) => pool.arena.change_dedicated_info(*number, change),
            },
            PlaceKind::Slot { class, named, allocation, .. } => {
                *named = true;
                self.slot_arena(&place.arena).change_slot_info(*class, allocation, change);
            }
            PlaceKind::Pooled { .. } | PlaceKind::Aliased(_) | PlaceKind::Shared(_) | PlaceKind::Small { .. } => return,
        }
        if let Some(range) = self.watched(place) {
            self.notify(Event::Named { range, name });
        }
    }
}
