//! Benchmarks with a Vulkan device: buffers with memory, created and destroyed; threads; the cost of growth.
//!
//! Every contender ([`crate::makers`]) creates a `VkBuffer`, allocates its memory, binds it, and destroys both; or
//! allocates memory only. A run of a trace that takes too long is cut off, and the table reports it.

use crate::driver_calls;
use crate::driver_waits;
use crate::footprint;
use crate::makers::{GpuAllocator, Handles, Maker, Memory, Nothing, Ours, OursMemory, Vma, VmaMemory};
use crate::objects;
use crate::output::{Report, Row, Value};
use crate::paced::{self, Frame, Paced, Shown};
use crate::parts;
use crate::threads::{self, Shared};
use crate::trace::{Op, Random, Trace};
use ringfence::device::{Driver, MemoryProperties};
use ringfence::vulkan;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};
use std::time::{Duration, Instant};

/// Time limit for filling a trace, and again for playing it.
const TIME_MAX: Duration = Duration::from_millis(1500);
/// Time limit of all repetitions of a contender, in runs of the fastest.
const PATIENCE: f64 = 100.0;

/// Plays a trace. Returns nanoseconds per operation, and which operations were played.
fn play<M: Maker>(maker: &M, trace: &Trace) -> (f64, String) {
    let mut held: Vec<Option<M::Made>> = std::iter::repeat_with(|| None).take(trace.slots).collect();
    // Plays until the time limit. Returns the number of operations and ns per operation.
    let mut run = |ops: &[Op]| {
        let (start, mut count) = (Instant::now(), 0);
        for piece in ops.chunks(256) {
            for op in piece {
                let slot = &mut held[op.slot as usize];
                match slot.take() {
                    Some(made) => maker.unmake(made),
                    None => *slot = Some(maker.make(op.size, Memory::Device)),
                }
            }
            count += piece.len();
            if start.elapsed() > TIME_MAX {
                break;
            }
        }
        (count, start.elapsed().as_nanos() as f64 / count as f64)
    };
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    let (filled, filling_ns) = run(warm_up);
    let timed = if filled < warm_up.len() {
        (filling_ns, format!("the first {filled} allocations"))
    } else {
        let (count, ns) = run(timed);
        let part = if count < timed.len() { format!("{count} of {}", timed.len()) } else { "all".into() };
        (ns, part)
    };
    held.into_iter().flatten().for_each(|made| maker.unmake(made));
    timed
}

/// Returns the times of single allocations while memory grows to `total` bytes, sorted, in ns.
fn grow<M: Maker>(maker: &M, total: u64, memory: Memory) -> Vec<f64> {
    let mut random = Random::new(7);
    let (mut made, mut times, mut sum) = (Vec::new(), Vec::new(), 0);
    while sum < total {
        let size = random.log_uniform(64 << 10, 4 << 20);
        let start = Instant::now();
        let one = maker.make(size, memory);
        times.push(start.elapsed().as_nanos() as f64);
        // Not timed, because the list sometimes grows.
        made.push(one);
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
        self.0.make(size, Memory::Device)
    }

    fn free(&self, _: usize, held: M::Made) {
        self.0.unmake(held);
    }
}

/// The measurements of a contender; each creates a new allocator.
pub trait Measure {
    fn pace(&self, handles: &Handles, frame: Frame, total: u64, memory: Memory) -> Shown;
    fn grow(&self, handles: &Handles, total: u64, memory: Memory) -> Vec<f64>;
    fn pairs(&self, handles: &Handles, threads: usize, time: Duration) -> f64;
    fn play(&self, handles: &Handles, trace: &Trace) -> (f64, String);
}

impl<M: Maker, F: Fn(&Handles) -> M> Measure for F {
    fn pace(&self, handles: &Handles, frame: Frame, total: u64, memory: Memory) -> Shown {
        paced::run(&self(handles), frame, total, memory)
    }

    fn play(&self, handles: &Handles, trace: &Trace) -> (f64, String) {
        play(&self(handles), trace)
    }

    fn grow(&self, handles: &Handles, total: u64, memory: Memory) -> Vec<f64> {
        grow(&self(handles), total, memory)
    }

    fn pairs(&self, handles: &Handles, threads: usize, time: Duration) -> f64 {
        threads::pairs(&OfThreads(&self(handles)), threads, time)
    }
}

pub struct Contender {
    pub name: &'static str,
    pub ours: bool,
    /// `true` if it creates buffers; `false` for memory only.
    pub buffers: bool,
    pub by: Box<dyn Measure>,
}

fn of<M: Maker + 'static>(
    name: &'static str,
    (ours, buffers): (bool, bool),
    make: impl Fn(&Handles) -> M + 'static,
) -> Contender {
    Contender { name, ours, buffers, by: Box::new(make) }
}

fn contenders() -> Vec<Contender> {
    vec![
        of("ringfence: buffers", (true, true), Ours::new),
        of("ringfence: memory alone", (true, false), OursMemory::new),
        of("VMA 3.3: buffers", (false, true), Vma::new),
        of("VMA 3.3: memory alone", (false, false), VmaMemory::new),
        of("gpu-allocator 0.28: buffers", (false, true), |handles: &Handles| GpuAllocator::new(handles, true)),
        of("gpu-allocator 0.28: memory alone", (false, false), |handles: &Handles| GpuAllocator::new(handles, false)),
    ]
}

/// Returns the contenders for growth in frames: Ringfence in three ways with buffers, and with memory only. With memory
/// only, no thread waits in the driver while the driver allocates a block for another thread.
fn growing() -> Vec<Contender> {
    vec![
        of("ringfence", (true, true), Ours::new),
        of("ringfence, blocks made in the background", (true, true), Ours::in_background),
        of("ringfence, announced", (true, true), Ours::announcing),
        of("ringfence, announced: memory alone", (true, false), OursMemory::announcing),
        of("ringfence, in the background: memory alone", (true, false), OursMemory::in_background),
        of(
            "ringfence, in the background, 1 GiB announced: memory alone",
            (true, false),
            OursMemory::in_background_from_a_start,
        ),
        of("nothing: the machine alone", (true, false), Nothing::new),
        of("VMA 3.3", (false, true), Vma::new),
        of("VMA 3.3: memory alone", (false, false), VmaMemory::new),
        of("gpu-allocator 0.28", (false, true), |handles: &Handles| GpuAllocator::new(handles, true)),
        of("gpu-allocator 0.28: memory alone", (false, false), |handles: &Handles| GpuAllocator::new(handles, false)),
    ]
}

/// Settings of the section.
pub struct Settings {
    pub repetitions: usize,
    pub threads: usize,
    pub time: Duration,
    pub device_bytes: u64,
    pub host_bytes: u64,
    pub paced: Paced,
    /// `true` to create and release driver objects.
    pub with_objects: bool,
    /// `true` to measure each call of an object's life.
    pub with_object_parts: bool,
    /// `true` to measure frames that create and drop objects.
    pub with_object_frames: bool,
    /// `true` to play traces.
    pub with_traces: bool,
    /// `true` to measure growth without a pause.
    pub with_growth: bool,
    /// Number of textures of the level that is loaded and dropped; `None` to skip it.
    pub level_textures: Option<usize>,
    /// The textures that are streamed; `None` to skip this.
    pub stream: Option<footprint::Stream>,
    /// The buffers that are replaced; `None` to skip this.
    pub churn: Option<footprint::Churn>,
    /// `true` to measure the driver's calls for memory.
    pub with_driver: bool,
    /// `true` to measure pairs on several threads.
    pub with_pairs: bool,
}

/// Runs all measurements with a device; none if no device can be opened.
pub fn sections(traces: &[&Trace], settings: &Settings, report: &mut Report) -> std::io::Result<()> {
    let options = Options { name: std::env::var("RINGFENCE_BENCH_DEVICE").ok(), ..Default::default() };
    let gpu = match VulkanGpu::open(&options) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("\nno Vulkan device, so nothing is measured on one: {error}");
            return Ok(());
        }
    };
    let ours = gpu.device();
    let handles =
        Handles { instance: gpu.instance(), physical: ours.physical(), device: ours.raw().clone(), ours: ours.clone() };
    let name = ours.capabilities().name.clone();
    println!("\nVulkan device: {name}");
    let contenders = contenders();
    if settings.with_objects {
        objects::section(&handles, (settings.threads, settings.repetitions), settings.time, report)?;
    }
    if settings.with_object_parts {
        parts::section(&handles, report)?;
    }
    if settings.with_object_frames {
        objects::frame_section(&handles, settings.repetitions, report)?;
    }
    if settings.with_traces {
        time_section(&handles, &contenders, traces, settings, &name, report)?;
    }
    if settings.with_pairs {
        thread_section(&handles, &contenders, settings, &name, report)?;
    }
    if settings.with_driver {
        driver_waits::section(&handles, report)?;
    }
    if settings.level_textures.is_some() || settings.stream.is_some() || settings.churn.is_some() {
        footprint_sections(&handles, settings, report)?;
    }
    if settings.with_growth {
        growth_section(&handles, &contenders, settings, &name, report)?;
    }
    paced::section(&handles, &growing(), &settings.paced, &name, report)
}

/// The sections about memory that is held, on a device whose calls are counted.
fn footprint_sections(handles: &Handles, settings: &Settings, report: &mut Report) -> std::io::Result<()> {
    let device = driver_calls::wrap(&handles.device);
    // SAFETY: the handles belong together, and the device is alive until this function returns.
    let ours = unsafe { vulkan::Device::new(handles.instance, handles.physical, device.clone(), handles.ours.desc()) };
    let handles = Handles { device, ours: ours.expect("the device was wrapped before"), ..*handles };
    if let Some(textures) = settings.level_textures {
        footprint::level_section(&handles, textures, report)?;
    }
    if let Some(stream) = &settings.stream {
        footprint::stream_section(&handles, stream, report)?;
    }
    if let Some(churn) = &settings.churn {
        footprint::churn_section(&handles, churn, report)?;
    }
    Ok(())
}

/// Returns for each contender the least time, the operations that it measures, and the number of repetitions.
fn times(handles: &Handles, contenders: &[Contender], trace: &Trace, repetitions: usize) -> Vec<(f64, String, usize)> {
    let mut times = vec![(f64::INFINITY, String::new(), 0); contenders.len()];
    let mut fastest = f64::INFINITY;
    for _ in 0..repetitions {
        for (contender, (least, of, runs)) in contenders.iter().zip(&mut times) {
            if *runs != 0 && *least * *runs as f64 > PATIENCE * fastest || *runs != 0 && of != "all" {
                continue;
            }
            let (ns, part) = contender.by.play(handles, trace);
            (*least, *of, *runs) = (least.min(ns), part, *runs + 1);
            fastest = fastest.min(ns);
        }
    }
    times
}

fn time_section(
    handles: &Handles,
    contenders: &[Contender],
    traces: &[&Trace],
    settings: &Settings,
    device: &str,
    report: &mut Report,
) -> std::io::Result<()> {
    for trace in traces {
        let times = times(handles, contenders, trace, settings.repetitions);
        let mut rows = Vec::new();
        for (contender, (ns, of, runs)) in contenders.iter().zip(&times) {
            let peers = contenders.iter().zip(&times);
            let alike = peers.filter(|(peer, _)| !peer.ours && peer.buffers == contender.buffers);
            let best = alike.map(|(_, (ns, ..))| *ns).fold(f64::INFINITY, f64::min);
            let mut row = Row::new();
            row.push("by", Value::Text(contender.name.into()));
            row.push("ns/op", Value::Number(*ns, 0));
            row.push("best peer of its kind / this", Value::Number(best / ns, 2));
            row.push("operations", Value::Text(of.clone()));
            row.push("runs", Value::Number(*runs as f64, 0));
            row.hide("trace", Value::Text(trace.name.clone()));
            row.hide("ours", Value::Text(contender.ours.to_string()));
            row.hide("device", Value::Text(device.into()));
            rows.push(row);
        }
        let heading = format!("With a device, an allocation or a free: {}", trace.name);
        report.table("device", &heading, &rows, 0)?;
    }
    Ok(())
}

/// Returns `true` if the device has several times this much of the memory.
pub fn has_room(handles: &Handles, memory: Memory, bytes: u64) -> bool {
    let wanted = match memory {
        Memory::Device => MemoryProperties::DEVICE_LOCAL,
        Memory::DeviceMapped => MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE,
        Memory::Host => MemoryProperties::HOST_VISIBLE,
    };
    let capabilities = handles.ours.capabilities();
    let mut types = capabilities.memory_types.iter().filter(|held| held.properties.contains(wanted));
    types.any(|held| capabilities.memory_heaps[held.heap as usize].bytes / 3 > bytes)
}

fn growth_section(
    handles: &Handles,
    contenders: &[Contender],
    settings: &Settings,
    device: &str,
    report: &mut Report,
) -> std::io::Result<()> {
    for memory in Memory::ALL {
        let total = if memory == Memory::Device { settings.device_bytes } else { settings.host_bytes };
        if !has_room(handles, memory, total) {
            println!("\nno growth in memory that is {}: the device has too little of it", memory.name());
            continue;
        }
        let mut rows = Vec::new();
        for contender in contenders {
            let times = contender.by.grow(handles, total, memory);
            let at = |share: f64| Value::Number(times[((times.len() - 1) as f64 * share) as usize] / 1000.0, 2);
            let mut row = Row::new();
            row.push("by", Value::Text(contender.name.into()));
            row.push("50 % µs", at(0.5));
            row.push("99 % µs", at(0.99));
            row.push("99.9 % µs", at(0.999));
            row.push("worst µs", at(1.0));
            row.push("all ms", Value::Number(times.iter().sum::<f64>() / 1e6, 1));
            row.hide("memory", Value::Text(memory.name().into()));
            row.hide("ours", Value::Text(contender.ours.to_string()));
            row.hide("device", Value::Text(device.into()));
            rows.push(row);
        }
        let gib = total as f64 / (1_u64 << 30) as f64;
        let heading =
            format!("Growth without a pause, {}: 64 KiB to 4 MiB at a time up to {gib:.1} GiB", memory.name());
        report.table("device_growth", &heading, &rows, 0)?;
    }
    Ok(())
}

fn thread_section(
    handles: &Handles,
    contenders: &[Contender],
    settings: &Settings,
    device: &str,
    report: &mut Report,
) -> std::io::Result<()> {
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
    report.table("device_threads", "Threads with a device: 500 live a thread, 256 B to 16 KiB", &rows, 0)
}
