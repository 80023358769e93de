//! Index of the blocks with free units, ordered by free size: a treap (a search tree with random priorities) in an
//! array, and a linked list in the same order.
//!
//! ```text
//!                      (40, C)                 ordered by free size, then age; each node has a higher priority than
//!               (8, F)         (100, D)        the nodes below it
//!
//!   list        (8, F) ◀─▶ (40, C) ◀─▶ (100, D)
//! ```
//!
//! The node of a block is at the index of the block's slot, so host memory is allocated only for new slots. The
//! priority of a node is a hash of its slot. So the expected depth is logarithmic for any order of sizes, and runs are
//! reproducible. If the free size of a block changes, a comparison with its neighbours in the list usually shows that
//! its position is unchanged, in O(1).
//!
//! | operation | cost |
//! |---|---|
//! | `first_of`, `insert`, `remove` | O(log blocks) expected |
//! | `update` | O(1) if the order of the blocks does not change; else O(log blocks) expected |
//! | `after` | O(1) |

use crate::range::{Invalid, Serial};
use crate::tlsf::{class_of, least_of};
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// Value of [`Node::granted_max`] if no bound is known.
const NOT_ASKED: u64 = u64::MAX;

/// Sort key of a block: the free size, then the serial. An older block has a smaller serial.
pub(super) type Key = (u64, Serial);

#[derive(Clone, Copy)]
struct Node {
    free_size: u64,
    /// Serial of the block; `None` if the block is not in the index.
    serial: Option<Serial>,
    /// Upper bound of the size of requests that the block can grant, in units.
    granted_max: u64,
    left: u32,
    right: u32,
    before: u32,
    after: u32,
}

const ABSENT: Node =
    Node { free_size: 0, serial: None, granted_max: NOT_ASKED, left: NIL, right: NIL, before: NIL, after: NIL };

impl Node {
    #[inline]
    fn is_before(&self, (free_size, serial): Key) -> bool {
        self.free_size < free_size || (self.free_size == free_size && self.serial < Some(serial))
    }
}

/// A link to a node: the root, or a child of another node.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(u32),
    Right(u32),
}

/// The blocks with free units, ordered by their keys.
pub(super) struct Index {
    /// The nodes, indexed by slot.
    nodes: Vec<Node>,
    root: u32,
    /// Slot of the first node of the list; [`NIL`] if the index is empty.
    first: u32,
    len: usize,
}

/// Returns the priority of a slot's node. Each node has a higher priority than its children. No two slots have the same
/// priority.
const fn priority(slot: u32) -> u32 {
    let mixed = slot.wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 13)
}

/// Returns the largest size in the size class of `bound + 1`.
#[inline]
pub(super) const fn class_end(bound: u64) -> u64 {
    least_of(class_of(bound.saturating_add(1)) + 1) - 1
}

impl Index {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), root: NIL, first: NIL, len: 0 }
    }

    /// Adds an absent node for one more slot.
    pub(super) fn add_slot(&mut self) {
        self.nodes.push(ABSENT);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Returns the slot of the first block, in key order, with at least `free_size` free units. Returns `None` if there
    /// is none.
    #[inline]
    pub(super) fn first_of(&self, free_size: u64) -> Option<u32> {
        let (mut found, mut at) = (NIL, self.root);
        while let Some(node) = self.nodes.get(at as usize) {
            let is_enough = node.free_size >= free_size;
            if is_enough {
                found = at;
            }
            at = if is_enough { node.left } else { node.right };
        }
        (found != NIL).then_some(found)
    }

    /// Returns the slot of the next block in key order. Returns `None` after the last one.
    #[inline]
    pub(super) fn after(&self, slot: u32) -> Option<u32> {
        let after = self.nodes[slot as usize].after;
        (after != NIL).then_some(after)
    }

    #[inline]
    pub(super) fn granted_max(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].granted_max
    }

    /// Lowers the bound: the block does not grant requests of more than `units`.
    #[inline]
    pub(super) fn lower_granted_max(&mut self, slot: u32, units: u64) {
        let granted_max = &mut self.nodes[slot as usize].granted_max;
        *granted_max = (*granted_max).min(units);
    }

    /// Raises the bound after the block granted a range: to the largest size in the class of the smallest refused size.
    /// After the allocation, the first spans in the list of this class can be others, and longer.
    #[inline]
    pub(super) fn note_grant(&mut self, slot: u32) {
        let granted_max = &mut self.nodes[slot as usize].granted_max;
        if *granted_max != NOT_ASKED {
            *granted_max = class_end(*granted_max);
        }
    }

    /// Removes the bound after a range was freed, because a longer span may exist.
    #[inline]
    pub(super) fn forget_granted_max(&mut self, slot: u32) {
        self.nodes[slot as usize].granted_max = NOT_ASKED;
    }

    /// Inserts a block that is not in the index.
    pub(super) fn insert(&mut self, slot: u32, key: Key) {
        let granted_max = self.nodes[slot as usize].granted_max;
        self.nodes[slot as usize] = Node { free_size: key.0, serial: Some(key.1), granted_max, ..ABSENT };
        self.len += 1;
        let (mut link, mut at) = (Link::Root, self.root);
        let (mut before, mut after) = (NIL, NIL);
        while at != NIL && priority(at) > priority(slot) {
            (link, at) = self.descend(at, key, &mut before, &mut after);
        }
        self.set(link, slot);
        // Splits the subtree at `at` into the keys before `key` and the keys after it.
        let (mut lower, mut higher) = (Link::Left(slot), Link::Right(slot));
        while at != NIL {
            let is_lower = self.nodes[at as usize].is_before(key);
            self.set(if is_lower { lower } else { higher }, at);
            let side = if is_lower { &mut lower } else { &mut higher };
            *side = if is_lower { Link::Right(at) } else { Link::Left(at) };
            at = self.descend(at, key, &mut before, &mut after).1;
        }
        self.set(lower, NIL);
        self.set(higher, NIL);
        let node = &mut self.nodes[slot as usize];
        (node.before, node.after) = (before, after);
        self.join(before, slot);
        self.join(slot, after);
    }

    /// Removes a block. Does nothing if the block is not in the index.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(key) = self.key(slot) else { return };
        let (mut link, mut at) = (Link::Root, self.root);
        while at != slot {
            (link, at) = self.descend(at, key, &mut 0, &mut 0);
        }
        let Node { mut left, mut right, before, after, .. } = self.nodes[slot as usize];
        while left != NIL && right != NIL {
            if priority(left) > priority(right) {
                self.set(link, left);
                (link, left) = (Link::Right(left), self.nodes[left as usize].right);
            } else {
                self.set(link, right);
                (link, right) = (Link::Left(right), self.nodes[right as usize].left);
            }
        }
        self.set(link, if left == NIL { right } else { left });
        let granted_max = self.nodes[slot as usize].granted_max;
        self.nodes[slot as usize] = Node { granted_max, ..ABSENT };
        self.len -= 1;
        self.join(before, after);
    }

    /// Changes the key of a block, and inserts the block if it is not in the index. If the block has no free units,
    /// removes it.
    #[inline]
    pub(super) fn update(&mut self, slot: u32, key: Key) {
        let Node { before, after, serial, .. } = self.nodes[slot as usize];
        let stays = serial.is_some()
            && key.0 != 0
            && self.nodes.get(before as usize).is_none_or(|lower| lower.is_before(key))
            && self.nodes.get(after as usize).is_none_or(|higher| !higher.is_before(key));
        if stays {
            self.nodes[slot as usize].free_size = key.0;
        } else {
            self.relocate(slot, key);
        }
    }

    #[inline(never)]
    fn relocate(&mut self, slot: u32, key: Key) {
        self.remove(slot);
        if key.0 != 0 {
            self.insert(slot, key);
        }
    }

    /// Returns the key of a block. Returns `None` if the block is not in the index.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> Option<Key> {
        let node = self.nodes.get(slot as usize)?;
        node.serial.map(|serial| (node.free_size, serial))
    }
    /// Moves from node `at` one level down towards the position of `key`, and stores `at` as the neighbour of this
    /// position in the list: in `before` or in `after`.
    fn descend(&self, at: u32, key: Key, before: &mut u32, after: &mut u32) -> (Link, u32) {
        let node = &self.nodes[at as usize];
        if node.is_before(key) {
            *before = at;
            (Link::Right(at), node.right)
        } else {
            *after = at;
            (Link::Left(at), node.left)
        }
    }

    #[inline]
    fn set(&mut self, link: Link, slot: u32) {
        match link {
            Link::Root => self.root = slot,
            Link::Left(of) => self.nodes[of as usize].left = slot,
            Link::Right(of) => self.nodes[of as usize].right = slot,
        }
    }

    /// Links two neighbours of the list. [`NIL`] stands for the start of the list (`before`) or its end (`after`).
    fn join(&mut self, before: u32, after: u32) {
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.first = after,
        }
        if let Some(node) = self.nodes.get_mut(after as usize) {
            node.before = before;
        }
    }

    /// Iterates over the slots of all blocks in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let first = (self.first != NIL).then_some(self.first);
        core::iter::successors(first, |slot| self.after(*slot))
    }

    /// Checks all rules of the structure. For tests.
    ///
    /// # Errors
    /// The first violated rule.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let (mut last, mut count) = (NIL, 0);
        for slot in self.iter() {
            let (node, key, at) = (&self.nodes[slot as usize], self.key(slot), u64::from(slot));
            Invalid::unless(key.is_some() && node.before == last, "the list is linked in both directions", at)?;
            Invalid::unless(last == NIL || self.key(last) < key, "the index is in order", at)?;
            for below in [node.left, node.right].into_iter().filter(|below| *below != NIL) {
                Invalid::unless(
                    priority(below) < priority(slot),
                    "a node has a higher priority than its children",
                    at,
                )?;
                let is_left = self.key(below) < key;
                Invalid::unless(is_left == (below == node.left), "lower keys are on the left", at)?;
            }
            let first = self.first_of(node.free_size).map(|found| self.nodes[found as usize].free_size);
            Invalid::unless(first == Some(node.free_size), "the tree finds each block", at)?;
            (last, count) = (slot, count + 1);
        }
        let present = self.nodes.iter().filter(|node| node.serial.is_some()).count();
        Invalid::unless(count == self.len && present == self.len, "the list has every block once", count as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// The index agrees with a sorted map after random changes.
    #[test]
    fn it_agrees_with_a_sorted_map() {
        const SLOTS: u32 = 200;
        let serial = |slot: u32| Serial::from_u64(1 + u64::from(slot)).expect("not 0");
        let (mut index, mut twin) = (Index::new(), BTreeMap::new());
        (0..SLOTS).for_each(|_| index.add_slot());
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let mut roll = |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        for step in 0..20_000 {
            let slot = roll(u64::from(SLOTS)) as u32;
            let key = (roll(40), serial(slot));
            if let Some(present) = index.key(slot) {
                twin.remove(&present);
            }
            if key.0 != 0 {
                twin.insert(key, slot);
            }
            index.update(slot, key);
            let wanted = roll(45);
            let first = twin.range((wanted, serial(0))..).next();
            assert_eq!(index.first_of(wanted), first.map(|(_, slot)| *slot), "step {step}");
            if step % 50 == 0 {
                index.validate().expect("sound");
                assert!(index.iter().eq(twin.values().copied()), "step {step}");
            }
        }
        index.remove(3);
        index.remove(3);
        index.validate().expect("sound");
    }

    #[test]
    fn it_is_flat_whatever_the_order() {
        let mut index = Index::new();
        for slot in 0..4096 {
            index.add_slot();
            index.insert(slot, (u64::from(slot) + 1, Serial::from_u64(1).expect("not 0")));
        }
        index.validate().expect("sound");
        let (mut depth, mut level) = (0, alloc::vec![index.root]);
        while !level.is_empty() {
            let below = level.iter().flat_map(|at| [index.nodes[*at as usize].left, index.nodes[*at as usize].right]);
            (level, depth) = (below.filter(|at| *at != NIL).collect(), depth + 1);
        }
        assert!(depth < 48, "{depth} levels for 4096 blocks");
    }
}
