//! A counter that threads do not take from one another: each adds to a line of its own, mostly.
//!
//! | operation | cost |
//! |---|---|
//! | add, sub | one atomic addition, in most cases to a line of this thread's |
//! | get | O(lines), 16 |

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::thread_slot::thread_place;

/// Lines of a counter.
const LINES: usize = 16;

/// See the [module](self). It orders nothing, and nothing may be decided by it: so no model has to know it.
#[derive(Default, Debug)]
pub struct Counter(Box<[Line; LINES]>);

#[derive(Default, Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0[thread_place() % LINES].0.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes away what was added before, by any thread.
    pub fn sub(&self, count: u64) {
        self.0[thread_place() % LINES].0.fetch_sub(count, Ordering::Relaxed);
    }

    /// The sum. O(lines).
    #[must_use]
    pub fn get(&self) -> u64 {
        // A line may be below zero, the sum is not.
        self.0.iter().map(|line| line.0.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}
