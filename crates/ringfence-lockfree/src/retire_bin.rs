//! A bin of retired items that the GPU may still use. Any number of threads can add items and release them.
//!
//! ```text
//!   thread slot 0 ─ retire ─▶ shard 0   queues:  {0: 7, 1: 3} [a b c …      items that wait for all begun frames
//!                        │               {1: 2} [g …                items with their own sets
//!   thread slot 1 ─ retire ─▶ shard 1 …     taken out:  {0: 6} [d e], {0: 5} [f]    closed chunks, by their sets
//!   no thread slot ─ producer ──▶ a shared one
//!                        ▲
//!   collect(passed, max) ┤── visits the shards, each call from another one on: takes closed chunks out of the
//!   release(passed, max) ┘   queues, and gives out the items of complete ones ──▶ f, d, e, … one by one
//! ```
//!
//! A thread with a [thread slot](crate::thread_slot) has its own shard. It adds items to the shard's single-producer
//! queues with plain stores: no exchange, no lock, no memory that another thread writes. A thread without a thread
//! slot, or with a thread slot beyond the shards of this bin, uses a shared shard. While such a thread adds an item, it
//! must have the *producer* of the shard; if another thread has the producer, it tries the next shared shard. A thread
//! that takes items out of a shard must first take the shard's *collector*. Producer and collector are [`TryCell`]s,
//! which a thread has only for a short time, and never while the program's code runs. A thread waits for one only in
//! these cases:
//!
//! - It has no own shard, and either all producers are taken or its item needs a new chunk.
//! - It returns a batch of items to the shard.
//! - It calls [`RetireBin::collect_all`] or [`RetireBin::validate`].
//!
//! # Proof that no item is released too early
//!
//! An item of [`RetireBin::retire_tagged`] waits for a set of points that is read *after* the owner has released the
//! item, because the call takes the item by value. Code that records work with the item must begin a frame first (the
//! contract of `Allocator::timeline`), and must hold a reference to the item while it records. So the start of the
//! frame *happens before* the retirement of the item. The set contains the latest begun value of each timeline, so it
//! covers this frame.
//!
//! A queue reuses its set while the *turn* is unchanged. The turn is a number that increases when a frame begins,
//! before `begin` returns. If the turn that the retiring thread reads is equal to the turn of the queue's set, the set
//! covers every frame that began before. So an outdated set is never used. If a set has more points than necessary,
//! because a frame was dropped, its items only wait longer.
//!
//! The progress is read before the shards are visited, and the values of a timeline only rise. So items that are added
//! meanwhile are compared with values that the device has already reached. Only the thread with the collector takes
//! items out of the queues, so each item is released once.
//!
//! # Order
//!
//! Items that a thread with its own shard retires with the same set are released in the order of their retirement, if
//! only one thread at a time releases items. All other items are released in any order. No other order is needed,
//! because an item owns the objects that must outlive it (its memory).
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1): a few loads, a copy of the item, a store; O(timelines) for a thread's first item of a frame |
//! | … without a thread slot | also an atomic exchange |
//! | … with its own set | O(points of the set) |
//! | collect, release | O(1) per empty shard; otherwise O(timelines), O(points) per chunk, and one move per item |
//! | len | O(shards); takes no collector |
//!
//! Chunks are reused, so no host memory is allocated in steady state.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::primitive::{AtomicUsize, CachePadded, Ordering, yield_now};
use crate::spsc_queue::{Batch, Head, Key, SpscQueue};
use crate::thread_slot::{THREAD_SLOTS, cached_number, thread_number};
use crate::try_cell::{Taken, TryCell};
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet, TimelineId};

/// Items that are released once points on timelines have passed. Any number of threads can add items. A thread with its
/// own part of the bin (a shard) adds items without waiting. An item is *complete* if all points that it waits for have
/// passed.
///
/// The allocator keeps its retired objects in such a bin. A program can use a bin of its own for objects that the GPU
/// may still use, such as views and pipelines.
///
/// ```
/// use ringfence_lockfree::retire_bin::RetireBin;
/// use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
///
/// let graphics = TimelineId::new(0);
/// let bin = RetireBin::new();
/// bin.retire(&SyncSet::from(SyncPoint::new(graphics, 7)), "view");
/// let mut passed = vec![];
/// assert_eq!(bin.collect([6].as_slice(), usize::MAX, &mut passed), 0);
/// assert_eq!(bin.collect([7].as_slice(), usize::MAX, &mut passed), 1);
/// assert_eq!(passed, ["view"]);
/// ```
///
/// If the bin is dropped, it drops its items without waiting for the points.
pub struct RetireBin<T> {
    /// The shards of the first thread slots, at most [`THREAD_SLOTS`].
    own: Box<[Shard<T>]>,
    /// The shards of all other threads.
    shared: Box<[Shard<T>]>,
    /// Shard at which the next collection starts. It changes with each collection, so that limited collections reach
    /// all shards.
    first: AtomicUsize,
}

/// A part of the bin, on its own cache lines.
#[repr(align(128))]
struct Shard<T> {
    /// A queue for items that wait for all begun frames, and a queue for items with their own sets. The thread with the
    /// shard's thread slot or with the producer adds items; the thread with the collector takes items out.
    queues: [SpscQueue<T>; 2],
    /// `true` if threads must take the producer to add items; `false` if only the thread with the thread slot adds
    /// items.
    is_shared: bool,
    /// The permission to add items to a shared shard.
    producer: TryCell<()>,
    /// The permission to take items out, with the consumer's state.
    collector: CachePadded<TryCell<Collector<T>>>,
    /// Number of items that were given out, wrapping. Written by the thread with the collector.
    given_out: AtomicUsize,
    /// Number of the next calls of [`RetireBin::release_unspared`] that skip the shard, because the thread that owns
    /// the shard releases the shard's items itself.
    skips_left: AtomicUsize,
}

/// Number of calls of [`RetireBin::release_unspared`] that skip a shard after its thread has released its own items.
/// Without skips, 16 such threads release a quarter of the items in the same time, because they contend for each
/// other's items.
const SKIPS: usize = 8;

/// Index of the queue of items that wait for all begun frames.
const ALL_BEGUN: usize = 0;
/// Index of the queue of items with their own sets.
const OWN_POINTS: usize = 1;

// SAFETY: one thread at a time accesses the producer's side of a queue: the thread with the thread slot or with the
// producer. Only the thread with the collector accesses the consumer's side. Items are sent between threads.
unsafe impl<T: Send> Sync for Shard<T> {}

// SAFETY: a shard that is sent to another thread has no other user, and its items are `Send`.
unsafe impl<T: Send> Send for Shard<T> {}

/// The consumer's side of a shard.
struct Collector<T> {
    heads: [Head<T>; 2],
    /// Incomplete batches that were taken out of the queues.
    waiting: RetireQueue<QueueBatch<T>>,
    /// Complete batches. Some of their items may already have been given out.
    passed: VecDeque<QueueBatch<T>>,
}

/// A batch of items that was taken out of a queue, with the index of the queue. It is not empty while it is in the
/// collector.
struct QueueBatch<T> {
    queue: usize,
    batch: Batch<T>,
}

impl<T> RetireBin<T> {
    /// Creates an empty bin with an own shard (part of the bin) for each of 2 × *n* threads, clamped to 8..=64. *n* is
    /// the number of threads that the machine runs at the same time.
    #[must_use]
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self::with_shards((threads * 2).max(8))
    }

    /// Creates an empty bin with an own shard (part of the bin) for each of `count` threads, clamped to 1..=64. All
    /// other threads share a few shards.
    #[must_use]
    pub fn with_shards(count: usize) -> Self {
        let count = count.clamp(1, THREAD_SLOTS);
        let shards = |count, is_shared| (0..count).map(|_| Shard::new(is_shared)).collect();
        Self { own: shards(count, false), shared: shards(count.div_ceil(8), true), first: AtomicUsize::new(0) }
    }

    /// Adds an item that is released once `points` have passed. O(points).
    #[inline]
    pub fn retire(&self, points: &SyncSet, item: T) {
        if let Err(item) = self.try_retire(points, item) {
            self.retire_slow(points, item);
        }
    }

    /// Adds an item that is released once all points of a set have passed. `tag` writes the set that belongs to `turn`,
    /// a number that must change whenever the set may change. `tag` is called only if the last item of this thread's
    /// queue has another turn, or if the queue needs a new chunk of memory.
    #[inline]
    pub fn retire_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), item: T) {
        if let Err(item) = self.try_retire_in_turn(turn, item) {
            self.retire_tagged_slow(turn, tag, item);
        }
    }

    /// Does the same as [`RetireBin::retire_tagged`] in the common case, in which only the item must be written. O(1).
    ///
    /// # Errors
    /// The item, in one of these cases (call [`RetireBin::retire_tagged`] or [`RetireBin::put_tagged`] then):
    ///
    /// - The thread has no own shard (part of the bin), or has not called `thread_number` before.
    /// - The open chunk of its queue has another turn or is full, or the `step` of [`RetireBin::put_tagged`] is
    ///   reached.
    #[inline]
    pub fn try_retire_in_turn(&self, turn: u64, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(ALL_BEGUN)
            // SAFETY: no other thread has this thread's thread slot.
            && let Some(slot) = unsafe { queue.slot_in_turn(turn) }
        {
            // SAFETY: no other thread has this thread's thread slot, and nothing was added since the slot was returned.
            unsafe { queue.fill(slot, item) };
            Ok(())
        } else {
            Err(item)
        }
    }

    /// Does the same as [`RetireBin::retire`] in the common case, in which only the item must be written. O(points).
    ///
    /// # Errors
    /// The item, in one of these cases (call [`RetireBin::retire`] or [`RetireBin::put_points`] then):
    ///
    /// - The thread has no own shard (part of the bin), or has not called `thread_number` before.
    /// - The open chunk of its queue has other points or is full, or the `step` of [`RetireBin::put_points`] is
    ///   reached.
    #[inline]
    pub fn try_retire(&self, points: &SyncSet, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(OWN_POINTS)
            // SAFETY: no other thread has this thread's thread slot.
            && let Some(slot) = unsafe { queue.slot_for(points) }
        {
            // SAFETY: no other thread has this thread's thread slot, and nothing was added since the slot was returned.
            unsafe { queue.fill(slot, item) };
            Ok(())
        } else {
            Err(item)
        }
    }

    #[cold]
    #[inline(never)]
    fn retire_slow(&self, points: &SyncSet, item: T) {
        self.put_points(points, usize::MAX, item);
    }

    #[cold]
    #[inline(never)]
    fn retire_tagged_slow(&self, turn: u64, tag: impl Fn(&mut SyncSet), item: T) {
        self.put_tagged(turn, tag, usize::MAX, item);
    }

    /// Does the same as [`RetireBin::retire`]. Also limits the following calls of [`RetireBin::try_retire`] by this
    /// thread: after at most `step` successful calls, a call fails, so that the caller can do other work at intervals.
    pub fn put_points(&self, points: &SyncSet, step: usize, item: T) {
        self.put(OWN_POINTS, Key::Points(points), &|set| set.clone_from(points), step, &mut core::iter::once(item));
    }

    /// Does the same as [`RetireBin::retire_tagged`]. `step` limits the following calls of
    /// [`RetireBin::try_retire_in_turn`], as in [`RetireBin::put_points`].
    pub fn put_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), step: usize, item: T) {
        self.put(ALL_BEGUN, Key::Turn(turn), &tag, step, &mut core::iter::once(item));
    }

    /// Adds all items of `items`, which is empty afterwards, like [`RetireBin::retire_tagged`].
    pub fn retire_all_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), items: &mut Vec<T>) {
        if !items.is_empty() {
            self.put(ALL_BEGUN, Key::Turn(turn), &tag, usize::MAX, &mut items.drain(..));
        }
    }

    /// Adds items to a queue of this thread's own shard, or of a shared shard. `tag` and the allocation of host memory
    /// may run the caller's code. At this time, no producer is taken and each queue is consistent.
    fn put(
        &self,
        queue: usize,
        key: Key<'_>,
        tag: &dyn Fn(&mut SyncSet),
        step: usize,
        items: &mut impl ExactSizeIterator<Item = T>,
    ) {
        let (shard, mut producer) = self.shard_to_fill();
        let queue = &shard.queues[queue];
        // SAFETY: only this thread adds items to the shard, because the shard is its own or it has the producer.
        while let Some(next) = Self::with_producer(producer, || unsafe { queue.fill_from(key, step, items) }) {
            let next = next.prepare(tag);
            // Another thread may add items to the queue meanwhile, but the returned chunk belongs to this thread.
            let again = shard.is_shared.then(|| shard.producer.take());
            // SAFETY: as above, only this thread adds items to the shard. `fill_from` has returned the chunk for this
            // key, and the chunk is ready.
            Self::with_producer(again, || unsafe { queue.open_chunk(next, key) });
            producer = shard.is_shared.then(|| shard.producer.take());
        }
    }

    /// Runs `work`, and then releases the producer, if there is one.
    fn with_producer<R>(producer: Option<Taken<'_, ()>>, work: impl FnOnce() -> R) -> R {
        match producer {
            Some(producer) => producer.with(|()| work()),
            None => work(),
        }
    }

    /// Returns this thread's own shard. If the thread has none, returns the first shared shard whose producer no other
    /// thread has, and the taken producer.
    fn shard_to_fill(&self) -> (&Shard<T>, Option<Taken<'_, ()>>) {
        if let Some(shard) = self.own.get(thread_number()) {
            return (shard, None);
        }
        loop {
            let (before, from) = self.shared.split_at(thread_number() % self.shared.len());
            let open = from.iter().chain(before).find_map(|shard| Some((shard, shard.producer.try_take()?)));
            match open {
                Some((shard, producer)) => return (shard, Some(producer)),
                None => yield_now(),
            }
        }
    }

    /// Returns the shard to which this thread adds items: its own shard, or the first shared shard that it tries.
    fn near(&self) -> &Shard<T> {
        let number = thread_number();
        self.own.get(number).unwrap_or_else(|| &self.shared[number % self.shared.len()])
    }

    /// Returns `true` if this thread has its own shard, a part of the bin. Only then does the `step` of
    /// [`RetireBin::put_tagged`] have an effect.
    pub fn has_own_shard(&self) -> bool {
        thread_number() < self.own.len()
    }

    /// Returns the number of items in the shard (the part of the bin) to which this thread adds items.
    pub fn len_near(&self) -> usize {
        self.near().len()
    }

    /// Releases items of the shard (the part of the bin) to which this thread adds items, like
    /// [`RetireBin::release_passed`]. If another thread is taking items out of this shard, releases no item and returns
    /// 0.
    pub fn release_near(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        let shard = self.near();
        let Some(collector) = shard.collector.0.try_take() else { return 0 };
        shard.give_out(collector, passed, items_max, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Moves at most `items_max` complete items to `into`, and returns their number. If another thread is taking items
    /// out of a shard (a part of the bin), tries the shard once more at the end, and then skips it.
    ///
    /// Each item waits only for its own points. `progress` is called at most once for each timeline. `progress` may use
    /// the bin, because no part of the bin is locked meanwhile.
    pub fn collect(&self, progress: &(impl Progress + ?Sized), items_max: usize, into: &mut Vec<T>) -> usize {
        self.collect_passed(&self.read(progress), items_max, into)
    }

    /// Does the same as [`RetireBin::collect`], with progress that runs none of the program's code.
    pub fn collect_passed(&self, passed: &impl Reading, items_max: usize, into: &mut Vec<T>) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.collect(most, into))
    }

    /// Calls `each` with at most `items_max` complete items, one by one, and returns their number. Unlike
    /// [`RetireBin::collect`], does not move the items to a vector first. `each` may use the bin, because no part of
    /// the bin is locked meanwhile. An item that `each` retires may be released by the same call, if the item is
    /// complete and its shard (its part of the bin) is visited later.
    ///
    /// If `each` panics, the item that it received is lost. All other items remain in the bin.
    pub fn release(&self, progress: &(impl Progress + ?Sized), items_max: usize, each: impl FnMut(T)) -> usize {
        self.release_passed(&self.read(progress), items_max, each)
    }

    /// Does the same as [`RetireBin::release`], with progress that runs none of the program's code.
    pub fn release_passed(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Does the same as [`RetireBin::release_near`]. If this thread has its own shard (part of the bin), the next 8
    /// calls of [`RetireBin::release_unspared`] by other threads skip the shard. Meant for threads that release their
    /// own items repeatedly.
    pub fn release_own(&self, passed: &impl Reading, items_max: usize, each: impl FnMut(T)) -> usize {
        if let Some(shard) = self.own.get(thread_number()) {
            shard.skips_left.store(SKIPS, Ordering::Relaxed);
        }
        self.release_near(passed, items_max, each)
    }

    /// Does the same as [`RetireBin::release_passed`], but skips a shard of another thread 8 times after that
    /// thread has called [`RetireBin::release_own`]. So threads that release their own items do not contend for each
    /// other's items.
    pub fn release_unspared(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        let own = thread_number();
        let is_skipped = |index: usize, shard: &Shard<T>| {
            let left = shard.skips_left.load(Ordering::Relaxed);
            let is_skipped = left > 0 && index != own;
            if is_skipped {
                shard.skips_left.store(left - 1, Ordering::Relaxed);
            }
            is_skipped
        };
        self.give_out(passed, items_max, is_skipped, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Calls `each` with every item, even if its points have not passed, and returns the number of items. Call it if
    /// the device is idle, lost or destroyed. If another thread is taking items out of a shard (a part of the bin),
    /// skips the shard.
    pub fn release_all(&self, each: impl FnMut(T)) -> usize {
        self.release_passed(&AllPassed, usize::MAX, each)
    }

    /// Reads the progress of each timeline that an item waits for. `progress` is called while no collector is taken.
    fn read(&self, progress: &(impl Progress + ?Sized)) -> ReadProgress {
        let mut known = ReadProgress::default();
        for shard in self.shards().filter(|shard| shard.len() > 0) {
            // If another thread has the collector, it gives out the items, so this thread need not read their
            // timelines.
            if let Some(collector) = shard.collector.0.try_take() {
                collector.with(|collector| collector.timelines(&shard.queues, &mut known));
            }
        }
        known.read(progress);
        known
    }

    /// Moves every item to `into`, even if its points have not passed. Waits for other threads that are taking items
    /// out. Call it if the device is idle, lost or destroyed.
    pub fn collect_all(&self, into: &mut Vec<T>) {
        for shard in self.shards() {
            shard
                .give_out(shard.collector.0.take(), &AllPassed, usize::MAX, &mut |lent, most| lent.collect(most, into));
        }
    }

    /// Gives out at most `items_max` complete items, shard by shard, and returns their number. Skips shards for which
    /// `is_skipped` returns `true`.
    fn give_out(
        &self,
        progress: &impl Reading,
        items_max: usize,
        is_skipped: impl Fn(usize, &Shard<T>) -> bool,
        give: &mut impl FnMut(&mut LentBatch<'_, T>, usize) -> usize,
    ) -> usize {
        let count = self.own.len() + self.shared.len();
        // The update need not be atomic: two collections may start at the same shard.
        let first = self.first.load(Ordering::Relaxed) % count;
        self.first.store(first + 1, Ordering::Relaxed);
        // One bit per shard: there are at most 64 + 8.
        let (mut released, mut taken) = (0, 0_u128);
        for index in (first..count).chain(0..first) {
            let shard = self.shard(index);
            if released == items_max || shard.len() == 0 || is_skipped(index, shard) {
                continue;
            }
            match shard.collector.0.try_take() {
                Some(collector) => released += shard.give_out(collector, progress, items_max - released, give),
                None => taken |= 1 << index,
            }
        }
        for index in (0..count).filter(|index| taken & (1 << index) != 0) {
            let shard = self.shard(index);
            if released < items_max
                && let Some(collector) = shard.collector.0.try_take()
            {
                released += shard.give_out(collector, progress, items_max - released, give);
            }
        }
        released
    }

    /// Returns the number of items. If other threads use the bin meanwhile, the number may be outdated.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards().map(Shard::len).sum()
    }

    /// Returns `true` if the bin has no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks all rules of the structure, for tests. Other threads may add items meanwhile.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        (0..).zip(self.shards()).try_for_each(|(at, shard)| shard.validate(at))
    }

    fn shards(&self) -> impl Iterator<Item = &Shard<T>> {
        self.own.iter().chain(&self.shared)
    }

    fn shard(&self, index: usize) -> &Shard<T> {
        self.own.get(index).unwrap_or_else(|| &self.shared[index - self.own.len()])
    }

    /// Returns a queue of this thread's own shard. Returns `None` if the thread has no own shard, or has not called
    /// [`thread_number`] before.
    #[inline]
    fn own_queue(&self, queue: usize) -> Option<&SpscQueue<T>> {
        // There are at most as many own shards as thread slots, so no other living thread has the number of an own
        // shard.
        self.own.get(cached_number()).map(|shard| &shard.queues[queue])
    }
}

impl<T> Drop for RetireBin<T> {
    /// Drops all items. If the drop of an item panics, continues with the other items, and resumes the first panic
    /// afterwards.
    fn drop(&mut self) {
        let mut first = None;
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.release_all(drop))) {
                Ok(0) => break,
                Ok(_) => {}
                Err(panic) => first = first.or(Some(panic)),
            }
        }
        if let Some(panic) = first.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

impl<T> Shard<T> {
    fn new(is_shared: bool) -> Self {
        let heads = [Head::new(), Head::new()];
        let collector = Collector { heads, waiting: RetireQueue::new(), passed: VecDeque::new() };
        Self {
            queues: [SpscQueue::new(), SpscQueue::new()],
            is_shared,
            producer: TryCell::new(()),
            collector: CachePadded(TryCell::new(collector)),
            given_out: AtomicUsize::new(0),
            skips_left: AtomicUsize::new(0),
        }
    }

    /// Returns the number of items that were added and not given out.
    fn len(&self) -> usize {
        // `given_out` is read first: each item that it counts was added before.
        let given_out = self.given_out.load(Ordering::Acquire);
        self.queues.iter().map(SpscQueue::pushed).fold(0, usize::wrapping_add).wrapping_sub(given_out)
    }

    /// Gives out at most `items_max` complete items, one batch at a time, and returns their number. `give` takes at
    /// most the given number of items out of a batch, and returns their number. The collector is not taken while `give`
    /// runs.
    fn give_out(
        &self,
        collector: Taken<'_, Collector<T>>,
        progress: &impl Reading,
        items_max: usize,
        give: &mut impl FnMut(&mut LentBatch<'_, T>, usize) -> usize,
    ) -> usize {
        let mut next = collector.with(|collector| {
            collector.sort_out(&self.queues, progress);
            collector.passed.pop_front()
        });
        let mut released = 0;
        while let Some(queue_batch) = next {
            let mut lent = LentBatch { shard: self, len: queue_batch.batch.len(), queue_batch: Some(queue_batch) };
            released += give(&mut lent, items_max - released);
            // The next batch was sorted out above, so it has no items that were added meanwhile.
            next = lent.return_batch(released < items_max);
        }
        released
    }

    fn validate(&self, at: u64) -> Result<(), Invalid> {
        self.collector.0.take().with(|collector| {
            collector.waiting.validate()?;
            let queue_batches = || collector.waiting.iter().flat_map(|batch| batch.items()).chain(&collector.passed);
            Invalid::unless(
                queue_batches().all(|queue_batch| queue_batch.batch.len() > 0),
                "no waiting batch is empty",
                at,
            )?;
            let mut waits = queue_batches().map(|queue_batch| queue_batch.batch.len()).sum::<usize>();
            let mut added = 0_usize;
            for (queue, head) in self.queues.iter().zip(&collector.heads) {
                // Read once, because another thread may add items at any time.
                let pushed = queue.pushed();
                let left = pushed.wrapping_sub(head.taken());
                Invalid::unless(left.cast_signed() >= 0, "only added items are taken out of a queue", at)?;
                waits += left;
                added = added.wrapping_add(pushed);
            }
            let given_out = self.given_out.load(Ordering::Relaxed);
            Invalid::unless(added.wrapping_sub(given_out) == waits, "the items that were not given out are waiting", at)
        })
    }
}

/// A batch that is taken out of its shard while its items are given out. When this value is dropped, also by a panic,
/// the remaining items return to the shard.
struct LentBatch<'a, T> {
    shard: &'a Shard<T>,
    /// The batch; `None` once it was returned.
    queue_batch: Option<QueueBatch<T>>,
    /// Number of items that the batch had at first. The shard counts all of them until the batch is returned.
    len: usize,
}

impl<T> LentBatch<'_, T> {
    fn release(&mut self, most: usize, each: &mut impl FnMut(T)) -> usize {
        // SAFETY: the shard is borrowed, and with it the queue.
        self.queue_batch.as_mut().map_or(0, |queue_batch| unsafe { queue_batch.batch.give(most, each) })
    }

    fn collect(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        // SAFETY: the shard is borrowed, and with it the queue.
        self.queue_batch.as_mut().map_or(0, |queue_batch| unsafe { queue_batch.batch.collect(most, into) })
    }

    /// Returns the remaining items to the shard. If `next` is `true`, takes the next batch out and returns it. Returns
    /// `None` if there is no next batch.
    fn return_batch(&mut self, next: bool) -> Option<QueueBatch<T>> {
        let queue_batch = self.queue_batch.take()?;
        let Self { shard, len, .. } = *self;
        shard.collector.0.take().with(|collector| {
            let given = len - queue_batch.batch.len();
            shard.given_out.store(shard.given_out.load(Ordering::Relaxed).wrapping_add(given), Ordering::Release);
            if queue_batch.batch.len() > 0 {
                collector.passed.push_front(queue_batch);
            } else {
                // SAFETY: the batch is from this queue, and this thread has the collector.
                unsafe { shard.queues[queue_batch.queue].return_batch(queue_batch.batch) };
            }
            if next { collector.passed.pop_front() } else { None }
        })
    }
}

impl<T> Drop for LentBatch<'_, T> {
    fn drop(&mut self) {
        self.return_batch(false);
    }
}

/// Progress that runs none of the program's code, so that it can be read while a collector is taken.
pub trait Reading: Progress {}

/// Progress with which every point has passed.
struct AllPassed;

impl Reading for AllPassed {}

/// Progress of timelines, read once before a collection. Timelines that were not read count as 0.
#[derive(Default)]
struct ReadProgress {
    /// The first entries, so that a few timelines need no host memory.
    inline: [Option<(TimelineId, u64)>; 8],
    others: Vec<(TimelineId, u64)>,
}

impl ReadProgress {
    fn add(&mut self, timeline: TimelineId) {
        if self.get(timeline).is_some() {
            return;
        }
        match self.inline.iter_mut().find(|known| known.is_none()) {
            Some(free) => *free = Some((timeline, 0)),
            None => self.others.push((timeline, 0)),
        }
    }

    fn get(&self, timeline: TimelineId) -> Option<u64> {
        let known = self.inline.iter().flatten().chain(&self.others);
        known.copied().find(|(known, _)| *known == timeline).map(|(_, value)| value)
    }

    fn read(&mut self, progress: &(impl Progress + ?Sized)) {
        let known = self.inline.iter_mut().flatten().chain(&mut self.others);
        known.for_each(|(timeline, value)| *value = progress.completed(*timeline));
    }
}

impl Reading for ReadProgress {}

impl Progress for ReadProgress {
    fn completed(&self, timeline: TimelineId) -> u64 {
        self.get(timeline).unwrap_or(0)
    }
}

impl Progress for AllPassed {
    fn completed(&self, _: TimelineId) -> u64 {
        u64::MAX
    }
}

impl<T> Collector<T> {
    /// Adds to `known` each timeline that an item of this shard waits for.
    fn timelines(&self, queues: &[SpscQueue<T>; 2], known: &mut ReadProgress) {
        self.waiting.oldest_points().for_each(|point| known.add(point.timeline));
        for (queue, head) in queues.iter().zip(&self.heads) {
            // SAFETY: the queue belongs to this shard, and the caller has its collector.
            unsafe { head.sets(queue, |points| points.iter().for_each(|point| known.add(point.timeline))) };
        }
    }

    /// Takes batches out of the queues. Complete batches are moved to `passed`; the others to `waiting`.
    fn sort_out(&mut self, queues: &[SpscQueue<T>; 2], progress: &impl Reading) {
        // The waiting batches come first, because they are older than those in the queues.
        self.waiting.reclaim(progress, |queue_batch| self.passed.push_back(queue_batch));
        for (number, (queue, head)) in queues.iter().zip(&mut self.heads).enumerate() {
            let closed = |passed, points: &SyncSet, batch| {
                let queue_batch = QueueBatch { queue: number, batch };
                if passed {
                    self.passed.push_back(queue_batch);
                } else {
                    self.waiting.retire(points, queue_batch);
                }
            };
            // SAFETY: the queue belongs to this shard, and the caller has its collector.
            let open = unsafe { head.take(queue, progress, closed) };
            self.passed.extend(open.map(|batch| QueueBatch { queue: number, batch }));
        }
    }
}

impl<T> Default for RetireBin<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> core::fmt::Debug for RetireBin<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RetireBin").field("len", &self.len()).field("shards", &self.shards().count()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
