//! Measures the sustained upload rate with frames of 64 MiB, through a ring and batches. Raw `memcpy` and raw copy
//! commands take turns with the ring, for comparison.
//!
//! `cargo run --release -p ringfence-testkit --example upload_throughput [DEVICE [FRAMES [ROUNDS]]]`

mod bench;

use std::time::Instant;

use ash::vk;
use bench::{Bench, median, open};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver};
use ringfence::upload::UploadDesc;
use ringfence::vulkan::{CopyRecorder, Device};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Timeline, UploadBatch, UploadRing};
use ringfence_testkit::Gpu;

const FRAME_BYTES: usize = 64 << 20;
/// Typical size of a mesh or texture, in bytes.
const PIECE_BYTES: usize = 256 << 10;
const FRAMES_IN_FLIGHT: usize = 3;
/// Required rate of the ring, as a part of the rate of raw copies.
const TARGET: f64 = 0.95;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().filter(|name| !name.is_empty());
    let frames = arguments.next().map_or(60, |count| count.parse().expect("a number of frames"));
    let rounds = arguments.next().map_or(5, |count| count.parse().expect("a number of rounds"));
    let gpu = open(name);
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    println!("{}: {frames} frames of {} MiB, {rounds} rounds", gpu.device().capabilities().name, FRAME_BYTES >> 20);
    let source: Vec<u8> = (0..FRAME_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let target = target(&memory);
    {
        let mut bench = Bench::new(&gpu, FRAMES_IN_FLIGHT);
        // SAFETY: the bench signals every frame. It is dropped after the allocator's last use, and then waits for the
        // device.
        let timeline = unsafe { memory.timeline(bench.timeline) }.expect("the device is not lost");
        let desc = UploadDesc { capacity: (FRAME_BYTES * FRAMES_IN_FLIGHT) as u64, ..Default::default() };
        let ring = UploadRing::new(&memory, desc).expect("there is memory");
        let raw = Raw::new(&gpu.device(), ring_type(&memory));
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms up both.
        for round in 0..=rounds {
            // Each of the two is first equally often.
            let (mut raw_rate, mut ring_rate) = (0.0, 0.0);
            for turn in 0..2 {
                if (round + turn) % 2 == 0 {
                    raw_rate = raw.run(&mut bench, &timeline, &target, &source, frames);
                } else {
                    ring_rate = through_ring(&mut bench, &memory, &timeline, &ring, &target, &source, frames);
                }
            }
            if round > 0 {
                println!(
                    "round {round}: raw {raw_rate:.2} GiB/s, ring {ring_rate:.2} GiB/s, {:.3}",
                    ring_rate / raw_rate
                );
                ratios.push(ring_rate / raw_rate);
                ours.push(ring_rate);
                theirs.push(raw_rate);
            }
        }
        let waits = ring.snapshot();
        let (ours, theirs, ratio) = (median(ours), median(theirs), median(ratios));
        println!("medians: raw {theirs:.2} GiB/s, ring {ours:.2} GiB/s, ratio of a round {ratio:.3}");
        println!("target: at least {TARGET:.2} of raw: {}", if ratio >= TARGET { "reached" } else { "NOT reached" });
        println!("the ring waited {} times, {} ms in all", waits.wait_count, waits.wait_ns / 1_000_000);
        raw.destroy();
        drop(ring);
        memory.shutdown(std::time::Duration::from_secs(60)).expect("all work is complete");
        drop(timeline);
    }
    drop(target);
    memory.shutdown(std::time::Duration::ZERO).expect("all work is complete");
}

fn target(memory: &Allocator<Device>) -> Buffer<Device> {
    let desc = BufferDesc { size: FRAME_BYTES as u64, usage: BufferUsage::COPY_DST };
    let info = Create::<Buffers>::describe(memory.device(), &desc).expect("a plain buffer");
    memory.create_buffer(&info, AllocationDesc { name: "target", ..Default::default() }).expect("there is memory")
}

/// Returns the memory type of a ring. The raw buffers use the same type.
fn ring_type(memory: &Allocator<Device>) -> u32 {
    let desc = BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC };
    let info = Create::<Buffers>::describe(memory.device(), &desc).expect("a plain buffer");
    let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
    memory.create_buffer(&info, desc).expect("there is memory").memory_type()
}

fn through_ring(
    bench: &mut Bench,
    memory: &Allocator<Device>,
    timeline: &Timeline<Device>,
    ring: &UploadRing<Device>,
    target: &Buffer<Device>,
    source: &[u8],
    frames: u64,
) -> f64 {
    let started = Instant::now();
    let mut batch = UploadBatch::new();
    let mut last = 0;
    for _ in 0..frames {
        let frame = timeline.begin();
        let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
        for (piece, at) in source.chunks(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
            let staged = writer.write(piece, 16).expect("there is room, after a wait");
            batch.copy(&staged, target, at).expect("it fits");
        }
        drop(writer);
        last = bench.submit(|device, commands| {
            // SAFETY: the command buffer is being recorded, for the open frame; the target outlives it.
            unsafe { batch.record(&mut CopyRecorder::new(device, commands)) }.expect("its frame is open");
        });
        assert_eq!(last, frame.value());
        timeline.submitted(frame).expect("in order");
        batch.clear();
        memory.reclaim();
    }
    bench.wait(last);
    rate(frames, started)
}

fn rate(frames: u64, started: Instant) -> f64 {
    frames as f64 * FRAME_BYTES as f64 / (1_u64 << 30) as f64 / started.elapsed().as_secs_f64()
}

/// The raw copies: one buffer per frame in flight, with its own memory.
struct Raw {
    device: ash::Device,
    buffers: Vec<(vk::Buffer, vk::DeviceMemory, *mut u8)>,
}

impl Raw {
    fn new(device: &Device, memory_type: u32) -> Self {
        let device = device.raw().clone();
        let make = |_| {
            let size = FRAME_BYTES as u64;
            let info = vk::BufferCreateInfo::default().size(size).usage(vk::BufferUsageFlags::TRANSFER_SRC);
            // SAFETY: the infos are valid; the memory is bound once, is large enough, and has the type of rings.
            unsafe {
                let buffer = device.create_buffer(&info, None).expect("a buffer");
                let needs = device.get_buffer_memory_requirements(buffer);
                let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
                let memory = device.allocate_memory(&info, None).expect("memory");
                device.bind_buffer_memory(buffer, memory, 0).expect("bound");
                let mapped = device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).expect("mapped");
                (buffer, memory, mapped.cast())
            }
        };
        Self { buffers: (0..FRAMES_IN_FLIGHT).map(make).collect(), device }
    }

    fn run(
        &self,
        bench: &mut Bench,
        timeline: &Timeline<Device>,
        target: &Buffer<Device>,
        source: &[u8],
        frames: u64,
    ) -> f64 {
        let started = Instant::now();
        let mut last = 0;
        for number in 0..frames {
            // The allocator uses the same timeline, so every value is reported to it.
            let frame = timeline.begin();
            bench.wait(frame.value().saturating_sub(FRAMES_IN_FLIGHT as u64));
            let (buffer, _, mapped) = self.buffers[number as usize % FRAMES_IN_FLIGHT];
            // SAFETY: the mapping has the length of the source, and the copy that read it is complete.
            unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), mapped, source.len()) };
            last = bench.submit(|device, commands| {
                let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: FRAME_BYTES as u64 }];
                let before = [vk::MemoryBarrier::default()
                    .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)];
                let (stage, none) = (vk::PipelineStageFlags::TRANSFER, vk::DependencyFlags::empty());
                // SAFETY: the command buffer is being recorded, and both buffers are alive and large enough.
                unsafe {
                    device.cmd_pipeline_barrier(commands, stage, stage, none, &before, &[], &[]);
                    device.cmd_copy_buffer(commands, buffer, target.raw(), &region);
                }
            });
            timeline.submitted(frame).expect("in order");
        }
        bench.wait(last);
        rate(frames, started)
    }

    fn destroy(self) {
        for (buffer, memory, _) in self.buffers {
            // SAFETY: all work is complete, and each object is destroyed once.
            unsafe {
                self.device.destroy_buffer(buffer, None);
                self.device.free_memory(memory, None);
            }
        }
    }
}
