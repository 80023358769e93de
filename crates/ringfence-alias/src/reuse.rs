//! Plans kept: a frame like one before costs a lookup.
//!
//! ```text
//!   items ──▶ those of the frame before, one by one? ── yes ──▶ its plan
//!                    │ no
//!                    ▼
//!             fingerprint, 64 bits ──▶ entry with that fingerprint ──▶ the same items? ──▶ its plan
//! ```
//!
//! Most frames are like the one before, so that its items are compared first and no fingerprint is taken. The
//! comparison makes a wrong plan impossible, whatever the fingerprint. Who declares a frame item by item compares as it
//! goes ([`PlanCache::begin`]): what is left to do in the end does not depend on how many items there are.
//!
//! | operation | cost |
//! |---|---|
//! | [`PlanCache::get`] | one walk over the items for a frame like the last, else two and the entries; no host allocation |
//! | [`DeclaredFrame::take`] | O(1): some loads and a branch while the frame is like the last |
//! | [`DeclaredFrame::plan`] | O(1) for a frame like the last, else that of `get` |
//! | [`PlanCache::insert`] | O(items + entries) |

use super::item::Item;
use super::plan::AliasPlan;
use alloc::vec::Vec;

/// The shape of a frame in 64 bits, taken item by item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// That of no items.
    #[must_use]
    pub const fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }

    /// Takes the next item. O(1).
    pub fn take(&mut self, item: &Item) {
        // The fields are brought together first: only the last product waits for the item before.
        let size = item.size.wrapping_mul(0xa076_1d64_78bd_642f) ^ item.alignment.rotate_left(40);
        let lower = item.lifetime.lower.wrapping_mul(0xe703_7ed1_a0b4_28db).rotate_left(23);
        let upper = item.lifetime.upper.wrapping_mul(0x8ebc_6af0_9c88_c6e3).rotate_left(47);
        self.0 = mix(self.0 ^ size ^ lower ^ upper ^ item.class as u64);
    }

    /// That of all items. O(n).
    #[must_use]
    pub fn of(items: &[Item]) -> Self {
        let mut fingerprint = Self::new();
        items.iter().for_each(|item| fingerprint.take(item));
        fingerprint
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

/// Both halves of a product: every bit reaches most bits of the result.
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15_u128;
    (product >> 64) as u64 ^ product as u64 ^ 0x5851_f42d_4c95_7f2d
}

struct Entry {
    fingerprint: Fingerprint,
    items: Vec<Item>,
    plan: AliasPlan,
    used: u64,
}

/// The last plans, by the items that they are for.
pub struct PlanCache {
    entries: Vec<Entry>,
    capacity: usize,
    /// Counts look-ups: the entry used longest ago goes first.
    clock: u64,
    /// The entry that was used last; any place if there is none.
    last: usize,
    /// The items of a declared frame that is not like the last; kept for its memory.
    declared: Vec<Item>,
}

impl PlanCache {
    /// Keeps up to `capacity` plans (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity: capacity.max(1), clock: 0, last: 0, declared: Vec::new() }
    }

    /// How many plans it keeps now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it keeps none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The plan for exactly these items in this order, if there is one. O(n + entries).
    pub fn get(&mut self, items: &[Item]) -> Option<&AliasPlan> {
        match self.entries.get(self.last) {
            Some(last) if are_same(&last.items, items) => Some(self.use_entry(self.last)),
            _ => self.find(Fingerprint::of(items), items),
        }
    }

    /// Begins a frame whose items are declared one by one, to be compared with the last frame's as they come.
    pub fn begin(&mut self) -> DeclaredFrame<'_> {
        self.declared.clear();
        DeclaredFrame { cache: self, count: 0, is_like_last: true }
    }

    fn use_entry(&mut self, place: usize) -> &AliasPlan {
        self.clock += 1;
        self.last = place;
        let entry = &mut self.entries[place];
        entry.used = self.clock;
        &entry.plan
    }

    /// The same with a fingerprint kept by the caller: that of these items.
    pub fn find(&mut self, fingerprint: Fingerprint, items: &[Item]) -> Option<&AliasPlan> {
        let is_it = |entry: &Entry| entry.fingerprint == fingerprint && are_same(&entry.items, items);
        let place = self.entries.iter().position(is_it)?;
        Some(self.use_entry(place))
    }

    /// Keeps a plan for these items; the one used longest ago makes room.
    pub fn insert(&mut self, items: &[Item], plan: AliasPlan) {
        let fingerprint = Fingerprint::of(items);
        self.clock += 1;
        self.entries.retain(|entry| entry.fingerprint != fingerprint || !are_same(&entry.items, items));
        if self.entries.len() == self.capacity
            && let Some((oldest, _)) = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used)
        {
            self.entries.swap_remove(oldest);
        }
        self.entries.push(Entry { fingerprint, items: items.to_vec(), plan, used: self.clock });
        self.last = self.entries.len() - 1;
    }
}

/// A frame that is being declared. See [`PlanCache::begin`].
pub struct DeclaredFrame<'c> {
    cache: &'c mut PlanCache,
    count: usize,
    /// Whether all items so far are those of the last frame. The others are in the cache's list.
    is_like_last: bool,
}

impl<'c> DeclaredFrame<'c> {
    /// The next item. O(1).
    #[inline]
    pub fn take(&mut self, item: Item) {
        let expected = self.cache.entries.get(self.cache.last).and_then(|last| last.items.get(self.count));
        if !self.is_like_last || !expected.is_some_and(|expected| is_same(expected, &item)) {
            self.differ(item);
        }
        self.count += 1;
    }

    /// Notes an item that is not the last frame's, and before the first of them those that were.
    #[cold]
    fn differ(&mut self, item: Item) {
        self.part();
        self.cache.declared.push(item);
    }

    /// From here on the frame is unlike the last.
    fn part(&mut self) {
        if core::mem::replace(&mut self.is_like_last, false)
            && let Some(last) = self.cache.entries.get(self.cache.last)
        {
            self.cache.declared.extend_from_slice(&last.items[..self.count]);
        }
    }

    /// The plan for exactly the items that were declared, if there is one.
    #[must_use]
    pub fn plan(mut self) -> Option<&'c AliasPlan> {
        let place = self.place()?;
        Some(self.cache.use_entry(place))
    }

    /// The same; where there is none, that of the closure for these items, which is kept.
    pub fn plan_or(mut self, make: impl FnOnce(&[Item]) -> AliasPlan) -> &'c AliasPlan {
        let place = self.place().unwrap_or_else(|| {
            let items = core::mem::take(&mut self.cache.declared);
            self.cache.insert(&items, make(&items));
            self.cache.declared = items;
            self.cache.last
        });
        self.cache.use_entry(place)
    }

    fn place(&mut self) -> Option<usize> {
        let last = self.cache.last;
        if self.is_like_last && self.cache.entries.get(last).is_some_and(|entry| entry.items.len() == self.count) {
            return Some(last);
        }
        // The last frame's first items, and no more of them.
        self.part();
        let items = core::mem::take(&mut self.cache.declared);
        let found = self.cache.get(&items).is_some();
        self.cache.declared = items;
        found.then_some(self.cache.last)
    }
}

/// Whether two items are equal, without a branch for each field.
#[inline]
fn is_same(one: &Item, other: &Item) -> bool {
    let sizes = (one.size ^ other.size) | (one.alignment ^ other.alignment);
    let lives = (one.lifetime.lower ^ other.lifetime.lower) | (one.lifetime.upper ^ other.lifetime.upper);
    sizes | lives | u64::from(one.class as u8 ^ other.class as u8) == 0
}

fn are_same(some: &[Item], others: &[Item]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}
