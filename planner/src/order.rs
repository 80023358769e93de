//! Orders for greedy placement, and sorting that the caller can stop.
//!
//! ```text
//!   keys   ├── 65,536 ──┤├── 65,536 ──┤├── …      each sorted, then merged; the closure is called after each piece
//! ```
//!
//! O(n log n). Items with equal keys stay in their order.

use super::asking::Asking;
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::Problem;

/// Order in which greedy placement places the items.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Largest size first, then longest lifetime.
    Size,
    /// Longest lifetime first, then largest size.
    Duration,
    /// Largest alignment first, then as [`Order::Size`].
    AlignmentSize,
    /// Largest alignment first, then as [`Order::Duration`].
    AlignmentDuration,
    /// Largest product of size and duration first, then largest size.
    Area,
    /// Earliest start first, then longest lifetime, then largest size.
    Begin,
    /// Latest end first, then longest lifetime, then largest size.
    End,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 7] =
        [Self::Size, Self::Duration, Self::AlignmentSize, Self::AlignmentDuration, Self::Area, Self::Begin, Self::End];

    /// Returns the items in this order, or `None` if the caller stopped planning.
    pub(super) fn of(self, problem: &Problem, asking: &mut Asking<'_>) -> Option<Vec<u32>> {
        let (size, duration) = (|i: usize| problem.sizes().size[i], |i: usize| problem.durations()[i]);
        let (alignment, begin) = (|i: usize| problem.sizes().alignment[i], |i: usize| problem.begins()[i]);
        let area = |i: usize| problem.area(i);
        let count = problem.len();
        match self {
            Self::Size => sorted(count, |i| Reverse((size(i), duration(i))), asking),
            Self::Duration => sorted(count, |i| Reverse((duration(i), size(i))), asking),
            Self::AlignmentSize => sorted(count, |i| Reverse((alignment(i), size(i), duration(i))), asking),
            Self::AlignmentDuration => sorted(count, |i| Reverse((alignment(i), duration(i), size(i))), asking),
            Self::Area => sorted(count, |i| Reverse((area(i), size(i))), asking),
            Self::Begin => sorted(count, |i| (begin(i), Reverse(duration(i)), Reverse(size(i))), asking),
            Self::End => sorted(count, |i| Reverse((begin(i) + duration(i), duration(i), size(i))), asking),
        }
    }
}

/// Number of items that are sorted at once.
const PIECE: usize = 1 << 16;
/// Cost of sorting or merging one item, in visits.
const LOOKS_AN_ITEM: u64 = 8;

/// Returns the numbers below `count` by ascending key, or `None` if the caller stopped planning.
pub(super) fn sorted<K: Ord + Copy>(
    count: usize,
    key: impl Fn(usize) -> K,
    asking: &mut Asking<'_>,
) -> Option<Vec<u32>> {
    let mut keyed: Vec<(K, u32)> = (0..count as u32).map(|item| (key(item as usize), item)).collect();
    for piece in keyed.chunks_mut(PIECE) {
        piece.sort_unstable();
        if count > PIECE && !asking.looked_at(LOOKS_AN_ITEM * piece.len() as u64) {
            return None;
        }
    }
    let mut width = PIECE;
    while width < count {
        let mut merged = Vec::with_capacity(count);
        for pair in keyed.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            if !merge(left, right, &mut merged, asking) {
                return None;
            }
        }
        keyed = merged;
        width *= 2;
    }
    Some(keyed.into_iter().map(|(_, item)| item).collect())
}

/// Appends the merged lists to `merged`. Returns `false` if the caller stopped planning.
fn merge<T: Ord + Copy>(mut left: &[T], mut right: &[T], merged: &mut Vec<T>, asking: &mut Asking<'_>) -> bool {
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        if a <= b {
            merged.push(*a);
            left = &left[1..];
        } else {
            merged.push(*b);
            right = &right[1..];
        }
        if merged.len().is_multiple_of(PIECE) && !asking.looked_at(LOOKS_AN_ITEM * PIECE as u64) {
            return false;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn pieces_are_merged_as_a_stable_sort_would_and_stop_when_the_closure_says_so() {
        let mut random = Random(5);
        for count in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 7, 5 * PIECE + 1] {
            let keys: Vec<u64> = (0..count).map(|_| (random.next() * 1e4) as u64).collect();
            let mut expected: Vec<u32> = (0..count as u32).collect();
            expected.sort_by_key(|&item| keys[item as usize]);
            let found = sorted(count, |item| keys[item], &mut Asking::new(&mut |_| true));
            assert_eq!(found, Some(expected));
        }
        assert_eq!(sorted(9 * PIECE, Reverse, &mut Asking::new(&mut |_| false)), None);
    }
}
