//! A search tree for the first of many blocks that may fit a request, so that not every block is checked.
//! Defragmentation plans and pools of constants use it.
//!
//! ```text
//!                 9
//!           7           9           each node: the maximum of its two children
//!        4     7     9     2        leaves: upper bound of the requests that each block grants
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `new` | O(blocks) |
//! | `first` | O(log blocks) |
//! | `set` | O(log blocks); O(1) if the value of the leaf's parent does not change |
//! | `reserve` | O(leaves) if the tree has too few; their number then at least doubles |

use alloc::vec;
use alloc::vec::Vec;

/// Binary tree over a list of sizes, the leaves. Each inner node has the maximum of its two children.
pub struct FitTree {
    /// The nodes by number. Node 1 is the root; the children of node n are 2 n and 2 n + 1.
    nodes: Vec<u64>,
    leaf_count: usize,
}

impl FitTree {
    /// Creates a tree without leaves.
    #[must_use]
    pub const fn empty() -> Self {
        Self { nodes: Vec::new(), leaf_count: 0 }
    }

    /// Creates a tree with these leaves. O(leaves).
    #[must_use]
    pub fn new(leaves: impl ExactSizeIterator<Item = u64>) -> Self {
        let leaf_count = leaves.len().next_power_of_two();
        let mut nodes = vec![0; 2 * leaf_count];
        for (node, leaf) in nodes[leaf_count..].iter_mut().zip(leaves) {
            *node = leaf;
        }
        for at in (1..leaf_count).rev() {
            nodes[at] = nodes[2 * at].max(nodes[2 * at + 1]);
        }
        Self { nodes, leaf_count }
    }

    /// Returns the index of the first leaf with a value of at least `size`. Returns `None` if there is none. `size`
    /// must not be 0.
    #[must_use]
    pub fn first(&self, size: u64) -> Option<usize> {
        self.nodes.get(1).is_some_and(|max| *max >= size).then(|| self.leaf_below(1, size))
    }

    /// Returns the index of the first leaf below node `at` with a value of at least `size`, which must exist.
    #[inline]
    fn leaf_below(&self, mut at: usize, size: u64) -> usize {
        while at < self.leaf_count {
            at = if self.nodes[2 * at] >= size { 2 * at } else { 2 * at + 1 };
        }
        at - self.leaf_count
    }

    /// Adds leaves with the value 0 until there are at least `count` leaves.
    pub fn reserve(&mut self, count: usize) {
        if count > self.leaf_count {
            let old = &self.nodes[self.leaf_count..];
            *self = Self::new((0..count.next_power_of_two()).map(|leaf| old.get(leaf).copied().unwrap_or(0)));
        }
    }

    /// Changes the value of a leaf.
    ///
    /// # Panics
    /// If there is no such leaf.
    #[inline]
    pub fn set(&mut self, leaf: usize, value: u64) {
        let mut at = self.leaf_count + leaf;
        if self.nodes[at] == value {
            return;
        }
        self.nodes[at] = value;
        while at > 1 {
            at /= 2;
            let max = self.nodes[2 * at].max(self.nodes[2 * at + 1]);
            if self.nodes[at] == max {
                return;
            }
            self.nodes[at] = max;
        }
    }
}

#[cfg(test)]
mod tests;
