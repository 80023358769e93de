//! A ring buffer. Each part is allocated for a submission, and is in use until this submission and all older ones are
//! complete.
//!
//! ```text
//!   positions in the sequence of all units ever allocated
//!
//!        tail                                         head
//!         ├─ frame 3 ─┬──────── frame 4 ────────┬─ 5 ──┤        an entry: a tag, and the position of its end
//!         │           │                         │      │
//!   offsets: the same data in the buffer
//!
//!   0                                                     capacity
//!   ├────────────┬──────┬──────────┬───────────┬─────────────┤
//!   │ frame 4    │ 5    │   free   │ frame 3   │ frame 4  ▒▒ │    ▒▒ the end of the buffer, which frame 4 skipped,
//!   └────────────┴──────┴──────────┴───────────┴─────────────┘       because its next request did not fit there
//!                       ▲          ▲
//!                       │          └ offset of tail: head_offset - used, modulo the capacity
//!                       └ head_offset
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`Ring::allocate`] | O(1): no division, at most one comparison of tags; host memory at a new maximum of entries |
//! | [`Ring::release_oldest`] | O(1) |
//! | [`Ring::release_while`] | O(1) for each released entry, plus one more call of the predicate |
//! | [`Ring::iter`] | O(1) per entry |
//! | [`Ring::validate`] | O(entries) |
//!
//! `head - tail` units are in use: 0 if the ring is empty, and `capacity` if it is full. Alignment padding and the
//! skipped end of the buffer count as used. They belong to the entry of the request that needed them, and are released
//! with this entry. A failed call changes nothing.
//!
//! Entries are released *in order*, because the ring has one tail. Even if the submission of an entry is complete, the
//! entry waits for older entries. If data must be released in another order, use pages ([`crate::linear`]) in a
//! [`crate::retire`] queue.
//!
//! Positions are 64-bit and may wrap around. At 100 GB/s, this takes more than five years.

use crate::range::Invalid;
use alloc::collections::VecDeque;
use core::fmt;

/// Bookkeeping of a ring buffer. It computes offsets; the memory of the buffer belongs to the caller.
///
/// `T` is the tag of the submission that a part is allocated for: a frame number, or the [`crate::sync::SyncSet`] that
/// must pass. The ring only compares and clones tags, and never waits. Before the caller waits for the submission of
/// [`Ring::oldest`], it must ensure that this submission was made. Otherwise the wait never ends.
///
/// ```
/// # use ringfence_core::ring::{Ring, RingError};
/// let mut ring = Ring::new(1024);
/// let vertices = ring.allocate(300, 4, &1)?;
/// let constants = ring.allocate(256, 256, &1)?;
/// assert_eq!((vertices.offset(), constants.offset()), (0, 512));
/// assert_eq!(ring.used(), 768, "with 212 units of padding");
/// assert!(matches!(ring.allocate(512, 4, &2), Err(RingError::Full { free: 256, .. })));
/// assert_eq!(ring.release_while(|&frame| frame <= 1), 768);
/// # Ok::<(), RingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ring<T> {
    capacity: u64,
    /// Position of the next allocation, before its padding: the number of all units ever allocated, including padding.
    /// `head - tail <= capacity`.
    head: u64,
    /// Position of the oldest entry: the number of all units ever released. Equal to `head` if and only if the ring is
    /// empty.
    tail: u64,
    /// Offset of `head`, below `capacity`. If the ring is empty, 0, so that the largest request fits.
    head_offset: u64,
    /// A lower bound of the number of contiguous free units at `head_offset`; 0 after an allocation that ends at the
    /// end of the buffer. If a request fits in these units, no other field is checked.
    room: u64,
    /// The largest `head - tail` up to the last release. The usage decreases only in a release, so an allocation need
    /// not update this field.
    high_water: u64,
    /// One entry for each run of equal tags except the newest run, oldest first. Their `end` values are between `tail`
    /// and `head`, and each is above the previous one.
    older: VecDeque<Entry<T>>,
    /// Tag of the newest run, which ends at `head`; `None` if and only if the ring is empty. Separate from `older`, so
    /// that an allocation writes no entry.
    newest: Option<T>,
}

/// Location of a request.
struct Place {
    offset: u64,
    /// Units that are lost before `offset`.
    padding: u64,
    /// [`Ring::room`] after the allocation.
    room: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    tag: T,
    /// Position after the last unit of the entry.
    end: u64,
}

impl<T: PartialEq + Clone> Ring<T> {
    /// Allocates `size` units at an offset that is a multiple of `alignment`, for the submission `tag`.
    ///
    /// If `tag` equals the tag of the newest entry, this entry grows; otherwise, a new entry begins. Padding before the
    /// range belongs to the same entry as the range. O(1). The tag is cloned only if a new entry begins. (The clone of
    /// a `SyncSet` over more than four timelines allocates host memory.)
    ///
    /// # Errors
    /// - [`RingError::ZeroSize`] or [`RingError::BadAlignment`] if the request is invalid.
    /// - [`RingError::TooLarge`] if the request does not fit in the empty ring.
    /// - [`RingError::Full`] if the request does not fit until entries are released.
    ///
    /// A failed call changes nothing.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: u64, tag: &T) -> Result<RingRange, RingError> {
        let Place { offset, padding, room } = match self.place_in_room(size, alignment) {
            Some(place) => place,
            None => self.place_at_start(size, alignment)?,
        };
        match &self.newest {
            Some(newest) if newest == tag => {}
            _ => self.begin_entry(tag),
        }
        let position = self.head.wrapping_add(padding);
        self.head = position.wrapping_add(size);
        self.head_offset = if offset + size == self.capacity { 0 } else { offset + size };
        self.room = room;
        Ok(RingRange { offset, size, position })
    }

    #[cold]
    fn begin_entry(&mut self, tag: &T) {
        if let Some(tag) = self.newest.replace(tag.clone()) {
            self.older.push_back(Entry { tag, end: self.head });
        }
    }
}

impl<T> Ring<T> {
    /// Creates an empty ring of `capacity` units. The capacity need not be a power of two. If it is 0, every request
    /// fails with [`RingError::TooLarge`].
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self {
            capacity,
            head: 0,
            tail: 0,
            head_offset: 0,
            room: capacity,
            high_water: 0,
            older: VecDeque::new(),
            newest: None,
        }
    }

    /// Creates an empty ring with host memory for nine entries. While at most nine entries are in use, the ring
    /// allocates no further host memory. A ring from [`new`](Self::new) allocates host memory the first time that an
    /// entry begins while another one is in use; this can be in any frame.
    #[must_use]
    pub fn for_frames(capacity: u64) -> Self {
        Self { older: VecDeque::with_capacity(8), ..Self::new(capacity) }
    }

    /// Returns the location of a request if the request fits in `room`; otherwise, returns `None`.
    #[inline]
    fn place_in_room(&self, size: u64, alignment: u64) -> Option<Place> {
        // The padding is correct only if the alignment is a power of two, which is checked below.
        let padding = self.head_offset.wrapping_neg() & alignment.wrapping_sub(1);
        // A size of 0 wraps around to `u64::MAX` and never fits.
        let fits = alignment.is_power_of_two() && padding <= self.room && size.wrapping_sub(1) < self.room - padding;
        fits.then(|| Place { offset: self.head_offset + padding, padding, room: self.room - padding - size })
    }

    /// Returns the location of a request that does not fit in `room`: offset 0 of the buffer. Fails if the request is
    /// invalid, or does not fit at offset 0 either.
    #[cold]
    fn place_at_start(&self, size: u64, alignment: u64) -> Result<Place, RingError> {
        let capacity = self.capacity;
        if size == 0 {
            return Err(RingError::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(RingError::BadAlignment { alignment });
        }
        if size > capacity {
            return Err(RingError::TooLarge { size, capacity });
        }
        let offset = match crate::range::align_up(self.head_offset, alignment) {
            Some(offset) if offset <= capacity - size => offset,
            _ => 0,
        };
        let padding = if offset >= self.head_offset { offset - self.head_offset } else { capacity - self.head_offset };
        let free = self.free();
        // In two steps, because the sum can exceed `u64::MAX`.
        if padding > free || size > free - padding {
            return Err(RingError::Full { size, alignment, padding, free, capacity });
        }
        // The request begins at offset 0, because a request that fits at another offset is placed in `room`. So all
        // remaining free units follow it contiguously.
        Ok(Place { offset, padding, room: free - padding - size })
    }

    /// Returns the tag of the oldest entry. Returns `None` if the ring is empty. If the ring is full, the caller waits
    /// for the submission of this tag. O(1).
    #[must_use]
    pub fn oldest(&self) -> Option<&T> {
        self.older.front().map(|entry| &entry.tag).or(self.newest.as_ref())
    }

    /// Releases the oldest entry. Its submission must be complete, or must never run. Returns the tag and the number of
    /// units that became free, including padding. Returns `None` if the ring is empty. O(1).
    pub fn release_oldest(&mut self) -> Option<(T, u64)> {
        let (tag, end) = match self.older.pop_front() {
            Some(entry) => (entry.tag, entry.end),
            None => (self.newest.take()?, self.head),
        };
        self.high_water = self.high_water();
        let released = end.wrapping_sub(self.tail);
        self.tail = end;
        if self.is_empty() {
            self.head_offset = 0;
        }
        self.room = self.free_in_one_piece();
        Some((tag, released))
    }

    /// Releases entries, oldest first, until `passed` returns `false` for a tag or the ring is empty. Returns the
    /// number of units that became free, including padding. O(1) per entry.
    ///
    /// If `passed` panics, the entries for which it has returned `true` are released.
    pub fn release_while(&mut self, mut passed: impl FnMut(&T) -> bool) -> u64 {
        let mut released = 0;
        while self.oldest().is_some_and(&mut passed) {
            released += self.release_oldest().map_or(0, |(_, units)| units);
        }
        released
    }

    /// Returns the capacity of the buffer, in units.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of units in use, including padding and the skipped end of the buffer.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.head.wrapping_sub(self.tail)
    }

    /// Returns the number of units that are not in use. A request of this size can fail, because the free units need
    /// not be contiguous.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.capacity - self.used()
    }

    /// Returns the number of contiguous free units at `head_offset`.
    const fn free_in_one_piece(&self) -> u64 {
        let (free, before_end) = (self.free(), self.capacity - self.head_offset);
        if free < before_end { free } else { before_end }
    }

    /// Returns `true` if no unit is in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the largest number of units that were in use at the same time. It helps to choose the capacity.
    #[must_use]
    pub const fn high_water(&self) -> u64 {
        let used = self.used();
        if used > self.high_water { used } else { self.high_water }
    }

    /// Returns the number of entries. If the allocations of different submissions do not alternate, it is the number of
    /// submissions in use.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// Returns `true` if the range is in use, and `false` if its entry was released, even if its space was allocated
    /// again. `range` must be a range of this ring; this is not checked. O(1).
    #[must_use]
    pub const fn is_live(&self, range: &RingRange) -> bool {
        range.position.wrapping_sub(self.tail) < self.used()
    }

    /// Iterates over the entries, oldest first, for reports.
    pub fn iter(&self) -> impl Iterator<Item = Submission<'_, T>> {
        let (mut position, mut offset) = (self.tail, self.tail_offset());
        self.runs().map(move |(tag, end)| {
            let size = end.wrapping_sub(position);
            let submission = Submission { tag, position, offset, size, capacity: self.capacity };
            (position, offset) = (end, self.advance(offset, size));
            submission
        })
    }

    /// Iterates over the entries, oldest first. Returns the tag of each, and the position after its last unit.
    fn runs(&self) -> impl Iterator<Item = (&T, u64)> {
        let newest = self.newest.iter().map(|tag| (tag, self.head));
        self.older.iter().map(|entry| (&entry.tag, entry.end)).chain(newest)
    }

    /// Returns the offset of the oldest entry. If the ring is empty or full, it is `head_offset`.
    const fn tail_offset(&self) -> u64 {
        self.advance(self.head_offset, self.free())
    }

    /// Returns `offset + units` modulo the capacity. `offset` must be below the capacity, and `units` at most the
    /// capacity.
    const fn advance(&self, offset: u64, units: u64) -> u64 {
        let before_end = self.capacity - offset;
        if units < before_end { offset + units } else { units - before_end }
    }

    /// Checks all rules of the structure, for tests. O(entries).
    ///
    /// # Errors
    /// The first violated rule, with the position, offset or number that breaks it.
    pub fn validate(&self) -> Result<(), Invalid>
    where
        T: PartialEq,
    {
        let used = self.used();
        Invalid::unless(used <= self.capacity, "the usage is within the capacity", used)?;
        let offset = self.head_offset;
        Invalid::unless(offset < self.capacity.max(1), "the head is inside the buffer", offset)?;
        Invalid::unless(used > 0 || offset == 0, "an empty ring begins at offset 0", offset)?;
        let room = self.room;
        Invalid::unless(room <= self.free_in_one_piece(), "the room is free and contiguous", room)?;
        let high_water = self.high_water;
        Invalid::unless(high_water <= self.capacity, "the high-water mark is within the capacity", high_water)?;
        let (mut end, mut before) = (0, None);
        for (index, (tag, run_end)) in self.runs().enumerate() {
            let run_end = run_end.wrapping_sub(self.tail);
            Invalid::unless(run_end > end, "each entry holds at least one unit", index as u64)?;
            Invalid::unless(before != Some(tag), "a run of equal tags is one entry", index as u64)?;
            (end, before) = (run_end, Some(tag));
        }
        Invalid::unless(self.newest.is_some() == (used > 0), "there is a newest entry iff a unit is in use", used)?;
        Invalid::unless(end == used, "the last entry ends at the head", end)
    }
}

/// An allocated part of the ring. It is a plain value, and is freed when its entry is released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RingRange {
    offset: u64,
    size: u64,
    position: u64,
}

impl RingRange {
    /// Returns the offset of the first unit in the buffer, a multiple of the requested alignment.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the requested size, in units. The units are contiguous.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the offset of the first unit after the range; at most the capacity.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// Returns the position of the range among all units that the ring has ever allocated. No other range of the ring
    /// has this position.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }
}

/// An entry of the ring, as [`Ring::iter`] reports it.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a, T> {
    /// Tag of the entry.
    pub tag: &'a T,
    /// Position of the entry's first unit among all units that the ring has ever allocated. Padding is part of the
    /// entry.
    pub position: u64,
    /// Offset of the first unit of the entry in the buffer. Padding is part of the entry.
    pub offset: u64,
    /// Size in units, including padding and the skipped end of the buffer.
    pub size: u64,
    /// Capacity of the ring, in units.
    capacity: u64,
}

impl<T> Submission<'_, T> {
    /// Iterates over the parts of the buffer that the entry uses, including padding: one extent, or two if the entry
    /// wraps around the end of the buffer.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + use<T> {
        let first = self.size.min(self.capacity - self.offset);
        let stretches = [Extent { offset: self.offset, size: first }, Extent { offset: 0, size: self.size - first }];
        stretches.into_iter().filter(|extent| extent.size > 0)
    }
}

/// A contiguous part of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Offset of the first unit.
    pub offset: u64,
    /// Size in units; at least 1.
    pub size: u64,
}

/// Error of a failed allocation. The ring is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// The requested size is 0.
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// Requested alignment, in units.
        alignment: u64,
    },
    /// The request is larger than the whole ring, and needs a larger ring.
    TooLarge {
        /// Requested size, in units.
        size: u64,
        /// Capacity of the ring, in units.
        capacity: u64,
    },
    /// Too many units are in use. The request fits once enough entries are released.
    Full {
        /// Requested size, in units.
        size: u64,
        /// Requested alignment, in units.
        alignment: u64,
        /// Units that would be lost before the request, to alignment or at the end of the buffer. `padding + size` is
        /// above `free`.
        padding: u64,
        /// Units not in use.
        free: u64,
        /// Capacity of the ring, in units.
        capacity: u64,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroSize => f.write_str("the requested size is 0; request at least 1 unit"),
            Self::BadAlignment { alignment } => write!(f, "the requested alignment {alignment} is not a power of two"),
            Self::TooLarge { size, capacity } => {
                write!(f, "{size} units were requested, but the whole ring has {capacity}; create a larger ring")
            }
            Self::Full { size, alignment, padding, free, capacity } => write!(
                f,
                "the ring has no room for {size} units aligned to {alignment} after {padding} units of padding: \
                 {free} of {capacity} are free; release older entries first"
            ),
        }
    }
}

impl core::error::Error for RingError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_may_wrap_around_u64() {
        let mut ring = Ring::new(100);
        (ring.head, ring.tail) = (u64::MAX - 130, u64::MAX - 130);
        let mut held = VecDeque::new();
        for frame in 0..8_u32 {
            let range = ring.allocate(30, 2, &frame).expect("three frames of 30 fit");
            assert!(ring.is_live(&range));
            held.push_back(range);
            ring.validate().unwrap();
            if held.len() == 3 {
                let oldest = held.pop_front().unwrap();
                assert!(ring.is_live(&oldest));
                assert_eq!(ring.release_oldest().map(|(tag, _)| tag), Some(frame - 2));
                assert!(!ring.is_live(&oldest) && held.iter().all(|range| ring.is_live(range)));
                ring.validate().unwrap();
            }
        }
        assert!(ring.head < 1000, "the counter has wrapped");
    }

    #[test]
    fn the_largest_capacity_has_no_overflow() {
        let mut ring = Ring::new(u64::MAX);
        for frame in 0..3 {
            assert_eq!(ring.allocate(u64::MAX, 1 << 63, &frame).unwrap().offset(), 0);
            assert_eq!((ring.used(), ring.free(), ring.is_empty()), (u64::MAX, 0, false));
            assert!(matches!(ring.allocate(1, 1, &frame), Err(RingError::Full { free: 0, .. })));
            ring.validate().unwrap();
            assert_eq!(ring.release_oldest(), Some((frame, u64::MAX)));
        }
        ring.allocate(u64::MAX - 1, 1, &9).unwrap();
        // The aligned offset and `padding + size` both exceed `u64::MAX`.
        assert!(matches!(ring.allocate(u64::MAX, 1 << 63, &9), Err(RingError::Full { padding: 1, free: 1, .. })));
    }
}
