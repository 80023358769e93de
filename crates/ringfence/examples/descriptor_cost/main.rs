//! The cost of descriptors for a thread, without the driver: the minimum over many rounds, in nanoseconds per
//! operation.
//!
//! `cargo run --release -p ringfence --example descriptor_cost`. With the argument `once`, runs a single round, for
//! callgrind.

mod nowhere;

use std::hint::black_box;
use std::time::Instant;

use ringfence::descriptor::{BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind, ViewTypes};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::sim::{self, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, ShaderVisibleHeap, Timeline};

use nowhere::Nowhere;

const COUNT: usize = 20_000;
const TYPES: ViewTypes = ViewTypes::STORAGE_BUFFER;

struct World {
    memory: Allocator<Nowhere>,
    timeline: Timeline<Nowhere>,
    buffer: Buffer<Nowhere>,
    visible: ShaderVisibleHeap<Nowhere>,
    cpu: CpuDescriptorHeap<Nowhere>,
    table: BindlessTable<Nowhere>,
}

/// Name, function, and operations per round of a measurement.
type Path = (&'static str, fn(&World), usize);

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "once") { 1 } else { 200 };
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let fence = device.create_fence(0);
    let memory = Allocator::over(Nowhere(device), AllocatorDesc::default());
    // SAFETY: there are no submissions.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: 256, usage: BufferUsage::STORAGE });
    let buffer =
        memory.create_buffer(&info.expect("a plain buffer"), AllocationDesc::default()).expect("there is room");
    let desc = ShaderVisibleDesc { types: TYPES, frame_slots: 1 << 18, ..Default::default() };
    let visible = ShaderVisibleHeap::new(&memory, desc).expect("few enough slots");
    let cpu = CpuDescriptorHeap::new(&memory, CpuHeapDesc { types: TYPES, block_slots: 65_536, ..Default::default() });
    let desc = BindlessDesc { capacity: 32_768, clear_freed: false };
    let table = BindlessTable::new(&memory, &visible, desc).expect("there is room");
    let world = World { memory, timeline, buffer, visible, cpu: cpu.expect("a block"), table };

    let paths: [Path; 5] = [
        ("CPU-only: one freed, one allocated", cpu_only, COUNT),
        ("bindless: inserted, removed, reclaimed", bindless, COUNT),
        ("frame: a table of one descriptor", table_of_one, COUNT),
        ("frame: a table of eight descriptors", table_of_eight, COUNT),
        ("frame: a table that is there already", table_again, COUNT),
    ];
    for (name, run, count) in paths {
        run(&world);
        let least = (0..rounds).map(|_| {
            let started = Instant::now();
            run(&world);
            started.elapsed().as_nanos() as f64 / count as f64
        });
        println!("{name:42} {:6.1} ns", least.fold(f64::INFINITY, f64::min));
    }
}

/// Keeps 1,000 live descriptors. Each of `COUNT` operations frees one and allocates one.
#[inline(never)]
fn cpu_only(world: &World) {
    let mut held: Vec<_> = (0..1000).map(|_| world.cpu.allocate(1).expect("blocks grow")).collect();
    for number in 0..COUNT {
        let at = number * 7919 % held.len();
        drop(held.swap_remove(at));
        held.push(world.cpu.allocate(1).expect("blocks grow"));
    }
    black_box(&held);
}

#[inline(never)]
fn bindless(world: &World) {
    let view = view(&world.buffer);
    let entries: Vec<_> = (0..COUNT).map(|_| world.table.insert(&view).expect("there is room")).collect();
    drop(entries);
    world.memory.reclaim();
}

#[inline(never)]
fn table_of_one(world: &World) {
    tables(world, 1, true);
}

#[inline(never)]
fn table_of_eight(world: &World) {
    tables(world, 8, true);
}

#[inline(never)]
fn table_again(world: &World) {
    tables(world, 1, false);
}

fn tables(world: &World, slots: u32, anew: bool) {
    let mut shown = world.cpu.allocate(slots).expect("blocks grow");
    let view = view(&world.buffer);
    (0..slots).for_each(|slot| shown.write(slot, &view).expect("a storage buffer"));
    let frame = world.timeline.begin();
    let mut frame_tables = world.visible.frame_descriptors(&frame).expect("its own frame");
    for _ in 0..COUNT {
        if anew {
            shown.write(0, &view).expect("a storage buffer");
        }
        black_box(frame_tables.table(&[shown.all()]).expect("there is room"));
    }
    drop(frame_tables);
    frame.discard();
    world.memory.reclaim();
}

fn view(buffer: &Buffer<Nowhere>) -> View<'_, Nowhere> {
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    View::buffer(buffer, BufferView { kind, offset: 0, size: 256 }).expect("it was made for storage")
}
