//! The facade on a Vulkan device, with the validation layers enabled.
//!
//! Without a device the tests print a message and pass, unless `RINGFENCE_REQUIRE_VULKAN` is set.
#![cfg(all(feature = "vulkan", not(windows)))]

mod copy;
mod fake;
mod generated;
mod rig;
mod surface;

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::{AllocationError, MemoryLocation};
use rig::Rig;

const LOCATIONS: [MemoryLocation; 4] =
    [MemoryLocation::Unknown, MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu, MemoryLocation::GpuToCpu];

#[test]
fn a_buffer_is_placed_in_every_location_and_mapped_where_the_host_may_look() {
    let Some(mut rig) = Rig::open() else { return };
    for location in LOCATIONS {
        let buffer = rig.buffer(512);
        let allocation = rig.allocate_for(buffer, location).expect("memory");
        let properties = allocation.memory_properties();
        assert_eq!(allocation.mapped_ptr().is_some(), properties.contains(vk::MemoryPropertyFlags::HOST_VISIBLE));
        let wanted = match location {
            MemoryLocation::Unknown => vk::MemoryPropertyFlags::empty(),
            MemoryLocation::GpuOnly => vk::MemoryPropertyFlags::DEVICE_LOCAL,
            _ => vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT,
        };
        assert!(properties.contains(wanted), "{location:?}: {properties:?}");
        rig.bind(buffer, &allocation);
        rig.destroy(buffer);
        rig.allocator().free(allocation).expect("it is this allocator's");
    }
    rig.finish();
}

/// The allocator chooses the memory type that wgpu-hal's rule predicts from the driver's list.
#[test]
fn the_memory_type_is_the_one_that_wgpu_predicts() {
    let Some(mut rig) = Rig::open() else { return };
    use vk::MemoryPropertyFlags as F;
    let upload = F::HOST_VISIBLE | F::HOST_COHERENT;
    let types = rig.memory_types();
    for location in LOCATIONS {
        let (preferred, required) = match location {
            MemoryLocation::Unknown => (F::empty(), F::empty()),
            MemoryLocation::GpuOnly => (F::DEVICE_LOCAL, F::DEVICE_LOCAL),
            MemoryLocation::CpuToGpu => (upload | F::DEVICE_LOCAL, upload),
            MemoryLocation::GpuToCpu => (upload | F::HOST_CACHED, upload),
        };
        let buffer = rig.buffer(4096);
        let bits = rig.needs(buffer).memory_type_bits;
        let first = |flags: F| {
            let usable = |index: usize, held: &F| bits >> index & 1 == 1 && held.contains(flags);
            types.iter().enumerate().find(|(index, held)| usable(*index, held)).map(|(_, held)| *held)
        };
        let predicted = first(preferred).or_else(|| first(required)).expect("a type for every location");
        let allocation = rig.allocate_for(buffer, location).expect("memory");
        assert_eq!(allocation.memory_properties(), predicted, "{location:?}");
        rig.destroy(buffer);
        rig.allocator().free(allocation).expect("it is this allocator's");
    }
    rig.finish();
}

#[test]
fn dedicated_memory_is_made_for_its_resource() {
    let Some(mut rig) = Rig::open() else { return };
    let buffer = rig.buffer(70_000);
    let image = rig.image(64);
    let wishes = [
        (rig.needs(buffer), true, AllocationScheme::DedicatedBuffer(buffer)),
        (rig.image_needs(image), false, AllocationScheme::DedicatedImage(image)),
    ];
    let made = wishes.map(|(requirements, linear, allocation_scheme)| {
        let location = MemoryLocation::GpuOnly;
        let desc = AllocationCreateDesc { name: "its own", requirements, location, linear, allocation_scheme };
        rig.allocator().allocate(&desc).expect("memory")
    });
    assert!(made.iter().all(|allocation| allocation.is_dedicated() && allocation.offset() == 0));
    rig.bind(buffer, &made[0]);
    rig.bind_image(image, &made[1]);
    rig.destroy(buffer);
    rig.destroy_image(image);
    made.into_iter().for_each(|allocation| rig.allocator().free(allocation).expect("it is this allocator's"));
    assert_eq!(rig.allocator().capacity(), 0);
    rig.finish();
}

#[test]
fn large_requests_have_memory_of_their_own_and_give_it_back_at_once() {
    let Some(mut rig) = Rig::open() else { return };
    let buffer = rig.buffer(300 << 20);
    let allocation = rig.allocate_for(buffer, MemoryLocation::GpuOnly).expect("memory");
    assert!(allocation.is_dedicated());
    assert_eq!(rig.allocator().capacity(), allocation.size());
    rig.destroy(buffer);
    rig.allocator().free(allocation).expect("it is this allocator's");
    assert_eq!(rig.allocator().capacity(), 0);
    rig.finish();
}

#[test]
fn what_cannot_be_is_an_error_of_its_own_and_changes_nothing() {
    let Some(mut rig) = Rig::open() else { return };
    let usual = vk::MemoryRequirements { size: 256, alignment: 64, memory_type_bits: u32::MAX };
    let invalid = |error| matches!(error, AllocationError::InvalidAllocationCreateDesc);
    let no_type = |error| matches!(error, AllocationError::NoCompatibleMemoryTypeFound);
    let out_of_memory = |error| matches!(error, AllocationError::OutOfMemory);
    type Is = fn(AllocationError) -> bool;
    let cases: [(vk::MemoryRequirements, Is); 5] = [
        (vk::MemoryRequirements { size: 0, ..usual }, invalid),
        (vk::MemoryRequirements { alignment: 0, ..usual }, invalid),
        (vk::MemoryRequirements { alignment: 48, ..usual }, invalid),
        (vk::MemoryRequirements { memory_type_bits: 0, ..usual }, no_type),
        (vk::MemoryRequirements { size: 1 << 60, ..usual }, out_of_memory),
    ];
    for (requirements, is_expected) in cases {
        for location in [MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu] {
            let error = rig.allocate(requirements, location, "refused").expect_err("it cannot be");
            assert!(is_expected(error), "{requirements:?}");
        }
    }
    assert_eq!(rig.allocator().capacity(), 0);
    rig.finish();
}

#[test]
fn an_allocation_of_another_allocator_is_refused() {
    let Some(mut rig) = Rig::open() else { return };
    let needs = vk::MemoryRequirements { size: 256, alignment: 64, memory_type_bits: u32::MAX };
    let mut other = rig.another();
    let own = rig.allocate(needs, MemoryLocation::GpuOnly, "own").expect("memory");
    let mut foreign = other.allocate(&rig::desc(needs, MemoryLocation::GpuOnly, "foreign")).expect("memory");
    assert!(matches!(rig.allocator().rename_allocation(&mut foreign, "mine"), Err(AllocationError::Internal(_))));
    assert!(matches!(rig.allocator().free(foreign), Err(AllocationError::Internal(_))));
    assert_eq!(rig.allocator().generate_report().allocations.len(), 1, "the own one is untouched");
    assert_eq!(other.generate_report().allocations.len(), 1, "and so is the other's");
    rig.allocator().free(own).expect("it is this allocator's");
    drop(other);
    rig.finish();
}

/// As in gpu-allocator, a dropped allocation stays reserved until its allocator is dropped, because it may contain a
/// resource.
#[test]
fn what_is_dropped_stays_reserved_and_goes_with_the_allocator() {
    let Some(mut rig) = Rig::open() else { return };
    let needs = vk::MemoryRequirements { size: 1 << 20, alignment: 64, memory_type_bits: u32::MAX };
    let _ = rig.allocate(needs, MemoryLocation::GpuOnly, "dropped").expect("memory");
    let mut kept = rig.allocate(needs, MemoryLocation::CpuToGpu, "kept").expect("memory");
    let mut shown = rig.allocate(needs, MemoryLocation::CpuToGpu, "shown").expect("memory");
    let names = |rig: &mut Rig| rig.allocator().generate_report().allocations.len();
    assert_eq!(names(&mut rig), 3);
    let mut slab = shown.try_as_mapped_slab().expect("it is mapped");
    presser::copy_to_offset(&7_u32, &mut slab, 0).expect("it is there");
    rig.drop_allocator();
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = presser::copy_to_offset(&7_u32, &mut slab, 0);
    }));
    assert!(written.is_err(), "nor through a slab that was made before");
    assert!(kept.try_as_mapped_slab().is_none(), "its memory is gone");
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = presser::copy_to_offset(&1_u32, &mut kept, 0);
    }));
    assert!(written.is_err(), "no thread writes to memory that is gone");
    rig.finish();
}

#[cfg(feature = "mapped-slice")]
#[test]
fn a_mapped_slice_is_the_allocation_s_own_bytes_and_there_is_none_without_an_allocator() {
    let Some(mut rig) = Rig::open() else { return };
    let needs = vk::MemoryRequirements { size: 1000, alignment: 64, memory_type_bits: u32::MAX };
    let mut first = rig.allocate(needs, MemoryLocation::CpuToGpu, "first").expect("memory");
    let mut second = rig.allocate(needs, MemoryLocation::GpuToCpu, "second").expect("memory");
    for (allocation, byte) in [(&mut first, 1), (&mut second, 2)] {
        allocation.mapped_slice_mut().expect("it is mapped").fill(byte);
    }
    for (allocation, byte) in [(&first, 1), (&second, 2)] {
        let slice = allocation.mapped_slice().expect("it is mapped");
        assert_eq!(slice.len() as u64, allocation.size());
        assert_eq!(slice.as_ptr(), allocation.mapped_ptr().expect("it is mapped").as_ptr().cast::<u8>());
        assert!(slice.iter().all(|held| *held == byte));
    }
    let mut nothing = Allocation::default();
    assert!(nothing.mapped_slice().is_none() && nothing.mapped_slice_mut().is_none());
    rig.drop_allocator();
    assert!(first.mapped_slice().is_none() && second.mapped_slice_mut().is_none(), "the memory is freed");
    rig.finish();
}

#[test]
fn one_that_holds_nothing_can_be_freed_and_renamed() {
    let Some(mut rig) = Rig::open() else { return };
    let mut nothing = Allocation::default();
    assert!(nothing.is_null() && nothing.chunk_id().is_none() && nothing.mapped_ptr().is_none());
    rig.allocator().rename_allocation(&mut nothing, "still nothing").expect("there is nothing to rename");
    rig.allocator().free(nothing).expect("there is nothing to free");
    rig.finish();
}

#[test]
fn a_report_tells_every_allocation_and_every_block() {
    let Some(mut rig) = Rig::open() else { return };
    let needs = |size| vk::MemoryRequirements { size, alignment: 256, memory_type_bits: u32::MAX };
    let sizes = [100, 5000, 1 << 20, 300 << 20];
    let names = ["a", "b", "c", "d"];
    let mut made: Vec<_> = sizes
        .iter()
        .zip(names)
        .map(|(size, name)| rig.allocate(needs(*size), MemoryLocation::GpuOnly, name).expect("memory"))
        .collect();
    rig.allocator().rename_allocation(&mut made[1], "second").expect("it is this allocator's");
    let report = rig.allocator().generate_report();
    let mut found: Vec<_> = report.allocations.iter().map(|held| (held.name.as_str(), held.size)).collect();
    found.sort_unstable();
    assert_eq!(found, [("a", 100), ("c", 1 << 20), ("d", 300 << 20), ("second", 5000)]);
    assert_eq!(report.total_allocated_bytes, sizes.iter().sum::<u64>());
    assert_eq!(report.total_capacity_bytes, report.blocks.iter().map(|block| block.size).sum::<u64>());
    assert_eq!(report.total_capacity_bytes, rig.allocator().capacity());
    let mut counted = 0;
    for block in &report.blocks {
        assert_eq!(block.allocations.start, counted, "blocks tell their allocations in order");
        let held = &report.allocations[block.allocations.clone()];
        assert!(held.iter().all(|held| held.offset + held.size <= block.size));
        counted = block.allocations.end;
    }
    assert_eq!(counted, report.allocations.len());
    let shown = format!("{:.1?}", rig.allocator());
    assert!(shown.contains("\"d\": 300.00 MiB") && !shown.contains("second"), "{shown}");
    made.into_iter().for_each(|allocation| rig.allocator().free(allocation).expect("it is this allocator's"));
    let report = rig.allocator().generate_report();
    assert!(report.allocations.is_empty() && report.blocks.len() == 1, "one empty block is kept");
    assert_eq!(report.total_capacity_bytes, report.blocks[0].size);
    rig.finish();
}

#[test]
fn an_instance_of_vulkan_1_0_will_do() {
    let Some(mut rig) = Rig::open_version(vk::API_VERSION_1_0) else { return };
    for location in LOCATIONS {
        let buffer = rig.buffer(1000);
        let allocation = rig.allocate_for(buffer, location).expect("memory");
        rig.bind(buffer, &allocation);
        rig.destroy(buffer);
        rig.allocator().free(allocation).expect("it is this allocator's");
    }
    rig.finish();
}
