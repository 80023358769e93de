//! A ring whose parts are in use until the submission that wrote them has passed.
//!
//! ```text
//!   positions: they only rise
//!
//!        tail                                         head
//!         ├─ frame 3 ─┬──────── frame 4 ────────┬─ 5 ──┤        each entry: (tag, position where its data ends)
//!         │           │                         │      │
//!   offsets: where that lies in the buffer
//!
//!   0                                                     capacity
//!   ├────────────┬──────┬──────────┬───────────┬─────────────┤
//!   │ frame 4    │ 5    │   free   │ frame 3   │ frame 4  ▒▒ │    ▒▒ the tail of the buffer that frame 4 skipped,
//!   └────────────┴──────┴──────────┴───────────┴─────────────┘       because its next request did not fit there
//!                       ▲          ▲
//!                       │          └ where tail lies: head_offset - used, around the end
//!                       └ head_offset
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`Ring::allocate`] | O(1): no division, one comparison of tags; host allocation only at a record of entries |
//! | [`Ring::release_oldest`] | O(1) |
//! | [`Ring::release_while`] | O(1) for each entry released, and one call of the predicate more |
//! | [`Ring::iter`] | O(1) an entry |
//! | [`Ring::validate`] | O(entries) |
//!
//! `head - tail` is what is in use, 0 when empty and `capacity` when full, so the two are never confused. What an
//! alignment pads and what is skipped at the end of the buffer is in use too: it belongs to the submission whose
//! request caused it and is released with it. A failed call changes nothing.
//!
//! Entries are released *in order*, as the ring has one tail: one whose submission has passed waits behind one that
//! has not. What should go back out of order belongs in pages ([`crate::linear`]) on a [`crate::retire`] queue.
//!
//! Positions are 64-bit: at 100 GB/s they last for five years. They are not made to wrap.

use crate::range::Invalid;
use alloc::collections::VecDeque;
use core::fmt;

/// The bookkeeping of a ring buffer; the buffer itself is elsewhere.
///
/// `T` tags the submission that a part belongs to: a frame number, or the [`crate::sync::SyncSet`] that must pass.
/// The ring never looks into it, waits for nothing, and does not know what has been submitted: before waiting for
/// [`Ring::oldest`], the caller makes sure that it will ever be signalled.
///
/// ```
/// # use ringfence_core::ring::{Ring, RingError};
/// let mut ring = Ring::new(1024);
/// let vertices = ring.allocate(300, 4, &1)?;
/// let constants = ring.allocate(256, 256, &1)?;
/// assert_eq!((vertices.offset(), constants.offset()), (0, 512));
/// assert_eq!(ring.used(), 768, "with 212 of padding");
/// assert!(matches!(ring.allocate(512, 4, &2), Err(RingError::Full { free: 256, .. })));
/// assert_eq!(ring.release_while(|&frame| frame <= 1), 768);
/// # Ok::<(), RingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ring<T> {
    capacity: u64,
    /// Where the next allocation begins, before padding: all units ever allocated. `head - tail <= capacity`.
    head: u64,
    /// Where the oldest entry begins: all units ever released. Equals `head` iff the ring is empty.
    tail: u64,
    /// Where `head` lies: below `capacity`, and 0 whenever the ring is empty, so that the largest request fits then.
    head_offset: u64,
    /// Units that are free and lie in one piece from `head_offset` on, or fewer: 0 where the head has just come around.
    /// As long as a request fits there, nothing else is looked at.
    room: u64,
    /// The largest `head - tail` before the last release. It falls only there, so allocating need not look.
    high_water: u64,
    /// One for each run of equal tags but the newest, oldest first. `end` rises strictly from `tail` to below `head`.
    older: VecDeque<Entry<T>>,
    /// The tag of the newest run, which ends at `head`; `None` iff the ring is empty. Apart from the others, so that
    /// allocating writes nothing but the head.
    newest: Option<T>,
}

/// Where a request goes.
struct Place {
    offset: u64,
    /// Units that are lost before it.
    padding: u64,
    /// What [`Ring::room`] is afterwards.
    room: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    tag: T,
    /// The position after its last unit.
    end: u64,
}

impl<T: PartialEq + Clone> Ring<T> {
    /// Allocates `size` units whose offset is a multiple of `alignment`, for the submission `tag`.
    ///
    /// If `tag` equals that of the newest entry, the entry grows; else a new one begins. Padding counts
    /// for the same entry. O(1); the tag is cloned only if an entry begins (a `SyncSet` over more than four timelines
    /// allocates on the host then).
    ///
    /// # Errors
    /// [`RingError::ZeroSize`], [`RingError::BadAlignment`]; [`RingError::TooLarge`] if even an empty ring could not
    /// hold it, so that no caller waits for what cannot come; [`RingError::Full`] if releasing entries would
    /// help. The ring is as it was before the call.
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
    /// An empty ring of `capacity` units: any number, not only a power of two. A ring of 0 units refuses all
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

    /// The same, with memory for eight open submissions: no call allocates on the host until there are more. With
    /// [`new`](Self::new) that happens where the second one opens, which may be late, on a day when the GPU is slow.
    #[must_use]
    pub fn for_frames(capacity: u64) -> Self {
        Self { older: VecDeque::with_capacity(8), ..Self::new(capacity) }
    }

    /// Where a request goes that fits before anything else is looked at.
    #[inline]
    fn place_in_room(&self, size: u64, alignment: u64) -> Option<Place> {
        // Of a power of two; anything else is refused here.
        let padding = self.head_offset.wrapping_neg() & alignment.wrapping_sub(1);
        // A size of 0 wraps around, and fits nowhere.
        let fits = alignment.is_power_of_two() && padding <= self.room && size.wrapping_sub(1) < self.room - padding;
        fits.then(|| Place { offset: self.head_offset + padding, padding, room: self.room - padding - size })
    }

    /// At the start of the buffer, if it does not fit before the end; or why not at all.
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
        // In two steps, as the sum of both may be above `u64::MAX`.
        if padding > free || size > free - padding {
            return Err(RingError::Full { size, alignment, padding, free, capacity });
        }
        // It begins at 0: whatever else fits is placed in the room. So all that is free lies behind it, in one piece.
        Ok(Place { offset, padding, room: free - padding - size })
    }

    /// The tag of the oldest entry: what to wait for if space is short. O(1).
    #[must_use]
    pub fn oldest(&self) -> Option<&T> {
        self.older.front().map(|entry| &entry.tag).or(self.newest.as_ref())
    }

    /// Releases the oldest entry, whatever its tag: its submission has passed, or never will. Gives its tag and how
    /// many units became free, padding included; `None` if the ring is empty. O(1).
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

    /// Releases entries, oldest first, up to the first whose tag has not `passed`. Gives how many units became free,
    /// padding included. O(1) an entry.
    ///
    /// If `passed` panics, what it said yes to before is released.
    pub fn release_while(&mut self, mut passed: impl FnMut(&T) -> bool) -> u64 {
        let mut released = 0;
        while self.oldest().is_some_and(&mut passed) {
            released += self.release_oldest().map_or(0, |(_, units)| units);
        }
        released
    }

    /// Units of the buffer.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units in use, padding and skipped tails included.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.head.wrapping_sub(self.tail)
    }

    /// Units not in use. A request of this size need not fit: it may have to begin at offset 0.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.capacity - self.used()
    }

    /// Units that are free and lie in one piece from `head_offset` on.
    const fn free_in_one_piece(&self) -> u64 {
        let (free, before_end) = (self.free(), self.capacity - self.head_offset);
        if free < before_end { free } else { before_end }
    }

    /// Whether nothing is in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The most that was ever in use at once: what to plan the capacity from.
    #[must_use]
    pub const fn high_water(&self) -> u64 {
        let used = self.used();
        if used > self.high_water { used } else { self.high_water }
    }

    /// How many entries are in use: submissions, as long as each allocates in one run.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// Whether this range of this ring is still in use: false once its entry was released, however often its space
    /// was handed out since. O(1). A range of another ring is not recognised as such.
    #[must_use]
    pub const fn is_live(&self, range: &RingRange) -> bool {
        range.position.wrapping_sub(self.tail) < self.used()
    }

    /// The entries, oldest first, and where they lie: for reports.
    pub fn iter(&self) -> impl Iterator<Item = Submission<'_, T>> {
        let (mut position, mut offset) = (self.tail, self.tail_offset());
        self.runs().map(move |(tag, end)| {
            let size = end.wrapping_sub(position);
            let submission = Submission { tag, position, offset, size, capacity: self.capacity };
            (position, offset) = (end, self.advance(offset, size));
            submission
        })
    }

    /// The tag of each entry and the position after its last unit, oldest first.
    fn runs(&self) -> impl Iterator<Item = (&T, u64)> {
        let newest = self.newest.iter().map(|tag| (tag, self.head));
        self.older.iter().map(|entry| (&entry.tag, entry.end)).chain(newest)
    }

    /// Where the oldest entry begins; `head_offset` if there is none, or if the ring is full.
    const fn tail_offset(&self) -> u64 {
        self.advance(self.head_offset, self.free())
    }

    /// `units` (at most the capacity) after `offset` (below the capacity), around the end.
    const fn advance(&self, offset: u64, units: u64) -> u64 {
        let before_end = self.capacity - offset;
        if units < before_end { offset + units } else { units - before_end }
    }

    /// Checks every rule of the structure. O(entries): for tests.
    ///
    /// # Errors
    /// The first rule that does not hold, and the position, offset or number that breaks it.
    pub fn validate(&self) -> Result<(), Invalid>
    where
        T: PartialEq,
    {
        let used = self.used();
        Invalid::unless(used <= self.capacity, "no more is in use than there is", used)?;
        let offset = self.head_offset;
        Invalid::unless(offset < self.capacity.max(1), "the head lies inside the buffer", offset)?;
        Invalid::unless(used > 0 || offset == 0, "an empty ring begins at offset 0", offset)?;
        let room = self.room;
        Invalid::unless(room <= self.free_in_one_piece(), "what is given without a look is free", room)?;
        let high_water = self.high_water;
        Invalid::unless(high_water <= self.capacity, "the high-water mark is within the capacity", high_water)?;
        let (mut end, mut before) = (0, None);
        for (index, (tag, run_end)) in self.runs().enumerate() {
            let run_end = run_end.wrapping_sub(self.tail);
            Invalid::unless(run_end > end, "each entry holds at least one unit", index as u64)?;
            Invalid::unless(before != Some(tag), "a run of equal tags is one entry", index as u64)?;
            (end, before) = (run_end, Some(tag));
        }
        Invalid::unless(self.newest.is_some() == (used > 0), "there is a newest entry iff anything is in use", used)?;
        Invalid::unless(end == used, "the last entry ends at the head", end)
    }
}

/// An allocated part of the ring. A plain value that is not freed by itself: the release of its entry frees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RingRange {
    offset: u64,
    size: u64,
    position: u64,
}

impl RingRange {
    /// The first unit in the buffer, a multiple of the alignment that was asked for.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// As many units as were asked for; they lie in one piece.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The first unit after the range; at most the capacity.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// Where the range stands among all units that the ring ever handed out: no other range has this number.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }
}

/// An entry of the ring as [`Ring::iter`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a, T> {
    /// The tag that it was allocated for.
    pub tag: &'a T,
    /// The position where it begins, padding included.
    pub position: u64,
    /// The offset where it begins, padding included.
    pub offset: u64,
    /// Its units, padding and skipped tail included.
    pub size: u64,
    /// Of the ring: where the first extent ends if there are two.
    capacity: u64,
}

impl<T> Submission<'_, T> {
    /// Where it lies in the buffer: one stretch, or two if it goes around the end. Padding is included.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + use<T> {
        let first = self.size.min(self.capacity - self.offset);
        let stretches = [Extent { offset: self.offset, size: first }, Extent { offset: 0, size: self.size - first }];
        stretches.into_iter().filter(|extent| extent.size > 0)
    }
}

/// A stretch of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First unit.
    pub offset: u64,
    /// Units; at least 1.
    pub size: u64,
}

/// Why nothing was allocated. The ring is as it was before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// A size of 0 was asked for.
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// What was asked for, in units.
        alignment: u64,
    },
    /// More was asked for than the ring holds: no wait would help, a larger ring would.
    TooLarge {
        /// What was asked for, in units.
        size: u64,
        /// What the ring holds when empty, in units.
        capacity: u64,
    },
    /// Too much is in use: releasing entries helps, and once all are released the request fits.
    Full {
        /// What was asked for, in units.
        size: u64,
        /// The alignment asked for, in units.
        alignment: u64,
        /// Units that would be lost before it, to alignment or at the end of the buffer: `padding + size > free`.
        padding: u64,
        /// Units that are not in use.
        free: u64,
        /// What the ring holds when empty, in units.
        capacity: u64,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroSize => f.write_str("a range of size 0 was asked for"),
            Self::BadAlignment { alignment } => write!(f, "the alignment {alignment} is not a power of two"),
            Self::TooLarge { size, capacity } => {
                write!(f, "{size} units were asked for, the whole ring has {capacity}")
            }
            Self::Full { size, alignment, padding, free, capacity } => write!(
                f,
                "the ring has no room for {size} units aligned to {alignment} after {padding} of padding: \
                 {free} of {capacity} are free"
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
        // The aligned offset and `padding + size` are both above u64::MAX.
        assert!(matches!(ring.allocate(u64::MAX, 1 << 63, &9), Err(RingError::Full { padding: 1, free: 1, .. })));
    }
}
