//! Counts and times the driver calls of the calling thread: it shows if a slow frame waited for the driver, and for
//! which calls.
//!
//! A device's function table is copied, and some of its functions are replaced by functions that read the clock. The
//! replaced functions are called with and without the measurement, so a run uses one device only.
//!
//! `RINGFENCE_BENCH_US_PER_MIB=N` makes the creation of a memory object take N µs a MiB longer, and its destruction a
//! quarter of it. A software driver then behaves like a GPU's driver, which takes 21 µs a MiB on an H100.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use vk::AllocationCallbacks as Callbacks;

/// Calls of one thread.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    /// Time in calls that create, free or bind memory, and create or destroy images.
    pub memory_us: f64,
    pub object_us: f64,
}

thread_local! {
    static CALLS: Cell<Calls> = const { Cell::new(Calls { memory_us: 0.0, object_us: 0.0 }) };
}

/// Returns the calls of this thread since the last call of this function.
pub fn take() -> Calls {
    CALLS.take()
}

/// Number of memory objects that were created and freed by any thread since the last call of [`take_all`].
static ALL: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Returns the memory objects that any thread has created and freed since the last call of this function.
pub fn take_all() -> [u32; 2] {
    ALL.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
}

struct Driver {
    allocate_memory: vk::PFN_vkAllocateMemory,
    free_memory: vk::PFN_vkFreeMemory,
    create_image: vk::PFN_vkCreateImage,
    destroy_image: vk::PFN_vkDestroyImage,
    bind_image_memory: vk::PFN_vkBindImageMemory,
    us_per_mib: u64,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

fn driver() -> &'static Driver {
    DRIVER.get().expect("the device was wrapped")
}

fn timed<R>(call: impl FnOnce() -> R, count: impl FnOnce(&mut Calls, f64)) -> R {
    let start = Instant::now();
    let result = call();
    let mut calls = CALLS.get();
    count(&mut calls, start.elapsed().as_secs_f64() * 1e6);
    CALLS.set(calls);
    result
}

/// Waits as a slower driver would.
fn wait_for(bytes: u64, us_per_mib: u64) {
    if us_per_mib != 0 {
        std::thread::sleep(Duration::from_micros((bytes >> 20) * us_per_mib));
    }
}

unsafe extern "system" fn allocate_memory(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const Callbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    timed(
        || {
            // SAFETY: the caller passes valid arguments on.
            unsafe {
                wait_for((*info).allocation_size, driver().us_per_mib);
                (driver().allocate_memory)(device, info, callbacks, memory)
            }
        },
        |calls, us| {
            ALL[0].fetch_add(1, Ordering::Relaxed);
            calls.memory_us += us;
        },
    )
}

unsafe extern "system" fn free_memory(device: vk::Device, memory: vk::DeviceMemory, callbacks: *const Callbacks<'_>) {
    timed(
        || {
            // The size is not known here: 64 MiB.
            wait_for(64 << 20, driver().us_per_mib / 4);
            // SAFETY: the caller passes valid arguments on.
            unsafe { (driver().free_memory)(device, memory, callbacks) }
        },
        |calls, us| {
            ALL[1].fetch_add(1, Ordering::Relaxed);
            calls.memory_us += us;
        },
    );
}

unsafe extern "system" fn create_image(
    device: vk::Device,
    info: *const vk::ImageCreateInfo<'_>,
    callbacks: *const Callbacks<'_>,
    image: *mut vk::Image,
) -> vk::Result {
    // SAFETY: the caller passes valid arguments on.
    timed(|| unsafe { (driver().create_image)(device, info, callbacks, image) }, |calls, us| calls.object_us += us)
}

unsafe extern "system" fn destroy_image(device: vk::Device, image: vk::Image, callbacks: *const Callbacks<'_>) {
    // SAFETY: the caller passes valid arguments on.
    timed(|| unsafe { (driver().destroy_image)(device, image, callbacks) }, |calls, us| calls.object_us += us);
}

unsafe extern "system" fn bind_image_memory(
    device: vk::Device,
    image: vk::Image,
    memory: vk::DeviceMemory,
    offset: u64,
) -> vk::Result {
    // SAFETY: the caller passes valid arguments on.
    timed(|| unsafe { (driver().bind_image_memory)(device, image, memory, offset) }, |calls, us| calls.object_us += us)
}

/// Returns the device with a function table that counts.
pub fn wrap(device: &ash::Device) -> ash::Device {
    let mut table = device.fp_v1_0().clone();
    let us_per_mib = std::env::var("RINGFENCE_BENCH_US_PER_MIB").ok().and_then(|us| us.parse().ok()).unwrap_or(0);
    let driver = Driver {
        allocate_memory: table.allocate_memory,
        free_memory: table.free_memory,
        create_image: table.create_image,
        destroy_image: table.destroy_image,
        bind_image_memory: table.bind_image_memory,
        us_per_mib,
    };
    assert!(DRIVER.set(driver).is_ok(), "one device is wrapped");
    table.allocate_memory = allocate_memory;
    table.free_memory = free_memory;
    table.create_image = create_image;
    table.destroy_image = destroy_image;
    table.bind_image_memory = bind_image_memory;
    let (v1_1, v1_2, v1_3) = (device.fp_v1_1().clone(), device.fp_v1_2().clone(), device.fp_v1_3().clone());
    ash::Device::from_parts_1_3(device.handle(), table, v1_1, v1_2, v1_3)
}
