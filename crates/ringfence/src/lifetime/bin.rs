//! What was let go of and may still be in use, from any number of threads at once.
//!
//! ```text
//!   thread 1 ─ retire ─▶ shard 0    open {0: 7, 1: 3}: a b c …      the frame's batch: one set for all
//!                          │        waiting: {0: 6} [d e], {0: 5} [f]      earlier batches, by their sets
//!                          │        precise: {1: 2} [g]             items with sets of their own
//!   thread 2 ─ retire ─▶ shard 1    …
//!                          ▲
//!   collect(passed, max) ──┤─ each shard in turn, from another one each time ──▶ [f d e …], destroyed outside of it
//!   release(passed, max) ──┘  … a batch at a time, lent out and given back empty ──▶ f, d, e …, one by one
//! ```
//!
//! Each thread has a shard that it goes to first. A shard is taken for the few instructions that it takes to put an
//! item down, or to take those away that have passed. Who finds a shard taken goes to the next one. There are more
//! shards than threads that run at a time, so that as a rule the first one tried is free; nobody ever sleeps on one.
//!
//! # Why nothing is given out too early
//!
//! An item's set is read *after* its owner has let go of it: retiring takes the item by value. Whoever recorded work
//! that uses the item had to begin a frame before (the contract of [`Allocator::timeline`](crate::Allocator::timeline))
//! and to hold a reference while recording, so that the frame's beginning *happens before* the item's retirement. The
//! set holds the latest value begun on each timeline, so it covers that frame. A shard keeps the set for as long as the
//! *turn* stands, a number that rises with each frame that begins, before `begin` returns: if the turn that the retiring
//! thread reads is the one of the kept set, every frame whose beginning happened before is in the set. A set that is too
//! old is therefore never used; one that holds more than is needed (a frame was dropped meanwhile) only waits longer.
//!
//! The progress is read before the shards are looked at, and values only rise: an item that is put down meanwhile is
//! compared with values that the device had reached already. Each item is moved out by whoever has the shard, and so is
//! given out once.
//!
//! # Order
//!
//! Items of one thread and one frame come out in the order in which they went in. Between threads and between sets
//! there is no order, and none is needed: what must outlive an item (its memory) is held by the item itself.
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1): one atomic exchange, a compare, a push; O(timelines) for the first of a shard after a frame began |
//! | … several in one go | one atomic exchange for all |
//! | … with a set of its own | O(points of the set) |
//! | collect | O(shards × timelines), O(points) a batch; a whole batch is moved in one go |
//! | release | the same; a batch is lent out whole, and its items are moved by whoever gets them |
//! | len | O(shards), takes none of them |
//!
//! In steady state nothing is allocated on the host: batches and sets keep their memory.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet, TimelineId};

use super::try_cell::{Taken, TryCell};
use crate::primitive::{AtomicUsize, Ordering, yield_now};

/// A number that no turn has.
const NO_TURN: u64 = u64::MAX;

/// Items that wait for points on timelines, put in by many threads at once, none of which waits for another.
///
/// The allocator keeps what it made in one of these. Programs can keep their own objects in another one: views,
/// pipelines, whatever the GPU may still use.
///
/// ```
/// use ringfence::lifetime::RetireBin;
/// use ringfence::{SyncPoint, SyncSet, TimelineId};
///
/// let graphics = TimelineId::new(0);
/// let bin = RetireBin::new();
/// bin.retire(&SyncSet::from(SyncPoint::new(graphics, 7)), "view");
/// let mut passed = vec![];
/// assert_eq!(bin.collect([6].as_slice(), usize::MAX, &mut passed), 0);
/// assert_eq!(bin.collect([7].as_slice(), usize::MAX, &mut passed), 1);
/// assert_eq!(passed, ["view"]);
/// ```
pub struct RetireBin<T> {
    /// A power of two of them.
    shards: Box<[Shard<T>]>,
    /// Where the next collection begins, so that a bounded one starves no shard.
    first: AtomicUsize,
}

/// A shard on cache lines of its own: threads do not take them from one another.
#[repr(align(128))]
struct Shard<T> {
    queue: TryCell<Queue<T>>,
    /// The items of the queue, for readers; written by whoever has it.
    len: AtomicUsize,
}

struct Queue<T> {
    /// What was retired during `turn` since the last collection, and waits for `tag`.
    open: VecDeque<T>,
    tag: SyncSet,
    turn: u64,
    /// Batches that were open once. None is empty.
    waiting: RetireQueue<VecDeque<T>>,
    /// Items with sets of their own.
    precise: RetireQueue<T>,
    /// Batches that have passed and were not given out yet, for want of room. None is empty.
    passed: VecDeque<VecDeque<T>>,
    /// Batches that are empty, to be used again.
    spare: Vec<VecDeque<T>>,
    /// Items in all of these.
    len: usize,
}

impl<T> RetireBin<T> {
    /// An empty bin with twice as many shards as the machine has threads, at most 64.
    #[must_use]
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_shards(threads * 2)
    }

    /// An empty bin with at least this many shards, from 1 to 64.
    #[must_use]
    pub fn with_shards(count: usize) -> Self {
        let shard = |_| Shard { queue: TryCell::new(Queue::new()), len: AtomicUsize::new(0) };
        Self { shards: (0..count.clamp(1, 64).next_power_of_two()).map(shard).collect(), first: AtomicUsize::new(0) }
    }

    /// Puts an item in, to come out once `points` have passed. O(points).
    pub fn retire(&self, points: &SyncSet, item: T) {
        // Read at its end, and so moved once: an item may be large.
        let item = ManuallyDrop::new(item);
        self.with_a_shard(|queue| {
            // SAFETY: this runs once, and nobody else reads the item or drops it.
            queue.precise.retire(points, unsafe { std::ptr::read(&*item) });
            queue.len += 1;
        });
    }

    /// Puts an item in that waits for what `tag` says; asked only if `turn` is another than the shard knows.
    #[inline]
    pub(crate) fn retire_tagged(&self, turn: u64, tag: impl FnOnce(&mut SyncSet), item: T) {
        // As in `retire`.
        let item = ManuallyDrop::new(item);
        self.with_a_shard(|queue| {
            queue.begin_turn(turn, tag);
            // SAFETY: this runs once, and nobody else reads the item or drops it.
            queue.open.push_back(unsafe { std::ptr::read(&*item) });
            queue.len += 1;
        });
    }

    /// Moves what has passed to `into`, `items_max` items at the most, and says how many those were. A shard that is
    /// taken at the moment is looked at once more at the end, and left for the next time if it still is.
    ///
    /// Exactly what has passed comes out: an item waits for its own points and for nothing else.
    pub fn collect(&self, progress: &(impl Progress + ?Sized), items_max: usize, into: &mut Vec<T>) -> usize {
        let (before, mut taken) = (into.len(), 0_u64);
        let mask = self.shards.len() - 1;
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        for step in 0..=mask {
            let index = first.wrapping_add(step) & mask;
            let left = items_max - (into.len() - before);
            taken |= u64::from(!self.try_collect(index, progress, left, into)) << index;
        }
        for index in (0..=mask).filter(|index| taken & (1 << index) != 0) {
            let left = items_max - (into.len() - before);
            self.try_collect(index, progress, left, into);
        }
        into.len() - before
    }

    /// Gives what has passed to `each`, one by one and `items_max` items at the most, and says how many those were: as
    /// [`RetireBin::collect`], without moving the items to a vector first. No shard is taken while `each` runs, which may
    /// retire more; that waits for the next time.
    ///
    /// If `each` panics, the item that it was given is gone, and all others are still here.
    pub fn release(&self, progress: &(impl Progress + ?Sized), items_max: usize, mut each: impl FnMut(T)) -> usize {
        let (mut released, mut taken) = (0, 0_u64);
        let mask = self.shards.len() - 1;
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        for step in 0..=mask {
            let index = first.wrapping_add(step) & mask;
            match self.shards[index].try_release(progress, items_max - released, &mut each) {
                Some(count) => released += count,
                None => taken |= 1 << index,
            }
        }
        for index in (0..=mask).filter(|index| taken & (1 << index) != 0) {
            released += self.shards[index].try_release(progress, items_max - released, &mut each).unwrap_or(0);
        }
        released
    }

    /// Whether the shard could be looked at.
    fn try_collect(
        &self,
        index: usize,
        progress: &(impl Progress + ?Sized),
        items_max: usize,
        into: &mut Vec<T>,
    ) -> bool {
        let shard = &self.shards[index];
        let Some(taken) = shard.queue.try_take() else { return false };
        shard.with(taken, |queue| queue.collect(progress, items_max, into));
        true
    }

    /// Moves every item to `into`, passed or not: for when the device is idle, lost or gone. Waits for shards that are
    /// taken.
    pub fn collect_all(&self, into: &mut Vec<T>) {
        for shard in &self.shards {
            shard.with(shard.queue.take(), |queue| queue.collect(&Everything, usize::MAX, into));
        }
    }

    /// Puts items in that wait for what `tag` says, as [`RetireBin::retire_tagged`], and leaves `items` empty.
    pub(crate) fn retire_all_tagged(&self, turn: u64, tag: impl FnOnce(&mut SyncSet), items: &mut Vec<T>) {
        if !items.is_empty() {
            self.with_a_shard(|queue| {
                queue.begin_turn(turn, tag);
                queue.len += items.len();
                queue.open.extend(items.drain(..));
            });
        }
    }

    /// How many items wait. While others retire and collect, some number that was true lately.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len.load(Ordering::Relaxed)).sum()
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every rule of the structure. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (at, shard) in (0..).zip(&self.shards) {
            shard.queue.take().with(|queue| {
                queue.validate(at)?;
                let len = shard.len.load(Ordering::Relaxed);
                Invalid::unless(len == queue.len, "readers see the length of the queue", at)
            })?;
        }
        Ok(())
    }

    /// Does something with the thread's own shard, or the next that is not taken.
    #[inline]
    fn with_a_shard(&self, work: impl FnOnce(&mut Queue<T>)) {
        let mask = self.shards.len() - 1;
        let mut index = thread_number() & mask;
        loop {
            let shard = &self.shards[index];
            if let Some(taken) = shard.queue.try_take() {
                return shard.with(taken, work);
            }
            index = (index + 1) & mask;
            if index == thread_number() & mask {
                // More threads than shards.
                yield_now();
            }
        }
    }
}

impl<T> Shard<T> {
    /// Does something with the queue, which is taken, and gives it back.
    #[inline]
    fn with<R>(&self, taken: Taken<'_, Queue<T>>, work: impl FnOnce(&mut Queue<T>) -> R) -> R {
        taken.with(|queue| {
            let result = work(queue);
            self.len.store(queue.len, Ordering::Relaxed);
            result
        })
    }

    /// Gives out what has passed, a batch at a time; `None` if the shard is taken.
    fn try_release(
        &self,
        progress: &(impl Progress + ?Sized),
        items_max: usize,
        each: &mut impl FnMut(T),
    ) -> Option<usize> {
        let mut next = self.with(self.queue.try_take()?, |queue| {
            if items_max > 0 && queue.len > 0 {
                queue.sort_out(progress);
                queue.passed.pop_front()
            } else {
                None
            }
        });
        let mut released = 0;
        while let Some(items) = next.take() {
            let mut lent = Lent { shard: self, items, given: 0 };
            while released < items_max
                && let Some(item) = lent.items.pop_front()
            {
                lent.given += 1;
                released += 1;
                each(item);
            }
            drop(lent);
            if released < items_max {
                // What `each` has retired is not among these.
                next = self.with(self.queue.take(), |queue| queue.passed.pop_front());
            }
        }
        Some(released)
    }
}

/// A batch that is out of its shard while its items are given out; it comes back also when a panic passes.
struct Lent<'a, T> {
    shard: &'a Shard<T>,
    items: VecDeque<T>,
    /// Items that have gone. Until the batch is back, the shard counts them.
    given: usize,
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let (items, given) = (std::mem::take(&mut self.items), self.given);
        self.shard.with(self.shard.queue.take(), |queue| {
            queue.len -= given;
            if items.is_empty() {
                queue.spare.push(items);
            } else {
                queue.passed.push_front(items);
            }
        });
    }
}

/// Progress that has passed every point.
struct Everything;

impl Progress for Everything {
    fn completed(&self, _: TimelineId) -> u64 {
        u64::MAX
    }
}

impl<T> Queue<T> {
    const fn new() -> Self {
        Self {
            open: VecDeque::new(),
            tag: SyncSet::new(),
            turn: NO_TURN,
            waiting: RetireQueue::new(),
            precise: RetireQueue::new(),
            passed: VecDeque::new(),
            spare: Vec::new(),
            len: 0,
        }
    }

    /// From here on what is retired is tagged for this turn.
    #[inline]
    fn begin_turn(&mut self, turn: u64, tag: impl FnOnce(&mut SyncSet)) {
        if self.turn != turn {
            self.close();
            tag(&mut self.tag);
            self.turn = turn;
        }
    }

    /// Puts what has passed with the batches that are to be given out.
    fn sort_out(&mut self, progress: &(impl Progress + ?Sized)) {
        self.close();
        let passed = &mut self.passed;
        self.waiting.reclaim(progress, |batch| passed.push_back(batch));
        if !self.precise.is_empty() {
            let mut items = self.spare.pop().unwrap_or_default();
            self.precise.reclaim(progress, |item| items.push_back(item));
            if items.is_empty() {
                self.spare.push(items);
            } else {
                self.passed.push_back(items);
            }
        }
    }

    /// Puts the open batch with those that wait.
    fn close(&mut self) {
        if !self.open.is_empty() {
            let next = self.spare.pop().unwrap_or_default();
            self.waiting.retire(&self.tag, std::mem::replace(&mut self.open, next));
        }
    }

    fn collect(&mut self, progress: &(impl Progress + ?Sized), items_max: usize, into: &mut Vec<T>) {
        if self.len == 0 || items_max == 0 {
            return;
        }
        self.close();
        let (before, passed) = (into.len(), &mut self.passed);
        self.waiting.reclaim(progress, |batch| passed.push_back(batch));
        while let Some(batch) = self.passed.front_mut() {
            let count = batch.len().min(items_max - (into.len() - before));
            if count == batch.len() {
                // As a rule nothing was taken from its front: then it turns into a vector and back as it lies. Each keeps
                // its memory: if they exchanged it, one or the other would have to grow for long.
                let mut items = Vec::from(std::mem::take(batch));
                into.append(&mut items);
                *batch = items.into();
            } else {
                into.extend(batch.drain(..count));
            }
            if !batch.is_empty() {
                break;
            }
            self.spare.extend(self.passed.pop_front());
        }
        let left = items_max - (into.len() - before);
        self.precise.reclaim_at_most(progress, left, |item| into.push(item));
        self.len -= into.len() - before;
    }

    fn validate(&self, at: u64) -> Result<(), Invalid> {
        self.waiting.validate()?;
        self.precise.validate()?;
        let batches = || self.waiting.iter().flat_map(|batch| batch.items()).chain(&self.passed);
        Invalid::unless(batches().all(|batch| !batch.is_empty()), "no batch that waits is empty", at)?;
        Invalid::unless(self.spare.iter().all(VecDeque::is_empty), "every spare batch is empty", at)?;
        let len = batches().map(VecDeque::len).sum::<usize>() + self.open.len() + self.precise.len();
        Invalid::unless(len == self.len, "the length is the number of items", at)
    }
}

/// A number for this thread: threads are numbered as they come.
#[cfg(not(any(loom, miri)))]
#[inline]
pub(crate) fn thread_number() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    /// Apart, so that the rest is a load and a compare wherever it stands.
    #[cold]
    fn draw() -> usize {
        HOME.set(THREADS.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1));
        HOME.get()
    }

    let number = HOME.get();
    if number == usize::MAX { draw() } else { number }
}

/// All threads in one place is a model's hardest case.
#[cfg(any(loom, miri))]
pub(crate) fn thread_number() -> usize {
    0
}

impl<T> Default for RetireBin<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for RetireBin<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetireBin").field("len", &self.len()).field("shards", &self.shards.len()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
