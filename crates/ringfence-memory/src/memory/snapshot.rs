//! Everything that is in memory at a moment, as plain data: for reports, leak hunts and tests. O(ranges).

use crate::device::ResourceClass;

pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};

/// What lies in the blocks of a class, where some classes share them.
pub(super) fn class_name(groups: [u8; 3], class: ResourceClass) -> &'static str {
    let [buffer, texture, target] = groups;
    match class {
        ResourceClass::Buffer if buffer == texture && texture == target => "all",
        ResourceClass::Buffer => "buffers",
        ResourceClass::Texture => "textures",
        ResourceClass::RenderTarget => "render targets",
    }
}
