//! Repeated greedy placement, for more items than the search handles: items that end too high are placed earlier in the
//! next round.
//!
//! ```text
//!   order   a b c d e f g      e ends above the target
//!   again   a e b c d f g      e is placed before b, c and d; if g then ends above the target, g moves forward too
//! ```
//!
//! This is the squeaky-wheel optimization of Joslin and Clements (1999). Each *way* starts with a known order for
//! greedy placement and changes its own copy. Ways and local repair take turns: the one that has gained most per step
//! is next, and each gets a fair turn from time to time. The greedy policies that took too long at first get the first
//! fair turns. A round is one greedy placement.

use super::asking::Asking;
use super::greedy::Fit;
use super::order::{Order, sorted};
use super::plan::Planner;
use super::random::Random;
use super::repair::{self, Mending, Repair};
use super::runs;
use super::shape::Intervals;
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::Problem;

/// Target of a round: the lower bound plus this share of the gap. Items that end above the target are placed earlier.
const SHARE: f64 = 0.9;
/// Maximum number of runs (see [`runs`]) that one round visits.
const WORK_MAX: u64 = 1 << 31;
/// Minimum number of steps of a turn of repair. For more than 80,000 items, a turn has a quarter of the number of
/// items.
const STEPS_MIN: u64 = 20_000;
/// Weight of the previous gain in the moving average.
const FADING: f64 = 0.7;
/// One step in `FAIR` is spent on the participant that has waited longest.
const FAIR: u64 = 4;

/// Backwards, forwards, by size, by duration and by area.
const WAYS: [(Order, Fit); 5] = [
    (Order::End, Fit::Best),
    (Order::Begin, Fit::Best),
    (Order::Size, Fit::First),
    (Order::Duration, Fit::First),
    (Order::Area, Fit::First),
];

/// An order that changes from round to round.
struct Way {
    fit: Fit,
    /// The order of the first round.
    first: Order,
    /// Sort keys of the items, ascending. Empty before the first round.
    keys: Vec<f32>,
}

impl Way {
    /// Returns the items in the present order, or `None` if the caller stopped planning.
    fn order(
        &mut self,
        problem: &Problem,
        seed: u64,
        random: &mut Random,
        asking: &mut Asking<'_>,
    ) -> Option<Vec<u32>> {
        if !self.keys.is_empty() {
            // Keys are not negative, so their bits have the order of their values.
            return sorted(self.keys.len(), |item| self.keys[item].to_bits(), asking);
        }
        let order = self.first.of(problem, asking)?;
        self.keys = alloc::vec![0.0; order.len()];
        order.iter().enumerate().for_each(|(rank, &item)| self.keys[item as usize] = rank as f32);
        if seed == 0 {
            return Some(order);
        }
        // With a seed other than 0, the keys are scattered, because all workers start with the same order.
        self.keys.iter_mut().for_each(|key| *key *= 0.75 + 0.5 * random.next() as f32);
        sorted(self.keys.len(), |item| self.keys[item].to_bits(), asking)
    }
}

/// Results of the turns: of repair first, then of each way.
#[derive(Default)]
struct Records {
    all: Vec<Record>,
    /// Number of turns, and the sum of their steps.
    turn: usize,
    spent: u64,
    /// Steps of fair turns, and `true` if the present turn is a fair one.
    spent_fairly: u64,
    is_fair: bool,
}

/// Results of one participant's turns.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Gain in height per step, as a moving average.
    gain: f64,
    /// Lowest height that was reached.
    height: u64,
    /// Number of its last turn.
    turn: usize,
}

impl Planner<'_> {
    /// Alternates placement and repair until the plan is proven or the caller stops it.
    pub fn again(&mut self, shape: &Intervals) {
        if self.done() {
            return;
        }
        let mut ways = WAYS.map(|(first, fit)| Way { fit, first, keys: Vec::new() });
        let mut repair = Repair::new(shape, self.problem.sizes(), self.random(repair::SEED));
        let mut mending = Mending::default();
        let mut records = Records { all: alloc::vec![Record::default(); 1 + ways.len()], ..Records::default() };
        let mut random = self.random(0x1234_5678_9abc_def1);
        let slice = STEPS_MIN.max(self.problem.len() as u64 / 4);
        while !self.done() {
            let chosen = records.chosen();
            let (before, mut steps) = (self.best.height, 0);
            if records.is_fair && self.try_next(&mut steps) {
                records.spend(steps + 1);
                continue;
            }
            let reached = match chosen.checked_sub(1) {
                None => {
                    self.mend(&mut repair, &mut mending, slice, &mut steps);
                    self.best.height
                }
                Some(way) => self.round(shape, &mut ways[way], &mut random, &mut steps),
            };
            records.note(chosen, before - self.best.height, steps + 1, reached);
        }
    }

    /// Runs one placement in the way's order, then moves items above the target forward. Returns the height that was
    /// reached.
    fn round(&mut self, shape: &Intervals, way: &mut Way, random: &mut Random, steps: &mut u64) -> u64 {
        let problem = self.problem;
        let sizes = problem.sizes();
        let seed = self.seed;
        let mut go_on = |more| {
            *steps += more;
            self.tick(more)
        };
        let mut asking = Asking::new(&mut go_on);
        let Some(order) = way.order(problem, seed, random, &mut asking) else { return u64::MAX };
        let Some((offsets, height)) =
            runs::place(shape, sizes, &order, way.fit, u64::MAX, &mut WORK_MAX.clone(), &mut asking)
        else {
            return u64::MAX;
        };
        let bound = self.best.lower_bound;
        let target = bound + ((height.min(self.best.height) - bound) as f64 * SHARE) as u64;
        for ((key, offset), size) in way.keys.iter_mut().zip(&offsets).zip(&sizes.size) {
            if offset + size > target {
                *key *= random.next() as f32;
            }
        }
        if height < self.best.height {
            self.offer(offsets, 1);
        }
        height
    }
}

impl Records {
    /// Returns the next participant. In a fair turn it is the one that has waited longest. Otherwise it is the one with
    /// the largest gain, then the lowest height, then the earliest last turn.
    fn chosen(&mut self) -> usize {
        let waited = (0..self.all.len()).min_by_key(|&at| self.all[at].turn).unwrap_or(0);
        let key = |at: usize| (self.all[at].gain, Reverse(self.all[at].height), Reverse(self.all[at].turn));
        let by_gain = |&a: &usize, &b: &usize| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        };
        let best = (0..self.all.len()).max_by(by_gain).unwrap_or(0);
        self.is_fair = FAIR * self.spent_fairly <= self.spent;
        if self.is_fair { waited } else { best }
    }

    fn spend(&mut self, steps: u64) {
        self.spent += steps;
        self.spent_fairly += if self.is_fair { steps } else { 0 };
    }

    fn note(&mut self, chosen: usize, gained: u64, steps: u64, reached: u64) {
        self.turn += 1;
        self.spend(steps);
        let record = &mut self.all[chosen];
        let gain = gained as f64 / steps as f64;
        record.gain = if record.turn == 0 { gain } else { FADING * record.gain + (1.0 - FADING) * gain };
        record.height = if record.turn == 0 { reached } else { record.height.min(reached) };
        record.turn = self.turn;
    }
}
