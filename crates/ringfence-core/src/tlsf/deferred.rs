//! Freed spans that are not merged yet. While enough space is free, the next request of the same class reuses such a
//! span.
//!
//! ```text
//!   classes   [ …,  {head 9, count 2},  {head –, count 0},  … ]
//!                    │
//!                    ▼
//!   links            9 ──► 4          linked through `low`, the latest span first; `high` contains the size
//! ```
//!
//! A renderer constantly frees ranges and allocates others of the same class. Merging a freed range with its neighbours
//! and splitting it off again touches about ten cache lines; deferring it touches one. Deferred spans cannot be used
//! for larger requests, so deferral is limited:
//!
//! - With n nodes (one for each span at the largest number of spans so far), more than 1/16 + 1/⌈n / 1024⌉ of the heap
//!   must be free. So with up to 1,024 nodes, or in a heap that is nearly full, no span is deferred.
//! - At most [`EACH_MIN`] spans of a class are deferred, or up to [`EACH_MAX`] if there are very many ranges. In total,
//!   at most [`ALL_MAX`] spans are deferred, with at most half of the units that must be free. Spans of 1/64 of the
//!   heap or more are not deferred.
//! - The table of deferred spans is created when there are [`SPANS_MIN`] nodes. Fewer nodes stay in the processor's
//!   cache, so merging is fast.
//! - While spans are deferred, requested sizes are rounded up to the smallest size of a class (by at most 1/32). So if
//!   the span is deferred, a later request of the same size finds it.
//!
//! Before a request fails, all deferred spans are merged and the request is tried again. Deferral then pauses for
//! [`PAUSE`] allocations, so that the spans of a nearly full heap are not deferred and merged repeatedly.
//!
//! | operation | cost |
//! |---|---|
//! | `push`, `pop` | O(1): one link, which the caller has read or writes afterwards |
//! | merging all | O(classes + deferred spans): at most [`ALL_MAX`] merges |
//! | host memory | 8 bytes per class, from [`SPANS_MIN`] nodes on |

use super::{Link, Lists, SENTINEL, class_of};
use alloc::vec::Vec;

/// At most `spans / EACH_SHARE` spans are deferred per class, clamped to `EACH_MIN..=EACH_MAX`. If there are few
/// ranges, few spans are deferred, because requests need the merged free space.
const EACH_SHARE: usize = 2048;
const EACH_MIN: usize = 8;
const EACH_MAX: usize = 32;
/// The limit for all classes together is `ALL_SHARE` times the limit per class, but at most `ALL_MAX`.
const ALL_SHARE: u32 = 128;
/// Maximum number of deferred spans. Merging them all takes about 40 µs.
const ALL_MAX: u32 = 2048;
/// Number of nodes at which the table of deferred spans is created.
pub(super) const SPANS_MIN: usize = 512;
/// Number of allocations from the free lists for which deferral pauses after a request needed all deferred spans
/// merged.
pub(super) const PAUSE: u32 = 4096;
/// Spans of `capacity / SIZE_SHARE` units or more are not deferred: there are few of them, and the next request of
/// their size needs the merged free space.
const SIZE_SHARE: u64 = 64;
/// Spans of this size or more are not deferred, because the size is stored in the same 32 bits as the flag
/// [`DEFERRED`].
const SIZE_MAX: u64 = 1 << 30;

/// Bit of [`Link::high`]: the span is deferred. No serial has this bit.
pub(super) const DEFERRED: u32 = 1 << 31;

/// The deferred spans of one class.
#[derive(Clone, Copy)]
pub(super) struct Class {
    /// Slot of the most recently deferred span; [`SENTINEL`] if there is none.
    head: u32,
    count: u32,
}

impl Class {
    #[inline(always)]
    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    /// Removes the first span; `next` becomes the first.
    #[inline(always)]
    pub(super) const fn pop(&mut self, next: u32) {
        self.head = next;
        self.count -= 1;
    }
}

/// The deferred spans by class.
#[derive(Clone)]
pub(super) struct Deferred {
    /// The deferred spans of each class, up to two classes above that of `size_max`. Empty until there are
    /// [`SPANS_MIN`] nodes.
    classes: Vec<Class>,
    /// Number of deferred spans of all classes.
    count: u32,
    /// Total size of the deferred spans in units, and its limit.
    units: u64,
    units_max: u64,
    size_max: u64,
    /// Maximum numbers of deferred spans: per class, and of all classes together.
    each_max: u32,
    count_max: u32,
}

impl Deferred {
    pub(super) const fn new() -> Self {
        Self { classes: Vec::new(), count: 0, units: 0, units_max: 0, size_max: 0, each_max: 0, count_max: 0 }
    }

    /// Creates the table of classes for a heap of `capacity` units.
    pub(super) fn begin(&mut self, capacity: u64) {
        self.size_max = (capacity / SIZE_SHARE).min(SIZE_MAX);
        self.classes = alloc::vec![Class { head: SENTINEL, count: 0 }; class_of(self.size_max) as usize + 3];
    }

    /// Returns the size limit, in units: only smaller spans are deferred.
    #[inline(always)]
    pub(super) const fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Sets the limits. At most `units` units are deferred in total. In each class, at most `spans / EACH_SHARE` spans
    /// are deferred, clamped to `EACH_MIN..=EACH_MAX`; in all classes, at most `ALL_SHARE` times as many, up to
    /// `ALL_MAX`.
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

    /// Adds the used span `slot` to the deferred spans of `class`. `size` is its size in units, below [`SIZE_MAX`], and
    /// `link` is its link. Returns `false` if a limit is reached; the span is then not deferred.
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

    /// Returns the list that serves a request of `class`: the list of this class, or if it is empty, the list of the
    /// next class.
    #[inline(always)]
    pub(super) fn list(&mut self, class: u32) -> Option<&mut Class> {
        let [own, above] = self.classes.get_mut(class as usize..class as usize + 2)? else { return None };
        Some(core::hint::select_unpredictable(own.head != SENTINEL, own, above))
    }

    /// Returns the slot of the deferred span that would serve a request of `class`. Returns `None` if there is none.
    pub(super) fn peek(&self, class: u32) -> Option<u32> {
        let [own, above] = self.classes.get(class as usize..class as usize + 2)? else { return None };
        [own.head, above.head].into_iter().find(|&slot| slot != SENTINEL)
    }

    /// Updates the counts after the caller has removed a span of `units` units from a list.
    #[inline(always)]
    pub(super) const fn taken(&mut self, units: u64) {
        self.count -= 1;
        self.units -= units;
    }

    /// Removes a span and returns its slot. Returns `None` if there is none. The search starts at `class`, which must
    /// be 0 for the first call, and advances `class` past empty classes.
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

    /// Iterates over all classes, for checks and reports: number of the class, slot of its first span, number of its
    /// spans.
    pub(super) fn lists(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.classes.iter().enumerate().map(|(class, of_class)| (class as u32, of_class.head, of_class.count))
    }
}
