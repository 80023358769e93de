//! A page whose parts are allocated one after another and freed together (a bump allocator).
//!
//! ```text
//!   0                                 used              capacity
//!   ├───────────┬─────┬─┬──────────────┼─────────────────────┤
//!   │     a     │  b  │▒│      c       │      remaining      │    ▒ padding before an aligned part
//!   └───────────┴─────┴─┴──────────────┴─────────────────────┘
//!                     ▲
//!                     └ Mark: `rewind` returns to here and frees c
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`Linear::allocate`] | O(1) |
//! | [`Linear::reset`], [`Linear::mark`], [`Linear::rewind`] | O(1) |
//!
//! No call allocates host memory. Single parts are not freed; the page is reset as a whole. While the GPU may still
//! read the page, the page belongs in a [`crate::retire`] queue.

use crate::range::{AllocError, align_up, check_request};
use core::fmt;

/// Bookkeeping of one page. It computes offsets; the memory of the page belongs to the caller.
///
/// ```
/// # use ringfence_core::linear::Linear;
/// # use ringfence_core::range::AllocError;
/// let mut page = Linear::new(64 << 10);
/// assert_eq!(page.allocate(100, 256), Ok(0));
/// assert_eq!(page.allocate(100, 256), Ok(256));
/// assert_eq!(page.used(), 356);
/// assert!(matches!(page.allocate(64 << 10, 1), Err(AllocError::OutOfSpace { .. })), "fits in a new page");
/// assert!(matches!(page.allocate(65 << 10, 1), Err(AllocError::TooLarge { .. })), "fits in no page");
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    capacity: u64,
    /// Number of allocated units, including padding: the offset of the next part before it is aligned. At most
    /// `capacity`.
    used: u64,
    /// Number of resets. A mark that was made before the last reset is refused.
    resets: u64,
}

impl Linear {
    /// Creates an empty page of `capacity` units.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity, used: 0, resets: 0 }
    }

    /// Allocates `size` units and returns their offset, a multiple of `alignment`. O(1).
    ///
    /// # Errors
    /// The size is 0, or the alignment is not a power of two; [`AllocError::TooLarge`] if the request does not fit in
    /// an empty page; [`AllocError::OutOfSpace`] if it does not fit in the rest of this page. A failed call changes
    /// nothing.
    pub const fn allocate(&mut self, size: u64, alignment: u64) -> Result<u64, AllocError> {
        if let Err(error) = check_request(size, alignment, self.capacity) {
            return Err(error);
        }
        match align_up(self.used, alignment) {
            Some(offset) if offset <= self.capacity - size => {
                self.used = offset + size;
                Ok(offset)
            }
            _ => {
                let free = self.remaining();
                Err(AllocError::OutOfSpace { size, alignment, free, largest_free: free })
            }
        }
    }

    /// Frees all parts. Earlier marks are refused afterwards. O(1).
    pub const fn reset(&mut self) {
        self.used = 0;
        self.resets += 1;
    }

    /// Returns the current state of the page, for [`Linear::rewind`]. O(1).
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { used: self.used, resets: self.resets }
    }

    /// Frees all parts that were allocated after the mark, so that the page can be used as a stack. Returns the number
    /// of units that became free, including padding. O(1).
    ///
    /// A mark can be used several times, until the page is rewound to an earlier mark.
    ///
    /// # Errors
    /// The page was reset after the mark was made, or fewer units are allocated than at the mark. A failed call changes
    /// nothing. If the page was rewound to an earlier mark and then filled beyond this mark, the mark is stale, but
    /// this is *not* detected.
    pub const fn rewind(&mut self, mark: Mark) -> Result<u64, StaleMark> {
        if mark.resets != self.resets || mark.used > self.used {
            return Err(StaleMark { mark: mark.used, used: self.used });
        }
        let released = self.used - mark.used;
        self.used = mark.used;
        Ok(released)
    }

    /// Returns the capacity of the page, in units.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of allocated units, including padding.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of units that are not allocated yet: the size of the largest request with an alignment of 1.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.capacity - self.used
    }

    /// Returns `true` if no unit is allocated.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }
}

/// A state of a page that [`Linear::rewind`] restores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    used: u64,
    resets: u64,
}

/// Error of [`Linear::rewind`]: the page cannot return to the mark. The page is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleMark {
    /// Number of units that were allocated when the mark was made.
    pub mark: u64,
    /// Number of units that are allocated now.
    pub used: u64,
}

impl fmt::Display for StaleMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the mark at {} is stale: the page was reset or rewound and is now at {}", self.mark, self.used)
    }
}

impl core::error::Error for StaleMark {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn parts_are_aligned_disjoint_and_inside() {
        // Every page of up to 40 units, filled by a fixed sequence until requests fail.
        for capacity in 1..40 {
            let mut page = Linear::new(capacity);
            let mut taken = Vec::new();
            for step in 0..64_u64 {
                let (size, alignment) = (1 + step * 5 % 7, 1 << (step % 4));
                let before = page.clone();
                match page.allocate(size, alignment) {
                    Ok(offset) => {
                        assert_eq!(offset % alignment, 0);
                        assert!(taken.last().is_none_or(|&end| end <= offset) && offset + size <= capacity);
                        assert_eq!(page.used(), offset + size);
                        taken.push(offset + size);
                    }
                    Err(error) => {
                        assert_eq!((page.used, page.resets), (before.used, before.resets), "{error}");
                        let start = before.used.next_multiple_of(alignment);
                        assert!(start + size > capacity, "refused, although it fits: {error}");
                        assert_eq!(matches!(error, AllocError::TooLarge { .. }), size > capacity);
                    }
                }
                assert_eq!(page.used() + page.remaining(), capacity);
            }
        }
    }

    #[test]
    fn what_no_page_can_serve_has_an_error_of_its_own() {
        let mut page = Linear::new(100);
        assert_eq!(page.allocate(0, 4), Err(AllocError::ZeroSize));
        assert_eq!(page.allocate(4, 3), Err(AllocError::BadAlignment { alignment: 3 }));
        assert_eq!(page.allocate(4, 0), Err(AllocError::BadAlignment { alignment: 0 }));
        assert_eq!(page.allocate(101, 1), Err(AllocError::TooLarge { size: 101, capacity: 100 }));
        assert_eq!(page.allocate(100, 1 << 63), Ok(0), "offset 0 has every alignment");
        let refusal = AllocError::OutOfSpace { size: 1, alignment: 1 << 63, free: 0, largest_free: 0 };
        assert_eq!(page.allocate(1, 1 << 63), Err(refusal));
    }

    #[test]
    fn the_largest_page_has_no_overflow() {
        let mut page = Linear::new(u64::MAX);
        assert_eq!(page.allocate(u64::MAX - 1, 1), Ok(0));
        assert!(matches!(page.allocate(1, 4), Err(AllocError::OutOfSpace { free: 1, .. })));
        assert_eq!(page.allocate(1, 1), Ok(u64::MAX - 1));
    }

    #[test]
    fn seed_004_14_a_64_kib_page_overflows_and_serves_again_after_a_reset() {
        let mut page = Linear::new(64 << 10);
        let fitting = (0..).take_while(|_| page.allocate(200, 256).is_ok()).count();
        assert_eq!(fitting, 256);
        assert!(matches!(page.allocate(200, 256), Err(AllocError::OutOfSpace { .. })), "the page is full");
        page.reset();
        assert_eq!((page.used(), page.allocate(64 << 10, 256)), (0, Ok(0)));
    }

    #[test]
    fn a_page_is_a_stack() {
        let mut page = Linear::new(100);
        let bottom = page.mark();
        page.allocate(10, 1).unwrap();
        let middle = page.mark();
        page.allocate(8, 16).unwrap();
        assert_eq!(page.rewind(middle), Ok(14), "with 6 units of padding");
        assert_eq!(page.rewind(middle), Ok(0));
        assert_eq!(page.rewind(bottom), Ok(10));
        assert_eq!(page.rewind(middle), Err(StaleMark { mark: 10, used: 0 }));
        page.reset();
        page.allocate(50, 1).unwrap();
        assert_eq!(page.rewind(bottom), Err(StaleMark { mark: 0, used: 50 }), "the mark is from before the reset");
        assert_eq!(page.used(), 50);
    }
}
