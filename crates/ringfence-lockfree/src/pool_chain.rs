//! A chain of pools of blocks of one size. Pools are added and removed while threads allocate and free blocks, without
//! a lock.
//!
//! ```text
//!   rooms       1 0 1 0 …       a bit for each index: 0 only if the pool was found full, or there is no open pool
//!               │ │ │
//!   pools   [ slot 0 ][ slot 1 ][ slot 2 ][ – ][ – ] …      pool_count_max entries; a slot is created at first use,
//!              open      open      vacant                   and is freed only with the chain
//!              heap      heap        –
//!               ▲
//!               └─ PoolAllocation { pool: 0, block, serial, offset }
//! ```
//!
//! An allocation tries the first pool whose bit in `rooms` is set, so later pools can become empty and be removed. If
//! the pool is full, its bit is cleared, so that the pool is not tried again. The bit is set again when a thread frees
//! a block in a full group of the pool.
//!
//! The driver can take milliseconds to create a heap. So the chain never creates or destroys heaps; the caller does:
//!
//! 1. Call [`PoolChain::allocate`]. If it fails, take a lock of your own that only this path takes. (Alternatively, add
//!    pools in the background before they are needed.)
//! 2. Call [`PoolChain::allocate_thorough`], because another thread may have added a pool meanwhile. If it fails too:
//! 3. Call [`PoolChain::reserve`], which fails if the chain has its maximum number of pools. Create a heap for
//!    [`Reservation::block_count`] blocks, and pass it to [`Reservation::open`]. This makes the pool available to all
//!    threads and returns its first block. If the heap cannot be created, drop the reservation.
//! 4. Once per tick, call [`PoolChain::take_surplus`] until it returns `None`, and destroy the returned heaps.
//!
//! | operation | cost |
//! |---|---|
//! | [`PoolChain::allocate`] | the cost in a [`FixedPool`]; also reads a word of `rooms` for each 64 indices |
//! | … that finds a pool full | also O(groups of the pool), usually once until a block of it is freed |
//! | … that fails | O(indices / 64) |
//! | [`PoolChain::allocate_thorough`] that fails | O(groups of all pools) |
//! | [`PoolChain::free`], [`PoolChain::heap`], [`PoolChain::is_live`] | O(1) |
//! | [`PoolChain::reserve`] | O(slots created so far); allocates host memory for a new slot |
//! | [`PoolChain::take_empty`], [`PoolChain::take_surplus`], [`PoolChain::statistics`] | O(groups of all pools) |
//!
//! A group has 8 to 64 blocks of one pool ([`FixedPool`]). Host memory: the bits and serials of a slot have 10 to 12
//! bytes per block in large pools. When a heap is removed, they are kept and reused for a later pool. They are freed
//! with the chain.

pub use crate::fixed_pool::slot::{PoolAllocation, PoolView, RefusedFree};

use crate::fixed_pool::FixedPool;
use crate::fixed_pool::slot::{OnceBox, PoolSlot};
use crate::primitive::{AtomicU64, CachePadded, Ordering, fence_in_model, thread_hint};
use alloc::boxed::Box;
use core::fmt;
use ringfence_core::range::{FreeError, Invalid};

/// A lock-free chain of pools of blocks of one size. Each pool has a heap of type `H`.
///
/// ```
/// # use ringfence_lockfree::pool_chain::PoolChain;
/// let chain = PoolChain::new(64 << 10, 8);
/// assert_eq!(chain.allocate(), None, "there is no pool yet");
/// let reservation = chain.reserve(16).expect("0 of 8 pools exist");
/// let heap = format!("a heap of {} bytes", (64 << 10) * reservation.block_count());
/// let first = reservation.open(heap);
///
/// let second = chain.allocate().expect("15 blocks are free");
/// assert_eq!(chain.heap(&second).unwrap(), "a heap of 1048576 bytes");
/// assert_eq!(chain.take_empty(), None, "it is in use");
/// chain.free(first).unwrap();
/// chain.free(second).unwrap();
/// assert_eq!(chain.take_empty().as_deref(), Some("a heap of 1048576 bytes"));
/// assert_eq!(chain.allocate(), None);
/// ```
///
/// A block cannot be freed twice, and its heap cannot be used after the free:
///
/// ```compile_fail,E0382
/// # use ringfence_lockfree::pool_chain::PoolChain;
/// # let chain = PoolChain::new(1, 1);
/// let block = chain.reserve(1).unwrap().open("heap");
/// chain.free(block).unwrap();
/// chain.free(block).unwrap();
/// ```
///
/// ```compile_fail,E0505
/// # use ringfence_lockfree::pool_chain::PoolChain;
/// # let chain = PoolChain::new(1, 1);
/// let block = chain.reserve(1).unwrap().open("heap");
/// let heap = chain.heap(&block).unwrap();
/// chain.free(block).unwrap();
/// println!("{heap}");
/// ```
pub struct PoolChain<H> {
    block_size: u64,
    /// The slots, created in order of index and freed with the chain.
    pools: Box<[OnceBox<PoolSlot<H>>]>,
    /// A bit for each pool. A bit is 0 only if its pool is not open or is full, or if a thread is about to set the bit.
    /// If a bit is 1, its pool can have a free block, be full, or not be open.
    rooms: Box<[CachePadded<AtomicU64>]>,
}

/// Numbers of the pools and blocks of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolStatistics {
    /// Number of open pools.
    pub pool_count: u32,
    /// Number of open pools without an allocated block.
    pub empty_pool_count: u32,
    /// Number of blocks of open pools.
    pub block_count: u64,
    /// Number of allocated blocks.
    pub live_count: u64,
}

/// Rules by which [`PoolChain::take_surplus`] removes empty pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepPools {
    /// Number of empty pools that [`PoolChain::take_surplus`] keeps.
    pub empty_count: u32,
    /// Number of ticks after which a pool beyond `empty_count` is removed if it remains empty and unused. 0 counts as
    /// 1, so that a loop that allocates and frees within one tick does not create and destroy a heap each time.
    pub grace_ticks: u64,
}

impl<H> PoolChain<H> {
    /// Creates a chain without a pool, for up to `pool_count_max` pools with blocks of `block_size` units.
    ///
    /// # Panics
    /// If `block_size` is 0.
    #[must_use]
    pub fn new(block_size: u64, pool_count_max: u32) -> Self {
        assert!(block_size != 0, "the block size is 0");
        Self {
            block_size,
            pools: (0..pool_count_max).map(|_| OnceBox::new()).collect(),
            rooms: (0..pool_count_max.div_ceil(64)).map(|_| CachePadded(AtomicU64::new(0))).collect(),
        }
    }

    /// Returns the size of a block, in units.
    #[must_use]
    pub const fn block_size(&self) -> u64 {
        self.block_size
    }

    /// Returns the maximum number of pools.
    #[must_use]
    pub const fn pool_count_max(&self) -> u32 {
        self.pools.len() as u32
    }

    /// Allocates a block from the first pool with a free block. Returns `None` if no free block was found. The call can
    /// miss a block that was freed just before: if it fails, call [`PoolChain::allocate_thorough`] before you add a
    /// pool or report an error.
    pub fn allocate(&self) -> Option<PoolAllocation> {
        self.allocate_near(thread_hint())
    }

    /// Does the same as [`PoolChain::allocate`], but searches each pool from the group in which this hint was last
    /// used. If each thread passes its own number as the hint here and in [`PoolChain::free_near`], threads rarely
    /// contend.
    pub fn allocate_near(&self, hint: usize) -> Option<PoolAllocation> {
        self.rooms.iter().zip(0..).find_map(|(word, index)| {
            let mut left = word.0.load(Ordering::Relaxed);
            while left != 0 {
                let pool = index * 64 + left.trailing_zeros();
                left &= left - 1;
                let allocation = self.slot(pool)?.allocate(pool, hint);
                if allocation.is_some() {
                    return allocation;
                }
                self.note_full(pool);
            }
            None
        })
    }

    /// Allocates a block. Returns `None` only if every group of every pool was checked and was full.
    pub fn allocate_thorough(&self) -> Option<PoolAllocation> {
        self.slots().find_map(|(index, slot)| slot.allocate_thorough(index, thread_hint()))
    }

    /// Frees a block.
    ///
    /// # Errors
    /// The block belongs to another chain. The error contains the block, and nothing has changed.
    pub fn free(&self, allocation: PoolAllocation) -> Result<(), RefusedFree> {
        self.free_near(thread_hint(), allocation)
    }

    /// Does the same as [`PoolChain::free`]. In the pool of the block, the next call of [`PoolChain::allocate_near`]
    /// with this hint starts at the block's group.
    ///
    /// # Errors
    /// The errors of [`PoolChain::free`].
    pub fn free_near(&self, hint: usize, allocation: PoolAllocation) -> Result<(), RefusedFree> {
        let pool = allocation.pool();
        let Some(slot) = self.slot(pool) else {
            let error = FreeError::Foreign { offset: allocation.offset(), size: allocation.size() };
            return Err(RefusedFree { error, allocation });
        };
        let group_was_full = slot.free(allocation, hint)?;
        if group_was_full {
            self.note_room(pool);
        }
        Ok(())
    }

    /// Returns `true` if the block belongs to this chain. The block is then allocated, because its owner has not freed
    /// it.
    #[must_use]
    pub fn is_live(&self, allocation: &PoolAllocation) -> bool {
        self.slot(allocation.pool()).is_some_and(|slot| slot.is_live(allocation))
    }

    /// Returns the heap of a block. Returns `None` if the block belongs to another chain. The heap remains in the chain
    /// while the block is allocated.
    #[must_use]
    pub fn heap<'a>(&'a self, allocation: &'a PoolAllocation) -> Option<&'a H> {
        self.slot(allocation.pool())?.heap(allocation)
    }

    /// Reserves a slot for a new pool of up to `block_count` blocks. Returns `None` if all slots are in use.
    /// [`Reservation::open`] then adds the pool. No thread waits for the owner of the reservation.
    ///
    /// If no further slot can be created and all vacant slots were created for smaller pools, the reservation is for
    /// fewer blocks ([`Reservation::block_count`]).
    ///
    /// # Panics
    /// If `block_count` is not in `1..=FixedPool::BLOCKS_MAX`, or if the size of a new slot's pool exceeds `u64::MAX`
    /// units.
    #[must_use = "a reservation that is dropped is cancelled"]
    pub fn reserve(&self, block_count: u32) -> Option<Reservation<'_, H>> {
        assert!((1..=FixedPool::BLOCKS_MAX).contains(&block_count), "a pool cannot have {block_count} blocks");
        let reserved = |(index, slot): (u32, &'_ PoolSlot<H>)| slot.try_reserve().then_some(index);
        let index = self.slots().filter(|(_, slot)| slot.capacity() >= block_count).find_map(reserved);
        let index = index.or_else(|| self.reserve_new(block_count)).or_else(|| {
            let vacant = self.slots().filter(|(_, slot)| slot.is_vacant());
            vacant.max_by_key(|(_, slot)| slot.capacity()).and_then(reserved)
        })?;
        let slot = self.slot(index)?;
        Some(Reservation { chain: self, slot, index, block_count: block_count.min(slot.capacity()) })
    }

    /// Creates a reserved slot at the first index without a slot, and returns the index. Returns `None` if all indices
    /// have slots.
    fn reserve_new(&self, block_count: u32) -> Option<u32> {
        let mut slot = None;
        for (place, index) in self.pools.iter().zip(0..) {
            if place.get().is_some() {
                continue;
            }
            let made = slot.take().unwrap_or_else(|| Box::new(PoolSlot::reserved(self.block_size, block_count)));
            match place.set(made) {
                Ok(_) => return Some(index),
                Err(back) => slot = Some(back),
            }
        }
        None
    }

    /// Removes the last empty pool, even if it became empty just before, and returns its heap. Returns `None` if no
    /// empty pool can be closed.
    ///
    /// Call this function if memory is short.
    pub fn take_empty(&self) -> Option<H> {
        let made = self.pools.partition_point(|place| place.get().is_some()) as u32;
        let slots = (0..made).rev().filter_map(|index| Some((index, self.slot(index)?)));
        slots.filter(|(_, slot)| slot.is_empty()).find_map(|(index, slot)| self.close(index, slot))
    }

    /// Removes a pool that has been empty and unused for [`KeepPools::grace_ticks`], and returns its heap. Returns
    /// `None` if there is no such pool, or if at most [`KeepPools::empty_count`] pools are empty. Once per tick, call
    /// this function until it returns `None`. `tick` must never decrease.
    pub fn take_surplus(&self, tick: u64, keep: KeepPools) -> Option<H> {
        let idle = |slot: &PoolSlot<H>| tick.saturating_sub(slot.idle_since(tick));
        let empty = self.slots().filter(|(_, slot)| slot.is_open() && slot.is_empty());
        // The first empty pools are skipped, because allocations use the first pools first.
        let surplus = empty.skip(keep.empty_count as usize);
        surplus
            .filter(|(_, slot)| idle(slot) >= keep.grace_ticks.max(1))
            .find_map(|(index, slot)| self.close(index, slot))
    }

    /// Calls `look` for every open pool, in order of index. A pool is not removed while `look` visits it.
    pub fn for_each_pool(&self, look: &mut dyn FnMut(PoolView<'_, H>)) {
        self.slots().for_each(|(index, slot)| _ = slot.visit(index, &mut *look));
    }

    /// Returns the numbers of pools and blocks. They are exact if no other thread uses the chain.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let mut sum = PoolStatistics::default();
        self.for_each_pool(&mut |pool| {
            let live = pool.live_count();
            sum.pool_count += 1;
            sum.empty_pool_count += u32::from(live == 0);
            sum.block_count += u64::from(pool.block_count());
            sum.live_count += u64::from(live);
        });
        sum
    }

    /// Returns all heaps, even of pools with allocated blocks.
    pub fn into_heaps(self) -> impl Iterator<Item = H> {
        self.pools.into_iter().filter_map(|mut place| place.take()?.into_heap())
    }

    /// Checks all rules of the chain and its pools. No other thread may use the chain during the call.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.slots().try_for_each(|(index, slot)| {
            slot.validate()?;
            let rule = "a pool with a free block is marked in rooms";
            Invalid::unless(!slot.has_room() || self.has_room_bit(index), rule, u64::from(index))
        })
    }

    fn close(&self, index: u32, slot: &PoolSlot<H>) -> Option<H> {
        let heap = slot.close();
        if heap.is_none() && slot.has_room() {
            // During the attempt, an allocation may have found the pool full and cleared its bit.
            self.note_room(index);
        }
        heap
    }

    fn slot(&self, index: u32) -> Option<&PoolSlot<H>> {
        self.pools.get(index as usize)?.get()
    }

    fn slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<H>)> {
        // Slots are created in order, so there is none after the first missing one.
        self.pools.iter().zip(0..).map_while(|(place, index)| Some((index, place.get()?)))
    }

    /// Clears the bit of a full pool in `rooms`, unless a thread frees a block of the pool concurrently.
    ///
    /// This thread clears the bit and then reads the pool. A thread that frees a block changes the block's group and
    /// then reads the bit ([`Self::note_room`]). All four accesses are sequentially consistent, so at least one of the
    /// two threads sees the change of the other, and sets the bit. A thread that frees a block reads the bit only if
    /// the block's group was full. If the group was not full, an earlier thread has freed a block into the full group,
    /// and the same holds for that thread.
    fn note_full(&self, pool: u32) {
        let (word, bit) = self.room_bit(pool);
        word.fetch_and(!bit, Ordering::SeqCst);
        fence_in_model();
        if self.slot(pool).is_some_and(PoolSlot::has_room) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Sets the pool's bit in `rooms` if it is clear. Called after a block of the pool was freed.
    fn note_room(&self, pool: u32) {
        fence_in_model();
        if !self.has_room_bit(pool) {
            let (word, bit) = self.room_bit(pool);
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    fn has_room_bit(&self, pool: u32) -> bool {
        let (word, bit) = self.room_bit(pool);
        word.load(Ordering::SeqCst) & bit != 0
    }

    fn room_bit(&self, pool: u32) -> (&AtomicU64, u64) {
        (&self.rooms[pool as usize / 64].0, 1 << (pool % 64))
    }
}

impl<H> fmt::Debug for PoolChain<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolChain(blocks of {}, {:?})", self.block_size, self.statistics())
    }
}

/// A reserved slot, while the caller creates the heap of a new pool. If it is dropped, the reservation is cancelled.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation<'a, H> {
    chain: &'a PoolChain<H>,
    slot: &'a PoolSlot<H>,
    index: u32,
    block_count: u32,
}

impl<H> Reservation<'_, H> {
    /// Returns the number of blocks that the pool will have.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Returns the index that the pool will have ([`PoolAllocation::pool`]).
    #[must_use]
    pub const fn pool(&self) -> u32 {
        self.index
    }

    /// Adds the pool with this heap to the chain, so that all threads can use it, and allocates its first block for the
    /// caller.
    pub fn open(self, heap: H) -> PoolAllocation {
        let allocation = self.slot.open(self.index, heap, self.block_count).ok().expect("the slot is reserved");
        self.chain.note_room(self.index);
        core::mem::forget(self);
        allocation
    }
}

impl<H> Drop for Reservation<'_, H> {
    fn drop(&mut self) {
        self.slot.cancel();
    }
}

impl<H> fmt::Debug for Reservation<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation(pool {}, {} blocks)", self.index, self.block_count)
    }
}
