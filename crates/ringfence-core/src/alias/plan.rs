//! Planning: greedy orders first, then a search, then repair; always with a valid plan at hand.
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
//! The core has no clock: the caller's closure is asked now and then whether to go on, and may read one.

use super::exact::{Keys, Outcome, Scale, Search, Strategy, Unit, strategies};
use super::greedy::{self, Fit};
use super::problem::{Problem, Relation};
use super::shape::Shape;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Offsets, with the certificate of how good they are.
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

/// How far planning is, as told to the caller's closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The height of the plan at hand.
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
    let (offsets, height) = place(problem, &order, fit, u64::MAX).unwrap_or_default();
    AliasPlan { offsets, height, load: problem.load(), lower_bound: problem.lower_bound() }
}

fn sorted<K: Ord>(problem: &Problem, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut order: Vec<u32> = (0..problem.len() as u32).collect();
    order.sort_by_key(|&item| key(item as usize));
    order
}

fn place(problem: &Problem, order: &[u32], fit: Fit, limit: u64) -> Option<(Vec<u64>, u64)> {
    match &problem.relation {
        Relation::Intervals(shape) => greedy::place(shape, &problem.sizes, order, fit, limit),
        Relation::Cliques(shape) => greedy::place(shape, &problem.sizes, order, fit, limit),
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
        Relation::Intervals(shape) => planner.search(shape),
        Relation::Cliques(shape) => planner.search(shape),
    }
    planner.best
}

/// The plan at hand, and whom to ask whether to go on.
struct Planner<'p> {
    problem: &'p Problem,
    go_on: &'p mut dyn FnMut(&Progress) -> bool,
    best: AliasPlan,
    stopped: bool,
}

impl<'p> Planner<'p> {
    fn new(problem: &'p Problem, go_on: &'p mut dyn FnMut(&Progress) -> bool) -> Self {
        let (load, lower_bound) = (problem.load(), problem.lower_bound());
        let height = if problem.is_empty() { 0 } else { u64::MAX };
        Self { problem, go_on, best: AliasPlan { offsets: Vec::new(), height, load, lower_bound }, stopped: false }
    }

    fn done(&self) -> bool {
        self.stopped || self.best.is_proven()
    }

    fn tick(&mut self, steps: u64) -> bool {
        let progress = Progress { height: self.best.height, lower_bound: self.best.lower_bound, steps };
        self.stopped |= !(self.go_on)(&progress);
        !self.stopped
    }

    fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
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
        for order in orders {
            for fit in [Fit::First, Fit::Best] {
                if self.done() {
                    return;
                }
                if let Some((offsets, _)) = place(problem, &order(), fit, self.best.height) {
                    self.offer(offsets, problem.len() as u64);
                }
            }
        }
    }

    fn search<S: Shape>(&mut self, shape: &S) {
        if self.done() || self.problem.len() > SEARCH_ITEMS_MAX {
            return;
        }
        let scale = Scale::new(&self.problem.sizes);
        if scale.is_small() {
            self.search_in::<S, i32>(shape, &scale);
        } else {
            self.search_in::<S, i64>(shape, &scale);
        }
    }

    fn search_in<S: Shape, U: Unit>(&mut self, shape: &S, scale: &Scale) {
        let problem = self.problem;
        let loads = shape.loads(&problem.sizes.size);
        let mut search: Search<S, U> = Search::new(shape, scale, &problem.sizes.size);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut decisions = 2 * problem.len() as u64;
        let mut share = 0.5;
        for round in 0.. {
            let mut failures = 0;
            for (number, strategy) in strategies().enumerate() {
                if self.done() {
                    return;
                }
                let strategy = if round == 0 { strategy } else { random_strategy(strategy, &mut random) };
                search.rank = strategy.keys.ranks(problem, shape, &loads, || random.next());
                (search.pick, search.focus) = (strategy.pick, strategy.focus);
                let gap = self.best.gap();
                let target = if number % 2 == round % 2 {
                    self.best.lower_bound
                } else {
                    (self.best.lower_bound + (gap as f64 * share) as u64).min(self.best.height - 1)
                };
                let outcome = search.run(target, decisions, &mut |steps| self.tick(steps));
                match outcome {
                    Outcome::Solved => self.offer(search.offsets(), 0),
                    Outcome::Failed => {
                        self.best.lower_bound = (target + 1).min(self.best.height);
                        self.tick(0);
                    }
                    Outcome::Stopped => failures += 1,
                }
            }
            share = if failures < 45 { 0.5_f64.max(share * 0.8) } else { 1.0 - (1.0 - share) * 0.6 };
            if round % 4 == 3 {
                decisions += decisions / 2;
            }
        }
    }
}

fn random_strategy(strategy: Strategy, random: &mut Random) -> Strategy {
    let keys = Keys::Product {
        size: random.next(),
        duration: 0.5 + random.next(),
        full: 30.0 * random.next(),
        noise: random.next(),
    };
    Strategy { keys, ..strategy }
}

struct Random(u64);

impl Random {
    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const SEARCH_ITEMS_MAX: usize = 4096;

/// EXPERIMENT
#[doc(hidden)]
pub fn trial(problem: &Problem, target: u64, decisions: u64, log: &mut dyn FnMut(alloc::string::String)) {
    let Relation::Intervals(shape) = &problem.relation else { return };
    let scale = Scale::new(&problem.sizes);
    let loads = shape.loads(&problem.sizes.size);
    let bound = problem.lower_bound();
    let mut search: Search<_, i32> = Search::new(shape, &scale, &problem.sizes.size);
    let target = if target == 0 { problem.lower_bound() } else { target };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for strategy in strategies() {
        search.failures.fill(0);
        search.decisions = 0;
        let mut each = 2 * problem.len() as u64;
        let mut tries = 0;
        loop {
        let most = search.failures.iter().copied().max().unwrap().max(1);
        let weighted: Vec<u64> = loads.iter().zip(&search.failures).map(|(&l, &f)| l + (bound as f64 * f64::from(f) / f64::from(most)) as u64).collect();
        search.rank = strategy.keys.ranks(problem, shape, &weighted, || random.next());
        (search.pick, search.focus) = (strategy.pick, strategy.focus);
        let outcome = search.run(target, each, &mut |_| true);
        each += each / 4;
        tries += 1;
        if outcome != Outcome::Stopped || search.decisions > decisions {
            log(alloc::format!("{:?} {} {tries} {:?} {:?}", outcome, search.decisions, strategy, search.last));
            break;
        }
        }
    }
}
