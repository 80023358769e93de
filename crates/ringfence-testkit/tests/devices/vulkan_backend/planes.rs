//! Moves of textures whose format has no portable name. For multi-planar formats, the library does not know the copies
//! (version 22 of Mesa's software driver has no such formats). For others, the whole description is compared.

use ash::vk;
use ringfence::defrag::{Defrag, DefragDesc, DefragPass, MoveError};
use ringfence::device::ResourceClass;
use ringfence::memory::{Error, PoolDesc};
use ringfence::vulkan::{Texture, TextureInfo};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;
use ringfence_testkit::report::skipped;
use ringfence_testkit::vulkan::VulkanGpu;

use super::rig::Rig;

const COPIED: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::SAMPLED.as_raw()
        | vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
        | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

fn info(format: vk::Format, usage: vk::ImageUsageFlags) -> TextureInfo<'static> {
    TextureInfo::new(format, 64, 64, usage)
}

/// Begins a move of a texture with this description in a pool. Calls `check` with the pass and the texture.
fn in_a_move(info: &TextureInfo<'_>, check: impl FnOnce(&mut DefragPass<'_, ringfence::vulkan::Device>, &mut Texture)) {
    let Ok(gpu) = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let first = match memory.create_texture(info, AllocationDesc::default()) {
        Ok(first) => first,
        Err(Error::Device(_)) => return skipped("the device has no such format"),
        Err(error) => panic!("{error}"),
    };
    let (class, block_bytes) = (ResourceClass::Texture, 4 * first.memory_bytes());
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes, class, ..Default::default() };
    let pool = memory.create_pool(desc).expect("a sound description");
    let make = |_| pool.create_texture(info, AllocationDesc { movable: true, ..Default::default() }).expect("room");
    let held: Vec<_> = (0..8).map(make).collect();
    let mut held: Vec<_> = held.into_iter().step_by(4).collect();
    memory.reclaim();
    // SAFETY: no work is submitted.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let frame = timeline.begin();
    let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, ..Default::default() });
    let mut pass = run.begin_pass(&frame).expect("the frame is the allocator's own");
    let moved = held.iter_mut().find(|texture| pass.has(texture)).expect("one of two blocks can be emptied");
    check(&mut pass, moved);
    drop(pass);
    frame.discard();
    drop((run, held, first, pool));
    memory.shutdown(std::time::Duration::ZERO).expect("nothing was submitted");
    drop((timeline, memory));
    assert_eq!(gpu.close(), Vec::<String>::new(), "the validation layers report nothing");
}

#[test]
fn a_move_of_several_planes_is_refused_for_what_it_is() {
    let info = info(vk::Format::G8_B8_R8_3PLANE_420_UNORM, COPIED);
    in_a_move(&info, |pass, moved| {
        assert_eq!(pass.copy_texture(moved).err(), Some(MoveError::UnknownFormat));
        assert_eq!(pass.copy_texture_as(moved, &info).err(), Some(MoveError::UnknownFormat));
    });
}

#[test]
fn a_move_as_another_format_is_refused_where_neither_has_a_portable_name() {
    let of = |format| info(format, COPIED);
    let (info, other) = (of(vk::Format::B4G4R4A4_UNORM_PACK16), of(vk::Format::R4G4B4A4_UNORM_PACK16));
    in_a_move(&info, |pass, moved| {
        assert_eq!(pass.copy_texture(moved).err(), Some(MoveError::NeedsInfo));
        assert_eq!(pass.copy_texture_as(moved, &other).err(), Some(MoveError::AnotherDescription));
        assert_eq!(pass.copy_texture_as(moved, &info).map(|copies| copies.len()), Ok(1));
    });
}

#[test]
fn what_is_not_made_for_copies_is_not_moved_where_its_format_has_no_portable_name() {
    let info = info(vk::Format::B4G4R4A4_UNORM_PACK16, vk::ImageUsageFlags::SAMPLED);
    in_a_move(&info, |pass, moved| {
        assert_eq!(pass.copy_texture_as(moved, &info).err(), Some(MoveError::NotCopied));
    });
}
