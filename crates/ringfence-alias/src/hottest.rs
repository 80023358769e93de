//! The hottest first, for more items than the search takes: where time is fullest the search decides, and the others are
//! put around what it has decided.
//!
//! ```text
//!   load  ▁▂▃▂▁▂▅█▇▅▃▂▁▁▂▃▂▁        the height is decided here:
//!               └──┬──┘              some hundred items that touch the fullest sections, a problem by themselves
//!                  ▼
//!   the others one by one, each at the lowest gap: where less is alive there is room
//! ```
//!
//! Which sections are the fullest is found by bisection, O(n log n); the others cost what greedy placement does.

use super::item::Item;
use super::plan::{Planner, plan};
use super::problem::Problem;
use super::repair::Repair;
use super::shape::{Intervals, Shape};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Items that are decided on first, at most: few, then more.
const HOT_MAX: [usize; 3] = [256, 512, 1024];
/// Steps of a search, for each of its items.
const STEPS_AN_ITEM: u64 = 400;
/// Of more items than that, only those are placed anew that have to be.
const ALL_MAX: usize = 200_000;

impl Planner<'_> {
    /// Plans the fullest sections' items by themselves, then the others.
    pub fn hottest_first(&mut self, shape: &Intervals) {
        let loads = shape.loads(&self.problem.sizes.size);
        let mut repair: Option<Repair<'_, Intervals>> = None;
        for count_max in HOT_MAX {
            if self.done() {
                return;
            }
            let hot = hottest(shape, &loads, count_max);
            let Some(offsets) = self.plan_alone(shape, &hot) else { continue };
            let repair = repair.get_or_insert_with(|| Repair::new(shape, &self.problem.sizes));
            let height = chosen_height(&self.problem.sizes.size, &hot, &offsets);
            // Of very many most stay where they are.
            let keep = (self.problem.len() > ALL_MAX).then(|| (self.best.offsets.clone(), height));
            let keep = keep.as_ref().map(|(plan, height)| (plan.as_slice(), *height));
            if repair.complete(&hot, &offsets, keep, &mut |steps| self.tick(steps)) {
                self.offer(repair.offsets().to_vec(), 1);
            }
        }
    }

    /// The offsets of some items, as if there were no others; `None` if they are no lower than the best plan so far.
    fn plan_alone(&mut self, shape: &Intervals, chosen: &[u32]) -> Option<Vec<u64>> {
        let sizes = &self.problem.sizes;
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
        // Part of the items can be no lower than all of them.
        self.best.lower_bound = self.best.lower_bound.max(found.lower_bound).min(self.best.height);
        (found.height < self.best.height).then_some(found.offsets)
    }
}

fn chosen_height(sizes: &[u64], chosen: &[u32], offsets: &[u64]) -> u64 {
    chosen.iter().zip(offsets).map(|(&item, offset)| offset + sizes[item as usize]).max().unwrap_or(0)
}

/// At most so many items: those that touch the fullest sections.
fn hottest(shape: &Intervals, loads: &[u64], count_max: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..loads.len() as u32).collect();
    order.sort_unstable_by_key(|&section| Reverse(loads[section as usize]));
    let touching = |count: usize| -> Vec<u32> {
        // Of each section how many of the fullest lie before it.
        let mut before = alloc::vec![0_u32; loads.len() + 1];
        order[..count].iter().for_each(|&section| before[section as usize + 1] = 1);
        (1..before.len()).for_each(|at| before[at] += before[at - 1]);
        let touches = |item: &u32| {
            let hull = shape.hull(*item as usize);
            before[hull.last as usize] > before[hull.first as usize]
        };
        (0..shape.spans.len() as u32).filter(touches).collect()
    };
    let (mut few, mut many) = (0, order.len() + 1);
    while few + 1 < many {
        let middle = few.midpoint(many);
        if touching(middle).len() <= count_max { few = middle } else { many = middle }
    }
    touching(few)
}
