//! Range allocators whose algorithm is chosen at run time, for custom pools and virtual allocators.
//!
//! | algorithm | use it for | allocate, free |
//! |---|---|---|
//! | [`Algorithm::Tlsf`] | all sizes | O(1) |
//! | [`Algorithm::Buddy`] | sizes near powers of two | O(log n) |
//! | [`Algorithm::FreeList`] | little waste: exact best fit | O(log n) expected; more with large alignments |
//! | [`Algorithm::Equal`] | one size | O(1) amortised |
//! | [`Algorithm::Linear`] | ordered lifetimes: stack, double stack, ring | O(1) amortised |
//!
//! n is the number of ranges and free spans; for [`Algorithm::Buddy`], of granules.

use crate::blocks::{BlockSource, GrowableBlocks};
use crate::buddy::Buddy;
pub use crate::equal_blocks::EqualBlocks;
use crate::free_list::FreeList;
use crate::linear_ranges::LinearRanges;
use crate::range::{AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Span};
use crate::tlsf::Tlsf;
use core::convert::Infallible;
use core::fmt;

/// The algorithm that divides a heap into ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// Two-level segregated fit ([`Tlsf`]): for requests of all sizes.
    #[default]
    Tlsf,
    /// Powers of two in a binary tree ([`Buddy`]).
    Buddy {
        /// Size of the smallest block, in units: a power of two. A heap has at most 2²⁹ granules, and at most 2⁶³
        /// units. Each granule takes 16 to 20 bytes of host memory.
        granule: u64,
    },
    /// Exact best fit ([`FreeList`]).
    FreeList,
    /// Stack, double stack or ring ([`LinearRanges`]).
    Linear,
    /// Blocks of one size ([`EqualBlocks`]).
    Equal {
        /// Size of each block, in units.
        block_size: u64,
    },
}

impl Algorithm {
    /// Returns an upper bound of the heap sizes that the algorithm supports, in units: 2²⁹ granules for
    /// [`Algorithm::Buddy`], `u64::MAX` for the others.
    #[must_use]
    pub const fn capacity_max(self) -> u64 {
        match self {
            Self::Buddy { granule } => granule.saturating_mul(Buddy::GRANULES_MAX),
            _ => u64::MAX,
        }
    }
}

/// A range allocator of a chosen [`Algorithm`].
#[expect(clippy::large_enum_variant, reason = "the largest one, TLSF, is the usual one, and a box costs a cache miss")]
pub enum AnyAllocator {
    /// Allocator of [`Algorithm::Tlsf`].
    Tlsf(Tlsf),
    /// Allocator of [`Algorithm::Buddy`].
    Buddy(Buddy),
    /// Allocator of [`Algorithm::FreeList`].
    FreeList(FreeList),
    /// Allocator of [`Algorithm::Linear`].
    Linear(LinearRanges),
    /// Allocator of [`Algorithm::Equal`].
    Equal(EqualBlocks),
}

impl AnyAllocator {
    /// Creates an allocator of `capacity` units, all free.
    ///
    /// # Panics
    /// If one of these holds:
    ///
    /// - The capacity is 0, for [`Algorithm::Buddy`] or [`Algorithm::FreeList`].
    /// - The block size of [`Algorithm::Equal`] is 0.
    /// - For [`Algorithm::Buddy`]: the granule is not a power of two, the capacity exceeds 2⁶³, or there are more than
    ///   2²⁹ granules.
    #[must_use]
    pub fn new(algorithm: Algorithm, capacity: u64) -> Self {
        match algorithm {
            Algorithm::Tlsf => Self::Tlsf(Tlsf::new(capacity)),
            Algorithm::Buddy { granule } => Self::Buddy(Buddy::new(capacity, granule)),
            Algorithm::FreeList => Self::FreeList(FreeList::new(capacity)),
            Algorithm::Linear => Self::Linear(LinearRanges::new(capacity)),
            Algorithm::Equal { block_size } => Self::Equal(EqualBlocks::new(block_size, capacity)),
        }
    }

    /// Allocates from the high end if the algorithm is [`Algorithm::Linear`]; otherwise, calls [`Allocate::allocate`].
    ///
    /// # Errors
    /// The errors of [`Allocate::allocate`].
    pub fn allocate_high(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        match self {
            Self::Linear(linear) => linear.allocate_high(size, alignment),
            other => other.allocate(size, alignment),
        }
    }
}

/// Evaluates an expression with the allocator of the active variant.
macro_rules! each {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            AnyAllocator::Tlsf($inner) => $call,
            AnyAllocator::Buddy($inner) => $call,
            AnyAllocator::FreeList($inner) => $call,
            AnyAllocator::Linear($inner) => $call,
            AnyAllocator::Equal($inner) => $call,
        }
    };
}

impl Allocate for AnyAllocator {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        each!(self, inner => inner.allocate(size, alignment))
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        each!(self, inner => inner.free(range))
    }
}

impl RangeAllocator for AnyAllocator {
    fn capacity(&self) -> u64 {
        each!(self, inner => inner.capacity())
    }

    fn free_size(&self) -> u64 {
        each!(self, inner => inner.free_size())
    }

    fn largest_free(&self) -> u64 {
        each!(self, inner => inner.largest_free())
    }

    fn may_hold(&self, size: u64) -> bool {
        each!(self, inner => inner.may_hold(size))
    }

    fn live_count(&self) -> usize {
        each!(self, inner => inner.live_count())
    }

    fn is_live(&self, range: &Range) -> bool {
        each!(self, inner => inner.is_live(range))
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        each!(self, inner => inner.for_each_span(visit));
    }

    fn validate(&self) -> Result<(), Invalid> {
        each!(self, inner => inner.validate())
    }
}

impl Peek for AnyAllocator {
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        each!(self, inner => inner.peek(size, alignment))
    }

    fn peek_high(&self, size: u64, alignment: u64) -> Option<u64> {
        each!(self, inner => inner.peek_high(size, alignment))
    }
}

impl fmt::Debug for AnyAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, inner => inner.fmt(f))
    }
}

/// The block source of a [`VirtualAllocator`]. Its heaps are only numbers, counted from 0.
#[derive(Debug)]
pub struct VirtualBlocks {
    algorithm: Algorithm,
    made: u32,
}

impl BlockSource for VirtualBlocks {
    type Heap = u32;
    type Allocator = AnyAllocator;
    type Error = Infallible;

    fn create(&mut self, size: u64) -> Result<(u32, AnyAllocator), Infallible> {
        let number = self.made;
        self.made += 1;
        Ok((number, AnyAllocator::new(self.algorithm, size)))
    }

    fn destroy(&mut self, _block: u32) {}
}

/// A virtual allocator: divides a resource that this library does not manage into ranges, without a device. If no block
/// has room for a request, adds a block.
///
/// ```
/// use ringfence_core::algorithm::{Algorithm, VirtualAllocator, virtual_allocator};
/// use ringfence_core::blocks::BlocksDesc;
/// use ringfence_core::range::Allocate;
///
/// let mut vertices: VirtualAllocator =
///     virtual_allocator(Algorithm::Tlsf, BlocksDesc { basic_size: 1 << 16, ..Default::default() });
/// let mesh = vertices.allocate(40_000, 4)?;
/// let other = vertices.allocate(40_000, 4)?;
/// assert_ne!(vertices.heap(&mesh), vertices.heap(&other), "a second block was added");
/// vertices.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaVirtualBlock", "VirtualBlock"))]
pub type VirtualAllocator = GrowableBlocks<VirtualBlocks>;

/// Creates a [`VirtualAllocator`] without blocks.
#[must_use]
pub const fn virtual_allocator(algorithm: Algorithm, desc: crate::blocks::BlocksDesc) -> VirtualAllocator {
    GrowableBlocks::new(desc, VirtualBlocks { algorithm, made: 0 })
}

/// A range allocator that can be created for an [`Algorithm`]: [`AnyAllocator`] for any algorithm, or [`Tlsf`] for code
/// that uses only this algorithm.
pub trait Cutter: RangeAllocator + Peek {
    /// Creates an allocator of `capacity` units, all free. [`Tlsf`] ignores `algorithm`.
    fn cut(algorithm: Algorithm, capacity: u64) -> Self;

    /// Allocates from the high end if the algorithm is [`Algorithm::Linear`]; otherwise, at any offset. Returns `None`
    /// if the request fails.
    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range>;

    /// Allocates a range that ends at or below `limit`. Returns `None` if no such range is found, or if the algorithm
    /// is not [`Algorithm::Tlsf`].
    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range>;

    /// Returns the number of units that a live range occupies, including the units that were added by rounding. `slot`
    /// and `size` are those of the range. If the range was freed, the result has no meaning.
    fn taken(&self, slot: u32, size: u64) -> u64;

    /// Returns `true` if an allocator of `capacity` units, all free, would grant the request.
    fn would_hold(algorithm: Algorithm, capacity: u64, size: u64, alignment: u64) -> bool;
}

impl Cutter for Tlsf {
    fn cut(_: Algorithm, capacity: u64) -> Self {
        // Exact, because statistics add up the sizes of ranges.
        Self::exact(capacity)
    }

    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range> {
        self.allocate(size, alignment).ok()
    }

    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        Tlsf::allocate_below(self, size, alignment, limit)
    }

    #[inline]
    fn taken(&self, _slot: u32, size: u64) -> u64 {
        size // exact: see `cut`
    }

    fn would_hold(_: Algorithm, capacity: u64, size: u64, _alignment: u64) -> bool {
        capacity >= size
    }
}

impl Cutter for AnyAllocator {
    fn cut(algorithm: Algorithm, capacity: u64) -> Self {
        match algorithm {
            Algorithm::Tlsf => Self::Tlsf(Tlsf::cut(algorithm, capacity)),
            _ => Self::new(algorithm, capacity),
        }
    }

    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range> {
        AnyAllocator::allocate_high(self, size, alignment).ok()
    }

    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        let Self::Tlsf(tlsf) = self else { return None };
        tlsf.allocate_below(size, alignment, limit)
    }

    fn taken(&self, slot: u32, size: u64) -> u64 {
        match self {
            Self::Buddy(buddy) => buddy.live_size(slot),
            Self::Linear(rows) => rows.live_size(slot),
            Self::Equal(blocks) => blocks.block_size(),
            Self::Tlsf(_) | Self::FreeList(_) => size,
        }
    }

    fn would_hold(algorithm: Algorithm, capacity: u64, size: u64, alignment: u64) -> bool {
        Self::cut(algorithm, capacity).peek(size, alignment).is_some()
    }
}
