//! Freed spans that are not merged yet. While there is enough free space, the next request of the class reuses one.
//!
//! ```text
//!   classes   [ …,  {head 9, count 2},  {head –, count 0},  … ]
//!                    │
//!                    ▼
//!   links            9 ──► 4          linked through `low`, the latest first; `high` has the size
//! ```
//!
//! A renderer constantly frees ranges and allocates others of the same class. Merging such a range with its neighbours
//! and splitting it off again touches some ten cache lines with unpredictable branches; deferring it touches one.
//! Deferral costs space, so it is limited:
//!
//! - It requires that a sixteenth of the heap is free, and more if there are few ranges
//!   ([`Tlsf::roomy_from`](super::Tlsf)). So it never happens in a heap that is nearly full.
//! - At most [`EACH_MIN`] spans of a class are deferred, or up to [`EACH_MAX`] in a heap of very many ranges; at most
//!   [`ALL_MAX`] in total.
//! - It begins once there were [`SPANS_MIN`] spans: fewer nodes stay in the processor's cache anyway.
//! - Meanwhile sizes are rounded up to their class (by at most 1/32), so every deferred span of a class fits.
//!
//! Before a request fails, all deferred spans are merged and the request is tried again. Deferral then pauses for
//! [`PAUSE`] allocations, so that a program close to the limit does not merge repeatedly.
//!
//! | operation | cost |
//! |---|---|
//! | `push`, `pop` | O(1): one node, which the caller has read or will write anyway |
//! | merging all | O(deferred): at most [`ALL_MAX`] merges |
//! | host memory | 8 bytes a class, once there are [`SPANS_MIN`] spans |

use super::{Link, Lists, SENTINEL, class_of};
use alloc::vec::Vec;

/// The limit of deferred spans per class is the number of spans divided by `EACH_SHARE`, within the bounds below. A
/// heap of few ranges needs the holes that deferral takes.
const EACH_SHARE: usize = 2048;
const EACH_MIN: usize = 8;
const EACH_MAX: usize = 32;
/// The limit of all classes together is `ALL_SHARE` times the limit per class.
const ALL_SHARE: u32 = 128;
/// Upper bound of all deferred spans: merging them takes about 40 µs.
const ALL_MAX: u32 = 2048;
/// Number of spans at which deferral begins.
pub(super) const SPANS_MIN: usize = 512;
/// Number of allocations for which deferral pauses after all spans had to be merged.
pub(super) const PAUSE: u32 = 4096;
/// Spans larger than one `SIZE_SHARE`th of the heap are not deferred: they are few, and the next request of their size
/// needs the merged hole.
const SIZE_SHARE: u64 = 64;
/// Spans of this size and above are not deferred: their size does not fit beside the flag.
const SIZE_MAX: u64 = 1 << 30;

/// Bit of [`Link::high`]: the span is deferred. No serial has this bit.
pub(super) const DEFERRED: u32 = 1 << 31;

/// The deferred spans of one class.
#[derive(Clone, Copy)]
pub(super) struct Class {
    /// The latest span, or [`SENTINEL`].
    head: u32,
    count: u32,
}

impl Class {
    #[inline(always)]
    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    /// Removes the head; `next` is the new head.
    #[inline(always)]
    pub(super) const fn pop(&mut self, next: u32) {
        self.head = next;
        self.count -= 1;
    }
}

/// The deferred spans by class.
#[derive(Clone)]
pub(super) struct Deferred {
    /// For each class up to two above that of the largest deferred size; empty until there were [`SPANS_MIN`] spans.
    classes: Vec<Class>,
    /// Number of deferred spans of all classes.
    count: u32,
    /// Their units, and the limit of those units.
    units: u64,
    units_max: u64,
    size_max: u64,
    /// Limits of the number of spans per class and of all classes.
    each_max: u32,
    count_max: u32,
}

impl Deferred {
    pub(super) const fn new() -> Self {
        Self { classes: Vec::new(), count: 0, units: 0, units_max: 0, size_max: 0, each_max: 0, count_max: 0 }
    }

    /// Creates the table.
    pub(super) fn begin(&mut self, capacity: u64) {
        self.size_max = (capacity / SIZE_SHARE).min(SIZE_MAX);
        self.classes = alloc::vec![Class { head: SENTINEL, count: 0 }; class_of(self.size_max) as usize + 3];
    }

    /// Only spans smaller than this are deferred.
    #[inline(always)]
    pub(super) const fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Limits deferral to `units` units, in a heap of `spans` spans.
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

    /// Defers the used span `slot` of `size` units (below [`SIZE_MAX`]) in its class; `link` is its link. Returns
    /// `false` if a limit is reached.
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

    /// Returns the list that serves a request of `class`: its own, or the list of the class above if its own is empty.
    #[inline(always)]
    pub(super) fn list(&mut self, class: u32) -> Option<&mut Class> {
        let [own, above] = self.classes.get_mut(class as usize..class as usize + 2)? else { return None };
        Some(core::hint::select_unpredictable(own.head != SENTINEL, own, above))
    }

    /// Returns the slot that would serve a request of `class`.
    pub(super) fn peek(&self, class: u32) -> Option<u32> {
        let [own, above] = self.classes.get(class as usize..class as usize + 2)? else { return None };
        [own.head, above.head].into_iter().find(|&slot| slot != SENTINEL)
    }

    /// Subtracts one span, which the caller has taken from a list, from the counts.
    #[inline(always)]
    pub(super) const fn taken(&mut self, units: u64) {
        self.count -= 1;
        self.units -= units;
    }

    /// Removes any span and returns its slot. For merging all spans.
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

    /// Iterates over the classes: class, slot of its first span, count. For checks and reports.
    pub(super) fn lists(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.classes.iter().enumerate().map(|(class, of_class)| (class as u32, of_class.head, of_class.count))
    }
}
