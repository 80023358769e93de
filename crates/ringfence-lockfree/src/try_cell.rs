//! A value that one thread at a time may change. No thread waits for it.
//!
//! ```text
//!   thread 1 ── try_take ──▶ Taken ── with(work) ──▶ the flag is released       taken: ▮
//!   thread 2 ── try_take ──▶ None: it does other work
//! ```
//!
//! There is no queue of waiters: a thread that finds the value taken does other work. So the cell is cheaper than a
//! mutex, which must check for sleeping threads when it is released.
//!
//! | operation | cost |
//! |---|---|
//! | [`TryCell::try_take`] | one atomic exchange |
//! | [`Taken::with`], drop | the work, and one atomic store |
//! | [`TryCell::take`] | repeats `try_take` until the value is free: for teardown and tests |

use core::marker::PhantomData;

use crate::primitive::{AtomicBool, Ordering, UnsafeCell, yield_now};

/// A value that one thread at a time may change, taken by one atomic exchange. No thread waits for it.
pub struct TryCell<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
    /// Read by each access, written when the owner drops the cell.
    #[cfg(loom)]
    life: UnsafeCell<()>,
}

// SAFETY: as in a mutex, only the thread that set the flag accesses the value, so the value must only be `Send`.
unsafe impl<T: Send> Sync for TryCell<T> {}

/// The exclusive right to the value. Dropping it, also during a panic, ends the right.
pub struct Taken<'a, T> {
    /// A pointer, not a reference: once the flag is released, another thread may drop the cell before the releasing
    /// function returns.
    cell: *const TryCell<T>,
    /// The pointer also prevents sending: the flag belongs to this thread.
    _life: PhantomData<&'a TryCell<T>>,
}

impl<T> TryCell<T> {
    /// Creates a cell that is not taken.
    pub fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            life: UnsafeCell::new(()),
        }
    }

    /// Takes the value, unless it is already taken.
    #[inline]
    pub fn try_take(&self) -> Option<Taken<'_, T>> {
        #[cfg(loom)]
        self.life.with(|_| ());
        // Only on success: dropping an unowned `Taken` would release the value of the thread that owns it.
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Taken { cell: self, _life: PhantomData })
    }

    /// Takes the value, retrying until it is free. For teardown and tests.
    pub fn take(&self) -> Taken<'_, T> {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            yield_now();
        }
    }
}

impl<T> Taken<'_, T> {
    /// Calls `work` with the value, then releases it.
    #[inline]
    pub fn with<R>(self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this thread set the flag, and it stays set until `self` is dropped after the work, so no other thread
        // accesses the value. The exchange acquired the last release. The work keeps no borrow of the value. The cell
        // lives at least as long as the flag is set.
        unsafe { (*self.cell).value.with_mut(|value| work(&mut *value)) }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the cell lives at least as long as the flag is set.
        unsafe { (*self.cell).taken.store(false, Ordering::Release) };
    }
}

/// A model fails if the cell is dropped while it is taken, or while a thread may still access it: every access,
/// including the release, must be ordered before the drop.
#[cfg(loom)]
impl<T> Drop for TryCell<T> {
    fn drop(&mut self) {
        self.life.with_mut(|_| ());
        // SAFETY: no other thread has the cell; `loom` fails the model if a store can come later.
        assert!(!unsafe { self.taken.unsync_load() }, "a cell was dropped while it was taken");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn one_thread_at_a_time_and_every_change_is_seen() {
        let cell = TryCell::new(0_u64);
        let done: u64 = std::thread::scope(|scope| {
            let count =
                || (0..10_000).filter_map(|_| cell.try_take()).map(|taken| taken.with(|value| *value += 1)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic") as u64).sum()
        });
        assert_eq!(cell.take().with(|value| *value), done);
        assert!(done > 0);
    }

    #[test]
    fn a_taken_cell_refuses_and_a_panic_gives_it_back() {
        let cell = TryCell::new(1);
        cell.take().with(|_| assert!(cell.try_take().is_none(), "this thread has taken it"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cell.take().with(|_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(cell.try_take().map(|taken| taken.with(|value| *value)), Some(1));
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;
    use std::vec::Vec;

    use super::*;

    /// `loom`'s cell checks that no two threads access the value at once, and that each sees all earlier changes.
    #[test]
    fn every_change_is_made_alone_and_seen() {
        for threads in [1, 2] {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = (threads > 1).then_some(3);
            model.check(move || {
                let cell = Arc::new(TryCell::new(0_u64));
                let count = |cell: &TryCell<u64>| {
                    (0..2).filter_map(|_| cell.try_take()).map(|taken| taken.with(|value| *value += 1)).count()
                };
                let others: Vec<_> = (0..threads)
                    .map(|_| {
                        let cell = Arc::clone(&cell);
                        thread::spawn(move || count(&cell))
                    })
                    .collect();
                let mine = count(&cell);
                let done = mine + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
                assert_eq!(cell.take().with(|value| *value), done as u64);
                assert!(done >= 2, "at least one thread takes it");
            });
        }
    }

    #[test]
    fn who_waits_comes_in() {
        loom::model(|| {
            let cell = Arc::new(TryCell::new(0_u64));
            let other = Arc::clone(&cell);
            let other = thread::spawn(move || other.take().with(|value| *value += 1));
            cell.take().with(|value| *value += 1);
            other.join().unwrap();
            assert_eq!(cell.take().with(|value| *value), 2);
        });
    }
}
