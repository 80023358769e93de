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
        let mut parts = low_stack(problem.sizes(), members);
        let Some(top) = parts.pop() else { return };
        let mut others: Vec<u32> = (0..problem.len() as u32).filter(|item| !members.contains(item)).collect();
        let mut random = self.random(SEED);
        for round in 0..ROUNDS {
            shuffle(&mut parts, &mut random);
            shuffle(&mut others, &mut random);
            // In the first round the others are sorted by size, in the second by area, then not.
            match round % 3 {
                0 => others.sort_by_key(|&item| Reverse(problem.sizes().size[item as usize])),
                1 => others.sort_by_key(|&item| Reverse(problem.area(item as usize))),
                _ => {}
            }
            let alone = others.iter().map(|&item| vec![item]);
            let groups = parts.iter().chain([&top]).cloned().chain(alone).collect();
            self.swap(shape, groups, if round % 2 == 0 { Fit::First } else { Fit::Best }, &mut random);
        }
    }

    /// Swaps two groups at a time, and keeps the swap if the plan does not become higher. Ends after [`SWAPS`] swaps
    /// without a lower plan.
    fn swap<S: Shape>(&mut self, shape: &S, mut groups: Vec<Vec<u32>>, fit: Fit, random: &mut Random) {
        let mut whole = |_| true;
        let (mut lowest, mut left) = (u64::MAX - 1, SWAPS);
        let mut swapped = (0, 0);
        while left > 0 && !self.done() {
            left -= 1;
            groups.swap(swapped.0, swapped.1);
            let order: Vec<u32> = groups.iter().flatten().copied().collect();
            let sizes = self.problem.sizes();
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

/// Returns the parts of a low stack: the lower one of a stack of all items at once and a stack by alignments.
fn low_stack(sizes: &Sizes, members: &[u32]) -> Vec<Vec<u32>> {
    let whole = stacking::lowest(sizes, members.to_vec(), u64::MAX, 0, SETS, &mut WORK.clone());
    let by_alignments = by_alignments(sizes, members, SETS, &mut WORK.clone());
    let height = |parts: &Vec<Vec<u32>>| sizes.stacked(parts.iter().flatten().copied());
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

/// Returns a low stack of items that all clash, in parts as in [`stacking::Stacking`]. For each alignment in turn, the
/// stacks of the previous alignment are treated as items, so that few kinds remain.
fn by_alignments(sizes: &Sizes, members: &[u32], sets_max: usize, work: &mut u64) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = members.iter().map(|&item| vec![item]).collect();
    let mut caps: Vec<u64> = members.iter().map(|&item| sizes.alignment[item as usize]).collect();
    caps.sort_unstable();
    caps.dedup();
    for (place, &cap) in caps.iter().enumerate().skip(1) {
        let grown = grown(sizes, &groups, caps[place - 1]);
        let Some(mut stacking) = stacking::lowest(&grown, (0..groups.len() as u32).collect(), cap, 0, sets_max, work)
        else {
            break;
        };
        // The items of the highest part may still move.
        let top = if place + 1 < caps.len() { stacking.parts.pop() } else { None };
        let parts = stacking.parts.into_iter().chain(top.into_iter().flatten().map(|group| vec![group]));
        let joined =
            |part: Vec<u32>| part.into_iter().flat_map(|group| groups[group as usize].iter().copied()).collect();
        groups = parts.map(joined).collect();
    }
    groups
}

/// Returns each group as one item. A group of several items starts and ends at multiples of `cap`.
fn grown(sizes: &Sizes, groups: &[Vec<u32>], cap: u64) -> Sizes {
    let size = |group: &Vec<u32>| match group[..] {
        [item] => sizes.size[item as usize],
        _ => sizes.stacked(group.iter().copied()).next_multiple_of(cap),
    };
    let alignment = |group: &Vec<u32>| match group[..] {
        [item] => sizes.alignment[item as usize],
        _ => group.iter().map(|&item| sizes.alignment[item as usize]).fold(cap, u64::max),
    };
    Sizes { size: groups.iter().map(size).collect(), alignment: groups.iter().map(alignment).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::{Item, Problem, plan, verify};
    use super::{Sizes, below, by_alignments};
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

    #[test]
    fn stacks_by_alignments_have_each_item_once() {
        let mut random = Random(7);
        for round in 0..500 {
            let mut below = |end| below(end, &mut random) as u64;
            let (count, most) = (1 + below(7), [6, 30, 1_000][round % 3]);
            let sizes = Sizes {
                size: (0..count).map(|_| 1 + below(most)).collect(),
                alignment: (0..count).map(|_| 1 << below(6)).collect(),
            };
            let all: Vec<u32> = (0..count as u32).collect();
            let groups = by_alignments(&sizes, &all, 1 << 7, &mut 1_000_000);
            let mut items: Vec<u32> = groups.into_iter().flatten().collect();
            items.sort_unstable();
            assert_eq!(items, all, "round {round}");
        }
    }
}
