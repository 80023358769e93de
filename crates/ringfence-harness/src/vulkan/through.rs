//! The compute pipelines behind [`Through`]: one for each heap size, made when it is first met.

use ash::vk;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use ringfence::device::DeviceError;
use ringfence::device::descriptors::HeapKind;
use ringfence::vulkan::{Bound, Device};

use super::queue::Batch;
use super::record;
use crate::through::{Job, Through};

/// Invocations of a workgroup; `through.wgsl` says the same.
const GROUP: u32 = 64;
/// Bytes of the numbers in `Job` of `through.wgsl`.
const JOB_BYTES: u32 = 16;

/// The pipelines that there are so far.
#[derive(Default)]
pub(super) struct Pipelines(Vec<Pipeline>);

struct Pipeline {
    key: (vk::DescriptorSetLayout, u32),
    layout: vk::PipelineLayout,
    raw: vk::Pipeline,
}

impl Pipelines {
    /// Makes the pipeline for a heap of `slots`, if there is none yet.
    pub(super) fn prepare(&mut self, device: &ash::Device, bound: &Bound, slots: u32) -> Result<(), vk::Result> {
        if self.find(bound, slots).is_none() {
            self.0.push(Pipeline::new(device, bound, slots)?);
        }
        Ok(())
    }

    fn find(&self, bound: &Bound, slots: u32) -> Option<&Pipeline> {
        self.0.iter().find(|pipeline| pipeline.key == (bound.set_layout(), slots))
    }

    /// Destroys all.
    ///
    /// # Safety
    /// No pending work uses them.
    pub(super) unsafe fn destroy(self, device: &ash::Device) {
        for pipeline in self.0 {
            // SAFETY: as the caller promises.
            unsafe { pipeline.destroy(device) };
        }
    }

    /// Records the jobs. The pipeline was prepared.
    pub(super) fn record(
        &self,
        device: &Device,
        batch: &Batch,
        through: Through<'_, Device>,
    ) -> Result<(), vk::Result> {
        let bound = *through.binding.bound(HeapKind::Resources).expect("a heap of resources is bound");
        let pipeline = self.find(&bound, through.slots).expect("the pipeline was prepared");
        let (raw, commands, point) = (device.raw(), batch.commands, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer is being recorded; pipeline, layout and heap belong together.
        unsafe {
            raw.cmd_bind_pipeline(commands, point, pipeline.raw);
            through.binding.set(device, commands, point, pipeline.layout, 0).expect("set once");
        }
        for job in through.jobs {
            record::barrier(raw, commands, None);
            let (dst, src, words, value) = match job {
                Job::Fill { to, words, value } => (to.index, to.index, *words, *value),
                Job::Copy { from, to, words } => (to.index, from.index, *words, 0),
            };
            let numbers = [dst, src, words, value].map(u32::to_ne_bytes);
            // SAFETY: as above; the numbers are as long as the pipeline's.
            unsafe {
                let stage = vk::ShaderStageFlags::COMPUTE;
                raw.cmd_push_constants(commands, pipeline.layout, stage, 0, numbers.as_flattened());
                raw.cmd_dispatch(commands, words.div_ceil(GROUP), 1, 1);
            }
        }
        record::host_barrier(raw, commands);
        Ok(())
    }
}

impl Pipeline {
    fn new(device: &ash::Device, bound: &Bound, slots: u32) -> Result<Self, vk::Result> {
        let layouts = [bound.set_layout()];
        let job = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: JOB_BYTES }];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&job);
        // SAFETY: the set layout is the device's and alive.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let made = Self { key: (bound.set_layout(), slots), layout, raw: vk::Pipeline::null() };
        match make_pipeline(device, layout, bound, slots) {
            Ok(raw) => Ok(Self { raw, ..made }),
            Err(error) => {
                // SAFETY: nothing was recorded with it.
                unsafe { made.destroy(device) };
                Err(error)
            }
        }
    }

    /// # Safety
    /// No pending work uses it.
    unsafe fn destroy(self, device: &ash::Device) {
        // SAFETY: as the caller promises; null handles are passed over.
        unsafe {
            device.destroy_pipeline(self.raw, None);
            device.destroy_pipeline_layout(self.layout, None);
        }
    }
}

fn make_pipeline(
    device: &ash::Device,
    layout: vk::PipelineLayout,
    bound: &Bound,
    slots: u32,
) -> Result<vk::Pipeline, vk::Result> {
    let code = compile(slots);
    // SAFETY: naga has validated the shader.
    let module = unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None) }?;
    let stage =
        vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(module).name(c"run");
    let flags = if bound.needs_descriptor_buffer_pipelines() {
        vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT
    } else {
        vk::PipelineCreateFlags::empty()
    };
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(flags)];
    // SAFETY: the layout has the shader's binding, an array at least as long, and its push constants.
    let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
    // SAFETY: pipelines do not need their modules once they are made.
    unsafe { device.destroy_shader_module(module, None) };
    Ok(made.map_err(|(_, error)| error)?[0])
}

/// What the driver says as the library says it.
pub(super) fn error(error: vk::Result) -> DeviceError {
    error.into()
}

/// The shader as SPIR-V, for a heap of `slots`.
///
/// # Panics
/// If the shader, which is part of this program, is wrong; a test sees to it that it is not.
fn compile(slots: u32) -> Vec<u32> {
    let source = include_str!("through.wgsl").replace("SLOTS", &slots.to_string());
    let module = naga::front::wgsl::parse_str(&source).expect("through.wgsl is WGSL");
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).expect("through.wgsl is valid");
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    spv::write_vec(&module, &info, &options, None).expect("through.wgsl is within SPIR-V")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_shader_compiles_to_spirv_without_more_than_constant_size_arrays() {
        let code = super::compile(32);
        assert_eq!(code[0], 0x0723_0203, "magic number");
        // OpCapability is word count 2, opcode 17; RuntimeDescriptorArray is 5302.
        let capabilities: Vec<_> = code.windows(2).filter(|pair| pair[0] == 2 << 16 | 17).map(|pair| pair[1]).collect();
        assert!(!capabilities.contains(&5302), "{capabilities:?}");
    }
}
