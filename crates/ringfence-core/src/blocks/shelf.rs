//! Which blocks have a parked span of which size class: what was given back a moment ago, for the next request like it.
//!
//! ```text
//!   counts    [ …,  2,  0,  1, … ]              by size class, as in `tlsf.rs`
//!                   │       │
//!   spans     [ …,  5000 5100 – – – – – –,  …,  5400 – – – – – – –,  … ]      their units
//!   entries   [ …,  (block 3, node 17) (block 0, node 4) – …,   …        ]      where they lie
//! ```
//!
//! Blocks are filled in ascending order of what they have free, so most of them are nearly full, and a request that looks for
//! its place in such a block has to ask several. But what programs give back they soon ask for again. So a range that comes
//! back is not merged: its allocator parks it, and an entry here says where. The next request of the class takes it from
//! whatever block it lies in, and no block's free size changes for the index.
//!
//! The rule, which keeps blocks from staying half used for the sake of what is parked in them:
//!
//! - a range is parked if at most half of its block is free (or there is no other block), and it is not the last there;
//! - at most an eighth of what is free and not parked, and a 16th of all units; a span at most a 64th of a basic block;
//! - at most [`EACH_MAX`] of a class, and [`ALL_MAX`] together;
//! - before a request is refused, everything parked is merged and it is tried again; for the next [`PAUSE`] allocations
//!   from the blocks nothing is parked then.
//!
//! | operation | cost |
//! |---|---|
//! | `find`, `take`, `push` | O(1) |
//! | `forget` | O(classes) |
//! | host memory | 97 bytes a class, once a block has held [`LIVE_MIN`] ranges: 49 KiB for blocks of 64 Mi units |

use crate::tlsf::{class_of, fitting_class_of};
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// How many spans of one class are parked.
const EACH_MAX: usize = 8;
/// How many spans are parked at all: merging them takes about 20 µs.
const ALL_MAX: u32 = 1024;
/// What part of all units is parked at most.
const UNITS_SHARE: u64 = 16;
/// What part of the free units that are not parked is parked at most.
const AT_HAND_SHARE: u64 = 8;
/// Spans above one part in so many of a basic block are not parked.
const SIZE_SHARE: u64 = 64;
/// How many ranges a block must have held before anything is parked.
pub(super) const LIVE_MIN: usize = 64;
/// For how many allocations from the blocks nothing is parked after all had to be merged.
const PAUSE: u32 = 4096;

/// Where a parked span lies: the slot of its block, and that of its node there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) block: u32,
    pub(super) node: u32,
}

/// The parked spans of one class, the latest last.
#[derive(Clone, Copy)]
struct Class {
    /// Their units, and 0 where there is none.
    spans: [u32; EACH_MAX],
    entries: [Entry; EACH_MAX],
}

/// Where the latest of so many stands; of none, some place.
#[inline(always)]
const fn latest(count: u8) -> usize {
    (count as usize).wrapping_sub(1) % EACH_MAX
}

const EMPTY: Class = Class { spans: [0; EACH_MAX], entries: [Entry { block: 0, node: 0 }; EACH_MAX] };

/// A parked span that will do: the latest of its class.
pub(super) struct Found {
    pub(super) entry: Entry,
    class: u32,
}

/// See the [module](self).
pub(super) struct Shelf {
    /// By class, how many are parked.
    counts: Vec<u8>,
    classes: Vec<Class>,
    /// Entries, and their units.
    count: u32,
    units: u64,
    units_max: u64,
    /// For how many allocations from the blocks nothing is parked yet.
    pause: u32,
}

impl Shelf {
    pub(super) const fn new() -> Self {
        Self { counts: Vec::new(), classes: Vec::new(), count: 0, units: 0, units_max: 0, pause: 0 }
    }

    pub(super) const fn has_begun(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Makes the table.
    pub(super) fn begin(&mut self, basic_size: u64) {
        // And the two above the last, where requests of that look and nothing is parked.
        let classes = class_of((basic_size / SIZE_SHARE).min(1 << 30)) as usize + 3;
        self.counts = alloc::vec![0; classes];
        self.classes = alloc::vec![EMPTY; classes];
    }

    /// The blocks have so many units now.
    pub(super) const fn limit(&mut self, capacity: u64) {
        self.units_max = capacity / UNITS_SHARE;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether anything may be parked now.
    #[inline(always)]
    pub(super) const fn is_open(&self) -> bool {
        self.pause == 0
    }

    /// Counts an allocation from the blocks.
    #[inline(always)]
    pub(super) const fn count_allocation(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// The latest span of the class of `size` if it is long enough, else the latest of the next class, or of the one after.
    ///
    /// Without a branch between them: which of them has one is as good as random.
    #[inline(always)]
    pub(super) fn find(&self, size: u64) -> Option<Found> {
        let own = class_of(size) as usize;
        // Of the sizes in a class only the least finds room in all of it: two classes above are the most that it may take.
        let beyond = fitting_class_of(size) as usize + 1;
        let [count, count_next, _] = *self.counts.get(own..own + 3)?.first_chunk()?;
        // Where there is none stands a span of 0 units.
        let fits = u64::from(self.classes.get(own)?.spans[latest(count)]) >= size;
        let above = select_unpredictable(count_next != 0, own + 1, beyond);
        let class = select_unpredictable(fits, own, above);
        let count = *self.counts.get(class)?;
        if count == 0 {
            return None;
        }
        Some(Found { entry: self.classes.get(class)?.entries[latest(count)], class: class as u32 })
    }

    /// Takes away what [`Shelf::find`] found.
    #[inline(always)]
    pub(super) fn take(&mut self, found: &Found) {
        let count = &mut self.counts[found.class as usize];
        let span = &mut self.classes[found.class as usize].spans[latest(*count)];
        *count -= 1;
        self.count -= 1;
        self.units -= u64::from(core::mem::take(span));
    }

    /// Notes a span of `span` units that is parked, while `at_hand` are free and not parked; false if there is no place.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry, span: u64, at_hand: u64) -> bool {
        let class = class_of(span) as usize;
        // As far as requests look: what is parked elsewhere nobody would find.
        let Some([count, _, _]) = self.counts.get_mut(class..class + 3) else { return false };
        let units_max = self.units_max.min(at_hand / AT_HAND_SHARE);
        if (*count as usize >= EACH_MAX) | (self.count >= ALL_MAX) | (self.units + span > units_max) {
            return false;
        }
        let Class { spans, entries } = &mut self.classes[class];
        let at = *count as usize % EACH_MAX;
        (spans[at], entries[at]) = (span as u32, entry);
        *count += 1;
        self.count += 1;
        self.units += span;
        true
    }

    /// Forgets every span of a block.
    pub(super) fn forget(&mut self, block: u32) {
        for (count, class) in self.counts.iter_mut().zip(&mut self.classes).filter(|(count, _)| **count != 0) {
            let mut kept = 0;
            for at in 0..*count as usize {
                if class.entries[at].block == block {
                    self.count -= 1;
                    self.units -= u64::from(class.spans[at]);
                } else {
                    (class.spans[kept], class.entries[kept]) = (class.spans[at], class.entries[at]);
                    kept += 1;
                }
            }
            class.spans[kept..].fill(0);
            *count = kept as u8;
        }
    }

    /// Forgets every span of every block, as all are merged now, and opens again after [`PAUSE`] allocations.
    pub(super) fn close(&mut self) {
        self.counts.fill(0);
        self.classes.fill(EMPTY);
        (self.count, self.units, self.pause) = (0, 0, PAUSE);
    }

    /// There is a new block, so that there is no need to wait.
    pub(super) const fn open(&mut self) {
        self.pause = 0;
    }

    /// Every span: where it lies, and its units.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Entry, u64)> + '_ {
        let classes = self.counts.iter().zip(&self.classes);
        classes.flat_map(|(count, Class { spans, entries })| {
            entries[..*count as usize].iter().copied().zip(spans.iter().copied().map(u64::from))
        })
    }

    /// How many entries, and of how many units, are counted.
    pub(super) const fn totals(&self) -> (u32, u64) {
        (self.count, self.units)
    }
}
