//! Range allocators of descriptor heaps: adapters of the algorithms in the core crate.

use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Allocate, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// An allocator of slots. The default for CPU-only heaps is the buddy allocator, because it wastes no slot on requests
/// for single slots, which are the most frequent ones. The default for the shader-visible heap is the free list.
///
/// # Safety
/// Allocated ranges must be inside `0..slots` and must not overlap, because descriptors are written to them without
/// checks.
pub unsafe trait SlotAllocator: RangeAllocator + Send + 'static {
    /// Creates an allocator over this many slots, at least 1.
    fn with_slots(slots: u32) -> Self;
}

// SAFETY: its ranges are inside its capacity and disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for Buddy {
    fn with_slots(slots: u32) -> Self {
        Self::new(slots.into(), 1)
    }
}

// SAFETY: its ranges are inside its capacity and disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for FreeList {
    fn with_slots(slots: u32) -> Self {
        Self::new(slots.into())
    }
}

// SAFETY: its ranges are inside its capacity and disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for Tlsf {
    fn with_slots(slots: u32) -> Self {
        Self::exact(slots.into())
    }
}

/// Checks at compile time that the two kinds of heaps implement [`Allocate`] with every slot allocator.
#[expect(dead_code, reason = "the types are checked, nothing is called")]
const fn of_any_device<D: crate::device::descriptors::Descriptors, A: SlotAllocator>() {
    const fn keeps_the_contract<T: Allocate>() {}
    keeps_the_contract::<super::CpuDescriptorHeap<D, A>>();
    keeps_the_contract::<super::ShaderVisibleHeap<D, A>>();
}
