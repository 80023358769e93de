//! A sum that never exceeds its bound, added to by many threads that do not write the same line.
//!
//! ```text
//!   reserved ≤ bound       lines:  free 0  │ free 1  │ free 2 …        sum = reserved − free 0 − free 1 − …
//!      ▲   │ a step at a time          ▲  │
//!      │   └──────────────────▶ add: from this thread's line
//!      └── more than two steps free ◀── sub: to this thread's line
//! ```
//!
//! Each thread adds and subtracts on a line of its own, mostly. What a line has free is reserved already, so that the sum is never
//! above `reserved`, and `reserved` never above the bound. Before an addition is refused, what other lines have free is collected.
//!
//! | operation | cost |
//! |---|---|
//! | [`BoundedSum::try_add`], [`BoundedSum::sub`] | O(1): one atomic exchange on the thread's line; another one in a while; O(lines) near the bound |
//! | [`BoundedSum::get`] | O(lines) |

use alloc::boxed::Box;

use crate::primitive::{Apart, AtomicU64, Ordering};
use crate::thread_slot::thread_place;

/// Threads beyond so many share lines.
const LINES: usize = if cfg!(loom) { 2 } else { 16 };

/// See the [module](self).
pub struct BoundedSum {
    bound: u64,
    /// What is moved between a line and `reserved` at once.
    step: u64,
    /// At most `bound`.
    reserved: AtomicU64,
    /// Reserved, and not part of the sum.
    free: Box<[Apart<AtomicU64>]>,
}

impl BoundedSum {
    /// A sum of 0.
    #[must_use]
    pub fn new(bound: u64) -> Self {
        let free = (0..LINES).map(|_| Apart(AtomicU64::new(0))).collect();
        Self { bound, step: bound / (4 * LINES as u64), reserved: AtomicU64::new(0), free }
    }

    /// The bound.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    fn line(&self) -> &AtomicU64 {
        &self.free[thread_place() % LINES].0
    }

    /// Adds to the sum, unless it would exceed the bound; says whether it did. What other threads subtract meanwhile may come too
    /// late to be counted.
    #[inline]
    pub fn try_add(&self, amount: u64) -> bool {
        let taken = |free: u64| free.checked_sub(amount);
        self.line().fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok() || self.reserve(amount)
    }

    /// Reserves for an amount that is added, and a step more for the thread's line if there is room.
    #[cold]
    fn reserve(&self, amount: u64) -> bool {
        let with_step = amount.checked_add(self.step).filter(|sum| self.reserve_exactly(*sum));
        if with_step.is_some() {
            self.line().fetch_add(self.step, Ordering::Relaxed);
            return true;
        }
        if self.reserve_exactly(amount) {
            return true;
        }
        self.collect();
        self.reserve_exactly(amount)
    }

    fn reserve_exactly(&self, amount: u64) -> bool {
        let grown = |reserved: u64| reserved.checked_add(amount).filter(|sum| *sum <= self.bound);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    /// Takes what all lines have free out of what is reserved.
    fn collect(&self) {
        for line in &self.free {
            let free = line.0.swap(0, Ordering::Relaxed);
            self.reserved.fetch_sub(free, Ordering::Relaxed);
        }
    }

    /// Subtracts from the sum what was added to it before, by any thread.
    #[inline]
    pub fn sub(&self, amount: u64) {
        let free = self.line().fetch_add(amount, Ordering::Relaxed).saturating_add(amount);
        if free > self.step.saturating_mul(2) {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&self) {
        let mut given = 0;
        let one_step_left = |free: u64| {
            given = free.saturating_sub(self.step);
            Some(free - given)
        };
        let _ = self.line().fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_step_left);
        self.reserved.fetch_sub(given, Ordering::Relaxed);
    }

    /// The sum. While others change it, at most `bound`, and some number near it.
    #[must_use]
    pub fn get(&self) -> u64 {
        let free = self.free.iter().map(|line| line.0.load(Ordering::Relaxed)).fold(0, u64::saturating_add);
        self.reserved.load(Ordering::Relaxed).saturating_sub(free)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_adds_up_to_its_bound_and_no_further() {
        for bound in [0, 1, 63, 64, 1000, u64::MAX] {
            let sum = BoundedSum::new(bound);
            assert!(sum.try_add(bound), "{bound}");
            assert!(bound == u64::MAX || !sum.try_add(1), "{bound}");
            assert_eq!(sum.get(), bound);
            sum.sub(bound);
            assert_eq!(sum.get(), 0);
            assert!(sum.try_add(bound), "{bound}");
        }
    }

    #[test]
    fn threads_never_exceed_it_and_lose_nothing() {
        let (sum, peak) = (BoundedSum::new(1000), AtomicU64::new(0));
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (sum, peak, held) = (&sum, &peak, &held);
                scope.spawn(move || {
                    for amount in (0..20_000).map(|step| (step * 7 + thread) % 300) {
                        if sum.try_add(amount) {
                            let now = held.fetch_add(amount, Ordering::SeqCst) + amount;
                            peak.fetch_max(now, Ordering::SeqCst);
                            held.fetch_sub(amount, Ordering::SeqCst);
                            sum.sub(amount);
                        }
                    }
                });
            }
        });
        assert!(peak.load(Ordering::SeqCst) <= 1000);
        assert_eq!(sum.get(), 0);
        assert!(sum.try_add(1000), "what is free is found again, on whatever line");
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;

    use super::*;
    use crate::thread_slot::take_slot;

    #[test]
    fn two_threads_stay_within_the_bound() {
        loom::model(|| {
            let sum = Arc::new(BoundedSum::new(3));
            let held = Arc::new(AtomicU64::new(0));
            let work = |slot: usize, sum: &BoundedSum, held: &AtomicU64| {
                take_slot(slot);
                if sum.try_add(2) {
                    assert!(held.fetch_add(2, Ordering::SeqCst) + 2 <= 3);
                    held.fetch_sub(2, Ordering::SeqCst);
                    sum.sub(2);
                }
            };
            let other = {
                let (sum, held) = (Arc::clone(&sum), Arc::clone(&held));
                loom::thread::spawn(move || work(1, &sum, &held))
            };
            work(0, &sum, &held);
            other.join().expect("no thread panics");
            assert_eq!(sum.get(), 0);
            assert!(sum.try_add(3));
        });
    }
}
