//! Locks that are counted per thread, so that the library never calls back into the program from a thread that holds
//! one.
//!
//! The program's code (a subscriber of `tracing`, an eviction callback, a `Drop` or a `Write`) may call the library
//! again, wait for another thread that calls the library, or panic. The program's global allocator may drop objects of
//! the library inside any host allocation, also inside an allocation that the library makes under a lock. Therefore
//! each thread counts the locks of the library that it holds. While the count is not 0, the library reports no event,
//! and a drop that needs a lock is deferred ([`defer`], [`drop_unlocked`]) until the count is 0.
//!
//! ```text
//!   lock ── host allocation ── the program's allocator ── drop(object) ── is_locked() ──▶ defer
//!    │                                                                                     │
//!   unlock, the last of this thread ──▶ runs the deferred drops ◀──────────────────────────┘
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | lock and unlock | as in `parking_lot`, and two updates of a counter of the thread; the last unlock runs deferred work |
//! | `is_locked` | one read of that counter |
//! | `defer` | at most two host allocations |

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Added to [`STATE`] for each lock that the thread holds.
const ONE: u32 = 2;
/// Set in [`STATE`] if work is deferred.
const HAS_DEFERRED: u32 = 1;

thread_local! {
    /// Number of locks that this thread holds, times [`ONE`], plus [`HAS_DEFERRED`].
    static STATE: Cell<u32> = const { Cell::new(0) };
    /// List of the work that runs once this thread holds no lock, the most recently deferred first. The list is never
    /// dropped, so that it can be used while the thread exits.
    static DEFERRED: ManuallyDrop<Cell<Option<Box<Deferred>>>> = const { ManuallyDrop::new(Cell::new(None)) };
}

struct Deferred {
    work: Box<dyn FnOnce()>,
    next: Option<Box<Deferred>>,
}

/// Returns `true` if this thread holds a lock of the library. The program's code must not be called then.
#[inline]
#[must_use]
pub fn is_locked() -> bool {
    STATE.get() >= ONE
}

/// A guard that counts as one held lock of its thread until it is dropped. Use it around locks of other types, and
/// around calls into code with its own locks.
#[must_use = "the thread counts as locked as long as this lives"]
pub struct Holding(());

impl Holding {
    /// Adds one lock to the count of this thread.
    #[inline]
    pub fn begin() -> Self {
        STATE.set(STATE.get() + ONE);
        Self(())
    }
}

impl Drop for Holding {
    /// Runs the deferred work if this was the thread's last lock.
    #[inline]
    fn drop(&mut self) {
        let state = STATE.get() - ONE;
        STATE.set(state);
        if state == HAS_DEFERRED {
            run_deferred();
        }
    }
}

/// A mutex that increments the lock count of the thread that holds it.
#[derive(Default, Debug)]
pub struct Lock<T: ?Sized>(Mutex<T>);

/// Access to the value of a [`Lock`].
pub struct Guard<'a, T: ?Sized> {
    // The order of the fields matters: the lock is released before it is uncounted.
    guard: MutexGuard<'a, T>,
    _holding: Holding,
}

impl<T> Lock<T> {
    /// Returns an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the mutex. Waits until no other thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard { guard: self.0.lock(), _holding: Holding::begin() }
    }

    /// Calls `look` under the lock, without incrementing the thread's lock count. `look` must not allocate host memory
    /// or drop a value.
    #[inline]
    pub fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock())
    }

    /// Locks the mutex if no thread holds it; otherwise, returns `None`.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock().map(|guard| Guard { guard, _holding: Holding::begin() })
    }

    /// Locks the mutex. Returns `None` if another thread still holds it after `timeout`.
    #[inline]
    pub fn try_lock_for(&self, timeout: Duration) -> Option<Guard<'_, T>> {
        self.0.try_lock_for(timeout).map(|guard| Guard { guard, _holding: Holding::begin() })
    }

    /// Returns the value. The exclusive borrow proves that no other thread uses it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A readers-writer lock that increments the lock count of each thread that holds it.
#[derive(Default, Debug)]
pub struct SharedLock<T: ?Sized>(RwLock<T>);

/// Read access to the value of a [`SharedLock`].
pub struct ReadGuard<'a, T: ?Sized> {
    // The order of the fields matters: the lock is released before it is uncounted.
    guard: RwLockReadGuard<'a, T>,
    _holding: Holding,
}

/// Write access to the value of a [`SharedLock`].
pub struct WriteGuard<'a, T: ?Sized> {
    // The order of the fields matters: the lock is released before it is uncounted.
    guard: RwLockWriteGuard<'a, T>,
    _holding: Holding,
}

impl<T> SharedLock<T> {
    /// Returns an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    /// Locks for reading. Waits until no thread has write access.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        ReadGuard { guard: self.0.read(), _holding: Holding::begin() }
    }

    /// Locks for writing. Waits until no other thread has access.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        WriteGuard { guard: self.0.write(), _holding: Holding::begin() }
    }

    /// Returns the value. The exclusive borrow proves that no other thread uses it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Runs code of the program and catches its panics, because a panic must not unwind into the library. Returns `None` if
/// the code panicked; the panic hook has then already reported the panic.
pub fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(panic) => {
            // The payload's `Drop` is the program's code too, and may panic again.
            std::mem::forget(panic);
            None
        }
    }
}

/// Defers `work` until this thread holds no lock. The thread must hold a lock when it calls this function.
pub fn defer(work: impl FnOnce() + 'static) {
    let mut deferred = Box::new(Deferred { work: Box::new(work), next: None });
    // No host allocation below this line, because an allocation may call this function again.
    deferred.next = DEFERRED.with(|first| first.take());
    DEFERRED.with(|first| first.set(Some(deferred)));
    STATE.set(STATE.get() | HAS_DEFERRED);
}

/// Runs work that needs a lock or calls the program's code. If this thread holds a lock, defers the work until it holds
/// none; otherwise, runs it before the return.
#[inline]
pub fn run_unlocked(work: impl FnOnce() + 'static) {
    if is_locked() {
        defer(work);
    } else {
        work();
    }
}

/// Drops a value. Its `Drop` may be code of the program. If this thread holds a lock, defers the drop until it holds
/// none; otherwise, drops the value before the return.
pub fn drop_unlocked<T: 'static>(value: T) {
    run_unlocked(move || drop(value));
}

/// Runs the deferred work, the oldest first, until there is none or this thread holds a lock. If the work takes a lock
/// and defers further work, the further work runs at the unlock, before the rest.
#[cold]
fn run_deferred() {
    while STATE.get() == HAS_DEFERRED {
        // The list is taken first, because the work may defer more.
        let mut latest = DEFERRED.with(|first| first.take());
        STATE.set(0);
        let mut oldest = None;
        while let Some(mut deferred) = latest {
            latest = std::mem::replace(&mut deferred.next, oldest);
            oldest = Some(deferred);
        }
        while let Some(deferred) = oldest {
            let Deferred { work, next } = *deferred;
            oldest = next;
            contain(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_deferred_is_done_in_order_once_the_last_lock_is_free() {
        let (outer, inner) = (Lock::new(0), SharedLock::new(0));
        let done = Arc::new(Lock::new(Vec::new()));
        let later = |number: u32| {
            let done = Arc::clone(&done);
            move || done.lock().push(number)
        };
        run_unlocked(later(0));
        {
            let _outer = outer.lock();
            {
                let _inner = inner.write();
                assert!(is_locked());
                defer(later(1));
            }
            defer(later(2));
            defer(|| panic!("it ends here"));
            // Deferred work may take locks and defer more work.
            let (nested, last) = (later(3), later(4));
            defer(move || {
                let _holding = Holding::begin();
                defer(last);
                defer(nested);
            });
        }
        assert!(!is_locked());
        assert_eq!(*done.lock(), [0, 1, 2, 4, 3]);
    }

    #[test]
    fn a_value_is_dropped_once_whether_a_lock_is_held_or_not() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        drop_unlocked(Counted(Arc::clone(&count)));
        let holding = Holding::begin();
        drop_unlocked(Counted(Arc::clone(&count)));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(holding);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn each_guard_counts_as_one_lock_of_its_thread() {
        let (lock, shared) = (Lock::new(1), SharedLock::new(2));
        assert!(!is_locked());
        let first = lock.lock();
        assert!(is_locked());
        let second = shared.read();
        drop(first);
        assert!(is_locked(), "the second is held");
        let third = shared.read();
        drop(second);
        assert!(is_locked(), "the third is held");
        assert!(!std::thread::spawn(is_locked).join().expect("no panic"), "another thread holds none");
        drop(third);
        assert!(!is_locked());
        let guards = (lock.try_lock(), shared.write());
        assert!(is_locked());
        drop(guards);
        assert!(!is_locked());
    }

    #[test]
    fn a_thread_is_locked_until_its_last_of_several_locks_is_free() {
        for count in 1..9 {
            let mut held: Vec<_> = (0..count).map(|_| Holding::begin()).collect();
            while held.pop().is_some() {
                assert_eq!(is_locked(), !held.is_empty(), "{} of {count} locks are left", held.len());
            }
        }
    }

    #[test]
    fn a_lock_has_one_owner_and_gives_access_to_its_value() {
        let mut lock = Lock::new(1);
        *lock.lock() += 1;
        assert_eq!(lock.look(|value| std::mem::replace(value, 5)), 2);
        assert!(!is_locked());
        {
            let guard = lock.try_lock().expect("no thread holds it");
            assert_eq!(*guard, 5);
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
        }
        *lock.try_lock_for(Duration::from_secs(60)).expect("no thread holds it") += 1;
        assert!(!is_locked());
        *lock.get_mut() += 1;
        assert_eq!(*lock.lock(), 7);
        let mut shared = SharedLock::new(10);
        *shared.write() += 1;
        *shared.get_mut() += 1;
        let readers = (shared.read(), shared.read());
        assert_eq!((*readers.0, *readers.1), (12, 12));
    }

    #[test]
    fn a_panic_of_the_program_is_contained() {
        assert_eq!(contain(|| 5), Some(5));
        assert_eq!(contain(|| -> u32 { panic!("it ends here") }), None);
        assert!(!is_locked());
    }

    #[test]
    fn work_that_needs_no_lock_runs_at_once_unless_one_is_held() {
        let runs = Arc::new(AtomicUsize::new(0));
        let run = || {
            let runs = Arc::clone(&runs);
            run_unlocked(move || _ = runs.fetch_add(1, Ordering::Relaxed));
        };
        run();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        let (outer, inner) = (Holding::begin(), Holding::begin());
        run();
        run();
        drop(inner);
        assert_eq!((runs.load(Ordering::Relaxed), is_locked()), (1, true));
        drop(outer);
        assert_eq!((runs.load(Ordering::Relaxed), is_locked()), (3, false));
        // No deferred work is left for the next lock.
        drop(Holding::begin());
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }
}
