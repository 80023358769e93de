//! A value that one thread at a time may change, and that no thread ever waits for.
//!
//! ```text
//!   thread 1 ── try_take ──▶ Taken ── with(work) ──▶ the flag is released       taken: ▮
//!   thread 2 ── try_take ──▶ None: it does something else
//! ```
//!
//! There is no queue of waiters: a thread that finds it taken does something else. That is what makes it cheaper than a
//! mutex, whose release has to look whether another thread sleeps.
//!
//! | operation | cost |
//! |---|---|
//! | [`TryCell::try_take`] | one atomic exchange |
//! | [`Taken::with`], drop | the work, and one atomic store |
//! | [`TryCell::take`] | the same, again and again until it is free: for the ends of life and for tests |

use core::marker::PhantomData;

use crate::primitive::{AtomicBool, Ordering, UnsafeCell, yield_now};

/// A value that one thread at a time may change, taken by one atomic exchange; no thread ever waits for it.
pub struct TryCell<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
    /// Read by all that come here, written by the owner that drops the cell.
    #[cfg(loom)]
    life: UnsafeCell<()>,
}

// SAFETY: the value is reached by one thread at a time, whichever took the flag, as with a mutex; so it has to be
// `Send` only.
unsafe impl<T: Send> Sync for TryCell<T> {}

/// The right to the value. It ends when this is dropped, also when a panic passes.
pub struct Taken<'a, T> {
    /// No reference: once the flag is released, another thread may drop the cell before the function that released it
    /// has returned.
    cell: *const TryCell<T>,
    /// Not to be sent away, as a pointer: the flag is this thread's.
    _life: PhantomData<&'a TryCell<T>>,
}

impl<T> TryCell<T> {
    /// Not taken.
    pub fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            life: UnsafeCell::new(()),
        }
    }

    /// The value, unless it is taken.
    #[inline]
    pub fn try_take(&self) -> Option<Taken<'_, T>> {
        #[cfg(loom)]
        self.life.with(|_| ());
        // Only on success: a `Taken` made and dropped again would release the value of the thread that holds it.
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Taken { cell: self, _life: PhantomData })
    }

    /// The value, asked for again and again until it is free. For the ends of life and for tests.
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
    /// Calls a function with the value, and releases it.
    #[inline]
    pub fn with<R>(self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the flag was not set before and stays set until this is dropped, after the work, so that no other
        // thread reaches the value; the exchange acquired what the last one here released. The work keeps no borrow of
        // it. The cell lives as long as the flag is set, at least.
        unsafe { (*self.cell).value.with_mut(|value| work(&mut *value)) }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the cell lives as long as the flag is set, at least.
        unsafe { (*self.cell).taken.store(false, Ordering::Release) };
    }
}

/// A model fails if the cell goes while it is taken, or while a thread may still come here: each access, the giving
/// back included, has to be ordered before.
#[cfg(loom)]
impl<T> Drop for TryCell<T> {
    fn drop(&mut self) {
        self.life.with_mut(|_| ());
        // SAFETY: no other thread has the cell; `loom` fails the model if a store may come later.
        assert!(!unsafe { self.taken.unsync_load() }, "a cell goes while it is taken");
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
        cell.take().with(|_| assert!(cell.try_take().is_none(), "taken by this very thread"));
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

    /// `loom`'s cell sees to it that no two threads are at the value at once, and that each sees what was done before.
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
                assert!(done >= 2, "one thread always gets it");
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
