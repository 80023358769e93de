//! Description and statistics of a shader-visible heap.

use super::{DescriptorError, SlotAlgorithm};
use crate::device::descriptors::{Descriptors, HeapKind, ViewTypes};

/// Description of a shader-visible heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShaderVisibleDesc<'a> {
    /// [`HeapKind::Resources`] or [`HeapKind::Samplers`].
    pub kind: HeapKind,
    /// View types of a heap of resources.
    pub types: ViewTypes,
    /// Number of slots of the frame region, for tables that live for a frame; may be 0. The default,
    /// [`ShaderVisibleDesc::FRAME_SLOTS`], is reduced if the device has fewer slots.
    /// [`ShaderVisibleHeap::statistics`](super::ShaderVisibleHeap::statistics) returns the actual number.
    pub frame_slots: u32,
    /// Number of slots of the persistent region, for descriptors that live until they are released; may be 0. The
    /// default, [`ShaderVisibleDesc::PERSISTENT_SLOTS`], is reduced if the device has fewer slots.
    pub persistent_slots: u32,
    /// Algorithm that divides the slots of the persistent region.
    pub algorithm: SlotAlgorithm,
    /// Number of slots that a thread takes from the frame region at a time; at least 1. If the frame region is reduced,
    /// this is limited to an eighth of it.
    pub chunk_slots: u32,
    /// Largest number of slots that the whole heap may have after
    /// [`ShaderVisibleHeap::grow`](super::ShaderVisibleHeap::grow). With 0, the heap never grows and needs no CPU-only
    /// shadow.
    pub slots_max: u32,
    /// Name for debuggers.
    pub name: &'a str,
}

impl ShaderVisibleDesc<'_> {
    /// Default of [`ShaderVisibleDesc::frame_slots`]: 16,384. If the device has too few slots for both regions, the
    /// frame region gets a quarter of the device's slots if the persistent region has its default too; otherwise it
    /// gets the slots that the persistent region leaves.
    pub const FRAME_SLOTS: u32 = 16 << 10;
    /// Default of [`ShaderVisibleDesc::persistent_slots`]: 49,152. If the device has too few slots for both regions,
    /// the persistent region gets the slots that the frame region leaves.
    pub const PERSISTENT_SLOTS: u32 = 48 << 10;

    /// Reduces default numbers of slots until both regions fit in `slots_max` slots. Does not change other numbers.
    fn fitted(self, slots_max: u32) -> Self {
        let (frame, persistent) = (self.frame_slots, self.persistent_slots);
        if u64::from(frame) + u64::from(persistent) <= slots_max.into() {
            return self;
        }
        match (frame == Self::FRAME_SLOTS, persistent == Self::PERSISTENT_SLOTS) {
            (true, true) => Self { frame_slots: slots_max / 4, persistent_slots: slots_max - slots_max / 4, ..self },
            (true, false) => Self { frame_slots: slots_max.saturating_sub(persistent), ..self },
            (false, true) => Self { persistent_slots: slots_max.saturating_sub(frame), ..self },
            (false, false) => self,
        }
    }
}

impl Default for ShaderVisibleDesc<'_> {
    /// Describes a heap of resources with all view types and 65,536 slots, or all slots of the device if it has fewer.
    fn default() -> Self {
        Self {
            kind: HeapKind::Resources,
            types: ViewTypes::all(),
            frame_slots: Self::FRAME_SLOTS,
            persistent_slots: Self::PERSISTENT_SLOTS,
            algorithm: SlotAlgorithm::FreeList,
            chunk_slots: 256,
            slots_max: 0,
            name: "shader-visible descriptors",
        }
    }
}

/// Statistics of a shader-visible heap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VisibleStatistics {
    /// Number of slots of the frame region.
    pub frame_slots: u64,
    /// Number of slots of the frame region that are in use.
    pub frame_used: u64,
    /// Largest number of slots of the frame region that were in use at the same time: the size that the region needs.
    pub frame_high_water: u64,
    /// Number of slots of the persistent region.
    pub persistent_slots: u64,
    /// Number of free slots of the persistent region.
    pub persistent_free: u64,
    /// Number of released objects that the device may still use.
    pub waiting_count: u64,
    /// Number of tables that were written.
    pub tables_made: u64,
    /// Number of requested tables that got the slots of an identical table.
    pub tables_shared: u64,
    /// Number of heaps of the driver. More than 1 while frames still use a heap that was replaced by a larger one.
    pub heap_count: u64,
}

/// Returns the description, with its default numbers of slots reduced to those of the device, and the total number of
/// slots.
pub(super) fn check_desc<'a, D: Descriptors>(
    device: &D,
    requested: ShaderVisibleDesc<'a>,
) -> Result<(ShaderVisibleDesc<'a>, u32), DescriptorError> {
    if !requested.kind.can_be_shader_visible() {
        return Err(DescriptorError::BadView("descriptors of this kind cannot be shader-visible"));
    }
    let max = device.visible_slots_max(requested.kind, requested.types);
    let total = |desc: &ShaderVisibleDesc<'_>| u64::from(desc.frame_slots) + u64::from(desc.persistent_slots);
    if total(&requested) == 0 || requested.chunk_slots == 0 {
        return Err(DescriptorError::ZeroCount);
    }
    let desc = requested.fitted(max);
    let count = total(&desc);
    let most = count.max(desc.slots_max.into());
    if most > max.into() || count == 0 {
        return Err(DescriptorError::TooMany { count: most.max(total(&requested)), max: max.into() });
    }
    // A smaller region must still have chunks for several threads.
    let is_smaller = desc.frame_slots < requested.frame_slots;
    let chunk_slots = if is_smaller { desc.chunk_slots.min((desc.frame_slots / 8).max(1)) } else { desc.chunk_slots };
    Ok((ShaderVisibleDesc { chunk_slots, ..desc }, count as u32))
}
