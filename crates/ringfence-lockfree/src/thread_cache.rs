//! Thread caches: each thread keeps a few items of a shared pool, which are taken from the pool but not in use yet.
//!
//! ```text
//!   thread 1 ─▶ thread cache 0    class 0: ▒▒▒▒▒    class 1: ▒▒    …     owners: ● ● ●
//!   thread 2 ─▶ thread cache 1    class 0: ▒▒       …         │
//!                                    │ full: the older half   │ empty: a batch, each time twice as many
//!                                    ▼                        │
//!                                  the pool ◀─────────────────┘    slots, descriptors, bound objects, …
//! ```
//!
//! An item is a reusable object: a slot of a size class, a descriptor, or a buffer with its memory. Items of one class
//! are equal: each serves any request of the class. A thread cache is usually used by one thread: taking an item out or
//! putting one in is an exchange on a cache line that no other thread uses. No thread waits for a thread cache: if it
//! is taken, the thread uses the pool.
//!
//! The pool belongs to the caller. None of its code runs while a thread cache is taken, except the arguments of
//! [`ThreadCaches::fill`], [`ThreadCaches::while_empty`] and [`ThreadCaches::validate`]. So the pool may have a lock,
//! and dropping its items may call the thread caches.
//!
//! # What keeps the pool alive
//!
//! An item in use keeps its pool alive, often by a reference count that all threads share. Taking and putting must not
//! change that count, so a thread cache also keeps the reference for the next user. The reference is inside the item,
//! or beside it as an *owner* of type `O`; any owner serves any item. This is a reference cycle.
//! [`ThreadCaches::close`] breaks it when the last handle of the pool is dropped: from then on, thread caches stay
//! empty.
//!
//! # Accounts
//!
//! Beside its items, a thread cache keeps an [`Account`] with the caller's counts. They change with the items, in the
//! same exchange, so threads do not contend for a shared counter.
//!
//! | operation | cost |
//! |---|---|
//! | [`ThreadCaches::take`], [`put`], [`put_owner`], [`ThreadCaches::put_item`] | O(1): one atomic exchange |
//! | [`ThreadCaches::wanted`], [`ThreadCaches::fill`], [`ThreadCaches::older`] | O(moved items), once a batch |
//! | [`ThreadCaches::empty_class`] | O(thread caches + items of the class) |
//! | [`ThreadCaches::sweep`], [`ThreadCaches::empty`], [`ThreadCaches::close`] | O(thread caches × classes + items) |
//! | [`ThreadCaches::count`], [`ThreadCaches::each_account`] | O(thread caches) |
//! | [`ThreadCaches::each_item`], [`ThreadCaches::validate`] | O(items) |
//!
//! Host memory: a list of pointers at creation, a thread cache at its thread's first request, and the room of a class
//! at its first use. Later calls allocate none.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZero;
use core::{array, mem};
use std::sync::OnceLock;

use crate::primitive::{Apart, shrunk_under_miri_too};
use crate::thread_slot::thread_place;
use crate::try_cell::TryCell;
use ringfence_core::range::Invalid;

/// Largest number of items that are moved at once.
pub const BATCH_MAX: usize = 32;
/// Largest number of items of one class in a thread cache.
pub const ROOM_MAX: usize = 8 * BATCH_MAX;
/// Largest number of owners in a thread cache.
const OWNERS_MAX: usize = shrunk_under_miri_too(256, 1);
/// Largest number of thread caches: with more threads, threads share them.
const CACHES_MAX: usize = 64;

/// Up to [`BATCH_MAX`] items that are being moved between a thread cache and the pool. Uses no host memory.
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

/// Takes the first [`BATCH_MAX`] items out of an iterator.
pub fn batch<T>(items: impl IntoIterator<Item = T>) -> Batch<T> {
    let mut items = items.into_iter().fuse();
    Batch { items: array::from_fn(|_| items.next()).into_iter() }
}

/// The items of one class in a thread cache.
struct ClassCache<T> {
    /// Used as a stack. The capacity limits the number of items: it is 0 before the first use, and after the cache is
    /// closed.
    items: Vec<T>,
    /// Size of the next batch.
    batch: usize,
}

/// The caller's counts in a thread cache.
#[derive(Clone, Copy, Default, Debug)]
pub struct Account {
    /// Amount of a shared resource that this thread has reserved and not used.
    pub free: u64,
    /// Number of items that were taken out of this cache.
    pub taken: u64,
}

/// The cache of one thread. Accessed only through [`ThreadCaches`], [`put`] and [`put_owner`].
pub struct ThreadCache<T, O = (), const CLASSES: usize = 1> {
    classes: [ClassCache<T>; CLASSES],
    /// References that keep the pool alive, for the next users. Not stored if the type has no bytes.
    owners: Vec<O>,
    account: Account,
    /// `true` if the cache was used since the last sweep.
    is_used: bool,
    /// `true` if the cache accepts no more items.
    is_closed: bool,
}

/// A thread cache on its own cache lines.
type OwnLines<T, O, const CLASSES: usize> = Box<Apart<TryCell<ThreadCache<T, O, CLASSES>>>>;

/// The thread caches of a pool, with items of `CLASSES` classes.
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
    /// One entry per thread cache, a power of two of them. A thread cache is created at its thread's first request.
    places: Box<[OnceLock<OwnLines<T, O, CLASSES>>]>,
    /// Set before the first thread cache is created. Most pools that are swept never have one.
    any: OnceLock<()>,
    /// Largest number of items in a thread cache, by class.
    rooms: [usize; CLASSES],
}

/// Returns twice the number of the machine's threads. The number is read once, because that may read files.
fn place_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        (threads * 2).clamp(1, CACHES_MAX).next_power_of_two()
    })
}

impl<T, O, const CLASSES: usize> ThreadCaches<T, O, CLASSES> {
    /// Creates a set without thread caches. Each thread cache will have at most `rooms` items, by class.
    ///
    /// # Panics
    /// If a room is 0 or above [`ROOM_MAX`].
    #[must_use]
    pub fn new(rooms: [usize; CLASSES]) -> Self {
        const { assert!(size_of::<T>() > 0, "an item without bytes needs no cache") };
        assert!(rooms.iter().all(|room| (1..=ROOM_MAX).contains(room)), "a room must be 1 to {ROOM_MAX} items");
        Self { places: (0..place_count()).map(|_| OnceLock::new()).collect(), any: OnceLock::new(), rooms }
    }

    #[inline]
    fn place(&self) -> &OnceLock<OwnLines<T, O, CLASSES>> {
        &self.places[thread_place() & (self.places.len() - 1)]
    }

    /// Returns this thread's cache, if it exists, for [`put`].
    #[inline]
    pub fn mine(&self) -> Option<&TryCell<ThreadCache<T, O, CLASSES>>> {
        // Measured: with one class, the code that follows is so short that a call costs less than the registers of
        // inlining.
        let place = if const { CLASSES > 1 } { self.place() } else { self.place_apart() };
        place.get().map(|thread_cache| &thread_cache.0)
    }

    #[inline(never)]
    fn place_apart(&self) -> &OnceLock<OwnLines<T, O, CLASSES>> {
        self.place()
    }

    /// Takes an item out of this thread's cache, and an owner, if one is cached.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline(always)]
    pub fn take(&self, class: usize) -> Option<(T, Option<O>)> {
        self.take_counted(class, |_, _| ()).map(|(item, owner, ())| (item, owner))
    }

    /// Like [`ThreadCaches::take`]. `count` updates the account and must do nothing else.
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

    /// Calls `count` with this thread's account. `None` if its cache is taken or does not exist.
    pub fn with_account<R>(&self, count: impl FnOnce(&mut Account) -> R) -> Option<R> {
        Some(self.mine()?.try_take()?.with(|thread_cache| count(&mut thread_cache.account)))
    }

    /// Calls `count` with the accounts of all threads. Waits for threads that use theirs.
    pub fn each_account(&self, mut count: impl FnMut(&mut Account)) {
        self.each().for_each(|thread_cache| thread_cache.take().with(|held| count(&mut held.account)));
    }

    /// Takes an item out of this thread's cache; the owners stay.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn take_item(&self, class: usize) -> Option<T> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.pop())
    }

    /// Takes an owner out of this thread's cache, if it has one.
    pub fn take_owner(&self) -> Option<O> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.owners.pop())
    }

    /// Calls `look` with the item that [`ThreadCaches::take`] would return.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn peek<R>(&self, class: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.last().map(look))
    }

    /// Returns the number of items to add to this thread's cache when it has none of the class, besides the item that
    /// the caller needs: none the first time, because there may be no further request, then twice as many each time.
    /// Returns 0 if the cache is taken or closed.
    ///
    /// Creates the cache if needed. Call it only while a handle of the pool exists.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn wanted(&self, class: usize) -> usize {
        let make = || {
            self.any.get_or_init(|| ());
            Box::new(Apart(TryCell::new(ThreadCache::new())))
        };
        let thread_cache = &self.place().get_or_init(make).0;
        let next = || {
            let Some(taken) = thread_cache.try_take() else { return Some(0) };
            taken.with(|thread_cache| {
                (!thread_cache.needs_room(class)).then(|| thread_cache.classes[class].next_batch())
            })
        };
        next().unwrap_or_else(|| {
            self.furnish(thread_cache, class);
            next().unwrap_or(0)
        })
    }

    /// Adds items to this thread's cache; the last one is taken first. Takes only as many out of the iterator as fit,
    /// and none if the cache is taken or closed. Returns their number. Items that remain in a borrowed iterator belong
    /// to the caller.
    ///
    /// The iterator runs while the cache is taken: it must not wait for another thread or call these thread caches.
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

    /// Puts an item into this thread's cache, to be taken first.
    ///
    /// # Errors
    /// The item, if the cache is taken, closed or full.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline]
    pub fn put_item(&self, class: usize, item: T) -> Result<(), T> {
        self.put_item_counted(class, item, |_, _| true)
    }

    /// Like [`ThreadCaches::put_item`], if there is room and `count` returns `true`. `count` updates the account and
    /// receives the number of cached items.
    ///
    /// # Errors
    /// The item.
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

    /// Takes the older half of a class (at most a batch) out of this thread's cache if the class is full, to return it
    /// to the pool. Afterwards [`put`] finds room, unless the cache is taken or closed.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn older(&self, class: usize) -> Batch<T> {
        self.older_of(class, ROOM_MAX)
    }

    /// Like [`ThreadCaches::older`]; `full` items count as full.
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
            self.furnish(thread_cache, class);
            batch([])
        })
    }

    /// Allocates the room of a class if it has none yet. Host memory is allocated and freed while the cache is not
    /// taken.
    fn furnish(&self, thread_cache: &TryCell<ThreadCache<T, O, CLASSES>>, class: usize) {
        let mut room = Vec::with_capacity(self.rooms[class]);
        if let Some(taken) = thread_cache.try_take() {
            taken.with(|thread_cache| {
                if thread_cache.needs_room(class) {
                    mem::swap(&mut room, &mut thread_cache.classes[class].items);
                }
            });
        }
    }

    /// Takes the items out of all thread caches that were not used since the last sweep, and passes them to `give` with
    /// their classes.
    pub fn sweep(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            // A cache that is taken is in use.
            let Some(taken) = thread_cache.try_take() else { continue };
            let idle = |thread_cache: &mut ThreadCache<_, _, CLASSES>| {
                if mem::take(&mut thread_cache.is_used) { None } else { thread_cache.next_out() }
            };
            let mut out = taken.with(idle);
            while let Some((class, items)) = out {
                items.for_each(|item| give(class, item));
                out = thread_cache.try_take().and_then(|taken| taken.with(ThreadCache::next_out));
            }
        }
    }

    /// Takes the items of one class out of all thread caches. Waits for threads that use theirs.
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

    /// Takes the items out of all thread caches and passes them to `give` with their classes. Waits for threads that
    /// use theirs.
    pub fn empty(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            while let Some((class, items)) = thread_cache.take().with(ThreadCache::next_out) {
                items.for_each(|item| give(class, item));
            }
        }
    }

    /// Empties all thread caches, passing their items to `give`, and keeps them empty while `work` runs.
    ///
    /// All thread caches are taken while `work` runs: it must not wait for a thread that waits for one, or call these
    /// thread caches.
    pub fn while_empty(&self, give: &mut dyn FnMut(usize, T), work: &mut dyn FnMut()) {
        fn hold<T, O, const CLASSES: usize>(
            thread_caches: &mut dyn Iterator<Item = &TryCell<ThreadCache<T, O, CLASSES>>>,
            give: &mut dyn FnMut(usize, T),
            work: &mut dyn FnMut(),
        ) {
            let Some(thread_cache) = thread_caches.next() else { return work() };
            loop {
                let out = thread_cache.take().with(|held| {
                    let out = held.next_out();
                    if out.is_none() {
                        hold(thread_caches, give, work);
                    }
                    out
                });
                let Some((class, items)) = out else { return };
                items.for_each(|item| give(class, item));
            }
        }
        hold(&mut self.each(), give, work);
    }

    /// Takes all items and owners out, and accepts no more. The caller must keep the pool alive.
    pub fn close(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            let (items, owners) = thread_cache.take().with(ThreadCache::close);
            for (class, items) in items.into_iter().enumerate() {
                items.into_iter().for_each(|item| give(class, item));
            }
            drop(owners);
        }
    }

    /// Number of items of a class in all thread caches.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn count(&self, class: usize) -> usize {
        let held = |thread_cache: &mut ThreadCache<T, O, CLASSES>| thread_cache.classes[class].items.len();
        self.each().map(|thread_cache| thread_cache.take().with(held)).sum()
    }

    /// Calls `look` for all items, with their classes. `look` runs while a thread cache is taken: it must not call
    /// these thread caches. Waits for threads that use theirs.
    pub fn each_item(&self, mut look: impl FnMut(usize, &T)) {
        for thread_cache in self.each() {
            thread_cache.take().with(|held| {
                let classes = held.classes.iter().enumerate();
                classes.for_each(|(class, held)| held.items.iter().for_each(|item| look(class, item)));
            });
        }
    }

    /// Checks all rules of the structure, and each item with `check`, which runs while its thread cache is taken.
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

/// Puts an owner into a thread cache, for the next user.
///
/// # Safety
/// The owner must keep the thread cache alive, while it is in the cache and elsewhere.
///
/// # Errors
/// The owner, if the thread cache is taken, closed or full.
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

/// Puts an item into a thread cache, with the owner that its user had. `item` must only return the item.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// The item or the owner must keep the thread cache alive, while it is in the cache and elsewhere.
///
/// # Errors
/// `item` and the owner, if the thread cache is taken, closed or full.
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

/// Like [`put`], if `count` returns `true`. `count` updates the account and receives the number of cached items.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// The same as for [`put`].
///
/// # Errors
/// The same as for [`put`].
#[inline]
pub unsafe fn put_counted<T, O, const CLASSES: usize, I: FnOnce() -> T>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    class: usize,
    item: I,
    owner: O,
    count: impl FnOnce(&mut Account, usize) -> bool,
) -> Result<(), (I, O)> {
    // SAFETY: the item or the owner keeps the thread cache alive until it is in the cache. From then on, the taken flag
    // does: a thread that takes the item out, and with it possibly the last reference to the thread cache, takes the
    // flag first. No access follows the release of the flag.
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

    /// Returns `true` if the class has no room yet.
    fn needs_room(&self, class: usize) -> bool {
        !self.is_closed && self.classes[class].items.capacity() == 0
    }

    #[inline]
    fn put_owner(&mut self, owner: O) {
        if size_of::<O>() > 0 && self.owners.len() < self.owners.capacity() {
            self.owners.push(owner);
        }
        // Else the cache has other owners, so this is not the last one: dropping it only decrements the count.
    }

    /// Takes a batch of items out, if there are any. Later batches start small again.
    fn next_out(&mut self) -> Option<(usize, Batch<T>)> {
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
    /// Returns the size of the next batch: 0 for the first item that a thread takes, which may stay the only one; 0
    /// without room.
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
