//! Times of the driver's calls for memory, by size, and the time that image calls of another thread take meanwhile. It
//! shows how much a thread that creates blocks in the background can delay a frame.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use ringfence::device::{Driver, MemoryProperties};

use crate::makers::Handles;
use crate::objects::IMAGE_USAGE;
use crate::output::{Report, Row, Value};

const MIB: u64 = 1 << 20;
const SIZES_MIB: [u64; 6] = [1, 4, 16, 32, 64, 256];
const ROUNDS: u32 = 20;
/// Pause between two calls, in which the other thread runs alone.
const PAUSE: Duration = Duration::from_micros(500);

/// The calls of the thread that creates and frees memory.
#[derive(Clone, Copy, PartialEq)]
enum During {
    Nothing,
    Allocate,
    Free,
}

const DURING: [During; 3] = [During::Nothing, During::Allocate, During::Free];

/// Times of a size, in µs.
#[derive(Default)]
struct Times {
    allocate: f64,
    free: f64,
    /// The worst life of an image, by [`DURING`].
    worst: [f64; 3],
}

/// Creates an image, binds it, and destroys it.
///
/// # Safety
/// The memory has room for the image and a type that it allows.
unsafe fn play_image(device: &ash::Device, memory: vk::DeviceMemory) {
    // SAFETY: the description is valid; the caller promises the rest.
    unsafe {
        let image = device.create_image(&image_info(), None).expect("an image");
        let needs = device.get_image_memory_requirements(image);
        _ = std::hint::black_box(needs);
        device.bind_image_memory(image, memory, 0).expect("it can be bound");
        device.destroy_image(image, None);
    }
}

fn image_info() -> vk::ImageCreateInfo<'static> {
    *ringfence::vulkan::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 512, 512, IMAGE_USAGE).raw()
}

fn measure(device: &ash::Device, memory_type: u32, memory: vk::DeviceMemory, bytes: u64) -> Times {
    let (now, mut times) = (AtomicU32::new(0), Times::default());
    const DONE: u32 = 3;
    std::thread::scope(|scope| {
        let images = scope.spawn(|| {
            let mut worst = [0.0_f64; 3];
            loop {
                let before = now.load(Ordering::SeqCst);
                if before == DONE {
                    return worst;
                }
                let start = Instant::now();
                // SAFETY: the memory is for images of this size.
                unsafe { play_image(device, memory) };
                let us = start.elapsed().as_secs_f64() * 1e6;
                // An image that begins before the call counts as delayed by it.
                let during = [before, now.load(Ordering::SeqCst)].into_iter().find(|one| *one != 0 && *one != DONE);
                let worst = &mut worst[during.unwrap_or(0) as usize];
                *worst = worst.max(us);
            }
        });
        let timed = |during: During, call: &mut dyn FnMut()| {
            now.store(DURING.iter().position(|one| *one == during).unwrap_or(0) as u32, Ordering::SeqCst);
            let start = Instant::now();
            call();
            let us = start.elapsed().as_secs_f64() * 1e6;
            now.store(0, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
            us / f64::from(ROUNDS)
        };
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(memory_type);
        for _ in 0..ROUNDS {
            let mut made = vk::DeviceMemory::null();
            // SAFETY: the description is valid, and the memory is freed once.
            unsafe {
                times.allocate +=
                    timed(During::Allocate, &mut || made = device.allocate_memory(&info, None).expect("memory"));
                times.free += timed(During::Free, &mut || device.free_memory(made, None));
            }
        }
        now.store(DONE, Ordering::SeqCst);
        times.worst = images.join().expect("the thread ends");
    });
    times
}

pub fn section(handles: &Handles, report: &mut Report) -> std::io::Result<()> {
    let device = &handles.device;
    // SAFETY: the description is valid, and the image is destroyed unused.
    let needs = unsafe {
        let image = device.create_image(&image_info(), None).expect("an image");
        let needs = device.get_image_memory_requirements(image);
        device.destroy_image(image, None);
        needs
    };
    let types = &handles.ours.capabilities().memory_types;
    let is_device = |index: &u32| types[*index as usize].properties.contains(MemoryProperties::DEVICE_LOCAL);
    let allowed = (0..types.len() as u32).filter(|index| needs.memory_type_bits >> index & 1 == 1);
    let Some(memory_type) = allowed.clone().find(is_device).or(allowed.clone().next()) else { return Ok(()) };
    let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
    // SAFETY: the description is valid.
    let memory = unsafe { device.allocate_memory(&info, None) }.expect("memory");
    let mut rows = Vec::new();
    for mib in SIZES_MIB {
        let times = measure(device, memory_type, memory, mib * MIB);
        let mut row = Row::new();
        row.push("MiB", Value::Number(mib as f64, 0));
        row.push("allocate, µs", Value::Number(times.allocate, 0));
        row.push("free, µs", Value::Number(times.free, 0));
        row.push("worst image alone, µs", Value::Number(times.worst[0], 0));
        row.push("beside an allocation", Value::Number(times.worst[1], 0));
        row.push("beside a free", Value::Number(times.worst[2], 0));
        rows.push(row);
    }
    // SAFETY: no image is bound to it any more.
    unsafe { device.free_memory(memory, None) };
    report.table("driver", "The driver's memory calls, and images of another thread beside them", &rows, 0)
}
