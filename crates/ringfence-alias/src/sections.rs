//! Time cut into sections: the moments at which a largest set of items is alive.
//!
//! ```text
//!   items      ├──a──┤   ├───c───┤
//!                 ├───b─────┤  ├──d──┤
//!   sections   ├──0──┼─────1────┼──2──┤      a: 0..1   b: 0..2   c: 1..3   d: 2..3
//! ```
//!
//! A section begins where an item begins after another has ended; any other moment has no more alive than one of these.
//! Two items are alive at one moment iff they share a section. Sections of intervals are the maximal cliques of the
//! interval graph, in their order.
//!
//! Cutting costs O(n log n), the load of every section O(n + sections).

use super::item::Item;
use alloc::vec;
use alloc::vec::Vec;

/// The sections of one item: `first..last`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    pub first: u32,
    pub last: u32,
}

impl Span {
    pub fn overlaps(self, other: Self) -> bool {
        self.first < other.last && other.first < self.last
    }

    pub fn range(self) -> core::ops::Range<usize> {
        self.first as usize..self.last as usize
    }
}

/// Each item's sections, and how many sections there are. The items are valid.
pub(super) fn cut(items: &[Item]) -> (Vec<Span>, usize) {
    let mut events = Vec::with_capacity(2 * items.len());
    for (index, item) in items.iter().enumerate() {
        // Ends sort before beginnings.
        events.push((item.lifetime.lower, (index as u64) << 1 | 1));
        events.push((item.lifetime.upper, (index as u64) << 1));
    }
    events.sort_unstable_by_key(|&(time, event)| (time, event & 1));
    number(&events, items.len())
}

fn number(events: &[(u64, u64)], count: usize) -> (Vec<Span>, usize) {
    let mut spans = vec![Span { first: 0, last: 0 }; count];
    let (mut section, mut after_end) = (0, false);
    for &(_, event) in events {
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

/// The sum of sizes in every section.
pub(super) fn loads(spans: &[Span], sizes: &[u64], sections: usize) -> Vec<u64> {
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
