//! While there is no plan, as long as the closure says to go on: other orders, by chance, in turns with the planner of
//! one heap, and with the search for a heap without end.
//!
//! ```text
//!   capacity ┄┄┄┄┄┄┄┄┌─v─┐┄┄┄    an order whose items may end above the capacity; v does, by its excess
//!              ┌─a─┐ └───┘
//!              └───┘             v comes earlier the next time, and one or two others by chance;
//!                                kept if all together stick out by no more than before
//! ```
//!
//! How many items an order places says little of how near it is; by how much they stick out does. A round begins with
//! another order, has as many steps as the others had, and the next has twice as many. So what is found for one heap
//! without end is found where it just fits, too.

use super::HeapOffset;
use super::first::first_plan;
use super::greedy::{Candidate, first};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::search::{ORDERS, Search, next, plan_asked};
use crate::asking::Asking;
use crate::plan::Progress;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Steps of a turn: at first some hundredths of a second, in the end some seconds.
const STEPS_FIRST: u64 = 1 << 15;
const STEPS_MAX: u64 = 1 << 21;
/// Orders that gain nothing, after which a round ends.
const FRUITLESS_MAX: u32 = 1_000;

impl<G: FnMut(&Progress) -> bool> Search<'_, G> {
    /// Looks for a first plan in these rounds.
    pub fn insist(&mut self, rounds: Range<u64>) {
        let mut steps = STEPS_FIRST;
        for seed in rounds {
            if !self.lacks_plan() {
                return;
            }
            self.unasked = 0;
            if let Some(offsets) = first_plan(self.problem, seed, steps, &mut |steps| self.goes_on(steps)) {
                self.keep(Candidate::of(self.problem, offsets));
            }
            self.round(seed, steps);
            self.without_end(steps);
            steps = (2 * steps).min(STEPS_MAX);
        }
    }

    /// Where there is one heap: as if it had no end, until a plan fits, for so many steps.
    fn without_end(&mut self, mut steps: u64) {
        let capacity = self.problem.heaps[0].capacity;
        if self.problem.heaps.len() > 1 || capacity == u64::MAX || !self.lacks_plan() {
            return;
        }
        let mut problem = self.problem.clone();
        problem.heaps[0].capacity = u64::MAX;
        let mut go_on = |progress: &Progress| {
            steps = steps.saturating_sub(progress.steps);
            progress.height > capacity && self.goes_on(progress.steps) && steps > 0
        };
        let go_on: &mut dyn FnMut(&Progress) -> bool = &mut go_on;
        if let Ok(plan) = plan_asked(&problem, 0, go_on)
            && plan.height() <= capacity
        {
            self.keep(Candidate::of(self.problem, plan.offsets));
        }
    }

    fn lacks_plan(&self) -> bool {
        self.best.is_none() && !self.is_stopped && !self.is_impossible
    }

    /// Orders near one that `seed` chooses, for so many steps.
    fn round(&mut self, seed: u64, steps: u64) {
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d);
        (0..4).for_each(|_| _ = next(&mut random));
        let mut order = self.order(seed as usize % ORDERS);
        if seed >= ORDERS as u64 {
            scatter(&mut order, &mut random);
        }
        let (mut least, mut high): (u128, Vec<u32>) = (u128::MAX, Vec::new());
        let (mut fruitless, tries) = (0, (steps / self.steps()).max(1));
        for _ in 0..tries {
            if fruitless == FRUITLESS_MAX || !self.lacks_plan() {
                return;
            }
            let mut other = order.clone();
            if least < u128::MAX {
                bring_forward(&mut other, &high, &mut random);
            }
            let Some(placed) = self.place_over(&other) else { return };
            fruitless += 1;
            if placed.excess > least {
                continue;
            }
            if placed.excess < least {
                fruitless = 0;
            }
            (order, least, high) = (other, placed.excess, placed.high);
            if least == 0 {
                self.keep(Candidate::of(self.problem, placed.offsets));
            }
        }
    }

    /// Places by an order; `None` if it was stopped, or an item ends too high for 63 bits.
    fn place_over(&mut self, order: &[u32]) -> Option<Overfull> {
        let (problem, mut asked) = (self.problem, 0);
        let mut go_on = |steps| {
            asked += steps;
            self.goes_on(steps)
        };
        let placed = place_over(problem, order, &mut Asking::new(&mut go_on));
        self.end_order(asked);
        placed
    }
}

/// Neighbours, an eighth of all items apart at most, are exchanged.
fn scatter(order: &mut [u32], random: &mut u64) {
    let many = order.len();
    for place in 0..many {
        let to = place + next(random) as usize % (1 + many / 8);
        order.swap(place, to.min(many - 1));
    }
}

/// One item that ends too high comes earlier, and one or two of all.
fn bring_forward(order: &mut [u32], high: &[u32], random: &mut u64) {
    let mut blamed = Vec::with_capacity(3);
    blamed.extend(high.get(next(random) as usize % high.len().max(1)));
    for _ in 0..1 + next(random) % 2 {
        blamed.push(order[next(random) as usize % order.len()]);
    }
    for item in blamed {
        let place = order.iter().position(|&held| held == item).expect("it is in the order");
        let to = next(random) as usize % (place + 1);
        order[to..=place].rotate_right(1);
    }
}

/// Offsets of which some end above their heap's capacity.
struct Overfull {
    offsets: Vec<HeapOffset>,
    /// By how much they do, in sum, and which.
    excess: u128,
    high: Vec<u32>,
}

/// As [`place`](super::greedy::place), but what fits in no heap ends above the capacity of one, by as little as it can.
fn place_over(problem: &HeapProblem, order: &[u32], asking: &mut Asking<'_>) -> Option<Overfull> {
    let mut heaps = problem.with_pins();
    let nowhere = HeapOffset { heap: 0, offset: 0 };
    let offsets = problem.pinned.iter().map(|pin| pin.unwrap_or(nowhere)).collect();
    let mut placed = Overfull { offsets, excess: 0, high: Vec::new() };
    for (count, &item) in order.iter().enumerate() {
        let at = match first(problem, &mut heaps, item as usize) {
            Some(at) => at,
            None => {
                let (excess, Reverse(at)) = least_over(problem, &mut heaps, item as usize)?;
                placed.excess += u128::from(excess);
                placed.high.push(item);
                at
            }
        };
        heaps[at.heap].put(item, problem.flat[item as usize], at.offset);
        placed.offsets[item as usize] = at;
        if !asking.looked_at(count as u64 / 2) {
            return None;
        }
    }
    Some(placed)
}

/// Where the item ends above the capacity by least, and by how much.
fn least_over(problem: &HeapProblem, heaps: &mut [Occupied], item: usize) -> Option<(u64, Reverse<HeapOffset>)> {
    let flat = &problem.flat[item];
    let over = |heap: usize, occupied: &mut Occupied| {
        let offset = occupied.lowest_below(flat, i64::MAX as u64)?;
        let excess = (offset + flat.size).saturating_sub(problem.capacity(heap));
        Some((excess, Reverse(HeapOffset { heap, offset })))
    };
    let choices = problem.choices(item).iter().map(|choice| choice.heap as usize);
    choices.filter_map(|heap| over(heap, &mut heaps[heap])).min()
}
