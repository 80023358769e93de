//! Recycled textures: those that the program leaves in the state in which they were made.

use ringfence::d3d12::{Device, ResourceInfo};
use ringfence::device::{Create, TextureDesc, TextureUsage, Textures};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;
use windows::Win32::Graphics::Direct3D12::{
    D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATES,
};
use windows::core::Interface;

const SIDE: u32 = 64;

fn info(device: &Device, usage: TextureUsage, state: D3D12_RESOURCE_STATES, returns: bool) -> ResourceInfo {
    let desc = TextureDesc { width: SIDE, height: SIDE, usage, ..TextureDesc::default() };
    let described = Create::<Textures>::describe(device, &desc).expect("an ordinary texture");
    ResourceInfo { initial_state: state, returns_to_initial_state: returns, ..described }
}

/// The commands of the test kit take a texture from the common state and leave it there.
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
    assert_eq!((again, memory.statistics().calls.recycled), (kept, 1), "the first may stay the only one");
    (0..3).for_each(|_| _ = make(common, false));
    assert_eq!(memory.statistics().calls.recycled, 1, "its owner has not said that it returns to its state");
    assert_ne!(make(D3D12_RESOURCE_STATE_COPY_DEST, true), kept, "one in the common state is kept");
    assert_eq!((memory.statistics().calls.recycled, memory.statistics().recycled_count), (1, 1));
    drop(memory);
    super::assert_silent(&mut gpu);
}
