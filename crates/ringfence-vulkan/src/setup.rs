//! Features and extensions for the creation of a device: queried from the physical device, then enabled.
//!
//! ```text
//!   physical device ──query(wanted)──▶ DeviceSetup { core, vulkan_12, … } ──chain──▶ vk::DeviceCreateInfo
//!                                        │                                              │ vkCreateDevice
//!                                        └──desc──▶ DeviceDesc ──▶ Device::new ◀────────┘
//! ```
//!
//! Only a query calls the driver. Everything else fills structures.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use ash::{ext, khr, vk};
use ringfence_hal::DeviceError;

use super::desc::DeviceDesc;
use super::error::failed;
use super::features::Features;

impl Features {
    /// The features that help most programs, for [`DeviceSetup::query`]. They cost nothing when they are not used.
    ///
    /// [`Features::DESCRIPTOR_BUFFER`] is not among them: a pipeline layout cannot mix descriptor buffers with the
    /// program's own descriptor sets.
    pub const USUAL: Self = Self::BUFFER_DEVICE_ADDRESS
        .union(Self::UPDATE_AFTER_BIND)
        .union(Self::NULL_DESCRIPTOR)
        .union(Self::PARTIALLY_BOUND)
        .union(Self::MEMORY_PRIORITY)
        .union(Self::PAGEABLE_DEVICE_LOCAL_MEMORY)
        .union(Self::SAMPLER_ANISOTROPY)
        .union(Self::IMAGE_CUBE_ARRAY)
        .union(Self::SPARSE_BUFFERS)
        .union(Self::SPARSE_TEXTURES)
        .union(Self::EXTERNAL_MEMORY_FD)
        .union(Self::EXTERNAL_MEMORY_DMA_BUF)
        .union(Self::EXTERNAL_MEMORY_WIN32);
}

/// Features and extensions to enable on a device. The physical device supports all of them.
///
/// ```no_run
/// use ash::vk;
/// use ringfence_vulkan::{Device, DeviceSetup, Features};
///
/// # fn example(
/// #     instance: &ash::Instance, physical: vk::PhysicalDevice, queues: &[vk::DeviceQueueCreateInfo<'_>],
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// // SAFETY: `physical` belongs to `instance`, which was created for Vulkan 1.2.
/// let mut setup = unsafe { DeviceSetup::query(instance, physical, Features::USUAL) }?;
/// // Features that only the program needs.
/// setup.core.fill_mode_non_solid = vk::TRUE;
/// setup.vulkan_12.scalar_block_layout = vk::TRUE;
///
/// let mut names = setup.extension_names();
/// names.push(ash::khr::swapchain::NAME.as_ptr());
/// let desc = setup.desc();
/// let info = vk::DeviceCreateInfo::default().queue_create_infos(queues).enabled_extension_names(&names);
/// let info = setup.chain(info);
/// // SAFETY: the queues, the extensions and the features exist. The device outlives `wrapped`.
/// let wrapped = unsafe {
///     let device = instance.create_device(physical, &info, None)?;
///     Device::new(instance, physical, device, desc)?
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeviceSetup {
    /// The features of Vulkan 1.0. The program sets its own features here, because a chain must not contain
    /// `VkPhysicalDeviceFeatures2` twice.
    pub core: vk::PhysicalDeviceFeatures,
    /// The features of Vulkan 1.2, with `timelineSemaphore`. The program sets its own features here.
    pub vulkan_12: vk::PhysicalDeviceVulkan12Features<'static>,
    features: Features,
    supported: vk::PhysicalDeviceFeatures,
    supported_12: vk::PhysicalDeviceVulkan12Features<'static>,
    names: Vec<&'static CStr>,
    two: vk::PhysicalDeviceFeatures2<'static>,
    robustness: vk::PhysicalDeviceRobustness2FeaturesEXT<'static>,
    buffers: vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'static>,
    synchronization: vk::PhysicalDeviceSynchronization2Features<'static>,
    priority: vk::PhysicalDeviceMemoryPriorityFeaturesEXT<'static>,
    pageable: vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT<'static>,
}

/// Flags with the extensions that each needs.
const EXTENSIONS: [(Features, &CStr); 8] = [
    (Features::NULL_DESCRIPTOR, ext::robustness2::NAME),
    (Features::DESCRIPTOR_BUFFER, ext::descriptor_buffer::NAME),
    (Features::DESCRIPTOR_BUFFER, khr::synchronization2::NAME),
    (Features::MEMORY_PRIORITY, ext::memory_priority::NAME),
    (Features::PAGEABLE_DEVICE_LOCAL_MEMORY, ext::pageable_device_local_memory::NAME),
    (Features::EXTERNAL_MEMORY_FD, khr::external_memory_fd::NAME),
    (Features::EXTERNAL_MEMORY_DMA_BUF, ext::external_memory_dma_buf::NAME),
    (Features::EXTERNAL_MEMORY_WIN32, khr::external_memory_win32::NAME),
];

impl DeviceSetup {
    /// Finds the features among `wanted` that the physical device supports.
    ///
    /// The result also contains, if they are supported, the features with which shaders index arrays of descriptors
    /// (`shader…ArrayDynamicIndexing`, `shader…ArrayNonUniformIndexing`, `runtimeDescriptorArray`), even if `wanted` is
    /// empty.
    ///
    /// [`Features::DEBUG_UTILS`] belongs to the instance: pass it if the extension is enabled there. The flags from
    /// [`Features::ACCELERATION_STRUCTURE`] to [`Features::DEVICE_COHERENT_MEMORY`] are ignored: a program that enables
    /// these features chains their structures itself, and adds the flags to the result of [`DeviceSetup::desc`].
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support Vulkan 1.2 or timeline semaphores; or the driver is
    /// out of memory.
    ///
    /// # Safety
    /// `physical` belongs to `instance`, which is alive and was created for Vulkan 1.2 or newer.
    pub unsafe fn query(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        wanted: Features,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the caller promises that the physical device is alive.
        let (properties, listed) = unsafe {
            let listed = instance.enumerate_device_extension_properties(physical);
            (instance.get_physical_device_properties(physical), listed)
        };
        let listed = listed.map_err(failed("vkEnumerateDeviceExtensionProperties"))?;
        DeviceError::unsupported("a device older than Vulkan 1.2")
            .at_least(properties.api_version.into(), vk::API_VERSION_1_2.into())?;
        let lists = |name: &CStr| listed.iter().any(|held| held.extension_name_as_c_str() == Ok(name));
        let missing: Features = EXTENSIONS.iter().filter(|(_, name)| !lists(name)).map(|(flag, _)| *flag).collect();
        let possible = wanted.difference(missing).usable();

        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut buffers = vk::PhysicalDeviceDescriptorBufferFeaturesEXT::default();
        let mut vulkan_12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut two = vk::PhysicalDeviceFeatures2::default().push_next(&mut vulkan_12);
        if possible.contains(Features::NULL_DESCRIPTOR) {
            two = two.push_next(&mut robustness);
        }
        if possible.contains(Features::DESCRIPTOR_BUFFER) {
            two = two.push_next(&mut buffers);
        }
        // SAFETY: the device supports Vulkan 1.2 and the extensions of the chained structures.
        unsafe { instance.get_physical_device_features2(physical, &mut two) };
        let core = two.features;
        if vulkan_12.timeline_semaphore == vk::FALSE {
            return Err(DeviceError::unsupported("a device without timeline semaphores"));
        }
        let extended = [
            (Features::NULL_DESCRIPTOR, robustness.null_descriptor),
            (Features::DESCRIPTOR_BUFFER, buffers.descriptor_buffer),
        ];
        let offered = offered_in(&core, &vulkan_12).into_iter().chain(extended);
        let lacking: Features = offered.filter(|(_, has)| *has == vk::FALSE).map(|(flag, _)| flag).collect();
        let features = possible.difference(lacking).usable().difference(OWN_STRUCTURES);
        // A device that lists this extension requires it.
        let portability = lists(khr::portability_subset::NAME).then_some(khr::portability_subset::NAME);
        let names = EXTENSIONS.iter().filter(|(flag, _)| features.contains(*flag)).map(|(_, name)| *name);
        Ok(Self {
            core: core_features(&core, features),
            vulkan_12: vulkan_12_features(&vulkan_12, features),
            features,
            supported: core,
            supported_12: vk::PhysicalDeviceVulkan12Features { p_next: null_mut(), ..vulkan_12 },
            names: names.chain(portability).collect(),
            two: Default::default(),
            robustness: vk::PhysicalDeviceRobustness2FeaturesEXT::default().null_descriptor(true),
            buffers: vk::PhysicalDeviceDescriptorBufferFeaturesEXT::default().descriptor_buffer(true),
            synchronization: vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true),
            priority: vk::PhysicalDeviceMemoryPriorityFeaturesEXT::default().memory_priority(true),
            pageable: vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT::default()
                .pageable_device_local_memory(true),
        })
    }

    /// Returns the flags of the features to enable: the supported flags of those that were wanted.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Returns the features of Vulkan 1.0 that the physical device supports, for example
    /// `texture_compression_bc`. To enable one, set it in [`DeviceSetup::core`].
    pub fn supported(&self) -> &vk::PhysicalDeviceFeatures {
        &self.supported
    }

    /// Returns the features of Vulkan 1.2 that the physical device supports. To enable one, set it in
    /// [`DeviceSetup::vulkan_12`].
    pub fn supported_12(&self) -> &vk::PhysicalDeviceVulkan12Features<'static> {
        &self.supported_12
    }

    /// Returns the description of the device that is created with these features.
    #[must_use]
    pub fn desc(&self) -> DeviceDesc {
        DeviceDesc { features: self.features, ..Default::default() }
    }

    /// Returns the names of the extensions, for `vk::DeviceCreateInfo::enabled_extension_names`.
    #[must_use]
    pub fn extension_names(&self) -> Vec<*const c_char> {
        self.names.iter().map(|name| name.as_ptr()).collect()
    }

    /// Chains the structures of the features to `info`. The program must not itself chain:
    ///
    /// - `VkPhysicalDeviceFeatures2` and `VkPhysicalDeviceVulkan12Features`,
    /// - structures for single features of Vulkan 1.2,
    /// - structures of the extensions in [`DeviceSetup::extension_names`],
    /// - with [`Features::DESCRIPTOR_BUFFER`], `VkPhysicalDeviceVulkan13Features`.
    pub fn chain<'a>(&'a mut self, info: vk::DeviceCreateInfo<'a>) -> vk::DeviceCreateInfo<'a> {
        let Self { core, vulkan_12, features, two, robustness, buffers, synchronization, priority, pageable, .. } =
            self;
        *two = vk::PhysicalDeviceFeatures2::default().features(*core);
        // An earlier call may have left pointers to structures that have moved since.
        (vulkan_12.p_next, robustness.p_next, buffers.p_next) = (null_mut(), null_mut(), null_mut());
        (synchronization.p_next, priority.p_next, pageable.p_next) = (null_mut(), null_mut(), null_mut());
        let mut info = info.push_next(two).push_next(vulkan_12);
        if features.contains(Features::NULL_DESCRIPTOR) {
            info = info.push_next(robustness);
        }
        if features.contains(Features::DESCRIPTOR_BUFFER) {
            info = info.push_next(buffers).push_next(synchronization);
        }
        if features.contains(Features::MEMORY_PRIORITY) {
            info = info.push_next(priority);
        }
        if features.contains(Features::PAGEABLE_DEVICE_LOCAL_MEMORY) {
            info = info.push_next(pageable);
        }
        info
    }
}

/// Flags of features for which the program chains the structures itself.
const OWN_STRUCTURES: Features = Features::ACCELERATION_STRUCTURE
    .union(Features::RAY_TRACING_PIPELINE)
    .union(Features::TRANSFORM_FEEDBACK)
    .union(Features::CONDITIONAL_RENDERING)
    .union(Features::PROTECTED_MEMORY)
    .union(Features::DEVICE_COHERENT_MEMORY);

/// Returns the flags of features in the structures of Vulkan 1.0 and 1.2. The value is `FALSE` if the device lacks a
/// feature that the flag stands for.
fn offered_in(
    core: &vk::PhysicalDeviceFeatures,
    twelve: &vk::PhysicalDeviceVulkan12Features<'_>,
) -> [(Features, vk::Bool32); 8] {
    let update = twelve.descriptor_binding_partially_bound
        & twelve.descriptor_binding_update_unused_while_pending
        & twelve.descriptor_binding_uniform_buffer_update_after_bind
        & twelve.descriptor_binding_storage_buffer_update_after_bind
        & twelve.descriptor_binding_sampled_image_update_after_bind
        & twelve.descriptor_binding_storage_image_update_after_bind
        & twelve.descriptor_binding_uniform_texel_buffer_update_after_bind
        & twelve.descriptor_binding_storage_texel_buffer_update_after_bind;
    [
        (Features::BUFFER_DEVICE_ADDRESS, twelve.buffer_device_address),
        (Features::UPDATE_AFTER_BIND, update),
        (Features::PARTIALLY_BOUND, twelve.descriptor_binding_partially_bound),
        (Features::ROBUST_BUFFER_ACCESS, core.robust_buffer_access),
        (Features::SAMPLER_ANISOTROPY, core.sampler_anisotropy),
        (Features::IMAGE_CUBE_ARRAY, core.image_cube_array),
        (Features::SPARSE_BUFFERS, core.sparse_binding & core.sparse_residency_buffer),
        (Features::SPARSE_TEXTURES, core.sparse_binding & core.sparse_residency_image2_d),
    ]
}

fn flag(features: Features, of: Features) -> vk::Bool32 {
    features.contains(of).into()
}

fn core_features(offered: &vk::PhysicalDeviceFeatures, features: Features) -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures {
        robust_buffer_access: flag(features, Features::ROBUST_BUFFER_ACCESS),
        sampler_anisotropy: flag(features, Features::SAMPLER_ANISOTROPY),
        image_cube_array: flag(features, Features::IMAGE_CUBE_ARRAY),
        sparse_binding: features.intersects(Features::SPARSE_BUFFERS | Features::SPARSE_TEXTURES).into(),
        sparse_residency_buffer: flag(features, Features::SPARSE_BUFFERS),
        sparse_residency_image2_d: flag(features, Features::SPARSE_TEXTURES),
        shader_uniform_buffer_array_dynamic_indexing: offered.shader_uniform_buffer_array_dynamic_indexing,
        shader_storage_buffer_array_dynamic_indexing: offered.shader_storage_buffer_array_dynamic_indexing,
        shader_sampled_image_array_dynamic_indexing: offered.shader_sampled_image_array_dynamic_indexing,
        shader_storage_image_array_dynamic_indexing: offered.shader_storage_image_array_dynamic_indexing,
        ..Default::default()
    }
}

fn vulkan_12_features(
    offered: &vk::PhysicalDeviceVulkan12Features<'_>,
    features: Features,
) -> vk::PhysicalDeviceVulkan12Features<'static> {
    let update = features.contains(Features::UPDATE_AFTER_BIND);
    let partial = update || features.contains(Features::PARTIALLY_BOUND);
    let is = |offered: vk::Bool32| offered == vk::TRUE;
    vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(true)
        .buffer_device_address(features.contains(Features::BUFFER_DEVICE_ADDRESS))
        .descriptor_indexing(update && is(offered.descriptor_indexing))
        .runtime_descriptor_array(is(offered.runtime_descriptor_array))
        .shader_uniform_buffer_array_non_uniform_indexing(is(offered.shader_uniform_buffer_array_non_uniform_indexing))
        .shader_storage_buffer_array_non_uniform_indexing(is(offered.shader_storage_buffer_array_non_uniform_indexing))
        .shader_sampled_image_array_non_uniform_indexing(is(offered.shader_sampled_image_array_non_uniform_indexing))
        .shader_storage_image_array_non_uniform_indexing(is(offered.shader_storage_image_array_non_uniform_indexing))
        .descriptor_binding_partially_bound(partial)
        .descriptor_binding_update_unused_while_pending(update)
        .descriptor_binding_uniform_buffer_update_after_bind(update)
        .descriptor_binding_storage_buffer_update_after_bind(update)
        .descriptor_binding_sampled_image_update_after_bind(update)
        .descriptor_binding_storage_image_update_after_bind(update)
        .descriptor_binding_uniform_texel_buffer_update_after_bind(update)
        .descriptor_binding_storage_texel_buffer_update_after_bind(update)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_stands_for_several_features_needs_them_all() {
        let core = vk::PhysicalDeviceFeatures { sparse_binding: vk::TRUE, ..Default::default() };
        let core = vk::PhysicalDeviceFeatures { sparse_residency_buffer: vk::TRUE, ..core };
        let twelve = vk::PhysicalDeviceVulkan12Features::default().descriptor_binding_partially_bound(true);
        let offered = offered_in(&core, &twelve).into_iter().filter(|(_, has)| *has == vk::TRUE);
        let offered: Features = offered.map(|(flag, _)| flag).collect();
        assert_eq!(offered, Features::PARTIALLY_BOUND | Features::SPARSE_BUFFERS);
    }

    #[test]
    fn only_chosen_features_are_enabled() {
        let offered = vk::PhysicalDeviceVulkan12Features::default().runtime_descriptor_array(true);
        let enabled = vulkan_12_features(&offered, Features::PARTIALLY_BOUND);
        let held = [
            enabled.timeline_semaphore,
            enabled.runtime_descriptor_array,
            enabled.descriptor_binding_partially_bound,
            enabled.descriptor_binding_sampled_image_update_after_bind,
            enabled.buffer_device_address,
        ];
        assert_eq!(held, [vk::TRUE, vk::TRUE, vk::TRUE, vk::FALSE, vk::FALSE]);
        let core = core_features(&Default::default(), Features::SPARSE_TEXTURES);
        assert_eq!([core.sparse_binding, core.sparse_residency_buffer, core.sparse_residency_image2_d], [1, 0, 1]);
    }
}
