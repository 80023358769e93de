//! Blocks that make their own heaps, for callers without a lock.
//!
//! ```text
//!   GrowableBlocks ── try_allocate ──▶ Blocks       granted: that is all
//!        │                               ▲
//!        └── create ──▶ BlockSource ─────┘          refused: a new heap, the allocation, and in with both
//! ```

use super::{BlockAllocation, Blocks, BlocksDesc};
use crate::range::{AllocError, Allocate, FreeError, RangeAllocator};
use core::{fmt, iter};

/// How heaps and the allocators in them are made and destroyed.
pub trait BlockSource {
    /// What a block owns: the driver's object.
    type Heap;
    /// What cuts the heap into ranges.
    type Allocator: RangeAllocator;
    /// Why no heap was made.
    type Error;

    /// Makes a heap and an allocator over at least `size` units of it.
    ///
    /// # Errors
    /// No heap could be made. Nothing is left behind then.
    fn create(&mut self, size: u64) -> Result<(Self::Heap, Self::Allocator), Self::Error>;

    /// Gives a heap back in which nothing lives any more.
    fn destroy(&mut self, heap: Self::Heap);
}

/// Why growable blocks allocated nothing. They are as they were before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GrowError<E> {
    /// The request itself cannot be served: size 0, or an alignment that is not a power of two.
    Request(AllocError),
    /// No block had room, and a new one could not be made.
    Create {
        /// Units that the new block was to have.
        block_size: u64,
        /// What the source says.
        error: E,
    },
    /// No block had room, and the new one refused the request. Its heap was destroyed.
    FirstAllocation {
        /// Units of the new block.
        block_size: u64,
        /// What its allocator says.
        error: AllocError,
    },
}

impl<E: fmt::Display> fmt::Display for GrowError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Create { block_size, error } => write!(f, "no block of {block_size} units could be made: {error}"),
            Self::FirstAllocation { block_size, error } => {
                write!(f, "a new block of {block_size} units refused its first allocation: {error}")
            }
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for GrowError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Request(error) | Self::FirstAllocation { error, .. } => Some(error),
            Self::Create { error, .. } => Some(error),
        }
    }
}

impl<A: RangeAllocator, H> Blocks<A, H> {
    /// [`Blocks::try_allocate`], and from a new block if it must. For callers without a lock: `source` is called while
    /// `self` is held.
    ///
    /// # Errors
    /// [`GrowError`]: nothing has changed then, and a heap that was made for the call is destroyed.
    pub fn allocate_with<S>(
        &mut self,
        size: u64,
        alignment: u64,
        source: &mut S,
    ) -> Result<BlockAllocation, GrowError<S::Error>>
    where
        S: BlockSource<Heap = H, Allocator = A>,
    {
        match self.try_allocate(size, alignment) {
            Err(AllocError::OutOfSpace { .. }) => {}
            refused_or_granted => return refused_or_granted.map_err(GrowError::Request),
        }
        let block_size = self.new_block_size(size);
        let created = source.create(block_size);
        let (heap, mut allocator) = created.map_err(|error| GrowError::Create { block_size, error })?;
        match allocator.allocate(size, alignment) {
            Ok(range) => Ok(BlockAllocation::new(self.insert(heap, allocator), range)),
            Err(error) => {
                drop(allocator);
                source.destroy(heap);
                Err(GrowError::FirstAllocation { block_size, error })
            }
        }
    }
}

/// [`Blocks`] together with what makes their heaps: an allocator without a limit of its own.
///
/// Every heap goes back to the source when this is dropped.
pub struct GrowableBlocks<S: BlockSource> {
    source: S,
    blocks: Blocks<S::Allocator, S::Heap>,
}

impl<S: BlockSource> GrowableBlocks<S> {
    /// No block yet.
    #[must_use]
    pub const fn new(desc: BlocksDesc, source: S) -> Self {
        Self { source, blocks: Blocks::new(desc) }
    }

    /// The blocks, to be looked at.
    #[must_use]
    pub const fn blocks(&self) -> &Blocks<S::Allocator, S::Heap> {
        &self.blocks
    }

    /// What makes the heaps.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// What makes the heaps, to be changed.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The heap of an allocation; `None` if its block is not here (any more).
    #[must_use]
    pub fn heap(&self, allocation: &BlockAllocation) -> Option<&S::Heap> {
        self.blocks.get(allocation.block()).map(|(heap, _)| heap)
    }

    /// Destroys what [`Blocks::take_surplus`] gives at tick `now`, once a tick; returns how many blocks that were.
    pub fn destroy_surplus(&mut self, now: u64) -> usize {
        iter::from_fn(|| self.blocks.take_surplus(now)).map(|(_, heap)| self.source.destroy(heap)).count()
    }

    /// Destroys every empty block at once, and returns how many those were.
    pub fn trim(&mut self) -> usize {
        iter::from_fn(|| self.blocks.take_empty()).map(|(_, heap)| self.source.destroy(heap)).count()
    }
}

impl<S: BlockSource> Allocate for GrowableBlocks<S> {
    type Allocation = BlockAllocation;
    type Error = GrowError<S::Error>;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<BlockAllocation, GrowError<S::Error>> {
        self.blocks.allocate_with(size, alignment, &mut self.source)
    }

    fn free(&mut self, allocation: BlockAllocation) -> Result<(), FreeError> {
        self.blocks.free(&allocation)
    }
}

impl<S: BlockSource> Drop for GrowableBlocks<S> {
    fn drop(&mut self) {
        for (_, heap) in self.blocks.drain() {
            self.source.destroy(heap);
        }
    }
}

impl<S: BlockSource> fmt::Debug for GrowableBlocks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.fmt(f)
    }
}
