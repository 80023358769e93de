//! What no plan can be lower than: the load, and what alignment adds to it.
//!
//! ```text
//!   one section, of alignment A: two large items, p and q short of a multiple of A; small ones of any alignment
//!
//!     │ large ····p│ large ····q│ small small          what lies between two large items wastes what is left to the
//!     0            A            2A                     next multiple of A; what lies above the highest wastes nothing
//! ```
//!
//! Two bounds on the waste. *The least alignment of all*: every size counts rounded up to it, but for the largest
//! rounding in a section, which may stick out. *The largest alignment in a section*: its items are large, the others
//! small; over all ways to deal the small ones to the gaps, the least sum of what is left over, by dynamic programming
//! over sets of small items. With k small and m large ones that is O(m · 3ᵏ), done for k up to 6 (9 where few items are
//! searched) and only where it could raise the bound. Of more small ones the smallest are left out: what is alive without
//! them, and wasted without them, is a bound as well.

use super::problem::Sizes;
use super::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

const SMALL_MAX: usize = 6;
const REFINED_MAX: usize = 9;
const REFINED_WORK_MAX: u64 = 2_000_000;

/// How much is looked at.
struct Effort {
    /// Small items that are dealt.
    small_max: usize,
    /// Whether the smallest of more are left out, rather than the section.
    leaves_out: bool,
    /// Steps of the dynamic programming that are left.
    work: u64,
}

/// The load and the bound. O(entries of the cover), and the dynamic programming.
pub(super) fn bounds<S: Shape>(shape: &S, sizes: &Sizes) -> (u64, u64) {
    let loads = shape.loads(&sizes.size);
    let load = loads.iter().copied().max().unwrap_or(0);
    let least = sizes.alignment.iter().copied().min().unwrap_or(1);
    let most = sizes.alignment.iter().copied().max().unwrap_or(1);
    let mut bound = load;
    if sizes.size.iter().any(|size| !size.is_multiple_of(least)) {
        bound = bound.max(padded(shape, sizes, least));
    }
    if least != most {
        bound =
            mixed(shape, sizes, &loads, bound, &mut Effort { small_max: SMALL_MAX, leaves_out: false, work: u64::MAX });
    }
    (load, bound)
}

fn padding(size: u64, alignment: u64) -> u64 {
    size.wrapping_neg() & (alignment - 1)
}

fn padded<S: Shape>(shape: &S, sizes: &Sizes, least: u64) -> u64 {
    let padded: Vec<u64> = sizes.size.iter().map(|size| size + padding(*size, least)).collect();
    // Only one item of a section is the highest, and only the highest needs no padding behind it.
    let sticks_out = sizes.size.iter().map(|&size| padding(size, least)).max().unwrap_or(0);
    shape.loads(&padded).into_iter().max().unwrap_or(0) - sticks_out
}

/// A higher bound for few items of mixed alignments, where the first was not met: up to nine small ones are dealt, of
/// sections of more the largest nine. Milliseconds at most.
pub(super) fn refined<S: Shape>(shape: &S, sizes: &Sizes, bound: u64) -> u64 {
    let mut effort = Effort { small_max: REFINED_MAX, leaves_out: true, work: REFINED_WORK_MAX };
    mixed(shape, sizes, &shape.loads(&sizes.size), bound, &mut effort)
}

/// The bound raised by the sections where alignments are mixed.
fn mixed<S: Shape>(shape: &S, sizes: &Sizes, loads: &[u64], mut bound: u64, effort: &mut Effort) -> u64 {
    let most = sizes.alignment.iter().copied().max().unwrap_or(1);
    let pads: Vec<u64> = sizes.size.iter().map(|&size| padding(size, most)).collect();
    let reach = shape.loads(&pads);
    // A section cannot waste more than all its paddings, so few sections are worth a look.
    let mut promising: Vec<usize> =
        (0..loads.len()).filter(|&section| loads[section] + reach[section] > bound).collect();
    promising.sort_by_key(|&section| Reverse(loads[section]));
    for section in promising {
        if loads[section] + reach[section] > bound {
            let members: Vec<usize> = (0..sizes.len()).filter(|&item| shape.is_in(item, section)).collect();
            // Sets dealt to sets, for each of the members twice.
            let cost = 2 * members.len() as u64 * 3_u64.pow(members.len().min(effort.small_max) as u32);
            if cost > effort.work {
                break;
            }
            effort.work -= cost;
            bound = bound.max(loads[section] + least_waste(sizes, members, effort));
        }
    }
    bound
}

/// The least that is wasted where these items are all alive; less than that, if there are too many small ones.
fn least_waste(sizes: &Sizes, members: Vec<usize>, effort: &Effort) -> u64 {
    let most = members.iter().map(|&item| sizes.alignment[item]).max().unwrap_or(1);
    let (large, mut small): (Vec<usize>, Vec<usize>) =
        members.into_iter().partition(|&item| sizes.alignment[item] == most);
    if small.len() > effort.small_max && !effort.leaves_out {
        return 0;
    }
    // Without some of them a plan can be no higher; but the bound counts all.
    small.sort_by_key(|&item| Reverse(sizes.size[item]));
    let left_out: u64 = small.iter().skip(effort.small_max).map(|&item| sizes.size[item]).sum();
    if left_out >= large.iter().map(|&item| padding(sizes.size[item], most)).sum() {
        return 0;
    }
    small.truncate(effort.small_max);
    let sets = 1_usize << small.len();
    let sum = |set: usize| -> u64 {
        (0..small.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| sizes.size[small[bit]]).sum()
    };
    let sums: Vec<u64> = (0..sets).map(sum).collect();
    // By the set that is dealt already: with the highest large item still to come, and with it passed over.
    let mut open: Vec<u64> = sums.iter().map(|&sum| padding(sum, most)).collect();
    let mut closed = vec![u64::MAX; sets];
    for item in large {
        let size = sizes.size[item];
        let gap: Vec<u64> = sums.iter().map(|sum| padding(size + sum, most)).collect();
        let passed = open.clone();
        open = dealt(&open, &gap);
        closed = dealt(&closed, &gap);
        closed.iter_mut().zip(passed).for_each(|(closed, passed)| *closed = passed.min(*closed));
    }
    closed.into_iter().min().filter(|&waste| waste != u64::MAX).unwrap_or(0).saturating_sub(left_out)
}

/// Every set grown by every set apart from it, which goes into the gap.
fn dealt(wastes: &[u64], gap: &[u64]) -> Vec<u64> {
    let mut grown = vec![u64::MAX; wastes.len()];
    for (set, &waste) in wastes.iter().enumerate().filter(|&(_, &waste)| waste != u64::MAX) {
        let others = (wastes.len() - 1) & !set;
        let mut added = others;
        loop {
            grown[set | added] = grown[set | added].min(waste + gap[added]);
            if added == 0 {
                break;
            }
            added = (added - 1) & others;
        }
    }
    grown
}
