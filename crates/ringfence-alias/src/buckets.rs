//! Greedy placement for many items: time cut into buckets, so that an item looks only at what lies near it in time.
//!
//! ```text
//!   buckets   │   0   │   1   │   2   │   3   │     each holds the placed items that touch it, by offset
//!   items      ├─a─┤ ├─b──┤                         a in 0, b in 0 and 1
//!                      ├──────c───────┤             c looks at buckets 0 to 2 together
//! ```
//!
//! With k items in an item's buckets, placing it costs O(k), and O(k log k) if it touches more than one. For short
//! lifetimes k is near the number alive at once. The caller bounds the work: where everything is alive at once no order
//! is better than any other, and it would be n².

use super::asking::Asking;
use super::problem::Sizes;
use super::sections::Span;
use super::shape::Intervals;
use alloc::vec;
use alloc::vec::Vec;

/// How many items there are to a bucket, about.
const ITEMS_A_BUCKET: usize = 256;

#[derive(Clone, Copy)]
struct Placed {
    offset: u64,
    end: u64,
    span: Span,
}

struct Buckets {
    /// Each by offset.
    buckets: Vec<Vec<Placed>>,
    /// Sections in a bucket.
    width: u32,
    /// What clashes with the item that is placed now, from several buckets.
    found: Vec<Placed>,
}

impl Buckets {
    fn of(&self, span: Span) -> core::ops::RangeInclusive<usize> {
        (span.first / self.width) as usize..=((span.last - 1) / self.width) as usize
    }

    /// The lowest gap, and how many placed items were looked at, each as often as merging the buckets' lists does.
    fn find(&mut self, span: Span, size: u64, mask: u64) -> (u64, usize) {
        let range = self.of(span);
        if range.start() == range.end() {
            let bucket = &self.buckets[*range.start()];
            return (lowest_gap(bucket, span, size, mask), bucket.len());
        }
        let looks = 2 + 2 * (range.end() - range.start() + 1).ilog2() as usize;
        let mut looked_at = 0;
        self.found.clear();
        for bucket in &self.buckets[range] {
            looked_at += looks * bucket.len();
            self.found.extend(bucket.iter().filter(|placed| placed.span.overlaps(span)));
        }
        // Runs that are sorted already: a merging sort takes them as they are.
        self.found.sort_by_key(|placed| placed.offset);
        (lowest_gap(&self.found, span, size, mask), looked_at)
    }

    fn insert(&mut self, placed: Placed) {
        for bucket in self.of(placed.span) {
            let bucket = &mut self.buckets[bucket];
            let place = bucket.partition_point(|other| other.offset < placed.offset);
            bucket.insert(place, placed);
        }
    }
}

fn lowest_gap(placed: &[Placed], span: Span, size: u64, mask: u64) -> u64 {
    let mut start = 0;
    for other in placed {
        if !other.span.overlaps(span) {
            continue;
        }
        if start + size <= other.offset {
            return start;
        }
        start = start.max((other.end + mask) & !mask);
    }
    start
}

/// First fit in the given order; `None` as soon as the height would not be below `limit`, more than `work_max`
/// placed items were looked at, or there is no going on.
pub(super) fn place(
    shape: &Intervals,
    sizes: &Sizes,
    order: &[u32],
    limit: u64,
    work_max: u64,
    asking: &mut Asking<'_>,
) -> Option<(Vec<u64>, u64)> {
    let count = (order.len() / ITEMS_A_BUCKET).max(1);
    let width = shape.section_count.div_ceil(count).max(1);
    let buckets = vec![Vec::new(); shape.section_count.div_ceil(width)];
    let mut buckets = Buckets { buckets, width: width as u32, found: Vec::new() };
    let mut offsets = vec![0; order.len()];
    let (mut height, mut work) = (0, 0);
    for &item in order {
        let item = item as usize;
        let (size, span) = (sizes.size[item], shape.spans[item]);
        let (offset, looked_at) = buckets.find(span, size, sizes.alignment[item] - 1);
        let end = offset + size;
        height = end.max(height);
        work += looked_at as u64 + 1;
        if height >= limit || work > work_max || !asking.looked_at(looked_at as u64 + 1) {
            return None;
        }
        offsets[item] = offset;
        buckets.insert(Placed { offset, end, span });
    }
    Some((offsets, height))
}
