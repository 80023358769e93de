//! Pools of equal blocks that come and go while threads allocate and free: no lock on the way.
//!
//! ```text
//!   rooms       1 0 1 0 …       a bit for each place: 0 only if its pool was found full (or there is none)
//!               │ │ │
//!   pools   [ slot 0 ][ slot 1 ][ slot 2 ][ – ][ – ] …      pool_count_max places; a slot is made at first use
//!              open      open      vacant                   and stays, so that nothing is ever gone under a thread
//!              heap      heap        –
//!               ▲
//!               └─ PoolAllocation { pool: 0, block, serial, offset }: a free knows its pool
//! ```
//!
//! An allocation asks the first pool that is marked in `rooms`; so later pools drain and can go. A pool that turns out
//! to be full loses its mark, and gets it again when a thread frees a block in a full group of it: full pools are not
//! asked again and again.
//!
//! Making a heap may take the driver milliseconds. So the chain never makes or destroys one. The caller does:
//!
//! 1. [`PoolChain::allocate`]; if that gives nothing, under a lock of the caller's that only growing takes (or in the
//!    background, before it comes to that):
//! 2. [`PoolChain::allocate_thorough`], since another thread may have grown the chain meanwhile; else
//! 3. [`PoolChain::reserve`], which obeys the largest number of pools; make a heap of [`Reservation::block_count`]
//!    blocks; [`Reservation::open`] gives the pool to all and its first block to the caller. If the heap cannot be
//!    made, dropping the reservation leaves nothing behind.
//! 4. Once a tick: [`PoolChain::take_surplus`] until it gives nothing, and destroy what it gave.
//!
//! | operation | cost |
//! |---|---|
//! | [`PoolChain::allocate`] | that of [`FixedPool`], and a word of `rooms` for each 64 places |
//! | – that finds a pool full | and O(blocks / 64) once for that pool, until a block of it is freed |
//! | – refused | O(places / 64) |
//! | [`PoolChain::allocate_thorough`], refused | O(blocks of all pools / 64) |
//! | [`PoolChain::free`], [`PoolChain::heap`], [`PoolChain::is_live`] | O(1) |
//! | [`PoolChain::reserve`] | O(places that were ever used), and host memory for a slot that is not there yet |
//! | [`PoolChain::take_empty`], [`PoolChain::take_surplus`], [`PoolChain::statistics`] | O(blocks of all pools / 64) |
//!
//! Host memory: what a slot took for its bits and serials, 12 bytes a block in large pools, is kept when its heap goes,
//! and used for the next pool that fits there. It is freed with the chain.

pub use crate::fixed_pool::slot::{PoolAllocation, PoolView, RefusedFree};

use crate::fixed_pool::FixedPool;
use crate::fixed_pool::slot::{OnceBox, PoolSlot};
use crate::primitive::{Apart, AtomicU64, Ordering, fence_in_model, thread_hint};
use ringfence_core::range::{FreeError, Invalid};
use alloc::boxed::Box;
use core::fmt;

/// Pools of one block size, each with its heap. See the [module](self).
///
/// ```
/// # use ringfence_lockfree::pool_chain::PoolChain;
/// let chain = PoolChain::new(64 << 10, 8);
/// assert_eq!(chain.allocate(), None, "there is no pool yet");
/// let reservation = chain.reserve(16).expect("0 of 8 pools are there");
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
/// A block cannot be freed twice, nor its heap be used afterwards:
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
    /// A slot once made never goes; its heap does. Slots are made from the front on, and no place is left out.
    pools: Box<[OnceBox<PoolSlot<H>>]>,
    /// A bit is 0 only if its pool is not open, or was found full since a block was last freed into a full group of it
    /// (or a thread is about to set it). A 1 says nothing: a look at the pool is needed.
    rooms: Box<[Apart<AtomicU64>]>,
}

/// What a chain holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolStatistics {
    /// Open pools.
    pub pool_count: u32,
    /// Open pools without a live block.
    pub empty_pool_count: u32,
    /// Blocks of open pools.
    pub block_count: u64,
    /// Blocks that are handed out.
    pub live_count: u64,
}

/// Which empty pools stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepPools {
    /// How many empty pools are always kept.
    pub empty_count: u32,
    /// For how many ticks at least a pool beyond those stays empty before it goes. 0 counts as 1: within one tick
    /// nothing goes, so that a loop that allocates and frees does not make and destroy a heap each time.
    pub grace_ticks: u64,
}

impl<H> PoolChain<H> {
    /// A chain without a pool, for up to `pool_count_max` of them with blocks of `block_size` units.
    ///
    /// # Panics
    /// If `block_size` is 0.
    #[must_use]
    pub fn new(block_size: u64, pool_count_max: u32) -> Self {
        assert!(block_size != 0, "blocks of size 0");
        Self {
            block_size,
            pools: (0..pool_count_max).map(|_| OnceBox::new()).collect(),
            rooms: (0..pool_count_max.div_ceil(64)).map(|_| Apart(AtomicU64::new(0))).collect(),
        }
    }

    /// Units of a block.
    #[must_use]
    pub const fn block_size(&self) -> u64 {
        self.block_size
    }

    /// The largest number of pools.
    #[must_use]
    pub const fn pool_count_max(&self) -> u32 {
        self.pools.len() as u32
    }

    /// Allocates a block of the first pool that has one. It may miss a block that is freed during the call: before
    /// growing the chain or giving up, call [`PoolChain::allocate_thorough`].
    pub fn allocate(&self) -> Option<PoolAllocation> {
        self.allocate_near(thread_hint())
    }

    /// [`PoolChain::allocate`], beginning in the pool where this hint was last: threads that always pass numbers of
    /// their own, here and to [`PoolChain::free_near`], stay out of each other's way.
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

    /// Allocates a block of any pool that has one; tries every pool.
    pub fn allocate_thorough(&self) -> Option<PoolAllocation> {
        self.slots().find_map(|(index, slot)| slot.allocate_thorough(index, thread_hint()))
    }

    /// Frees a block of the pool that it names.
    ///
    /// # Errors
    /// The block is of another chain; nothing has changed then, and the error returns it.
    pub fn free(&self, allocation: PoolAllocation) -> Result<(), RefusedFree> {
        self.free_near(thread_hint(), allocation)
    }

    /// [`PoolChain::free`]: the next [`PoolChain::allocate_near`] with this hint looks here first, in this pool.
    ///
    /// # Errors
    /// As [`PoolChain::free`].
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

    /// Whether the block is of this chain: then it is handed out, since the caller has it.
    #[must_use]
    pub fn is_live(&self, allocation: &PoolAllocation) -> bool {
        self.slot(allocation.pool()).is_some_and(|slot| slot.is_live(allocation))
    }

    /// The heap that a block lies in, which stays as long as the block does. `None` if it is of another chain.
    #[must_use]
    pub fn heap<'a>(&'a self, allocation: &'a PoolAllocation) -> Option<&'a H> {
        self.slot(allocation.pool())?.heap(allocation)
    }

    /// Reserves a slot for a pool of up to `block_count` blocks: the first of two steps. No driver is called here, and
    /// no thread waits for the one that has the reservation.
    ///
    /// The reservation may be for fewer blocks, if all slots have been used for smaller pools. `None` if all of them
    /// are in use.
    ///
    /// # Panics
    /// If `block_count` is not in `1..=FixedPool::BLOCKS_MAX`, or the pool passes `u64::MAX` units.
    #[must_use = "a reservation that is dropped is cancelled"]
    pub fn reserve(&self, block_count: u32) -> Option<Reservation<'_, H>> {
        assert!((1..=FixedPool::BLOCKS_MAX).contains(&block_count), "a pool of {block_count} blocks");
        let reserved = |(index, slot): (u32, &'_ PoolSlot<H>)| slot.try_reserve().then_some(index);
        let index = self.slots().filter(|(_, slot)| slot.capacity() >= block_count).find_map(reserved);
        let index = index.or_else(|| self.reserve_new(block_count)).or_else(|| {
            let vacant = self.slots().filter(|(_, slot)| slot.is_vacant());
            vacant.max_by_key(|(_, slot)| slot.capacity()).and_then(reserved)
        })?;
        let slot = self.slot(index)?;
        Some(Reservation { chain: self, slot, index, block_count: block_count.min(slot.capacity()) })
    }

    /// Makes a slot in the first place that has none, reserved.
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

    /// Takes the heap of the last empty pool out, however short it has been empty: for trimming.
    ///
    /// From the moment on that this claims the pool, nothing can be allocated in it.
    pub fn take_empty(&self) -> Option<H> {
        let made = self.pools.partition_point(|place| place.get().is_some()) as u32;
        let slots = (0..made).rev().filter_map(|index| Some((index, self.slot(index)?)));
        slots.filter(|(_, slot)| slot.is_empty()).find_map(|(index, slot)| self.close(index, slot))
    }

    /// Takes the heap of a pool out that was seen empty and unused for long enough. To be called once a tick, until
    /// it gives nothing; `tick` never falls.
    pub fn take_surplus(&self, tick: u64, keep: KeepPools) -> Option<H> {
        let idle = |slot: &PoolSlot<H>| tick.saturating_sub(slot.idle_since(tick));
        let empty = self.slots().filter(|(_, slot)| slot.is_open() && slot.is_empty());
        // Of the empty ones the first are kept, as allocations fill the first pools first.
        let surplus = empty.skip(keep.empty_count as usize);
        surplus
            .filter(|(_, slot)| idle(slot) >= keep.grace_ticks.max(1))
            .find_map(|(index, slot)| self.close(index, slot))
    }

    /// Shows every open pool with its heap, in order of index. A pool that is shown is not taken out meanwhile.
    pub fn for_each_pool(&self, look: &mut dyn FnMut(PoolView<'_, H>)) {
        self.slots().for_each(|(index, slot)| _ = slot.visit(index, &mut *look));
    }

    /// Counts. Exact if no other thread is at work here.
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

    /// Every heap, whatever lies in it: for the end.
    pub fn into_heaps(self) -> impl Iterator<Item = H> {
        self.pools.into_iter().filter_map(|mut place| place.take()?.into_heap())
    }

    /// Checks every rule of the chain and its pools, while no other thread is at work here.
    ///
    /// # Errors
    /// The first rule that does not hold.
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
            // While it was tried, an allocation may have found the pool full.
            self.note_room(index);
        }
        heap
    }

    fn slot(&self, index: u32) -> Option<&PoolSlot<H>> {
        self.pools.get(index as usize)?.get()
    }

    fn slots(&self) -> impl Iterator<Item = (u32, &PoolSlot<H>)> {
        // Behind the last slot there is none.
        self.pools.iter().zip(0..).map_while(|(place, index)| Some((index, place.get()?)))
    }

    /// Clears the pool's bit in `rooms`, unless a thread frees there at this moment.
    ///
    /// Clearing and then looking at the pool meets freeing and then looking at the bit ([`Self::note_room`]). All of it
    /// is sequentially consistent, so that one of the two threads sees the other. The thread that frees looks only if
    /// the block's group was full. If it was not, the thread that made it so looks, and this thread sees that it is
    /// not.
    fn note_full(&self, pool: u32) {
        let (word, bit) = self.room_bit(pool);
        word.fetch_and(!bit, Ordering::SeqCst);
        fence_in_model();
        if self.slot(pool).is_some_and(PoolSlot::has_room) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Sets the pool's bit in `rooms`, where it is not: after a block was freed there.
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

/// A slot for a pool, reserved while its heap is made. Dropping it without a heap frees the slot.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation<'a, H> {
    chain: &'a PoolChain<H>,
    slot: &'a PoolSlot<H>,
    index: u32,
    block_count: u32,
}

impl<H> Reservation<'_, H> {
    /// Blocks that the pool will have.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// The pool's index, which [`PoolAllocation::pool`] will return.
    #[must_use]
    pub const fn pool(&self) -> u32 {
        self.index
    }

    /// Opens the pool over `heap` for every thread, and allocates its first block for the caller. The second of two
    /// steps.
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
