//! With a Vulkan device: buffers with memory, made and destroyed; threads; what growth costs.
//!
//! Every contender makes a `VkBuffer`, gives it memory, binds it, and destroys both. Ours gives nothing back at once: a
//! dropped buffer is retired, and `reclaim` after every [`FRAME`] drops destroys what is due. All of it is counted. A
//! contender may be asked for memory alone as well, where its interface has that.

use crate::output::{Row, Value, table};
use crate::threads::{self, Shared};
use crate::trace::{Op, Random, Trace};
use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan as ga;
use ringfence::memory::{AllocatorDesc, Location};
use ringfence::AllocationDesc;
use ringfence::vulkan as rf;
use ringfence_harness::vulkan::VulkanGpu;
use ringfence_harness::{Gpu, Options};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vk_mem::Alloc;

/// After so many drops ours reclaims, as a program does once a frame.
const FRAME: usize = 200;

/// The raw handles that every contender is made from.
struct Handles<'a> {
    instance: &'a ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    ours: rf::Device,
}

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw(),
);

fn buffer_info(size: u64) -> vk::BufferCreateInfo<'static> {
    vk::BufferCreateInfo::default().size(size).usage(USAGE)
}

/// What a buffer of any size asks for, but for the size: so that memory alone can be asked for.
fn requirements(device: &ash::Device) -> vk::MemoryRequirements {
    // SAFETY: the description is valid, and the buffer is destroyed before anything uses it.
    unsafe {
        let buffer = device.create_buffer(&buffer_info(65_536), None).expect("a buffer without memory");
        let requirements = device.get_buffer_memory_requirements(buffer);
        device.destroy_buffer(buffer, None);
        requirements
    }
}

/// Makes and unmakes something of `size` bytes.
trait Maker: Sync {
    type Made: Send;

    fn make(&self, size: u64, host: bool) -> Self::Made;
    fn unmake(&self, made: Self::Made);
}

struct Ours {
    allocator: rf::Allocator,
    drops: AtomicUsize,
}

impl Ours {
    fn new(handles: &Handles) -> Self {
        let allocator = rf::Allocator::over(handles.ours.clone(), AllocatorDesc::default());
        Self { allocator, drops: AtomicUsize::new(0) }
    }
}

impl Maker for Ours {
    type Made = rf::Buffer;

    fn make(&self, size: u64, host: bool) -> rf::Buffer {
        let location = if host { Location::Upload } else { Location::Device };
        let desc = AllocationDesc { location, ..Default::default() };
        self.allocator.create_buffer(&rf::BufferInfo::new(size, USAGE), desc).expect("there is memory")
    }

    fn unmake(&self, made: rf::Buffer) {
        drop(made);
        if self.drops.fetch_add(1, Ordering::Relaxed) % FRAME == FRAME - 1 {
            self.allocator.reclaim();
        }
    }
}

struct Vma {
    allocator: vk_mem::Allocator,
    requirements: vk::MemoryRequirements,
}

impl Vma {
    fn new(handles: &Handles) -> Self {
        let mut info = vk_mem::AllocatorCreateInfo::new(handles.instance, &handles.device, handles.physical);
        info.vulkan_api_version = vk::API_VERSION_1_2;
        // SAFETY: instance and device outlive the allocator.
        let allocator = unsafe { vk_mem::Allocator::new(info) }.expect("VMA takes the device");
        Self { allocator, requirements: requirements(&handles.device) }
    }
}

fn vma_info(host: bool) -> vk_mem::AllocationCreateInfo {
    let mut info = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
    if host {
        info.usage = vk_mem::MemoryUsage::AutoPreferHost;
        info.flags = vk_mem::AllocationCreateFlags::HOST_ACCESS_SEQUENTIAL_WRITE
            | vk_mem::AllocationCreateFlags::MAPPED;
    }
    info
}

impl Maker for Vma {
    type Made = (vk::Buffer, vk_mem::Allocation);

    fn make(&self, size: u64, host: bool) -> Self::Made {
        // SAFETY: the description is valid.
        unsafe { self.allocator.create_buffer(&buffer_info(size), &vma_info(host)) }.expect("there is memory")
    }

    fn unmake(&self, (buffer, mut allocation): Self::Made) {
        // SAFETY: both came from this allocator and go back once; no device work uses them.
        unsafe { self.allocator.destroy_buffer(buffer, &mut allocation) };
    }
}

/// VMA asked for memory alone: no buffer is made.
struct VmaMemory(Vma);

impl Maker for VmaMemory {
    type Made = vk_mem::Allocation;

    fn make(&self, size: u64, host: bool) -> Self::Made {
        let mut info = vma_info(host);
        info.usage = vk_mem::MemoryUsage::Unknown;
        let host_flags = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        info.required_flags = if host { host_flags } else { vk::MemoryPropertyFlags::DEVICE_LOCAL };
        let requirements = vk::MemoryRequirements { size, ..self.0.requirements };
        // SAFETY: the requirements are a buffer's on this device.
        unsafe { self.0.allocator.allocate_memory(&requirements, &info) }.expect("there is memory")
    }

    fn unmake(&self, mut made: Self::Made) {
        // SAFETY: it came from this allocator and goes back once.
        unsafe { self.0.allocator.free_memory(&mut made) };
    }
}

/// gpu-allocator behind one mutex, as wgpu has it.
struct GpuAllocator {
    allocator: ManuallyDrop<Mutex<ga::Allocator>>,
    device: ash::Device,
    requirements: vk::MemoryRequirements,
    buffers: bool,
}

impl GpuAllocator {
    fn new(handles: &Handles, buffers: bool) -> Self {
        let allocator = ga::Allocator::new(&ga::AllocatorCreateDesc {
            instance: handles.instance.clone(),
            device: handles.device.clone(),
            physical_device: handles.physical,
            debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
            buffer_device_address: false,
            allocation_sizes: gpu_allocator::AllocationSizes::default(),
        });
        let allocator = ManuallyDrop::new(Mutex::new(allocator.expect("gpu-allocator takes the device")));
        let device = handles.device.clone();
        Self { allocator, requirements: requirements(&device), device, buffers }
    }
}

impl Drop for GpuAllocator {
    fn drop(&mut self) {
        // SAFETY: it is dropped here and nowhere else. By hand, so that it goes before the device's table.
        unsafe { ManuallyDrop::drop(&mut self.allocator) };
    }
}

impl Maker for GpuAllocator {
    type Made = (vk::Buffer, ga::Allocation);

    fn make(&self, size: u64, host: bool) -> Self::Made {
        let mut requirements = vk::MemoryRequirements { size, ..self.requirements };
        let mut buffer = vk::Buffer::null();
        if self.buffers {
            // SAFETY: the description is valid.
            unsafe {
                buffer = self.device.create_buffer(&buffer_info(size), None).expect("a buffer without memory");
                requirements = self.device.get_buffer_memory_requirements(buffer);
            }
        }
        let desc = ga::AllocationCreateDesc {
            name: "",
            requirements,
            location: if host { MemoryLocation::CpuToGpu } else { MemoryLocation::GpuOnly },
            linear: true,
            allocation_scheme: ga::AllocationScheme::GpuAllocatorManaged,
        };
        let made = self.allocator.lock().expect("no thread panics").allocate(&desc).expect("there is memory");
        if self.buffers {
            // SAFETY: the memory is of a type and size that the buffer asked for, and nothing is bound to it yet.
            unsafe { self.device.bind_buffer_memory(buffer, made.memory(), made.offset()) }.expect("it can be bound");
        }
        (buffer, made)
    }

    fn unmake(&self, (buffer, made): Self::Made) {
        // SAFETY: no device work uses it; a null buffer is allowed.
        unsafe { self.device.destroy_buffer(buffer, None) };
        self.allocator.lock().expect("no thread panics").free(made).expect("it is live");
    }
}

/// Nanoseconds an operation on a trace.
fn play<M: Maker>(maker: &M, trace: &Trace) -> f64 {
    let mut held: Vec<Option<M::Made>> = std::iter::repeat_with(|| None).take(trace.slots).collect();
    let mut run = |ops: &[Op]| {
        for op in ops {
            let slot = &mut held[op.slot as usize];
            match slot.take() {
                Some(made) => maker.unmake(made),
                None => *slot = Some(maker.make(op.size, false)),
            }
        }
    };
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    run(warm_up);
    let start = Instant::now();
    run(timed);
    let ns = start.elapsed().as_nanos() as f64 / timed.len() as f64;
    held.into_iter().flatten().for_each(|made| maker.unmake(made));
    ns
}

/// The times of single allocations while memory grows to `total` bytes, sorted: ns.
fn grow<M: Maker>(maker: &M, total: u64, host: bool) -> Vec<f64> {
    let mut random = Random::new(7);
    let (mut made, mut times, mut sum) = (Vec::new(), Vec::new(), 0);
    while sum < total {
        let size = random.log_uniform(64 << 10, 4 << 20);
        let start = Instant::now();
        made.push(maker.make(size, host));
        times.push(start.elapsed().as_nanos() as f64);
        sum += size;
    }
    made.into_iter().for_each(|made| maker.unmake(made));
    times.sort_by(f64::total_cmp);
    times
}

struct OfThreads<'a, M>(&'a M);

impl<M: Maker> Shared for OfThreads<'_, M> {
    type Held = M::Made;

    fn allocate(&self, _: usize, size: u64) -> M::Made {
        self.0.make(size, false)
    }

    fn free(&self, _: usize, held: M::Made) {
        self.0.unmake(held);
    }
}

/// What is measured of a contender, made anew for each measurement.
trait Measure {
    fn play(&self, handles: &Handles, trace: &Trace) -> f64;
    fn grow(&self, handles: &Handles, total: u64, host: bool) -> Vec<f64>;
    fn pairs(&self, handles: &Handles, threads: usize, time: Duration) -> f64;
}

impl<M: Maker, F: Fn(&Handles) -> M> Measure for F {
    fn play(&self, handles: &Handles, trace: &Trace) -> f64 {
        play(&self(handles), trace)
    }

    fn grow(&self, handles: &Handles, total: u64, host: bool) -> Vec<f64> {
        grow(&self(handles), total, host)
    }

    fn pairs(&self, handles: &Handles, threads: usize, time: Duration) -> f64 {
        threads::pairs(&OfThreads(&self(handles)), threads, time)
    }
}

struct Contender {
    name: &'static str,
    ours: bool,
    /// Whether it makes buffers, as ours does, or asks for memory alone.
    buffers: bool,
    /// Whether a step of it takes microseconds, so that less is put to it.
    slow: bool,
    by: Box<dyn Measure>,
}

fn contenders() -> Vec<Contender> {
    fn of<M: Maker + 'static>(
        name: &'static str,
        (ours, buffers, slow): (bool, bool, bool),
        make: impl Fn(&Handles) -> M + 'static,
    ) -> Contender {
        Contender { name, ours, buffers, slow, by: Box::new(make) }
    }
    vec![
        of("ringfence: buffers", (true, true, false), Ours::new),
        of("VMA 3.3: buffers", (false, true, false), Vma::new),
        of("VMA 3.3: memory alone", (false, false, false), |handles: &Handles| VmaMemory(Vma::new(handles))),
        of("gpu-allocator 0.28: buffers", (false, true, true), |handles: &Handles| GpuAllocator::new(handles, true)),
        of("gpu-allocator 0.28: memory alone", (false, false, true), |handles: &Handles| {
            GpuAllocator::new(handles, false)
        }),
    ]
}

/// How much is asked of the device.
pub struct Settings {
    pub repetitions: usize,
    pub threads: usize,
    pub time: Duration,
    pub device_bytes: u64,
    pub host_bytes: u64,
}

/// Everything with a device: sections by name; none where no device can be opened.
pub fn sections(traces: &[&Trace], settings: &Settings) -> Vec<(&'static str, Vec<Row>)> {
    let options = Options { name: std::env::var("RINGFENCE_BENCH_DEVICE").ok(), ..Default::default() };
    let gpu = match VulkanGpu::open(&options) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("\nno Vulkan device, so nothing is measured on one: {error}");
            return Vec::new();
        }
    };
    let ours = gpu.device();
    let handles =
        Handles { instance: gpu.instance(), physical: ours.physical(), device: ours.raw().clone(), ours: ours.clone() };
    // SAFETY: the physical device is the instance's.
    let properties = unsafe { handles.instance.get_physical_device_properties(handles.physical) };
    let name = properties.device_name_as_c_str().map_or("?".into(), |name| name.to_string_lossy().into_owned());
    println!("\nVulkan device: {name}");
    let contenders = contenders();
    let sections = vec![
        ("device", time_section(&handles, &contenders, traces, settings, &name)),
        ("device_growth", growth_section(&handles, &contenders, settings, &name)),
        ("device_threads", thread_section(&handles, &contenders, settings, &name)),
    ];
    drop(handles);
    sections
}

fn time_section(
    handles: &Handles,
    contenders: &[Contender],
    traces: &[&Trace],
    settings: &Settings,
    device: &str,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for trace in traces {
        let mut times = vec![f64::INFINITY; contenders.len()];
        for repetition in 0..settings.repetitions {
            for (contender, time) in contenders.iter().zip(&mut times) {
                if !contender.slow || repetition == 0 && trace.slots <= 20_000 {
                    *time = time.min(contender.by.play(handles, trace));
                }
            }
        }
        for (contender, &time) in contenders.iter().zip(&times).filter(|(_, time)| time.is_finite()) {
            let peers = contenders.iter().zip(&times).filter(|(peer, _)| !peer.ours && peer.buffers);
            let best = peers.map(|(_, &time)| time).fold(f64::INFINITY, f64::min);
            let mut row = Row::new();
            row.push("trace", Value::Text(trace.name.clone()));
            row.push("by", Value::Text(contender.name.into()));
            row.push("ns/op", Value::Number(time, 0));
            row.push("best peer with buffers / this", Value::Number(best / time, 2));
            row.hide("ours", Value::Text(contender.ours.to_string()));
            row.hide("device", Value::Text(device.into()));
            rows.push(row);
        }
    }
    println!("\nBuffers made and destroyed; an operation is either");
    print!("{}", table(&rows, 0));
    rows
}

fn growth_section(handles: &Handles, contenders: &[Contender], settings: &Settings, device: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (what, total, host) in
        [("device-local", settings.device_bytes, false), ("host-visible", settings.host_bytes, true)]
    {
        for contender in contenders {
            let times = contender.by.grow(handles, total, host);
            let at = |share: f64| Value::Number(times[((times.len() - 1) as f64 * share) as usize] / 1000.0, 2);
            let mut row = Row::new();
            row.push("memory", Value::Text(format!("{what} to {:.1} GiB", total as f64 / (1_u64 << 30) as f64)));
            row.push("by", Value::Text(contender.name.into()));
            row.push("50 % µs", at(0.5));
            row.push("99 % µs", at(0.99));
            row.push("99.9 % µs", at(0.999));
            row.push("worst µs", at(1.0));
            row.hide("ours", Value::Text(contender.ours.to_string()));
            row.hide("device", Value::Text(device.into()));
            rows.push(row);
        }
    }
    println!("\nGrowth: one allocation of 64 KiB to 4 MiB");
    print!("{}", table(&rows, 0));
    rows
}

fn thread_section(handles: &Handles, contenders: &[Contender], settings: &Settings, device: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in threads::counts(settings.threads) {
        for contender in contenders {
            let pairs = contender.by.pairs(handles, threads, settings.time);
            let mut row = Row::new();
            row.push("threads", Value::Number(threads as f64, 0));
            row.push("by", Value::Text(contender.name.into()));
            row.push("million pairs/s", Value::Number(pairs, 3));
            row.hide("ours", Value::Text(contender.ours.to_string()));
            row.hide("device", Value::Text(device.into()));
            rows.push(row);
        }
    }
    println!("\nThreads with a device: 500 live a thread, 256 B to 16 KiB");
    print!("{}", table(&rows, 0));
    rows
}
