//! The cost of each call in an object's life: nanoseconds of a creation, a binding, a drop and a reclaim, in Ringfence
//! and in the driver.
//!
//! A round creates [`LIVE`] objects of one description and releases them; each call is made for all objects before the
//! next call. The clock is read around those [`LIVE`] calls. A figure is the median of the rounds, per object. The
//! contenders take turns after each round.

use std::hint::black_box;
use std::time::Instant;

use ash::vk;
use ringfence::device::Driver;
use ringfence::vulkan as rf;
use ringfence::{AllocationDesc, AllocatorDesc};
use vk_mem::Alloc;

use crate::makers::{Handles, Vma};
use crate::objects::{BYTES, IMAGE_USAGE, KEPT_BYTES, USAGE, image_info, raw_memory};
use crate::output::{Report, Row, Value};

/// Number of live objects: that of a frame.
const LIVE: usize = 128;
const WARM_UP: usize = 50;
const ROUNDS: usize = 400;

/// Nanoseconds of each call of a contender, for each round.
#[derive(Default)]
struct Times(Vec<(&'static str, Vec<f64>)>);

impl Times {
    /// Runs `calls`, which makes one call for each object, and records its time.
    fn part<T>(&mut self, name: &'static str, calls: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = black_box(calls());
        let time = start.elapsed().as_nanos() as f64 / LIVE as f64;
        match self.0.iter_mut().find(|(part, _)| *part == name) {
            Some((_, times)) => times.push(time),
            None => self.0.push((name, vec![time])),
        }
        result
    }

    fn medians(&mut self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.0.iter_mut().map(|(name, times)| {
            let times = &mut times[WARM_UP..];
            times.sort_by(f64::total_cmp);
            (*name, times[times.len() / 2])
        })
    }
}

type Round<'a> = dyn Fn(&mut Times) + 'a;

fn raw_buffers(device: &ash::Device, memory: vk::DeviceMemory, times: &mut Times) {
    let info = vk::BufferCreateInfo::default().size(BYTES).usage(USAGE);
    // SAFETY: the description is valid.
    let make = |_| unsafe { device.create_buffer(&info, None) }.expect("a buffer");
    let made: [vk::Buffer; LIVE] = times.part("vkCreateBuffer", || std::array::from_fn(make));
    // SAFETY: the buffers are alive, bound once to memory of a type and size that they require, and not used.
    unsafe {
        times.part("vkGetBufferMemoryRequirements", || {
            made.iter().for_each(|made| _ = black_box(device.get_buffer_memory_requirements(*made)));
        });
        times.part("vkGetBufferMemoryRequirements2, dedicated", || {
            made.iter().for_each(|made| {
                let mut dedicated = vk::MemoryDedicatedRequirements::default();
                let mut needs = vk::MemoryRequirements2::default().push_next(&mut dedicated);
                let of = vk::BufferMemoryRequirementsInfo2::default().buffer(*made);
                device.get_buffer_memory_requirements2(&of, &mut needs);
                _ = black_box(needs.memory_requirements);
            });
        });
        times.part("vkBindBufferMemory", || {
            made.iter().for_each(|made| device.bind_buffer_memory(*made, memory, 0).expect("it can be bound"));
        });
        times.part("vkDestroyBuffer", || made.into_iter().for_each(|made| device.destroy_buffer(made, None)));
    }
}

fn raw_images(device: &ash::Device, memory: vk::DeviceMemory, times: &mut Times) {
    let info = image_info();
    // SAFETY: the description is valid.
    let make = |_| unsafe { device.create_image(&info, None) }.expect("an image");
    let made: [vk::Image; LIVE] = times.part("vkCreateImage", || std::array::from_fn(make));
    // SAFETY: as for buffers.
    unsafe {
        times.part("vkGetImageMemoryRequirements", || {
            made.iter().for_each(|made| _ = black_box(device.get_image_memory_requirements(*made)));
        });
        times.part("vkBindImageMemory", || {
            made.iter().for_each(|made| device.bind_image_memory(*made, memory, 0).expect("it can be bound"));
        });
        times.part("vkDestroyImage", || made.into_iter().for_each(|made| device.destroy_image(made, None)));
    }
}

fn vma_buffers(vma: &Vma, times: &mut Times) {
    let info = vk::BufferCreateInfo::default().size(BYTES).usage(USAGE);
    let how = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
    // SAFETY: the description is valid. Each object is destroyed once and not used.
    unsafe {
        let make = |_| vma.raw().create_buffer(&info, &how).expect("there is memory");
        let made: [_; LIVE] = times.part("create", || std::array::from_fn(make));
        times.part("destroy", || {
            made.into_iter().for_each(|(buffer, mut held)| vma.raw().destroy_buffer(buffer, &mut held));
        });
    }
}

/// Creates and drops objects, then creates and destroys them with `destroy_now`.
fn ours<T>(memory: &rf::Allocator, make: impl Fn() -> T, destroy_now: impl Fn(T), times: &mut Times) {
    let made: [T; LIVE] = times.part("create", || std::array::from_fn(|_| make()));
    times.part("drop", || drop(made));
    times.part("reclaim", || memory.reclaim());
    let made: [T; LIVE] = std::array::from_fn(|_| make());
    times.part("destroy_now", || made.into_iter().for_each(destroy_now));
}

fn our_buffers(memory: &rf::Allocator, recycle: bool, times: &mut Times) {
    let desc = AllocationDesc { recycle, ..Default::default() };
    let make = || memory.create_buffer(&rf::BufferInfo::new(BYTES, USAGE), desc).expect("there is memory");
    // SAFETY: the buffer is not used.
    ours(memory, make, |buffer| unsafe { buffer.destroy_now() }, times);
}

fn our_textures(memory: &rf::Allocator, recycle: bool, times: &mut Times) {
    let desc = AllocationDesc { recycle, ..Default::default() };
    let info = || rf::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 256, 256, IMAGE_USAGE);
    let make = || memory.create_texture(&info(), desc).expect("there is memory");
    // SAFETY: the texture is not used.
    ours(memory, make, |texture| unsafe { texture.destroy_now() }, times);
}

pub fn section(handles: &Handles, report: &mut Report) -> std::io::Result<()> {
    let desc = AllocatorDesc { recycled_bytes_max: KEPT_BYTES, ..Default::default() };
    let memory = rf::Allocator::over(handles.ours.clone(), desc);
    let (raw, vma) = (&handles.device, Vma::new(handles));
    let [of_buffers, of_images] = raw_memory(raw);
    let contenders: [(&str, &str, Box<Round<'_>>); 7] = [
        ("buffers", "raw calls", Box::new(|times| raw_buffers(raw, of_buffers, times))),
        ("buffers", "ringfence, not recycled", Box::new(|times| our_buffers(&memory, false, times))),
        ("buffers", "ringfence", Box::new(|times| our_buffers(&memory, true, times))),
        ("buffers", "VMA 3.3", Box::new(|times| vma_buffers(&vma, times))),
        ("textures", "raw calls", Box::new(|times| raw_images(raw, of_images, times))),
        ("textures", "ringfence, not recycled", Box::new(|times| our_textures(&memory, false, times))),
        ("textures", "ringfence", Box::new(|times| our_textures(&memory, true, times))),
    ];
    let mut times: [Times; 7] = std::array::from_fn(|_| Times::default());
    for _ in 0..WARM_UP + ROUNDS {
        contenders.iter().zip(&mut times).for_each(|((_, _, round), times)| round(times));
    }
    let mut rows = Vec::new();
    for ((kind, by, _), times) in contenders.iter().zip(&mut times) {
        for (part, median) in times.medians() {
            let mut row = Row::new();
            row.push("kind", Value::Text((*kind).into()));
            row.push("by", Value::Text((*by).into()));
            row.push("call", Value::Text(part.into()));
            row.push("ns", Value::Number(median, 1));
            row.hide("device", Value::Text(handles.ours.capabilities().name.clone()));
            rows.push(row);
        }
    }
    drop(contenders);
    // SAFETY: all objects bound to them are destroyed.
    [of_buffers, of_images].into_iter().for_each(|memory| unsafe { raw.free_memory(memory, None) });
    report.table("objects_parts", &format!("Single calls, {LIVE} objects at a time"), &rows, 0)
}
