//! Opening a device: its physical device, queues and features.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex};

use ash::{ext, khr, vk};
use ringfence::device::descriptors::DescriptorModel;
use ringfence::vulkan::{Device, DeviceDesc, Features};

use super::draw::{self, Painter};
use super::instance::{Instance, ONE_AT_A_TIME, absent, lists};
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
    let descriptors = if options.placeholders { Some(DescriptorModel::PlainSets) } else { options.descriptors };
    let wish = Wish { descriptors, placeholders: options.placeholders, can_bind };
    let copy_family = choose_copy_family(&families, family);
    let (raw, desc) = create_device(&instance, physical, [(family, queue_count), (copy_family, 1)], wish)?;
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
    furnish(&mut gpu, physical, (wanted, queue_count))?;
    Ok(gpu)
}

/// Creates the objects that the device needs to run commands. On failure, dropping `gpu` destroys those that exist.
fn furnish(
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

/// Returns a family other than `family` that can copy, if possible one that can only copy; `family` if there is none.
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

/// Creates the device with the features in [`Wanted`].
fn create_device(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    families: [(u32, u32); 2],
    wish: Wish,
) -> Result<(ash::Device, DeviceDesc), OpenError> {
    let debug_utils = instance.has_debug_utils();
    let instance = instance.raw();
    // SAFETY: the physical device belongs to the instance, is alive, and supports Vulkan 1.2.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }
        .map_err(failed("listing the extensions of the Vulkan device"))?;
    let mut wanted = Wanted::find(instance, physical, &extensions, wish);
    if !wish.can_bind {
        wanted.core.sparse_binding = vk::FALSE;
        wanted.core.sparse_residency_buffer = vk::FALSE;
        wanted.core.sparse_residency_image2_d = vk::FALSE;
    }
    let names: Vec<*const c_char> = wanted.names.iter().map(|name| name.as_ptr()).collect();
    let priorities = vec![1.0; families[0].1.max(families[1].1) as usize];
    let queues = families.map(|(family, count)| {
        let priorities = &priorities[..count as usize];
        vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(priorities)
    });
    // A family may be listed only once.
    let queues = if families[0].0 == families[1].0 { &queues[..1] } else { &queues[..] };
    let desc = wanted.desc(debug_utils);
    let mut features = vk::PhysicalDeviceFeatures2::default().features(wanted.core).push_next(&mut wanted.twelve);
    if desc.features.contains(Features::NULL_DESCRIPTOR) {
        features = features.push_next(&mut wanted.robustness);
    }
    if desc.features.contains(Features::DESCRIPTOR_BUFFER) {
        features = features.push_next(&mut wanted.buffers).push_next(&mut wanted.synchronization);
    }
    if desc.features.contains(Features::MEMORY_PRIORITY) {
        features = features.push_next(&mut wanted.priority);
    }
    if desc.features.contains(Features::PAGEABLE_DEVICE_LOCAL_MEMORY) {
        features = features.push_next(&mut wanted.pageable);
    }
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(queues)
        .enabled_extension_names(&names)
        .push_next(&mut features);
    // SAFETY: the queues, extensions and features exist. Vulkan 1.2 has timeline semaphores.
    let raw = unsafe { instance.create_device(physical, &info, None) }.map_err(failed("creating a Vulkan device"))?;
    Ok((raw, desc))
}

/// Features that the caller requests.
#[derive(Clone, Copy)]
struct Wish {
    descriptors: Option<DescriptorModel>,
    /// If `true`, null descriptors and partially bound arrays are not enabled.
    placeholders: bool,
    /// If `true`, the queues must be able to bind pages.
    can_bind: bool,
}

/// Features and extensions to enable. The device has all of them.
struct Wanted {
    names: Vec<&'static CStr>,
    core: vk::PhysicalDeviceFeatures,
    twelve: vk::PhysicalDeviceVulkan12Features<'static>,
    robustness: vk::PhysicalDeviceRobustness2FeaturesEXT<'static>,
    buffers: vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'static>,
    synchronization: vk::PhysicalDeviceSynchronization2Features<'static>,
    priority: vk::PhysicalDeviceMemoryPriorityFeaturesEXT<'static>,
    pageable: vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT<'static>,
}

impl Wanted {
    fn find(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        extensions: &[vk::ExtensionProperties],
        Wish { descriptors, placeholders, .. }: Wish,
    ) -> Self {
        let mut names = Vec::new();
        let mut twelve = vk::PhysicalDeviceVulkan12Features::default();
        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut buffers = vk::PhysicalDeviceDescriptorBufferFeaturesEXT::default();
        let mut offered = vk::PhysicalDeviceFeatures2::default().push_next(&mut twelve);
        // If a device has this extension, it must be enabled.
        if lists(extensions, khr::portability_subset::NAME) {
            names.push(khr::portability_subset::NAME);
        }
        let has_null = !placeholders && lists(extensions, ext::robustness2::NAME);
        if has_null {
            names.push(ext::robustness2::NAME);
            offered = offered.push_next(&mut robustness);
        }
        let may_buffer = matches!(descriptors, None | Some(DescriptorModel::Buffers));
        let has_buffers = may_buffer
            && lists(extensions, ext::descriptor_buffer::NAME)
            && lists(extensions, khr::synchronization2::NAME);
        if has_buffers {
            names.extend([ext::descriptor_buffer::NAME, khr::synchronization2::NAME]);
            offered = offered.push_next(&mut buffers);
        }
        let sharing =
            [khr::external_memory_fd::NAME, ext::external_memory_dma_buf::NAME, khr::external_memory_win32::NAME];
        names.extend(sharing.into_iter().filter(|name| lists(extensions, name)));
        // A device that has one of these extensions also has its only feature.
        let has_priority = lists(extensions, ext::memory_priority::NAME);
        let has_pageable = has_priority && lists(extensions, ext::pageable_device_local_memory::NAME);
        names.extend(has_priority.then_some(ext::memory_priority::NAME));
        names.extend(has_pageable.then_some(ext::pageable_device_local_memory::NAME));
        // SAFETY: the physical device is alive. It supports Vulkan 1.2 and the chained structures.
        unsafe { instance.get_physical_device_features2(physical, &mut offered) };
        let core = vk::PhysicalDeviceFeatures {
            shader_storage_buffer_array_dynamic_indexing: offered.features.shader_storage_buffer_array_dynamic_indexing,
            image_cube_array: offered.features.image_cube_array,
            sparse_binding: offered.features.sparse_binding,
            sparse_residency_buffer: offered.features.sparse_residency_buffer,
            sparse_residency_image2_d: offered.features.sparse_residency_image2_d,
            ..Default::default()
        };
        let may_update = !matches!(descriptors, Some(DescriptorModel::PlainSets));
        let twelve = enabled(&twelve, (may_update, !placeholders));
        let robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default()
            .null_descriptor(has_null && robustness.null_descriptor == vk::TRUE);
        let buffers = vk::PhysicalDeviceDescriptorBufferFeaturesEXT::default()
            .descriptor_buffer(has_buffers && buffers.descriptor_buffer == vk::TRUE);
        let synchronization = vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
        let priority = vk::PhysicalDeviceMemoryPriorityFeaturesEXT::default().memory_priority(has_priority);
        let pageable = vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT::default()
            .pageable_device_local_memory(has_pageable);
        Self { names, core, twelve, robustness, buffers, synchronization, priority, pageable }
    }

    fn desc(&self, debug_utils: bool) -> DeviceDesc {
        let is = |enabled: vk::Bool32| enabled == vk::TRUE;
        let has = |name| self.names.contains(&name);
        let binds = is(self.core.sparse_binding);
        let enabled = [
            (Features::BUFFER_DEVICE_ADDRESS, is(self.twelve.buffer_device_address)),
            (Features::DEBUG_UTILS, debug_utils),
            (Features::DESCRIPTOR_BUFFER, is(self.buffers.descriptor_buffer)),
            (Features::UPDATE_AFTER_BIND, is(self.twelve.descriptor_binding_storage_buffer_update_after_bind)),
            (Features::PARTIALLY_BOUND, is(self.twelve.descriptor_binding_partially_bound)),
            (Features::NULL_DESCRIPTOR, is(self.robustness.null_descriptor)),
            (Features::IMAGE_CUBE_ARRAY, is(self.core.image_cube_array)),
            (Features::SPARSE_BUFFERS, binds && is(self.core.sparse_residency_buffer)),
            (Features::SPARSE_TEXTURES, binds && is(self.core.sparse_residency_image2_d)),
            (Features::EXTERNAL_MEMORY_FD, has(khr::external_memory_fd::NAME)),
            (Features::EXTERNAL_MEMORY_DMA_BUF, has(ext::external_memory_dma_buf::NAME)),
            (Features::EXTERNAL_MEMORY_WIN32, has(khr::external_memory_win32::NAME)),
            (Features::MEMORY_PRIORITY, is(self.priority.memory_priority)),
            (Features::PAGEABLE_DEVICE_LOCAL_MEMORY, is(self.pageable.pageable_device_local_memory)),
        ];
        let features = enabled.into_iter().filter(|(_, is_enabled)| *is_enabled).map(|(feature, _)| feature).collect();
        DeviceDesc { features, ..Default::default() }
    }
}

/// Returns the features of Vulkan 1.2 to enable. The features of descriptor indexing are enabled only together.
fn enabled(
    offered: &vk::PhysicalDeviceVulkan12Features<'_>,
    (may_update, may_be_partial): (bool, bool),
) -> vk::PhysicalDeviceVulkan12Features<'static> {
    let needed = [
        offered.descriptor_binding_partially_bound,
        offered.descriptor_binding_update_unused_while_pending,
        offered.descriptor_binding_uniform_buffer_update_after_bind,
        offered.descriptor_binding_storage_buffer_update_after_bind,
        offered.descriptor_binding_sampled_image_update_after_bind,
        offered.descriptor_binding_storage_image_update_after_bind,
        offered.descriptor_binding_uniform_texel_buffer_update_after_bind,
        offered.descriptor_binding_storage_texel_buffer_update_after_bind,
    ];
    let partial = may_be_partial && offered.descriptor_binding_partially_bound == vk::TRUE;
    let update = may_update && needed.iter().all(|feature| *feature == vk::TRUE);
    vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(true)
        .buffer_device_address(offered.buffer_device_address == vk::TRUE)
        .descriptor_indexing(update && offered.descriptor_indexing == vk::TRUE)
        .descriptor_binding_partially_bound(update || partial)
        .descriptor_binding_update_unused_while_pending(update)
        .descriptor_binding_uniform_buffer_update_after_bind(update)
        .descriptor_binding_storage_buffer_update_after_bind(update)
        .descriptor_binding_sampled_image_update_after_bind(update)
        .descriptor_binding_storage_image_update_after_bind(update)
        .descriptor_binding_uniform_texel_buffer_update_after_bind(update)
        .descriptor_binding_storage_texel_buffer_update_after_bind(update)
}

#[cfg(test)]
mod tests;
