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

use super::exact::{GoOn, Keys, Outcome, Pick, Scale, Search, Strategy, Unit, strategies};
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
        if scale.fits::<i16>() {
            self.search_in::<S, i16>(shape, &scale);
        } else if scale.fits::<i32>() {
            self.search_in::<S, i32>(shape, &scale);
        } else {
            self.search_in::<S, i64>(shape, &scale);
        }
    }

    fn search_in<S: Shape, U: Unit>(&mut self, shape: &S, scale: &Scale) {
        let problem = self.problem;
        let mut portfolio = Portfolio {
            search: Search::<S, U>::new(shape, scale, &problem.sizes.size),
            loads: shape.loads(&problem.sizes.size),
            shape,
            random: Random(0x9e37_79b9_7f4a_7c15),
        };
        let mut threads: Vec<Thread> = strategies().map(|strategy| Thread::new(problem, shape, strategy, 1)).collect();
        let mut episode = portfolio.episode(problem, 0);
        let (mut turns, mut episodes) = (0, 0);
        // Decisions made at the bound, and above it: the two take turns evenly.
        let mut spent = [0_u64; 2];
        while !self.done() {
            let before = portfolio.search.decisions;
            let above = usize::from(spent[0] > spent[1]);
            if above == 0 {
                let count = threads.len();
                let bound = self.best.lower_bound;
                self.attempt(&mut portfolio, &mut threads[turns % count], bound);
                turns += 1;
            } else {
                if episode.attempts == EPISODE_ATTEMPTS {
                    episodes += 1;
                    episode = portfolio.episode(problem, episodes);
                }
                episode.attempts += 1;
                let gap = self.best.gap() as f64;
                let target = (self.best.lower_bound + (gap * episode.share) as u64).min(self.best.height - 1);
                self.attempt(&mut portfolio, &mut episode.thread, target);
            }
            spent[above] += portfolio.search.decisions - before;
        }
    }

    fn attempt<S: Shape, U: Unit>(&mut self, portfolio: &mut Portfolio<S, U>, thread: &mut Thread, target: u64) -> bool {
        let outcome = portfolio.run(self.problem, thread, target, &mut |steps| self.tick(steps));
        match outcome {
            Outcome::Solved => self.offer(portfolio.search.offsets(), 1),
            Outcome::Failed => {
                self.best.lower_bound = target + 1;
                self.tick(1);
            }
            Outcome::Stopped => {}
        }
        outcome == Outcome::Solved
    }
}

const EPISODE_ATTEMPTS: u32 = 10;

/// A few short attempts somewhere between the bound and the plan at hand, in a way drawn by chance. Those that succeed
/// do so soon; so many short ones find more than a few long ones.
struct Episode {
    thread: Thread,
    /// How far from the bound to the plan at hand the target lies.
    share: f64,
    attempts: u32,
}

/// What the threads take turns with.
struct Portfolio<'s, S: Shape, U: Unit> {
    search: Search<'s, S, U>,
    shape: &'s S,
    loads: Vec<u64>,
    random: Random,
}

/// A strategy, with what it has learned over its attempts.
struct Thread {
    strategy: Strategy,
    /// Of each section how often it failed.
    failures: Vec<u32>,
    /// Of the noise in its order, the same in all its attempts.
    seed: u64,
    /// How many decisions the next attempt may make.
    decisions: u64,
    /// How many were made since it last forgot, and after how many it forgets.
    spent: u64,
    spent_max: u64,
}

impl Thread {
    fn new<S: Shape>(problem: &Problem, shape: &S, strategy: Strategy, seed: u64) -> Self {
        let failures = alloc::vec![0; shape.section_count()];
        let mut thread = Self { strategy, failures, seed, decisions: 0, spent: 0, spent_max: 0 };
        thread.forget(problem.len());
        thread
    }

    /// As at first.
    fn forget(&mut self, items: usize) {
        self.failures.fill(0);
        self.decisions = 64 + 2 * items as u64;
        self.spent = 0;
        self.spent_max = 64 * self.decisions;
    }

    /// More decisions next time; after many attempts, from the start again with longer patience.
    fn extend(&mut self, items: usize) {
        self.spent += self.decisions;
        self.decisions += self.decisions / 4;
        if self.spent > self.spent_max {
            let patience = 2 * self.spent_max;
            self.forget(items);
            self.spent_max = patience;
        }
    }
}

impl<S: Shape, U: Unit> Portfolio<'_, S, U> {
    fn episode(&mut self, problem: &Problem, number: usize) -> Episode {
        let mut strategy = self.random.strategy();
        if number < 4 && let Some(fixed) = strategies().nth(2 * number) {
            strategy = fixed;
        }
        let share = if number == 0 { 0.5 } else { 0.3 + 0.7 * self.random.next() };
        Episode { thread: Thread::new(problem, self.shape, strategy, self.random.0), share, attempts: 0 }
    }

    fn run(&mut self, problem: &Problem, thread: &mut Thread, target: u64, go_on: GoOn) -> Outcome {
        let search = &mut self.search;
        // A section counts as fuller, the more often it failed.
        let most = u64::from(thread.failures.iter().copied().max().unwrap_or(0).max(1));
        let bound = problem.lower_bound();
        let weigh = |(&load, &failures): (&u64, &u32)| load + scaled(bound, u64::from(failures), most);
        let weights: Vec<u64> = self.loads.iter().zip(&thread.failures).map(weigh).collect();
        let mut random = Random(thread.seed);
        search.rank = thread.strategy.keys.ranks(problem, self.shape, &weights, || random.next());
        (search.pick, search.focus) = (thread.strategy.pick, thread.strategy.focus);
        core::mem::swap(&mut search.failures, &mut thread.failures);
        let outcome = search.run(target, thread.decisions, go_on);
        core::mem::swap(&mut search.failures, &mut thread.failures);
        thread.extend(problem.len());
        outcome
    }
}

/// `whole * part / parts`, in 128 bits.
fn scaled(whole: u64, part: u64, parts: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(parts)) as u64
}

struct Random(u64);

impl Random {
    /// A way to search, near those that succeed most.
    fn strategy(&mut self) -> Strategy {
        let keys = Keys::Product {
            size: if self.next() < 0.8 { 0.0 } else { 0.2 * self.next() },
            duration: 1.0,
            full: 10.0 + 60.0 * self.next(),
            noise: 0.02 + 0.2 * self.next(),
        };
        let pick = if self.next() < 0.85 { Pick::Lowest } else { Pick::Ranked };
        Strategy { pick, focus: false, keys }
    }

    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const SEARCH_ITEMS_MAX: usize = 4096;

