//! Two-level segregated fit: the general-purpose range allocator.
//!
//! ```text
//!   words    [ … , 0010 0000 , 0000 0100 , … ]     bit c set iff the list of class c is not empty
//!                    │               │
//!   links    [ … ,   ●,    …  ,      ●, … ]        a circle for each class: its head, then its free spans,
//!                  ⤢   ⤡            ⤢⤡             the latest first; of a used span its serial stands here
//!                 7 ⇄ 12             4
//!
//!   nodes    0 ⇄ 1 ⇄ 4 ⇄ 9 ⇄ 7 ⇄ 2 ⇄ 12 ⇄ 0       a circle in address order, through `prev` and `next`
//!            │   used free used free used free
//!            └ the sentinel: offset = capacity, always used. The node after it starts at offset 0.
//! ```
//!
//! Classes: every power of two is cut into 32; sizes below 32 have a class each.
//!
//! | operation | cost |
//! |---|---|
//! | `allocate` that succeeds | O(1): the first set bit of 32 words at most, at most two splits |
//! | `allocate` that fails, or that only a near miss serves | O(1): [`NEAR_MISSES`] nodes looked at |
//! | `free` | O(1): at most two merges |
//! | `allocate_below` | O(1): 64 nodes looked at, and what is parked is merged |
//! | `is_live`, `free_size`, `live_count` | O(1) |
//! | `largest_free` | O(1): [`NEAR_MISSES`] nodes looked at |
//! | `for_each_span`, `validate` | O(spans) |
//! | host memory | 24 bytes a span, grown when there are more spans than ever before; 8 bytes a class, later 16 |
//!
//! The paper: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for real-time
//! systems", ECRTS 2004. Where this departs from it:
//!
//! - Nodes lie outside of the memory that they describe, which the host may not be able to touch. A node does not hold
//!   its size: that is the next node's offset less its own.
//! - Classes are numbered in one row, so the levels are a bitmap of 64-bit words, each of which spans two powers of
//!   two, without a second bitmap over them: the next word is as quick to look at, and there is less to keep up.
//! - No smallest block: a remainder of a single unit is a free span like any other, so that nothing is set aside
//!   beyond what is asked for.
//! - Before it turns to a larger class, and again before it refuses, it looks at blocks of the request's own class,
//!   which the paper's rounding up skips although some of them fit. Both looks are bounded.
//! - Alignment. The paper has none; leading padding becomes a free span here, never part of the range.
//! - The lists are circles through their heads: taking a span out is two writes, whether it is the first, the last or
//!   the only one, and asks nothing, as the answers could not be predicted.
//! - Merging is put off while there is room: see `parked.rs`.

use crate::range::{
    AllocError, Allocate, FreeError, Freed, Invalid, Peek, Range, RangeAllocator, Serial, Serials, Span, check_request,
};
use alloc::vec::Vec;
use core::fmt;
use core::hint::select_unpredictable;
use parked::{PARKED, Parked};

mod parked;

/// A power of two is cut into `1 << SECOND_LOG2` classes.
const SECOND_LOG2: u32 = 5;
/// Words of the class bitmap: enough for every class of a 64-bit size, and a power of two.
const WORDS: usize = 32;
/// How many blocks that may or may not fit are looked at before an allocation is refused.
pub const NEAR_MISSES: u32 = 32;

/// How many of them are looked at where the caller has another allocator to ask.
const NEAR_MISSES_AT_HAND: u32 = 4;

/// How many blocks [`Tlsf::allocate_below`] looks at.
const LOOKS_BELOW: u32 = 64;

/// The node that closes the circle; as a free-list link and a recycled slot it means "none".
const SENTINEL: u32 = 0;
/// The node at offset 0: merging keeps the lower node and splitting keeps the low part, so this one never moves.
const FIRST: u32 = 1;
/// The bit of [`Node::prev_and_used`] that says "used".
const USED: u32 = 1 << 31;
/// The bit of a used [`Node::high`] that says "larger than what was asked for". No serial has it.
const LARGER: u32 = 1 << 30;
/// Such a span is larger by less than its `1 << LARGER_LOG2`th part, or by 1: two classes at most.
const LARGER_LOG2: u32 = 3;
/// How many units of a span its range may leave unused.
#[inline(always)]
const fn larger_at_most(span: u64) -> u64 {
    span >> LARGER_LOG2 | 1
}

const _: () = assert!((((PARKED | LARGER) as u64) << 32) & Serials::MAX == 0, "serials leave the marks alone");

/// One span, or a slot that waits to be used again.
#[derive(Clone, Copy)]
struct Node {
    /// Where the span begins; it ends where `next` begins.
    offset: u64,
    /// The node before it in address order, and [`USED`] iff the span is handed out or parked (or is the sentinel).
    prev_and_used: u32,
    /// The node after it in address order; for a recycled slot the next recycled one.
    next: u32,
}

impl Node {
    const fn is_used(&self) -> bool {
        self.prev_and_used & USED != 0
    }

    const fn prev(&self) -> u32 {
        self.prev_and_used & !USED
    }
}

/// What else there is to know of a span. Apart from the node, so that looking at a neighbour touches 16 bytes, and that
/// the heads of the lists can stand among the links.
#[derive(Clone, Copy)]
struct Link {
    /// Free: the link before it in its circle. Parked: the size, and [`PARKED`]. Used: the upper half of the serial, and
    /// [`LARGER`] iff the span is.
    high: u32,
    /// Free: the link after it in its circle. Parked: the slot of the next of its class. Used: the lower half of the
    /// serial.
    low: u32,
}

impl Link {
    #[inline(always)]
    const fn of(serial: Serial, is_larger: bool) -> Self {
        let high = (serial.get() >> 32) as u32;
        Self { high: high | (LARGER * is_larger as u32), low: serial.get() as u32 }
    }

    const fn serial_number(&self) -> u64 {
        ((self.high & !LARGER) as u64) << 32 | self.low as u64
    }
}

const _: () = assert!(size_of::<Node>() + size_of::<Link>() <= 24, "row 000-9");

/// A free block that a request fits into.
struct Place {
    slot: u32,
    /// Units of the block.
    block: u64,
    /// Units before the first aligned one.
    padding: u64,
}

/// The free block `slot` and whether `size` units fit into it, aligned. For the sentinel the answer has no meaning.
#[inline(always)]
fn look(nodes: &[Node], slot: u32, size: u64, alignment: u64) -> (Place, bool) {
    let node = nodes[slot as usize];
    let block = nodes[node.next as usize].offset.wrapping_sub(node.offset);
    let padding = node.offset.wrapping_neg() & (alignment - 1);
    let fits = (block >= padding) & (block.wrapping_sub(padding) >= size);
    (Place { slot, block, padding }, fits)
}

#[inline(always)]
fn fit(nodes: &[Node], slot: u32, size: u64, alignment: u64) -> Option<Place> {
    let (place, fits) = look(nodes, slot, size, alignment);
    fits.then_some(place)
}

/// The free spans by class.
#[derive(Clone)]
struct Lists {
    /// Bit `c % 64` of word `c / 64` is set iff the circle of class `c` holds a span.
    words: [u64; WORDS],
    /// How many classes there are: link `base + slot` is that of node `slot`, the links before are the heads. That of
    /// the sentinel is always a circle of its own.
    base: u32,
    links: Vec<Link>,
}

impl Lists {
    fn new(classes: u32) -> Self {
        let alone = |at| Link { high: at, low: at };
        Self { words: [0; WORDS], base: classes, links: (0..=classes).map(alone).collect() }
    }

    #[inline(always)]
    fn link(&self, slot: u32) -> Link {
        self.links[(self.base + slot) as usize]
    }

    #[inline(always)]
    fn link_mut(&mut self, slot: u32) -> &mut Link {
        &mut self.links[(self.base + slot) as usize]
    }

    /// The lowest class from `class` on that holds a span.
    #[inline(always)]
    fn class_from(&self, class: u32) -> Option<u32> {
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

    /// The highest class that holds a span.
    fn highest_class(&self) -> Option<u32> {
        let word = self.words.iter().rposition(|&bits| bits != 0)?;
        Some((word as u32) << 6 | self.words[word].ilog2())
    }

    /// The slot of the first span of a class, or [`SENTINEL`].
    #[inline(always)]
    fn first(&self, class: u32) -> u32 {
        self.links[class as usize].low.saturating_sub(self.base)
    }

    /// The slot of the span after this one in its class, or [`SENTINEL`].
    fn after(&self, slot: u32) -> u32 {
        self.link(slot).low.saturating_sub(self.base)
    }

    /// Puts a free span at the head of its class.
    #[inline(always)]
    fn push(&mut self, slot: u32, class: u32) {
        let at = self.base + slot;
        let head = &mut self.links[class as usize];
        let first = head.low;
        head.low = at;
        self.links[at as usize] = Link { high: class, low: first };
        self.links[first as usize].high = at;
        self.words[(class >> 6) as usize % WORDS] |= 1 << (class & 63);
    }

    /// Takes a free span out of its circle; of the sentinel nothing changes.
    #[inline(always)]
    fn unlink(&mut self, slot: u32) {
        let Link { high: before, low: after } = self.link(slot);
        self.links[before as usize].low = after;
        self.links[after as usize].high = before;
        // The same link on both sides: that is the head. (Or the sentinel, whose bit is never set.)
        let is_empty = before == after;
        self.words[(before >> 6) as usize % WORDS] &= !(u64::from(is_empty) << (before & 63));
    }
}

/// Cuts the span of `slot` after `size` units: `slot` keeps the low part, the new node has the rest. Both count as
/// free, and stand in no list. There must be a recycled slot.
#[inline(always)]
fn split(nodes: &mut [Node], recycled: &mut u32, slot: u32, size: u64) -> u32 {
    let Node { offset, next, .. } = nodes[slot as usize];
    let new = *recycled;
    *recycled = nodes[new as usize].next;
    nodes[new as usize] = Node { offset: offset + size, prev_and_used: slot, next };
    nodes[slot as usize].next = new;
    set_prev(nodes, next, new);
    new
}

#[inline(always)]
fn set_prev(nodes: &mut [Node], slot: u32, prev: u32) {
    let node = &mut nodes[slot as usize];
    node.prev_and_used = prev | (node.prev_and_used & USED);
}

/// Two-level segregated fit over `0..capacity`.
///
/// It refuses only if no free span is as large as the request rounded up to a size class (at most 1/32 more, and
/// `alignment - 1` more) and none of the [`NEAR_MISSES`] smaller ones that it looks at fits.
///
/// ```
/// use ringfence_core::range::{Allocate, RangeAllocator};
/// use ringfence_core::tlsf::Tlsf;
///
/// let mut tlsf = Tlsf::new(1 << 20);
/// let range = tlsf.allocate(1000, 256)?;
/// assert_eq!((range.offset() % 256, range.size()), (0, 1000));
/// tlsf.free(range)?;
/// assert!(tlsf.free(range).is_err(), "it was given back already");
/// assert_eq!(tlsf.largest_free(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tlsf {
    lists: Lists,
    /// The first recycled slot, or [`SENTINEL`].
    recycled: u32,
    /// Units in free and parked spans.
    free: u64,
    capacity: u64,
    /// Ranges that are handed out.
    live: usize,
    serials: Serials,
    parked: Parked,
    /// From how many free units on spans are parked; `u64::MAX` while none are at all.
    roomy_from: u64,
    /// For how many allocations from the lists nothing is parked yet.
    pause: u32,
    /// Whether spans are parked when the caller says so, and never otherwise.
    is_told: bool,
    /// The sentinel, then every span, and recycled slots among them.
    nodes: Vec<Node>,
}

impl Tlsf {
    /// An allocator of `capacity` units, all of them free. A capacity of 0 is allowed: nothing fits then.
    ///
    /// Takes 256 bytes of host memory for each power of two up to the capacity, 15 KiB at most.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let first = if capacity == 0 { SENTINEL } else { FIRST };
        let sentinel = Node { offset: capacity, prev_and_used: first | USED, next: first };
        let mut tlsf = Self {
            lists: Lists::new(class_of(capacity) + 1),
            recycled: SENTINEL,
            free: capacity,
            capacity,
            live: 0,
            serials: Serials::new(),
            parked: Parked::new(),
            roomy_from: u64::MAX,
            pause: 0,
            is_told: false,
            nodes: alloc::vec![sentinel],
        };
        if capacity != 0 {
            tlsf.push_node(Node { offset: 0, prev_and_used: SENTINEL, next: SENTINEL });
            tlsf.lists.push(FIRST, class_of(capacity));
        }
        tlsf
    }

    /// A node more, and its link.
    fn push_node(&mut self, node: Node) {
        self.nodes.push(node);
        self.lists.links.push(Link { high: 0, low: 0 });
    }

    /// The node of an index, which is always in bounds.
    #[inline(always)]
    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// The head of the request's own class if it fits, else that of the lowest class that surely holds the size if its
    /// alignment fits, else the long way.
    ///
    /// What was freed is often asked for again, and an equal block stands in the own class, not in the one above. That
    /// first look saves about a hundredth of the heap; looking at two or four blocks measured hardly better. Whether it
    /// succeeds cannot be predicted, so both are looked up, and one is chosen without a branch.
    #[inline(always)]
    fn find(&self, size: u64, alignment: u64) -> Option<Place> {
        self.find_within(size, alignment, NEAR_MISSES)
    }

    #[inline(always)]
    fn find_within(&self, size: u64, alignment: u64, looks: u32) -> Option<Place> {
        let Some(class) = self.lists.class_from(fitting_class_of(size)) else {
            return self.find_elsewhere(size, alignment, looks);
        };
        let near = self.lists.first(class_of(size));
        let (_, fits) = look(&self.nodes, near, size, alignment);
        let slot = select_unpredictable(fits & (near != SENTINEL), near, self.lists.first(class));
        match fit(&self.nodes, slot, size, alignment) {
            Some(place) => Some(place),
            None => self.find_elsewhere(size, alignment, looks),
        }
    }

    /// The head of the own class if it fits, the first block that fits wherever it begins, else a near miss.
    #[cold]
    #[inline(never)]
    fn find_elsewhere(&self, size: u64, alignment: u64, looks: u32) -> Option<Place> {
        let near = self.lists.first(class_of(size));
        if near != SENTINEL
            && let Some(place) = fit(&self.nodes, near, size, alignment)
        {
            return Some(place);
        }
        let surely = match size.checked_add(alignment - 1) {
            Some(padded) => fitting_class_of(padded),
            None => u32::MAX,
        };
        if surely != u32::MAX
            && let Some(class) = self.lists.class_from(surely)
        {
            return fit(&self.nodes, self.lists.first(class), size, alignment);
        }
        if looks == 0 { None } else { self.near_miss(size, alignment, surely, looks) }
    }

    /// One of the first [`NEAR_MISSES`] blocks, from the request's own class up to below the class `surely`, that fits.
    fn near_miss(&self, size: u64, alignment: u64, surely: u32, looks: u32) -> Option<Place> {
        let mut left = looks;
        let mut class = self.lists.class_from(class_of(size))?;
        while class < surely {
            let mut slot = self.lists.first(class);
            while slot != SENTINEL && left != 0 {
                let place = fit(&self.nodes, slot, size, alignment);
                if place.is_some() {
                    return place;
                }
                slot = self.lists.after(slot);
                left -= 1;
            }
            if left == 0 {
                return None;
            }
            class = self.lists.class_from(class + 1)?;
        }
        None
    }

    /// Hands out `size` units of the `span` units at `place` that follow its padding.
    #[inline(always)]
    fn take(&mut self, place: &Place, size: u64, span: u64) -> Range {
        self.reserve_two();
        let nodes = self.nodes.as_mut_slice();
        self.lists.unlink(place.slot);
        let mut slot = place.slot;
        if place.padding != 0 {
            slot = split(nodes, &mut self.recycled, slot, place.padding);
            self.lists.push(place.slot, class_of(place.padding));
        }
        let rest = place.block - place.padding - span;
        if rest != 0 {
            let remainder = split(nodes, &mut self.recycled, slot, span);
            self.lists.push(remainder, class_of(rest));
        }
        self.hand_out(slot, size, span)
    }

    /// Marks a node of `span` units that stands in no list as used.
    #[inline(always)]
    fn hand_out(&mut self, slot: u32, size: u64, span: u64) -> Range {
        self.free -= span;
        self.live += 1;
        let serial = self.serials.draw();
        let node = &mut self.nodes[slot as usize];
        node.prev_and_used |= USED;
        *self.lists.link_mut(slot) = Link::of(serial, span != size);
        Range::new(node.offset, size, slot, serial)
    }

    /// A parked span of the request's class, rounded up, or of the one above, if it is aligned.
    #[inline(always)]
    fn take_parked(&mut self, size: u64, alignment: u64) -> Option<Range> {
        let list = self.parked.list(fitting_class_of(size))?;
        let slot = list.head();
        let offset = self.nodes.get(slot as usize)?.offset;
        if (slot == SENTINEL) | (offset & (alignment - 1) != 0) {
            return None;
        }
        let link = self.lists.link_mut(slot);
        list.pop(link.low);
        let span = u64::from(link.high & !PARKED);
        self.parked.taken(span);
        Some(self.hand_out_parked(slot, offset, size, span))
    }

    /// Marks a span of `span` units that was parked, and stands in no list any more, as used.
    #[inline(always)]
    fn hand_out_parked(&mut self, slot: u32, offset: u64, size: u64, span: u64) -> Range {
        self.free -= span;
        self.live += 1;
        let serial = self.serials.draw();
        *self.lists.link_mut(slot) = Link::of(serial, span != size);
        Range::new(offset, size, slot, serial)
    }

    /// Whether a request may be served from what is parked.
    #[inline(always)]
    const fn is_roomy(&self, size: u64) -> bool {
        (self.free >= self.roomy_from) & (size < self.parked.size_max())
    }

    /// The units that a request takes from the free lists.
    #[inline(always)]
    const fn span_for(&self, size: u64, is_roomy: bool) -> u64 {
        if is_roomy & !self.parked.is_empty() { rounded_up(size) } else { size }
    }

    /// Allocates from the free lists. While there is room a span of the size rounded up to its class, so that it fits
    /// every request of the class later.
    #[inline(never)]
    fn allocate_listed(&mut self, size: u64, alignment: u64, is_roomy: bool) -> Result<Range, AllocError> {
        if self.pause != 0 {
            self.pause -= 1;
            if self.pause == 0 {
                self.roomy_from = self.roomy_from();
            }
        }
        let span = self.span_for(size, is_roomy);
        match self.find(span, alignment) {
            Some(place) => Ok(self.take(&place, size, span)),
            None => self.allocate_after_merging(size, alignment, span),
        }
    }

    /// The last resort before a refusal: merges what is parked, and parks nothing for a while.
    #[cold]
    #[inline(never)]
    fn allocate_after_merging(&mut self, size: u64, alignment: u64, tried: u64) -> Result<Range, AllocError> {
        if !self.parked.is_empty() {
            (self.roomy_from, self.pause) = (u64::MAX, parked::PAUSE);
            self.merge_parked();
        } else if tried == size {
            return Err(self.out_of_space(size, alignment));
        }
        match self.find(size, alignment) {
            Some(place) => Ok(self.take(&place, size, size)),
            None => Err(self.out_of_space(size, alignment)),
        }
    }

    /// Sees to it that at least two slots are recycled, which is as many as an allocation takes.
    #[inline(always)]
    fn reserve_two(&mut self) {
        if self.recycled == SENTINEL || self.node(self.recycled).next == SENTINEL {
            self.grow();
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        for _ in 0..2 {
            let slot = u32::try_from(self.nodes.len()).ok().filter(|slot| slot & USED == 0);
            let slot = slot.expect("there are fewer than 2^31 spans: their nodes would take 48 GiB");
            self.push_node(Node { offset: 0, prev_and_used: 0, next: self.recycled });
            self.recycled = slot;
        }
        if self.nodes.len() >= parked::SPANS_MIN && !self.is_told {
            self.begin_to_park();
        }
    }

    /// Makes the table, the first time, and fits the limits to a new number of spans.
    fn begin_to_park(&mut self) {
        if !self.parked.has_begun() {
            self.parked.begin(self.capacity);
        }
        self.parked.limit(self.roomy_from() / 2);
        if self.pause == 0 {
            self.roomy_from = self.roomy_from();
        }
    }

    /// With few spans the chance is small that a hole of the right size comes up by itself, and parking takes some away:
    /// it needs the more room.
    fn roomy_from(&self) -> u64 {
        if self.is_told {
            return u64::MAX;
        }
        let spans = self.nodes.len() as u64;
        self.capacity / 16 + self.capacity / spans.div_ceil(1024) + 1
    }

    /// Makes the used span `slot`, which reads as `node`, a free one and joins it with its free neighbours.
    ///
    /// Without a branch: whether a neighbour is free is as good as random. Where one is not, the work is done all the
    /// same, on the sentinel, where it comes to nothing.
    #[inline(never)]
    fn merge(&mut self, slot: u32, node: Node) -> u64 {
        let nodes = self.nodes.as_mut_slice();
        let (prev, next) = (node.prev(), node.next);
        let (before, after) = (nodes[prev as usize], nodes[next as usize]);
        let (before_is_free, after_is_free) = (!before.is_used(), !after.is_used());
        self.lists.unlink(select_unpredictable(after_is_free, next, SENTINEL));
        self.lists.unlink(select_unpredictable(before_is_free, prev, SENTINEL));

        // If the node after stays, the link is written to a node whose link is written again below.
        nodes[select_unpredictable(after_is_free, next, slot) as usize].next = self.recycled;
        let recycled = select_unpredictable(after_is_free, next, self.recycled);
        nodes[slot as usize].prev_and_used = prev;
        nodes[slot as usize].next = recycled;
        self.recycled = select_unpredictable(before_is_free, slot, recycled);

        let start = select_unpredictable(before_is_free, prev, slot);
        let start_offset = select_unpredictable(before_is_free, before.offset, node.offset);
        let end = select_unpredictable(after_is_free, after.next, next);
        nodes[start as usize].next = end;
        set_prev(nodes, end, start);
        let end_offset = nodes[end as usize].offset;
        self.lists.push(start, class_of(end_offset - start_offset));
        end_offset - start_offset
    }

    /// The node of a live range and the units of its span.
    ///
    /// The span may be larger than the range: it was rounded up to a class, or parked in the class above.
    #[inline(always)]
    fn live_node(&self, range: &Range) -> Option<(Node, u64)> {
        let node = *self.nodes.get(range.slot() as usize)?;
        let link = self.lists.link(range.slot());
        let is_it = node.is_used()
            && link.serial_number() == range.serial().get()
            && node.offset == range.offset()
            && link.high & PARKED == 0
            && range.slot() != SENTINEL;
        if !is_it {
            return None;
        }
        let span = self.node(node.next).offset - node.offset;
        let at_most = if link.high & LARGER == 0 { 0 } else { larger_at_most(span) };
        (span.wrapping_sub(range.size()) <= at_most).then_some((node, span))
    }

    #[cold]
    #[inline(never)]
    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        AllocError::OutOfSpace { size, alignment, free: self.free, largest_free: self.largest_free() }
    }
}

impl Allocate for Tlsf {
    type Allocation = Range;
    type Error = AllocError;

    /// O(1).
    ///
    /// # Errors
    /// [`check_request`]'s, or [`AllocError::OutOfSpace`].
    ///
    /// # Panics
    /// If there would be more than 2³¹ spans.
    #[inline]
    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity)?;
        let is_roomy = self.is_roomy(size);
        if is_roomy && let Some(range) = self.take_parked(size, alignment) {
            return Ok(range);
        }
        self.allocate_listed(size, alignment, is_roomy)
    }

    #[inline]
    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let Some((node, span)) = self.live_node(&range) else { return Err(self.serials.refuse(&range)) };
        self.free += span;
        self.live -= 1;
        let may_park = (self.free >= self.roomy_from) & (span < self.parked.size_max());
        if !(may_park && self.parked.push(self.lists.link_mut(range.slot()), range.slot(), span, class_of(span))) {
            self.merge(range.slot(), node);
        }
        Ok(())
    }
}

impl RangeAllocator for Tlsf {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free_size(&self) -> u64 {
        self.free
    }

    /// What would be granted: the longest free span, or the longest of those that would be looked at if its class
    /// holds more than [`NEAR_MISSES`]; parked spans count as merged. O(1) and O(parked).
    fn largest_free(&self) -> u64 {
        if self.live == 0 {
            return self.capacity;
        }
        self.largest_listed(NEAR_MISSES).max(self.largest_parked())
    }

    /// O(1): whether there is a free span of the size's class or above, or a parked one that may be part of one.
    #[inline]
    fn may_hold(&self, size: u64) -> bool {
        size <= self.free && (!self.parked.is_empty() || self.lists.class_from(class_of(size)).is_some())
    }

    fn park_when_told(&mut self) {
        self.merge_parked();
        (self.is_told, self.roomy_from) = (true, u64::MAX);
        self.parked.begin_unlisted(self.capacity);
    }

    fn parked_size(&self) -> u64 {
        self.parked.units()
    }

    #[inline]
    fn free_or_park(&mut self, range: Range, is_welcome: impl FnOnce(u64) -> bool) -> Result<Freed, FreeError> {
        let Some((node, span)) = self.live_node(&range) else { return Err(self.serials.refuse(&range)) };
        self.free += span;
        self.live -= 1;
        let link = self.lists.link_mut(range.slot());
        if self.is_told && span < self.parked.size_max() && is_welcome(span) {
            self.parked.push_unlisted(link, span);
            return Ok(Freed::Parked);
        }
        Ok(Freed::Merged { at_most: self.merge(range.slot(), node) })
    }

    #[inline]
    fn allocate_parked(&mut self, slot: u32, size: u64, alignment: u64) -> Option<Range> {
        let offset = self.nodes.get(slot as usize)?.offset;
        let high = self.lists.link(slot).high;
        let span = u64::from(high & !PARKED);
        let is_near = span.wrapping_sub(size) <= larger_at_most(span);
        if !is_near | (high & PARKED == 0) | (offset & (alignment - 1) != 0) {
            return None;
        }
        self.parked.taken(span);
        Some(self.hand_out_parked(slot, offset, size, span))
    }

    #[inline]
    fn allocate_at_hand(&mut self, size: u64, alignment: u64) -> Result<Range, u64> {
        if size > self.capacity {
            return Err(self.capacity);
        }
        match self.find_within(size, alignment, NEAR_MISSES_AT_HAND) {
            Some(place) => Ok(self.take(&place, size, size)),
            None if alignment == 1 => Err(size - 1),
            None => Err(self.lists.highest_class().map_or(0, |class| least_of(class + 1) - 1)),
        }
    }

    fn largest_at_hand(&self) -> u64 {
        self.largest_listed(NEAR_MISSES_AT_HAND)
    }

    fn merge_parked(&mut self) {
        if self.is_told {
            return self.merge_unlisted();
        }
        let mut class = 0;
        while let Some(slot) = self.parked.pop_any(&self.lists, &mut class) {
            self.merge(slot, *self.node(slot));
        }
    }

    fn live_count(&self) -> usize {
        self.live
    }

    fn is_live(&self, range: &Range) -> bool {
        self.live_node(range).is_some()
    }

    /// Parked spans are shown as free, and as one with free ones beside them.
    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let mut slot = self.node(SENTINEL).next;
        while slot != SENTINEL {
            let node = self.node(slot);
            let is_free = self.is_vacant(slot);
            let mut next = node.next;
            while is_free && self.is_vacant(next) {
                next = self.node(next).next;
            }
            let size = self.node(next).offset - node.offset;
            visit(Span { offset: node.offset, size, slot: (!is_free).then_some(slot) });
            slot = next;
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let spans = self.validate_spans()?;
        let listed = self.validate_lists()?;
        let parked = self.validate_parked()?;
        Invalid::unless(parked == spans.parked_count, "every parked span stands in a list", parked as u64)?;
        let mut recycled = 0;
        let mut slot = self.recycled;
        while slot != SENTINEL {
            let node = self.nodes.get(slot as usize);
            let node = node.ok_or(Invalid { rule: "a recycled slot exists", at: slot.into() })?;
            recycled += 1;
            Invalid::unless(!node.is_used() && recycled < self.nodes.len(), "recycled slots are free", slot.into())?;
            slot = node.next;
        }
        Invalid::unless(listed == spans.free_count, "every free span stands in a list", listed as u64)?;
        Invalid::unless(spans.count + recycled + 1 == self.nodes.len(), "no slot is lost", recycled as u64)
    }
}

impl Peek for Tlsf {
    /// O(1); O(spans), with host memory, where an allocation would have to merge what is parked.
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        let is_roomy = self.is_roomy(size);
        if is_roomy && let Some(slot) = self.parked.peek(fitting_class_of(size)) {
            let offset = self.node(slot).offset;
            if offset & (alignment - 1) == 0 {
                return Some(offset);
            }
        }
        let offset = |tlsf: &Self, place: Place| tlsf.node(place.slot).offset + place.padding;
        if let Some(place) = self.find(self.span_for(size, is_roomy), alignment) {
            return Some(offset(self, place));
        }
        let merged = self.with_parked_merged();
        merged.find(size, alignment).map(|place| offset(&merged, place))
    }

    fn peek_at_hand(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        self.find_within(size, alignment, NEAR_MISSES_AT_HAND).map(|place| self.node(place.slot).offset + place.padding)
    }

    fn peek_parked(&self, slot: u32, alignment: u64) -> Option<u64> {
        let offset = self.node(slot).offset;
        (self.is_parked(slot) && offset & (alignment - 1) == 0).then_some(offset)
    }
}

impl Tlsf {
    /// Allocates below a limit: the range ends at `limit` or before. For whoever moves ranges towards the beginning of
    /// the heap, so that what is free comes together at its end.
    ///
    /// A good place is sought, not the best: of the first 64 free spans from the request's own class upwards, the lowest
    /// of the first class in which one will do. `None` if none of them will, or nothing can serve the request; nothing has
    /// changed then, but that spans given back before may have been joined.
    ///
    /// O(1), and merging what is parked.
    pub fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        check_request(size, alignment, self.capacity).ok()?;
        if !self.parked.is_empty() {
            self.merge_parked();
        }
        let place = self.find_below(size, alignment, limit)?;
        Some(self.take(&place, size, size))
    }

    fn find_below(&self, size: u64, alignment: u64, limit: u64) -> Option<Place> {
        let offset = |place: &Place| self.node(place.slot).offset + place.padding;
        let mut left = LOOKS_BELOW;
        let mut class = self.lists.class_from(class_of(size))?;
        loop {
            let mut best: Option<Place> = None;
            let mut slot = self.lists.first(class);
            while slot != SENTINEL && left != 0 {
                if let Some(place) = fit(&self.nodes, slot, size, alignment)
                    && offset(&place) + size <= limit
                    && best.as_ref().is_none_or(|held| offset(&place) < offset(held))
                {
                    best = Some(place);
                }
                slot = self.lists.after(slot);
                left -= 1;
            }
            if best.is_some() || left == 0 {
                return best;
            }
            class = self.lists.class_from(class + 1)?;
        }
    }

    /// Merges what is parked in no list: O(spans).
    fn merge_unlisted(&mut self) {
        for slot in FIRST..self.nodes.len() as u32 {
            if self.parked.is_empty() {
                return;
            }
            if self.is_parked(slot) {
                self.parked.taken(u64::from(self.lists.link(slot).high & !PARKED));
                self.merge(slot, *self.node(slot));
            }
        }
    }

    /// A copy to look at, in which everything parked is merged.
    fn with_parked_merged(&self) -> Self {
        let (lists, parked, nodes) = (self.lists.clone(), self.parked.clone(), self.nodes.clone());
        let mut copy = Self { lists, parked, nodes, serials: Serials::new(), ..*self };
        copy.merge_parked();
        copy
    }
}

/// What a walk in address order counted.
struct Walked {
    count: usize,
    free_count: usize,
    parked_count: usize,
}

impl Tlsf {
    /// Whether nobody holds the span: it is free or parked. False of the sentinel.
    fn is_vacant(&self, slot: u32) -> bool {
        let node = self.node(slot);
        slot != SENTINEL && (!node.is_used() || self.is_parked(slot))
    }

    /// Whether the span was given back, but still stands between its neighbours as if it were used.
    #[inline]
    fn is_parked(&self, slot: u32) -> bool {
        slot != SENTINEL && self.node(slot).is_used() && self.lists.link(slot).high & PARKED != 0
    }

    /// The longest of the first `looks` spans of the highest class.
    fn largest_listed(&self, looks: u32) -> u64 {
        let Some(class) = self.lists.highest_class() else { return 0 };
        let mut slot = self.lists.first(class);
        let mut largest = 0;
        for _ in 0..looks {
            if slot == SENTINEL {
                break;
            }
            let node = self.node(slot);
            largest = largest.max(self.node(node.next).offset - node.offset);
            slot = self.lists.after(slot);
        }
        largest
    }

    /// The longest span that merging the parked ones would make.
    fn largest_parked(&self) -> u64 {
        let mut largest = 0;
        if self.is_told && !self.parked.is_empty() {
            let parked = (FIRST..self.nodes.len() as u32).filter(|slot| self.is_parked(*slot));
            return parked.map(|slot| self.vacant_run_from(slot)).max().unwrap_or(0);
        }
        for (_, mut slot, _) in self.parked.lists() {
            while slot != SENTINEL {
                largest = largest.max(self.vacant_run_from(slot));
                slot = self.lists.link(slot).low;
            }
        }
        largest
    }

    /// Units of the vacant spans around the parked `slot`, together; 0 if there is a parked one before it, which
    /// tells as much.
    fn vacant_run_from(&self, slot: u32) -> u64 {
        let mut first = slot;
        while self.is_vacant(self.node(first).prev()) {
            first = self.node(first).prev();
            if self.is_parked(first) {
                return 0;
            }
        }
        let mut end = self.node(slot).next;
        while self.is_vacant(end) {
            end = self.node(end).next;
        }
        self.node(end).offset - self.node(first).offset
    }

    /// How many nodes the parked lists hold.
    fn validate_parked(&self) -> Result<usize, Invalid> {
        if self.is_told {
            return self.validate_unlisted();
        }
        let mut listed = 0;
        for (class, mut slot, count) in self.parked.lists() {
            let before = listed;
            while slot != SENTINEL {
                let (node, link) = (*self.node(slot), self.lists.link(slot));
                Invalid::unless(self.is_parked(slot), "what stands in a parked list is parked", node.offset)?;
                let size = self.node(node.next).offset - node.offset;
                Invalid::unless(u64::from(link.high & !PARKED) == size, "a parked span knows its size", node.offset)?;
                Invalid::unless(class_of(size) == class, "a parked span stands in its class", node.offset)?;
                listed += 1;
                Invalid::unless(listed < self.nodes.len(), "the parked lists end", node.offset)?;
                slot = link.low;
            }
            Invalid::unless(listed - before == count as usize, "a class counts its parked spans", class.into())?;
        }
        Invalid::unless(listed == self.parked.count() as usize, "the parked spans are counted", listed as u64)?;
        Ok(listed)
    }

    /// How many nodes are parked in no list.
    fn validate_unlisted(&self) -> Result<usize, Invalid> {
        let (mut count, mut units) = (0, 0);
        for slot in (FIRST..self.nodes.len() as u32).filter(|slot| self.is_parked(*slot)) {
            let (node, link) = (*self.node(slot), self.lists.link(slot));
            let size = self.node(node.next).offset - node.offset;
            Invalid::unless(u64::from(link.high & !PARKED) == size, "a parked span knows its size", node.offset)?;
            (count, units) = (count + 1, units + size);
        }
        let counted = (self.parked.count() as usize, self.parked.units());
        Invalid::unless((count, units) == counted, "the parked spans are counted", count as u64)?;
        Ok(count)
    }

    fn validate_spans(&self) -> Result<Walked, Invalid> {
        let sentinel = *self.node(SENTINEL);
        Invalid::unless(sentinel.is_used() && sentinel.offset == self.capacity, "the sentinel closes the circle", 0)?;
        let first = self.node(sentinel.next);
        Invalid::unless(sentinel.next == SENTINEL || first.offset == 0, "the first span begins at 0", first.offset)?;
        let mut walked = Walked { count: 0, free_count: 0, parked_count: 0 };
        let (mut free, mut previous, mut slot) = (0, SENTINEL, sentinel.next);
        while slot != SENTINEL {
            let node = *self.node(slot);
            let next = *self.node(node.next);
            Invalid::unless(node.prev() == previous, "address links are symmetric", node.offset)?;
            Invalid::unless(next.offset > node.offset, "offsets rise", node.offset)?;
            Invalid::unless(node.is_used() || next.is_used(), "free neighbours are merged", node.offset)?;
            walked.count += 1;
            Invalid::unless(walked.count < self.nodes.len(), "the circle ends", node.offset)?;
            if self.is_parked(slot) {
                walked.parked_count += 1;
                free += next.offset - node.offset;
            } else if node.is_used() {
                let serial = Serial::from_u64(self.lists.link(slot).serial_number());
                Invalid::unless(serial.is_some(), "a used node has a serial", node.offset)?;
            } else {
                walked.free_count += 1;
                free += next.offset - node.offset;
            }
            (previous, slot) = (slot, node.next);
        }
        Invalid::unless(sentinel.prev() == previous, "the last span is before the sentinel", self.capacity)?;
        Invalid::unless(free == self.free, "the free size is the sum of the free and parked spans", free)?;
        let used = walked.count - walked.free_count - walked.parked_count;
        Invalid::unless(used == self.live, "the live count is that of the used spans", used as u64)?;
        Ok(walked)
    }

    /// How many nodes the free lists hold.
    fn validate_lists(&self) -> Result<usize, Invalid> {
        let (base, links) = (self.lists.base, &self.lists.links);
        let sentinel = self.lists.link(SENTINEL);
        Invalid::unless((sentinel.high, sentinel.low) == (base, base), "the sentinel is a circle of its own", 0)?;
        Invalid::unless(links.len() == base as usize + self.nodes.len(), "each node has a link", links.len() as u64)?;
        let bits = self.lists.words.iter().map(|bits| bits.count_ones()).sum::<u32>();
        let heads = links[..base as usize].iter().enumerate();
        let filled = heads.clone().filter(|&(class, head)| head.low as usize != class).count();
        Invalid::unless(bits as usize == filled, "no bit is set beyond the classes with a block", bits.into())?;
        let mut listed = 0;
        for (class, head) in heads {
            let bit = self.lists.words[class / 64] >> (class % 64) & 1 == 1;
            Invalid::unless(
                bit == (head.low as usize != class),
                "a class has its bit iff it has a block",
                class as u64,
            )?;
            let (mut before, mut at) = (class as u32, head.low);
            while at as usize != class {
                Invalid::unless(at > base, "a circle holds one head", at.into())?;
                let (node, link) = (*self.node(at - base), links[at as usize]);
                Invalid::unless(!node.is_used(), "what stands in a free list is free", node.offset)?;
                Invalid::unless(link.high == before, "list links are symmetric", node.offset)?;
                let size = self.node(node.next).offset - node.offset;
                Invalid::unless(class_of(size) as usize == class, "a block stands in its class", node.offset)?;
                listed += 1;
                Invalid::unless(listed < self.nodes.len(), "the free lists end", node.offset)?;
                (before, at) = (at, link.low);
            }
            Invalid::unless(head.high == before, "a head knows the last", class as u64)?;
        }
        Ok(listed)
    }
}

impl fmt::Debug for Tlsf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tlsf")
            .field("capacity", &self.capacity)
            .field("free", &self.free)
            .field("live", &self.live)
            .field("parked", &self.parked.count())
            .finish_non_exhaustive()
    }
}

/// How many low bits of `size` its class leaves open.
#[inline(always)]
const fn open_bits(size: u64) -> u32 {
    (size | 1 << SECOND_LOG2).ilog2() - SECOND_LOG2
}

/// The class that a block of `size` units belongs to: its size is at least the least of the class.
#[inline(always)]
pub(crate) const fn class_of(size: u64) -> u32 {
    let open = open_bits(size);
    (open << SECOND_LOG2) + (size >> open) as u32
}

/// The lowest class of which every block holds `size` units, which are not 0: the one above that of the largest size that is too small.
#[inline(always)]
pub(crate) const fn fitting_class_of(size: u64) -> u32 {
    class_of(size - 1) + 1
}

/// The least size of a class; `u64::MAX` of one that no size has.
pub(crate) const fn least_of(class: u32) -> u64 {
    let (step, magnitude) = (class as u64 & 31, class >> SECOND_LOG2);
    if magnitude == 0 {
        return step;
    }
    let least = (step + 32) << (magnitude - 1) % 64;
    if class > class_of(u64::MAX) { u64::MAX } else { least }
}

/// The least size of [`fitting_class_of`] it. Below 2⁶³, so that there is such a size.
#[inline(always)]
const fn rounded_up(size: u64) -> u64 {
    let open = (1 << open_bits(size)) - 1;
    (size + open) & !open
}

const _: () = assert!(fitting_class_of(u64::MAX) < WORDS as u32 * 64, "`class_from` may be asked for any class");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_24_bytes() {
        assert_eq!(size_of::<Node>() + size_of::<Link>(), 24);
    }

    #[test]
    fn classes_hold_the_sizes_from_their_least_to_the_next_least() {
        let last = class_of(u64::MAX);
        for class in 1..=last {
            let least = least_of(class);
            assert_eq!((class_of(least), fitting_class_of(least)), (class, class));
            assert_eq!(class_of(least - 1), class - 1);
            let one_size_wide = least - least_of(class - 1) == 1;
            if least > 1 {
                assert_eq!(fitting_class_of(least - 1), if one_size_wide { class - 1 } else { class });
            }
        }
        assert_eq!((class_of(0), fitting_class_of(u64::MAX)), (0, last + 1));
    }
}
