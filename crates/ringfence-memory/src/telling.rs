//! What slow paths tell a subscriber of the crate `tracing`, if the feature of that name is on. Without it, nothing is
//! compiled in. Target: `ringfence`.
//!
//! | span or event | level | when |
//! |---|---|---|
//! | `allocate_memory` | debug span | the driver makes a memory object: milliseconds, on some drivers |
//! | `free_memory` | debug span | the driver takes one back |
//! | `wait` | debug span | the host waits for the device |
//! | `out of memory` | warning | no memory type had room, or the driver refused |
//! | `device lost` | error | a `reclaim` saw it |
//!
//! # No caller's code under a lock
//!
//! A subscriber is the caller's code: it may call in again, wait for another thread that does, or panic. A lock that is
//! held over a driver call or over a request is a [`Lock`]. While a thread holds one, nothing is reported: that is done
//! as soon as the thread holds none. A span of what happened under a lock is entered and left afterwards; its field
//! `took_ns` says how long it took. A panic of the subscriber ends there: the panic hook has shown it, and what is
//! reported on has happened.
//!
//! The eviction callback is not asked under a [`Lock`] either: the owner asks it once the lock is free
//! (`memory/shortage.rs`), and what a caller's `Drop` may be in goes once it is ([`drop_unlocked`]).

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

/// A lock that is held while something may be reported, or memory asked for. See the [module](self).
#[derive(Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> Locked<'_, T> {
        Locked::new(self.0.lock())
    }

    #[inline]
    pub fn try_lock(&self) -> Option<Locked<'_, T>> {
        self.0.try_lock().map(Locked::new)
    }
}

/// The right to what a [`Lock`] guards. When the thread's last one goes, what waited is reported.
pub struct Locked<'a, T> {
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
        catch_up();
    }
}

type Later = Box<dyn FnOnce()>;

thread_local! {
    /// What is to be done once this thread holds no lock.
    static WAITING: RefCell<Vec<Later>> = const { RefCell::new(Vec::new()) };
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
        wait(Box::new(move || drop(value)));
    } else {
        drop(value);
    }
}

fn wait(later: Later) {
    let _ = WAITING.try_with(|waiting| waiting.borrow_mut().push(later));
}

/// Does what waited, if this thread holds no lock.
fn catch_up() {
    while !is_locked() {
        // Taken out first: what is done may lead here again.
        let waiting = WAITING.try_with(|waiting| std::mem::take(&mut *waiting.borrow_mut())).unwrap_or_default();
        if waiting.is_empty() {
            return;
        }
        waiting.into_iter().for_each(|later| _ = contain(later));
    }
}

#[cfg(feature = "tracing")]
pub(crate) mod later {
    //! What is reported once no lock is held.

    use std::time::Instant;

    use tracing::Span;

    use super::{contain, is_locked, wait};

    /// Reports now, or once this thread holds no lock.
    pub(crate) fn tell(report: impl FnOnce() + 'static) {
        if is_locked() {
            wait(Box::new(report));
        } else {
            contain(report);
        }
    }

    /// A span: entered, or to be reported once no lock is held.
    pub(crate) struct Slow<F: FnOnce() -> Span + 'static> {
        started: Instant,
        /// There iff it is to be reported later.
        make: Option<F>,
        entered: Option<Span>,
    }

    impl<F: FnOnce() -> Span + 'static> Slow<F> {
        pub(crate) fn new(make: F) -> Self {
            let is_later = is_locked();
            let (make, entered) = if is_later { (Some(make), None) } else { (None, enter(make)) };
            Self { started: Instant::now(), make, entered }
        }
    }

    impl<F: FnOnce() -> Span + 'static> Drop for Slow<F> {
        fn drop(&mut self) {
            let took_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Some(make) = self.make.take() {
                wait(Box::new(move || leave(enter(make), took_ns)));
            } else {
                leave(self.entered.take(), took_ns);
            }
        }
    }

    // One step after the other, each contained: a span that is dropped while a panic is under way would end the program.

    fn enter(make: impl FnOnce() -> Span) -> Option<Span> {
        let span = contain(make)?;
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        Some(span)
    }

    fn leave(span: Option<Span>, took_ns: u64) {
        let Some(span) = span else { return };
        contain(|| _ = span.record("took_ns", took_ns));
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        contain(|| drop(span));
    }
}

/// A span until the end of the block.
macro_rules! slow {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        let _span = {
            $(
                #[allow(clippy::redundant_locals)] // owned by the closure, under the field's name
                let $field = $value;
            )*
            crate::telling::later::Slow::new(move || {
                tracing::debug_span!(target: "ringfence", $name, $($field,)* took_ns = tracing::field::Empty)
            })
        };
    };
}

/// An event of a level: `warn` or `error`. Fields are named, and owned.
macro_rules! tell {
    ($level:ident, $text:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        {
            $(
                #[allow(clippy::redundant_locals)] // owned by the closure, under the field's name
                let $field = $value;
            )*
            crate::telling::later::tell(move || tracing::$level!(target: "ringfence", { $($field),* }, $text));
        }
    };
}

pub(crate) use {slow, tell};
