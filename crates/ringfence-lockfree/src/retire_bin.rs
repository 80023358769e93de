//! A bin of retired items that the GPU may still use, for any number of threads.
//!
//! ```text
//!   thread slot 0 ─ retire ─▶ shard 0   queues:  {0: 7, 1: 3} [a b c …      the frame's set, shared by its items
//!                        │               {1: 2} [g …                items with their own sets
//!   thread slot 1 ─ retire ─▶ shard 1 …     taken out:  {0: 6} [d e], {0: 5} [f]    closed chunks, by their sets
//!   no thread slot ─ door ──▶ a shared one
//!                        ▲
//!   collect(passed, max) ┤── each visits the shards, from another one each time: sorts out the chunks that passed,
//!   release(passed, max) ┘   lends them out, takes them back empty ──▶ f, d, e, … one by one
//! ```
//!
//! A thread with a [thread slot](crate::thread_slot) has its own shard. It adds items to the shard's single-producer
//! queues with plain stores: no exchange, no lock, no memory that another thread writes. A thread without a thread
//! slot, or with a thread slot beyond the shards of this bin, takes the door of a shared shard for the few instructions
//! of adding an item. If another thread has that door, it tries the next shard. The thread that takes items out has
//! exclusive access to the collector of a shard.
//!
//! # Why no item is released too early
//!
//! An item's set is read *after* its owner has released it: retiring takes the item by value. The code that recorded
//! work with the item had to begin a frame first (the contract of `Allocator::timeline`), and had to hold a reference
//! while recording. So the start of the frame *happens before* the item's retirement. The set contains the latest value
//! begun on each timeline, so it covers that frame. A queue keeps its set while the *turn* is unchanged. The turn is a
//! number that increases with each frame that begins, before `begin` returns. If the turn that the retiring thread
//! reads equals the turn of the kept set, the set covers every frame whose start happened before. So an outdated set is
//! never used. A set with more points than necessary (because a frame was dropped) only waits longer.
//!
//! The progress is read before the shards are visited, and values only rise: items that are added meanwhile are
//! compared with values that the device had already reached. Only the thread that has the collector takes items out of
//! the queues, so each item is released once.
//!
//! # Order
//!
//! Items of one thread and one frame are released in the order in which they were retired. There is no order between
//! threads or between sets, and none is needed: an item itself owns the objects that must outlive it (its memory).
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1): a few plain loads, the item, a plain store; O(timelines) for a thread's first item of a frame |
//! | … without a thread slot | the same plus an atomic exchange |
//! | … with its own set | O(points of the set) |
//! | collect, release | O(1) for an empty shard; else O(timelines), O(points) a chunk, and each item moved once |
//! | len | O(shards), without taking any shard |
//!
//! In steady state no host memory is allocated: chunks are reused.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::primitive::{Apart, AtomicUsize, Ordering, yield_now};
use crate::spsc_queue::{Batch, Head, Key, SpscQueue};
use crate::thread_slot::{THREAD_SLOTS, cached_number, thread_number};
use crate::try_cell::{Taken, TryCell};
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet, TimelineId};

/// Items that wait for points on timelines. Many threads add items concurrently without waiting for each other.
///
/// The allocator keeps its own retired objects in such a bin. Programs can use another one for their own objects that
/// the GPU may still use, such as views and pipelines.
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
/// Dropping the bin drops the items without waiting.
pub struct RetireBin<T> {
    /// One shard for each thread slot; at most [`THREAD_SLOTS`].
    own: Box<[Shard<T>]>,
    /// Shards for threads without one of these.
    shared: Box<[Shard<T>]>,
    /// Shard at which the next collection starts, so a bounded collection starves no shard.
    first: AtomicUsize,
}

/// A shard on its own cache lines, so threads do not contend for them.
#[repr(align(128))]
struct Shard<T> {
    /// One queue for items that wait for all begun frames, one for items with their own sets. Filled by the thread with
    /// the shard's thread slot or with the door; emptied by the thread with the collector.
    queues: [SpscQueue<T>; 2],
    /// `true` if any thread may add items while it has the door.
    is_shared: bool,
    door: TryCell<()>,
    collector: Apart<TryCell<Collector<T>>>,
    /// Number of items that were given out, wrapping; written by the thread that has the collector.
    gone: AtomicUsize,
    /// Number of times that [`RetireBin::release_unspared`] still skips the shard, because its own thread releases its
    /// items.
    spared: AtomicUsize,
}

/// Number of times that [`RetireBin::release_unspared`] skips a shard whose thread releases its own items. Without
/// this, 16 such threads do a quarter of the work, because they contend for each other's items.
const SPARED: usize = 8;

/// Index of the queue of items that wait for all begun frames.
const BEGUN: usize = 0;
/// Index of the queue of items with their own sets.
const PRECISE: usize = 1;

// SAFETY: one thread at a time accesses the producer's side: the thread with the thread slot, or with the door. The
// thread with the collector accesses the rest of a queue. Items are sent between threads.
unsafe impl<T: Send> Sync for Shard<T> {}

// SAFETY: a shard that is sent has no other user, and its items are `Send`.
unsafe impl<T: Send> Send for Shard<T> {}

/// The consumer's side of a shard.
struct Collector<T> {
    heads: [Head<T>; 2],
    /// Batches that were taken out of the queues and still wait.
    waiting: RetireQueue<Lot<T>>,
    /// Batches that have passed and were not released yet.
    passed: VecDeque<Lot<T>>,
}

/// Items out of a queue. Not empty while it waits.
struct Lot<T> {
    queue: usize,
    batch: Batch<T>,
}

impl<T> RetireBin<T> {
    /// Creates an empty bin with shards for twice as many threads as the machine has, between 8 and 64.
    #[must_use]
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self::with_shards((threads * 2).max(8))
    }

    /// Creates an empty bin with own shards for `count` threads, clamped to 1..=64. All other threads share a few
    /// shards.
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
            self.retire_the_long_way(points, item);
        }
    }

    /// Adds an item that waits for the points that `tag` writes. `tag` is called only if `turn` differs from the
    /// shard's turn.
    #[inline]
    pub fn retire_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), item: T) {
        if let Err(item) = self.try_retire_in_turn(turn, item) {
            self.retire_tagged_the_long_way(turn, tag, item);
        }
    }

    /// Like [`RetireBin::retire_tagged`], if adding is only a write of the item. O(1).
    ///
    /// # Errors
    /// The item, unchanged, if the thread has no own queue here, or if the open chunk of its queue has another `turn`
    /// or is full.
    #[inline]
    pub fn try_retire_in_turn(&self, turn: u64, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(BEGUN)
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

    /// Like [`RetireBin::try_retire_in_turn`], with points. O(points).
    ///
    /// # Errors
    /// The item, unchanged, if the thread has no own queue here, or if the open chunk of its queue waits for other
    /// points or is full.
    #[inline]
    pub fn try_retire(&self, points: &SyncSet, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(PRECISE)
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
    fn retire_the_long_way(&self, points: &SyncSet, item: T) {
        self.put_points(points, usize::MAX, item);
    }

    #[cold]
    #[inline(never)]
    fn retire_tagged_the_long_way(&self, turn: u64, tag: impl Fn(&mut SyncSet), item: T) {
        self.put_tagged(turn, tag, usize::MAX, item);
    }

    /// Like [`RetireBin::retire`]. After at most `step` further items of this thread, [`RetireBin::try_retire`] refuses
    /// one.
    pub fn put_points(&self, points: &SyncSet, step: usize, item: T) {
        self.put(PRECISE, Key::Points(points), &|set| set.clone_from(points), step, &mut core::iter::once(item));
    }

    /// Like [`RetireBin::retire_tagged`], with the `step` of [`RetireBin::put_points`].
    pub fn put_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), step: usize, item: T) {
        self.put(BEGUN, Key::Turn(turn), &tag, step, &mut core::iter::once(item));
    }

    /// Adds items that wait for the points of `tag`, like [`RetireBin::retire_tagged`], and leaves `items` empty.
    pub fn retire_all_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), items: &mut Vec<T>) {
        if !items.is_empty() {
            self.put(BEGUN, Key::Turn(turn), &tag, usize::MAX, &mut items.drain(..));
        }
    }

    /// Adds items to a queue of this thread's shard, or of a free shared shard. Making sets and host memory may run the
    /// caller's code: it runs while no door is taken and each queue is consistent.
    fn put(
        &self,
        queue: usize,
        key: Key<'_>,
        tag: &dyn Fn(&mut SyncSet),
        step: usize,
        items: &mut impl ExactSizeIterator<Item = T>,
    ) {
        let (shard, mut door) = self.shard_to_fill();
        let queue = &shard.queues[queue];
        // SAFETY: only this thread fills the shard: the shard is its own, or it has the door.
        while let Some(next) = Self::behind(door, || unsafe { queue.fill_from(key, step, items) }) {
            let next = next.ready(tag);
            // Another thread may fill the queue meanwhile; the returned chunk belongs to this thread.
            let again = shard.is_shared.then(|| shard.door.take());
            // SAFETY: again only this thread fills the shard; `fill_from` returned the chunk for this key, and it is
            // ready.
            Self::behind(again, || unsafe { queue.go_on(next, key) });
            door = shard.is_shared.then(|| shard.door.take());
        }
    }

    /// Runs `work`, then releases the door if the caller has taken one.
    fn behind<R>(door: Option<Taken<'_, ()>>, work: impl FnOnce() -> R) -> R {
        match door {
            Some(door) => door.with(|()| work()),
            None => work(),
        }
    }

    /// Returns this thread's own shard, or the first free shared shard with its door.
    fn shard_to_fill(&self) -> (&Shard<T>, Option<Taken<'_, ()>>) {
        if let Some(shard) = self.own.get(thread_number()) {
            return (shard, None);
        }
        loop {
            let (before, from) = self.shared.split_at(thread_number() % self.shared.len());
            let open = from.iter().chain(before).find_map(|shard| Some((shard, shard.door.try_take()?)));
            match open {
                Some((shard, door)) => return (shard, Some(door)),
                None => yield_now(),
            }
        }
    }

    /// Returns the shard to which this thread adds items, if it is free.
    fn near(&self) -> &Shard<T> {
        let number = thread_number();
        self.own.get(number).unwrap_or_else(|| &self.shared[number % self.shared.len()])
    }

    /// Returns `true` if this thread has its own shard, so that the `step` of [`RetireBin::put_tagged`] has an effect.
    pub fn has_own_shard(&self) -> bool {
        thread_number() < self.own.len()
    }

    /// Number of items in the shard to which this thread adds items.
    pub fn len_near(&self) -> usize {
        self.near().len()
    }

    /// Like [`RetireBin::release`], for the shard to which this thread adds items. Releases no item if another thread
    /// is collecting from that shard.
    pub fn release_near(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        let shard = self.near();
        let Some(collector) = shard.collector.0.try_take() else { return 0 };
        shard.give_out(collector, passed, items_max, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Moves items that have passed to `into`, at most `items_max`, and returns their number. If another thread is
    /// collecting from a shard, the shard is tried once more at the end, and then skipped.
    ///
    /// Each item waits for its own points only. `progress` is called once for each timeline that an item waits for,
    /// while nothing of the bin is taken: it may use the bin.
    pub fn collect(&self, progress: &(impl Progress + ?Sized), items_max: usize, into: &mut Vec<T>) -> usize {
        self.collect_passed(&self.read(progress), items_max, into)
    }

    /// Like [`RetireBin::collect`], with progress that runs none of the program's code.
    pub fn collect_passed(&self, passed: &impl Reading, items_max: usize, into: &mut Vec<T>) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.collect(most, into))
    }

    /// Passes items that have passed to `each`, one by one, at most `items_max`, and returns their number. Like
    /// [`RetireBin::collect`], but without moving the items to a vector first. No shard is taken while `each` runs.
    /// `each` may retire more items; those wait for the next call.
    ///
    /// If `each` panics, the item that it received is lost; all others are still in the bin.
    pub fn release(&self, progress: &(impl Progress + ?Sized), items_max: usize, each: impl FnMut(T)) -> usize {
        self.release_passed(&self.read(progress), items_max, each)
    }

    /// Like [`RetireBin::release`], with progress that runs none of the program's code.
    pub fn release_passed(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Like [`RetireBin::release_near`], for a thread that calls it repeatedly: [`RetireBin::release_unspared`] then
    /// skips this thread's shard for a while.
    pub fn release_own(&self, passed: &impl Reading, items_max: usize, each: impl FnMut(T)) -> usize {
        if let Some(shard) = self.own.get(thread_number()) {
            shard.spared.store(SPARED, Ordering::Relaxed);
        }
        self.release_near(passed, items_max, each)
    }

    /// Like [`RetireBin::release_passed`], but skips shards of other threads that call [`RetireBin::release_own`], a
    /// few times after each such call. Otherwise threads would contend for each other's items.
    pub fn release_unspared(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        let own = thread_number();
        let is_spared = |index: usize, shard: &Shard<T>| {
            let left = shard.spared.load(Ordering::Relaxed);
            let is_spared = left > 0 && index != own;
            if is_spared {
                shard.spared.store(left - 1, Ordering::Relaxed);
            }
            is_spared
        };
        self.give_out(passed, items_max, is_spared, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Like [`RetireBin::release`] for every item, passed or not. For a device that is idle, lost or destroyed.
    pub fn release_all(&self, each: impl FnMut(T)) -> usize {
        self.release_passed(&Everything, usize::MAX, each)
    }

    /// Reads the progress of each timeline that an item waits for, while nothing is taken.
    fn read(&self, progress: &(impl Progress + ?Sized)) -> Known {
        let mut known = Known::default();
        for shard in self.shards().filter(|shard| shard.len() > 0) {
            // If another thread has the collector, that thread gives out the items.
            if let Some(collector) = shard.collector.0.try_take() {
                collector.with(|collector| collector.timelines(&shard.queues, &mut known));
            }
        }
        known.ask(progress);
        known
    }

    /// Moves every item to `into`, passed or not, and waits for threads that are collecting. For a device that is idle,
    /// lost or destroyed.
    pub fn collect_all(&self, into: &mut Vec<T>) {
        for shard in self.shards() {
            shard.give_out(shard.collector.0.take(), &Everything, usize::MAX, &mut |lent, most| {
                lent.collect(most, into)
            });
        }
    }

    /// Gives out items that have passed, shard by shard, and returns their number.
    fn give_out(
        &self,
        progress: &impl Reading,
        items_max: usize,
        is_spared: impl Fn(usize, &Shard<T>) -> bool,
        give: &mut impl FnMut(&mut Lent<'_, T>, usize) -> usize,
    ) -> usize {
        let count = self.own.len() + self.shared.len();
        // Need not be exact: concurrent collectors may start at the same shard.
        let first = self.first.load(Ordering::Relaxed) % count;
        self.first.store(first + 1, Ordering::Relaxed);
        // One bit per shard: there are at most 64 + 8.
        let (mut released, mut taken) = (0, 0_u128);
        for index in (first..count).chain(0..first) {
            let shard = self.shard(index);
            if released == items_max || shard.len() == 0 || is_spared(index, shard) {
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

    /// Number of items. While other threads retire and collect, it is a recent value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards().map(Shard::len).sum()
    }

    /// Returns `true` if no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks all rules of the structure; other threads may add items meanwhile. For tests.
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

    /// Returns the queue that only this thread fills, if it has one and has called [`thread_number`] before.
    #[inline]
    fn own_queue(&self, queue: usize) -> Option<&SpscQueue<T>> {
        // There are at most as many own shards as thread slots, so no other living thread has this number.
        self.own.get(cached_number()).map(|shard| &shard.queues[queue])
    }
}

impl<T> Drop for RetireBin<T> {
    /// Continues with the other items if dropping an item panics, and resumes the first panic afterwards.
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
            door: TryCell::new(()),
            collector: Apart(TryCell::new(collector)),
            gone: AtomicUsize::new(0),
            spared: AtomicUsize::new(0),
        }
    }

    /// Number of items that were added and not given out.
    fn len(&self) -> usize {
        // Read first: each item that is gone by now was added before.
        let gone = self.gone.load(Ordering::Acquire);
        self.queues.iter().map(SpscQueue::pushed).fold(0, usize::wrapping_add).wrapping_sub(gone)
    }

    /// Gives out items that have passed, one batch at a time, and returns their number. The collector is not taken
    /// while `give` runs. `give` takes at most the given number of items out of the lent batch.
    fn give_out(
        &self,
        collector: Taken<'_, Collector<T>>,
        progress: &impl Reading,
        items_max: usize,
        give: &mut impl FnMut(&mut Lent<'_, T>, usize) -> usize,
    ) -> usize {
        let mut next = collector.with(|collector| {
            collector.sort_out(&self.queues, progress);
            collector.passed.pop_front()
        });
        let mut released = 0;
        while let Some(lot) = next {
            let mut lent = Lent { shard: self, len: lot.batch.len(), lot: Some(lot) };
            released += give(&mut lent, items_max - released);
            // Items that were added meanwhile are not among the next.
            next = lent.give_back(released < items_max);
        }
        released
    }

    fn validate(&self, at: u64) -> Result<(), Invalid> {
        self.collector.0.take().with(|collector| {
            collector.waiting.validate()?;
            let lots = || collector.waiting.iter().flat_map(|batch| batch.items()).chain(&collector.passed);
            Invalid::unless(lots().all(|lot| lot.batch.len() > 0), "no waiting batch is empty", at)?;
            let mut waits = lots().map(|lot| lot.batch.len()).sum::<usize>();
            let mut put_in = 0_usize;
            for (queue, head) in self.queues.iter().zip(&collector.heads) {
                // Read once: its thread may add more at any time.
                let pushed = queue.pushed();
                let left = pushed.wrapping_sub(head.taken());
                Invalid::unless(left.cast_signed() >= 0, "only added items are taken out of a queue", at)?;
                waits += left;
                put_in = put_in.wrapping_add(pushed);
            }
            let gone = self.gone.load(Ordering::Relaxed);
            Invalid::unless(put_in.wrapping_sub(gone) == waits, "the items that were not given out are waiting", at)
        })
    }
}

/// A batch that is lent out of its shard. The remaining items are returned when it is dropped, also during a panic.
struct Lent<'a, T> {
    shard: &'a Shard<T>,
    /// `None` once it was returned.
    lot: Option<Lot<T>>,
    /// Initial number of its items. The shard counts all of them until the batch is returned.
    len: usize,
}

impl<T> Lent<'_, T> {
    fn release(&mut self, most: usize, each: &mut impl FnMut(T)) -> usize {
        // SAFETY: the shard is borrowed, and with it the queue.
        self.lot.as_mut().map_or(0, |lot| unsafe { lot.batch.give(most, each) })
    }

    fn collect(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        // SAFETY: the shard is borrowed, and with it the queue.
        self.lot.as_mut().map_or(0, |lot| unsafe { lot.batch.collect(most, into) })
    }

    /// Returns the remaining items to the shard. Returns the next batch, if `next` is set and there is one.
    fn give_back(&mut self, next: bool) -> Option<Lot<T>> {
        let lot = self.lot.take()?;
        let Self { shard, len, .. } = *self;
        shard.collector.0.take().with(|collector| {
            let given = len - lot.batch.len();
            shard.gone.store(shard.gone.load(Ordering::Relaxed).wrapping_add(given), Ordering::Release);
            if lot.batch.len() > 0 {
                collector.passed.push_front(lot);
            } else {
                // SAFETY: the batch is from this queue, and this thread has the collector.
                unsafe { shard.queues[lot.queue].give_back(lot.batch) };
            }
            if next { collector.passed.pop_front() } else { None }
        })
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        self.give_back(false);
    }
}

/// Progress that runs none of the caller's code, so that it can be read while a shard is taken.
pub trait Reading: Progress {}

/// Progress for which every point has passed.
struct Everything;

impl Reading for Everything {}

/// Values that timelines had reached when they were read. All other timelines have reached 0.
#[derive(Default)]
struct Known {
    /// The first entries, so a few timelines need no host memory.
    inline: [Option<(TimelineId, u64)>; 8],
    others: Vec<(TimelineId, u64)>,
}

impl Known {
    fn note(&mut self, timeline: TimelineId) {
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

    fn ask(&mut self, progress: &(impl Progress + ?Sized)) {
        let known = self.inline.iter_mut().flatten().chain(&mut self.others);
        known.for_each(|(timeline, value)| *value = progress.completed(*timeline));
    }
}

impl Reading for Known {}

impl Progress for Known {
    fn completed(&self, timeline: TimelineId) -> u64 {
        self.get(timeline).unwrap_or(0)
    }
}

impl Progress for Everything {
    fn completed(&self, _: TimelineId) -> u64 {
        u64::MAX
    }
}

impl<T> Collector<T> {
    /// Records the timelines that an item of this shard waits for.
    fn timelines(&self, queues: &[SpscQueue<T>; 2], known: &mut Known) {
        self.waiting.oldest_points().for_each(|point| known.note(point.timeline));
        for (queue, head) in queues.iter().zip(&self.heads) {
            // SAFETY: the queue belongs to this shard, and the caller has its collector.
            unsafe { head.sets(queue, |points| points.iter().for_each(|point| known.note(point.timeline))) };
        }
    }

    /// Takes batches out of the queues, and moves those that have passed to `passed`.
    fn sort_out(&mut self, queues: &[SpscQueue<T>; 2], progress: &impl Reading) {
        // First, because batches that were taken out before are older than those in the queues.
        self.waiting.reclaim(progress, |lot| self.passed.push_back(lot));
        for (number, (queue, head)) in queues.iter().zip(&mut self.heads).enumerate() {
            let closed = |passed, points: &SyncSet, batch| {
                let lot = Lot { queue: number, batch };
                if passed {
                    self.passed.push_back(lot);
                } else {
                    self.waiting.retire(points, lot);
                }
            };
            // SAFETY: the queue belongs to this shard, and the caller has its collector.
            let open = unsafe { head.take(queue, progress, closed) };
            self.passed.extend(open.map(|batch| Lot { queue: number, batch }));
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
