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
//! - *One alignment*: only items with at least this alignment count, each with its size rounded up to the alignment.
//!   The largest rounding is subtracted, because the highest item needs no padding. This is done for each alignment
//!   that occurs; for the smallest, all items count.
//! - *All items of a section*: the height of the lowest stack of a section that could raise the bound. [`bounds`]
//!   examines only sections with at most six items below the largest alignment. [`refined`], which `ringfence-planner`
//!   calls for few items if no plan reaches the first bound, examines every such section. It also replaces the largest
//!   alignments by smaller ones, which makes more items equal.

use super::shape::Shape;
use super::sizes::Sizes;
use super::stacking;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The first bound skips sections with more than this number of small items. An item is *small* if its alignment is
/// below the largest alignment in the section.
const SMALL_MAX: usize = 6;
/// Maximum number of sets of small items of a section in the refined bound.
const REFINED_SETS: usize = 1 << 12;
const REFINED_WORK_MAX: u64 = 4_000_000;
/// Steps of the first bound: a constant for few items, and a number per item for many, so that it is O(n).
const WORK_MIN: u64 = 1 << 24;
const WORK_AN_ITEM: u64 = 256;
/// Maximum number of members of sections that are gathered: this number for each item, but at least `GATHERED_MIN`.
const GATHERED_AN_ITEM: u64 = 8;
const GATHERED_MIN: u64 = 1 << 18;
/// Upper limit for the waste of a section, so that the sum with a load does not overflow.
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

/// Returns the load and the bound. O(entries of the cover) for each alignment, plus the dynamic programming.
pub fn bounds<S: Shape>(shape: &S, sizes: &Sizes) -> (u64, u64) {
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

/// Returns the bound of the items with at least the alignment `least`, without the others. Returns 0 if none of their
/// sizes needs padding.
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

/// Returns the refined bound for few items of mixed alignments, at least `bound`. Also returns the items of the section
/// that raised the bound last, or else of the fullest examined section. Takes milliseconds at most.
pub fn refined<S: Shape>(shape: &S, sizes: &Sizes, bound: u64) -> (u64, Vec<u32>) {
    mixed(shape, sizes, &shape.loads(&sizes.size), bound, &mut Effort::refined(sizes))
}

/// Raises the bound by the sections with mixed alignments, the fullest first, within the limits. Also returns the items
/// of the section that raised the bound last, or else of the fullest examined section.
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

/// Returns, for each section, the sum of its paddings to the largest alignment, or `REACH_MAX` if sums could be larger.
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
mod tests;
