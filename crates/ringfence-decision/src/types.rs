//! The choice of memory types: for each location, the types in the order in which they are tried.
//!
//! | location | required | tried first | tried last |
//! |---|---|---|---|
//! | `Device` | – | device-local | types that the host also accesses (windows are scarce), host memory |
//! | `Upload` | host-visible | coherent, in host memory | cached, device-local |
//! | `Readback` | host-visible | cached, coherent | uncached: host reads are tens of times slower |
//! | `DeviceUpload` | host-visible | device-local, coherent | host memory |
//!
//! A *window* is a small heap through which the host accesses part of a larger device memory. Equal types keep the
//! driver's order, as the Vulkan specification intends. Protected, lazily allocated and special types are used only if
//! the request names such a property. Types that the device refuses are used only if no other type is left, so that the
//! request returns the device's reason. Required properties of a request shorten the list; preferred properties take
//! precedence over the order of the location.

use smallvec::SmallVec;

use crate::device::{Capabilities, MemoryProperties as P};
use crate::location::Location;
use crate::request::AllocationDesc;

/// The order of the device's memory types for each location, computed once.
#[derive(Debug)]
pub struct TypeOrder {
    /// The candidates of every location, best first.
    candidates: [Vec<u32>; 4],
    /// The memory types of the device, one bit each.
    known_bits: u32,
    /// The largest size, in bytes, that every type can serve, except types that the device refuses.
    always_bytes: u64,
}

impl TypeOrder {
    /// Orders the memory types of a device.
    #[must_use]
    pub fn new(capabilities: &Capabilities) -> Self {
        let heap_bytes = |index: u32| capabilities.memory_heaps[index as usize].bytes;
        let served = capabilities.memory_types.iter().filter(|held| !held.properties.contains(P::REFUSED));
        let least = served.map(|held| heap_bytes(held.heap)).min();
        Self {
            candidates: Location::ALL.map(|location| {
                let desc = AllocationDesc { location, ..Default::default() };
                by_preference(capabilities, &desc, u32::MAX).into_iter().map(u32::from).collect()
            }),
            known_bits: (0..capabilities.memory_types.len()).fold(0, |bits, index| bits | 1 << index),
            always_bytes: least.unwrap_or(0).min(capabilities.memory_object_bytes_max),
        }
    }

    /// Returns the memory types for `location` among `bits` (bit n for type n), best first.
    #[inline]
    pub fn candidates(&self, location: Location, bits: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.candidates[location as usize].iter().copied().filter(move |index| bits & (1 << index) != 0)
    }

    /// Returns the best memory type for `location` among `bits` (bit n for type n).
    #[inline]
    #[must_use]
    pub fn first(&self, location: Location, bits: u32) -> Option<u32> {
        self.candidates[location as usize].iter().copied().find(|index| bits >> index & 1 == 1)
    }

    /// Returns the best memory type for a request among `bits` (bit n for type n).
    #[inline]
    #[must_use]
    pub fn best(&self, capabilities: &Capabilities, desc: &AllocationDesc<'_>, bits: u32) -> Option<u32> {
        if (desc.required | desc.preferred).is_empty() {
            return self.first(desc.location, bits & desc.memory_types);
        }
        self.candidates_for(capabilities, desc, bits).next()
    }

    /// Returns `true` if the device has one of the types `bits`, and each type of the device can serve `size`, except
    /// types that the device refuses. True for most requests.
    #[inline]
    #[must_use]
    pub fn always_serves(&self, size: u64, bits: u32) -> bool {
        size <= self.always_bytes && bits & self.known_bits != 0
    }

    /// Returns the memory types for a request among `bits` (bit n for type n), best first. O(types); allocates no host
    /// memory.
    #[inline]
    pub fn candidates_for<'a>(
        &'a self,
        capabilities: &Capabilities,
        desc: &AllocationDesc<'_>,
        bits: u32,
    ) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let allowed = bits & desc.memory_types;
        let is_plain = (desc.required | desc.preferred).is_empty();
        let wished = if is_plain { SmallVec::new() } else { by_preference(capabilities, desc, allowed) };
        let plain = self.candidates(desc.location, if is_plain { allowed } else { 0 });
        wished.into_iter().map(u32::from).chain(plain)
    }
}

/// Returns the types among `allowed` that have the required properties. Types that lack the fewest preferred properties
/// come first; among equals, the types with the lowest cost for the location.
fn by_preference(capabilities: &Capabilities, desc: &AllocationDesc<'_>, allowed: u32) -> SmallVec<[u8; 32]> {
    let held = |index: &u8| capabilities.properties(u32::from(*index));
    let never = NEVER.difference(desc.required | desc.preferred);
    let required = desc.location.required() | desc.required;
    let mut types: SmallVec<[u8; 32]> = (0..capabilities.memory_types.len() as u8)
        .filter(|index| allowed & (1 << index) != 0)
        .filter(|index| held(index).contains(required) && !held(index).intersects(never))
        .collect();
    if types.iter().any(|index| !held(index).contains(P::REFUSED)) {
        types.retain(|index| !held(index).contains(P::REFUSED));
    }
    types.sort_by_key(|index| {
        (desc.preferred.difference(held(index)).bits().count_ones(), desc.location.cost(held(index)))
    });
    types
}

/// Properties of types that are used only if the request names them.
const NEVER: P = P::PROTECTED.union(P::LAZILY_ALLOCATED).union(P::SPECIAL);
