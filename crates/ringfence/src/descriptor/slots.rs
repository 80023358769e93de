//! The range allocator of a heap of descriptors. Any of the core's can be used.

use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Allocate, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// An allocator of slots. The defaults: buddy for CPU-only heaps, where nearly every request is for one
/// slot and none is wasted; the free list for the shader-visible heap.
///
/// # Safety
/// Ranges that are allocated lie in `0..slots` and do not overlap: descriptors are written there unchecked.
pub unsafe trait SlotAllocator: RangeAllocator + Send + 'static {
    /// An allocator over this many slots, at least 1.
    fn with_slots(slots: u32) -> Self;
}

// SAFETY: its ranges lie within its capacity and are disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for Buddy {
    fn with_slots(slots: u32) -> Self {
        Self::new(slots.into(), 1)
    }
}

// SAFETY: its ranges lie within its capacity and are disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for FreeList {
    fn with_slots(slots: u32) -> Self {
        Self::new(slots.into())
    }
}

// SAFETY: its ranges lie within its capacity and are disjoint, which `validate` and the fuzz targets check.
unsafe impl SlotAllocator for Tlsf {
    fn with_slots(slots: u32) -> Self {
        Self::exact(slots.into())
    }
}

/// Checked when the library is compiled: both outer allocators keep the contract of [`Allocate`], whatever is inside.
#[expect(dead_code, reason = "the types are checked, nothing is called")]
const fn of_any_device<D: crate::device::descriptors::Descriptors, A: SlotAllocator>() {
    const fn keeps_the_contract<T: Allocate>() {}
    keeps_the_contract::<super::CpuDescriptorHeap<D, A>>();
    keeps_the_contract::<super::ShaderVisibleHeap<D, A>>();
}
