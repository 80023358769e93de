//! Thread caches: for each thread a few items of a pool that threads share, taken from the pool already and not in use
//! yet.
//!
//! ```text
//!   thread 1 ─▶ thread cache 0    class 0: ▒▒▒▒▒    class 1: ▒▒    …     owners: ● ● ●
//!   thread 2 ─▶ thread cache 1    class 0: ▒▒       …         │
//!                                    │ full: the older half   │ empty: a batch, each time twice as many
//!                                    ▼                        │
//!                                  the pool ◀─────────────────┘    slots of size classes, descriptors, bound objects, …
//! ```
//!
//! An item is anything that can be used again: a slot of a size class, a descriptor, a buffer with its memory. Items of
//! one class are equal: any of them serves any request of the class. A thread cache is one thread's, mostly: taking an
//! item out and putting one in is an exchange on a cache line that no other thread wants. No thread waits for a thread
//! cache: one that finds it taken goes to the pool.
//!
//! The pool is the caller's, and nothing of it runs while a thread cache is taken, but for what [`ThreadCaches::fill`],
//! [`ThreadCaches::while_empty`] and [`ThreadCaches::validate`] are given. So the pool may have a lock, and its items
//! may come back here when they are dropped.
//!
//! # What keeps the pool alive
//!
//! An item in use keeps its pool alive, often by a count that all threads share. So that neither taking nor putting
//! changes that count, a thread cache keeps the reference too, for the next user: inside the item, or beside it as an
//! *owner*, of type `O`, where any owner serves any item. That is a circle, which [`ThreadCaches::close`] breaks when
//! the last handle of the pool goes: from then on thread caches stay empty.
//!
//! # Accounts
//!
//! Beside its items a thread cache keeps an [`Account`]: numbers of the caller's that change with what goes in and out,
//! under the same exchange, so that counting does not make threads write one line.
//!
//! | operation | cost |
//! |---|---|
//! | [`ThreadCaches::take`], [`put`], [`put_owner`], [`ThreadCaches::put_item`] | O(1): one atomic exchange |
//! | [`ThreadCaches::wanted`], [`ThreadCaches::fill`], [`ThreadCaches::older`] | O(items that are moved), once a batch |
//! | [`ThreadCaches::empty_class`] | O(thread caches), and what is given back |
//! | [`ThreadCaches::sweep`], [`ThreadCaches::empty`], [`ThreadCaches::close`] | O(thread caches × classes), and what is freed |
//! | [`ThreadCaches::count`], [`ThreadCaches::each_account`] | O(thread caches) |
//! | [`ThreadCaches::each_item`], [`ThreadCaches::validate`] | O(items) |
//!
//! Host memory: a list of pointers from the start, a thread cache when its thread first asks, the room of a class when
//! it is first used. Nothing after that.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZero;
use core::{array, mem};
use std::sync::OnceLock;

use crate::primitive::{Apart, shrunk_under_miri_too};
use ringfence_core::range::Invalid;
use crate::thread_slot::thread_place;
use crate::try_cell::TryCell;

/// Items that are moved at once, at most.
pub const BATCH_MAX: usize = 32;
/// Items of one class that a thread cache holds, at most.
pub const ROOM_MAX: usize = 8 * BATCH_MAX;
/// Owners that a thread cache keeps.
const OWNERS_MAX: usize = shrunk_under_miri_too(256, 1);
/// Threads beyond this number share thread caches.
const CACHES_MAX: usize = 64;

/// Items on their way between a thread cache and the pool: at most [`BATCH_MAX`]. No host memory.
pub struct Batch<T> {
    /// The items, and then none.
    items: array::IntoIter<Option<T>, BATCH_MAX>,
}

impl<T> Iterator for Batch<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.items.next().flatten()
    }
}

/// The first [`BATCH_MAX`] items of an iterator, taken out of it now.
pub fn batch<T>(items: impl IntoIterator<Item = T>) -> Batch<T> {
    let mut items = items.into_iter().fuse();
    Batch { items: array::from_fn(|_| items.next()).into_iter() }
}

/// The items of one class in a thread cache.
struct ClassCache<T> {
    /// The last goes first. As many may lie here as there is memory for: none before the first use, and none after the
    /// end.
    items: Vec<T>,
    /// How many the next batch has.
    batch: usize,
}

/// Numbers of the caller's in a thread cache.
#[derive(Clone, Copy, Default, Debug)]
pub struct Account {
    /// Of something that all threads share, as much as this thread has taken of it and not used.
    pub free: u64,
    /// How many items were taken out here.
    pub taken: u64,
}

/// What one thread has cached. Reached through [`ThreadCaches`] and [`put`] alone.
pub struct ThreadCache<T, O = (), const CLASSES: usize = 1> {
    classes: [ClassCache<T>; CLASSES],
    /// What keeps the pool alive, for the next users. None of a type without bytes.
    owners: Vec<O>,
    account: Account,
    /// Since the last sweep.
    is_used: bool,
    /// Nothing comes in any more.
    is_closed: bool,
}

/// A thread cache on cache lines of its own.
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
///         // With the pool unlocked. What does not fit goes back.
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
    /// A power of two of places; a thread cache is made when its thread first asks.
    places: Box<[OnceLock<OwnLines<T, O, CLASSES>>]>,
    /// Set before the first thread cache is made: of most pools that are swept none ever is.
    any: OnceLock<()>,
    /// How many items a thread cache holds, at most, by class.
    rooms: [usize; CLASSES],
}

/// Places for twice as many threads as the machine has. The machine is asked once, since that may read files.
fn place_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        (threads * 2).clamp(1, CACHES_MAX).next_power_of_two()
    })
}

impl<T, O, const CLASSES: usize> ThreadCaches<T, O, CLASSES> {
    /// No thread caches yet. Each of them holds at most `rooms` items, by class.
    ///
    /// # Panics
    /// If a room is 0 or above [`ROOM_MAX`].
    #[must_use]
    pub fn new(rooms: [usize; CLASSES]) -> Self {
        const { assert!(size_of::<T>() > 0, "an item without bytes needs no cache") };
        assert!(rooms.iter().all(|room| (1..=ROOM_MAX).contains(room)), "a room of 1 to {ROOM_MAX} items");
        Self { places: (0..place_count()).map(|_| OnceLock::new()).collect(), any: OnceLock::new(), rooms }
    }

    #[inline]
    fn place(&self) -> &OnceLock<OwnLines<T, O, CLASSES>> {
        &self.places[thread_place() & (self.places.len() - 1)]
    }

    /// This thread's thread cache, if there is one: for [`put`].
    #[inline]
    pub fn mine(&self) -> Option<&TryCell<ThreadCache<T, O, CLASSES>>> {
        // Counted: with one class, what follows is so short that a call costs less than the registers that this takes.
        let place = if const { CLASSES > 1 } { self.place() } else { self.place_apart() };
        place.get().map(|thread_cache| &thread_cache.0)
    }

    #[inline(never)]
    fn place_apart(&self) -> &OnceLock<OwnLines<T, O, CLASSES>> {
        self.place()
    }

    /// An item of this thread's thread cache, and an owner, if one is cached.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline(always)]
    pub fn take(&self, class: usize) -> Option<(T, Option<O>)> {
        self.take_counted(class, |_, _| ()).map(|(item, owner, ())| (item, owner))
    }

    /// As [`ThreadCaches::take`], and `count` counts it, which does nothing else.
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

    /// Counts something in this thread's account; `None` if its thread cache is taken, or there is none.
    pub fn with_account<R>(&self, count: impl FnOnce(&mut Account) -> R) -> Option<R> {
        Some(self.mine()?.try_take()?.with(|thread_cache| count(&mut thread_cache.account)))
    }

    /// Looks at the accounts of all threads, or changes them. Waits for threads that are at theirs.
    pub fn each_account(&self, mut count: impl FnMut(&mut Account)) {
        self.each().for_each(|thread_cache| thread_cache.take().with(|held| count(&mut held.account)));
    }

    /// An item of this thread's thread cache alone: the owners stay.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn take_item(&self, class: usize) -> Option<T> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.pop())
    }

    /// An owner, if this thread's thread cache has one.
    pub fn take_owner(&self) -> Option<O> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.owners.pop())
    }

    /// Looks at the item that [`ThreadCaches::take`] would give.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn peek<R>(&self, class: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.mine()?.try_take()?.with(|thread_cache| thread_cache.classes[class].items.last().map(look))
    }

    /// How many items this thread's thread cache, which has none of the class, should be given beside the one that the
    /// caller needs: none at first, as that may stay the only one, then twice as many each time. 0 if it is taken or
    /// closed.
    ///
    /// Makes the thread cache if need be. Only while a handle of the pool lives.
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

    /// Puts items into this thread's thread cache, the last to be taken first; asks for no more than fit, and for none
    /// if it is taken or closed. Says how many went in. What is left of an iterator that is lent is the caller's.
    ///
    /// The iterator runs while the thread cache is taken: it must not wait for another thread, nor come back here.
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

    /// Puts an item into this thread's thread cache, to be taken first; returns it if that is taken, closed or without
    /// room.
    ///
    /// # Errors
    /// The item.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[inline]
    pub fn put_item(&self, class: usize, item: T) -> Result<(), T> {
        self.put_item_counted(class, item, |_, _| true)
    }

    /// As [`ThreadCaches::put_item`], if there is room and `count`, which counts it and is given how many items lie
    /// there, says so.
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

    /// Takes the older half of a class out of this thread's thread cache, or a batch of it, if it is full: for the
    /// pool. After that, unless it is taken or closed, [`put`] finds room.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    #[cold]
    pub fn older(&self, class: usize) -> Batch<T> {
        self.older_of(class, ROOM_MAX)
    }

    /// As [`ThreadCaches::older`], where `full` items count as full.
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

    /// Gives a class its room if it has none yet. Host memory is asked for and freed while the thread cache is not
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

    /// Gives the items of those thread caches back that no thread has used since the last time, with their classes.
    pub fn sweep(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            // One that is taken is in use.
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

    /// Gives the items of one class of all thread caches back. Waits for threads that are at theirs.
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

    /// Gives the items of all thread caches back, with their classes. Waits for threads that are at theirs.
    pub fn empty(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            while let Some((class, items)) = thread_cache.take().with(ThreadCache::next_out) {
                items.for_each(|item| give(class, item));
            }
        }
    }

    /// Does something while the thread caches are empty and stay so: what was in them is released before.
    ///
    /// While `work` runs all thread caches are taken: it must not wait for a thread that waits for one, nor come back
    /// here.
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

    /// Gives everything back, and lets nothing in any more. The caller keeps the pool alive.
    pub fn close(&self, mut give: impl FnMut(usize, T)) {
        for thread_cache in self.each() {
            let (items, owners) = thread_cache.take().with(ThreadCache::close);
            for (class, items) in items.into_iter().enumerate() {
                items.into_iter().for_each(|item| give(class, item));
            }
            drop(owners);
        }
    }

    /// Items of a class in all thread caches.
    ///
    /// # Panics
    /// If `class` is not below `CLASSES`.
    pub fn count(&self, class: usize) -> usize {
        let held = |thread_cache: &mut ThreadCache<T, O, CLASSES>| thread_cache.classes[class].items.len();
        self.each().map(|thread_cache| thread_cache.take().with(held)).sum()
    }

    /// Looks at all items, with their classes. `look` runs while a thread cache is taken: it must not come back here.
    /// Waits for threads that are at theirs.
    pub fn each_item(&self, mut look: impl FnMut(usize, &T)) {
        for thread_cache in self.each() {
            thread_cache.take().with(|held| {
                let classes = held.classes.iter().enumerate();
                classes.for_each(|(class, held)| held.items.iter().for_each(|item| look(class, item)));
            });
        }
    }

    /// Checks every rule of the structure, and each item by `check`, which runs while its thread cache is taken.
    ///
    /// # Errors
    /// The first rule that does not hold.
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

/// Puts an owner into a thread cache, for the next user; returns it if the thread cache is taken, closed or full.
///
/// # Safety
/// The owner keeps the thread cache alive: as long as it lies there, and wherever else it is.
///
/// # Errors
/// What was to be put in.
#[inline]
pub unsafe fn put_owner<T, O, const CLASSES: usize>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    owner: O,
) -> Result<(), O> {
    // SAFETY: the caller promises that the owner keeps the thread cache alive.
    let Some(taken) = (unsafe { &*thread_cache }).try_take() else { return Err(owner) };
    taken.with(move |thread_cache| {
        if thread_cache.owners.len() == thread_cache.owners.capacity() {
            return Err(owner);
        }
        thread_cache.owners.push(owner);
        Ok(())
    })
}

/// Puts an item into a thread cache, with the owner that its user had; gives both back if the thread cache is taken,
/// closed or without room. `item` does nothing but give it.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// The item or the owner keeps the thread cache alive: as long as it lies there, and wherever else it is.
///
/// # Errors
/// What was to be put in.
#[inline]
pub unsafe fn put<T, O, const CLASSES: usize, I: FnOnce() -> T>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    class: usize,
    item: I,
    owner: O,
) -> Result<(), (I, O)> {
    // SAFETY: the caller promises that the item or the owner keeps the thread cache alive.
    unsafe { put_counted(thread_cache, class, item, owner, |_, _| true) }
}

/// As [`put`], if `count`, which counts it and is given how many items lie there, says so.
///
/// # Panics
/// If `class` is not below `CLASSES`.
///
/// # Safety
/// As of [`put`].
///
/// # Errors
/// As of [`put`].
#[inline]
pub unsafe fn put_counted<T, O, const CLASSES: usize, I: FnOnce() -> T>(
    thread_cache: *const TryCell<ThreadCache<T, O, CLASSES>>,
    class: usize,
    item: I,
    owner: O,
    count: impl FnOnce(&mut Account, usize) -> bool,
) -> Result<(), (I, O)> {
    // SAFETY: the item or the owner keeps the thread cache until it lies in it. From then on the taken flag does: the
    // thread that takes it out, and with it what may be the last to keep the thread cache, takes the flag first.
    // Nothing follows the release of the flag.
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

    /// Whether the class has not been used yet.
    fn needs_room(&self, class: usize) -> bool {
        !self.is_closed && self.classes[class].items.capacity() == 0
    }

    #[inline]
    fn put_owner(&mut self, owner: O) {
        if size_of::<O>() > 0 && self.owners.len() < self.owners.capacity() {
            self.owners.push(owner);
        }
        // Else others lie in the thread cache, so that this is not the last one: only the count falls.
    }

    /// Some of the items, if there are any. Batches begin small again.
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
            Invalid::unless(items.len() <= *room, "a class of a thread cache holds no more than its room", count)?;
            Invalid::unless(!self.is_closed || items.is_empty(), "a closed thread cache is empty", count)?;
            items.iter().try_for_each(|item| check(class, item))?;
        }
        let owners = self.owners.len() as u64;
        Invalid::unless(!self.is_closed || owners == 0, "a closed thread cache keeps no owner", owners)
    }
}

impl<T> ClassCache<T> {
    /// None for the first item that a thread takes: it may stay the only one. None without room.
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
