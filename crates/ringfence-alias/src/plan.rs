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
use super::order::{Order, sorted};
use super::portfolio::ITEMS_MAX;
use super::problem::{Problem, Relation};
use super::random::Random;
use super::repair::{self, ALL_MAX, Mending, Repair};
use super::runs;
use super::shape::{Cliques, Intervals, Shape};
use super::stack;
use super::sweep::{self, Holes};
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

    pub(super) fn progress(&self, steps: u64) -> Progress {
        Progress { height: self.height, lower_bound: self.lower_bound, steps }
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

/// Greedy policies: what the planner begins with, and to compare with.
///
/// [`plan`] has tried them all when its first stage is over (at once, of up to [`GREEDY_WHOLE`] items), and is no
/// higher than the lowest of them from then on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// By time of beginning, each at the lowest gap that holds it: what engines do as the frame is recorded.
    OnlineFirstFit,
    /// The largest first, each at the gap that it fills best.
    BySize,
    /// In some order, each at some gap.
    Greedy(Order, Fit),
}

impl Policy {
    /// Each, as the planner tries them for few items: the most successful first.
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

    /// The items in its order; `None` if it was stopped.
    fn order(self, problem: &Problem, asking: &mut Asking<'_>) -> Option<Vec<u32>> {
        match self {
            Self::OnlineFirstFit => sorted(problem.len(), |item| problem.begins[item], asking),
            Self::BySize => sorted(problem.len(), |item| Reverse(problem.sizes.size[item]), asking),
            Self::Greedy(order, _) => order.of(problem, asking),
        }
    }

    /// Whether it differs from those before it in [`Policy::ALL`].
    fn differs(self, problem: &Problem) -> bool {
        !matches!(self, Self::Greedy(Order::AlignmentSize | Order::AlignmentDuration, _)) || problem.is_mixed()
    }
}

/// The plan of a greedy policy. O(n²) at worst.
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
/// not, and after it has said no it is not either. The same problem and the same answers give the same plan.
///
/// More time is never worse: stopped at a question, the plan is that that the question reported, or a lower one.
///
/// The plan is no higher than that of any [`Policy`], whenever it is stopped, if there are no more than
/// [`GREEDY_WHOLE`] items: their greedy plans are all finished, a fraction of a millisecond. Of more items it is no
/// higher than any policy that was tried by then; all are tried first of all, but for those that take long of more than
/// 1,536, which take turns with other work. Of more than 80,000 that live for short all do, after some repair.
///
/// The first plan is always finished: a millisecond or two up to 1,536 items, a fifth of a second for a million with
/// the making of the problem. What comes then asks after a number of steps, not after a time: mostly a few milliseconds
/// apart, of 1,000 to 3,000 items up to 12 to 32 ms; of a million items a tenth of a second, while memory is made.
#[must_use]
pub fn plan(problem: &Problem, mut go_on: impl FnMut(&Progress) -> bool) -> AliasPlan {
    let mut asked = |best: &mut AliasPlan, steps| go_on(&best.progress(steps));
    let mut planner = Planner::new(problem, &mut asked);
    planner.begin();
    planner.go_on();
    planner.best
}

/// The best plan so far, and the closure that says whether to go on.
pub(super) struct Planner<'p> {
    pub problem: &'p Problem,
    /// It may put a better plan in the place of the best so far.
    asked: &'p mut dyn FnMut(&mut AliasPlan, u64) -> bool,
    pub best: AliasPlan,
    /// What a policy found in its turn, where other work goes on from the plan that it had.
    aside: Option<AliasPlan>,
    /// Policies that have not had their turn, the next one last.
    pub untried: Vec<Policy>,
    turns: Turns,
    /// What is drawn by chance depends on it.
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

    /// What comes first, once: greedy policies, and of many items the fullest moments.
    pub fn begin(&mut self) {
        self.turns.are_aside = true;
        self.begin_with_turns();
        self.turns = Turns::default();
        self.bring_back();
    }

    fn begin_with_turns(&mut self) {
        let many = self.problem.len() > ALL_MAX;
        match &self.problem.relation {
            Relation::Intervals(shape) if many && is_short_lived(shape) => {
                // Local repair gains most there.
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

    /// Goes on until the plan is proven or the caller stops it.
    pub fn go_on(&mut self) {
        match &self.problem.relation {
            Relation::Intervals(shape) => {
                if self.problem.len() > ITEMS_MAX {
                    self.again(shape);
                }
                self.better(shape);
            }
            Relation::Cliques(shape) => self.better(shape),
        }
    }

    /// Numbers by chance.
    pub fn random(&self, base: u64) -> Random {
        let mut random = Random(base ^ self.seed.wrapping_mul(0x9fb2_1c65_1e98_df25));
        if self.seed != 0 {
            // Neighbouring seeds are to have nothing in common.
            (0..4).for_each(|_| _ = random.next());
        }
        random
    }

    /// Betters the greedy plan: by the search, or by repair where there are too many items for that.
    fn better<S: Shape>(&mut self, shape: &S) {
        if self.problem.len() > ITEMS_MAX { self.repair(shape) } else { self.search(shape) }
    }

    pub fn done(&self) -> bool {
        self.stopped || self.lowest() <= self.best.lower_bound
    }

    /// The height of the best plan so far, or of what is aside.
    fn lowest(&self) -> u64 {
        self.aside.as_ref().map_or(u64::MAX, |aside| aside.height).min(self.best.height)
    }

    /// What is aside becomes the best plan so far, if it is lower.
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

    /// From now on policies take turns with other work, the first one after `steps` of it.
    fn take_turns(&mut self, steps: u64) {
        self.turns.are_on = !self.untried.is_empty();
        self.turns.ahead = steps;
    }

    /// The next policy is tried, whatever work it comes in between.
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

    /// Takes a plan that is lower. After the closure has said no there is none to take but the first: it was made of
    /// work that was cut short, and a caller who says no later might not have it.
    pub fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
        if !self.stopped || self.best.height == u64::MAX {
            self.take(offsets, steps);
        }
    }

    fn take(&mut self, offsets: Vec<u64>, steps: u64) {
        let height = self.problem.sizes.height(&offsets);
        if height < self.best.height {
            (self.best.offsets, self.best.height) = (offsets, height);
        }
        self.tick(steps);
    }

    /// The policies that differ, the most successful first; or first fit before best fit, which takes longer.
    fn policies(&self, by_cost: bool) -> Vec<Policy> {
        let mut policies: Vec<Policy> = Policy::ALL.into_iter().filter(|policy| policy.differs(self.problem)).collect();
        if by_cost {
            policies.sort_by_key(|policy| policy.fit() == Fit::Best);
        }
        policies
    }

    /// The greedy policies, in this order.
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
        // The last is tried next.
        self.untried.reverse();
    }

    /// Tries the next of the policies that took too long at first; false if there is none. `steps` counts its steps.
    pub fn try_next(&mut self, steps: &mut u64) -> bool {
        let Some(policy) = self.untried.pop() else { return false };
        self.greedy_by(policy, &mut u64::MAX.clone(), steps);
        true
    }

    /// Whether the policy was tried to its end, within so much work.
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
                // The first, and of few items all, whatever the closure says.
                self.take(offsets, steps);
            } else {
                self.offer(offsets, steps);
            }
            return true;
        }
        *work > 0 && !self.stopped
    }

    /// The first plan of many items: the cheapest, always finished.
    fn first(&mut self, shape: &Intervals) {
        let problem = self.problem;
        let mut whole = |_| true;
        let mut asking = Asking::new(&mut whole);
        let placed = sweep::place(&shape.spans, shape.section_count, &problem.sizes, Holes::Classes, &mut asking);
        if let Some(offsets) = placed {
            self.offer(offsets, problem.len() as u64);
        }
    }

    /// The first plan of many items over cliques: always finished.
    fn stack(&mut self, shape: &Cliques) {
        let problem = self.problem;
        let mut whole = |_| true;
        let mut asking = Asking::new(&mut whole);
        if let Some(order) = Order::Size.of(problem, &mut asking) {
            self.offer(stack::place(shape, &problem.sizes, &order), problem.len() as u64);
        }
    }

    /// Local repair for as many steps as a policy takes: of many items it gains more, and sooner.
    fn mend_first(&mut self, shape: &Cliques) {
        if self.done() {
            return;
        }
        let count = self.problem.len() as u64;
        let mut repair = Repair::new(shape, &self.problem.sizes, self.random(repair::SEED));
        self.mend(&mut repair, &mut Mending::default(), count * count / LOOKS_OF_A_POLICY, &mut 0);
    }

    /// The walk over time, forwards or backwards.
    fn sweep(&mut self, shape: &Intervals, backwards: bool) {
        if self.done() {
            return;
        }
        let problem = self.problem;
        // Should size classes have found no room, this is the first plan.
        let is_first = self.best.height == u64::MAX;
        let mirrored = backwards.then(|| sweep::mirrored(shape));
        let mut go_on = |steps| is_first || self.tick(steps);
        let spans = mirrored.as_ref().unwrap_or(&shape.spans);
        let mut asking = Asking::new(&mut go_on);
        if let Some(offsets) = sweep::place(spans, shape.section_count, &problem.sizes, Holes::Tightest, &mut asking) {
            self.offer(offsets, problem.len() as u64);
        }
    }
}

/// When a policy is tried between other work.
#[derive(Default)]
struct Turns {
    are_on: bool,
    /// Whether what a policy finds is put aside.
    are_aside: bool,
    /// Steps of other work until the next turn: as many as the last one took, so that a policy is tried no later than
    /// in twice the steps that it takes with those before it.
    ahead: u64,
}

impl Turns {
    /// Whether it is a policy's turn, after `steps` more of other work.
    fn is_due(&mut self, steps: u64) -> bool {
        if self.are_on {
            self.ahead = self.ahead.saturating_sub(steps);
        }
        self.are_on && self.ahead == 0
    }
}

/// Whether the items live for few sections, the mean of all.
pub(super) fn is_short_lived(shape: &Intervals) -> bool {
    let sum: u64 = shape.spans.iter().map(|span| u64::from(span.last - span.first)).sum();
    sum < SHORT * shape.spans.len() as u64
}

const SHORT: u64 = 64;
/// Half of the items are there already, on average, when one is placed, and a step is so many looks at one.
const LOOKS_OF_A_POLICY: u64 = 2 << 10;
/// Items for each step of other work before the first policy's turn, of very many short-lived items: most are proven
/// before that.
const FIRST_TURN: u64 = 1;
/// Items for each step of other work before a later policy's turn, at least: no policy takes fewer steps.
const LEAST_TURN: u64 = 8;
/// Steps of other work for each of a policy, which takes longer: together about as long.
const STEPS_FOR_ONE: u64 = 8;
/// Where a plan is above its bound by less than one part in this, there is little to gain: a quarter as often.
const NEAR: u64 = 50;
const NEAR_STEPS_FOR_ONE: u64 = 4 * STEPS_FOR_ONE;
/// Of up to this number of items all greedy policies are tried, whatever the closure says: a fraction of a millisecond.
pub const GREEDY_WHOLE: usize = 256;
/// From this number of items on, the first plan is one walk over time, and greedy placement goes through a tree of
/// runs.
pub(super) const RUNS_ITEMS_MIN: usize = ITEMS_MAX;
/// How many runs the greedy orders of `RUNS_ITEMS_MIN` or more items may look at, all together: a third of a second.
/// The orders that they leave out come later, as their gain is worth it.
const GREEDY_WORK_MAX: u64 = 1 << 25;
