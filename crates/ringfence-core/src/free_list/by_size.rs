//! The size index: a treap of the free blocks, ordered by (size, offset).
//!
//! ```text
//!                  8 at 32               in order: sizes rise from left to right, equal sizes by offset;
//!                 /       \              downwards: the hash of the slot decreases.
//!           3 at 4         8 at 80
//!          /      \
//!     1 at 0      3 at 12
//! ```
//!
//! The links of the treap are in the nodes of the free blocks. The key of a block is computed from its offset and the
//! offset of the next block. So the block is removed from the treap before one of these offsets changes, and inserted
//! again afterwards. There are no links to parents: every search starts at the root. Each operation is O(depth), which
//! is O(log n) on average over the hash values of the slots. The search for an aligned block also visits each block
//! that is too short once aligned.

use super::{HEAD, Slab};
use crate::range::{Invalid, align_up};
use alloc::vec::Vec;

/// Side of a child. The number is the position of the child's slot in the node's word, in bits.
#[derive(Clone, Copy)]
enum Side {
    Left = 0,
    Right = 32,
}

/// A child link: a parent node and a side. The child may be missing.
type Link = (u32, Side);

/// The link to the root.
const ROOT: Link = (HEAD, Side::Left);

/// Returns the priority of a slot's node in the treap: a hash of the slot (the finaliser of MurmurHash3). No two slots
/// have the same priority, because the hash is a bijection.
const fn priority(slot: u32) -> u32 {
    let mut hash = slot;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

impl Slab {
    fn child(&self, (parent, side): Link) -> u32 {
        (self.node(parent).word >> side as u32) as u32
    }

    fn set_child(&mut self, (parent, side): Link, child: u32) {
        let node = self.node_mut(parent);
        let others = !(u64::from(u32::MAX) << side as u32);
        node.word = (node.word & others) | (u64::from(child) << side as u32);
    }

    fn key(&self, slot: u32) -> (u64, u64) {
        (self.size(slot), self.node(slot).offset)
    }

    /// Inserts a free block.
    pub(super) fn insert_free(&mut self, slot: u32) {
        let (key, rank) = (self.key(slot), priority(slot));
        let mut link = ROOT;
        let mut below = self.child(link);
        while below != HEAD && priority(below) > rank {
            link = (below, if key < self.key(below) { Side::Left } else { Side::Right });
            below = self.child(link);
        }
        self.set_child(link, slot);
        self.split(below, key, (slot, Side::Left), (slot, Side::Right));
    }

    /// Splits `tree` into two trees: the nodes with keys below `key` are put at the link `low`, the others at the link
    /// `high`.
    fn split(&mut self, mut tree: u32, key: (u64, u64), mut low: Link, mut high: Link) {
        while tree != HEAD {
            if self.key(tree) < key {
                self.set_child(low, tree);
                low = (tree, Side::Right);
                tree = self.child(low);
            } else {
                self.set_child(high, tree);
                high = (tree, Side::Left);
                tree = self.child(high);
            }
        }
        self.set_child(low, HEAD);
        self.set_child(high, HEAD);
    }

    /// Removes a free block from the treap. Its offset and its end must be the same as when it was inserted.
    pub(super) fn remove_free(&mut self, slot: u32) {
        let key = self.key(slot);
        let mut link = ROOT;
        let mut below = self.child(link);
        while below != slot {
            assert!(below != HEAD, "a free block is in the size index");
            link = (below, if key < self.key(below) { Side::Left } else { Side::Right });
            below = self.child(link);
        }
        self.join(link, self.child((slot, Side::Left)), self.child((slot, Side::Right)));
        self.node_mut(slot).word = 0;
    }

    /// Joins two trees into one at `link`. All keys of `low` must be smaller than the keys of `high`.
    fn join(&mut self, mut link: Link, mut low: u32, mut high: u32) {
        while low != HEAD && high != HEAD {
            if priority(low) > priority(high) {
                self.set_child(link, low);
                link = (low, Side::Right);
                low = self.child(link);
            } else {
                self.set_child(link, high);
                link = (high, Side::Left);
                high = self.child(link);
            }
        }
        self.set_child(link, if low == HEAD { high } else { low });
    }

    /// Returns the smallest free block that fits the request; if several have this size, the one with the lowest
    /// offset.
    pub(super) fn best_fit(&self, size: u64, alignment: u64) -> Option<u32> {
        let root = self.child(ROOT);
        if alignment == 1 { self.lower_bound(root, size) } else { self.aligned_fit(root, size, alignment) }
    }

    fn lower_bound(&self, mut tree: u32, size: u64) -> Option<u32> {
        let mut best = None;
        while tree != HEAD {
            if self.size(tree) >= size {
                best = Some(tree);
                tree = self.child((tree, Side::Left));
            } else {
                tree = self.child((tree, Side::Right));
            }
        }
        best
    }

    /// Visits the blocks of at least `size` units in ascending order, until one fits at the alignment. Every block that
    /// is longer by `alignment - 1` fits, so only shorter blocks can be skipped. The recursion is as deep as the tree.
    fn aligned_fit(&self, mut tree: u32, size: u64, alignment: u64) -> Option<u32> {
        while tree != HEAD {
            if self.size(tree) >= size {
                let smaller = self.aligned_fit(self.child((tree, Side::Left)), size, alignment);
                if smaller.is_some() {
                    return smaller;
                }
                if self.fits(tree, size, alignment) {
                    return Some(tree);
                }
            }
            tree = self.child((tree, Side::Right));
        }
        None
    }

    fn fits(&self, slot: u32, size: u64, alignment: u64) -> bool {
        let start = align_up(self.node(slot).offset, alignment);
        start.and_then(|start| start.checked_add(size)).is_some_and(|end| end <= self.end(slot))
    }

    /// Returns the size of the longest free block. Returns 0 if there is none.
    pub(super) fn largest_free(&self) -> u64 {
        let (mut tree, mut largest) = (self.child(ROOT), HEAD);
        while tree != HEAD {
            largest = tree;
            tree = self.child((tree, Side::Right));
        }
        if largest == HEAD { 0 } else { self.size(largest) }
    }

    /// Checks that the treap contains all `free` free blocks and nothing else, ordered by key and by priority.
    pub(super) fn validate_treap(&self, free: usize) -> Result<(), Invalid> {
        let mut found = Vec::new();
        self.collect(self.child(ROOT), u32::MAX, free, &mut found)?;
        Invalid::unless(found.len() == free, "every free block is in the size index", found.len() as u64)?;
        for pair in found.windows(2) {
            let rises = self.key(pair[0]) < self.key(pair[1]);
            Invalid::unless(rises, "the size index is in order", self.node(pair[1]).offset)?;
        }
        Ok(())
    }

    fn collect(&self, tree: u32, above: u32, limit: usize, found: &mut Vec<u32>) -> Result<(), Invalid> {
        if tree == HEAD {
            return Ok(());
        }
        let rank = priority(tree);
        Invalid::unless(found.len() < limit, "no block is twice in the size index", u64::from(tree))?;
        Invalid::unless(!self.node(tree).used(), "the size index holds free blocks only", u64::from(tree))?;
        Invalid::unless(rank <= above, "the size index is a treap", u64::from(tree))?;
        self.collect(self.child((tree, Side::Left)), rank, limit, found)?;
        found.push(tree);
        self.collect(self.child((tree, Side::Right)), rank, limit, found)
    }

    #[cfg(test)]
    pub(super) fn treap_depth(&self) -> usize {
        fn depth(slab: &Slab, tree: u32) -> usize {
            let below = |side| depth(slab, slab.child((tree, side)));
            if tree == HEAD { 0 } else { 1 + below(Side::Left).max(below(Side::Right)) }
        }
        depth(self, self.child(ROOT))
    }
}
