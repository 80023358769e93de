//! Choice of the memory type for a location, by the rule that gpu-allocator's users predict it with.

use ash::vk::{MemoryPropertyFlags as Flags, MemoryType};
use ringfence::device::{Capabilities, MemoryProperties as P};

use crate::MemoryLocation;

/// A device's memory types, in the driver's order.
pub(super) struct Types {
    properties: Box<[P]>,
    /// Vulkan's flags of the types, including those of extensions.
    flags: Box<[Flags]>,
}

const UPLOAD: P = P::HOST_VISIBLE.union(P::HOST_COHERENT);

impl Types {
    /// Collects the types of a device from Ringfence's capabilities and from the driver's list.
    pub(super) fn new(capabilities: &Capabilities, listed: &[MemoryType]) -> Self {
        Self {
            properties: capabilities.memory_types.iter().map(|held| held.properties).collect(),
            flags: listed.iter().map(|held| held.property_flags).collect(),
        }
    }

    /// Returns the type for a location among those of `bits`, and a second type to try if an allocation in it fails.
    /// O(types).
    pub(super) fn choose(&self, location: MemoryLocation, bits: u32) -> (Option<u32>, Option<u32>) {
        let (wanted, needed) = match location {
            MemoryLocation::Unknown => (P::empty(), P::empty()),
            MemoryLocation::GpuOnly => (P::DEVICE_LOCAL, P::DEVICE_LOCAL),
            MemoryLocation::CpuToGpu => (UPLOAD | P::DEVICE_LOCAL, UPLOAD),
            MemoryLocation::GpuToCpu => (UPLOAD | P::HOST_CACHED, UPLOAD),
        };
        let plain = |flags| self.first(bits, flags, P::LAZILY_ALLOCATED | P::PROTECTED | P::REFUSED);
        let any = |flags| self.first(bits, flags, P::empty());
        let best = plain(wanted).or_else(|| plain(needed)).or_else(|| any(wanted)).or_else(|| any(needed));
        let fallback = if location == MemoryLocation::CpuToGpu { plain(needed) } else { None };
        (best, fallback)
    }

    fn first(&self, bits: u32, wanted: P, unwanted: P) -> Option<u32> {
        let mut types = (0..).zip(&*self.properties);
        let will_do =
            |index: u32, held: P| bits >> index & 1 == 1 && held.contains(wanted) && !held.intersects(unwanted);
        types.find(|(index, held)| will_do(*index, **held)).map(|(index, _)| index)
    }

    /// Returns Vulkan's flags of a type, including those that Ringfence does not define.
    pub(super) fn flags(&self, memory_type: u32) -> Flags {
        self.flags[memory_type as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryLocation::{CpuToGpu, GpuOnly, GpuToCpu, Unknown};

    const ALL: u32 = u32::MAX;

    fn types(of: &[P]) -> Types {
        Types { properties: of.into(), flags: Box::default() }
    }

    /// Returns the types of a current discrete card: host memory after device memory, host-visible device memory last.
    fn discrete() -> Types {
        types(&[P::empty(), P::DEVICE_LOCAL, UPLOAD, UPLOAD | P::HOST_CACHED, P::DEVICE_LOCAL | UPLOAD])
    }

    #[test]
    fn the_first_type_in_driver_order_with_the_flags_is_taken() {
        let types = discrete();
        assert_eq!(types.choose(Unknown, ALL), (Some(0), None));
        assert_eq!(types.choose(GpuOnly, ALL), (Some(1), None));
        assert_eq!(types.choose(CpuToGpu, ALL), (Some(4), Some(2)));
        assert_eq!(types.choose(GpuToCpu, ALL), (Some(3), None));
    }

    #[test]
    fn a_type_that_the_resource_does_not_allow_is_passed_over() {
        let types = discrete();
        assert_eq!(types.choose(GpuOnly, !0b10), (Some(4), None));
        assert_eq!(types.choose(CpuToGpu, 0b01100), (Some(2), Some(2)));
        assert_eq!(types.choose(GpuToCpu, 0b00100), (Some(2), None), "uncached, because no cached type fits");
        assert_eq!(types.choose(GpuToCpu, 0b00011), (None, None));
        assert_eq!(types.choose(Unknown, 0), (None, None));
    }

    #[test]
    fn lazily_allocated_and_protected_memory_comes_last() {
        let types = types(&[P::DEVICE_LOCAL | P::LAZILY_ALLOCATED, P::DEVICE_LOCAL | P::PROTECTED, P::DEVICE_LOCAL]);
        assert_eq!(types.choose(GpuOnly, ALL).0, Some(2));
        assert_eq!(types.choose(GpuOnly, 0b011).0, Some(0), "chosen if no other fits");
    }

    /// A type that the device refuses, such as on-chip tile memory, is chosen only if no other fits.
    #[test]
    fn memory_that_the_device_refuses_comes_last() {
        let types = types(&[P::DEVICE_LOCAL | P::SPECIAL | P::REFUSED, P::DEVICE_LOCAL]);
        assert_eq!(types.choose(GpuOnly, ALL).0, Some(1));
        assert_eq!(types.choose(GpuOnly, 0b01).0, Some(0), "chosen, so that the refusal names it");
    }

    /// Every choice follows wgpu-hal's rule, for all combinations of three types.
    #[test]
    fn every_choice_is_the_one_that_the_rule_predicts() {
        let kinds = [
            P::empty(),
            P::DEVICE_LOCAL,
            UPLOAD,
            UPLOAD | P::HOST_CACHED,
            P::DEVICE_LOCAL | UPLOAD,
            P::HOST_VISIBLE | P::HOST_CACHED,
            P::DEVICE_LOCAL | P::LAZILY_ALLOCATED,
            P::DEVICE_LOCAL | UPLOAD | P::HOST_CACHED,
        ];
        let predict = |held: &[P], bits: u32, preferred: P, required: P| {
            let usable = |index: usize| bits >> index & 1 == 1 && !held[index].contains(P::LAZILY_ALLOCATED);
            let with = |flags: P| (0..held.len()).find(|&index| usable(index) && held[index].contains(flags));
            with(preferred).or_else(|| with(required)).map(|index| index as u32)
        };
        let rules = [
            (Unknown, P::empty(), P::empty()),
            (GpuOnly, P::DEVICE_LOCAL, P::DEVICE_LOCAL),
            (CpuToGpu, UPLOAD | P::DEVICE_LOCAL, UPLOAD),
            (GpuToCpu, UPLOAD | P::HOST_CACHED, UPLOAD),
        ];
        let mut predicted = 0;
        for code in 0..8_usize.pow(3) {
            let held = [kinds[code % 8], kinds[code / 8 % 8], kinds[code / 64]];
            for bits in 1..8 {
                for (location, preferred, required) in rules {
                    let Some(index) = predict(&held, bits, preferred, required) else { continue };
                    assert_eq!(types(&held).choose(location, bits).0, Some(index), "{held:?} {bits:#b} {location:?}");
                    predicted += 1;
                }
            }
        }
        assert!(predicted > 8000, "{predicted}");
    }
}
