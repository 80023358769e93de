//! The items in a heap, and the search for room.
//!
//! ```text
//!   page        ├────────┼────────┼────────┤
//!   items       │  aaa   │        │ bb     │
//!   same kind      ▓▓▓              ▓▓             occupied for a new item: the bytes
//!   other kind  ▓▓▓▓▓▓▓▓▓          ▓▓▓▓▓▓▓▓▓        occupied for a new item: all pages that they touch
//! ```

use alloc::vec::Vec;

/// The fields of an item that the planners use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flat {
    pub size: u64,
    pub alignment: u64,
    pub lower: u64,
    pub upper: u64,
    pub kind: u32,
}

impl Flat {
    pub fn is_alive_with(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// An item with its offset.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub offset: u64,
    pub item: u32,
    flat: Flat,
}

/// The items of a heap, in the order of their offsets.
#[derive(Clone)]
pub(super) struct Occupied {
    granularity: u64,
    capacity: u64,
    placed: Vec<Placed>,
    /// Scratch buffer, reused between calls.
    forbidden: Vec<(u64, u64)>,
}

impl Occupied {
    /// Creates an empty heap. `capacity` is at most 2^63 - 1.
    pub fn new(granularity: u64, capacity: u64) -> Self {
        Self { granularity, capacity, placed: Vec::new(), forbidden: Vec::new() }
    }

    /// Adds items that do not clash. O(n log n).
    pub fn fill(&mut self, items: impl Iterator<Item = (u32, Flat, u64)>) {
        self.placed.extend(items.map(|(item, flat, offset)| Placed { offset, item, flat }));
        self.placed.sort_unstable_by_key(|placed| placed.offset);
    }

    /// Returns the range of units that `flat` cannot use because of `placed`.
    fn forbids(&self, placed: &Placed, flat: &Flat) -> (u64, u64) {
        let end = placed.offset + placed.flat.size;
        if placed.flat.kind == flat.kind {
            return (placed.offset, end);
        }
        let mask = self.granularity - 1;
        (placed.offset & !mask, (end + mask) & !mask)
    }

    /// Returns the lowest offset at which the item fits. O(n), O(n log n) with pages.
    pub fn lowest(&mut self, flat: &Flat) -> Option<u64> {
        self.lowest_below(flat, self.capacity)
    }

    /// Returns the lowest offset at which the item fits in a heap of the given capacity.
    pub fn lowest_below(&mut self, flat: &Flat, capacity: u64) -> Option<u64> {
        let last = capacity.checked_sub(flat.size)?;
        let mut start = 0;
        if self.granularity == 1 {
            for placed in self.placed.iter().filter(|placed| placed.flat.is_alive_with(flat)) {
                if start + flat.size <= placed.offset {
                    break;
                }
                start = start.max(align(placed.offset + placed.flat.size, flat.alignment));
                if start > last {
                    return None;
                }
            }
            return Some(start);
        }
        let mut forbidden = core::mem::take(&mut self.forbidden);
        forbidden.clear();
        let alive = self.placed.iter().filter(|placed| placed.flat.is_alive_with(flat));
        forbidden.extend(alive.map(|placed| self.forbids(placed, flat)));
        forbidden.sort_unstable();
        for &(from, to) in &forbidden {
            if start > last || start + flat.size <= from {
                break;
            }
            start = start.max(align(to, flat.alignment));
        }
        self.forbidden = forbidden;
        (start <= last).then_some(start)
    }

    /// Returns the items that clash with `flat` at this offset.
    pub fn clashing(&self, flat: Flat, offset: u64) -> impl Iterator<Item = u32> + '_ {
        self.clashing_at(flat, offset).map(|(item, _)| item)
    }

    /// Returns the items that clash with `flat` at this offset, with their offsets.
    pub fn clashing_at(&self, flat: Flat, offset: u64) -> impl Iterator<Item = (u32, u64)> + '_ {
        let clashes = move |placed: &&Placed| {
            let (from, to) = self.forbids(placed, &flat);
            placed.flat.is_alive_with(&flat) && from < offset + flat.size && offset < to
        };
        self.placed.iter().filter(clashes).map(|placed| (placed.item, placed.offset))
    }

    /// Returns the offsets at which the item may displace others: 0, and the starts and ends of the items alive with
    /// it, aligned.
    pub fn candidates(&self, flat: Flat) -> impl Iterator<Item = u64> + '_ {
        let last = self.capacity.checked_sub(flat.size);
        let alive = self.placed.iter().filter(move |placed| placed.flat.is_alive_with(&flat));
        let ends = alive.flat_map(move |placed| [placed.offset, self.forbids(placed, &flat).1]);
        let all = [0].into_iter().chain(ends.map(move |end| align(end, flat.alignment)));
        all.filter(move |&start| last.is_some_and(|last| start <= last))
    }

    /// Adds an item at a free offset.
    pub fn put(&mut self, item: u32, flat: Flat, offset: u64) {
        let place = self.placed.partition_point(|placed| placed.offset < offset);
        self.placed.insert(place, Placed { offset, item, flat });
    }

    /// Removes an item from its offset.
    pub fn take(&mut self, item: u32, offset: u64) {
        let place = self.placed.partition_point(|placed| placed.offset < offset);
        let more = self.placed[place..].iter().position(|placed| placed.item == item);
        self.placed.remove(place + more.expect("it is in the heap"));
    }

    /// Returns the highest end.
    pub fn height(&self) -> u64 {
        self.placed.iter().map(|placed| placed.offset + placed.flat.size).max().unwrap_or(0)
    }
}

/// Rounds up to a multiple of an alignment of up to 2^62. `offset` is at most 2^63 + 2^32.
fn align(offset: u64, alignment: u64) -> u64 {
    (offset + (alignment - 1)) & !(alignment - 1)
}
