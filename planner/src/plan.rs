//! The planner: greedy orders, then a search, then local repair. A valid plan exists after the first order.
//!
//! ```text
//!   height ▲
//!          │▓ first plan (one greedy order)
//!          │░▓ best of the greedy orders
//!          │░░▓▓▓ search and repair: better plans until the caller stops it
//!          │░░░░░▓▓▓▓
//!     bound├┄┄┄┄┄┄┄┄┄▓▓▓ reached: the plan is proven, the planner stops
//!          └────────────────▶ work
//! ```
//!
//! The planner has no clock. It regularly calls the caller's closure, which decides if planning continues.

use super::asking::Asking;
use super::greedy::{self, Fit};
use super::order::{Order, sorted};
use super::portfolio::ITEMS_MAX;
use super::random::Random;
use super::repair::{self, ALL_MAX, Mending, Repair};
use super::runs;
use super::shape::{Cliques, Intervals, Shape};
use super::stack;
use super::sweep::{self, Holes};
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::internals::Relation;
use ringfence_alias::{AliasPlan, Problem, Progress};

/// Greedy policies. The planner starts with them; callers can compare plans with them.
///
/// [`plan`] returns a plan that is no higher than that of any policy that it has finished. For up to [`GREEDY_WHOLE`]
/// items, it finishes all policies, even if the closure stops it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// Items in order of the start of their lifetime, each in the lowest gap that fits. An engine that allocates while
    /// it records commands gets this plan.
    OnlineFirstFit,
    /// Largest item first, each in the gap that it fills best.
    BySize,
    /// In the given order, each item in the given gap.
    Greedy(Order, Fit),
}

impl Policy {
    /// All policies, in the order in which the planner tries them for few items: the most successful first.
    pub const ALL: [Self; 2 + 2 * Order::ALL.len()] = {
        let mut all = [Self::BySize; 2 + 2 * Order::ALL.len()];
        let mut at = 0;
        while at < Order::ALL.len() {
            all[2 * at] = Self::Greedy(Order::ALL[at], Fit::First);
            all[2 * at + 1] = Self::Greedy(Order::ALL[at], Fit::Best);
            at += 1;
        }
        all[2 * at] = Self::OnlineFirstFit;
        all
    };

    fn fit(self) -> Fit {
        match self {
            Self::OnlineFirstFit => Fit::First,
            Self::BySize => Fit::Best,
            Self::Greedy(_, fit) => fit,
        }
    }

    /// Returns the items in the order of the policy, or `None` if the caller stopped planning.
    fn order(self, problem: &Problem, asking: &mut Asking<'_>) -> Option<Vec<u32>> {
        match self {
            Self::OnlineFirstFit => sorted(problem.len(), |item| problem.begins()[item], asking),
            Self::BySize => sorted(problem.len(), |item| Reverse(problem.sizes().size[item]), asking),
            Self::Greedy(order, _) => order.of(problem, asking),
        }
    }

    /// Returns `true` if the policy can differ from those before it in [`Policy::ALL`].
    fn differs(self, problem: &Problem) -> bool {
        !matches!(self, Self::Greedy(Order::AlignmentSize | Order::AlignmentDuration, _)) || problem.is_mixed()
    }
}

/// Returns the plan of a greedy policy. O(n²) in the worst case.
#[must_use]
pub fn plan_by(problem: &Problem, policy: Policy) -> AliasPlan {
    let mut go_on = |_| true;
    let mut asking = Asking::new(&mut go_on);
    let order = policy.order(problem, &mut asking).unwrap_or_default();
    let placed = place(problem, &order, policy.fit(), u64::MAX, &mut u64::MAX.clone(), &mut asking);
    let (offsets, height) = placed.unwrap_or_default();
    AliasPlan { offsets, height, load: problem.load(), lower_bound: problem.lower_bound() }
}

fn place(
    problem: &Problem,
    order: &[u32],
    fit: Fit,
    limit: u64,
    work: &mut u64,
    asking: &mut Asking<'_>,
) -> Option<(Vec<u64>, u64)> {
    match problem.relation() {
        Relation::Intervals(shape) if order.len() > RUNS_ITEMS_MIN => {
            runs::place(shape, problem.sizes(), order, fit, limit, work, asking)
        }
        Relation::Intervals(shape) => greedy::place(shape, problem.sizes(), order, fit, limit, asking),
        Relation::Cliques(shape) => greedy::place(shape, problem.sizes(), order, fit, limit, asking),
    }
}

/// Plans until the plan is proven optimal or the closure returns `false`.
///
/// The closure is called every few hundred steps and after each improvement. It is not called before the first plan
/// exists, or after it has returned `false`. The same problem and the same answers give the same plan.
///
/// If the closure stops planning, the result is the plan that it was last shown, or a lower one.
///
/// For up to [`GREEDY_WHOLE`] items the plan is never higher than that of any [`Policy`]: all greedy plans are
/// finished, which takes a fraction of a millisecond. For more items the plan is no higher than that of each policy
/// that was tried before the stop. All are tried first, with two exceptions: for more than 1,536 items, slow policies
/// take turns with other work; for more than 80,000 short-lived items, all policies do, after some local repair.
///
/// The first plan is always finished. It takes a millisecond or two for up to 1,536 items, and a fifth of a second,
/// including the creation of the problem, for a million. The closure is then called after a number of steps, not after
/// a time: mostly every few milliseconds, every 12 to 32 ms for 1,000 to 3,000 items, and after a tenth of a second for
/// a million items, while memory is allocated.
#[must_use]
pub fn plan(problem: &Problem, mut go_on: impl FnMut(&Progress) -> bool) -> AliasPlan {
    let mut asked = |best: &mut AliasPlan, steps| go_on(&best.progress(steps));
    let mut planner = Planner::new(problem, &mut asked);
    planner.begin();
    planner.go_on();
    planner.best
}

/// The best plan so far, and the closure that decides if planning continues.
pub(super) struct Planner<'p> {
    pub problem: &'p Problem,
    /// May replace the best plan with a better one.
    asked: &'p mut dyn FnMut(&mut AliasPlan, u64) -> bool,
    pub best: AliasPlan,
    /// Plan that a policy found during a turn, while other work continues from `best`.
    aside: Option<AliasPlan>,
    /// Policies that are not tried yet. The last one is next.
    pub untried: Vec<Policy>,
    turns: Turns,
    /// Seed of the random numbers.
    pub seed: u64,
    stopped: bool,
}

impl<'p> Planner<'p> {
    pub fn new(problem: &'p Problem, asked: &'p mut dyn FnMut(&mut AliasPlan, u64) -> bool) -> Self {
        let (load, lower_bound) = (problem.load(), problem.lower_bound());
        let height = if problem.is_empty() { 0 } else { u64::MAX };
        let best = AliasPlan { offsets: Vec::new(), height, load, lower_bound };
        let turns = Turns::default();
        Self { problem, asked, best, aside: None, untried: Vec::new(), turns, seed: 0, stopped: false }
    }

    /// Runs the first stage: greedy policies, and for many items the fullest moments.
    pub fn begin(&mut self) {
        self.turns.are_aside = true;
        self.begin_with_turns();
        self.turns = Turns::default();
        self.bring_back();
    }

    fn begin_with_turns(&mut self) {
        let many = self.problem.len() > ALL_MAX;
        match self.problem.relation() {
            Relation::Intervals(shape) if many && is_short_lived(shape) => {
                // Local repair gains most for such items.
                self.first(shape);
                self.untried = self.policies(false);
                self.untried.reverse();
                self.take_turns(self.problem.len() as u64 / FIRST_TURN);
                self.hottest_first(shape);
                self.sweep(shape, true);
                self.turns = Turns::default();
                self.bring_back();
                let left = core::mem::take(&mut self.untried);
                self.greedy(left.into_iter().rev().collect());
            }
            Relation::Intervals(shape) if self.problem.len() > ITEMS_MAX => {
                if many {
                    self.first(shape);
                }
                self.sweep(shape, false);
                self.sweep(shape, true);
                self.greedy(self.policies(true));
                self.hottest_first(shape);
            }
            Relation::Cliques(shape) if self.problem.len() > ITEMS_MAX => {
                self.stack(shape);
                self.mend_first(shape);
                self.greedy(self.policies(false));
            }
            _ => self.greedy(self.policies(false)),
        }
    }

    /// Continues until the plan is proven or the caller stops it.
    pub fn go_on(&mut self) {
        match self.problem.relation() {
            Relation::Intervals(shape) => {
                if self.problem.len() > ITEMS_MAX {
                    self.again(shape);
                }
                self.better(shape);
            }
            Relation::Cliques(shape) => self.better(shape),
        }
    }

    /// Returns a generator of random numbers for `base` and the planner's seed.
    pub fn random(&self, base: u64) -> Random {
        let mut random = Random(base ^ self.seed.wrapping_mul(0x9fb2_1c65_1e98_df25));
        if self.seed != 0 {
            // Mixes the state, so that similar seeds give unrelated numbers.
            (0..4).for_each(|_| _ = random.next());
        }
        random
    }

    /// Improves the greedy plan, by the search or, for too many items, by local repair.
    fn better<S: Shape>(&mut self, shape: &S) {
        if self.problem.len() > ITEMS_MAX { self.repair(shape) } else { self.search(shape) }
    }

    pub fn done(&self) -> bool {
        self.stopped || self.lowest() <= self.best.lower_bound
    }

    /// Returns the height of the lower one of `best` and `aside`.
    fn lowest(&self) -> u64 {
        self.aside.as_ref().map_or(u64::MAX, |aside| aside.height).min(self.best.height)
    }

    /// Replaces `best` with `aside` if that is lower.
    fn bring_back(&mut self) {
        if let Some(aside) = self.aside.take().filter(|aside| aside.height < self.best.height) {
            let lower_bound = self.best.lower_bound.min(aside.height);
            self.best = AliasPlan { lower_bound, ..aside };
        }
    }

    pub fn tick(&mut self, steps: u64) -> bool {
        if !self.stopped {
            let lower_bound = self.best.lower_bound;
            let lowest = match &mut self.aside {
                Some(aside) if aside.height < self.best.height => aside,
                _ => &mut self.best,
            };
            lowest.lower_bound = lower_bound.min(lowest.height);
            self.stopped = !(self.asked)(lowest, steps);
        }
        if !self.stopped && self.turns.is_due(steps) {
            self.turn();
        }
        !self.stopped
    }

    /// From now on policies take turns with other work. The first turn is after `steps` steps of other work.
    fn take_turns(&mut self, steps: u64) {
        self.turns.are_on = !self.untried.is_empty();
        self.turns.ahead = steps;
    }

    /// Tries the next policy in the middle of other work.
    fn turn(&mut self) {
        self.turns.are_on = false;
        let mut steps = 0;
        if self.lowest() > self.best.lower_bound {
            self.try_next(&mut steps);
        }
        let is_near = self.lowest() - self.best.lower_bound <= self.best.lower_bound / NEAR;
        let for_one = if is_near { NEAR_STEPS_FOR_ONE } else { STEPS_FOR_ONE };
        self.take_turns((for_one * steps).max(self.problem.len() as u64 / LEAST_TURN));
    }

    /// Takes a plan that is lower. After the closure has returned `false`, only a first plan is taken: other plans are
    /// results of work that was cut short, and a caller that stops later might not get them.
    pub fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
        if !self.stopped || self.best.height == u64::MAX {
            self.take(offsets, steps);
        }
    }

    fn take(&mut self, offsets: Vec<u64>, steps: u64) {
        let height = self.problem.sizes().height(&offsets);
        if height < self.best.height {
            (self.best.offsets, self.best.height) = (offsets, height);
        }
        self.tick(steps);
    }

    /// Returns the policies that differ, the most successful first. If `by_cost`, first fit comes before best fit,
    /// which is slower.
    fn policies(&self, by_cost: bool) -> Vec<Policy> {
        let mut policies: Vec<Policy> = Policy::ALL.into_iter().filter(|policy| policy.differs(self.problem)).collect();
        if by_cost {
            policies.sort_by_key(|policy| policy.fit() == Fit::Best);
        }
        policies
    }

    /// Tries the greedy policies in this order.
    fn greedy(&mut self, policies: Vec<Policy>) {
        let mut work = if self.problem.len() > RUNS_ITEMS_MIN { GREEDY_WORK_MAX } else { u64::MAX };
        let whole = self.problem.len() <= GREEDY_WHOLE;
        for policy in policies {
            if self.best.is_proven() || (self.stopped && !whole) {
                return;
            }
            if work == 0 || !self.greedy_by(policy, &mut work, &mut 0) {
                self.untried.push(policy);
            }
        }
        // `untried` is a stack: its last policy is tried next.
        self.untried.reverse();
    }

    /// Tries the next policy that took too long at first. Returns `false` if there is none. Adds its steps to `steps`.
    pub fn try_next(&mut self, steps: &mut u64) -> bool {
        let Some(policy) = self.untried.pop() else { return false };
        self.greedy_by(policy, &mut u64::MAX.clone(), steps);
        true
    }

    /// Tries a policy within `work`. Returns `true` if it was finished.
    fn greedy_by(&mut self, policy: Policy, work: &mut u64, steps: &mut u64) -> bool {
        let (problem, limit) = (self.problem, self.lowest());
        let whole = limit == u64::MAX || problem.len() <= GREEDY_WHOLE;
        // The first plan is always finished.
        let mut go_on = |more| {
            *steps += more;
            whole || self.tick(more)
        };
        let mut asking = Asking::new(&mut go_on);
        let Some(order) = policy.order(problem, &mut asking) else { return false };
        if let Some((offsets, height)) = place(problem, &order, policy.fit(), limit, work, &mut asking) {
            let steps = problem.len() as u64;
            if self.turns.are_aside && !whole && !self.stopped {
                self.aside = Some(AliasPlan { offsets, height, ..self.best.clone() });
                self.tick(steps);
            } else if whole {
                // Taken even if the closure has stopped planning: the first plan, and all plans of few items.
                self.take(offsets, steps);
            } else {
                self.offer(offsets, steps);
            }
            return true;
        }
        *work > 0 && !self.stopped
    }

    /// Makes the first plan of many items, by the cheapest method. Always finished.
    fn first(&mut self, shape: &Intervals) {
        let problem = self.problem;
        let mut whole = |_| true;
        let mut asking = Asking::new(&mut whole);
        let placed = sweep::place(&shape.spans, shape.section_count, problem.sizes(), Holes::Classes, &mut asking);
        if let Some(offsets) = placed {
            self.offer(offsets, problem.len() as u64);
        }
    }

    /// Makes the first plan of many items over cliques. Always finished.
    fn stack(&mut self, shape: &Cliques) {
        let problem = self.problem;
        let mut whole = |_| true;
        let mut asking = Asking::new(&mut whole);
        if let Some(order) = Order::Size.of(problem, &mut asking) {
            self.offer(stack::place(shape, problem.sizes(), &order), problem.len() as u64);
        }
    }

    /// Runs local repair for as many steps as a policy takes. For many items, repair gains more than a policy, and
    /// sooner.
    fn mend_first(&mut self, shape: &Cliques) {
        if self.done() {
            return;
        }
        let count = self.problem.len() as u64;
        let mut repair = Repair::new(shape, self.problem.sizes(), self.random(repair::SEED));
        self.mend(&mut repair, &mut Mending::default(), count * count / LOOKS_OF_A_POLICY, &mut 0);
    }

    /// Runs the sweep over time, forwards or backwards.
    fn sweep(&mut self, shape: &Intervals, backwards: bool) {
        if self.done() {
            return;
        }
        let problem = self.problem;
        // If size classes found no room, this is the first plan and must be finished.
        let is_first = self.best.height == u64::MAX;
        let mirrored = backwards.then(|| sweep::mirrored(shape));
        let mut go_on = |steps| is_first || self.tick(steps);
        let spans = mirrored.as_ref().unwrap_or(&shape.spans);
        let mut asking = Asking::new(&mut go_on);
        if let Some(offsets) = sweep::place(spans, shape.section_count, problem.sizes(), Holes::Tightest, &mut asking) {
            self.offer(offsets, problem.len() as u64);
        }
    }
}

/// Schedule of the policies that take turns with other work.
#[derive(Default)]
struct Turns {
    are_on: bool,
    /// `true` if the plan of a policy is put into `aside`.
    are_aside: bool,
    /// Steps of other work until the next turn. It is proportional to the steps of the last turn, so policies take a
    /// fixed share of the time.
    ahead: u64,
}

impl Turns {
    /// Counts `steps` of other work. Returns `true` if the next policy is due.
    fn is_due(&mut self, steps: u64) -> bool {
        if self.are_on {
            self.ahead = self.ahead.saturating_sub(steps);
        }
        self.are_on && self.ahead == 0
    }
}

/// Returns `true` if the mean lifetime of the items is short, in sections.
pub(super) fn is_short_lived(shape: &Intervals) -> bool {
    let sum: u64 = shape.spans.iter().map(|span| u64::from(span.last - span.first)).sum();
    sum < SHORT * shape.spans.len() as u64
}

const SHORT: u64 = 64;
/// A policy takes about `n² / LOOKS_OF_A_POLICY` steps for n items: on average half of the items are placed when an
/// item is placed, and a step is 1,024 visits.
const LOOKS_OF_A_POLICY: u64 = 2 << 10;
/// For n items, very many and short-lived, the first policy's turn comes after `n / FIRST_TURN` steps of other work.
/// Most plans are proven before.
const FIRST_TURN: u64 = 1;
/// For n items, a later policy's turn comes after at least `n / LEAST_TURN` steps of other work. No policy takes fewer
/// steps.
const LEAST_TURN: u64 = 8;
/// Steps of other work per step of a policy. A policy's steps are longer, so both take about the same time.
const STEPS_FOR_ONE: u64 = 8;
/// If the gap is at most 1 / `NEAR` of the bound, policies get turns only a quarter as often (`NEAR_STEPS_FOR_ONE`),
/// because little can be gained.
const NEAR: u64 = 50;
const NEAR_STEPS_FOR_ONE: u64 = 4 * STEPS_FOR_ONE;
/// Up to this number of items, all greedy policies are finished even if the closure stops planning. This takes a
/// fraction of a millisecond.
pub const GREEDY_WHOLE: usize = 256;
/// Above this number of items, greedy placement of items with one lifetime uses a tree of runs, and their first plan is
/// one sweep over time.
pub(super) const RUNS_ITEMS_MIN: usize = ITEMS_MAX;
/// Maximum number of runs that the greedy orders of more than `RUNS_ITEMS_MIN` items visit in total: a third of a
/// second. The remaining orders are tried later.
const GREEDY_WORK_MAX: u64 = 1 << 25;
