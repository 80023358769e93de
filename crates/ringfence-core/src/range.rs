//! The contract of all range allocators in this crate.
//!
//! ```text
//!   0                                             capacity
//!   ├───────┬────────────┬──────┬──────────────────────┤
//!   │ used  │   free     │ used │        free          │   spans, in address order, without gaps
//!   └───────┴────────────┴──────┴──────────────────────┘
//!     │
//!     └─ Range { offset, size, slot, serial }: the caller's handle
//! ```
//!
//! A [`Range`] has a *serial number that no other allocation of the process ever has*: each allocator takes blocks of
//! 2²⁴ numbers from one counter of the process. A call that frees a range compares the serial number and the offset of
//! the range with those of the live range in the same slot. So the call refuses a range that was freed already, a range
//! of another allocator, and a forged range. No number is reused: after 2³⁸ blocks, a call that needs a further block
//! panics.
//!
//! Sizes, offsets and alignments are in *units*: bytes for memory, slots for descriptors.

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

/// A part of a heap that an allocator has allocated.
///
/// A range is a plain value: a copy refers to the same space. The allocator that returned the range frees it once.
/// Every later free, and every free on another allocator, fails with a [`FreeError`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    offset: u64,
    size: u64,
    serial: Serial,
    slot: u32,
}

impl Range {
    /// Creates a range at `offset`. Only implementations of [`Allocate`] need this function: `slot` is the allocator's
    /// own index for the range.
    #[must_use]
    pub const fn new(offset: u64, size: u64, slot: u32, serial: Serial) -> Self {
        Self { offset, size, serial, slot }
    }

    /// Returns the first unit of the range, a multiple of the requested alignment.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size, in units: the requested size, or for [`EqualBlocks`](crate::algorithm::EqualBlocks) the size
    /// of a block. The allocator may have reserved more units.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the first unit after the range.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// Returns the allocator's own index for the range.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns the serial number, which no other allocation of the process has.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range({}..{} #{})", self.offset, self.offset.saturating_add(self.size), self.serial.0)
    }
}

/// Serial number of one allocation, unique in the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Serial(NonZeroU64);

impl Serial {
    /// Returns the serial as an integer.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Converts an integer to a serial. Returns `None` for 0. Used by structures that store serials as integers, and by
    /// tests that forge a serial.
    #[must_use]
    pub const fn from_u64(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the index of the block of numbers that contains this serial.
    #[doc(hidden)]
    #[must_use]
    pub const fn block(self) -> u64 {
        self.0.get() >> BLOCK_BITS
    }
}

/// Source of serial numbers; each allocator has one.
#[derive(Debug)]
pub struct Serials {
    /// The next number of the block. If it is a multiple of [`Serials::BLOCK`], the block has no number left, and the
    /// next call of [`draw`](Self::draw) takes a new block.
    next: u64,
}

const BLOCK_BITS: u32 = 24;

impl Serials {
    /// Number of serials in a block.
    #[doc(hidden)]
    pub const BLOCK: u64 = 1 << BLOCK_BITS;
    /// Upper bound of all serials. Structures use the two bits above it for flags.
    #[doc(hidden)]
    pub const MAX: u64 = u64::MAX >> 2;

    /// Creates a source without a block. The first [`draw`](Self::draw) takes a block from the counter of the process.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// Returns the next number. O(1). One of 2²⁴ calls accesses the counter that all threads share.
    ///
    /// # Panics
    /// If a new block is needed and the process has drawn 2³⁸ blocks.
    #[inline]
    pub fn draw(&mut self) -> Serial {
        let number = match NonZeroU64::new(self.next) {
            Some(number) if !self.next.is_multiple_of(Serials::BLOCK) => number,
            _ => next_block(),
        };
        self.next = number.get() + 1;
        Serial(number)
    }

    /// Returns `true` if `serial` is from the current block of this source. Returns `false` for a serial of another
    /// allocator, and for a serial from an earlier block of this source. A block has 2²⁴ numbers.
    #[must_use]
    pub fn drew(&self, serial: Serial) -> bool {
        serial.block() == self.next.wrapping_sub(1) >> BLOCK_BITS
    }

    /// Returns the error for a range that is not live: [`FreeError::Stale`] or [`FreeError::Foreign`].
    #[must_use]
    pub fn refuse(&self, range: &Range) -> FreeError {
        let (offset, size) = (range.offset, range.size);
        if self.drew(range.serial) { FreeError::Stale { offset, size } } else { FreeError::Foreign { offset, size } }
    }
}

impl Default for Serials {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
#[inline(never)]
fn next_block() -> NonZeroU64 {
    Serials::next_blocks(1)
}

impl Serials {
    /// Draws `count` consecutive blocks and returns the first number of the first block. Inlined, because a call would
    /// make the caller save registers on the common path.
    ///
    /// # Panics
    /// If the process has drawn 2³⁸ blocks.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn next_blocks(count: u64) -> NonZeroU64 {
        static BLOCKS: AtomicU64 = AtomicU64::new(1);
        let block = BLOCKS.fetch_add(count, Ordering::Relaxed);
        // Reused numbers would let one allocator accept another's allocation.
        assert!(block + count <= Self::MAX >> BLOCK_BITS, "the process has drawn all 2^38 blocks of serial numbers");
        NonZeroU64::new(block << BLOCK_BITS).expect("block numbers start at 1")
    }
}

/// Error of a failed allocation. No range is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The requested size is 0.
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// Requested alignment, in units.
        alignment: u64,
    },
    /// The requested size exceeds the largest size that the empty allocator can grant.
    TooLarge {
        /// Requested size, in units.
        size: u64,
        /// This largest size, in units: the capacity, or the size of a block.
        capacity: u64,
    },
    /// No free span fits the request now.
    OutOfSpace {
        /// Requested size, in units.
        size: u64,
        /// Requested alignment, in units.
        alignment: u64,
        /// Total size of all free spans, in units.
        free: u64,
        /// [`RangeAllocator::largest_free`] of the allocator, in units.
        largest_free: u64,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroSize => f.write_str("the requested size is 0; request at least 1 unit"),
            Self::BadAlignment { alignment } => write!(f, "the requested alignment {alignment} is not a power of two"),
            Self::TooLarge { size, capacity } => {
                write!(f, "{size} units were requested, but the whole capacity is {capacity}")
            }
            Self::OutOfSpace { size, alignment, free, largest_free } => {
                write!(
                    f,
                    "no free span fits {size} units aligned to {alignment}: {free} are free, the longest span has \
                     {largest_free}"
                )
            }
        }
    }
}

impl core::error::Error for AllocError {}

/// Error of a failed free. The allocator is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// This allocator allocated the range, and the range was freed already.
    Stale {
        /// First unit of the refused range.
        offset: u64,
        /// Units of the refused range.
        size: u64,
    },
    /// Another allocator allocated the range. Also reported for a freed range of this allocator, if its serial is from
    /// an earlier block of 2²⁴ numbers.
    Foreign {
        /// First unit of the refused range.
        offset: u64,
        /// Units of the refused range.
        size: u64,
    },
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stale { offset, size } => {
                write!(f, "the range of {size} units at offset {offset} was freed already")
            }
            Self::Foreign { offset, size } => {
                write!(f, "the range of {size} units at offset {offset} does not belong to this allocator")
            }
        }
    }
}

impl core::error::Error for FreeError {}

/// A violated rule that a `validate` method found: a defect of the structure, not of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// The violated rule.
    pub rule: &'static str,
    /// Offset, index or number that violates the rule. Its meaning depends on the rule.
    pub at: u64,
}

impl Invalid {
    /// Returns `Ok` if the rule holds.
    ///
    /// # Errors
    /// If the rule does not hold, an [`Invalid`] with the rule and `at`: the offset, index or number that violates the
    /// rule.
    pub fn unless(holds: bool, rule: &'static str, at: u64) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { rule, at }) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "violated rule: {} (at {})", self.rule, self.at)
    }
}

impl core::error::Error for Invalid {}

/// An allocator that frees only its own allocations, and refuses others.
pub trait Allocate {
    /// Type of an allocation.
    type Allocation;
    /// Error of a failed allocation.
    type Error;

    /// Allocates `size` units at an offset that is a multiple of `alignment`.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, or no free span fits. A failed call changes no allocation.
    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Self::Allocation, Self::Error>;

    /// Frees an allocation.
    ///
    /// # Errors
    /// The allocation was freed already, or belongs to another allocator. A failed call changes nothing.
    fn free(&mut self, allocation: Self::Allocation) -> Result<(), FreeError>;
}

/// An allocator of ranges inside `0..capacity`.
pub trait RangeAllocator: Allocate<Allocation = Range, Error = AllocError> {
    /// Returns the capacity, in units: the size of all spans together.
    fn capacity(&self) -> u64;

    /// Returns the total size of all free spans, in units: the capacity minus all reserved units, including rounding.
    fn free_size(&self) -> u64;

    /// Returns the largest size that [`Allocate::allocate`] would grant now with an alignment of 1, in units. An
    /// allocator with size classes may return a value that is too small by less than one class. Returns 0 if and only
    /// if no such request would be granted.
    fn largest_free(&self) -> u64;

    /// Returns `false` only if a request of `size` with an alignment of 1 would fail now. If the result is `true`, the
    /// request can still fail. For callers that search several allocators, this call can be cheaper than
    /// [`RangeAllocator::largest_free`].
    fn may_hold(&self, size: u64) -> bool {
        size <= self.largest_free()
    }

    /// Returns the number of live ranges.
    fn live_count(&self) -> usize;

    /// Returns `true` if no range is live.
    fn is_empty(&self) -> bool {
        self.live_count() == 0
    }

    /// Returns `true` if this range is live: it was allocated here and is not freed. O(1).
    fn is_live(&self, range: &Range) -> bool;

    /// Visits every span, free and used, in address order without gaps. O(spans).
    fn for_each_span(&self, visit: &mut dyn FnMut(Span));

    /// Checks all rules of the structure, for tests. O(spans) or slower.
    ///
    /// # Errors
    /// The first violated rule.
    fn validate(&self) -> Result<(), Invalid>;
}

/// A range allocator that can report the offset of the next allocation without allocating.
pub trait Peek: RangeAllocator {
    /// Returns the offset that [`Allocate::allocate`] would return now. Returns `None` if that call would fail. This
    /// call costs as much as that call, unless the implementation documents another cost.
    fn peek(&self, size: u64, alignment: u64) -> Option<u64>;

    /// Does the same as [`Peek::peek`] for an allocation from the high end. If the allocator cannot allocate from the
    /// high end, calls [`Peek::peek`].
    fn peek_high(&self, size: u64, alignment: u64) -> Option<u64> {
        self.peek(size, alignment)
    }
}

/// A span of the heap, as [`RangeAllocator::for_each_span`] reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First unit of the span.
    pub offset: u64,
    /// Size in units. For a range, it includes the units that were added by rounding.
    pub size: u64,
    /// The [`Range::slot`] of the range in this span; `None` if the span is free. If a range is freed but its units
    /// cannot be allocated yet, its span still has the slot.
    pub slot: Option<u32>,
}

/// Rejects requests that no allocator can serve. Each implementation of [`Allocate::allocate`] calls this function
/// first.
///
/// # Errors
/// The size is 0 or above the capacity, or the alignment is not a power of two.
pub const fn check_request(size: u64, alignment: u64, capacity: u64) -> Result<(), AllocError> {
    if size == 0 {
        return Err(AllocError::ZeroSize);
    }
    if !alignment.is_power_of_two() {
        return Err(AllocError::BadAlignment { alignment });
    }
    if size > capacity {
        return Err(AllocError::TooLarge { size, capacity });
    }
    Ok(())
}

/// Rounds `value` up to a multiple of `alignment` (a power of two). Returns `None` if the result exceeds `u64::MAX`.
#[must_use]
pub const fn align_up(value: u64, alignment: u64) -> Option<u64> {
    debug_assert!(alignment.is_power_of_two());
    match value.checked_add(alignment - 1) {
        Some(sum) => Some(sum & !(alignment - 1)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_unique_across_sources_and_block_ends() {
        let mut first = Serials::new();
        let mut second = Serials::new();
        let a = first.draw();
        let b = second.draw();
        assert_ne!(a, b);
        assert!(first.drew(a) && !first.drew(b) && second.drew(b));
        first.next = a.get() + Serials::BLOCK - 1;
        let last_of_block = first.draw();
        let first_of_next = first.draw();
        assert!(last_of_block.block() != first_of_next.block());
        assert!(!first.drew(last_of_block) && first.drew(first_of_next));
    }

    #[test]
    fn a_rule_that_does_not_hold_is_named() {
        assert_eq!(Invalid::unless(true, "a rule", 7), Ok(()));
        assert_eq!(Invalid::unless(false, "a rule", 7), Err(Invalid { rule: "a rule", at: 7 }));
    }

    #[test]
    fn align_up_reports_overflow() {
        assert_eq!(align_up(5, 4), Some(8));
        assert_eq!(align_up(8, 4), Some(8));
        assert_eq!(align_up(u64::MAX, 2), None);
    }
}
