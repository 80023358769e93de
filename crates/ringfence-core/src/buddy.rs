//! A buddy allocator: blocks with sizes that are powers of two, in a binary tree that is stored in one array.
//!
//! ```text
//!   capacity 5, granule 1: a tree of 8 leaves; a node that begins at or above the capacity does not exist
//!
//!   order 3   1 ───────────────────────────────────── clipped: 0..5
//!             │                                   │
//!   order 2   2 ───────────────────               3 ─ ─ ─ ─ ─ clipped: 4..5
//!             │                   │               │
//!   order 1   4 ─────────         5 ─────────     6 ─ ─ clipped: 4..5
//!             │         │         │         │     │
//!   order 0   8         9         10        11    12
//!             ├─────────┼─────────┼─────────┼─────┤
//!             0         1         2         3     4     5 = capacity
//!
//!   a node's value     │ FREE │ USED │ orders: bit k iff the subtree has a whole free node of order k │
//!                       31     30     29                                                              0
//! ```
//!
//! If a node is not allocated, its value is computed from the values of its two children. If a node is allocated, its
//! value is `USED`, and all nodes below it have the values of free nodes. Therefore, an allocation or a free writes
//! only the node and its ancestors: an allocation reads one path down and writes it on the way up, and a free writes
//! one path up.
//!
//! A request is served from the *smallest* free node that is large enough; if several have this size, from the node
//! with the lowest address. To find it, each value has one bit per order of the free nodes in its subtree. If a value
//! had only the largest order (one byte per node), the search could not find the smallest node, and would split larger
//! nodes than necessary.
//!
//! If the capacity is not a power of two, the end of the capacity cuts through at most one node of each order. Such a
//! node is *clipped*: only its part below the capacity can be used. It can be allocated as a whole if this part is free
//! and large enough for the request. The value of a clipped node has the bits of the whole free nodes below it, and no
//! bit of its own order.
//!
//! | operation | cost | host allocations |
//! |---|---|---|
//! | `new` | O(granules) | 2 |
//! | `allocate`, `free`, `largest_free` | O(log granules) | 0 |
//! | `is_live`, `free_size`, `live_count` | O(1) | 0 |
//! | `for_each_span` | O(spans · log granules) | 0 |
//! | `validate` | O(granules) | 0 |
//!
//! Host memory: 16 to 20 bytes per granule. A range of at least a granule wastes less than its own size, or if its
//! alignment exceeds the size, less than the alignment. A smaller range wastes the rest of its granule at least.

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serials, Span, check_request,
};
use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

/// Bit of a value: the whole node is free. Also set for nodes beyond the capacity.
const FREE: u32 = 1 << 31;
/// Bit of a value: the node itself is allocated. No other bit is set then.
const USED: u32 = 1 << 30;
/// Bits of a value: bit k is set if the subtree has a whole free node of order k.
const ORDERS: u32 = USED - 1;
/// Highest order. It has the last bit of [`ORDERS`].
const ORDER_MAX: u32 = 29;
/// The root of the tree. The children of node `n` are `2n` and `2n + 1`.
const ROOT: usize = 1;

/// A buddy allocator: reserves a power of two of granules for each range, or less at the end of the capacity.
///
/// ```
/// use ringfence_core::buddy::Buddy;
/// use ringfence_core::range::{Allocate, RangeAllocator};
///
/// let mut slots = Buddy::new(1000, 1);
/// let one = slots.allocate(1, 1)?;
/// let five = slots.allocate(5, 1)?;
/// assert_eq!(slots.free_size(), 1000 - 1 - 8);
/// slots.free(one)?;
/// assert!(slots.free(one).is_err(), "a range is freed once");
/// # slots.free(five)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Buddy {
    /// The values of the tree's nodes; `nodes[0]` is unused. Each granule has a leaf. The length is even, so that every
    /// node except the root has a buddy. The value of an inner node is `USED`, or [`combine`] of the children's values.
    nodes: Box<[u32]>,
    /// For each granule, the serial of the live range that begins at it; 0 if there is none.
    serials: Box<[u64]>,
    source: Serials,
    /// Capacity, in units.
    capacity: u64,
    /// Free units: the capacity minus the units of the `USED` nodes, counted only inside the capacity.
    free: u64,
    /// Number of `USED` nodes.
    live: usize,
    /// The granule is `1 << granule_log2` units.
    granule_log2: u32,
    /// Order of the root: the lowest order that covers the capacity.
    root_order: u32,
    /// `true` if a clipped node is `USED`. Clipped nodes are nested, so at most one is `USED`. The clipped nodes inside
    /// it have the values of free nodes; those around it do not.
    clipped_used: bool,
}

impl Buddy {
    /// Maximum number of granules.
    pub const GRANULES_MAX: u64 = 1 << ORDER_MAX;

    /// Creates an allocator of `capacity` units, all free. Its smallest block has `granule` units. O(capacity /
    /// granule) in time and host memory.
    ///
    /// The capacity need not be a power of two or a multiple of the granule.
    ///
    /// # Panics
    /// If the capacity is 0 or above 2⁶³, if the granule is not a power of two, or if there are more than 2²⁹ granules.
    #[must_use]
    pub fn new(capacity: u64, granule: u64) -> Self {
        assert!(capacity != 0 && capacity <= 1 << 63, "the capacity {capacity} is not in 1..=2^63");
        assert!(granule.is_power_of_two(), "the granule {granule} is not a power of two");
        let granules = capacity.div_ceil(granule);
        assert!(granules <= Self::GRANULES_MAX, "{granules} granules are more than 2^{ORDER_MAX}");
        let granule_log2 = granule.trailing_zeros();
        let root_order = granules.next_power_of_two().trailing_zeros();

        let first_leaf = 1_usize << root_order;
        // A leaf has the bit of order 0 only if its whole granule is inside the capacity.
        let whole_granules = (capacity >> granule_log2) as usize;
        let mut nodes = vec![FREE; (first_leaf + granules as usize).next_multiple_of(2)].into_boxed_slice();
        nodes[0] = 0;
        nodes[first_leaf..first_leaf + whole_granules].fill(FREE | 1);
        for node in (ROOT..first_leaf.min(nodes.len() / 2)).rev() {
            nodes[node] = combine(nodes[2 * node], nodes[2 * node + 1]);
        }
        Self {
            nodes,
            serials: vec![0; granules as usize].into_boxed_slice(),
            source: Serials::new(),
            capacity,
            free: capacity,
            live: 0,
            granule_log2,
            root_order,
            clipped_used: false,
        }
    }

    /// Returns the size of the smallest block, in units. O(1).
    #[must_use]
    pub const fn granule(&self) -> u64 {
        1 << self.granule_log2
    }

    /// Returns the number of units that the live range of `slot` occupies, including the units that were added by
    /// rounding. Returns 0 if there is no such range. O(1).
    #[must_use]
    pub fn live_size(&self, slot: u32) -> u64 {
        let node = slot as usize;
        if self.nodes.get(node) == Some(&USED) { self.length_of(node, self.order_of(node)) } else { 0 }
    }

    /// Returns the order of the smallest nodes that have `size` units and begin at a multiple of `alignment`. The root
    /// fits every alignment, because it begins at 0.
    fn order_for(&self, size: u64, alignment: u64) -> u32 {
        let length = size.max(alignment);
        let length_log2 = u64::BITS - (length - 1).leading_zeros();
        length_log2.saturating_sub(self.granule_log2).min(self.root_order)
    }

    /// Returns a free node of this order for `size` units. It can be part of a larger free node, or clipped.
    fn find(&self, order: u32, size: u64) -> Option<usize> {
        // The clipped node of this order is shorter than any other node that is large enough. Clipped nodes of higher
        // orders need no check: if one is free and long enough, it contains a whole node of this order.
        if self.clipped_length(order) >= size && self.clipped_is_free(order) {
            return Some(self.clipped_node(order));
        }
        let sufficient = self.nodes[ROOT] & ORDERS & (u32::MAX << order);
        if sufficient == 0 {
            return None;
        }
        let smallest = sufficient.trailing_zeros();
        let mut node = ROOT;
        for _ in smallest..self.root_order {
            node *= 2;
            let on_the_left = (self.nodes[node] >> smallest) & 1;
            node += (on_the_left ^ 1) as usize;
        }
        Some(node << (smallest - order))
    }

    /// Sets a node's value and updates its ancestors.
    fn set(&mut self, node: usize, value: u32) {
        self.nodes[node] = value;
        let mut parent = node / 2;
        while parent >= ROOT {
            let value = combine(self.nodes[2 * parent], self.nodes[2 * parent + 1]);
            if self.nodes[parent] == value {
                return; // the values of its ancestors do not change either
            }
            self.nodes[parent] = value;
            parent /= 2;
        }
    }

    /// Returns the value that the node has if all of it is free.
    fn free_value(&self, node: usize, order: u32) -> u32 {
        match order {
            0 if self.is_clipped(node, 0) => FREE,
            0 => FREE | 1,
            _ => combine(self.nodes[2 * node], self.nodes[2 * node + 1]),
        }
    }

    const fn order_of(&self, node: usize) -> u32 {
        self.root_order - node.ilog2()
    }

    /// Returns the first granule of the node.
    const fn granule_of(&self, node: usize, order: u32) -> usize {
        (node << order) - (1 << self.root_order)
    }

    const fn offset_of(&self, node: usize, order: u32) -> u64 {
        (self.granule_of(node, order) as u64) << self.granule_log2
    }

    /// Returns the number of units of the node that are inside the capacity.
    fn length_of(&self, node: usize, order: u32) -> u64 {
        (1 << (self.granule_log2 + order)).min(self.capacity - self.offset_of(node, order))
    }

    /// Returns the length of the clipped node of this order, in units. Returns 0 if there is none.
    const fn clipped_length(&self, order: u32) -> u64 {
        self.capacity & ((1 << (self.granule_log2 + order)) - 1)
    }

    /// Returns the clipped node of this order. There must be one.
    const fn clipped_node(&self, order: u32) -> usize {
        (1 << (self.root_order - order)) + (self.capacity >> (self.granule_log2 + order)) as usize
    }

    const fn is_clipped(&self, node: usize, order: u32) -> bool {
        self.clipped_length(order) != 0 && node == self.clipped_node(order)
    }

    /// Returns `true` if the clipped node of this order is free. There must be one.
    fn clipped_is_free(&self, order: u32) -> bool {
        !self.clipped_used && self.nodes[self.clipped_node(order)] & FREE != 0
    }

    #[cold]
    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        AllocError::OutOfSpace { size, alignment, free: self.free, largest_free: self.largest_free() }
    }

    /// Visits the topmost nodes that are `FREE` or `USED`, in address order, with their orders. These nodes cover the
    /// capacity.
    fn for_each_top(&self, visit: &mut dyn FnMut(usize, u32)) {
        let (mut node, mut order) = (ROOT, self.root_order);
        loop {
            while self.nodes[node] & (FREE | USED) == 0 {
                (node, order) = (2 * node, order - 1);
            }
            visit(node, order);
            while node % 2 == 1 {
                if node == ROOT {
                    return;
                }
                (node, order) = (node / 2, order + 1);
            }
            node += 1;
            if self.offset_of(node, order) >= self.capacity {
                return;
            }
        }
    }

    /// Returns the value that the node would have if it were not `USED`. The node may be beyond the capacity.
    fn value_by_rule(&self, node: usize, order: u32) -> u32 {
        let exists = self.granule_of(node, order) < self.serials.len();
        if exists { self.free_value(node, order) } else { FREE }
    }

    fn validate_node(&self, node: usize, order: u32) -> Result<(), Invalid> {
        let value = self.value_by_rule(node, order);
        if self.nodes[node] != USED {
            let rule = "a node's value is computed from its children's";
            return Invalid::unless(self.nodes[node] == value, rule, node as u64);
        }
        Invalid::unless(value & FREE != 0 || order == 0, "all nodes below a used node are free", node as u64)?;
        let serial = self.serials.get(self.granule_of(node, order)).copied().unwrap_or(0);
        Invalid::unless(serial != 0, "a used node has a serial", node as u64)
    }
}

/// Computes a node's value from its children's values.
const fn combine(left: u32, right: u32) -> u32 {
    if left == right && left & FREE != 0 {
        // Two whole free buddies form a whole node of the next order, so their bits move up by one. Two nodes beyond
        // the capacity have no bits. This case never merges a clipped node: a free clipped right child has only bits of
        // lower orders than its whole left buddy, and the right buddy of a clipped node is beyond the capacity.
        return (left << 1) | FREE;
    }
    ((left | right) & ORDERS) | (left & right & FREE)
}

impl Allocate for Buddy {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        check_request(size, alignment, self.capacity)?;
        let wanted = self.order_for(size, alignment);
        let Some(node) = self.find(wanted, size) else { return Err(self.out_of_space(size, alignment)) };
        let serial = self.source.draw();
        self.serials[self.granule_of(node, wanted)] = serial.get();
        self.free -= self.length_of(node, wanted);
        self.live += 1;
        self.clipped_used |= self.is_clipped(node, wanted);
        self.set(node, USED);
        Ok(Range::new(self.offset_of(node, wanted), size, node as u32, serial))
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        if !self.is_live(&range) {
            return Err(self.source.refuse(&range));
        }
        let node = range.slot() as usize;
        let order = self.order_of(node);
        self.serials[self.granule_of(node, order)] = 0;
        self.free += self.length_of(node, order);
        self.live -= 1;
        if self.is_clipped(node, order) {
            self.clipped_used = false;
        }
        self.set(node, self.free_value(node, order));
        Ok(())
    }
}

impl RangeAllocator for Buddy {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free_size(&self) -> u64 {
        self.free
    }

    /// Returns exactly the largest size that would be granted with an alignment of 1.
    fn largest_free(&self) -> u64 {
        let whole = match self.nodes[ROOT] & ORDERS {
            0 => 0,
            orders => 1 << (self.granule_log2 + orders.ilog2()),
        };
        // Clipped nodes of lower orders are not longer.
        let mut clipped = (0..=self.root_order).rev().map(|order| (order, self.clipped_length(order)));
        let longer = clipped.by_ref().take_while(|&(_, length)| length > whole);
        longer.filter(|&(order, _)| self.clipped_is_free(order)).map(|(_, length)| length).next().unwrap_or(whole)
    }

    fn live_count(&self) -> usize {
        self.live
    }

    /// Returns `true` if a live range has the serial, offset and slot of `range`. The size is not compared, because
    /// only the rounded size is stored.
    fn is_live(&self, range: &Range) -> bool {
        let granule = (range.offset() >> self.granule_log2) as usize;
        let node = range.slot() as usize;
        self.serials.get(granule) == Some(&range.serial().get())
            && self.nodes.get(node) == Some(&USED)
            && self.offset_of(node, self.order_of(node)) == range.offset()
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        self.for_each_top(&mut |node, order| {
            let slot = (self.nodes[node] == USED).then_some(node as u32);
            visit(Span { offset: self.offset_of(node, order), size: self.length_of(node, order), slot });
        });
    }

    fn validate(&self) -> Result<(), Invalid> {
        let (mut used, mut used_length, mut clipped_used) = (0, 0, false);
        for node in ROOT..self.nodes.len() {
            let order = self.order_of(node);
            self.validate_node(node, order)?;
            if self.nodes[node] == USED {
                used += 1;
                used_length += self.length_of(node, order);
                clipped_used |= self.is_clipped(node, order);
            }
        }
        let serials = self.serials.iter().filter(|&&serial| serial != 0).count();
        Invalid::unless(serials == used, "there are as many serials as used nodes", serials as u64)?;
        Invalid::unless(self.live == used, "the live count is that of the used nodes", self.live as u64)?;
        Invalid::unless(
            self.free == self.capacity - used_length,
            "the free size is the capacity minus the used nodes",
            self.free,
        )?;
        Invalid::unless(self.clipped_used == clipped_used, "the mark of the clipped node is right", 0)
    }
}

/// Costs O(log granules).
impl Peek for Buddy {
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        check_request(size, alignment, self.capacity).ok()?;
        let order = self.order_for(size, alignment);
        self.find(order, size).map(|node| self.offset_of(node, order))
    }
}

impl fmt::Debug for Buddy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buddy")
            .field("capacity", &self.capacity)
            .field("granule", &self.granule())
            .field("free", &self.free)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}
