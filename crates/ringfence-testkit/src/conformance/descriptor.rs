//! Descriptors on real and simulated heaps, and work that uses them.

use std::sync::Barrier;

use crate::descriptor_work::{DescriptorWork, Job, Slot};
use crate::fixture::Recording;
use crate::{Command, Gpu};
use ringfence::algorithms::range::{Allocate, FreeError};
use ringfence::descriptor::{
    BindlessDesc, BindlessEntry, ConstantView, CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, DescriptorError, Region,
    SamplerTable, ShaderVisibleDesc, SlotAlgorithm, View,
};
use ringfence::device::descriptors::{
    AddressMode, BufferView, BufferViewKind, Descriptors, HeapDesc, HeapKind, HeapStart, SamplerDesc, TextureView,
    TextureViewKind, ViewTypes,
};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Format, RawBuffer, TextureDesc, TextureUsage};
use ringfence::memory::DescriptorSnapshot;
use ringfence::memory::Error;
use ringfence::placement::FastConstantsDesc;
use ringfence::trace::{Reader, StartTraceError, State};
use ringfence::upload::{ConstantsDesc, UploadDesc};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, ConstantBuffers, FastConstants, Frame, Location,
    ShaderVisibleHeap, Texture, UploadBatch, UploadRing,
};

use crate::rig::{PATIENCE, Rig, buffer, skipped};

/// Size of the range that each descriptor shows, in bytes.
const BYTES: u64 = 256;
const WORDS: u32 = 64;
/// Number of slots for frames in the heap of most tests; every device has as many.
const FRAME_SLOTS: u32 = 16;
const PERSISTENT_SLOTS: u32 = 8;
const TYPES: ViewTypes = ViewTypes::STORAGE_BUFFER;

const STORAGE: BufferViewKind = BufferViewKind::Storage { stride: 0, writes: true };

type Heap<G> = ShaderVisibleHeap<<G as Gpu>::Device>;
type Cpu<G> = CpuDescriptors<<G as Gpu>::Device>;
type Buf<G> = Buffer<<G as Gpu>::Device>;

fn desc() -> ShaderVisibleDesc<'static> {
    ShaderVisibleDesc {
        types: TYPES,
        frame_slots: FRAME_SLOTS,
        persistent_slots: PERSISTENT_SLOTS,
        chunk_slots: 4,
        ..Default::default()
    }
}

fn visible<G: Gpu>(rig: &Rig<G>) -> Heap<G> {
    ShaderVisibleHeap::new(&rig.memory, desc()).expect("every device has this many slots")
}

fn cpu<G: Gpu>(rig: &Rig<G>) -> CpuDescriptorHeap<G::Device> {
    let desc = CpuHeapDesc { types: TYPES, block_slots: 16, ..Default::default() };
    CpuDescriptorHeap::new(&rig.memory, desc).expect("a small block")
}

fn storage<G: Gpu>(rig: &Rig<G>, name: &str) -> Buf<G> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
    buffer(&rig.memory, BYTES, usage, Location::Device, name)
}

fn words<D: Descriptors>(buffer: &Buffer<D>) -> View<'_, D> {
    View::buffer(buffer, BufferView { kind: STORAGE, offset: 0, size: BYTES }).expect("it was made for storage")
}

fn shown<G: Gpu>(heap: &CpuDescriptorHeap<G::Device>, of: &Buf<G>) -> Cpu<G> {
    let mut descriptors = heap.allocate(1).expect("blocks grow");
    descriptors.write(0, &words(of)).expect("a storage buffer");
    descriptors
}

fn slot<G: Gpu>(heap: &Heap<G>, frame: &Frame, index: u32, cpu: &Cpu<G>, of: &Buf<G>) -> Slot<G::Device> {
    let gpu = heap.gpu_handle(index, frame);
    Slot { index, gpu, cpu: cpu.cpu_handle(0), buffer: of.object().clone() }
}

fn fill<G: Gpu>(to: Slot<G::Device>, value: u32) -> Job<G::Device> {
    Job::Fill { to, words: WORDS, value }
}

/// Runs jobs in one command list and waits for them.
fn run<G: Gpu>(rig: &mut Rig<G>, heap: &Heap<G>, frame: Frame, jobs: &[Job<G::Device>]) {
    let value = submit(rig, heap, frame, &[], jobs);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
}

fn submit<G: Gpu>(
    rig: &mut Rig<G>,
    heap: &Heap<G>,
    frame: Frame,
    waits: &[(usize, u64)],
    jobs: &[Job<G::Device>],
) -> u64 {
    let mut binding = heap.bind(&frame).expect("there is room for a set");
    let value = frame.value();
    let work = DescriptorWork { binding: &mut binding, slots: heap.slots(), jobs };
    rig.gpu.submit_descriptor_work(0, waits, work, value).expect("the device is not lost");
    rig.timelines[0].submitted(frame).expect("in order");
    value
}

fn holds<G: Gpu>(rig: &mut Rig<G>, of: &Buf<G>, value: u32) -> bool {
    rig.download(of, BYTES).chunks_exact(4).all(|word| word == value.to_le_bytes())
}

pub fn seed_000_01_one_shader_visible_heap_a_kind_bound_once_a_list<G: Gpu>(rig: &mut Rig<G>) {
    let heap = visible(rig);
    let second = Heap::<G>::new(&rig.memory, desc()).err();
    assert_eq!(second, Some(DescriptorError::SecondHeap { kind: HeapKind::Resources }));
    let samplers = ShaderVisibleDesc { kind: HeapKind::Samplers, persistent_slots: 4, frame_slots: 0, ..desc() };
    let samplers = Heap::<G>::new(&rig.memory, samplers).expect("another kind");
    let targets = ShaderVisibleDesc { kind: HeapKind::RenderTargets, ..desc() };
    assert!(matches!(Heap::<G>::new(&rig.memory, targets), Err(DescriptorError::BadView(_))));

    let frame = rig.timeline().begin();
    let mut binding = heap.bind(&frame).expect("room").and(&samplers).expect("two heaps of two kinds");
    assert!(binding.bound(HeapKind::Resources).is_some() && binding.bound(HeapKind::Samplers).is_some());
    assert_eq!(binding.set_once().expect("the first time").count(), 2);
    assert!(matches!(binding.set_once().map(drop), Err(DescriptorError::AlreadyBound { .. })), "never rebound");
    assert!(matches!(binding.and(&heap), Err(DescriptorError::AlreadyBound { .. })));
    let twice = heap.bind(&frame).expect("another list").and(&heap);
    assert_eq!(twice.err(), Some(DescriptorError::AlreadyBound { kind: HeapKind::Resources }));
    // A heap cannot be added to a list that began without a heap of its kind.
    let mut binding = heap.bind(&frame).expect("another list");
    assert_eq!(binding.set_once().expect("the first time").count(), 1);
    assert_eq!(binding.and(&samplers).err(), Some(DescriptorError::AlreadyBound { kind: HeapKind::Samplers }));
    let mut binding = samplers.bind(&frame).expect("another list");
    assert_eq!(binding.set_once().expect("the first time").count(), 1);
    assert_eq!(binding.and(&heap).err(), Some(DescriptorError::AlreadyBound { kind: HeapKind::Resources }));
    let value = rig.submit_behind_gate(1, frame, &[]);
    // A heap exists until its handles are dropped and its frames are complete. Then the next one may be created.
    drop((heap, samplers));
    rig.memory.reclaim();
    for kind in [HeapKind::Resources, HeapKind::Samplers] {
        let early = Heap::<G>::new(&rig.memory, ShaderVisibleDesc { kind, ..desc() }).err();
        assert_eq!(early, Some(DescriptorError::SecondHeap { kind }));
    }
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    drop(visible(rig));
}

pub fn seed_000_02_many_requests_share_few_heaps<G: Gpu>(rig: &mut Rig<G>) {
    let heap = cpu(rig);
    let held: Vec<_> = (0..64).map(|_| heap.allocate(1).expect("blocks grow")).collect();
    let statistics = heap.statistics();
    assert_eq!(
        (statistics.block_count, statistics.capacity, statistics.free_size),
        (4, 64, 0),
        "single slots waste no space"
    );
    let large = heap.allocate(40).expect("a block of its own size");
    assert_eq!(heap.statistics().block_count, 5);
    heap.validate().expect("sound");
    drop((held, large));
    heap.validate().expect("sound");
    assert_eq!(heap.statistics().live_count, 0);
    // Allocations of several slots share blocks with each other and with single slots, and reuse freed slots.
    let heap = cpu(rig);
    let mut runs: Vec<_> = [4, 2, 4, 1, 1, 4].map(|count| heap.allocate(count).expect("blocks grow")).into();
    runs.extend((0..4).map(|_| heap.allocate(8).expect("blocks grow")));
    assert_eq!((heap.statistics().block_count, heap.statistics().free_size), (3, 0), "a block has 16 slots");
    drop(runs.split_off(6));
    runs.extend([16, 8, 4, 4].map(|count| heap.allocate(count).expect("room")));
    assert_eq!((heap.statistics().block_count, heap.statistics().capacity), (3, 48));
    assert!(runs.iter().all(|run| run.heap().slots() == 16));
}

pub fn seed_000_19_handles_are_a_start_and_an_increment<G: Gpu>(rig: &mut Rig<G>) {
    let heap = cpu(rig);
    let (first, second) = (heap.allocate(2).expect("room"), heap.allocate(1).expect("room"));
    for held in [&first, &second] {
        let HeapStart { increment, .. } = start_of::<G>(rig, HeapKind::Resources, false);
        for index in 0..held.len() {
            let expected = held.heap().cpu_handle(0).0 + u64::from(held.start() + index) * increment;
            assert_eq!(held.cpu_handle(index).0, expected, "an allocation is a view: heap, start, length");
        }
        assert_eq!(held.heap().gpu_handle(0), None, "shaders cannot access the heap");
    }
    let visible = visible(rig);
    let frame = rig.timeline().begin();
    let HeapStart { cpu: start, gpu, increment } = start_of::<G>(rig, HeapKind::Resources, true);
    let gpu = gpu.expect("shaders can access the heap");
    assert_eq!(visible.gpu_handle(7, &frame).0, visible.gpu_handle(0, &frame).0 + 7 * increment);
    // On the simulated device, the address ranges for the host and for shaders are far apart.
    let distance = visible.gpu_handle(0, &frame).0.abs_diff(gpu);
    assert!(G::NAME != "sim" || distance < gpu.abs_diff(start) / 2, "{distance}");
    rig.submit(frame, &[]);
    let desc = CpuHeapDesc { kind: HeapKind::Samplers, block_slots: 16, ..Default::default() };
    let samplers = CpuDescriptorHeap::new(&rig.memory, desc).expect("a small block").allocate(3).expect("room");
    let HeapStart { increment, .. } = start_of::<G>(rig, HeapKind::Samplers, false);
    assert_eq!(samplers.cpu_handle(2).0, samplers.cpu_handle(0).0 + 2 * increment, "each kind has its increment");
}

/// Creates a heap directly on the device. Returns its first handles and its increment.
fn start_of<G: Gpu>(rig: &Rig<G>, kind: HeapKind, shader_visible: bool) -> HeapStart {
    let desc = HeapDesc { kind, types: TYPES, slots: 8, layout_slots: 8, shader_visible, name: "by itself" };
    let (heap, start) = rig.memory.device().make_heap(&desc).expect("a small heap");
    // SAFETY: the device created it, and no work uses it.
    unsafe { rig.memory.device().destroy_heap(heap) };
    start
}

pub fn seed_000_20_counts_are_checked<G: Gpu>(rig: &mut Rig<G>) {
    let (mut cpu, mut visible) = (cpu(rig), visible(rig));
    assert_eq!(cpu.allocate(0).err(), Some(DescriptorError::ZeroCount));
    assert!(matches!(cpu.allocate(u32::MAX), Err(DescriptorError::TooMany { .. })));
    // Counts in the trait have 64 bits: 2³² + 1 must not become 1.
    let count = (1 << 32) + 1;
    let refused = Allocate::allocate(&mut cpu, count, 1);
    assert!(matches!(refused, Err(DescriptorError::TooMany { count: asked, .. }) if asked == count), "{refused:?}");
    let refused = Allocate::allocate(&mut visible, count, 1);
    assert!(matches!(refused, Err(DescriptorError::TooMany { count: asked, .. }) if asked == count), "{refused:?}");
    assert_eq!(visible.allocate(0).err(), Some(DescriptorError::ZeroCount));
    let held = visible.allocate(5).expect("room");
    let full = DescriptorError::Full { region: Region::Persistent, need: 4, free: 3, largest_free: 3 };
    assert_eq!(visible.allocate(4).err(), Some(full));
    let most = u64::from(rig.memory.device().visible_slots_max(HeapKind::Samplers, TYPES));
    let too_large =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: u32::MAX, persistent_slots: u32::MAX, ..desc() };
    let refused = Heap::<G>::new(&rig.memory, too_large).err();
    assert_eq!(refused, Some(DescriptorError::TooMany { count: 2 * u64::from(u32::MAX), max: most }));
    drop(held);
}

/// A buddy allocator rounds a size up to a power of two and aligns it to that. A free list does neither.
pub fn seed_000_20_by_default_blocks_of_buddies_and_one_free_list<G: Gpu>(rig: &mut Rig<G>) {
    let (cpu, visible) = (cpu(rig), visible(rig));
    let defaults = (CpuHeapDesc::default().algorithm, ShaderVisibleDesc::default().algorithm);
    assert_eq!(defaults, (SlotAlgorithm::Buddy, SlotAlgorithm::FreeList));
    let three = cpu.allocate(3).expect("room");
    let after = cpu.statistics();
    assert_eq!((after.block_count, after.capacity, after.free_size), (1, 16, 12), "three take four slots of a buddy");
    let sixteen = cpu.allocate(16).expect("another block");
    assert_eq!((cpu.statistics().block_count, sixteen.start()), (2, 0), "CPU-only heaps grow by blocks");
    let runs = [3, 1, 2].map(|count| visible.allocate(count).expect("room"));
    let starts = runs.each_ref().map(|run| run.start() - runs[0].start());
    assert_eq!(starts, [0, 3, 4], "the free list allocates runs of the exact length, one after the other");
    let full = DescriptorError::Full { region: Region::Persistent, need: 3, free: 2, largest_free: 2 };
    assert_eq!(visible.allocate(3).err(), Some(full), "the shader-visible heap is one, and fixed");
    drop((three, sixteen, runs));
}

/// The same test of the trait `Allocate` passes with each algorithm, in CPU-only and shader-visible heaps.
pub fn seed_000_21_the_algorithm_inside_can_be_swapped<G: Gpu>(rig: &mut Rig<G>) {
    fn contract<T: Allocate<Error = DescriptorError>>(one: &mut T, other: &mut T) {
        let (first, second) = (one.allocate(2, 1).expect("room"), one.allocate(1, 1).expect("room"));
        assert_eq!(one.allocate(0, 1).err(), Some(DescriptorError::ZeroCount));
        assert!(one.allocate(u64::MAX, 1).is_err());
        assert!(matches!(other.free(first), Err(FreeError::Foreign { size: 2, .. })), "other heaps are refused");
        one.free(second).expect("its own");
    }
    for algorithm in [SlotAlgorithm::Buddy, SlotAlgorithm::FreeList, SlotAlgorithm::Tlsf] {
        let make = |rig: &Rig<G>| CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc { algorithm, ..Default::default() });
        let (mut one, mut other) = (make(rig).expect("small"), make(rig).expect("small"));
        contract(&mut one, &mut other);
        one.validate().expect("sound");
        let of_buffers = ShaderVisibleHeap::new(&rig.memory, ShaderVisibleDesc { algorithm, ..desc() });
        let of_samplers = ShaderVisibleDesc { kind: HeapKind::Samplers, algorithm, ..desc() };
        let of_samplers = ShaderVisibleHeap::new(&rig.memory, of_samplers);
        let (mut one, mut other) = (of_buffers.expect("the only one"), of_samplers.expect("the only one"));
        contract(&mut one, &mut other);
        one.validate().expect("sound");
        drop((one, other));
        rig.memory.reclaim();
    }
}

pub fn work_goes_through_bindless_persistent_and_table_descriptors<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() });
    let table = table.expect("room");
    let buffers: Vec<_> = ["bindless", "persistent", "table"].map(|name| storage(rig, name)).into();
    let shown: Vec<_> = buffers.iter().map(|buffer| shown::<G>(&cpu, buffer)).collect();
    let index = table.insert(&words(&buffers[0])).expect("room").into_index();
    let mut persistent = heap.allocate(2).expect("room");
    persistent.copy(1, &[shown[1].all()]).expect("the slot is fresh");
    let frame = rig.timeline().begin();
    let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
    let in_table = frame_tables.table(&[shown[0].all(), shown[2].all()]).expect("room");
    drop(frame_tables);
    let at = [index.slot(), persistent.start() + 1, in_table.start() + 1];
    let jobs: Vec<_> = (0..3)
        .map(|at_index| {
            let to = slot::<G>(&heap, &frame, at[at_index], &shown[at_index], &buffers[at_index]);
            fill::<G>(to, 0x1000_0001 + at_index as u32)
        })
        .collect();
    run(rig, &heap, frame, &jobs);
    for (buffer, value) in buffers.iter().zip(0x1000_0001..) {
        assert!(holds(rig, buffer, value), "{value:#x}");
    }
}

pub fn work_reads_through_a_bindless_index<G: Gpu>(rig: &mut Rig<G>) {
    if !rig.gpu.can_copy_through_descriptors() {
        return skipped("the test kit cannot copy through descriptors here");
    }
    let (heap, cpu) = (visible(rig), cpu(rig));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() });
    let table = table.expect("room");
    let (from, to) = (storage(rig, "from"), storage(rig, "to"));
    let indices = [&from, &to].map(|buffer| table.insert(&words(buffer)).expect("room").into_index());
    let cpus = [&from, &to].map(|buffer| shown::<G>(&cpu, buffer));
    let frame = rig.timeline().begin();
    let slots = [
        slot::<G>(&heap, &frame, indices[0].slot(), &cpus[0], &from),
        slot::<G>(&heap, &frame, indices[1].slot(), &cpus[1], &to),
    ];
    let [first, second] = slots;
    let jobs = [fill::<G>(first.clone(), 77), Job::Copy { from: first, constants: false, to: second, words: WORDS }];
    run(rig, &heap, frame, &jobs);
    assert!(holds(rig, &to, 77));
}

/// Small buffers, staged bytes and fast constants are ranges of shared buffers. A view of each shows its own bytes.
pub fn a_view_of_a_range_of_a_shared_buffer_shows_that_range<G: Gpu>(rig: &mut Rig<G>) {
    if !rig.gpu.can_copy_through_descriptors() {
        return skipped("the test kit cannot copy through descriptors here");
    }
    let (heap, cpu) = (visible(rig), cpu(rig));
    let usage = BufferUsage::STORAGE_READ | BufferUsage::COPY_SRC;
    let content = |value: u32| value.to_le_bytes().repeat(WORDS as usize);
    let mut small: Vec<_> = (0..2)
        .map(|_| rig.memory.create_small_buffer(BufferDesc { size: BYTES, usage }, Location::Upload).expect("room"))
        .collect();
    small[1].write(0, &content(1)).expect("upload memory is mapped");
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 1 << 16, usage, ..Default::default() });
    let ring = ring.expect("there is room");
    let fast = FastConstants::new(&rig.memory, FastConstantsDesc { usage, ..Default::default() });
    let frame = rig.timeline().begin();
    ring.write(&[0; 1024], 256).expect("there is room");
    let staged = ring.write(&content(2), 256).expect("there is room");
    let mut writer = fast.writer(&frame).expect("its own frame");
    writer.write(&[0; 1024]).expect("there is room");
    let fast = writer.write(&content(3)).expect("there is room");
    drop(writer);

    let view = BufferView { kind: BufferViewKind::Storage { stride: 0, writes: false }, offset: 0, size: BYTES };
    let longer = View::buffer(&small[1], BufferView { size: BYTES + 4, ..view });
    let beyond = DescriptorError::BadRange {
        offset: 0,
        size: BYTES + 4,
        rule: "the size of the buffer in bytes is",
        limit: BYTES,
    };
    assert_eq!(longer.err(), Some(beyond), "the next small buffer");
    let views = [View::buffer(&small[1], view), View::buffer(&staged, view), View::buffer(&fast, view)];
    let views = views.map(|view| view.expect("its buffer may be read by shaders"));
    let objects = [small[1].object(), &staged.buffer, &fast.buffer];
    let targets = ["small", "staged", "fast"].map(|name| storage(rig, name));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 8, ..Default::default() });
    let table = table.expect("room");
    let mut shown = Vec::new();
    let mut slot_of = |view: &View<'_, _>, object: &RawBuffer<G::Device>| {
        let mut written: Cpu<G> = cpu.allocate(1).expect("blocks grow");
        written.write(0, view).expect("storage");
        let index = table.insert(view).expect("room").into_index().slot();
        let gpu = heap.gpu_handle(index, &frame);
        let found = Slot { index, gpu, cpu: written.cpu_handle(0), buffer: object.clone() };
        shown.push(written);
        found
    };
    let jobs = views.iter().zip(objects).zip(&targets).map(|((view, object), target)| {
        let from = slot_of(view, object);
        Job::Copy { from, constants: false, to: slot_of(&words(target), target.object()), words: WORDS }
    });
    let jobs: Vec<_> = jobs.collect();
    // Staged bytes do not refer to the device, so the heap checks its limits.
    let alignment = rig.memory.device().descriptor_support().storage_alignment;
    let shifted = View::buffer(&staged, BufferView { offset: 4, size: 64, ..view }).expect("it is inside");
    let refused = table.insert(&shifted).err();
    let is_refused = matches!(refused, Some(DescriptorError::BadRange { limit, .. }) if limit == alignment);
    assert_eq!(is_refused, alignment > 4, "{refused:?}");
    run(rig, &heap, frame, &jobs);
    for (target, value) in targets.iter().zip(1..) {
        assert!(holds(rig, target, value), "{value}");
    }
}

/// A freed slot is reused only after its frame, which waits for the gate, is complete.
pub fn freed_slots_come_back_at_their_sync_points_only<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 2, clear_freed: true });
    let table = table.expect("room");
    let buffers = ["first", "second", "third"].map(|name| storage(rig, name));
    let first_shown = shown::<G>(&cpu, &buffers[0]);
    let first = table.insert(&words(&buffers[0])).expect("room").into_index();
    let frame = rig.timeline().begin();
    let job = fill::<G>(slot::<G>(&heap, &frame, first.slot(), &first_shown, &buffers[0]), 5);
    let gate = (rig.gpu.gate(), 1);
    let value = submit(rig, &heap, frame, &[gate], &[job]);
    table.remove(first).expect("it is there");
    assert!(!table.is_live(first));
    let stale = DescriptorError::Stale { slot: first.slot(), generation: first.generation() };
    assert_eq!(table.remove(first), Err(stale));
    rig.memory.reclaim();
    let second = table.insert(&words(&buffers[1])).expect("the other slot").into_index();
    assert_ne!(second.slot(), first.slot());
    let full = DescriptorError::TableFull { entries: 2, heap_free: heap.statistics().persistent_free };
    assert_eq!(table.insert(&words(&buffers[2])).err(), Some(full));
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    let third = table.insert(&words(&buffers[2])).expect("the slot came back").into_index();
    assert_eq!(third.slot(), first.slot(), "the same slot");
    assert_ne!(third, first, "the generation differs");
    assert!(holds(rig, &buffers[0], 5), "the late work used its own buffer");
    table.validate().expect("sound");
}

pub fn an_entry_keeps_its_index_when_it_is_updated<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 3, ..Default::default() });
    let table = table.expect("room");
    let buffers = ["before", "after"].map(|name| storage(rig, name));
    let shown = [shown::<G>(&cpu, &buffers[0]), shown::<G>(&cpu, &buffers[1])];
    let index = table.insert(&words(&buffers[0])).expect("room").into_index();
    let frame = rig.timeline().begin();
    let job = fill::<G>(slot::<G>(&heap, &frame, index.slot(), &shown[0], &buffers[0]), 1);
    run(rig, &heap, frame, &[job]);
    table.update(index, &words(&buffers[1])).expect("it is live");
    rig.memory.reclaim();
    assert!(table.is_settled() && table.is_live(index));
    let frame = rig.timeline().begin();
    let job = fill::<G>(slot::<G>(&heap, &frame, index.slot(), &shown[1], &buffers[1]), 2);
    run(rig, &heap, frame, &[job]);
    assert!(holds(rig, &buffers[0], 1) && holds(rig, &buffers[1], 2));
    let replaced = table.replace(index, &words(&buffers[0])).expect("room");
    assert!(!table.is_live(index) && table.is_live(replaced));
    assert_eq!(table.live_count(), 1);
    assert!(matches!(table.update(index, &words(&buffers[0])), Err(DescriptorError::Stale { .. })));
}

pub fn identical_tables_of_a_frame_share_one_copy<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let buffers = ["one", "two"].map(|name| storage(rig, name));
    let mut shown = [shown::<G>(&cpu, &buffers[0]), shown::<G>(&cpu, &buffers[1])];
    let frame = rig.timeline().begin();
    let (mut one, mut other) = (
        heap.frame_descriptors(&frame).expect("its own frame"),
        heap.frame_descriptors(&frame).expect("its own frame"),
    );
    let table = one.table(&[shown[0].all(), shown[1].all()]).expect("room");
    assert_eq!(one.table(&[shown[0].all(), shown[1].all()]), Ok(table));
    assert_eq!(other.table(&[shown[0].all(), shown[1].all()]), Ok(table), "another `FrameTables` of the same frame");
    let turned = one.table(&[shown[1].all(), shown[0].all()]).expect("room");
    assert_ne!(turned, table);
    drop((one, other));
    // After a rewrite, a descriptor counts as different content, even in the same slot.
    shown[0].write(0, &words(&buffers[0])).expect("a storage buffer");
    let fresh =
        heap.frame_descriptors(&frame).expect("its own frame").table(&[shown[0].all(), shown[1].all()]).expect("room");
    assert_ne!(fresh, table);
    let statistics = heap.statistics();
    assert_eq!((statistics.tables_made, statistics.tables_shared), (3, 2));
    rig.submit(frame, &[]);
    let frame = rig.timeline().begin();
    heap.frame_descriptors(&frame).expect("its own frame").table(&[shown[1].all()]).expect("room");
    assert_eq!(heap.statistics().tables_made, 4, "another frame has its own copies");
    rig.submit(frame, &[]);
}

pub fn tables_are_refused_with_the_numbers<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let target = storage(rig, "shown");
    let mut many = cpu.allocate(FRAME_SLOTS).expect("blocks grow");
    let frame = rig.timeline().begin();
    let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
    assert_eq!(frame_tables.table(&[]).err(), Some(DescriptorError::ZeroCount));
    assert_eq!(frame_tables.table(&[many.all()]).err(), Some(DescriptorError::Unwritten { index: 0 }));
    for index in 0..FRAME_SLOTS {
        many.write(index, &words(&target)).expect("a storage buffer");
    }
    assert!(matches!(many.write(FRAME_SLOTS, &words(&target)), Err(DescriptorError::OutOfRange { .. })));
    frame_tables.table(&[many.part(0..6).expect("inside")]).expect("a chunk of 6");
    frame_tables.table(&[many.part(6..10).expect("inside")]).expect("a chunk of 4");
    let full = DescriptorError::Full { region: Region::Frame, need: 7, free: 6, largest_free: 6 };
    assert_eq!(frame_tables.table(&[many.part(0..7).expect("inside")]).err(), Some(full));
    frame_tables.table(&[many.part(9..15).expect("inside")]).expect("what is left");
    let never = frame_tables.table(&[many.all(), many.all()]).err();
    assert_eq!(never, Some(DescriptorError::TooMany { count: 2 * u64::from(FRAME_SLOTS), max: FRAME_SLOTS.into() }));
    assert_eq!(heap.statistics().frame_high_water, FRAME_SLOTS.into());
    drop(frame_tables);
    rig.submit(frame, &[]);
    rig.run(&[]);
    let frame = rig.timeline().begin();
    heap.frame_descriptors(&frame)
        .expect("its own frame")
        .table(&[many.all()])
        .expect("the frame is complete: polling finds all of it free");
    rig.submit(frame, &[]);
}

pub fn threads_take_chunks_side_by_side<G: Gpu>(rig: &mut Rig<G>) {
    const THREADS: usize = 4;
    let (heap, cpu) = (visible(rig), cpu(rig));
    let buffers: Vec<_> = (0..THREADS).map(|_| storage(rig, "of a thread")).collect();
    let shown: Vec<_> = buffers.iter().map(|buffer| shown::<G>(&cpu, buffer)).collect();
    for round in 0..6 {
        let frame = rig.timeline().begin();
        let barrier = Barrier::new(THREADS);
        let tables: Vec<_> = std::thread::scope(|scope| {
            let record = |at: usize| {
                let (heap, frame, shown, barrier) = (&heap, &frame, &shown, &barrier);
                move || {
                    let mut frame_tables = heap.frame_descriptors(frame).expect("its own frame");
                    barrier.wait();
                    // The chunk has four slots. Tables that start with the same descriptor differ in the next one.
                    let own = frame_tables.table(&[shown[at].all()]).expect("room");
                    let pair = frame_tables.table(&[shown[at].all(), shown[(at + 1) % THREADS].all()]).expect("room");
                    (own, pair)
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|at| scope.spawn(record(at))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let taken: std::collections::BTreeSet<_> =
            tables.iter().flat_map(|(own, pair)| [own.start(), pair.start(), pair.start() + 1]).collect();
        assert_eq!(taken.len(), 3 * THREADS, "no slot twice: {tables:?}");
        let jobs: Vec<_> = (0..THREADS)
            .map(|at| {
                let to = slot::<G>(&heap, &frame, tables[at].0.start(), &shown[at], &buffers[at]);
                fill::<G>(to, round * 100 + at as u32)
            })
            .collect();
        run(rig, &heap, frame, &jobs);
        rig.memory.reclaim();
        for (buffer, value) in buffers.iter().zip(round * 100..) {
            assert!(holds(rig, buffer, value));
        }
    }
    heap.validate().expect("sound");
}

pub fn two_thousand_requests_for_forty_samplers_use_forty_slots<G: Gpu>(rig: &mut Rig<G>) {
    let kind = HeapKind::Samplers;
    let most = rig.memory.device().visible_slots_max(kind, TYPES);
    let distinct = most.min(40);
    let heap = ShaderVisibleDesc { kind, frame_slots: 0, persistent_slots: distinct, ..desc() };
    let heap = Heap::<G>::new(&rig.memory, heap).expect("this many samplers");
    let desc = BindlessDesc { capacity: distinct, ..Default::default() };
    let table = SamplerTable::new(&rig.memory, &heap, desc).expect("room");
    let modes = [AddressMode::Repeat, AddressMode::Mirror, AddressMode::Clamp, AddressMode::Border];
    let sampler = |number: u32| SamplerDesc {
        address: [modes[number as usize % 4], modes[number as usize / 4 % 4], AddressMode::Clamp],
        levels: [(number / 16) as f32, 16.0],
        ..Default::default()
    };
    let held: Vec<_> = (0..2048).map(|at| table.get(sampler(at % distinct)).expect("forty slots are enough")).collect();
    assert_eq!(table.distinct_count(), distinct as usize);
    assert_eq!(table.table().live_count(), distinct);
    for (at, sampler) in held.iter().enumerate() {
        assert_eq!(sampler.slot(), held[at % distinct as usize].slot());
    }
    let one_more = table.get(SamplerDesc { level_bias: 1.0, ..Default::default() });
    assert!(matches!(one_more, Err(DescriptorError::TableFull { .. })), "{one_more:?}");
    assert!(matches!(
        table.get(SamplerDesc { anisotropy: 17, ..Default::default() }),
        Err(DescriptorError::BadView(_))
    ));
    drop(held);
    assert_eq!((table.distinct_count(), table.table().live_count()), (0, 0));
    rig.memory.reclaim();
    assert_eq!(table.table().free_count(), distinct);
}

pub fn a_heap_grows_at_a_submission_and_keeps_its_indices<G: Gpu>(rig: &mut Rig<G>) {
    // SwiftShader has 30 slots for storage buffers.
    let most = rig.memory.device().visible_slots_max(HeapKind::Resources, TYPES);
    let more = (most - FRAME_SLOTS - PERSISTENT_SLOTS).min(8);
    let slots_max = FRAME_SLOTS + PERSISTENT_SLOTS + more;
    let heap = Heap::<G>::new(&rig.memory, ShaderVisibleDesc { slots_max, ..desc() }).expect("this many slots");
    let cpu = cpu(rig);
    let buffers = ["before", "meanwhile", "after"].map(|name| storage(rig, name));
    let shown = [0, 1, 2].map(|at| shown::<G>(&cpu, &buffers[at]));
    let mut before = heap.allocate(PERSISTENT_SLOTS).expect("all of it");
    before.write(3, &words(&buffers[0])).expect("fresh");
    assert!(heap.allocate(1).is_err());
    // A frame that began before the growth continues to use the old heap, and also sees later writes.
    let frame = rig.timeline().begin();
    assert!(matches!(heap.grow(more + 1), Err(DescriptorError::TooMany { .. })));
    heap.grow(more).expect("up to the maximum");
    assert_eq!((heap.slots(), heap.statistics().heap_count), (slots_max, 2));
    before.copy(4, &[shown[1].all()]).expect("fresh");
    assert_eq!(before.copy(4, &[shown[1].all()]), Err(DescriptorError::InUse { index: 4 }));
    let jobs = [3, 4].map(|index| {
        let at = index as usize - 3;
        fill::<G>(slot::<G>(&heap, &frame, before.start() + index, &shown[at], &buffers[at]), 10 + index)
    });
    run(rig, &heap, frame, &jobs);
    rig.memory.reclaim();
    rig.memory.reclaim();
    assert_eq!(heap.statistics().heap_count, 1, "the old heap was destroyed with its last frame");
    let mut after = heap.allocate(more).expect("the new slots");
    assert_eq!(after.start(), FRAME_SLOTS + PERSISTENT_SLOTS);
    after.write(more - 1, &words(&buffers[2])).expect("fresh");
    let frame = rig.timeline().begin();
    let jobs = [
        fill::<G>(slot::<G>(&heap, &frame, before.start() + 3, &shown[0], &buffers[0]), 20),
        fill::<G>(slot::<G>(&heap, &frame, after.start() + more - 1, &shown[2], &buffers[2]), 21),
    ];
    run(rig, &heap, frame, &jobs);
    assert!(holds(rig, &buffers[0], 20) && holds(rig, &buffers[1], 14) && holds(rig, &buffers[2], 21));
    heap.validate().expect("sound");
}

/// Descriptions without slot counts work on every device with descriptors. The heap reports the actual counts.
pub fn default_heaps_and_tables_are_made_on_every_device<G: Gpu>(rig: &mut Rig<G>) {
    for kind in [HeapKind::Resources, HeapKind::Samplers] {
        let heap = Heap::<G>::new(&rig.memory, ShaderVisibleDesc { kind, ..Default::default() });
        let heap = heap.expect("a default is for every device");
        let most = rig.memory.device().visible_slots_max(kind, ViewTypes::all());
        let wanted = ShaderVisibleDesc::FRAME_SLOTS + ShaderVisibleDesc::PERSISTENT_SLOTS;
        assert_eq!(heap.slots(), most.min(wanted), "as many slots as the device has, up to the default");
        let given = heap.statistics();
        let (frame, persistent) = if most < wanted {
            (most / 4, most - most / 4)
        } else {
            (ShaderVisibleDesc::FRAME_SLOTS, ShaderVisibleDesc::PERSISTENT_SLOTS)
        };
        assert_eq!((given.frame_slots, given.persistent_slots), (frame.into(), persistent.into()));
        assert!(frame > 0 && persistent > 0, "{given:?}");
        let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc::default()).expect("and so is its table");
        let fitted = if persistent < BindlessDesc::CAPACITY { persistent.div_ceil(2) } else { BindlessDesc::CAPACITY };
        assert_eq!(table.capacity(), fitted, "half of the device's slots, if that is less than the default");
        if kind == HeapKind::Resources {
            let target = storage(rig, "shown by default");
            let index = table.insert(&words(&target)).expect("it has an entry").into_index();
            let frame = rig.timeline().begin();
            let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
            frame_tables.table_of(&[words(&target)]).expect("a table of one");
            drop(frame_tables);
            let binding = heap.bind(&frame).expect("there is room for a set");
            rig.submit(frame, &[]);
            drop(binding);
            table.remove(index).expect("it is live");
        }
        drop((table, heap));
        end_heap(rig);
        // If one slot count is given, the default for the other uses the remaining slots.
        for (frame_slots, persistent_slots) in
            [(4, ShaderVisibleDesc::PERSISTENT_SLOTS), (ShaderVisibleDesc::FRAME_SLOTS, 4)]
        {
            let desc = ShaderVisibleDesc { kind, frame_slots, persistent_slots, ..Default::default() };
            let given = Heap::<G>::new(&rig.memory, desc).expect("a default is for every device").statistics();
            let fitted = |asked: u32| u64::from(if asked == 4 { 4 } else { asked.min(most - 4) });
            assert_eq!((given.frame_slots, given.persistent_slots), (fitted(frame_slots), fitted(persistent_slots)));
            end_heap(rig);
        }
    }
}

/// Destroys dropped heaps, so that the next heap of their kind can be created.
fn end_heap<G: Gpu>(rig: &mut Rig<G>) {
    rig.run(&[]);
    rig.memory.reclaim();
    rig.memory.reclaim();
}

pub fn explicit_slots_beyond_the_device_are_refused_with_the_numbers<G: Gpu>(rig: &mut Rig<G>) {
    let most = rig.memory.device().visible_slots_max(HeapKind::Resources, TYPES);
    let Some(beyond) = most.checked_add(1) else {
        return skipped("the device has 4,294,967,295 slots");
    };
    let made = |frame_slots, persistent_slots, slots_max| {
        let desc = ShaderVisibleDesc { frame_slots, persistent_slots, slots_max, ..desc() };
        Heap::<G>::new(&rig.memory, desc).map(|heap| heap.statistics()).map_err(|error| match error {
            DescriptorError::TooMany { count, max } => (count, max),
            other => panic!("{other}"),
        })
    };
    let refused = |count: u32| Err((u64::from(count), u64::from(most)));
    assert_eq!(made(0, beyond, 0), refused(beyond));
    assert_eq!(made(beyond, 0, 0), refused(beyond));
    assert_eq!(made(1, 1, beyond), refused(beyond));
    // The failed creation left no heap: another heap of the kind can be created.
    drop(visible(rig));
}

pub fn empty_cpu_heaps_go_after_their_grace<G: Gpu>(rig: &mut Rig<G>) {
    let desc =
        CpuHeapDesc { types: TYPES, block_slots: 4, empty_blocks_kept: 0, empty_block_grace: 3, ..Default::default() };
    let heap = CpuDescriptorHeap::<G::Device>::new(&rig.memory, desc).expect("small");
    drop(heap.allocate(4).expect("room"));
    let went = (1..10).find(|_| {
        rig.memory.reclaim();
        heap.statistics().block_count == 0
    });
    assert_eq!(went, Some(4), "the first reclaim notices it, and three more pass");
    heap.allocate(1).expect("another block");
}

pub fn texels_of_every_format_are_shown_or_refused_by_name<G: Gpu>(rig: &mut Rig<G>) {
    let heap = CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc::default()).expect("small");
    let mut slots: Cpu<G> = heap.allocate(1).expect("room");
    let both = BufferUsage::TEXELS | BufferUsage::STORAGE;
    let kinds = [(BufferUsage::TEXELS, false), (BufferUsage::TEXELS | BufferUsage::STORAGE_READ, false)];
    for (usage, writes) in kinds.into_iter().chain([(both, false), (both, true)]) {
        let shown = buffer(&rig.memory, 4096, usage, Location::Device, "texels");
        let mut formats = Vec::new();
        for format in Format::ALL.iter().copied() {
            let size = 4 * format.texel_bytes();
            let view = BufferView { kind: BufferViewKind::Texels { format, writes }, offset: 0, size };
            let Ok(view) = View::buffer(&shown, view) else { continue };
            match slots.write(0, &view) {
                Ok(()) => formats.push(format),
                Err(DescriptorError::Device(DeviceError::Unsupported(_))) => {}
                Err(error) => panic!("{format:?}: {error}"),
            }
        }
        println!("{usage:?}, written {writes}: {} formats", formats.len());
        // With the default description, plain sets have arrays for float texels only, not for integer texels.
        let every = [Format::R32Float, Format::Rgba8Unorm, Format::Rgba16Float, Format::Rgba32Float];
        assert!(every.iter().all(|format| formats.contains(format)), "{usage:?} {writes}: {formats:?}");
    }
}

pub fn every_portable_view_is_written_and_bad_ones_are_refused<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::STORAGE | BufferUsage::CONSTANT | BufferUsage::TEXELS | BufferUsage::COPY_DST;
    let wide = buffer(&rig.memory, 64 << 10, usage, Location::Device, "of all uses");
    let plain = buffer(&rig.memory, 4096, BufferUsage::COPY_DST, Location::Device, "of none");
    let of_all = CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc::default()).expect("small");
    let mut slots: Cpu<G> = of_all.allocate(16).expect("room");
    let kinds = [
        BufferViewKind::Constants,
        STORAGE,
        BufferViewKind::Storage { stride: 16, writes: false },
        BufferViewKind::Texels { format: Format::R32Float, writes: false },
        BufferViewKind::Texels { format: Format::Rgba8Unorm, writes: true },
    ];
    for (slot, kind) in (0..).zip(kinds) {
        let view = BufferView { kind, offset: 256, size: 512 };
        slots.write(slot, &View::buffer(&wide, view).expect("in range and aligned")).expect("every device has it");
        slots.write(10, &View::buffer(&wide, view).expect("in range and aligned")).expect("every device has it");
        let refused = View::buffer(&plain, view).err();
        if kind != BufferViewKind::Constants || refused.is_some() {
            assert!(matches!(refused, Some(DescriptorError::BadView(_))) || is_lenient(kind), "{kind:?}: {refused:?}");
        }
        let beyond = BufferView { kind, offset: 64 << 10, size: 256 };
        assert!(matches!(View::buffer(&wide, beyond), Err(DescriptorError::BadRange { .. })));
        let odd = BufferView { kind, offset: 2, size: 256 };
        assert!(matches!(View::buffer(&wide, odd), Err(DescriptorError::BadRange { .. })));
        let nothing = BufferView { kind, offset: 0, size: 0 };
        assert!(matches!(View::buffer(&wide, nothing), Err(DescriptorError::BadRange { .. })));
    }
    let colour = texture(rig, Format::Rgba8Unorm, TextureUsage::SAMPLED | TextureUsage::RENDER_TARGET);
    let depth = texture(rig, Format::D32Float, TextureUsage::DEPTH_STENCIL);
    let view = |kind| TextureView::new(kind, 0..1, 0..1);
    let sampled = View::texture(&colour, view(TextureViewKind::Sampled)).expect("made for it");
    slots.write(6, &sampled).expect("every device has it");
    assert!(matches!(View::texture(&colour, view(TextureViewKind::Storage)), Err(DescriptorError::BadView(_))));
    let no_mip = TextureView { mips: 1..2, ..view(TextureViewKind::Sampled) };
    assert!(matches!(View::texture(&colour, no_mip), Err(DescriptorError::BadView(_))));
    for (kind, of, shown) in [
        (HeapKind::RenderTargets, &colour, TextureViewKind::RenderTarget),
        (HeapKind::DepthStencils, &depth, TextureViewKind::DepthStencil),
    ] {
        let heap = CpuHeapDesc { kind, block_slots: 4, ..Default::default() };
        let heap = CpuDescriptorHeap::new(&rig.memory, heap).expect("small");
        let mut target: Cpu<G> = heap.allocate(1).expect("room");
        target.write(0, &View::texture(of, view(shown)).expect("made for it")).expect("every device has it");
        let wrong = DescriptorError::WrongKind { heap: kind, found: HeapKind::Resources };
        assert_eq!(target.write(0, &sampled), Err(wrong));
    }
    let few = cpu(rig);
    let wrong = few.allocate(1).expect("room").write(0, &sampled);
    assert_eq!(wrong, Err(DescriptorError::WrongType { heap: TYPES, found: ViewTypes::SAMPLED_TEXTURE }));
}

/// Direct3D 12 accepts buffers without the usage for a view, unless shaders write through the view.
fn is_lenient(kind: BufferViewKind) -> bool {
    matches!(kind, BufferViewKind::Texels { writes: false, .. } | BufferViewKind::Storage { writes: false, .. })
}

/// Storage that shaders only read may be in host-written memory. On Direct3D 12, shaders cannot write buffers there.
pub fn storage_that_is_only_read_lies_in_upload_memory<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::STORAGE_READ | BufferUsage::COPY_SRC;
    let mut from = buffer(&rig.memory, BYTES, usage, Location::Upload, "read by shaders");
    assert!(from.is_mapped());
    let value = 0x5a5a_0001_u32;
    from.write(0, &value.to_le_bytes().repeat(BYTES as usize / 4)).expect("upload memory is mapped");
    let cpu = cpu(rig);
    let mut slots: Cpu<G> = cpu.allocate(2).expect("blocks grow");
    for (slot, stride) in [(0, 0), (1, 16)] {
        let kind = BufferViewKind::Storage { stride, writes: false };
        let view = View::buffer(&from, BufferView { kind, offset: 0, size: BYTES }).expect("it was made for it");
        slots.write(slot, &view).expect("every device has it");
    }
    let written = BufferView { kind: STORAGE, offset: 0, size: BYTES };
    // Vulkan has one usage flag for storage that is read and for storage that is written.
    let may_be_written = from.desc().is_some_and(|desc| desc.usage.contains(BufferUsage::STORAGE));
    assert_eq!(View::buffer(&from, written).is_ok(), may_be_written, "shaders never write it");
    let small = BufferDesc { size: 100, usage };
    let small = rig.memory.create_small_buffer(small, Location::Upload).expect("there is room");
    assert!(small.is_mapped());
    assert!(holds(rig, &from, value));
}

fn texture<G: Gpu>(rig: &Rig<G>, format: Format, usage: TextureUsage) -> Texture<G::Device> {
    let desc = TextureDesc { width: 16, height: 16, format, usage, ..Default::default() };
    rig.memory.create_texture(&desc, AllocationDesc::default()).expect("there is room")
}

/// Resources may be dropped before their descriptors, and heaps before the work that uses them is complete.
pub fn anything_may_be_dropped_in_any_order<G: Gpu>(rig: &mut Rig<G>) {
    let (heap, cpu) = (visible(rig), cpu(rig));
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() });
    let table = table.expect("room");
    let (target, gone) = (storage(rig, "target"), storage(rig, "gone"));
    let shown = shown::<G>(&cpu, &target);
    let index = table.insert(&words(&target)).expect("room").into_index();
    table.insert(&words(&gone)).expect("room").into_index();
    drop(gone);
    rig.memory.reclaim();
    let frame = rig.timeline().begin();
    let job = fill::<G>(slot::<G>(&heap, &frame, index.slot(), &shown, &target), 9);
    let value = submit(rig, &heap, frame, &[], &[job]);
    drop(heap);
    drop(cpu);
    drop(table);
    drop(shown);
    rig.memory.reclaim();
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert!(holds(rig, &target, 9));
    rig.memory.reclaim();
    // Once all objects are destroyed, another heap of the kind can be created.
    rig.memory.reclaim();
    drop(visible(rig));
}

/// If constants are created with a descriptor heap, each slot of a pool has a descriptor, destroyed with the pool.
pub fn constants_come_with_their_descriptors<G: Gpu>(rig: &mut Rig<G>) {
    let types = ViewTypes::CONSTANTS | ViewTypes::STORAGE_BUFFER;
    let views =
        CpuHeapDesc { types, block_slots: 64, empty_blocks_kept: 0, empty_block_grace: 0, ..Default::default() };
    let cpu = CpuDescriptorHeap::new(&rig.memory, views).expect("a small block");
    let visible =
        ShaderVisibleDesc { types, frame_slots: 8, persistent_slots: 4, chunk_slots: 8, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&rig.memory, visible).expect("every device has this many slots");
    let desc = ConstantsDesc { dynamic_slots: 64, static_slots: 8, ..Default::default() };
    let constants = ConstantBuffers::new(&rig.memory, desc, cpu.clone()).expect("there is room");
    let target = storage(rig, "target");
    let shown = shown::<G>(&cpu, &target);
    let contents = [(1, 70), (1, 71), (2, 72), (2, 73), (4, 74), (4, 75)];
    let bytes = |value: u32| value.to_le_bytes().repeat(WORDS as usize);
    let dynamics = contents.map(|(times, value)| {
        let mut dynamic = constants.dynamic(times * BYTES).expect("a size that is served");
        dynamic.set(0, &bytes(value)).expect("it fits");
        dynamic
    });
    let statics = contents.map(|(times, value)| {
        let mut content = bytes(value + 10);
        content.resize((times * BYTES) as usize, 0);
        constants.create_static(&content).expect("there is room")
    });

    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let bound = writer.bind(&dynamics[0]).expect("there is room");
    let [first, of_static] = [&bound, statics[0].bound()].map(|bound| bound.view.clone().expect("a slot has a view"));
    assert_ne!(first, of_static);
    assert_eq!(writer.bind(&dynamics[0]).expect("unchanged").view, Some(first.clone()), "the same slot, the same view");
    let mut batch = UploadBatch::new();
    assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(6));
    drop(writer);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);

    // Each slot's view shows the bytes of that slot.
    for (number, value) in (0..6).zip(70..).chain((0..6).zip(80..)) {
        let frame = rig.timeline().begin();
        let view = if value < 80 {
            let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
            let views = dynamics.each_ref().map(|dynamic| writer.bind(dynamic).expect("there is room").view);
            views[number].clone().expect("a slot has a view")
        } else {
            statics[number].bound().view.clone().expect("a slot has a view")
        };
        let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
        let table = frame_tables.table(&[view.source(), shown.all()]).expect("room");
        drop(frame_tables);
        assert_eq!(table.start(), 0, "no other frame is open");
        // The job reads the buffer of the constants. The buffer that the slot names is only for barriers.
        let at = |index: u32, cpu| Slot {
            index: table.start() + index,
            gpu: heap.gpu_handle(table.start() + index, &frame),
            cpu,
            buffer: target.object().clone(),
        };
        let (from, to) = (at(0, view.cpu_handle()), at(1, shown.cpu_handle(0)));
        if rig.gpu.can_copy_through_descriptors() {
            run(rig, &heap, frame, &[Job::Copy { from, constants: true, to, words: WORDS }]);
            assert!(holds(rig, &target, value), "{value}");
        } else {
            let value = rig.submit(frame, &[]);
            assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        }
        rig.memory.reclaim();
    }

    // Every slot of every pool has a descriptor, which is freed with the pool.
    let pools = 3 * (64 + 8);
    let used = |cpu: &CpuDescriptorHeap<G::Device>| cpu.statistics().capacity - cpu.statistics().free_size;
    assert_eq!(used(&cpu), pools + 1);
    drop((first, of_static, bound, dynamics, statics, constants));
    rig.run(&[]);
    rig.memory.reclaim();
    rig.memory.reclaim();
    assert_eq!(used(&cpu), 1);
    drop(shown);
    cpu.validate().expect("sound");

    // If the heap does not accept constant views, the result is a typed error, and no pool is created.
    let wrong = CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc { types: TYPES, ..Default::default() }).expect("small");
    let refused = ConstantBuffers::new(&rig.memory, desc, wrong).err();
    let expected = DescriptorError::WrongType { heap: TYPES, found: ViewTypes::CONSTANTS };
    assert_eq!(refused, Some(Error::Descriptors(expected)));
}

/// A view of dynamic constants is valid for the whole frame that bound it, even if the pool grows or shrinks meanwhile.
pub fn constants_are_read_where_they_were_bound_after_their_pool_was_exchanged<G: Gpu>(rig: &mut Rig<G>) {
    if !rig.gpu.can_copy_through_descriptors() {
        return skipped("the test kit cannot copy through descriptors here");
    }
    let types = ViewTypes::CONSTANTS | ViewTypes::STORAGE_BUFFER;
    let cpu = CpuDescriptorHeap::new(&rig.memory, CpuHeapDesc { types, ..Default::default() }).expect("small");
    let visible =
        ShaderVisibleDesc { types, frame_slots: 8, persistent_slots: 0, chunk_slots: 2, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&rig.memory, visible).expect("every device has this many slots");
    let desc = ConstantsDesc { dynamic_slots: 8, shrink_after: 3, share_equal: false, ..Default::default() };
    let constants = ConstantBuffers::new(&rig.memory, desc, cpu.clone()).expect("there is room");
    let target = storage(rig, "target");
    let mut shown: Cpu<G> = cpu.allocate(1).expect("blocks grow");
    shown.write(0, &words(&target)).expect("a storage buffer");
    let dynamic = |value: u32| {
        let mut dynamic = constants.dynamic(BYTES).expect("a size that is served");
        dynamic.set(0, &value.to_le_bytes().repeat(WORDS as usize)).expect("it fits");
        dynamic
    };
    let exchanges = || {
        let pool = &constants.dynamic_pools()[0];
        pool.grow_count + pool.shrink_count
    };
    // The first frames bind more constants after the tested one; the others reclaim until the pool shrinks.
    let mut meanwhile = 0;
    for (number, more) in (0..).zip([0, 20, 50, 0, 0, 0, 0, 0, 0]) {
        let (frame, value, before) = (rig.timeline().begin(), 0x0505_0000 + number, exchanges());
        let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
        let view = writer.bind(&dynamic(value)).expect("there is room").view.expect("a slot has a view");
        let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
        let mut table =
            |view: &ConstantView<G::Device>| frame_tables.table(&[view.source(), shown.all()]).expect("room").start();
        if number % 2 == 1 {
            table(&view);
        }
        (0..more).for_each(|other| _ = writer.bind(&dynamic(other)).expect("the pool grows"));
        drop(writer);
        rig.memory.reclaim();
        let start = table(&view);
        meanwhile += exchanges() - before;
        let slot = |index, cpu| Slot {
            index,
            gpu: heap.gpu_handle(index, &frame),
            cpu,
            // The job reads the buffer of the constants. The buffer that the slot names is only for barriers.
            buffer: target.object().clone(),
        };
        let (from, to) = (slot(start, view.cpu_handle()), slot(start + 1, shown.cpu_handle(0)));
        drop(frame_tables);
        run(rig, &heap, frame, &[Job::Copy { from, constants: true, to, words: WORDS }]);
        assert!(holds(rig, &target, value), "frame {number}");
        rig.memory.reclaim();
    }
    let pool = &constants.dynamic_pools()[0];
    assert!(pool.grow_count >= 2 && meanwhile > pool.grow_count, "within open frames {meanwhile}: {pool:?}");
    rig.run(&[]);
    (0..3).for_each(|_| _ = rig.memory.reclaim());
    assert_eq!(rig.memory.statistics().retired_count, 0);
}

/// Removes the fields that a trace does not record: waiting slots, and tables with only free entries.
fn comparable(regions: Vec<DescriptorSnapshot>) -> Vec<DescriptorSnapshot> {
    let regions = regions.into_iter().map(|region| {
        let used_count = region.used_count - if region.region == "bindless" { region.waiting_count } else { 0 };
        DescriptorSnapshot { used_count, waiting_count: 0, largest_free: 0, high_water: None, ..region }
    });
    let mut regions: Vec<_> = regions.filter(|region| region.region != "bindless" || region.used_count > 0).collect();
    regions.sort_by(|one, other| (&one.region, &one.name).cmp(&(&other.region, &other.name)));
    regions
}

pub fn a_trace_tells_of_descriptors_what_a_snapshot_does<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    let recording = Recording::default();
    memory.trace().start(recording.clone()).expect("it has made nothing");
    let buffer = buffer(&memory, BYTES, BufferUsage::STORAGE, Location::Device, "shown");
    let visible = ShaderVisibleDesc { persistent_slots: 6, slots_max: 28, name: "visible", ..desc() };
    let heap = ShaderVisibleHeap::new(&memory, visible).expect("every device has this many slots");
    let cpu = CpuHeapDesc { types: TYPES, block_slots: 4, name: "cpu", ..Default::default() };
    let cpu = CpuDescriptorHeap::new(&memory, cpu).expect("small");
    let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 4, ..Default::default() }).expect("room");
    let mut kept = Vec::new();
    for round in 0..6_u32 {
        let frame = timelines[0].begin();
        let mut shown = cpu.allocate(1 << (round % 3)).expect("blocks grow");
        for index in 0..shown.len() {
            shown.write(index, &words(&buffer)).expect("a storage buffer");
        }
        let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
        let first = frame_tables.table(&[shown.all()]).expect("room");
        assert_eq!(frame_tables.table(&[shown.all()]), Ok(first));
        drop(frame_tables);
        let entry = table.insert(&words(&buffer)).ok().map(BindlessEntry::into_index);
        let run = heap.allocate(1).ok();
        match round % 2 {
            0 => kept.push((shown, entry, run)),
            _ => entry.into_iter().for_each(|entry| table.remove(entry).expect("it is there")),
        }
        if round == 3 {
            heap.grow(4).expect("up to the largest");
        }
        frame.discard();
        memory.reclaim();
        let live = memory.snapshot().descriptors;
        let (cut, _) = replayed(&recording, &memory, round == 5);
        if round == 5 {
            assert_eq!(comparable(cut), comparable(live.clone()));
        }
        assert_eq!(live.iter().map(|region| region.region.as_str()).collect::<Vec<_>>().len(), 4, "{live:?}");
    }
    let late = memory.trace().start(std::io::sink()).err();
    assert!(matches!(late, Some(StartTraceError::DescriptorHeaps | StartTraceError::NotEmpty { .. })), "{late:?}");
    drop((kept, table, heap, cpu, buffer));
    memory.shutdown(PATIENCE).expect("nothing is under way");
    assert_eq!(memory.snapshot().descriptors, []);
}

/// Returns the regions at the end of the recording. Tracing must be stopped, so that the recording is complete.
fn replayed<D: Descriptors>(
    recording: &Recording,
    memory: &Allocator<D>,
    stop: bool,
) -> (Vec<DescriptorSnapshot>, State) {
    if stop {
        memory.trace().stop().expect("writing to memory succeeds");
    }
    let bytes = recording.bytes();
    let mut state = State::new();
    for event in Reader::new(&bytes[..]).expect("the header is complete").flatten() {
        state.apply(&event);
        assert_eq!(state.odd_count(), 0, "{event:?}");
    }
    (state.snapshot().descriptors, state)
}
