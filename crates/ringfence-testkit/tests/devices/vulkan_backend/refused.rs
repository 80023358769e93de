//! Requests that Vulkan forbids are refused by name before they reach the driver. The driver decides only rules that
//! only it knows.

use ash::vk::{self, MemoryHeapFlags as HeapFlags, MemoryPropertyFlags as Flags};
use ringfence::device::descriptors::{Descriptors, HeapDesc, HeapKind, PortableView, SamplerDesc, ViewTypes};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, MemoryDesc, MemoryProperties as P, Numbers,
    Requirements, ResourceClass, TextureDesc, TextureUsage, Textures,
};
use ringfence::memory::{Error, PoolDesc};
use ringfence::vulkan::{Allocator, BufferInfo, Device, Features};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use crate::vulkan_backend::altered::{Altered, noted, with_altered_device};
use crate::vulkan_backend::rig::Rig;

const PLAIN: Requirements = Requirements {
    size: 4096,
    alignment: 256,
    memory_type_bits: u32::MAX,
    class: ResourceClass::Buffer,
    prefers_dedicated: false,
    requires_dedicated: false,
};

/// Returns the rule that a request broke.
fn rule<T>(made: Result<T, Error>) -> &'static str {
    match made.map(drop) {
        Err(Error::Device(DeviceError::Unsupported(reason))) => reason.rule,
        other => panic!("{other:?}"),
    }
}

/// Memory that was allocated for one resource accepts only that resource. Dedicated memory without a resource accepts
/// any.
#[test]
fn memory_that_was_made_for_one_resource_takes_no_other() {
    let Some(rig) = Rig::open() else { return };
    let memory = Allocator::over(rig.device.clone(), AllocatorDesc::default());
    let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let texture = TextureDesc { usage: TextureUsage::SAMPLED, ..Default::default() };
    let texture = Create::<Textures>::describe(&rig.device, &texture).expect("a plain texture");
    let buffer = BufferInfo::new(256, vk::BufferUsageFlags::TRANSFER_DST);
    let expected = "a resource in memory that was allocated for another";
    // SAFETY: the descriptions come from the device. Each object is discarded, unbound, before its memory is freed.
    unsafe {
        let (image, needs) = Create::<Textures>::prepare(&rig.device, &texture).expect("a plain texture");
        let mut of_image = memory.allocate_for::<Textures>(&image, needs, desc).expect("there is room");
        assert!(of_image.is_dedicated() && of_image.memory().is_tied());
        assert_eq!(rule(of_image.create_aliasing_texture(&texture, 0, "")), expected);
        Create::<Textures>::discard(&rig.device, image);
        let (raw, needs) = Create::<Buffers>::prepare(&rig.device, &buffer).expect("a plain buffer");
        let mut of_buffer = memory.allocate_for::<Buffers>(&raw, needs, desc).expect("there is room");
        assert_eq!(rule(of_buffer.create_aliasing_buffer(&buffer, 0, "")), expected);
        Create::<Buffers>::discard(&rig.device, raw);
        let (raw, needs) = Create::<Buffers>::prepare(&rig.device, &buffer).expect("a plain buffer");
        let in_block = AllocationDesc { dedicated: Dedicated::Never, ..desc };
        let mut shared = memory.allocate_for::<Buffers>(&raw, needs, in_block).expect("there is room");
        shared.create_aliasing_buffer(&buffer, 0, "").expect("the block is any resource's");
        Create::<Buffers>::discard(&rig.device, raw);
        let mut of_none = memory.allocate(needs, desc).expect("there is room");
        assert!(of_none.is_dedicated());
        of_none.create_aliasing_buffer(&buffer, 0, "").expect("the memory was made for no other");
    }
    drop(memory);
    rig.close();
}

const PROTECTED: &str = "memory of a protected type without Features::PROTECTED_MEMORY";
const COHERENT: &str = "memory of a device-coherent type without Features::DEVICE_COHERENT_MEMORY";
const TILE: &str = "memory of a tile memory heap";
/// Memory types that are added after those of the driver.
const SPECIAL: [(Flags, HeapFlags); 3] = [
    (Flags::from_raw(Flags::DEVICE_LOCAL.as_raw() | Flags::PROTECTED.as_raw()), HeapFlags::DEVICE_LOCAL),
    (Flags::from_raw(Flags::DEVICE_LOCAL.as_raw() | Flags::DEVICE_COHERENT_AMD.as_raw()), HeapFlags::DEVICE_LOCAL),
    (Flags::DEVICE_LOCAL, HeapFlags::from_raw(HeapFlags::DEVICE_LOCAL.as_raw() | 8)),
];

#[test]
fn memory_types_that_take_a_feature_are_refused_without_it() {
    let altered = Altered { types: &SPECIAL, ..Default::default() };
    let enabled = Features::PROTECTED_MEMORY | Features::DEVICE_COHERENT_MEMORY;
    for features in [Features::empty(), enabled] {
        with_altered_device(altered, features, |device, own| {
            let memory = Allocator::over(device.clone(), AllocatorDesc::default());
            let cases = [(0, P::PROTECTED, PROTECTED), (1, P::SPECIAL, COHERENT), (2, P::SPECIAL, TILE)];
            for (index, property, expected) in cases {
                let memory_type = own + index;
                let is_refused = features.is_empty() || index == 2;
                let bits = Requirements { memory_type_bits: 1 << memory_type, ..PLAIN };
                let pool = PoolDesc { memory_type, ..Default::default() };
                let named = [
                    AllocationDesc { required: property, ..Default::default() },
                    AllocationDesc { preferred: property, ..Default::default() },
                    AllocationDesc { required: property, dedicated: Dedicated::Always, ..Default::default() },
                ];
                for desc in named {
                    if is_refused {
                        assert_eq!(rule(memory.allocate(bits, desc)), expected, "{desc:?}");
                    } else {
                        assert_eq!(memory.allocate(bits, desc).expect("it is enabled").memory_type(), memory_type);
                    }
                }
                // The request allows other memory types too.
                let preferring = AllocationDesc { preferred: property, ..Default::default() };
                let taken = memory.allocate(PLAIN, preferring).expect("there is another").memory_type();
                assert_eq!(taken < own, features.is_empty(), "{property:?} in {taken}");
                if is_refused {
                    assert_eq!(rule(memory.create_pool(pool)), "a pool of a memory type that the device refuses");
                    let none = memory.allocate(bits, AllocationDesc::default()).map(drop);
                    assert!(matches!(none, Err(Error::NoMemoryType { .. })), "{none:?}");
                } else {
                    memory.create_pool(pool).expect("enabled").allocate(bits, preferring).expect("enabled");
                }
            }
            let taken = noted().allocated;
            let is_allowed = |index: &u32| *index < own || (*index < own + 2 && !features.is_empty());
            assert!(taken.iter().all(is_allowed), "{taken:?} of {own}");
        });
    }
}

#[test]
fn more_samplers_than_the_device_allows_are_refused_with_numbers() {
    let altered = Altered { limits: |limits| limits.max_sampler_allocation_count = 3, ..Default::default() };
    with_altered_device(altered, Features::PARTIALLY_BOUND, |device, _| {
        let desc = HeapDesc {
            kind: HeapKind::Samplers,
            types: ViewTypes::empty(),
            slots: 8,
            layout_slots: 8,
            shader_visible: false,
            name: "",
        };
        let (heap, _) = device.make_heap(&desc).expect("a heap in host memory");
        let view = device.describe_view(&PortableView::Sampler(SamplerDesc::default())).expect("a plain sampler");
        // SAFETY: the heap has these slots, no work uses them, and each leftover is discarded once.
        unsafe {
            (0..3).for_each(|slot| drop(device.write_view(&heap, slot, &view).expect("so many may be")));
            let numbers = Numbers::AtMost { given: 4, max: 3 };
            let refused = DeviceError::unsupported("this many samplers at once").with(numbers);
            assert_eq!(device.write_view(&heap, 3, &view).map(drop), Err(refused));
            let leftover = device.clear_view(&heap, 0).expect("its sampler");
            assert_eq!(device.write_view(&heap, 3, &view).map(drop), Err(refused), "it may be in use");
            device.discard_leftover(leftover);
            assert!(device.write_view(&heap, 3, &view).expect("there are two").is_none());
            device.destroy_heap(heap);
        }
        assert_eq!(noted().most_samplers, 3);
    });
}

/// The memory of placeholders and descriptor buffers, which the allocator does not own, counts towards the limit.
#[test]
fn the_memory_of_descriptor_heaps_counts_with_all_other() {
    const MAX: u64 = 6;
    let altered = Altered { limits: |limits| limits.max_memory_allocation_count = MAX as u32, ..Default::default() };
    with_altered_device(altered, Features::empty(), |device, _| {
        let desc = HeapDesc {
            kind: HeapKind::Resources,
            types: ViewTypes::STORAGE_BUFFER,
            slots: 4,
            layout_slots: 4,
            shader_visible: true,
            name: "",
        };
        let (heap, _) = device.make_heap(&desc).expect("there is room");
        let of_heap = noted().live_memories;
        assert!(of_heap > 0, "placeholders have memory");
        let desc = MemoryDesc {
            memory_type: 0,
            size: 4096,
            alignment: 1,
            class: ResourceClass::Buffer,
            priority: Default::default(),
            name: "",
            share: None,
        };
        // SAFETY: type 0 exists; the memory contains no resources, and no work uses the heap.
        unsafe {
            let held: Vec<_> = (of_heap..MAX).map(|_| device.allocate_memory(&desc).expect("so many may be")).collect();
            assert_eq!(device.allocate_memory(&desc).map(drop), Err(DeviceError::TooManyObjects));
            device.destroy_heap(heap);
            let again = device.allocate_memory(&desc).expect("the heap's is free");
            held.into_iter().chain([again]).for_each(|memory| device.free_memory(memory));
        }
        assert_eq!(noted().most_memories, MAX);
    });
}

#[cfg(unix)]
mod imported {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use ringfence::memory::{AccessError, Allocation};
    use ringfence::sharing::{self, ShareError, ShareKind, SharedMemory};

    use super::*;

    const SHARING: Features = Features::EXTERNAL_MEMORY_FD.union(Features::EXTERNAL_MEMORY_DMA_BUF);
    /// One memory type that is added after those of the driver.
    const ONE_MORE: Altered = Altered {
        types: &[(Flags::DEVICE_LOCAL, HeapFlags::DEVICE_LOCAL)],
        limits: |_| {},
        can_map: true,
        dma_buf_types: |_| 0,
    };

    fn handle() -> OwnedFd {
        File::open("/dev/null").expect("every Unix has it").into()
    }

    /// Describes memory that another device shares, with its memory type there.
    fn shared(memory_type: u32) -> SharedMemory {
        let (identity, memory_bytes, size) = ([7; 32], 65_536, 65_536);
        SharedMemory { kind: ShareKind::DmaBuf, identity, memory_bytes, memory_type, is_tied: false, offset: 0, size }
    }

    fn import(memory: &Allocator, from: &SharedMemory) -> Result<Allocation<Device>, ShareError> {
        let desc = AllocationDesc { location: Location::Device, ..Default::default() };
        // SAFETY: the handle comes from no real memory; the altered driver accepts any handle.
        unsafe { sharing::import_memory(memory, handle(), from, ResourceClass::Buffer, desc) }
    }

    #[test]
    fn a_dma_buf_has_a_memory_type_that_the_driver_takes_it_for() {
        for (index, dma_buf_types) in [(0, (|_| 0b1) as fn(u32) -> u32), (1, |own| 1 << own)] {
            with_altered_device(Altered { dma_buf_types, ..ONE_MORE }, SHARING, |device, own| {
                let memory = Allocator::over(device.clone(), AllocatorDesc::default());
                // Memory types of the other device, which may have more types than this one.
                for theirs in [0, 1, own, 31, 77] {
                    let imported = import(&memory, &shared(theirs)).expect("the driver takes it");
                    assert_eq!(imported.memory_type(), index * own, "{theirs} there");
                    drop(imported);
                    memory.reclaim();
                }
            });
        }
    }

    /// The memory type is one that both the dma-buf and the buffer allow.
    #[test]
    fn a_dma_buf_with_a_buffer_is_taken_for_a_type_of_both() {
        with_altered_device(Altered { dma_buf_types: |own| 1 << own | 1, ..ONE_MORE }, SHARING, |device, own| {
            let memory = Allocator::over(device.clone(), AllocatorDesc::default());
            let info = Create::<Buffers>::describe(device, &BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC });
            let info = info.expect("a plain buffer");
            for theirs in [0, own, 77] {
                // SAFETY: the handle comes from no real memory; the altered driver accepts any handle.
                let made = unsafe {
                    sharing::import_buffer(&memory, &info, handle(), &shared(theirs), AllocationDesc::default())
                };
                assert!(made.expect("one type supports both").memory_type() < own);
                memory.reclaim();
            }
        });
        with_altered_device(Altered { dma_buf_types: |own| 1 << own, ..ONE_MORE }, SHARING, |device, _| {
            let memory = Allocator::over(device.clone(), AllocatorDesc::default());
            let info = Create::<Buffers>::describe(device, &BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC });
            let info = info.expect("a plain buffer");
            // SAFETY: as above.
            let made =
                unsafe { sharing::import_buffer(&memory, &info, handle(), &shared(0), AllocationDesc::default()) };
            assert!(matches!(made.map(drop), Err(ShareError::Make(Error::WrongMemoryType { .. }))));
        });
    }

    /// The host cannot access the imported memory, but all other uses work.
    #[test]
    fn imported_memory_that_cannot_be_mapped_is_imported_all_the_same() {
        const SEEN: &[(Flags, HeapFlags)] = &[(Flags::from_raw(0b110), HeapFlags::empty())];
        let altered = Altered { types: SEEN, can_map: false, dma_buf_types: |own| 1 << own, ..ONE_MORE };
        with_altered_device(altered, SHARING, |device, own| {
            let memory = Allocator::over(device.clone(), AllocatorDesc::default());
            let mut imported = import(&memory, &shared(0)).expect("mapping is of no need");
            assert!(imported.memory_type() == own && imported.mapped().is_none());
            assert_eq!(imported.write(0, &[1]), Err(AccessError::NotMapped));
            assert_eq!(imported.read(0, &mut [0]), Err(AccessError::NotMapped));
            let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
            let made = memory.allocate(Requirements { memory_type_bits: 1 << own, ..PLAIN }, desc).map(drop);
            let Err(Error::OutOfMemory { cause: DeviceError::MapFailed, .. }) = made else { panic!("{made:?}") };
        });
    }
}
