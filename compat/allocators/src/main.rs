//! Runs the same requests on gpu-allocator 0.28 and on Ringfence's replacement for it, alternately, on a Vulkan device.
//!
//! ```text
//! allocators [REPETITIONS [TRACE]]
//! ```
//!
//! The peak of reserved memory changes by whole blocks, so the mean over `SEEDS` seeds is reported too.
//!
//! Times are CPU times of the thread, so that other programs do not affect them.

#[path = "../../wgpu/src/random.rs"]
#[allow(dead_code, reason = "the programs use all of it")]
mod random;
mod trace;

use std::time::Duration;

use ash::vk;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};
use trace::{Place, Step, Trace};

/// One of the two allocators.
trait Contender: Sized {
    const NAME: &'static str;
    type Allocation;
    fn new(gpu: &VulkanGpu, hints: Hints) -> Self;
    fn allocate(&mut self, requirements: vk::MemoryRequirements, place: Place, linear: bool) -> Self::Allocation;
    fn free(&mut self, allocation: Self::Allocation);
    fn capacity(&self) -> u64;
}

/// Name of a memory hint of wgpu, and its block sizes in MiB: smallest and largest for device memory, smallest and
/// largest for host memory.
#[derive(Clone, Copy)]
struct Hints(&'static str, [u64; 4]);

const HINTS: [Hints; 2] = [Hints("performance", [128, 256, 64, 128]), Hints("memory", [8, 64, 4, 32])];

macro_rules! contender {
    ($crate_name:ident, $name:literal, $allocator:ident) => {
        struct $allocator($crate_name::vulkan::Allocator);

        impl Contender for $allocator {
            const NAME: &'static str = $name;
            type Allocation = $crate_name::vulkan::Allocation;

            fn new(gpu: &VulkanGpu, Hints(_, [device, device_max, host, host_max]): Hints) -> Self {
                let sizes = $crate_name::AllocationSizes::new(device << 20, host << 20)
                    .with_max_device_memblock_size(device_max << 20)
                    .with_max_host_memblock_size(host_max << 20);
                let device = gpu.device();
                let desc = $crate_name::vulkan::AllocatorCreateDesc {
                    instance: device.instance().clone(),
                    device: device.raw().clone(),
                    physical_device: device.physical(),
                    debug_settings: Default::default(),
                    buffer_device_address: false,
                    allocation_sizes: sizes,
                };
                Self($crate_name::vulkan::Allocator::new(&desc).expect("an allocator"))
            }

            fn allocate(
                &mut self,
                requirements: vk::MemoryRequirements,
                place: Place,
                linear: bool,
            ) -> Self::Allocation {
                use $crate_name::MemoryLocation::{CpuToGpu, GpuOnly, GpuToCpu};
                let location = match place {
                    Place::Device => GpuOnly,
                    Place::Upload => CpuToGpu,
                    Place::Readback => GpuToCpu,
                };
                let allocation_scheme = $crate_name::vulkan::AllocationScheme::GpuAllocatorManaged;
                let name = "Unlabeled buffer";
                let desc = $crate_name::vulkan::AllocationCreateDesc {
                    name,
                    requirements,
                    location,
                    linear,
                    allocation_scheme,
                };
                self.0.allocate(&desc).expect("memory")
            }

            fn free(&mut self, allocation: Self::Allocation) {
                self.0.free(allocation).expect("it is this allocator's");
            }

            fn capacity(&self) -> u64 {
                self.0.capacity()
            }
        }
    };
}

contender!(theirs, "gpu-allocator", Theirs);
contender!(ours, "Ringfence", Ours);

/// Figures of one run of a trace.
#[derive(Clone, Copy)]
struct Figures {
    took: Duration,
    peak: u64,
    after: u64,
}

fn play<C: Contender>(gpu: &VulkanGpu, hints: Hints, trace: &Trace) -> Figures {
    let mut allocator = C::new(gpu, hints);
    let mut held: Vec<Option<C::Allocation>> = (0..trace.count).map(|_| None).collect();
    let started = thread_time();
    for step in &trace.steps {
        match *step {
            Step::Allocate { id, requirements, place, linear } => {
                held[id] = Some(allocator.allocate(requirements, place, linear));
            }
            Step::Free { id } => allocator.free(held[id].take().expect("it is alive")),
        }
    }
    let took = thread_time() - started;
    let after = allocator.capacity();
    Figures { took, peak: 0, after }
}

/// Returns the CPU time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local that lives through the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "the system has a clock for threads");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the peak of reserved bytes. Separate from the timing, because the query takes time.
fn peak<C: Contender>(gpu: &VulkanGpu, hints: Hints, trace: &Trace) -> u64 {
    let mut allocator = C::new(gpu, hints);
    let mut held: Vec<Option<C::Allocation>> = (0..trace.count).map(|_| None).collect();
    let mut peak = 0;
    for step in &trace.steps {
        match *step {
            Step::Allocate { id, requirements, place, linear } => {
                held[id] = Some(allocator.allocate(requirements, place, linear));
                peak = peak.max(allocator.capacity());
            }
            Step::Free { id } => allocator.free(held[id].take().expect("it is alive")),
        }
    }
    peak
}

/// Seed of the traces that are timed.
const SEED: u64 = 5;
/// Number of seeds for the mean, starting with `SEED`.
const SEEDS: u64 = 8;

/// Returns the mean of [`peak`] over `traces`, which differ in their seeds only, in MiB.
fn mean_peak<C: Contender>(gpu: &VulkanGpu, hints: Hints, traces: &[Trace]) -> f64 {
    let sum: u64 = traces.iter().map(|trace| peak::<C>(gpu, hints, trace)).sum();
    sum as f64 / traces.len() as f64 / f64::from(1 << 20)
}

fn live_peak(trace: &Trace) -> u64 {
    let mut sizes = vec![0; trace.count];
    let (mut live, mut peak) = (0, 0);
    for step in &trace.steps {
        match *step {
            Step::Allocate { id, requirements, .. } => {
                sizes[id] = requirements.size;
                live += requirements.size;
            }
            Step::Free { id } => live -= sizes[id],
        }
        peak = peak.max(live);
    }
    peak
}

/// Returns the requirements of a buffer or an image of this many bytes on this device.
fn needs(gpu: &VulkanGpu, linear: bool, size: u64) -> vk::MemoryRequirements {
    let device = gpu.device();
    let raw = device.raw();
    // SAFETY: the descriptions are valid; each object is destroyed once and never used.
    unsafe {
        if linear {
            let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
            let info = vk::BufferCreateInfo::default().size(size).usage(usage);
            let buffer = raw.create_buffer(&info, None).expect("a buffer");
            let needs = raw.get_buffer_memory_requirements(buffer);
            raw.destroy_buffer(buffer, None);
            return needs;
        }
        let side = (size / 4).isqrt().max(1) as u32;
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: side, height: side, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
        let image = raw.create_image(&info, None).expect("an image");
        let needs = raw.get_image_memory_requirements(image);
        raw.destroy_image(image, None);
        needs
    }
}

fn main() {
    let repetitions = std::env::args().nth(1).map_or(5, |count| count.parse().expect("a number of repetitions"));
    let only = std::env::args().nth(2);
    let gpu = VulkanGpu::open(&Options::default()).expect("a Vulkan device");
    println!("{:?}, least of {repetitions} turns each", gpu.device());
    let needs = |linear, size| needs(&gpu, linear, size);
    println!(
        "{:<8} {:<12} {:<14} {:>9} {:>10} {:>14} {:>13} {:>12}",
        "trace", "hints", "allocator", "ns/op", "live MiB", "reserved MiB", "at the end", "over seeds"
    );
    for trace in trace::all(SEED, &needs) {
        if only.as_ref().is_some_and(|only| only != trace.name) {
            continue;
        }
        let of_seed = |seed| trace::all(seed, &needs).into_iter().find(|other| other.name == trace.name);
        let seeds: Vec<Trace> = (SEED..SEED + SEEDS).filter_map(of_seed).collect();
        println!("# {}: {}, {} operations", trace.name, trace.what, trace.steps.len());
        for hints in HINTS {
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..repetitions {
                theirs.push(play::<Theirs>(&gpu, hints, &trace));
                ours.push(play::<Ours>(&gpu, hints, &trace));
            }
            let peaks = [peak::<Theirs>(&gpu, hints, &trace), peak::<Ours>(&gpu, hints, &trace)];
            let means = [mean_peak::<Theirs>(&gpu, hints, &seeds), mean_peak::<Ours>(&gpu, hints, &seeds)];
            let live = live_peak(&trace) as f64 / f64::from(1 << 20);
            for (side, (name, runs)) in [(Theirs::NAME, theirs), (Ours::NAME, ours)].into_iter().enumerate() {
                let least = runs.iter().min_by_key(|run| run.took).expect("there is a run");
                let figures = Figures { peak: peaks[side], ..*least };
                println!(
                    "{:<8} {:<12} {:<14} {:>9} {:>10.1} {:>14} {:>13} {:>12.1}",
                    trace.name,
                    hints.0,
                    name,
                    figures.took.as_nanos() / trace.steps.len() as u128,
                    live,
                    figures.peak >> 20,
                    figures.after >> 20,
                    means[side]
                );
            }
        }
    }
}
