//! A place for a pool and its heap, which come and go while threads use them.
//!
//! ```text
//!               try_reserve          open(heap)                          close: no block live, no visitor
//!   ┌▶ VACANT ─────────────▶ RESERVED ────────▶ BUSY ──▶ OPEN + visitors ─────────────▶ BUSY ──▶ VACANT: heap is out
//!   └──────────────────────────┘ cancel          heap is written                          heap is taken
//! ```
//!
//! Safe code alone cannot do this without a lock: whatever is generic and can be put in and taken out through `&self`
//! lies in an `UnsafeCell`. Reference counts would not help: reading one that another thread may be dropping needs the
//! same, and each allocation would write a count that all threads share.
//!
//! # Why no heap is used after it is taken out
//!
//! *A block that is handed out keeps its heap where it is.* In steps:
//!
//! 1. The heap is written in BUSY after RESERVED, before the pool is opened: no thread has a block of it.
//! 2. It is read by the owner of a [`PoolAllocation`] that is live here. One comes from [`PoolSlot::allocate`] or
//!    [`PoolSlot::open`] only, cannot be copied, and is consumed by [`PoolSlot::free`]: as long as it is borrowed, the
//!    block is handed out. Claiming the block acquired the opening.
//! 3. Or by a visitor, which has raised the count in `state` in OPEN.
//! 4. It is taken out in BUSY after OPEN: the pool is closed, which it is only when no block is handed out (and stays
//!    so, as it is opened in step 1 alone), and there is no visitor. Closing acquired the release of each block.
//!
//! And the memory of the pool's own bits is never freed before the slot: a late thread finds a pool that refuses it,
//! not freed memory.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free, [`PoolSlot::heap`] | that of the pool |
//! | open, close, visit | O(blocks / 64) |

use super::FixedPool;
use crate::primitive::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use ringfence_core::range::{FreeError, Invalid, Range, Serial, Span};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;

/// A block of a chain's pool, with the pool it belongs to.
///
/// It can be neither copied nor made up: having one *is* the right to the block and to its heap, until
/// [`PoolChain::free`](crate::pool_chain::PoolChain::free) takes it. Dropped without that, its block stays taken.
#[must_use = "a block that is not freed stays taken"]
#[derive(PartialEq, Eq, Hash)]
pub struct PoolAllocation {
    offset: u64,
    size: u64,
    serial: Serial,
    block: u32,
    pool: u32,
}

impl PoolAllocation {
    /// Only for a range that was handed out just now and is known to no other thread.
    fn new(range: Range, pool: u32) -> Self {
        Self { offset: range.offset(), size: range.size(), serial: range.serial(), block: range.slot(), pool }
    }

    fn range(&self) -> Range {
        Range::new(self.offset, self.size, self.block, self.serial)
    }

    /// The first unit, counted from the start of the pool's heap.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Units: those of the block, which may be more than were asked for.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The pool's index in its chain. Another pool may have it once this block is freed.
    #[must_use]
    pub const fn pool(&self) -> u32 {
        self.pool
    }

    /// The block's index in its pool.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// The number that this allocation alone has in the process.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }
}

impl fmt::Debug for PoolAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of pool {}", self.range(), self.pool)
    }
}

/// An allocation that was not freed, and why. The chain is as it was before the call.
#[derive(PartialEq, Eq, Debug)]
pub struct RefusedFree {
    /// Why.
    pub error: FreeError,
    /// What was to be freed, for the chain that it belongs to.
    pub allocation: PoolAllocation,
}

impl fmt::Display for RefusedFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for RefusedFree {}

/// No heap, and no thread is about to bring one.
const VACANT: u32 = 0;
/// No heap; a thread is about to bring one.
const RESERVED: u32 = 1;
/// One thread is putting the heap in or taking it out.
const BUSY: u32 = 2;
/// A heap, and this number less `OPEN` of visitors.
const OPEN: u32 = 3;

/// A pool and, while it is open, its heap. See the [module](self).
pub(crate) struct PoolSlot<H> {
    pool: FixedPool,
    /// `Some` iff `state` is OPEN or more; in BUSY it belongs to the thread that made it so.
    heap: UnsafeCell<Option<H>>,
    /// See the drawing above.
    state: AtomicU32,
    /// Whether a block was allocated since [`PoolSlot::idle_since`] asked last.
    used: AtomicBool,
    /// The first tick at which the pool was seen empty and unused, if it has been since.
    idle: AtomicU64,
}

// SAFETY: the heap is lent to several threads at once, and given to one that did not bring it, so that `H: Send + Sync`
// is needed; who may read and who may write it, and when, is said in the module's documentation.
unsafe impl<H: Send + Sync> Sync for PoolSlot<H> {}

impl<H> PoolSlot<H> {
    /// A reserved slot with room for a pool of up to `capacity` blocks.
    pub(crate) fn reserved(block_size: u64, capacity: u32) -> Self {
        Self {
            pool: FixedPool::closed(block_size, capacity),
            heap: UnsafeCell::new(None),
            state: AtomicU32::new(RESERVED),
            used: AtomicBool::new(false),
            idle: AtomicU64::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.pool.capacity()
    }

    /// Whether a heap is here.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= OPEN
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.state.load(Ordering::Relaxed) == VACANT
    }

    /// Reserves a vacant slot for the caller.
    pub(crate) fn try_reserve(&self) -> bool {
        // Relaxed: `open` acquires what was done before.
        self.state.compare_exchange(VACANT, RESERVED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Cancels a reservation.
    pub(crate) fn cancel(&self) {
        // Release: it goes on with the release of the closing before it, for the next to open.
        let cancelled = self.state.compare_exchange(RESERVED, VACANT, Ordering::AcqRel, Ordering::Relaxed);
        debug_assert!(cancelled.is_ok(), "a reservation is cancelled once");
    }

    /// Puts a heap into a reserved slot, opens the pool with `block_count` blocks, and gives the first to the caller.
    ///
    /// Gives the heap back if the slot is not reserved or the count is not in `1..=capacity`.
    pub(crate) fn open(&self, index: u32, heap: H, block_count: u32) -> Result<PoolAllocation, H> {
        let count_fits = (1..=self.capacity()).contains(&block_count);
        // Acquire: the heap before this one was taken out before this one is put in.
        if !count_fits || self.state.compare_exchange(RESERVED, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(heap);
        }
        // SAFETY: BUSY was set by this thread, and the pool is closed: no other thread reads or writes the heap (1).
        self.heap.with_mut(|place| unsafe { *place = Some(heap) });
        self.used.store(true, Ordering::Relaxed);
        let range = self.pool.open_and_allocate(block_count).expect("the pool of a reserved slot is closed");
        // Release: a visitor and the closer come after all that.
        self.state.store(OPEN, Ordering::Release);
        Ok(PoolAllocation::new(range, index))
    }

    /// A block, unless none is available at once.
    pub(crate) fn allocate(&self, index: u32, hint: usize) -> Option<PoolAllocation> {
        self.pool.allocate_cached(hint).map(|range| self.note_use(range, index))
    }

    /// [`PoolSlot::allocate`], overlooking nothing.
    pub(crate) fn allocate_thorough(&self, index: u32, hint: usize) -> Option<PoolAllocation> {
        self.pool.allocate_near(hint).map(|range| self.note_use(range, index))
    }

    fn note_use(&self, range: Range, index: u32) -> PoolAllocation {
        // Read first: a line that is only read stays with every thread.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        PoolAllocation::new(range, index)
    }

    /// Takes a block back; says whether its group was full until then.
    pub(crate) fn free(&self, allocation: PoolAllocation, hint: usize) -> Result<bool, RefusedFree> {
        self.pool.release(hint, &allocation.range()).map_err(|error| RefusedFree { error, allocation })
    }

    pub(crate) fn is_live(&self, allocation: &PoolAllocation) -> bool {
        self.pool.is_live(&allocation.range())
    }

    /// The heap that a live allocation of this slot lies in.
    pub(crate) fn heap<'a>(&'a self, allocation: &'a PoolAllocation) -> Option<&'a H> {
        if !self.is_live(allocation) {
            return None;
        }
        // SAFETY: serial numbers are unique, so the allocation is of this very pool and is handed out; it stays so as
        // long as it is borrowed, and with it the heap where it is (2).
        self.heap.with(|place| unsafe { (*place).as_ref() })
    }

    /// Takes the heap out iff no block is handed out and no thread visits.
    pub(crate) fn close(&self) -> Option<H> {
        let count = self.pool.close()?;
        // Acquire: visits come before the taking.
        if self.state.compare_exchange(OPEN, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // A visitor is here. Only the thread that closed the pool can open it now.
            let opened = self.pool.open(count);
            debug_assert!(opened, "who closed a pool can open it");
            return None;
        }
        // SAFETY: the pool is closed, so that no block is live; there was no visitor, and BUSY lets none in (4).
        let heap = self.heap.with_mut(|place| unsafe { (*place).take() });
        // Release: the thread that opens the slot next comes after the taking.
        self.state.store(VACANT, Ordering::Release);
        heap
    }

    /// Shows the pool and its heap, if it is open. A pool cannot be closed meanwhile.
    pub(crate) fn visit<R>(&self, index: u32, look: impl FnOnce(PoolView<'_, H>) -> R) -> Option<R> {
        let _visit = Visit::begin(&self.state)?;
        // SAFETY: a visitor is counted until `_visit` is dropped, so that the heap stays where it is (3).
        let heap = self.heap.with(|place| unsafe { (*place).as_ref() })?;
        Some(look(PoolView { index, heap, pool: &self.pool }))
    }

    /// The first tick at which the pool was seen empty, if nothing was allocated in it since; `tick` if it is in use.
    pub(crate) fn idle_since(&self, tick: u64) -> u64 {
        // Relaxed: this is advice; what closes a pool are its bits.
        if self.used.load(Ordering::Relaxed) || !self.pool.is_empty() {
            self.used.store(false, Ordering::Relaxed);
            self.idle.store(tick, Ordering::Relaxed);
        }
        self.idle.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pool.has_room()
    }

    /// As [`FixedPool::validate`].
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let state = self.state.load(Ordering::Relaxed);
        let open = self.pool.block_count() != 0;
        Invalid::unless(open == (state >= OPEN), "a pool is open iff its slot is", u64::from(state))?;
        self.pool.validate()
    }

    /// The heap, whatever lies in it.
    pub(crate) fn into_heap(self) -> Option<H> {
        self.heap.into_inner()
    }
}

/// A visitor, counted in a slot's state while this lives.
struct Visit<'a>(&'a AtomicU32);

impl<'a> Visit<'a> {
    fn begin(state: &'a AtomicU32) -> Option<Self> {
        let mut seen = state.load(Ordering::Relaxed);
        while seen >= OPEN {
            // Acquire: the heap was put in before.
            match state.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Self(state)),
                Err(now) => seen = now,
            }
        }
        None
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // Release: the visit comes before the thread that takes the heap out.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// An open pool as [`PoolChain::for_each_pool`](crate::pool_chain::PoolChain::for_each_pool) shows it.
///
/// The pool itself stays hidden: it would take back any range that it is given.
pub struct PoolView<'a, H> {
    index: u32,
    heap: &'a H,
    pool: &'a FixedPool,
}

impl<'a, H> PoolView<'a, H> {
    /// The pool's index in its chain.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// What the pool cuts into blocks.
    #[must_use]
    pub const fn heap(&self) -> &'a H {
        self.heap
    }

    /// Blocks of the pool.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.pool.block_count()
    }

    /// Blocks that are handed out. O(blocks / 64).
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.pool.live_count()
    }

    /// Shows every block that is handed out, in order of offsets. O(blocks).
    pub fn for_each_live(&self, visit: &mut dyn FnMut(Span)) {
        self.pool.for_each_live(&mut |range| {
            visit(Span { offset: range.offset(), size: range.size(), slot: Some(range.slot()) });
        });
    }
}

/// A place that is filled once, by any thread, and then stays as it is.
pub(crate) struct OnceBox<T> {
    /// Null, or from `Box::into_raw`; once it is not null it never changes.
    value: AtomicPtr<T>,
    _owns: PhantomData<Box<T>>,
}

// SAFETY: the value comes from any thread, is lent to all, and is dropped by any: `T: Send + Sync`.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), _owns: PhantomData }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: with the release of `set`, so that the value is seen whole.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: null, or from `Box::into_raw`, freed only by `drop` and `take`, which have the place to
        // themselves; no thread has a `&mut` to it.
        unsafe { value.as_ref() }
    }

    /// Fills the place, or gives the value back if another thread was faster.
    pub(crate) fn set(&self, value: Box<T>) -> Result<&T, Box<T>> {
        let value = Box::into_raw(value);
        // Release: see `get`.
        match self.value.compare_exchange(ptr::null_mut(), value, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: from `Box::into_raw`, freed only by `drop` and `take`, which have the place to themselves.
            Ok(_) => Ok(unsafe { &*value }),
            // SAFETY: from `Box::into_raw` just above, and no other thread has seen it.
            Err(_) => Err(unsafe { Box::from_raw(value) }),
        }
    }

    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        // Relaxed: `&mut self` says that every other use came before.
        let value = self.value.load(Ordering::Relaxed);
        self.value.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: from `Box::into_raw` and not freed before, since the place is null from then on.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What safe code cannot do.
    fn duplicate(allocation: &PoolAllocation) -> PoolAllocation {
        PoolAllocation::new(allocation.range(), allocation.pool)
    }

    #[test]
    fn seed_003_02_a_copied_allocation_is_freed_once() {
        let slot = PoolSlot::reserved(16, 4);
        let first = slot.open(7, "heap", 4).unwrap();
        let copy = duplicate(&first);
        assert_eq!((slot.heap(&first), first.pool()), (Some(&"heap"), 7));
        assert!(slot.free(first, 0).is_ok());
        assert_eq!(slot.heap(&copy), None);
        let RefusedFree { error, allocation } = slot.free(copy, 0).unwrap_err();
        assert_eq!(error, FreeError::Stale { offset: 0, size: 16 });

        let again = slot.allocate(7, 0).unwrap();
        assert_eq!((again.offset(), slot.heap(&allocation)), (0, None), "the number tells it from the one that lives");
        assert!(slot.free(allocation, 0).is_err());
        assert!(slot.free(again, 0).is_ok());
        slot.validate().unwrap();
    }

    #[test]
    fn fault_11_a_stale_allocation_does_not_reach_the_next_heap_in_its_place() {
        let slot = PoolSlot::reserved(16, 4);
        let first = slot.open(0, "old", 2).unwrap();
        let copy = duplicate(&first);
        assert_eq!(slot.close(), None, "a block is live");
        slot.free(first, 0).unwrap();
        assert_eq!(slot.close(), Some("old"));
        assert_eq!(slot.open(0, "not reserved", 2), Err("not reserved"));
        assert!(slot.try_reserve() && !slot.try_reserve());
        assert_eq!(slot.open(0, "too many", 5), Err("too many"));
        let second = slot.open(0, "new", 4).unwrap();
        assert_eq!((slot.heap(&copy), slot.heap(&second)), (None, Some(&"new")));
        assert!(slot.free(copy, 0).is_err());
        slot.validate().unwrap();
    }

    #[test]
    fn a_visitor_keeps_the_heap() {
        let slot = PoolSlot::reserved(16, 3);
        let first = slot.open(0, 5, 3).unwrap();
        slot.free(first, 0).unwrap();
        let seen = slot.visit(0, |pool| (*pool.heap(), slot.close(), pool.block_count(), pool.live_count()));
        assert_eq!(seen, Some((5, None, 3, 0)), "and the pool is open again");
        slot.validate().unwrap();
        assert_eq!(slot.close(), Some(5));
        assert_eq!(slot.visit(0, |pool| pool.index()), None);
        slot.validate().unwrap();
    }

    #[test]
    fn a_once_box_keeps_the_first() {
        let mut place = OnceBox::new();
        assert_eq!(place.get(), None);
        assert_eq!(place.set(Box::new(1)), Ok(&1));
        assert_eq!(place.set(Box::new(2)), Err(Box::new(2)));
        assert_eq!(place.get(), Some(&1));
        assert_eq!(place.take(), Some(Box::new(1)));
        assert_eq!(place.take(), None);
    }
}
