//! Two-level segregated fit: the general-purpose range allocator.
//!
//! ```text
//!   words    [ … , 0010 0000 , 0000 0100 , … ]     bit c set iff the list of class c is not empty
//!                    │               │
//!   links    [ … ,   ●,    …  ,      ●, … ]        a circular list per class: the head, then the free spans, the
//!                  ⤢   ⤡            ⤢⤡             latest first; the link of a used span stores its serial
//!                 7 ⇄ 12             4
//!
//!   nodes    0 ⇄ 1 ⇄ 4 ⇄ 9 ⇄ 7 ⇄ 2 ⇄ 12 ⇄ 0       a circular list in address order, through `prev` and `next`
//!            │   used free used free used free
//!            └ the sentinel: offset = capacity, always used. The node after it starts at offset 0.
//! ```
//!
//! Classes: the sizes from one power of two to the next form 32 classes; each size below 32 has its own class.
//!
//! | operation | cost |
//! |---|---|
//! | `allocate` that succeeds | O(1): the first set bit of at most 32 words, at most two splits |
//! | `allocate` that fails, or must try smaller spans | O(1): about 2 · [`NEAR_MISSES`] spans tried, and all merges |
//! | `free` | O(1): at most two merges |
//! | `allocate_below` | O(1): tries at most 64 spans, after merging the deferred spans |
//! | `is_live`, `free_size`, `live_count` | O(1) |
//! | `largest_free` | O(1): compares at most [`NEAR_MISSES`] spans, plus the deferred spans |
//! | `for_each_span`, `validate`, `peek` if no free span fits | O(spans) |
//! | host memory | 24 bytes per span, grown at a new maximum of spans; 8 bytes per class, 16 once spans are deferred |
//!
//! The paper: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for real-time systems",
//! ECRTS 2004. Differences from it:
//!
//! - Nodes are stored outside of the memory that they describe, because the host may be unable to access that memory. A
//!   node does not store its size, which is the next node's offset minus its own.
//! - Classes are numbered consecutively, so both levels are one bitmap of 64-bit words. A word covers two powers of
//!   two. There is no second bitmap of the words that are not 0: reading the next word is as fast as reading such a
//!   bitmap, and an update writes less.
//! - No minimum block size: a remainder of one unit is an ordinary free span. So only the requested units are reserved,
//!   unless spans are deferred.
//! - Before the search moves to a larger class, it tries the first span of the request's own class. Before the search
//!   fails, it tries a limited number of spans from this class upwards. The paper rounds the request up and skips the
//!   spans of the request's own class, although some of them fit.
//! - Requests have an alignment; those of the paper have none. Padding before the aligned offset becomes a free span
//!   and is not part of the range.
//! - The lists are circular, and the head is part of the circle. So the same two writes unlink a span even if it is the
//!   first, the last or the only one, without a branch that the processor could mispredict.
//! - If there are many spans and enough space is free, freed spans are not merged at once, but reused (`deferred.rs`).

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serials, Span, check_request,
};
use alloc::vec::Vec;
use core::fmt;
use core::hint::select_unpredictable;
use deferred::{DEFERRED, Deferred};
use find::Place;
use lists::{FIRST, LARGER, Link, Lists, Node, SENTINEL, USED, larger_at_most, set_prev, split};

mod check;
mod classes;
mod deferred;
mod find;
mod lists;

use classes::rounded_up;
pub(crate) use classes::{class_of, fitting_class_of, least_of};
pub use find::NEAR_MISSES;

/// The general-purpose range allocator: two-level segregated fit with O(1) calls.
///
/// If a free span has at least `size + alignment - 1` units, rounded up to a size class (at most 1/32 more), the
/// request succeeds. Otherwise, up to [`NEAR_MISSES`] smaller spans are tried before the request fails.
///
/// ```
/// use ringfence_core::range::{Allocate, RangeAllocator};
/// use ringfence_core::tlsf::Tlsf;
///
/// let mut tlsf = Tlsf::new(1 << 20);
/// let range = tlsf.allocate(1000, 256)?;
/// assert_eq!((range.offset() % 256, range.size()), (0, 1000));
/// tlsf.free(range)?;
/// assert!(tlsf.free(range).is_err(), "it was freed already");
/// assert_eq!(tlsf.largest_free(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tlsf {
    lists: Lists,
    /// First slot of the list of recycled slots; [`SENTINEL`] if the list is empty.
    recycled: u32,
    /// Units in free and deferred spans.
    free: u64,
    capacity: u64,
    /// Number of live ranges.
    live: usize,
    serials: Serials,
    deferred: Deferred,
    /// Spans are deferred only if at least this number of units is free; `u64::MAX` while deferral is off or paused.
    free_min_to_defer: u64,
    /// Number of allocations from the lists until deferral resumes; 0 if it is not paused.
    pause: u32,
    /// `false` if spans are never deferred ([`Tlsf::exact`]).
    may_defer: bool,
    /// The sentinel, then the spans and the recycled slots.
    nodes: Vec<Node>,
}

impl Tlsf {
    /// Creates an allocator of `capacity` units, all free. If the capacity is 0, every request fails.
    ///
    /// The lists take 256 bytes of host memory for each power of two up to the capacity, at most 15 KiB in total.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self::with(capacity, true)
    }

    /// Creates an allocator that merges each freed range at once and reserves exactly the requested units. So the sizes
    /// of the live ranges and of the free spans add up to the capacity. With thousands of ranges, it is slower than an
    /// allocator from [`Tlsf::new`].
    #[must_use]
    pub fn exact(capacity: u64) -> Self {
        Self::with(capacity, false)
    }

    fn with(capacity: u64, may_defer: bool) -> Self {
        let first = if capacity == 0 { SENTINEL } else { FIRST };
        let sentinel = Node { offset: capacity, prev_and_used: first | USED, next: first };
        let mut tlsf = Self {
            lists: Lists::new(class_of(capacity) + 1),
            recycled: SENTINEL,
            free: capacity,
            capacity,
            live: 0,
            serials: Serials::new(),
            deferred: Deferred::new(),
            free_min_to_defer: u64::MAX,
            pause: 0,
            may_defer,
            nodes: alloc::vec![sentinel],
        };
        if capacity != 0 {
            tlsf.push_node(Node { offset: 0, prev_and_used: SENTINEL, next: SENTINEL });
            tlsf.lists.push(FIRST, class_of(capacity));
        }
        tlsf
    }

    /// Adds a node and its link.
    fn push_node(&mut self, node: Node) {
        self.nodes.push(node);
        self.lists.links.push(Link { high: 0, low: 0 });
    }

    /// Returns the node of `slot`, an index in bounds.
    #[inline(always)]
    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// Allocates a range of `size` units at `place`, after its padding, and reserves `span` units for it. The padding
    /// and the rest of the free span become free spans.
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

    /// Marks an unlinked node of `span` units as used and returns its range.
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

    /// Allocates the most recently deferred span of the class that [`fitting_class_of`] gives, or if this class has
    /// none, of the next class. Returns `None` if neither has a span, or if the span is misaligned.
    #[inline(always)]
    fn take_deferred(&mut self, size: u64, alignment: u64) -> Option<Range> {
        let list = self.deferred.list(fitting_class_of(size))?;
        let slot = list.head();
        let offset = self.nodes.get(slot as usize)?.offset;
        if (slot == SENTINEL) | (offset & (alignment - 1) != 0) {
            return None;
        }
        let link = self.lists.link_mut(slot);
        list.pop(link.low);
        let span = u64::from(link.high & !DEFERRED);
        self.deferred.taken(span);
        self.free -= span;
        self.live += 1;
        let serial = self.serials.draw();
        *self.lists.link_mut(slot) = Link::of(serial, span != size);
        Some(Range::new(offset, size, slot, serial))
    }

    /// Returns `true` if a deferred span may serve the request.
    #[inline(always)]
    const fn may_use_deferred(&self, size: u64) -> bool {
        (self.free >= self.free_min_to_defer) & (size < self.deferred.size_max())
    }

    /// Returns the number of units to reserve for a request of `size` units.
    #[inline(always)]
    const fn span_for(&self, size: u64, may_use_deferred: bool) -> u64 {
        if may_use_deferred & !self.deferred.is_empty() { rounded_up(size) } else { size }
    }

    /// Allocates from the free lists. If there are deferred spans and the request may use them, rounds the reserved
    /// size up to the smallest size of a class. Therefore, if this span is deferred later, it fits every request that
    /// is rounded up to the same class.
    #[inline(never)]
    fn allocate_listed(&mut self, size: u64, alignment: u64, may_use_deferred: bool) -> Result<Range, AllocError> {
        if self.pause != 0 {
            self.pause -= 1;
            if self.pause == 0 {
                self.free_min_to_defer = self.free_min_to_defer();
            }
        }
        let span = self.span_for(size, may_use_deferred);
        match self.find(span, alignment) {
            Some(place) => Ok(self.take(&place, size, span)),
            None => self.allocate_after_merging(size, alignment, span),
        }
    }

    /// Merges the deferred spans, pauses deferral if there were any, and searches for exactly `size` units. Called if
    /// no free span fits.
    #[cold]
    #[inline(never)]
    fn allocate_after_merging(&mut self, size: u64, alignment: u64, tried: u64) -> Result<Range, AllocError> {
        if !self.deferred.is_empty() {
            (self.free_min_to_defer, self.pause) = (u64::MAX, deferred::PAUSE);
            self.merge_deferred();
        } else if tried == size {
            return Err(self.out_of_space(size, alignment));
        }
        match self.find(size, alignment) {
            Some(place) => Ok(self.take(&place, size, size)),
            None => Err(self.out_of_space(size, alignment)),
        }
    }

    /// Ensures that the list of recycled slots has at least two, because an allocation uses at most two.
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
            let slot = slot.expect("there are fewer than 2^31 spans, whose nodes would take 48 GiB of host memory");
            self.push_node(Node { offset: 0, prev_and_used: 0, next: self.recycled });
            self.recycled = slot;
        }
        if self.nodes.len() >= deferred::SPANS_MIN && self.may_defer {
            self.begin_to_defer();
        }
    }

    /// Creates the table of deferred spans on the first call. Each call adapts the limits to the number of spans.
    fn begin_to_defer(&mut self) {
        if !self.deferred.has_begun() {
            self.deferred.begin(self.capacity);
        }
        self.deferred.limit(self.free_min_to_defer() / 2, self.nodes.len());
        if self.pause == 0 {
            self.free_min_to_defer = self.free_min_to_defer();
        }
    }

    /// Returns the number of units that must be free before a span is deferred. Deferred spans are not merged. If there
    /// are few spans, a deferred span rarely has a requested size. So the fewer spans there are, the more free units
    /// are required.
    fn free_min_to_defer(&self) -> u64 {
        let spans = self.nodes.len() as u64;
        self.capacity / 16 + self.capacity / spans.div_ceil(1024) + 1
    }

    /// Marks the used span `slot` as free and merges it with its free neighbours. `node` is a copy of its node.
    ///
    /// Has no branches, because the processor cannot predict if a neighbour is free. If a neighbour is used, the writes
    /// that would unlink it are made to the sentinel, where they have no effect.
    #[inline(never)]
    fn merge(&mut self, slot: u32, node: Node) {
        let nodes = self.nodes.as_mut_slice();
        let (prev, next) = (node.prev(), node.next);
        let (before, after) = (nodes[prev as usize], nodes[next as usize]);
        let (before_is_free, after_is_free) = (!before.is_used(), !after.is_used());
        self.lists.unlink(select_unpredictable(after_is_free, next, SENTINEL));
        self.lists.unlink(select_unpredictable(before_is_free, prev, SENTINEL));

        // If the next node is used, this writes the `next` of `slot`, which is written again below.
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
    }

    /// Returns the node of a live range and the number of units of its span. Returns `None` if the range is not live.
    ///
    /// The span can be larger than the range, because its size was rounded up to a class, or because it was a deferred
    /// span of the next class.
    #[inline(always)]
    fn live_node(&self, range: &Range) -> Option<(Node, u64)> {
        let node = *self.nodes.get(range.slot() as usize)?;
        let link = self.lists.link(range.slot());
        let is_it = node.is_used()
            && link.serial_number() == range.serial().get()
            && node.offset == range.offset()
            && link.high & DEFERRED == 0
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

    /// Allocates a range in O(1).
    ///
    /// # Errors
    /// The errors of [`check_request`], and [`AllocError::OutOfSpace`].
    ///
    /// # Panics
    /// If the allocator needs more than 2³¹ spans.
    #[inline]
    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity)?;
        let may_use_deferred = self.may_use_deferred(size);
        if may_use_deferred && let Some(range) = self.take_deferred(size, alignment) {
            return Ok(range);
        }
        self.allocate_listed(size, alignment, may_use_deferred)
    }

    #[inline]
    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let Some((node, span)) = self.live_node(&range) else { return Err(self.serials.refuse(&range)) };
        self.free += span;
        self.live -= 1;
        let may_defer = (self.free >= self.free_min_to_defer) & (span < self.deferred.size_max());
        if !(may_defer && self.deferred.push(self.lists.link_mut(range.slot()), range.slot(), span, class_of(span))) {
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

    /// Returns the size of the longest free span, in units, as if all deferred spans were merged. Of the free spans
    /// that are not deferred, compares only the first [`NEAR_MISSES`] of the highest class that is not empty. So the
    /// result may be too small by less than one class. O(1), plus O(deferred spans).
    fn largest_free(&self) -> u64 {
        if self.live == 0 {
            return self.capacity;
        }
        self.largest_listed().max(self.largest_deferred())
    }

    /// Returns `true` if at least `size` units are free, and there is a free span in the class of `size` or above, or
    /// any deferred span. O(1).
    #[inline]
    fn may_hold(&self, size: u64) -> bool {
        size <= self.free && (!self.deferred.is_empty() || self.lists.class_from(class_of(size)).is_some())
    }

    fn live_count(&self) -> usize {
        self.live
    }

    fn is_live(&self, range: &Range) -> bool {
        self.live_node(range).is_some()
    }

    /// Reports adjacent free and deferred spans as one free span.
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
        self.check()
    }
}

impl Peek for Tlsf {
    /// O(1) if a free or deferred span fits. Otherwise, O(spans), and this call allocates host memory.
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        let may_use_deferred = self.may_use_deferred(size);
        if may_use_deferred && let Some(slot) = self.deferred.peek(fitting_class_of(size)) {
            let offset = self.node(slot).offset;
            if offset & (alignment - 1) == 0 {
                return Some(offset);
            }
        }
        let offset = |tlsf: &Self, place: Place| tlsf.node(place.slot).offset + place.padding;
        if let Some(place) = self.find(self.span_for(size, may_use_deferred), alignment) {
            return Some(offset(self, place));
        }
        let merged = self.with_deferred_merged();
        merged.find(size, alignment).map(|place| offset(&merged, place))
    }
}

impl Tlsf {
    /// Allocates a range that ends at or below `limit`. A caller can move ranges towards the start of the heap with it,
    /// so that the free space is at the end of the heap.
    ///
    /// The offset is low, but not always the lowest possible. The search tries at most 64 free spans, from the
    /// request's own class upwards. It ends with the first class in which one of these spans fits below `limit`, and
    /// chooses the lowest offset among the spans of this class that were tried. Returns `None` if the request is
    /// invalid or none of the spans fits below `limit`; deferred spans may then have been merged.
    ///
    /// O(1), plus merging the deferred spans.
    pub fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        check_request(size, alignment, self.capacity).ok()?;
        if !self.deferred.is_empty() {
            self.merge_deferred();
        }
        let place = self.find_below(size, alignment, limit)?;
        Some(self.take(&place, size, size))
    }

    /// Returns the total size of the deferred spans, in units.
    #[must_use]
    pub const fn deferred_size(&self) -> u64 {
        self.deferred.units()
    }

    /// Merges all deferred spans with their free neighbours.
    pub fn merge_deferred(&mut self) {
        let mut class = 0;
        while let Some(slot) = self.deferred.pop_any(&self.lists, &mut class) {
            self.merge(slot, *self.node(slot));
        }
    }

    /// Returns a copy in which all deferred spans are merged. The copy is only for queries, because it has another
    /// source of serials.
    fn with_deferred_merged(&self) -> Self {
        let (lists, deferred, nodes) = (self.lists.clone(), self.deferred.clone(), self.nodes.clone());
        let mut copy = Self { lists, deferred, nodes, serials: Serials::new(), ..*self };
        copy.merge_deferred();
        copy
    }
}

impl Tlsf {
    /// Returns `true` if the span is free or deferred, and not the sentinel.
    fn is_vacant(&self, slot: u32) -> bool {
        let node = self.node(slot);
        slot != SENTINEL && (!node.is_used() || self.is_deferred(slot))
    }

    /// Returns `true` if the span is deferred: it was freed, but is not merged, and its node is still marked as used.
    #[inline]
    fn is_deferred(&self, slot: u32) -> bool {
        slot != SENTINEL && self.node(slot).is_used() && self.lists.link(slot).high & DEFERRED != 0
    }

    /// Returns the size, in units, of the longest span that merging the deferred spans would create.
    fn largest_deferred(&self) -> u64 {
        let mut largest = 0;
        for (_, mut slot, _) in self.deferred.lists() {
            while slot != SENTINEL {
                largest = largest.max(self.vacant_run_from(slot));
                slot = self.lists.link(slot).low;
            }
        }
        largest
    }

    /// Returns the total size of the run of free and deferred spans that contains the deferred span `slot`, in units.
    /// Returns 0 if another deferred span precedes `slot` in the run: the call for that span counts the run.
    fn vacant_run_from(&self, slot: u32) -> u64 {
        let mut first = slot;
        while self.is_vacant(self.node(first).prev()) {
            first = self.node(first).prev();
            if self.is_deferred(first) {
                return 0;
            }
        }
        let mut end = self.node(slot).next;
        while self.is_vacant(end) {
            end = self.node(end).next;
        }
        self.node(end).offset - self.node(first).offset
    }
}

impl fmt::Debug for Tlsf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tlsf")
            .field("capacity", &self.capacity)
            .field("free", &self.free)
            .field("live", &self.live)
            .field("deferred", &self.deferred.count())
            .finish_non_exhaustive()
    }
}
