//! A bin of retired items that may still be in use, for any number of threads at once.
//!
//! ```text
//!   thread slot 0 ─ retire ─▶ shard 0   queues:  {0: 7, 1: 3} [a b c …      the frame's set, the same for all
//!                        │               {1: 2} [g …                items with sets of their own
//!   thread slot 1 ─ retire ─▶ shard 1 …     taken out:  {0: 6} [d e], {0: 5} [f]    chunks that are closed, by their sets
//!   no thread slot ─ door ──▶ a shared one
//!                        ▲
//!   collect(passed, max) ┤── each shard in turn, from another one each time: its chunks are sorted by what has passed,
//!   release(passed, max) ┘   lent out, and given back empty ──▶ f, d, e, … one by one
//! ```
//!
//! A thread with a [thread slot](crate::thread_slot) has a shard to itself, and puts items into its single-producer
//! queues with plain stores: no exchange, no lock, nothing that another thread writes. A thread without a thread slot,
//! or with a thread slot beyond the shards of this bin, takes the door of a shared shard for the few instructions that
//! it takes to put an item down; if another thread has it, it goes to the next one. The thread that takes out has the
//! collector's side of a shard to itself.
//!
//! # Why nothing is given out too early
//!
//! An item's set is read *after* its owner has released it: retiring takes the item by value. The code that recorded
//! work that uses the item had to begin a frame before (the contract of `Allocator::timeline`) and to hold a reference
//! while recording, so that the frame's beginning *happens before* the item's retirement. The set holds the latest
//! value begun on each timeline, so it covers that frame. A queue keeps the set for as long as the *turn* stands, a
//! number that rises with each frame that begins, before `begin` returns: if the turn that the retiring thread reads is
//! the one of the kept set, every frame whose beginning happened before is in the set. A set that is too old is
//! therefore never used; one that holds more than is needed (a frame was dropped meanwhile) only waits longer.
//!
//! The progress is read before the shards are looked at, and values only rise: an item that is put down meanwhile is
//! compared with values that the device had reached already. Each item is taken out of its queue by the thread that has
//! the shard, and so is given out once.
//!
//! # Order
//!
//! Items of one thread and one frame come out in the order in which they went in. Between threads and between sets
//! there is no order, and none is needed: what must outlive an item (its memory) is held by the item itself.
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1): a few plain loads, the item, a plain store; O(timelines) for the first of a thread after a frame began |
//! | … without a thread slot | the same and an atomic exchange |
//! | … with a set of its own | O(points of the set) |
//! | collect, release | O(1) a shard that is empty; else O(timelines), O(points) a chunk, and each item moved once |
//! | len | O(shards), takes none of them |
//!
//! In steady state nothing is allocated on the host: chunks keep their memory.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::primitive::{Apart, AtomicUsize, Ordering, yield_now};
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use crate::spsc_queue::{Batch, Head, Key, SpscQueue};
use ringfence_core::sync::{Progress, SyncSet, TimelineId};
use crate::thread_slot::{THREAD_SLOTS, cached_number, thread_number};
use crate::try_cell::{Taken, TryCell};

/// Items that wait for points on timelines, put in by many threads at once, none of which waits for another.
///
/// The allocator keeps what it made in one of these. Programs can keep their own objects in another one: views,
/// pipelines, whatever the GPU may still use.
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
/// Dropping it drops the items without waiting.
pub struct RetireBin<T> {
    /// Each of the thread that has the thread slot of this number; at most [`THREAD_SLOTS`].
    own: Box<[Shard<T>]>,
    /// Of the threads without one of these.
    shared: Box<[Shard<T>]>,
    /// Where the next collection begins, so that a bounded one starves no shard.
    first: AtomicUsize,
}

/// A shard on cache lines of its own: threads do not take them from one another.
#[repr(align(128))]
struct Shard<T> {
    /// Of items that wait for all that has begun, and of items with sets of their own. Put into by the thread with the
    /// shard's thread slot, or by the thread that has the door; taken out of by the thread that has the collector.
    queues: [SpscQueue<T>; 2],
    /// Whether any thread may put items in, one at a time: the one with the door.
    is_shared: bool,
    door: TryCell<()>,
    collector: Apart<TryCell<Collector<T>>>,
    /// Items that were given out, around the end of the number; written by the thread that has the collector.
    gone: AtomicUsize,
    /// How many times [`RetireBin::release_unspared`] skips the shard yet: its thread takes out what it has put in.
    spared: AtomicUsize,
}

/// How many times [`RetireBin::release_unspared`] skips a shard whose thread takes out what it has put in. Without that
/// 16 threads, each of which takes out what it has put in, do a quarter of the work: they take items from one another.
const SPARED: usize = 8;

/// The queue of items that wait for all that has begun.
const BEGUN: usize = 0;
/// The queue of items with sets of their own.
const PRECISE: usize = 1;

// SAFETY: what the thread that puts in reaches is reached by one thread at a time: the one with the thread slot, or the
// one that has the door. The rest of a queue is reached by who has the collector. Items are sent from one thread to
// another.
unsafe impl<T: Send> Sync for Shard<T> {}

// SAFETY: a shard that is sent has no other user, and its items may be sent.
unsafe impl<T: Send> Send for Shard<T> {}

/// The side that takes items out.
struct Collector<T> {
    heads: [Head<T>; 2],
    /// What was taken out of the queues and waits.
    waiting: RetireQueue<Lot<T>>,
    /// What has passed and was not released yet.
    passed: VecDeque<Lot<T>>,
}

/// Items out of a queue. None that waits is empty.
struct Lot<T> {
    queue: usize,
    batch: Batch<T>,
}

impl<T> RetireBin<T> {
    /// An empty bin with shards for twice as many threads as the machine has, from 8 to 64.
    #[must_use]
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self::with_shards((threads * 2).max(8))
    }

    /// An empty bin in which `count` threads, from 1 to 64, have shards of their own. All others share a few.
    #[must_use]
    pub fn with_shards(count: usize) -> Self {
        let count = count.clamp(1, THREAD_SLOTS);
        let shards = |count, is_shared| (0..count).map(|_| Shard::new(is_shared)).collect();
        Self { own: shards(count, false), shared: shards(count.div_ceil(8), true), first: AtomicUsize::new(0) }
    }

    /// Puts an item in, to come out once `points` have passed. O(points).
    #[inline]
    pub fn retire(&self, points: &SyncSet, item: T) {
        if let Err(item) = self.try_retire(points, item) {
            self.retire_the_long_way(points, item);
        }
    }

    /// Puts an item in that waits for the points that `tag` sets; `tag` is called only if `turn` is not the one that
    /// the shard has.
    #[inline]
    pub fn retire_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), item: T) {
        if let Err(item) = self.try_retire_in_turn(turn, item) {
            self.retire_tagged_the_long_way(turn, tag, item);
        }
    }

    /// As [`RetireBin::retire_tagged`], if that takes no more than a write of the item. O(1).
    ///
    /// # Errors
    /// The item, unchanged: the thread has no queue of its own here, the open chunk of its queue is of another `turn`,
    /// or it is full.
    #[inline]
    pub fn try_retire_in_turn(&self, turn: u64, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(BEGUN)
            // SAFETY: no other thread has this one's thread slot.
            && let Some(slot) = unsafe { queue.slot_in_turn(turn) }
        {
            // SAFETY: no other thread has this one's thread slot, and nothing was put in since the slot was given.
            unsafe { queue.fill(slot, item) };
            Ok(())
        } else {
            Err(item)
        }
    }

    /// As [`RetireBin::try_retire_in_turn`], for points. O(points).
    ///
    /// # Errors
    /// The item, unchanged: the thread has no queue of its own here, the open chunk of its queue waits for other
    /// points, or it is full.
    #[inline]
    pub fn try_retire(&self, points: &SyncSet, item: T) -> Result<(), T> {
        if let Some(queue) = self.own_queue(PRECISE)
            // SAFETY: no other thread has this one's thread slot.
            && let Some(slot) = unsafe { queue.slot_for(points) }
        {
            // SAFETY: no other thread has this one's thread slot, and nothing was put in since the slot was given.
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

    /// As [`RetireBin::retire`]. After at most `step` more items of this thread [`RetireBin::try_retire`] refuses one.
    pub fn put_points(&self, points: &SyncSet, step: usize, item: T) {
        self.put(PRECISE, Key::Points(points), &|set| set.clone_from(points), step, &mut core::iter::once(item));
    }

    /// As [`RetireBin::retire_tagged`], and as [`RetireBin::put_points`] says of `step`.
    pub fn put_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), step: usize, item: T) {
        self.put(BEGUN, Key::Turn(turn), &tag, step, &mut core::iter::once(item));
    }

    /// Puts items in that wait for what `tag` says, as [`RetireBin::retire_tagged`], and leaves `items` empty.
    pub fn retire_all_tagged(&self, turn: u64, tag: impl Fn(&mut SyncSet), items: &mut Vec<T>) {
        if !items.is_empty() {
            self.put(BEGUN, Key::Turn(turn), &tag, usize::MAX, &mut items.drain(..));
        }
    }

    /// Puts items into a queue of this thread's shard, or of one that is free. Sets and host memory come from the
    /// caller's code or may run it: that is done while nothing is taken and each queue is whole.
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
        // SAFETY: the shard is open to this thread alone: it is the thread's own, or the thread has the door.
        while let Some(next) = Self::behind(door, || unsafe { queue.fill_from(key, step, items) }) {
            let next = next.ready(tag);
            // The queue may be another's to fill meanwhile; what it gave is this thread's.
            let again = shard.is_shared.then(|| shard.door.take());
            // SAFETY: the shard is again open to this thread alone; `fill_from` gave the chunk for this key, and it is
            // ready.
            Self::behind(again, || unsafe { queue.go_on(next, key) });
            door = shard.is_shared.then(|| shard.door.take());
        }
    }

    /// Does something, and gives the door back that the caller has taken for it.
    fn behind<R>(door: Option<Taken<'_, ()>>, work: impl FnOnce() -> R) -> R {
        match door {
            Some(door) => door.with(|()| work()),
            None => work(),
        }
    }

    /// This thread's own shard, or the first of the shared ones that is free, with its door.
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

    /// The shard that this thread puts items into, or would if it were free.
    fn near(&self) -> &Shard<T> {
        let number = thread_number();
        self.own.get(number).unwrap_or_else(|| &self.shared[number % self.shared.len()])
    }

    /// Whether this thread has a shard to itself, so that `step` of [`RetireBin::put_tagged`] means something.
    pub fn has_own_shard(&self) -> bool {
        thread_number() < self.own.len()
    }

    /// How many items wait where this thread puts its own.
    pub fn len_near(&self) -> usize {
        self.near().len()
    }

    /// As [`RetireBin::release`], of the items where this thread puts its own. Nothing if another thread takes from
    /// there.
    pub fn release_near(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        let shard = self.near();
        let Some(collector) = shard.collector.0.try_take() else { return 0 };
        shard.give_out(collector, passed, items_max, &mut |lent, most| lent.release(most, &mut each))
    }

    /// Moves what has passed to `into`, at most `items_max` items, and says how many those were. A shard that another
    /// thread collects from at the moment is looked at once more at the end, and left for the next time if it still
    /// does.
    ///
    /// Exactly what has passed comes out: an item waits for its own points and for nothing else. `progress` is asked
    /// once for each timeline that something waits for, while nothing of the bin is taken: it may use the bin itself.
    pub fn collect(&self, progress: &(impl Progress + ?Sized), items_max: usize, into: &mut Vec<T>) -> usize {
        self.collect_passed(&self.read(progress), items_max, into)
    }

    /// As [`RetireBin::collect`], by a reading that runs no code of the program's.
    pub fn collect_passed(&self, passed: &impl Reading, items_max: usize, into: &mut Vec<T>) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.collect(most, into))
    }

    /// Gives what has passed to `each`, one by one and at most `items_max` items, and says how many those were: as
    /// [`RetireBin::collect`], without moving the items to a vector first. No shard is taken while `each` runs, which
    /// may retire more; that waits for the next time.
    ///
    /// If `each` panics, the item that it was given is gone, and all others are still here.
    pub fn release(&self, progress: &(impl Progress + ?Sized), items_max: usize, each: impl FnMut(T)) -> usize {
        self.release_passed(&self.read(progress), items_max, each)
    }

    /// As [`RetireBin::release`], by a reading that runs no code of the program's.
    pub fn release_passed(&self, passed: &impl Reading, items_max: usize, mut each: impl FnMut(T)) -> usize {
        self.give_out(passed, items_max, |_, _| false, &mut |lent, most| lent.release(most, &mut each))
    }

    /// As [`RetireBin::release_near`], by a thread that does so again and again: [`RetireBin::release_unspared`] leaves
    /// its items to it for a while.
    pub fn release_own(&self, passed: &impl Reading, items_max: usize, each: impl FnMut(T)) -> usize {
        if let Some(shard) = self.own.get(thread_number()) {
            shard.spared.store(SPARED, Ordering::Relaxed);
        }
        self.release_near(passed, items_max, each)
    }

    /// As [`RetireBin::release_passed`], but passes by the shards of other threads that do [`RetireBin::release_own`]
    /// themselves, a few times after each time that they did. Else threads would take items from one another.
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

    /// As [`RetireBin::release`] of every item, passed or not: for when the device is idle, lost or gone.
    pub fn release_all(&self, each: impl FnMut(T)) -> usize {
        self.release_passed(&Everything, usize::MAX, each)
    }

    /// Asks how far each timeline has come that something waits for, with nothing taken meanwhile.
    fn read(&self, progress: &(impl Progress + ?Sized)) -> Known {
        let mut known = Known::default();
        for shard in self.shards().filter(|shard| shard.len() > 0) {
            // What another thread takes from is that thread's to give out.
            if let Some(collector) = shard.collector.0.try_take() {
                collector.with(|collector| collector.timelines(&shard.queues, &mut known));
            }
        }
        known.ask(progress);
        known
    }

    /// Moves every item to `into`, passed or not: for when the device is idle, lost or gone. Waits for a thread that
    /// collects.
    pub fn collect_all(&self, into: &mut Vec<T>) {
        for shard in self.shards() {
            shard.give_out(shard.collector.0.take(), &Everything, usize::MAX, &mut |lent, most| {
                lent.collect(most, into)
            });
        }
    }

    /// Gives out what has passed, shard by shard, and says how much.
    fn give_out(
        &self,
        progress: &impl Reading,
        items_max: usize,
        is_spared: impl Fn(usize, &Shard<T>) -> bool,
        give: &mut impl FnMut(&mut Lent<'_, T>, usize) -> usize,
    ) -> usize {
        let count = self.own.len() + self.shared.len();
        // An exact number is not needed: who collects at the same time begins at the same place.
        let first = self.first.load(Ordering::Relaxed) % count;
        self.first.store(first + 1, Ordering::Relaxed);
        // Bits: there are at most 64 and 8 shards.
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

    /// How many items wait. While others retire and collect, some number that was true lately.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards().map(Shard::len).sum()
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every rule of the structure, whatever other threads put in meanwhile. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        (0..).zip(self.shards()).try_for_each(|(at, shard)| shard.validate(at))
    }

    fn shards(&self) -> impl Iterator<Item = &Shard<T>> {
        self.own.iter().chain(&self.shared)
    }

    fn shard(&self, index: usize) -> &Shard<T> {
        self.own.get(index).unwrap_or_else(|| &self.shared[index - self.own.len()])
    }

    /// A queue that this thread alone puts items into, if it has one and has asked for its number before.
    #[inline]
    fn own_queue(&self, queue: usize) -> Option<&SpscQueue<T>> {
        // There are at most as many as thread slots: no other thread that lives has this number.
        self.own.get(cached_number()).map(|shard| &shard.queues[queue])
    }
}

impl<T> Drop for RetireBin<T> {
    /// Goes on with the rest where dropping an item panics; the first panic goes on afterwards.
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

    /// Items that were put in and not given out.
    fn len(&self) -> usize {
        // First: what is gone by now was put in before.
        let gone = self.gone.load(Ordering::Acquire);
        self.queues.iter().map(SpscQueue::pushed).fold(0, usize::wrapping_add).wrapping_sub(gone)
    }

    /// Gives out what has passed, a batch at a time, and says how much. The collector is not taken while `give` runs,
    /// which gets at most `items_max` items out of what is lent to it.
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
            // What was put in meanwhile is not among the next.
            next = lent.give_back(released < items_max);
        }
        released
    }

    fn validate(&self, at: u64) -> Result<(), Invalid> {
        self.collector.0.take().with(|collector| {
            collector.waiting.validate()?;
            let lots = || collector.waiting.iter().flat_map(|batch| batch.items()).chain(&collector.passed);
            Invalid::unless(lots().all(|lot| lot.batch.len() > 0), "nothing that waits is empty", at)?;
            let mut waits = lots().map(|lot| lot.batch.len()).sum::<usize>();
            let mut put_in = 0_usize;
            for (queue, head) in self.queues.iter().zip(&collector.heads) {
                // Read once: its thread may put more in at any time.
                let pushed = queue.pushed();
                let left = pushed.wrapping_sub(head.taken());
                Invalid::unless(left.cast_signed() >= 0, "what was taken out of a queue was put in", at)?;
                waits += left;
                put_in = put_in.wrapping_add(pushed);
            }
            let gone = self.gone.load(Ordering::Relaxed);
            Invalid::unless(put_in.wrapping_sub(gone) == waits, "what is not gone waits", at)
        })
    }
}

/// Items that are out of their shard while they are given out; what is left comes back also when a panic passes.
struct Lent<'a, T> {
    shard: &'a Shard<T>,
    /// Taken when it is given back.
    lot: Option<Lot<T>>,
    /// Its items at first. Until it is back, the shard counts them.
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

    /// Puts what is left back; gives the next, if it is wanted and there is one.
    fn give_back(&mut self, next: bool) -> Option<Lot<T>> {
        let lot = self.lot.take()?;
        let Self { shard, len, .. } = *self;
        shard.collector.0.take().with(|collector| {
            let given = len - lot.batch.len();
            shard.gone.store(shard.gone.load(Ordering::Relaxed).wrapping_add(given), Ordering::Release);
            if lot.batch.len() > 0 {
                collector.passed.push_front(lot);
            } else {
                // SAFETY: the lot is of this queue, and this thread has the collector.
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

/// Progress that runs none of the caller's code, so that it may be looked at while a shard is taken.
pub trait Reading: Progress {}

/// Progress that has passed every point.
struct Everything;

impl Reading for Everything {}

/// How far timelines had come when they were asked. All others have reached 0.
#[derive(Default)]
struct Known {
    /// The first of them, so that a few take no host memory.
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
    /// The timelines that something here waits for.
    fn timelines(&self, queues: &[SpscQueue<T>; 2], known: &mut Known) {
        self.waiting.oldest_points().for_each(|point| known.note(point.timeline));
        for (queue, head) in queues.iter().zip(&self.heads) {
            // SAFETY: the queue is this shard's, whose collector the caller has.
            unsafe { head.sets(queue, |points| points.iter().for_each(|point| known.note(point.timeline))) };
        }
    }

    /// Takes out what is in the queues, and puts what has passed with what is to be given out.
    fn sort_out(&mut self, queues: &[SpscQueue<T>; 2], progress: &impl Reading) {
        // First: what was taken out before is older than what is in the queues.
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
            // SAFETY: the queue is this shard's, whose collector the caller has.
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
