//! Code of the program's, run where this thread holds no lock.
//!
//! A subscriber of `tracing`, an eviction callback, a `Drop`, a `Write`: each may call in again, wait for another
//! thread that does, or panic. A lock that is held over a driver call or over a request is a [`Lock`]. While a thread
//! holds one, nothing is reported ([`span`](super::span)) and nothing of the caller's is dropped ([`drop_unlocked`]):
//! that is done as soon as the thread holds none. A panic ends there: the panic hook has shown it, and what is reported
//! on has happened.
//!
//! The eviction callback is not called under a [`Lock`] either: the owner of the request calls it once the lock is free
//! (`memory/shortage.rs`).

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::{Mutex, MutexGuard};

thread_local! {
    /// How many [`Lock`]s this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread holds a [`Lock`], so that no code of the caller's may run.
pub fn is_locked() -> bool {
    HELD.try_with(|held| held.get() != 0).unwrap_or(false)
}

/// A lock that may be held while something is reported or memory is requested. While a thread holds one, no code of the
/// program's runs.
#[derive(Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Not locked.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> impl DerefMut<Target = T> + '_ {
        Locked::new(self.0.lock())
    }

    /// The lock, unless a thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<impl DerefMut<Target = T> + '_> {
        self.0.try_lock().map(Locked::new)
    }
}

/// The right to what a [`Lock`] guards. When the thread drops its last one, what was deferred is done.
struct Locked<'a, T> {
    /// There until this is dropped.
    guard: Option<MutexGuard<'a, T>>,
}

impl<'a, T> Locked<'a, T> {
    #[inline]
    fn new(guard: MutexGuard<'a, T>) -> Self {
        let _ = HELD.try_with(|held| held.set(held.get() + 1));
        Self { guard: Some(guard) }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("there until the end")
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("there until the end")
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.guard = None;
        let _ = HELD.try_with(|held| held.set(held.get() - 1));
        run_deferred();
    }
}

type Later = Box<dyn FnOnce()>;

thread_local! {
    /// What is to be done once this thread holds no lock.
    static DEFERRED: RefCell<Vec<Later>> = const { RefCell::new(Vec::new()) };
}

/// Runs code of the caller's that must change nothing: its panic ends here.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(panic) => {
            // Its `Drop` is the caller's code too, and may panic in its turn.
            std::mem::forget(panic);
            None
        }
    }
}

/// Drops a value in which there may be a `Drop` of the caller's: now, or once this thread holds no lock.
pub fn drop_unlocked<T: 'static>(value: T) {
    if is_locked() {
        defer(Box::new(move || drop(value)));
    } else {
        drop(value);
    }
}

pub(super) fn defer(later: Later) {
    let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().push(later));
}

/// Does what was deferred, if this thread holds no lock.
fn run_deferred() {
    while !is_locked() {
        // Taken out first: what is done may lead here again.
        let deferred = DEFERRED.try_with(|deferred| std::mem::take(&mut *deferred.borrow_mut())).unwrap_or_default();
        if deferred.is_empty() {
            return;
        }
        deferred.into_iter().for_each(|later| _ = contain(later));
    }
}
