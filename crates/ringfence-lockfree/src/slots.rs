//! Lock-free allocation of small, frequently requested sizes. Each size class has a chain of pools, whose blocks are
//! here called *slots*.
//!
//! ```text
//!   class   256   384   512   768   1 Ki  …  48 Ki  64 Ki         all slots of a class have the same size
//!            │
//!          demand: the first requests of the class are allocated as ordinary ranges of a block; then
//!            │
//!          chain ──▶ pool ──▶ pool ──▶ …    a pool is a chunk of a block, divided into equal slots;
//!            │                              the chunk size doubles with each pool, up to 256 slots or 1 MiB
//!          thread caches                    each thread caches some slots
//! ```
//!
//! A [`Slots`] manages memory of one kind, for example of one memory type and resource class.
//!
//! Each thread has some slots in a [thread cache](crate::thread_cache), and references that keep the allocator alive
//! for the next owners of the slots. A cached slot is allocated in its chain, but [`Slots::counts`] excludes it, and
//! [`Slots::for_each_chunk`] empties the thread caches first.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free | O(1); waits for no lock and calls no driver |
//! | a new chunk | the cost of the caller's allocation of a range from a block |

use alloc::vec::Vec;
use std::sync::OnceLock;

use crate::pool_chain::{KeepPools, PoolAllocation, PoolChain};
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::thread_cache::{self, ThreadCaches};
use crate::thread_slot::thread_place;
use ringfence_core::blocks::BlockAllocation;
use ringfence_core::range::Invalid;

/// Size of the largest slot, in bytes.
pub const SLOT_BYTES_MAX: u64 = 64 << 10;
/// Number of size classes: powers of two and 1.5 times powers of two, from 256 bytes to 64 KiB.
const CLASS_COUNT: usize = 17;
/// Number of requests of a class that are allocated as ordinary ranges before the class gets a pool.
const DEMAND_MIN: u32 = 16;
/// Number of slots of the first pool of a class. Each further pool has twice as many as the previous one, up to 256
/// slots and `CHUNK_BYTES_MAX` bytes.
const SLOTS_FIRST: u64 = 16;
const CHUNK_BYTES_MAX: u64 = 1 << 20;
const POOLS_MAX: u32 = 1024;
/// Maximum number, and maximum total bytes, of the slots of a class in a thread cache. `CACHED_COUNT_MIN` slots are
/// always permitted.
const CACHED_COUNT_MAX: u64 = 128;
const CACHED_BYTES_MAX: u64 = 512 << 10;
const CACHED_COUNT_MIN: u64 = 4;

/// The memory of a block. It is stored with each chunk and slot of the block.
pub trait SlotMemory: Copy {
    /// Returns `true` if the memory is evicted, so that it must be made resident before use.
    fn is_evicted(&self) -> bool;
}

/// A range of a block that is divided into slots: the heap of a pool.
#[derive(Debug)]
pub struct Chunk<M> {
    /// The block's memory.
    pub memory: M,
    /// The chunk's range in the block.
    pub allocation: BlockAllocation,
}

/// An allocated slot, and the data that the allocator needs to place a resource in it.
#[derive(Debug)]
pub struct Ready<M> {
    /// The slot in its chain.
    pub slot: PoolAllocation,
    /// The block's memory.
    pub memory: M,
    /// Offset of the slot in the memory, in bytes.
    pub offset: u64,
}

impl<M: SlotMemory> Ready<M> {
    /// Creates the data of an allocated slot of a chain.
    fn of(chain: &PoolChain<Chunk<M>>, slot: PoolAllocation) -> Self {
        let chunk = chain.heap(&slot).expect("an owned slot is in a pool of its chain");
        let offset = chunk.allocation.offset() + slot.offset();
        Self { memory: chunk.memory, offset, slot }
    }

    /// Allocates a slot from a chain. Starts at the group that this thread used last. Returns `None` if no slot was
    /// found, or if the memory of the slot is evicted. The caller's slow path makes the memory resident.
    #[inline(always)]
    fn from(chain: &PoolChain<Chunk<M>>) -> Option<Self> {
        let ready = Self::of(chain, chain.allocate_near(thread_place())?);
        if ready.memory.is_evicted() {
            free_to_chain(chain, ready.slot);
            return None;
        }
        Some(ready)
    }
}

fn free_to_chain<M>(chain: &PoolChain<Chunk<M>>, slot: PoolAllocation) {
    chain.free_near(thread_place(), slot).expect("an owned slot is move-only, so it is live");
}

/// Pools of slots of all size classes, in memory of one kind. `M` is the memory of a block; an `O` keeps the allocator
/// alive.
pub struct Slots<M, O = ()> {
    /// The chain of each class, created with its first pool.
    chains: [OnceLock<PoolChain<Chunk<M>>>; CLASS_COUNT],
    thread_caches: ThreadCaches<Ready<M>, O, CLASS_COUNT>,
    /// `true` after the last handle of the allocator was dropped.
    is_closed: AtomicBool,
    /// Tick of the last sweep of the thread caches.
    swept: AtomicU64,
    /// A bit for each class, set if its slots were recalled from the thread caches after the last sweep. A second
    /// recall would find few slots and would empty the caches of all threads again, so `allocate_recalled` refuses it
    /// unless `again` is `true`.
    recalled: AtomicU32,
    demand: [AtomicU32; CLASS_COUNT],
}

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Index of the class, from 0, in order of size.
    pub index: u32,
    /// Size of a slot, in bytes.
    pub bytes: u64,
}

impl Class {
    /// Returns the class of a request. Its slots have the smallest size that is at least 256, at least `size`, a
    /// multiple of `alignment`, and a power of two or 1.5 times a power of two. Returns `None` if the size is 0, if the
    /// size or the alignment exceeds [`SLOT_BYTES_MAX`], or if the alignment is not a power of two.
    #[inline(always)]
    pub const fn of(size: u64, alignment: u64) -> Option<Self> {
        let need = if size > alignment { size } else { alignment };
        // Removes the lowest bit, because counting the bits is slower.
        let is_power = alignment != 0 && alignment & (alignment - 1) == 0;
        if need > SLOT_BYTES_MAX || size == 0 || !is_power {
            return None;
        }
        if need <= 256 {
            return Some(Self { index: 0, bytes: 256 });
        }
        let power = u64::BITS - (need - 1).leading_zeros();
        let quarter = 1 << (power - 2);
        let fits_between = need <= 3 * quarter && alignment <= quarter;
        let bytes = if fits_between { 3 * quarter } else { 4 * quarter };
        Some(Self { index: 2 * (power - 8) - fits_between as u32, bytes })
    }

    const fn bytes_of(index: u32) -> u64 {
        let power = 256 << (index / 2);
        if index.is_multiple_of(2) { power } else { power / 2 * 3 }
    }

    /// Returns the alignment of every slot relative to its chunk, in bytes: the largest power of two that divides the
    /// size.
    pub fn alignment(self) -> u64 {
        1 << self.bytes.trailing_zeros()
    }
}

fn cached_count_max(slot_bytes: u64) -> usize {
    (CACHED_BYTES_MAX / slot_bytes).clamp(CACHED_COUNT_MIN, CACHED_COUNT_MAX) as usize
}

impl<M: SlotMemory, O> Default for Slots<M, O> {
    fn default() -> Self {
        Self {
            chains: std::array::from_fn(|_| OnceLock::new()),
            thread_caches: ThreadCaches::new(std::array::from_fn(|index| {
                cached_count_max(Class::bytes_of(index as u32))
            })),
            is_closed: AtomicBool::new(false),
            swept: AtomicU64::new(0),
            recalled: AtomicU32::new(0),
            demand: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl<M: SlotMemory, O> Slots<M, O> {
    /// Returns `true` if at least 16 requests of the class were counted, so that the class may have pools. If `count`
    /// is `true`, also counts a request.
    pub fn is_common(&self, class: Class, count: bool) -> bool {
        let demand = &self.demand[class.index as usize];
        let seen = demand.load(Ordering::Relaxed);
        if seen < DEMAND_MIN && count {
            demand.fetch_add(1, Ordering::Relaxed);
        }
        seen >= DEMAND_MIN
    }

    fn chain(&self, class: Class) -> &PoolChain<Chunk<M>> {
        self.chains[class.index as usize].get_or_init(|| PoolChain::new(class.bytes, POOLS_MAX))
    }

    /// Takes a slot from this thread's cache. If the cache has none, fills it from the chain first. Returns `None` if
    /// the chain has no free slot, if the memory of the slot is evicted, or if another thread has the cache. Also
    /// returns a reference that keeps the allocator alive, if one is cached.
    #[inline(always)]
    pub fn take_ready(&self, class: Class) -> Option<(Ready<M>, Option<O>)> {
        loop {
            if let Some(found) = self.thread_caches.take(class.index as usize) {
                return Some(found);
            }
            if !self.refill(class) {
                return None;
            }
        }
    }

    /// Fills this thread's cache from the chain. Returns `true` if at least one slot was moved.
    #[cold]
    fn refill(&self, class: Class) -> bool {
        let index = class.index as usize;
        let Some(chain) = self.chains[index].get() else { return false };
        let wanted = self.wanted(class);
        let filled = self.thread_caches.fill(index, (0..wanted.max(1)).map_while(|_| Ready::from(chain)));
        filled > 0
    }

    /// Returns the number of slots to move to this thread's cache, and creates the cache if it does not exist. If the
    /// last handle of the allocator is dropped meanwhile, [`Slots::close_thread_caches`] can miss the new cache. The
    /// cache is then closed here, because an owner in it would keep the allocator alive.
    fn wanted(&self, class: Class) -> usize {
        let wanted = self.thread_caches.wanted(class.index as usize);
        fence(Ordering::SeqCst);
        if !self.is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.close_thread_caches();
        0
    }

    /// Puts a slot that is no longer used into this thread's cache, with its owner: the reference that kept the
    /// allocator alive for the slot. If the cache has no room, frees the older half of its slots of the class to the
    /// chain first. If the slot still does not fit, frees it too, and drops the owner.
    ///
    /// # Safety
    /// `of` must always return the `Slots` to which `ready` belongs. The owner must keep this `Slots` alive, also while
    /// the owner is in the cache.
    #[inline]
    pub unsafe fn put_ready(
        owner: O,
        of: impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: impl FnOnce() -> Ready<M>,
    ) {
        // SAFETY: the caller guarantees the same.
        unsafe {
            if let Err((ready, owner)) = Self::put_into_cache(owner, &of, class, ready) {
                Self::put_slowly(owner, of, class, ready());
            }
        }
    }

    /// Puts a slot and its owner into this thread's cache. Fails and returns both if this thread has no cache, or if
    /// the cache is taken by another thread, closed or full.
    ///
    /// # Safety
    /// The requirements of [`Self::put_ready`].
    #[inline]
    unsafe fn put_into_cache<R: FnOnce() -> Ready<M>>(
        owner: O,
        of: &impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: R,
    ) -> Result<(), (R, O)> {
        match of(&owner).thread_caches.mine().map(std::ptr::from_ref) {
            // SAFETY: the thread cache belongs to the `Slots` that the owner keeps alive, as the caller guarantees.
            Some(thread_cache) => unsafe { thread_cache::put(thread_cache, class as usize, ready, owner) },
            None => Err((ready, owner)),
        }
    }

    /// Frees the older half of the class's cached slots to the chain, then puts the slot into the cache. If it still
    /// does not fit, frees it too.
    ///
    /// # Safety
    /// The requirements of [`Self::put_ready`].
    #[cold]
    unsafe fn put_slowly(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self, class: u32, ready: Ready<M>) {
        let slots = of(&owner);
        slots.thread_caches.older(class as usize).for_each(|older| slots.free(class, older.slot));
        // SAFETY: the caller guarantees the same.
        if let Err((ready, owner)) = unsafe { Self::put_into_cache(owner, &of, class, || ready) } {
            of(&owner).free(class, ready().slot);
        }
    }

    /// Allocates a slot from this thread's cache, or from the chain. Returns `None` if no slot was found. The memory of
    /// the slot may be evicted. Can miss a slot that was freed just before.
    #[inline(always)]
    pub fn allocate(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        let cached = self.thread_caches.take_item(class.index as usize);
        cached.or_else(|| chain.allocate_near(thread_place()).map(|slot| Ready::of(chain, slot)))
    }

    /// Allocates a slot from the chain. Returns `None` only if every group of every pool was full. Call it before a
    /// chunk is created.
    pub fn allocate_thorough(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        chain.allocate_thorough().map(|slot| Ready::of(chain, slot))
    }

    /// Frees the slots of the class in all thread caches, then calls [`Self::allocate_thorough`]. Call it before memory
    /// is allocated. A later call for the class in the same tick returns `None` instead, unless `again` is `true`.
    pub fn allocate_recalled(&self, class: Class, again: bool) -> Option<Ready<M>> {
        let recalled = self.recalled.fetch_or(1 << class.index, Ordering::Relaxed);
        if recalled >> class.index & 1 == 1 && !again {
            return None;
        }
        self.thread_caches.empty_class(class.index as usize, |ready| self.free(class.index, ready.slot));
        self.allocate_thorough(class)
    }

    /// Returns the offset of the slot that a request would get, in bytes from the start of its memory. Returns `None`
    /// if there is no free slot. May move slots to this thread's cache, and may free the slots of the class in all
    /// thread caches.
    pub fn peek(&self, class: Class) -> Option<u64> {
        let cached = || self.thread_caches.peek(class.index as usize, |ready| ready.offset);
        // Fills the cache, like a request.
        let refilled = || self.refill(class).then(cached).flatten();
        cached().or_else(refilled).or_else(|| {
            let found = self.allocate(class).or_else(|| self.allocate_thorough(class));
            let Ready { slot, offset, .. } = found.or_else(|| self.allocate_recalled(class, true))?;
            self.free(class.index, slot);
            Some(offset)
        })
    }

    /// Empties and closes the thread caches. Called when the last handle of the allocator is dropped, so that no cache
    /// keeps the allocator alive.
    pub fn close_thread_caches(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.thread_caches.close(|class, ready| self.free(class as u32, ready.slot));
    }

    /// Frees the slots of all thread caches that were not used since the last tick. Does nothing if it was already
    /// called with this tick.
    fn sweep_thread_caches(&self, tick: u64) {
        if self.swept.swap(tick, Ordering::Relaxed) != tick {
            self.recalled.store(0, Ordering::Relaxed);
            self.thread_caches.sweep(|class, ready| self.free(class as u32, ready.slot));
        }
    }

    /// Returns the number of slots of the next pool of a class.
    pub fn next_count(&self, class: Class) -> u64 {
        let mut pools = 0;
        if let Some(chain) = self.chains[class.index as usize].get() {
            chain.for_each_pool(&mut |_| pools += 1);
        }
        let most = (CHUNK_BYTES_MAX / class.bytes).min(256);
        (SLOTS_FIRST << pools.min(8)).min(most)
    }

    /// Adds a pool of up to `count` slots, in the chunk that `make` returns for a number of bytes, and returns the
    /// first slot. Returns `None`, without a call of `make`, if the chain has its maximum number of pools.
    pub fn grow<E>(
        &self,
        class: Class,
        count: u64,
        make: impl FnOnce(u64) -> Result<Chunk<M>, E>,
    ) -> Option<Result<Ready<M>, E>> {
        let chain = self.chain(class);
        let reservation = chain.reserve(count as u32)?;
        let bytes = u64::from(reservation.block_count()) * class.bytes;
        Some(make(bytes).map(|chunk| Ready::of(chain, reservation.open(chunk))))
    }

    /// Returns the offset of a slot in its memory, in bytes.
    #[inline(always)]
    pub fn offset(&self, class: u32, slot: &PoolAllocation) -> u64 {
        let chain = self.chains[class as usize].get();
        let chunk = chain.and_then(|chain| chain.heap(slot)).expect("an owned slot is in a pool of its chain");
        chunk.allocation.offset() + slot.offset()
    }

    /// Puts a slot into this thread's cache, without an owner. If the cache has no room, frees older slots to the chain
    /// first.
    #[inline]
    pub fn free_cached(&self, class: u32, ready: Ready<M>) {
        if let Err(ready) = self.thread_caches.put_item(class as usize, ready) {
            self.free_cached_slowly(class, ready);
        }
    }

    /// Frees the older half of the class's cached slots to the chain, then puts the slot into the cache. If it still
    /// does not fit, frees it too.
    #[cold]
    fn free_cached_slowly(&self, class: u32, ready: Ready<M>) {
        let index = class as usize;
        self.thread_caches.older(index).for_each(|older| self.free(class, older.slot));
        if let Err(ready) = self.thread_caches.put_item(index, ready) {
            self.free(class, ready.slot);
        }
    }

    /// Frees a slot to its chain.
    ///
    /// # Panics
    /// If the slot does not belong to the chain of this class.
    pub fn free(&self, class: u32, slot: PoolAllocation) {
        let chain = self.chains[class as usize].get().expect("an owned slot has a chain");
        free_to_chain(chain, slot);
    }

    /// Removes a chunk that has had no allocated slot for `grace_ticks` ticks. Returns `None` if there is no such
    /// chunk. The thread caches that were not used since the last tick are emptied first.
    pub fn take_surplus(&self, tick: u64, grace_ticks: u64) -> Option<Chunk<M>> {
        // A chunk with a cached slot is not removed.
        self.sweep_thread_caches(tick);
        let keep = KeepPools { empty_count: 0, grace_ticks };
        self.each().find_map(|(_, chain)| chain.take_surplus(tick, keep))
    }

    /// Empties all thread caches, then removes a chunk without an allocated slot. Returns `None` if there is no such
    /// chunk.
    pub fn take_empty(&self) -> Option<Chunk<M>> {
        self.thread_caches.empty(|class, ready| self.free(class as u32, ready.slot));
        self.each().find_map(|(_, chain)| chain.take_empty())
    }

    fn each(&self) -> impl Iterator<Item = (u32, &PoolChain<Chunk<M>>)> {
        (0..).zip(&self.chains).filter_map(|(index, chain)| Some((index, chain.get()?)))
    }

    /// Returns the numbers and total bytes of chunks and of slots in use.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (class, chain) in self.each() {
            // The cached slots are counted first, so a slot that is cached meanwhile counts as in use.
            let cached = self.thread_caches.count(class as usize) as u64;
            chain.for_each_pool(&mut |pool| {
                counts.chunk_count += 1;
                counts.chunk_bytes += pool.heap().allocation.size();
                counts.live_count += u64::from(pool.live_count());
                counts.live_bytes += u64::from(pool.live_count()) * chain.block_size();
            });
            counts.live_count = counts.live_count.saturating_sub(cached);
            counts.live_bytes = counts.live_bytes.saturating_sub(cached * chain.block_size());
        }
        counts
    }

    /// Calls `each` for each chunk, with its slots in use, in order of their offsets. Empties the thread caches first,
    /// and keeps them empty until this function returns, so `each` must not use this `Slots`.
    pub fn for_each_chunk(&self, mut each: impl FnMut(&BlockAllocation, &[Live])) {
        let mut give = |class, ready: Ready<M>| self.free(class as u32, ready.slot);
        self.thread_caches.while_empty(&mut give, &mut || {
            for (class, chain) in self.each() {
                chain.for_each_pool(&mut |pool| {
                    let chunk = pool.heap().allocation;
                    let mut live = Vec::new();
                    pool.for_each_live(&mut |slot| {
                        let block = (slot.offset / chain.block_size()) as u32;
                        let (pool, offset) = (pool.index(), chunk.offset() + slot.offset);
                        live.push(Live { class, pool, block, offset, bytes: slot.size });
                    });
                    live.sort_by_key(|slot| slot.offset);
                    each(&chunk, &live);
                });
            }
        });
    }

    /// Checks the pools and the thread caches against each other. O(slots).
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.each().try_for_each(|(_, chain)| chain.validate())?;
        self.thread_caches.validate(|class, ready| {
            let chunk = self.chains[class].get().and_then(|chain| chain.heap(&ready.slot));
            let offset = chunk.map(|chunk| chunk.allocation.offset() + ready.slot.offset());
            Invalid::unless(offset == Some(ready.offset), "a slot in a thread cache is live in its chain", ready.offset)
        })
    }
}

/// Numbers and total bytes of the chunks and slots of a [`Slots`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Number of chunks.
    pub chunk_count: u64,
    /// Total size of the chunks, in bytes.
    pub chunk_bytes: u64,
    /// Number of slots in use. Slots in thread caches do not count.
    pub live_count: u64,
    /// Total size of the slots in use, in bytes.
    pub live_bytes: u64,
}

/// A slot in use, as [`Slots::for_each_chunk`] reports it.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Index of the slot's class.
    pub class: u32,
    /// Index of the slot's pool in its chain ([`PoolAllocation::pool`]).
    pub pool: u32,
    /// Index of the slot in its pool ([`PoolAllocation::block`]).
    pub block: u32,
    /// Offset of the slot in the memory of its block, in bytes.
    pub offset: u64,
    /// Size of the slot, in bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;
