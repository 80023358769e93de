//! Algorithms that divide the slots of a descriptor heap into runs.

use ringfence_core::algorithm::AnyAllocator;
use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::tlsf::Tlsf;

/// The algorithm that divides the slots of a descriptor heap into runs.
///
/// CPU-only heaps use buddies by default, because these waste no slot on requests for single slots, which are the most
/// frequent ones. The shader-visible heap uses a free list by default, because the device limits its slots, and a free
/// list wastes none of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SlotAlgorithm {
    /// Powers of two: O(log slots). A run of three takes four slots.
    Buddy,
    /// Exact best fit: O(log runs) expected.
    FreeList,
    /// Two-level segregated fit with exact sizes: O(1).
    Tlsf,
}

impl SlotAlgorithm {
    /// Creates an allocator of `slots` slots; `slots` must be at least 1. Its ranges must be inside `0..slots` and
    /// disjoint, because descriptors are written to the ranges without further checks. `validate` and the fuzz targets
    /// check this rule.
    pub(crate) fn slots(self, slots: u32) -> AnyAllocator {
        match self {
            Self::Buddy => AnyAllocator::Buddy(Buddy::new(slots.into(), 1)),
            Self::FreeList => AnyAllocator::FreeList(FreeList::new(slots.into())),
            Self::Tlsf => AnyAllocator::Tlsf(Tlsf::exact(slots.into())),
        }
    }
}
