//! A queue of items that are released once their points have passed, on independent timelines.
//!
//! ```text
//!   batches, which are reused                    waiting: a list for each timeline, sorted by value
//!
//!   0  { 0: 4 }          waits 1  [a b c]        timeline 0   4→0   5→2   5→3
//!   1  (spare)                                   timeline 1   8→2   9→3
//!   2  { 0: 5, 1: 8 }    waits 2  [d]
//!   3  { 0: 5, 1: 9 }    waits 2  [e f]          ready        4
//!   4  { 1: 7 }          waits 0  [g h]          spare        1
//! ```
//!
//! Items that wait for the same set share a *batch*: the drops of a frame form one batch or a few. A batch has an entry
//! in the list of each timeline that it waits for, and counts these entries. When a timeline rises, the entries that
//! have passed are removed from the front of its list. A batch without entries is ready. So each item waits only for
//! its own set: a stuck timeline delays only the items that wait for it, unlike a single queue over all timelines.
//!
//! | operation | cost |
//! |---|---|
//! | [`RetireQueue::retire`], values not decreasing | O(points of the set) |
//! | … with a value below waiting ones | O(log batches), plus moving the shorter side of a list if a batch begins |
//! | [`RetireQueue::reclaim`] | O(timelines), plus O(1) for each point that passed and each item released |
//! | [`RetireQueue::len`], [`RetireQueue::batches`] | O(1) |
//! | [`RetireQueue::validate`] | O(batches × points) |
//!
//! Batches, lists and their memory are reused: in steady state no host memory is allocated.

use crate::range::Invalid;
use crate::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Number of batches that are compared with a set before a new batch begins.
const LOOK_BACK: usize = 4;

/// Items that are released once the GPU no longer uses them.
///
/// Dropping the queue drops the items without waiting; [`RetireQueue::release_all`] releases them one by one.
///
/// ```
/// # use ringfence_core::retire::RetireQueue;
/// # use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
/// let [graphics, copy] = [0, 1].map(TimelineId::new);
/// let mut queue = RetireQueue::new();
/// queue.retire(&[SyncPoint::new(graphics, 7), SyncPoint::new(copy, 2)].into_iter().collect(), "texture");
/// queue.retire(&SyncSet::from(SyncPoint::new(copy, 2)), "staging");
///
/// let mut released = vec![];
/// queue.reclaim([6, 2].as_slice(), |item| released.push(item));
/// assert_eq!(released, ["staging"]);
/// queue.reclaim([7, 2].as_slice(), |item| released.push(item));
/// assert_eq!(released, ["staging", "texture"]);
/// ```
#[derive(Clone, Debug)]
pub struct RetireQueue<T> {
    /// All batches, by index. A batch has items iff its index is not in `spare`.
    batches: Vec<Batch<T>>,
    /// Batches without items, for reuse.
    spare: Vec<usize>,
    /// One list for each timeline that was ever waited for, sorted by timeline.
    waiting: Vec<Waiting>,
    /// Batches with items whose points have all passed, in the order of their release.
    ready: VecDeque<usize>,
    /// Number of items in all batches.
    len: usize,
    /// The batch that last received an item, which may be spare by now. Usually the next item joins it.
    latest: usize,
}

/// Items that wait for the same set.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The set, sorted by timeline; empty while the batch is spare. A vector, because clearing it keeps its memory.
    points: Vec<SyncPoint>,
    /// Number of its entries in `waiting`: points that are not known to have passed.
    waits: usize,
    /// In the order in which they were retired.
    items: VecDeque<T>,
}

/// Batches that wait for one timeline.
#[derive(Clone, Debug)]
struct Waiting {
    timeline: TimelineId,
    /// Sorted by value; equal values in the order in which they were retired.
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: u64,
    batch: usize,
}

impl<T> RetireQueue<T> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { batches: Vec::new(), spare: Vec::new(), waiting: Vec::new(), ready: VecDeque::new(), len: 0, latest: 0 }
    }

    /// Adds an item that is released once `set` has passed. If the set has already passed (or is empty), the next
    /// reclaim releases the item. O(points of the set) as long as the values on a timeline do not decrease.
    #[inline]
    pub fn retire(&mut self, set: &SyncSet, item: T) {
        let batch = match self.batches.get(self.latest) {
            // The batch still waits, so it is in a list, and a search would find it.
            Some(latest) if latest.waits != 0 && set.is(&latest.points) => self.latest,
            _ => self.batch_for(set),
        };
        self.push(batch, item);
    }

    /// Adds items that wait for the same set. O(points of the set + items).
    ///
    /// If the iterator panics, the items before the panic are retired.
    pub fn retire_batch(&mut self, set: &SyncSet, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter();
        // A batch must not be empty, so it begins only if there is an item.
        let Some(first) = items.next() else { return };
        let batch = self.batch_for(set);
        self.push(batch, first);
        items.for_each(|item| self.push(batch, item));
    }

    #[inline]
    fn push(&mut self, batch: usize, item: T) {
        self.batches[batch].items.push_back(item);
        self.len += 1;
    }

    #[inline(never)]
    fn batch_for(&mut self, set: &SyncSet) -> usize {
        self.latest = match self.find(set) {
            Some(batch) => batch,
            None => self.begin(set),
        };
        self.latest
    }

    /// Returns a batch with an equal set, if one of the last [`LOOK_BACK`] before the position of a new batch has it.
    /// Usually the most recent one does. The search also prevents one batch per item if resources of several frames are
    /// dropped alternately.
    fn find(&self, set: &SyncSet) -> Option<usize> {
        let Some(first) = set.iter().next() else {
            return self.ready.back().copied().filter(|&batch| self.batches[batch].points.is_empty());
        };
        let list = &self.waiting[self.list(first.timeline).ok()?];
        let before = list.entries.range(..list.end_of(first.value)).rev();
        before
            .take(LOOK_BACK)
            .map(|entry| entry.batch)
            .find(|&batch| self.batches[batch].points.iter().copied().eq(set.iter()))
    }

    fn begin(&mut self, set: &SyncSet) -> usize {
        let index = self.spare.pop().unwrap_or_else(|| {
            self.batches.push(Batch { points: Vec::new(), waits: 0, items: VecDeque::new() });
            self.batches.len() - 1
        });
        for point in set.iter() {
            self.list_mut(point.timeline).insert(Entry { value: point.value, batch: index });
        }
        let batch = &mut self.batches[index];
        batch.points.extend(set.iter());
        batch.waits = batch.points.len();
        if batch.waits == 0 {
            self.ready.push_back(index);
        }
        index
    }

    fn list(&self, timeline: TimelineId) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&timeline, |list| list.timeline)
    }

    fn list_mut(&mut self, timeline: TimelineId) -> &mut Waiting {
        let index = self.list(timeline).unwrap_or_else(|index| {
            self.waiting.insert(index, Waiting { timeline, entries: VecDeque::new() });
            index
        });
        &mut self.waiting[index]
    }

    /// Releases exactly the items whose sets have passed, and returns their number. Each timeline that is waited for is
    /// read once. A point that was seen to have passed is not checked again, because values only rise.
    ///
    /// Items with equal sets are released in the order in which they were retired.
    ///
    /// # Panics
    /// If `release` panics. The item that it received is lost; all others are still queued, and the next reclaim
    /// continues with them. No item is released twice.
    pub fn reclaim(&mut self, progress: &(impl Progress + ?Sized), release: impl FnMut(T)) -> usize {
        self.reclaim_at_most(progress, usize::MAX, release)
    }

    /// Like [`RetireQueue::reclaim`], but releases at most `max_items` items; the next call continues. Use this to
    /// bound the time of `release`. Removing points from the lists is not bounded: it takes some nanoseconds per point,
    /// once in its life.
    ///
    /// # Panics
    /// If `release` panics, as in [`RetireQueue::reclaim`].
    pub fn reclaim_at_most(
        &mut self,
        progress: &(impl Progress + ?Sized),
        max_items: usize,
        mut release: impl FnMut(T),
    ) -> usize {
        self.collect(progress);
        let mut released = 0;
        while released < max_items {
            let Some(&index) = self.ready.front() else { break };
            // Releases all items of the batch but the last; the batch stays in place meanwhile. The queue is consistent
            // at each call of `release`, which may panic.
            let items = &mut self.batches[index].items;
            while released < max_items && items.len() > 1 {
                let Some(item) = items.pop_front() else { break };
                self.len -= 1;
                released += 1;
                release(item);
            }
            if released == max_items {
                break;
            }
            let Some(item) = self.pop_ready() else { break };
            released += 1;
            release(item);
        }
        released
    }

    /// Releases every item, passed or not, and returns their number. For a device that is idle, lost or destroyed.
    ///
    /// # Panics
    /// If `release` panics, as in [`RetireQueue::reclaim`]; a second call continues.
    pub fn release_all(&mut self, release: impl FnMut(T)) -> usize {
        struct EndOfTime;
        impl Progress for EndOfTime {
            fn completed(&self, _: TimelineId) -> u64 {
                u64::MAX
            }
        }
        self.reclaim(&EndOfTime, release)
    }

    /// Removes the points that have passed from the lists.
    fn collect(&mut self, progress: &(impl Progress + ?Sized)) {
        for list in self.waiting.iter_mut().filter(|list| !list.entries.is_empty()) {
            let completed = progress.completed(list.timeline);
            while let Some(&Entry { value, batch }) = list.entries.front() {
                if value > completed {
                    break;
                }
                list.entries.pop_front();
                self.batches[batch].waits -= 1;
                if self.batches[batch].waits == 0 {
                    self.ready.push_back(batch);
                }
            }
        }
    }

    /// Takes one item out. The queue is consistent afterwards, so the caller may panic.
    fn pop_ready(&mut self) -> Option<T> {
        let &index = self.ready.front()?;
        let batch = &mut self.batches[index];
        let item = batch.items.pop_front();
        debug_assert!(item.is_some(), "a ready batch has items");
        self.len -= 1;
        if batch.items.is_empty() {
            batch.points.clear();
            self.ready.pop_front();
            self.spare.push(index);
        }
        item
    }

    /// Number of items that wait or are ready.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the queue has no item.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of batches with items.
    #[must_use]
    pub const fn batches(&self) -> usize {
        self.batches.len() - self.spare.len()
    }

    /// Iterates over the oldest waited-for point of each timeline, sorted by timeline, as of the last reclaim. These
    /// are the points to wait for, or the points that are stuck. Skips timelines that no item waits for.
    pub fn oldest_points(&self) -> impl Iterator<Item = SyncPoint> + '_ {
        self.waiting.iter().filter_map(|list| {
            let oldest = list.entries.front()?;
            Some(SyncPoint::new(list.timeline, oldest.value))
        })
    }

    /// Iterates over the batches with items, in no particular order, for reports and leak detection. O(batches).
    pub fn iter(&self) -> impl Iterator<Item = &Batch<T>> {
        self.batches.iter().filter(|batch| !batch.items.is_empty())
    }

    /// Checks all rules of the structure. O(batches × points), and allocates host memory: for tests.
    ///
    /// # Errors
    /// The first violated rule, and the index of the batch or timeline that violates it.
    pub fn validate(&self) -> Result<(), Invalid> {
        let lists_of = self.validate_lists()?;
        let mut uses = vec![0; self.batches.len()];
        self.ready.iter().for_each(|&index| uses[index] += 1);
        for (index, batch) in self.batches.iter().enumerate() {
            let (at, live) = (index as u64, !batch.items.is_empty());
            Invalid::unless(batch.waits == lists_of[index], "a batch counts its list entries", at)?;
            let ready = usize::from(live && batch.waits == 0);
            Invalid::unless(uses[index] == ready, "a batch is ready iff it has items and no list entry", at)?;
            Invalid::unless(live || batch.points.is_empty(), "a spare batch has no points", at)?;
            Invalid::unless(live != self.spare.contains(&index), "a batch is spare iff it has no items", at)?;
        }
        let live = self.iter().count();
        Invalid::unless(live == self.batches(), "each spare batch is listed once", live as u64)?;
        let items = self.iter().map(Batch::len).sum::<usize>();
        Invalid::unless(items == self.len, "the length is the number of items", items as u64)
    }

    /// Returns the number of list entries of each batch.
    fn validate_lists(&self) -> Result<Vec<usize>, Invalid> {
        let mut lists_of = vec![0; self.batches.len()];
        let sorted = self.waiting.is_sorted_by(|a, b| a.timeline < b.timeline);
        Invalid::unless(sorted, "the lists are sorted by timeline, each once", 0)?;
        for list in &self.waiting {
            let at = list.timeline.index() as u64;
            Invalid::unless(list.entries.iter().is_sorted_by_key(|entry| entry.value), "a list is sorted", at)?;
            for entry in &list.entries {
                let point = SyncPoint::new(list.timeline, entry.value);
                let known = self.batches.get(entry.batch).is_some_and(|batch| batch.points.contains(&point));
                Invalid::unless(known, "a batch has an entry only at its points", entry.batch as u64)?;
                lists_of[entry.batch] += 1;
            }
        }
        Ok(lists_of)
    }
}

impl<T> Default for RetireQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Batch<T> {
    /// Returns the points that its items wait for, sorted by timeline, including points that have passed.
    #[must_use]
    pub fn points(&self) -> &[SyncPoint] {
        &self.points
    }

    /// Iterates over its items in the order in which they were retired.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// Number of its items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if it has no items, which is `false` for every batch from [`RetireQueue::iter`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Waiting {
    /// Returns the index after the last entry with at most `value`.
    fn end_of(&self, value: u64) -> usize {
        match self.entries.back() {
            Some(last) if last.value > value => self.entries.partition_point(|entry| entry.value <= value),
            _ => self.entries.len(),
        }
    }

    fn insert(&mut self, entry: Entry) {
        // Usually at the end, where the insertion is a push.
        self.entries.insert(self.end_of(entry.value), entry);
    }
}
