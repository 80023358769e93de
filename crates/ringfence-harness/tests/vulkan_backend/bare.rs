//! A device from an instance with no extension and no layer, and with no feature but timeline semaphores: what the
//! backend must make do with.

use ash::vk;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, DeviceError};
use ringfence::vulkan::{BufferInfo, Device, DeviceDesc};

use crate::rig;

/// The first device, if any.
fn with_bare_device(run: impl FnOnce(&Device)) {
    if let Err(error) = ringfence_harness::vulkan::enumerate() {
        return rig::skip(&error);
    }
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
    let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut features);
    // SAFETY: there is a loader with a device; every device has a queue family 0; all is destroyed in order.
    unsafe {
        let entry = ash::Entry::load().expect("a loader");
        let instance = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&instance, None).expect("an instance");
        let physical = instance.enumerate_physical_devices().expect("a device")[0];
        let raw = instance.create_device(physical, &info, None).expect("a device");
        let device = Device::new(&instance, physical, raw.clone(), DeviceDesc::default()).expect("Vulkan 1.2");
        run(&device);
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
            Create::<Buffers>::set_name(device, &buffer, "nobody sees this");
            Create::<Buffers>::discard(device, buffer);
        }
    });
}

#[test]
fn buffers_without_usage_and_unannounced_device_addresses_are_refused() {
    with_bare_device(|device| {
        for usage in [vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS, vk::BufferUsageFlags::empty()] {
            let info = BufferInfo::new(64, usage);
            // SAFETY: what the description points to is nothing.
            let refused = unsafe { Create::<Buffers>::prepare(device, &info) }.map(|_| ());
            assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{refused:?}");
        }
    });
}
