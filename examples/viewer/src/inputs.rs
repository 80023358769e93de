//! Inputs of a pass: a set of up to three targets of earlier passes.
//!
//! They are not in the heap: on devices with plain sets, every draw uses all images of the heap, and a target must not be
//! read while it is drawn to.

use ash::vk;

use crate::targets::{Pass, Planned, Target};

/// Sets of one frame. They are allocated again when the device has finished with the frame.
pub struct Inputs {
    device: ash::Device,
    pool: vk::DescriptorPool,
}

impl Inputs {
    pub fn new(device: &ash::Device) -> Result<Self, vk::Result> {
        let size = [vk::DescriptorPoolSize { ty: vk::DescriptorType::SAMPLED_IMAGE, descriptor_count: 32 }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(8).pool_sizes(&size);
        // SAFETY: the device is alive.
        let pool = unsafe { device.create_descriptor_pool(&info, None) }?;
        Ok(Self { device: device.clone(), pool })
    }

    /// Frees all sets. The device must have finished with them.
    pub fn reset(&self) -> Result<(), vk::Result> {
        // SAFETY: the caller has waited for the frame.
        unsafe { self.device.reset_descriptor_pool(self.pool, Default::default()) }
    }

    /// Returns a set with the inputs of a pass.
    pub fn set(
        &self,
        layout: vk::DescriptorSetLayout,
        pass: Pass,
        planned: &Planned,
    ) -> Result<vk::DescriptorSet, vk::Result> {
        let layouts = [layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
        // SAFETY: the pool and the layout are alive.
        let set = unsafe { self.device.allocate_descriptor_sets(&info) }?[0];
        let inputs = of_pass(pass);
        let images: Vec<_> = inputs
            .iter()
            .map(|(_, target)| {
                [vk::DescriptorImageInfo::default()
                    .image_view(planned.view(*target))
                    .image_layout(vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL)]
            })
            .collect();
        let writes: Vec<_> = inputs
            .iter()
            .zip(&images)
            .map(|((binding, _), image)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(*binding)
                    .descriptor_type(vk::DescriptorType::SAMPLED_IMAGE)
                    .image_info(image)
            })
            .collect();
        // SAFETY: the set is not in use, and the views are alive until the frame is complete.
        unsafe { self.device.update_descriptor_sets(&writes, &[]) };
        Ok(set)
    }

    /// Destroys the pool. The device must have finished with its sets.
    pub fn destroy(self) {
        // SAFETY: the program has waited for all work.
        unsafe { self.device.destroy_descriptor_pool(self.pool, None) };
    }
}

/// Returns the binding and the target of each input of a pass.
fn of_pass(pass: Pass) -> &'static [(u32, Target)] {
    match pass {
        Pass::Shadow => &[],
        Pass::Scene => &[(0, Target::Shadow)],
        Pass::Bright => &[(1, Target::Resolved)],
        Pass::Smaller1 => &[(1, Target::Bloom0)],
        Pass::Smaller2 => &[(1, Target::Bloom1)],
        Pass::Larger1 => &[(1, Target::Bloom1), (2, Target::Bloom2)],
        Pass::Larger0 => &[(1, Target::Bloom0), (2, Target::Larger1)],
        Pass::Tone => &[(1, Target::Resolved), (2, Target::Larger0)],
    }
}
