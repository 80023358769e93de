//! Recycled objects: what was expensive to make and is not in use, kept for the next request of the same description.
//! For the allocator these are driver objects that the device is done with, bound to their memory.
//!
//! ```text
//!   request ─▶ Key: all that the maker was asked ─▶ tag, 64 bits of it
//!                tags:   a line of 8 for each ▮▮▯▯▯▯▯▯  ─▶ class         seen twice? else nothing of it is kept
//!                                                            │
//!   create ◀── thread cache of the class ◀── batch ── list of the class ◀── batch ── thread cache ◀── reclaim, destroy_now
//!      └─ the item's own key is compared: it counts, the tag only finds                    │
//!                                                                   bytes ≤ bound, else ──┴──▶ destroyed
//! ```
//!
//! # What is kept
//!
//! Nothing of a description that was asked for once. Of others each object that is given, as long as all together are
//! within the bound in bytes, and until their description has not been requested during the grace, in reclaims. While
//! objects are refused because there is no room, the objects of the description that was not requested for the longest
//! time are taken out.
//!
//! # How bytes are counted
//!
//! ```text
//!   bound ≥ reserved = bytes of all that is kept + what the accounts of the thread caches have free
//! ```
//!
//! A thread that takes an object out has its bytes free for the next that it puts in, so that the sum that all threads
//! share changes only once in a while. Before an object is refused, what the accounts have free is collected.
//!
//! | operation | cost |
//! |---|---|
//! | take, keep | O(1): the key, a line of tags, an exchange; a short lock once a batch |
//! | keep, near the bound | O(thread caches); once in 64 refusals O(classes), and each object that goes |
//! | age | O(classes) once in 32 reclaims, and each object that goes |
//! | empty, each | O(objects), O(classes × thread caches) |

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZero;
use std::sync::{OnceLock, PoisonError};

use crate::primitive::{
    Apart, AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence, shrunk, shrunk_under_miri_too,
};
use ringfence_core::range::Invalid;
use crate::thread_cache::{self, Account, BATCH_MAX, ROOM_MAX, ThreadCaches, batch};

/// Tags that share a cache line, and descriptions that may collide before one is forgotten.
const WAYS: usize = shrunk_under_miri_too(8, 2);
/// Lines of tags.
const LINES: usize = shrunk_under_miri_too(64, 1);
/// Descriptions that are known at a time.
const CLASSES: usize = WAYS * LINES;
/// Calls of reclaim after which ages are looked at again.
const AGE_STEP: u64 = shrunk(32, 1) as u64;
/// After this number of refusals a description that was not asked for makes room.
const REFUSALS_STEP: u32 = shrunk(64, 1);
/// A thread cache holds at most this number of objects of one description, and a share of the bound, but at least
/// `CACHED_COUNT_MIN`.
const CACHED_COUNT_MAX: u64 = ROOM_MAX as u64;
const CACHED_COUNT_MIN: u64 = 4;
/// Of the bound in bytes.
const CACHED_BYTES_SHARE: u64 = 16;
/// What a thread's account has free is at most a few steps; a step is this part of the bound.
const STEPS: u64 = shrunk(256, 4) as u64;

/// All that the maker was asked: what two requests have in common if one object serves both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Those that are not used are 0.
    words: [u64; Key::WORDS],
    /// Groups of words that are used.
    groups: usize,
}

/// Words of a key that are looked at side by side: one has such a number, without a branch for each word.
const GROUP: usize = 4;

impl Key {
    /// How many words a key holds.
    pub const WORDS: usize = 3 * GROUP;

    /// A key of the first words of these, the rest being 0: the fewer, the quicker.
    ///
    /// # Panics
    /// If more are used than there are.
    #[inline(always)]
    #[must_use]
    pub const fn new(words: [u64; Self::WORDS], used: usize) -> Self {
        assert!(used <= Self::WORDS, "no more words are used than there are");
        Self { words, groups: used.div_ceil(GROUP) }
    }

    #[inline]
    fn groups(&self) -> &[[u64; GROUP]] {
        &self.words.as_chunks().0[..self.groups]
    }

    /// 64 bits of it that are never 0. Pairs of words are multiplied side by side: no product waits for another.
    #[inline(always)]
    fn tag(&self) -> u64 {
        let product = |[one, other]: [u64; 2], at: usize| mixed(one ^ APART[at], other ^ APART[at + 1]);
        let add = |sum: u64, (at, words): (usize, &[u64; GROUP])| {
            let [one, two, three, four] = *words;
            sum.wrapping_add(product([one, two], at * GROUP)).wrapping_add(product([three, four], at * GROUP + 2))
        };
        mixed(self.groups().iter().enumerate().fold(0, add), FACTORS[1]).max(1)
    }
}

/// What is known of an object that may be recycled. All that keeping it needs, and taking it by a key of few words,
/// lies in one cache line: most often the object was not touched for some frames.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Recycling {
    tag: NonZero<u64>,
    bytes: u64,
    /// 64 bits of the name that it has, 0 for none.
    pub name: u64,
    kind: u32,
    class: u16,
    groups: u16,
    words: [u64; Key::WORDS],
}

const _: () = assert!(CLASSES <= 1 << 16 && size_of::<Option<Recycling>>() == 128);

impl Recycling {
    /// What it holds.
    #[must_use]
    pub const fn held(&self) -> Held {
        Held { bytes: self.bytes, kind: self.kind }
    }

    /// Whether it was made for this key.
    #[inline]
    fn serves(&self, key: &Key) -> bool {
        let differ = |words: &[u64; GROUP], others: &[u64; GROUP]| {
            (0..GROUP).fold(0, |differ, at| differ | (words[at] ^ others[at]))
        };
        let pairs = key.groups().iter().zip(self.words.as_chunks().0);
        usize::from(self.groups) == key.groups && pairs.fold(0, |sum, (words, others)| sum | differ(words, others)) == 0
    }
}

/// 64 bits of a name: 0 for none. By a `key` that no one outside of the process knows, so that no two names are made to
/// share them.
#[inline]
#[must_use]
pub fn name_bits(name: &str, key: u64) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let bits =
        name.as_bytes().chunks(8).fold(key ^ name.len() as u64, |sum, bytes| mixed(sum ^ word(bytes), FACTORS[1]));
    bits.max(1)
}

/// Odd numbers without a pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

/// A number for each word of a key, so that words that change places make another key. No factor is 0 for words that
/// are likely.
const APART: [u64; Key::WORDS] = {
    let (mut apart, mut at) = ([0; Key::WORDS], 0);
    while at < Key::WORDS {
        apart[at] = FACTORS[1].rotate_left(5 * at as u32);
        at += 1;
    }
    apart
};

/// Both halves of a product, over each other.
#[inline]
const fn mixed(one: u64, other: u64) -> u64 {
    let product = (one ^ FACTORS[0]) as u128 * (other as u128);
    product as u64 ^ (product >> 64) as u64
}

/// What an object holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Bytes that are set aside for it.
    pub bytes: u64,
    /// Anything: where these bytes are.
    pub kind: u32,
}

/// What a request asks for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    key: &'a Key,
    tag: u64,
    /// `None` if it is asked for the first time.
    class: Option<u32>,
}

/// An object that may be recycled.
pub trait Recyclable {
    /// What is known of it, if it may.
    fn recycling(&self) -> Option<&Recycling>;
}

/// What is known of a description.
#[repr(align(128))]
struct Class<T> {
    /// The time at which it was asked for last, see [`Recycled::time`].
    used_at: AtomicU32,
    /// Objects that were made of it and live, kept or in use.
    live: AtomicU32,
    /// The number of objects that fit into the list.
    room: AtomicU32,
    /// Whether objects were kept since they were taken out the last time.
    is_kept: AtomicBool,
    /// On lines of its own: what is above is read by each request.
    list: Apart<List<T>>,
}

/// Objects that no thread has cached. Host memory is asked for and freed while it is not locked.
struct List<T>(Mutex<Vec<T>>);

impl<T> List<T> {
    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn pop(&self) -> Option<T> {
        self.lock().pop()
    }

    /// Puts objects in.
    fn extend(&self, mut new: impl Iterator<Item = T>) {
        self.reserve(self.len() + BATCH_MAX);
        {
            let mut items = self.lock();
            let free = items.capacity() - items.len();
            items.extend(new.by_ref().take(free));
        }
        new.for_each(|item| _ = self.push(item, || false));
    }

    /// Makes room for `count` items.
    fn reserve(&self, count: usize) {
        if self.lock().capacity() >= count {
            return;
        }
        let mut room = Vec::with_capacity((count * 2).max(BATCH_MAX));
        let mut items = self.lock();
        if room.capacity() > items.capacity() {
            room.append(&mut items);
            core::mem::swap(&mut room, &mut *items);
        }
        // The old host memory is freed unlocked.
        drop(items);
    }

    /// Puts an object in, unless `is_refused` when it is locked.
    fn push(&self, item: T, is_refused: impl Fn() -> bool) -> Result<(), T> {
        loop {
            let mut items = self.lock();
            if is_refused() {
                return Err(item);
            }
            let len = items.len();
            if len < items.capacity() {
                items.push(item);
                return Ok(());
            }
            drop(items);
            self.reserve(len + 1);
        }
    }
}

/// The objects, and the descriptions.
struct Store<T, O> {
    tags: Box<[[AtomicU64; WAYS]]>,
    classes: Box<[Class<T>]>,
    thread_caches: ThreadCaches<T, O, CLASSES>,
    /// Bytes of what is kept, and what the accounts have free: at most `bytes_max`.
    reserved: Apart<AtomicU64>,
    bytes_max: u64,
    /// Objects that were refused because there was no room, modulo the number's range.
    refused: AtomicU32,
    /// Objects that were taken out of lists.
    taken: AtomicU64,
}

/// See the [module](self).
pub struct Recycled<T, O> {
    /// Made with the first request that may be served of it.
    store: OnceLock<Store<T, O>>,
    bytes_max: u64,
    grace_ticks: u64,
    is_closed: AtomicBool,
    /// Rises once in [`AGE_STEP`] reclaims, and once in [`REFUSALS_STEP`] refusals: seldom, as all threads read it.
    time: AtomicU32,
}

impl<T: Recyclable, O> Recycled<T, O> {
    /// Keeps at most `bytes_max` bytes. A description that was not requested during `grace_ticks` ticks, and up to 64
    /// more, is forgotten. With no ticks nothing is kept.
    #[must_use]
    pub fn new(bytes_max: u64, grace_ticks: u64) -> Self {
        // Without a clock nothing would ever go.
        let bytes_max = if grace_ticks == 0 { 0 } else { bytes_max };
        Self {
            store: OnceLock::new(),
            bytes_max,
            grace_ticks,
            is_closed: AtomicBool::new(false),
            time: AtomicU32::new(0),
        }
    }

    /// Whether anything is ever kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// Notes that something is asked for.
    #[inline(always)]
    pub fn wanted<'a>(&self, key: &'a Key) -> Wanted<'a> {
        let store = self.store.get().unwrap_or_else(|| self.first_store());
        let tag = key.tag();
        Wanted { key, tag, class: store.class_of(tag, self.time.load(Ordering::Relaxed)) }
    }

    #[cold]
    #[inline(never)]
    fn first_store(&self) -> &Store<T, O> {
        self.store.get_or_init(|| Store::new(self.bytes_max))
    }

    /// An object for what is wanted that is cached for this thread, or in its list; and an owner that was kept. O(1).
    ///
    /// # Errors
    /// An object of another description that has the same tag, or had the class before: nothing will ask for it.
    #[inline(always)]
    pub fn take(&self, wanted: &Wanted<'_>) -> Option<Result<(T, Option<O>), T>> {
        let (store, class) = (self.store.get()?, wanted.class? as usize);
        let serves = |item: &T| item.recycling().is_some_and(|held| held.serves(wanted.key));
        let count = |item: &T, account: &mut Account| (serves(item), store.count_out(item, account));
        let Some((item, owner, (serves_it, surplus))) = store.thread_caches.take_counted(class, count) else {
            let (item, owner) = store.refill(class, &self.is_closed)?;
            return Some(if serves(&item) { Ok((item, owner)) } else { Err(item) });
        };
        if surplus > 0 {
            store.reserved.0.fetch_sub(surplus, Ordering::Relaxed);
        }
        Some(if serves_it { Ok((item, owner)) } else { Err(item) })
    }

    /// What the object holds that a request would be given, if there is one for this thread or in its list. Changes
    /// nothing.
    pub fn peek(&self, key: &Key) -> Option<Held> {
        let store = self.store.get()?;
        let class = store.find(key.tag())?;
        let held = |item: &T| item.recycling().filter(|held| held.serves(key)).map(Recycling::held);
        let cached = store.thread_caches.peek(class, held).flatten();
        cached.or_else(|| store.list(class).lock().last().and_then(held))
    }

    /// Whether objects for what is wanted are kept, or were lately.
    pub fn knows(&self, wanted: &Wanted<'_>) -> bool {
        let class = self.store.get().zip(wanted.class);
        class.is_some_and(|(store, class)| store.classes[class as usize].is_kept.load(Ordering::Relaxed))
    }

    /// What to note of an object that was made for what was wanted, if it may be recycled, with its [`name_bits`]. From
    /// now on its list has room for it.
    pub fn recycling(&self, wanted: &Wanted<'_>, held: Held, name: u64) -> Option<Recycling> {
        let Wanted { key, tag, class } = *wanted;
        self.store.get()?.classes[class? as usize].make_room();
        let (class, groups) = (class? as u16, key.groups as u16);
        Some(Recycling {
            tag: NonZero::new(tag)?,
            bytes: held.bytes,
            name,
            kind: held.kind,
            class,
            groups,
            words: key.words,
        })
    }

    /// An object that might have been recycled is taken apart.
    pub fn forget(&self, recycling: &Recycling) {
        if let Some(store) = self.store.get() {
            store.classes[recycling.class as usize].live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether an object of this description would be kept now, if there is room for its bytes. O(1).
    #[inline]
    pub fn would_keep(&self, recycling: &Recycling) -> bool {
        let Some(store) = self.store.get() else { return false };
        let class = recycling.class as usize;
        let is_known = store.tags[class / WAYS][class % WAYS].load(Ordering::Relaxed) == recycling.tag.get();
        if !is_known || self.is_closed.load(Ordering::Relaxed) {
            return false;
        }
        store.classes[class].note_kept();
        true
    }

    /// Keeps an object, for this thread if there is room, which [`Recycled::would_keep`] has just said. `gone` is given
    /// what makes room for it.
    ///
    /// # Errors
    /// The object, if its bytes would exceed the bound, or nothing is kept any more.
    #[inline]
    pub fn keep(&self, item: T, gone: impl FnMut(T)) -> Result<(), T> {
        let (Some(store), Some(recycling)) = (self.store.get(), item.recycling()) else { return Err(item) };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let full = store.cached_max(bytes);
        let pays = |account: &mut Account, held| held < full && account.pays(bytes);
        let put = store.thread_caches.put_item_counted(class, item, pays);
        let Err(item) = put else { return Ok(()) };
        self.keep_slowly(item, gone)
    }

    /// As [`Recycled::keep`], and keeps the owner for the next user, by one exchange.
    ///
    /// # Errors
    /// The object.
    ///
    /// # Safety
    /// `of` gives what is recycled of the owner's allocator, which the owner keeps alive.
    #[inline]
    pub unsafe fn keep_with_owner(
        item: T,
        owner: O,
        of: impl for<'a> Fn(&'a O) -> &'a Self,
        gone: impl FnMut(T),
    ) -> Result<(), (T, O)> {
        let (Some(store), Some(recycling)) = (of(&owner).store.get(), item.recycling()) else {
            return Err((item, owner));
        };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let full = store.cached_max(bytes);
        let (item, owner) = match store.thread_caches.mine().map(core::ptr::from_ref) {
            None => (item, owner),
            Some(thread_cache) => {
                let pays = |account: &mut Account, held| held < full && account.pays(bytes);
                // SAFETY: the caller promises that `owner` keeps what `of` gives alive, and so the thread cache in it.
                match unsafe { thread_cache::put_counted(thread_cache, class, || item, owner, pays) } {
                    Ok(()) => return Ok(()),
                    Err((item, owner)) => (item(), owner),
                }
            }
        };
        if let Err(item) = of(&owner).keep_slowly(item, gone) {
            return Err((item, owner));
        }
        // SAFETY: the caller promises that `of` gives what `owner` keeps alive.
        unsafe { Self::keep_owner(owner, of) };
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn keep_slowly(&self, item: T, gone: impl FnMut(T)) -> Result<(), T> {
        let (Some(store), Some(recycling)) = (self.store.get(), item.recycling()) else { return Err(item) };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let Some(more) = store.reserve(bytes) else {
            store.refuse(class, &self.time, gone);
            return Err(item);
        };
        store.keep_reserved(class, item, more, &self.is_closed).inspect_err(|_| store.give_back(bytes))
    }

    /// Keeps an owner for the next user, on this thread.
    ///
    /// # Safety
    /// `of` gives what is recycled of the owner's allocator, which the owner keeps alive.
    #[inline]
    pub unsafe fn keep_owner(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self) {
        let mine = of(&owner).store.get().and_then(|store| store.thread_caches.mine());
        if let Some(thread_cache) = mine.map(core::ptr::from_ref) {
            // SAFETY: the caller promises that `owner` keeps what `of` gives alive, and so the thread cache in it.
            drop(unsafe { thread_cache::put_owner(thread_cache, owner) });
        }
    }

    /// An owner that was kept on this thread.
    pub fn take_owner(&self) -> Option<O> {
        self.store.get()?.thread_caches.take_owner()
    }

    /// Bytes of what is kept, and what threads have reserved beyond that. One load.
    pub fn reserved_bytes(&self) -> u64 {
        self.store.get().map_or(0, |store| store.reserved.0.load(Ordering::Relaxed))
    }

    /// How many objects were taken out for another request. O(threads).
    pub fn taken(&self) -> u64 {
        let Some(store) = self.store.get() else { return 0 };
        let mut taken = store.taken.load(Ordering::Relaxed);
        store.thread_caches.each_account(|account| taken += account.taken);
        taken
    }

    /// Takes out what has not been asked for in a while. Once a reclaim.
    pub fn age(&self, tick: u64, mut gone: impl FnMut(T)) {
        let Some(store) = self.store.get().filter(|_| tick.is_multiple_of(AGE_STEP)) else { return };
        let now = self.time.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        store.thread_caches.sweep(|class, item| {
            if let Err(item) = store.push(class, item, &self.is_closed) {
                store.give_back(bytes_of(&item));
                gone(item);
            }
        });
        for (class, held) in store.classes.iter().enumerate() {
            // The step in which it was asked for last may have ended right after.
            if u64::from(held.age(now).saturating_sub(1)) * AGE_STEP >= self.grace_ticks {
                store.forget_class(class, &mut gone);
            }
        }
    }

    /// Takes everything out of some kinds.
    pub fn empty(&self, kinds: impl Fn(u32) -> bool, mut gone: impl FnMut(T)) {
        let Some(store) = self.store.get() else { return };
        (0..CLASSES).for_each(|class| store.take_class(class, &kinds, &mut gone));
    }

    /// The end of the allocator's last handle: everything goes, and nothing is kept any more.
    pub fn close(&self, mut gone: impl FnMut(T)) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let Some(store) = self.store.get() else { return };
        let mut counted = |item: T| {
            store.give_back(bytes_of(&item));
            gone(item);
        };
        store.thread_caches.close(|_, item| counted(item));
        for class in &store.classes {
            core::iter::from_fn(|| class.list.0.pop()).for_each(&mut counted);
        }
    }

    /// Looks at everything that is kept. `look` must not come back here.
    pub fn each(&self, mut look: impl FnMut(&T)) {
        let Some(store) = self.store.get() else { return };
        store.thread_caches.each_item(|_, item| look(item));
        store.classes.iter().for_each(|class| class.list.0.lock().iter().for_each(&mut look));
    }

    /// Checks every rule of the structure. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Some(store) = self.store.get() else { return Ok(()) };
        let mut bytes = 0;
        let mut check = |class: usize, item: &T| {
            bytes += bytes_of(item);
            let is_here = item.recycling().is_some_and(|held| held.class as usize == class);
            Invalid::unless(is_here, "what is recycled lies in its class", class as u64)
        };
        store.thread_caches.validate(&mut check)?;
        for (class, held) in store.classes.iter().enumerate() {
            held.list.0.lock().iter().try_for_each(|item| check(class, item))?;
        }
        store.thread_caches.each_account(|account| bytes += account.free);
        let reserved = store.reserved.0.load(Ordering::Relaxed);
        Invalid::unless(bytes == reserved, "the bytes of what is recycled are counted", bytes)?;
        Invalid::unless(reserved <= self.bytes_max, "what is recycled is within its bound", reserved)
    }
}

fn bytes_of(item: &impl Recyclable) -> u64 {
    item.recycling().map_or(0, |held| held.bytes)
}

impl Account {
    /// Uses what is free, if that is enough.
    #[inline]
    fn pays(&mut self, bytes: u64) -> bool {
        let left = self.free.checked_sub(bytes);
        self.free = left.unwrap_or(self.free);
        left.is_some()
    }
}

impl<T> Class<T> {
    /// Something of it is about to be kept, or is in its list. Said again there: what was put into a thread cache while
    /// the class was forgotten is swept to the list, and ages from then on.
    #[inline]
    fn note_kept(&self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            self.is_kept.store(true, Ordering::Relaxed);
        }
    }

    fn new() -> Self {
        Self {
            used_at: AtomicU32::new(0),
            live: AtomicU32::new(0),
            room: AtomicU32::new(0),
            is_kept: AtomicBool::new(false),
            list: Apart(List(Mutex::new(Vec::new()))),
        }
    }

    /// The list has room for one object more.
    fn make_room(&self) {
        let live = self.live.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if live > self.room.load(Ordering::Relaxed) {
            let room = live.saturating_mul(2).max(BATCH_MAX as u32);
            self.list.0.reserve(room as usize);
            self.room.fetch_max(room, Ordering::Relaxed);
        }
    }

    /// How long it was not asked for; 0 if nothing is kept of it.
    fn age(&self, now: u32) -> u32 {
        if self.is_kept.load(Ordering::Relaxed) { now.wrapping_sub(self.used_at.load(Ordering::Relaxed)) } else { 0 }
    }
}

impl<T: Recyclable, O> Store<T, O> {
    fn new(bytes_max: u64) -> Self {
        Self {
            tags: (0..LINES).map(|_| core::array::from_fn(|_| AtomicU64::new(0))).collect(),
            classes: (0..CLASSES).map(|_| Class::new()).collect(),
            thread_caches: ThreadCaches::new([ROOM_MAX; CLASSES]),
            reserved: Apart(AtomicU64::new(0)),
            bytes_max,
            refused: AtomicU32::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn list(&self, class: usize) -> &List<T> {
        &self.classes[class].list.0
    }

    /// How many objects of `bytes` bytes a thread cache holds, at most.
    #[inline]
    fn cached_max(&self, bytes: u64) -> usize {
        let most = self.bytes_max / CACHED_BYTES_SHARE;
        // Most objects are small: no division for them.
        let by_bytes = if bytes <= most / CACHED_COUNT_MAX { CACHED_COUNT_MAX } else { most / bytes };
        by_bytes.max(CACHED_COUNT_MIN) as usize
    }

    fn step(&self) -> u64 {
        self.bytes_max / STEPS
    }

    /// Counts an object that goes out; says how much of what is free then is not to be kept for this thread.
    #[inline]
    fn count_out(&self, item: &T, account: &mut Account) -> u64 {
        let step = self.step();
        account.taken += 1;
        account.free += bytes_of(item);
        if account.free <= step * 2 {
            return 0;
        }
        let surplus = account.free - step;
        account.free = step;
        surplus
    }

    /// Reserves bytes for an object that comes in; says how much more was reserved, for this thread's account. `None`
    /// if the bound would be exceeded.
    fn reserve(&self, bytes: u64) -> Option<u64> {
        if self.thread_caches.with_account(|account| account.pays(bytes)) == Some(true) {
            return Some(0);
        }
        let step = self.step();
        if bytes <= step && self.reserve_exactly(bytes + step) {
            return Some(step);
        }
        if self.reserve_exactly(bytes) {
            return Some(0);
        }
        let mut free = 0;
        self.thread_caches.each_account(|account| free += core::mem::take(&mut account.free));
        self.give_back(free);
        self.reserve_exactly(bytes).then_some(0)
    }

    fn reserve_exactly(&self, bytes: u64) -> bool {
        let grown = |reserved: u64| reserved.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.reserved.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.reserved.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// An object of a class found no room. Once in a while the other description that was not asked for the longest
    /// makes some.
    fn refuse(&self, class: usize, time: &AtomicU32, mut gone: impl FnMut(T)) {
        if !self.refused.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(REFUSALS_STEP) {
            return;
        }
        let now = time.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let others = (0..CLASSES).filter(|other| *other != class);
        let oldest = others.max_by_key(|class| self.classes[*class].age(now));
        // What was asked for since the time before is in use.
        if let Some(class) = oldest.filter(|class| self.classes[*class].age(now) > 1) {
            self.forget_class(class, &mut gone);
        }
    }

    /// Takes out what a class holds.
    fn forget_class(&self, class: usize, gone: &mut impl FnMut(T)) {
        if self.classes[class].is_kept.swap(false, Ordering::Relaxed) {
            self.take_class(class, |_| true, gone);
        }
    }

    const fn line(tag: u64) -> usize {
        (tag >> 32) as usize % LINES
    }

    /// The class of a tag, if it was asked for before.
    #[inline(always)]
    fn find(&self, tag: u64) -> Option<usize> {
        let line = Self::line(tag);
        let way = self.tags[line].iter().position(|held| held.load(Ordering::Relaxed) == tag)?;
        Some(line * WAYS + way)
    }

    /// As [`Store::find`]; from now on it was asked for.
    #[inline(always)]
    fn class_of(&self, tag: u64, tick: u32) -> Option<u32> {
        let Some(index) = self.find(tag) else {
            self.note(tag, tick);
            return None;
        };
        let class = &self.classes[index];
        if class.used_at.load(Ordering::Relaxed) != tick {
            class.used_at.store(tick, Ordering::Relaxed);
        }
        Some(index as u32)
    }

    /// Knows a tag from now on, in the place of a free one, or of the one that was not asked for the longest. A class
    /// that holds objects stays until these have gone by their age.
    #[cold]
    #[inline(never)]
    fn note(&self, tag: u64, tick: u32) {
        let line = Self::line(tag);
        let class = |way: usize| &self.classes[line * WAYS + way];
        let age = |way: usize| tick.wrapping_sub(class(way).used_at.load(Ordering::Relaxed));
        let tags = &self.tags[line];
        let free = (0..WAYS).find(|way| tags[*way].load(Ordering::Relaxed) == 0);
        let is_empty = |way: &usize| !class(*way).is_kept.load(Ordering::Relaxed);
        let oldest = || (0..WAYS).filter(is_empty).max_by_key(|way| age(*way));
        let Some(way) = free.or_else(oldest) else { return };
        let before = tags[way].load(Ordering::Relaxed);
        if tags[way].compare_exchange(before, tag, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            class(way).used_at.store(tick, Ordering::Relaxed);
        }
    }

    /// An object out of the list of a class, and a batch for this thread.
    #[cold]
    #[inline(never)]
    fn refill(&self, class: usize, is_closed: &AtomicBool) -> Option<(T, Option<O>)> {
        let list = self.list(class);
        if list.len() == 0 {
            return None;
        }
        let wanted = self.thread_wants(class, is_closed);
        let (first, mut items) = {
            let mut items = list.lock();
            let first = items.pop()?;
            (first, batch(core::iter::from_fn(|| items.pop()).take(wanted)))
        };
        self.thread_caches.fill(class, &mut items);
        list.extend(items);
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.give_back(bytes_of(&first));
        Some((first, self.thread_caches.take_owner()))
    }

    /// How many objects this thread's thread cache should be given; makes it if need be. One that is made while the
    /// last handle of the allocator goes is closed here if it came too late for that: what it held would keep the
    /// allocator alive.
    fn thread_wants(&self, class: usize, is_closed: &AtomicBool) -> usize {
        let wanted = self.thread_caches.wanted(class);
        fence(Ordering::SeqCst);
        if !is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.thread_caches.close(|class, item| _ = self.list(class).push(item, || false));
        0
    }

    /// Keeps an object whose bytes are reserved, with `more` bytes for the account of this thread. Where the thread has
    /// no room, the older half of what it has goes to the list of the class, or the object.
    fn keep_reserved(&self, class: usize, item: T, more: u64, is_closed: &AtomicBool) -> Result<(), T> {
        let full = self.cached_max(bytes_of(&item));
        let count = |account: &mut Account, held| {
            let has_room = held < full;
            account.free += if has_room { more } else { 0 };
            has_room
        };
        let Err(item) = self.thread_caches.put_item_counted(class, item, count) else { return Ok(()) };
        if self.thread_caches.mine().is_none() {
            self.thread_wants(class, is_closed);
        }
        self.extend(class, self.thread_caches.older_of(class, full));
        let Err(item) = self.thread_caches.put_item_counted(class, item, count) else { return Ok(()) };
        self.give_back(more);
        self.push(class, item, is_closed)
    }

    fn push(&self, class: usize, item: T, is_closed: &AtomicBool) -> Result<(), T> {
        // Asked under the lock: what closes takes it afterwards.
        let put = self.list(class).push(item, || is_closed.load(Ordering::SeqCst));
        self.classes[class].note_kept();
        put
    }

    fn extend(&self, class: usize, items: impl Iterator<Item = T>) {
        self.list(class).extend(items);
        self.classes[class].note_kept();
    }

    /// Takes out what a class holds of some kinds.
    fn take_class(&self, class: usize, kinds: impl Fn(u32) -> bool, gone: &mut impl FnMut(T)) {
        let mut others = Vec::new();
        let mut sort_out = |item: T| {
            if item.recycling().is_some_and(|held| !kinds(held.kind)) {
                return others.push(item);
            }
            self.give_back(bytes_of(&item));
            gone(item);
        };
        self.thread_caches.empty_class(class, &mut sort_out);
        core::iter::from_fn(|| self.list(class).pop()).for_each(sort_out);
        if !others.is_empty() {
            self.extend(class, others.into_iter());
        }
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;

#[cfg(all(test, any(loom, miri)))]
mod models;
