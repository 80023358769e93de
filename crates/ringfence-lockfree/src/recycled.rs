//! Recycled objects: objects that are expensive to create and not in use, kept for the next request with the same
//! description. In the allocator, they are driver objects that the device no longer uses, bound to their memory.
//!
//! ```text
//!   request ─▶ Key: all parameters of the creation ─▶ tag, a 64-bit hash of it
//!                tags:   lines of 8 tags each  ▮▮▯▯▯▯▯▯  ─▶ class         kept only if the tag was requested before
//!                                                            │
//!   create ◀── thread cache of the class ◀── batch ── list of the class ◀── batch ── thread cache ◀── reclaim, destroy
//!      └─ the object's key is compared, because the tag is only a hash                    │
//!                                                          if the limit would be exceeded └──▶ destroyed
//! ```
//!
//! # Which objects are kept
//!
//! - An object is kept if its description was already known when the object was requested, and if all kept objects
//!   together do not exceed the limit in bytes. A request makes its description known. At most 512 descriptions are
//!   known at a time.
//! - If a description is not requested during the grace period, its kept objects are destroyed. The grace period is
//!   counted in calls of `reclaim`.
//! - After every 64 objects that are refused because of the limit, another description loses its kept objects: the one
//!   that was requested least recently, unless that request is recent.
//!
//! # How bytes are counted
//!
//! ```text
//!   limit ≥ reserved = bytes of all kept objects + free bytes in the accounts of the thread caches
//! ```
//!
//! If a thread takes an object out, the account of its thread cache keeps the object's bytes for the next object that
//! the thread puts in. So the sum, which all threads share, changes rarely. Before an object is refused, the free bytes
//! of all accounts are subtracted from the sum.
//!
//! | operation | cost |
//! |---|---|
//! | take | O(1): a hash of the key, a line of tags, an exchange; short locks once per batch |
//! | keep | O(1): a tag, an exchange; short locks once per batch |
//! | keep, near the limit | O(thread caches); once in 64 refusals also O(classes), and O(1) for each destroyed object |
//! | age | once in 16 reclaims O(classes), and O(1) for each destroyed object |
//! | empty, each | O(objects + classes × thread caches) |

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZero;
use std::sync::{OnceLock, PoisonError};

use crate::primitive::{
    AtomicBool, AtomicU32, AtomicU64, CachePadded, Mutex, MutexGuard, Ordering, fence, shrunk, shrunk_under_miri_too,
};
use crate::thread_cache::{self, Account, BATCH_MAX, ROOM_MAX, ThreadCaches, batch};
use ringfence_core::range::Invalid;

/// Number of tags (hashes of descriptions) in a cache line, and so the maximum number of descriptions with the same
/// line that are known at a time.
const WAYS: usize = shrunk_under_miri_too(8, 2);
/// Number of cache lines of tags (hashes of descriptions).
const LINES: usize = shrunk_under_miri_too(64, 1);
/// Maximum number of descriptions that are known at a time. Each known description has a class.
const CLASSES: usize = WAYS * LINES;
/// Number of calls of `reclaim` between two checks of the descriptions' ages.
const AGE_STEP: u64 = shrunk(16, 1) as u64;
/// Number of refused objects after which the objects of the least recently requested description are taken out.
const REFUSALS_STEP: u32 = shrunk(64, 1);
/// Maximum number of objects of one description in a thread cache. Their bytes are limited too
/// ([`CACHED_BYTES_SHARE`]), but `CACHED_COUNT_MIN` objects are always permitted.
const CACHED_COUNT_MAX: u64 = ROOM_MAX as u64;
const CACHED_COUNT_MIN: u64 = 4;
/// The objects of one description in a thread cache may have up to `bytes_max / CACHED_BYTES_SHARE` bytes together.
const CACHED_BYTES_SHARE: u64 = 16;
/// Number of steps into which the limit is divided: a step is `bytes_max / STEPS` bytes. An account has at most two
/// steps of free bytes.
const STEPS: u64 = shrunk(256, 4) as u64;

/// All parameters of an object's creation. Requests with equal keys can use the same object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The words. Unused words are 0.
    words: [u64; Key::WORDS],
    /// Number of used groups of [`GROUP`] words.
    groups: usize,
}

/// Number of words in a group. Whole groups are compared, so that there is no branch for each word.
const GROUP: usize = 4;

impl Key {
    /// Number of words of a key.
    pub const WORDS: usize = 3 * GROUP;

    /// Creates a key of the first `used` words; the others must be 0. Keys of fewer words are hashed and compared
    /// faster.
    ///
    /// # Panics
    /// If `used` exceeds [`Key::WORDS`].
    #[inline(always)]
    #[must_use]
    pub const fn new(words: [u64; Self::WORDS], used: usize) -> Self {
        assert!(used <= Self::WORDS, "a key has at most 12 words");
        Self { words, groups: used.div_ceil(GROUP) }
    }

    #[inline]
    fn groups(&self) -> &[[u64; GROUP]] {
        &self.words.as_chunks().0[..self.groups]
    }

    /// Returns a 64-bit hash of the key, never 0. Pairs of words are multiplied independently, so that the processor
    /// can multiply them in parallel.
    #[inline(always)]
    fn tag(&self) -> u64 {
        let product = |[one, other]: [u64; 2], at: usize| mixed(one ^ WORD_MASKS[at], other ^ WORD_MASKS[at + 1]);
        let add = |sum: u64, (at, words): (usize, &[u64; GROUP])| {
            let [one, two, three, four] = *words;
            sum.wrapping_add(product([one, two], at * GROUP)).wrapping_add(product([three, four], at * GROUP + 2))
        };
        mixed(self.groups().iter().enumerate().fold(0, add), FACTORS[1]).max(1)
    }
}

/// Data that is stored in an object that may be recycled. The fields that are read to keep the object, or to take it
/// with a short key, are in one cache line. The line is usually not in the cache, because the object was not accessed
/// for some frames.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Recycling {
    tag: NonZero<u64>,
    bytes: u64,
    /// [`name_bits`] of the object's name; 0 if it has no name.
    pub name: u64,
    kind: u32,
    class: u16,
    groups: u16,
    words: [u64; Key::WORDS],
}

const _: () = assert!(CLASSES <= 1 << 16 && size_of::<Option<Recycling>>() == 128);

impl Recycling {
    /// Returns the memory of the object.
    #[must_use]
    pub const fn held(&self) -> Held {
        Held { bytes: self.bytes, kind: self.kind }
    }

    /// Returns `true` if the object was created for this key.
    #[inline]
    fn serves(&self, key: &Key) -> bool {
        let differ = |words: &[u64; GROUP], others: &[u64; GROUP]| {
            (0..GROUP).fold(0, |differ, at| differ | (words[at] ^ others[at]))
        };
        let pairs = key.groups().iter().zip(self.words.as_chunks().0);
        usize::from(self.groups) == key.groups && pairs.fold(0, |sum, (words, others)| sum | differ(words, others)) == 0
    }
}

/// Returns a 64-bit hash of a name, or 0 if the name is empty. `key` must be a secret of the process, so that two names
/// with equal hashes cannot be constructed.
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

/// Odd factors for the hash, with irregular bits.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

/// A mask for each word of a key. Each word is xored with its mask before it is multiplied, so that keys with swapped
/// words have different tags, and a factor is rarely 0.
const WORD_MASKS: [u64; Key::WORDS] = {
    let (mut masks, mut at) = ([0; Key::WORDS], 0);
    while at < Key::WORDS {
        masks[at] = FACTORS[1].rotate_left(5 * at as u32);
        at += 1;
    }
    masks
};

/// Returns the xor of the two halves of a 128-bit product.
#[inline]
const fn mixed(one: u64, other: u64) -> u64 {
    let product = (one ^ FACTORS[0]) as u128 * (other as u128);
    product as u64 ^ (product >> 64) as u64
}

/// The memory of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Bytes that are reserved for the object.
    pub bytes: u64,
    /// Kind of memory of these bytes, as a number that the caller defines. [`Recycled::empty`] selects objects by it.
    pub kind: u32,
}

/// A request for an object, from [`Recycled::wanted`].
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    key: &'a Key,
    tag: u64,
    /// Class of the description; `None` if the description was not known before this request.
    class: Option<u32>,
}

/// An object that may be recycled.
pub trait Recyclable {
    /// Returns the data of the object. Returns `None` if the object may not be recycled.
    fn recycling(&self) -> Option<&Recycling>;
}

/// State of a known description, and its kept objects that are in no thread cache.
#[repr(align(128))]
struct Class<T> {
    /// Time of the last request, as a value of [`Recycled::time`].
    used_at: AtomicU32,
    /// Number of objects of this class that are kept or in use.
    live: AtomicU32,
    /// The list has host memory for at least this number of objects.
    room: AtomicU32,
    /// `true` if a thread has decided to keep an object of the class since the last `Store::forget_class`.
    is_kept: AtomicBool,
    /// The list is on its own cache lines, because each request reads the fields above.
    list: CachePadded<List<T>>,
}

/// Kept objects of a class that are in no thread cache. Host memory is allocated and freed outside of the lock.
struct List<T>(Mutex<Vec<T>>);

impl<T> List<T> {
    /// Locks the list. Poisoning is ignored, because no code panics under the lock.
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn pop(&self) -> Option<T> {
        self.lock().pop()
    }

    fn extend(&self, mut new: impl Iterator<Item = T>) {
        self.reserve(self.len() + BATCH_MAX);
        {
            let mut items = self.lock();
            let free = items.capacity() - items.len();
            items.extend(new.by_ref().take(free));
        }
        new.for_each(|item| _ = self.push(item, || false));
    }

    /// Reserves host memory for `count` items.
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
        // The old host memory is freed after the unlock.
        drop(items);
    }

    /// Adds an object, unless `is_refused` returns `true` under the lock.
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

/// The known descriptions and the kept objects.
struct Store<T, O> {
    tags: Box<[[AtomicU64; WAYS]]>,
    classes: Box<[Class<T>]>,
    thread_caches: ThreadCaches<T, O, CLASSES>,
    /// Bytes of all kept objects, plus free bytes of all accounts: at most `bytes_max`.
    reserved: CachePadded<AtomicU64>,
    bytes_max: u64,
    /// Number of objects that were refused because of the limit, wrapping.
    refused: AtomicU32,
    /// Number of objects that were taken from lists for requests.
    taken: AtomicU64,
}

/// A store of objects that are kept for the next request with the same description.
pub struct Recycled<T, O> {
    /// The descriptions and objects. Created by the first request.
    store: OnceLock<Store<T, O>>,
    bytes_max: u64,
    grace_ticks: u64,
    is_closed: AtomicBool,
    /// A clock for ages. It increases by 1 after every [`AGE_STEP`] reclaims and after every [`REFUSALS_STEP`]
    /// refusals: rarely, because all threads read it.
    time: AtomicU32,
}

impl<T: Recyclable, O> Recycled<T, O> {
    /// Creates a store that keeps at most `bytes_max` bytes. A tick is a call of [`Recycled::age`]. The kept objects of
    /// a description are destroyed once its last request was `grace_ticks` to `grace_ticks + 32` ticks ago, or earlier
    /// if the store refuses objects because of the limit. If `grace_ticks` is 0, no object is kept.
    #[must_use]
    pub fn new(bytes_max: u64, grace_ticks: u64) -> Self {
        // If ticks are not counted, no object would ever be destroyed.
        let bytes_max = if grace_ticks == 0 { 0 } else { bytes_max };
        Self {
            store: OnceLock::new(),
            bytes_max,
            grace_ticks,
            is_closed: AtomicBool::new(false),
            time: AtomicU32::new(0),
        }
    }

    /// Returns `true` if the store can keep objects: if `bytes_max` and `grace_ticks` are not 0.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// Records a request for an object with this key, and returns the request.
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

    /// Takes an object for the request from this thread's cache or from the list of the class. Returns `None` if
    /// neither has one, or if the description was not known before the request. Also returns an owner, if this thread's
    /// cache has one. O(1).
    ///
    /// # Errors
    /// An object of another description: either the two descriptions have the same tag, or the other one had this class
    /// before. The caller must destroy the object, because no request can use it.
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

    /// Returns the memory of the object that a request would take from this thread's cache or from the list. Returns
    /// `None` if there is no such object. Changes nothing.
    pub fn peek(&self, key: &Key) -> Option<Held> {
        let store = self.store.get()?;
        let class = store.find(key.tag())?;
        let held = |item: &T| item.recycling().filter(|held| held.serves(key)).map(Recycling::held);
        let cached = store.thread_caches.peek(class, held).flatten();
        cached.or_else(|| store.list(class).lock().last().and_then(held))
    }

    /// Returns `true` if objects for the request may be kept: if a thread has decided to keep such an object since
    /// `Store::forget_class` last took all of them out.
    pub fn knows(&self, wanted: &Wanted<'_>) -> bool {
        let class = self.store.get().zip(wanted.class);
        class.is_some_and(|(store, class)| store.classes[class as usize].is_kept.load(Ordering::Relaxed))
    }

    /// Returns the data to store in an object that was created for the request. Returns `None` if the description was
    /// not known before the request, because the object may then not be recycled. `name` is the [`name_bits`] of the
    /// object's name. Reserves host memory for the object in the list.
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

    /// Records that an object with this data is destroyed.
    pub fn forget(&self, recycling: &Recycling) {
        if let Some(store) = self.store.get() {
            store.classes[recycling.class as usize].live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns `true` if [`Recycled::keep`] would keep an object with this data, unless the object's bytes exceed the
    /// limit. Then also records that the description has a kept object. O(1).
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

    /// Keeps an object. Call it only after [`Recycled::would_keep`] has returned `true`. The object is put into this
    /// thread's cache if the cache has room, or else into the list of its class. Objects that are taken out because the
    /// limit is reached are passed to `gone`.
    ///
    /// # Errors
    /// The object, if the limit would be exceeded, if the store is closed, or if the object may not be recycled.
    #[inline]
    pub fn keep(&self, item: T, gone: impl FnMut(T)) -> Result<(), T> {
        let (Some(store), Some(recycling)) = (self.store.get(), item.recycling()) else { return Err(item) };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let full = store.cached_max(bytes);
        let spend = |account: &mut Account, held| held < full && account.spend(bytes);
        let put = store.thread_caches.put_item_counted(class, item, spend);
        let Err(item) = put else { return Ok(()) };
        self.keep_after_reserving(item, gone)
    }

    /// Does the same as [`Recycled::keep`]. Also puts the owner into this thread's cache, for the next request.
    ///
    /// # Errors
    /// The object and the owner, if [`Recycled::keep`] would return an error.
    ///
    /// # Safety
    /// `of` must return the store of the owner's allocator. The owner must keep this store alive.
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
                let spend = |account: &mut Account, held| held < full && account.spend(bytes);
                // SAFETY: the caller guarantees that `owner` keeps the result of `of` alive, which contains the thread
                // cache.
                match unsafe { thread_cache::put_counted(thread_cache, class, || item, owner, spend) } {
                    Ok(()) => return Ok(()),
                    Err((item, owner)) => (item(), owner),
                }
            }
        };
        if let Err(item) = of(&owner).keep_after_reserving(item, gone) {
            return Err((item, owner));
        }
        // SAFETY: the caller guarantees that `owner` keeps the result of `of` alive.
        unsafe { Self::keep_owner(owner, of) };
        Ok(())
    }

    /// Reserves the object's bytes, then keeps the object. Called if the thread's cache has no room, or if its account
    /// has too few free bytes.
    #[cold]
    #[inline(never)]
    fn keep_after_reserving(&self, item: T, gone: impl FnMut(T)) -> Result<(), T> {
        let (Some(store), Some(recycling)) = (self.store.get(), item.recycling()) else { return Err(item) };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let Some(more) = store.reserve(bytes) else {
            store.refuse(class, &self.time, gone);
            return Err(item);
        };
        store.keep_reserved(class, item, more, &self.is_closed).inspect_err(|_| store.unreserve(bytes))
    }

    /// Puts an owner into this thread's cache, for the next request. If the cache has no room, drops it.
    ///
    /// # Safety
    /// `of` must return the store of the owner's allocator. The owner must keep this store alive.
    #[inline]
    pub unsafe fn keep_owner(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self) {
        let mine = of(&owner).store.get().and_then(|store| store.thread_caches.mine());
        if let Some(thread_cache) = mine.map(core::ptr::from_ref) {
            // SAFETY: the caller guarantees that `owner` keeps the result of `of` alive, which contains the thread
            // cache.
            drop(unsafe { thread_cache::put_owner(thread_cache, owner) });
        }
    }

    /// Takes an owner from this thread's cache. Returns `None` if the cache has none, is taken or does not exist.
    pub fn take_owner(&self) -> Option<O> {
        self.store.get()?.thread_caches.take_owner()
    }

    /// Returns the number of bytes of all kept objects, plus the free bytes of all accounts. One load.
    pub fn reserved_bytes(&self) -> u64 {
        self.store.get().map_or(0, |store| store.reserved.0.load(Ordering::Relaxed))
    }

    /// Returns the number of objects that were taken for requests so far. O(thread caches).
    pub fn taken(&self) -> u64 {
        let Some(store) = self.store.get() else { return 0 };
        let mut taken = store.taken.load(Ordering::Relaxed);
        store.thread_caches.each_account(|account| taken += account.taken);
        taken
    }

    /// Takes out the objects of descriptions that have not been requested during the grace period, and passes them to
    /// `gone`. Call it once per reclaim, with the number of the reclaim as `tick`: 15 of 16 calls do nothing.
    pub fn age(&self, tick: u64, mut gone: impl FnMut(T)) {
        let Some(store) = self.store.get().filter(|_| tick.is_multiple_of(AGE_STEP)) else { return };
        let now = self.time.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        store.thread_caches.sweep(|class, item| {
            if let Err(item) = store.push(class, item, &self.is_closed) {
                store.unreserve(bytes_of(&item));
                gone(item);
            }
        });
        for (class, held) in store.classes.iter().enumerate() {
            // One step is subtracted, because the step of the last request may have ended just after the request.
            if u64::from(held.age(now).saturating_sub(1)) * AGE_STEP >= self.grace_ticks {
                store.forget_class(class, &mut gone);
            }
        }
    }

    /// Takes out all objects that are in certain kinds of memory, and passes them to `gone`: `kinds` returns `true` for
    /// each such [`Held::kind`].
    pub fn empty(&self, kinds: impl Fn(u32) -> bool, mut gone: impl FnMut(T)) {
        let Some(store) = self.store.get() else { return };
        (0..CLASSES).for_each(|class| store.take_class(class, &kinds, &mut gone));
    }

    /// Takes out all objects and passes them to `gone`. Objects that are put in later are refused. Called when the last
    /// handle of the allocator is dropped.
    pub fn close(&self, mut gone: impl FnMut(T)) {
        self.is_closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let Some(store) = self.store.get() else { return };
        let mut counted = |item: T| {
            store.unreserve(bytes_of(&item));
            gone(item);
        };
        store.thread_caches.close(|_, item| counted(item));
        for class in &store.classes {
            core::iter::from_fn(|| class.list.0.pop()).for_each(&mut counted);
        }
    }

    /// Calls `look` for every kept object. `look` must not call this store.
    pub fn each(&self, mut look: impl FnMut(&T)) {
        let Some(store) = self.store.get() else { return };
        store.thread_caches.each_item(|_, item| look(item));
        store.classes.iter().for_each(|class| class.list.0.lock().iter().for_each(&mut look));
    }

    /// Checks all rules of the structure, for tests.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Some(store) = self.store.get() else { return Ok(()) };
        let mut bytes = 0;
        let mut check = |class: usize, item: &T| {
            bytes += bytes_of(item);
            let is_here = item.recycling().is_some_and(|held| held.class as usize == class);
            Invalid::unless(is_here, "a kept object is in its class", class as u64)
        };
        store.thread_caches.validate(&mut check)?;
        for (class, held) in store.classes.iter().enumerate() {
            held.list.0.lock().iter().try_for_each(|item| check(class, item))?;
        }
        store.thread_caches.each_account(|account| bytes += account.free);
        let reserved = store.reserved.0.load(Ordering::Relaxed);
        Invalid::unless(bytes == reserved, "the reserved bytes are those of kept objects and accounts", bytes)?;
        Invalid::unless(reserved <= self.bytes_max, "the kept objects are within the bound", reserved)
    }
}

fn bytes_of(item: &impl Recyclable) -> u64 {
    item.recycling().map_or(0, |held| held.bytes)
}

impl Account {
    /// Subtracts `bytes` from the free bytes. Returns `false` and subtracts nothing if there are too few.
    #[inline]
    fn spend(&mut self, bytes: u64) -> bool {
        let left = self.free.checked_sub(bytes);
        self.free = left.unwrap_or(self.free);
        left.is_some()
    }
}

impl<T> Class<T> {
    /// Records that an object of the class is kept, so that the class ages. Also called when an object is moved to the
    /// list: the object may have been put into a thread cache while the objects of its class were taken out.
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
            list: CachePadded(List(Mutex::new(Vec::new()))),
        }
    }

    /// Counts a new object, and reserves host memory for it in the list.
    fn make_room(&self) {
        let live = self.live.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if live > self.room.load(Ordering::Relaxed) {
            let room = live.saturating_mul(2).max(BATCH_MAX as u32);
            self.list.0.reserve(room as usize);
            self.room.fetch_max(room, Ordering::Relaxed);
        }
    }

    /// Returns the time since the last request, in steps of [`Recycled::time`]; 0 if no object is kept.
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
            reserved: CachePadded(AtomicU64::new(0)),
            bytes_max,
            refused: AtomicU32::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn list(&self, class: usize) -> &List<T> {
        &self.classes[class].list.0
    }

    /// Returns the maximum number of objects of one class in a thread cache, if each has `bytes` bytes.
    #[inline]
    fn cached_max(&self, bytes: u64) -> usize {
        let most = self.bytes_max / CACHED_BYTES_SHARE;
        // Most objects are small. For them, no division is needed.
        let by_bytes = if bytes <= most / CACHED_COUNT_MAX { CACHED_COUNT_MAX } else { most / bytes };
        by_bytes.max(CACHED_COUNT_MIN) as usize
    }

    fn step(&self) -> u64 {
        self.bytes_max / STEPS
    }

    /// Adds the bytes of a taken object to the free bytes of the account. If the account then has more than two steps
    /// free, reduces the free bytes to one step and returns the difference. Otherwise, returns 0.
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

    /// Reserves bytes for an object that is put in. Returns the number of additional bytes that were reserved for this
    /// thread's account. Returns `None` if the limit would be exceeded.
    fn reserve(&self, bytes: u64) -> Option<u64> {
        if self.thread_caches.with_account(|account| account.spend(bytes)) == Some(true) {
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
        self.unreserve(free);
        self.reserve_exactly(bytes).then_some(0)
    }

    fn reserve_exactly(&self, bytes: u64) -> bool {
        let grown = |reserved: u64| reserved.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.reserved.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn unreserve(&self, bytes: u64) {
        self.reserved.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a refused object of a class. At every [`REFUSALS_STEP`]th refusal, takes out the objects of another
    /// class: the one that was requested least recently, unless it was requested since the previous step.
    fn refuse(&self, class: usize, time: &AtomicU32, mut gone: impl FnMut(T)) {
        if !self.refused.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(REFUSALS_STEP) {
            return;
        }
        let now = time.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let others = (0..CLASSES).filter(|other| *other != class);
        let oldest = others.max_by_key(|class| self.classes[*class].age(now));
        // A description that was requested after the previous step is in use.
        if let Some(class) = oldest.filter(|class| self.classes[*class].age(now) > 1) {
            self.forget_class(class, &mut gone);
        }
    }

    /// Takes out all objects of a class, if any were kept.
    fn forget_class(&self, class: usize, gone: &mut impl FnMut(T)) {
        if self.classes[class].is_kept.swap(false, Ordering::Relaxed) {
            self.take_class(class, |_| true, gone);
        }
    }

    const fn line(tag: u64) -> usize {
        (tag >> 32) as usize % LINES
    }

    /// Returns the class of a tag. Returns `None` if the tag is not known.
    #[inline(always)]
    fn find(&self, tag: u64) -> Option<usize> {
        let line = Self::line(tag);
        let way = self.tags[line].iter().position(|held| held.load(Ordering::Relaxed) == tag)?;
        Some(line * WAYS + way)
    }

    /// Returns the class of a tag, and records the request. If the tag is not known, records the tag and returns
    /// `None`.
    #[inline(always)]
    fn class_of(&self, tag: u64, tick: u32) -> Option<u32> {
        let Some(index) = self.find(tag) else {
            self.record_tag(tag, tick);
            return None;
        };
        let class = &self.classes[index];
        if class.used_at.load(Ordering::Relaxed) != tick {
            class.used_at.store(tick, Ordering::Relaxed);
        }
        Some(index as u32)
    }

    /// Records a new tag in a free entry of its line, or in place of the tag that was requested least recently. A tag
    /// is not replaced if its class has kept objects. If there is no other entry, the new tag is not recorded.
    #[cold]
    #[inline(never)]
    fn record_tag(&self, tag: u64, tick: u32) {
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

    /// Takes an object from the list of a class, and moves up to a batch of further objects to this thread's cache.
    #[cold]
    #[inline(never)]
    fn refill(&self, class: usize, is_closed: &AtomicBool) -> Option<(T, Option<O>)> {
        let list = self.list(class);
        if list.len() == 0 {
            return None;
        }
        let wanted = self.refill_count(class, is_closed);
        let (first, mut items) = {
            let mut items = list.lock();
            let first = items.pop()?;
            (first, batch(core::iter::from_fn(|| items.pop()).take(wanted)))
        };
        self.thread_caches.fill(class, &mut items);
        list.extend(items);
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.unreserve(bytes_of(&first));
        Some((first, self.thread_caches.take_owner()))
    }

    /// Returns the number of objects to move to this thread's cache, and creates the cache if it does not exist. If the
    /// last handle of the allocator is dropped meanwhile, `close` can miss the new cache. The cache is then closed
    /// here, because an owner in it would keep the allocator alive.
    fn refill_count(&self, class: usize, is_closed: &AtomicBool) -> usize {
        let wanted = self.thread_caches.wanted(class);
        fence(Ordering::SeqCst);
        if !is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.thread_caches.close(|class, item| _ = self.list(class).push(item, || false));
        0
    }

    /// Keeps an object whose bytes are reserved. Adds `more` bytes to this thread's account. If this thread's cache has
    /// no room, moves the older half of its objects of the class to the list. If the cache still has no room, puts the
    /// object into the list.
    fn keep_reserved(&self, class: usize, item: T, more: u64, is_closed: &AtomicBool) -> Result<(), T> {
        let full = self.cached_max(bytes_of(&item));
        let count = |account: &mut Account, held| {
            let has_room = held < full;
            account.free += if has_room { more } else { 0 };
            has_room
        };
        let Err(item) = self.thread_caches.put_item_counted(class, item, count) else { return Ok(()) };
        if self.thread_caches.mine().is_none() {
            self.refill_count(class, is_closed);
        }
        self.extend(class, self.thread_caches.older_of(class, full));
        let Err(item) = self.thread_caches.put_item_counted(class, item, count) else { return Ok(()) };
        self.unreserve(more);
        self.push(class, item, is_closed)
    }

    fn push(&self, class: usize, item: T, is_closed: &AtomicBool) -> Result<(), T> {
        // `is_closed` is read under the lock, because `close` sets it before it takes the lock.
        let put = self.list(class).push(item, || is_closed.load(Ordering::SeqCst));
        self.classes[class].note_kept();
        put
    }

    fn extend(&self, class: usize, items: impl Iterator<Item = T>) {
        self.list(class).extend(items);
        self.classes[class].note_kept();
    }

    /// Takes out the objects of a class that are in certain kinds of memory, and passes them to `gone`: `kinds` returns
    /// `true` for each such kind.
    fn take_class(&self, class: usize, kinds: impl Fn(u32) -> bool, gone: &mut impl FnMut(T)) {
        let mut others = Vec::new();
        let mut sort_out = |item: T| {
            if item.recycling().is_some_and(|held| !kinds(held.kind)) {
                return others.push(item);
            }
            self.unreserve(bytes_of(&item));
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
