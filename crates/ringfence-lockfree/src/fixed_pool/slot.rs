//! A slot of a pool chain: a pool, and the heap that it divides into blocks. The heap is stored and taken out while
//! other threads use the slot.
//!
//! ```text
//!               try_reserve          open(heap)                          close: no live block and no visitor
//!   ┌▶ VACANT ─────────────▶ RESERVED ────────▶ BUSY ──▶ OPEN + visitors ─────────────▶ BUSY ──▶ VACANT, heap returned
//!   └──────────────────────────┘ cancel          heap is stored                           heap is taken out
//! ```
//!
//! Safe code cannot do this without a lock: a generic value that is stored and taken out through `&self` must be in an
//! `UnsafeCell`. A reference count for the heap would not help. A thread that increments the count must know that the
//! count still exists. Each allocation would also write to a count that all threads share.
//!
//! # Proof that no heap is used after it is taken out
//!
//! While a block is allocated, its heap remains in the slot:
//!
//! 1. The heap is stored in the state BUSY after RESERVED, before the pool is opened. So no thread has a block of the
//!    pool at that time.
//! 2. The owner of a [`PoolAllocation`] that is live in this slot may read the heap. Only [`PoolSlot::allocate`],
//!    [`PoolSlot::allocate_thorough`] and [`PoolSlot::open`] create a `PoolAllocation`. It cannot be copied, and
//!    [`PoolSlot::free`] consumes it. So while it is borrowed, the block remains allocated. The heap was stored before,
//!    because the claim of the block acquires the opening of the pool.
//! 3. A visitor may read the heap: a thread that has incremented `state` in the state OPEN.
//! 4. The heap is taken out in the state BUSY after OPEN. The pool is closed then, so no block is allocated. It remains
//!    closed, because only step 1 or the closing thread can open it. There is no visitor. The close has acquired the
//!    release of each block.
//!
//! The bits and serials of the pool are freed only with the slot. So a thread that accesses the pool after the close
//! finds a closed pool, and does not access freed memory.
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free, [`PoolSlot::heap`] | the cost in the pool |
//! | open, close | O(groups of the pool) |
//! | visit | O(1), plus the cost of the caller's function |

use super::FixedPool;
use crate::primitive::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use ringfence_core::range::{FreeError, Invalid, Range, Serial, Span};

/// An allocated block of a chain's pool.
///
/// A `PoolAllocation` can be neither copied nor forged. Its owner may use the block and the heap until
/// [`PoolChain::free`](crate::pool_chain::PoolChain::free) consumes the `PoolAllocation`. If it is dropped instead, the
/// block remains allocated.
#[must_use = "a block that is not freed stays allocated"]
#[derive(PartialEq, Eq, Hash)]
pub struct PoolAllocation {
    offset: u64,
    size: u64,
    serial: Serial,
    block: u32,
    pool: u32,
}

impl PoolAllocation {
    /// Creates the allocation of a range. The range must have been allocated just before, and no other thread may know
    /// it.
    fn new(range: Range, pool: u32) -> Self {
        Self { offset: range.offset(), size: range.size(), serial: range.serial(), block: range.slot(), pool }
    }

    fn range(&self) -> Range {
        Range::new(self.offset, self.size, self.block, self.serial)
    }

    /// Returns the first unit of the block, relative to the start of the pool's heap.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size of the block, in units: the block size of the chain.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the index of the pool in its chain. Once this block is freed, the pool can be removed, and another pool
    /// can get the same index.
    #[must_use]
    pub const fn pool(&self) -> u32 {
        self.pool
    }

    /// Returns the index of the block in its pool.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// Returns the serial of this allocation, which no other allocation of the process has.
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

/// Error of a failed free, with the allocation. The chain is unchanged.
#[derive(PartialEq, Eq, Debug)]
pub struct RefusedFree {
    /// The reason of the failure.
    pub error: FreeError,
    /// The allocation, so that the caller can free it in the chain to which it belongs.
    pub allocation: PoolAllocation,
}

impl fmt::Display for RefusedFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for RefusedFree {}

/// State of a slot: no heap, not reserved.
const VACANT: u32 = 0;
/// State of a slot: no heap; a thread has reserved the slot.
const RESERVED: u32 = 1;
/// State of a slot: one thread is storing the heap or taking it out.
const BUSY: u32 = 2;
/// Lowest state of a slot with a heap; `state - OPEN` is the number of visitors.
const OPEN: u32 = 3;

/// A pool, and its heap while the pool is open.
pub(crate) struct PoolSlot<H> {
    pool: FixedPool,
    /// The heap: `Some` if `state` is at least OPEN. In the state BUSY, only the thread that has set BUSY may access
    /// it.
    heap: UnsafeCell<Option<H>>,
    /// The state: [`VACANT`], [`RESERVED`], [`BUSY`], or [`OPEN`] plus the number of visitors.
    state: AtomicU32,
    /// `true` if a block was allocated since the last [`PoolSlot::idle_since`].
    used: AtomicBool,
    /// The last tick at which [`PoolSlot::idle_since`] found the pool in use; 0 at first.
    idle: AtomicU64,
}

// SAFETY: several threads share the heap, and another thread than its creator can take it out, so `H: Send + Sync` is
// required. The proof in the module's documentation says when a thread may read or write the heap.
unsafe impl<H: Send + Sync> Sync for PoolSlot<H> {}

impl<H> PoolSlot<H> {
    /// Creates a reserved slot for a pool of up to `capacity` blocks.
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

    /// Returns `true` if the slot has a heap.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= OPEN
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.state.load(Ordering::Relaxed) == VACANT
    }

    /// Reserves the slot for the caller. Returns `false` if the slot is not vacant.
    pub(crate) fn try_reserve(&self) -> bool {
        // Relaxed, because `open` acquires the earlier operations.
        self.state.compare_exchange(VACANT, RESERVED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Cancels a reservation.
    pub(crate) fn cancel(&self) {
        // Release: continues the release sequence of the last `close`, for the next `open`.
        let cancelled = self.state.compare_exchange(RESERVED, VACANT, Ordering::AcqRel, Ordering::Relaxed);
        debug_assert!(cancelled.is_ok(), "a reservation is cancelled once");
    }

    /// Stores a heap in a reserved slot, opens the pool with `block_count` blocks, and allocates the first block for
    /// the caller.
    ///
    /// Fails and returns the heap if the slot is not reserved, or if the count is not in `1..=capacity`.
    pub(crate) fn open(&self, index: u32, heap: H, block_count: u32) -> Result<PoolAllocation, H> {
        let count_fits = (1..=self.capacity()).contains(&block_count);
        // Acquire: the previous heap was taken out before this one is stored.
        if !count_fits || self.state.compare_exchange(RESERVED, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(heap);
        }
        // SAFETY: this thread set BUSY, and the pool is closed: no other thread reads or writes the heap (1).
        self.heap.with_mut(|place| unsafe { *place = Some(heap) });
        self.used.store(true, Ordering::Relaxed);
        let range = self.pool.open_and_allocate(block_count).expect("the pool of a reserved slot is closed");
        // Release: the opening happens before all visits and the close.
        self.state.store(OPEN, Ordering::Release);
        Ok(PoolAllocation::new(range, index))
    }

    /// Allocates a block. Can miss a block that was freed just before.
    pub(crate) fn allocate(&self, index: u32, hint: usize) -> Option<PoolAllocation> {
        self.pool.allocate_cached(hint).map(|range| self.note_use(range, index))
    }

    /// Allocates a block, and checks every group before it fails.
    pub(crate) fn allocate_thorough(&self, index: u32, hint: usize) -> Option<PoolAllocation> {
        self.pool.allocate_near(hint).map(|range| self.note_use(range, index))
    }

    fn note_use(&self, range: Range, index: u32) -> PoolAllocation {
        // Stores only if needed, because a cache line that is only read stays in every core's cache.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        PoolAllocation::new(range, index)
    }

    /// Frees a block. Returns `true` if the block's group was full before.
    pub(crate) fn free(&self, allocation: PoolAllocation, hint: usize) -> Result<bool, RefusedFree> {
        self.pool.release(hint, &allocation.range()).map_err(|error| RefusedFree { error, allocation })
    }

    pub(crate) fn is_live(&self, allocation: &PoolAllocation) -> bool {
        self.pool.is_live(&allocation.range())
    }

    /// Returns the heap of a live allocation of this slot.
    pub(crate) fn heap<'a>(&'a self, allocation: &'a PoolAllocation) -> Option<&'a H> {
        if !self.is_live(allocation) {
            return None;
        }
        // SAFETY: serials are unique, so the allocation belongs to this pool and is live. It remains live while it is
        // borrowed, and while it is live, the heap remains in the slot (2).
        self.heap.with(|place| unsafe { (*place).as_ref() })
    }

    /// Takes the heap out if no block is allocated and no thread is in [`PoolSlot::visit`]; otherwise, returns `None`.
    pub(crate) fn close(&self) -> Option<H> {
        let count = self.pool.close()?;
        // Acquire: earlier visits happen before the heap is taken.
        if self.state.compare_exchange(OPEN, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // There is a visitor. Only this thread can open the pool again, because it has closed the pool.
            let opened = self.pool.open(count);
            debug_assert!(opened, "the thread that closed a pool can open it");
            return None;
        }
        // SAFETY: the pool is closed, so no block is live. There is no visitor, and none can begin in the state BUSY
        // (4).
        let heap = self.heap.with_mut(|place| unsafe { (*place).take() });
        // Release: the heap was taken before the next thread opens the slot.
        self.state.store(VACANT, Ordering::Release);
        heap
    }

    /// Calls `look` with the pool and its heap. Returns `None` if the pool is not open. The pool cannot be closed
    /// during the call.
    pub(crate) fn visit<R>(&self, index: u32, look: impl FnOnce(PoolView<'_, H>) -> R) -> Option<R> {
        let _visit = Visit::begin(&self.state)?;
        // SAFETY: the visitor is counted until `_visit` is dropped, so the heap stays in the slot (3).
        let heap = self.heap.with(|place| unsafe { (*place).as_ref() })?;
        Some(look(PoolView { index, heap, pool: &self.pool }))
    }

    /// Returns the last tick at which this function found the pool in use. The pool is in use if a block is allocated,
    /// or was allocated since the last call.
    pub(crate) fn idle_since(&self, tick: u64) -> u64 {
        // Relaxed: this is only a hint. The close of the pool checks the bits.
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

    /// Checks all rules of the slot and of its pool. No other thread may use the slot during the call.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let state = self.state.load(Ordering::Relaxed);
        let open = self.pool.block_count() != 0;
        Invalid::unless(open == (state >= OPEN), "a pool is open iff its slot is", u64::from(state))?;
        self.pool.validate()
    }

    /// Returns the heap, even if blocks are allocated.
    pub(crate) fn into_heap(self) -> Option<H> {
        self.heap.into_inner()
    }
}

/// A visitor: `state` counts it while this value exists.
struct Visit<'a>(&'a AtomicU32);

impl<'a> Visit<'a> {
    fn begin(state: &'a AtomicU32) -> Option<Self> {
        let mut seen = state.load(Ordering::Relaxed);
        while seen >= OPEN {
            // Acquire: the heap was stored before this.
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
        // Release: the visit happens before the heap is taken out.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// An open pool, as [`PoolChain::for_each_pool`](crate::pool_chain::PoolChain::for_each_pool) reports it.
///
/// The pool itself is private, because [`FixedPool::free`] would accept a range that another thread owns.
pub struct PoolView<'a, H> {
    index: u32,
    heap: &'a H,
    pool: &'a FixedPool,
}

impl<'a, H> PoolView<'a, H> {
    /// Returns the index of the pool in its chain.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the heap that the pool divides into blocks.
    #[must_use]
    pub const fn heap(&self) -> &'a H {
        self.heap
    }

    /// Returns the number of blocks of the pool.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.pool.block_count()
    }

    /// Returns the number of allocated blocks. O(groups of the pool).
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.pool.live_count()
    }

    /// Visits every allocated block in order of offsets. O(blocks).
    pub fn for_each_live(&self, visit: &mut dyn FnMut(Span)) {
        self.pool.for_each_live(&mut |range| {
            visit(Span { offset: range.offset(), size: range.size(), slot: Some(range.slot()) });
        });
    }
}

/// A box that any thread can set, once. After that, its value does not change.
pub(crate) struct OnceBox<T> {
    /// Null, or a pointer from `Box::into_raw`. Once it is not null, it does not change.
    value: AtomicPtr<T>,
    _owns: PhantomData<Box<T>>,
}

// SAFETY: any thread can set, read and drop the value, so `T: Send + Sync` is required.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), _owns: PhantomData }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire, with the release in `set`: the value is fully initialized.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: the pointer is null or from `Box::into_raw`. The value is freed only by `drop` and `take`, which have
        // exclusive access to the box, and no thread has a `&mut` to it.
        unsafe { value.as_ref() }
    }

    /// Sets the value. Fails and returns the value if another thread has set one before.
    pub(crate) fn set(&self, value: Box<T>) -> Result<&T, Box<T>> {
        let value = Box::into_raw(value);
        // Release: see `get`.
        match self.value.compare_exchange(ptr::null_mut(), value, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: the pointer is from `Box::into_raw`. The value is freed only by `drop` and `take`, which have
            // exclusive access to the box.
            Ok(_) => Ok(unsafe { &*value }),
            // SAFETY: the pointer is from `Box::into_raw` just above, and no other thread has seen it.
            Err(_) => Err(unsafe { Box::from_raw(value) }),
        }
    }

    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        // Relaxed: `&mut self` guarantees that all uses by other threads happened before.
        let value = self.value.load(Ordering::Relaxed);
        self.value.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the pointer is from `Box::into_raw`. It was not freed before, because `value` is set to null first.
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

    /// Duplicates an allocation, which safe code of users cannot do.
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
        assert_eq!(
            (again.offset(), slot.heap(&allocation)),
            (0, None),
            "the serial differs from the live allocation's"
        );
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
