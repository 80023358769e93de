//! A Vulkan device with the facade on top of it.

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{MemoryLocation, Result};
use ringfence::vulkan::Features;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, OpenError, Options};

/// The way in which the device was opened.
enum Opened {
    /// By the test kit, with validation.
    TestKit(Box<VulkanGpu>),
    /// With raw calls, for another version of Vulkan.
    Bare(Box<Bare>),
}

struct Bare {
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    _entry: ash::Entry,
}

pub struct Rig {
    /// Dropped before the device.
    allocator: Option<Allocator>,
    opened: Opened,
}

/// Returns the description of memory for a buffer.
pub fn desc(requirements: vk::MemoryRequirements, location: MemoryLocation, name: &str) -> AllocationCreateDesc<'_> {
    let allocation_scheme = AllocationScheme::GpuAllocatorManaged;
    AllocationCreateDesc { name, requirements, location, linear: true, allocation_scheme }
}

pub fn linear(desc: AllocationCreateDesc<'_>, linear: bool) -> AllocationCreateDesc<'_> {
    AllocationCreateDesc { linear, ..desc }
}

impl Rig {
    /// Returns `None` if there is no device and none is required.
    pub fn open() -> Option<Self> {
        match VulkanGpu::open(&Options { validation: true, ..Options::default() }) {
            Ok(gpu) => Some(Self::over(Opened::TestKit(Box::new(gpu)))),
            Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none() => {
                eprintln!("skipped: {what}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens the first device of an instance of this version, without layers.
    pub fn open_version(api_version: u32) -> Option<Self> {
        Self::open()?.finish();
        let application = vk::ApplicationInfo::default().api_version(api_version);
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        // SAFETY: there is a loader with a device, because one was just opened. Every device has a queue family 0.
        let opened = unsafe {
            let entry = ash::Entry::load().expect("a loader");
            let info = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&info, None).expect("an instance");
            let physical = instance.enumerate_physical_devices().expect("a device")[0];
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            let device = instance.create_device(physical, &info, None).expect("a device");
            Opened::Bare(Box::new(Bare { instance, physical, device, _entry: entry }))
        };
        Some(Self::over(opened))
    }

    fn over(opened: Opened) -> Self {
        let mut rig = Self { allocator: None, opened };
        rig.allocator = Some(rig.another());
        rig
    }

    /// Creates another allocator on the same device. It must be dropped before the rig.
    pub fn another(&self) -> Allocator {
        let (instance, physical_device, device) = self.handles();
        let buffer_device_address = match &self.opened {
            Opened::TestKit(gpu) => gpu.device().desc().features.contains(Features::BUFFER_DEVICE_ADDRESS),
            Opened::Bare(_) => false,
        };
        let desc = AllocatorCreateDesc {
            instance,
            device,
            physical_device,
            debug_settings: Default::default(),
            buffer_device_address,
            allocation_sizes: Default::default(),
        };
        Allocator::new(&desc).expect("an allocator")
    }

    fn handles(&self) -> (ash::Instance, vk::PhysicalDevice, ash::Device) {
        match &self.opened {
            Opened::TestKit(gpu) => {
                let device = gpu.device();
                (device.instance().clone(), device.physical(), device.raw().clone())
            }
            Opened::Bare(bare) => (bare.instance.clone(), bare.physical, bare.device.clone()),
        }
    }

    fn raw(&self) -> ash::Device {
        self.handles().2
    }

    pub fn allocator(&mut self) -> &mut Allocator {
        self.allocator.as_mut().expect("it was not dropped")
    }

    pub fn drop_allocator(&mut self) {
        self.allocator = None;
    }

    /// Returns the flags of the memory types, in the driver's order.
    pub fn memory_types(&self) -> Vec<vk::MemoryPropertyFlags> {
        let (instance, physical, _) = self.handles();
        // SAFETY: the physical device belongs to the instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        memory.memory_types_as_slice().iter().map(|held| held.property_flags).collect()
    }

    /// Returns the distance between buffers and images, in bytes.
    pub fn granularity(&self) -> u64 {
        let (instance, physical, _) = self.handles();
        // SAFETY: the physical device belongs to the instance.
        unsafe { instance.get_physical_device_properties(physical) }.limits.buffer_image_granularity
    }

    pub fn buffer(&self, size: u64) -> vk::Buffer {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the description is valid.
        unsafe { self.raw().create_buffer(&info, None) }.expect("a buffer")
    }

    pub fn needs(&self, buffer: vk::Buffer) -> vk::MemoryRequirements {
        // SAFETY: the buffer belongs to this device.
        unsafe { self.raw().get_buffer_memory_requirements(buffer) }
    }

    pub fn image(&self, side: u32) -> vk::Image {
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: side, height: side, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::SAMPLED);
        // SAFETY: the description is valid.
        unsafe { self.raw().create_image(&info, None) }.expect("an image")
    }

    pub fn image_needs(&self, image: vk::Image) -> vk::MemoryRequirements {
        // SAFETY: the image belongs to this device.
        unsafe { self.raw().get_image_memory_requirements(image) }
    }

    pub fn allocate(
        &mut self,
        needs: vk::MemoryRequirements,
        location: MemoryLocation,
        name: &str,
    ) -> Result<Allocation> {
        self.allocator().allocate(&desc(needs, location, name))
    }

    pub fn allocate_for(&mut self, buffer: vk::Buffer, location: MemoryLocation) -> Result<Allocation> {
        self.allocate(self.needs(buffer), location, "a buffer's")
    }

    pub fn bind(&self, buffer: vk::Buffer, allocation: &Allocation) {
        // SAFETY: the allocation was made for the buffer, which is destroyed before the allocation is freed.
        unsafe { self.raw().bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) }
            .expect("it is bound");
    }

    pub fn bind_image(&self, image: vk::Image, allocation: &Allocation) {
        // SAFETY: as above.
        unsafe { self.raw().bind_image_memory(image, allocation.memory(), allocation.offset()) }.expect("it is bound");
    }

    pub fn destroy(&self, buffer: vk::Buffer) {
        // SAFETY: the device does not use it.
        unsafe { self.raw().destroy_buffer(buffer, None) }
    }

    pub fn destroy_image(&self, image: vk::Image) {
        // SAFETY: the device does not use it.
        unsafe { self.raw().destroy_image(image, None) }
    }

    /// Copies a whole buffer and waits.
    pub fn copy(&self, from: vk::Buffer, to: vk::Buffer, size: u64) {
        let Opened::TestKit(gpu) = &self.opened else { panic!("the test kit opened no device") };
        let (raw, family) = (self.raw(), gpu.queue_family());
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: all objects belong to this device and are valid, and the work is waited for before they are
        // destroyed.
        unsafe {
            let pool = raw.create_command_pool(&pool, None).expect("a pool");
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = raw.allocate_command_buffers(&info).expect("a command buffer")[0];
            raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("it begins");
            raw.cmd_copy_buffer(commands, from, to, &[vk::BufferCopy { src_offset: 0, dst_offset: 0, size }]);
            let seen = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)];
            let (after, before) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
            raw.cmd_pipeline_barrier(commands, after, before, Default::default(), &seen, &[], &[]);
            raw.end_command_buffer(commands).expect("it ends");
            let queue = raw.get_device_queue(family, 0);
            let submits = [vk::SubmitInfo::default().command_buffers(std::slice::from_ref(&commands))];
            raw.queue_submit(queue, &submits, vk::Fence::null()).expect("it is submitted");
            raw.queue_wait_idle(queue).expect("it completes");
            raw.destroy_command_pool(pool, None);
        }
    }

    /// Destroys the allocator and the device, and checks that the validation layers reported no message.
    pub fn finish(self) {
        let Self { allocator, opened } = self;
        drop(allocator);
        match opened {
            Opened::TestKit(mut gpu) => assert_eq!(gpu.take_messages(), Vec::<String>::new()),
            // SAFETY: no object of the device is left.
            Opened::Bare(bare) => unsafe {
                bare.device.destroy_device(None);
                bare.instance.destroy_instance(None);
            },
        }
    }
}
