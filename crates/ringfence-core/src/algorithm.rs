//! A range allocator whose algorithm is chosen when the program runs: for custom pools and virtual allocators.
//!
//! | algorithm | for | allocate, free |
//! |---|---|---|
//! | [`Algorithm::Tlsf`] | everything | O(1) |
//! | [`Algorithm::Buddy`] | sizes near powers of two | O(log n) |
//! | [`Algorithm::FreeList`] | best fit, every span walkable | O(log n) expected |
//! | [`Algorithm::Equal`] | one size | O(1) amortised |
//! | [`Algorithm::Linear`] | what comes and goes in order: stack, double stack, ring | O(1) amortised |

use crate::blocks::{BlockSource, GrowableBlocks};
use crate::buddy::Buddy;
pub use crate::equal_blocks::EqualBlocks;
use crate::free_list::FreeList;
use crate::linear_ranges::LinearRanges;
use crate::range::{AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Span};
use crate::tlsf::Tlsf;
use core::convert::Infallible;
use core::fmt;

/// Which algorithm cuts a heap into ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// [`Tlsf`].
    #[default]
    Tlsf,
    /// [`Buddy`].
    Buddy {
        /// The smallest part, in units: a power of two. A heap has at most 2²⁹ of them, each of which takes 16 to 20
        /// bytes of host memory.
        granule: u64,
    },
    /// [`FreeList`].
    FreeList,
    /// [`LinearRanges`].
    Linear,
    /// [`EqualBlocks`].
    Equal {
        /// Units of each block.
        block_size: u64,
    },
}

impl Algorithm {
    /// The largest heap that it can cut, in units: 2²⁹ granules for [`Algorithm::Buddy`].
    #[must_use]
    pub const fn capacity_max(self) -> u64 {
        match self {
            Self::Buddy { granule } => granule.saturating_mul(Buddy::GRANULES_MAX),
            _ => u64::MAX,
        }
    }
}

/// A range allocator of a chosen [`Algorithm`].
pub enum AnyAllocator {
    /// See [`Tlsf`].
    Tlsf(Tlsf),
    /// See [`Buddy`].
    Buddy(Buddy),
    /// See [`FreeList`].
    FreeList(FreeList),
    /// See [`LinearRanges`].
    Linear(LinearRanges),
    /// See [`EqualBlocks`].
    Equal(EqualBlocks),
}

impl AnyAllocator {
    /// An allocator of `capacity` units, all of them free.
    ///
    /// # Panics
    /// If equal blocks have 0 units. If a buddy's granule is not a power of two, or so small that there are more than
    /// [`Buddy::new`] allows.
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

    /// Allocates from the high end, where the algorithm has one ([`Algorithm::Linear`]); as
    /// [`Allocate::allocate`] elsewhere.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn allocate_high(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        match self {
            Self::Linear(linear) => linear.allocate_high(size, alignment),
            other => other.allocate(size, alignment),
        }
    }
}

/// Calls the same method of whichever it is.
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

/// The source of a [`VirtualAllocator`]'s blocks, which are only numbers: a heap is the number of its block.
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

/// A virtual allocator: suballocates something that is not memory of this library, in blocks that are added as needed,
/// without a device.
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
pub type VirtualAllocator = GrowableBlocks<VirtualBlocks>;

/// A [`VirtualAllocator`] without a block yet.
#[must_use]
pub const fn virtual_allocator(algorithm: Algorithm, desc: crate::blocks::BlocksDesc) -> VirtualAllocator {
    GrowableBlocks::new(desc, VirtualBlocks { algorithm, made: 0 })
}

/// A range allocator whose algorithm is chosen when the program runs: [`AnyAllocator`], or [`Tlsf`] where there is no
/// choice.
pub trait Cutter: RangeAllocator + Peek {
    /// An allocator of `capacity` units.
    fn cut(algorithm: Algorithm, capacity: u64) -> Self;

    /// From the high end, where there is one.
    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range>;

    /// From below a limit, where the algorithm can.
    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range>;

    /// Units that the range of `slot`, of `size` units, keeps from others while it lives: rounding included; 0 if it is
    /// freed.
    fn taken(&self, slot: u32, size: u64) -> u64;

    /// Whether an empty heap of `capacity` units would grant a request.
    fn would_hold(algorithm: Algorithm, capacity: u64, size: u64, alignment: u64) -> bool;
}

impl Cutter for Tlsf {
    fn cut(_: Algorithm, capacity: u64) -> Self {
        // Statistics add up the sizes of ranges.
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
        size // nothing is rounded: see `cut`
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
