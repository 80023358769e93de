//! Textures and formats that support copies of their texels.

use ash::vk;
use ringfence::device::{Dimension, TextureDesc};
use ringfence::vulkan::TextureInfo;

/// Returns all formats of Vulkan 1.0. Later versions up to 1.2 add no single-plane formats.
pub(super) fn formats() -> Vec<vk::Format> {
    (1..=184).map(vk::Format::from_raw).collect()
}

const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

/// Describes a texture for copies. Returns `None` if the device does not support it.
pub(super) fn describe(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    format: vk::Format,
    desc: &TextureDesc,
) -> Option<TextureInfo<'static>> {
    let (image_type, flags) = match desc.dimension {
        Dimension::D1 => (vk::ImageType::TYPE_1D, vk::ImageCreateFlags::empty()),
        Dimension::D2 => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::empty()),
        Dimension::Cube => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::CUBE_COMPATIBLE),
        Dimension::D3 => (vk::ImageType::TYPE_3D, vk::ImageCreateFlags::empty()),
    };
    // SAFETY: the physical device belongs to the instance and is alive.
    let features = unsafe { instance.get_physical_device_format_properties(physical, format) }.optimal_tiling_features;
    if !features.contains(vk::FormatFeatureFlags::TRANSFER_SRC | vk::FormatFeatureFlags::TRANSFER_DST) {
        return None;
    }
    let tiling = vk::ImageTiling::OPTIMAL;
    // SAFETY: as above.
    let most = unsafe {
        instance.get_physical_device_image_format_properties(physical, format, image_type, tiling, USAGE, flags)
    };
    let most = most.ok()?;
    let extent = vk::Extent3D { width: desc.width, height: desc.height, depth: desc.depth };
    let fits = extent.width <= most.max_extent.width
        && extent.height <= most.max_extent.height
        && extent.depth <= most.max_extent.depth
        && desc.layers <= most.max_array_layers
        && desc.mips <= most.max_mip_levels;
    let info = vk::ImageCreateInfo::default()
        .flags(flags)
        .image_type(image_type)
        .format(format)
        .extent(extent)
        .mip_levels(desc.mips)
        .array_layers(desc.layers)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(tiling)
        .usage(USAGE);
    // SAFETY: the description has no chained structures, and the device has just reported that it supports the image.
    fits.then(|| unsafe { TextureInfo::from_raw(info) })
}
