//! A value that one thread at a time may change, and that nobody ever waits for.
//!
//! Taking costs one atomic exchange, giving back one store. There is no queue of waiters and no way to wait: whoever
//! finds it taken does something else. That is what makes it cheaper than a mutex, whose release has to look whether
//! somebody sleeps.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// See the [module](self).
pub(super) struct TryCell<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, whichever took the flag, as with a mutex; so it has to be `Send`
// only.
unsafe impl<T: Send> Sync for TryCell<T> {}

/// The value, as long as this is held.
pub(super) struct Taken<'a, T> {
    cell: &'a TryCell<T>,
    /// Not to be sent away: the flag is this thread's.
    _here: PhantomData<*mut T>,
}

impl<T> TryCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, unless it is taken.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Taken<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) {
            // A `Taken` made here and dropped again would give the value of whoever holds it away.
            return None;
        }
        Some(Taken { cell: self, _here: PhantomData })
    }

    /// The value, asked for again and again until it is free. For the ends of life and for tests.
    pub(super) fn take(&self) -> Taken<'_, T> {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            std::thread::yield_now();
        }
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the flag was not set before and stays set until this is dropped, so that nobody else reaches the
        // value; the exchange acquired what the last one here released.
        unsafe { &*self.cell.value.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and `&mut self` keeps other borrows through this away.
        unsafe { &mut *self.cell.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.cell.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_and_every_change_is_seen() {
        let cell = TryCell::new(0_u64);
        let done: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..10_000).filter_map(|_| cell.try_take()).map(|mut value| *value += 1).count())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic") as u64).sum()
        });
        assert_eq!(*cell.take(), done);
        assert!(done > 0);
    }

    #[test]
    fn a_taken_cell_refuses_and_a_panic_gives_it_back() {
        let cell = TryCell::new(1);
        let taken = cell.take();
        assert!(cell.try_take().is_none(), "taken by this very thread");
        drop(taken);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _taken = cell.take();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(cell.try_take().map(|value| *value), Some(1));
    }
}
