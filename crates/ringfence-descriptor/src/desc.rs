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
    /// [`ShaderVisibleDesc::FRAME_SLOTS`], is reduced if the device has too few slots for both regions.
    /// [`ShaderVisibleHeap::statistics`](super::ShaderVisibleHeap::statistics) returns the actual number.
    pub frame_slots: u32,
    /// Number of slots of the persistent region, for descriptors that live until they are released; may be 0. The
    /// default, [`ShaderVisibleDesc::PERSISTENT_SLOTS`], is reduced if the device has too few slots for both regions.
    pub persistent_slots: u32,
    /// Algorithm that divides the slots of the persistent region.
    pub algorithm: SlotAlgorithm,
    /// Number of slots that a thread takes from the frame region at a time; at least 1. If the frame region is reduced,
    /// this number is limited to an eighth of the region, but is at least 1.
    pub chunk_slots: u32,
    /// Largest number of slots that the whole heap may have after
    /// [`ShaderVisibleHeap::grow`](super::ShaderVisibleHeap::grow). If the number is 0, the heap never grows, and the
    /// library keeps no CPU-only copy (shadow) of its persistent region.
    pub slots_max: u32,
    /// Name for debuggers.
    pub name: &'a str,
}

impl ShaderVisibleDesc<'_> {
    /// Default of [`ShaderVisibleDesc::frame_slots`]: 16,384. If the device has too few slots for both regions, the
    /// default is reduced:
    ///
    /// - to a quarter of the device's slots, if the persistent region has its default size too;
    /// - otherwise to the slots that the persistent region leaves.
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
    /// Number of retired objects that were not freed yet: runs of slots, bindings, replaced heaps and driver objects of
    /// views.
    pub waiting_count: u64,
    /// Number of tables that were written.
    pub tables_made: u64,
    /// Number of requested tables that got the slots of an identical table.
    pub tables_shared: u64,
    /// Number of shader-visible heaps of the driver. More than 1 while a heap that was replaced by a larger one is not
    /// yet destroyed, because frames may still use it.
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

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 16_384;
    const PERSISTENT: u32 = 49_152;

    fn desc(frame_slots: u32, persistent_slots: u32) -> ShaderVisibleDesc<'static> {
        ShaderVisibleDesc { frame_slots, persistent_slots, ..Default::default() }
    }

    #[test]
    fn only_default_numbers_of_slots_are_reduced_to_those_of_the_device() {
        assert_eq!((ShaderVisibleDesc::FRAME_SLOTS, ShaderVisibleDesc::PERSISTENT_SLOTS), (FRAME, PERSISTENT));
        for (requested, slots_max, fitted) in [
            ((FRAME, PERSISTENT), 65_536, (FRAME, PERSISTENT)),
            ((FRAME, PERSISTENT), u32::MAX, (FRAME, PERSISTENT)),
            ((FRAME, PERSISTENT), 65_535, (16_383, 49_152)),
            ((FRAME, PERSISTENT), 1000, (250, 750)),
            ((FRAME, PERSISTENT), 1003, (250, 753)),
            ((FRAME, 100), 16_484, (FRAME, 100)),
            ((FRAME, 100), 16_483, (16_383, 100)),
            ((FRAME, 100), 1000, (900, 100)),
            ((FRAME, 100), 50, (0, 100)),
            ((100, PERSISTENT), 49_252, (100, PERSISTENT)),
            ((100, PERSISTENT), 49_251, (100, 49_151)),
            ((100, PERSISTENT), 1000, (100, 900)),
            ((100, PERSISTENT), 50, (100, 0)),
            ((600, 500), 1100, (600, 500)),
            ((600, 500), 1000, (600, 500)),
            ((u32::MAX, u32::MAX), 1000, (u32::MAX, u32::MAX)),
        ] {
            let found = desc(requested.0, requested.1).fitted(slots_max);
            assert_eq!((found.frame_slots, found.persistent_slots), fitted, "{requested:?} of {slots_max}");
            let same = ShaderVisibleDesc { frame_slots: fitted.0, persistent_slots: fitted.1, ..Default::default() };
            assert_eq!(found, same, "other fields do not change");
        }
    }

    /// The simulated device has 1,000,000 slots for resources and 2,048 for samplers.
    #[test]
    fn a_description_has_slots_of_the_device_and_chunks_for_several_threads() {
        use crate::sim::{Device, Profile, SimOptions};
        let device = Device::new(Profile::h200(), SimOptions::default());
        let samplers = |desc: ShaderVisibleDesc<'static>| ShaderVisibleDesc { kind: HeapKind::Samplers, ..desc };
        let plain = desc(FRAME, PERSISTENT);
        let too_many = |count, max| Err(DescriptorError::TooMany { count, max });
        for (requested, expected) in [
            (plain, Ok((FRAME, PERSISTENT, 256, 65_536))),
            (desc(500_000, 500_000), Ok((500_000, 500_000, 256, 1_000_000))),
            (desc(500_000, 500_001), too_many(1_000_001, 1_000_000)),
            (desc(u32::MAX, u32::MAX), too_many(8_589_934_590, 1_000_000)),
            (desc(1, 0), Ok((1, 0, 256, 1))),
            (desc(0, 1), Ok((0, 1, 256, 1))),
            (desc(0, 0), Err(DescriptorError::ZeroCount)),
            (ShaderVisibleDesc { chunk_slots: 0, ..plain }, Err(DescriptorError::ZeroCount)),
            (ShaderVisibleDesc { slots_max: 1_000_000, ..plain }, Ok((FRAME, PERSISTENT, 256, 65_536))),
            (ShaderVisibleDesc { slots_max: 1_000_001, ..plain }, too_many(1_000_001, 1_000_000)),
            // A quarter of 2,048 slots, and an eighth of that for each chunk.
            (samplers(plain), Ok((512, 1536, 64, 2048))),
            (samplers(ShaderVisibleDesc { chunk_slots: 10, ..plain }), Ok((512, 1536, 10, 2048))),
            (samplers(ShaderVisibleDesc { chunk_slots: 64, ..plain }), Ok((512, 1536, 64, 2048))),
            // The frame region has 48 slots left, or 4, or none.
            (samplers(desc(FRAME, 2000)), Ok((48, 2000, 6, 2048))),
            (samplers(desc(FRAME, 2044)), Ok((4, 2044, 1, 2048))),
            (samplers(desc(FRAME, 2048)), Ok((0, 2048, 1, 2048))),
            (samplers(desc(FRAME, 2049)), too_many(18_433, 2048)),
            // A region of the requested size keeps its chunks.
            (samplers(desc(2000, 48)), Ok((2000, 48, 256, 2048))),
            (samplers(desc(2000, PERSISTENT)), Ok((2000, 48, 256, 2048))),
        ] {
            let found = check_desc(&device, requested)
                .map(|(desc, slots)| (desc.frame_slots, desc.persistent_slots, desc.chunk_slots, slots));
            assert_eq!(found, expected, "{requested:?}");
        }
        for kind in [HeapKind::RenderTargets, HeapKind::DepthStencils] {
            let refused = check_desc(&device, ShaderVisibleDesc { kind, ..plain });
            assert!(matches!(refused, Err(DescriptorError::BadView(_))), "{refused:?}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let ShaderVisibleDesc { kind, types, algorithm, chunk_slots, slots_max, .. } = ShaderVisibleDesc::default();
        assert_eq!((kind, types, algorithm), (HeapKind::Resources, ViewTypes::all(), SlotAlgorithm::FreeList));
        assert_eq!((chunk_slots, slots_max), (256, 0));
    }
}
