//! A ring: each part is in use until the submission that wrote it has passed.
//!
//! ```text
//!   positions: they only rise
//!
//!        tail                                         head
//!         ├─ frame 3 ─┬──────── frame 4 ────────┬─ 5 ──┤        each entry: (tag, position at which its data ends)
//!         │           │                         │      │
//!   offsets: the same data in the buffer
//!
//!   0                                                     capacity
//!   ├────────────┬──────┬──────────┬───────────┬─────────────┤
//!   │ frame 4    │ 5    │   free   │ frame 3   │ frame 4  ▒▒ │    ▒▒ the tail of the buffer that frame 4 skipped,
//!   └────────────┴──────┴──────────┴───────────┴─────────────┘       because its next request did not fit there
//!                       ▲          ▲
//!                       │          └ offset of tail: head_offset - used, around the end
//!                       └ head_offset
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`Ring::allocate`] | O(1): no division, one comparison of tags; host allocation if entries reach a new maximum |
//! | [`Ring::release_oldest`] | O(1) |
//! | [`Ring::release_while`] | O(1) for each released entry, plus one more call of the predicate |
//! | [`Ring::iter`] | O(1) an entry |
//! | [`Ring::validate`] | O(entries) |
//!
//! The ring uses `head - tail` units: 0 when empty and `capacity` when full, so the two states differ. Alignment
//! padding and the skipped tail of the buffer count as used. They belong to the submission whose request caused them
//! and are released with it. A failed call changes nothing.
//!
//! Entries are released *in order*, because the ring has one tail: an entry whose submission has passed waits for older
//! entries. Data that is released out of order belongs in pages ([`crate::linear`]) on a [`crate::retire`] queue.
//!
//! Positions are 64-bit and wrap around, at 100 GB/s after five years.

use crate::range::Invalid;
use alloc::collections::VecDeque;
use core::fmt;

/// Bookkeeping of a ring buffer; the buffer itself is stored elsewhere.
///
/// `T` is the tag of the submission that uses a part: a frame number, or the [`crate::sync::SyncSet`] that must pass.
/// The ring only compares and clones tags. It waits for no tag and does not know if a tag was submitted: before the
/// caller waits for [`Ring::oldest`], it must ensure that the tag will be signalled.
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
    /// Position of the next allocation, before padding: all units ever allocated. `head - tail <= capacity`.
    head: u64,
    /// Position of the oldest entry: all units ever released. Equals `head` iff the ring is empty.
    tail: u64,
    /// Offset of `head`: below `capacity`, and 0 whenever the ring is empty, so the largest request then fits.
    head_offset: u64,
    /// A lower bound of the contiguous free units at `head_offset`: 0 just after the head wrapped around. If a request
    /// fits in the room, no other field is checked.
    room: u64,
    /// The largest `head - tail` before the last release. The usage falls only in a release, so allocating need not
    /// update it.
    high_water: u64,
    /// One entry for each run of equal tags except the newest, oldest first. `end` rises strictly, from above `tail` to
    /// below `head`.
    older: VecDeque<Entry<T>>,
    /// Tag of the newest run, which ends at `head`; `None` iff the ring is empty. Kept apart from `older`, so that
    /// allocating writes only the head.
    newest: Option<T>,
}

/// Location of a request.
struct Place {
    offset: u64,
    /// Units lost before it.
    padding: u64,
    /// [`Ring::room`] after the allocation.
    room: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    tag: T,
    /// Position after its last unit.
    end: u64,
}

impl<T: PartialEq + Clone> Ring<T> {
    /// Allocates `size` units at an offset that is a multiple of `alignment`, for the submission `tag`.
    ///
    /// If `tag` equals the tag of the newest entry, that entry grows; otherwise a new entry begins. Padding counts for
    /// the same entry. O(1). The tag is cloned only if an entry begins (cloning a `SyncSet` over more than four
    /// timelines allocates host memory).
    ///
    /// # Errors
    /// - [`RingError::ZeroSize`], [`RingError::BadAlignment`].
    /// - [`RingError::TooLarge`] if the request does not fit even in an empty ring, so waiting is useless.
    /// - [`RingError::Full`] if the request fits after entries are released.
    ///
    /// A failed call changes nothing.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: u64, tag: &T) -> Result<RingRange, RingError> {
        let Place { offset, padding, room } = match self.place_in_room(size, alignment) {
            Some(place) => place,
            None => self.place_elsewhere(size, alignment)?,
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
    /// Creates an empty ring of `capacity` units, which need not be a power of two. A ring of 0 units refuses all
    /// requests as too large.
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

    /// Creates an empty ring with host memory reserved for eight older submissions, so no call allocates host
    /// memory until more are in use. A ring from [`new`](Self::new) allocates when its second submission begins, which
    /// may happen in any later frame.
    #[must_use]
    pub fn for_frames(capacity: u64) -> Self {
        Self { older: VecDeque::with_capacity(8), ..Self::new(capacity) }
    }

    /// Returns the location of a request that fits in `room`.
    #[inline]
    fn place_in_room(&self, size: u64, alignment: u64) -> Option<Place> {
        // Correct for a power of two; other alignments are refused below.
        let padding = self.head_offset.wrapping_neg() & alignment.wrapping_sub(1);
        // A size of 0 wraps around to `u64::MAX` and never fits.
        let fits = alignment.is_power_of_two() && padding <= self.room && size.wrapping_sub(1) < self.room - padding;
        fits.then(|| Place { offset: self.head_offset + padding, padding, room: self.room - padding - size })
    }

    /// Returns a location before the end or at the start of the buffer, or the error.
    #[cold]
    fn place_elsewhere(&self, size: u64, alignment: u64) -> Result<Place, RingError> {
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
        // The request begins at 0, because all others are placed in `room`. So all free units follow it contiguously.
        Ok(Place { offset, padding, room: free - padding - size })
    }

    /// Returns the tag of the oldest entry, to wait for if the ring is full. O(1).
    #[must_use]
    pub fn oldest(&self) -> Option<&T> {
        self.older.front().map(|entry| &entry.tag).or(self.newest.as_ref())
    }

    /// Releases the oldest entry, whatever its tag: the caller knows that its submission has passed or will never run.
    /// Returns the tag and the number of units that became free, padding included; `None` if the ring is empty. O(1).
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

    /// Releases entries, oldest first, until `passed` returns `false` for a tag. Returns the number of units that
    /// became free, padding included. O(1) an entry.
    ///
    /// If `passed` panics, the entries for which it returned `true` before are released.
    pub fn release_while(&mut self, mut passed: impl FnMut(&T) -> bool) -> u64 {
        let mut released = 0;
        while self.oldest().is_some_and(&mut passed) {
            released += self.release_oldest().map_or(0, |(_, units)| units);
        }
        released
    }

    /// Capacity of the buffer, in units.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units in use, padding and skipped tails included.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.head.wrapping_sub(self.tail)
    }

    /// Units not in use. A request of this size may still fail, because it may have to begin at offset 0.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.capacity - self.used()
    }

    /// Contiguous free units at `head_offset`.
    const fn free_in_one_piece(&self) -> u64 {
        let (free, before_end) = (self.free(), self.capacity - self.head_offset);
        if free < before_end { free } else { before_end }
    }

    /// Returns `true` if no unit is in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The largest number of units that were in use at once, for choosing the capacity.
    #[must_use]
    pub const fn high_water(&self) -> u64 {
        let used = self.used();
        if used > self.high_water { used } else { self.high_water }
    }

    /// Number of entries in use. This is the number of submissions, if each allocates in one run.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// Returns `true` while this range of this ring is in use, and `false` once its entry was released, even if the
    /// space was allocated again. O(1). Ranges of another ring are not detected.
    #[must_use]
    pub const fn is_live(&self, range: &RingRange) -> bool {
        range.position.wrapping_sub(self.tail) < self.used()
    }

    /// Iterates over the entries with their positions and offsets, oldest first, for reports.
    pub fn iter(&self) -> impl Iterator<Item = Submission<'_, T>> {
        let (mut position, mut offset) = (self.tail, self.tail_offset());
        self.runs().map(move |(tag, end)| {
            let size = end.wrapping_sub(position);
            let submission = Submission { tag, position, offset, size, capacity: self.capacity };
            (position, offset) = (end, self.advance(offset, size));
            submission
        })
    }

    /// Iterates over the entries, oldest first: tag and position after the last unit.
    fn runs(&self) -> impl Iterator<Item = (&T, u64)> {
        let newest = self.newest.iter().map(|tag| (tag, self.head));
        self.older.iter().map(|entry| (&entry.tag, entry.end)).chain(newest)
    }

    /// Offset of the oldest entry; `head_offset` if the ring is empty or full.
    const fn tail_offset(&self) -> u64 {
        self.advance(self.head_offset, self.free())
    }

    /// Advances `offset` (below the capacity) by `units` (at most the capacity), around the end.
    const fn advance(&self, offset: u64, units: u64) -> u64 {
        let before_end = self.capacity - offset;
        if units < before_end { offset + units } else { units - before_end }
    }

    /// Checks all rules of the structure. O(entries): for tests.
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

/// An allocated part of the ring. A plain value that is not freed individually: releasing its entry frees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RingRange {
    offset: u64,
    size: u64,
    position: u64,
}

impl RingRange {
    /// First unit in the buffer, a multiple of the requested alignment.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Size in units, as requested. The units are contiguous.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// First unit after the range; at most the capacity.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// Position of the range among all units that the ring ever allocated; unique in this ring.
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
    /// Position of its first unit, padding included.
    pub position: u64,
    /// Offset of its first unit, padding included.
    pub offset: u64,
    /// Size in units, padding and skipped tail included.
    pub size: u64,
    /// Capacity of the ring, at which the first of two extents ends.
    capacity: u64,
}

impl<T> Submission<'_, T> {
    /// Returns the parts of the buffer that the entry uses, padding included: one extent, or two if it wraps around the
    /// end.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + use<T> {
        let first = self.size.min(self.capacity - self.offset);
        let stretches = [Extent { offset: self.offset, size: first }, Extent { offset: 0, size: self.size - first }];
        stretches.into_iter().filter(|extent| extent.size > 0)
    }
}

/// A contiguous part of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First unit.
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
    /// The request is larger than the whole ring: waiting does not help, a larger ring does.
    TooLarge {
        /// Requested size, in units.
        size: u64,
        /// Capacity of the ring, in units.
        capacity: u64,
    },
    /// Too many units are in use. The request fits once enough entries are released, at the latest when the ring is
    /// empty.
    Full {
        /// Requested size, in units.
        size: u64,
        /// Requested alignment, in units.
        alignment: u64,
        /// Units that would be lost before it, to alignment or at the end of the buffer: `padding + size > free`.
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
