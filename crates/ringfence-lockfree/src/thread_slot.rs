//! Thread slots: each of up to [`THREAD_SLOTS`] threads has a number that no other living thread has.
//!
//! ```text
//!   thread A ── first request ──▶ takes the lowest free thread slot ──▶ 0       taken: ▮▮▯▮▯▯…   a bit per slot
//!   thread B ──────────────────────────────────────────────▶ 1
//!   thread B ends ─▶ slot 1 is free ──▶ the next thread that takes slot 1 sees all accesses of B
//! ```
//!
//! A thread slot belongs to one thread at a time, and a thread that takes it sees all accesses of its previous owner.
//! So data that belongs to a thread slot can be written with plain stores. [`RetireBin`](crate::retire_bin::RetireBin)
//! relies on this.
//!
//! There are [`THREAD_SLOTS`] thread slots. Further threads have overflow numbers (`>= THREAD_SLOTS`), which several
//! threads can share. A thread also has an overflow number while its thread-local values are destroyed.
//!
//! | operation | cost |
//! |---|---|
//! | [`thread_number`] | a load and a comparison; one atomic exchange at a thread's first call |
//! | the end of a thread | two atomic operations |

use crate::primitive::{AtomicU64, Ordering};

/// Number of thread slots (numbers that belong to one thread at a time): one per bit of a word.
pub const THREAD_SLOTS: usize = 64;

/// The set of taken thread slots: one bit per slot.
#[cfg_attr(loom, allow(dead_code, reason = "used by the models only, whose threads take their slots explicitly"))]
struct ThreadSlots {
    taken: AtomicU64,
}

#[cfg_attr(loom, allow(dead_code, reason = "as above"))]
impl ThreadSlots {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { taken: AtomicU64::new(0) }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self { taken: AtomicU64::new(0) }
    }

    /// Takes the lowest free thread slot. Returns `None` if all are taken. The caller sees all accesses of the slot's
    /// previous owners.
    fn take(&self) -> Option<usize> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let thread_slot = taken.trailing_ones();
            let with_it = taken | 1_u64.checked_shl(thread_slot)?;
            match self.taken.compare_exchange_weak(taken, with_it, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(thread_slot as usize),
                Err(now) => taken = now,
            }
        }
    }

    /// Releases a thread slot that the caller has taken.
    fn release(&self, thread_slot: usize) {
        self.taken.fetch_and(!(1 << thread_slot), Ordering::Release);
    }
}

#[cfg(not(loom))]
mod of_threads {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static TAKEN: ThreadSlots = ThreadSlots::new();
    /// Number of overflow numbers that were drawn so far.
    static OVERFLOW_COUNT: AtomicUsize = AtomicUsize::new(0);
    /// A number that no thread has.
    const UNKNOWN: usize = usize::MAX;

    std::thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
        static OWN_SLOT: ThreadSlot = const { ThreadSlot(Cell::new(None)) };
    }

    /// The thread slot of a thread, released when the thread ends.
    struct ThreadSlot(Cell<Option<usize>>);

    impl Drop for ThreadSlot {
        fn drop(&mut self) {
            if let Some(thread_slot) = self.0.take() {
                // The number is set first, so that later destructors of this thread use an overflow number.
                NUMBER.set(overflow_number());
                TAKEN.release(thread_slot);
            }
        }
    }

    fn overflow_number() -> usize {
        THREAD_SLOTS + (OVERFLOW_COUNT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 2))
    }

    /// Takes a thread slot or an overflow number for this thread. A separate cold function, so that the inlined caller
    /// is only a load and a comparison.
    #[cold]
    fn take_number() -> usize {
        // If the destructors of the thread have already run, the thread gets no thread slot, because the slot would not
        // be released. This function can be called again for a thread that has a thread slot: some platforms destroy
        // thread-local values in any order, and recreate them if they are used afterwards.
        let thread_slot = OWN_SLOT.try_with(|own| {
            own.0.set(own.0.get().or_else(|| TAKEN.take()));
            own.0.get()
        });
        NUMBER.set(thread_slot.ok().flatten().unwrap_or_else(overflow_number));
        NUMBER.get()
    }

    /// Returns this thread's number. If it is below [`THREAD_SLOTS`], no other thread has it until this thread ends.
    #[inline]
    pub fn thread_number() -> usize {
        let number = NUMBER.get();
        if number == UNKNOWN { take_number() } else { number }
    }

    /// Returns the same as [`thread_number`]. If the thread has not called [`thread_number`] before, returns a number
    /// that is at least [`THREAD_SLOTS`].
    #[inline]
    pub fn cached_number() -> usize {
        NUMBER.get()
    }
}

#[cfg(not(loom))]
pub use of_threads::{cached_number, thread_number};

/// In a model, a thread has a thread slot only if it takes one explicitly.
#[cfg(loom)]
mod of_threads {
    use std::cell::Cell;

    loom::thread_local! {
        static NUMBER: Cell<usize> = Cell::new(super::THREAD_SLOTS);
    }

    /// Returns this thread's thread slot. If it has taken none, returns [`THREAD_SLOTS`](super::THREAD_SLOTS).
    pub fn thread_number() -> usize {
        NUMBER.with(Cell::get)
    }

    /// Returns the same as [`thread_number`].
    pub fn cached_number() -> usize {
        thread_number()
    }

    /// Sets the thread slot of this thread. The model must ensure that no other thread has it.
    pub fn take_slot(thread_slot: usize) {
        NUMBER.with(|number| number.set(thread_slot));
    }
}

#[cfg(loom)]
pub use of_threads::{cached_number, take_slot, thread_number};

/// Returns a number by which a thread chooses one of several parts of shared data, each with its own protection.
/// Different threads usually get different numbers. Under `loom` and miri, the number is always 0, because the hardest
/// case is that all threads choose the same part.
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
    #[cfg(not(windows))]
    use std::vec::Vec;

    use super::*;

    /// Number of attempts of a test that needs thread slots. Threads of other tests also use thread slots, and an ended
    /// thread has its thread slot until its thread-local values are destroyed.
    const TRIES: usize = 2_000;

    #[test]
    fn threads_that_live_at_once_have_different_numbers_and_a_slot_is_used_again() {
        let rounds = (0..TRIES).map(|_| thread_slots_of_a_hundred_threads());
        assert_eq!(rounds.filter(|thread_slots| *thread_slots > 16).take(3).count(), 3, "thread_slots are used again");
    }

    /// Returns the number of thread slots that a hundred concurrent threads get.
    fn thread_slots_of_a_hundred_threads() -> usize {
        let (threads, seen) = (Barrier::new(100), Mutex::new(HashSet::new()));
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let number = thread_number();
                    assert_eq!(thread_number(), number);
                    seen.lock().expect("no panic").insert(number);
                    // No thread ends before all have a number.
                    threads.wait();
                });
            }
        });
        let seen = seen.into_inner().expect("no panic");
        assert_eq!(seen.len(), 100);
        seen.into_iter().filter(|number| *number < THREAD_SLOTS).count()
    }

    #[test]
    fn thread_slots_are_given_out_from_the_lowest_until_none_is_left() {
        let thread_slots = ThreadSlots::new();
        assert!((0..THREAD_SLOTS).all(|thread_slot| thread_slots.take() == Some(thread_slot)));
        assert_eq!(thread_slots.take(), None);
        thread_slots.release(7);
        thread_slots.release(3);
        assert_eq!([thread_slots.take(), thread_slots.take(), thread_slots.take()], [Some(3), Some(7), None]);
    }

    /// Records the number that a thread has while it is torn down.
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
    std::thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    /// A thread that is being torn down keeps its thread slot or has none. Not on Windows: with the GNU tools,
    /// thread-local values use the platform's keys, which recreate a destroyed value when it is used, so the thread may
    /// take another thread slot.
    #[test]
    #[cfg(not(windows))]
    fn a_thread_that_is_torn_down_keeps_its_slot_or_has_none() {
        assert!((0..TRIES).any(|_| one_is_torn_down()), "some thread had a thread slot");
    }

    /// Tears down one thread. Returns `true` if it had a thread slot.
    #[cfg(not(windows))]
    fn one_is_torn_down() -> bool {
        std::thread::spawn(|| {
            // One value is destroyed before the thread slot and one after it, in either order of the platform.
            BEFORE.with_borrow_mut(|last| *last = Some(Last(usize::MAX)));
            let number = thread_number();
            AFTER.with_borrow_mut(|last| *last = Some(Last(number)));
            BEFORE.with_borrow_mut(|last| last.as_mut().expect("set").0 = number);
        })
        .join()
        .expect("no panic");
        let seen = std::mem::take(&mut *AT_THE_END.lock().expect("no panic"));
        assert_eq!(seen.len(), 2);
        assert!(
            seen.iter().all(|&(before, at_the_end)| at_the_end == before || at_the_end >= THREAD_SLOTS),
            "{seen:?}"
        );
        let has_thread_slot = seen[0].0 < THREAD_SLOTS;
        assert!(!has_thread_slot || seen.iter().any(|&(before, at_the_end)| at_the_end != before), "{seen:?}");
        has_thread_slot
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code, reason = "the model checks these accesses")]
mod models {
    use loom::sync::Arc;
    use loom::thread;
    use std::vec::Vec;

    use super::*;
    use crate::primitive::UnsafeCell;

    struct Room {
        thread_slots: ThreadSlots,
        /// Data of the first thread slot: `loom` fails the model if two threads access it at once, or if one does not
        /// see the changes of the other.
        first: UnsafeCell<u32>,
    }

    // SAFETY: the model checks that the first thread slot belongs to one thread at a time.
    unsafe impl Sync for Room {}

    #[test]
    fn a_slot_is_one_threads_at_a_time_with_all_that_was_done_there() {
        loom::model(|| {
            let room = Arc::new(Room { thread_slots: ThreadSlots::new(), first: UnsafeCell::new(0) });
            let visit = |room: &Room| {
                let thread_slot = room.thread_slots.take().expect("64 of them");
                if thread_slot == 0 {
                    // SAFETY: this thread has the first thread slot.
                    room.first.with_mut(|visits| unsafe { *visits += 1 });
                }
                room.thread_slots.release(thread_slot);
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let room = Arc::clone(&room);
                    thread::spawn(move || visit(&room))
                })
                .collect();
            others.into_iter().for_each(|other| other.join().unwrap());
            visit(&room);
            let thread_slot = room.thread_slots.take();
            assert_eq!(thread_slot, Some(0), "all threads have released theirs");
            // SAFETY: the other threads have ended.
            assert!(
                room.first.with_mut(|visits| unsafe { *visits }) >= 2,
                "a thread that runs alone gets the first slot"
            );
        });
    }
}
