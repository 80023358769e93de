//! Pools of blocks for one use. A block is a heap or a driver buffer. Blocks are added when needed, and one of the
//! core's range allocators divides each block into ranges.
//!
//! ```text
//!   Buddy  one buddy allocator for each block     all blocks are tried; if none has space, a block is added
//!   Tlsf   one TLSF allocator for each block
//!
//!   backing of a block:   heap ── the driver places resources in it          (placed)
//!                         buffer ── each request has a range of it           (sub-allocated)
//! ```
//!
//! The pool does not track the GPU: the allocator frees a range after its points have passed. Blocks that were empty
//! for long enough are taken out at the end of a frame, and destroyed while no lock is held.
//!
//! | operation | cost |
//! |---|---|
//! | allocate in an existing block | cost of the range allocator, one short lock, no driver call |
//! | allocate in a new block | driver calls, under a lock that only allocations in new blocks take |
//! | free | cost of the range allocator, one short lock, no driver call |

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::range::{Invalid, RangeAllocator};

use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device, Mapped, RawBuffer};
use ringfence_memory::extend::{
    Backing, Lock, Memory, Place, RangeOwner, Shared, retry_after_eviction, shared_alignment,
};
use ringfence_memory::memory::Location;
use ringfence_memory::{AllocationDesc, Error};

/// A block: the memory or buffer of its ranges.
pub(super) struct Block<D: Device> {
    pub(super) backing: Backing<D>,
    /// The memory, shared by every range.
    pub(super) memory: Arc<Memory<D>>,
    /// Offset of the block's first byte in the memory, in bytes.
    pub(super) base: u64,
    pub(super) mapped: Option<Mapped>,
    /// Device address of the block's first byte, or `None` for a heap and for a buffer without an address.
    pub(super) address: Option<u64>,
    /// Description of the block's buffer, or `None` for a heap.
    pub(super) desc: Option<BufferDesc>,
}

impl<D: Device> Block<D> {
    /// Creates a driver buffer that ranges share. Reports name the line `at` of the program, which created the pool.
    /// This calls the driver, so the caller must not hold a lock that an allocation needs.
    pub(super) fn buffer(
        shared: &Shared<D>,
        bytes: u64,
        usage: BufferUsage,
        location: Location,
        (name, at): (&str, &'static panic::Location<'static>),
    ) -> Result<Self, Error> {
        let described = BufferDesc { size: bytes, usage };
        let info = Create::<Buffers>::describe(&shared.device, &described)?;
        let has_address = Create::<Buffers>::has_address(&shared.device, &info);
        let alignment = shared_alignment(shared.device.capabilities(), usage, bytes, has_address);
        let desc = AllocationDesc { name, location, alignment, ..Default::default() };
        let ((placed, place), _) = shared.create::<Buffers>(&info, desc)?;
        // SAFETY: this allocator has just created the suballocation.
        unsafe { shared.note_line(&place, at) };
        // SAFETY: the object is alive, and its description has an address.
        let address = has_address.then(|| unsafe { Create::<Buffers>::address(&shared.device, &placed.object) });
        // SAFETY: as above; the memory is dropped before the block.
        let (memory, base) = (unsafe { shared.share_memory_under(&place) }, place.offset);
        let backing = Backing::Buffer { object: placed.object, place };
        Ok(Self { backing, memory, base, mapped: placed.mapped, address, desc: Some(described) })
    }
}

/// A range in a block.
pub(super) struct InPool<D: Device> {
    pub(super) place: Place<D>,
    /// Offset of the first byte in the block, in bytes.
    pub(super) offset: u64,
    /// The buffer of the block, or `None` for a heap.
    pub(super) shared_buffer: Option<RawBuffer<D>>,
    /// Host pointer to the first byte, if the block is mapped.
    pub(super) mapped: Option<Mapped>,
    /// Device address of the first byte, if the block has one.
    pub(super) address: Option<u64>,
    /// Description of the block's buffer, or `None` for a heap.
    pub(super) desc: Option<BufferDesc>,
}

/// A pool of blocks, each with its own range allocator.
pub(super) struct RangePool<D: Device, A> {
    block_bytes: u64,
    /// Creates the range allocator of a block, given the size of the block and the granule, in bytes.
    ranges: fn(u64, u64) -> A,
    granule: u64,
    state: Lock<Blocks<A, Block<D>>>,
    growth: Lock<()>,
    /// `true` if there are no further allocations, so that a block is destroyed as soon as it is empty.
    closed: AtomicBool,
}

impl<D: Device, A: RangeAllocator + Send + 'static> RangePool<D, A> {
    /// Creates a pool without blocks and registers it with the allocator.
    pub(super) fn new(
        shared: &Shared<D>,
        block_bytes: u64,
        idle_frames: u64,
        ranges: fn(u64, u64) -> A,
        granule: u64,
    ) -> Arc<Self> {
        let desc = BlocksDesc { basic_size: block_bytes, destroy_threshold: 0, grace_ticks: idle_frames };
        let (state, growth, closed) = (Lock::new(Blocks::new(desc)), Lock::new(()), AtomicBool::new(false));
        let pool = Arc::new(Self { block_bytes, ranges, granule, state, growth, closed });
        shared.add_pool(Arc::<Self>::clone(&pool));
        pool
    }

    /// Allocates a range in an existing block, or in a new block that `make` creates with the given size in bytes.
    /// While `make` runs, no lock is held that an allocation in an existing block needs.
    pub(super) fn allocate(
        self: &Arc<Self>,
        size: u64,
        alignment: u64,
        make: impl Fn(u64) -> Result<Block<D>, Error>,
    ) -> Result<InPool<D>, Error> {
        if let Some(found) = self.try_allocate(size, alignment) {
            return Ok(found);
        }
        retry_after_eviction(|| {
            let _growing = self.growth.lock();
            if let Some(found) = self.try_allocate(size, alignment) {
                return Ok(found);
            }
            self.add_block(self.block_bytes.max(size), size, alignment, &make)
        })
    }

    /// Allocates a range in a new block of exactly `size` bytes. Used if there is no memory for a block of the usual
    /// size.
    pub(super) fn allocate_in_own_block(
        self: &Arc<Self>,
        size: u64,
        alignment: u64,
        make: impl Fn(u64) -> Result<Block<D>, Error>,
    ) -> Result<InPool<D>, Error> {
        retry_after_eviction(|| {
            let _growing = self.growth.lock();
            self.add_block(size, size, alignment, &make)
        })
    }

    fn add_block(
        self: &Arc<Self>,
        bytes: u64,
        size: u64,
        alignment: u64,
        make: impl Fn(u64) -> Result<Block<D>, Error>,
    ) -> Result<InPool<D>, Error> {
        let block = make(bytes)?;
        let mut state = self.state.lock();
        let id = state.insert(block, (self.ranges)(bytes, self.granule));
        let allocation = state.allocate_in(id, size, alignment).expect("a new block has space for its request");
        Ok(self.found(&state, allocation))
    }

    pub(super) fn try_allocate(self: &Arc<Self>, size: u64, alignment: u64) -> Option<InPool<D>> {
        let mut state = self.state.lock();
        let allocation = state.try_allocate(size, alignment).ok()?;
        Some(self.found(&state, allocation))
    }

    fn found(self: &Arc<Self>, state: &Blocks<A, Block<D>>, allocation: BlockAllocation) -> InPool<D> {
        let (block, _) = state.get(allocation.block()).expect("the block of an allocation exists");
        let offset = allocation.offset();
        InPool {
            place: Place::in_pool(Arc::clone(&block.memory), block.base + offset, Arc::<Self>::clone(self), allocation),
            offset,
            shared_buffer: match &block.backing {
                Backing::Buffer { object, .. } => Some(object.clone()),
                Backing::Heap { .. } => None,
            },
            // SAFETY: the range is inside the block, and the whole block is mapped if its first byte is.
            mapped: block.mapped.map(|first| unsafe { first.add(offset) }),
            address: block.address.map(|first| first + offset),
            desc: block.desc,
        }
    }

    /// If the pool has more empty blocks than it keeps, and the block that has been empty longest has reached the grace
    /// period, removes that block and returns its backing. `frame` is the number of the current frame.
    pub(super) fn take_idle(&self, frame: u64) -> Option<Backing<D>> {
        self.state.lock().take_surplus(frame).map(|(_, block)| block.backing)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> PoolFigures {
        let sums = self.state.lock().statistics();
        PoolFigures {
            block_count: sums.block_count,
            block_bytes: sums.capacity,
            range_count: sums.live_count,
            free_bytes: sums.free_size,
        }
    }
}

/// Usage of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolFigures {
    /// Number of blocks. In the pools of small uploads and of fast pages, each block is a buddy.
    pub block_count: usize,
    /// Total size of the blocks, in bytes.
    pub block_bytes: u64,
    /// Number of ranges in use, including those that wait for the device.
    pub range_count: usize,
    /// Total size of the free ranges, in bytes.
    pub free_bytes: u64,
}

impl PoolFigures {
    pub(super) fn add(&mut self, other: Self) {
        self.block_count += other.block_count;
        self.block_bytes += other.block_bytes;
        self.range_count += other.range_count;
        self.free_bytes += other.free_bytes;
    }
}

// SAFETY: it only returns blocks that are empty; ranges are freed after the device has stopped using them.
unsafe impl<D: Device, A: RangeAllocator + Send + 'static> RangeOwner<D> for RangePool<D, A> {
    fn free(&self, allocation: &BlockAllocation) {
        // A range has one owner and is therefore live: a failure is a defect of this library.
        self.state.lock().free(allocation).expect("a pooled range is live until it is freed");
    }

    fn take_empty(&self, may_go: &dyn Fn(&Memory<D>) -> bool) -> Option<Backing<D>> {
        self.state.lock().take_empty_of(|block| may_go(&block.memory)).map(|(_, block)| block.backing)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn is_gone(&self) -> bool {
        self.is_closed() && self.state.lock().block_count() == 0
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.state.lock().validate()
    }
}
