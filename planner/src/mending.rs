//! Local repair of the planner's plan, for more items than the search handles.

use super::plan::Planner;
use super::repair::{self, Improving, Mending, Repair};
use super::shape::Shape;
use alloc::vec::Vec;
use ringfence_alias::{AliasPlan, Problem};

impl Planner<'_> {
    /// Repairs until the plan is proven or the caller stops it.
    pub fn repair<S: Shape>(&mut self, shape: &S) {
        if self.done() {
            return;
        }
        let mut repair = Repair::new(shape, self.problem.sizes(), self.random(repair::SEED));
        self.mend(&mut repair, &mut Mending::default(), u64::MAX, &mut 0);
    }

    /// Returns a target below the height of the best plan, by this share of the gap or less.
    pub fn target(&self, share: f64) -> u64 {
        repair::target(self.problem.sizes(), &self.best, share)
    }

    /// Repairs until the plan is proven, the caller stops it or `most` steps are taken. Adds the steps to `steps`.
    pub fn mend<S: Shape>(&mut self, repair: &mut Repair<'_, S>, mending: &mut Mending, most: u64, steps: &mut u64) {
        repair::mend(self, repair, mending, most, steps);
    }
}

impl Improving for Planner<'_> {
    fn problem(&self) -> &Problem {
        self.problem
    }

    fn best(&self) -> &AliasPlan {
        &self.best
    }

    fn is_done(&self) -> bool {
        self.done()
    }

    fn tick(&mut self, steps: u64) -> bool {
        Planner::tick(self, steps)
    }

    fn offer(&mut self, offsets: Vec<u64>, steps: u64) {
        Planner::offer(self, offsets, steps);
    }
}
