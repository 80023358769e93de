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
//! With the arena, which is one memory type and resource class, the class makes the exact key of a pool.
//!
//! Each thread has some slots in a [thread cache](ringfence_core::thread_cache), with what keeps the allocator alive
//! for their next owners. Such a slot is live for its chain; counts leave it out, and what looks at single slots
//! empties the thread caches first.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free | O(1), no lock that is waited for, no driver call |
//! | a chunk more | a range of a block, under the arena's locks |

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, BlockId};
use ringfence_core::pool_chain::{KeepPools, PoolAllocation, PoolChain};
use ringfence_core::range::Invalid;
use ringfence_core::thread_cache::{self, ThreadCaches};
use ringfence_core::thread_slot::thread_place;
use ringfence_trace::RangeSnapshot;

use super::block_memory::BlockMemory;
use super::note::{Note, range_snapshot};
use super::request::Request;
use crate::device::Device;

pub(super) const SLOT_BYTES_MAX: u64 = 64 << 10;
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

/// A range of a block that is cut into slots.
pub(super) struct Chunk<D: Device> {
    pub(super) memory: BlockMemory<D>,
    pub(super) allocation: BlockAllocation,
}

/// A slot that is claimed, and what an allocation needs to know of it.
pub(crate) struct Ready<D: Device> {
    pub(crate) slot: PoolAllocation,
    pub(crate) memory: BlockMemory<D>,
    pub(crate) offset: u64,
}

impl<D: Device> Ready<D> {
    /// A slot of a chain that was claimed.
    fn of(chain: &PoolChain<Chunk<D>>, slot: PoolAllocation) -> Self {
        let chunk = chain.heap(&slot).expect("a slot that is held lies in a pool of its own chain");
        let offset = chunk.allocation.offset() + slot.offset();
        // SAFETY: it is read by the owner of the slot, which keeps the chunk's range live.
        Self { memory: unsafe { chunk.memory.inside() }, offset, slot }
    }

    /// A slot that a chain has free near this thread. `None` also if its memory is evicted: the slow path brings that
    /// back.
    #[inline(always)]
    fn from(chain: &PoolChain<Chunk<D>>) -> Option<Self> {
        let ready = Self::of(chain, chain.allocate_near(thread_place())?);
        if ready.memory.is_evicted() {
            give_back(chain, ready.slot);
            return None;
        }
        Some(ready)
    }
}

fn give_back<D: Device>(chain: &PoolChain<Chunk<D>>, slot: PoolAllocation) {
    chain.free_near(thread_place(), slot).expect("the owner of a slot is move-only: it is live");
}

/// The pools of one arena. `O` keeps the allocator alive.
pub(crate) struct Slots<D: Device, O = ()> {
    /// By class.
    chains: [OnceLock<PoolChain<Chunk<D>>>; CLASS_COUNT],
    thread_caches: ThreadCaches<Ready<D>, O, CLASS_COUNT>,
    /// The last handle of the allocator is gone.
    is_closed: AtomicBool,
    /// The tick of the last sweep of the thread caches.
    swept: AtomicU64,
    /// A bit for each class whose slots were recalled since then: to recall a few again and again would leave all
    /// threads without any.
    recalled: AtomicU32,
    demand: [AtomicU32; CLASS_COUNT],
    /// Of slots that have one, by class, pool and slot.
    notes: Mutex<HashMap<(u32, u32, u32), Note>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class {
    pub(crate) index: u32,
    pub(super) bytes: u64,
}

impl Class {
    /// The class of a request: the least power of two, or one and a half of one, from 256 on that holds it and is a
    /// multiple of its alignment. `None` if it is too large for one, of size 0, or misaligned.
    #[inline(always)]
    pub(super) const fn of(size: u64, alignment: u64) -> Option<Self> {
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
    pub(super) fn alignment(self) -> u64 {
        1 << self.bytes.trailing_zeros()
    }
}

fn cached_count_max(slot_bytes: u64) -> usize {
    (CACHED_BYTES_MAX / slot_bytes).clamp(CACHED_COUNT_MIN, CACHED_COUNT_MAX) as usize
}

impl<D: Device, O> Slots<D, O> {
    pub(super) fn new() -> Self {
        Self {
            chains: std::array::from_fn(|_| OnceLock::new()),
            thread_caches: ThreadCaches::new(std::array::from_fn(|index| {
                cached_count_max(Class::bytes_of(index as u32))
            })),
            is_closed: AtomicBool::new(false),
            swept: AtomicU64::new(0),
            recalled: AtomicU32::new(0),
            demand: std::array::from_fn(|_| AtomicU32::new(0)),
            notes: Mutex::new(HashMap::new()),
        }
    }

    /// Holds the names for as long as the guard lives.
    #[cfg(test)]
    pub(super) fn hold_names(&self) -> impl Drop + '_ {
        self.notes.lock()
    }

    /// Whether the class is common enough for pools; counts the request if `count` says so.
    pub(super) fn is_common(&self, class: Class, count: bool) -> bool {
        let demand = &self.demand[class.index as usize];
        let seen = demand.load(Ordering::Relaxed);
        if seen < DEMAND && count {
            demand.fetch_add(1, Ordering::Relaxed);
        }
        seen >= DEMAND
    }

    fn chain(&self, class: Class) -> &PoolChain<Chunk<D>> {
        self.chains[class.index as usize].get_or_init(|| PoolChain::new(class.bytes, POOLS_MAX))
    }

    /// A slot cached for this thread, for a request that asks for nothing but its class; and what keeps the allocator
    /// alive, if that is cached too.
    #[inline(always)]
    pub(crate) fn take_ready(&self, class: Class) -> Option<(Ready<D>, Option<O>)> {
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

    /// Takes a slot back that no thread uses, for the next that this thread asks for.
    ///
    /// `of` gives the slots that it is of, which its owner keeps alive.
    #[inline]
    pub(crate) fn put_ready(
        owner: O,
        of: impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: impl FnOnce() -> Ready<D>,
    ) {
        if let Err((ready, owner)) = Self::put_into_cache(owner, &of, class, ready) {
            Self::put_slowly(owner, of, class, ready());
        }
    }

    /// Gives the slot and its owner back if this thread has no thread cache, or one that is taken, closed or without
    /// room.
    #[inline]
    fn put_into_cache<R: FnOnce() -> Ready<D>>(
        owner: O,
        of: &impl for<'a> Fn(&'a O) -> &'a Self,
        class: u32,
        ready: R,
    ) -> Result<(), (R, O)> {
        match of(&owner).thread_caches.mine().map(std::ptr::from_ref) {
            // SAFETY: the thread cache is of the arena that the slot is of, and that of the owner's allocator.
            Some(thread_cache) => unsafe { thread_cache::put(thread_cache, class as usize, ready, owner) },
            None => Err((ready, owner)),
        }
    }

    /// Makes room in the thread cache first; gives the slot to its chain if it does not go in then either.
    #[cold]
    fn put_slowly(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self, class: u32, ready: Ready<D>) {
        let slots = of(&owner);
        slots.thread_caches.older(class as usize).for_each(|older| slots.free(class, false, older.slot));
        if let Err((ready, owner)) = Self::put_into_cache(owner, &of, class, || ready) {
            of(&owner).free(class, false, ready().slot);
        }
    }

    /// A slot that this thread has cached, or that a pool has free near it. Its memory may be evicted.
    #[inline(always)]
    pub(super) fn allocate(&self, class: Class) -> Option<Ready<D>> {
        let chain = self.chains[class.index as usize].get()?;
        let cached = self.thread_caches.take_item(class.index as usize);
        cached.or_else(|| chain.allocate_near(thread_place()).map(|slot| Ready::of(chain, slot)))
    }

    /// As [`Self::allocate`], by asking each pool: before a chunk is made.
    pub(super) fn allocate_thorough(&self, class: Class) -> Option<Ready<D>> {
        let chain = self.chains[class.index as usize].get()?;
        chain.allocate_thorough().map(|slot| Ready::of(chain, slot))
    }

    /// As [`Self::allocate_thorough`], and with what other threads have cached: before memory is asked for, `again` or
    /// once a tick.
    pub(super) fn allocate_recalled(&self, class: Class, again: bool) -> Option<Ready<D>> {
        let recalled = self.recalled.fetch_or(1 << class.index, Ordering::Relaxed);
        if recalled >> class.index & 1 == 1 && !again {
            return None;
        }
        self.thread_caches.empty_class(class.index as usize, |ready| self.free(class.index, false, ready.slot));
        self.allocate_thorough(class)
    }

    /// The offset of the slot that a request would get, if there is one. Slots may become cached for this thread.
    pub(super) fn peek(&self, class: Class) -> Option<u64> {
        let cached = || self.thread_caches.peek(class.index as usize, |ready| ready.offset);
        // As a request fills it.
        let refilled = || self.refill(class).then(cached).flatten();
        cached().or_else(refilled).or_else(|| {
            let found = self.allocate(class).or_else(|| self.allocate_thorough(class));
            let Ready { slot, offset, .. } = found.or_else(|| self.allocate_recalled(class, true))?;
            self.free(class.index, false, slot);
            Some(offset)
        })
    }

    /// The end of the allocator's last handle: from now on nothing here keeps it alive.
    pub(super) fn close_thread_caches(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.thread_caches.close(|class, ready| self.free(class as u32, false, ready.slot));
    }

    /// Gives the slots of thread caches back that no thread has used since the last tick. Once a tick.
    fn sweep_thread_caches(&self, tick: u64) {
        if self.swept.swap(tick, Ordering::Relaxed) != tick {
            self.recalled.store(0, Ordering::Relaxed);
            self.thread_caches.sweep(|class, ready| self.free(class as u32, false, ready.slot));
        }
    }

    /// Slots that the next pool of a class would have.
    pub(super) fn next_count(&self, class: Class) -> u64 {
        let mut pools = 0;
        if let Some(chain) = self.chains[class.index as usize].get() {
            chain.for_each_pool(&mut |_| pools += 1);
        }
        let most = (CHUNK_BYTES_MAX / class.bytes).min(256);
        (SLOTS_FIRST << pools.min(8)).min(most)
    }

    /// Makes a pool of `count` slots over what `make` gives; its first slot is the caller's. `None` if the chain is at
    /// its end: then `make` was not called.
    pub(super) fn grow<E>(
        &self,
        class: Class,
        count: u64,
        make: impl FnOnce(u64) -> Result<Chunk<D>, E>,
    ) -> Option<Result<Ready<D>, E>> {
        let chain = self.chain(class);
        let reservation = chain.reserve(count as u32)?;
        let bytes = u64::from(reservation.block_count()) * class.bytes;
        Some(make(bytes).map(|chunk| Ready::of(chain, reservation.open(chunk))))
    }

    /// Where a slot lies in its memory.
    #[inline(always)]
    pub(super) fn offset(&self, class: u32, slot: &PoolAllocation) -> u64 {
        let chain = self.chains[class as usize].get();
        let chunk =
            chain.and_then(|chain| chain.heap(slot)).expect("a slot that is held lies in a pool of its own chain");
        chunk.allocation.offset() + slot.offset()
    }

    /// Notes a slot's name and user data, if it has any; says whether it has.
    #[inline(always)]
    pub(super) fn note(&self, class: u32, slot: &PoolAllocation, request: &Request<'_>) -> bool {
        let Some(note) = Note::of(request) else { return false };
        self.notes.lock().insert((class, slot.pool(), slot.block()), note);
        true
    }

    /// Notes something else of a slot, which counts as noted from now on.
    pub(super) fn renote(&self, class: u32, slot: &PoolAllocation, change: &dyn Fn(&mut Note)) {
        change(self.notes.lock().entry((class, slot.pool(), slot.block())).or_default());
    }

    /// Frees a slot that nothing is noted of: it is cached for this thread's next request, if there is room.
    #[inline]
    pub(super) fn free_cached(&self, class: u32, ready: Ready<D>) {
        if let Err(ready) = self.thread_caches.put_item(class as usize, ready) {
            self.free_cached_slowly(class, ready);
        }
    }

    /// Makes room in the thread cache first.
    #[cold]
    fn free_cached_slowly(&self, class: u32, ready: Ready<D>) {
        let index = class as usize;
        self.thread_caches.older(index).for_each(|older| self.free(class, false, older.slot));
        if let Err(ready) = self.thread_caches.put_item(index, ready) {
            self.free(class, false, ready.slot);
        }
    }

    pub(super) fn free(&self, class: u32, named: bool, slot: PoolAllocation) {
        if named {
            self.notes.lock().remove(&(class, slot.pool(), slot.block()));
        }
        let chain = self.chains[class as usize].get().expect("a slot that is held has a chain");
        give_back(chain, slot);
    }

    /// A chunk without a live slot that has been so for `grace_ticks`.
    pub(super) fn take_surplus(&self, tick: u64, grace_ticks: u64) -> Option<Chunk<D>> {
        // A slot cached keeps its chunk.
        self.sweep_thread_caches(tick);
        let keep = KeepPools { empty_count: 0, grace_ticks };
        self.each().find_map(|(_, chain)| chain.take_surplus(tick, keep))
    }

    pub(super) fn take_empty(&self) -> Option<Chunk<D>> {
        self.thread_caches.empty(|class, ready| self.free(class as u32, false, ready.slot));
        self.each().find_map(|(_, chain)| chain.take_empty())
    }

    fn each(&self) -> impl Iterator<Item = (u32, &PoolChain<Chunk<D>>)> {
        (0..).zip(&self.chains).filter_map(|(index, chain)| Some((index, chain.get()?)))
    }

    /// What the arena's own figures count once a chunk: chunks, their bytes, live slots, their bytes.
    pub(super) fn counts(&self) -> CellCounts {
        let mut counts = CellCounts::default();
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

    /// The live slots of each chunk, as ranges of its block; by block and slot of the chunk's range.
    pub(super) fn snapshot(&self, into: &mut HashMap<(BlockId, u32), Vec<RangeSnapshot>>) {
        let mut give = |class, ready: Ready<D>| self.free(class as u32, false, ready.slot);
        self.thread_caches.while_empty(&mut give, &mut || self.snapshot_live(into));
    }

    fn snapshot_live(&self, into: &mut HashMap<(BlockId, u32), Vec<RangeSnapshot>>) {
        let notes = self.notes.lock();
        for (class, chain) in self.each() {
            chain.for_each_pool(&mut |pool| {
                let chunk = pool.heap().allocation;
                let ranges = into.entry((chunk.block(), chunk.range().slot())).or_default();
                pool.for_each_live(&mut |slot| {
                    let index = (slot.offset / chain.block_size()) as u32;
                    let note = notes.get(&(class, pool.index(), index));
                    ranges.push(range_snapshot(chunk.offset() + slot.offset, slot.size, note));
                });
                ranges.sort_by_key(|range| range.offset);
            });
        }
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.each().try_for_each(|(_, chain)| chain.validate())?;
        self.thread_caches.validate(|class, ready| {
            let chunk = self.chains[class].get().and_then(|chain| chain.heap(&ready.slot));
            let offset = chunk.map(|chunk| chunk.allocation.offset() + ready.slot.offset());
            Invalid::unless(offset == Some(ready.offset), "a slot in a thread cache is live in its chain", ready.offset)
        })
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct CellCounts {
    pub(super) chunk_count: u64,
    pub(super) chunk_bytes: u64,
    pub(super) live_count: u64,
    pub(super) live_bytes: u64,
}

#[cfg(test)]
mod tests;
