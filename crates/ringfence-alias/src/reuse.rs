//! A cache of plans: a frame with the same items as an earlier one costs a lookup.
//!
//! ```text
//!   items ──▶ equal to those of the last frame? ── yes ──▶ its plan
//!                    │ no
//!                    ▼
//!             fingerprint, 64 bits ──▶ entry with that fingerprint ──▶ equal items? ──▶ its plan
//! ```
//!
//! Most frames are like the one before, so its items are compared first, without a fingerprint. All items are compared,
//! so a collision of fingerprints cannot give a wrong plan. A caller that declares a frame item by item
//! ([`PlanCache::begin`]) compares as it declares: the remaining work at the end does not depend on the number of
//! items.
//!
//! | operation | cost |
//! |---|---|
//! | [`PlanCache::get`] | one pass over the items for a frame like the last, else two and the entries; no allocation |
//! | [`DeclaredFrame::take`] | O(1): some loads and a branch while the frame is like the last |
//! | [`DeclaredFrame::plan`] | O(1) if the frame is like the last, else as `get` |
//! | [`PlanCache::insert`] | O(items + entries) |

use super::item::Item;
use super::plan::AliasPlan;
use alloc::vec::Vec;

/// Fingerprint of the items of a frame, in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Creates the fingerprint of an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }

    /// Adds the next item. O(1).
    pub fn take(&mut self, item: &Item) {
        // The fields are combined first, so that only the last product depends on the previous item.
        let size = item.size.wrapping_mul(0xa076_1d64_78bd_642f) ^ item.alignment.rotate_left(40);
        let lower = item.lifetime.lower.wrapping_mul(0xe703_7ed1_a0b4_28db).rotate_left(23);
        let upper = item.lifetime.upper.wrapping_mul(0x8ebc_6af0_9c88_c6e3).rotate_left(47);
        self.0 = mix(self.0 ^ size ^ lower ^ upper ^ item.class as u64);
    }

    /// Returns the fingerprint of a list of items. O(n).
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

/// Combines both halves of a product: every bit affects most bits of the result.
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

/// A cache of the most recent plans, by their items.
pub struct PlanCache {
    entries: Vec<Entry>,
    capacity: usize,
    /// Counts lookups, to find the least recently used entry.
    clock: u64,
    /// Index of the entry that was used last; any number if there are no entries.
    last: usize,
    /// Items of a declared frame that differs from the last one. Kept to reuse its memory.
    declared: Vec<Item>,
}

impl PlanCache {
    /// Creates a cache of up to `capacity` plans (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity: capacity.max(1), clock: 0, last: 0, declared: Vec::new() }
    }

    /// Returns the number of cached plans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the plan for exactly these items in this order, if it is cached. O(n + entries).
    pub fn get(&mut self, items: &[Item]) -> Option<&AliasPlan> {
        match self.entries.get(self.last) {
            Some(last) if are_same(&last.items, items) => Some(self.use_entry(self.last)),
            _ => self.find(Fingerprint::of(items), items),
        }
    }

    /// Begins a frame. Its items are declared one by one, and compared with the last frame's as they come.
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

    /// As [`get`](Self::get), with a fingerprint of these items that the caller has computed.
    pub fn find(&mut self, fingerprint: Fingerprint, items: &[Item]) -> Option<&AliasPlan> {
        let is_it = |entry: &Entry| entry.fingerprint == fingerprint && are_same(&entry.items, items);
        let place = self.entries.iter().position(is_it)?;
        Some(self.use_entry(place))
    }

    /// Adds a plan for these items. Evicts the least recently used entry if the cache is full.
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

/// A frame that is being declared. Created by [`PlanCache::begin`].
pub struct DeclaredFrame<'c> {
    cache: &'c mut PlanCache,
    count: usize,
    /// `true` while all items are those of the last frame. Otherwise the items are in `declared` of the cache.
    is_like_last: bool,
}

impl<'c> DeclaredFrame<'c> {
    /// Declares the next item. O(1).
    #[inline]
    pub fn take(&mut self, item: Item) {
        let expected = self.cache.entries.get(self.cache.last).and_then(|last| last.items.get(self.count));
        if !self.is_like_last || !expected.is_some_and(|expected| is_same(expected, &item)) {
            self.differ(item);
        }
        self.count += 1;
    }

    /// Records an item that differs from the last frame's.
    #[cold]
    fn differ(&mut self, item: Item) {
        self.part();
        self.cache.declared.push(item);
    }

    /// Marks the frame as different. Copies the items so far to `declared` of the cache.
    fn part(&mut self) {
        if core::mem::replace(&mut self.is_like_last, false)
            && let Some(last) = self.cache.entries.get(self.cache.last)
        {
            self.cache.declared.extend_from_slice(&last.items[..self.count]);
        }
    }

    /// Returns the plan for exactly the declared items, if it is cached.
    #[must_use]
    pub fn plan(mut self) -> Option<&'c AliasPlan> {
        let place = self.place()?;
        Some(self.cache.use_entry(place))
    }

    /// As [`plan`](Self::plan), but calls `make` with the items if there is no plan, and caches the result.
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
        // The frame has only the first items of the last frame.
        self.part();
        let items = core::mem::take(&mut self.cache.declared);
        let found = self.cache.get(&items).is_some();
        self.cache.declared = items;
        found.then_some(self.cache.last)
    }
}

/// Returns `true` if two items are equal, without a branch per field.
#[inline]
fn is_same(one: &Item, other: &Item) -> bool {
    let sizes = (one.size ^ other.size) | (one.alignment ^ other.alignment);
    let lives = (one.lifetime.lower ^ other.lifetime.lower) | (one.lifetime.upper ^ other.lifetime.upper);
    sizes | lives | u64::from(one.class as u8 ^ other.class as u8) == 0
}

fn are_same(some: &[Item], others: &[Item]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}
