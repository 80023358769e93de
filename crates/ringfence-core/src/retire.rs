//! A queue of items that are released once their points have passed, on independent timelines.
//!
//! ```text
//!   batches, used again and again               waiting: a list for each timeline, sorted by value
//!
//!   0  { 0: 4 }          waits 1  [a b c]        timeline 0   4→0   5→2   5→3
//!   1  (spare)                                   timeline 1   8→2   9→3
//!   2  { 0: 5, 1: 8 }    waits 2  [d]
//!   3  { 0: 5, 1: 9 }    waits 2  [e f]          ready        4
//!   4  { 1: 7 }          waits 0  [g h]          spare        1
//! ```
//!
//! Items that wait for the same set share a *batch*: the drops of a frame are one or a few. A batch stands in the
//! list of each timeline that it waits for, and counts the lists that it stands in. When a timeline rises, the front
//! of its list is taken off as far as it has passed; a batch that stands in no list any more is ready. So each item
//! waits for its own set and for nothing else: a timeline that is stuck holds back no item that does not wait for it,
//! as one queue over all timelines would.
//!
//! | operation | cost |
//! |---|---|
//! | [`RetireQueue::retire`], values not falling | O(points of the set) |
//! | … of a value older than what waits | O(log batches), and moving the shorter side of a list if a batch begins |
//! | [`RetireQueue::reclaim`] | O(timelines), O(1) for each point that passed and each item released |
//! | [`RetireQueue::len`], [`RetireQueue::batches`] | O(1) |
//! | [`RetireQueue::validate`] | O(batches × points) |
//!
//! Batches, lists and their memory are kept: in steady state nothing is allocated on the host.

use crate::range::Invalid;
use crate::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// How many batches are looked at for an equal set before a new one begins.
const LOOK_BACK: usize = 4;

/// Items that are released once what uses them has passed.
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
    /// Every batch ever begun, by index. One holds items iff its index is not in `spare`.
    batches: Vec<Batch<T>>,
    /// The batches without items, to be used again.
    spare: Vec<usize>,
    /// The timelines that were ever waited for, sorted, each once.
    waiting: Vec<Waiting>,
    /// The batches that wait for nothing and hold items, in the order of their release.
    ready: VecDeque<usize>,
    /// Items in all batches.
    len: usize,
    /// The batch that was added to last, which may be gone: as a rule the next item joins it.
    latest: usize,
}

/// Items that wait for the same set.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The set, by timeline; empty while the batch is spare. A vector, as clearing one keeps its memory.
    points: Vec<SyncPoint>,
    /// In how many lists of `waiting` the batch stands: the points that have not passed as far as is known.
    waits: usize,
    /// In the order in which they were retired.
    items: VecDeque<T>,
}

/// The batches that wait for one timeline.
#[derive(Clone, Debug)]
struct Waiting {
    timeline: TimelineId,
    /// Sorted by value; of equal values, what was retired first stands first.
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: u64,
    batch: usize,
}

impl<T> RetireQueue<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { batches: Vec::new(), spare: Vec::new(), waiting: Vec::new(), ready: VecDeque::new(), len: 0, latest: 0 }
    }

    /// Puts an item in, to be released once `set` has passed; if it has already (or is empty), at the next reclaim.
    /// O(points of the set) as long as the values on a timeline do not fall.
    #[inline]
    pub fn retire(&mut self, set: &SyncSet, item: T) {
        let batch = match self.batches.get(self.latest) {
            // It still waits, so it stands in a list and joining it is what a search would come to.
            Some(latest) if latest.waits != 0 && set.is(&latest.points) => self.latest,
            _ => self.batch_for(set),
        };
        self.push(batch, item);
    }

    /// Puts items in that wait for the same set. O(points of the set + items).
    ///
    /// If the iterator panics, the items before are retired.
    pub fn retire_batch(&mut self, set: &SyncSet, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter();
        // A batch never stands empty, so none begins before there is an item.
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

    /// A batch that waits for an equal set: one of the last before the place where a new one would stand. As a rule
    /// that is the most recent; if not, drops of several frames' resources in turns still do not make a batch each.
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

    /// Releases every item whose set has passed, and no other. Gives how many. Each timeline that is waited for is
    /// read once, and a point that was seen to have passed is never asked for again: values only rise.
    ///
    /// Items that wait for equal sets come in the order in which they were retired.
    ///
    /// # Panics
    /// If `release` does. The item it was given is gone with it; all others are still here, and the next reclaim
    /// goes on with them: none is lost, none is released twice.
    pub fn reclaim(&mut self, progress: &(impl Progress + ?Sized), release: impl FnMut(T)) -> usize {
        self.reclaim_at_most(progress, usize::MAX, release)
    }

    /// As [`RetireQueue::reclaim`], but leaves what is beyond `max_items` for the next call: releases exactly the
    /// smaller of `max_items` and the number of items that may be released. What bounds the time is `release`;
    /// taking points off the lists is not counted (some nanoseconds each, once in its life).
    ///
    /// # Panics
    /// If `release` does, as [`RetireQueue::reclaim`] says.
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
            // All of the batch but its last item: it stays in its place meanwhile. The queue is whole again whenever
            // `release` is called, which may panic.
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

    /// Releases every item, passed or not: for when the device is idle, lost or gone. Gives how many.
    ///
    /// # Panics
    /// If `release` does, as [`RetireQueue::reclaim`] says; a second call goes on.
    pub fn release_all(&mut self, release: impl FnMut(T)) -> usize {
        struct EndOfTime;
        impl Progress for EndOfTime {
            fn completed(&self, _: TimelineId) -> u64 {
                u64::MAX
            }
        }
        self.reclaim(&EndOfTime, release)
    }

    /// Takes the points that have passed off the lists.
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

    /// Takes one item out. Whatever the caller does with it, panics included, the queue is whole again by then.
    fn pop_ready(&mut self) -> Option<T> {
        let &index = self.ready.front()?;
        let batch = &mut self.batches[index];
        let item = batch.items.pop_front();
        debug_assert!(item.is_some(), "a ready batch holds items");
        self.len -= 1;
        if batch.items.is_empty() {
            batch.points.clear();
            self.ready.pop_front();
            self.spare.push(index);
        }
        item
    }

    /// Items that wait or are ready.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits and nothing is ready.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Batches that hold items.
    #[must_use]
    pub const fn batches(&self) -> usize {
        self.batches.len() - self.spare.len()
    }

    /// The oldest point that is waited for on each timeline, by timeline, as of the last reclaim: what to wait for,
    /// or what is stuck. Nothing for a timeline that no item waits for.
    pub fn oldest_points(&self) -> impl Iterator<Item = SyncPoint> + '_ {
        self.waiting.iter().filter_map(|list| {
            let oldest = list.entries.front()?;
            Some(SyncPoint::new(list.timeline, oldest.value))
        })
    }

    /// The batches that hold items, in no particular order: for reports and leak hunting. O(batches).
    pub fn iter(&self) -> impl Iterator<Item = &Batch<T>> {
        self.batches.iter().filter(|batch| !batch.items.is_empty())
    }

    /// Checks every rule of the structure. O(batches × points), and allocates: for tests.
    ///
    /// # Errors
    /// The first rule that does not hold, and the index of the batch or timeline that breaks it.
    pub fn validate(&self) -> Result<(), Invalid> {
        let lists_of = self.validate_lists()?;
        let mut uses = vec![0; self.batches.len()];
        self.ready.iter().for_each(|&index| uses[index] += 1);
        for (index, batch) in self.batches.iter().enumerate() {
            let (at, live) = (index as u64, !batch.items.is_empty());
            Invalid::unless(batch.waits == lists_of[index], "a batch counts the lists it stands in", at)?;
            let ready = usize::from(live && batch.waits == 0);
            Invalid::unless(uses[index] == ready, "a batch is ready iff it has items and waits for nothing", at)?;
            Invalid::unless(live || batch.points.is_empty(), "a spare batch has no points", at)?;
            Invalid::unless(live != self.spare.contains(&index), "a batch is spare iff it has no items", at)?;
        }
        let live = self.iter().count();
        Invalid::unless(live == self.batches(), "each spare batch is listed once", live as u64)?;
        let items = self.iter().map(Batch::len).sum::<usize>();
        Invalid::unless(items == self.len, "the length is the number of items", items as u64)
    }

    /// In how many lists each batch stands.
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
                Invalid::unless(known, "a batch stands where it has a point", entry.batch as u64)?;
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
    /// The points that its items wait for, by timeline, those that have passed included.
    #[must_use]
    pub fn points(&self) -> &[SyncPoint] {
        &self.points
    }

    /// Its items, in the order in which they were retired.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// How many items it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it holds none; false of every batch that [`RetireQueue::iter`] shows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Waiting {
    /// The index after the last entry of at most `value`.
    fn end_of(&self, value: u64) -> usize {
        match self.entries.back() {
            Some(last) if last.value > value => self.entries.partition_point(|entry| entry.value <= value),
            _ => self.entries.len(),
        }
    }

    fn insert(&mut self, entry: Entry) {
        // At the end, the usual case, this is a push.
        self.entries.insert(self.end_of(entry.value), entry);
    }
}
