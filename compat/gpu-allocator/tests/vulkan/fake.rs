//! The facade on a fake driver of Vulkan 1.0 or 1.1 that records its calls. Its buffers and images need a granularity,
//! and its memory cannot be mapped.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};

use ash::vk::{self, Handle, MemoryPropertyFlags as Flags};
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationError, AllocatorDebugSettings, MemoryLocation};

const TYPES: [Flags; 2] = [Flags::DEVICE_LOCAL, Flags::from_raw(0b110)];

thread_local! {
    /// For each memory object, `true` if it was allocated for device addresses.
    static ADDRESSES: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    /// For each memory object, `true` if it was allocated for one resource.
    static DEDICATED: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    /// The function that the device has beyond Vulkan 1.0.
    static HAS: Cell<&'static CStr> = const { Cell::new(c"vkGetBufferMemoryRequirements2") };
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "system" fn memory_properties(
    _: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties,
) {
    let mut found =
        vk::PhysicalDeviceMemoryProperties { memory_type_count: 2, memory_heap_count: 1, ..Default::default() };
    for (memory_type, property_flags) in found.memory_types.iter_mut().zip(TYPES) {
        memory_type.property_flags = property_flags;
    }
    found.memory_heaps[0] = vk::MemoryHeap { size: 1 << 30, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
    // SAFETY: the caller's pointer points to a structure of this type.
    unsafe { properties.write(found) };
}

unsafe extern "system" fn properties(_: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceProperties) {
    let mut found = vk::PhysicalDeviceProperties { api_version: vk::API_VERSION_1_0, ..Default::default() };
    found.limits.buffer_image_granularity = 1024;
    found.limits.max_memory_allocation_count = 4096;
    found.limits.non_coherent_atom_size = 64;
    // SAFETY: as above.
    unsafe { properties.write(found) };
}

unsafe extern "system" fn allocate_memory(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    let (mut has_address, mut is_dedicated) = (false, false);
    // SAFETY: the caller's pointers are valid, and all structures of a chain start with these fields.
    unsafe {
        let mut next = (*info).p_next.cast::<vk::BaseInStructure<'_>>();
        while !next.is_null() {
            if (*next).s_type == vk::StructureType::MEMORY_ALLOCATE_FLAGS_INFO {
                let flags = (*next.cast::<vk::MemoryAllocateFlagsInfo<'_>>()).flags;
                has_address = flags.contains(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            }
            is_dedicated |= (*next).s_type == vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO;
            next = (*next).p_next;
        }
        memory.write(vk::DeviceMemory::from_raw(7));
    }
    ADDRESSES.with_borrow_mut(|addresses| addresses.push(has_address));
    DEDICATED.with_borrow_mut(|dedicated| dedicated.push(is_dedicated));
    vk::Result::SUCCESS
}

unsafe extern "system" fn free_memory(_: vk::Device, _: vk::DeviceMemory, _: *const vk::AllocationCallbacks<'_>) {}

unsafe extern "system" fn map_memory(
    _: vk::Device,
    _: vk::DeviceMemory,
    _: vk::DeviceSize,
    _: vk::DeviceSize,
    _: vk::MemoryMapFlags,
    _: *mut *mut c_void,
) -> vk::Result {
    vk::Result::ERROR_MEMORY_MAP_FAILED
}

unsafe extern "system" fn device_command(_: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    unsafe extern "system" fn never_called() {}
    // SAFETY: the caller's name is terminated.
    let is_there = unsafe { CStr::from_ptr(name) } == HAS.get();
    is_there.then_some(never_called as unsafe extern "system" fn())
}

fn load(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"vkGetPhysicalDeviceMemoryProperties" => memory_properties as *const c_void,
        b"vkGetPhysicalDeviceProperties" => properties as *const c_void,
        b"vkGetDeviceProcAddr" => device_command as *const c_void,
        b"vkAllocateMemory" => allocate_memory as *const c_void,
        b"vkFreeMemory" => free_memory as *const c_void,
        b"vkMapMemory" => map_memory as *const c_void,
        _ => std::ptr::null(),
    }
}

fn allocator(buffer_device_address: bool) -> Allocator {
    let mut debug_settings = AllocatorDebugSettings::default();
    debug_settings.log_frees = true;
    // SAFETY: the functions have the types of their names, and no other function is called.
    let (instance, device) = unsafe {
        let instance = ash::Instance::load_with(load, vk::Instance::from_raw(1));
        (instance, ash::Device::load_with(load, vk::Device::from_raw(2)))
    };
    let physical_device = vk::PhysicalDevice::from_raw(3);
    let allocation_sizes = Default::default();
    let desc = AllocatorCreateDesc {
        instance,
        device,
        physical_device,
        debug_settings,
        buffer_device_address,
        allocation_sizes,
    };
    Allocator::new(&desc).expect("an allocator")
}

fn desc(location: MemoryLocation, linear: bool, allocation_scheme: AllocationScheme) -> AllocationCreateDesc<'static> {
    let requirements = vk::MemoryRequirements { size: 4096, alignment: 64, memory_type_bits: u32::MAX };
    AllocationCreateDesc { name: "faked", requirements, location, linear, allocation_scheme }
}

#[test]
fn all_memory_that_may_hold_a_buffer_is_made_for_addresses() {
    let buffer = AllocationScheme::DedicatedBuffer(vk::Buffer::from_raw(4));
    let image = AllocationScheme::DedicatedImage(vk::Image::from_raw(5));
    let cases = [(AllocationScheme::GpuAllocatorManaged, true), (buffer, true), (image, false)];
    for (enabled, linear) in [(true, true), (true, false), (false, true), (false, false)] {
        for (scheme, may_hold_buffers) in cases {
            let mut allocator = allocator(enabled);
            ADDRESSES.take();
            let made = allocator.allocate(&desc(MemoryLocation::GpuOnly, linear, scheme)).expect("memory");
            assert_eq!(ADDRESSES.take(), [enabled && may_hold_buffers], "{scheme:?}, linear: {linear}");
            allocator.free(made).expect("it is this allocator's");
        }
    }
}

/// The structure for dedicated memory is passed only if the device has Vulkan 1.1 or `VK_KHR_dedicated_allocation`.
#[test]
fn vulkan_1_0_is_given_no_resource_with_its_memory() {
    let buffer = AllocationScheme::DedicatedBuffer(vk::Buffer::from_raw(4));
    let image = AllocationScheme::DedicatedImage(vk::Image::from_raw(5));
    for (has, knows) in
        [(c"", false), (c"vkGetBufferMemoryRequirements2", true), (c"vkGetBufferMemoryRequirements2KHR", true)]
    {
        HAS.set(has);
        for (scheme, is_one) in [(AllocationScheme::GpuAllocatorManaged, false), (buffer, true), (image, true)] {
            let mut allocator = allocator(false);
            DEDICATED.take();
            let made = allocator.allocate(&desc(MemoryLocation::GpuOnly, true, scheme)).expect("memory");
            assert_eq!(DEDICATED.take(), [knows && is_one], "{scheme:?}, {has:?}");
            assert_eq!(made.is_dedicated(), is_one);
            allocator.free(made).expect("it is this allocator's");
        }
    }
}

#[test]
fn memory_that_cannot_be_mapped_is_an_error_that_says_no_more() {
    let desc = desc(MemoryLocation::CpuToGpu, true, AllocationScheme::GpuAllocatorManaged);
    let error = allocator(false).allocate(&desc).expect_err("it cannot be mapped");
    assert!(matches!(error, AllocationError::FailedToMap(_)));
    assert_eq!(error.to_string(), "the memory could not be mapped");
}

struct Kept;

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
    }

    fn flush(&self) {}
}

#[test]
fn frees_are_logged_those_of_nothing_too() {
    log::set_logger(&Kept).expect("it is the first");
    log::set_max_level(log::LevelFilter::Debug);
    let mut allocator = allocator(false);
    let desc = desc(MemoryLocation::GpuOnly, true, AllocationScheme::GpuAllocatorManaged);
    let made = allocator.allocate(&desc).expect("memory");
    LINES.take();
    allocator.free(made).expect("it is this allocator's");
    allocator.free(Allocation::default()).expect("there is nothing to free");
    assert_eq!(LINES.take(), ["freeing \"faked\"", "freeing \"<null>\""]);
}
