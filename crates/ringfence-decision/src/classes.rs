//! The groups of resource classes that share blocks, and the distance between classes that a device requires.
//!
//! ```text
//!   the device separates                                blocks are for          a texture's range has
//!   no classes                                          all classes             the driver's requirements
//!   buffers from textures, by up to 4 KiB               all classes             whole pages of that distance
//!   buffers from textures, by more                      buffers, or textures    the driver's requirements
//!   classes always (Direct3D 12, heap tier 1)           one group               the driver's requirements
//!
//!   page of bufferImageGranularity  │ buffers  b│b   │ texture    │ texture │b  buffers │
//! ```
//!
//! If the device separates buffers from textures, no page of that distance may contain both. If each texture occupies
//! whole pages, buffers may be placed anywhere else. Blocks for all classes leave less memory unused than separate
//! blocks, and drivers with a small distance usually align textures to it anyway. With a larger distance, small
//! textures would waste more memory than a second block does.
//!
//! These rules apply to blocks that the library shares between classes. Heaps and pools for one class use the device's
//! requirements unchanged. All operations are O(1).

use crate::device::{Capabilities, Requirements, ResourceClass};

/// The classes that share blocks on a device, and their distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes {
    /// Group of each [`ResourceClass`]. Classes of the same group share blocks.
    pub groups: [u8; 3],
    /// Page size of a texture's range, in bytes, a power of two. Above 1 only if textures share blocks with buffers on
    /// a device that requires separate pages.
    texture_page_bytes: u64,
}

impl Classes {
    /// The largest distance, in bytes, for which buffers and textures share blocks.
    const PAGE_BYTES_MAX: u64 = 4 << 10;

    /// Returns the rules for a device.
    #[must_use]
    pub fn new(capabilities: &Capabilities) -> Self {
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

    /// Returns the requirements, padded so that the range keeps the distance to resources of other classes.
    #[inline]
    #[must_use]
    pub fn apart(&self, needs: Requirements) -> Requirements {
        let (size, alignment) = self.range_of(&needs);
        Requirements { size, alignment, ..needs }
    }

    /// Returns the size and the alignment that [`Self::apart`] requires.
    #[inline(always)]
    pub fn range_of(&self, needs: &Requirements) -> (u64, u64) {
        let (page, size, alignment) = (self.texture_page_bytes, needs.size, needs.alignment);
        // An invalid alignment is left unchanged: the request is refused later.
        if page == 1 || needs.class == ResourceClass::Buffer || !alignment.is_power_of_two() {
            return (size, alignment);
        }
        (size.div_ceil(page).saturating_mul(page), alignment.max(page))
    }
}

#[cfg(test)]
mod tests;
