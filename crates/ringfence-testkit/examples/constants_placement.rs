//! Compares three placements of constants that are written once per frame and read by k draws: upload memory, device
//! memory after a copy, and device memory that the host writes directly.
//!
//! `cargo run --release -p ringfence-testkit --example constants_placement [DEVICE [SLOTS [ROUNDS]]]`
//!
//! A frame writes a number of slots of 256 bytes. Each slot is read k times, in one of two ways:
//!
//! - `draws`: one draw per slot. A draw is a compute dispatch with a dynamic offset, of 64 groups of 64 threads, each
//!   of which reads the whole slot. Starting the draws may cost more than all reads.
//! - `instances`: one draw of all slots, with one group per slot.
//!
//! For each k and placement, the program prints medians: the time of the host to write, the time of the device from the
//! first copy to the last draw, and their sum. It also prints the median over the rounds of the sum divided by the sum
//! for upload memory in the same round. All placements use the same draws, so their other costs are equal.

mod bench;

use std::time::Instant;

use ash::vk;
use bench::{Bench, median, open};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver};
use ringfence::upload::{Staged, UploadDesc};
use ringfence::vulkan::{CopyRecorder, Device};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, ReadbackRing, UploadBatch, UploadRing};
use ringfence_testkit::Gpu;

const SLOT_BYTES: usize = 256;
const GROUPS: u32 = 64;
const WORK: [&str; 2] = ["draws", "instances"];
const READS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const PLACEMENTS: [&str; 3] = ["upload", "copied", "written"];
const WARM_UP_ROUNDS: usize = 3;

/// The times of one frame.
struct Sample {
    write_ns: f64,
    device_ns: f64,
}

impl Sample {
    fn sum_ns(&self) -> f64 {
        self.write_ns + self.device_ns
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().filter(|name| !name.is_empty());
    let slots: usize = arguments.next().map_or(512, |count| count.parse().expect("a number of slots"));
    let rounds: usize = arguments.next().map_or(15, |count| count.parse().expect("a number of rounds"));
    let gpu = open(name);
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let capabilities = gpu.device().capabilities().clone();
    println!("{}: {slots} slots of {SLOT_BYTES} bytes, medians of {rounds} rounds", capabilities.name);
    println!(
        "placements: read from upload memory; copied to device memory first; written to device memory by the host"
    );
    {
        let mut bench = Bench::new(&gpu, 2);
        // SAFETY: the bench signals every frame below, and is idle when it is dropped.
        let timeline = unsafe { memory.timeline(bench.timeline) }.expect("the device is not lost");
        let bytes = (slots * SLOT_BYTES) as u64;
        let ring = |location, name| {
            let usage = BufferUsage::COPY_SRC | BufferUsage::CONSTANT | BufferUsage::STORAGE;
            let desc = UploadDesc { capacity: bytes * 4, location, usage, name, page_bytes: 0, ..Default::default() };
            UploadRing::new(&memory, desc).expect("there is memory")
        };
        let (upload, written) = (ring(Location::Upload, "upload"), ring(Location::DeviceUpload, "written"));
        let usage = BufferUsage::COPY_DST | BufferUsage::CONSTANT | BufferUsage::STORAGE;
        let copied = buffer(&memory, bytes, usage, "copied");
        let results = buffer(&memory, slots as u64 * 4, BufferUsage::STORAGE | BufferUsage::COPY_SRC, "results");
        let pipeline = Pipeline::new(&gpu.device(), &results);
        let mut content = vec![0_u8; slots * SLOT_BYTES];
        for (work, work_name) in WORK.iter().enumerate() {
            println!(
                "\n{:>9} {:>5} {:>10} {:>12} {:>12} {:>12} {:>10}",
                "work", "reads", "placement", "write µs", "device µs", "sum µs", "of upload"
            );
            let mut ratios = vec![[1.0_f64; 3]; READS.len()];
            for (row, &reads) in READS.iter().enumerate() {
                let mut measured: [Vec<Sample>; 3] = Default::default();
                for round in 0..rounds + WARM_UP_ROUNDS {
                    // The placements take turns, and each is first equally often, so that other load on the machine
                    // affects all of them alike.
                    for turn in 0..PLACEMENTS.len() {
                        let placement = (round + turn) % PLACEMENTS.len();
                        let seed = (row * 10_000 + placement * 1000 + round) as u32;
                        content.chunks_exact_mut(4).enumerate().for_each(|(at, word)| {
                            word.copy_from_slice(
                                &(at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed).to_le_bytes(),
                            );
                        });
                        // Each slot begins with the index at which the shader stores its result.
                        let firsts = content.chunks_exact_mut(SLOT_BYTES);
                        firsts.enumerate().for_each(|(at, slot)| slot[..4].copy_from_slice(&(at as u32).to_le_bytes()));
                        let frame = timeline.begin();
                        let started = Instant::now();
                        let staged = if placement == 2 { &written } else { &upload }
                            .write_for(&frame, &content, 256)
                            .expect("there is room");
                        let write_ns = started.elapsed().as_nanos() as f64;
                        let stamps = bench.stamps();
                        let value = bench.submit(|device, commands| {
                            Bench::stamp(stamps, device, commands, 0);
                            let (from, offset) = if placement == 1 {
                                copy(device, commands, &staged, &copied);
                                (copied.raw(), 0)
                            } else {
                                (staged.buffer, staged.offset)
                            };
                            pipeline.work(device, commands, work, (from, offset), slots, reads);
                            Bench::stamp(stamps, device, commands, 1);
                        });
                        timeline.submitted(frame).expect("in order");
                        bench.wait(value);
                        memory.reclaim();
                        if round >= WARM_UP_ROUNDS {
                            measured[placement].push(Sample { write_ns, device_ns: bench.stamped_ns() });
                        }
                        if round == 0 {
                            check(&mut bench, &memory, &timeline, &results, &content);
                        }
                    }
                }
                for (placement, name) in PLACEMENTS.iter().enumerate() {
                    let of = |pick: fn(&Sample) -> f64| median(measured[placement].iter().map(pick).collect()) / 1e3;
                    // A ratio within a round does not depend on load that slowed the whole round down.
                    let pairs = measured[placement].iter().zip(&measured[0]);
                    ratios[row][placement] =
                        median(pairs.map(|(this, upload)| this.sum_ns() / upload.sum_ns()).collect());
                    let (write, device, sum) = (of(|s| s.write_ns), of(|s| s.device_ns), of(Sample::sum_ns));
                    let ratio = ratios[row][placement];
                    println!(
                        "{work_name:>9} {reads:>5} {name:>10} {write:>12.1} {device:>12.1} {sum:>12.1} {ratio:>10.3}"
                    );
                }
            }
            for (placement, name) in PLACEMENTS.iter().enumerate().skip(1) {
                // The first k from which on the placement is better by more than the measurements vary.
                let from = ratios.iter().rposition(|row| row[placement] >= 0.97).map_or(0, |last| last + 1);
                match READS.get(from) {
                    Some(reads) => println!("{work_name}, {name}: better than upload memory from {reads} reads on"),
                    None => println!(
                        "{work_name}, {name}: not better than upload memory up to {} reads",
                        READS[READS.len() - 1]
                    ),
                }
            }
        }
        pipeline.destroy();
    }
    memory.shutdown(std::time::Duration::from_secs(60)).expect("all work is complete");
}

fn buffer(memory: &Allocator<Device>, size: u64, usage: BufferUsage, name: &str) -> Buffer<Device> {
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size, usage }).expect("a plain buffer");
    memory.create_buffer(&info, AllocationDesc { name, ..Default::default() }).expect("there is memory")
}

fn copy(device: &ash::Device, commands: vk::CommandBuffer, from: &Staged<Device>, to: &Buffer<Device>) {
    let mut batch = UploadBatch::new();
    batch.copy(from, to, 0).expect("it fits");
    // SAFETY: the command buffer is being recorded, for the open frame; the destination outlives it.
    unsafe { batch.record(&mut CopyRecorder::new(device, commands)) }.expect("its frame is open");
}

/// Checks that the result for every slot is at the index that the slot contains.
fn check(
    bench: &mut Bench,
    memory: &Allocator<Device>,
    timeline: &ringfence::Timeline<Device>,
    results: &Buffer<Device>,
    content: &[u8],
) {
    let back = ReadbackRing::new(memory, ringfence::upload::ReadbackDesc { capacity: 1 << 20, ..Default::default() });
    let back = back.expect("there is memory");
    let frame = timeline.begin();
    let room = back.reserve(&frame, results.size(), 4).expect("there is room");
    bench.submit(|device, commands| {
        let region = [vk::BufferCopy { src_offset: 0, dst_offset: room.offset(), size: room.size() }];
        let barrier = |from, to| [vk::MemoryBarrier::default().src_access_mask(from).dst_access_mask(to)];
        let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        let before = barrier(vk::AccessFlags::SHADER_WRITE, vk::AccessFlags::TRANSFER_READ);
        let after = barrier(vk::AccessFlags::TRANSFER_WRITE, vk::AccessFlags::HOST_READ);
        // SAFETY: the command buffer is being recorded, and both buffers are alive and large enough.
        unsafe {
            device.cmd_pipeline_barrier(commands, all, all, none, &before, &[], &[]);
            device.cmd_copy_buffer(commands, results.raw(), *room.buffer(), &region);
            device.cmd_pipeline_barrier(commands, all, vk::PipelineStageFlags::HOST, none, &after, &[], &[]);
        }
    });
    timeline.submitted(frame).expect("in order");
    room.wait(std::time::Duration::from_secs(60)).expect("the device is not lost");
    let mut read = vec![0; room.size() as usize];
    room.read(&mut read).expect("it is there");
    let fold = |slot: &[u8]| {
        slot.chunks_exact(16).fold(0_u32, |fold, part| {
            let word = |at: usize| u32::from_le_bytes(part[at * 4..][..4].try_into().expect("four bytes"));
            fold.wrapping_mul(31).wrapping_add(word(0) ^ word(1) ^ word(2) ^ word(3))
        })
    };
    let mut slots = read.chunks_exact(4).zip(content.chunks_exact(SLOT_BYTES));
    assert!(slots.all(|(word, slot)| word == fold(slot).to_le_bytes()), "the draws read other constants");
}

/// The pipeline of the draws.
struct Pipeline {
    device: ash::Device,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipelines: [vk::Pipeline; 2],
    pool: vk::DescriptorPool,
    set: vk::DescriptorSet,
}

impl Pipeline {
    fn new(device: &Device, results: &Buffer<Device>) -> Self {
        let device = device.raw().clone();
        let binding = |index, kind| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index)
                .descriptor_type(kind)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let (constants, storage) = (vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC, vk::DescriptorType::STORAGE_BUFFER);
        let all = vk::DescriptorType::STORAGE_BUFFER_DYNAMIC;
        let bindings = [binding(0, constants), binding(1, storage), binding(2, all)];
        let code = compile(include_str!("constants_placement.wgsl"));
        let sizes = [constants, storage, all].map(|ty| vk::DescriptorPoolSize { ty, descriptor_count: 1 });
        // SAFETY: the device is alive, and all infos are valid; the shader was validated.
        unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = device.create_descriptor_set_layout(&info, None).expect("a set layout");
            let layouts = [set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
            let layout = device.create_pipeline_layout(&info, None).expect("a pipeline layout");
            let info = vk::ShaderModuleCreateInfo::default().code(&code);
            let module = device.create_shader_module(&info, None).expect("a shader");
            let infos = [c"draw", c"instances"].map(|name| {
                let stage = vk::PipelineShaderStageCreateInfo::default();
                let stage = stage.stage(vk::ShaderStageFlags::COMPUTE).module(module).name(name);
                vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)
            });
            let made = device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None).expect("pipelines");
            device.destroy_shader_module(module, None);
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
            let pool = device.create_descriptor_pool(&info, None).expect("a descriptor pool");
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            let set = device.allocate_descriptor_sets(&info).expect("a descriptor set")[0];
            let range = [vk::DescriptorBufferInfo { buffer: results.raw(), offset: 0, range: vk::WHOLE_SIZE }];
            let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(1).descriptor_type(storage);
            device.update_descriptor_sets(&[write.buffer_info(&range)], &[]);
            Self { set_layout, layout, pipelines: [made[0], made[1]], pool, set, device }
        }
    }

    /// Records draws that read each slot `reads` times. The descriptor set must not be in use by pending work.
    fn work(
        &self,
        device: &ash::Device,
        commands: vk::CommandBuffer,
        work: usize,
        (from, offset): (vk::Buffer, u64),
        slots: usize,
        reads: u32,
    ) {
        let range = |bytes| [vk::DescriptorBufferInfo { buffer: from, offset: 0, range: bytes }];
        let (slot, all) = (range(SLOT_BYTES as u64), range((slots * SLOT_BYTES) as u64));
        let write =
            |binding, ty| vk::WriteDescriptorSet::default().dst_set(self.set).dst_binding(binding).descriptor_type(ty);
        let writes = [
            write(0, vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC).buffer_info(&slot),
            write(2, vk::DescriptorType::STORAGE_BUFFER_DYNAMIC).buffer_info(&all),
        ];
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the command buffer is being recorded. The set is not pending, because each submission is waited for.
        unsafe {
            device.update_descriptor_sets(&writes, &[]);
            device.cmd_bind_pipeline(commands, point, self.pipelines[work]);
            let bind = |slot: usize| {
                let at = [(offset as usize + slot * SLOT_BYTES) as u32, offset as u32];
                device.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[self.set], &at);
            };
            // As in a renderer, all objects are drawn, then all again in the next pass.
            for _ in 0..reads {
                if work == 1 {
                    bind(0);
                    device.cmd_dispatch(commands, slots as u32, 1, 1);
                    continue;
                }
                for slot in 0..slots {
                    bind(slot);
                    device.cmd_dispatch(commands, GROUPS, 1, 1);
                }
            }
        }
    }

    fn destroy(self) {
        // SAFETY: all work is complete, and each object is destroyed once.
        unsafe {
            self.device.destroy_descriptor_pool(self.pool, None);
            self.pipelines.iter().for_each(|&pipeline| self.device.destroy_pipeline(pipeline, None));
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

fn compile(source: &str) -> Vec<u32> {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(source).expect("the shader is WGSL");
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let info = validator.validate(&module).expect("the shader is valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    naga::back::spv::write_vec(&module, &info, &options, None).expect("the shader is SPIR-V")
}
