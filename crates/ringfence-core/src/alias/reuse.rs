//! Plans kept: a frame like one before costs a lookup.
//!
//! ```text
//!   items ──▶ fingerprint, 64 bits ──▶ entry with that fingerprint ──▶ the same items? ──▶ its plan
//! ```
//!
//! The fingerprint takes a multiplication or two for each field, the comparison one walk over the items: for 55 of them
//! both together stay well below a microsecond. The comparison makes a wrong plan impossible, whatever the fingerprint.
//! A caller that records passes one by one may keep a [`Fingerprint`] as it goes.
//!
//! A look-up costs O(n + entries), a plan that is not there that of planning; nothing is allocated on a hit.

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
        let size = mix(item.size ^ self.0, item.alignment.rotate_left(17) ^ item.class as u64);
        self.0 = mix(size ^ item.lifetime.lower, item.lifetime.upper ^ 0x9e37_79b9_7f4a_7c15);
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

/// Both halves of a product: every bit of either factor reaches most bits of the result. The sums keep zeros out.
fn mix(a: u64, b: u64) -> u64 {
    let a = u128::from(a.wrapping_add(0xa076_1d64_78bd_642f) | 1);
    let product = a * u128::from(b.wrapping_add(0xe703_7ed1_a0b4_28db) | 1);
    (product >> 64) as u64 ^ product as u64 ^ a as u64
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
}

impl PlanCache {
    /// Keeps up to `capacity` plans (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity: capacity.max(1), clock: 0 }
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
        self.find(Fingerprint::of(items), items)
    }

    /// The same with a fingerprint kept by the caller: that of these items.
    pub fn find(&mut self, fingerprint: Fingerprint, items: &[Item]) -> Option<&AliasPlan> {
        self.clock += 1;
        let is_it = |entry: &&mut Entry| entry.fingerprint == fingerprint && entry.items == items;
        let entry = self.entries.iter_mut().find(is_it)?;
        entry.used = self.clock;
        Some(&entry.plan)
    }

    /// Keeps a plan for these items; the one used longest ago makes room.
    pub fn insert(&mut self, items: &[Item], plan: AliasPlan) {
        let fingerprint = Fingerprint::of(items);
        self.clock += 1;
        self.entries.retain(|entry| entry.fingerprint != fingerprint || entry.items != items);
        if self.entries.len() == self.capacity
            && let Some((oldest, _)) = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used)
        {
            self.entries.swap_remove(oldest);
        }
        self.entries.push(Entry { fingerprint, items: items.to_vec(), plan, used: self.clock });
    }
}
