//! Which resources share blocks, and how those that a device wants apart keep their distance.
//!
//! ```text
//!   the device parts                                    blocks are for          a texture's range is
//!   nothing                                             everything              as the driver asks
//!   buffers from textures, by up to 4 KiB               everything              whole pages of that distance
//!   buffers from textures, by more                      buffers, or textures    as the driver asks
//!   resources always (Direct3D 12, heap tier 1)        one group               as the driver asks
//!
//!   page of bufferImageGranularity  │ buffers  b│b   │ texture    │ texture │b  buffers │
//! ```
//!
//! It is pages that must not have both: where each texture has all of its pages, it does not matter how buffers lie.
//! Blocks for everything leave less unused than blocks for each, and drivers with a small distance align textures to it
//! anyway. A larger one would cost small textures more than a second block costs.
//!
//! This is about blocks that the library shares out. Heaps and pools that are made for a class hold what the device
//! says.
//!
//! | operation | cost |
//! |---|---|
//! | all | O(1) |

use crate::device::{Capabilities, Requirements, ResourceClass};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Classes {
    /// Classes of equal number share blocks.
    pub(crate) groups: [u8; 3],
    /// What a texture's range is made of, in bytes: above 1 iff textures share blocks that the device wants them to
    /// have pages of their own in. A power of two.
    texture_page_bytes: u64,
}

impl Classes {
    /// The largest distance that is kept within a block, in bytes.
    const PAGE_BYTES_MAX: u64 = 4 << 10;

    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        let (groups, distance) = (capabilities.class_groups, capabilities.class_granularity_bytes);
        let [buffer, texture, target] = groups;
        let parts_buffers = texture == target && buffer != texture;
        let is_near = (2..=Self::PAGE_BYTES_MAX).contains(&distance) && distance.is_power_of_two();
        if parts_buffers && is_near {
            Self { groups: [0; 3], texture_page_bytes: distance }
        } else {
            Self { groups, texture_page_bytes: 1 }
        }
    }

    /// What a resource needs so that none beside it is too close.
    pub(crate) fn apart(&self, needs: Requirements) -> Requirements {
        let (size, alignment) = self.range_of(&needs);
        Requirements { size, alignment, ..needs }
    }

    /// The size and alignment of [`Self::apart`].
    #[inline(always)]
    pub(crate) fn range_of(&self, needs: &Requirements) -> (u64, u64) {
        let (page, size, alignment) = (self.texture_page_bytes, needs.size, needs.alignment);
        // What is no alignment stays so, to be refused.
        if page == 1 || needs.class == ResourceClass::Buffer || !alignment.is_power_of_two() {
            return (size, alignment);
        }
        (size.div_ceil(page).saturating_mul(page), alignment.max(page))
    }
}

#[cfg(test)]
mod tests;
