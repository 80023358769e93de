//! Asking the caller's eviction callback: with no lock held.
//!
//! ```text
//!   a request of the program's ── no room ──▶ the callback, and again
//!   a request made under a lock (a ring that grows, say) ── no room ──▶ noted, and the request fails
//!        └─ the lock is free ──▶ asking(): the callback, and all of it again
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::pressure::{Evict, Pressure, Tried};
use crate::error::Error;
use crate::observe::unlocked::{drop_unlocked, is_locked};

/// So often the callback is asked for one request, as long as it says that it released something.
pub(crate) const EVICTIONS_MAX: u32 = 8;

thread_local! {
    /// Whether the callback runs on this thread: what it asks for itself must not ask it.
    static EVICTING: Cell<bool> = const { Cell::new(false) };
    /// How many calls of [`asking`] are under way on this thread.
    static ASKING: Cell<u32> = const { Cell::new(0) };
    /// What a request under a lock would have asked.
    static NOTED: RefCell<Option<(Arc<Evict>, Pressure)>> = const { RefCell::new(None) };
}

/// Sets the value back, even after a panic.
struct Reset<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy> Drop for Reset<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Notes what is to be asked instead of what was noted. At the end of a thread there is no room for it.
fn note(asked: Option<(Arc<Evict>, Pressure)>) -> Option<(Arc<Evict>, Pressure)> {
    NOTED.try_with(|noted| noted.replace(asked)).ok().flatten()
}

/// Asks the callback; or, under a lock, notes that it is to be asked. Says whether something went.
pub(crate) fn ask(callback: Arc<Evict>, pressure: Pressure) -> bool {
    if is_locked() {
        let is_wanted = ASKING.get() > 0 && !EVICTING.get();
        let asked = Some((callback, pressure));
        let surplus = if is_wanted { note(asked) } else { asked };
        // The callback may be gone but for this: its `Drop` is the caller's code.
        drop_unlocked(surplus);
        return false;
    }
    if pressure.round >= EVICTIONS_MAX || EVICTING.replace(true) {
        return false;
    }
    let _until_it_returns = Reset(&EVICTING, false);
    callback(&pressure)
}

/// Does `work`, which makes a request under a lock and holds none afterwards. As long as it fails for want of memory and
/// the callback, asked in between, says that something went, it is done again.
pub fn asking<T>(mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let outer = ASKING.get();
    for round in 0.. {
        let result = {
            ASKING.set(outer + 1);
            let _until_it_is_done = Reset(&ASKING, outer);
            work()
        };
        if is_locked() && outer > 0 {
            return result; // asked by the owner of the lock
        }
        let noted = note(None);
        let (Err(error), Some((callback, pressure)), false) = (&result, &noted, is_locked()) else {
            drop_unlocked(noted);
            return result;
        };
        if !ask(Arc::clone(callback), Pressure { round, ..*pressure }) {
            return Err(asked(*error));
        }
    }
    unreachable!("the callback is asked a limited number of times")
}

/// The error, which says that the callback was asked.
fn asked(mut error: Error) -> Error {
    if let Error::OutOfMemory { tried, .. } | Error::OverBudget { tried, .. } = &mut error {
        *tried |= Tried::EVICTION;
    }
    error
}
