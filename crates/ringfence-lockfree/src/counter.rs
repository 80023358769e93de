//! Counters that threads do not contend for: each thread with a [thread slot](crate::thread_slot) adds to its own cache
//! lines.
//!
//! ```text
//!   thread slot 0   │ a │ b │ c │     written only by the thread with this slot: a load and a store
//!   …
//!   thread slot 63  │ a │ b │ c │
//!   all others      │ a │ b │ c │     shared by threads without a thread slot: an atomic addition
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | add, sub | a load and a store; an atomic addition for a thread without a thread slot |
//! | get | O(lines); there are 65 |

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::thread_slot::{THREAD_SLOTS, thread_number};

/// `N` counters, at most 16. The accesses are relaxed and order no other memory. So the counters must only be used for
/// statistics, and no `loom` model contains them.
#[derive(Debug)]
pub struct Counters<const N: usize>(Box<[Line<N>]>);

#[derive(Debug)]
#[repr(align(128))]
struct Line<const N: usize>([AtomicU64; N]);

impl<const N: usize> Counters<N> {
    /// Creates the counters, all 0.
    #[must_use]
    pub fn new() -> Self {
        const { assert!(N <= 16, "a line holds 16") };
        Self((0..=THREAD_SLOTS).map(|_| Line([const { AtomicU64::new(0) }; N])).collect())
    }

    /// Adds `count` to a counter.
    ///
    /// # Panics
    /// If `counter` is not below `N`.
    #[inline]
    pub fn add(&self, counter: usize, count: u64) {
        let thread = thread_number();
        if let Some(line) = self.0[..THREAD_SLOTS].get(thread) {
            // Only this thread writes to the line, so no addition is lost.
            let held = &line.0[counter];
            held.store(held.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
        } else {
            self.0[THREAD_SLOTS].0[counter].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Subtracts `count` from a counter, even if another thread has added it.
    ///
    /// # Panics
    /// If `counter` is not below `N`.
    pub fn sub(&self, counter: usize, count: u64) {
        // The counter of one line may wrap below zero; the sum of all lines does not.
        self.add(counter, count.wrapping_neg());
    }

    /// Returns the value of a counter: the sum of the parts of all threads. O(thread slots).
    ///
    /// # Panics
    /// If `counter` is not below `N`.
    #[must_use]
    pub fn get(&self, counter: usize) -> u64 {
        self.0.iter().map(|line| line.0[counter].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_addition_is_lost_with_more_threads_than_thread_slots() {
        let counters = Counters::<2>::new();
        counters.add(1, 7);
        let (threads, times) = if cfg!(miri) { (THREAD_SLOTS + 4, 10) } else { (3 * THREAD_SLOTS, 1000) };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..times).for_each(|_| counters.add(0, 3)));
            }
        });
        assert_eq!(counters.get(0), 3 * (threads * times) as u64);
        // A thread can subtract the additions of another.
        std::thread::scope(|scope| {
            scope.spawn(|| counters.sub(0, 3 * (threads * times) as u64));
        });
        assert_eq!((counters.get(0), counters.get(1)), (0, 7));
    }
}
