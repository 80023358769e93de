//! Replanning that moves as few items as possible.
//!
//! ```text
//!   last plan       ▓▓▓▓ a   ▒▒▒ b   ░░░░ c          b is removed, d is new
//!   this plan       ▓▓▓▓ a   dd      ░░░░ c          a and c stay: their objects and views remain valid
//! ```
//!
//! Items with a previous offset are placed first, the largest first, each at that offset unless it clashes with a
//! placed item. The others follow, the largest first, each in the lowest gap. If the plan is higher than the caller
//! allows, half of the items with a previous offset, those with the highest ends, lose this offset, and placement
//! starts again. This repeats until the plan is low enough, or until it is too high although no item has a previous
//! offset; then the caller has to search. O(n² log n) in the worst case.

use super::internals::limits::SUM_MAX;
use super::internals::shape::Shape;
use super::plan::AliasPlan;
use super::problem::{Problem, Relation};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A plan, and the items that kept their offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptPlan {
    /// The plan.
    pub plan: AliasPlan,
    /// For each item, `true` if it has its previous offset.
    pub kept: Vec<bool>,
}

/// Returns a plan no higher than `height_max` that keeps as many items at their previous offsets as the greedy method
/// finds. `last` has the previous offset of each item, or `None`. An item that ended above 2^63 - 1 is not kept, even
/// if `height_max` allows it.
///
/// Does not search, to save time. Returns `None` if the greedy method finds no plan. A plan may still exist, unless
/// `height_max` is below [`Problem::lower_bound`]: [`plan`](super::plan) or the crate `ringfence-planner` may find it.
///
/// # Panics
/// If the length of `last` is not the number of items.
#[must_use]
pub fn plan_keeping(problem: &Problem, last: &[Option<u64>], height_max: u64) -> Option<KeptPlan> {
    assert_eq!(last.len(), problem.len(), "`last` has one entry per item");
    match &problem.relation {
        Relation::Intervals(shape) => keep(problem, shape, last, height_max),
        Relation::Cliques(shape) => keep(problem, shape, last, height_max),
    }
}

fn keep<S: Shape>(problem: &Problem, shape: &S, last: &[Option<u64>], height_max: u64) -> Option<KeptPlan> {
    // All items with their paddings fit 63 bits, so on top of the kept ones they end within 64 bits.
    let height_max = height_max.min(SUM_MAX);
    let sizes = &problem.sizes;
    let end = |item: usize, offset: u64| offset.checked_add(sizes.size[item]);
    let fits = |item: usize, offset: u64| {
        offset & (sizes.alignment[item] - 1) == 0 && end(item, offset).is_some_and(|end| end <= height_max)
    };
    let kept = |plan: AliasPlan| {
        let kept = plan.offsets.iter().zip(last).map(|(now, then)| Some(*now) == *then).collect();
        Some(KeptPlan { plan, kept })
    };
    let mut last: Vec<Option<u64>> =
        (0..last.len()).map(|item| last[item].filter(|&offset| fits(item, offset))).collect();
    loop {
        let placed = place(problem, shape, &last);
        if placed.height <= height_max {
            return kept(placed);
        }
        let mut wanted: Vec<usize> = (0..last.len()).filter(|&item| last[item].is_some()).collect();
        if wanted.is_empty() {
            return None;
        }
        wanted.sort_by_key(|&item| Reverse(last[item].and_then(|offset| end(item, offset))));
        wanted.truncate(wanted.len().div_ceil(2));
        wanted.into_iter().for_each(|item| last[item] = None);
    }
}

struct Placed<K> {
    offset: u64,
    end: u64,
    key: K,
}

/// Places the items with an offset first, then the others.
fn place<S: Shape>(problem: &Problem, shape: &S, last: &[Option<u64>]) -> AliasPlan {
    let sizes = &problem.sizes;
    let mut order: Vec<usize> = (0..problem.len()).collect();
    order.sort_by_key(|&item| (last[item].is_none(), Reverse(sizes.size[item])));
    let mut offsets = vec![0; problem.len()];
    let mut placed: Vec<Placed<S::Key>> = Vec::with_capacity(problem.len());
    let mut moved = Vec::new();
    for item in order {
        match last[item] {
            Some(offset) if is_free(shape, &placed, shape.key(item), offset, offset + sizes.size[item]) => {
                put(&mut placed, offset, sizes.size[item], shape.key(item));
                offsets[item] = offset;
            }
            _ => moved.push(item),
        }
    }
    moved.sort_by_key(|&item| Reverse(sizes.size[item]));
    for item in moved {
        let offset = lowest_gap(shape, &placed, shape.key(item), sizes.size[item], sizes.alignment[item] - 1);
        put(&mut placed, offset, sizes.size[item], shape.key(item));
        offsets[item] = offset;
    }
    let height = sizes.height(&offsets);
    AliasPlan { offsets, height, load: problem.load(), lower_bound: problem.lower_bound() }
}

fn put<K>(placed: &mut Vec<Placed<K>>, offset: u64, size: u64, key: K) {
    let place = placed.partition_point(|other| other.offset < offset);
    placed.insert(place, Placed { offset, end: offset + size, key });
}

fn is_free<S: Shape>(shape: &S, placed: &[Placed<S::Key>], key: S::Key, offset: u64, end: u64) -> bool {
    !placed.iter().any(|other| other.offset < end && offset < other.end && shape.clash(other.key, key))
}

fn lowest_gap<S: Shape>(shape: &S, placed: &[Placed<S::Key>], key: S::Key, size: u64, mask: u64) -> u64 {
    let mut start = 0;
    for other in placed.iter().filter(|other| shape.clash(other.key, key)) {
        if start + size <= other.offset {
            break;
        }
        start = start.max((other.end + mask) & !mask);
    }
    start
}
