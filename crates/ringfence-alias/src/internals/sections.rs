//! Cuts time into sections: the moments at which a maximal set of items is alive.
//!
//! ```text
//!   items      ├──a──┤   ├───c───┤
//!                 ├───b─────┤  ├──d──┤
//!   sections   ├──0──┼─────1────┼──2──┤      a: 0..1   b: 0..2   c: 1..3   d: 2..3
//! ```
//!
//! A section begins where an item begins after another has ended. The items alive at any moment are a subset of a
//! section. Two items are alive at one moment if and only if they share a section. Sections of intervals are the
//! maximal cliques of the interval graph, in their order.
//!
//! Cutting costs O(n log n), or O(n) if there are few moments. The loads of all sections cost O(n + sections).

use super::counted::counted;
use crate::item::Item;
use alloc::vec;
use alloc::vec::Vec;

/// The sections of one item: `first..last`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Span {
    pub first: u32,
    pub last: u32,
}

impl Span {
    /// Returns `true` if the two spans have a section in common.
    #[inline]
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first < other.last && other.first < self.last
    }

    /// Returns the sections as a range of indices.
    #[inline]
    #[must_use]
    pub fn range(self) -> core::ops::Range<usize> {
        self.first as usize..self.last as usize
    }
}

/// Returns the sections of each item, and the number of sections. The items must be valid.
pub fn cut(items: &[Item]) -> (Vec<Span>, usize) {
    match counted_events(items) {
        Some(events) => number(events.into_iter().map(u64::from), items.len()),
        None => number(sorted_events(items).into_iter(), items.len()),
    }
}

/// Largest number of moments per item for a counting sort. With more, the events are sorted by comparison.
const MOMENTS_AN_ITEM: u64 = 4;

/// Returns the events in the order of time, ends before beginnings. An event is twice the number of its item, plus one
/// for a beginning. Returns `None` if there is no item, or too many items or moments. O(n + moments).
fn counted_events(items: &[Item]) -> Option<Vec<u32>> {
    let from = items.iter().map(|item| item.lifetime.lower).min()?;
    let last = items.iter().map(|item| item.lifetime.upper).max()? - from;
    if last >= MOMENTS_AN_ITEM * items.len() as u64 || items.len() > (u32::MAX / 16) as usize {
        return None;
    }
    let key = |event: usize| {
        let (lifetime, begins) = (items[event / 2].lifetime, event % 2);
        2 * ((if begins == 1 { lifetime.lower } else { lifetime.upper }) - from) as u32 + begins as u32
    };
    Some(counted(2 * items.len(), 2 * (last as usize + 1), key))
}

/// Returns the same events for any moments. O(n log n).
fn sorted_events(items: &[Item]) -> Vec<u64> {
    let mut events = Vec::with_capacity(2 * items.len());
    for (index, item) in items.iter().enumerate() {
        events.push((item.lifetime.lower, (index as u64) << 1 | 1));
        events.push((item.lifetime.upper, (index as u64) << 1));
    }
    events.sort_unstable_by_key(|&(time, event)| (time, event & 1));
    events.into_iter().map(|(_, event)| event).collect()
}

fn number(events: impl Iterator<Item = u64>, count: usize) -> (Vec<Span>, usize) {
    let mut spans = vec![Span { first: 0, last: 0 }; count];
    let (mut section, mut after_end) = (0, false);
    for event in events {
        let (index, begins) = ((event >> 1) as usize, event & 1 == 1);
        if begins {
            section += u32::from(after_end);
            spans[index].first = section;
        } else {
            spans[index].last = section + 1;
        }
        after_end = !begins;
    }
    (spans, if count == 0 { 0 } else { section as usize + 1 })
}

/// Returns the sum of the sizes in every section.
pub fn loads(spans: &[Span], sizes: &[u64], sections: usize) -> Vec<u64> {
    let mut loads = vec![0_u64; sections + 1];
    for (span, &size) in spans.iter().zip(sizes) {
        loads[span.first as usize] = loads[span.first as usize].wrapping_add(size);
        loads[span.last as usize] = loads[span.last as usize].wrapping_sub(size);
    }
    let mut load = 0_u64;
    for slot in &mut loads {
        load = load.wrapping_add(*slot);
        *slot = load;
    }
    loads.truncate(sections);
    loads
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn counting_the_moments_cuts_time_as_sorting_them_does() {
        let mut random = Random(11);
        for round in 0..200_u64 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let item = |_| {
                let lower = (1 << 40) + below(1 + 2 * round);
                Item::new(1, lower, lower + 1 + below(1 + round))
            };
            let items: Vec<Item> = (0..1 + round).map(item).collect();
            let counted = counted_events(&items).expect("few moments").into_iter().map(u64::from);
            let by_sorting = number(sorted_events(&items).into_iter(), items.len());
            assert_eq!(number(counted, items.len()), by_sorting, "round {round}");
        }
        assert_eq!(counted_events(&[Item::new(1, 0, 1), Item::new(1, 1 << 50, u64::MAX)]), None);
        assert_eq!(cut(&[]), (Vec::new(), 0));
    }
}
