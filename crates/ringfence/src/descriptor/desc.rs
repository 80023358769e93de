//! How a shader-visible heap is set up, and its figures: plain data.

use super::DescriptorError;
use crate::device::descriptors::{Descriptors, HeapKind, ViewTypes};

/// How a shader-visible heap is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShaderVisibleDesc<'a> {
    /// [`HeapKind::Resources`] or [`HeapKind::Samplers`].
    pub kind: HeapKind,
    /// For resources: the types of view.
    pub types: ViewTypes,
    /// Slots for tables that live for a frame; may be 0. The value [`ShaderVisibleDesc::FRAME_SLOTS`] is reduced where
    /// the device has fewer: [`ShaderVisibleHeap::statistics`](super::ShaderVisibleHeap::statistics) says how many
    /// there are.
    pub frame_slots: u32,
    /// Slots that live until they are released; may be 0. The value [`ShaderVisibleDesc::PERSISTENT_SLOTS`] is reduced
    /// likewise.
    pub persistent_slots: u32,
    /// Slots that a thread takes from the frame region at a time; at least 1. Reduced together with a default region.
    pub chunk_slots: u32,
    /// The most slots to which [`ShaderVisibleHeap::grow`](super::ShaderVisibleHeap::grow) may grow the whole heap; 0
    /// if it never grows, which saves the CPU-only shadow.
    pub slots_max: u32,
    /// A name for debuggers.
    pub name: &'a str,
}

impl ShaderVisibleDesc<'_> {
    /// The default of [`ShaderVisibleDesc::frame_slots`]: 16,384, or less where the device has fewer: if
    /// the other region has its default too, a quarter of the device's slots, else those that the other leaves.
    pub const FRAME_SLOTS: u32 = 16 << 10;
    /// The default of [`ShaderVisibleDesc::persistent_slots`]: 49,152, or less where the device has fewer.
    pub const PERSISTENT_SLOTS: u32 = 48 << 10;

    /// With as many slots as the device has where defaults request more. Other numbers stay.
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
    /// For all types of view, with up to 65,536 slots: as many as the device has, if that is less.
    fn default() -> Self {
        Self {
            kind: HeapKind::Resources,
            types: ViewTypes::all(),
            frame_slots: Self::FRAME_SLOTS,
            persistent_slots: Self::PERSISTENT_SLOTS,
            chunk_slots: 256,
            slots_max: 0,
            name: "shader-visible descriptors",
        }
    }
}

/// Figures of a shader-visible heap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VisibleStatistics {
    /// Slots of the frame region.
    pub frame_slots: u64,
    /// Of those, in use.
    pub frame_used: u64,
    /// The most frame slots that were ever in use: what the region has to hold.
    pub frame_high_water: u64,
    /// Slots of the persistent region.
    pub persistent_slots: u64,
    /// Of those, free.
    pub persistent_free: u64,
    /// Things released that wait for the device.
    pub waiting_count: u64,
    /// Tables that were copied.
    pub tables_made: u64,
    /// Tables that were there already.
    pub tables_shared: u64,
    /// Heaps of the driver: more than 1 while frames still use an old one.
    pub heap_count: u64,
}

/// The description with numbers that the device has, and the slots of the whole heap.
pub(super) fn check_desc<'a, D: Descriptors>(
    device: &D,
    requested: ShaderVisibleDesc<'a>,
) -> Result<(ShaderVisibleDesc<'a>, u32), DescriptorError> {
    if !requested.kind.can_be_shader_visible() {
        return Err(DescriptorError::BadView("shaders do not see descriptors of this kind"));
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
    // A smaller region has room for several threads all the same.
    let is_smaller = desc.frame_slots < requested.frame_slots;
    let chunk_slots = if is_smaller { desc.chunk_slots.min((desc.frame_slots / 8).max(1)) } else { desc.chunk_slots };
    Ok((ShaderVisibleDesc { chunk_slots, ..desc }, count as u32))
}
