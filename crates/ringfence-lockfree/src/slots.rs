//! Equal slots for small and common sizes: lock-free in allocation and free.
//!
//! ```text
//!   class   256   384   512   768   1 Ki  …  48 Ki  64 Ki         exact sizes: never two in one pool
//!            │
//!          demand: the first requests of the class go to the block's own ranges; then
//!            │
//!          chain ──▶ pool ──▶ pool ──▶ …    a pool is a chunk of a block, cut into equal slots;
//!            │                              its chunk doubles with each pool, up to 1 MiB
//!          thread caches                           some slots cached for each thread
//! ```
//!
//! Its blocks are of one kind, of one memory type and resource class for instance: with them the class makes the exact
//! key of a pool.
//!
//! Each thread has some slots in a [thread cache](crate::thread_cache), with what keeps the allocator alive for their
//! next owners. Such a slot is live for its chain; counts leave it out, and what looks at single slots
//! empties the thread caches first.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free | O(1), no lock that is waited for, no driver call |
//! | a chunk more | what it costs the caller to cut it out of a block |

use alloc::vec::Vec;
use std::sync::OnceLock;

use ringfence_core::blocks::BlockAllocation;
use crate::pool_chain::{KeepPools, PoolAllocation, PoolChain};
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use ringfence_core::range::Invalid;
use crate::thread_cache::{self, ThreadCaches};
use crate::thread_slot::thread_place;

/// The largest slot, in bytes.
pub const SLOT_BYTES_MAX: u64 = 64 << 10;
/// Powers of two and 1.5 of them from 256 to 64 KiB.
const CLASS_COUNT: usize = 17;
/// Requests of a class that are served as ordinary ranges before it gets a pool.
const DEMAND: u32 = 16;
/// The first pool's slots; each further pool of a class has twice as many, up to `CHUNK_BYTES_MAX`.
const SLOTS_FIRST: u64 = 16;
const CHUNK_BYTES_MAX: u64 = 1 << 20;
const POOLS_MAX: u32 = 1024;
/// The most slots of a class that a thread cache holds, and the most bytes of them, but for the least count.
const CACHED_COUNT_MAX: u64 = 128;
const CACHED_BYTES_MAX: u64 = 512 << 10;
const CACHED_COUNT_MIN: u64 = 4;

/// The memory of a block, as a chunk and each slot of it have it.
pub trait SlotMemory: Copy {
    /// Whether it has to be brought back before it is used.
    fn is_evicted(&self) -> bool;
}

/// A range of a block that is cut into slots.
#[derive(Debug)]
pub struct Chunk<M> {
    /// The block's memory.
    pub memory: M,
    /// Where it lies in the block.
    pub allocation: BlockAllocation,
}

/// A slot that is claimed, and what an allocation needs to know of it.
#[derive(Debug)]
pub struct Ready<M> {
    /// The slot in its chain.
    pub slot: PoolAllocation,
    /// Its block's memory.
    pub memory: M,
    /// Where it begins in that memory, in bytes.
    pub offset: u64,
}

impl<M: SlotMemory> Ready<M> {
    /// A slot of a chain that was claimed.
    fn of(chain: &PoolChain<Chunk<M>>, slot: PoolAllocation) -> Self {
        let chunk = chain.heap(&slot).expect("a slot that is held lies in a pool of its own chain");
        let offset = chunk.allocation.offset() + slot.offset();
        Self { memory: chunk.memory, offset, slot }
    }

    /// A slot that a chain has free near this thread. `None` also if its memory is evicted: the slow path brings that
    /// back.
    #[inline(always)]
    fn from(chain: &PoolChain<Chunk<M>>) -> Option<Self> {
        let ready = Self::of(chain, chain.allocate_near(thread_place())?);
        if ready.memory.is_evicted() {
            give_back(chain, ready.slot);
            return None;
        }
        Some(ready)
    }
}

fn give_back<M>(chain: &PoolChain<Chunk<M>>, slot: PoolAllocation) {
    chain.free_near(thread_place(), slot).expect("the owner of a slot is move-only: it is live");
}

/// The pools over blocks of one kind, whose memory is seen as `M`. `O` keeps the allocator alive. See the
/// [module](self).
pub struct Slots<M, O = ()> {
    /// By class.
    chains: [OnceLock<PoolChain<Chunk<M>>>; CLASS_COUNT],
    thread_caches: ThreadCaches<Ready<M>, O, CLASS_COUNT>,
    /// The last handle of the allocator is gone.
    is_closed: AtomicBool,
    /// The tick of the last sweep of the thread caches.
    swept: AtomicU64,
    /// A bit for each class whose slots were recalled since then: to recall a few again and again would leave all
    /// threads without any.
    recalled: AtomicU32,
    demand: [AtomicU32; CLASS_COUNT],
}

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// From 0 on, by size.
    pub index: u32,
    /// Bytes of a slot.
    pub bytes: u64,
}

impl Class {
    /// The class of a request: the least power of two, or one and a half of one, from 256 on that holds it and is a
    /// multiple of its alignment. `None` if it is too large for one, of size 0, or misaligned.
    #[inline(always)]
    pub const fn of(size: u64, alignment: u64) -> Option<Self> {
        let need = if size > alignment { size } else { alignment };
        // Its one bit taken off; counting bits is slower.
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

    /// The largest power of two that each slot is aligned to.
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
    /// Whether the class is common enough for pools; counts the request if `count` says so.
    pub fn is_common(&self, class: Class, count: bool) -> bool {
        let demand = &self.demand[class.index as usize];
        let seen = demand.load(Ordering::Relaxed);
        if seen < DEMAND && count {
            demand.fetch_add(1, Ordering::Relaxed);
        }
        seen >= DEMAND
    }

    fn chain(&self, class: Class) -> &PoolChain<Chunk<M>> {
        self.chains[class.index as usize].get_or_init(|| PoolChain::new(class.bytes, POOLS_MAX))
    }

    /// A slot cached for this thread, for a request that asks for nothing but its class; and what keeps the allocator
    /// alive, if that is cached too.
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

    /// Fills this thread's thread cache out of the chain; says whether there are slots in it now.
    #[cold]
    fn refill(&self, class: Class) -> bool {
        let index = class.index as usize;
        let Some(chain) = self.chains[index].get() else { return false };
        let wanted = self.wanted(class);
        let filled = self.thread_caches.fill(index, (0..wanted.max(1)).map_while(|_| Ready::from(chain)));
        filled > 0
    }

    /// How many slots this thread's cache should be given; makes the cache if need be. One that is made while the last
    /// handle of the allocator goes is closed here if it came too late for that: an owner in it would keep the
    /// allocator alive.
    fn wanted(&self, class: Class) -> usize {
        let wanted = self.thread_caches.wanted(class.index as usize);
        fence(Ordering::SeqCst);
        if !self.is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.close_thread_caches();
        0
    }

    /// Takes a slot back that no thread uses, for the next that this thread asks for; and what kept the allocator alive
    /// for it.
    ///
    /// `of` gives these slots, which the owner keeps alive.
    ///
    /// # Safety
    /// `of` gives the slots that `ready` is of each time, and the owner keeps them alive wherever it is.
    #[inline]
    pub unsafe fn put_ready(
        owner: O,
        of: impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: impl FnOnce() -> Ready<M>,
    ) {
        // SAFETY: the caller promises the same.
        unsafe {
            if let Err((ready, owner)) = Self::put_into_cache(owner, &of, class, ready) {
                Self::put_slowly(owner, of, class, ready());
            }
        }
    }

    /// Gives the slot and its owner back if this thread has no thread cache, or one that is taken, closed or without
    /// room.
    ///
    /// # Safety
    /// As [`Self::put_ready`].
    #[inline]
    unsafe fn put_into_cache<R: FnOnce() -> Ready<M>>(
        owner: O,
        of: &impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: R,
    ) -> Result<(), (R, O)> {
        match of(&owner).thread_caches.mine().map(std::ptr::from_ref) {
            // SAFETY: the thread cache is of these slots, which the owner keeps alive, as the caller promises.
            Some(thread_cache) => unsafe { thread_cache::put(thread_cache, class as usize, ready, owner) },
            None => Err((ready, owner)),
        }
    }

    /// Makes room in the thread cache first; gives the slot to its chain if it does not go in then either.
    ///
    /// # Safety
    /// As [`Self::put_ready`].
    #[cold]
    unsafe fn put_slowly(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self, class: u32, ready: Ready<M>) {
        let slots = of(&owner);
        slots.thread_caches.older(class as usize).for_each(|older| slots.free(class, older.slot));
        // SAFETY: the caller promises the same.
        if let Err((ready, owner)) = unsafe { Self::put_into_cache(owner, &of, class, || ready) } {
            of(&owner).free(class, ready().slot);
        }
    }

    /// A slot that this thread has cached, or that a pool has free near it. Its memory may be evicted.
    #[inline(always)]
    pub fn allocate(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        let cached = self.thread_caches.take_item(class.index as usize);
        cached.or_else(|| chain.allocate_near(thread_place()).map(|slot| Ready::of(chain, slot)))
    }

    /// As [`Self::allocate`], by asking each pool: before a chunk is made.
    pub fn allocate_thorough(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        chain.allocate_thorough().map(|slot| Ready::of(chain, slot))
    }

    /// As [`Self::allocate_thorough`], and with what other threads have cached: before memory is asked for, `again` or
    /// once a tick.
    pub fn allocate_recalled(&self, class: Class, again: bool) -> Option<Ready<M>> {
        let recalled = self.recalled.fetch_or(1 << class.index, Ordering::Relaxed);
        if recalled >> class.index & 1 == 1 && !again {
            return None;
        }
        self.thread_caches.empty_class(class.index as usize, |ready| self.free(class.index, ready.slot));
        self.allocate_thorough(class)
    }

    /// The offset of the slot that a request would get, if there is one. Slots may become cached for this thread.
    pub fn peek(&self, class: Class) -> Option<u64> {
        let cached = || self.thread_caches.peek(class.index as usize, |ready| ready.offset);
        // As a request fills it.
        let refilled = || self.refill(class).then(cached).flatten();
        cached().or_else(refilled).or_else(|| {
            let found = self.allocate(class).or_else(|| self.allocate_thorough(class));
            let Ready { slot, offset, .. } = found.or_else(|| self.allocate_recalled(class, true))?;
            self.free(class.index, slot);
            Some(offset)
        })
    }

    /// The end of the allocator's last handle: from now on nothing here keeps it alive.
    pub fn close_thread_caches(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.thread_caches.close(|class, ready| self.free(class as u32, ready.slot));
    }

    /// Gives the slots of thread caches back that no thread has used since the last tick. Once a tick.
    fn sweep_thread_caches(&self, tick: u64) {
        if self.swept.swap(tick, Ordering::Relaxed) != tick {
            self.recalled.store(0, Ordering::Relaxed);
            self.thread_caches.sweep(|class, ready| self.free(class as u32, ready.slot));
        }
    }

    /// Slots that the next pool of a class would have.
    pub fn next_count(&self, class: Class) -> u64 {
        let mut pools = 0;
        if let Some(chain) = self.chains[class.index as usize].get() {
            chain.for_each_pool(&mut |_| pools += 1);
        }
        let most = (CHUNK_BYTES_MAX / class.bytes).min(256);
        (SLOTS_FIRST << pools.min(8)).min(most)
    }

    /// Makes a pool of `count` slots over what `make` gives; its first slot is the caller's. `None` if the chain is at
    /// its end: then `make` was not called.
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

    /// Where a slot lies in its memory.
    #[inline(always)]
    pub fn offset(&self, class: u32, slot: &PoolAllocation) -> u64 {
        let chain = self.chains[class as usize].get();
        let chunk =
            chain.and_then(|chain| chain.heap(slot)).expect("a slot that is held lies in a pool of its own chain");
        chunk.allocation.offset() + slot.offset()
    }

    /// Frees a slot that nothing is noted of: it is cached for this thread's next request, if there is room.
    #[inline]
    pub fn free_cached(&self, class: u32, ready: Ready<M>) {
        if let Err(ready) = self.thread_caches.put_item(class as usize, ready) {
            self.free_cached_slowly(class, ready);
        }
    }

    /// Makes room in the thread cache first.
    #[cold]
    fn free_cached_slowly(&self, class: u32, ready: Ready<M>) {
        let index = class as usize;
        self.thread_caches.older(index).for_each(|older| self.free(class, older.slot));
        if let Err(ready) = self.thread_caches.put_item(index, ready) {
            self.free(class, ready.slot);
        }
    }

    /// Gives a slot back to its chain.
    ///
    /// # Panics
    /// If the slot is not of this class.
    pub fn free(&self, class: u32, slot: PoolAllocation) {
        let chain = self.chains[class as usize].get().expect("a slot that is held has a chain");
        give_back(chain, slot);
    }

    /// A chunk without a live slot that has been so for `grace_ticks`.
    pub fn take_surplus(&self, tick: u64, grace_ticks: u64) -> Option<Chunk<M>> {
        // A slot cached keeps its chunk.
        self.sweep_thread_caches(tick);
        let keep = KeepPools { empty_count: 0, grace_ticks };
        self.each().find_map(|(_, chain)| chain.take_surplus(tick, keep))
    }

    /// A chunk without a live slot.
    pub fn take_empty(&self) -> Option<Chunk<M>> {
        self.thread_caches.empty(|class, ready| self.free(class as u32, ready.slot));
        self.each().find_map(|(_, chain)| chain.take_empty())
    }

    fn each(&self) -> impl Iterator<Item = (u32, &PoolChain<Chunk<M>>)> {
        (0..).zip(&self.chains).filter_map(|(index, chain)| Some((index, chain.get()?)))
    }

    /// What the arena's own figures count once a chunk: chunks, their bytes, live slots, their bytes.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (class, chain) in self.each() {
            // First: what is put into a thread cache meanwhile counts as live, and nothing twice.
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

    /// Shows the live slots of each chunk, in the order of their offsets. Thread caches are emptied before, so that
    /// their slots are not among them, and stay empty until it returns.
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
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.each().try_for_each(|(_, chain)| chain.validate())?;
        self.thread_caches.validate(|class, ready| {
            let chunk = self.chains[class].get().and_then(|chain| chain.heap(&ready.slot));
            let offset = chunk.map(|chunk| chunk.allocation.offset() + ready.slot.offset());
            Invalid::unless(offset == Some(ready.offset), "a slot in a thread cache is live in its chain", ready.offset)
        })
    }
}

/// Figures of all pools: see [`Slots::counts`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Chunks.
    pub chunk_count: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// Slots in use, without those of thread caches.
    pub live_count: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// A slot in use: see [`Slots::for_each_chunk`].
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// The index of its class.
    pub class: u32,
    /// Its pool: see [`PoolAllocation::pool`].
    pub pool: u32,
    /// Which slot of the pool: see [`PoolAllocation::block`].
    pub block: u32,
    /// Where it begins in the memory of its block, in bytes.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;
