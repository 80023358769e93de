//! Two-level segregated fit: the general-purpose range allocator.
//!
//! ```text
//!   summary  0 … 0 1 1        bit w set iff words[w] is not 0
//!                  │ └─────────────────────────────┐
//!   words    [ … , 0010 0000 , 0000 0100 , … ]     bit c set iff the list of class c is not empty
//!                    │               │
//!   heads    [ … ,   7,    …  ,      4, … ]        the first free node of each class
//!                    │               │
//!                    ▼               ▼
//!   free lists       7 ⇄ 12          4             linked through `high` and `low`
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
//! | `allocate` that succeeds | O(1): one find-first-set in two words, at most two splits |
//! | `allocate` that fails, or that only a near miss serves | O(1): [`NEAR_MISSES`] nodes looked at |
//! | `free` | O(1): at most two merges |
//! | `is_live`, `free_size`, `live_count` | O(1) |
//! | `largest_free` | O(1): [`NEAR_MISSES`] nodes looked at |
//! | `for_each_span`, `validate` | O(spans) |
//! | host memory | 24 bytes a span, grown when there are more spans than ever before; 4 bytes a class |
//!
//! The paper: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for real-time
//! systems", ECRTS 2004. Where this departs from it:
//!
//! - Nodes lie outside of the memory that they describe, which the host may not be able to touch. A node does not hold
//!   its size: that is the next node's offset less its own.
//! - Classes are numbered in one row, so the two levels are a bitmap of 64-bit words and a summary of it, not one
//!   word for each power of two. A word spans two powers of two.
//! - No smallest block: a remainder of a single unit is a free span like any other, so that nothing is set aside
//!   beyond what is asked for.
//! - Before it turns to a larger class, and again before it refuses, it looks at blocks of the request's own class,
//!   which the paper's rounding up skips although some of them fit. Both looks are bounded.
//! - Alignment. The paper has none; leading padding becomes a free span here, never part of the range.
//! - The first node of a list does not know that it is the first: taking it leaves the second node untouched, which
//!   is one memory access less.

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serial, Serials, Span, check_request,
};
use alloc::vec::Vec;
use core::fmt;
use core::hint::select_unpredictable;

/// A power of two is cut into `1 << SECOND_LOG2` classes.
const SECOND_LOG2: u32 = 5;
/// Words of the class bitmap: enough for every class of a 64-bit size, and a power of two.
const WORDS: usize = 32;
/// How many blocks that may or may not fit are looked at before an allocation is refused.
pub const NEAR_MISSES: u32 = 32;

/// The node that closes the circle; as a free-list link and a recycled slot it means "none".
const SENTINEL: u32 = 0;
/// The node at offset 0: merging keeps the lower node and splitting keeps the low part, so this one never moves.
const FIRST: u32 = 1;
/// The bit of [`Node::prev_and_used`] that says "used".
const USED: u32 = 1 << 31;

/// One span, or a slot that waits to be used again.
#[derive(Clone, Copy)]
struct Node {
    /// Where the span begins; it ends where `next` begins.
    offset: u64,
    /// The node before it in address order, and [`USED`] iff the span is handed out (or is the sentinel).
    prev_and_used: u32,
    /// The node after it in address order; for a recycled slot the next recycled one.
    next: u32,
    /// Used: the upper half of the serial. Free: the node before it in its free list, if it is not the list's head;
    /// the head's value means nothing, nor does the sentinel's.
    high: u32,
    /// Used: the lower half of the serial. Free: the node after it in its free list, or [`SENTINEL`].
    low: u32,
}

impl Node {
    const fn is_used(&self) -> bool {
        self.prev_and_used & USED != 0
    }

    const fn prev(&self) -> u32 {
        self.prev_and_used & !USED
    }

    const fn serial_number(&self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }
}

const _: () = assert!(size_of::<Node>() <= 24, "row 000-9");

/// A free block that a request fits into.
struct Place {
    slot: u32,
    /// The class whose list the block stands in.
    class: u32,
    /// Units of the block.
    block: u64,
    /// Units before the first aligned one.
    padding: u64,
}

/// Whether `size` units fit into the free block `slot` of `class`, aligned.
#[inline(always)]
fn fit(nodes: &[Node], slot: u32, class: u32, size: u64, alignment: u64) -> Option<Place> {
    let node = nodes[slot as usize];
    let block = nodes[node.next as usize].offset - node.offset;
    let padding = node.offset.wrapping_neg() & (alignment - 1);
    (block.checked_sub(padding)? >= size).then_some(Place { slot, class, block, padding })
}

/// The free nodes by class.
struct Lists {
    /// Bit `w` is set iff `words[w]` is not 0.
    summary: u32,
    /// Bit `c % 64` of word `c / 64` is set iff `heads[c]` is not [`SENTINEL`].
    words: [u64; WORDS],
    /// The first free node of each class up to that of the capacity.
    heads: Vec<u32>,
}

impl Lists {
    /// The lowest class from `class` on that holds a block.
    #[inline(always)]
    fn class_from(&self, class: u32) -> Option<u32> {
        let word = (class >> 6) as usize % WORDS;
        let here = self.words[word] & (u64::MAX << (class & 63));
        if here != 0 {
            return Some((word as u32) << 6 | here.trailing_zeros());
        }
        // Shifted twice: `word + 1` may be the width of the summary.
        let above = self.summary & (u32::MAX << word << 1);
        if above == 0 {
            return None;
        }
        let word = above.trailing_zeros();
        Some(word << 6 | self.words[word as usize % WORDS].trailing_zeros())
    }

    /// Puts a free node at the head of its class.
    #[inline(always)]
    fn push(&mut self, nodes: &mut [Node], slot: u32, class: u32) {
        let head = self.heads[class as usize];
        self.heads[class as usize] = slot;
        nodes[slot as usize].low = head;
        // Of an empty list this writes into the sentinel, where it means nothing: cheaper than to ask.
        nodes[head as usize].high = slot;
        let word = (class >> 6) as usize % WORDS;
        self.words[word] |= 1 << (class & 63);
        self.summary |= 1 << word;
    }

    /// Takes a free node out of the list of its class.
    ///
    /// Without a branch: whether a node is the first or the only one of its list cannot be predicted.
    #[inline(always)]
    fn unlink(&mut self, nodes: &mut [Node], slot: u32, class: u32) {
        let Node { high: before, low: after, .. } = nodes[slot as usize];
        let head = &mut self.heads[class as usize];
        let is_head = *head == slot;
        *head = select_unpredictable(is_head, after, *head);
        let is_empty = *head == SENTINEL;
        // The head has no node before it: its own link is written with what it holds already.
        nodes[select_unpredictable(is_head, slot, before) as usize].low = after;
        nodes[after as usize].high = before;
        let word = (class >> 6) as usize % WORDS;
        self.words[word] &= !(u64::from(is_empty) << (class & 63));
        self.summary &= !(u32::from(self.words[word] == 0) << word);
    }
}

/// Cuts the span of `slot` after `size` units: `slot` keeps the low part, the new node has the rest. Both count as
/// free, and stand in no list. There must be a recycled slot.
#[inline(always)]
fn split(nodes: &mut [Node], recycled: &mut u32, slot: u32, size: u64) -> u32 {
    let Node { offset, next, .. } = nodes[slot as usize];
    let new = *recycled;
    *recycled = nodes[new as usize].next;
    nodes[new as usize] = Node { offset: offset + size, prev_and_used: slot, next, high: 0, low: 0 };
    nodes[slot as usize].next = new;
    set_prev(nodes, next, new);
    new
}

#[inline(always)]
fn set_prev(nodes: &mut [Node], slot: u32, prev: u32) {
    let node = &mut nodes[slot as usize];
    node.prev_and_used = prev | (node.prev_and_used & USED);
}

#[inline(always)]
fn recycle(nodes: &mut [Node], recycled: &mut u32, slot: u32) {
    let node = &mut nodes[slot as usize];
    node.prev_and_used = 0;
    node.next = *recycled;
    *recycled = slot;
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
    /// Units in free spans.
    free: u64,
    capacity: u64,
    /// Ranges that are handed out.
    live: usize,
    serials: Serials,
    /// The sentinel, then every span, and recycled slots among them.
    nodes: Vec<Node>,
}

impl Tlsf {
    /// An allocator of `capacity` units, all of them free. A capacity of 0 is allowed: nothing fits then.
    ///
    /// Takes 128 bytes of host memory for each power of two up to the capacity, 7.5 KiB at most.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let first = if capacity == 0 { SENTINEL } else { FIRST };
        let sentinel = Node { offset: capacity, prev_and_used: first | USED, next: first, high: 0, low: 0 };
        let heads = alloc::vec![SENTINEL; class_of(capacity) as usize + 1];
        let mut tlsf = Self {
            lists: Lists { summary: 0, words: [0; WORDS], heads },
            recycled: SENTINEL,
            free: capacity,
            capacity,
            live: 0,
            serials: Serials::new(),
            nodes: alloc::vec![sentinel],
        };
        if capacity != 0 {
            tlsf.nodes.push(Node { offset: 0, prev_and_used: SENTINEL, next: SENTINEL, high: 0, low: 0 });
            tlsf.lists.push(&mut tlsf.nodes, FIRST, class_of(capacity));
        }
        tlsf
    }

    /// The node of an index, which is always in bounds.
    #[inline(always)]
    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// The head of the request's own class if it fits, of the fitting class if its alignment does, else the long way.
    ///
    /// What was freed is often asked for again, and an equal block stands in the own class, not in the one above. That
    /// first look saves about a hundredth of the heap; looking at two or four blocks measured hardly better.
    #[inline(always)]
    fn find(&self, size: u64, alignment: u64) -> Option<Place> {
        let own = class_of(size);
        let head = self.lists.heads[own as usize];
        if head != SENTINEL {
            let place = fit(&self.nodes, head, own, size, alignment);
            if place.is_some() {
                return place;
            }
        }
        if let Some(class) = self.lists.class_from(fitting_class_of(size)) {
            let place = fit(&self.nodes, self.lists.heads[class as usize], class, size, alignment);
            if place.is_some() {
                return place;
            }
        }
        self.find_elsewhere(size, alignment)
    }

    /// The first block that fits wherever it begins, else a near miss.
    #[inline(never)]
    fn find_elsewhere(&self, size: u64, alignment: u64) -> Option<Place> {
        let surely = match size.checked_add(alignment - 1) {
            Some(padded) => fitting_class_of(padded),
            None => u32::MAX,
        };
        if surely != u32::MAX
            && let Some(class) = self.lists.class_from(surely)
        {
            return fit(&self.nodes, self.lists.heads[class as usize], class, size, alignment);
        }
        self.near_miss(size, alignment, surely)
    }

    /// One of the first [`NEAR_MISSES`] blocks, from the request's own class up to below the class `surely`, that fits.
    fn near_miss(&self, size: u64, alignment: u64, surely: u32) -> Option<Place> {
        let mut left = NEAR_MISSES;
        let mut class = self.lists.class_from(class_of(size))?;
        while class < surely {
            let mut slot = self.lists.heads[class as usize];
            while slot != SENTINEL && left != 0 {
                let place = fit(&self.nodes, slot, class, size, alignment);
                if place.is_some() {
                    return place;
                }
                slot = self.node(slot).low;
                left -= 1;
            }
            if left == 0 {
                return None;
            }
            class = self.lists.class_from(class + 1)?;
        }
        None
    }

    /// Hands out the `size` units at `place` that follow its padding.
    #[inline(always)]
    fn take(&mut self, place: &Place, size: u64) -> Range {
        self.reserve_two();
        let nodes = self.nodes.as_mut_slice();
        self.lists.unlink(nodes, place.slot, place.class);
        let mut slot = place.slot;
        if place.padding != 0 {
            slot = split(nodes, &mut self.recycled, slot, place.padding);
            self.lists.push(nodes, place.slot, class_of(place.padding));
        }
        let rest = place.block - place.padding - size;
        if rest != 0 {
            let remainder = split(nodes, &mut self.recycled, slot, size);
            self.lists.push(nodes, remainder, class_of(rest));
        }
        let serial = self.serials.draw();
        self.free -= size;
        self.live += 1;
        let node = &mut nodes[slot as usize];
        node.prev_and_used |= USED;
        node.high = (serial.get() >> 32) as u32;
        node.low = serial.get() as u32;
        Range::new(node.offset, size, slot, serial)
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
            self.nodes.push(Node { offset: 0, prev_and_used: 0, next: self.recycled, high: 0, low: 0 });
            self.recycled = slot;
        }
    }

    /// The node of a live range.
    #[inline(always)]
    fn live_node(&self, range: &Range) -> Option<Node> {
        let node = *self.nodes.get(range.slot() as usize)?;
        let is_it = node.is_used()
            && node.serial_number() == range.serial().get()
            && node.offset == range.offset()
            && range.slot() != SENTINEL
            && self.node(node.next).offset - node.offset == range.size();
        is_it.then_some(node)
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
        match self.find(size, alignment) {
            Some(place) => Ok(self.take(&place, size)),
            None => Err(self.out_of_space(size, alignment)),
        }
    }

    #[inline]
    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let Some(node) = self.live_node(&range) else { return Err(self.serials.refuse(&range)) };
        let nodes = self.nodes.as_mut_slice();
        let (mut slot, mut end, mut size) = (range.slot(), node.next, range.size());
        self.free += size;
        self.live -= 1;
        let after = nodes[end as usize];
        if !after.is_used() {
            let merged = nodes[after.next as usize].offset - after.offset;
            self.lists.unlink(nodes, end, class_of(merged));
            recycle(nodes, &mut self.recycled, end);
            end = after.next;
            size += merged;
        }
        let before = nodes[node.prev() as usize];
        if before.is_used() {
            nodes[slot as usize].prev_and_used = node.prev();
        } else {
            let merged = node.offset - before.offset;
            self.lists.unlink(nodes, node.prev(), class_of(merged));
            recycle(nodes, &mut self.recycled, slot);
            slot = node.prev();
            size += merged;
        }
        nodes[slot as usize].next = end;
        set_prev(nodes, end, slot);
        self.lists.push(nodes, slot, class_of(size));
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

    /// Exactly what would be granted: the longest free span, or the longest of those that would be looked at if its
    /// class holds more than [`NEAR_MISSES`]. O(1).
    fn largest_free(&self) -> u64 {
        if self.lists.summary == 0 {
            return 0;
        }
        let word = self.lists.summary.ilog2();
        let class = word << 6 | self.lists.words[word as usize % WORDS].ilog2();
        let mut slot = self.lists.heads[class as usize];
        let mut largest = 0;
        for _ in 0..NEAR_MISSES {
            if slot == SENTINEL {
                break;
            }
            let node = self.node(slot);
            largest = largest.max(self.node(node.next).offset - node.offset);
            slot = node.low;
        }
        largest
    }

    fn live_count(&self) -> usize {
        self.live
    }

    fn is_live(&self, range: &Range) -> bool {
        self.live_node(range).is_some()
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let mut slot = self.node(SENTINEL).next;
        while slot != SENTINEL {
            let node = self.node(slot);
            let size = self.node(node.next).offset - node.offset;
            visit(Span { offset: node.offset, size, slot: node.is_used().then_some(slot) });
            slot = node.next;
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let spans = self.validate_spans()?;
        let listed = self.validate_lists()?;
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
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        let place = self.find(size, alignment)?;
        Some(self.node(place.slot).offset + place.padding)
    }
}

/// What a walk in address order counted.
struct Walked {
    count: usize,
    free_count: usize,
}

impl Tlsf {
    fn validate_spans(&self) -> Result<Walked, Invalid> {
        let sentinel = *self.node(SENTINEL);
        Invalid::unless(sentinel.is_used() && sentinel.offset == self.capacity, "the sentinel closes the circle", 0)?;
        let first = self.node(sentinel.next);
        Invalid::unless(sentinel.next == SENTINEL || first.offset == 0, "the first span begins at 0", first.offset)?;
        let mut walked = Walked { count: 0, free_count: 0 };
        let (mut free, mut previous, mut slot) = (0, SENTINEL, sentinel.next);
        while slot != SENTINEL {
            let node = *self.node(slot);
            let next = *self.node(node.next);
            Invalid::unless(node.prev() == previous, "address links are symmetric", node.offset)?;
            Invalid::unless(next.offset > node.offset, "offsets rise", node.offset)?;
            Invalid::unless(node.is_used() || next.is_used(), "free neighbours are merged", node.offset)?;
            walked.count += 1;
            Invalid::unless(walked.count < self.nodes.len(), "the circle ends", node.offset)?;
            if node.is_used() {
                let serial = Serial::from_u64(node.serial_number());
                Invalid::unless(serial.is_some(), "a used node has a serial", node.offset)?;
            } else {
                walked.free_count += 1;
                free += next.offset - node.offset;
            }
            (previous, slot) = (slot, node.next);
        }
        Invalid::unless(sentinel.prev() == previous, "the last span is before the sentinel", self.capacity)?;
        Invalid::unless(free == self.free, "the free size is the sum of the free spans", free)?;
        let used = walked.count - walked.free_count;
        Invalid::unless(used == self.live, "the live count is that of the used spans", used as u64)?;
        Ok(walked)
    }

    /// How many nodes the free lists hold.
    fn validate_lists(&self) -> Result<usize, Invalid> {
        for (word, &bits) in self.lists.words.iter().enumerate() {
            Invalid::unless((self.lists.summary >> word & 1 == 1) == (bits != 0), "the summary is true", word as u64)?;
            let classes = self.lists.heads.len().saturating_sub(word * 64).min(64);
            let beyond = if classes == 64 { 0 } else { bits >> classes };
            Invalid::unless(beyond == 0, "no bit is set beyond the last class", word as u64)?;
        }
        let mut listed = 0;
        for (class, &head) in self.lists.heads.iter().enumerate() {
            let bit = self.lists.words[class / 64] >> (class % 64) & 1 == 1;
            Invalid::unless(bit == (head != SENTINEL), "a class has its bit iff it has a block", class as u64)?;
            let (mut before, mut slot) = (SENTINEL, head);
            while slot != SENTINEL {
                let node = *self.node(slot);
                Invalid::unless(!node.is_used(), "what stands in a free list is free", node.offset)?;
                Invalid::unless(slot == head || node.high == before, "list links are symmetric", node.offset)?;
                let size = self.node(node.next).offset - node.offset;
                Invalid::unless(class_of(size) as usize == class, "a block stands in its class", node.offset)?;
                listed += 1;
                Invalid::unless(listed < self.nodes.len(), "the free lists end", node.offset)?;
                (before, slot) = (slot, node.low);
            }
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
const fn class_of(size: u64) -> u32 {
    let open = open_bits(size);
    (open << SECOND_LOG2) + (size >> open) as u32
}

/// The lowest class of which every block holds `size` units.
#[inline(always)]
const fn fitting_class_of(size: u64) -> u32 {
    class_of(size) + (size & ((1 << open_bits(size)) - 1) != 0) as u32
}

const _: () = assert!(fitting_class_of(u64::MAX) < WORDS as u32 * 64, "`class_from` may be asked for any class");

#[cfg(test)]
mod tests {
    use super::*;

    /// The least size of a class, by the definition: 32 steps in each power of two.
    fn least_of(class: u32) -> u64 {
        if class < 64 { u64::from(class) } else { u64::from(class % 32 + 32) << (class / 32 - 1) }
    }

    #[test]
    fn a_node_is_24_bytes() {
        assert_eq!(size_of::<Node>(), 24);
    }

    #[test]
    fn classes_hold_the_sizes_from_their_least_to_the_next_least() {
        let last = class_of(u64::MAX);
        for class in 1..=last {
            let least = least_of(class);
            assert_eq!((class_of(least), fitting_class_of(least)), (class, class));
            assert_eq!(class_of(least - 1), class - 1);
            let one_size_wide = least - least_of(class - 1) == 1;
            assert_eq!(fitting_class_of(least - 1), if one_size_wide { class - 1 } else { class });
        }
        assert_eq!((class_of(0), fitting_class_of(u64::MAX)), (0, last + 1));
    }
}
