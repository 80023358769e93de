//! A search tree for the first of many blocks that may fit a request. Defragmentation plans and pools of constants use
//! it, so that they need not check every block.
//!
//! ```text
//!                 9
//!           7           9           each node: the maximum of its two children
//!        4     7     9     2        leaves: size of the longest free span of each block, the fullest block first
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | new | O(blocks) |
//! | first, set | O(log blocks) |

use alloc::vec;
use alloc::vec::Vec;

/// Binary tree over a list of sizes, the leaves. Each inner node has the maximum of its two children.
pub struct FitTree {
    /// The nodes by number. Node 1 is the root; the children of node n are 2 n and 2 n + 1.
    nodes: Vec<u64>,
    leaf_count: usize,
}

impl FitTree {
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

    /// Returns the index of the first leaf with a value of at least `size`; `None` if there is none. `size` must not be
    /// 0.
    #[must_use]
    pub fn first(&self, size: u64) -> Option<usize> {
        if self.nodes[1] < size {
            return None;
        }
        let mut at = 1;
        while at < self.leaf_count {
            at = if self.nodes[2 * at] >= size { 2 * at } else { 2 * at + 1 };
        }
        Some(at - self.leaf_count)
    }

    /// Changes the value of a leaf.
    ///
    /// # Panics
    /// If there is no such leaf.
    pub fn set(&mut self, leaf: usize, value: u64) {
        let mut at = self.leaf_count + leaf;
        self.nodes[at] = value;
        while at > 1 {
            at /= 2;
            self.nodes[at] = self.nodes[2 * at].max(self.nodes[2 * at + 1]);
        }
    }
}

#[cfg(test)]
mod tests;
