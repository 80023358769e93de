//! The plan by size, and its repair. A valid plan exists after the first step.
//!
//! ```text
//!   height ▲
//!          │▓▓ by size: the largest item first, each in the gap that it fills best
//!          │░░▓▓▓ repair: better plans until the caller stops it, or it gains nothing
//!          │░░░░░▓▓▓▓
//!     bound├┄┄┄┄┄┄┄┄┄▓▓▓ reached: the plan is proven, the planner stops
//!          └────────────────▶ work
//! ```
//!
//! The planner has no clock. It regularly calls the caller's closure, which decides if planning continues.

use super::internals::asking::Asking;
use super::internals::greedy::{self, Fit};
use super::internals::random::Random;
use super::internals::repair::{self, Improving, Mending, Repair};
use super::internals::shape::Shape;
use super::problem::{Problem, Relation};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The offsets of a plan, with its height and a proven lower bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AliasPlan {
    /// Offset of each item, in the order of the items, in units.
    pub offsets: Vec<u64>,
    /// Highest end of an item, in units.
    pub height: u64,
    /// Largest sum of sizes alive at once. No plan is lower.
    pub load: u64,
    /// Highest proven lower bound; at least `load`.
    pub lower_bound: u64,
}

impl AliasPlan {
    /// Returns `true` if the height is the lower bound, which proves that no plan is lower. An optimal plan can be
    /// higher than the bound; the result is then `false`.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.height <= self.lower_bound
    }

    /// Returns the difference between the height and the lower bound, in units. The lowest plan is at most this much
    /// lower.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.height - self.lower_bound
    }

    /// Returns the progress after `steps` of work.
    #[doc(hidden)]
    #[must_use]
    pub fn progress(&self, steps: u64) -> Progress {
        Progress { height: self.height, lower_bound: self.lower_bound, steps }
    }
}

/// Progress of planning, as reported to the caller's closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Height of the best plan so far.
    pub height: u64,
    /// Lower bound proven so far.
    pub lower_bound: u64,
    /// Steps of work since the last call. A step takes about a microsecond.
    pub steps: u64,
}

/// Maximum number of consecutive targets that repair misses. After each miss, the next target is nearer to the plan.
const FAILURES_MAX: u32 = 12;

/// Places the items by size, the largest first, each in the gap that it fills best. Then repairs the plan until it is
/// proven optimal, the closure returns `false`, or repair gains nothing more.
///
/// The plan by size costs O(n²), and is always finished. The closure is called after the plan by size, every few
/// hundred steps of repair, and after each improvement. Once the closure has returned `false`, it is not called again,
/// and the result is the plan of the last reported [`Progress`]. The same problem and the same answers give the same
/// plan.
///
/// There is no search: an optimal plan that is higher than the bound is not proven. The crate `ringfence-planner`
/// searches, and plans a million items.
#[must_use]
pub fn plan(problem: &Problem, mut go_on: impl FnMut(&Progress) -> bool) -> AliasPlan {
    match &problem.relation {
        Relation::Intervals(shape) => by_size_with_repair(problem, shape, &mut go_on),
        Relation::Cliques(shape) => by_size_with_repair(problem, shape, &mut go_on),
    }
}

fn by_size_with_repair<S: Shape>(problem: &Problem, shape: &S, go_on: &mut dyn FnMut(&Progress) -> bool) -> AliasPlan {
    let (load, lower_bound) = (problem.load(), problem.lower_bound());
    let best = AliasPlan { offsets: Vec::new(), height: u64::MAX, load, lower_bound };
    let mut run = Run { problem, best, go_on, is_stopped: false };
    run.offer(by_size(problem, shape), problem.len() as u64);
    if !run.is_done() {
        let mut repair = Repair::new(shape, &problem.sizes, Random(repair::SEED));
        repair::mend(&mut run, &mut repair, &mut Mending::limited(FAILURES_MAX), u64::MAX, &mut 0);
    }
    run.best
}

fn by_size<S: Shape>(problem: &Problem, shape: &S) -> Vec<u64> {
    let mut order: Vec<u32> = (0..problem.len() as u32).collect();
    order.sort_by_key(|&item| Reverse(problem.sizes.size[item as usize]));
    let mut whole = |_| true;
    let mut asking = Asking::new(&mut whole);
    let placed = greedy::place(shape, &problem.sizes, &order, Fit::Best, u64::MAX, &mut asking);
    placed.map_or_else(Vec::new, |(offsets, _)| offsets)
}

/// The best plan so far, and the closure that decides if planning continues.
struct Run<'p> {
    problem: &'p Problem,
    best: AliasPlan,
    go_on: &'p mut dyn FnMut(&Progress) -> bool,
    is_stopped: bool,
}

impl Improving for Run<'_> {
    fn problem(&self) -> &Problem {
        self.problem
    }

    fn best(&self) -> &AliasPlan {
        &self.best
    }

    fn is_done(&self) -> bool {
        self.is_stopped || self.best.is_proven()
    }

    fn tick(&mut self, steps: u64) -> bool {
        self.is_stopped = self.is_stopped || !(self.go_on)(&self.best.progress(steps));
        !self.is_stopped
    }

    fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
        if self.is_stopped {
            return;
        }
        let height = self.problem.sizes.height(&offsets);
        if height < self.best.height {
            (self.best.offsets, self.best.height) = (offsets, height);
        }
        self.tick(steps);
    }
}
