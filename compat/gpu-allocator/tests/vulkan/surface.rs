//! What types are, beside what they do: as gpu-allocator's are.

use std::fmt::{Debug, Display};

use gpu_allocator::vulkan::{
    Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc, MappedAllocationSlab,
};
use gpu_allocator::{
    AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryBlockReport,
    MemoryLocation, Result,
};

const fn send_sync<T: Send + Sync>() {}
const fn debug<T: Debug>() {}
const fn copied<T: Copy + Debug>() {}
const fn cloned<T: Clone + Debug>() {}
const fn defaulted<T: Default>() {}

const _: () = {
    send_sync::<Allocator>();
    send_sync::<Allocation>();
    send_sync::<AllocatorCreateDesc>();
    send_sync::<AllocationCreateDesc<'_>>();
    send_sync::<AllocationError>();
    send_sync::<AllocatorReport>();
    debug::<Allocator>();
    debug::<Allocation>();
    debug::<AllocationError>();
    debug::<AllocationReport>();
    cloned::<AllocationCreateDesc<'_>>();
    cloned::<AllocatorReport>();
    cloned::<AllocationReport>();
    copied::<AllocationScheme>();
    copied::<MemoryLocation>();
    copied::<AllocationSizes>();
    copied::<AllocatorDebugSettings>();
    defaulted::<Allocation>();
    defaulted::<AllocationSizes>();
    defaulted::<AllocatorDebugSettings>();
};

/// `MemoryBlockReport` is cloned, not shown.
const _: fn(&MemoryBlockReport) -> MemoryBlockReport = Clone::clone;

/// A slab is for the thread that borrowed the allocation.
fn is_slab<T: presser::Slab>() {}

#[test]
fn allocations_are_slabs() {
    is_slab::<Allocation>();
    is_slab::<MappedAllocationSlab<'_>>();
}

/// Every variant, and no other: a match without a rest.
#[test]
fn errors_have_the_variants_that_wgpu_matches() {
    fn told(error: &(impl Display + ?Sized)) -> String {
        error.to_string()
    }
    let all = [
        AllocationError::OutOfMemory,
        AllocationError::FailedToMap("why".into()),
        AllocationError::NoCompatibleMemoryTypeFound,
        AllocationError::InvalidAllocationCreateDesc,
        AllocationError::InvalidAllocatorCreateDesc("why".into()),
        AllocationError::Internal("why".into()),
        AllocationError::BarrierLayoutNeedsDevice10,
        AllocationError::CastableFormatsRequiresEnhancedBarriers,
        AllocationError::CastableFormatsRequiresAtLeastDevice12,
    ];
    for error in &all {
        let has_words = match error {
            AllocationError::FailedToMap(why)
            | AllocationError::InvalidAllocatorCreateDesc(why)
            | AllocationError::Internal(why) => told(error).contains(why.as_str()),
            AllocationError::OutOfMemory
            | AllocationError::NoCompatibleMemoryTypeFound
            | AllocationError::InvalidAllocationCreateDesc
            | AllocationError::BarrierLayoutNeedsDevice10
            | AllocationError::CastableFormatsRequiresEnhancedBarriers
            | AllocationError::CastableFormatsRequiresAtLeastDevice12 => !told(error).is_empty(),
        };
        assert!(has_words, "{error:?}");
    }
}

/// Fields are public, settings can be changed one by one.
#[test]
fn settings_and_results_are_as_open_as_there() {
    let mut settings = AllocatorDebugSettings::default();
    assert!(settings.log_leaks_on_shutdown && !settings.log_memory_information);
    settings.log_allocations = true;
    settings.log_frees = true;
    assert!(settings.log_allocations && settings.log_frees);
    let held = AllocationReport { name: "x".into(), offset: 0, size: 4 };
    let report = AllocatorReport {
        allocations: vec![held],
        blocks: vec![MemoryBlockReport { size: 8, allocations: 0..1 }],
        total_allocated_bytes: 4,
        total_capacity_bytes: 8,
    };
    let first = |report: AllocatorReport| -> Result<u64> { Ok(report.allocations[0].size) };
    assert!(matches!(first(report), Ok(4)));
}
