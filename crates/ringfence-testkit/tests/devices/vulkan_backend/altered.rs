//! A real driver whose answers are altered and whose calls are recorded. It has memory types, limits and failures that
//! no available driver has.
//!
//! ```text
//!   Device ──▶ ash's tables ──▶ a function of this file ── answer altered, call recorded ──▶ the driver
//!                          └──▶ the driver, for all other functions
//! ```

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

use ash::vk;
use ringfence::vulkan::{Device, DeviceDesc, Features};

use crate::vulkan_backend::bare::with_raw_device;

/// The alterations to the driver's answers.
#[derive(Clone, Copy)]
pub struct Altered {
    /// Memory types that are added after those of the driver, each with its own heap. Their memory comes from the
    /// driver's first type.
    pub types: &'static [(vk::MemoryPropertyFlags, vk::MemoryHeapFlags)],
    pub limits: fn(&mut vk::PhysicalDeviceLimits),
    pub can_map: bool,
    /// Returns the memory types that can import dma-bufs, as a bit mask.
    pub dma_buf_types: fn(own: u32) -> u32,
}

impl Default for Altered {
    fn default() -> Self {
        Self { types: &[], limits: |_| {}, can_map: true, dma_buf_types: |_| 0 }
    }
}

/// The memory types that were allocated from, and the current and highest numbers of memory objects and samplers.
#[derive(Clone, Default)]
pub struct Noted {
    /// The memory type of each memory object.
    pub allocated: Vec<u32>,
    pub live_memories: u64,
    pub most_memories: u64,
    pub live_samplers: u64,
    pub most_samplers: u64,
}

struct State {
    instance: ash::Instance,
    device: ash::Device,
    /// Number of the driver's own memory types.
    own: u32,
    altered: Altered,
    noted: Noted,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

fn with<R>(run: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(|state| run(state.as_mut().expect("called within `with_altered_device` only")))
}

/// Returns the figures that were recorded so far.
pub fn noted() -> Noted {
    with(|state| state.noted.clone())
}

/// Runs a test on a Vulkan 1.2 device. Its description has `features`, but only timeline semaphores are enabled on the
/// driver. The second argument of `run` is the number of the driver's memory types.
pub fn with_altered_device(altered: Altered, features: Features, run: impl FnOnce(&Device, u32)) {
    let mut twelve = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default().push_next(&mut twelve);
    with_raw_device(vk::API_VERSION_1_2, info, |instance, physical, raw| {
        // SAFETY: the physical device belongs to the instance.
        let own = unsafe { instance.get_physical_device_memory_properties(physical) }.memory_type_count;
        let (instance, device) = (instance.clone(), raw.clone());
        let state = State { instance, device, own, altered, noted: Noted::default() };
        STATE.set(Some(state));
        // SAFETY: the functions have the types of their names; all other functions are the driver's own.
        let (instance, device) = unsafe { tables(raw) };
        // SAFETY: the handles belong together, have timeline semaphores, and outlive the call. Other features are used
        // only through functions of this file.
        let wrapped =
            unsafe { Device::new(&instance, physical, device, DeviceDesc { features, ..Default::default() }) };
        run(&wrapped.expect("Vulkan 1.2"), own);
        let Noted { live_memories, live_samplers, .. } = noted();
        assert_eq!((live_memories, live_samplers), (0, 0), "an object was not destroyed");
        STATE.set(None);
    });
}

/// Returns function tables with the altered functions.
///
/// # Safety
/// The state must be set, and `raw` must be its device.
unsafe fn tables(raw: &ash::Device) -> (ash::Instance, ash::Device) {
    // SAFETY: the loader's functions are looked up by name, for objects that are alive.
    unsafe {
        let entry = ash::Entry::load().expect("a loader");
        let handle = with(|state| state.instance.handle());
        let of_instance = |name: &CStr| match altered(name) {
            Some(function) => function,
            None => pointer(entry.get_instance_proc_addr(handle, name.as_ptr())),
        };
        let instance = ash::Instance::load_with(of_instance, handle);
        let of_device = |name: &CStr| pointer(device_command(raw.handle(), name.as_ptr()));
        (instance, ash::Device::load_with(of_device, raw.handle()))
    }
}

fn pointer(function: vk::PFN_vkVoidFunction) -> *const c_void {
    function.map_or(std::ptr::null(), |function| function as *const c_void)
}

fn altered(name: &CStr) -> Option<*const c_void> {
    Some(match name.to_bytes() {
        b"vkGetDeviceProcAddr" => device_command as *const c_void,
        b"vkGetPhysicalDeviceMemoryProperties" => memory_properties as *const c_void,
        b"vkGetPhysicalDeviceProperties" => properties as *const c_void,
        b"vkGetPhysicalDeviceProperties2" => properties2 as *const c_void,
        b"vkGetPhysicalDeviceExternalBufferProperties" => external_buffer_properties as *const c_void,
        b"vkAllocateMemory" => allocate_memory as *const c_void,
        b"vkFreeMemory" => free_memory as *const c_void,
        b"vkMapMemory" => map_memory as *const c_void,
        b"vkCreateBuffer" => create_buffer as *const c_void,
        b"vkCreateSampler" => create_sampler as *const c_void,
        b"vkDestroySampler" => destroy_sampler as *const c_void,
        b"vkGetMemoryFdPropertiesKHR" => memory_fd_properties as *const c_void,
        _ => return None,
    })
}

unsafe extern "system" fn device_command(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller's name is null-terminated, and the device is alive.
    unsafe {
        match altered(CStr::from_ptr(name)) {
            Some(function) => std::mem::transmute::<*const c_void, vk::PFN_vkVoidFunction>(function),
            None => with(|state| state.instance.get_device_proc_addr(device, name)),
        }
    }
}

unsafe extern "system" fn memory_properties(
    physical: vk::PhysicalDevice,
    found: *mut vk::PhysicalDeviceMemoryProperties,
) {
    with(|state| {
        // SAFETY: the physical device belongs to the instance, and the pointer points to a structure of this type.
        let found = unsafe {
            found.write(state.instance.get_physical_device_memory_properties(physical));
            &mut *found
        };
        for (property_flags, flags) in state.altered.types {
            let (index, heap_index) = (found.memory_type_count as usize, found.memory_heap_count);
            found.memory_types[index] = vk::MemoryType { property_flags: *property_flags, heap_index };
            found.memory_heaps[heap_index as usize] = vk::MemoryHeap { size: 1 << 28, flags: *flags };
            (found.memory_type_count, found.memory_heap_count) = (index as u32 + 1, heap_index + 1);
        }
    });
}

unsafe extern "system" fn properties(physical: vk::PhysicalDevice, found: *mut vk::PhysicalDeviceProperties) {
    with(|state| {
        // SAFETY: as above.
        unsafe {
            found.write(state.instance.get_physical_device_properties(physical));
            (state.altered.limits)(&mut (*found).limits);
        }
    });
}

unsafe extern "system" fn properties2(physical: vk::PhysicalDevice, found: *mut vk::PhysicalDeviceProperties2<'_>) {
    with(|state| {
        // SAFETY: as above.
        unsafe {
            state.instance.get_physical_device_properties2(physical, &mut *found);
            (state.altered.limits)(&mut (*found).properties.limits);
        }
    });
}

unsafe extern "system" fn external_buffer_properties(
    _: vk::PhysicalDevice,
    _: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
    found: *mut vk::ExternalBufferProperties<'_>,
) {
    let features = vk::ExternalMemoryFeatureFlags::IMPORTABLE;
    // SAFETY: the caller's pointer points to a structure of this type.
    unsafe { (*found).external_memory_properties.external_memory_features = features };
}

unsafe extern "system" fn allocate_memory(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    // SAFETY: the caller's pointers are valid. Of the chained structures, only an imported handle is used.
    let info = unsafe {
        #[cfg(unix)]
        close_imported((*info).p_next.cast());
        vk::MemoryAllocateInfo { p_next: std::ptr::null(), ..*info }
    };
    with(|state| {
        let memory_type_index = if info.memory_type_index < state.own { info.memory_type_index } else { 0 };
        state.noted.allocated.push(info.memory_type_index);
        let info = vk::MemoryAllocateInfo { memory_type_index, ..info };
        // SAFETY: the driver has the memory type.
        match unsafe { state.device.allocate_memory(&info, None) } {
            Ok(made) => {
                state.noted.live_memories += 1;
                state.noted.most_memories = state.noted.most_memories.max(state.noted.live_memories);
                // SAFETY: the caller's pointer is valid.
                unsafe { memory.write(made) };
                vk::Result::SUCCESS
            }
            Err(error) => error,
        }
    })
}

/// Closes an imported handle, which belongs to the driver after the import.
///
/// # Safety
/// The chain must be valid.
#[cfg(unix)]
unsafe fn close_imported(mut next: *const vk::BaseInStructure<'_>) {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: all structures of a chain start with the same fields. The caller transfers ownership of the descriptor.
    unsafe {
        while !next.is_null() {
            if (*next).s_type == vk::StructureType::IMPORT_MEMORY_FD_INFO_KHR {
                drop(OwnedFd::from_raw_fd((*next.cast::<vk::ImportMemoryFdInfoKHR<'_>>()).fd));
            }
            next = (*next).p_next;
        }
    }
}

unsafe extern "system" fn free_memory(_: vk::Device, memory: vk::DeviceMemory, _: *const vk::AllocationCallbacks<'_>) {
    with(|state| {
        state.noted.live_memories -= 1;
        // SAFETY: the caller's promises are those that the function requires.
        unsafe { state.device.free_memory(memory, None) };
    });
}

unsafe extern "system" fn map_memory(
    _: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    flags: vk::MemoryMapFlags,
    mapped: *mut *mut c_void,
) -> vk::Result {
    with(|state| {
        if !state.altered.can_map {
            return vk::Result::ERROR_MEMORY_MAP_FAILED;
        }
        // SAFETY: the caller's promises are those that the function requires.
        match unsafe { state.device.map_memory(memory, offset, size, flags) } {
            Ok(at) => {
                // SAFETY: the caller's pointer is valid.
                unsafe { mapped.write(at) };
                vk::Result::SUCCESS
            }
            Err(error) => error,
        }
    })
}

/// Ignores the chained structures, because no extension is enabled on the driver.
unsafe extern "system" fn create_buffer(
    _: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    buffer: *mut vk::Buffer,
) -> vk::Result {
    // SAFETY: the caller's pointers are valid.
    let info = unsafe { vk::BufferCreateInfo { p_next: std::ptr::null(), ..*info } };
    // SAFETY: as above.
    match with(|state| unsafe { state.device.create_buffer(&info, None) }) {
        Ok(made) => {
            // SAFETY: as above.
            unsafe { buffer.write(made) };
            vk::Result::SUCCESS
        }
        Err(error) => error,
    }
}

unsafe extern "system" fn create_sampler(
    _: vk::Device,
    info: *const vk::SamplerCreateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    sampler: *mut vk::Sampler,
) -> vk::Result {
    with(|state| {
        // SAFETY: the caller's pointers are valid.
        match unsafe { state.device.create_sampler(&*info, None) } {
            Ok(made) => {
                state.noted.live_samplers += 1;
                state.noted.most_samplers = state.noted.most_samplers.max(state.noted.live_samplers);
                // SAFETY: as above.
                unsafe { sampler.write(made) };
                vk::Result::SUCCESS
            }
            Err(error) => error,
        }
    })
}

unsafe extern "system" fn destroy_sampler(_: vk::Device, sampler: vk::Sampler, _: *const vk::AllocationCallbacks<'_>) {
    with(|state| {
        state.noted.live_samplers -= u64::from(sampler != vk::Sampler::null());
        // SAFETY: the caller's promises are those that the function requires.
        unsafe { state.device.destroy_sampler(sampler, None) };
    });
}

unsafe extern "system" fn memory_fd_properties(
    _: vk::Device,
    _: vk::ExternalMemoryHandleTypeFlags,
    _: i32,
    found: *mut vk::MemoryFdPropertiesKHR<'_>,
) -> vk::Result {
    let bits = with(|state| (state.altered.dma_buf_types)(state.own));
    // SAFETY: the caller's pointer points to a structure of this type.
    unsafe { (*found).memory_type_bits = bits };
    vk::Result::SUCCESS
}
