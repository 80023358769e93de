//! Recycled objects: what was expensive to make and is not in use, kept for the next request of the same description. For the
//! allocator these are driver objects that the device is done with, bound to their memory.
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
//! Nothing of a description that was asked for once. Of others each object that is given, as long as all together are within the bound
//! in bytes, and until their description has not been asked for during so many ticks. Objects of one description have one size and
//! one kind, so that they are counted by their number.
//!
//! | operation | cost |
//! |---|---|
//! | take, keep | O(1): the key, a line of tags, an exchange; a short lock once a batch |
//! | age | O(classes) once in 32 reclaims, and each object that goes |
//! | empty | O(objects) |

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::fence;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::bounded_sum::BoundedSum;
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::range::Invalid;
use crate::thread_cache::{self, BATCH_MAX, ROOM_MAX, ThreadCaches, batch};

/// Tags that share a cache line, and descriptions that may collide before one is forgotten.
const WAYS: usize = 8;
/// Lines of tags.
const LINES: usize = 64;
/// Descriptions that are known at a time.
const CLASSES: usize = WAYS * LINES;
/// So many calls of reclaim pass before ages are looked at again.
const AGE_STEP: u64 = 32;

/// All that the maker was asked: what two requests have in common if one object serves both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key([u64; Key::WORDS]);

impl Key {
    /// How many words a key holds.
    pub const WORDS: usize = 14;

    /// A key of these words.
    #[inline]
    #[must_use]
    pub const fn new(words: [u64; Self::WORDS]) -> Self {
        Self(words)
    }

    /// 64 bits of it that are never 0.
    #[inline]
    fn tag(&self) -> u64 {
        self.0.chunks_exact(2).fold(0, |sum, pair| mixed(pair[0] ^ sum, pair[1] ^ FACTORS[1])).max(1)
    }
}

/// What is known of an object that may be recycled.
#[derive(Clone, Copy, Debug)]
pub struct Recycling {
    key: Key,
    tag: u64,
    class: u32,
    /// Bytes that are set aside for it.
    bytes: u64,
    kind: u32,
    /// 64 bits of the name that it has, 0 for none.
    pub name: u64,
}

/// 64 bits of a name: 0 for none.
#[inline]
#[must_use]
pub fn name_bits(name: &str) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let bits = name.as_bytes().chunks(8).fold(name.len() as u64, |sum, bytes| mixed(sum ^ word(bytes), FACTORS[1]));
    if name.is_empty() { 0 } else { bits.max(1) }
}

/// Odd numbers without a pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

/// Both halves of a product, over each other.
#[inline]
const fn mixed(one: u64, other: u64) -> u64 {
    let product = (one ^ FACTORS[0]) as u128 * (other as u128);
    product as u64 ^ (product >> 64) as u64
}

/// What an object holds.
#[derive(Clone, Copy)]
pub struct Held {
    /// Bytes that are set aside for it: less than 2^56.
    pub bytes: u64,
    /// Anything up to 254: where these bytes are.
    pub kind: u32,
}

/// What a request asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    key: Key,
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
struct Class<T> {
    /// The reclaim after which it was asked for last.
    used_at: AtomicU32,
    /// Objects that were made of it and live, kept or in use.
    live: AtomicU32,
    /// What each object holds, see [`Class::shape`]; 0 if none was kept yet.
    shape: AtomicU64,
    list: List<T>,
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

    /// Sees to it that so many fit.
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
    bytes: BoundedSum,
}

/// See the [module](self).
pub struct Recycled<T, O> {
    /// Made with the first request that may be served of it.
    store: OnceLock<Store<T, O>>,
    bytes_max: u64,
    grace_ticks: u64,
    is_closed: AtomicBool,
    /// The number of the reclaim before.
    tick: AtomicU32,
}

impl<T: Recyclable, O> Recycled<T, O> {
    /// At most so many bytes, and a description that was not asked for during so many ticks is forgotten. Without ticks nothing is
    /// kept.
    #[must_use]
    pub fn new(bytes_max: u64, grace_ticks: u64) -> Self {
        // Without a clock nothing would ever go.
        let bytes_max = if grace_ticks == 0 { 0 } else { bytes_max };
        Self {
            store: OnceLock::new(),
            bytes_max,
            grace_ticks,
            is_closed: AtomicBool::new(false),
            tick: AtomicU32::new(0),
        }
    }

    /// Whether anything is ever kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// Notes that something is asked for.
    #[inline]
    pub fn wanted(&self, key: Key) -> Wanted {
        let store = self.store.get_or_init(|| Store::new(self.bytes_max));
        let tag = key.tag();
        let tick = self.tick.load(Ordering::Relaxed);
        Wanted { key, tag, class: store.class_of(tag, tick) }
    }

    /// An object for what is wanted that is cached for this thread, or in its list; and an owner of the allocator.
    #[inline]
    pub fn take(&self, wanted: &Wanted) -> Option<(T, Option<O>)> {
        let (store, class) = (self.store.get()?, wanted.class? as usize);
        let (item, owner) = store.thread_caches.take(class).or_else(|| store.refill(class, &self.is_closed))?;
        let recycling = item.recycling()?;
        store.bytes.sub(recycling.bytes);
        Some((item, owner))
    }

    /// What the object holds that a request would be given, if there is one for this thread or in its list. Changes nothing.
    pub fn peek(&self, key: &Key) -> Option<Held> {
        let store = self.store.get()?;
        let class = store.find(key.tag())?;
        let serves = |item: &T| item.recycling().is_some_and(|held| held.key == *key);
        let is_there = store.thread_caches.peek(class, serves) == Some(true)
            || store.classes[class].list.lock().last().is_some_and(serves);
        is_there.then(|| store.classes[class].shape()).flatten()
    }

    /// Whether objects for what is wanted are kept.
    pub fn knows(&self, wanted: &Wanted) -> bool {
        let class = self.store.get().zip(wanted.class);
        class.is_some_and(|(store, class)| store.classes[class as usize].shape().is_some())
    }

    /// Whether an object serves what is wanted.
    #[inline]
    pub fn serves(item: &T, wanted: &Wanted) -> bool {
        item.recycling().is_some_and(|held| held.key == wanted.key)
    }

    /// What to note of an object that was made for what was wanted, if it may be recycled. From now on its list has room for it.
    pub fn recycling(&self, wanted: &Wanted, Held { bytes, kind }: Held, name: &str) -> Option<Recycling> {
        let Wanted { key, tag, class } = *wanted;
        let of_class = &self.store.get()?.classes[class? as usize];
        of_class.list.reserve(of_class.live.fetch_add(1, Ordering::Relaxed) as usize + 1);
        Some(Recycling { key, tag, class: class?, bytes, kind, name: name_bits(name) })
    }

    /// An object that might have been recycled is taken apart.
    pub fn forget(&self, recycling: &Recycling) {
        if let Some(store) = self.store.get() {
            store.classes[recycling.class as usize].live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether an object of this description would be kept now; its bytes are counted then.
    #[inline]
    pub fn accepts(&self, recycling: &Recycling) -> bool {
        let Some(store) = self.store.get() else { return false };
        let class = recycling.class as usize;
        let is_known = store.tags[class / WAYS][class % WAYS].load(Ordering::Relaxed) == recycling.tag;
        is_known
            && store.classes[class].has_shape(recycling)
            && !self.is_closed.load(Ordering::Relaxed)
            && store.bytes.try_add(recycling.bytes)
    }

    /// Keeps an object that was accepted, for this thread if there is room. Gives it back if nothing is kept any more.
    ///
    /// # Errors
    /// The object.
    #[inline]
    pub fn keep(&self, item: T) -> Result<(), T> {
        let (Some(store), Some(recycling)) = (self.store.get(), item.recycling()) else { return Err(item) };
        let (class, bytes) = (recycling.class as usize, recycling.bytes);
        let Err(item) = store.thread_caches.put_item(class, item) else { return Ok(()) };
        let Err(item) = store.keep_slowly(class, item, &self.is_closed) else { return Ok(()) };
        store.bytes.sub(bytes);
        Err(item)
    }

    /// Keeps an owner of the allocator for the next user, on this thread.
    #[inline]
    ///
    /// # Safety
    /// `of` gives what is recycled of the owner's allocator, which the owner keeps alive.
    pub unsafe fn keep_owner(owner: O, of: impl for<'a> Fn(&'a O) -> &'a Self) {
        let mine = of(&owner).store.get().and_then(|store| store.thread_caches.mine());
        if let Some(thread_cache) = mine.map(core::ptr::from_ref) {
            // SAFETY: the owner keeps the thread cache alive, as the caller promises.
            drop(unsafe { thread_cache::put_owner(thread_cache, owner) });
        }
    }

    /// An owner that was kept on this thread.
    pub fn take_owner(&self) -> Option<O> {
        self.store.get()?.thread_caches.take_owner()
    }

    /// Takes out what has not been asked for in a while. Once a reclaim.
    pub fn age(&self, tick: u64, mut gone: impl FnMut(T)) {
        self.tick.store(tick as u32, Ordering::Relaxed);
        let Some(store) = self.store.get().filter(|_| tick.is_multiple_of(AGE_STEP)) else { return };
        store.thread_caches.sweep(|class, item| {
            if let Err(item) = store.push(class, item, &self.is_closed) {
                store.bytes.sub(item.recycling().map_or(0, |held| held.bytes));
                gone(item);
            }
        });
        for (class, held) in store.classes.iter().enumerate() {
            let age = (tick as u32).wrapping_sub(held.used_at.load(Ordering::Relaxed));
            if held.shape().is_some() && u64::from(age) > self.grace_ticks {
                store.take_class(class, |_| true, &mut gone);
                held.shape.store(0, Ordering::Relaxed);
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
            store.bytes.sub(item.recycling().map_or(0, |held| held.bytes));
            gone(item);
        };
        store.thread_caches.close(|_, item| counted(item));
        for class in &store.classes {
            core::iter::from_fn(|| class.list.pop()).for_each(&mut counted);
        }
    }

    /// Looks at everything that is kept.
    pub fn each(&self, mut look: impl FnMut(&T)) {
        let Some(store) = self.store.get() else { return };
        store.thread_caches.empty(|class, item| {
            if let Err(item) = store.push(class, item, &self.is_closed) {
                unreachable!("a handle of the allocator lives: {}", item.recycling().is_some());
            }
        });
        store.classes.iter().for_each(|class| class.list.lock().iter().for_each(&mut look));
    }

    /// What is kept: calls `each` for each description with what one object holds, and their number.
    pub fn count(&self, mut each: impl FnMut(Held, u64)) {
        let Some(store) = self.store.get() else { return };
        for (index, class) in store.classes.iter().enumerate() {
            if let Some(held) = class.shape() {
                each(held, (class.list.len() + store.thread_caches.count(index)) as u64);
            }
        }
    }

    /// Checks every rule of the structure. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Some(store) = self.store.get() else { return Ok(()) };
        let (mut bytes, bound) = (0, self.bytes_max);
        let mut check = |class: usize, item: &T| {
            let held = item.recycling().map_or(0, |held| held.bytes);
            bytes += held;
            let is_here = item.recycling().is_some_and(|held| held.class as usize == class);
            Invalid::unless(is_here, "what is recycled lies in its class", class as u64)
        };
        store.thread_caches.validate(&mut check)?;
        for (class, held) in store.classes.iter().enumerate() {
            held.list.lock().iter().try_for_each(|item| check(class, item))?;
        }
        Invalid::unless(bytes == store.bytes.get(), "the bytes of what is recycled are counted", bytes)?;
        Invalid::unless(bytes <= bound, "what is recycled is within its bound", bytes)
    }
}

/// Bits of [`Class::shape`] that are bytes.
const SHAPE_BYTES: u32 = 56;

impl<T> Class<T> {
    fn new() -> Self {
        Self {
            used_at: AtomicU32::new(0),
            live: AtomicU32::new(0),
            shape: AtomicU64::new(0),
            list: List(Mutex::new(Vec::new())),
        }
    }

    /// Whether what is kept is like this object: all of one class have one size and one memory type, so that they are counted
    /// by their number.
    #[inline]
    fn has_shape(&self, recycling: &Recycling) -> bool {
        let shape = u64::from(recycling.kind + 1) << SHAPE_BYTES | recycling.bytes;
        let is_valid = recycling.bytes >> SHAPE_BYTES == 0;
        is_valid
            && match self.shape.load(Ordering::Relaxed) {
                0 => self.shape.compare_exchange(0, shape, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
                held => held == shape,
            }
    }

    /// The bytes in its low bits; above them the kind and 1.
    fn shape(&self) -> Option<Held> {
        let shape = self.shape.load(Ordering::Relaxed);
        let (bytes, kind) = (shape & ((1 << SHAPE_BYTES) - 1), (shape >> SHAPE_BYTES) as u32);
        (shape != 0).then(|| Held { bytes, kind: kind - 1 })
    }
}

impl<T: Recyclable, O> Store<T, O> {
    fn new(bytes_max: u64) -> Self {
        Self {
            tags: (0..LINES).map(|_| core::array::from_fn(|_| AtomicU64::new(0))).collect(),
            classes: (0..CLASSES).map(|_| Class::new()).collect(),
            thread_caches: ThreadCaches::new([ROOM_MAX; CLASSES]),
            bytes: BoundedSum::new(bytes_max),
        }
    }

    const fn line(tag: u64) -> usize {
        (tag >> 32) as usize % LINES
    }

    /// The class of a tag, if it was asked for before.
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let line = Self::line(tag);
        let way = self.tags[line].iter().position(|held| held.load(Ordering::Relaxed) == tag)?;
        Some(line * WAYS + way)
    }

    /// As [`Store::find`]; from now on it was asked for.
    #[inline]
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

    /// Knows a tag from now on, in the place of a free one, or of the one that was not asked for the longest. A class that holds
    /// objects stays until these have gone by their age.
    #[cold]
    fn note(&self, tag: u64, tick: u32) {
        let line = Self::line(tag);
        let class = |way: usize| &self.classes[line * WAYS + way];
        let age = |way: usize| tick.wrapping_sub(class(way).used_at.load(Ordering::Relaxed));
        let tags = &self.tags[line];
        let free = (0..WAYS).find(|way| tags[*way].load(Ordering::Relaxed) == 0);
        let oldest =
            || (0..WAYS).filter(|way| class(*way).shape.load(Ordering::Relaxed) == 0).max_by_key(|way| age(*way));
        let Some(way) = free.or_else(oldest) else { return };
        let before = tags[way].load(Ordering::Relaxed);
        if tags[way].compare_exchange(before, tag, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            class(way).used_at.store(tick, Ordering::Relaxed);
        }
    }

    /// An object out of the list of a class, and a batch for this thread.
    #[cold]
    fn refill(&self, class: usize, is_closed: &AtomicBool) -> Option<(T, Option<O>)> {
        let list = &self.classes[class].list;
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
        items.for_each(|item| _ = list.push(item, || false));
        Some((first, self.thread_caches.take_owner()))
    }

    /// How many objects this thread's thread cache should be given; makes it if need be. One that is made while the last handle of
    /// the allocator goes is closed here if it came too late for that: what it held would keep the allocator alive.
    fn thread_wants(&self, class: usize, is_closed: &AtomicBool) -> usize {
        let wanted = self.thread_caches.wanted(class);
        fence(Ordering::SeqCst);
        if !is_closed.load(Ordering::Relaxed) {
            return wanted;
        }
        self.thread_caches.close(|class, item| _ = self.classes[class].list.push(item, || false));
        0
    }

    /// Makes room for the thread first; puts the object into the list of the class if there is none.
    #[cold]
    fn keep_slowly(&self, class: usize, item: T, is_closed: &AtomicBool) -> Result<(), T> {
        if self.thread_caches.mine().is_none() {
            self.thread_wants(class, is_closed);
        }
        let older = self.thread_caches.older(class);
        older.for_each(|item| _ = self.classes[class].list.push(item, || false));
        match self.thread_caches.put_item(class, item) {
            Ok(()) => Ok(()),
            Err(item) => self.push(class, item, is_closed),
        }
    }

    fn push(&self, class: usize, item: T, is_closed: &AtomicBool) -> Result<(), T> {
        // Asked under the lock: what closes takes it afterwards.
        self.classes[class].list.push(item, || is_closed.load(Ordering::SeqCst))
    }

    /// Takes out what a class holds, if it is of some kinds.
    fn take_class(&self, class: usize, kinds: impl Fn(u32) -> bool, gone: &mut impl FnMut(T)) {
        let held = &self.classes[class];
        if held.shape().is_some_and(|held| !kinds(held.kind)) {
            return;
        }
        let mut counted = |item: T| {
            self.bytes.sub(item.recycling().map_or(0, |recycling| recycling.bytes));
            gone(item);
        };
        self.thread_caches.empty_class(class, &mut counted);
        core::iter::from_fn(|| held.list.pop()).for_each(counted);
    }
}
