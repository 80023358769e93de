//! Greedy again, for more items than the search takes: what ended too high is placed earlier the next time.
//!
//! ```text
//!   order   a b c d e f g      e sticks out above the target
//!   again   a e b c d f g      e has a place of its own choice now; if it is g that sticks out, g comes earlier too
//! ```
//!
//! It is the squeaky wheel of Joslin and Clements (1999). Each *way* begins with an order that greedy placement is
//! known for, and keeps its own. Which way is next, and whether it is a way or local repair, is decided by what each
//! has gained for its steps; none is left out for ever. The greedy policies that took too long at first have the first
//! of the fair turns. A round is one greedy placement.

use super::asking::Asking;
use super::greedy::Fit;
use super::order::{Order, sorted};
use super::plan::Planner;
use super::problem::Problem;
use super::random::Random;
use super::repair::{self, Mending, Repair};
use super::runs;
use super::shape::Intervals;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Of how much of the gap above the bound what sticks out is placed earlier.
const SHARE: f64 = 0.9;
/// Runs that one round may look at.
const WORK_MAX: u64 = 1 << 31;
/// Steps of a turn of repair, at least; more where there are more than four times as many items.
const STEPS_MIN: u64 = 20_000;
/// By how much what was gained counts less with each turn.
const FADING: f64 = 0.7;
/// One step in `FAIR` is for the one that had no turn for longest.
const FAIR: u64 = 4;

/// Backwards, forwards, by size, by duration and by area.
const WAYS: [(Order, Fit); 5] = [
    (Order::End, Fit::Best),
    (Order::Begin, Fit::Best),
    (Order::Size, Fit::First),
    (Order::Duration, Fit::First),
    (Order::Area, Fit::First),
];

/// An order that changes.
struct Way {
    fit: Fit,
    /// The order that it begins with.
    first: Order,
    /// Items are placed by these, ascending; none before its first turn.
    keys: Vec<f32>,
}

impl Way {
    /// The items in the way's order; `None` if it was stopped.
    fn order(
        &mut self,
        problem: &Problem,
        seed: u64,
        random: &mut Random,
        asking: &mut Asking<'_>,
    ) -> Option<Vec<u32>> {
        if !self.keys.is_empty() {
            // Keys are not negative: their bits are in order as they are.
            return sorted(self.keys.len(), |item| self.keys[item].to_bits(), asking);
        }
        let order = self.first.of(problem, asking)?;
        self.keys = alloc::vec![0.0; order.len()];
        order.iter().enumerate().for_each(|(rank, &item)| self.keys[item as usize] = rank as f32);
        if seed == 0 {
            return Some(order);
        }
        // Others begin with the same order.
        self.keys.iter_mut().for_each(|key| *key *= 0.75 + 0.5 * random.next() as f32);
        sorted(self.keys.len(), |item| self.keys[item].to_bits(), asking)
    }
}

/// What turns have brought: of repair, then of each way.
#[derive(Default)]
struct Records {
    all: Vec<Record>,
    /// Turns, and their steps.
    turn: usize,
    spent: u64,
    /// Steps of turns that went to the one that waited longest, and whether the present one did.
    spent_fairly: u64,
    is_fair: bool,
}

/// What one's turns have brought.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Units of height for a step, those of long ago counting less.
    gain: f64,
    /// The lowest height that was reached.
    height: u64,
    /// The number of its last turn.
    turn: usize,
}

impl Planner<'_> {
    /// Places again and repairs until the plan is proven or the caller stops it.
    pub fn again(&mut self, shape: &Intervals) {
        if self.done() {
            return;
        }
        let mut ways = WAYS.map(|(first, fit)| Way { fit, first, keys: Vec::new() });
        let mut repair = Repair::new(shape, &self.problem.sizes, self.random(repair::SEED));
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

    /// One placement in the way's order; then what sticks out comes earlier in it. The height that was reached.
    fn round(&mut self, shape: &Intervals, way: &mut Way, random: &mut Random, steps: &mut u64) -> u64 {
        let problem = self.problem;
        let sizes = &problem.sizes;
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
    /// Whose turn it is: now and then the one that waited longest; else the one that gains most, of those that gain
    /// nothing the one that came lowest.
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
