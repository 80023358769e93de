//! What the planners know of an item but for its lifetime.
//!
//! ```text
//!   item         0     1     2
//!   size         7    12     9
//!   alignment    1     4    16
//! ```
//!
//! Columns: a walk over sizes reads nothing else.

use alloc::vec::Vec;

/// Of each item its size and its alignment, as the planners walk them.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    pub size: Vec<u64>,
    pub alignment: Vec<u64>,
}

impl Sizes {
    pub fn len(&self) -> usize {
        self.size.len()
    }

    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.size.iter().copied().zip(self.alignment.iter().copied())
    }

    /// The height of a plan.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.size.iter().zip(offsets).map(|(size, offset)| size + offset).max().unwrap_or(0)
    }
}
