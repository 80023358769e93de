//! A linear allocator whose ranges are freed one by one. Depending on the order of the calls, it works as a stack, a
//! double stack or a ring.
//!
//! ```text
//!   stack          ├─ a ─┬─ b ─┬─ c ─┤···············┤      if c and then b are freed, the end moves back to b
//!   double stack   ├─ a ─┬─ b ─┤·········├─ y ─┬─ x ─┤      `allocate_high` has allocated x, then y
//!   ring           ├─ d ─┤····├─ b ─┬─ c ─┤··········┤      a was freed, and d did not fit after c: d wrapped around
//!                        └────┘ the next range is allocated here
//!
//!   low   [ b c† d ]     in the order of allocation; † freed, but both an older and a younger range are still live
//!   high  [ x y ]
//! ```
//!
//! *Low* ranges are those from `allocate`, *high* ranges those from `allocate_high`; each kind is a *row*. Ranges can
//! be freed in any order. The space of a freed range becomes free once all older ranges, or all younger ranges, of its
//! row are freed too. While there are high ranges, low ranges do not wrap around. While low ranges are wrapped around,
//! allocations from the high end fail.
//!
//! | operation | cost |
//! |---|---|
//! | `allocate`, `allocate_high`, `is_live`, `free_size` | O(1) |
//! | `free` | O(1) amortised: each range is removed from its row once |
//! | `for_each_span`, `validate` | O(ranges) |
//! | host memory | 32 bytes per range of a row, for the largest number so far |

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serial, Serials, Span, align_up,
    check_request,
};
use alloc::collections::VecDeque;
use core::fmt;

/// Bit of a slot: the range is a high range.
const HIGH: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    size: u64,
    serial: Serial,
    live: bool,
}

impl Entry {
    const fn end(&self) -> u64 {
        self.offset + self.size
    }
}

/// The low or the high ranges, in the order of allocation. Each entry has a number that does not change.
#[derive(Default)]
struct Row {
    entries: VecDeque<Entry>,
    /// Number of the first entry, modulo 2³¹.
    first: u32,
}

impl Row {
    fn push(&mut self, entry: Entry) -> u32 {
        let slot = self.first.wrapping_add(self.entries.len() as u32) & !HIGH;
        self.entries.push_back(entry);
        slot
    }

    fn at(&self, slot: u32) -> usize {
        (slot.wrapping_sub(self.first) & !HIGH) as usize
    }

    /// Removes the freed ranges at both ends of the row. Returns the sum of their sizes, in units.
    fn shrink(&mut self) -> u64 {
        let mut dropped = 0;
        while let Some(entry) = self.entries.back().filter(|entry| !entry.live) {
            dropped += entry.size;
            self.entries.pop_back();
        }
        while let Some(entry) = self.entries.front().filter(|entry| !entry.live) {
            dropped += entry.size;
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1) & !HIGH;
        }
        dropped
    }
}

/// A linear allocator: a stack, double stack or ring. Its ranges are freed one by one.
///
/// ```
/// use ringfence_core::linear_ranges::LinearRanges;
/// use ringfence_core::range::{Allocate, RangeAllocator};
///
/// let mut ring = LinearRanges::new(100);
/// let first = ring.allocate(40, 1)?;
/// let second = ring.allocate(40, 1)?;
/// assert!(ring.allocate(40, 1).is_err());
/// ring.free(first)?;
/// assert_eq!(ring.allocate(40, 1)?.offset(), 0, "it wraps around");
/// assert!(ring.is_live(&second));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LinearRanges {
    low: Row,
    high: Row,
    capacity: u64,
    /// Total size of all entries, in units, including freed ranges that are still in a row.
    held: u64,
    live: usize,
    serials: Serials,
}

impl LinearRanges {
    /// Creates an allocator of `capacity` units, all free.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        let low = Row { entries: VecDeque::new(), first: 0 };
        let high = Row { entries: VecDeque::new(), first: 0 };
        Self { low, high, capacity, held: 0, live: 0, serials: Serials::new() }
    }

    /// Returns the upper limit of the low ranges, in units: the offset of the lowest high range, or the capacity.
    fn ceiling(&self) -> u64 {
        self.high.entries.back().map_or(self.capacity, |entry| entry.offset)
    }

    /// Returns `true` if the youngest low range is below the oldest one: the low ranges are wrapped around.
    fn is_wrapped(&self) -> bool {
        match (self.low.entries.front(), self.low.entries.back()) {
            (Some(front), Some(back)) => back.offset < front.offset,
            _ => false,
        }
    }

    /// Returns the gap for the next low range, and the gap that is used if the range does not fit into the first one.
    /// Each is a start and an end.
    fn gaps(&self) -> [(u64, u64); 2] {
        let Some((front, back)) = self.low.entries.front().zip(self.low.entries.back()) else {
            return [(0, self.ceiling()), (0, 0)];
        };
        if self.is_wrapped() {
            return [(back.end(), front.offset), (0, 0)];
        }
        let below = if self.high.entries.is_empty() { front.offset } else { 0 };
        [(back.end(), self.ceiling()), (0, below)]
    }

    fn find_low(&self, size: u64, alignment: u64) -> Option<u64> {
        self.gaps().into_iter().find_map(|(start, end)| {
            let offset = align_up(start, alignment)?;
            (offset.checked_add(size)? <= end).then_some(offset)
        })
    }

    fn find_high(&self, size: u64, alignment: u64) -> Option<u64> {
        if self.is_wrapped() {
            return None;
        }
        let offset = self.ceiling().checked_sub(size)? & !(alignment - 1);
        let low_end = self.low.entries.back().map_or(0, Entry::end);
        (offset >= low_end).then_some(offset)
    }

    /// Allocates from the high end downwards, as the second stack.
    ///
    /// # Errors
    /// The errors of [`Allocate::allocate`]. A failed call changes nothing.
    pub fn allocate_high(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity)?;
        let offset = self.find_high(size, alignment).ok_or_else(|| self.out_of_space(size, alignment))?;
        Ok(self.take(offset, size, true))
    }

    fn take(&mut self, offset: u64, size: u64, high: bool) -> Range {
        let serial = self.serials.draw();
        let entry = Entry { offset, size, serial, live: true };
        self.held += size;
        self.live += 1;
        let slot = if high { self.high.push(entry) | HIGH } else { self.low.push(entry) };
        Range::new(offset, size, slot, serial)
    }

    fn entry(&self, range: &Range) -> Option<&Entry> {
        let row = if range.slot() & HIGH != 0 { &self.high } else { &self.low };
        let entry = row.entries.get(row.at(range.slot()))?;
        let is_it = entry.live
            && entry.serial == range.serial()
            && (entry.offset, entry.size) == (range.offset(), range.size());
        is_it.then_some(entry)
    }

    /// Returns the size of the live range of `slot`, in units. Returns 0 if the range was freed, even if its space is
    /// not free yet.
    #[must_use]
    pub fn live_size(&self, slot: u32) -> u64 {
        let row = if slot & HIGH != 0 { &self.high } else { &self.low };
        row.entries.get(row.at(slot)).filter(|entry| entry.live).map_or(0, |entry| entry.size)
    }

    #[cold]
    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        AllocError::OutOfSpace { size, alignment, free: self.free_size(), largest_free: self.largest_free() }
    }
}

impl Allocate for LinearRanges {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity)?;
        let offset = self.find_low(size, alignment).ok_or_else(|| self.out_of_space(size, alignment))?;
        Ok(self.take(offset, size, false))
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        if self.entry(&range).is_none() {
            return Err(self.serials.refuse(&range));
        }
        let row = if range.slot() & HIGH != 0 { &mut self.high } else { &mut self.low };
        let at = row.at(range.slot());
        row.entries[at].live = false;
        self.live -= 1;
        self.held -= row.shrink();
        Ok(())
    }
}

impl RangeAllocator for LinearRanges {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free_size(&self) -> u64 {
        self.capacity - self.held
    }

    /// Returns the size of the longer of the two gaps for a low range, in units.
    fn largest_free(&self) -> u64 {
        self.gaps().into_iter().map(|(start, end)| end.saturating_sub(start)).max().unwrap_or(0)
    }

    fn live_count(&self) -> usize {
        self.live
    }

    fn is_live(&self, range: &Range) -> bool {
        self.entry(range).is_some()
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let mut end = 0;
        let mut show = |entry: &Entry, slot: u32| {
            if entry.offset > end {
                visit(Span { offset: end, size: entry.offset - end, slot: None });
            }
            // The space of a freed range that is still in its row is not free yet: no request can use it.
            visit(Span { offset: entry.offset, size: entry.size, slot: Some(slot) });
            end = entry.end();
        };
        let entries = &self.low.entries;
        let wrap = entries.iter().zip(entries.iter().skip(1)).position(|(one, two)| two.offset < one.offset);
        let wrap = wrap.map_or(0, |at| at + 1);
        for at in (wrap..entries.len()).chain(0..wrap) {
            show(&entries[at], self.low.first.wrapping_add(at as u32) & !HIGH);
        }
        for (at, entry) in self.high.entries.iter().enumerate().rev() {
            show(entry, (self.high.first.wrapping_add(at as u32) & !HIGH) | HIGH);
        }
        if end < self.capacity {
            visit(Span { offset: end, size: self.capacity - end, slot: None });
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let (mut end, mut held, mut sound) = (0, 0, true);
        self.for_each_span(&mut |span| {
            sound &= span.offset == end && span.size != 0;
            end = span.offset + span.size;
            held += span.slot.map_or(0, |_| span.size);
        });
        Invalid::unless(sound && end == self.capacity, "the spans follow each other and cover everything", end)?;
        Invalid::unless(held == self.held, "the held size is the sum of the entries", held)?;
        let rows = [&self.low, &self.high];
        let live = rows.iter().flat_map(|row| &row.entries).filter(|entry| entry.live).count();
        Invalid::unless(live == self.live, "the live count is that of the live entries", live as u64)?;
        let ends_live = rows.iter().all(|row| {
            row.entries.front().is_none_or(|entry| entry.live) && row.entries.back().is_none_or(|entry| entry.live)
        });
        Invalid::unless(ends_live, "both ends of a row are live", 0)
    }
}

impl Peek for LinearRanges {
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        self.find_low(size, alignment)
    }

    fn peek_high(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        self.find_high(size, alignment)
    }
}

impl fmt::Debug for LinearRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinearRanges({} live, {} of {} held)", self.live, self.held, self.capacity)
    }
}
