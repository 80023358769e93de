//! Planning: greedy orders first, then a search, then repair. From the first order on there is always a valid plan.
//!
//! ```text
//!   height ▲
//!          │▓ first plan (one greedy order)
//!          │░▓ best of the greedy orders
//!          │░░▓▓▓ search and repair: better plans while the caller lets it go on
//!          │░░░░░▓▓▓▓
//!     bound├┄┄┄┄┄┄┄┄┄▓▓▓ reached: the plan is proven, the planner stops
//!          └────────────────▶ work
//! ```
//!
//! The planner has no clock: it calls the caller's closure now and then, which may read one and says whether to go on.

use super::asking::Asking;
use super::greedy::{self, Fit};
use super::portfolio::ITEMS_MAX;
use super::problem::{Problem, Relation};
use super::runs;
use super::shape::Shape;
use super::sweep;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Offsets, with the proof of how good they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AliasPlan {
    /// Of each item, in the order given, where it begins, in units.
    pub offsets: Vec<u64>,
    /// What the plan needs: the highest end, in units.
    pub height: u64,
    /// The largest sum of sizes alive at once: no plan is lower.
    pub load: u64,
    /// The highest bound that was proven; at least the load.
    pub lower_bound: u64,
}

impl AliasPlan {
    /// Whether no plan is lower than this one.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.height <= self.lower_bound
    }

    /// By how much the plan may be higher than the best, in units.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.height - self.lower_bound
    }
}

/// How far planning is, as reported to the caller's closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The height of the best plan so far.
    pub height: u64,
    /// The bound proven so far.
    pub lower_bound: u64,
    /// Steps of work since the last call; a step is a microsecond or some.
    pub steps: u64,
}

/// Simple policies, to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// By time of beginning, each at the lowest gap that holds it: what engines do as the frame is recorded.
    OnlineFirstFit,
    /// The largest first, each at the gap that it fills best.
    BySize,
}

/// The plan of a simple policy. O(n²) at worst.
#[must_use]
pub fn plan_by(problem: &Problem, policy: Policy) -> AliasPlan {
    let order = match policy {
        Policy::OnlineFirstFit => sorted(problem, |item| problem.begins[item]),
        Policy::BySize => sorted(problem, |item| Reverse(problem.sizes.size[item])),
    };
    let fit = if policy == Policy::BySize { Fit::Best } else { Fit::First };
    let mut work = u64::MAX;
    let placed = place(problem, &order, fit, u64::MAX, &mut work, &mut Asking::new(&mut |_| true));
    let (offsets, height) = placed.unwrap_or_default();
    AliasPlan { offsets, height, load: problem.load(), lower_bound: problem.lower_bound() }
}

fn sorted<K: Ord>(problem: &Problem, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut order: Vec<u32> = (0..problem.len() as u32).collect();
    order.sort_by_key(|&item| key(item as usize));
    order
}

fn place(
    problem: &Problem,
    order: &[u32],
    fit: Fit,
    limit: u64,
    work: &mut u64,
    asking: &mut Asking<'_>,
) -> Option<(Vec<u64>, u64)> {
    match &problem.relation {
        Relation::Intervals(shape) if order.len() > RUNS_ITEMS_MIN => {
            runs::place(shape, &problem.sizes, order, fit, limit, work, asking)
        }
        Relation::Intervals(shape) => greedy::place(shape, &problem.sizes, order, fit, limit, asking),
        Relation::Cliques(shape) => greedy::place(shape, &problem.sizes, order, fit, limit, asking),
    }
}

/// Plans, as long as the closure says to go on and the plan is not proven.
///
/// The closure is asked after every some hundred steps and whenever the plan has improved; before the first plan it is
/// not. The same problem and the same answers give the same plan.
#[must_use]
pub fn plan(problem: &Problem, mut go_on: impl FnMut(&Progress) -> bool) -> AliasPlan {
    let mut planner = Planner::new(problem, &mut go_on);
    planner.greedy();
    match &problem.relation {
        Relation::Intervals(shape) => {
            if problem.len() > ITEMS_MAX {
                planner.hottest_first(shape);
                planner.again(shape);
            }
            planner.better(shape);
        }
        Relation::Cliques(shape) => planner.better(shape),
    }
    planner.best
}

/// The best plan so far, and the closure that says whether to go on.
pub(super) struct Planner<'p> {
    pub problem: &'p Problem,
    go_on: &'p mut dyn FnMut(&Progress) -> bool,
    pub best: AliasPlan,
    stopped: bool,
}

impl<'p> Planner<'p> {
    fn new(problem: &'p Problem, go_on: &'p mut dyn FnMut(&Progress) -> bool) -> Self {
        let (load, lower_bound) = (problem.load(), problem.lower_bound());
        let height = if problem.is_empty() { 0 } else { u64::MAX };
        Self { problem, go_on, best: AliasPlan { offsets: Vec::new(), height, load, lower_bound }, stopped: false }
    }

    /// Betters the greedy plan: by the search, or by repair where there are too many items for that.
    fn better<S: Shape>(&mut self, shape: &S) {
        if self.problem.len() > ITEMS_MAX { self.repair(shape) } else { self.search(shape) }
    }

    pub fn done(&self) -> bool {
        self.stopped || self.best.is_proven()
    }

    pub fn tick(&mut self, steps: u64) -> bool {
        let progress = Progress { height: self.best.height, lower_bound: self.best.lower_bound, steps };
        self.stopped |= !(self.go_on)(&progress);
        !self.stopped
    }

    pub fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
        let height = self.problem.sizes.height(&offsets);
        if height < self.best.height {
            (self.best.offsets, self.best.height) = (offsets, height);
        }
        self.tick(steps);
    }

    /// The greedy orders, the most successful first.
    fn greedy(&mut self) {
        let problem = self.problem;
        let (size, duration) = (|i: usize| problem.sizes.size[i], |i: usize| problem.durations[i]);
        let area = |i: usize| u128::from(size(i)) * u128::from(duration(i));
        let orders: [&dyn Fn() -> Vec<u32>; 7] = [
            &|| sorted(problem, |i| Reverse((size(i), duration(i)))),
            &|| sorted(problem, |i| Reverse((duration(i), size(i)))),
            &|| sorted(problem, |i| Reverse((problem.sizes.alignment[i], size(i), duration(i)))),
            &|| sorted(problem, |i| Reverse((problem.sizes.alignment[i], duration(i), size(i)))),
            &|| sorted(problem, |i| Reverse((area(i), size(i)))),
            &|| sorted(problem, |i| (problem.begins[i], Reverse(duration(i)), Reverse(size(i)))),
            &|| sorted(problem, |i| Reverse((problem.begins[i] + duration(i), duration(i), size(i)))),
        ];
        let is_large = problem.len() > RUNS_ITEMS_MIN;
        if is_large {
            self.sweep();
        }
        let mut work = if is_large { GREEDY_WORK_MAX } else { u64::MAX };
        for place in 0..2 * orders.len() {
            // Many items: all orders with first fit before any with best fit, which takes longer.
            let (order, is_best) =
                if is_large { (place % orders.len(), place >= orders.len()) } else { (place / 2, place % 2 == 1) };
            if self.done() || work == 0 {
                return;
            }
            self.greedy_by(&orders[order](), if is_best { Fit::Best } else { Fit::First }, &mut work);
        }
    }

    fn greedy_by(&mut self, order: &[u32], fit: Fit, work: &mut u64) {
        let (problem, limit) = (self.problem, self.best.height);
        // The first plan is always finished.
        let mut go_on = |steps| limit == u64::MAX || self.tick(steps);
        if let Some((offsets, _)) = place(problem, order, fit, limit, work, &mut Asking::new(&mut go_on)) {
            self.offer(offsets, problem.len() as u64);
        }
    }

    /// The walk over time, forwards and backwards.
    fn sweep(&mut self) {
        let Relation::Intervals(shape) = &self.problem.relation else { return };
        for spans in [shape.spans.clone(), sweep::mirrored(shape)] {
            if let Some((offsets, _)) = sweep::place(&spans, &self.problem.sizes).filter(|_| !self.done()) {
                self.offer(offsets, self.problem.len() as u64);
            }
        }
    }
}

/// From so many items on, the first plan is one walk over time, and greedy placement goes through a tree of runs.
pub(super) const RUNS_ITEMS_MIN: usize = ITEMS_MAX;
/// How many runs the greedy orders of so many items may look at, all together: a third of a second. The orders that they
/// leave out come later, as their gain is worth it.
const GREEDY_WORK_MAX: u64 = 1 << 25;
