//! Measures the cost of descriptors on the Vulkan device of this machine, with each descriptor model that it supports,
//! and checks that work through descriptors accesses the right buffers.
//!
//! `cargo run --release -p ringfence-testkit --example descriptors`

use std::time::{Duration, Instant};

use ringfence::descriptor::{BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, DescriptorError, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind, DescriptorModel, Descriptors, HeapKind, ViewTypes};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Capabilities, Create, Driver};
use ringfence::vulkan::Device;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, Location, ShaderVisibleHeap};
use ringfence_testkit::descriptor_work::{DescriptorWork, Job, Slot};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Command, Gpu, Options};

const BYTES: u64 = 256;
const WORDS: u32 = 64;
const ROUNDS: u32 = 200;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    for model in [DescriptorModel::Buffers, DescriptorModel::UpdateAfterBind, DescriptorModel::PlainSets] {
        let gpu = VulkanGpu::open(&Options { descriptors: Some(model), ..Default::default() })?;
        let found = gpu.device().descriptor_support().model;
        if found == model {
            measure(gpu)?;
        } else {
            println!("{model:?}: not on this device, which has {found:?}");
        }
    }
    Ok(())
}

fn measure(mut gpu: VulkanGpu) -> Result<(), Failure> {
    let device = gpu.device();
    let Capabilities { name, .. } = device.capabilities();
    let types = ViewTypes::STORAGE_BUFFER;
    let most = device.visible_slots_max(HeapKind::Resources, types);
    println!("{name}, {:?}", device.descriptor_support());
    println!(
        "  at most {most} slots of storage buffers, {} of every type, {} of samplers",
        device.visible_slots_max(HeapKind::Resources, ViewTypes::all()),
        device.visible_slots_max(HeapKind::Samplers, types),
    );
    let memory = Allocator::over(device, AllocatorDesc::default());
    // SAFETY: all objects are dropped before the device, and every frame is signalled.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }?;
    let frame_slots = (most / 2).min(4096);
    let persistent_slots = (most / 2).min(4096);
    let desc = ShaderVisibleDesc { types, frame_slots, persistent_slots, chunk_slots: 8, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&memory, desc)?;
    let cpu = CpuDescriptorHeap::new(&memory, CpuHeapDesc { types, ..Default::default() })?;
    let capacity = persistent_slots;
    let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity, clear_freed: false })?;
    let buffers = [buffer(&memory, Location::Device)?, buffer(&memory, Location::Device)?];
    let back = buffer(&memory, Location::Readback)?;
    let mut shown = cpu.allocate(8)?;
    for index in 0..8 {
        shown.write(index, &words(&buffers[index as usize % 2])?)?;
    }

    let (mut insert, mut remove, mut copy, mut bind) = Default::default();
    let mut wrong = 0;
    for round in 0..ROUNDS {
        let entries = time(&mut insert, || {
            (0..capacity).map(|_| table.insert(&words(&buffers[0])?)).collect::<Result<Vec<_>, _>>()
        })?;
        let frame = timeline.begin();
        let mut frame_tables = heap.frame_descriptors(&frame)?;
        for _ in 0..frame_slots / 8 {
            // The descriptor is rewritten, so that no two tables are identical.
            shown.write(0, &words(&buffers[0])?)?;
            time(&mut copy, || frame_tables.table(&[shown.all()]))?;
        }
        drop(frame_tables);
        let index = entries[round as usize % entries.len()].slot();
        let slot = |index, at: usize| Slot {
            index,
            gpu: heap.gpu_handle(index, &frame),
            cpu: shown.cpu_handle(0),
            buffer: *buffers[at].object(),
        };
        // Slot 0 of the frame region is in a table and refers to the first buffer. Slot 1 refers to the other buffer.
        let jobs = [
            Job::Fill { to: slot(index, 0), words: WORDS, value: round },
            Job::Copy { from: slot(index, 0), constants: false, to: slot(1, 1), words: WORDS },
        ];
        let mut binding = time(&mut bind, || heap.bind(&frame))?;
        let (value, work) = (frame.value(), DescriptorWork { binding: &mut binding, slots: heap.slots(), jobs: &jobs });
        gpu.submit_descriptor_work(0, &[], work, value)?;
        timeline.submitted(frame)?;
        drop(binding);
        let frame = timeline.begin();
        let (src, dst) = (*buffers[1].object(), *back.object());
        let command = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: BYTES };
        let value = frame.value();
        gpu.submit(0, &[], &[command], value)?;
        timeline.submitted(frame)?;
        timeline.wait(value, Duration::from_secs(30))?;
        let mut bytes = [0; BYTES as usize];
        back.read(0, &mut bytes)?;
        wrong += bytes.chunks_exact(4).filter(|word| **word != round.to_le_bytes()).count();
        time(&mut remove, || {
            drop(entries);
            Ok::<_, DescriptorError>(())
        })?;
        memory.reclaim();
    }
    let each = |total: Duration, count: u32| total.as_nanos() / u128::from(count * ROUNDS);
    println!("  insert {} ns, remove {} ns an entry", each(insert, capacity), each(remove, capacity));
    println!("  table of 8 {} ns, bind {} ns", each(copy, frame_slots / 8), each(bind, 1));
    println!("  {ROUNDS} dispatches read and wrote through bindless indices and tables, {wrong} wrong words");
    if wrong == 0 { Ok(()) } else { Err("wrong words".into()) }
}

fn time<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    *total += started.elapsed();
    result
}

fn buffer(memory: &Allocator<Device>, location: Location) -> Result<Buffer<Device>, Failure> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: BYTES, usage })?;
    Ok(memory.create_buffer(&info, AllocationDesc { location, ..Default::default() })?)
}

fn words(buffer: &Buffer<Device>) -> Result<View<'_, Device>, ringfence::descriptor::DescriptorError> {
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    View::buffer(buffer, BufferView { kind, offset: 0, size: BYTES })
}
