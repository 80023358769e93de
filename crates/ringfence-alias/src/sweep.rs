//! One walk over time with a free list: a plan for any number of items in O(n log n).
//!
//! ```text
//!   events by time, ends first:   free(a)  allocate(c)  allocate(d)  free(b) …
//!                                                 ▼
//!                                 the core's free list: the tightest hole, the lowest of these
//! ```
//!
//! Of the items that begin at one moment the one that lives longest goes first. The plan is no better than what an
//! engine does online; but it is there for millions of items within a second or two, and all else starts from it.

use super::asking::Asking;
use super::order::sorted;
use super::problem::Sizes;
use super::sections::Span;
use super::shape::Intervals;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Allocate, Range};

/// The same lifetimes with time running backwards.
pub(super) fn mirrored(shape: &Intervals) -> Vec<Span> {
    let end = shape.section_count as u32;
    shape.spans.iter().map(|span| Span { first: end - span.last, last: end - span.first }).collect()
}

/// What an item costs, in looks.
const LOOKS_AN_ITEM: u64 = 64;

/// The offsets and the height; `None` if it was stopped, or the free list cannot hold the sum of the sizes.
pub(super) fn place(spans: &[Span], sizes: &Sizes, asking: &mut Asking<'_>) -> Option<(Vec<u64>, u64)> {
    let padded = |item: usize| sizes.size[item] + sizes.alignment[item];
    let sum: u64 = (0..sizes.len()).map(padded).sum();
    let mut list = FreeList::new(sum.max(1));
    let mut ranges: Vec<Option<Range>> = vec![None; sizes.len()];
    let (mut offsets, mut height) = (vec![0; sizes.len()], 0);
    let begins = sorted(sizes.len(), |item| (spans[item].first, Reverse(spans[item].last)), asking)?;
    let mut ends = sorted(sizes.len(), |item| spans[item].last, asking)?.into_iter().peekable();
    for item in begins {
        let item = item as usize;
        while let Some(ended) = ends.next_if(|&other| spans[other as usize].last <= spans[item].first) {
            let range = ranges[ended as usize].take()?;
            list.free(range).ok()?;
        }
        let range = list.allocate(sizes.size[item], sizes.alignment[item]).ok()?;
        offsets[item] = range.offset();
        height = range.end().max(height);
        ranges[item] = Some(range);
        if !asking.looked_at(LOOKS_AN_ITEM) {
            return None;
        }
    }
    Some((offsets, height))
}
