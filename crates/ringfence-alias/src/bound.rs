//! Lower bounds of all plans: the load, and the waste that alignment forces.
//!
//! ```text
//!   one section        │ a ··│ b ··│ c      each is aligned: two gaps, unless other items fit into them
//!   load               a + b + c
//!   bound              height of the lowest stack of the section
//! ```
//!
//! There are two bounds of the waste:
//!
//! - *One alignment*: only items with at least this alignment count, each with its size rounded up to it. The largest
//!   rounding is subtracted, because the highest item needs no padding. This is done for each alignment that occurs;
//!   for the smallest, all items count.
//! - *All items of a section*: the lowest stack, if it could raise the bound. At first only for sections with at most
//!   six items below the largest alignment. For few items, if the first bound was not reached, for every section, and
//!   also with the largest alignments replaced by smaller ones, which makes more items equal.

use super::shape::Shape;
use super::sizes::Sizes;
use super::stacking;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Largest number of small items of a section that is examined.
const SMALL_MAX: usize = 6;
/// Sets of small items in the refined bound, which is for few items.
const REFINED_SETS: usize = 1 << 12;
const REFINED_WORK_MAX: u64 = 4_000_000;
/// Steps of the first bound: a constant for few items, and a number per item for many, so that it is O(n).
const WORK_MIN: u64 = 1 << 24;
const WORK_AN_ITEM: u64 = 256;
/// Members that are gathered per item, and at least.
const GATHERED_AN_ITEM: u64 = 8;
const GATHERED_MIN: u64 = 1 << 18;
/// Largest waste of a section: the sum with a load does not overflow.
const REACH_MAX: u64 = 1 << 62;

/// Limits of the work for a bound.
struct Effort {
    /// Sections with more small items are skipped.
    small_max: usize,
    /// Largest number of sets of small items in one section.
    sets_max: usize,
    /// Caps of the alignment, tried in turn.
    caps: Vec<u64>,
    /// Remaining steps of the dynamic programming.
    work: u64,
    /// Remaining members that may be gathered.
    gathered: u64,
}

impl Effort {
    fn first(count: usize) -> Self {
        let count = count as u64;
        let work = WORK_MIN.max(WORK_AN_ITEM * count);
        let gathered = GATHERED_MIN.max(GATHERED_AN_ITEM * count);
        Self { small_max: SMALL_MAX, sets_max: 1 << SMALL_MAX, caps: vec![u64::MAX], work, gathered }
    }

    fn refined(sizes: &Sizes) -> Self {
        let caps = alignments(sizes).skip(1).collect();
        Self { caps, small_max: usize::MAX, sets_max: REFINED_SETS, work: REFINED_WORK_MAX, gathered: u64::MAX }
    }
}

/// Returns the load and the bound. O(entries of the cover), plus the dynamic programming.
pub(super) fn bounds<S: Shape>(shape: &S, sizes: &Sizes) -> (u64, u64) {
    let loads = shape.loads(&sizes.size);
    let load = loads.iter().copied().max().unwrap_or(0);
    let least = sizes.alignment.iter().copied().min().unwrap_or(1);
    let most = sizes.alignment.iter().copied().max().unwrap_or(1);
    let bound = alignments(sizes).map(|alignment| padded(shape, sizes, alignment)).fold(load, u64::max);
    if least != most {
        return (load, mixed(shape, sizes, &loads, bound, &mut Effort::first(sizes.len())).0);
    }
    (load, bound)
}

/// Returns the alignments that occur, ascending. They are powers of two, so their union has one bit for each.
fn alignments(sizes: &Sizes) -> impl DoubleEndedIterator<Item = u64> + use<> {
    let union = sizes.alignment.iter().fold(0, |union, alignment| union | alignment);
    (0..u64::BITS).map(|bit| 1 << bit).filter(move |alignment| union & alignment != 0)
}

fn padding(size: u64, alignment: u64) -> u64 {
    size.wrapping_neg() & (alignment - 1)
}

/// Returns the bound of the items with at least the alignment `least`, without the others; 0 if that is no more than
/// their load.
fn padded<S: Shape>(shape: &S, sizes: &Sizes, least: u64) -> u64 {
    let padding = |(size, alignment)| if alignment < least { 0 } else { padding(size, least) };
    // Only one item of a section is the highest, and only the highest needs no padding above it.
    let sticks_out = sizes.pairs().map(padding).max().unwrap_or(0);
    if sticks_out == 0 {
        return 0;
    }
    let grown = |(size, alignment)| if alignment < least { 0 } else { size + padding((size, alignment)) };
    let grown: Vec<u64> = sizes.pairs().map(grown).collect();
    shape.loads(&grown).into_iter().max().unwrap_or(0) - sticks_out
}

/// Returns a higher bound for few items of mixed alignments, if the first bound was not reached, and the items of the
/// section that gives it. Takes milliseconds at most.
pub(super) fn refined<S: Shape>(shape: &S, sizes: &Sizes, bound: u64) -> (u64, Vec<u32>) {
    mixed(shape, sizes, &shape.loads(&sizes.size), bound, &mut Effort::refined(sizes))
}

/// Raises the bound by the sections with mixed alignments, the fullest first, within the limits. Also returns the items
/// of the section that raised it last, or of the fullest.
fn mixed<S: Shape>(shape: &S, sizes: &Sizes, loads: &[u64], mut bound: u64, effort: &mut Effort) -> (u64, Vec<u32>) {
    let mut fullest = Vec::new();
    let reach = reach(shape, sizes);
    // A section cannot waste more than the sum of its paddings, so few sections are worth examining.
    let promises = |section: usize, bound: u64| loads[section] + reach[section] > bound;
    let mut promising: Vec<usize> = (0..loads.len()).filter(|&section| promises(section, bound)).collect();
    if promising.is_empty() {
        return (bound, fullest);
    }
    let counts = counts(shape, sizes);
    promising.retain(|&section| counts[section].small <= effort.small_max);
    promising.sort_by_key(|&section| Reverse(loads[section]));
    let mut left = promising.into_iter().peekable();
    loop {
        let mut batch = Vec::new();
        let mut members = 0;
        while members <= sizes.len()
            && let Some(section) = left.next_if(|_| effort.gathered > 0)
        {
            if promises(section, bound) {
                members += counts[section].all;
                effort.gathered = effort.gathered.saturating_sub(counts[section].all as u64);
                batch.push(section);
            }
        }
        if batch.is_empty() {
            return (bound, fullest);
        }
        for (section, members) in batch.iter().zip(gather(shape, sizes, &batch)) {
            if !promises(*section, bound) {
                continue;
            }
            let before = bound;
            for &cap in &effort.caps {
                let enough = bound.saturating_sub(loads[*section]);
                let found = stacking::lowest(sizes, members.clone(), cap, enough, effort.sets_max, &mut effort.work);
                let Some(stacking) = found else { return (bound, fullest) };
                bound = bound.max(loads[*section] + stacking.waste);
            }
            if bound > before || fullest.is_empty() {
                fullest = members;
            }
        }
    }
}

/// Returns for each section the sum of its paddings to the largest alignment.
fn reach<S: Shape>(shape: &S, sizes: &Sizes) -> Vec<u64> {
    let most = sizes.alignment.iter().copied().max().unwrap_or(1);
    if most.checked_mul(sizes.len() as u64).is_none_or(|sum| sum > REACH_MAX) {
        return vec![REACH_MAX; shape.section_count()];
    }
    let pads: Vec<u64> = sizes.size.iter().map(|&size| padding(size, most)).collect();
    shape.loads(&pads)
}

/// Number of items of a section, and of those below its largest alignment.
#[derive(Clone, Copy, Default)]
struct Count {
    all: usize,
    small: usize,
}

/// Counts the items of all sections. O(entries of the cover) per alignment; there are few alignments.
fn counts<S: Shape>(shape: &S, sizes: &Sizes) -> Vec<Count> {
    let many = |counted: &dyn Fn(u64) -> bool| {
        let ones: Vec<u64> = sizes.alignment.iter().map(|&alignment| counted(alignment).into()).collect();
        shape.loads(&ones)
    };
    let all = many(&|_| true);
    let mut counts: Vec<Count> = all.iter().map(|&all| Count { all: all as usize, small: all as usize }).collect();
    for most in alignments(sizes).rev() {
        for (count, large) in counts.iter_mut().zip(many(&|alignment| alignment == most)) {
            // The first alignment with items in the section is its largest.
            if count.small == count.all {
                count.small -= large as usize;
            }
        }
    }
    counts
}

/// Returns the items of some sections, ascending. O(n log n + gathered items) on one queue.
fn gather<S: Shape>(shape: &S, sizes: &Sizes, sections: &[usize]) -> Vec<Vec<u32>> {
    let mut places: Vec<usize> = (0..sections.len()).collect();
    places.sort_unstable_by_key(|&place| sections[place]);
    let mut members = vec![Vec::new(); sections.len()];
    for item in 0..sizes.len() {
        let hull = shape.hull(item).range();
        let first = places.partition_point(|&place| sections[place] < hull.start);
        let within = places[first..].iter().take_while(|&&place| sections[place] < hull.end);
        for &place in within.filter(|&&place| shape.is_in(item, sections[place])) {
            members[place].push(item as u32);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::super::item::Item;
    use super::super::problem::{Problem, Relation};
    use super::super::random::Random;
    use super::super::shape::{Intervals, Shape};
    use super::super::stacking;
    use super::{Effort, SMALL_MAX, mixed, refined};
    use alloc::vec::Vec;

    fn shape(problem: &Problem) -> &Intervals {
        let Relation::Intervals(shape) = &problem.relation else { panic!("one queue gives intervals") };
        shape
    }

    fn generated(random: &mut Random, count: u64, length: u64, alignments: [u64; 3]) -> Vec<Item> {
        let mut below = |end: u64| ((random.next() * end as f64) as u64).min(end - 1);
        let mut item = || {
            let lower = below(count);
            let item = Item::new(1 + below(4096), lower, lower + 1 + below(length));
            item.aligned(alignments[below(3) as usize])
        };
        (0..count).map(|_| item()).collect()
    }

    /// Returns the bound from examining every section.
    fn of_every_section(problem: &Problem) -> u64 {
        let (shape, sizes) = (shape(problem), &problem.sizes);
        let loads = shape.loads(&sizes.size);
        let most = |members: &[u32]| members.iter().map(|&item| sizes.alignment[item as usize]).max().unwrap_or(1);
        let waste = |section: usize| {
            let members: Vec<u32> =
                (0..sizes.len()).filter(|&item| shape.is_in(item, section)).map(|item| item as u32).collect();
            let small = members.iter().filter(|&&item| sizes.alignment[item as usize] < most(&members)).count();
            if small > SMALL_MAX {
                return loads[section];
            }
            let stacking = stacking::lowest(sizes, members, u64::MAX, 0, 1 << SMALL_MAX, &mut u64::MAX.clone());
            loads[section] + stacking.map_or(0, |stacking| stacking.waste)
        };
        (0..loads.len()).map(waste).max().unwrap_or(0)
    }

    #[test]
    fn the_sections_that_are_left_out_would_not_raise_the_bound() {
        let mut random = Random(3);
        let mut raised = 0;
        for round in 0..300 {
            let length = [3, 8, 40][round % 3];
            let alignments = [[64, 64, 65536], [1, 65536, 65536], [16, 256, 4096]][round / 3 % 3];
            let problem = Problem::new(&generated(&mut random, 5 + round as u64, length, alignments)).unwrap();
            let loads = shape(&problem).loads(&problem.sizes.size);
            let effort = &mut Effort::first(problem.len());
            let (bound, _) = mixed(shape(&problem), &problem.sizes, &loads, problem.load(), effort);
            assert_eq!(bound, of_every_section(&problem), "round {round}");
            raised += u32::from(bound > problem.load());
        }
        assert!(raised > 100, "{raised}");
    }

    /// Returns the lowest height of all plans. Some order of the items reaches it, with each item on top of those alive
    /// with it.
    fn lowest(items: &[Item], tops: &mut Vec<(usize, u64)>, height: u64, best: u64) -> u64 {
        if height >= best || tops.len() == items.len() {
            return height.min(best);
        }
        let mut best = best;
        for (at, item) in items.iter().enumerate() {
            if tops.iter().any(|&(placed, _)| placed == at) {
                continue;
            }
            let below = tops.iter().filter(|&&(placed, _)| items[placed].lifetime.overlaps(item.lifetime));
            let floor = below.map(|&(_, top)| top).max().unwrap_or(0);
            let top = floor.next_multiple_of(item.alignment) + item.size;
            tops.push((at, top));
            best = lowest(items, tops, height.max(top), best);
            tops.pop();
        }
        best
    }

    #[test]
    fn no_bound_of_mixed_alignments_is_above_the_lowest_height() {
        let mut random = Random(17);
        let (mut raised, mut reached) = (0, 0);
        for round in 0..4_000 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let (size_max, log2_max, span) = (1 + below(40), 1 + below(6), 1 + below(6));
            let mut item = || {
                let lower = below(span);
                Item::new(1 + below(size_max), lower, lower + 1 + below(span)).aligned(1 << below(log2_max + 1))
            };
            let items: Vec<Item> = (0..2 + round % 5).map(|_| item()).collect();
            let problem = Problem::new(&items).unwrap();
            let best = lowest(&items, &mut Vec::new(), 0, u64::MAX);
            assert!(problem.lower_bound() <= best, "{} above {best}: {items:?}", problem.lower_bound());
            let (refined, _) = refined(shape(&problem), &problem.sizes, problem.lower_bound());
            assert!(refined <= best, "refined {refined} above {best}: {items:?}");
            raised += u32::from(problem.lower_bound() > problem.load());
            reached += u32::from(problem.lower_bound() == best);
        }
        assert!(raised > 1_000 && reached > 2_000, "{raised} raised, {reached} reached");
    }

    #[test]
    fn many_small_items_do_not_hide_what_the_large_alignments_need() {
        let mut items: Vec<Item> = (0..60).map(|_| Item::new(4096, 0, 1).aligned(2 << 20)).collect();
        items.extend((0..100).map(|_| Item::new(4096, 0, 1).aligned(4096)));
        let plan = super::super::plan(&Problem::new(&items).unwrap(), |_| false);
        assert_eq!(plan.height, 59 * (2 << 20) + 4096);
        assert!(plan.is_proven(), "{} above {}", plan.height, plan.lower_bound);
    }

    #[test]
    fn an_alignment_between_the_least_and_the_largest_counts_too() {
        let mut items: Vec<Item> = (0..20).map(|_| Item::new(1, 0, 2).aligned(4096)).collect();
        items.extend((0..20).map(|_| Item::new(1, 1, 3).aligned(1)));
        items.push(Item::new(1, 5, 6).aligned(1 << 16));
        assert_eq!(Problem::new(&items).unwrap().lower_bound(), 19 * 4096 + 1);
    }

    #[test]
    fn sums_of_the_largest_alignments_do_not_overflow() {
        let mut random = Random(1);
        for round in 0..300 {
            let mut items = generated(&mut random, 4 + round % 30, 2 + round % 9, [1, 16, 64]);
            items[0] = items[0].aligned(1 << (62 - round % 4));
            if round % 3 == 0 {
                items[1].size = (1 << (55 + round % 5)) + 1;
            }
            let problem = Problem::new(&items).unwrap();
            let mut steps = 0;
            let plan = super::super::plan(&problem, |progress| {
                steps += progress.steps;
                steps < 10_000
            });
            super::super::verify(&items, &plan.offsets, plan.height).unwrap();
            assert!(problem.lower_bound() <= plan.height, "round {round}");
        }
    }
}
