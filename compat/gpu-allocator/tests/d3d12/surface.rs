//! The public surface of the module `d3d12`, compiled against the published gpu-allocator and against this crate, as in
//! the Vulkan tests. An item that either crate lacks or has in addition does not compile.

/// Defines the checks for one of the two crates, in a separate module.
macro_rules! surface {
    ($side:ident, $its:ident) => {
        mod $side {
            use std::fmt::Debug;
            use std::num::NonZeroU64;
            use std::ops::Deref;

            use log::Level;
            use windows::Win32::Graphics::Direct3D12::*;
            use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
            use $its::d3d12::{
                Allocation, AllocationCreateDesc, Allocator, AllocatorCreateDesc, CommittedAllocationStatistics,
                ID3D12DeviceVersion, Resource, ResourceCategory, ResourceCreateDesc, ResourceStateOrBarrierLayout,
                ResourceType,
            };
            use $its::{AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryLocation, Result};

            const fn send_sync<T: Send + Sync>() {}
            const fn shown<T: Debug>() {}
            const fn copied<T: Copy>() {}
            const fn cloned<T: Clone>() {}
            const fn compared<T: Eq>() {}
            const fn derefs<T: Deref<Target = ID3D12Device>>() {}
            fn is<T>(_: T) {}

            const _: () = {
                send_sync::<Allocator>();
                send_sync::<Allocation>();
                send_sync::<AllocatorCreateDesc>();
                send_sync::<AllocationCreateDesc<'_>>();
                send_sync::<ID3D12DeviceVersion>();
                send_sync::<Resource>();
                shown::<Allocator>();
                shown::<Allocation>();
                shown::<AllocatorCreateDesc>();
                shown::<AllocationCreateDesc<'_>>();
                shown::<CommittedAllocationStatistics>();
                shown::<ID3D12DeviceVersion>();
                shown::<Resource>();
                shown::<ResourceCategory>();
                shown::<ResourceStateOrBarrierLayout>();
                copied::<ResourceCategory>();
                copied::<ResourceCreateDesc<'_>>();
                copied::<ResourceStateOrBarrierLayout>();
                cloned::<AllocationCreateDesc<'_>>();
                cloned::<ID3D12DeviceVersion>();
                compared::<ResourceCategory>();
                compared::<ResourceStateOrBarrierLayout>();
                derefs::<ID3D12DeviceVersion>();
            };

            const _: () = {
                let _: fn(&AllocatorCreateDesc) -> Result<Allocator> = Allocator::new;
                let _: fn(&Allocator) -> &ID3D12DeviceVersion = Allocator::device;
                let _: fn(&mut Allocator, &AllocationCreateDesc<'_>) -> Result<Allocation> = Allocator::allocate;
                let _: fn(&mut Allocator, Allocation) -> Result<()> = Allocator::free;
                let _: fn(&mut Allocator, &mut Allocation, &str) -> Result<()> = Allocator::rename_allocation;
                let _: fn(&mut Allocator, &ResourceCreateDesc<'_>) -> Result<Resource> = Allocator::create_resource;
                let _: fn(&mut Allocator, Resource) -> Result<()> = Allocator::free_resource;
                let _: fn(&Allocator, Level) = Allocator::report_memory_leaks;
                let _: fn(&Allocator) -> AllocatorReport = Allocator::generate_report;
                let _: fn(&Allocator) -> u64 = Allocator::capacity;

                let _: fn(&Allocation) -> Option<NonZeroU64> = Allocation::chunk_id;
                let _: unsafe fn(&Allocation) -> &ID3D12Heap = Allocation::heap;
                let _: fn(&Allocation) -> u64 = Allocation::offset;
                let _: fn(&Allocation) -> u64 = Allocation::size;
                let _: fn(&Allocation) -> bool = Allocation::is_null;

                let _: fn(&Resource) -> &ID3D12Resource = Resource::resource;
                type FromDesc<'a> =
                    fn(&ID3D12Device, &D3D12_RESOURCE_DESC, &'a str, MemoryLocation) -> AllocationCreateDesc<'a>;
                let _: FromDesc<'static> = AllocationCreateDesc::from_d3d12_resource_desc;
                let _: fn(&'static D3D12_RESOURCE_DESC) -> ResourceCategory = ResourceCategory::from;
            };

            /// Every public field has this type in both crates.
            #[allow(dead_code, reason = "that it compiles is the test")]
            fn fields(
                allocator: AllocatorCreateDesc,
                allocation: AllocationCreateDesc<'static>,
                resource: ResourceCreateDesc<'static>,
                made: &mut Resource,
                committed: &CommittedAllocationStatistics,
            ) {
                let AllocatorCreateDesc { device, debug_settings, allocation_sizes } = allocator;
                let _: (ID3D12DeviceVersion, AllocatorDebugSettings, AllocationSizes) =
                    (device, debug_settings, allocation_sizes);
                let AllocationCreateDesc { name, location, size, alignment, resource_category } = allocation;
                let _: (&str, MemoryLocation, u64) = (name, location, size);
                let _: (u64, ResourceCategory) = (alignment, resource_category);
                let ResourceCreateDesc {
                    name,
                    memory_location,
                    resource_category,
                    resource_desc,
                    castable_formats,
                    clear_value,
                    initial_state_or_layout,
                    resource_type,
                } = resource;
                let _: (&str, MemoryLocation, ResourceCategory) = (name, memory_location, resource_category);
                let _: (&D3D12_RESOURCE_DESC, &[DXGI_FORMAT]) = (resource_desc, castable_formats);
                let _: (Option<&D3D12_CLEAR_VALUE>, &ResourceType<'_>) = (clear_value, resource_type);
                let _: ResourceStateOrBarrierLayout = initial_state_or_layout;
                let _: Option<Allocation> = made.allocation.take();
                let _: (MemoryLocation, u64) = (made.memory_location, made.size);
                let CommittedAllocationStatistics { num_allocations, total_size } = committed;
                let _: (&usize, &u64) = (num_allocations, total_size);
            }

            #[allow(dead_code, reason = "that it compiles is the test")]
            fn variants(
                version: ID3D12DeviceVersion,
                start: ResourceStateOrBarrierLayout,
                category: ResourceCategory,
                resource_type: &ResourceType<'_>,
            ) {
                match version {
                    ID3D12DeviceVersion::Device(device) => is::<ID3D12Device>(device),
                    ID3D12DeviceVersion::Device10(device) => is::<ID3D12Device10>(device),
                    ID3D12DeviceVersion::Device12(device) => is::<ID3D12Device12>(device),
                }
                match start {
                    ResourceStateOrBarrierLayout::ResourceState(state) => is::<D3D12_RESOURCE_STATES>(state),
                    ResourceStateOrBarrierLayout::BarrierLayout(layout) => is::<D3D12_BARRIER_LAYOUT>(layout),
                }
                match category {
                    ResourceCategory::Buffer | ResourceCategory::RtvDsvTexture | ResourceCategory::OtherTexture => {}
                }
                match resource_type {
                    ResourceType::Committed { heap_properties, heap_flags } => {
                        let _: (&D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS) = (heap_properties, *heap_flags);
                    }
                    ResourceType::Placed => {}
                }
            }
        }
    };
}

surface!(published, theirs);
surface!(ours, gpu_allocator);
