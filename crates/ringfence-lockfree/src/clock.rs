//! State of the values of one timeline: begun, submitted, over. A value is *over* if all work up to this value is
//! complete or will never run.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                                          ○      ●     open ●, discarded ○
//! ```
//!
//! A value is opened, and then closed in one of three ways: submitted, discarded (it will never be submitted), or left
//! (it is not known if it was submitted). No value is opened twice. A discarded value is over once the fence reaches a
//! later value. If the discarded value is above all submitted and left values, and no earlier value is open, it is
//! already over once the fence reaches the highest of these values.
//!
//! | operation | cost |
//! |---|---|
//! | id, at, begun, seen, closes | at most one atomic read |
//! | other functions | O(open and watched values), under a short lock |

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::PoisonError;

use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering};
use ringfence_core::sync::{SyncPoint, TimelineId};

/// State of the values of one timeline: open, submitted, discarded, left ([`Clock::leave`]) or over. A value is *over*
/// if all work up to this value is complete or will never run. Any thread may call the functions.
pub struct Clock {
    id: TimelineId,
    /// The latest value that may be signalled: the maximum of the open, submitted and left values. A copy of
    /// [`State::begun`] that is read without the lock.
    begun: AtomicU64,
    /// The highest value that the device was seen to reach.
    seen: AtomicU64,
    /// Number of values that were closed so far.
    closes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    submitted: u64,
    /// The latest value that was left since the last [`Clock::discard_left`], or 0. Has no effect if it is at most
    /// `submitted`.
    left: u64,
    /// The highest value that was ever opened or that the fence was seen to reach. New values are above it. So progress
    /// that was read before a value was opened never covers that value.
    issued: u64,
    /// The open values, in ascending order. An open value is above `submitted`, unless a later value was submitted
    /// first.
    open: Vec<u64>,
    watched: Vec<Watched>,
}

/// A value and the way in which it was closed. Kept while a [`Watch`] of the value exists.
struct Watched {
    value: u64,
    watches: usize,
    end: End,
}

/// The way in which a value was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The value is still open.
    Open,
    /// The value was submitted.
    Submitted,
    /// The value was closed by [`Clock::discard`] or [`Clock::leave`], or was not open when it was first watched. After
    /// `leave`, the value may have been submitted.
    Unsubmitted,
}

/// A request to the clock to remember the way in which a value is closed, until this `Watch` is dropped. Created by
/// [`Clock::watch`].
pub struct Watch {
    clock: Arc<Clock>,
    value: u64,
}

impl Watch {
    /// Returns the way in which the value was closed, or [`End::Open`] if it is not closed yet.
    #[must_use]
    pub fn end(&self) -> End {
        self.clock.lock().watched(self.value).map_or(End::Unsubmitted, |watched| watched.end)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.clock.lock();
        let Some(watched) = state.watched(self.value) else { return };
        watched.watches -= 1;
        if watched.watches == 0 {
            state.watched.retain(|watched| watched.watches > 0);
        }
    }
}

/// The event that a value still waits for before it is over: before all work up to the value is complete, or will never
/// run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// The value is over once the fence reaches the contained value.
    Submitted(u64),
    /// The contained value must be closed first: it is open, or was not opened yet.
    Open(u64),
    /// The value is over once the fence reaches the contained value. The fence may never reach it: only values that
    /// were left can signal it, and these may not have been submitted.
    Left(u64),
}

impl Clock {
    /// Creates the clock of a timeline. `completed` is the current value of its fence.
    #[must_use]
    pub fn new(id: TimelineId, completed: u64) -> Self {
        let state = State { submitted: completed, left: 0, issued: completed, open: Vec::new(), watched: Vec::new() };
        Self {
            id,
            begun: AtomicU64::new(completed),
            seen: AtomicU64::new(completed),
            closes: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// Returns the timeline.
    #[inline]
    #[must_use]
    pub fn id(&self) -> TimelineId {
        self.id
    }

    /// Returns the point of this timeline at `value`.
    #[inline]
    #[must_use]
    pub fn at(&self, value: u64) -> SyncPoint {
        SyncPoint::new(self.id, value)
    }

    /// Locks the state. Poisoning is ignored, because no code panics under the lock after it has changed the state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the next value and returns it.
    ///
    /// # Panics
    /// If the value `u64::MAX - 1` or a higher one was opened or reached before, because there is no further value.
    pub fn open(&self) -> u64 {
        let mut room = Vec::new();
        loop {
            let mut state = self.lock();
            let count = state.open.len();
            if count < state.open.capacity() || count < room.capacity() {
                return self.issue(&mut state, &mut room);
            }
            // Host memory is allocated without the lock: the program's global allocator may call this clock.
            drop(state);
            room = Vec::with_capacity((2 * count).max(4));
        }
    }

    /// Opens the next value. If the list of open values is full, `room` replaces it.
    fn issue(&self, state: &mut State, room: &mut Vec<u64>) -> u64 {
        assert!(state.issued < u64::MAX - 1, "{} has no value left: its fence was signalled near 2^64", self.id);
        if state.open.len() == state.open.capacity() {
            room.append(&mut state.open);
            core::mem::swap(&mut state.open, room);
        }
        state.issued += 1;
        let value = state.issued;
        state.open.push(value);
        self.begun.store(state.begun(), Ordering::SeqCst);
        value
    }

    /// Closes the value as submitted: the device will signal it.
    ///
    /// # Errors
    /// The latest submitted value, if `value` is not above it.
    pub fn submit(&self, value: u64) -> Result<(), u64> {
        let mut state = self.lock();
        let submitted = state.submitted;
        if value <= submitted {
            return Err(submitted);
        }
        state.submitted = value;
        self.close(&mut state, value, End::Submitted);
        Ok(())
    }

    /// Closes the value as discarded: it is never signalled.
    pub fn discard(&self, value: u64) {
        self.close(&mut self.lock(), value, End::Unsubmitted);
    }

    /// If the value is open, closes it as left: it may or may not be signalled.
    pub fn leave(&self, value: u64) {
        let mut state = self.lock();
        if state.open.contains(&value) {
            state.left = state.left.max(value);
            self.close(&mut state, value, End::Unsubmitted);
        }
    }

    /// Declares that no value that was closed by [`Clock::leave`] will be signalled.
    pub fn discard_left(&self) {
        let mut state = self.lock();
        state.left = 0;
        self.begun.store(state.begun(), Ordering::SeqCst);
    }

    /// Watches a value. If the value is not open and not watched, it counts as not submitted.
    #[must_use]
    pub fn watch(self: &Arc<Self>, value: u64) -> Watch {
        let mut room = Vec::new();
        loop {
            let mut state = self.lock();
            let count = state.watched.len();
            if let Some(watched) = state.watched(value) {
                watched.watches += 1;
            } else if count < state.watched.capacity() || count < room.capacity() {
                let end = if state.open.contains(&value) { End::Open } else { End::Unsubmitted };
                if count == state.watched.capacity() {
                    room.append(&mut state.watched);
                    core::mem::swap(&mut state.watched, &mut room);
                }
                state.watched.push(Watched { value, watches: 1, end });
            } else {
                // As in `open`, host memory is allocated without the lock.
                drop(state);
                room = Vec::with_capacity((2 * count).max(4));
                continue;
            }
            drop(state);
            return Watch { clock: Arc::clone(self), value };
        }
    }

    fn close(&self, state: &mut State, value: u64, end: End) {
        state.open.retain(|open| *open != value);
        if let Some(watched) = state.watched(value) {
            watched.end = end;
        }
        self.begun.store(state.begun(), Ordering::SeqCst);
        self.closes.fetch_add(1, Ordering::Release);
    }

    /// Records that the device has reached `completed`. Returns the value up to which all values, also discarded ones,
    /// are then over.
    pub fn passed(&self, completed: u64) -> u64 {
        let mut state = self.lock();
        self.see(&mut state, completed);
        state.passed(completed)
    }

    /// Records that the device has reached `completed`. Values up to `completed` are not opened afterwards. So if the
    /// fence is beyond all begun values, it does not complete values that are opened later.
    pub fn saw(&self, completed: u64) {
        self.see(&mut self.lock(), completed);
    }

    fn see(&self, state: &mut State, completed: u64) {
        state.issued = state.issued.max(completed);
        self.seen.fetch_max(completed, Ordering::AcqRel);
    }

    /// Returns the latest value that may be signalled.
    #[inline]
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Returns the highest value that the device was seen to reach.
    #[inline]
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Returns the number of values that were closed so far.
    #[inline]
    #[must_use]
    pub fn closes(&self) -> u64 {
        self.closes.load(Ordering::Acquire)
    }

    /// Returns the latest submitted value.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.lock().submitted
    }

    /// Returns `true` if the value is open.
    #[must_use]
    pub fn is_open(&self, value: u64) -> bool {
        self.lock().open.contains(&value)
    }

    /// Returns the latest open value. Returns `None` if no value is open.
    #[must_use]
    pub fn latest_open(&self) -> Option<u64> {
        self.lock().open.last().copied()
    }

    /// Returns the oldest open value and the number of open values. Returns `None` if no value is open.
    #[must_use]
    pub fn oldest_open(&self) -> Option<(u64, usize)> {
        let state = self.lock();
        state.open.first().map(|value| (*value, state.open.len()))
    }

    /// Returns the latest value that was closed by [`Clock::leave`]. Returns `None` if there is no such value, if the
    /// device was seen to reach it, or if a later value was submitted.
    #[must_use]
    pub fn unresolved(&self) -> Option<u64> {
        let state = self.lock();
        let reached = state.submitted.max(self.seen());
        (state.left > reached).then_some(state.left)
    }

    /// Returns the event that `value` still waits for before it is over.
    #[must_use]
    pub fn ahead(&self, value: u64) -> Ahead {
        self.lock().ahead(value)
    }

    /// Returns the value that a caller must wait for, so that `value` is over. If `value` was discarded, the result can
    /// be an earlier value.
    #[must_use]
    pub fn signalled_with(&self, value: u64) -> u64 {
        match self.ahead(value) {
            Ahead::Submitted(signalled) | Ahead::Left(signalled) => signalled,
            Ahead::Open(_) => value,
        }
    }
}

impl State {
    fn watched(&mut self, value: u64) -> Option<&mut Watched> {
        self.watched.iter_mut().find(|watched| watched.value == value)
    }

    fn begun(&self) -> u64 {
        self.open.last().copied().unwrap_or(0).max(self.submitted).max(self.left)
    }

    fn passed(&self, completed: u64) -> u64 {
        if completed < self.submitted.max(self.left) {
            return completed;
        }
        // All values above `completed` and below the next open one were discarded.
        let open = self.open.iter().find(|open| **open > completed);
        open.map_or(self.issued, |open| open - 1).max(completed)
    }

    fn ahead(&self, value: u64) -> Ahead {
        if value <= self.submitted {
            return Ahead::Submitted(value);
        }
        let open = self.open.iter().rev().find(|open| (self.submitted + 1..=value).contains(*open));
        match open {
            Some(open) => Ahead::Open(*open),
            None if value > self.issued => Ahead::Open(value),
            None if self.left > self.submitted => Ahead::Left(value.min(self.left)),
            None => Ahead::Submitted(self.submitted),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_stands_ahead_is_known_by_how_a_value_was_closed() {
        let clock = Clock::new(TimelineId::of(1, 0), 10);
        let values: Vec<u64> = (0..5).map(|_| clock.open()).collect();
        assert_eq!(values, [11, 12, 13, 14, 15]);
        assert_eq!((clock.begun(), clock.seen(), clock.latest_open()), (15, 10, Some(15)));
        assert_eq!((clock.oldest_open(), clock.ahead(12)), (Some((11, 5)), Ahead::Open(12)));
        assert_eq!(clock.submit(12), Ok(()));
        assert_eq!(clock.submit(11), Err(12), "it was overtaken");
        assert_eq!((clock.ahead(11), clock.ahead(13)), (Ahead::Submitted(11), Ahead::Open(13)));
        clock.discard(13);
        clock.leave(14);
        assert_eq!(
            (clock.ahead(13), clock.ahead(14)),
            (Ahead::Left(13), Ahead::Left(14)),
            "14 may still be signalled, which completes 13"
        );
        assert_eq!((clock.ahead(15), clock.ahead(16)), (Ahead::Open(15), Ahead::Open(15)), "15 comes first");
        assert_eq!((clock.unresolved(), clock.passed(12)), (Some(14), 12));
        clock.discard_left();
        assert_eq!(
            (clock.unresolved(), clock.passed(12)),
            (None, 14),
            "a discarded value is over once all earlier work is"
        );
        clock.discard(15);
        assert_eq!((clock.passed(12), clock.begun(), clock.is_open(11)), (15, 12, true));
        assert_eq!((clock.ahead(15), clock.ahead(16)), (Ahead::Submitted(12), Ahead::Open(16)), "16 was not begun");
    }

    #[test]
    fn no_value_is_given_twice() {
        let clock = Clock::new(TimelineId::of(1, 0), 0);
        let first = clock.open();
        clock.discard(first);
        assert_eq!(clock.open(), 2);
        clock.saw(100);
        assert_eq!((clock.open(), clock.seen()), (101, 100), "the fence was beyond all begun values");
        let closes = clock.closes();
        clock.leave(7);
        assert_eq!(clock.closes(), closes, "it was not open");
    }

    #[test]
    fn a_watched_value_says_how_it_was_closed() {
        let clock = Arc::new(Clock::new(TimelineId::of(1, 0), 0));
        let values: Vec<u64> = (0..9).map(|_| clock.open()).collect();
        let mut watches: Vec<Watch> = values.iter().map(|value| clock.watch(*value)).collect();
        assert!(watches.iter().all(|watch| watch.end() == End::Open));
        for (number, value) in values.iter().enumerate() {
            match number % 3 {
                0 => clock.submit(*value).expect("in order"),
                1 => clock.discard(*value),
                _ => clock.leave(*value),
            }
        }
        let again = clock.watch(values[3]);
        let ends: Vec<End> = watches.iter().map(Watch::end).collect();
        let wanted = [End::Submitted, End::Unsubmitted, End::Unsubmitted].repeat(3);
        assert_eq!((ends, again.end()), (wanted, End::Submitted));
        drop(watches.split_off(3));
        assert_eq!(
            (again.end(), watches[0].end()),
            (End::Submitted, End::Submitted),
            "each watch is dropped on its own"
        );
        drop((watches, again));
        assert!(clock.lock().watched.is_empty(), "values without a watch are forgotten");
        assert_eq!(clock.watch(values[0]).end(), End::Unsubmitted, "it was closed while not watched");
    }

    #[test]
    fn values_end_below_the_last_number() {
        let clock = Clock::new(TimelineId::of(1, 0), 0);
        clock.saw(u64::MAX - 2);
        assert_eq!(clock.open(), u64::MAX - 1);
        let next = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| clock.open()));
        assert!(next.is_err() && clock.is_open(u64::MAX - 1), "the failed call changed nothing");
    }
}
