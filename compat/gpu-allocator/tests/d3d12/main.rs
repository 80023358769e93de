//! The facade on a Direct3D 12 device.
//!
//! Without a device the tests print a message and pass, unless `RINGFENCE_REQUIRE_D3D12` is set.
#![cfg(all(windows, feature = "d3d12"))]

mod surface;

use gpu_allocator::d3d12::{
    AllocationCreateDesc, Allocator, AllocatorCreateDesc, ID3D12DeviceVersion, ResourceCategory, ResourceCreateDesc,
    ResourceStateOrBarrierLayout, ResourceType,
};
use gpu_allocator::{AllocationError, MemoryLocation};
use ringfence_testkit::d3d12::D3d12Gpu;
use ringfence_testkit::{Gpu, OpenError, Options};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_FORMAT_UNKNOWN, DXGI_SAMPLE_DESC};

/// Returns `None` if there is no device and none is required.
fn open() -> Option<(Allocator, D3d12Gpu)> {
    let gpu = match D3d12Gpu::open(&Options::default()) {
        Ok(gpu) => gpu,
        Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_D3D12").is_none() => {
            eprintln!("skipped: {what}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let allocator = Allocator::new(&AllocatorCreateDesc {
        device: ID3D12DeviceVersion::Device(gpu.device().raw().clone()),
        debug_settings: Default::default(),
        allocation_sizes: Default::default(),
    });
    Some((allocator.expect("an allocator"), gpu))
}

fn buffer(size: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Alignment: 0,
        Width: size,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_UNKNOWN,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        Flags: D3D12_RESOURCE_FLAG_NONE,
    }
}

fn texture(flags: D3D12_RESOURCE_FLAGS) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: 64,
        Height: 64,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        Flags: flags,
        ..buffer(0)
    }
}

fn create<'a>(desc: &'a D3D12_RESOURCE_DESC, resource_type: &'a ResourceType<'a>) -> ResourceCreateDesc<'a> {
    ResourceCreateDesc {
        name: "created",
        memory_location: MemoryLocation::GpuOnly,
        resource_category: desc.into(),
        resource_desc: desc,
        castable_formats: &[],
        clear_value: None,
        initial_state_or_layout: ResourceStateOrBarrierLayout::ResourceState(D3D12_RESOURCE_STATE_COMMON),
        resource_type,
    }
}

#[test]
fn categories_follow_dimension_and_flags() {
    assert_eq!(ResourceCategory::from(&buffer(4)), ResourceCategory::Buffer);
    assert_eq!(ResourceCategory::from(&texture(D3D12_RESOURCE_FLAG_NONE)), ResourceCategory::OtherTexture);
    for flag in [D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL] {
        assert_eq!(ResourceCategory::from(&texture(flag)), ResourceCategory::RtvDsvTexture);
    }
}

/// Buffers in custom heaps may start in the common state, and the host reads the bytes that it wrote.
#[test]
fn a_buffer_in_the_common_state_is_placed_in_every_location() {
    let Some((mut allocator, gpu)) = open() else { return };
    let device = gpu.device();
    for location in
        [MemoryLocation::Unknown, MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu, MemoryLocation::GpuToCpu]
    {
        let of = buffer(70_000);
        let desc = AllocationCreateDesc::from_d3d12_resource_desc(allocator.device(), &of, "placed", location);
        let allocation = allocator.allocate(&desc).expect("memory");
        assert!(allocation.size() >= 70_000 && !allocation.is_null() && allocation.chunk_id().is_some());
        let mut resource: Option<ID3D12Resource> = None;
        // SAFETY: the range was allocated for such a buffer, which is released before the range is freed.
        unsafe {
            let (heap, offset) = (allocation.heap(), allocation.offset());
            let state = D3D12_RESOURCE_STATE_COMMON;
            device.raw().CreatePlacedResource(heap, offset, &of, state, None, &mut resource).expect("it is placed");
        }
        let resource = resource.expect("it is made");
        if matches!(location, MemoryLocation::CpuToGpu | MemoryLocation::GpuToCpu) {
            let mut start = std::ptr::null_mut();
            // SAFETY: 70,000 bytes of the resource are mapped, and only this code uses it.
            unsafe {
                resource.Map(0, None, Some(&mut start)).expect("the host sees it");
                let bytes = std::slice::from_raw_parts_mut(start.cast::<std::mem::MaybeUninit<u8>>(), 70_000);
                bytes.fill(std::mem::MaybeUninit::new(7));
                assert!(bytes.iter().all(|byte| byte.assume_init() == 7));
                resource.Unmap(0, None);
            }
        }
        drop(resource);
        allocator.free(allocation).expect("it is this allocator's");
    }
    assert_eq!(allocator.generate_report().allocations.len(), 0);
}

#[test]
fn resources_are_created_placed_and_committed_and_freed() {
    let Some((mut allocator, _gpu)) = open() else { return };
    let heap_properties = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
    let committed = ResourceType::Committed { heap_properties: &heap_properties, heap_flags: D3D12_HEAP_FLAG_NONE };
    for flags in [D3D12_RESOURCE_FLAG_NONE, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET] {
        let of = texture(flags);
        let placed = allocator.create_resource(&create(&of, &ResourceType::Placed)).expect("it is placed");
        let committed = allocator.create_resource(&create(&of, &committed)).expect("it is committed");
        assert!(placed.allocation.is_some() && committed.allocation.is_none());
        for resource in [placed, committed] {
            // SAFETY: a call without arguments on a live object.
            assert_eq!(unsafe { resource.resource().GetDesc() }.Width, 64);
            allocator.free_resource(resource).expect("it is this allocator's");
        }
    }
    assert_eq!(allocator.generate_report().allocations.len(), 0);
}

/// A clear value is passed for placed targets only, because Direct3D refuses one for a buffer or another texture.
#[test]
fn a_clear_value_reaches_placed_targets_only() {
    let Some((mut allocator, _gpu)) = open() else { return };
    let clear = D3D12_CLEAR_VALUE { Format: DXGI_FORMAT_R8G8B8A8_UNORM, ..Default::default() };
    let target = texture(D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
    for of in [buffer(4096), texture(D3D12_RESOURCE_FLAG_NONE), target] {
        let desc = ResourceCreateDesc { clear_value: Some(&clear), ..create(&of, &ResourceType::Placed) };
        let resource = allocator.create_resource(&desc).expect("it is placed");
        allocator.free_resource(resource).expect("it is this allocator's");
    }
}

#[test]
fn a_resource_that_cannot_be_placed_leaves_no_memory_behind() {
    let Some((mut allocator, _gpu)) = open() else { return };
    let of = texture(D3D12_RESOURCE_FLAG_NONE);
    let good = create(&of, &ResourceType::Placed);
    let formats = [DXGI_FORMAT_R8G8B8A8_UNORM];
    let layout = ResourceStateOrBarrierLayout::BarrierLayout(D3D12_BARRIER_LAYOUT_COMMON);
    let refused = allocator.create_resource(&ResourceCreateDesc { castable_formats: &formats, ..good });
    assert!(matches!(refused, Err(AllocationError::CastableFormatsRequiresEnhancedBarriers)));
    let refused = allocator.create_resource(&ResourceCreateDesc { initial_state_or_layout: layout, ..good });
    assert!(matches!(refused, Err(AllocationError::BarrierLayoutNeedsDevice10)));
    let refused = allocator.create_resource(&ResourceCreateDesc {
        castable_formats: &formats,
        initial_state_or_layout: layout,
        ..good
    });
    assert!(matches!(refused, Err(AllocationError::CastableFormatsRequiresAtLeastDevice12)));
    // A texture cannot be placed in memory that the host maps.
    let refused = allocator.create_resource(&ResourceCreateDesc { memory_location: MemoryLocation::CpuToGpu, ..good });
    if let Ok(resource) = refused {
        allocator.free_resource(resource).expect("this driver can");
    }
    assert_eq!(allocator.generate_report().allocations.len(), 0);
}

#[test]
fn an_allocation_of_another_allocator_is_refused() {
    let Some((mut allocator, gpu)) = open() else { return };
    let Some((mut other, _other_gpu)) = open() else { return };
    let desc = AllocationCreateDesc {
        name: "foreign",
        location: MemoryLocation::GpuOnly,
        size: 65_536,
        alignment: 65_536,
        resource_category: ResourceCategory::Buffer,
    };
    let foreign = other.allocate(&desc).expect("memory");
    assert!(matches!(allocator.free(foreign), Err(AllocationError::Internal(_))));
    assert_eq!(other.generate_report().allocations[0].name, "foreign");
    let empty = AllocationCreateDesc { size: 0, ..desc };
    assert!(matches!(allocator.allocate(&empty), Err(AllocationError::InvalidAllocationCreateDesc)));
    drop(gpu);
}
