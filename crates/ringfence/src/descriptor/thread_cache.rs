//! The thread cache of descriptors: for each thread a few single slots that are taken already and belong to no descriptor yet.
//!
//! ```text
//!   thread 1 ─▶ thread cache 0   ▢▢▢▢▢      take, put: a pop, a push
//!   thread 2 ─▶ thread cache 1   ▢▢            │ empty: a batch, each time twice as many
//!                                       │ full: the older half
//!                                       ▼
//!                                     the slots of the heap, under its lock
//! ```
//!
//! A thread cache is one thread's, mostly: to take a slot out and to put one in is an exchange on a line that no other thread
//! wants. No thread waits for a thread cache: one that finds it taken goes to the lock.
//!
//! What lies in a thread cache keeps the heap alive, as each descriptor does, so that neither costs a count that all threads
//! share. That is a circle, which [`ThreadCaches::close`] breaks when the last handle of the heap goes: from then on thread caches
//! stay empty.
//!
//! | operation | cost |
//! |---|---|
//! | [`ThreadCaches::take`], [`put`] | O(1): one atomic exchange |
//! | [`ThreadCaches::sweep`], [`ThreadCaches::close`], [`ThreadCaches::len`] | O(thread caches), and what is given back |

use std::num::NonZero;
use std::sync::OnceLock;

use ringfence_core::range::Invalid;
use smallvec::SmallVec;

use ringfence_memory::extend::{TryCell, thread_place};

/// So many items a thread cache holds at the most.
const ROOM: usize = 64;
const CACHES_MAX: usize = 64;

/// What is moved at once: at the most all of a thread cache.
pub(super) type Batch<T> = SmallVec<[T; ROOM]>;

/// What one thread has cached.
pub(super) struct ThreadCache<T> {
    /// The last goes first.
    items: Vec<T>,
    /// How many may lie here: [`ROOM`], and 0 once nothing comes in any more.
    room: usize,
    /// How many the next batch has.
    batch: usize,
    /// Since the last sweep.
    is_used: bool,
}

/// A thread cache on cache lines of its own.
#[repr(align(128))]
struct Apart<T>(TryCell<ThreadCache<T>>);

/// The thread caches of a heap.
pub(super) struct ThreadCaches<T> {
    /// A power of two of places; a thread cache is made when its thread first allocates.
    places: Box<[OnceLock<Box<Apart<T>>>]>,
}

impl<T> ThreadCaches<T> {
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let places = (threads * 2).clamp(1, CACHES_MAX).next_power_of_two();
        Self { places: (0..places).map(|_| OnceLock::new()).collect() }
    }

    fn place(&self) -> &OnceLock<Box<Apart<T>>> {
        &self.places[thread_place() & (self.places.len() - 1)]
    }

    /// This thread's thread cache, if there is one.
    #[inline]
    pub(super) fn mine(&self) -> Option<&TryCell<ThreadCache<T>>> {
        self.place().get().map(|thread_cache| &thread_cache.0)
    }

    /// An item of this thread's thread cache.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        self.mine()?.try_take()?.with(|thread_cache| {
            thread_cache.is_used = true;
            thread_cache.items.pop()
        })
    }

    /// How many items this thread's thread cache, which is empty, should be given; it is made if need be. Only while a handle of
    /// the heap lives.
    #[cold]
    pub(super) fn wanted(&self) -> usize {
        let thread_cache = self.place().get_or_init(|| Box::new(Apart(TryCell::new(ThreadCache::new()))));
        let taken = thread_cache.0.try_take();
        taken.map_or(0, |taken| taken.with(ThreadCache::next_batch))
    }

    /// Puts items into this thread's thread cache; leaves those that do not fit, or all if it is taken.
    #[cold]
    pub(super) fn fill(&self, items: &mut Batch<T>) {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return };
        taken.with(|thread_cache| {
            let free = thread_cache.room.saturating_sub(thread_cache.items.len());
            thread_cache.items.extend(items.drain(..free.min(items.len())));
        });
    }

    /// Takes the older half out of this thread's thread cache, if it is full.
    #[cold]
    pub(super) fn older(&self) -> Batch<T> {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return Batch::new() };
        taken.with(|thread_cache| {
            let older = if thread_cache.items.len() < thread_cache.room { 0 } else { thread_cache.items.len() / 2 };
            thread_cache.items.drain(..older).collect()
        })
    }

    /// Takes out what lies in thread caches that no thread has used since the last time.
    pub(super) fn sweep(&self, mut each: impl FnMut(T)) {
        for thread_cache in self.each() {
            // One that is taken is in use.
            let Some(taken) = thread_cache.try_take() else { continue };
            let mut idle =
                taken.with(
                    |thread_cache| {
                        if std::mem::take(&mut thread_cache.is_used) { Batch::new() } else { thread_cache.empty() }
                    },
                );
            idle.drain(..).for_each(&mut each);
        }
    }

    /// Takes everything out.
    pub(super) fn empty(&self, mut each: impl FnMut(T)) {
        self.each().for_each(|thread_cache| thread_cache.take().with(ThreadCache::empty).drain(..).for_each(&mut each));
    }

    /// Takes everything out, and lets nothing in any more.
    pub(super) fn close(&self, mut each: impl FnMut(T)) {
        for thread_cache in self.each() {
            let mut all = thread_cache.take().with(|thread_cache| {
                thread_cache.room = 0;
                thread_cache.empty()
            });
            all.drain(..).for_each(&mut each);
        }
    }

    /// Items in all thread caches.
    pub(super) fn len(&self) -> usize {
        self.each().map(|thread_cache| thread_cache.take().with(|thread_cache| thread_cache.items.len())).sum()
    }

    /// Looks at each item.
    pub(super) fn validate(&self, mut check: impl FnMut(&T) -> Result<(), Invalid>) -> Result<(), Invalid> {
        self.each().try_for_each(|thread_cache| {
            thread_cache.take().with(|thread_cache| {
                let held = thread_cache.items.len();
                Invalid::unless(held <= thread_cache.room, "a thread_cache holds no more than its room", held as u64)?;
                thread_cache.items.iter().try_for_each(&mut check)
            })
        })
    }

    fn each(&self) -> impl Iterator<Item = &TryCell<ThreadCache<T>>> {
        self.places.iter().filter_map(|place| place.get().map(|thread_cache| &thread_cache.0))
    }
}

/// Puts an item into a thread cache; gives it back if the thread cache is taken, full or closed.
///
/// # Safety
/// `item` keeps the thread cache alive: as long as it lies there, and wherever else it is.
#[inline]
pub(super) unsafe fn put<T>(thread_cache: *const TryCell<ThreadCache<T>>, item: T) -> Result<(), T> {
    // SAFETY: the item keeps the thread cache until it lies in it. From then on the taken flag does: the thread that takes the item out,
    // and with it what may be the last to keep the thread cache, takes the flag first. Nothing follows the giving back.
    let Some(taken) = (unsafe { &*thread_cache }).try_take() else { return Err(item) };
    taken.with(|thread_cache| {
        if thread_cache.items.len() >= thread_cache.room {
            return Err(item);
        }
        thread_cache.is_used = true;
        thread_cache.items.push(item);
        Ok(())
    })
}

impl<T> ThreadCache<T> {
    fn new() -> Self {
        Self { items: Vec::with_capacity(ROOM), room: ROOM, batch: 0, is_used: true }
    }

    /// None for the first item that a thread takes: it may stay the only one.
    fn next_batch(&mut self) -> usize {
        let next = (self.batch * 2).clamp(1, ROOM / 2);
        std::mem::replace(&mut self.batch, next)
    }

    fn empty(&mut self) -> Batch<T> {
        self.batch = 0;
        self.items.drain(..).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn put_mine(thread_caches: &ThreadCaches<u32>, item: u32) -> Result<(), u32> {
        let thread_cache = std::ptr::from_ref(thread_caches.mine().expect("it was made"));
        // SAFETY: `thread_caches` is borrowed all the time.
        unsafe { put(thread_cache, item) }
    }

    #[test]
    fn a_stock_is_filled_in_growing_batches_and_gives_its_last_first() {
        let thread_caches = ThreadCaches::new();
        assert!(thread_caches.mine().is_none() && thread_caches.take().is_none());
        let wanted: Vec<_> = (0..8).map(|_| thread_caches.wanted()).collect();
        assert_eq!(wanted, [0, 1, 2, 4, 8, 16, 32, 32]);
        let mut batch: Batch<u32> = (0..32).collect();
        thread_caches.fill(&mut batch);
        assert!(batch.is_empty());
        assert_eq!((thread_caches.len(), thread_caches.take(), thread_caches.take()), (32, Some(31), Some(30)));
    }

    #[test]
    fn a_full_stock_refuses_and_hands_its_older_half_over() {
        let thread_caches = ThreadCaches::new();
        thread_caches.wanted();
        (0..ROOM as u32).for_each(|item| put_mine(&thread_caches, item).expect("room"));
        assert_eq!(put_mine(&thread_caches, 99), Err(99));
        let older = thread_caches.older();
        assert_eq!(older.as_slice(), (0..ROOM as u32 / 2).collect::<Vec<_>>());
        let mut too_many: Batch<u32> = (100..140).collect();
        thread_caches.fill(&mut too_many);
        assert_eq!((too_many.len(), thread_caches.len()), (8, ROOM));
        thread_caches.validate(|_| Ok(())).expect("sound");
    }

    #[test]
    fn a_stock_is_swept_when_it_was_idle_and_a_closed_one_stays_empty() {
        let thread_caches = ThreadCaches::new();
        thread_caches.wanted();
        put_mine(&thread_caches, 1).expect("room");
        let mut out = Vec::new();
        thread_caches.sweep(|item| out.push(item));
        assert_eq!(out, Vec::<u32>::new(), "it was used since the last time");
        thread_caches.sweep(|item| out.push(item));
        assert_eq!(out, [1]);
        put_mine(&thread_caches, 2).expect("room");
        thread_caches.close(|item| out.push(item));
        assert_eq!((out.as_slice(), put_mine(&thread_caches, 3)), ([1, 2].as_slice(), Err(3)));
        thread_caches.fill(&mut [4].into_iter().collect());
        assert_eq!((thread_caches.len(), thread_caches.take()), (0, None));
    }

    /// What lies in a thread cache is all that keeps it, as with descriptors: threads put and take, and one closes.
    #[test]
    fn whoever_closes_ends_the_circle_whatever_threads_do() {
        struct Item(Arc<ThreadCaches<Item>>);
        for _ in 0..200 {
            let thread_caches = Arc::new(ThreadCaches::new());
            let gone = Arc::downgrade(&thread_caches);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let thread_caches = Arc::clone(&thread_caches);
                    scope.spawn(move || {
                        thread_caches.wanted();
                        let mut held: Vec<_> = (0..20).map(|_| Item(Arc::clone(&thread_caches))).collect();
                        drop(thread_caches);
                        while let Some(item) = held.pop() {
                            let thread_cache = item.0.mine().map(std::ptr::from_ref);
                            // SAFETY: the item keeps the thread caches.
                            drop(thread_cache.and_then(|thread_cache| unsafe { put(thread_cache, item) }.err()));
                        }
                    });
                }
                thread_caches.close(drop);
            });
            // A thread cache that was made after the closing: in a heap no thread makes one without a handle.
            thread_caches.close(drop);
            drop(thread_caches);
            assert!(gone.upgrade().is_none());
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// All that keeps the thread caches, as a descriptor keeps its heap: `loom` finds one that is never dropped, and a thread cache that
    /// is used after.
    struct Item(Arc<ThreadCaches<Item>>);

    fn put_back(item: Item) {
        let thread_cache = item.0.mine().map(std::ptr::from_ref);
        // SAFETY: the item keeps the thread caches.
        drop(thread_cache.and_then(|thread_cache| unsafe { put(thread_cache, item) }.err()));
    }

    #[test]
    fn whoever_closes_ends_the_circle_whatever_the_other_does() {
        loom::model(|| {
            let thread_caches = Arc::new(ThreadCaches::new());
            thread_caches.wanted();
            let item = Item(Arc::clone(&thread_caches));
            let other = thread::spawn(move || put_back(item));
            put_back(Item(Arc::clone(&thread_caches)));
            thread_caches.close(drop);
            drop(thread_caches);
            other.join().unwrap();
        });
    }

    #[test]
    fn an_item_is_had_by_one_at_a_time() {
        loom::model(|| {
            let thread_caches = Arc::new(ThreadCaches::new());
            thread_caches.wanted();
            thread_caches.fill(&mut [1_u32].into_iter().collect());
            let theirs = Arc::clone(&thread_caches);
            let other = thread::spawn(move || theirs.take());
            let mut found = Vec::new();
            found.extend(thread_caches.take());
            thread_caches.sweep(|item| found.push(item));
            found.extend(other.join().unwrap());
            thread_caches.empty(|item| found.push(item));
            assert_eq!(found, [1]);
        });
    }
}
