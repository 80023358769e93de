//! Thread caches: each thread keeps a few items that were taken from a shared pool and are not in use.
//!
//! ```text
//!   thread 1 ─▶ thread cache 0    class 0: ▒▒▒▒▒    class 1: ▒▒    …     owners: ● ● ●
//!   thread 2 ─▶ thread cache 1    class 0: ▒▒       …         │
//!                                    │ full: the older half   │ empty: a batch, each twice as large as the last
//!                                    ▼                        │
//!                                  the pool ◀─────────────────┘    slots, descriptors, bound objects, …
//! ```
//!
//! An item is a reusable object: a slot of a size class, a descriptor, or a buffer with its memory. Items of one class
//! are interchangeable: each serves any request of the class. A thread cache is usually used by one thread, so taking
//! an item out or putting one in is an exchange on a cache line that no other thread uses. A thread cache is *taken*
//! while a thread accesses it. Another thread that finds it taken uses the pool instead of waiting.
//!
//! The pool belongs to the caller. While a thread cache is taken, no item is dropped, and only this code of the caller
//! runs:
//!
//! - the iterator of [`ThreadCaches::fill`];
//! - the arguments of [`ThreadCaches::while_empty`];
//! - functions that look at, count or return an item.
//!
//! So the pool may have a lock, and the drop of an item may call the thread caches.
//!
//! # What keeps the pool alive
//!
//! An item in use keeps its pool alive, usually by a reference whose count all threads share. Taking an item and
//! putting it back should not change this count, so a thread cache also keeps references for the next users. A
//! reference is inside the item, or is a separate *owner* of type `O`; any owner can be used with any item. The pool
//! then contains references to itself. When the last handle of the pool is dropped, the pool must call
//! [`ThreadCaches::close`], which removes these references. The thread caches then remain empty.
//!
//! # Accounts
//!
//! A thread cache also has an [`Account`] with two counters that the caller defines and updates. They change in the
//! same exchange as the items, so threads do not contend for a shared counter.
//!
//! | operation | cost |
//! |---|---|
//! | [`ThreadCaches::take`], [`put`], [`put_owner`], [`ThreadCaches::put_item`] | O(1): one atomic exchange |
//! | [`ThreadCaches::wanted`], [`ThreadCaches::fill`], [`ThreadCaches::older`] | O(moved items), once per batch |
//! | [`ThreadCaches::empty_class`] | O(thread caches + items of the class) |
//! | [`ThreadCaches::sweep`], [`ThreadCaches::empty`], [`ThreadCaches::close`] | O(thread caches × classes + items) |
//! | [`ThreadCaches::count`], [`ThreadCaches::each_account`] | O(thread caches) |
//! | [`ThreadCaches::each_item`], [`ThreadCaches::validate`] | O(thread caches × classes + items) |
//!
//! Host memory is allocated for a list of pointers at creation, and for a thread cache at the first call of
//! [`ThreadCaches::wanted`] by its thread. The items of a class in a thread cache get host memory at their first use.
//! Later calls allocate none.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZero;
use core::{array, mem};
use std::sync::OnceLock;

use crate::primitive::{CachePadded, shrunk_under_miri_too};
use crate::thread_slot::thread_place;
use crate::try_cell::TryCell;
use ringfence_core::range::Invalid;

/// Maximum number of items that are moved between a thread cache and the pool in one batch.
pub const BATCH_MAX: usize = 32;
/// Maximum number of items of one class in a thread cache.
pub const ROOM_MAX: usize = 8 * BATCH_MAX;
/// Maximum number of owners in a thread cache.
const OWNERS_MAX: usize = shrunk_under_miri_too(256, 1);
/// Maximum number of thread caches. If there are more threads than thread caches, threads share them.
const CACHES_MAX: usize = 64;

/// Up to [`BATCH_MAX`] items that are moved between a thread cache and the pool. The items are stored inline, without
/// host memory.
pub struct Batch<T> {
    /// The items, then `None` in the remaining entries.
    items: array::IntoIter<Option<T>, BATCH_MAX>,
}

impl<T> Iterator for Batch<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.items.next().flatten()
    }
}

/// Returns a batch of the first [`BATCH_MAX`] items of an iterator.
pub fn batch<T>(items: impl IntoIterator<Item = T>) -> Batch<T> {
    let mut items = items.into_iter().fuse();
    Batch { items: array::from_fn(|_| items.next()).into_iter() }
}

/// The items of one class in a thread cache.
struct ClassCache<T> {
    /// The items, as a stack. The capacity limits their number: it is 0 before the first use, and after the cache was
    /// closed.
    items: Vec<T>,
    /// Number of items of the next batch.
    batch: usize,
}

/// The caller's counts in a thread cache.
#[derive(Clone, Copy, Default, Debug)]
pub struct Account {
    /// Amount of a shared resource that this thread has reserved and not used, in a unit of the caller.
    pub free: u64,
    /// Number of items that were taken out of this cache for requests.
    pub taken: u64,
}

/// The cache of one thread: items of `CLASSES` classes, owners and an account.
pub struct ThreadCache<T, O = (), const CLASSES: usize = 1> {
    classes: [ClassCache<T>; CLASSES],
    /// Owners for items that are taken later; each keeps the pool alive. Empty if `O` has size 0, because then the
    /// items keep the pool alive.
    owners: Vec<O>,
    account: Account,
    /// `true` if an item was put in or requested after the last sweep.
    is_used: bool,
    /// `true` if the cache accepts no more items.
    is_closed: bool,
}

/// A thread cache, on its own cache lines.
type PaddedCache<T, O, const CLASSES: usize> = Box<CachePadded<TryCell<ThreadCache<T, O, CLASSES>>>>;

/// All thread caches of a pool, for items of `CLASSES` classes.
///
/// ```
/// use ringfence_lockfree::thread_cache::{ROOM_MAX, ThreadCaches, batch};
///
/// let thread_caches: ThreadCaches<u32> = ThreadCaches::new([ROOM_MAX]);
/// let mut pool: Vec<u32> = (0..100).collect();
/// let mut take = || {
///     let cached = thread_caches.take(0).map(|(item, _)| item);
///     cached.or_else(|| {
///         let wanted = thread_caches.wanted(0);
///         // With the pool locked: one for the caller, and a batch.
///         let (first, mut items) = (pool.pop(), batch((0..wanted).map_while(|_| pool.pop())));
///         // With the pool unlocked. Items that do not fit return to the pool.
///         thread_caches.fill(0, &mut items);
///         pool.extend(items);
///         first
///     })
/// };
/// assert_eq!([take(), take(), take()], [Some(99), Some(98), Some(97)]);
/// assert_eq!(thread_caches.count(0), 0);
/// assert_eq!([take(), take()], [Some(96), Some(94)]);
/// assert_eq!(thread_caches.count(0), 1);
/// ```
pub struct ThreadCaches<T, O = (), const CLASSES: usize = 1> {
    /// One entry per thread cache; their number is a power of two. A thread cache is created by the first call of
    /// [`ThreadCaches::wanted`] by its thread.
    places: Box<[OnceLock<PaddedCache<T, O, CLASSES>>]>,
    /// Set before the first thread cache is created. Functions that visit all thread caches read only this flag if
    /// there is no thread cache, as in most pools.
    any: OnceLock<()>,
    /// Maximum number of items of each class in a thread cache.
    rooms: [usize; CLASSES],
}

/// Returns the number of thread caches: twice the number of threads that the machine runs at the same time, rounded up
/// to a power of two, at most [`CACHES_MAX`]. The number of threads is queried once, because the query may read files.
fn place_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        (threads * 2).clamp(1, CACHES_MAX).next_power_of_two()
    })
}

impl<T, O, const CLASSES: usize> ThreadCaches<T, O, CLASSES> {
    /// Creates a set without thread caches. A thread cache has at most `rooms[class]` items of a class.
    ///
    /// # Panics
    /// If an element of `rooms` is 0 or above [`ROOM_MAX`].
    #[must_use]
    pub fn new(rooms: [usize; CLASSES]) -> Self {
        const { assert!(size_of::<T>() > 0, "an item without bytes needs no cache") };
        assert!(rooms.iter().all(|room| (1..=ROOM_MAX).contains(room)), "a room must be 1 to {ROOM_MAX} items");
        Self { places: (0..place_count()).map(|_| OnceLock::new()).collect(), any: OnceLock::new(), rooms }
    }

    #[inline]
    fn place(&self) -> &OnceLock<PaddedCache<T, O, CLASSES>> {
        &self.places[thread_place() & (self.places.len() - 1)]
    }

    /// Returns this thread's cache, for [`put`] and [`put_owner`]. Returns `None` if the cache does not exist yet.
    #[inline]
    pub fn mine(&self) -> Option<&TryCell<ThreadCache<T, O, CLASSES>>> {
        // With one class, the code that follows is so short that a call is faster than the inlined code, which needs
        // more registers (measured).
        let place = if const { CLASSES > 1 } { self.place() } else { self.place_out_of_line() };
        place.get().map(|thread_cache| &thread_cache.0)
    }

    #[inline(never)]
    fn place_out_of_line(&self) -> &OnceLock<PaddedCache<T, O, CLASSES>> {
        self.place()
    }

    /// Takes an item out of this thread's cache, and an owner (a reference that keeps the pool alive), if there is one.
    /// Returns `None` if there is no item, if another thread accesses the cache, or if the cache does not exist.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline(always)]
    pub fn take(&self, class: usize) -> Option<(T, Option<O>)> {
        self.take_counted(class, |_, _| ()).map(|(item, owner, ())| (item, owner))
    }

    /// Does the same as [`ThreadCaches::take`]. Also calls `count` with the item and the account, and returns the
    /// result of `count`. `count` must do nothing but update the account.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline(always)]
    pub fn take_counted<R>(
        &self,
        class: usize,
        count: impl FnOnce(&T, &mut Account) -> R,
    ) -> Option<(T, Option<O>, R)> {
        self.mine()?.try_take()?.with(|thread_cache| {
            thread_cache.is_used = true;
            let item = thread_cache.classes[class].items.pop()?;
            let counted = count(&item, &mut thread_cache.account);
            Some((item, thread_cache.owners.pop(), counted))
        })
    }

    /// Calls `count` with this thread's account. Returns `None` if another thread accesses the cache, or if the cache
    /// does not exist.
    pub fn with_account<R>(&self, count: impl FnOnce(&mut Account) -> R) -> Option<R> {
        Some(self.mine()?.try_take()?.with(|thread_cache| count(&mut thread_cache.account)))
    }

    /// Calls `count` with the accounts of all thread caches. Waits for threads that access them.
    pub fn each_account(&self, mut count: impl FnMut(&mut Account)) {
        self.each().for_each(|thread_cache| thread_cache.take().with(|held| count(&mut held.account)));
    }

    /// Takes an item out of this thread's cache, but no owner. Returns `None` if there is no item, if another thread
    /// accesses the cache, or if the cache does not exist.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn take_item(&self, class: usize) -> Option<T> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.pop())
    }

    /// Takes an owner (a reference that keeps the pool alive) out of this thread's cache. Returns `None` if there is no
    /// owner, if another thread accesses the cache, or if the cache does not exist.
    pub fn take_owner(&self) -> Option<O> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.owners.pop())
    }

    /// Calls `look` with the item that [`ThreadCaches::take`] would return. Returns `None` if there is no item, if
    /// another thread accesses the cache, or if the cache does not exist.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn peek<R>(&self, class: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.last().map(look))
    }

    /// Returns the number of items that the caller should add to the cache, besides the item that the caller needs
    /// itself. Called if this thread's cache has no item of the class. The first call returns 0, because there may be
    /// no further request. The second call returns 1, and each further call twice the previous number, up to a maximum.
    /// If another thread accesses the cache, or if the cache is closed, returns 0.
    ///
    /// Creates the cache if it does not exist. Call it only while a handle of the pool exists.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn wanted(&self, class: usize) -> usize {
        let make = || {
            self.any.get_or_init(|| ());
            Box::new(CachePadded(TryCell::new(ThreadCache::new())))
        };
        let thread_cache = &self.place().get_or_init(make).0;
        let next = || {
            let Some(taken) = thread_cache.try_take() else { return Some(0) };
            taken.with(|thread_cache| {
                (!thread_cache.needs_room(class)).then(|| thread_cache.classes[class].next_batch())
            })
        };
        next().unwrap_or_else(|| {
            self.allocate_room(thread_cache, class);
            next().unwrap_or(0)
        })
    }

    /// Moves items from the iterator to this thread's cache until the cache has no more room for the class, and returns
    /// the number of moved items. Moves none if another thread accesses the cache, or if the cache is closed or does
    /// not exist. [`ThreadCaches::take`] returns the last of these items first. If `items` is passed by `&mut`, the
    /// items that do not fit remain in it.
    ///
    /// The iterator runs while the cache is taken, so it must not wait for another thread or call these thread caches.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn fill(&self, class: usize, items: impl IntoIterator<Item = T>) -> usize {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return 0 };
        taken.with(|thread_cache| {
            let held = &mut thread_cache.classes[class].items;
            let (before, free) = (held.len(), held.capacity() - held.len());
            held.extend(items.into_iter().take(free));
            held.len() - before
        })
    }

    /// Puts an item into this thread's cache. The next call of [`ThreadCaches::take`] returns it.
    ///
    /// # Errors
    /// The item, if another thread accesses the cache, if the cache is closed or full, or if this thread has no cache
    /// yet.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline]
    pub fn put_item(&self, class: usize, item: T) -> Result<(), T> {
        self.put_item_counted(class, item, |_, _| true)
    }

    /// Does the same as [`ThreadCaches::put_item`], but only if `count` returns `true`. `count` gets the account, which
    /// it may update, and the number of cached items of the class. `count` is called only if there is room.
    ///
    /// # Errors
    /// The item, if `count` returns `false`, or if [`ThreadCaches::put_item`] would fail.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline]
    pub fn put_item_counted(
        &self,
        class: usize,
        item: T,
        count: impl FnOnce(&mut Account, usize) -> bool,
    ) -> Result<(), T> {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return Err(item) };
        taken.with(move |thread_cache| {
            let items = &mut thread_cache.classes[class].items;
            if items.len() == items.capacity() || !count(&mut thread_cache.account, items.len()) {
                return Err(item);
            }
            items.push(item);
            thread_cache.is_used = true;
            Ok(())
        })
    }

    /// If this thread's cache is full of items of the class, takes the older half of them out, at most [`BATCH_MAX`].
    /// The caller returns them to the pool. Afterwards there is room for [`put`], unless another thread accesses the
    /// cache, or the cache is closed or does not exist.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn older(&self, class: usize) -> Batch<T> {
        self.older_of(class, ROOM_MAX)
    }

    /// Does the same as [`ThreadCaches::older`], but treats a cache with at least `full` items of the class as full.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn older_of(&self, class: usize, full: usize) -> Batch<T> {
        let Some(thread_cache) = self.mine() else { return batch([]) };
        let Some(taken) = thread_cache.try_take() else { return batch([]) };
        let older = |thread_cache: &mut ThreadCache<T, O, CLASSES>| {
            let items = &mut thread_cache.classes[class].items;
            let is_full = items.len() >= full.min(items.capacity());
            let count = if is_full { items.len().div_ceil(2).min(BATCH_MAX) } else { 0 };
            batch(items.drain(..count))
        };
        let older = taken.with(|thread_cache| (!thread_cache.needs_room(class)).then(|| older(thread_cache)));
        older.unwrap_or_else(|| {
            self.allocate_room(thread_cache, class);
            batch([])
        })
    }

    /// Allocates host memory for the items of a class, if the class has none yet. Host memory is allocated and freed
    /// while the cache is not taken.
    fn allocate_room(&self, thread_cache: &TryCell<ThreadCache<T, O, CLASSES>>, class: usize) {
        let mut room = Vec::with_capacity(self.rooms[class]);
        if let Some(taken) = thread_cache.try_take() {
            taken.with(|thread_cache| {
                if thread_cache.needs_room(class) {
                    mem::swap(&mut room, &mut thread_cache.classes[class].items);
                }
            });
        }
    }

    /// Takes the items out of all thread caches that were not used after the last sweep. Calls `give` with the class of
    /// each item and the item. Skips thread caches that other threads access.
    pub fn sweep(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            // A cache that is taken is in use, so it is skipped.
            let Some(taken) = thread_cache.try_take() else { continue };
            let idle = |thread_cache: &mut ThreadCache<_, _, CLASSES>| {
                if mem::take(&mut thread_cache.is_used) { None } else { thread_cache.take_batch() }
            };
            let mut out = taken.with(idle);
            while let Some((class, items)) = out {
                items.for_each(|item| give(class, item));
                out = thread_cache.try_take().and_then(|taken| taken.with(ThreadCache::take_batch));
            }
        }
    }

    /// Takes the items of one class out of all thread caches, and calls `give` with each. Waits for threads that access
    /// the thread caches.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn empty_class(&self, class: usize, mut give: impl FnMut(T)) {
        let out = |thread_cache: &mut ThreadCache<T, O, CLASSES>| {
            let items = &mut thread_cache.classes[class].items;
            let count = items.len().min(BATCH_MAX);
            (count > 0).then(|| batch(items.drain(..count)))
        };
        for thread_cache in self.each() {
            while let Some(items) = thread_cache.take().with(out) {
                items.for_each(&mut give);
            }
        }
    }

    /// Takes the items out of all thread caches. Calls `give` with the class of each item and the item. Waits for
    /// threads that access the thread caches.
    pub fn empty(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            while let Some((class, items)) = thread_cache.take().with(ThreadCache::take_batch) {
                items.for_each(|item| give(class, item));
            }
        }
    }

    /// Takes the items out of all thread caches, as [`ThreadCaches::empty`] does, then runs `work` while no other
    /// thread can access the thread caches. So `give` and `work` must not call these thread caches, or wait for a
    /// thread that waits for one of them.
    pub fn while_empty(&self, give: &mut dyn FnMut(usize, T), work: &mut dyn FnMut()) {
        // Takes the first of the thread caches once it is empty, then calls itself for the others.
        fn take_next<T, O, const CLASSES: usize>(
            thread_caches: &mut dyn Iterator<Item = &TryCell<ThreadCache<T, O, CLASSES>>>,
            give: &mut dyn FnMut(usize, T),
            work: &mut dyn FnMut(),
        ) {
            let Some(thread_cache) = thread_caches.next() else { return work() };
            loop {
                let out = thread_cache.take().with(|held| {
                    let out = held.take_batch();
                    if out.is_none() {
                        take_next(thread_caches, give, work);
                    }
                    out
                });
                let Some((class, items)) = out else { return };
                items.for_each(|item| give(class, item));
            }
        }
        take_next(&mut self.each(), give, work);
    }

    /// Takes all items and owners out. Calls `give` with the class of each item and the item, and drops the owners. The
    /// thread caches accept no items or owners afterwards. The caller must keep the pool alive during the call.
    pub fn close(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            let (items, owners) = thread_cache.take().with(ThreadCache::close);
            for (class, items) in items.into_iter().enumerate() {
                items.into_iter().for_each(|item| give(class, item));
            }
            drop(owners);
        }
    }

    /// Returns the number of items of a class in all thread caches. Waits for threads that access them.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn count(&self, class: usize) -> usize {
        let held = |thread_cache: &mut ThreadCache<T, O, CLASSES>| thread_cache.classes[class].items.len();
        self.each().map(|thread_cache| thread_cache.take().with(held)).sum()
    }

    /// Calls `look` with the class of each item and the item. This thread has exclusive access to a thread cache while
    /// `look` runs, so `look` must not call these thread caches. Waits for threads that access the thread caches.
    pub fn each_item(&self, mut look: impl FnMut(usize, &T)) {
        for thread_cache in self.each() {
            thread_cache.take().with(|held| {
                let classes = held.classes.iter().enumerate();
                classes.for_each(|(class, held)| held.items.iter().for_each(|item| look(class, item)));
            });
        }
    }

    /// Checks all rules of the structure, and calls `check` for each item, while the item's thread cache is taken.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self, mut check: impl FnMut(usize, &T) -> Result<(), Invalid>) -> Result<(), Invalid> {
        self.each().try_for_each(|thread_cache| {
            thread_cache.take().with(|thread_cache| thread_cache.validate(&self.rooms, &mut check))
        })
    }

    fn each(&self) -> impl Iterator<Item = &TryCell<ThreadCache<T, O, CLASSES>>> {
        let places = self.any.get().map_or([].as_slice(), |()| &self.places);
        places.iter().filter_map(|place| place.get().map(|thread_cache| &thread_cache.0))
    }
}

/// Puts an owner (a reference that keeps the pool alive) into a thread cache. A later [`ThreadCaches::take`] returns
/// it.
///
/// # Safety
/// The owner must keep the thread cache alive, also while the owner is in the cache.
///
/// # Errors
/// The owner, if another thread accesses the thread cache, or if the thread cache is closed or has no room for an
/// owner.
#[inline]
pub unsafe fn put_owner<T, O, const CLASSES: usize>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    owner: O,
) -> Result<(), O> {
    // SAFETY: the caller guarantees that the owner keeps the thread cache alive.
    let Some(taken) = (unsafe { &*thread_cache }).try_take() else { return Err(owner) };
    taken.with(move |thread_cache| {
        if thread_cache.owners.len() == thread_cache.owners.capacity() {
            return Err(owner);
        }
        thread_cache.owners.push(owner);
        Ok(())
    })
}

/// Puts an item and an owner into a thread cache. `item` must do nothing but return the item, and is called only if
/// there is room for the item. If there is no room for the owner, drops it.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// The item or the owner must keep the thread cache alive, also while the item and the owner are in the cache.
///
/// # Errors
/// `item` and the owner, if another thread accesses the thread cache, or if the thread cache is closed or has no room
/// for the item.
#[inline]
pub unsafe fn put<T, O, const CLASSES: usize, I: FnOnce() -> T>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    class: usize,
    item: I,
    owner: O,
) -> Result<(), (I, O)> {
    // SAFETY: the caller guarantees that the item or the owner keeps the thread cache alive.
    unsafe { put_counted(thread_cache, class, item, owner, |_, _| true) }
}

/// Does the same as [`put`], but only if `count` returns `true`. `count` gets the account, which it may update, and the
/// number of cached items of the class.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// The requirements of [`put`].
///
/// # Errors
/// `item` and the owner, if `count` returns `false`, or if [`put`] would fail.
#[inline]
pub unsafe fn put_counted<T, O, const CLASSES: usize, I: FnOnce() -> T>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    class: usize,
    item: I,
    owner: O,
    count: impl FnOnce(&mut Account, usize) -> bool,
) -> Result<(), (I, O)> {
    // SAFETY: until they are in the cache, the item or the owner keeps the thread cache alive. After that, another
    // thread can take them out only once this thread has released the taken flag, and this thread does not access the
    // thread cache after the release.
    let Some(taken) = (unsafe { &*thread_cache }).try_take() else { return Err((item, owner)) };
    taken.with(move |thread_cache| {
        let items = &mut thread_cache.classes[class].items;
        if items.len() == items.capacity() || !count(&mut thread_cache.account, items.len()) {
            return Err((item, owner));
        }
        items.push(item());
        thread_cache.is_used = true;
        thread_cache.put_owner(owner);
        Ok(())
    })
}

impl<T, O, const CLASSES: usize> ThreadCache<T, O, CLASSES> {
    fn new() -> Self {
        Self {
            classes: array::from_fn(|_| ClassCache { items: Vec::new(), batch: 0 }),
            owners: Vec::with_capacity(if size_of::<O>() > 0 { OWNERS_MAX } else { 0 }),
            account: Account::default(),
            is_used: true,
            is_closed: false,
        }
    }

    /// Returns `true` if no host memory was allocated for the items of the class yet, and the cache is not closed.
    fn needs_room(&self, class: usize) -> bool {
        !self.is_closed && self.classes[class].items.capacity() == 0
    }

    #[inline]
    fn put_owner(&mut self, owner: O) {
        if size_of::<O>() > 0 && self.owners.len() < self.owners.capacity() {
            self.owners.push(owner);
        }
        // Otherwise the owner is dropped. It is not the last reference, because the cache contains others, so the drop
        // only decrements the reference count.
    }

    /// Takes a batch of items of one class out, and returns it with the class. Returns `None` if there are no items.
    /// Resets the size of the next batch to 0 for each class up to the returned one, or for all classes.
    fn take_batch(&mut self) -> Option<(usize, Batch<T>)> {
        self.classes.iter_mut().enumerate().find_map(|(class, ClassCache { items, batch: next })| {
            *next = 0;
            let count = items.len().min(BATCH_MAX);
            (count > 0).then(|| (class, batch(items.drain(..count))))
        })
    }

    fn close(&mut self) -> ([Vec<T>; CLASSES], Vec<O>) {
        self.is_closed = true;
        (self.classes.each_mut().map(|class| mem::take(&mut class.items)), mem::take(&mut self.owners))
    }

    fn validate(
        &self,
        rooms: &[usize; CLASSES],
        check: &mut impl FnMut(usize, &T) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        for (class, (ClassCache { items, .. }, room)) in self.classes.iter().zip(rooms).enumerate() {
            let count = items.len() as u64;
            Invalid::unless(items.len() <= *room, "a class of a thread cache is within its room", count)?;
            Invalid::unless(!self.is_closed || items.is_empty(), "a closed thread cache is empty", count)?;
            items.iter().try_for_each(|item| check(class, item))?;
        }
        let owners = self.owners.len() as u64;
        Invalid::unless(!self.is_closed || owners == 0, "a closed thread cache keeps no owner", owners)
    }
}

impl<T> ClassCache<T> {
    /// Returns the size of the next batch, and doubles it: 0 at first, then 1, 2, 4 and so on, up to half of the
    /// capacity and at most [`BATCH_MAX`]. Returns 0 if the capacity is 0.
    fn next_batch(&mut self) -> usize {
        if self.items.capacity() == 0 {
            return 0;
        }
        let next = (self.batch * 2).clamp(1, (self.items.capacity() / 2).clamp(1, BATCH_MAX));
        mem::replace(&mut self.batch, next)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, any(loom, miri)))]
mod models;
