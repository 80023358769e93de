//! The search as a portfolio: searches with their own order and their own failure counts take turns.
//!
//! ```text
//!   at the bound      ▐ thread 0 ▐ thread 1 ▐ … ▐ thread 0, longer ▐ …      each counts the failures of the sections
//!   above it          ▐ episode: up to ten short attempts, a random order, a target between bound and plan ▐ …
//!   few items         ▐ beam search at the bound ▐ learning just below the plan ▐ … ▐ a wider beam ▐ …
//! ```
//!
//! One order in ten solves in a thousand decisions a problem that others do not solve in a million. So attempts are
//! short, and become longer as they fail. A section that failed counts as fuller in the next attempt, which moves its
//! items forward. A plan at the bound is proven at once. Episodes improve the plan if the bound is out of reach, and
//! aim lower after a success. An attempt that searches all plans up to its target raises the bound.

use super::beam::{Beam, Favour};
use super::bound::refined;
use super::exact::{GoOn, Keys, LEADING, Outcome, Pick, Scale, Search, Strategy, Unit, strategies};
use super::learning::{self, Learner};
use super::plan::Planner;
use super::random::Random;
use super::shape::Shape;
use alloc::vec::Vec;
use ringfence_alias::Problem;

/// Largest number of items for the search, which recurses once per item. More items are repaired instead.
pub(super) const ITEMS_MAX: usize = 1536;

impl Planner<'_> {
    /// Searches until the plan is proven or the caller stops it.
    pub fn search<S: Shape>(&mut self, shape: &S) {
        if self.done() {
            return;
        }
        if self.problem.is_mixed() && self.problem.len() <= EXACT_MAX {
            let (bound, fullest) = refined(shape, self.problem.sizes(), self.best.lower_bound);
            self.best.lower_bound = bound.min(self.best.height);
            if !self.tick(1) || self.done() {
                return;
            }
            self.pile(shape, &fullest);
            if self.done() {
                return;
            }
        }
        let scale = Scale::new(self.problem.sizes());
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
        let mut beams =
            (problem.len() <= EXACT_MAX).then(|| Beams::<U>::new(shape, scale, &problem.sizes().size, self.seed));
        let mut portfolio = Portfolio {
            search: Search::<S, U>::new(shape, scale, &problem.sizes().size),
            loads: shape.loads(&problem.sizes().size),
            shape,
            random: self.random(0x9e37_79b9_7f4a_7c15),
            share: 0.5,
            episodes: 0,
            is_mixed: problem.is_mixed(),
        };
        let ways = strategies(portfolio.is_mixed);
        let mut threads: Vec<Thread> = ways.map(|strategy| Thread::new(problem, shape, strategy, 1)).collect();
        let mut episode = portfolio.episode(problem);
        let mut learner = (problem.len() <= EXACT_MAX).then(|| Learner::new(shape, scale, &problem.sizes().size));
        // With several workers, each begins with another strategy.
        let mut turns = self.seed as usize % (LEADING + 1);
        let mut is_begun = false;
        // Decisions at the bound and above it, and steps of learning just below the best plan.
        let (mut at_bound, mut above, mut just_below) = (0_u64, 0_u64, 0_u64);
        // Steps of beam searches. They get a third of all steps; with mixed alignments they start at once.
        let mut beamed = if problem.is_mixed() { 0 } else { STEPS_BEFORE_BEAMS };
        while !self.done() {
            let before = portfolio.search.decisions;
            let is_due = 2 * beamed <= at_bound + above + just_below;
            if let Some(beams) = beams.as_mut().filter(|beams| is_due && beams.width <= WIDTH_MAX) {
                beamed += self.beam(beams);
            } else if let Some(learner) = learner.as_mut().filter(|_| is_begun && just_below <= 16 * (at_bound + above))
            {
                just_below += self.learn(learner);
            } else if at_bound * bound_weight(problem, at_bound) <= above {
                let bound = self.best.lower_bound;
                let turn = whose_turn(turns, threads.len());
                self.attempt(&mut portfolio, &mut threads[turn], bound);
                (turns, is_begun) = (turns + 1, true);
                at_bound += portfolio.search.decisions - before;
            } else {
                self.continue_episode(&mut portfolio, &mut episode);
                above += portfolio.search.decisions - before;
            }
        }
    }

    /// Runs one beam search, and widens the beam after a failure at this width. Returns the number of steps.
    fn beam<U: Unit>(&mut self, beams: &mut Beams<U>) -> u64 {
        let (capacity, mut steps) = ((self.best.lower_bound + beams.reach).min(self.best.height - 1), 1);
        let mut go_on = |more| {
            steps += more;
            self.tick(more)
        };
        match beams.beam.search(capacity, beams.width, beams.favour, &mut go_on) {
            Outcome::Solved => {
                beams.reach = 0;
                self.offer(beams.beam.offsets(), 1);
            }
            Outcome::Failed => {
                self.best.lower_bound = (capacity + 1).min(self.best.height);
                beams.reach = 2 * beams.reach + 1;
                self.tick(1);
            }
            Outcome::Stopped => beams.widen(),
        }
        steps
    }

    /// Searches for a lower plan by learning, for a limited number of steps. Returns the number of steps.
    fn learn(&mut self, learner: &mut Learner) -> u64 {
        if !learner.is_begun() {
            learner.lean_on(&self.best.offsets, self.seed);
        }
        let (capacity, mut steps) = (self.best.height - 1, 1);
        let mut go_on = |more| {
            steps += more;
            self.tick(more)
        };
        match learner.search(capacity, LOOKS_A_TURN, &mut go_on) {
            Outcome::Solved => self.offer(learner.offsets(), 1),
            Outcome::Failed => {
                self.best.lower_bound = self.best.height;
                self.tick(1);
            }
            Outcome::Stopped => {}
        }
        steps
    }

    /// Runs one attempt of the episode. When the episode ends, a new one starts, with a lower target after a success
    /// and a higher target after a failure.
    fn continue_episode<S: Shape, U: Unit>(&mut self, portfolio: &mut Portfolio<S, U>, episode: &mut Episode) {
        let gap = self.best.gap() as f64;
        let target = (self.best.lower_bound + (gap * episode.share) as u64).min(self.best.height - 1);
        episode.attempts += 1;
        if self.attempt(portfolio, &mut episode.thread, target) {
            portfolio.share = (portfolio.share - SHARE_DOWN).max(SHARE_MIN);
        } else if episode.attempts == EPISODE_ATTEMPTS {
            portfolio.share = (portfolio.share + SHARE_UP).min(1.0);
        } else {
            return;
        }
        *episode = portfolio.episode(self.problem);
    }

    /// Runs one attempt. Returns `true` if the target was reached.
    fn attempt<S: Shape, U: Unit>(
        &mut self,
        portfolio: &mut Portfolio<S, U>,
        thread: &mut Thread,
        target: u64,
    ) -> bool {
        let outcome = portfolio.run(self.problem, thread, target, &mut |steps| self.tick(steps));
        match outcome {
            Outcome::Solved => self.offer(portfolio.search.offsets(), 1),
            Outcome::Failed => {
                self.best.lower_bound = portfolio.search.next_height().max(target + 1).min(self.best.height);
                self.tick(1);
            }
            Outcome::Stopped => {}
        }
        outcome == Outcome::Solved
    }
}

/// Returns the thread for a turn: the leading threads in turn, and after each round one of the others.
fn whose_turn(turn: usize, count: usize) -> usize {
    let (round, place) = (turn / (LEADING + 1), turn % (LEADING + 1));
    if place < LEADING { place } else { LEADING + round % (count - LEADING) }
}

/// Returns the weight of attempts at the bound. Both kinds get the same share at first; after many failures at the
/// bound, those above it get more.
fn bound_weight(problem: &Problem, at_bound: u64) -> u64 {
    if at_bound < 200 * problem.len() as u64 { 1 } else { 4 }
}

/// Largest number of items for which the optimum is found by exhausting all lower plans.
const EXACT_MAX: usize = learning::ITEMS_MAX;
/// Number of unfinished plans of a beam, at first and at most.
const WIDTH: usize = 1 << 3;
const WIDTH_MAX: usize = 1 << 13;
/// Half of the steps of other searches before the first beam. With one alignment, the tables of a beam add little.
const STEPS_BEFORE_BEAMS: u64 = 1_000;
/// Visits in a turn of learning.
const LOOKS_A_TURN: u64 = 1 << 15;

const EPISODE_ATTEMPTS: u32 = 10;
const SHARE_UP: f64 = 0.04;
const SHARE_DOWN: f64 = 0.08;
const SHARE_MIN: f64 = 0.2;

/// Beam searches of growing width.
struct Beams<U> {
    beam: Beam<U>,
    width: usize,
    favour: Favour,
    /// The next search is for a plan of at most `lower_bound + reach`. Grows to 1, 3, 7, … after each height that is
    /// refuted. Reset to 0 when a plan is found or the beam is widened.
    reach: u64,
}

impl<U: Unit> Beams<U> {
    /// Creates the beam searches. The seed selects the first width and criterion, so that several workers begin
    /// differently.
    fn new<S: Shape>(shape: &S, scale: &Scale, sizes: &[u64], seed: u64) -> Self {
        let favour = if seed.is_multiple_of(2) { Favour::Slack } else { Favour::Placed };
        let width = WIDTH << (2 * (seed / 2 % 4));
        Self { beam: Beam::new(shape, scale, sizes), width, favour, reach: 0 }
    }

    /// If the criterion was the slack, switches to the placed area. Otherwise switches back to the slack, with four
    /// times the width.
    fn widen(&mut self) {
        self.reach = 0;
        if self.favour == Favour::Slack {
            self.favour = Favour::Placed;
        } else {
            (self.favour, self.width) = (Favour::Slack, 4 * self.width);
        }
    }
}

/// A few short attempts between the bound and the best plan, with a random strategy. Attempts that succeed do so soon,
/// so many short ones find more than a few long ones.
struct Episode {
    thread: Thread,
    /// Position of the target between the bound (0) and the best plan (1).
    share: f64,
    attempts: u32,
}

/// State that the threads share.
struct Portfolio<'s, S: Shape, U: Unit> {
    search: Search<'s, S, U>,
    shape: &'s S,
    loads: Vec<u64>,
    random: Random,
    /// Present position of the targets of episodes between the bound (0) and the best plan (1).
    share: f64,
    /// Number of episodes so far.
    episodes: usize,
    /// `true` if items differ in alignment.
    is_mixed: bool,
}

/// A strategy with its random seed, the failures of its attempts and the limits of the next ones. Not a thread of the
/// operating system.
struct Thread {
    strategy: Strategy,
    /// Number of failures of each section.
    failures: Vec<u32>,
    /// Seed of the random part of the item order, the same in all attempts.
    seed: u64,
    /// Maximum number of decisions of the next attempt.
    decisions: u64,
    /// Sum of the limits of the attempts since the last reset. If it exceeds `spent_max`, the thread is reset.
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

    /// Resets the thread.
    fn forget(&mut self, items: usize) {
        self.failures.fill(0);
        self.decisions = 64 + 2 * items as u64;
        self.spent = 0;
        self.spent_max = 64 * self.decisions;
    }

    /// Raises the decision limit of the next attempt by a quarter. If `spent` exceeds `spent_max`, resets the thread
    /// and doubles `spent_max`.
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
    /// Starts an episode. The first two use the most successful fixed strategies, the others a random one.
    fn episode(&mut self, problem: &Problem) -> Episode {
        let drawn = drawn(&mut self.random);
        let strategy = strategies(self.is_mixed).take(2).nth(self.episodes).unwrap_or(drawn);
        self.episodes += 1;
        let share = (self.share + 0.3 * (self.random.next() - 0.5)).clamp(0.1, 1.0);
        Episode { thread: Thread::new(problem, self.shape, strategy, self.random.0), share, attempts: 0 }
    }

    fn run(&mut self, problem: &Problem, thread: &mut Thread, target: u64, go_on: GoOn) -> Outcome {
        let search = &mut self.search;
        // A section counts as fuller if it has failed more often.
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

/// Returns `whole * part / parts`, computed in 128 bits.
fn scaled(whole: u64, part: u64, parts: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(parts)) as u64
}

/// Returns a random strategy near those that succeed most.
fn drawn(random: &mut Random) -> Strategy {
    let keys = Keys::Product {
        size: if random.next() < 0.8 { 0.0 } else { 0.2 * random.next() },
        duration: 1.0,
        full: 10.0 + 60.0 * random.next(),
        noise: 0.02 + 0.2 * random.next(),
    };
    let pick = if random.next() < 0.85 { Pick::Lowest } else { Pick::Ranked };
    Strategy { pick, focus: false, keys }
}
