//! A number for each thread that no other living thread has.
//!
//! ```text
//!   thread A ── first asks ──▶ takes the lowest free seat ──▶ 0          taken: ▮▮▯▮▯▯…   a bit a seat
//!   thread B ──────────────────────────────────────────────▶ 1
//!   thread B ends ─▶ its seat is free, with all that it did there ──▶ the next thread that comes has it
//! ```
//!
//! What belongs to a seat belongs to one thread at a time, and so it may be written with plain stores: a thread that takes a
//! seat sees all that the one before it did there. That is what makes [`RetireBin`](super::RetireBin) cheap.
//!
//! There are [`SEATS`] of them. A thread that finds none, and one that is being torn down, has a number from [`SEATS`] on,
//! which says nothing: whoever has such a number shares.
//!
//! | operation | cost |
//! |---|---|
//! | [`thread_number`] | a load and a compare; one atomic exchange the first time that a thread asks |
//! | the end of a thread | one atomic operation |

use crate::primitive::{AtomicU64, Ordering};

/// As many threads at a time have a seat. The bits of a word.
pub(crate) const SEATS: usize = 64;

/// Which seats are taken: a bit each.
pub(crate) struct Seats {
    taken: AtomicU64,
}

impl Seats {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { taken: AtomicU64::new(0) }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self { taken: AtomicU64::new(0) }
    }

    /// The lowest free seat, which is the caller's from here on, with all that was done there before.
    fn take(&self) -> Option<usize> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let seat = taken.trailing_ones();
            let with_it = taken | 1_u64.checked_shl(seat)?;
            match self.taken.compare_exchange_weak(taken, with_it, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(seat as usize),
                Err(now) => taken = now,
            }
        }
    }

    /// Lets go of a seat that the caller has taken.
    fn give_back(&self, seat: usize) {
        self.taken.fetch_and(!(1 << seat), Ordering::Release);
    }
}

#[cfg(not(loom))]
mod of_threads {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static TAKEN: Seats = Seats::new();
    /// Threads that had no seat.
    static STANDING: AtomicUsize = AtomicUsize::new(0);
    /// A number that no thread has.
    const UNKNOWN: usize = usize::MAX;

    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
        static SEAT: Seat = const { Seat(Cell::new(None)) };
    }

    /// The thread's seat; as it ends, the seat is given back.
    struct Seat(Cell<Option<usize>>);

    impl Drop for Seat {
        fn drop(&mut self) {
            if let Some(seat) = self.0.take() {
                // First: what is still torn down on this thread has no seat any more.
                NUMBER.set(stand());
                TAKEN.give_back(seat);
            }
        }
    }

    fn stand() -> usize {
        SEATS + (STANDING.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 2))
    }

    /// Apart, so that the rest is a load and a compare wherever it stands.
    #[cold]
    fn draw() -> usize {
        // A thread that is so far torn down that nothing would give the seat back gets none. One that has a seat may ask again:
        // some platforms take a thread's values apart in any order, and make them anew if they are asked for after that.
        let seat = SEAT.try_with(|own| {
            own.0.set(own.0.get().or_else(|| TAKEN.take()));
            own.0.get()
        });
        NUMBER.set(seat.ok().flatten().unwrap_or_else(stand));
        NUMBER.get()
    }

    /// This thread's number. Below [`SEATS`], no other thread has it before this one ends.
    #[inline]
    pub(crate) fn thread_number() -> usize {
        let number = NUMBER.get();
        if number == UNKNOWN { draw() } else { number }
    }

    /// The same, or a number from [`SEATS`] on if the thread has not asked before.
    #[inline]
    pub(crate) fn number_at_hand() -> usize {
        NUMBER.get()
    }
}

#[cfg(not(loom))]
pub(crate) use of_threads::{number_at_hand, thread_number};

/// In a model a thread has a seat if it says so.
#[cfg(loom)]
mod of_threads {
    use std::cell::Cell;

    loom::thread_local! {
        static NUMBER: Cell<usize> = Cell::new(super::SEATS);
    }

    pub(crate) fn thread_number() -> usize {
        NUMBER.with(Cell::get)
    }

    pub(crate) fn number_at_hand() -> usize {
        thread_number()
    }

    /// From here on this thread has this seat: no other has it meanwhile.
    #[cfg(test)]
    pub(crate) fn sit(seat: usize) {
        NUMBER.with(|number| number.set(seat));
    }
}

#[cfg(loom)]
pub(crate) use of_threads::*;

/// A number for what is only spread over the threads, and guarded in another way: all threads in one place are a model's
/// hardest case.
#[inline]
pub fn thread_place() -> usize {
    if cfg!(any(loom, miri)) { 0 } else { thread_number() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[cfg(not(windows))]
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// So often a test that needs seats tries: other tests' threads have some too, and those that have just ended until they
    /// are gone altogether.
    const TRIES: usize = 2_000;

    #[test]
    fn threads_that_live_at_once_have_different_numbers_and_a_seat_is_used_again() {
        let rounds = (0..TRIES).map(|_| seats_of_a_hundred_threads());
        assert_eq!(rounds.filter(|seats| *seats > 16).take(3).count(), 3, "seats are used again");
    }

    /// How many of a hundred threads that live at once have a seat.
    fn seats_of_a_hundred_threads() -> usize {
        let (threads, seen) = (Barrier::new(100), Mutex::new(HashSet::new()));
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let number = thread_number();
                    assert_eq!(thread_number(), number);
                    seen.lock().expect("no panic").insert(number);
                    // None ends before all have one.
                    threads.wait();
                });
            }
        });
        let seen = seen.into_inner().expect("no panic");
        assert_eq!(seen.len(), 100);
        seen.into_iter().filter(|number| *number < SEATS).count()
    }

    #[test]
    fn seats_are_given_out_from_the_lowest_until_none_is_left() {
        let seats = Seats::new();
        assert!((0..SEATS).all(|seat| seats.take() == Some(seat)));
        assert_eq!(seats.take(), None);
        seats.give_back(7);
        seats.give_back(3);
        assert_eq!([seats.take(), seats.take(), seats.take()], [Some(3), Some(7), None]);
    }

    /// Says what number a thread has while it is torn down.
    #[cfg(not(windows))]
    struct Last(usize);

    #[cfg(not(windows))]
    impl Drop for Last {
        fn drop(&mut self) {
            AT_THE_END.lock().expect("no panic").push((self.0, thread_number()));
        }
    }

    #[cfg(not(windows))]
    static AT_THE_END: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

    #[cfg(not(windows))]
    thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    /// Where the platform's own keys stand for thread-local values, as on Windows with the GNU tools, a value that is gone is
    /// made anew if it is asked for: there such a thread may take another seat.
    #[test]
    #[cfg(not(windows))]
    fn a_thread_that_is_torn_down_keeps_its_seat_or_has_none() {
        assert!((0..TRIES).any(|_| one_is_torn_down()), "it has a seat");
    }

    /// Looks at one thread; says whether it had a seat.
    #[cfg(not(windows))]
    fn one_is_torn_down() -> bool {
        std::thread::spawn(|| {
            // One is torn down before the seat is, one after it, whichever order the platform has.
            BEFORE.with_borrow_mut(|last| *last = Some(Last(usize::MAX)));
            let number = thread_number();
            AFTER.with_borrow_mut(|last| *last = Some(Last(number)));
            BEFORE.with_borrow_mut(|last| last.as_mut().expect("set").0 = number);
        })
        .join()
        .expect("no panic");
        let seen = std::mem::take(&mut *AT_THE_END.lock().expect("no panic"));
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|&(before, at_the_end)| at_the_end == before || at_the_end >= SEATS), "{seen:?}");
        let has_seat = seen[0].0 < SEATS;
        assert!(!has_seat || seen.iter().any(|&(before, at_the_end)| at_the_end != before), "{seen:?}");
        has_seat
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::primitive::UnsafeCell;

    struct Room {
        seats: Seats,
        /// What belongs to the first seat: `loom` fails the model if two threads are at it at once, or if one does not see
        /// what the other did.
        first: UnsafeCell<u32>,
    }

    // SAFETY: that the first seat is one thread's at a time is what is shown.
    unsafe impl Sync for Room {}

    #[test]
    fn a_seat_is_one_threads_at_a_time_with_all_that_was_done_there() {
        loom::model(|| {
            let room = Arc::new(Room { seats: Seats::new(), first: UnsafeCell::new(0) });
            let visit = |room: &Room| {
                let seat = room.seats.take().expect("64 of them");
                if seat == 0 {
                    // SAFETY: as above.
                    room.first.with_mut(|visits| unsafe { *visits += 1 });
                }
                room.seats.give_back(seat);
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let room = Arc::clone(&room);
                    thread::spawn(move || visit(&room))
                })
                .collect();
            others.into_iter().for_each(|other| other.join().unwrap());
            visit(&room);
            let seat = room.seats.take();
            assert_eq!(seat, Some(0), "all have given theirs back");
            // SAFETY: the others have ended.
            assert!(room.first.with_mut(|visits| unsafe { *visits }) >= 2, "whoever comes alone has the first");
        });
    }
}
