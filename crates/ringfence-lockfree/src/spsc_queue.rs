//! A single-producer, single-consumer queue: one thread at a time adds items, and one thread at a time takes them out.
//! Neither waits for the other.
//!
//! ```text
//!   start ─▶ chunk ──next──▶ chunk ──next──▶ chunk = open                 pushed = 11: number of items ever added
//!            {0: 6}          {0: 6}          {0: 7}                            │
//!            a b c d         e f g h i ·     j k · · · · · ·                   ▼
//!            └─ first = 0    └─ first = 4    └─ first = 9     the next item is written to slot 11 − 9
//!               ▲ the consumer's `Head`
//!               └ earlier chunks were taken out; empty ones are reused: returned ─▶ spare, by size
//! ```
//!
//! All items of a chunk wait for the same set. The last chunk is *open*: it receives items. When the set changes or the
//! chunk is full, the producer links a new chunk, which closes the old one. The first chunk of a set has room for at
//! least as many items as were added for the previous set, so a set usually needs one chunk. Each further chunk of a
//! set is at least twice as large as the previous one. Both rules end at the largest chunk size.
//!
//! # Memory order
//!
//! 1. The producer writes an item and *then* counts it in `pushed` (release).
//! 2. The producer writes the set and the `first` of a chunk and *then* links it (release).
//! 3. The consumer reads `pushed` and *then* follows the links (acquire). All items up to number `pushed` are written
//!    and do not change. A chunk without a successor was open when `pushed` was read, so it contains the items up to
//!    number `pushed`.
//! 4. The consumer returns empty chunks through a stack: it pushes them (release), and the producer takes the whole
//!    stack (acquire).
//!
//! No step that changes the queue allocates host memory: a chunk is created, or taken from the spare chunks, and its
//! set is written. Only then is the chunk linked. So if the program's global allocator calls the queue again (it may
//! drop a resource), the queue is consistent.
//!
//! To add an item, the producer accesses no memory that other threads write, and executes no atomic exchange. Only for
//! a new chunk does it access `returned`.
//!
//! | operation | cost |
//! |---|---|
//! | add an item | O(1): a load, a copy of the item, a store; also O(points) for the first item of a set |
//! | a new chunk | O(1): an atomic exchange if there is no spare chunk; rarely an allocation of host memory |
//! | take items out | O(points) per chunk; the thread that receives the items moves them |
//!
//! Host memory: chunks are reused. If there is no spare chunk, a set reserves memory for at most 3 × its items or 2 ×
//! the previous set's items, whichever is more, but at least one smallest chunk.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell, shrunk_under_miri_too};
use ringfence_core::sync::{Progress, SyncSet};

/// Number of slots of the smallest chunk.
const SLOTS_MIN: usize = shrunk_under_miri_too(4, 1);
/// Number of chunk sizes. Each size has twice as many slots as the previous one.
const SIZE_COUNT: usize = shrunk_under_miri_too(7, 2);
/// Maximum size of the slots of a chunk, in bytes. Only the smallest chunk may exceed it.
const CHUNK_BYTES: usize = 32 << 10;

/// A value that no turn has.
const NO_TURN: u64 = u64::MAX;

/// Storage of an item. The producer writes it before it counts the item, and the consumer reads it once.
type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Items that wait for the same set, in the order in which they were added.
struct Chunk<T> {
    /// The set that the items wait for. Written before the chunk is linked.
    points: UnsafeCell<SyncSet>,
    /// Number of items that were added to the queue before this chunk. Written before the chunk is linked.
    first: Cell<usize>,
    /// The next chunk of the queue, written once while this chunk is in the queue. In a list of empty chunks, the chunk
    /// below this one.
    next: AtomicPtr<Chunk<T>>,
    slots: Box<[Slot<T>]>,
    /// Number of batches of this chunk, plus one while the chunk is in the queue. Once the chunk is linked, only the
    /// consumer changes the number.
    users: Cell<usize>,
    /// The chunk that was created before this one. All chunks are in this list, and are freed with the queue.
    created_before: Cell<*mut Chunk<T>>,
}

/// A single-producer, single-consumer queue of items that wait for sets of sync points.
pub(super) struct SpscQueue<T> {
    /// The chunk that receives items; null before the first item.
    open: Cell<*mut Chunk<T>>,
    /// Number of items that were ever added, wrapping. Written by the producer.
    pushed: AtomicUsize,
    /// Value of `pushed` up to which items are added to `open` without further checks: at most `first` of this chunk
    /// plus the number of its slots.
    limit: Cell<usize>,
    /// Address at which the next item is written, minus `pushed` slots. So the next item is written to slot `base +
    /// pushed`.
    base: Cell<*const Slot<T>>,
    /// Turn of the set of `open`; [`NO_TURN`] if the set was given as points.
    turn: Cell<u64>,
    /// Value of `pushed` when the set last changed.
    set_began: Cell<usize>,
    /// Empty chunks of the producer by size, linked by `next`.
    spare: [Cell<*mut Chunk<T>>; SIZE_COUNT],
    /// The chunk that was created last.
    last_created: Cell<*mut Chunk<T>>,
    /// The first chunk that was ever linked. The consumer starts at it.
    start: AtomicPtr<Chunk<T>>,
    /// Stack of the empty chunks that the consumer has returned.
    returned: AtomicPtr<Chunk<T>>,
}

/// The set that added items wait for. Items with equal keys have equal sets.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// The set that the caller computes for this turn.
    Turn(u64),
    /// These points.
    Points(&'a SyncSet),
}

/// A chunk that is not linked: a spare chunk, or a chunk that must be created. If it is dropped, a spare chunk is freed
/// with its queue.
pub(super) struct NextChunk<T> {
    /// The spare chunk; null if the chunk must be created.
    chunk: *mut Chunk<T>,
    /// Number of slots, if the chunk must be created.
    items: usize,
    /// `true` if the chunk was created, and is not in the queue's list of chunks yet.
    is_made: bool,
}

impl<T> NextChunk<T> {
    /// Creates the chunk if it does not exist, and writes its set. May run the program's code: `set`, or the global
    /// allocator.
    pub(super) fn prepare(mut self, set: impl Fn(&mut SyncSet)) -> Self {
        if self.chunk.is_null() {
            self.chunk = Chunk::make(self.items);
            self.is_made = true;
        }
        // SAFETY: the chunk was just created, or is a spare chunk of a queue, and exists as long as the queue. No other
        // thread accesses it before it is linked.
        unsafe { (*self.chunk).points.with_mut(|points| set(&mut *points)) };
        self
    }
}

/// The consumer's position in a queue.
pub(super) struct Head<T> {
    /// The first chunk that was not taken out completely; null before the first chunk.
    chunk: *mut Chunk<T>,
    /// Number of items that were taken out, wrapping.
    taken: usize,
}

/// Items that were taken out of a queue but are still stored in their chunk. A dropped batch leaks its items: take each
/// item with [`Batch::give`] or [`Batch::collect`], and return the empty batch with [`SpscQueue::return_batch`].
pub(super) struct Batch<T> {
    chunk: *mut Chunk<T>,
    at: usize,
    end: usize,
}

// SAFETY: only the batch reads its items, which are `Send`. The other fields that it reads of its chunk do not change,
// or belong to the consumer.
unsafe impl<T: Send> Send for Batch<T> {}

// SAFETY: a head belongs to the consumer, and one thread at a time is the consumer.
unsafe impl<T: Send> Send for Head<T> {}

impl<T> SpscQueue<T> {
    /// Index of the largest chunk size.
    const LARGEST: usize = {
        let (mut size, bytes) = (0, if size_of::<T>() == 0 { 1 } else { size_of::<T>() });
        while size + 1 < SIZE_COUNT && (SLOTS_MIN << (size + 1)) * bytes <= CHUNK_BYTES {
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
            spare: [const { Cell::new(ptr::null_mut()) }; SIZE_COUNT],
            last_created: Cell::new(ptr::null_mut()),
            start: AtomicPtr::new(ptr::null_mut()),
            returned: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the number of items that were ever added, wrapping.
    #[inline]
    pub(super) fn pushed(&self) -> usize {
        self.pushed.load(Ordering::Acquire)
    }

    /// Returns the slot of the next item, for [`SpscQueue::fill`]. Returns `None` if the limit of the open chunk is
    /// reached.
    ///
    /// # Safety
    /// No other thread may add items at the same time.
    #[inline]
    unsafe fn slot(&self) -> Option<&Slot<T>> {
        let pushed = self.pushed.load(Ordering::Relaxed);
        // SAFETY: the open chunk exists as long as the queue. It has a slot for each item from its first one up to the
        // limit, and `pushed` does not exceed the limit.
        (pushed != self.limit.get()).then(|| unsafe { &*self.base.get().wrapping_add(pushed) })
    }

    /// Returns the same as [`SpscQueue::slot`], or `None` if the set of the open chunk has another turn.
    ///
    /// # Safety
    /// No other thread may add items at the same time.
    #[inline]
    pub(super) unsafe fn slot_in_turn(&self, turn: u64) -> Option<&Slot<T>> {
        // SAFETY: the caller guarantees that no other thread adds items at the same time.
        if self.turn.get() == turn { unsafe { self.slot() } } else { None }
    }

    /// Returns the same as [`SpscQueue::slot`], or `None` if the open chunk waits for other points.
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
        // SAFETY: the pointer is null before the first item, or a chunk, which exists as long as the queue.
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
    fn has_set_of(&self, key: Key<'_>) -> bool {
        match key {
            Key::Turn(turn) => self.turn.get() == turn,
            Key::Points(points) => self.waits_for(points),
        }
    }

    /// If the open chunk has the set of `key`, adds items until the chunk is full, and counts them in one store. If
    /// items remain, returns a chunk for them: the caller must call [`NextChunk::prepare`] and
    /// [`SpscQueue::open_chunk`] with it, and then this function again. After at most `step` further items,
    /// [`SpscQueue::slot`] returns `None`, so that the producer calls this function again.
    ///
    /// Neither allocates nor frees host memory, because the program's global allocator may use this queue.
    ///
    /// # Safety
    /// No other thread may add items at the same time. The iterator must not run code that uses the queue.
    pub(super) unsafe fn fill_from(
        &self,
        key: Key<'_>,
        step: usize,
        items: &mut impl ExactSizeIterator<Item = T>,
    ) -> Option<NextChunk<T>> {
        let has_set_of = self.has_set_of(key);
        if has_set_of {
            // SAFETY: the caller guarantees that no other thread adds items at the same time, and that the iterator
            // does not use the queue. A chunk is open, because it has the set of the key.
            unsafe { self.fill_open(step, items) };
        }
        (items.len() > 0).then(|| {
            // SAFETY: the pointer is null before the first item, or a chunk, which exists as long as the queue.
            let full = unsafe { self.open.get().as_ref() }.filter(|_| has_set_of);
            let set_items = self.pushed.load(Ordering::Relaxed).wrapping_sub(self.set_began.get());
            self.take_spare(full.map_or(set_items, |full| full.slots.len() * 2))
        })
    }

    /// Adds items to the open chunk until it is full.
    ///
    /// # Safety
    /// The requirements of [`SpscQueue::fill_from`], and a chunk must be open.
    unsafe fn fill_open(&self, step: usize, items: &mut impl ExactSizeIterator<Item = T>) {
        // SAFETY: chunks exist as long as the queue.
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

    /// Makes this chunk the open one. If the open chunk has the set of `key` and room, makes this chunk a spare one
    /// instead. This can happen because the creation of this chunk may have run code that added items.
    ///
    /// # Safety
    /// No other thread may add items at the same time. [`SpscQueue::fill_from`] must have returned the chunk for this
    /// key, and [`NextChunk::prepare`] must have been called on it.
    pub(super) unsafe fn open_chunk(&self, next: NextChunk<T>, key: Key<'_>) {
        // SAFETY: no other thread accesses a chunk that was taken from the spare ones or created for this queue.
        let chunk = unsafe { &*next.chunk };
        if next.is_made {
            chunk.created_before.set(self.last_created.replace(next.chunk));
        }
        let same_set = self.has_set_of(key);
        // SAFETY: the pointer is null before the first item, or a chunk, which exists as long as the queue.
        let open = unsafe { self.open.get().as_ref() }.filter(|_| same_set);
        let pushed = self.pushed.load(Ordering::Relaxed);
        if open.is_some_and(|open| pushed.wrapping_sub(open.first.get()) < open.slots.len()) {
            return self.add_spare(next.chunk);
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
        // SAFETY: chunks exist as long as the queue.
        let before = if open.is_null() { &self.start } else { unsafe { &(*open).next } };
        before.store(next, Ordering::Release);
    }

    /// Returns a spare chunk for at least `items` items, or of the largest size. If there is none, returns the size of
    /// a chunk to create.
    fn take_spare(&self, items: usize) -> NextChunk<T> {
        let size = (0..Self::LARGEST).find(|size| SLOTS_MIN << size >= items).unwrap_or(Self::LARGEST);
        let spare = || self.spare[size..].iter().find(|list| !list.get().is_null());
        let list = spare().or_else(|| {
            self.reuse_returned();
            spare()
        });
        let chunk = list.map_or(ptr::null_mut(), |list| {
            let chunk = list.get();
            // SAFETY: chunks exist as long as the queue; no other thread accesses a spare one.
            list.set(unsafe { (*chunk).next.load(Ordering::Relaxed) });
            chunk
        });
        NextChunk { chunk, items: SLOTS_MIN << size, is_made: false }
    }

    /// Adds the chunks that the consumer has returned to the spare ones.
    fn reuse_returned(&self) {
        if self.returned.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut chunk = self.returned.swap(ptr::null_mut(), Ordering::Acquire);
        while !chunk.is_null() {
            // SAFETY: chunks exist as long as the queue. The whole stack was taken, so no other thread accesses its
            // chunks.
            let below = unsafe { &*chunk }.next.load(Ordering::Relaxed);
            self.add_spare(chunk);
            chunk = below;
        }
    }

    /// Adds a chunk to the spare ones. No other thread may access it.
    fn add_spare(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks exist as long as the queue; no other thread accesses this one.
        let spare = unsafe { &*chunk };
        let list = &self.spare[(spare.slots.len() / SLOTS_MIN).trailing_zeros() as usize];
        spare.next.store(list.replace(chunk), Ordering::Relaxed);
    }

    /// Returns a batch to the queue, so that its chunk can be reused. The remaining items of the batch are leaked.
    ///
    /// # Safety
    /// The batch must be from this queue. Only one thread at a time may take items out of the queue.
    pub(super) unsafe fn return_batch(&self, batch: Batch<T>) {
        // SAFETY: the caller guarantees that the batch is from this queue and that one thread at a time takes items
        // out.
        unsafe { self.release_chunk(batch.chunk) };
    }

    /// Removes a user of a chunk. If it was the last user, pushes the chunk to the stack of returned chunks.
    ///
    /// # Safety
    /// The chunk must belong to this queue, and only one thread at a time may take items out of it.
    unsafe fn release_chunk(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks exist as long as the queue, and only the consumer accesses `users`.
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

/// Adds items in one call, for tests.
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
            // SAFETY: as above. `fill_from` has returned the chunk for this key, and the chunk is ready.
            unsafe { self.open_chunk(next.prepare(&set), key) };
        }
    }
}

impl<T> Drop for SpscQueue<T> {
    fn drop(&mut self) {
        let mut chunk = self.last_created.get();
        while !chunk.is_null() {
            // SAFETY: each chunk was created from a box and is in this list once, and no other thread has access to the
            // queue. Items that are still stored in a chunk are leaked.
            chunk = unsafe { Box::from_raw(chunk) }.created_before.get();
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
            created_before: Cell::new(ptr::null_mut()),
        }))
    }

    fn has_passed(&self, progress: &(impl Progress + ?Sized)) -> bool {
        // SAFETY: no thread changes the set of a linked chunk, and this function is only called for linked chunks.
        self.points.with(|points| progress.passed_all(unsafe { &*points }))
    }
}

impl<T> Head<T> {
    pub(super) const fn new() -> Self {
        Self { chunk: ptr::null_mut(), taken: 0 }
    }

    /// Calls `each` with the set of each chunk that is in the queue, from this head on.
    ///
    /// # Safety
    /// `queue` must be the same in all calls. Only one thread at a time may take items out of it.
    pub(super) unsafe fn sets(&self, queue: &SpscQueue<T>, mut each: impl FnMut(&SyncSet)) {
        let mut chunk = if self.chunk.is_null() { queue.start.load(Ordering::Acquire) } else { self.chunk };
        // SAFETY: the pointer is null, or a chunk of the queue, which exists as long as the queue. The fields that are
        // read were written before it was linked.
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

    /// Takes items out of the queue. For each closed chunk that has items, calls `closed(passed, set, items)`: `passed`
    /// is `true` if the set of the chunk has passed. If the set of the open chunk has passed, returns the current items
    /// of the open chunk. No batch is empty.
    ///
    /// # Safety
    /// `queue` must be the same in all calls. Only one thread at a time may take items out of it.
    pub(super) unsafe fn take(
        &mut self,
        queue: &SpscQueue<T>,
        progress: &(impl Progress + ?Sized),
        mut closed: impl FnMut(bool, &SyncSet, Batch<T>),
    ) -> Option<Batch<T>> {
        // `pushed` is read first: a chunk that is seen without a successor afterwards was open at this point.
        let pushed = queue.pushed();
        if self.chunk.is_null() {
            self.chunk = queue.start.load(Ordering::Acquire);
        }
        // SAFETY: the pointer is null, or a chunk of the queue, which exists as long as the queue. The fields that are
        // read were written before it was linked.
        while let Some(chunk) = unsafe { self.chunk.as_ref() } {
            let next = chunk.next.load(Ordering::Acquire);
            // SAFETY: the pointer is null, or the next chunk of the queue, which exists as long as the queue. Its
            // fields were written before it was linked.
            let Some(after) = (unsafe { next.as_ref() }) else {
                return if chunk.has_passed(progress) { self.batch(chunk, pushed) } else { None };
            };
            // `progress` is called before any change, because it may run the caller's code.
            let passed = chunk.has_passed(progress);
            if let Some(batch) = self.batch(chunk, after.first.get()) {
                // SAFETY: no thread changes the set of a linked chunk.
                chunk.points.with(|points| closed(passed, unsafe { &*points }, batch));
            }
            // SAFETY: the chunk belongs to `queue`, and the caller guarantees that one thread at a time takes items
            // out.
            unsafe { queue.release_chunk(self.chunk) };
            self.chunk = next;
        }
        None
    }

    /// Returns the items of the chunk that were not taken out yet, up to number `end` of the queue. Returns `None` if
    /// there are none.
    fn batch(&mut self, chunk: &Chunk<T>, end: usize) -> Option<Batch<T>> {
        let first = chunk.first.get();
        let (at, end) = (self.taken.wrapping_sub(first), end.wrapping_sub(first));
        // `end` is below the first item if the chunk was linked after `end` was read.
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

    /// Calls `each` with at most `most` of the next items, and returns their number. Each item is removed from the
    /// batch before the call.
    ///
    /// # Safety
    /// The batch's queue must be alive.
    #[inline]
    pub(super) unsafe fn give(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let count = self.len().min(most);
        // SAFETY: chunks exist as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        for slot in slots {
            self.at += 1;
            // SAFETY: the item was written before it was counted, and no thread writes to its slot before the batch is
            // returned. The item is read once, because only this batch has it, and `at` is already past it.
            each(slot.with(|slot| unsafe { (*slot).assume_init_read() }));
        }
        count
    }

    /// Moves at most `most` of the next items to `into`, and returns their number.
    ///
    /// # Safety
    /// The batch's queue must be alive.
    pub(super) unsafe fn collect(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        let count = self.len().min(most);
        // The reservation may panic, so it comes before any change.
        into.reserve(count);
        // SAFETY: chunks exist as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        self.at += count;
        // SAFETY: each item was written before it was counted. It is read once, because only this batch has it, and
        // `at` is already past it. The vector has room, so no other code runs meanwhile.
        into.extend(slots.iter().map(|slot| slot.with(|slot| unsafe { (*slot).assume_init_read() })));
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
