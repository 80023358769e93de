//! The shader on a Vulkan device, with any kind of descriptor heap.

use ash::vk;
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use ringfence::descriptor::Binding;
use ringfence::device::descriptors::HeapKind;
use ringfence::vulkan::{Bound, Device, DeviceDesc, DeviceSetup, Features};

use crate::{Draw, Failure, Gpu, PICKS};

pub struct Vulkan {
    device: Device,
    instance: ash::Instance,
    queue: vk::Queue,
    pool: vk::CommandPool,
    semaphore: vk::Semaphore,
    /// Pipeline that was created for the first heap that was bound.
    pipeline: Option<(vk::PipelineLayout, vk::Pipeline)>,
    _entry: ash::Entry,
}

impl Vulkan {
    pub fn new() -> Result<Self, Failure> {
        // SAFETY: the loader is the system's own. Every handle is used with the object that it was created from.
        unsafe {
            let entry = ash::Entry::load()?;
            let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&app), None)?;
            let is_new = |physical: &vk::PhysicalDevice| {
                instance.get_physical_device_properties(*physical).api_version >= vk::API_VERSION_1_2
            };
            let physical = instance.enumerate_physical_devices()?.into_iter().find(is_new);
            let physical = physical.ok_or("there is no device with Vulkan 1.2")?;
            let (raw, desc) = make_device(&instance, physical)?;
            let queue = raw.get_device_queue(0, 0);
            let pool = raw.create_command_pool(&vk::CommandPoolCreateInfo::default(), None)?;
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let semaphore = raw.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)?;
            let device = Device::new(&instance, physical, raw, desc)?;
            Ok(Self { device, instance, queue, pool, semaphore, pipeline: None, _entry: entry })
        }
    }
}

/// Creates a device with the best available kind of descriptors, and returns the description of its features. In order
/// of preference: descriptor buffers, sets that are updated while bound, plain sets (with null descriptors if the
/// device supports them).
///
/// # Safety
/// The physical device must belong to the instance and support Vulkan 1.2.
unsafe fn make_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<(ash::Device, DeviceDesc), Failure> {
    let wanted = Features::USUAL | Features::DESCRIPTOR_BUFFER;
    // SAFETY: the caller makes the same promises.
    let mut setup = unsafe { DeviceSetup::query(instance, physical, wanted) }?;
    let (names, desc) = (setup.extension_names(), setup.desc());
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&priorities)];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    // SAFETY: the device supports the features and extensions of the setup, and every device has a first queue.
    let device = unsafe { instance.create_device(physical, &setup.chain(info), None) }?;
    Ok((device, desc))
}

impl Gpu for Vulkan {
    type Device = Device;

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn fence(&self) -> vk::Semaphore {
        self.semaphore
    }

    fn submit(&mut self, binding: &mut Binding<Device>, slots: u32, draw: Draw, value: u64) -> Result<(), Failure> {
        let bound = *binding.bound(HeapKind::Resources).ok_or("no heap of resources is bound")?;
        if self.pipeline.is_none() {
            self.pipeline = Some(make_pipeline(self.device.raw(), &bound, slots)?);
        }
        let (layout, pipeline) = self.pipeline.expect("it was just made");
        let (raw, point) = (self.device.raw(), vk::PipelineBindPoint::COMPUTE);
        let numbers = [draw.to, draw.from[0], draw.from[1], draw.from[2], draw.from[3]].map(u32::to_ne_bytes);
        // SAFETY: all objects belong to the device and are alive. The layout has the heap's set layout at 0 and space
        // for the numbers. Command buffers are not reused; they are freed with the pool.
        unsafe {
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
            let commands = raw.allocate_command_buffers(&info)?[0];
            raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            raw.cmd_bind_pipeline(commands, point, pipeline);
            // Binds the heap once per command buffer. Each dispatch then passes the slots that it reads as numbers.
            binding.set(&self.device, commands, point, layout, 0)?;
            raw.cmd_push_constants(commands, layout, vk::ShaderStageFlags::COMPUTE, 0, numbers.as_flattened());
            raw.cmd_dispatch(commands, PICKS as u32, 1, 1);
            let (write, read) = (vk::AccessFlags::SHADER_WRITE, vk::AccessFlags::HOST_READ);
            let barrier = [vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(read)];
            let (shader, host) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
            raw.cmd_pipeline_barrier(commands, shader, host, Default::default(), &barrier, &[], &[]);
            raw.end_command_buffer(commands)?;
            let (values, semaphores, commands) = ([value], [self.semaphore], [commands]);
            let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
            let submit = vk::SubmitInfo::default().command_buffers(&commands).signal_semaphores(&semaphores);
            raw.queue_submit(self.queue, &[submit.push_next(&mut signal)], vk::Fence::null())?;
        }
        Ok(())
    }
}

/// Compiles the shader to SPIR-V, with an array of `slots` buffers.
fn compile(slots: u32) -> Result<Vec<u32>, Failure> {
    let source = include_str!("shader.wgsl").replace("SLOTS", &slots.to_string());
    let module = naga::front::wgsl::parse_str(&source)?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module)?;
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    Ok(spv::write_vec(&module, &info, &options, None)?)
}

fn make_pipeline(
    device: &ash::Device,
    bound: &Bound,
    slots: u32,
) -> Result<(vk::PipelineLayout, vk::Pipeline), Failure> {
    let code = match std::env::args_os().nth(1) {
        Some(path) => ash::util::read_spv(&mut std::fs::File::open(path)?)?,
        None => compile(slots)?,
    };
    let slots = slots.to_ne_bytes();
    let entries = [vk::SpecializationMapEntry { constant_id: 0, offset: 0, size: slots.len() }];
    let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&slots);
    let layouts = [bound.set_layout()];
    let size = 4 * (1 + PICKS as u32);
    let draw = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size }];
    // SAFETY: the set layout belongs to the device and is alive. The shader is valid and has the layout's binding: naga
    // has checked it, or, for a file, the compiler that wrote it.
    unsafe {
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&draw);
        let layout = device.create_pipeline_layout(&info, None)?;
        let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None)?;
        let compute = vk::ShaderStageFlags::COMPUTE;
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(c"run");
        let stage = stage.specialization_info(&constants);
        let flags = match bound.needs_descriptor_buffer_pipelines() {
            true => vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT,
            false => vk::PipelineCreateFlags::empty(),
        };
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(flags)];
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
        device.destroy_shader_module(module, None);
        Ok((layout, made.map_err(|(_, error)| error)?[0]))
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        let device = self.device.raw();
        // SAFETY: the work is complete, and all other objects created through the device were destroyed.
        unsafe {
            if let Some((layout, pipeline)) = self.pipeline {
                device.destroy_pipeline(pipeline, None);
                device.destroy_pipeline_layout(layout, None);
            }
            device.destroy_semaphore(self.semaphore, None);
            device.destroy_command_pool(self.pool, None);
            device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
