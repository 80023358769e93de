//! The compute pipeline for [`Command::Draw`](crate::Command::Draw). Its shader is compiled at run time.

use ash::vk;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::queue::Batch;
use super::record::{LAYOUT, one_subresource};
use crate::{BACKGROUND, Disc};

/// Width and height of a workgroup, in texels; must match `draw.wgsl`.
const GROUP_TEXELS: u32 = 8;
/// Size of `Frame` in `draw.wgsl`, in bytes.
const FRAME_BYTES: u32 = 16;
/// Number of descriptor sets in a pool.
const POOL_SETS: u32 = 16;

/// The fields of [`Command::Draw`](crate::Command::Draw).
pub(super) struct Draw {
    pub(super) discs: vk::Buffer,
    pub(super) discs_offset: u64,
    pub(super) disc_count: u32,
    pub(super) target: vk::Image,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Objects that the draws of one submission need until it is complete.
#[derive(Default)]
pub(super) struct DrawObjects {
    views: Vec<vk::ImageView>,
    /// Kept for later submissions.
    pools: Vec<vk::DescriptorPool>,
    /// Number of sets in use. Each pool is filled before the next one is used.
    sets: usize,
}

pub(super) struct Painter {
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

/// Returns `true` if shaders can write RGBA8 textures on the device.
pub(super) fn is_supported(instance: &ash::Instance, physical: vk::PhysicalDevice) -> bool {
    // SAFETY: the physical device belongs to the instance, which is alive.
    let found = unsafe { instance.get_physical_device_format_properties(physical, vk::Format::R8G8B8A8_UNORM) };
    found.optimal_tiling_features.contains(vk::FormatFeatureFlags::STORAGE_IMAGE)
}

impl Painter {
    /// Compiles the shader and creates the pipeline.
    pub(super) fn new(device: &ash::Device) -> Result<Self, vk::Result> {
        let binding = |index, descriptor_type| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index)
                .descriptor_type(descriptor_type)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings = [binding(0, vk::DescriptorType::STORAGE_BUFFER), binding(1, vk::DescriptorType::STORAGE_IMAGE)];
        let sets = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is alive.
        let set_layout = unsafe { device.create_descriptor_set_layout(&sets, None) }?;
        // Null handles are valid for `destroy`.
        let mut painter = Self { set_layout, layout: vk::PipelineLayout::null(), pipeline: vk::Pipeline::null() };
        match painter.make_pipeline(device) {
            Ok(()) => Ok(painter),
            Err(error) => {
                // SAFETY: no commands were recorded with it.
                unsafe { painter.destroy(device) };
                Err(error)
            }
        }
    }

    fn make_pipeline(&mut self, device: &ash::Device) -> Result<(), vk::Result> {
        let set_layouts = [self.set_layout];
        let frame =
            [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: FRAME_BYTES }];
        let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&set_layouts).push_constant_ranges(&frame);
        // SAFETY: the set layout belongs to the device.
        self.layout = unsafe { device.create_pipeline_layout(&layout, None) }?;
        let code = compile();
        // SAFETY: naga has validated the shader.
        let module = unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"draw");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
        // SAFETY: the layout has the shader's bindings and push constants.
        let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        // SAFETY: pipelines do not need their modules once they are created.
        unsafe { device.destroy_shader_module(module, None) };
        self.pipeline = made.map_err(|(_, error)| error)?[0];
        Ok(())
    }

    /// Records a draw. Its target must be in [`LAYOUT`].
    pub(super) fn record(&self, device: &ash::Device, batch: &mut Batch, draw: &Draw) -> Result<(), vk::Result> {
        let view = batch.draws.view(device, draw.target)?;
        let set = batch.draws.set(device, self.set_layout)?;
        point_at(device, set, draw, view);
        let frame = [draw.width, draw.height, draw.disc_count, BACKGROUND].map(u32::to_ne_bytes);
        let (commands, point) = (batch.commands, vk::PipelineBindPoint::COMPUTE);
        let groups = [draw.width, draw.height].map(|texels| texels.div_ceil(GROUP_TEXELS));
        // SAFETY: the command buffer is being recorded. Pipeline, layout and set match.
        unsafe {
            device.cmd_bind_pipeline(commands, point, self.pipeline);
            device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[set], &[]);
            device.cmd_push_constants(commands, self.layout, vk::ShaderStageFlags::COMPUTE, 0, frame.as_flattened());
            device.cmd_dispatch(commands, groups[0], groups[1], 1);
        }
        Ok(())
    }

    /// # Safety
    /// No pending work may use the pipeline.
    pub(super) unsafe fn destroy(self, device: &ash::Device) {
        // SAFETY: the objects belong to the device. The caller promises that they are unused.
        unsafe {
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

impl DrawObjects {
    /// Creates a view of the first subresource of a texture.
    fn view(&mut self, device: &ash::Device, image: vk::Image) -> Result<vk::ImageView, vk::Result> {
        let info = vk::ImageViewCreateInfo::default()
            .image(image)
            .view_type(vk::ImageViewType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .subresource_range(one_subresource(0, 0));
        // SAFETY: the image belongs to the device, is alive, and has the format RGBA8, as the command requires.
        let view = unsafe { device.create_image_view(&info, None) }?;
        self.views.push(view);
        Ok(view)
    }

    /// Returns an unused descriptor set.
    fn set(&mut self, device: &ash::Device, layout: vk::DescriptorSetLayout) -> Result<vk::DescriptorSet, vk::Result> {
        let pool = self.sets / POOL_SETS as usize;
        if pool == self.pools.len() {
            self.pools.push(create_pool(device)?);
        }
        let layouts = [layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pools[pool]).set_layouts(&layouts);
        // SAFETY: the pool belongs to the device and is not full: a full pool is not used again.
        let set = unsafe { device.allocate_descriptor_sets(&info) }?[0];
        self.sets += 1;
        Ok(set)
    }

    /// Destroys the views and resets the pools.
    ///
    /// # Safety
    /// The submission must be complete, or must not have taken place.
    pub(super) unsafe fn clear(&mut self, device: &ash::Device) {
        // SAFETY: the objects belong to the device. The caller promises that they are unused.
        unsafe {
            self.views.drain(..).for_each(|view| device.destroy_image_view(view, None));
            for pool in &self.pools {
                let _ = device.reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty());
            }
        }
        self.sets = 0;
    }

    /// # Safety
    /// The rules of [`DrawObjects::clear`].
    pub(super) unsafe fn destroy(mut self, device: &ash::Device) {
        // SAFETY: the caller promises that the submission is complete or did not take place.
        unsafe {
            self.clear(device);
            self.pools.drain(..).for_each(|pool| device.destroy_descriptor_pool(pool, None));
        }
    }
}

/// Writes the discs and the target to the set.
fn point_at(device: &ash::Device, set: vk::DescriptorSet, draw: &Draw, view: vk::ImageView) {
    // The range of a descriptor must not be empty.
    let range = match draw.disc_count {
        0 => vk::WHOLE_SIZE,
        count => u64::from(count) * size_of::<Disc>() as u64,
    };
    let discs = [vk::DescriptorBufferInfo { buffer: draw.discs, offset: draw.discs_offset, range }];
    let target = [vk::DescriptorImageInfo::default().image_view(view).image_layout(LAYOUT)];
    let write = |binding| vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding);
    let writes = [
        write(0).descriptor_type(vk::DescriptorType::STORAGE_BUFFER).buffer_info(&discs),
        write(1).descriptor_type(vk::DescriptorType::STORAGE_IMAGE).image_info(&target),
    ];
    // SAFETY: the set is new and has these bindings. The resources belong to the device and are alive.
    unsafe { device.update_descriptor_sets(&writes, &[]) };
}

fn create_pool(device: &ash::Device) -> Result<vk::DescriptorPool, vk::Result> {
    let size = |ty| vk::DescriptorPoolSize { ty, descriptor_count: POOL_SETS };
    let sizes = [size(vk::DescriptorType::STORAGE_BUFFER), size(vk::DescriptorType::STORAGE_IMAGE)];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(POOL_SETS).pool_sizes(&sizes);
    // SAFETY: the device is alive.
    unsafe { device.create_descriptor_pool(&info, None) }
}

/// Compiles the shader to SPIR-V.
///
/// # Panics
/// If the shader, which is part of this program, is invalid. A test checks that it is valid.
fn compile() -> Vec<u32> {
    let module = naga::front::wgsl::parse_str(include_str!("draw.wgsl")).expect("draw.wgsl is WGSL");
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::IMMEDIATES);
    let info = validator.validate(&module).expect("draw.wgsl is valid");
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    spv::write_vec(&module, &info, &options, None).expect("draw.wgsl is within SPIR-V")
}

#[cfg(test)]
mod tests;
