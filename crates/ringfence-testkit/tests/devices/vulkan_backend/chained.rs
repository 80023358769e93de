//! Recycled textures and buffers with chained structures in their description. Each owner gets an object with its own
//! description.

use ash::vk;
use ringfence::device::sharing::ShareKind;
use ringfence::device::{DeviceError, Requirements, ResourceClass};
use ringfence::memory::Error;
use ringfence::vulkan::{Allocator, BufferInfo, TextureInfo};
use ringfence::{AllocationDesc, AllocatorDesc};

use crate::vulkan_backend::rig::Rig;

const UNORM: vk::Format = vk::Format::R8G8B8A8_UNORM;
const SRGB: [vk::Format; 2] = [UNORM, vk::Format::R8G8B8A8_SRGB];
const UINT: [vk::Format; 2] = [UNORM, vk::Format::R8G8B8A8_UINT];

/// Creates a texture for views of these formats and a view of each format, then drops the texture. The validation
/// layers report a view whose format the image does not allow.
fn viewed_as(memory: &Allocator, device: &ash::Device, formats: &[vk::Format]) -> vk::Image {
    let mut list = vk::ImageFormatListCreateInfo::default().view_formats(formats);
    let plain = TextureInfo::new(UNORM, 64, 64, vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
    let raw = plain.raw().flags(vk::ImageCreateFlags::MUTABLE_FORMAT).push_next(&mut list);
    // SAFETY: every device supports these formats and usages; the list is alive.
    let info = unsafe { TextureInfo::from_raw(raw) };
    let texture = memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
    let range = vk::ImageSubresourceRange::default().aspect_mask(vk::ImageAspectFlags::COLOR).level_count(1);
    let view = vk::ImageViewCreateInfo::default().image(texture.raw()).view_type(vk::ImageViewType::TYPE_2D);
    let view = view.subresource_range(range.layer_count(1));
    for format in formats {
        // SAFETY: the image is alive and has the format; no work uses the view.
        unsafe {
            let view = device.create_image_view(&view.format(*format), None).expect("a view");
            device.destroy_image_view(view, None);
        }
    }
    let raw = texture.raw();
    drop(texture);
    memory.reclaim();
    raw
}

fn recycled(memory: &Allocator) -> u64 {
    memory.statistics().calls.recycled
}

#[test]
fn a_texture_with_a_list_of_formats_is_recycled_for_the_same_list_only() {
    let Some(rig) = Rig::open() else { return };
    let (memory, device) = (Allocator::over(rig.device.clone(), AllocatorDesc::default()), rig.device.raw().clone());
    let [_first, kept, again] = std::array::from_fn(|_| viewed_as(&memory, &device, &SRGB));
    assert_eq!((again, recycled(&memory)), (kept, 1), "the first is not kept");
    (0..2).for_each(|_| _ = viewed_as(&memory, &device, &UINT));
    assert_eq!(recycled(&memory), 1, "another list");
    assert_eq!((viewed_as(&memory, &device, &SRGB), recycled(&memory)), (kept, 2));
    memory.debug().validate().expect("sound");
    drop(memory);
    rig.close();
}

#[test]
fn what_several_queue_families_share_is_recycled() {
    let Some(rig) = Rig::open() else { return };
    // SAFETY: the physical device belongs to the instance.
    let families = unsafe { rig.gpu.instance().get_physical_device_queue_family_properties(rig.device.physical()) };
    let families: Vec<u32> = (0..families.len() as u32).take(2).collect();
    if families.len() < 2 {
        return println!("skipped: the device has one queue family");
    }
    let memory = Allocator::over(rig.device.clone(), AllocatorDesc::default());
    let plain = BufferInfo::new(4096, vk::BufferUsageFlags::TRANSFER_DST);
    let shared = plain.raw().sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&families);
    for (raw, hits) in [(shared, 1), (*plain.raw(), 1)] {
        let before = recycled(&memory);
        for _ in 0..3 {
            // SAFETY: the description is valid; the list is alive.
            let info = unsafe { BufferInfo::from_raw(raw) };
            drop(memory.create_buffer(&info, AllocationDesc::default()).expect("there is room"));
            memory.reclaim();
        }
        assert_eq!(recycled(&memory) - before, hits, "one family and two are different");
    }
    drop(memory);
    rig.close();
}

/// An image with extended usage gets no safe views, because a view with the image's own format may not support all of
/// its usages.
#[test]
fn an_image_of_extended_usage_has_no_portable_description() {
    let Some(rig) = Rig::open() else { return };
    let memory = Allocator::over(rig.device.clone(), AllocatorDesc::default());
    let plain = TextureInfo::new(UNORM, 64, 64, vk::ImageUsageFlags::SAMPLED);
    for (flags, is_portable) in [
        (vk::ImageCreateFlags::MUTABLE_FORMAT, true),
        (vk::ImageCreateFlags::MUTABLE_FORMAT | vk::ImageCreateFlags::EXTENDED_USAGE, false),
    ] {
        // SAFETY: every device samples this format.
        let info = unsafe { TextureInfo::from_raw(plain.raw().flags(flags)) };
        let texture = memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
        assert_eq!(texture.desc().is_some(), is_portable, "{flags:?}");
    }
    drop(memory);
    rig.close();
}

/// Capture and replay, and sharing that is not enabled, are refused before they reach the driver.
#[test]
fn capture_and_replay_and_sharing_that_is_not_enabled_are_refused() {
    let Some(rig) = Rig::open() else { return };
    let memory = Allocator::over(rig.device.clone(), AllocatorDesc::default());
    let raw = vk::BufferCreateInfo::default().size(256).usage(vk::BufferUsageFlags::TRANSFER_DST);
    // SAFETY: it is refused before it reaches the driver.
    let info = unsafe { BufferInfo::from_raw(raw.flags(vk::BufferCreateFlags::DEVICE_ADDRESS_CAPTURE_REPLAY)) };
    let refused = memory.create_buffer(&info, AllocationDesc::default()).map(drop);
    assert!(matches!(refused, Err(Error::Device(DeviceError::Unsupported(_)))), "{refused:?}");
    let needs = Requirements {
        size: 256,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let other = if cfg!(windows) { ShareKind::OpaqueFd } else { ShareKind::OpaqueWin32 };
    let refused = memory.allocate(needs, AllocationDesc { share: Some(other), ..Default::default() }).map(drop);
    assert!(matches!(refused, Err(Error::Device(DeviceError::Unsupported(_)))), "{refused:?}");
    drop(memory);
    rig.close();
}
