//! Continues the search while there is no plan: random orders, in turns with the planner of one heap and with a search
//! in a heap of unlimited capacity.
//!
//! ```text
//!   capacity ┄┄┄┄┄┄┄┄┌─v─┐┄┄┄    in an order, items may end above the capacity; v exceeds it
//!              ┌─a─┐ └───┘
//!              └───┘             in the next order v comes earlier, and so do one or two random items;
//!                                the order is kept if the sum of all excesses is not larger
//! ```
//!
//! The number of items that an order places does not show how near it is to a plan; the sum of the excesses does. Each
//! round starts with another order. The three methods get the same number of steps in a round, and twice as many in the
//! next. So a plan that is found for a heap of unlimited capacity is also found for a heap that just fits it.

use super::HeapOffset;
use super::first::first_plan;
use super::greedy::{Candidate, first};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::search::{ORDERS, Search, next, plan_asked};
use crate::asking::Asking;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use ringfence_alias::Progress;

/// Steps of a turn: some hundredths of a second at first, some seconds in the end.
const STEPS_FIRST: u64 = 1 << 15;
const STEPS_MAX: u64 = 1 << 21;
/// Orders without an improvement after which a round ends.
const FRUITLESS_MAX: u32 = 1_000;

impl<G: FnMut(&Progress) -> bool> Search<'_, G> {
    /// Searches for a first plan in these rounds.
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

    /// For a single heap: searches with unlimited capacity, for at most `steps` steps, until a plan fits the real
    /// capacity.
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

    /// Tries orders near the one that `seed` selects, for at most `steps` steps.
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

    /// Places the items by an order. Returns `None` if it was stopped, or if an item ends above 63 bits.
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

/// Exchanges items with neighbours at a distance of at most an eighth of all items.
fn scatter(order: &mut [u32], random: &mut u64) {
    let many = order.len();
    for place in 0..many {
        let to = place + next(random) as usize % (1 + many / 8);
        order.swap(place, to.min(many - 1));
    }
}

/// Moves one item with an excess, and one or two random items, to earlier positions.
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

/// Locations of items, some of which end above the capacity of their heap.
struct Overfull {
    offsets: Vec<HeapOffset>,
    /// Sum of the excesses, and the items with an excess.
    excess: u128,
    high: Vec<u32>,
}

/// As [`place`](super::greedy::place), but an item that fits no heap is placed where its excess over the capacity is
/// least.
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

/// Returns the smallest excess of the item over the capacity of a heap, and the location.
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
