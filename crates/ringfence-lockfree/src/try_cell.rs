//! A value that one thread at a time can access. If [`TryCell::try_take`] fails, the thread does other work instead of
//! waiting.
//!
//! ```text
//!   thread 1 ── try_take ──▶ Taken ── with(work) ──▶ the flag `taken` is released
//!   thread 2 ── try_take ──▶ None: it does other work
//! ```
//!
//! The release of a mutex must check for sleeping threads. No thread sleeps until this cell is released, so the cell is
//! cheaper than a mutex.
//!
//! | operation | cost |
//! |---|---|
//! | [`TryCell::try_take`] | one atomic exchange |
//! | [`Taken::with`], or drop of a [`Taken`] | the work, and one atomic store |
//! | [`TryCell::take`] | repeats `try_take` until no other thread has the value |

use core::marker::PhantomData;

use crate::primitive::{AtomicBool, Ordering, UnsafeCell, yield_now};

/// A value that one thread at a time can access, after one atomic exchange.
pub struct TryCell<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
    /// For models: read by each access, and written when the owner drops the cell.
    #[cfg(loom)]
    life: UnsafeCell<()>,
}

// SAFETY: as in a mutex, only the thread that set the flag accesses the value, so the value must only be `Send`.
unsafe impl<T: Send> Sync for TryCell<T> {}

/// Exclusive access to the value of a [`TryCell`], until it is dropped, also by a panic.
pub struct Taken<'a, T> {
    /// A pointer, not a reference: once the flag is released, another thread may drop the cell before the function that
    /// has released it returns.
    cell: *const TryCell<T>,
    /// Lifetime of the cell. (The pointer also prevents that a `Taken` is sent to another thread.)
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

    /// Takes the value. Returns `None` if it is already taken.
    #[inline]
    pub fn try_take(&self) -> Option<Taken<'_, T>> {
        #[cfg(loom)]
        self.life.with(|_| ());
        // Creates a `Taken` only on success, because its drop releases the flag.
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Taken { cell: self, _life: PhantomData })
    }

    /// Takes the value. While another thread has it, yields and retries.
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
    /// Calls `work` with the value, then releases the value.
    #[inline]
    pub fn with<R>(self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this thread has set the flag, which remains set until `self` is dropped after the work. So no other
        // thread accesses the value. The exchange acquired the last release. The work keeps no borrow of the value. The
        // cell exists at least as long as the flag is set.
        unsafe { (*self.cell).value.with_mut(|value| work(&mut *value)) }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the cell exists at least as long as the flag is set.
        unsafe { (*self.cell).taken.store(false, Ordering::Release) };
    }
}

/// Makes a model fail if the cell is dropped while it is taken, or while a thread may still access it. Every access,
/// including the release of the flag, must be ordered before the drop.
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
