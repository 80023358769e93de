//! Descriptor features and limits of a device, which are read once.

use ash::vk;

use super::kinds::{self, Kind, PlainViews};
use super::types;
use crate::desc::DeviceDesc;
use crate::features::Features;
use ringfence_hal::descriptors::{DescriptorModel, DescriptorSupport, HeapKind, ViewTypes};

/// Limits of the device, and the descriptor model that its enabled features allow.
pub(crate) struct Facts {
    pub(super) desc: DeviceDesc,
    pub(super) limits: vk::PhysicalDeviceLimits,
    indexing: vk::PhysicalDeviceDescriptorIndexingProperties<'static>,
    pub(super) buffer: vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'static>,
    /// Stages in the set layouts of heaps: all stages, except on Mesa's software driver with descriptor buffers.
    pub(super) stages: vk::ShaderStageFlags,
    /// `Some` if and only if descriptor buffers are in use.
    pub(super) buffer_api: Option<ash::ext::descriptor_buffer::Device>,
}

/// Shader stages that Mesa's software driver knows.
const NAMED_STAGES: vk::ShaderStageFlags = vk::ShaderStageFlags::from_raw(
    vk::ShaderStageFlags::ALL_GRAPHICS.as_raw()
        | vk::ShaderStageFlags::COMPUTE.as_raw()
        | vk::ShaderStageFlags::TASK_EXT.as_raw()
        | vk::ShaderStageFlags::MESH_EXT.as_raw(),
);

/// Maximum number of descriptors of each type that one shader stage can access.
struct StageLimits {
    constants: u32,
    storage_buffers: u32,
    /// Sampled images and uniform texel buffers.
    sampled: u32,
    /// Storage images and storage texel buffers.
    stored: u32,
    samplers: u32,
    together: u32,
}

/// Number of resources per stage that a heap of plain sets or of descriptor bytes leaves free, out of
/// `maxPerStageResources`: for colour attachments and for the program's own sets.
const OTHER_RESOURCES: u32 = 16;

impl Facts {
    /// # Safety
    /// `device` was created from `physical`, which comes from `instance`, and `desc` is correct.
    pub(crate) unsafe fn read(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        desc: DeviceDesc,
    ) -> Self {
        let mut indexing = vk::PhysicalDeviceDescriptorIndexingProperties::default();
        let mut buffer = vk::PhysicalDeviceDescriptorBufferPropertiesEXT::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut indexing).push_next(&mut driver);
        if desc.features.contains(Features::DESCRIPTOR_BUFFER) {
            properties = properties.push_next(&mut buffer);
        }
        // SAFETY: the caller promises that the handles belong together. Vulkan 1.2 has the first two structures, and
        // the last one is chained only if its extension is enabled.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let limits = properties.properties.limits;
        indexing.p_next = std::ptr::null_mut();
        buffer.p_next = std::ptr::null_mut();
        let buffer_api = desc
            .features
            .contains(Features::DESCRIPTOR_BUFFER)
            .then(|| ash::ext::descriptor_buffer::Device::new(instance, device));
        // When descriptor buffers are bound, Mesa's software driver (25.0) treats every bit of `ALL` as a stage, even
        // bits without a stage. It then writes past the end of its own tables.
        let confused =
            desc.features.contains(Features::DESCRIPTOR_BUFFER) && driver.driver_id == vk::DriverId::MESA_LLVMPIPE;
        let stages = if confused { NAMED_STAGES } else { vk::ShaderStageFlags::ALL };
        Self { desc, limits, indexing, buffer, stages, buffer_api }
    }

    /// Returns the facts for a device that creates no heaps.
    pub(crate) fn of_no_heaps(desc: DeviceDesc) -> Self {
        let (limits, indexing, buffer) = Default::default();
        Self { desc, limits, indexing, buffer, stages: vk::ShaderStageFlags::ALL, buffer_api: None }
    }

    /// Returns `true` if a feature was enabled.
    pub(super) fn has(&self, feature: Features) -> bool {
        self.desc.features.contains(feature)
    }

    pub(crate) fn model(&self) -> DescriptorModel {
        if self.buffer_api.is_some() {
            DescriptorModel::Buffers
        } else if self.has(Features::UPDATE_AFTER_BIND) {
            DescriptorModel::UpdateAfterBind
        } else {
            DescriptorModel::PlainSets
        }
    }

    pub(super) fn support(&self) -> DescriptorSupport {
        let limits = &self.limits;
        DescriptorSupport {
            model: self.model(),
            constant_alignment: limits.min_uniform_buffer_offset_alignment.max(1),
            storage_alignment: limits.min_storage_buffer_offset_alignment.max(1),
            texel_alignment: limits.min_texel_buffer_offset_alignment.max(1),
            constant_bytes_max: limits.max_uniform_buffer_range.into(),
            storage_bytes_max: limits.max_storage_buffer_range.into(),
            storage_elements_max: u64::MAX,
            texel_elements_max: limits.max_texel_buffer_elements.into(),
            slots_own_objects: true,
            // The program may have enabled the feature without setting the flag. Native samplers may then request
            // anisotropy.
            anisotropy_max: if self.has(Features::SAMPLER_ANISOTROPY) {
                limits.max_sampler_anisotropy as u8
            } else {
                1
            },
        }
    }

    /// Returns the kinds of view that have separate arrays. Returns `None` if there is only one array for each
    /// descriptor type.
    fn plain_views(&self) -> Option<PlainViews> {
        (self.model() == DescriptorModel::PlainSets).then(|| self.desc.plain_views.or_usual())
    }

    /// Returns the bindings of a heap's layout.
    pub(super) fn bindings(&self, kind: HeapKind, types: ViewTypes) -> types::Bindings {
        let types = types::bindings(kind, types);
        match self.plain_views() {
            Some(views) if kind == HeapKind::Resources => {
                types.flat_map(|(_, of)| kinds::bindings_of(of, views).map(move |binding| (binding, of))).collect()
            }
            _ => types.collect(),
        }
    }

    /// Returns the binding of a view.
    pub(super) fn binding_of(&self, descriptor_type: vk::DescriptorType, kind: Kind) -> Option<u32> {
        match self.plain_views() {
            Some(views) => kinds::binding_of(descriptor_type, kind, views),
            None => types::binding_of(descriptor_type),
        }
    }

    /// Returns the size of a descriptor in a descriptor buffer, in bytes.
    pub(super) fn descriptor_bytes(&self, descriptor_type: vk::DescriptorType) -> usize {
        let (sizes, robust) = (&self.buffer, self.has(Features::ROBUST_BUFFER_ACCESS));
        match descriptor_type {
            vk::DescriptorType::SAMPLER => sizes.sampler_descriptor_size,
            vk::DescriptorType::SAMPLED_IMAGE => sizes.sampled_image_descriptor_size,
            vk::DescriptorType::STORAGE_IMAGE => sizes.storage_image_descriptor_size,
            vk::DescriptorType::UNIFORM_BUFFER if robust => sizes.robust_uniform_buffer_descriptor_size,
            vk::DescriptorType::UNIFORM_BUFFER => sizes.uniform_buffer_descriptor_size,
            vk::DescriptorType::STORAGE_BUFFER if robust => sizes.robust_storage_buffer_descriptor_size,
            vk::DescriptorType::STORAGE_BUFFER => sizes.storage_buffer_descriptor_size,
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER if robust => sizes.robust_uniform_texel_buffer_descriptor_size,
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER => sizes.uniform_texel_buffer_descriptor_size,
            vk::DescriptorType::STORAGE_TEXEL_BUFFER if robust => sizes.robust_storage_texel_buffer_descriptor_size,
            _ => sizes.storage_texel_buffer_descriptor_size,
        }
    }

    /// Returns the largest number of slots of a shader-visible heap.
    pub(super) fn slots_max(&self, kind: HeapKind, view_types: ViewTypes) -> u32 {
        let limits = match self.model() {
            DescriptorModel::UpdateAfterBind => self.update_after_bind_limits(),
            _ => self.plain_limits(),
        };
        let by_stage = match kind {
            HeapKind::Resources => {
                let bindings = self.bindings(kind, view_types);
                limits.resources(|of| bindings.iter().filter(|(_, held)| *held == of).count() as u32)
            }
            HeapKind::Samplers => limits.samplers,
            HeapKind::RenderTargets | HeapKind::DepthStencils => 0,
        };
        if self.model() == DescriptorModel::Buffers {
            by_stage.min(self.slots_by_bytes(kind, view_types))
        } else {
            by_stage
        }
    }

    /// Returns the number of slots that fit into the largest descriptor buffer of this kind, minus spare bytes for
    /// alignment.
    fn slots_by_bytes(&self, kind: HeapKind, view_types: ViewTypes) -> u32 {
        let slot: u64 = types::bindings(kind, view_types).map(|(_, of)| self.descriptor_bytes(of) as u64).sum();
        let slots = self.heap_bytes_max(kind).saturating_sub(self.spare_bytes()) / slot.max(1);
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Returns an upper bound of the padding before the first array and between the arrays of a heap, in bytes.
    fn spare_bytes(&self) -> u64 {
        7 * self.buffer.descriptor_buffer_offset_alignment.max(256)
    }

    /// Returns the maximum size of one descriptor buffer, in bytes. If no buffer is larger, the address space fits a
    /// heap of each kind and the replacements of both, so both can grow at once. A sampler heap gets at most a quarter
    /// of the common address space, and no more than it can use.
    fn heap_bytes_max(&self, kind: HeapKind) -> u64 {
        let (whole, slot) = (self.whole_address_space(), self.buffer.sampler_descriptor_size as u64);
        let usable = u64::from(self.plain_limits().samplers).saturating_mul(slot).saturating_add(self.spare_bytes());
        let of_samplers = (self.address_space(HeapKind::Samplers) / 2).min(whole / 4).min(usable);
        if kind == HeapKind::Samplers {
            return self.buffer.max_sampler_descriptor_buffer_range.min(of_samplers);
        }
        let of_resources = (self.address_space(kind) / 2).min(whole / 2 - of_samplers);
        self.buffer.max_resource_descriptor_buffer_range.min(of_resources)
    }

    /// Returns the address space of all descriptor buffers of a kind, in bytes.
    pub(crate) fn address_space(&self, kind: HeapKind) -> u64 {
        match kind {
            HeapKind::Samplers => self.buffer.sampler_descriptor_buffer_address_space_size,
            _ => self.buffer.resource_descriptor_buffer_address_space_size,
        }
    }

    /// Returns the address space of all descriptor buffers, in bytes.
    pub(crate) fn whole_address_space(&self) -> u64 {
        // 2²⁷ is the minimum that every device supports. Older Mesa drivers report 0.
        self.buffer.descriptor_buffer_address_space_size.max(1 << 27)
    }

    /// Returns the maximum number of samplers that can exist at once.
    pub(crate) fn samplers_max(&self) -> u64 {
        self.limits.max_sampler_allocation_count.into()
    }

    fn plain_limits(&self) -> StageLimits {
        let limits = &self.limits;
        StageLimits {
            constants: limits.max_per_stage_descriptor_uniform_buffers.min(limits.max_descriptor_set_uniform_buffers),
            storage_buffers: limits
                .max_per_stage_descriptor_storage_buffers
                .min(limits.max_descriptor_set_storage_buffers),
            sampled: limits.max_per_stage_descriptor_sampled_images.min(limits.max_descriptor_set_sampled_images),
            stored: limits.max_per_stage_descriptor_storage_images.min(limits.max_descriptor_set_storage_images),
            samplers: limits.max_per_stage_descriptor_samplers.min(limits.max_descriptor_set_samplers),
            together: limits.max_per_stage_resources.saturating_sub(OTHER_RESOURCES).max(1),
        }
    }

    fn update_after_bind_limits(&self) -> StageLimits {
        let found = &self.indexing;
        // Half of the limit, so that a heap and its larger replacement fit at once.
        let pools = found.max_update_after_bind_descriptors_in_all_pools / 2;
        StageLimits {
            constants: found
                .max_per_stage_descriptor_update_after_bind_uniform_buffers
                .min(found.max_descriptor_set_update_after_bind_uniform_buffers),
            storage_buffers: found
                .max_per_stage_descriptor_update_after_bind_storage_buffers
                .min(found.max_descriptor_set_update_after_bind_storage_buffers),
            sampled: found
                .max_per_stage_descriptor_update_after_bind_sampled_images
                .min(found.max_descriptor_set_update_after_bind_sampled_images),
            stored: found
                .max_per_stage_descriptor_update_after_bind_storage_images
                .min(found.max_descriptor_set_update_after_bind_storage_images),
            samplers: found
                .max_per_stage_descriptor_update_after_bind_samplers
                .min(found.max_descriptor_set_update_after_bind_samplers)
                .min(pools),
            together: found.max_per_stage_update_after_bind_resources.min(pools),
        }
    }
}

impl StageLimits {
    /// Returns the maximum number of slots of a heap that has `arrays` arrays of each descriptor type. Each array has
    /// one descriptor per slot.
    fn resources(&self, arrays: impl Fn(vk::DescriptorType) -> u32) -> u32 {
        let sampled = arrays(vk::DescriptorType::SAMPLED_IMAGE) + arrays(vk::DescriptorType::UNIFORM_TEXEL_BUFFER);
        let stored = arrays(vk::DescriptorType::STORAGE_IMAGE) + arrays(vk::DescriptorType::STORAGE_TEXEL_BUFFER);
        let shares = [
            (self.constants, arrays(vk::DescriptorType::UNIFORM_BUFFER)),
            (self.storage_buffers, arrays(vk::DescriptorType::STORAGE_BUFFER)),
            (self.sampled, sampled),
            (self.stored, stored),
        ];
        let all: u32 = shares.iter().map(|(_, count)| count).sum();
        let shares = shares.into_iter().chain([(self.together, all)]).filter(|(_, count)| *count > 0);
        shares.map(|(limit, count)| limit / count).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_share_the_limits_of_their_stage() {
        let limits =
            StageLimits { constants: 15, storage_buffers: 32, sampled: 128, stored: 64, samplers: 32, together: 128 };
        let desc = |update_after_bind| {
            let features = if update_after_bind { Features::UPDATE_AFTER_BIND } else { Features::empty() };
            DeviceDesc { features, ..Default::default() }
        };
        let slots = |update_after_bind, types| {
            let bindings = Facts::of_no_heaps(desc(update_after_bind)).bindings(HeapKind::Resources, types);
            limits.resources(|of| bindings.iter().filter(|(_, held)| *held == of).count() as u32)
        };
        assert_eq!(slots(true, ViewTypes::STORAGE_BUFFER), 32);
        assert_eq!(slots(true, ViewTypes::SAMPLED_TEXTURE | ViewTypes::SAMPLED_TEXELS), 64);
        assert_eq!(slots(true, ViewTypes::STORAGE_BUFFER | ViewTypes::SAMPLED_TEXTURE), 32);
        assert_eq!(slots(true, ViewTypes::all()), 15);
        assert_eq!(slots(true, ViewTypes::empty()), 0);
        // The heap has four kinds of sampled image and three kinds of storage image.
        assert_eq!(slots(false, ViewTypes::STORAGE_BUFFER), 32);
        assert_eq!(slots(false, ViewTypes::SAMPLED_TEXTURE), 32);
        assert_eq!(slots(false, ViewTypes::all()), 11);
    }

    /// Two heaps of each kind fit at once: when a heap grows, its old buffer exists until the device has finished with
    /// it.
    #[test]
    fn descriptor_buffers_of_both_kinds_may_grow_at_once() {
        let mut facts = Facts::of_no_heaps(DeviceDesc::default());
        facts.limits.max_per_stage_descriptor_samplers = u32::MAX;
        facts.limits.max_descriptor_set_samplers = u32::MAX;
        facts.buffer.descriptor_buffer_offset_alignment = 64;
        facts.buffer.sampler_descriptor_size = 16;
        facts.buffer.storage_buffer_descriptor_size = 32;
        let types = ViewTypes::STORAGE_BUFFER;
        for (range, resources, samplers, whole) in [
            (1_u64 << 27, 1_u64 << 27, 1_u64 << 27, 1_u64 << 27),
            (1 << 27, 1 << 27, 1 << 27, 1 << 28),
            (1 << 32, 1 << 32, 1 << 27, 1 << 32),
            (1 << 27, 1 << 32, 1 << 32, 1 << 33),
            (1 << 27, 1 << 27, 1 << 27, 0),
        ] {
            facts.buffer.max_resource_descriptor_buffer_range = range;
            facts.buffer.max_sampler_descriptor_buffer_range = range;
            facts.buffer.resource_descriptor_buffer_address_space_size = resources;
            facts.buffer.sampler_descriptor_buffer_address_space_size = samplers;
            facts.buffer.descriptor_buffer_address_space_size = whole;
            for samplers_of_stage in [u32::MAX, 4000] {
                facts.limits.max_per_stage_descriptor_samplers = samplers_of_stage;
                let bytes = |kind| {
                    u64::from(facts.slots_by_bytes(kind, types)) * if kind == HeapKind::Samplers { 16 } else { 32 }
                };
                let (of_resources, of_samplers) = (bytes(HeapKind::Resources), bytes(HeapKind::Samplers));
                assert!(of_resources > 1 << 20 && of_samplers > 16 * 3000, "{of_resources}, {of_samplers}");
                assert!(of_resources <= range && of_samplers <= range);
                assert!(2 * of_resources <= resources && 2 * of_samplers <= samplers);
                assert!(2 * (of_resources + of_samplers) <= whole.max(1 << 27), "{of_resources}, {of_samplers}");
            }
        }
    }
}
