//! Greedy placement: places the items one by one in some order, each in the lowest or the tightest gap that fits.
//!
//! ```text
//!   placed, by offset:   ▓▓▓▓····▓▓▓▓▓▓▓··········▓▓▓     only items that clash with the new one count
//!                            ▲ first fit   ▲ or the tightest gap: best fit
//! ```
//!
//! The best order depends on the case; the largest first is good for frames and networks. One order costs O(n²) in the
//! worst case, with a very small constant: the placed items are in one array by offset, walked from below.

use super::asking::Asking;
use super::shape::Shape;
use super::sizes::Sizes;
use alloc::vec::Vec;

/// Choice of the gap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fit {
    /// The lowest gap that fits the item.
    First,
    /// The gap that leaves the least over.
    Best,
}

struct Placed<K> {
    offset: u64,
    end: u64,
    key: K,
}

/// Returns the offsets and the height. Returns `None` if the height would not be below `limit`, or if the closure stops
/// it.
pub fn place<S: Shape>(
    shape: &S,
    sizes: &Sizes,
    order: &[u32],
    fit: Fit,
    limit: u64,
    asking: &mut Asking<'_>,
) -> Option<(Vec<u64>, u64)> {
    let mut placed: Vec<Placed<S::Key>> = Vec::with_capacity(order.len());
    let mut offsets = alloc::vec![0; order.len()];
    let mut height = 0;
    for &item in order {
        let item = item as usize;
        let (size, key) = (sizes.size[item], shape.key(item));
        let offset = find(shape, &placed, size, sizes.alignment[item], key, fit);
        let end = offset + size;
        height = end.max(height);
        if height >= limit || !asking.looked_at(placed.len() as u64) {
            return None;
        }
        offsets[item] = offset;
        let place = placed.partition_point(|other| other.offset < offset);
        placed.insert(place, Placed { offset, end, key });
    }
    Some((offsets, height))
}

fn find<S: Shape>(shape: &S, placed: &[Placed<S::Key>], size: u64, alignment: u64, key: S::Key, fit: Fit) -> u64 {
    let mask = alignment - 1;
    let (mut gap_start, mut best) = (0_u64, None);
    for other in placed {
        if !shape.clash(other.key, key) {
            continue;
        }
        let start = (gap_start + mask) & !mask;
        if start + size <= other.offset {
            let left_over = other.offset - gap_start - size;
            if fit == Fit::First {
                return start;
            }
            if best.is_none_or(|(least, _)| left_over < least) {
                best = Some((left_over, start));
            }
        }
        gap_start = other.end.max(gap_start);
    }
    best.map_or((gap_start + mask) & !mask, |(_, start)| start)
}
