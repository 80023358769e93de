//! A queue: one thread at a time puts items in, another takes them out, and neither ever waits for the other.
//!
//! ```text
//!   start ─▶ chunk ──next──▶ chunk ──next──▶ chunk = open                 pushed = 11: items that were ever put in
//!            {0: 6}          {0: 6}          {0: 7}                            │
//!            a b c d         e f g h i ·     j k · · · · · ·                   ▼
//!            └─ first = 0    └─ first = 4    └─ first = 9     the next goes to slot 11 − 9
//!               ▲ the collector's `Head`
//!               └ chunks before it were taken out; empty ones come back: returned ─▶ spare, by their sizes
//! ```
//!
//! The items of a chunk wait for the same set. A chunk is closed by the one that is linked after it: when the set
//! changes, or when it is full. A new one has room for as many as were put in for the set before, so that as a rule a
//! set is one chunk; within a set each is twice as large as the one before it.
//!
//! # Who touches what
//!
//! An item is written, and *then* counted in `pushed` (release). A chunk gets its set and its `first`, and *then* is
//! linked (release). The thread that takes out reads `pushed`, *then* follows the links (acquire): up to there all is
//! written, and stays so. A chunk that is seen to have none after it was still open when `pushed` was read, so the
//! items up to `pushed` are its own. Chunks go back, empty, through a stack that is pushed to (release) and taken as a
//! whole (acquire).
//!
//! No step that changes the queue asks for host memory: a chunk is taken out or made, gets its set, and then is linked.
//! The caller's code that gives memory (a global allocator may drop a resource) finds the queue whole.
//!
//! Putting an item in reads and writes nothing that others write but `returned`, once a chunk: no atomic exchange is in
//! the way.
//!
//! | operation | cost |
//! |---|---|
//! | put in | O(1): a load, the item, a store; a set's first item O(points) more |
//! | a new chunk | O(1): an atomic exchange if no spare one is cached; host memory only at a record of chunks in use |
//! | take out | O(1) a chunk; the items are moved by the thread that gets them |
//!
//! Memory: chunks are kept and used again. Where none is spare, a set makes at most three times the room of its own
//! items, or twice that of the set before it, and the smallest chunk at least.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell, shrunk_under_miri_too};
use ringfence_core::sync::{Progress, SyncSet};

/// Items of the smallest chunk.
const SMALLEST: usize = shrunk_under_miri_too(4, 1);
/// Each holds twice as many as the one before.
const SIZES: usize = shrunk_under_miri_too(7, 2);
/// No chunk has more bytes of items, but for the smallest.
const CHUNK_BYTES: usize = 32 << 10;

/// A number that no turn has.
const NO_TURN: u64 = u64::MAX;

/// Room for an item: the producer writes it before it is counted, the consumer reads it once.
type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Items that wait for the same set, in the order in which they were put in.
struct Chunk<T> {
    /// The set. Written before the chunk is linked.
    points: UnsafeCell<SyncSet>,
    /// How many items were put into the queue before. Written before the chunk is linked.
    first: Cell<usize>,
    /// The chunk after this one, written once; in the stack of empty ones, the one below it.
    next: AtomicPtr<Chunk<T>>,
    slots: Box<[Slot<T>]>,
    /// The thread that takes out: how many batches are of this chunk, and one more as long as it may get items. Begins
    /// at 1.
    users: Cell<usize>,
    /// The one made before: all are freed with the queue.
    made_before: Cell<*mut Chunk<T>>,
}

/// See the [module](self).
pub(super) struct SpscQueue<T> {
    /// Where items go in; null before the first.
    open: Cell<*mut Chunk<T>>,
    /// Items that were ever put in, around the end of the number. Written by who puts in.
    pushed: AtomicUsize,
    /// Up to which number items go into `open` without another look: at most its `first` and the number of its slots.
    limit: Cell<usize>,
    /// Where slot 0 would be if `open` held all items that were ever put in: the next goes `pushed` slots on.
    base: Cell<*const Slot<T>>,
    /// What the set of `open` was made for.
    turn: Cell<u64>,
    /// `pushed` when the set changed last.
    set_began: Cell<usize>,
    /// Empty chunks by their sizes, linked by `next`.
    spare: [Cell<*mut Chunk<T>>; SIZES],
    /// The chunk made last.
    made: Cell<*mut Chunk<T>>,
    /// The first chunk that was ever linked, for who takes out.
    start: AtomicPtr<Chunk<T>>,
    /// Empty chunks, from who takes out.
    returned: AtomicPtr<Chunk<T>>,
}

/// What the items that are put in wait for: as long as it is the same, so is their set.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// The set that is made for this turn.
    Turn(u64),
    /// These points.
    Points(&'a SyncSet),
}

/// A chunk that is not in its queue: out of the spare ones, or to be made. What is lost of it is lost with its queue.
pub(super) struct Next<T> {
    /// Null if it is to be made.
    chunk: *mut Chunk<T>,
    /// Its slots, if it is to be made.
    items: usize,
    /// Whether the queue does not know it.
    is_made: bool,
}

impl<T> Next<T> {
    /// Makes it, if need be, and gives it its set. This may run the caller's code: its global allocator.
    pub(super) fn ready(mut self, set: impl Fn(&mut SyncSet)) -> Self {
        if self.chunk.is_null() {
            self.chunk = Chunk::make(self.items);
            self.is_made = true;
        }
        // SAFETY: made just now, or a spare one of a queue, which lives as long; no other thread's before it is linked.
        unsafe { (*self.chunk).points.with_mut(|points| set(&mut *points)) };
        self
    }
}

/// What the thread that takes out knows of a queue.
pub(super) struct Head<T> {
    /// The first chunk that was not taken out as a whole; null as long as none is known.
    chunk: *mut Chunk<T>,
    /// Items that were taken out, around the end of the number.
    taken: usize,
}

/// Items that were taken out of a queue and still lie in their chunk. Not dropped by itself: each is
/// [taken](Batch::give), and what is empty is given [back](SpscQueue::give_back).
pub(super) struct Batch<T> {
    chunk: *mut Chunk<T>,
    at: usize,
    end: usize,
}

// SAFETY: a batch is the only one that reads its items, which may be sent; what else it reads of its chunk does not
// change, or belongs to the thread that takes out.
unsafe impl<T: Send> Send for Batch<T> {}

// SAFETY: a head belongs to the one thread at a time that takes out.
unsafe impl<T: Send> Send for Head<T> {}

impl<T> SpscQueue<T> {
    /// The largest chunk: an index into the sizes.
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

    /// How many items were ever put in, around the end of the number.
    #[inline]
    pub(super) fn pushed(&self) -> usize {
        self.pushed.load(Ordering::Acquire)
    }

    /// The slot of the next item, if the open chunk has room for it: to be [filled](SpscQueue::fill).
    ///
    /// # Safety
    /// No other thread puts items in at the same time.
    #[inline]
    unsafe fn slot(&self) -> Option<&Slot<T>> {
        let pushed = self.pushed.load(Ordering::Relaxed);
        // SAFETY: the open chunk, which lives as long as the queue, has a slot for each item from its first up to the
        // limit, and there are never more than that.
        (pushed != self.limit.get()).then(|| unsafe { &*self.base.get().wrapping_add(pushed) })
    }

    /// As [`SpscQueue::slot`], if this is the turn that the open chunk's set was made for.
    ///
    /// # Safety
    /// No other thread puts items in at the same time.
    #[inline]
    pub(super) unsafe fn slot_in_turn(&self, turn: u64) -> Option<&Slot<T>> {
        // SAFETY: the caller promises that no other thread puts items in at the same time.
        if self.turn.get() == turn { unsafe { self.slot() } } else { None }
    }

    /// As [`SpscQueue::slot`], if these are the points that the open chunk waits for.
    ///
    /// # Safety
    /// No other thread puts items in at the same time.
    #[inline]
    pub(super) unsafe fn slot_for(&self, points: &SyncSet) -> Option<&Slot<T>> {
        // SAFETY: the caller promises that no other thread puts items in at the same time.
        if self.waits_for(points) { unsafe { self.slot() } } else { None }
    }

    /// Whether the open chunk waits for these points.
    #[inline]
    fn waits_for(&self, points: &SyncSet) -> bool {
        // SAFETY: null before the first item, or a chunk, which lives as long as the queue.
        let open = unsafe { self.open.get().as_ref() };
        // SAFETY: the set of a chunk that is linked is only read.
        open.is_some_and(|open| open.points.with(|held| unsafe { *held == *points }))
    }

    /// Writes an item into a slot that the queue has just given, and counts it.
    ///
    /// # Safety
    /// No other thread puts items in at the same time, and nothing was put in since.
    #[inline]
    pub(super) unsafe fn fill(&self, slot: &Slot<T>, item: T) {
        // SAFETY: no other thread puts in, and no thread reads what is not counted yet.
        slot.with_mut(|slot| unsafe { _ = (*slot).write(item) });
        self.pushed.store(self.pushed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Whether the open chunk's set is that of the key.
    fn is_for(&self, key: Key<'_>) -> bool {
        match key {
            Key::Turn(turn) => self.turn.get() == turn,
            Key::Points(points) => self.waits_for(points),
        }
    }

    /// Puts items in as long as the open chunk is for them and has room, with one step that others see. If some are
    /// left, gives the chunk to go on with: to be [made ready](Next::ready), and then [opened](SpscQueue::go_on). After
    /// at most `step` items more, [`SpscQueue::slot`] gives none, so that the thread that puts in comes here again.
    ///
    /// Nothing here asks for host memory or frees any: what gives it out is the caller's code, which may come back to
    /// this very queue.
    ///
    /// # Safety
    /// No other thread puts items in at the same time. The iterator does nothing but give items.
    pub(super) unsafe fn fill_from(
        &self,
        key: Key<'_>,
        step: usize,
        items: &mut impl ExactSizeIterator<Item = T>,
    ) -> Option<Next<T>> {
        let is_for = self.is_for(key);
        if is_for {
            // SAFETY: the caller promises that no other thread puts items in at the same time and that the iterator
            // only gives items; a set has begun, so a chunk is open.
            unsafe { self.fill_open(step, items) };
        }
        (items.len() > 0).then(|| {
            // SAFETY: null before the first item, or a chunk, which lives as long as the queue.
            let full = unsafe { self.open.get().as_ref() }.filter(|_| is_for);
            let set_items = self.pushed.load(Ordering::Relaxed).wrapping_sub(self.set_began.get());
            self.take_spare(full.map_or(set_items, |full| full.slots.len() * 2))
        })
    }

    /// Puts items into the open chunk as long as it has room.
    ///
    /// # Safety
    /// As [`SpscQueue::fill_from`], and a chunk is open.
    unsafe fn fill_open(&self, step: usize, items: &mut impl ExactSizeIterator<Item = T>) {
        // SAFETY: chunks live as long as the queue.
        let chunk = unsafe { &*self.open.get() };
        let pushed = self.pushed.load(Ordering::Relaxed);
        let room = &chunk.slots[pushed.wrapping_sub(chunk.first.get())..];
        let count = room.len().min(items.len());
        for (slot, item) in room.iter().zip(items.by_ref().take(count)) {
            // SAFETY: no other thread puts in, and no thread reads what is not counted yet.
            slot.with_mut(|slot| unsafe { _ = (*slot).write(item) });
        }
        let pushed = pushed.wrapping_add(count);
        self.pushed.store(pushed, Ordering::Release);
        self.limit.set(pushed.wrapping_add(step.min(room.len() - count)));
    }

    /// Has items go into this chunk from now on, unless the open one does by now: who gave memory out for this one may
    /// have put something in.
    ///
    /// # Safety
    /// No other thread puts items in at the same time; the chunk is ready, for this key, and this queue gave it.
    pub(super) unsafe fn go_on(&self, next: Next<T>, key: Key<'_>) {
        // SAFETY: a chunk that was taken or made for this queue is no other thread's.
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

    /// Has items go into this chunk from now on.
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

    /// A spare chunk for at least `items` items if any chunk holds as many; or what size to make.
    fn take_spare(&self, items: usize) -> Next<T> {
        let size = (0..Self::LARGEST).find(|size| SMALLEST << size >= items).unwrap_or(Self::LARGEST);
        let spare = || self.spare[size..].iter().find(|list| !list.get().is_null());
        let list = spare().or_else(|| {
            self.sort_returned();
            spare()
        });
        let chunk = list.map_or(ptr::null_mut(), |list| {
            let chunk = list.get();
            // SAFETY: chunks live as long as the queue; a spare one is no other thread's.
            list.set(unsafe { (*chunk).next.load(Ordering::Relaxed) });
            chunk
        });
        Next { chunk, items: SMALLEST << size, is_made: false }
    }

    /// Puts what has come back with the spare ones.
    fn sort_returned(&self) {
        if self.returned.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut chunk = self.returned.swap(ptr::null_mut(), Ordering::Acquire);
        while !chunk.is_null() {
            // SAFETY: chunks live as long as the queue; the stack was taken as a whole, so they are no other thread's.
            let below = unsafe { &*chunk }.next.load(Ordering::Relaxed);
            self.keep(chunk);
            chunk = below;
        }
    }

    /// Puts a chunk that is no thread's with the spare ones.
    fn keep(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks live as long as the queue; this one is no other thread's.
        let spare = unsafe { &*chunk };
        let list = &self.spare[(spare.slots.len() / SMALLEST).trailing_zeros() as usize];
        spare.next.store(list.replace(chunk), Ordering::Relaxed);
    }

    /// Says that a batch is done with. Empty, or its items are lost.
    ///
    /// # Safety
    /// It is of this queue, and one thread at a time takes out of it.
    pub(super) unsafe fn give_back(&self, batch: Batch<T>) {
        // SAFETY: the caller promises that the batch is of this queue and that one thread at a time takes out of it.
        unsafe { self.leave(batch.chunk) };
    }

    /// # Safety
    /// The chunk is of this queue, and one thread at a time takes out of it.
    unsafe fn leave(&self, chunk: *mut Chunk<T>) {
        // SAFETY: chunks live as long as the queue, and `users` is the thread that takes out's alone.
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

/// One by one, as tests have it.
#[cfg(test)]
impl<T> SpscQueue<T> {
    /// # Safety
    /// No other thread puts items in at the same time.
    pub(super) unsafe fn put(
        &self,
        key: Key<'_>,
        set: impl Fn(&mut SyncSet),
        mut items: impl ExactSizeIterator<Item = T>,
    ) {
        // SAFETY: the caller promises that no other thread puts items in at the same time.
        while let Some(next) = unsafe { self.fill_from(key, usize::MAX, &mut items) } {
            // SAFETY: the same; `fill_from` gave the chunk for this key, and it is made ready.
            unsafe { self.go_on(next.ready(&set), key) };
        }
    }
}

impl<T> Drop for SpscQueue<T> {
    fn drop(&mut self) {
        let mut chunk = self.made.get();
        while !chunk.is_null() {
            // SAFETY: each chunk was made from a box and stands in this list once; no other thread has the queue any
            // more. Items that still lie there are lost.
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
        // SAFETY: no thread changes the set of a chunk that is linked, and only such a one is asked.
        self.points.with(|points| progress.passed_all(unsafe { &*points }))
    }
}

impl<T> Head<T> {
    pub(super) const fn new() -> Self {
        Self { chunk: ptr::null_mut(), taken: 0 }
    }

    /// Gives the set of each chunk from here on that is in the queue by now.
    ///
    /// # Safety
    /// It is always this queue, and one thread at a time takes out of it.
    pub(super) unsafe fn sets(&self, queue: &SpscQueue<T>, mut each: impl FnMut(&SyncSet)) {
        let mut chunk = if self.chunk.is_null() { queue.start.load(Ordering::Acquire) } else { self.chunk };
        // SAFETY: null, or a chunk of the queue, which lives as long; what is read of it was written before it was
        // linked.
        while let Some(held) = unsafe { chunk.as_ref() } {
            // SAFETY: no thread changes the set of a chunk that is linked.
            held.points.with(|points| each(unsafe { &*points }));
            chunk = held.next.load(Ordering::Acquire);
        }
    }

    /// Items that were taken out of the queue, around the end of the number.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes out what is in the queue: each chunk that is closed goes to `closed`, with whether its set has passed, and
    /// the set. Gives what is in the open one by now, if that has passed. No batch is empty.
    ///
    /// # Safety
    /// It is always this queue, and one thread at a time takes out of it.
    pub(super) unsafe fn take(
        &mut self,
        queue: &SpscQueue<T>,
        progress: &(impl Progress + ?Sized),
        mut closed: impl FnMut(bool, &SyncSet, Batch<T>),
    ) -> Option<Batch<T>> {
        // First: whatever chunk is then seen to be open was so by now.
        let pushed = queue.pushed();
        if self.chunk.is_null() {
            self.chunk = queue.start.load(Ordering::Acquire);
        }
        // SAFETY: null, or a chunk of the queue, which lives as long; what is read of it was written before it was
        // linked.
        while let Some(chunk) = unsafe { self.chunk.as_ref() } {
            let next = chunk.next.load(Ordering::Acquire);
            // SAFETY: null, or the next chunk of the queue, which lives as long; it was written before it was linked.
            let Some(after) = (unsafe { next.as_ref() }) else {
                return if chunk.has_passed(progress) { self.batch(chunk, pushed) } else { None };
            };
            // Before anything changes: `progress` may run the caller's code.
            let passed = chunk.has_passed(progress);
            if let Some(batch) = self.batch(chunk, after.first.get()) {
                // SAFETY: no thread changes the set of a chunk that is linked.
                chunk.points.with(|points| closed(passed, unsafe { &*points }, batch));
            }
            // SAFETY: the chunk is of `queue`; the caller promises that one thread at a time takes out of it.
            unsafe { queue.leave(self.chunk) };
            self.chunk = next;
        }
        None
    }

    /// The items of the chunk up to number `end` that were not taken out yet.
    fn batch(&mut self, chunk: &Chunk<T>, end: usize) -> Option<Batch<T>> {
        let first = chunk.first.get();
        let (at, end) = (self.taken.wrapping_sub(first), end.wrapping_sub(first));
        // An open chunk may be younger than the number is.
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

    /// Gives at most `most` of the next items to `each`. Each is gone from here before it is given.
    ///
    /// # Safety
    /// The batch's queue is there.
    #[inline]
    pub(super) unsafe fn give(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let count = self.len().min(most);
        // SAFETY: chunks live as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        for slot in slots {
            self.at += 1;
            // SAFETY: the item was written before it was counted, no thread writes there before the batch is given
            // back, and it is read once: this batch is the only one that has it, and goes on behind it.
            each(slot.with(|slot| unsafe { (*slot).assume_init_read() }));
        }
        count
    }

    /// Moves at most `most` of the next items to `into`.
    ///
    /// # Safety
    /// The batch's queue is there.
    pub(super) unsafe fn collect(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        let count = self.len().min(most);
        // What may fail, while nothing has happened yet.
        into.reserve(count);
        // SAFETY: chunks live as long as the queue.
        let slots = unsafe { &(&(*self.chunk).slots)[self.at..self.at + count] };
        self.at += count;
        // SAFETY: each item was written before it was counted, and is read once: this batch alone has it, and `at` is
        // past it. The vector has room, so that no other code runs in between.
        into.extend(slots.iter().map(|slot| slot.with(|slot| unsafe { (*slot).assume_init_read() })));
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
