//! One sweep over time with an allocator: a plan for any number of items.
//!
//! ```text
//!   events by time, ends first:   free(a)  allocate(c)  allocate(d)  free(b) …
//!                                                 ▼
//!                                 an allocator of `ringfence-core`: size classes, or the tightest hole
//! ```
//!
//! The plan is no better than that of an engine that allocates online. But it is made for millions of items within a
//! fraction of a second, and all other methods start from it. With size classes it costs O(n), a tenth of a microsecond
//! per item. With the tightest hole it costs O(n log n), two to five tenths per item, and is mostly lower. Time is
//! already cut into sections, so no comparison sort is needed.

use super::asking::Asking;
use super::counted::{counted, places};
use super::sections::Span;
use super::shape::Intervals;
use super::sizes::Sizes;
use alloc::vec;
use alloc::vec::Vec;
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Range, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// Allocator that places the items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holes {
    /// Size classes: the first hole of the smallest class that fits the item.
    Classes,
    /// The tightest hole, then the lowest. Of items that begin in one section, the longest lived is placed first.
    Tightest,
}

/// Returns the same lifetimes with time reversed.
pub(super) fn mirrored(shape: &Intervals) -> Vec<Span> {
    let end = shape.section_count as u32;
    shape.spans.iter().map(|span| Span { first: end - span.last, last: end - span.first }).collect()
}

/// Cost of an item, in visits.
const LOOKS_AN_ITEM: u64 = 64;

/// The fields of an item that the sweep needs. Rows are in the order of the sweep: reading items in the caller's order
/// would miss the cache.
#[derive(Clone, Default)]
struct Row {
    /// The size; once the item is placed, the offset.
    size: u64,
    span: Span,
    item: u32,
    /// Binary logarithm of the alignment.
    log2: u8,
}

/// Returns the items in the order in which they begin; in each section by number, or the longest lived first. O(n +
/// sections).
fn rows(spans: &[Span], sections: usize, sizes: &Sizes, longest_first: bool) -> Vec<Row> {
    let row = |item: u32| {
        let at = item as usize;
        Row { size: sizes.size[at], span: spans[at], item, log2: sizes.alignment[at].trailing_zeros() as u8 }
    };
    if longest_first {
        let by_end = counted(spans.len(), sections, |item| sections as u32 - spans[item].last);
        let by_begin = counted(spans.len(), sections, |place| spans[by_end[place] as usize].first);
        return by_begin.into_iter().map(|place| row(by_end[place as usize])).collect();
    }
    let mut rows = vec![Row::default(); spans.len()];
    let mut places = places(spans.len(), sections, |item| spans[item].first);
    for (item, span) in (0..).zip(spans) {
        let place = &mut places[span.first as usize];
        rows[*place as usize] = row(item);
        *place += 1;
    }
    rows
}

/// Returns the offsets. Returns `None` if the caller stopped planning, or if the allocator has no room left.
pub(super) fn place(
    spans: &[Span],
    sections: usize,
    sizes: &Sizes,
    holes: Holes,
    asking: &mut Asking<'_>,
) -> Option<Vec<u64>> {
    let mut rows = rows(spans, sections, sizes, holes == Holes::Tightest);
    let sum: u64 = rows.iter().map(|row| row.size + (1 << row.log2)).sum();
    match holes {
        // This allocator has holes that a request, rounded up to its class, does not find.
        Holes::Classes => walk(Tlsf::new(sum.saturating_add(sum / 8).max(1)), &mut rows, sections, asking)?,
        Holes::Tightest => walk(FreeList::new(sum.max(1)), &mut rows, sections, asking)?,
    }
    // Not within the sweep, because each such write misses the cache.
    let mut offsets = vec![0; rows.len()];
    rows.iter().for_each(|row| offsets[row.item as usize] = row.size);
    Some(offsets)
}

/// Replaces the size of each row by its offset.
fn walk(mut list: impl RangeAllocator, rows: &mut [Row], sections: usize, asking: &mut Asking<'_>) -> Option<()> {
    let mut ends = counted(rows.len(), sections + 1, |row| rows[row].span.last).into_iter().peekable();
    let mut ranges: Vec<Option<Range>> = Vec::with_capacity(rows.len());
    for at in 0..rows.len() {
        let first = rows[at].span.first;
        while let Some(ended) = ends.next_if(|&other| rows[other as usize].span.last <= first) {
            list.free(ranges[ended as usize].take()?).ok()?;
        }
        let row = &mut rows[at];
        let range = list.allocate(row.size, 1 << row.log2).ok()?;
        row.size = range.offset();
        ranges.push(Some(range));
        if !asking.looked_at(LOOKS_AN_ITEM) {
            return None;
        }
    }
    Some(())
}
