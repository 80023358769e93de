//! A device without extensions, layers and features, except timeline semaphores: the minimum that the backend must
//! support.

use ash::vk;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Requirements, ResourceClass, Textures,
};
use ringfence::memory::Error;
use ringfence::vulkan::{BufferInfo, Device, DeviceDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated};

use crate::vulkan_backend::rig;

/// Runs a test on the first device of a Vulkan 1.2 instance, if there is one.
fn with_bare_device(run: impl FnOnce(&Device)) {
    let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default().push_next(&mut features);
    with_raw_device(vk::API_VERSION_1_2, info, |instance, physical, raw| {
        // SAFETY: they were created from each other, with timeline semaphores, and outlive the call.
        let device = unsafe { Device::new(instance, physical, raw.clone(), DeviceDesc::default()) };
        run(&device.expect("Vulkan 1.2"));
    });
}

/// Runs a test on a device of an instance without extensions. Destroys both afterwards.
pub fn with_raw_device(
    api_version: u32,
    info: vk::DeviceCreateInfo<'_>,
    run: impl FnOnce(&ash::Instance, vk::PhysicalDevice, &ash::Device),
) {
    if let Err(error) = ringfence_testkit::vulkan::enumerate() {
        return rig::skip(&error);
    }
    let application = vk::ApplicationInfo::default().api_version(api_version);
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
    let info = info.queue_create_infos(&queues);
    // SAFETY: a loader and a device exist; every device has a queue family 0; all objects are destroyed in order.
    unsafe {
        let entry = ash::Entry::load().expect("a loader");
        let instance = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&instance, None).expect("an instance");
        let physical = instance.enumerate_physical_devices().expect("a device")[0];
        let raw = instance.create_device(physical, &info, None).expect("a device");
        run(&instance, physical, &raw);
        raw.destroy_device(None);
        instance.destroy_instance(None);
    }
}

#[test]
fn names_are_passed_over_without_debug_utils() {
    with_bare_device(|device| {
        let info = Create::<Buffers>::describe(device, &BufferDesc { size: 64, usage: BufferUsage::COPY_SRC });
        // SAFETY: the device described the buffer, and it is discarded once.
        unsafe {
            let (buffer, _) = Create::<Buffers>::prepare(device, &info.expect("a plain buffer")).expect("a buffer");
            Create::<Buffers>::set_name(device, &buffer, "no tool sees this");
            Create::<Buffers>::discard(device, buffer);
        }
    });
}

#[test]
fn buffers_without_usage_and_unannounced_device_addresses_are_refused() {
    with_bare_device(|device| {
        for usage in [vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS, vk::BufferUsageFlags::empty()] {
            let info = BufferInfo::new(64, usage);
            // SAFETY: the description contains no pointers.
            let refused = unsafe { Create::<Buffers>::prepare(device, &info) }.map(|_| ());
            assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{refused:?}");
        }
    });
}

/// A program that places its own resources can allocate memory with any Vulkan version. It gets an error for functions
/// that need a newer version.
#[test]
fn memory_alone_takes_no_more_than_vulkan_1_0() {
    with_raw_device(vk::API_VERSION_1_0, vk::DeviceCreateInfo::default(), |instance, physical, raw| {
        // SAFETY: they were created from each other and outlive the call.
        let device = unsafe { Device::for_memory(instance, physical, raw.clone(), DeviceDesc::default()) };
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        let info = vk::BufferCreateInfo::default().size(1000).usage(vk::BufferUsageFlags::TRANSFER_SRC);
        for dedicated in [Dedicated::Auto, Dedicated::Always] {
            // SAFETY: the buffer is bound where its requirements allow, and destroyed before its memory is freed.
            unsafe {
                let buffer = raw.create_buffer(&info, None).expect("a buffer");
                let found = raw.get_buffer_memory_requirements(buffer);
                let needs = Requirements {
                    size: found.size,
                    alignment: found.alignment,
                    memory_type_bits: found.memory_type_bits,
                    class: ResourceClass::Buffer,
                    prefers_dedicated: false,
                    requires_dedicated: false,
                };
                let desc = AllocationDesc { dedicated, ..Default::default() };
                let made = memory.allocate(needs, desc).expect("memory");
                raw.bind_buffer_memory(buffer, made.memory().raw(), made.offset()).expect("it is bound");
                raw.destroy_buffer(buffer, None);
                made.destroy_now();
            }
        }
        assert_eq!(device.budgets(), None);
        let refused = |error: DeviceError| matches!(error, DeviceError::Unsupported(_));
        // SAFETY: no objects are created; the semaphore is not used.
        unsafe {
            let buffer = Create::<Buffers>::prepare(&device, &BufferInfo::new(64, vk::BufferUsageFlags::TRANSFER_SRC));
            assert!(refused(buffer.map(|_| ()).unwrap_err()));
            let texture = Create::<Textures>::describe(&device, &Default::default()).expect("a plain texture");
            assert!(refused(Create::<Textures>::prepare(&device, &texture).map(|_| ()).unwrap_err()));
            assert!(refused(device.completed(&vk::Semaphore::null()).unwrap_err()));
            assert!(memory.timeline(vk::Semaphore::null()).is_err_and(refused));
        }
        let buffer = memory.create_buffer(&BufferInfo::new(64, vk::BufferUsageFlags::TRANSFER_SRC), Default::default());
        assert!(matches!(buffer.map(|_| ()), Err(Error::Device(DeviceError::Unsupported(_)))));
    });
}
