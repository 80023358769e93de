//! Plans on top of a low stack: the fullest section is stacked as low as possible, and the other items fill the gaps.
//!
//! ```text
//!   groups   │ part of the stack │ another part │ … │ the part on top │ another item │ another item │ …
//!                    └───────────── swapped ──────────────────────────────────┘
//!            placed one by one, each item in the lowest gap; kept if the height is not higher
//! ```
//!
//! With mixed alignments, only one order in thousands wastes little, and the search over pairs does not find it. The
//! stack has such an order, and most swaps do not make it higher. A plan costs O(n²), like a greedy one.

use super::asking::Asking;
use super::greedy::{self, Fit};
use super::plan::Planner;
use super::random::Random;
use super::shape::Shape;
use super::sizes::Sizes;
use super::stacking;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Number of times that the groups are shuffled.
const ROUNDS: u32 = 3;
/// Swaps without a lower height after which the groups are shuffled.
const SWAPS: u32 = 60;
/// Largest number of sets of small items of the stack.
const SETS: usize = 1 << 11;
const WORK: u64 = 2_000_000;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

impl Planner<'_> {
    /// Searches for lower plans on a stack of these items, which all clash.
    pub fn pile<S: Shape>(&mut self, shape: &S, members: &[u32]) {
        let problem = self.problem;
        let mut parts = low_stack(&problem.sizes, members);
        let Some(top) = parts.pop() else { return };
        let mut others: Vec<u32> = (0..problem.len() as u32).filter(|item| !members.contains(item)).collect();
        let mut random = self.random(SEED);
        for round in 0..ROUNDS {
            shuffle(&mut parts, &mut random);
            shuffle(&mut others, &mut random);
            // In the first round the others are sorted by size, in the second by area, then not.
            match round % 3 {
                0 => others.sort_by_key(|&item| Reverse(problem.sizes.size[item as usize])),
                1 => others.sort_by_key(|&item| Reverse(problem.area(item as usize))),
                _ => {}
            }
            let alone = others.iter().map(|&item| vec![item]);
            let groups = parts.iter().chain([&top]).cloned().chain(alone).collect();
            self.swap(shape, groups, if round % 2 == 0 { Fit::First } else { Fit::Best }, &mut random);
        }
    }

    /// Swaps two groups at a time, while that makes the plan lower.
    fn swap<S: Shape>(&mut self, shape: &S, mut groups: Vec<Vec<u32>>, fit: Fit, random: &mut Random) {
        let mut whole = |_| true;
        let (mut lowest, mut left) = (u64::MAX - 1, SWAPS);
        let mut swapped = (0, 0);
        while left > 0 && !self.done() {
            left -= 1;
            groups.swap(swapped.0, swapped.1);
            let order: Vec<u32> = groups.iter().flatten().copied().collect();
            let sizes = &self.problem.sizes;
            match greedy::place(shape, sizes, &order, fit, lowest + 1, &mut Asking::new(&mut whole)) {
                Some((offsets, height)) => {
                    if height < lowest {
                        (lowest, left) = (height, SWAPS);
                    }
                    self.offer(offsets, 1);
                }
                None => {
                    groups.swap(swapped.0, swapped.1);
                    self.tick(1);
                }
            }
            swapped = (below(groups.len(), random), below(groups.len(), random));
        }
    }
}

/// Returns the parts of the lower of two stacks.
fn low_stack(sizes: &Sizes, members: &[u32]) -> Vec<Vec<u32>> {
    let whole = stacking::lowest(sizes, members.to_vec(), u64::MAX, 0, SETS, &mut WORK.clone());
    let by_alignments = stacking::by_alignments(sizes, members, SETS, &mut WORK.clone());
    let height = |parts: &Vec<Vec<u32>>| stacking::height(sizes, parts.iter().flatten().copied());
    let stacks = whole.map(|stacking| stacking.parts).into_iter().chain([by_alignments]);
    stacks.min_by_key(height).unwrap_or_default()
}

fn below(end: usize, random: &mut Random) -> usize {
    (random.next() * end as f64) as usize
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for end in (1..items.len()).rev() {
        items.swap(end, below(end + 1, random));
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::{Item, Problem, plan, verify};
    use super::below;
    use alloc::vec::Vec;

    #[test]
    fn items_of_mixed_alignments_that_are_all_alive_are_mostly_proven_at_once() {
        let mut random = Random(9);
        let mut proven = 0;
        for _ in 0..40 {
            let mut below = |end| below(end, &mut random) as u64;
            let mut item = |_| {
                let (lower, upper) = (below(3), 3 + below(2));
                Item::new(1 + below(1_000), lower, upper).aligned(1 << (2 * below(3)))
            };
            let items: Vec<Item> = (0..24).map(&mut item).collect();
            let problem = Problem::new(&items).unwrap();
            let mut steps = 0;
            let plan = plan(&problem, |progress| {
                steps += progress.steps;
                steps < 1_000
            });
            verify(&items, &plan.offsets, plan.height).unwrap();
            proven += u32::from(plan.is_proven());
        }
        assert!(proven >= 25, "{proven}");
    }
}
