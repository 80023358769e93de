//! How an arena wakes the thread that makes blocks before they are needed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;

/// The thread that makes blocks before they are needed, asleep until there is something to do.
#[derive(Default)]
pub(crate) struct Wake {
    pub(super) sleeper: Mutex<Option<Thread>>,
    /// Set when blocks are made ahead for the first time; never cleared.
    pub(super) served: AtomicBool,
}

impl Wake {
    /// Whether any thread makes blocks ahead.
    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Called once when an arena's free bytes fall below its mark.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &*self.sleeper.lock() {
            thread.unpark();
        }
    }
}
