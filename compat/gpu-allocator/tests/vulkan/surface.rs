//! The public surface: paths, names, fields, signatures and traits.
//!
//! The same lines are compiled against the published gpu-allocator and against this crate. An item that either crate
//! lacks does not compile. Patterns name every field and every variant, so an additional one does not compile either.

/// Defines the checks for one of the two crates, in a separate module.
macro_rules! surface {
    ($side:ident, $its:ident) => {
        mod $side {
            use std::ffi::c_void;
            use std::fmt::{Debug, Display};
            use std::hash::Hash;
            use std::num::NonZeroU64;
            use std::ops::Range;
            use std::ptr::NonNull;

            use ash::vk;
            use log::Level;
            use presser::Slab;
            use $its::vulkan::{
                Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc,
                MappedAllocationSlab,
            };
            use $its::{
                AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport,
                MemoryBlockReport, MemoryLocation, Result,
            };

            const fn send_sync<T: Send + Sync>() {}
            const fn shown<T: Debug>() {}
            const fn copied<T: Copy>() {}
            const fn cloned<T: Clone>() {}
            const fn compared<T: Eq>() {}
            const fn hashed<T: Hash>() {}
            const fn defaulted<T: Default>() {}
            const fn error<T: std::error::Error + Display>() {}
            const fn slab<T: Slab>() {}
            fn is<T>(_: T) {}

            const _: () = {
                send_sync::<Allocator>();
                send_sync::<Allocation>();
                send_sync::<AllocatorCreateDesc>();
                send_sync::<AllocationCreateDesc<'_>>();
                send_sync::<AllocationError>();
                send_sync::<AllocatorReport>();
                shown::<Allocator>();
                shown::<Allocation>();
                shown::<AllocationCreateDesc<'_>>();
                shown::<AllocationError>();
                shown::<AllocationReport>();
                shown::<AllocationScheme>();
                shown::<AllocationSizes>();
                shown::<AllocatorDebugSettings>();
                shown::<AllocatorReport>();
                shown::<MemoryLocation>();
                copied::<AllocationScheme>();
                copied::<AllocationSizes>();
                copied::<AllocatorDebugSettings>();
                copied::<MemoryLocation>();
                cloned::<AllocationCreateDesc<'_>>();
                cloned::<AllocationReport>();
                cloned::<AllocatorReport>();
                cloned::<MemoryBlockReport>();
                compared::<AllocationScheme>();
                compared::<MemoryLocation>();
                hashed::<MemoryLocation>();
                defaulted::<Allocation>();
                defaulted::<AllocationSizes>();
                defaulted::<AllocatorDebugSettings>();
                error::<AllocationError>();
                slab::<Allocation>();
                slab::<MappedAllocationSlab<'_>>();
            };

            const _: () = {
                let _: fn(&AllocatorCreateDesc) -> Result<Allocator> = Allocator::new;
                let _: fn(&mut Allocator, &AllocationCreateDesc<'_>) -> Result<Allocation> = Allocator::allocate;
                let _: fn(&mut Allocator, Allocation) -> Result<()> = Allocator::free;
                let _: fn(&mut Allocator, &mut Allocation, &str) -> Result<()> = Allocator::rename_allocation;
                let _: fn(&Allocator, Level) = Allocator::report_memory_leaks;
                let _: fn(&Allocator) -> AllocatorReport = Allocator::generate_report;
                let _: fn(&Allocator) -> u64 = Allocator::capacity;

                let _: fn(&mut Allocation) -> Option<MappedAllocationSlab<'_>> = Allocation::try_as_mapped_slab;
                let _: fn(&Allocation) -> Option<NonZeroU64> = Allocation::chunk_id;
                let _: fn(&Allocation) -> vk::MemoryPropertyFlags = Allocation::memory_properties;
                let _: unsafe fn(&Allocation) -> vk::DeviceMemory = Allocation::memory;
                let _: fn(&Allocation) -> bool = Allocation::is_dedicated;
                let _: fn(&Allocation) -> u64 = Allocation::offset;
                let _: fn(&Allocation) -> u64 = Allocation::size;
                let _: fn(&Allocation) -> Option<NonNull<c_void>> = Allocation::mapped_ptr;
                let _: fn(&Allocation) -> bool = Allocation::is_null;
                #[cfg(feature = "mapped-slice")]
                let _: fn(&Allocation) -> Option<&[u8]> = Allocation::mapped_slice;
                #[cfg(feature = "mapped-slice")]
                let _: fn(&mut Allocation) -> Option<&mut [u8]> = Allocation::mapped_slice_mut;

                let _: fn(u64, u64) -> AllocationSizes = AllocationSizes::new;
                let _: fn(AllocationSizes, u64) -> AllocationSizes = AllocationSizes::with_max_device_memblock_size;
                let _: fn(AllocationSizes, u64) -> AllocationSizes = AllocationSizes::with_max_host_memblock_size;
            };

            /// Every public field has this type in both crates. The settings are `#[non_exhaustive]` in both.
            #[allow(dead_code, reason = "that it compiles is the test")]
            fn fields(
                allocator: AllocatorCreateDesc,
                allocation: AllocationCreateDesc<'static>,
                report: AllocatorReport,
                settings: &mut AllocatorDebugSettings,
            ) {
                let AllocatorCreateDesc {
                    instance,
                    device,
                    physical_device,
                    debug_settings,
                    buffer_device_address,
                    allocation_sizes,
                } = allocator;
                let _: (ash::Instance, ash::Device, vk::PhysicalDevice) = (instance, device, physical_device);
                let _: (AllocatorDebugSettings, bool, AllocationSizes) =
                    (debug_settings, buffer_device_address, allocation_sizes);
                let AllocationCreateDesc { name, requirements, location, linear, allocation_scheme } = allocation;
                let _: (&'static str, vk::MemoryRequirements, MemoryLocation) = (name, requirements, location);
                let _: (bool, AllocationScheme) = (linear, allocation_scheme);
                let AllocatorReport { mut allocations, mut blocks, total_allocated_bytes, total_capacity_bytes } =
                    report;
                let _: (u64, u64) = (total_allocated_bytes, total_capacity_bytes);
                let AllocationReport { name, offset, size } = allocations.remove(0);
                let _: (String, u64, u64) = (name, offset, size);
                let MemoryBlockReport { size, allocations } = blocks.remove(0);
                let _: (u64, Range<usize>) = (size, allocations);
                settings.log_memory_information = true;
                settings.log_leaks_on_shutdown = true;
                settings.log_allocations = true;
                settings.log_frees = true;
                #[cfg(feature = "std")]
                {
                    settings.store_stack_traces = true;
                    settings.log_stack_traces = true;
                }
            }

            #[allow(dead_code, reason = "that it compiles is the test")]
            fn variants(location: MemoryLocation, scheme: AllocationScheme, error: &AllocationError) {
                match location {
                    MemoryLocation::Unknown
                    | MemoryLocation::GpuOnly
                    | MemoryLocation::CpuToGpu
                    | MemoryLocation::GpuToCpu => {}
                }
                match scheme {
                    AllocationScheme::DedicatedBuffer(buffer) => is::<vk::Buffer>(buffer),
                    AllocationScheme::DedicatedImage(image) => is::<vk::Image>(image),
                    AllocationScheme::GpuAllocatorManaged => {}
                }
                match error {
                    AllocationError::FailedToMap(why)
                    | AllocationError::InvalidAllocatorCreateDesc(why)
                    | AllocationError::Internal(why) => is::<String>(why.clone()),
                    AllocationError::OutOfMemory
                    | AllocationError::NoCompatibleMemoryTypeFound
                    | AllocationError::InvalidAllocationCreateDesc
                    | AllocationError::BarrierLayoutNeedsDevice10
                    | AllocationError::CastableFormatsRequiresEnhancedBarriers
                    | AllocationError::CastableFormatsRequiresAtLeastDevice12 => {}
                }
            }

            /// By default, only leaks are logged.
            #[test]
            fn only_leaks_are_reported_unless_more_is_asked_for() {
                let settings = AllocatorDebugSettings::default();
                let logged = (settings.log_memory_information, settings.log_allocations, settings.log_frees);
                assert_eq!((logged, settings.log_leaks_on_shutdown), ((false, false, false), true));
                #[cfg(feature = "std")]
                assert_eq!((settings.store_stack_traces, settings.log_stack_traces), (false, false));
            }

            #[test]
            fn words_of_the_cause_are_in_the_words_of_an_error() {
                let said = |error: AllocationError| error.to_string();
                assert!(said(AllocationError::FailedToMap("why".into())).contains("why"));
                assert!(said(AllocationError::InvalidAllocatorCreateDesc("why".into())).contains("why"));
                assert!(said(AllocationError::Internal("why".into())).contains("why"));
                let others = [
                    AllocationError::OutOfMemory,
                    AllocationError::NoCompatibleMemoryTypeFound,
                    AllocationError::InvalidAllocationCreateDesc,
                    AllocationError::BarrierLayoutNeedsDevice10,
                    AllocationError::CastableFormatsRequiresEnhancedBarriers,
                    AllocationError::CastableFormatsRequiresAtLeastDevice12,
                ];
                assert!(others.into_iter().map(said).all(|said| !said.is_empty()));
            }
        }
    };
}

surface!(published, theirs);
surface!(ours, gpu_allocator);
