//! Types of view, and the binding of each type in a set layout.

use ash::vk;
use smallvec::SmallVec;

use ringfence_hal::descriptors::{HeapKind, ViewTypes};

/// View types and their descriptor types, in the order of their bindings.
pub(super) const TYPES: [(ViewTypes, vk::DescriptorType); 6] = [
    (ViewTypes::CONSTANTS, vk::DescriptorType::UNIFORM_BUFFER),
    (ViewTypes::STORAGE_BUFFER, vk::DescriptorType::STORAGE_BUFFER),
    (ViewTypes::SAMPLED_TEXTURE, vk::DescriptorType::SAMPLED_IMAGE),
    (ViewTypes::STORAGE_TEXTURE, vk::DescriptorType::STORAGE_IMAGE),
    (ViewTypes::SAMPLED_TEXELS, vk::DescriptorType::UNIFORM_TEXEL_BUFFER),
    (ViewTypes::STORAGE_TEXELS, vk::DescriptorType::STORAGE_TEXEL_BUFFER),
];

/// Bindings of a layout, with their descriptor types.
pub(super) type Bindings = SmallVec<[(u32, vk::DescriptorType); 12]>;

/// Returns the bindings of a heap with their descriptor types, for models with one binding per descriptor type.
pub(super) fn bindings(kind: HeapKind, types: ViewTypes) -> impl Iterator<Item = (u32, vk::DescriptorType)> + Clone {
    let resources = (0..).zip(TYPES).filter(move |(_, (held, _))| kind == HeapKind::Resources && types.contains(*held));
    let samplers = (kind == HeapKind::Samplers).then_some((0, vk::DescriptorType::SAMPLER));
    resources.map(|(binding, (_, descriptor_type))| (binding, descriptor_type)).chain(samplers)
}

/// Returns the binding of a descriptor type. Returns `None` if heaps do not support the type.
pub(super) fn binding_of(descriptor_type: vk::DescriptorType) -> Option<u32> {
    if descriptor_type == vk::DescriptorType::SAMPLER {
        return Some(0);
    }
    (0..).zip(TYPES).find(|(_, (_, held))| *held == descriptor_type).map(|(binding, _)| binding)
}

/// Returns the descriptor type of a binding.
pub(super) fn type_of(kind: HeapKind, binding: u32) -> vk::DescriptorType {
    if kind == HeapKind::Samplers { vk::DescriptorType::SAMPLER } else { TYPES[binding as usize].1 }
}

/// Creates a set layout. Each binding is an array of `slots` descriptors.
///
/// # Safety
/// The features for the flags are enabled on the device.
pub(super) unsafe fn make_layout(
    device: &ash::Device,
    bindings: impl Iterator<Item = (u32, vk::DescriptorType)>,
    slots: u32,
    stages: vk::ShaderStageFlags,
    flags: vk::DescriptorSetLayoutCreateFlags,
    binding_flags: vk::DescriptorBindingFlags,
) -> Result<vk::DescriptorSetLayout, vk::Result> {
    let bindings: Vec<_> = bindings
        .map(|(binding, descriptor_type)| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(descriptor_type)
                .descriptor_count(slots)
                .stage_flags(stages)
        })
        .collect();
    let binding_flags = vec![binding_flags; bindings.len()];
    let mut more = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&binding_flags);
    let info = vk::DescriptorSetLayoutCreateInfo::default().flags(flags).bindings(&bindings).push_next(&mut more);
    // SAFETY: the caller promises that the features for the flags are enabled. Vulkan 1.2 has the chained structure.
    unsafe { device.create_descriptor_set_layout(&info, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_do_not_depend_on_what_else_a_heap_takes() {
        let few = ViewTypes::STORAGE_BUFFER | ViewTypes::STORAGE_TEXELS;
        let of_few: Vec<_> = bindings(HeapKind::Resources, few).collect();
        assert_eq!(of_few, [(1, vk::DescriptorType::STORAGE_BUFFER), (5, vk::DescriptorType::STORAGE_TEXEL_BUFFER)]);
        for (binding, descriptor_type) in bindings(HeapKind::Resources, ViewTypes::all()) {
            assert_eq!(binding_of(descriptor_type), Some(binding));
            assert_eq!(type_of(HeapKind::Resources, binding), descriptor_type);
        }
        assert_eq!(bindings(HeapKind::Samplers, few).count(), 1);
        assert_eq!(bindings(HeapKind::RenderTargets, few).count(), 0);
    }
}
