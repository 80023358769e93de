//! Planning again with as little moved as possible: what lay well stays where it lay.
//!
//! ```text
//!   last plan       ▓▓▓▓ a   ▒▒▒ b   ░░░░ c          b is gone, d is new
//!   this plan       ▓▓▓▓ a   dd      ░░░░ c          a and c stay: their objects and views are still good
//! ```
//!
//! The items with an offset of last time are put there, the largest first, unless one that already lies there clashes.
//! The others follow, the largest first, each at the lowest gap. If that is higher than the caller allows, of the kept
//! items those that end highest may move, half of them at a time; in the end nothing is kept. O(n² log n) at worst.
//! If that is still too high, it is up to the caller to search.

use super::item::SUM_MAX;
use super::plan::AliasPlan;
use super::problem::{Problem, Relation};
use super::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A plan, and what of it is as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptPlan {
    /// The plan.
    pub plan: AliasPlan,
    /// Of each item whether it lies where it lay.
    pub kept: Vec<bool>,
}

/// A plan no higher than `height_max` with as many items as greed can keep at the offsets of `last`. `last` holds for
/// each item where it lay, if it was there. What ends above 2^63 - 1 there is not kept, whatever `height_max` says.
///
/// It searches for nothing, for the sake of time: `None` means that greed found none. There may be one all the same,
/// unless `height_max` is below [`Problem::lower_bound`]; [`plan`](super::plan) finds it, if the caller has time.
///
/// # Panics
/// `last` is not as long as there are items.
#[must_use]
pub fn plan_keeping(problem: &Problem, last: &[Option<u64>], height_max: u64) -> Option<KeptPlan> {
    assert_eq!(last.len(), problem.len(), "one offset, or none, for each item");
    match &problem.relation {
        Relation::Intervals(shape) => keep(problem, shape, last, height_max),
        Relation::Cliques(shape) => keep(problem, shape, last, height_max),
    }
}

fn keep<S: Shape>(problem: &Problem, shape: &S, last: &[Option<u64>], height_max: u64) -> Option<KeptPlan> {
    // All items with their paddings fit 63 bits: upon what is kept they end within 64.
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

/// First those with an offset, then the others.
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
