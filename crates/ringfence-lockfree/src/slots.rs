//! Lock-free allocation of small, frequent sizes from pools of equal slots.
//!
//! ```text
//!   class   256   384   512   768   1 Ki  …  48 Ki  64 Ki         exact sizes: a pool has slots of one size
//!            │
//!          demand: the first requests of the class are served by the block's own ranges; then
//!            │
//!          chain ──▶ pool ──▶ pool ──▶ …    a pool is a chunk of a block, divided into equal slots;
//!            │                              the chunk size doubles with each pool, up to 1 MiB
//!          thread caches                           some slots cached for each thread
//! ```
//!
//! All blocks of a `Slots` are of one kind, for example of one memory type and resource class. The kind and the size
//! class together are the key of a pool.
//!
//! Each thread has some slots in a [thread cache](crate::thread_cache), together with the references that keep the
//! allocator alive for their next owners. Such a slot is live in its chain. Counts exclude it, and functions that visit
//! single slots empty the thread caches first.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free | O(1); waits for no lock and calls no driver |
//! | a new chunk | the caller's cost of allocating it from a block |

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
/// Number of size classes: powers of two and 1.5 times those, from 256 to 64 KiB.
const CLASS_COUNT: usize = 17;
/// Number of requests of a class that are served as ordinary ranges before it gets a pool.
const DEMAND: u32 = 16;
/// Number of slots of the first pool. Each further pool of a class has twice as many, up to `CHUNK_BYTES_MAX`.
const SLOTS_FIRST: u64 = 16;
const CHUNK_BYTES_MAX: u64 = 1 << 20;
const POOLS_MAX: u32 = 1024;
/// Largest number and bytes of a class's slots in a thread cache; `CACHED_COUNT_MIN` slots are always allowed.
const CACHED_COUNT_MAX: u64 = 128;
const CACHED_BYTES_MAX: u64 = 512 << 10;
const CACHED_COUNT_MIN: u64 = 4;

/// The memory of a block, as stored with its chunks and slots.
pub trait SlotMemory: Copy {
    /// Returns `true` if the memory must be made resident before use.
    fn is_evicted(&self) -> bool;
}

/// A range of a block that is divided into slots.
#[derive(Debug)]
pub struct Chunk<M> {
    /// The block's memory.
    pub memory: M,
    /// The chunk's range in the block.
    pub allocation: BlockAllocation,
}

/// A claimed slot, with the data that an allocation needs.
#[derive(Debug)]
pub struct Ready<M> {
    /// The slot in its chain.
    pub slot: PoolAllocation,
    /// The block's memory.
    pub memory: M,
    /// Offset of the slot in that memory, in bytes.
    pub offset: u64,
}

impl<M: SlotMemory> Ready<M> {
    /// Creates the data of a claimed slot of a chain.
    fn of(chain: &PoolChain<Chunk<M>>, slot: PoolAllocation) -> Self {
        let chunk = chain.heap(&slot).expect("an owned slot is in a pool of its chain");
        let offset = chunk.allocation.offset() + slot.offset();
        Self { memory: chunk.memory, offset, slot }
    }

    /// Allocates a slot near this thread from a chain. Also returns `None` if its memory is evicted: the slow path
    /// makes it resident.
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
    chain.free_near(thread_place(), slot).expect("an owned slot is move-only, so it is live");
}

/// Pools over blocks of one kind, with memory of type `M`. `O` keeps the allocator alive. See the [module](self).
pub struct Slots<M, O = ()> {
    /// By class.
    chains: [OnceLock<PoolChain<Chunk<M>>>; CLASS_COUNT],
    thread_caches: ThreadCaches<Ready<M>, O, CLASS_COUNT>,
    /// `true` once the last handle of the allocator is dropped.
    is_closed: AtomicBool,
    /// Tick of the last sweep of the thread caches.
    swept: AtomicU64,
    /// A bit for each class whose slots were recalled since then. Recalling a few slots repeatedly would empty the
    /// caches of all threads.
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
    /// Returns the class of a request: the smallest power of two, or 1.5 times one, that is at least 256, at least the
    /// size, and a multiple of the alignment. `None` if the size is 0 or too large, or the alignment is not a power of
    /// two or too large.
    #[inline(always)]
    pub const fn of(size: u64, alignment: u64) -> Option<Self> {
        let need = if size > alignment { size } else { alignment };
        // Removes the lowest bit; counting bits is slower.
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

    /// Returns the largest power of two to which every slot is aligned.
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
    /// Returns `true` if the class has had enough requests for pools. Counts the request if `count` is set.
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

    /// Takes a slot out of this thread's cache, for a request that needs only its class. Also returns a reference that
    /// keeps the allocator alive, if one is cached.
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

    /// Fills this thread's cache from the chain. Returns `true` if it received slots.
    #[cold]
    fn refill(&self, class: Class) -> bool {
        let index = class.index as usize;
        let Some(chain) = self.chains[index].get() else { return false };
        let wanted = self.wanted(class);
        let filled = self.thread_caches.fill(index, (0..wanted.max(1)).map_while(|_| Ready::from(chain)));
        filled > 0
    }

    /// Returns the number of slots to move to this thread's cache, and creates the cache if needed. A cache that is
    /// created while the last handle of the allocator is dropped can miss the close; then it is closed here, because an
    /// owner in it would keep the allocator alive.
    fn wanted(&self, class: Class) -> usize {
        let wanted = self.thread_caches.wanted(class.index as usize);
        fence(Ordering::SeqCst);
        if !self.is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.close_thread_caches();
        0
    }

    /// Caches an unused slot for this thread's next request, with the owner that kept the allocator alive for it.
    ///
    /// # Safety
    /// `of` must always return the `Slots` to which `ready` belongs, and the owner must keep them alive wherever it is.
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

    /// Returns the slot and its owner if this thread has no cache, or if the cache is taken, closed or full.
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

    /// Makes room in the thread cache first; if the slot still does not fit, frees it to its chain.
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

    /// Allocates a slot from this thread's cache, or from a pool near this thread. Its memory may be evicted.
    #[inline(always)]
    pub fn allocate(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        let cached = self.thread_caches.take_item(class.index as usize);
        cached.or_else(|| chain.allocate_near(thread_place()).map(|slot| Ready::of(chain, slot)))
    }

    /// Like [`Self::allocate`], but tries every pool. Call it before a chunk is created.
    pub fn allocate_thorough(&self, class: Class) -> Option<Ready<M>> {
        let chain = self.chains[class.index as usize].get()?;
        chain.allocate_thorough().map(|slot| Ready::of(chain, slot))
    }

    /// Like [`Self::allocate_thorough`], after freeing the slots that all threads have cached. Call it before memory is
    /// allocated. Works once a tick for each class, unless `again` is set.
    pub fn allocate_recalled(&self, class: Class, again: bool) -> Option<Ready<M>> {
        let recalled = self.recalled.fetch_or(1 << class.index, Ordering::Relaxed);
        if recalled >> class.index & 1 == 1 && !again {
            return None;
        }
        self.thread_caches.empty_class(class.index as usize, |ready| self.free(class.index, ready.slot));
        self.allocate_thorough(class)
    }

    /// Returns the offset of the slot that a request would get, if there is one. May move slots to this thread's cache.
    pub fn peek(&self, class: Class) -> Option<u64> {
        let cached = || self.thread_caches.peek(class.index as usize, |ready| ready.offset);
        // Fills the cache as a request would.
        let refilled = || self.refill(class).then(cached).flatten();
        cached().or_else(refilled).or_else(|| {
            let found = self.allocate(class).or_else(|| self.allocate_thorough(class));
            let Ready { slot, offset, .. } = found.or_else(|| self.allocate_recalled(class, true))?;
            self.free(class.index, slot);
            Some(offset)
        })
    }

    /// Empties and closes the thread caches, when the last handle of the allocator is dropped. From then on, no cache
    /// keeps the allocator alive.
    pub fn close_thread_caches(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.thread_caches.close(|class, ready| self.free(class as u32, ready.slot));
    }

    /// Frees the slots of thread caches that were not used since the last tick. Called once a tick.
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

    /// Creates a pool of `count` slots over the chunk that `make` returns, and returns its first slot. `None` if the
    /// chain has its largest number of pools: then `make` is not called.
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

    /// Returns the offset of a slot in its memory.
    #[inline(always)]
    pub fn offset(&self, class: u32, slot: &PoolAllocation) -> u64 {
        let chain = self.chains[class as usize].get();
        let chunk = chain.and_then(|chain| chain.heap(slot)).expect("an owned slot is in a pool of its chain");
        chunk.allocation.offset() + slot.offset()
    }

    /// Frees a slot without notes: caches it for this thread's next request, if there is room.
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

    /// Frees a slot to its chain.
    ///
    /// # Panics
    /// If the slot is not of this class.
    pub fn free(&self, class: u32, slot: PoolAllocation) {
        let chain = self.chains[class as usize].get().expect("an owned slot has a chain");
        give_back(chain, slot);
    }

    /// Removes a chunk that has been without a live slot for `grace_ticks`.
    pub fn take_surplus(&self, tick: u64, grace_ticks: u64) -> Option<Chunk<M>> {
        // A cached slot keeps its chunk.
        self.sweep_thread_caches(tick);
        let keep = KeepPools { empty_count: 0, grace_ticks };
        self.each().find_map(|(_, chain)| chain.take_surplus(tick, keep))
    }

    /// Removes a chunk without a live slot, after emptying the thread caches.
    pub fn take_empty(&self) -> Option<Chunk<M>> {
        self.thread_caches.empty(|class, ready| self.free(class as u32, ready.slot));
        self.each().find_map(|(_, chain)| chain.take_empty())
    }

    fn each(&self) -> impl Iterator<Item = (u32, &PoolChain<Chunk<M>>)> {
        (0..).zip(&self.chains).filter_map(|(index, chain)| Some((index, chain.get()?)))
    }

    /// Returns the numbers and bytes of chunks and live slots.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (class, chain) in self.each() {
            // Read first: slots that are cached meanwhile count as live, and no slot is subtracted twice.
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

    /// Calls `each` with the live slots of each chunk, in order of their offsets. Empties the thread caches first, so
    /// that their slots are excluded, and keeps them empty until it returns.
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

/// Numbers and bytes of all pools; see [`Slots::counts`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Number of chunks.
    pub chunk_count: u64,
    /// Bytes of the chunks.
    pub chunk_bytes: u64,
    /// Number of slots in use, without those in thread caches.
    pub live_count: u64,
    /// Bytes of the slots in use.
    pub live_bytes: u64,
}

/// A slot in use; see [`Slots::for_each_chunk`].
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Index of its class.
    pub class: u32,
    /// Its pool: see [`PoolAllocation::pool`].
    pub pool: u32,
    /// Its index in the pool: see [`PoolAllocation::block`].
    pub block: u32,
    /// Offset in the memory of its block, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;
