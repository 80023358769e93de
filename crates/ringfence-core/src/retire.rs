//! A queue of items. Each item waits for points on one or several timelines, and is released once all of them have
//! passed.
//!
//! ```text
//!   batches, by index                            waiting: a list per timeline of value→batch, sorted by value
//!
//!   0  { 0: 4 }          waits 1  [a b c]        timeline 0   4→0   5→2   5→3
//!   1  (spare)                                   timeline 1   8→2   9→3
//!   2  { 0: 5, 1: 8 }    waits 2  [d]
//!   3  { 0: 5, 1: 9 }    waits 2  [e f]          ready        4
//!   4  { 1: 7 }          waits 0  [g h]          spare        1
//! ```
//!
//! Items that wait for the same set of points share a *batch*: the objects that are dropped in a frame form one batch
//! or a few. A batch has an entry in the list of each timeline that it waits for, and counts these entries (`waits`).
//! When the value of a timeline has risen, `reclaim` removes the entries up to this value from the front of its list.
//! When a batch has no entry left, its items are ready. If a timeline does not advance, it delays only the items that
//! wait for it; a single queue for all timelines would delay all items.
//!
//! | operation | cost |
//! |---|---|
//! | [`RetireQueue::retire`], if the values on each timeline do not decrease | O(points of the set · log timelines) |
//! | … with a value below a waiting one | O(log batches) more; a new batch also moves the shorter side of a list |
//! | [`RetireQueue::reclaim`] | O(timelines), plus O(1) for each point that passed and each item that is released |
//! | [`RetireQueue::len`], [`RetireQueue::batches`] | O(1) |
//! | [`RetireQueue::validate`] | O(batches² + batches · points²) |
//!
//! Batches and lists are reused with their memory, so no host memory is allocated in steady state.

use crate::range::Invalid;
use crate::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of batches that are compared with the set of a new item before a new batch begins.
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
    /// All batches, by index. A batch is spare if and only if it has no items.
    batches: Vec<Batch<T>>,
    /// Indices of the spare batches, for reuse.
    spare: Vec<usize>,
    /// One list for each timeline that an item has ever waited for, sorted by timeline.
    waiting: Vec<Waiting>,
    /// Indices of the ready batches: they have items, and all their points have passed. The first one is released
    /// first.
    ready: VecDeque<usize>,
    /// Number of items in all batches.
    len: usize,
    /// Index of the batch that last received an item. Usually the next item waits for the same set. The batch may have
    /// become spare.
    latest: usize,
}

/// Items that wait for the same set.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The points of the set, sorted by timeline; empty while the batch is spare. A vector, because it keeps its memory
    /// when it is cleared.
    points: Vec<SyncPoint>,
    /// Number of the points that still have an entry in `waiting`.
    waits: usize,
    /// The items, in the order in which they were retired.
    items: VecDeque<T>,
}

/// Batches that wait for one timeline.
#[derive(Clone, Debug)]
struct Waiting {
    timeline: TimelineId,
    /// The entries, sorted by value, and by insertion if their values are equal.
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

    /// Adds an item that is released once all points of `set` have passed. If the set is empty or its points have
    /// passed already, the next call of [`RetireQueue::reclaim`] releases the item. If the values on each timeline do
    /// not decrease from call to call, O(points of the set · log timelines).
    #[inline]
    pub fn retire(&mut self, set: &SyncSet, item: T) {
        let batch = match self.batches.get(self.latest) {
            // The batch still waits, so it is not spare. A search would find it too.
            Some(latest) if latest.waits != 0 && set.is(&latest.points) => self.latest,
            _ => self.batch_for(set),
        };
        self.push(batch, item);
    }

    /// Adds items that wait for the same set. O(items), plus the cost of one call of [`RetireQueue::retire`].
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

    /// Returns a batch that waits for an equal set. In the list of the set's first timeline, compares only the last
    /// [`LOOK_BACK`] batches before the position of a new one; usually the last of them is equal. Several are compared
    /// because objects of different frames can be dropped alternately; otherwise, each of these objects would begin a
    /// new batch. If the set is empty, compares only the last ready batch.
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

    /// Releases exactly the items whose points have all passed, and returns their number. For each timeline with
    /// waiting items, reads the progress once. A point that has passed is not checked again, because values only rise.
    ///
    /// Items with equal sets are released in the order in which they were retired.
    ///
    /// # Panics
    /// If `release` panics. The item that `release` received is then lost. All other items are still queued, and the
    /// next call continues with them. No item is released twice.
    pub fn reclaim(&mut self, progress: &(impl Progress + ?Sized), release: impl FnMut(T)) -> usize {
        self.reclaim_at_most(progress, usize::MAX, release)
    }

    /// Does the same as [`RetireQueue::reclaim`] for at most `max_items` items; the next call continues. This limits
    /// the time that is spent in `release`. The removal of passed points from the lists is not limited; it takes some
    /// nanoseconds per point, once for each point.
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
            // Releases all items of the batch except the last one; the batch remains ready meanwhile. The queue must be
            // consistent at each call of `release`, because `release` may panic.
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

    /// Releases every item, even if its points have not passed, and returns the number of items. Call it only if the
    /// device is idle, lost or destroyed.
    ///
    /// # Panics
    /// If `release` panics, as in [`RetireQueue::reclaim`].
    pub fn release_all(&mut self, release: impl FnMut(T)) -> usize {
        struct EndOfTime;
        impl Progress for EndOfTime {
            fn completed(&self, _: TimelineId) -> u64 {
                u64::MAX
            }
        }
        self.reclaim(&EndOfTime, release)
    }

    /// Removes the entries of passed points from the lists, and marks batches without entries as ready.
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

    /// Removes one item of the first ready batch and returns it. The queue is consistent afterwards, so the caller may
    /// panic.
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

    /// Returns the number of items that are not yet released.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the queue has no item.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of batches with items.
    #[must_use]
    pub const fn batches(&self) -> usize {
        self.batches.len() - self.spare.len()
    }

    /// Iterates over the timelines that items wait for, in order, and returns the oldest point on each. A point that
    /// has passed since the last reclaim is still included. A caller that needs memory waits for these points.
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

    /// Checks all rules of the structure, for tests. O(batches² + batches · points²); allocates host memory.
    ///
    /// # Errors
    /// The first violated rule.
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
    /// Returns all points that the items of the batch were retired with, sorted by timeline. Some may have passed.
    #[must_use]
    pub fn points(&self) -> &[SyncPoint] {
        &self.points
    }

    /// Iterates over the items in the order in which they were retired.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if the batch has no items. Batches from [`RetireQueue::iter`] always have items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Waiting {
    /// Returns the index after the last entry with a value of at most `value`.
    fn end_of(&self, value: u64) -> usize {
        match self.entries.back() {
            Some(last) if last.value > value => self.entries.partition_point(|entry| entry.value <= value),
            _ => self.entries.len(),
        }
    }

    fn insert(&mut self, entry: Entry) {
        // Usually inserts at the end, in O(1).
        self.entries.insert(self.end_of(entry.value), entry);
    }
}
