//! Recycling of textures and buffers on Direct3D 12, where a recycled texture must be in its initial state.

use ringfence::d3d12::{Backing, Device, ResourceInfo, backing};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, TextureDesc, TextureUsage, Textures,
};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated};
use ringfence_testkit::Gpu;
use windows::Win32::Graphics::Direct3D12::{
    D3D12_HEAP_FLAG_CREATE_NOT_ZEROED, D3D12_HEAP_FLAGS, D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS,
    D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COPY_SOURCE,
    D3D12_RESOURCE_STATES, ID3D12Resource,
};
use windows::core::Interface;

const SIDE: u32 = 64;

fn info(device: &Device, usage: TextureUsage, state: D3D12_RESOURCE_STATES, returns: bool) -> ResourceInfo {
    let desc = TextureDesc { width: SIDE, height: SIDE, usage, ..TextureDesc::default() };
    let described = Create::<Textures>::describe(device, &desc).expect("an ordinary texture");
    ResourceInfo { initial_state: state, returns_to_initial_state: returns, ..described }
}

/// A texture is recycled if it was described with `returns_to_initial_state` and its initial state is `COMMON`. Each
/// command of the test kit returns its textures to `COMMON`, so the promise holds.
#[test]
fn a_texture_that_is_left_in_its_initial_state_is_recycled_and_holds_what_each_owner_writes() {
    let Some(mut gpu) = super::open(1) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let copied = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::SAMPLED;
    for usage in [copied, copied | TextureUsage::RENDER_TARGET, copied | TextureUsage::STORAGE] {
        let before = memory.statistics().calls;
        for seed in 0..8 {
            let info = info(&gpu.device(), usage, D3D12_RESOURCE_STATE_COMMON, true);
            let texture = memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
            let texels = super::pattern((SIDE * SIDE * 4) as usize, seed);
            super::upload_texture(&mut gpu, texture.raw(), SIDE, SIDE, &texels);
            assert!(super::download_texture(&mut gpu, texture.raw(), SIDE, SIDE) == texels, "owner {seed}");
            drop(texture);
            memory.reclaim();
        }
        let after = memory.statistics().calls;
        assert_eq!(after.recycled - before.recycled, 6, "all but the first, which is not kept, and the second");
        assert_eq!(after.create_object - before.create_object, 2);
    }
    memory.debug().validate().expect("sound");
    drop(memory);
    super::assert_silent(&mut gpu);
}

#[test]
fn a_texture_is_not_recycled_for_another_state_nor_without_its_owners_word() {
    let Some(mut gpu) = super::open(1) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let device = gpu.device();
    let make = |state, returns| {
        let texture = memory.create_texture(&info(&device, usage, state, returns), AllocationDesc::default());
        let texture = texture.expect("there is room");
        let raw = texture.raw().as_raw();
        drop(texture);
        memory.reclaim();
        raw
    };
    let common = D3D12_RESOURCE_STATE_COMMON;
    let [_first, kept, again] = std::array::from_fn(|_| make(common, true));
    assert_eq!((again, memory.statistics().calls.recycled), (kept, 1), "the first object may be reused every time");
    (0..3).for_each(|_| _ = make(common, false));
    assert_eq!(memory.statistics().calls.recycled, 1, "its owner does not guarantee that it returns to its state");
    assert_ne!(make(D3D12_RESOURCE_STATE_COPY_DEST, true), kept, "only a texture in the common state is cached");
    assert_eq!((memory.statistics().calls.recycled, memory.statistics().recycled_count), (1, 1));
    drop(memory);
    super::assert_silent(&mut gpu);
}

/// Buffers, and textures for simultaneous access, are recycled with any described initial state: the API ignores it,
/// and they start and end in the common state.
#[test]
fn buffers_and_simultaneous_textures_are_recycled_whatever_initial_state_they_name() {
    let Some(mut gpu) = super::open(1) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let device = gpu.device();
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let mut texture = info(&device, usage, D3D12_RESOURCE_STATE_COMMON, false);
    texture.desc.Flags |= D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS;
    let buffer = BufferDesc { size: 1 << 20, usage: BufferUsage::COPY_DST };
    let buffer = Create::<Buffers>::describe(&device, &buffer).expect("a plain buffer");
    for state in [D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_SOURCE] {
        let before = memory.statistics().calls.recycled;
        for _ in 0..4 {
            let info = ResourceInfo { initial_state: state, ..buffer };
            drop(memory.create_buffer(&info, AllocationDesc::default()).expect("there is room"));
            memory.reclaim();
            let info = ResourceInfo { initial_state: state, ..texture };
            drop(memory.create_texture(&info, AllocationDesc::default()).expect("there is room"));
            memory.reclaim();
        }
        let recycled = memory.statistics().calls.recycled - before;
        assert!(recycled >= 4, "{state:?}: {recycled}");
    }
    drop(memory);
    super::assert_silent(&mut gpu);
}

/// Returns the flags of a resource's heap.
fn heap_flags(texture: &ID3D12Resource) -> D3D12_HEAP_FLAGS {
    let mut flags = D3D12_HEAP_FLAGS::default();
    // SAFETY: the texture is alive and has a heap; the flags live through the call.
    unsafe { texture.GetHeapProperties(None, Some(&mut flags)) }.expect("it has a heap");
    flags
}

/// A zeroed texture has new memory of its own: it is not placed, not shared and not recycled. The test does not check
/// the zeros, because Wine does not keep this promise of Windows.
#[test]
fn a_zeroed_resource_is_committed_and_never_recycled() {
    let Some(mut gpu) = super::open(1) else { return };
    let device = gpu.device();
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET;
    let plain = info(&device, usage, D3D12_RESOURCE_STATE_COMMON, true);
    let zeroed = ResourceInfo { zeroed: true, ..plain };
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let texture = memory.create_texture(&plain, alone).expect("there is room");
    let is_left = heap_flags(texture.raw()).contains(D3D12_HEAP_FLAG_CREATE_NOT_ZEROED);
    assert_eq!(is_left, device.features().not_zeroed, "a plain texture, if the runtime knows the flag");
    drop(texture);
    memory.reclaim();
    for _ in 0..3 {
        let texture = memory.create_texture(&zeroed, AllocationDesc::default()).expect("there is room");
        assert_eq!(backing(texture.raw()), Backing::Committed);
        assert!(!heap_flags(texture.raw()).contains(D3D12_HEAP_FLAG_CREATE_NOT_ZEROED));
        drop(texture);
        memory.reclaim();
    }
    assert_eq!(memory.statistics().calls.recycled, 0);
    let never = AllocationDesc { dedicated: Dedicated::Never, ..Default::default() };
    assert!(memory.create_texture(&zeroed, never).is_ok(), "like any resource that requires its own memory");
    // SAFETY: the description holds no pointer.
    let (unplaced, needs) = unsafe { Create::<Textures>::prepare(&device, &zeroed) }.expect("it can be measured");
    let heap = super::heap(&device, 0, 4 << 20, needs.class).expect("there is room");
    // SAFETY: the heap is larger than the texture.
    let placed = unsafe { Create::<Textures>::place(&device, &unplaced, &heap, 0) };
    assert!(matches!(placed, Err(DeviceError::Unsupported(_))));
    // SAFETY: it contains no resources.
    unsafe { device.free_memory(heap) };
    drop(memory);
    super::assert_silent(&mut gpu);
}
