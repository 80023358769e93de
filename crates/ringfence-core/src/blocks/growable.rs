//! Blocks that create their own heaps, for callers that do not protect them with a lock.
//!
//! ```text
//!   GrowableBlocks ── try_allocate ──▶ Blocks       success: done
//!        │                               ▲
//!        └── create ──▶ BlockSource ─────┘          no space: create a heap, allocate from it, insert it
//! ```

use super::{BlockAllocation, Blocks, BlocksDesc, FullestFirst, OldestFirst, Order};
use crate::range::{AllocError, Allocate, FreeError, RangeAllocator};
use core::{fmt, iter};

/// Creates and destroys the heaps of blocks.
pub trait BlockSource {
    /// The driver's object that a block owns.
    type Heap;
    /// The allocator of the heap's ranges.
    type Allocator: RangeAllocator;
    /// Error of a failed heap creation.
    type Error;

    /// Creates a heap, and an allocator of at least `size` units of the heap.
    ///
    /// # Errors
    /// The heap could not be created. A failed call leaves no object behind.
    fn create(&mut self, size: u64) -> Result<(Self::Heap, Self::Allocator), Self::Error>;

    /// Destroys a heap. Called only if the heap's block has no live range, or if the [`GrowableBlocks`] are dropped.
    fn destroy(&mut self, heap: Self::Heap);
}

/// Error of a failed allocation from growable blocks. No block was added, and no range is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GrowError<E> {
    /// The request is invalid: the size is 0, or the alignment is not a power of two.
    Request(AllocError),
    /// No block fits the request, and a new block could not be created.
    Create {
        /// Intended size of the new block, in units.
        block_size: u64,
        /// Error of the source.
        error: E,
    },
    /// No block fits the request, and the allocator of a new block failed too. The new heap was destroyed.
    FirstAllocation {
        /// Size of the new block, in units.
        block_size: u64,
        /// Error of the new block's allocator.
        error: AllocError,
    },
}

impl<E: fmt::Display> fmt::Display for GrowError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Create { block_size, error } => write!(f, "cannot create a block of {block_size} units: {error}"),
            Self::FirstAllocation { block_size, error } => {
                write!(f, "a new block of {block_size} units does not fit the request: {error}")
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

impl<A: RangeAllocator, H, O: Order> Blocks<A, H, O> {
    /// Calls [`Blocks::try_allocate`]. If it returns [`AllocError::OutOfSpace`], creates a block and allocates from the
    /// new block. `self` is borrowed while `source` creates the heap, so a caller with a lock should not use this
    /// function.
    ///
    /// # Errors
    /// The errors of [`GrowError`]. A failed call changes no range, and destroys the heap if it has created one.
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

/// [`Blocks`] that create their own heaps: an allocator without a size limit.
///
/// When a `GrowableBlocks` is dropped, its source destroys every heap.
pub struct GrowableBlocks<S: BlockSource, O: Order = FullestFirst> {
    source: S,
    blocks: Blocks<S::Allocator, S::Heap, O>,
}

impl<S: BlockSource> GrowableBlocks<S> {
    /// Creates an empty list of blocks. The first allocation creates the first block.
    #[must_use]
    pub const fn new(desc: BlocksDesc, source: S) -> Self {
        Self { source, blocks: Blocks::new(desc) }
    }
}

impl<S: BlockSource> GrowableBlocks<S, OldestFirst> {
    /// Creates an empty list of blocks. A request first tries the oldest block: see [`Blocks::oldest_first`].
    #[must_use]
    pub const fn oldest_first(desc: BlocksDesc, source: S) -> Self {
        Self { source, blocks: Blocks::oldest_first(desc) }
    }
}

impl<S: BlockSource, O: Order> GrowableBlocks<S, O> {
    /// Returns the blocks.
    #[must_use]
    pub const fn blocks(&self) -> &Blocks<S::Allocator, S::Heap, O> {
        &self.blocks
    }

    /// Returns the source of the heaps.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Returns the source of the heaps, mutably.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the heap of an allocation. Returns `None` if the block was removed or belongs to other blocks.
    #[must_use]
    pub fn heap(&self, allocation: &BlockAllocation) -> Option<&S::Heap> {
        self.blocks.get(allocation.block()).map(|(heap, _)| heap)
    }

    /// Destroys the blocks that [`Blocks::take_surplus`] returns at tick `now`, and returns their number. Call it once
    /// per tick.
    pub fn destroy_surplus(&mut self, now: u64) -> usize {
        iter::from_fn(|| self.blocks.take_surplus(now)).map(|(_, heap)| self.source.destroy(heap)).count()
    }

    /// Destroys every empty block, regardless of the threshold and the grace period, and returns their number.
    pub fn trim(&mut self) -> usize {
        iter::from_fn(|| self.blocks.take_empty()).map(|(_, heap)| self.source.destroy(heap)).count()
    }
}

impl<S: BlockSource, O: Order> Allocate for GrowableBlocks<S, O> {
    type Allocation = BlockAllocation;
    type Error = GrowError<S::Error>;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<BlockAllocation, GrowError<S::Error>> {
        self.blocks.allocate_with(size, alignment, &mut self.source)
    }

    fn free(&mut self, allocation: BlockAllocation) -> Result<(), FreeError> {
        self.blocks.free(&allocation)
    }
}

impl<S: BlockSource, O: Order> Drop for GrowableBlocks<S, O> {
    fn drop(&mut self) {
        for (_, heap) in self.blocks.drain() {
            self.source.destroy(heap);
        }
    }
}

impl<S: BlockSource, O: Order> fmt::Debug for GrowableBlocks<S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.fmt(f)
    }
}
