//! The contract that every range allocator here keeps.
//!
//! ```text
//!   0                                             capacity
//!   ├───────┬────────────┬──────┬──────────────────────┤
//!   │ used  │   free     │ used │        free          │   spans, in address order, covering everything
//!   └───────┴────────────┴──────┴──────────────────────┘
//!     │
//!     └─ Range { offset, size, slot, serial }: what the caller holds
//! ```
//!
//! A [`Range`] carries a *serial number that no other allocation of the process ever has*: each allocator draws blocks
//! of 2²⁴ numbers from one counter. Freeing a range compares one 64-bit number, which distinguishes a live range from
//! one that was freed already, from one that another allocator made, and from a forged one. No number comes again: a
//! process that has drawn 2³⁸ blocks panics, at a thousand allocators a second after eight years.
//!
//! Sizes, offsets and alignments are in *units*: bytes for memory, slots for descriptors.

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

/// A part of a heap that an allocator has allocated.
///
/// A plain value: copying it does not copy the right to the space. The allocator that made it frees it once; every
/// later attempt, and an attempt on any other allocator, is refused with a [`FreeError`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    offset: u64,
    size: u64,
    serial: Serial,
    slot: u32,
}

impl Range {
    /// For implementers of the contract: names a range by where it lies and by how its allocator finds it again.
    #[must_use]
    pub const fn new(offset: u64, size: u64, slot: u32, serial: Serial) -> Self {
        Self { offset, size, serial, slot }
    }

    /// The first unit of the range, a multiple of the requested alignment.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The size in units, as requested; the allocator may have reserved more.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The first unit after the range.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }

    /// The allocator's own index for the range.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// The number that this allocation alone has.
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

/// The number of one allocation, unique in the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Serial(NonZeroU64);

impl Serial {
    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// A serial from its number; `None` for 0. For structures that store the number and for tests that forge one.
    #[must_use]
    pub const fn from_u64(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Number of its block: one allocator draws the numbers of a block.
    #[doc(hidden)]
    #[must_use]
    pub const fn block(self) -> u64 {
        self.0.get() >> BLOCK_BITS
    }
}

/// Hands out serial numbers: one of these in each allocator.
#[derive(Debug)]
pub struct Serials {
    /// The next number; where a block begins, that of another block.
    next: u64,
}

const BLOCK_BITS: u32 = 24;

impl Serials {
    /// Numbers in a block. With blocks of 2²⁴ numbers, a process does not run out of blocks.
    #[doc(hidden)]
    pub const BLOCK: u64 = 1 << BLOCK_BITS;
    /// No number above this is drawn: structures use the bits above for marks of their own.
    #[doc(hidden)]
    pub const MAX: u64 = u64::MAX >> 2;

    /// A source that has drawn nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// The next number. O(1); touches memory shared between threads once in 2²⁴ calls.
    #[inline]
    pub fn draw(&mut self) -> Serial {
        let number = match NonZeroU64::new(self.next) {
            Some(number) if !self.next.is_multiple_of(Serials::BLOCK) => number,
            _ => next_block(),
        };
        self.next = number.get() + 1;
        Serial(number)
    }

    /// Whether `serial` came from the block that this source draws from now. False for another allocator's ranges
    /// (and for ranges more than 2²⁴ allocations old).
    #[must_use]
    pub fn drew(&self, serial: Serial) -> bool {
        serial.block() == self.next.wrapping_sub(1) >> BLOCK_BITS
    }

    /// The error for a range that is not live: [`FreeError::Stale`] or [`FreeError::Foreign`].
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
    /// Returns the first number of `count` consecutive blocks that no other source has. Inlined: otherwise its callers save
    /// registers on every path for a call that is rare.
    ///
    /// # Panics
    /// If the process has drawn 2³⁸ blocks.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn next_blocks(count: u64) -> NonZeroU64 {
        static BLOCKS: AtomicU64 = AtomicU64::new(1);
        let block = BLOCKS.fetch_add(count, Ordering::Relaxed);
        // Numbers that come again would let one allocator take another's allocation for its own.
        assert!(block + count <= Self::MAX >> BLOCK_BITS, "a process draws fewer than 2^38 blocks of serial numbers");
        NonZeroU64::new(block << BLOCK_BITS).expect("they begin at 1")
    }
}

/// Why nothing was allocated. The allocator is as it was before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// A size of 0 was asked for.
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// What was asked for, in units.
        alignment: u64,
    },
    /// The request is larger than the empty allocator.
    TooLarge {
        /// What was asked for, in units.
        size: u64,
        /// What the allocator holds when empty, in units.
        capacity: u64,
    },
    /// No free span fits at present.
    OutOfSpace {
        /// What was asked for, in units.
        size: u64,
        /// The alignment asked for, in units.
        alignment: u64,
        /// Free units, all spans together.
        free: u64,
        /// The longest free span, in units.
        largest_free: u64,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroSize => f.write_str("a range of size 0 was asked for"),
            Self::BadAlignment { alignment } => write!(f, "the alignment {alignment} is not a power of two"),
            Self::TooLarge { size, capacity } => {
                write!(f, "{size} units were asked for, the whole capacity is {capacity}")
            }
            Self::OutOfSpace { size, alignment, free, largest_free } => {
                write!(
                    f,
                    "no free span holds {size} units aligned to {alignment}: {free} free, the longest span \
                     {largest_free}"
                )
            }
        }
    }
}

impl core::error::Error for AllocError {}

/// Why a range was not freed. The allocator is as it was before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// This allocator made the range, and it was freed already.
    Stale {
        /// First unit of the refused range.
        offset: u64,
        /// Units of the refused range.
        size: u64,
    },
    /// This allocator never made such a range (or more than 2²⁴ allocations ago).
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
                write!(f, "the range of {size} units at offset {offset} was given back already")
            }
            Self::Foreign { offset, size } => {
                write!(f, "the range of {size} units at offset {offset} is not of this allocator")
            }
        }
    }
}

impl core::error::Error for FreeError {}

/// What `validate` found wrong: a defect of the structure itself, never of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// The rule that does not hold.
    pub rule: &'static str,
    /// Where: an offset or an index, as the rule says.
    pub at: u64,
}

impl Invalid {
    /// `Ok` if the rule holds.
    ///
    /// # Errors
    /// The rule and the place, if it does not.
    pub fn unless(holds: bool, rule: &'static str, at: u64) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { rule, at }) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.rule, self.at)
    }
}

impl core::error::Error for Invalid {}

/// An allocator that frees exactly what it has allocated.
pub trait Allocate {
    /// What is handed out.
    type Allocation;
    /// Why nothing was.
    type Error;

    /// Allocates `size` units whose first is a multiple of `alignment`.
    ///
    /// # Errors
    /// A size of 0, an alignment that is not a power of two, or no room. A failed call changes nothing.
    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Self::Allocation, Self::Error>;

    /// Takes an allocation back.
    ///
    /// # Errors
    /// The allocation was freed already or was made elsewhere; nothing has changed then.
    fn free(&mut self, allocation: Self::Allocation) -> Result<(), FreeError>;
}

/// An allocator of ranges inside `0..capacity`.
pub trait RangeAllocator: Allocate<Allocation = Range, Error = AllocError> {
    /// Units it holds when empty.
    fn capacity(&self) -> u64;

    /// Units in free spans: `capacity` less what is set aside, rounding included.
    fn free_size(&self) -> u64;

    /// The largest size that [`Allocate::allocate`] would grant now with an alignment of 1, or more than that by
    /// less than a size class. 0 iff nothing can be allocated.
    fn largest_free(&self) -> u64;

    /// Whether a request of `size` may be granted now with an alignment of 1: false only if it would be refused. For
    /// a caller with several allocators to ask, where [`RangeAllocator::largest_free`] costs more than a yes or no.
    fn may_hold(&self, size: u64) -> bool {
        size <= self.largest_free()
    }

    /// Ranges that are handed out now.
    fn live_count(&self) -> usize;

    /// Whether nothing is handed out.
    fn is_empty(&self) -> bool {
        self.live_count() == 0
    }

    /// Whether this very range is handed out now. O(1).
    fn is_live(&self, range: &Range) -> bool;

    /// Every span, free and used, in address order without a gap. O(spans).
    fn for_each_span(&self, visit: &mut dyn FnMut(Span));

    /// Checks every rule of the structure. O(spans) or worse: for tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn validate(&self) -> Result<(), Invalid>;
}

/// A range allocator that says where it would put a range, without doing so.
pub trait Peek: RangeAllocator {
    /// The offset that [`Allocate::allocate`] would give now; `None` if it would refuse. Costs what a call of it costs.
    fn peek(&self, size: u64, alignment: u64) -> Option<u64>;

    /// The same of an allocation from the high end, where there is one.
    fn peek_high(&self, size: u64, alignment: u64) -> Option<u64> {
        self.peek(size, alignment)
    }
}

/// A stretch of the heap as [`RangeAllocator::for_each_span`] shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First unit.
    pub offset: u64,
    /// Units, rounding included.
    pub size: u64,
    /// The [`Range::slot`] of the range that lives here; `None` if the span is free. A freed range that no request can
    /// have yet still shows its slot.
    pub slot: Option<u32>,
}

/// Rejects what no allocator can serve. Each implementation calls this first.
///
/// # Errors
/// Size 0, an alignment that is not a power of two, a size above the capacity.
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

/// `value` rounded up to a multiple of `alignment` (a power of two); `None` if that is above `u64::MAX`.
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
