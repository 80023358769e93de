//! Three-dimensional textures from descriptions of the backend, in the pools of the placement policy.

use ash::vk;
use ringfence::placement::{LocationKind, Placement, PlacementDesc, Route, TextureKind};
use ringfence::vulkan::TextureInfo;
use ringfence::{Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use super::rig::Rig;

fn volume(side: u32, usage: vk::ImageUsageFlags) -> TextureInfo<'static> {
    let raw = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_3D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .extent(vk::Extent3D { width: side, height: side, depth: side })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(vk::ImageTiling::OPTIMAL)
        .usage(usage | vk::ImageUsageFlags::TRANSFER_DST);
    // SAFETY: every device supports such images, with sides of up to 256 texels.
    unsafe { TextureInfo::from_raw(raw) }
}

#[test]
fn seed_004_06_textures_of_three_dimensions_have_the_same_pools() {
    let Ok(gpu) = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let placement = Placement::new(&memory, PlacementDesc::default()).expect("a sound description");
    let (sampled, storage) = (vk::ImageUsageFlags::SAMPLED, vk::ImageUsageFlags::STORAGE);
    let table = [
        (8, sampled, TextureKind::Sampled, TextureKind::SmallSampled),
        (64, sampled, TextureKind::Sampled, TextureKind::Sampled),
        (64, storage | sampled, TextureKind::Storage, TextureKind::Storage),
    ];
    let made = table.map(|(side, usage, kind, measured)| {
        let texture = placement.create_texture_as(kind, &volume(side, usage), "volume").expect("there is room");
        assert_eq!((texture.route(), texture.kind()), (Route::Textures(measured), LocationKind::Suballocated));
        texture
    });
    assert_eq!(placement.figures().textures.map(|pool| pool.range_count), [1, 1, 0, 1]);
    drop(made);
    assert_eq!(placement.end_frame().objects, 3);
    assert_eq!(placement.figures().textures.map(|pool| pool.range_count), [0; 4]);
    drop((placement, memory));
    assert_eq!(gpu.close(), Vec::<String>::new(), "the validation layers have nothing to say");
}
