//! The steps if memory is short: freeing empty blocks, evicting memory that no submission uses, and the eviction
//! callback. Also the error if all steps have failed.
//!
//! The callback is called with no lock held:
//!
//! ```text
//!   a request of the program ── no memory ──▶ the callback, then the request again
//!   a request under a lock (for example of a ring that grows) ── no memory ──▶ the call is deferred, the request fails
//!        └─ the lock is released ──▶ retry_after_eviction(): the callback, then the request again
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_decision::{Attempt, Error, Evict, Failure, ObjectRequest, Pressure, Tried};
use ringfence_observe::{Event, Warning};

use super::pool::PoolState;
use super::shared::{OwnArena, Shared};
use crate::device::lock::{drop_unlocked, is_locked};
use crate::device::{Device, DeviceError};

/// Maximum number of calls of the callback for one request. The callback is called again as long as it releases
/// something.
const EVICTIONS_MAX: u32 = 8;

/// Factor of the hash in [`Shared::trim_mark`]: an odd number without a pattern.
const MARK_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl<D: Device> Shared<D> {
    /// Calls `make`, unless the object exceeds the largest size or a limit, or was refused before. All memory objects
    /// except imported ones are created here. So if the driver's budgets are old, this function also reads them again.
    pub(super) fn make_within<R>(
        &self,
        object: ObjectRequest,
        attempt: &mut Attempt,
        make: impl FnOnce() -> Result<R, DeviceError>,
    ) -> Result<R, Failure> {
        let ObjectRequest { memory_type, bytes, kind, reach } = object;
        let (heap, max) = (self.heap_of(memory_type), self.object_bytes_max(memory_type));
        if bytes > max {
            return Err(Failure::TooLarge { max });
        }
        self.budgets.refresh_if_old(&self.device);
        let refusals = &self.budgets.refusals;
        let epoch = refusals.epoch(heap);
        if !attempt.constraints.ignores_refusals && refusals.covers(memory_type, kind, bytes, epoch) {
            attempt.was_spared = true;
            return Err(Failure::Refused);
        }
        let taken = self.budgets.take(heap, bytes, reach).ok_or(Failure::OverBudget)?;
        match make() {
            Ok(made) => {
                taken.keep();
                Ok(made)
            }
            Err(error) => {
                if matches!(error, DeviceError::OutOfDeviceMemory | DeviceError::OutOfHostMemory) {
                    refusals.note(memory_type, kind, bytes, epoch);
                }
                Err(Failure::Driver(error))
            }
        }
    }

    /// Returns `true` if [`Shared::make_within`] would fail without a driver call.
    pub(super) fn is_known_to_fail(&self, object: ObjectRequest) -> bool {
        let ObjectRequest { memory_type, bytes, reach, .. } = object;
        let max = self.object_bytes_max(memory_type);
        bytes > max || self.is_refused(object) || !self.budgets.would_take(self.heap_of(memory_type), bytes, reach)
    }

    /// Returns `true` if the driver refused this size or a smaller one, and since then no memory of the heap was freed
    /// and its budget did not change.
    pub(super) fn is_refused(&self, object: ObjectRequest) -> bool {
        let ObjectRequest { memory_type, bytes, kind, .. } = object;
        let refusals = &self.budgets.refusals;
        refusals.covers(memory_type, kind, bytes, refusals.epoch(self.heap_of(memory_type)))
    }

    /// Destroys objects that the device is done with, and frees all empty memory of this heap, or of every heap if
    /// memory objects are short. Returns `true` if memory was freed to the driver. If an earlier trim released nothing,
    /// and nothing has become releasable since, does nothing.
    pub(super) fn trim_heap(&self, heap: u32, failure: Failure, attempt: &mut Attempt) -> bool {
        let of_heap = (!failure.is_of_every_heap()).then_some(heap);
        let mark = self.trim_mark(of_heap);
        if !attempt.constraints.ignores_refusals && self.budgets.refusals.was_trimmed(of_heap, mark) {
            attempt.was_spared = true;
            return false;
        }
        attempt.tried |= Tried::TRIM;
        let is_meant = |held| of_heap.is_none_or(|heap| heap == held);
        let heaps = || (0..self.budgets.heap_count()).filter(|held| is_meant(*held));
        let freed = || heaps().map(|held| self.budgets.freed_bytes(held)).sum::<u64>();
        let before = freed();
        let has_released = self.release_unused_of(&is_meant);
        self.free_empty_blocks(is_meant, 0, attempt.constraints.spares_announced);
        attempt.has_released |= has_released;
        if !has_released && freed() == before && !attempt.constraints.spares_announced {
            self.budgets.refusals.note_trimmed(of_heap, mark);
        }
        freed() != before
    }

    /// Returns a mark that changes if a trim of the heap (if `heap` is `None`, of every heap) may free more than
    /// before. It depends on the freed ranges, the reclaims, the number of retired objects and the bytes of recycled
    /// objects. Never 0. Freed slots and some concurrent changes do not change the mark.
    pub(super) fn trim_mark(&self, heap: Option<u32>) -> u64 {
        let is_meant = |held| heap.is_none_or(|heap| heap == held);
        let own = self.arenas.iter().filter(|arena| is_meant(arena.desc.heap)).map(OwnArena::freed_count);
        let pools = self.custom_pools.read();
        let of_pools = pools.iter().filter(|pool| is_meant(pool.arena.desc.heap)).map(|pool| pool.arena.freed_count());
        let counts = [
            own.chain(of_pools).fold(0, u64::wrapping_add),
            self.releases.tick.load(Ordering::Relaxed),
            self.releases.retired.len() as u64,
            self.recycled.reserved_bytes(),
        ];
        counts.iter().fold(0, |mark: u64, count| (mark ^ count).wrapping_mul(MARK_FACTOR).rotate_left(29)).max(1)
    }

    /// Calls the driver to create an object without memory from an arena. If memory is short, frees unused memory and
    /// tries again.
    #[inline(always)]
    pub(crate) fn make_object<R>(&self, make: impl Fn() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
        match make() {
            Err(error) => self.make_again(error, make),
            made => made,
        }
    }

    /// A function of its own, because the first try is inlined into its caller.
    #[cold]
    #[inline(never)]
    fn make_again<R>(&self, error: DeviceError, make: impl Fn() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
        if error.is_out_of_memory() && self.release_unused() { make() } else { Err(error) }
    }

    /// Destroys recycled objects and objects that the device is done with, and frees empty blocks, because the driver
    /// is out of memory for its own objects. Returns `true` if anything was freed.
    #[cold]
    fn release_unused(&self) -> bool {
        let reclaimed = self.reclaim_in_shortage();
        let any_cached = self.empty_caches(&|_| true);
        reclaimed.objects + reclaimed.blocks + self.free_empty_blocks(|_| true, 0, false).0 > 0 || any_cached
    }

    /// Evicts memory that no submission uses, if memory is short. Returns `true` if memory was evicted.
    pub(super) fn evict_unused(&self, attempt: &mut Attempt, failure: Failure) -> bool {
        let relieved =
            failure.is_shortage() && attempt.best.is_some_and(|best| self.relieve(self.heap_of(best), attempt.size));
        if relieved {
            attempt.tried |= Tried::RESIDENCY;
        }
        relieved
    }

    /// Destroys retired objects that the device is done with. In these heaps, also destroys recycled objects, frees
    /// empty memory outside the arenas, and returns unused slots to their blocks. Returns `true` if anything was freed.
    fn release_unused_of(&self, heaps: &dyn Fn(u32) -> bool) -> bool {
        let any_retired = self.reclaim_in_shortage().objects > 0;
        let any_cached = self.empty_caches(heaps);
        let arenas = self.arenas.iter().filter(|arena| heaps(arena.desc.heap));
        arenas.map(OwnArena::free_empty_chunks).fold(any_retired || any_cached, |any, freed| any || freed)
    }

    /// Returns `true` if a block that is in use may have room now, because memory in it was released by the trim of an
    /// earlier step. If no trim was tried (the request may not grow, a pool is full, an object could not be placed),
    /// this call releases memory.
    pub(super) fn release_unused_for(&self, attempt: &Attempt) -> bool {
        if attempt.tried.contains(Tried::TRIM) {
            return attempt.has_released;
        }
        attempt.best.is_some_and(|best| self.release_unused_of(&|heap| heap == self.heap_of(best)))
    }

    /// Calls the eviction callback. Returns `true` if it released something. If this thread holds a lock, the callback
    /// is not called here: see [`retry_after_eviction`].
    pub(super) fn call_eviction(&self, attempt: &mut Attempt, failure: Failure, round: u32) -> bool {
        let (true, Some(best)) = (failure.is_shortage(), attempt.best) else { return false };
        if round >= EVICTIONS_MAX {
            return false;
        }
        let Some(callback) = self.evict.read().clone() else { return false };
        let (heap, Attempt { size, location, .. }) = (self.heap_of(best), *attempt);
        let budget = self.budgets.heap(heap);
        let (usage_bytes, budget_bytes) = (budget.usage_bytes, budget.budget_bytes);
        let called = call(callback, Pressure { size, location, heap, usage_bytes, budget_bytes, round });
        attempt.tried.set(Tried::EVICTION, called.is_some() || attempt.tried.contains(Tried::EVICTION));
        called == Some(true)
    }

    /// Returns the error of a request for which all steps have failed.
    pub(super) fn give_up(&self, attempt: &Attempt, pool: Option<&Arc<PoolState<D>>>, failure: Failure) -> Error {
        let Attempt { size, location, memory_type_bits, tried, tried_type_bits, best, .. } = *attempt;
        let no_type = Error::NoMemoryType { location, memory_type_bits };
        let Some(best) = best else { return no_type };
        let heap = self.heap_of(best);
        let budget = self.budgets.heap_for(heap, attempt.constraints.beyond_window);
        match failure {
            Failure::Driver(cause) if !cause.is_out_of_memory() => cause.into(),
            Failure::Driver(_) | Failure::Refused => {
                let cause = if let Failure::Driver(cause) = failure { cause } else { DeviceError::OutOfDeviceMemory };
                let warned = Warning::OutOfMemory { bytes: size, location: &location, tried_type_bits, cause: &cause };
                self.notify(Event::Warned(warned));
                Error::OutOfMemory { size, location, tried_type_bits, heap, budget, tried, cause }
            }
            Failure::TooLarge { max } => Error::TooLarge { size, max },
            Failure::OverBudget => Error::OverBudget { size, location, tried_type_bits, heap, budget, tried },
            Failure::MayNotGrow => Error::WouldGrow { size, location },
            Failure::PoolFull | Failure::NoType => pool.map_or(no_type, |pool| pool.full(size)),
        }
    }
}

thread_local! {
    /// `true` while a callback runs on this thread: requests that the callback makes must not call a callback.
    static EVICTING: Cell<bool> = const { Cell::new(false) };
    /// Number of calls of [`retry_after_eviction`] on this thread's stack.
    static RETRYING: Cell<u32> = const { Cell::new(0) };
    /// The deferred call of the callback, for a request that failed while this thread held a lock.
    static DEFERRED: RefCell<Option<(Arc<Evict>, Pressure)>> = const { RefCell::new(None) };
}

/// Restores the value of a thread-local variable on drop, even after a panic.
struct Reset<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy> Drop for Reset<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Replaces the deferred call, and returns the old one. If the thread is exiting, nothing is stored.
fn replace_deferred(call: Option<(Arc<Evict>, Pressure)>) -> Option<(Arc<Evict>, Pressure)> {
    DEFERRED.try_with(|deferred| deferred.replace(call)).ok().flatten()
}

/// Calls the callback, and returns `Some(true)` if it released something. Returns `None` if the callback was not
/// called. If this thread holds a lock inside [`retry_after_eviction`], defers the call.
fn call(callback: Arc<Evict>, pressure: Pressure) -> Option<bool> {
    if is_locked() {
        let is_wanted = RETRYING.get() > 0 && !EVICTING.get();
        let call = Some((callback, pressure));
        let unused = if is_wanted { replace_deferred(call) } else { call };
        // This may be the last reference to the callback, and its `Drop` is the program's code.
        drop_unlocked(unused);
        return None;
    }
    if pressure.round >= EVICTIONS_MAX || EVICTING.replace(true) {
        return None;
    }
    let _until_it_returns = Reset(&EVICTING, false);
    Some(callback(&pressure))
}

/// Calls `work`, which takes a lock, makes a request, and releases the lock. If the request fails because memory is
/// short, the eviction callback is called after `work`, with no lock held. As long as the callback releases something,
/// `work` is called again, at most 8 times.
///
/// # Errors
/// The error of the last call of `work`. If the callback was called and released nothing, `tried` of
/// [`Error::OutOfMemory`] and [`Error::OverBudget`] contains [`Tried::EVICTION`].
pub fn retry_after_eviction<T>(mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let outer = RETRYING.get();
    for round in 0.. {
        let result = {
            RETRYING.set(outer + 1);
            let _until_it_is_done = Reset(&RETRYING, outer);
            work()
        };
        if is_locked() && outer > 0 {
            return result; // the owner of the lock makes the call
        }
        let deferred = replace_deferred(None);
        let (Err(error), Some((callback, pressure)), false) = (&result, &deferred, is_locked()) else {
            drop_unlocked(deferred);
            return result;
        };
        let called = call(Arc::clone(callback), Pressure { round, ..*pressure });
        if called != Some(true) {
            let mut error = *error;
            if (called.is_some() || round > 0)
                && let Error::OutOfMemory { tried, .. } | Error::OverBudget { tried, .. } = &mut error
            {
                *tried |= Tried::EVICTION;
            }
            return Err(error);
        }
    }
    unreachable!("the callback is called a limited number of times")
}
