//! Reports heaps whose usage exceeds their budget, because another process uses memory or the driver has lowered the
//! budget.
//!
//! ```text
//!   budget   ────────┐          ┌───────────────
//!   usage    ────────┼──────────┼───────────────
//!                    └────┐     │
//!                         └─────┘
//!   callback         ▲    ▲          once a reclaim, whenever the budget is lower than at the last call
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`ExcessWatch::look`] without a callback | one load |
//! | [`ExcessWatch::look`] | O(heaps), and the callback |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringfence_decision::{Budget, Budgets};

use crate::device::lock::Lock;

/// The callback for heaps whose usage exceeds their budget: the index of the heap, and its figures.
pub type OnExcess = dyn Fn(u32, Budget) + Send + Sync;

/// The callback, and the budgets for which it was called.
pub(crate) struct ExcessWatch {
    callback: Lock<Option<Arc<OnExcess>>>,
    is_set: AtomicBool,
    /// The budget of each heap at the last call, in bytes; `u64::MAX` if the usage was within the budget since then.
    reported: Box<[AtomicU64]>,
}

impl ExcessWatch {
    /// Creates a watch without a callback.
    pub(crate) fn new(heap_count: usize) -> Self {
        let reported = (0..heap_count).map(|_| AtomicU64::new(u64::MAX)).collect();
        Self { callback: Lock::new(None), is_set: AtomicBool::new(false), reported }
    }

    /// Sets the callback, and returns the previous one. Drop it with no lock held.
    pub(crate) fn set(&self, callback: Option<Arc<OnExcess>>) -> Option<Arc<OnExcess>> {
        let mut held = self.callback.lock();
        self.is_set.store(callback.is_some(), Ordering::Relaxed);
        self.reported.iter().for_each(|reported| reported.store(u64::MAX, Ordering::Relaxed));
        std::mem::replace(&mut held, callback)
    }

    /// Calls the callback for each heap whose usage exceeds its budget, if the budget is lower than at the last call for
    /// the heap, or if the usage was within the budget since then. Call it with no lock held.
    pub(crate) fn look(&self, budgets: &Budgets) {
        if !self.is_set.load(Ordering::Relaxed) {
            return;
        }
        let Some(callback) = self.callback.lock().clone() else { return };
        for (heap, reported) in (0..).zip(&self.reported) {
            let budget = budgets.heap(heap);
            if budget.usage_bytes <= budget.budget_bytes {
                reported.store(u64::MAX, Ordering::Relaxed);
            } else if reported.fetch_min(budget.budget_bytes, Ordering::Relaxed) > budget.budget_bytes {
                callback(heap, budget);
            }
        }
    }
}
