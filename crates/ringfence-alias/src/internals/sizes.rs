//! Sizes and alignments of the items, as two arrays.
//!
//! ```text
//!   item         0     1     2
//!   size         7    12     9
//!   alignment    1     4    16
//! ```
//!
//! A loop over the sizes reads nothing else.

use alloc::vec::Vec;

/// Size and alignment of each item.
#[derive(Clone, Debug)]
pub struct Sizes {
    pub size: Vec<u64>,
    pub alignment: Vec<u64>,
}

impl Sizes {
    #[inline]
    pub fn len(&self) -> usize {
        self.size.len()
    }

    /// Returns `true` if there are no items.
    pub fn is_empty(&self) -> bool {
        self.size.is_empty()
    }

    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.size.iter().copied().zip(self.alignment.iter().copied())
    }

    /// Returns the height of a plan.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.size.iter().zip(offsets).map(|(size, offset)| size + offset).max().unwrap_or(0)
    }

    /// Returns the height of items stacked in this order.
    pub fn stacked(&self, order: impl Iterator<Item = u32>) -> u64 {
        order.fold(0, |height: u64, item| {
            height.next_multiple_of(self.alignment[item as usize]) + self.size[item as usize]
        })
    }
}
