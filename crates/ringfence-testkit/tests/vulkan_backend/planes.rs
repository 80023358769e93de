//! Moves of textures whose formats have no portable name: those of several planes, of which it is not known what is to be
//! copied (Mesa's software driver of version 22 has none), and others, whose whole description is compared.

use ash::vk;
use ringfence::defrag::{Defrag, DefragDesc, MoveError};
use ringfence::device::ResourceClass;
use ringfence::vulkan::TextureInfo;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Error, PoolDesc};
use ringfence_testkit::Gpu;
use ringfence_testkit::report::skipped;
use ringfence_testkit::vulkan::VulkanGpu;

use super::rig::Rig;

#[test]
fn a_move_of_several_planes_is_refused_for_what_it_is() {
    let Ok(gpu) = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let usage = vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let info = TextureInfo::new(vk::Format::G8_B8_R8_3PLANE_420_UNORM, 64, 64, usage);
    let first = match memory.create_texture(&info, AllocationDesc::default()) {
        Ok(first) => first,
        Err(Error::Device(_)) => return skipped("the device has no textures of several planes"),
        Err(error) => panic!("{error}"),
    };
    let block_bytes = 4 * first.memory_bytes();
    let class = ResourceClass::Texture;
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes, class, ..Default::default() };
    let pool = memory.create_pool(desc).expect("a sound description");
    let make = |_| pool.create_texture(&info, AllocationDesc { movable: true, ..Default::default() }).expect("room");
    let held: Vec<_> = (0..8).map(make).collect();
    let mut held: Vec<_> = held.into_iter().step_by(4).collect();
    memory.reclaim();
    // SAFETY: nothing is submitted.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let frame = timeline.begin();
    let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, ..Default::default() });
    let mut pass = run.begin_pass(&frame).expect("the frame is the allocator's own");
    let mut refused = 0;
    for texture in &mut held {
        let of_pass = pass.has(texture);
        let expected = if of_pass { MoveError::UnknownFormat } else { MoveError::NotInPass };
        assert_eq!(pass.copy_texture(texture).err(), Some(expected));
        assert_eq!(pass.copy_texture_as(texture, &info).err(), Some(MoveError::UnknownFormat));
        refused += u32::from(of_pass);
    }
    assert_ne!(refused, 0, "one of two blocks can be emptied");
    drop(pass);
    frame.discard();
    drop((run, held, first, pool));
    memory.shutdown(std::time::Duration::ZERO).expect("nothing was submitted");
    drop((timeline, memory));
    assert_eq!(gpu.close(), Vec::<String>::new(), "the validation layers have nothing to say");
}

#[test]
fn a_move_as_another_format_is_refused_where_neither_has_a_portable_name() {
    let Ok(gpu) = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let usage = vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let of = |format| TextureInfo::new(format, 64, 64, usage);
    let (info, other) = (of(vk::Format::A2R10G10B10_UNORM_PACK32), of(vk::Format::B8G8R8A8_SNORM));
    let first = match memory.create_texture(&info, AllocationDesc::default()) {
        Ok(first) => first,
        Err(Error::Device(_)) => return skipped("the device has no such format"),
        Err(error) => panic!("{error}"),
    };
    let (class, block_bytes) = (ResourceClass::Texture, 4 * first.memory_bytes());
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes, class, ..Default::default() };
    let pool = memory.create_pool(desc).expect("a sound description");
    let make = |_| pool.create_texture(&info, AllocationDesc { movable: true, ..Default::default() }).expect("room");
    let held: Vec<_> = (0..8).map(make).collect();
    let mut held: Vec<_> = held.into_iter().step_by(4).collect();
    memory.reclaim();
    // SAFETY: nothing is submitted.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let frame = timeline.begin();
    let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, ..Default::default() });
    let mut pass = run.begin_pass(&frame).expect("the frame is the allocator's own");
    let moved = held.iter_mut().find(|texture| pass.has(texture)).expect("one of two blocks can be emptied");
    assert_eq!(pass.copy_texture(moved).err(), Some(MoveError::NeedsInfo));
    assert_eq!(pass.copy_texture_as(moved, &other).err(), Some(MoveError::AnotherDescription));
    assert_eq!(pass.copy_texture_as(moved, &info).map(|copies| copies.len()), Ok(1));
    drop(pass);
    frame.discard();
    drop((run, held, first, pool));
    memory.shutdown(std::time::Duration::ZERO).expect("nothing was submitted");
    drop((timeline, memory));
    assert_eq!(gpu.close(), Vec::<String>::new(), "the validation layers have nothing to say");
}
