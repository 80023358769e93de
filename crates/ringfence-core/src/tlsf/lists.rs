//! The nodes that describe the spans, and the lists of the free spans by class.
//!
//! ```text
//!   words    [ … , 0010 0000 , 0000 0100 , … ]     bit c set iff the list of class c is not empty
//!   links    [ … ,   ●,    …  ,      ●, …  │ – , 12, 7, … ]
//!              a head for each class         a link for each node
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `push`, `unlink`, `first`, `after`, `split` | O(1) |
//! | `class_from`, `highest_class` | O(1): 32 words at most |

use super::classes::fitting_class_of;
use super::deferred::DEFERRED;
use crate::range::{Serial, Serials};
use alloc::vec::Vec;

/// Number of words of the class bitmap: enough for every class of a 64-bit size, and a power of two.
pub(super) const WORDS: usize = 32;
const _: () = assert!(fitting_class_of(u64::MAX) < WORDS as u32 * 64, "`class_from` accepts the class of any size");

/// Slot of the node that closes the circular list in address order. As the result of a search, and in the lists of
/// deferred spans and of recycled slots, it means "none".
pub(super) const SENTINEL: u32 = 0;
/// Slot of the node at offset 0. It never changes: a merged span keeps the slot of its lowest part, and a split leaves
/// the low part in its slot.
pub(super) const FIRST: u32 = 1;
/// Bit of [`Node::prev_and_used`]: the span is used.
pub(super) const USED: u32 = 1 << 31;
/// Bit of [`Link::high`] of a used span: the span is larger than the requested size. No serial has this bit.
pub(super) const LARGER: u32 = 1 << 30;
/// A span with [`LARGER`] is larger than the requested size by at most `1 / (1 << LARGER_LOG2)` of the span, or by 1
/// unit. This covers spans of the request's class, and deferred spans of the next class.
pub(super) const LARGER_LOG2: u32 = 3;
/// Returns the maximum number of units of a span that its range does not use.
#[inline(always)]
pub(super) const fn larger_at_most(span: u64) -> u64 {
    span >> LARGER_LOG2 | 1
}

const _: () = assert!((((DEFERRED | LARGER) as u64) << 32) & Serials::MAX == 0, "serials do not use the flag bits");

/// A span, or a recycled slot.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// First unit of the span. The span ends at the offset of `next`.
    pub(super) offset: u64,
    /// Previous node in address order, and [`USED`] if the span is allocated or deferred. The sentinel has [`USED`]
    /// too.
    pub(super) prev_and_used: u32,
    /// Next node in address order; the next recycled slot for a recycled slot.
    pub(super) next: u32,
}

impl Node {
    pub(super) const fn is_used(&self) -> bool {
        self.prev_and_used & USED != 0
    }

    pub(super) const fn prev(&self) -> u32 {
        self.prev_and_used & !USED
    }
}

/// The part of a span's data that is stored separately from its node. So a node has only 16 bytes, and the heads of the
/// lists can be stored in the same array as the links.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Free span: the previous link in its list. Deferred span: the size, and [`DEFERRED`]. Used span: the upper half
    /// of the serial, and [`LARGER`] if the span is larger than the requested size.
    pub(super) high: u32,
    /// Free span: the next link in its list. Deferred span: the slot of the next deferred span of its class. Used span:
    /// the lower half of the serial.
    pub(super) low: u32,
}

impl Link {
    #[inline(always)]
    pub(super) const fn of(serial: Serial, is_larger: bool) -> Self {
        let high = (serial.get() >> 32) as u32;
        Self { high: high | (LARGER * is_larger as u32), low: serial.get() as u32 }
    }

    pub(super) const fn serial_number(&self) -> u64 {
        ((self.high & !LARGER) as u64) << 32 | self.low as u64
    }
}

const _: () = assert!(size_of::<Node>() + size_of::<Link>() <= 24, "a node and its link take 24 bytes");

/// The free spans by class.
#[derive(Clone)]
pub(super) struct Lists {
    /// Bit `c % 64` of word `c / 64` is set iff the list of class `c` has a span.
    pub(super) words: [u64; WORDS],
    /// Number of classes. The links below `base` are the heads of the lists; link `base + slot` belongs to the node of
    /// `slot`. The link of the sentinel always points to itself.
    pub(super) base: u32,
    pub(super) links: Vec<Link>,
}

impl Lists {
    pub(super) fn new(classes: u32) -> Self {
        let alone = |at| Link { high: at, low: at };
        Self { words: [0; WORDS], base: classes, links: (0..=classes).map(alone).collect() }
    }

    #[inline(always)]
    pub(super) fn link(&self, slot: u32) -> Link {
        self.links[(self.base + slot) as usize]
    }

    #[inline(always)]
    pub(super) fn link_mut(&mut self, slot: u32) -> &mut Link {
        &mut self.links[(self.base + slot) as usize]
    }

    /// Returns the lowest class at or above `class` that has a free span. Returns `None` if there is none.
    #[inline(always)]
    pub(super) fn class_from(&self, class: u32) -> Option<u32> {
        let mut word = (class >> 6) as usize % WORDS;
        let mut here = self.words[word] & (u64::MAX << (class & 63));
        let end = (self.base >> 6) as usize;
        while here == 0 {
            word += 1;
            if word > end {
                return None;
            }
            here = self.words[word % WORDS];
        }
        Some((word as u32) << 6 | here.trailing_zeros())
    }

    /// Returns the highest class that has a free span. Returns `None` if there is none.
    pub(super) fn highest_class(&self) -> Option<u32> {
        let word = self.words.iter().rposition(|&bits| bits != 0)?;
        Some((word as u32) << 6 | self.words[word].ilog2())
    }

    /// Returns the slot of the first free span of a class. Returns [`SENTINEL`] if there is none.
    #[inline(always)]
    pub(super) fn first(&self, class: u32) -> u32 {
        self.links[class as usize].low.saturating_sub(self.base)
    }

    /// Returns the slot of the next free span of the same class. Returns [`SENTINEL`] after the last one.
    pub(super) fn after(&self, slot: u32) -> u32 {
        self.link(slot).low.saturating_sub(self.base)
    }

    /// Inserts a free span at the front of its class.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: u32, class: u32) {
        let at = self.base + slot;
        let head = &mut self.links[class as usize];
        let first = head.low;
        head.low = at;
        self.links[at as usize] = Link { high: class, low: first };
        self.links[first as usize].high = at;
        self.words[(class >> 6) as usize % WORDS] |= 1 << (class & 63);
    }

    /// Removes a free span from its list. If `slot` is the sentinel, changes nothing.
    #[inline(always)]
    pub(super) fn unlink(&mut self, slot: u32) {
        let Link { high: before, low: after } = self.link(slot);
        self.links[before as usize].low = after;
        self.links[after as usize].high = before;
        // If both neighbours are the same link, this link is the head of a list that becomes empty, or the sentinel,
        // whose bit is never set.
        let is_empty = before == after;
        self.words[(before >> 6) as usize % WORDS] &= !(u64::from(is_empty) << (before & 63));
    }
}

/// Splits the span of `slot` after `size` units: `slot` keeps the low part, and the returned slot is the rest. Inserts
/// neither part into a list. There must be a recycled slot.
#[inline(always)]
pub(super) fn split(nodes: &mut [Node], recycled: &mut u32, slot: u32, size: u64) -> u32 {
    let Node { offset, next, .. } = nodes[slot as usize];
    let new = *recycled;
    *recycled = nodes[new as usize].next;
    nodes[new as usize] = Node { offset: offset + size, prev_and_used: slot, next };
    nodes[slot as usize].next = new;
    set_prev(nodes, next, new);
    new
}

#[inline(always)]
pub(super) fn set_prev(nodes: &mut [Node], slot: u32, prev: u32) {
    let node = &mut nodes[slot as usize];
    node.prev_and_used = prev | (node.prev_and_used & USED);
}
