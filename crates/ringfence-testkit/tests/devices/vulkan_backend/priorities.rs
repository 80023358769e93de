//! Priorities that reach the driver. Two functions in the table of a device are replaced, to observe their arguments.
//! They do not pass the priorities on, because the driver may lack the extensions.

use std::sync::{Mutex, OnceLock};

use ash::vk;
use ash::vk::Handle;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver, MemoryPriority, Priority};
use ringfence::memory::PoolDesc;
use ringfence::vulkan::{Device, DeviceDesc, Features};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated};

use crate::vulkan_backend::bare::with_raw_device;

/// A call that the test observes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sent {
    /// Memory was allocated, with this priority or without one.
    Allocated(Option<f32>),
    /// The priority of existing memory was changed: its handle, and the new priority.
    Changed(u64, f32),
}

static SENT: Mutex<Vec<Sent>> = Mutex::new(Vec::new());
static ALLOCATE: OnceLock<vk::PFN_vkAllocateMemory> = OnceLock::new();
static FIND: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();

fn sent() -> Vec<Sent> {
    std::mem::take(&mut *SENT.lock().expect("no thread panicked"))
}

unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    // SAFETY: the library passes a valid description.
    let mut info = unsafe { *info };
    let first = info.p_next.cast::<vk::MemoryPriorityAllocateInfoEXT<'_>>();
    let priority =
        // SAFETY: every structure of a chain starts with its type; this one is the last that the library adds here.
        unsafe { first.as_ref() }.filter(|held| held.s_type == vk::StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT);
    if let Some(priority) = priority {
        info.p_next = priority.p_next;
    }
    SENT.lock().expect("no thread panicked").push(Sent::Allocated(priority.map(|held| held.priority)));
    // SAFETY: the driver's own function, with a description that it supports.
    unsafe { ALLOCATE.get().expect("it was looked up")(device, &info, callbacks, memory) }
}

unsafe extern "system" fn change(_: vk::Device, memory: vk::DeviceMemory, priority: f32) {
    SENT.lock().expect("no thread panicked").push(Sent::Changed(memory.as_raw(), priority));
}

unsafe extern "system" fn find(device: vk::Device, name: *const std::ffi::c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: names of functions are C strings.
    if unsafe { std::ffi::CStr::from_ptr(name) } == c"vkSetDeviceMemoryPriorityEXT" {
        let change: vk::PFN_vkSetDeviceMemoryPriorityEXT = change;
        // SAFETY: both are pointers to functions. The caller that looked this name up calls it with its real type.
        return Some(unsafe {
            std::mem::transmute::<vk::PFN_vkSetDeviceMemoryPriorityEXT, unsafe extern "system" fn()>(change)
        });
    }
    // SAFETY: the driver's own function.
    unsafe { FIND.get().expect("it was looked up")(device, name) }
}

/// Returns the same device with a function table that records the calls.
fn telling(instance: &ash::Instance, device: &ash::Device) -> (ash::Instance, ash::Device) {
    let (mut of_instance, mut of_device) = (instance.fp_v1_0().clone(), device.fp_v1_0().clone());
    FIND.get_or_init(|| of_instance.get_device_proc_addr);
    ALLOCATE.get_or_init(|| of_device.allocate_memory);
    (of_instance.get_device_proc_addr, of_device.allocate_memory) = (find, allocate);
    let (one, three) = (instance.fp_v1_1().clone(), instance.fp_v1_3().clone());
    let instance = ash::Instance::from_parts_1_3(instance.handle(), of_instance, one, three);
    let (one, two, three) = (device.fp_v1_1().clone(), device.fp_v1_2().clone(), device.fp_v1_3().clone());
    (instance, ash::Device::from_parts_1_3(device.handle(), of_device, one, two, three))
}

#[test]
fn priorities_reach_the_driver_when_memory_is_made_and_when_they_change() {
    let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default().push_next(&mut features);
    with_raw_device(vk::API_VERSION_1_2, info, |instance, physical, raw| {
        let (instance, raw) = telling(instance, raw);
        for (at_allocation, at_any_time) in [(false, false), (true, false), (true, true)] {
            let mut features = Features::empty();
            features.set(Features::MEMORY_PRIORITY, at_allocation);
            features.set(Features::PAGEABLE_DEVICE_LOCAL_MEMORY, at_any_time);
            let desc = DeviceDesc { features, ..Default::default() };
            // SAFETY: the handles belong together, have timeline semaphores, and outlive the call. The functions above
            // pass no priorities to the driver, whose extensions are not enabled.
            let device = unsafe { Device::new(&instance, physical, raw.clone(), desc) }.expect("Vulkan 1.2");
            let listens = match (at_allocation, at_any_time) {
                (_, true) => MemoryPriority::AtAnyTime,
                (true, false) => MemoryPriority::AtAllocation,
                (false, false) => MemoryPriority::None,
            };
            assert_eq!(device.capabilities().memory_priority, listens);
            let memory = Allocator::over(device, AllocatorDesc::default());
            let usage = BufferUsage::COPY_SRC;
            let info =
                Create::<Buffers>::describe(memory.device(), &BufferDesc { size: 1 << 16, usage }).expect("plain");
            let allocated = |priority: f32| [Sent::Allocated(at_allocation.then_some(priority))];
            sent();
            let plain = memory.create_buffer(&info, AllocationDesc::default()).expect("there is room");
            assert_eq!(sent(), allocated(0.5), "a block");
            let memory_type = plain.memory_type();
            let desc = PoolDesc { memory_type, priority: Priority::Low, ..Default::default() };
            let pool = memory.create_pool(desc).expect("there is such a type");
            let pooled = pool.create_buffer(&info, AllocationDesc::default()).expect("there is room");
            assert_eq!(sent(), allocated(0.25), "a block of a pool");
            for (priority, number) in Priority::ALL.into_iter().zip([0.0, 0.25, 0.5, 0.75, 1.0]) {
                let desc = AllocationDesc { dedicated: Dedicated::Always, priority, ..Default::default() };
                let own = memory.create_buffer(&info, desc).expect("there is room");
                assert_eq!(sent(), allocated(number), "memory of its own");
                own.set_priority(Priority::Highest);
                let changed = Sent::Changed(own.memory().raw().as_raw(), 1.0);
                assert_eq!(sent(), if at_any_time { vec![changed] } else { vec![] });
            }
            assert!(!plain.set_priority(Priority::Highest) && !pooled.set_priority(Priority::Highest));
            assert_eq!(sent(), [], "a block is not dedicated to one resource");
        }
    });
}
