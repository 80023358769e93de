//! A single-producer, single-consumer queue: one thread at a time adds items, another takes them out, and neither waits
//! for the other.
//!
//! ```text
//!   start ─▶ chunk ──next──▶ chunk ──next──▶ chunk = open                 pushed = 11: number of items ever added
//!            {0: 6}          {0: 6}          {0: 7}                            │
//!            a b c d         e f g h i ·     j k · · · · · ·                   ▼
//!            └─ first = 0    └─ first = 4    └─ first = 9     the next item is written to slot 11 − 9
//!               ▲ the consumer's `Head`
//!               └ earlier chunks were taken out; empty ones come back: returned ─▶ spare, by size
//! ```
//!
//! The items of a chunk wait for the same set. Linking the next chunk closes a chunk: when the set changes, or when the
//! chunk is full. A new chunk has room for as many items as were added for the previous set, so a set usually
//! needs one chunk; within a set, each chunk is twice as large as the previous one.
//!
//! # Memory order
//!
//! 1. The producer writes an item and *then* counts it in `pushed` (release).
//! 2. The producer writes the set and the `first` of a chunk and *then* links it (release).
//! 3. The consumer reads `pushed` and *then* follows the links (acquire). Up to `pushed`, all items are written and do
//!    not change. A chunk without a successor was still open when `pushed` was read, so it contains the items up to
//!    `pushed`.
//! 4. Empty chunks return through a stack: the consumer pushes them (release), and the producer takes the whole stack
//!    (acquire).
//!
//! No step that changes the queue allocates host memory: a chunk is taken out or created, gets its set, and is linked
//! after that. So code that allocation runs (a global allocator may drop a resource) finds the queue consistent.
//!
//! Adding an item accesses no memory that other threads write, except `returned`, once a chunk: there is no atomic
//! exchange on that path.
//!
//! | operation | cost |
//! |---|---|
//! | add an item | O(1): a load, the item, a store; O(points) more for a set's first item |
//! | a new chunk | O(1): an atomic exchange if no spare chunk is cached; rarely an allocation of host memory |
//! | take out | O(1) a chunk; the thread that receives the items moves them |
//!
//! Memory: chunks are reused. Without a spare chunk, a set reserves the larger of 3 × its items and 2 × the previous
//! set, and at least the smallest chunk.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell, shrunk_under_miri_too};
use ringfence_core::sync::{Progress, SyncSet};

/// Number of items of the smallest chunk.
const SMALLEST: usize = shrunk_under_miri_too(4, 1);
/// Number of chunk sizes; each has twice as many items as the one before.
const SIZES: usize = shrunk_under_miri_too(7, 2);
/// Largest size of a chunk's items, in bytes; the smallest chunk may exceed it.
const CHUNK_BYTES: usize = 32 << 10;

/// Value that no turn has.
const NO_TURN: u64 = u64::MAX;

/// Storage of an item: the producer writes it before it counts the item, and the consumer reads it once.
type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Items that wait for the same set, in the order in which they were added.
struct Chunk<T> {
    /// The set. Written before the chunk is linked.
    points: UnsafeCell<SyncSet>,
    /// Number of items that were added to the queue before this chunk. Written before the chunk is linked.
    first: Cell<usize>,
    /// The next chunk, written once. In the stack of empty chunks: the chunk below.
    next: AtomicPtr<Chunk<T>>,
    slots: Box<[Slot<T>]>,
    /// For the consumer: the number of batches of this chunk, plus one while the chunk may receive items. Starts at 1.
    users: Cell<usize>,
    /// The chunk created before: all chunks are freed with the queue.
    made_before: Cell<*mut Chunk<T>>,
}

/// A single-producer, single-consumer queue; see the [module](self).
pub(super) struct SpscQueue<T> {
    /// The chunk that receives items; null before the first.
    open: Cell<*mut Chunk<T>>,
    /// Number of items ever added, wrapping. Written by the producer.
    pushed: AtomicUsize,
    /// Value of `pushed` up to which items are added to `open` without further checks: at most its `first` plus the
    /// number of its slots.
    limit: Cell<usize>,
    /// Address of slot 0 as if `open` had a slot for every item ever added: the next item is written to `base +
    /// pushed`.
    base: Cell<*const Slot<T>>,
    /// Turn for which the set of `open` was made.
    turn: Cell<u64>,
    /// Value of `pushed` when the set last changed.
    set_began: Cell<usize>,
    /// Empty chunks by size, linked by `next`.
    spare: [Cell<*mut Chunk<T>>; SIZES],
    /// The chunk that was created last.
    made: Cell<*mut Chunk<T>>,
    /// The first chunk that was ever linked, for the consumer.
    start: AtomicPtr<Chunk<T>>,
    /// Empty chunks from the consumer.
    returned: AtomicPtr<Chunk<T>>,
}

/// Identifies the set that added items wait for: items with the same key have the same set.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// The set that is made for this turn.
    Turn(u64),
    /// These points.
    Points(&'a SyncSet),
}

/// A chunk that is not linked: a spare one, or one to be created. A spare chunk that is dropped here is freed with its
/// queue.
pub(super) struct Next<T> {
    /// Null if the chunk must be created.
    chunk: *mut Chunk<T>,
    /// Number of slots, if the chunk must be created.
    items: usize,
    /// `true` if the chunk is not in the queue's list of chunks yet.
    is_made: bool,
}

impl<T> Next<T> {
    /// Creates the chunk if needed, and writes its set. May run the caller's code: its global allocator.
    pub(super) fn ready(mut self, set: impl Fn(&mut SyncSet)) -> Self {
        if self.chunk.is_null() {
            self.chunk = Chunk::make(self.items);
            self.is_made = true;
        }
        // SAFETY: the chunk was just created, or is a spare chunk of a queue, which lives as long; no other thread
        // accesses it before it is linked.
        unsafe { (*self.chunk).points.with_mut(|points| set(&mut *points)) };
        self
    }
}

/// The consumer's state of a queue.
pub(super) struct Head<T> {
    /// The first chunk that was not taken out completely; null if none is known.
    chunk: *mut Chunk<T>,
    /// Number of items that were taken out, wrapping.
    taken: usize,
}

/// Items that were taken out of a queue but are still stored in their chunk. It does not drop them: each item is
/// [taken](Batch::give), and the empty batch is [returned](SpscQueue::give_back).
pub(super) struct Batch<T> {
    chunk: *mut Chunk<T>,
    at: usize,
    end: usize,
}

// SAFETY: only the batch reads its items, which may be sent; all else that it reads of its chunk does not change or
// belongs to the consumer.
unsafe impl<T: Send> Send for Batch<T> {}

// SAFETY: a head belongs to the consumer, which is one thread at a time.
unsafe impl<T: Send> Send for Head<T> {}

impl<T> SpscQueue<T> {
    /// Index of the largest chunk size.
    const LARGEST: usize = {
        let (mut size, bytes) = (0, if size_of::<T>() == 0 { 1 } else { size_of::<T>() });
        while size + 1 < SIZES && (SMALLEST << (size + 1)) * bytes <= CHUNK_BYTES {
            size += 1;
        }
        size
    };

    pub(super) fn new() -> Self {
        Self {
            open: Cell::new(ptr::null_mut()),
            pushed: AtomicUsize::new(0),
            limit: Cell::new(0),
            base: Cell::new(ptr::null()),
            turn: Cell::new(NO_TURN),
            set_began: Cell::new(0),
            spare: [const { Cell::new(ptr::null_mut()) }; SIZES],
            made: Cell::new(ptr::null_mut()),
            start: AtomicPtr::new(ptr::null_mut()),
            returned: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the number of items ever added, wrapping.
    #[inline]
    pub(super) fn pushed(&self) -> usize {
        self.pushed.load(Ordering::Acquire)
    }

    /// Returns the slot of the next item, if the open chunk has room, to be [filled](SpscQueue::fill).
    ///
    /// # Safety
    /// No other thread may add items at the same time.
    #[inline]
    unsafe fn slot(&self) -> Option<&Slot<T>> {
        let pushed = self.pushed.load(Ordering::Relaxed);
        // SAFETY: the open chunk lives as long as the queue and has a slot for each item from its first up to the
        // limit, which `pushed` does not exceed.
        (pushed != self.limit.get()).then(|| unsafe { &*self.base.get().wrapping_add(pushed) })
    }

    /// Like [`SpscQueue::slot`], if the open chunk's set was made for this turn.
    ///
    /// # Safety
    /// No other thread may add items at the same time.
    #[inline]
    pub(super) unsafe fn slot_in_turn(&self, turn: u64) -> Option<&Slot<T>> {
        // SAFETY: the caller guarantees that no other thread adds items at the same time.
        if self.turn.get() == turn { unsafe { self.slot() } } else { None }
    }

    /// Like [`SpscQueue::slot`], if the open chunk waits for these points.
    ///
    /// # Safety
    /// No other thread may add items at the same time.
    #[inline]
    pub(super) unsafe fn slot_for(&self, points: &SyncSet) -> Option<&Slot<T>> {
        // SAFETY: the caller guarantees that no other thread adds items at the same time.
        if self.waits_for(points) { unsafe { self.slot() } } else { None }
    }

    /// Returns `true` if the open chunk waits for these points.
    #[inline]
    fn waits_for(&self, points: &SyncSet) -> bool {
        // SAFETY: null before the first item, or a chunk, which lives as long as the queue.
        let open = unsafe { self.open.get().as_ref() };
        // SAFETY: the set of a linked chunk is only read.
        open.is_some_and(|open| open.points.with(|held| unsafe { *held == *points }))
    }

    /// Writes an item into a slot that the queue has just returned, and counts it.
    ///
    /// # Safety
    /// No other thread may add items at the same time, and no item may have been added since the slot was returned.
    #[inline]
    pub(super) unsafe fn fill(&self, slot: &Slot<T>, item: T) {
        // SAFETY: no other thread adds items, and no thread reads an item that is not counted yet.
        slot.with_mut(|slot| unsafe { _ = (*slot).write(item) });
        self.pushed.store(self.pushed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Returns `true` if the open chunk has the set of the key.
    fn is_for(&self, key: Key<'_>) -> bool {
        match key {
            Key::Turn(turn) => self.turn.get() == turn,
            Key::Points(points) => self.waits_for(points),
        }
    }

    /// Adds items while the open chunk has their set and has room, and counts them in one store. If items remain,
    /// returns the chunk to continue with: make it [ready](Next::ready), then [open](SpscQueue::go_on) it. After at
    /// most `step` further items, [`SpscQueue::slot`] returns `None`, so that the producer calls this again.
    ///
    /// Neither allocates nor frees host memory, because that may run the caller's code, which may use this queue.
    ///
    /// # Safety
    /// No other thread may add items at the same time. The iterator must only return items.
    pub(super) unsafe fn fill_from(
        &self,
        key: Key<'_>,
        step: usize,
        items: &mut impl ExactSizeIterator<Item = T>,
    ) -> Option<Next<T>> {
        let is_for = self.is_for(key);
        if is_for {
            // SAFETY: the caller guarantees that no other thread adds items at the same time and that the iterator only
            // returns items; a set has begun, so a chunk is open.
            unsafe { self.fill_open(step, items) };
        }
        (items.len() > 0).then(|| {
            // SAFETY: null before the first item, or a chunk, which lives as long as the queue.
            let full = unsafe { self.open.get().as_ref() }.filter(|_| is_for);
            let set_items = self.pushed.load(Ordering::Relaxed).wrapping_sub(self.set_began.get());
            self.take_spare(full.map_or(set_items, |full| full.slots.len() * 2))
        })
    }

    /// Adds items to the open chunk while it has room.
    ///
    /// # Safety
    /// The requirements of [`SpscQueue::fill_from`], and a chunk must be open.
    unsafe fn fill_open(&self, step: usize, items: &mut impl ExactSizeIterator<Item = T>) {
        // SAFETY: chunks live as long as the queue.
        let chunk = unsafe { &*self.open.get() };
        let pushed = self.pushed.load(Ordering::Relaxed);
        let room = &chunk.slots[pushed.wrapping_sub(chunk.first.get())..];
        let count = room.len().min(items.len());
        for (slot, item) in room.iter().zip(items.by_ref().take(count)) {
            // SAFETY: no other thread adds items, and no thread reads an item that is not counted yet.
            slot.with_mut(|slot| unsafe { _ = (*slot).write(item) });
        }
        let pushed = pushed.wrapping_add(count);
        self.pushed.store(pushed, Ordering::Release);
        self.limit.set(pushed.wrapping_add(step.min(room.len() - count)));
    }

    /// Makes this chunk the open one, unless the open chunk has the key's set and room by now: allocating this chunk
    /// may have run code that added items.
    ///
    /// # Safety
    /// No other thread may add items at the same time. This queue must have returned the chunk for this key, and it
    /// must be ready.
    pub(super) unsafe fn go_on(&self, next: Next<T>, key: Key<'_>) {
        // SAFETY: a chunk that was taken or created for this queue is not accessed by another thread.
        let chunk = unsafe { &*next.chunk };
        if next.is_made {
            chunk.made_before.set(self.made.replace(next.chunk));
        }
        let same_set = self.is_for(key);
        // SAFETY: null before the first item, or a chunk, which lives as long as the queue.
        let open = unsafe { self.open.get().as_ref() }.filter(|_| same_set);
        let pushed = self.pushed.load(Ordering::Relaxed);
        if open.is_some_and(|open| pushed.wrapping_sub(open.first.get()) < open.slots.len()) {
            return self.keep(next.chunk);
        }
        if !same_set {
            self.set_began.set(pushed);
        }
        self.turn.set(if let Key::Turn(turn) = key { turn } else { NO_TURN });
        self.link(chunk);
    }

    /// Links this chunk and makes it the open one.
    fn link(&self, next: &Chunk<T>) {
        let first = self.pushed.load(Ordering::Relaxed);
        self.limit.set(first.wrapping_add(next.slots.len()));
        self.base.set(next.slots.as_ptr().wrapping_sub(first));
        next.first.set(first);
        next.next.store(ptr::null_mut(), Ordering::Relaxed);
        next.users.set(1);
        let next = ptr::from_ref(next).cast_mut();
        let open = self.open.replace(next);
        // SAFETY: chunks live as long as the queue.
        let before = if open.is_null() { &self.start } else { unsafe { &(*open).next } };
        before.store(next, Ordering::Release);
    }

    /// Returns a spare chunk for at least `items` items (or of the largest size); else the size to create.
    fn take_spare(&self, items: usize) -> Next<T> {
        let size = (0..Self::LARGEST).find(|size| SMALLEST << size >= items).unwrap_or(Self::LARGEST);
        let spare = || self.spare[size..].iter().find(|list| !list.get().is_null());
        let list = spare().or_else(|| {
            self.sort_returned();
            spare()
        });
        let chunk = list.map_or(ptr::null_mut(), |list| {
            let chunk = list.get();
            // SAFETY: chunks live as long as the queue; no other thread accesses a spare one.
            list.set(unsafe { (*chunk).next.load(Ordering::Relaxed) });
            chunk
        });
        Next { chunk, items: SMALLEST << size, is_made: false }
    }

    /// Moves returned chunks to the spare ones.
    fn sort_returned(&self) {
        if self.returned.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut chunk = self.returned.swap(ptr::null_mut(), Ordering::Acquire);
        while !chunk.is_null() {
            // SAFETY: chunks live as long as the queue; the whole stack was taken, so no other thread accesses them.
            let below = unsafe { &*chunk }.next.load(Ordering::Relaxed);
            self.keep(chunk);
            chunk = below;
        }
    }

    /// Adds a chunk that no other thread accesses to the spare ones.
    fn keep(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks live as long as the queue; no other thread accesses this one.
        let spare = unsafe { &*chunk };
        let list = &self.spare[(spare.slots.len() / SMALLEST).trailing_zeros() as usize];
        spare.next.store(list.replace(chunk), Ordering::Relaxed);
    }

    /// Returns a batch. Its remaining items are leaked.
    ///
    /// # Safety
    /// The batch must be from this queue, and only one thread at a time may take items out of it.
    pub(super) unsafe fn give_back(&self, batch: Batch<T>) {
        // SAFETY: the caller guarantees that the batch is from this queue and that one thread at a time takes items
        // out.
        unsafe { self.leave(batch.chunk) };
    }

    /// # Safety
    /// The chunk must belong to this queue, and only one thread at a time may take items out of it.
    unsafe fn leave(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks live as long as the queue, and only the consumer accesses `users`.
        let empty = unsafe { &*chunk };
        empty.users.set(empty.users.get() - 1);
        if empty.users.get() > 0 {
            return;
        }
        let mut top = self.returned.load(Ordering::Relaxed);
        loop {
            empty.next.store(top, Ordering::Relaxed);
            match self.returned.compare_exchange_weak(top, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

/// Adding items in one call, for tests.
#[cfg(test)]
impl<T> SpscQueue<T> {
    /// # Safety
    /// No other thread may add items at the same time.
    pub(super) unsafe fn put(
        &self,
        key: Key<'_>,
        set: impl Fn(&mut SyncSet),
        mut items: impl ExactSizeIterator<Item = T>,
    ) {
        // SAFETY: the caller guarantees that no other thread adds items at the same time.
        while let Some(next) = unsafe { self.fill_from(key, usize::MAX, &mut items) } {
            // SAFETY: the same; `fill_from` returned the chunk for this key, and it is made ready.
            unsafe { self.go_on(next.ready(&set), key) };
        }
    }
}

impl<T> Drop for SpscQueue<T> {
    fn drop(&mut self) {
        let mut chunk = self.made.get();
        while !chunk.is_null() {
            // SAFETY: each chunk was created from a box and is in this list once; no other thread has the queue any
            // more. Items that are still stored in it are leaked.
            chunk = unsafe { Box::from_raw(chunk) }.made_before.get();
        }
    }
}

impl<T> Chunk<T> {
    #[cold]
    fn make(items: usize) -> *mut Self {
        Box::into_raw(Box::new(Self {
            points: UnsafeCell::new(SyncSet::new()),
            first: Cell::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            slots: (0..items).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            users: Cell::new(1),
            made_before: Cell::new(ptr::null_mut()),
        }))
    }

    fn has_passed(&self, progress: &(impl Progress + ?Sized)) -> bool {
        // SAFETY: no thread changes the set of a linked chunk, and this is only called on linked ones.
        self.points.with(|points| progress.passed_all(unsafe { &*points }))
    }
}

impl<T> Head<T> {
    pub(super) const fn new() -> Self {
        Self { chunk: ptr::null_mut(), taken: 0 }
    }

    /// Calls `each` with the set of each chunk from this head on that is currently in the queue.
    ///
    /// # Safety
    /// It must always be the same queue, and only one thread at a time may take items out of it.
    pub(super) unsafe fn sets(&self, queue: &SpscQueue<T>, mut each: impl FnMut(&SyncSet)) {
        let mut chunk = if self.chunk.is_null() { queue.start.load(Ordering::Acquire) } else { self.chunk };
        // SAFETY: null, or a chunk of the queue, which lives as long; the fields that are read were written before it
        // was linked.
        while let Some(held) = unsafe { chunk.as_ref() } {
            // SAFETY: no thread changes the set of a linked chunk.
            held.points.with(|points| each(unsafe { &*points }));
            chunk = held.next.load(Ordering::Acquire);
        }
    }

    /// Returns the number of items that were taken out of the queue, wrapping.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes out the items of the queue. Passes each closed chunk's items to `closed`, with the set, and `true` if the
    /// set has passed. Returns the current items of the open chunk if its set has passed. No batch is empty.
    ///
    /// # Safety
    /// It must always be the same queue, and only one thread at a time may take items out of it.
    pub(super) unsafe fn take(
        &mut self,
        queue: &SpscQueue<T>,
        progress: &(impl Progress + ?Sized),
        mut closed: impl FnMut(bool, &SyncSet, Batch<T>),
    ) -> Option<Batch<T>> {
        // Read first: a chunk that is seen to be open afterwards was open at this point.
        let pushed = queue.pushed();
        if self.chunk.is_null() {
            self.chunk = queue.start.load(Ordering::Acquire);
        }
        // SAFETY: null, or a chunk of the queue, which lives as long; the fields that are read were written before it
        // was linked.
        while let Some(chunk) = unsafe { self.chunk.as_ref() } {
            let next = chunk.next.load(Ordering::Acquire);
            // SAFETY: null, or the next chunk of the queue, which lives as long; it was written before it was linked.
            let Some(after) = (unsafe { next.as_ref() }) else {
                return if chunk.has_passed(progress) { self.batch(chunk, pushed) } else { None };
            };
            // Before any change, because `progress` may run the caller's code.
            let passed = chunk.has_passed(progress);
            if let Some(batch) = self.batch(chunk, after.first.get()) {
                // SAFETY: no thread changes the set of a linked chunk.
                chunk.points.with(|points| closed(passed, unsafe { &*points }, batch));
            }
            // SAFETY: the chunk belongs to `queue`; the caller guarantees that one thread at a time takes items out.
            unsafe { queue.leave(self.chunk) };
            self.chunk = next;
        }
        None
    }

    /// Returns the items of the chunk up to number `end` that were not taken out yet.
    fn batch(&mut self, chunk: &Chunk<T>, end: usize) -> Option<Batch<T>> {
        let first = chunk.first.get();
        let (at, end) = (self.taken.wrapping_sub(first), end.wrapping_sub(first));
        // An open chunk may have been linked after `end` was read.
        if end.cast_signed() <= at.cast_signed() {
            return None;
        }
        self.taken = first.wrapping_add(end);
        chunk.users.set(chunk.users.get() + 1);
        Some(Batch { chunk: self.chunk, at, end })
    }
}

impl<T> Batch<T> {
    pub(super) fn len(&self) -> usize {
        self.end - self.at
    }

    /// Passes at most `most` of the next items to `each`. Each item is removed before it is passed.
    ///
    /// # Safety
    /// The batch's queue must be alive.
    #[inline]
    pub(super) unsafe fn give(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let count = self.len().min(most);
        // SAFETY: chunks live as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        for slot in slots {
            self.at += 1;
            // SAFETY: the item was written before it was counted, no thread writes there before the batch is returned,
            // and the item is read once: only this batch has it, and `at` is already past it.
            each(slot.with(|slot| unsafe { (*slot).assume_init_read() }));
        }
        count
    }

    /// Moves at most `most` of the next items to `into`.
    ///
    /// # Safety
    /// The batch's queue must be alive.
    pub(super) unsafe fn collect(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        let count = self.len().min(most);
        // May fail, so it comes before any change.
        into.reserve(count);
        // SAFETY: chunks live as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        self.at += count;
        // SAFETY: each item was written before it was counted, and is read once: only this batch has it, and `at` is
        // past it. The vector has room, so no other code runs in between.
        into.extend(slots.iter().map(|slot| slot.with(|slot| unsafe { (*slot).assume_init_read() })));
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
