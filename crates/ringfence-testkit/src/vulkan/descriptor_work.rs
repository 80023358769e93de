//! The compute pipelines for [`DescriptorWork`]: one per heap size, created when it is first needed.

use ash::vk;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use ringfence::device::descriptors::HeapKind;
use ringfence::vulkan::{Bound, Device};

use super::queue::Batch;
use super::record;
use crate::descriptor_work::{DescriptorWork, Job};

/// Number of invocations in a workgroup; must match `descriptor_work.wgsl`.
const GROUP: u32 = 64;
/// Size of `Job` in `descriptor_work.wgsl`, in bytes.
const JOB_BYTES: u32 = 16;

#[derive(Default)]
pub(super) struct Pipelines(Vec<Pipeline>);

struct Pipeline {
    key: Key,
    layout: vk::PipelineLayout,
    raw: vk::Pipeline,
}

/// Properties in which pipelines differ.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    layout: vk::DescriptorSetLayout,
    slots: u32,
    /// `true` if the shader reads constants.
    constants: bool,
}

impl Key {
    fn of(bound: &Bound, slots: u32, job: &Job<Device>) -> Self {
        let constants = matches!(job, Job::Copy { constants: true, .. });
        Self { layout: bound.set_layout(), slots, constants }
    }
}

impl Pipelines {
    /// Creates the pipelines that these jobs need and that do not exist.
    pub(super) fn prepare(
        &mut self,
        device: &ash::Device,
        bound: &Bound,
        (slots, jobs): (u32, &[Job<Device>]),
    ) -> Result<(), vk::Result> {
        for key in jobs.iter().map(|job| Key::of(bound, slots, job)) {
            if self.find(key).is_none() {
                self.0.push(Pipeline::new(device, bound, key)?);
            }
        }
        Ok(())
    }

    fn find(&self, key: Key) -> Option<&Pipeline> {
        self.0.iter().find(|pipeline| pipeline.key == key)
    }

    /// # Safety
    /// No pending work may use the pipelines.
    pub(super) unsafe fn destroy(self, device: &ash::Device) {
        for pipeline in self.0 {
            // SAFETY: the caller promises that no pending work uses the pipelines.
            unsafe { pipeline.destroy(device) };
        }
    }

    /// Records the jobs. Their pipelines must have been prepared.
    pub(super) fn record(
        &self,
        device: &Device,
        batch: &Batch,
        work: DescriptorWork<'_, Device>,
    ) -> Result<(), vk::Result> {
        let bound = *work.binding.bound(HeapKind::Resources).expect("a heap of resources is bound");
        let (raw, commands, point) = (device.raw(), batch.commands, vk::PipelineBindPoint::COMPUTE);
        for (number, job) in work.jobs.iter().enumerate() {
            let pipeline = self.find(Key::of(&bound, work.slots, job)).expect("the pipeline was prepared");
            // SAFETY: the command buffer is being recorded. Pipeline, layout and heap match.
            unsafe {
                raw.cmd_bind_pipeline(commands, point, pipeline.raw);
                if number == 0 {
                    work.binding.set(device, commands, point, pipeline.layout, 0).expect("set once");
                } else {
                    work.binding.set_offsets(device, commands, point, pipeline.layout, 0);
                }
            }
            record::barrier(raw, commands, None);
            let (dst, src, words, value) = match job {
                Job::Fill { to, words, value } => (to.index, to.index, *words, *value),
                Job::Copy { from, to, words, .. } => (to.index, from.index, *words, 0),
            };
            let numbers = [dst, src, words, value].map(u32::to_ne_bytes);
            // SAFETY: as above. The numbers have the size of the pipeline's push constants.
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
    fn new(device: &ash::Device, bound: &Bound, key: Key) -> Result<Self, vk::Result> {
        let layouts = [bound.set_layout()];
        let job = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: JOB_BYTES }];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&job);
        // SAFETY: the set layout belongs to the device and is alive.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let made = Self { key, layout, raw: vk::Pipeline::null() };
        match make_pipeline(device, layout, bound, key) {
            Ok(raw) => Ok(Self { raw, ..made }),
            Err(error) => {
                // SAFETY: no commands use the pipeline.
                unsafe { made.destroy(device) };
                Err(error)
            }
        }
    }

    /// # Safety
    /// No pending work may use the pipeline.
    unsafe fn destroy(self, device: &ash::Device) {
        // SAFETY: the caller promises that no pending work uses the pipeline. Null handles are ignored.
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
    key: Key,
) -> Result<vk::Pipeline, vk::Result> {
    let code = compile(key.slots, key.constants);
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
    // SAFETY: the layout has the shader's push constants and its binding, an array with at least the shader's length.
    let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
    // SAFETY: pipelines do not need their modules once they are created.
    unsafe { device.destroy_shader_module(module, None) };
    Ok(made.map_err(|(_, error)| error)?[0])
}

/// Compiles the shader to SPIR-V, for a heap of `slots` slots.
///
/// # Panics
/// If the shader, which is part of this program, is invalid. A test checks that it is valid.
fn compile(slots: u32, constants: bool) -> Vec<u32> {
    let source = if constants { include_str!("constant_copy.wgsl") } else { include_str!("descriptor_work.wgsl") };
    let source = source.replace("SLOTS", &slots.to_string());
    let module = naga::front::wgsl::parse_str(&source).expect("it is WGSL");
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).expect("it is valid");
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    spv::write_vec(&module, &info, &options, None).expect("it is within SPIR-V")
}

#[cfg(test)]
mod tests;
