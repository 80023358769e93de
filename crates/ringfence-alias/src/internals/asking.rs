//! Calls the closure at even distances of work: placing one item may visit a hundred others or a hundred thousand.
//!
//! ```text
//!   visits  ├──── a million ────┼──── a million ────┼──
//!                               ▲ called            ▲ called: some milliseconds apart, for any lifetimes
//! ```

/// Items visited per step, which takes about a microsecond.
const LOOKS_A_STEP: u64 = 1 << 10;
/// Items visited between two calls of the closure.
const LOOKS_A_QUESTION: u64 = 1 << 20;

/// Counts visited items, and calls the closure.
pub struct Asking<'a> {
    go_on: &'a mut dyn FnMut(u64) -> bool,
    looks: u64,
}

impl<'a> Asking<'a> {
    pub fn new(go_on: &'a mut dyn FnMut(u64) -> bool) -> Self {
        Self { go_on, looks: 0 }
    }

    /// Adds `count` visited items, and calls the closure once per `LOOKS_A_QUESTION` of them. Returns `false` if the
    /// search must stop. O(1), plus the closure.
    #[inline]
    pub fn looked_at(&mut self, count: u64) -> bool {
        self.looks += count;
        if self.looks < LOOKS_A_QUESTION {
            return true;
        }
        let looks = core::mem::take(&mut self.looks);
        self.ask(looks / LOOKS_A_STEP)
    }

    /// Calls the closure at once, after `steps` steps. Returns `false` if the search must stop.
    pub fn ask(&mut self, steps: u64) -> bool {
        (self.go_on)(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::super::greedy;
    use super::super::greedy::Fit;
    use super::super::random::Random;
    use super::super::repair::Repair;
    use super::super::shape::Intervals;
    use super::Asking;
    use crate::Item;
    use crate::problem::{Problem, Relation};
    use alloc::vec::Vec;

    /// Returns items that are all alive at once, so that placing them takes millions of visits.
    fn crowd() -> (Problem, Vec<u32>) {
        let items: Vec<Item> = (0..4_000).map(|item| Item::new(1 + item, 0, 1)).collect();
        (Problem::new(&items).unwrap(), (0..4_000).collect())
    }

    fn shape(problem: &Problem) -> &Intervals {
        let Relation::Intervals(shape) = &problem.relation else { panic!("one queue gives intervals") };
        shape
    }

    #[test]
    fn placing_a_crowd_stops_in_the_middle_when_the_closure_says_no() {
        let (problem, order) = crowd();
        let (shape, sizes) = (shape(&problem), &problem.sizes);
        let no = &mut |_| false;
        assert_eq!(greedy::place(shape, sizes, &order, Fit::First, u64::MAX, &mut Asking::new(no)), None);
        assert!(!Repair::new(shape, sizes, Random(1)).complete(&[], &[], None, no));
    }

    #[test]
    fn the_steps_reported_are_those_of_the_looks() {
        let (problem, order) = crowd();
        let mut steps = 0;
        let mut count = |more| {
            steps += more;
            true
        };
        greedy::place(shape(&problem), &problem.sizes, &order, Fit::First, u64::MAX, &mut Asking::new(&mut count))
            .unwrap();
        // Each item visits all before it: eight million visits. Those after the last call are not reported.
        assert!((4_000 * 4_000 / 2 - (1 << 20)..4_000 * 4_000 / 2).contains(&(steps << 10)), "{steps}");
    }
}
