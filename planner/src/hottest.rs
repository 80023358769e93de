//! For more items than the search handles: the search plans the items of the fullest sections, and the others are put
//! around them.
//!
//! ```text
//!   load  ▁▂▃▂▁▂▅█▇▅▃▂▁▁▂▃▂▁        the height is decided here:
//!               └──┬──┘              some hundred items in the fullest sections, planned as a problem of their own
//!                  ▼
//!   the others one by one, each in the lowest gap: where less is alive there is room
//! ```
//!
//! For very many short-lived items, local repair does the rest. It mostly fails at one place in time: all items alive
//! there are then planned by the search as well, and the others are fitted around them.
//!
//! A tree of minima finds the items in the fullest sections in O(n log n). The others cost as much as greedy placement.

use super::asking::Asking;
use super::order::sorted;
use super::plan::{Planner, is_short_lived, plan};
use super::repair::{self, ALL_MAX, Mending, Repair};
use super::sections::Span;
use super::shape::{Intervals, Shape};
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::Item;
use ringfence_alias::Problem;

/// Largest number of items that are planned first: few, then more.
const HOT_MAX: [usize; 3] = [256, 512, 1024];
/// Steps of the search per item.
const STEPS_AN_ITEM: u64 = 400;
/// A turn is a gain if it closes at least 1 / `LEAST_GAIN` of the gap.
const LEAST_GAIN: u64 = 20;
/// Turns without a gain after which repair ends. Each uses the search for more items than the one before.
const IN_VAIN_MAX: u32 = 3;
/// Share of the gap that is aimed at after the search has planned around the highest item.
const SPOT_SHARE: f64 = 0.3;
/// Steps of a turn of repair for very many items. It is repeated while it gains.
const STEPS_A_TURN: u64 = 200_000;

impl Planner<'_> {
    /// Plans the items of the fullest sections on their own, then the others.
    pub fn hottest_first(&mut self, shape: &Intervals) {
        if self.done() {
            return;
        }
        let sizes = &self.problem.sizes().size;
        let mut go_on = |steps| self.tick(steps);
        let Some(heat) = Heat::new(shape, sizes, &mut Asking::new(&mut go_on)) else { return };
        let mut repair: Option<Repair<'_, Intervals>> = None;
        for count_max in HOT_MAX {
            if self.done() {
                return;
            }
            let hot = heat.hottest(count_max);
            // The result of a search that was cut short is not used: with more time the search would give another
            // result.
            let Some(offsets) = self.plan_alone(shape, &hot).filter(|_| !self.done()) else { continue };
            let repair =
                repair.get_or_insert_with(|| Repair::new(shape, self.problem.sizes(), self.random(repair::SEED)));
            let height = chosen_height(&self.problem.sizes().size, &hot, &offsets);
            // With very many items, most stay where they are.
            let keep = (self.problem.len() > ALL_MAX).then(|| (self.best.offsets.clone(), height));
            let keep = keep.as_ref().map(|(plan, height)| (plan.as_slice(), *height));
            if repair.complete(&hot, &offsets, keep, &mut |steps| self.tick(steps)) {
                self.offer(repair.offsets().to_vec(), 1);
            }
        }
        if self.problem.len() > ALL_MAX && is_short_lived(shape) {
            let repair = repair.unwrap_or_else(|| Repair::new(shape, self.problem.sizes(), self.random(repair::SEED)));
            self.mend_while_it_gains(shape, repair);
        }
    }

    /// Repairs while it gains. For very many items the greedy orders take longer than the repair that gains most. If
    /// repair gains too little, it mostly fails at one place in time, and the search plans that place.
    fn mend_while_it_gains(&mut self, shape: &Intervals, mut repair: Repair<'_, Intervals>) {
        let mut mending = Mending::default();
        let mut in_vain = 0;
        while !self.done() && in_vain < IN_VAIN_MAX {
            let gap = self.best.gap();
            self.mend(&mut repair, &mut mending, STEPS_A_TURN, &mut 0);
            let count_max = HOT_MAX[in_vain as usize % HOT_MAX.len()];
            if gap - self.best.gap() < gap / LEAST_GAIN && self.decide_on_the_highest(shape, &mut repair, count_max) {
                mending = Mending::default();
            }
            let is_gain = gap - self.best.gap() >= gap / LEAST_GAIN;
            in_vain = if is_gain { 0 } else { in_vain + 1 };
        }
    }

    /// Plans the items around the highest item on their own, and fits the others around them. Returns `true` if the
    /// plan became lower.
    fn decide_on_the_highest(
        &mut self,
        shape: &Intervals,
        repair: &mut Repair<'_, Intervals>,
        count_max: usize,
    ) -> bool {
        let before = self.best.height;
        let chosen = self.around_the_highest(shape, count_max);
        let Some(offsets) = self.plan_alone(shape, &chosen).filter(|_| !self.done()) else { return false };
        let plan = self.best.offsets.clone();
        if repair.complete(&chosen, &offsets, Some((&plan, before)), &mut |steps| self.tick(steps)) {
            let target = self.target(SPOT_SHARE);
            if repair.reach(target, &mut |steps| self.tick(steps)) {
                self.offer(repair.offsets().to_vec(), 1);
            }
        }
        self.best.height < before
    }

    /// Returns at most `count_max` items: all that are alive near the middle of the item with the highest end. O(n log
    /// n).
    fn around_the_highest(&self, shape: &Intervals, count_max: usize) -> Vec<u32> {
        let sizes = &self.problem.sizes().size;
        let end = |&item: &usize| self.best.offsets[item] + sizes[item];
        let highest = (0..sizes.len()).max_by_key(end).map_or(Span { first: 0, last: 1 }, |item| shape.spans[item]);
        let (middle, mut width, mut chosen) = (highest.first.midpoint(highest.last), 1, Vec::new());
        loop {
            let window = Span { first: middle.saturating_sub(width), last: middle.saturating_add(width) };
            let near = (0..sizes.len() as u32).filter(|&item| shape.spans[item as usize].overlaps(window));
            let near: Vec<u32> = near.take(count_max + 1).collect();
            if near.len() > count_max || near.len() == sizes.len() {
                return chosen;
            }
            (chosen, width) = (near, 2 * width);
        }
    }

    /// Returns the offsets of some items planned on their own. Returns `None` if this plan is not lower than the best
    /// plan.
    fn plan_alone(&mut self, shape: &Intervals, chosen: &[u32]) -> Option<Vec<u64>> {
        let sizes = self.problem.sizes();
        let item = |&item: &u32| {
            let hull = shape.hull(item as usize);
            let item = item as usize;
            Item::new(sizes.size[item], u64::from(hull.first), u64::from(hull.last)).aligned(sizes.alignment[item])
        };
        let items: Vec<Item> = chosen.iter().map(item).collect();
        let problem = Problem::new(&items).ok()?;
        let mut steps = 0;
        let found = plan(&problem, |progress| {
            steps += progress.steps;
            steps < STEPS_AN_ITEM * chosen.len() as u64 && self.tick(progress.steps)
        });
        // A bound of some of the items is a bound of all of them.
        self.best.lower_bound = self.best.lower_bound.max(found.lower_bound).min(self.best.height);
        (found.height < self.best.height).then_some(found.offsets)
    }
}

fn chosen_height(sizes: &[u64], chosen: &[u32], offsets: &[u64]) -> u64 {
    chosen.iter().zip(offsets).map(|(&item, offset)| offset + sizes[item as usize]).max().unwrap_or(0)
}

/// The fullest section of each item, as its position in the order of load (0 is the fullest).
///
/// ```text
///   sections by load   7 2 0 5 …       a tree over time: the smallest position under each node
/// ```
struct Heat {
    places: Vec<u32>,
    /// The same positions, ascending.
    sorted: Vec<u32>,
}

impl Heat {
    /// Finds the positions. Returns `None` if the caller stopped planning. O(n log n).
    fn new(shape: &Intervals, sizes: &[u64], asking: &mut Asking<'_>) -> Option<Self> {
        let loads = shape.loads(sizes);
        let order = sorted(loads.len(), |section| Reverse(loads[section]), asking)?;
        let leaves = loads.len();
        let mut tree = alloc::vec![u32::MAX; 2 * leaves];
        order.iter().enumerate().for_each(|(place, &section)| tree[leaves + section as usize] = place as u32);
        (1..leaves).rev().for_each(|node| tree[node] = tree[2 * node].min(tree[2 * node + 1]));
        let place = |item: usize| {
            let hull = shape.hull(item);
            let (mut low, mut high, mut least) = (leaves + hull.first as usize, leaves + hull.last as usize, u32::MAX);
            while low < high {
                if low & 1 == 1 {
                    least = least.min(tree[low]);
                    low += 1;
                }
                if high & 1 == 1 {
                    high -= 1;
                    least = least.min(tree[high]);
                }
                low /= 2;
                high /= 2;
            }
            least
        };
        let places: Vec<u32> = (0..sizes.len()).map(place).collect();
        let order = sorted(places.len(), |item| places[item], asking)?;
        let sorted = order.into_iter().map(|item| places[item as usize]).collect();
        Some(Self { places, sorted })
    }

    /// Returns at most `count_max` items: those in the fullest sections.
    fn hottest(&self, count_max: usize) -> Vec<u32> {
        let limit = self.sorted.get(count_max).copied().unwrap_or(u32::MAX);
        (0..self.places.len() as u32).filter(|&item| self.places[item as usize] < limit).collect()
    }
}
