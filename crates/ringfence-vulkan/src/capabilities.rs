//! Capabilities of a physical device.
//!
//! Limits and memory types are read from the physical device. Memory types are marked as refused according to the
//! enabled features, and some fields are constant on Vulkan. If the physical device lists an extension, Vulkan allows
//! reading its properties, even if the logical device was created without the extension.

use std::ffi::CStr;

use ash::vk;

use crate::error::failed;

use super::features::Features;
use super::valid::ImageLimits;
use ringfence_hal::{
    Capabilities, DeviceError, HeapBudget, HeapBudgets, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType,
};

/// Smallest alignment of offsets in texture copies, in bytes. It suffices for all texels with a size of 1, 2, 4, 8 or
/// 16 bytes.
const TEXEL_BYTES_MAX: u64 = 16;

/// Properties of a physical device, which are read once.
pub(super) struct Found {
    pub(super) capabilities: Capabilities,
    /// For each memory type, the text of the error for allocations, or `None` if allocations are allowed.
    pub(super) refusals: Vec<Option<&'static str>>,
    /// `true` if the device lists `VK_EXT_memory_budget`.
    pub(super) memory_budget: bool,
    /// Maximum size of a buffer, in bytes; `u64::MAX` if the device does not report it.
    pub(super) buffer_bytes_max: u64,
    /// `true` if unbound pages of sparse resources read as zeros; `false` if the result is undefined.
    pub(super) reads_zero_where_unbound: bool,
    /// Maximum total size of all sparse resources, in bytes.
    pub(super) sparse_bytes_max: u64,
    /// Limits for the check of images.
    pub(super) image_limits: ImageLimits,
    /// `true` if the device is a portability subset: views then may not change the order of channels or the format.
    pub(super) is_subset: bool,
    /// The driver; the default value if the device was wrapped for memory only, because Vulkan 1.0 does not report it.
    pub(super) driver: vk::DriverId,
}

/// Returns the capabilities that a physical device has if all of its features are enabled, except that the memory
/// priority is [`MemoryPriority::None`]. Use this for lists of devices, before one is opened.
///
/// # Errors
/// [`DeviceError::Unsupported`] if the device is older than Vulkan 1.2; or the driver is out of memory.
///
/// # Safety
/// `physical` comes from `instance`, which is alive and was created for Vulkan 1.2 or newer.
pub unsafe fn capabilities(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<Capabilities, DeviceError> {
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    Ok(unsafe { find(instance, physical, Features::all()) }?.capabilities)
}

/// Returns the current usage and budget of each memory heap. Returns `None` if the device lacks `VK_EXT_memory_budget`,
/// or if its extensions cannot be read.
///
/// # Safety
/// The rules of [`capabilities`].
#[must_use]
pub unsafe fn budgets(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Option<HeapBudgets> {
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }.ok()?;
    // SAFETY: `physical` comes from `instance`, and the device lists the extension.
    lists(&extensions, ash::ext::memory_budget::NAME).then(|| unsafe { read_budgets(instance, physical) })
}

/// Reads all properties. The errors and safety rules are those of [`capabilities`].
pub(super) unsafe fn find(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    features: Features,
) -> Result<Found, DeviceError> {
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let basic = unsafe { instance.get_physical_device_properties(physical) };
    DeviceError::unsupported("an apiVersion before Vulkan 1.2")
        .at_least(basic.api_version.into(), vk::API_VERSION_1_2.into())?;
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }
        .map_err(failed("vkEnumerateDeviceExtensionProperties"))?;
    let mut objects = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut buffers = vk::PhysicalDeviceMaintenance4Properties { max_buffer_size: u64::MAX, ..Default::default() };
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut objects).push_next(&mut driver);
    // Vulkan 1.3 includes the extension, so a device with Vulkan 1.3 may omit the extension from its list.
    if basic.api_version >= vk::API_VERSION_1_3 || lists(&extensions, ash::khr::maintenance4::NAME) {
        properties = properties.push_next(&mut buffers);
    }
    // SAFETY: `physical` comes from `instance`. The device supports Vulkan 1.2, and it supports the extension of each
    // chained structure that Vulkan 1.2 lacks.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let is_subset = lists(&extensions, ash::khr::portability_subset::NAME);
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let multisample_arrays = !is_subset || unsafe { has_multisample_arrays(instance, physical) };
    Ok(Found {
        capabilities: assemble(&basic, &memory, objects.max_memory_allocation_size, features),
        refusals: refusals(&memory, features),
        memory_budget: lists(&extensions, ash::ext::memory_budget::NAME),
        buffer_bytes_max: buffers.max_buffer_size,
        reads_zero_where_unbound: basic.sparse_properties.residency_non_resident_strict == vk::TRUE,
        sparse_bytes_max: basic.limits.sparse_address_space_size,
        image_limits: ImageLimits {
            attachment_width_max: basic.limits.max_framebuffer_width,
            attachment_height_max: basic.limits.max_framebuffer_height,
            multisample_arrays,
        },
        is_subset,
        driver: driver.driver_id,
    })
}

/// Returns `true` if a portability-subset device supports images with several samples and several layers.
///
/// # Safety
/// The rules of [`capabilities`], and the device lists `VK_KHR_portability_subset`.
unsafe fn has_multisample_arrays(instance: &ash::Instance, physical: vk::PhysicalDevice) -> bool {
    let mut subset = vk::PhysicalDevicePortabilitySubsetFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut subset);
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    unsafe { instance.get_physical_device_features2(physical, &mut features) };
    subset.multisample_array_image == vk::TRUE
}

/// Reads only the properties that Vulkan 1.0 reports.
///
/// # Safety
/// `physical` comes from `instance`, which is alive.
pub(super) unsafe fn find_memory(instance: &ash::Instance, physical: vk::PhysicalDevice, features: Features) -> Found {
    // SAFETY: the caller promises that `physical` comes from `instance`, which is alive.
    let (basic, memory) = unsafe {
        (instance.get_physical_device_properties(physical), instance.get_physical_device_memory_properties(physical))
    };
    Found {
        is_subset: false,
        capabilities: assemble(&basic, &memory, u64::MAX, features),
        refusals: refusals(&memory, features),
        memory_budget: false,
        buffer_bytes_max: u64::MAX,
        reads_zero_where_unbound: false,
        sparse_bytes_max: 0,
        image_limits: ImageLimits {
            attachment_width_max: basic.limits.max_framebuffer_width,
            attachment_height_max: basic.limits.max_framebuffer_height,
            multisample_arrays: false,
        },
        driver: vk::DriverId::default(),
    }
}

/// Returns `true` if `extensions` contains `name`.
fn lists(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    extensions.iter().any(|listed| listed.extension_name_as_c_str() == Ok(name))
}

/// Converts Vulkan's properties of the device and of its memory to capabilities.
fn assemble(
    properties: &vk::PhysicalDeviceProperties,
    memory: &vk::PhysicalDeviceMemoryProperties,
    memory_object_bytes_max: u64,
    features: Features,
) -> Capabilities {
    let limits = &properties.limits;
    let granularity = limits.buffer_image_granularity.max(1);
    let name = properties.device_name_as_c_str().unwrap_or_default();
    Capabilities {
        name: name.to_string_lossy().into_owned(),
        memory_heaps: memory.memory_heaps_as_slice().iter().map(heap).collect(),
        memory_types: memory_types(memory, features),
        class_groups: if granularity == 1 { [0, 0, 0] } else { [0, 1, 1] },
        target_memory_alignment: 1,
        class_granularity_bytes: granularity,
        non_coherent_atom_bytes: limits.non_coherent_atom_size.max(1),
        notice_host_writes: false,
        memory_objects_max: u64::from(limits.max_memory_allocation_count),
        memory_object_bytes_max,
        texture_copy_offset_alignment: limits.optimal_buffer_copy_offset_alignment.max(TEXEL_BYTES_MAX),
        texture_copy_row_alignment: limits.optimal_buffer_copy_row_pitch_alignment.max(1),
        depth_stencil_copy_row_alignment: limits.optimal_buffer_copy_row_pitch_alignment.max(1),
        partial_depth_copies: true,
        constant_alignment: limits.min_uniform_buffer_offset_alignment.max(1),
        storage_alignment: limits.min_storage_buffer_offset_alignment.max(1),
        texel_alignment: limits.min_texel_buffer_offset_alignment.max(1),
        residency: false,
        memory_priority: MemoryPriority::None,
    }
}

fn heap(heap: &vk::MemoryHeap) -> MemoryHeap {
    MemoryHeap { bytes: heap.size, device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) }
}

fn memory_types(memory: &vk::PhysicalDeviceMemoryProperties, features: Features) -> Vec<MemoryType> {
    let memory_type = |(held, refusal): (&vk::MemoryType, Option<_>)| {
        let mut properties = memory_properties(held.property_flags);
        let plain = vk::MemoryHeapFlags::DEVICE_LOCAL | vk::MemoryHeapFlags::MULTI_INSTANCE;
        let is_special = !(memory.memory_heaps[held.heap_index as usize].flags & !plain).is_empty();
        properties.set(MemoryProperties::SPECIAL, is_special || properties.contains(MemoryProperties::SPECIAL));
        properties.set(MemoryProperties::REFUSED, refusal.is_some());
        MemoryType { heap: held.heap_index, properties }
    };
    memory.memory_types_as_slice().iter().zip(refusals(memory, features)).map(memory_type).collect()
}

/// Returns, for each memory type, the text of the error for allocations, or `None` if allocations are allowed.
fn refusals(memory: &vk::PhysicalDeviceMemoryProperties, features: Features) -> Vec<Option<&'static str>> {
    let coherent = vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD;
    let refusal = |held: &vk::MemoryType| {
        let flags = held.property_flags;
        let needs = |of, feature| flags.intersects(of) && !features.contains(feature);
        if memory.memory_heaps[held.heap_index as usize].flags.contains(TILE_MEMORY) {
            Some("memory of a tile memory heap")
        } else if needs(vk::MemoryPropertyFlags::PROTECTED, Features::PROTECTED_MEMORY) {
            Some("memory of a protected type without Features::PROTECTED_MEMORY")
        } else if needs(coherent, Features::DEVICE_COHERENT_MEMORY) {
            Some("memory of a device-coherent type without Features::DEVICE_COHERENT_MEMORY")
        } else {
            None
        }
    };
    memory.memory_types_as_slice().iter().map(refusal).collect()
}

/// `VK_MEMORY_HEAP_TILE_MEMORY_BIT_QCOM`. Tile memory is only for resources that were created for it, in command
/// buffers that bind it, and its offsets and sizes follow special rules. Ringfence does not support it.
const TILE_MEMORY: vk::MemoryHeapFlags = vk::MemoryHeapFlags::from_raw(1 << 3);

/// Converts property flags. If a flag has no equivalent in Ringfence, the memory type is special.
fn memory_properties(flags: vk::MemoryPropertyFlags) -> MemoryProperties {
    const EQUALS: [(vk::MemoryPropertyFlags, MemoryProperties); 6] = [
        (vk::MemoryPropertyFlags::DEVICE_LOCAL, MemoryProperties::DEVICE_LOCAL),
        (vk::MemoryPropertyFlags::HOST_VISIBLE, MemoryProperties::HOST_VISIBLE),
        (vk::MemoryPropertyFlags::HOST_COHERENT, MemoryProperties::HOST_COHERENT),
        (vk::MemoryPropertyFlags::HOST_CACHED, MemoryProperties::HOST_CACHED),
        (vk::MemoryPropertyFlags::LAZILY_ALLOCATED, MemoryProperties::LAZILY_ALLOCATED),
        (vk::MemoryPropertyFlags::PROTECTED, MemoryProperties::PROTECTED),
    ];
    let mut rest = flags;
    let mut properties = MemoryProperties::empty();
    for (flag, equal) in EQUALS {
        if flags.contains(flag) {
            properties |= equal;
        }
        rest &= !flag;
    }
    if rest.is_empty() { properties } else { properties | MemoryProperties::SPECIAL }
}

/// Returns the current usage and budget of each memory heap.
///
/// # Safety
/// The rules of [`capabilities`], and the device lists `VK_EXT_memory_budget`.
pub(super) unsafe fn read_budgets(instance: &ash::Instance, physical: vk::PhysicalDevice) -> HeapBudgets {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the caller promises that `physical` comes from `instance` and lists the extension.
    unsafe { instance.get_physical_device_memory_properties2(physical, &mut memory) };
    let heap_count = memory.memory_properties.memory_heap_count as usize;
    let heaps = budget.heap_usage.iter().zip(&budget.heap_budget).take(heap_count);
    heaps.map(|(&usage_bytes, &budget_bytes)| HeapBudget { usage_bytes, budget_bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_without_an_equal_make_a_special_type() {
        let plain = vk::MemoryPropertyFlags::DEVICE_LOCAL | vk::MemoryPropertyFlags::LAZILY_ALLOCATED;
        let expected = MemoryProperties::DEVICE_LOCAL | MemoryProperties::LAZILY_ALLOCATED;
        assert_eq!(memory_properties(plain), expected);
        for odd in [vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD, vk::MemoryPropertyFlags::RDMA_CAPABLE_NV] {
            assert_eq!(memory_properties(plain | odd), expected | MemoryProperties::SPECIAL);
        }
    }

    #[test]
    fn types_are_refused_without_their_feature_and_in_tile_memory() {
        let mut memory =
            vk::PhysicalDeviceMemoryProperties { memory_type_count: 5, memory_heap_count: 2, ..Default::default() };
        memory.memory_heaps[1].flags = vk::MemoryHeapFlags::DEVICE_LOCAL | TILE_MEMORY;
        let near = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let coherent = near | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD;
        let flags =
            [near, near | vk::MemoryPropertyFlags::PROTECTED, coherent, near, vk::MemoryPropertyFlags::RDMA_CAPABLE_NV];
        for (held, flags) in memory.memory_types.iter_mut().zip(flags) {
            held.property_flags = flags;
        }
        memory.memory_types[3].heap_index = 1;
        let refused = |features| {
            let types = memory_types(&memory, features).into_iter().map(|held| held.properties);
            types.map(|held| held.contains(MemoryProperties::REFUSED)).collect::<Vec<_>>()
        };
        assert_eq!(refused(Features::empty()), [false, true, true, true, false]);
        assert_eq!(refused(Features::PROTECTED_MEMORY), [false, false, true, true, false]);
        assert_eq!(refused(Features::DEVICE_COHERENT_MEMORY), [false, true, false, true, false]);
        assert_eq!(refused(Features::all()), [false, false, false, true, false]);
        let special = memory_types(&memory, Features::all()).into_iter().map(|held| held.properties);
        let special: Vec<_> = special.map(|held| held.contains(MemoryProperties::SPECIAL)).collect();
        assert_eq!(special, [false, false, true, true, true]);
    }

    #[test]
    fn granularity_parts_buffers_from_textures() {
        let memory = vk::PhysicalDeviceMemoryProperties::default();
        let mut properties = vk::PhysicalDeviceProperties::default();
        properties.limits.buffer_image_granularity = 1;
        assert_eq!(assemble(&properties, &memory, 0, Features::empty()).class_groups, [0, 0, 0]);
        properties.limits.buffer_image_granularity = 1024;
        assert_eq!(assemble(&properties, &memory, 0, Features::empty()).class_groups, [0, 1, 1]);
        assert_eq!(assemble(&properties, &memory, 0, Features::empty()).class_granularity_bytes, 1024);
    }
}
