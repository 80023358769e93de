//! Spans that were freed but are not merged yet: while there is room, the next request of the class takes one.
//!
//! ```text
//!   classes   [ …,  {head 9, count 2},  {head –, count 0},  … ]
//!                    │
//!                    ▼
//!   links            9 ──► 4          linked through `low`, the latest first; `high` has the size
//! ```
//!
//! Giving a range back and asking for one of the same class is what a renderer does all day. Merging the range with
//! its neighbours only to cut it out again touches some ten cache lines and cannot be predicted; putting it aside
//! touches one. What it costs is space, so it is done only where there is some:
//!
//! - while a sixteenth of the heap is free, and more where there are few ranges ([`Tlsf::roomy_from`](super::Tlsf)),
//!   and so never in a heap that is nearly full;
//! - at most [`EACH_MIN`] spans of a class, or up to [`EACH_MAX`] in a heap of very many ranges; [`ALL_MAX`] together;
//! - once there were [`SPANS_MIN`] spans: a few ranges stay in the processor's cache anyhow;
//! - sizes are rounded up to their class meanwhile (by 1/32 at most), so that whatever is deferred there fits.
//!
//! Before a request is refused, everything deferred is merged and it is tried again; nothing is deferred for the next
//! [`PAUSE`] allocations then, so that a program on the edge does not pay for it again and again.
//!
//! | operation | cost |
//! |---|---|
//! | `push`, `pop` | O(1): one node, which the caller has read or will write anyway |
//! | merging all | O(deferred): [`ALL_MAX`] merges at most |
//! | host memory | 8 bytes a class, once there are [`SPANS_MIN`] spans |

use super::{Link, Lists, SENTINEL, class_of};
use alloc::vec::Vec;

/// How many spans of one class are deferred: one for each `EACH_SHARE` spans in all, within these bounds. In a heap of
/// few ranges the holes that they leave are missed.
const EACH_SHARE: usize = 2048;
const EACH_MIN: usize = 8;
const EACH_MAX: usize = 32;
/// For each of these, how many are deferred of all classes.
const ALL_SHARE: u32 = 128;
/// How many spans are deferred at most: merging them takes about 40 µs.
const ALL_MAX: u32 = 2048;
/// How many spans there must have been before one is deferred.
pub(super) const SPANS_MIN: usize = 512;
/// For how many allocations nothing is deferred after all had to be merged.
pub(super) const PAUSE: u32 = 4096;
/// Spans of more than one part in `SIZE_SHARE` of the heap are not deferred: they are few, and the holes that they
/// leave are what the next of their size needs.
const SIZE_SHARE: u64 = 64;
/// Larger spans are not deferred: their size does not fit beside the mark.
const SIZE_MAX: u64 = 1 << 30;

/// The bit of [`Link::high`] that says "deferred": no serial has it.
pub(super) const DEFERRED: u32 = 1 << 31;

/// The deferred spans of one class.
#[derive(Clone, Copy)]
pub(super) struct Class {
    /// The latest, or [`SENTINEL`].
    head: u32,
    count: u32,
}

impl Class {
    #[inline(always)]
    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    /// Takes the head, after which stands `next`.
    #[inline(always)]
    pub(super) const fn pop(&mut self, next: u32) {
        self.head = next;
        self.count -= 1;
    }
}

/// The deferred spans by class.
#[derive(Clone)]
pub(super) struct Deferred {
    /// Of each class up to two above that of the capacity; none until [`SPANS_MIN`] spans were seen.
    classes: Vec<Class>,
    /// Deferred spans of all classes.
    count: u32,
    /// Their units, and how many may be deferred.
    units: u64,
    units_max: u64,
    size_max: u64,
    /// How many of a class may be deferred, and how many of all.
    each_max: u32,
    count_max: u32,
}

impl Deferred {
    pub(super) const fn new() -> Self {
        Self { classes: Vec::new(), count: 0, units: 0, units_max: 0, size_max: 0, each_max: 0, count_max: 0 }
    }

    /// Makes the table.
    pub(super) fn begin(&mut self, capacity: u64) {
        self.size_max = (capacity / SIZE_SHARE).min(SIZE_MAX);
        self.classes = alloc::vec![Class { head: SENTINEL, count: 0 }; class_of(self.size_max) as usize + 3];
    }

    /// Smaller spans alone are deferred.
    #[inline(always)]
    pub(super) const fn size_max(&self) -> u64 {
        self.size_max
    }

    /// From now on at most `units` units are deferred, in a heap of `spans` spans.
    pub(super) fn limit(&mut self, units: u64, spans: usize) {
        self.units_max = units;
        self.each_max = (spans / EACH_SHARE).clamp(EACH_MIN, EACH_MAX) as u32;
        self.count_max = (self.each_max * ALL_SHARE).min(ALL_MAX);
    }

    pub(super) const fn has_begun(&self) -> bool {
        !self.classes.is_empty()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn units(&self) -> u64 {
        self.units
    }

    /// Defers the used span `slot` with the `link` of `size` units (below [`SIZE_MAX`]) in its class; false if there is
    /// no place.
    #[inline(always)]
    pub(super) fn push(&mut self, link: &mut Link, slot: u32, size: u64, class: u32) -> bool {
        let Some(of_class) = self.classes.get_mut(class as usize) else { return false };
        if (of_class.count >= self.each_max) | (self.count >= self.count_max) | (self.units + size > self.units_max) {
            return false;
        }
        *link = Link { high: DEFERRED | size as u32, low: of_class.head };
        of_class.head = slot;
        of_class.count += 1;
        self.count += 1;
        self.units += size;
        true
    }

    /// The list that a request of `class` is served from: that of the class, or the one above if it is empty.
    #[inline(always)]
    pub(super) fn list(&mut self, class: u32) -> Option<&mut Class> {
        let [own, above] = self.classes.get_mut(class as usize..class as usize + 2)? else { return None };
        Some(core::hint::select_unpredictable(own.head != SENTINEL, own, above))
    }

    /// The slot that a request of `class` is served from.
    pub(super) fn peek(&self, class: u32) -> Option<u32> {
        let [own, above] = self.classes.get(class as usize..class as usize + 2)? else { return None };
        [own.head, above.head].into_iter().find(|&slot| slot != SENTINEL)
    }

    /// Counts one span less, which the caller has taken from a list.
    #[inline(always)]
    pub(super) const fn taken(&mut self, units: u64) {
        self.count -= 1;
        self.units -= units;
    }

    /// Takes any span: its slot. For merging them all.
    pub(super) fn pop_any(&mut self, lists: &Lists, class: &mut usize) -> Option<u32> {
        while let Some(of_class) = self.classes.get_mut(*class) {
            if of_class.head != SENTINEL {
                let slot = of_class.head;
                let link = lists.link(slot);
                of_class.head = link.low;
                of_class.count -= 1;
                self.taken(u64::from(link.high & !DEFERRED));
                return Some(slot);
            }
            *class += 1;
        }
        None
    }

    /// The slots of every class, with the class and what is counted there: for checks and reports.
    pub(super) fn lists(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.classes.iter().enumerate().map(|(class, of_class)| (class as u32, of_class.head, of_class.count))
    }
}
