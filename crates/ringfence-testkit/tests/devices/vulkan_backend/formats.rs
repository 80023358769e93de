//! The reported uses of formats beside Vulkan's own properties of formats and images.

use ash::vk;
use ringfence::device::{Driver, Format, FormatUses as Uses};
use ringfence::vulkan::{DeviceSetup, Features};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use crate::vulkan_backend::rig::Rig;

const IMAGES: [(Uses, vk::ImageUsageFlags); 6] = [
    (Uses::COPY_SRC, vk::ImageUsageFlags::TRANSFER_SRC),
    (Uses::COPY_DST, vk::ImageUsageFlags::TRANSFER_DST),
    (Uses::SAMPLED, vk::ImageUsageFlags::SAMPLED),
    (Uses::STORAGE, vk::ImageUsageFlags::STORAGE),
    (Uses::RENDER_TARGET, vk::ImageUsageFlags::COLOR_ATTACHMENT),
    (Uses::DEPTH_STENCIL, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT),
];

fn image(gpu: &VulkanGpu, format: vk::Format, usage: vk::ImageUsageFlags) -> Option<vk::ImageFormatProperties> {
    let (kind, tiling, flags) = (vk::ImageType::TYPE_2D, vk::ImageTiling::OPTIMAL, vk::ImageCreateFlags::empty());
    let physical = gpu.device().physical();
    // SAFETY: the physical device belongs to the instance, which is alive.
    unsafe { gpu.instance().get_physical_device_image_format_properties(physical, format, kind, tiling, usage, flags) }
        .ok()
}

/// Returns the uses of a format and the numbers of samples of its targets, from Vulkan's queries alone.
fn expected(gpu: &VulkanGpu, format: Format) -> (Uses, u32) {
    let raw = ringfence::vulkan::format(format);
    // SAFETY: the physical device belongs to the instance, which is alive.
    let found = unsafe { gpu.instance().get_physical_device_format_properties(gpu.device().physical(), raw) };
    let (optimal, buffer) = (found.optimal_tiling_features, found.buffer_features);
    let mut uses = Uses::empty();
    IMAGES.into_iter().for_each(|(use_of, usage)| uses.set(use_of, image(gpu, raw, usage).is_some()));
    uses.set(Uses::FILTERED, optimal.contains(vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR));
    uses.set(Uses::BLENDED, optimal.contains(vk::FormatFeatureFlags::COLOR_ATTACHMENT_BLEND));
    let read = vk::FormatFeatureFlags::UNIFORM_TEXEL_BUFFER;
    uses.set(Uses::TEXELS, buffer.contains(read));
    uses.set(Uses::STORAGE_TEXELS, buffer.contains(read | vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER));
    let target = match format.is_depth_stencil() {
        true => vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT,
        false => vk::ImageUsageFlags::COLOR_ATTACHMENT,
    };
    (uses, image(gpu, raw, target).map_or(0, |found| found.sample_counts.as_raw()))
}

#[test]
fn reported_uses_of_formats_are_those_of_the_driver() {
    let Some(rig) = Rig::open() else { return };
    for &format in Format::ALL {
        let found = rig.device.format_support(format);
        assert_eq!((found.uses, found.sample_counts), expected(&rig.gpu, format), "{format:?}");
    }
    rig.close();
}

#[test]
fn a_setup_reports_the_features_of_the_driver() {
    let Some(rig) = Rig::open() else { return };
    let (instance, physical) = (rig.gpu.instance(), rig.device.physical());
    // SAFETY: the physical device belongs to the instance, which was created for Vulkan 1.2.
    let (setup, core) = unsafe {
        let setup = DeviceSetup::query(instance, physical, Features::empty()).expect("Vulkan 1.2");
        (setup, instance.get_physical_device_features(physical))
    };
    assert_eq!(format!("{:?}", setup.supported()), format!("{core:?}"));
    assert_eq!(setup.supported_12().timeline_semaphore, vk::TRUE, "the library needs it");
    assert_eq!(setup.core.texture_compression_bc, vk::FALSE, "only the program enables it");
    rig.close();
}
