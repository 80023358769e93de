//! Opening a device: its physical device, queues and features.

use std::sync::{Arc, Mutex};

use ash::vk;
use ringfence::device::descriptors::DescriptorModel;
use ringfence::vulkan::{Device, DeviceDesc, DeviceSetup, Features};

use super::draw::{self, Painter};
use super::instance::{Instance, ONE_AT_A_TIME, absent};
use super::queue::{self, Queue};
use super::{GateValues, VulkanGpu, enumerate, failed};
use crate::{OpenError, Options};

/// Opens a device; see [`crate::Gpu::open`].
pub(super) fn open(options: &Options) -> Result<VulkanGpu, OpenError> {
    let _one = ONE_AT_A_TIME.lock();
    let instance = Instance::new(options)?;
    let physical = choose_device(&instance, options.name.as_deref())?;
    // SAFETY: the physical device belongs to the instance, which is alive.
    let families = unsafe { instance.raw().get_physical_device_queue_family_properties(physical) };
    let (family, queue_count) = choose_queues(&families, options.queues.max(1))
        .ok_or_else(|| absent("the Vulkan device has no queue for compute work"))?;
    let can_bind = families[family as usize].queue_flags.contains(vk::QueueFlags::SPARSE_BINDING);
    let wanted = wanted(options, instance.has_debug_utils(), can_bind);
    let copy_family = choose_copy_family(&families, family);
    let (raw, desc) = create_device(instance.raw(), physical, [(family, queue_count), (copy_family, 1)], wanted)?;
    // SAFETY: the device was just created from these handles, for Vulkan 1.2, with timeline semaphores and the features
    // in `desc`.
    let device = unsafe { Device::new(instance.raw(), physical, raw.clone(), desc) };
    let device = device.map_err(|error| {
        // SAFETY: the device has no objects yet.
        unsafe { raw.destroy_device(None) };
        OpenError::Failed { what: "reading the capabilities of the Vulkan device", error }
    })?;
    let gate = vk::Semaphore::null();
    let gate_values = Arc::new(Mutex::new(Some(GateValues::default())));
    let (queues, pipelines) = (Vec::new(), Default::default());
    let queue_family = family;
    let painter = None;
    let mut gpu =
        VulkanGpu { queues, gate, gate_values, queue_family, copy_family, painter, pipelines, device, instance };
    // Number of queues of the test kit. They share the `queue_count` queues of the device.
    let wanted = if options.shared_queues { options.queues.max(1) as u32 } else { queue_count };
    create_objects(&mut gpu, physical, (wanted, queue_count))?;
    Ok(gpu)
}

/// Creates the objects that the device needs to run commands. On failure, dropping `gpu` destroys those that exist.
fn create_objects(
    gpu: &mut VulkanGpu,
    physical: vk::PhysicalDevice,
    (wanted, queue_count): (u32, u32),
) -> Result<(), OpenError> {
    gpu.gate = queue::timeline(gpu.device.raw()).map_err(failed("creating the gate"))?;
    for index in 0..wanted {
        let queue = Queue::new(gpu.device.raw(), gpu.queue_family, index % queue_count);
        gpu.queues.push(queue.map_err(failed("creating a queue's timeline"))?);
    }
    if draw::is_supported(gpu.instance.raw(), physical) {
        gpu.painter = Some(Painter::new(gpu.device.raw()).map_err(failed("creating the pipeline of Draw"))?);
    }
    Ok(())
}

/// Returns the best physical device with Vulkan 1.2 and `part` in its name. Ignores case.
fn choose_device(instance: &Instance, part: Option<&str>) -> Result<vk::PhysicalDevice, OpenError> {
    let part = part.unwrap_or_default().to_lowercase();
    let mut seen = Vec::new();
    let mut best: Option<(u32, vk::PhysicalDevice)> = None;
    for physical in instance.physical_devices()? {
        // SAFETY: the physical device belongs to the instance, which is alive.
        let properties = unsafe { instance.raw().get_physical_device_properties(physical) };
        let name = enumerate::name(&properties);
        let rank = rank(properties.device_type);
        let fits = properties.api_version >= vk::API_VERSION_1_2 && name.to_lowercase().contains(&part);
        if fits && best.is_none_or(|(held, _)| rank < held) {
            best = Some((rank, physical));
        }
        seen.push(format!("{name} (Vulkan {})", enumerate::version(properties.api_version)));
    }
    best.map(|(_, physical)| physical).ok_or_else(|| {
        absent(&format!("no device with Vulkan 1.2 and \"{part}\" in its name; the devices are: {}", seen.join(", ")))
    })
}

/// Returns the rank of a device type. A smaller rank is better.
fn rank(device_type: vk::PhysicalDeviceType) -> u32 {
    match device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 3,
        _ => 4,
    }
}

/// Returns a queue family for compute work, and the number of queues to create. Prefers the family with the most
/// queues, up to `wanted`, then a family that supports graphics, then the first family.
fn choose_queues(families: &[vk::QueueFamilyProperties], wanted: usize) -> Option<(u32, u32)> {
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    let mut best: Option<((u32, bool), u32)> = None;
    for (index, family) in (0..).zip(families) {
        let merit = (family.queue_count.min(wanted), family.queue_flags.contains(vk::QueueFlags::GRAPHICS));
        let fits = family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0;
        if fits && best.is_none_or(|(held, _)| merit > held) {
            best = Some((merit, index));
        }
    }
    best.map(|((count, _), index)| (index, count))
}

/// Returns a family other than `family` that can copy, if possible one that can only copy. Returns `family` if there is
/// no other family.
fn choose_copy_family(families: &[vk::QueueFamilyProperties], family: u32) -> u32 {
    let work = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let copies = vk::QueueFlags::TRANSFER | work;
    let others = (0..).zip(families).filter(|(index, other)| {
        let whole_texels = other.min_image_transfer_granularity.width == 1;
        *index != family && other.queue_count > 0 && other.queue_flags.intersects(copies) && whole_texels
    });
    // A pure copy engine has no other flags. Other families that copy, such as video queues, are a second choice.
    let rank = |flags: vk::QueueFlags| {
        (flags.intersects(work), (flags & !(vk::QueueFlags::TRANSFER | vk::QueueFlags::SPARSE_BINDING)).as_raw())
    };
    others.min_by_key(|(_, other)| rank(other.queue_flags)).map_or(family, |(index, _)| index)
}

/// Creates the device with those of the `wanted` features that it supports.
fn create_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    families: [(u32, u32); 2],
    wanted: Features,
) -> Result<(ash::Device, DeviceDesc), OpenError> {
    // SAFETY: the physical device belongs to the instance, is alive, and supports Vulkan 1.2.
    let setup = unsafe { DeviceSetup::query(instance, physical, wanted) };
    let mut setup = setup.map_err(|error| OpenError::Failed { what: "the features of the Vulkan device", error })?;
    let (names, desc) = (setup.extension_names(), setup.desc());
    let priorities = vec![1.0; families[0].1.max(families[1].1) as usize];
    let queues = families.map(|(family, count)| {
        let priorities = &priorities[..count as usize];
        vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(priorities)
    });
    // A family may be listed only once.
    let queues = if families[0].0 == families[1].0 { &queues[..1] } else { &queues[..] };
    let info = vk::DeviceCreateInfo::default().queue_create_infos(queues).enabled_extension_names(&names);
    let info = setup.chain(info);
    // SAFETY: the queues, extensions and features exist.
    let raw = unsafe { instance.create_device(physical, &info, None) }.map_err(failed("creating a Vulkan device"))?;
    Ok((raw, desc))
}

/// Returns the features that the options request. `can_bind` is `true` if the queues can bind pages.
fn wanted(options: &Options, debug_utils: bool, can_bind: bool) -> Features {
    let mut wanted = Features::USUAL | Features::DESCRIPTOR_BUFFER;
    wanted.set(Features::DEBUG_UTILS, debug_utils);
    let descriptors = if options.placeholders { Some(DescriptorModel::PlainSets) } else { options.descriptors };
    match descriptors {
        None | Some(DescriptorModel::Buffers) => {}
        Some(DescriptorModel::PlainSets) => wanted -= Features::DESCRIPTOR_BUFFER | Features::UPDATE_AFTER_BIND,
        Some(_) => wanted -= Features::DESCRIPTOR_BUFFER,
    }
    if options.placeholders {
        wanted -= Features::NULL_DESCRIPTOR | Features::PARTIALLY_BOUND;
    }
    if !can_bind {
        wanted -= Features::SPARSE_BUFFERS | Features::SPARSE_TEXTURES;
    }
    wanted
}

#[cfg(test)]
mod tests;
