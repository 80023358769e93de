//! Vulkan: uploads bytes through a ring into a buffer on the device, and reads them back.
//!
//! `cargo run -p ringfence --features vulkan --example vulkan_buffer`

use std::time::Duration;

use ash::vk;
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, AllocatorDesc, Location, UploadRing, vulkan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::new()?;
    copy_there_and_back(&program)?;
    program.destroy();
    Ok(())
}

fn copy_there_and_back(program: &Program) -> Result<(), Box<dyn std::error::Error>> {
    let Program { instance, physical, device, desc, semaphore, .. } = program;
    // SAFETY: `device` was created from `physical` with the features in `desc`, for Vulkan 1.2; it is destroyed after
    // `memory`.
    let device = unsafe { vulkan::Device::new(instance, *physical, device.clone(), *desc) }?;
    let memory = vulkan::Allocator::over(device, AllocatorDesc::default());
    // SAFETY: the one submission below signals this semaphore with the value of its frame.
    let timeline = unsafe { memory.timeline(*semaphore) }?;
    let upload = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;

    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let size = bytes.len() as u64;
    let usage = vk::BufferUsageFlags::TRANSFER_DST | vk::BufferUsageFlags::TRANSFER_SRC;
    let info = vulkan::BufferInfo::new(size, usage);
    let vertices = memory.create_buffer(&info, AllocationDesc { name: "vertices", ..Default::default() })?;
    let back_desc = AllocationDesc { name: "back", location: Location::Readback, ..Default::default() };
    let back = memory.create_buffer(&info, back_desc)?;

    let frame = timeline.begin();
    let value = frame.value();
    let staged = upload.write(&bytes, 16)?;
    // SAFETY: the buffers live until the submission is complete: the program waits for it below.
    unsafe { program.submit_copies(staged.buffer, staged.offset, vertices.raw(), back.raw(), size, value) }?;
    timeline.submitted(frame)?;

    drop(vertices); // Retired, not destroyed: the device may still read it.
    assert!(timeline.wait(value, Duration::from_secs(10))?, "the copies take less than ten seconds");
    let mut returned = vec![0; bytes.len()];
    back.read(0, &mut returned)?;
    assert_eq!(returned, bytes);
    println!("{}: {size} bytes uploaded and read back", memory.snapshot().device);
    println!("reclaimed: {:?}", memory.reclaim());

    drop((back, upload));
    memory.shutdown(Duration::from_secs(10))?;
    Ok(())
}

/// Objects that every Vulkan program has.
struct Program {
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    /// The features that were enabled.
    desc: vulkan::DeviceDesc,
    queue: vk::Queue,
    pool: vk::CommandPool,
    semaphore: vk::Semaphore,
    _entry: ash::Entry,
}

impl Program {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        // SAFETY: the loader is the system's own. Every handle is used with the object that it was created from, while
        // that is alive.
        unsafe {
            let entry = ash::Entry::load()?;
            let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&app), None)?;
            let is_new = |physical: &vk::PhysicalDevice| {
                instance.get_physical_device_properties(*physical).api_version >= vk::API_VERSION_1_2
            };
            let physical = instance.enumerate_physical_devices()?.into_iter().find(is_new);
            let physical = physical.ok_or("there is no device with Vulkan 1.2")?;
            let priorities = [1.0];
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&priorities)];
            // Enables the features that help the library, if the device has them.
            let mut setup = vulkan::DeviceSetup::query(&instance, physical, vulkan::Features::USUAL)?;
            let (names, desc) = (setup.extension_names(), setup.desc());
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
            let device = instance.create_device(physical, &setup.chain(info), None)?;
            let queue = device.get_device_queue(0, 0);
            let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None)?;
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let semaphore = device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)?;
            Ok(Self { instance, physical, device, desc, queue, pool, semaphore, _entry: entry })
        }
    }

    /// Copies from the ring to `to`, then from `to` to `back`.
    ///
    /// # Safety
    /// The buffers must belong to this device and live until the submission is complete.
    unsafe fn submit_copies(
        &self,
        from: vk::Buffer,
        offset: u64,
        to: vk::Buffer,
        back: vk::Buffer,
        size: u64,
        value: u64,
    ) -> Result<(), vk::Result> {
        // SAFETY: the caller promises it for the buffers; all other objects belong to this program.
        unsafe {
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
            let commands = self.device.allocate_command_buffers(&info)?[0];
            self.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            let copy = |offset| [vk::BufferCopy { src_offset: offset, dst_offset: 0, size }];
            self.device.cmd_copy_buffer(commands, from, to, &copy(offset));
            let (transfer, host) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
            let barrier = |dst| {
                [vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::TRANSFER_WRITE).dst_access_mask(dst)]
            };
            let read = barrier(vk::AccessFlags::TRANSFER_READ);
            self.device.cmd_pipeline_barrier(commands, transfer, transfer, Default::default(), &read, &[], &[]);
            self.device.cmd_copy_buffer(commands, to, back, &copy(0));
            let read = barrier(vk::AccessFlags::HOST_READ);
            self.device.cmd_pipeline_barrier(commands, transfer, host, Default::default(), &read, &[], &[]);
            self.device.end_command_buffer(commands)?;
            let (values, semaphores, commands) = ([value], [self.semaphore], [commands]);
            let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
            let submit = vk::SubmitInfo::default().command_buffers(&commands).signal_semaphores(&semaphores);
            self.device.queue_submit(self.queue, &[submit.push_next(&mut signal)], vk::Fence::null())
        }
    }

    fn destroy(self) {
        // SAFETY: the work is complete, and all other objects created from the device were destroyed.
        unsafe {
            self.device.destroy_semaphore(self.semaphore, None);
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
