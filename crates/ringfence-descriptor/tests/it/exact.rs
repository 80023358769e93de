//! Exact slots, handles, numbers of errors and statistics of descriptors.

use ringfence::algorithms::range::{Allocate, FreeError};
use ringfence::descriptor::{
    Binding, BindlessDesc, CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, DescriptorError, Region, SamplerTable,
    ShaderVisibleDesc, SlotAlgorithm, View, VisibleStatistics,
};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, CpuHandle, GpuHandle, HeapKind, SamplerDesc, ViewTypes,
};
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::memory::DescriptorSnapshot;
use ringfence::sim::Device;
use ringfence::{AllocationDesc, BindlessTable, Buffer, Frame, ShaderVisibleHeap};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

/// A fixture with a buffer to view.
fn world() -> (Fixture, Buffer<Device>) {
    let world = Fixture::new(FixtureDesc::default());
    let desc = BufferDesc { size: 1024, usage: BufferUsage::STORAGE | BufferUsage::CONSTANT };
    let buffer = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    (world, buffer)
}

fn view(of: &Buffer<Device>) -> View<'_, Device> {
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    View::buffer(of, BufferView { kind, offset: 0, size: 1024 }).expect("it was made for storage")
}

/// A heap with 16 slots for frames, in chunks of 4 slots.
fn heap(world: &Fixture, persistent_slots: u32, slots_max: u32) -> ShaderVisibleHeap<Device> {
    let desc = ShaderVisibleDesc {
        frame_slots: 16,
        persistent_slots,
        chunk_slots: 4,
        slots_max,
        name: "shown",
        ..Default::default()
    };
    ShaderVisibleHeap::new(&world.memory, desc).expect("it is small")
}

fn cpu(world: &Fixture, block_slots: u32) -> CpuDescriptorHeap<Device> {
    let desc = CpuHeapDesc { block_slots, empty_blocks_kept: 0, empty_block_grace: 2, ..Default::default() };
    CpuDescriptorHeap::new(&world.memory, desc).expect("it is small")
}

/// Allocates descriptors and writes all of them.
fn written(cpu: &CpuDescriptorHeap<Device>, count: u32, buffer: &Buffer<Device>) -> CpuDescriptors<Device> {
    let mut run = cpu.allocate(count).expect("there is room");
    (0..count).for_each(|index| run.write(index, &view(buffer)).expect("a storage buffer"));
    run
}

/// Submits a frame without commands, and waits for it.
fn end(world: &Fixture, frame: Frame) {
    let signal = (world.fence(), frame.value());
    world.device.submit(0, &[], vec![], signal).expect("the device is not lost");
    let value = world.timeline().submitted(frame).expect("in order").value;
    assert!(world.timeline().wait(value, std::time::Duration::from_secs(60)).expect("the device is not lost"));
    world.memory.reclaim();
}

/// The simulated device has slots of 32 bytes for resources and of 16 bytes for samplers.
#[test]
fn handles_are_the_increment_apart_and_end_with_the_heap() {
    let (world, _buffer) = world();
    let heap = heap(&world, 8, 0);
    let frame = world.timeline().begin();
    let GpuHandle(first) = heap.gpu_handle(0, &frame);
    for slot in [1, 7, 23] {
        assert_eq!(heap.gpu_handle(slot, &frame), GpuHandle(first + u64::from(slot) * 32));
    }
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| heap.gpu_handle(24, &frame)));
    assert!(beyond.is_err(), "16 and 8 slots");
    let cpu = cpu(&world, 16);
    let (one, run) = (cpu.allocate(8).expect("room"), cpu.allocate(4).expect("room"));
    let start = one.cpu_handle(0).0 - u64::from(one.start()) * 32;
    assert_eq!((one.heap().cpu_handle(0), one.heap().gpu_handle(0)), (CpuHandle(start), None));
    assert_eq!((one.heap().slots(), one.heap().kind(), one.len(), run.len()), (16, HeapKind::Resources, 8, 4));
    for index in 0..4 {
        assert_eq!(run.cpu_handle(index), CpuHandle(start + u64::from(run.start() + index) * 32));
    }
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.cpu_handle(4))).is_err());
    let samplers = CpuHeapDesc { kind: HeapKind::Samplers, ..Default::default() };
    let samplers = CpuDescriptorHeap::<Device>::new(&world.memory, samplers).expect("small");
    let run = samplers.allocate(2).expect("room");
    assert_eq!(run.cpu_handle(1).0 - run.cpu_handle(0).0, 16);
    frame.discard();
}

#[test]
fn requests_for_cpu_only_slots_have_limits() {
    let (world, buffer) = world();
    let most = 1_048_576;
    let new = |block_slots| {
        CpuDescriptorHeap::<Device>::new(&world.memory, CpuHeapDesc { block_slots, ..Default::default() }).map(drop)
    };
    let too_many = |count| Err(DescriptorError::TooMany { count, max: 1_048_576 });
    assert_eq!(new(0), Err(DescriptorError::ZeroCount));
    assert_eq!((new(1), new(most), new(most + 1)), (Ok(()), Ok(()), too_many(1_048_577)));
    let mut cpu = cpu(&world, 4);
    assert_eq!(cpu.allocate(0).err(), Some(DescriptorError::ZeroCount));
    assert_eq!(cpu.allocate(most + 1).map(drop), too_many(1_048_577));
    assert_eq!(Allocate::allocate(&mut cpu, 1 << 40, 1).map(drop), too_many(1 << 40));
    let large = cpu.allocate(most).expect("the largest run");
    assert_eq!((large.len(), large.heap().slots()), (most, most));
    drop(large);
    let mut run = cpu.allocate(3).expect("room");
    assert_eq!(run.write(3, &view(&buffer)), Err(DescriptorError::OutOfRange { index: 3, count: 3 }));
    assert_eq!(run.write(2, &view(&buffer)), Ok(()));
}

#[test]
fn parts_of_a_run_are_inside_it_and_not_empty() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 8));
    let _first = written(&cpu, 2, &buffer);
    let run = written(&cpu, 4, &buffer);
    let reversed = |start, end| std::ops::Range { start, end };
    for (range, is_inside) in [
        (0..4, true),
        (3..4, true),
        (0..5, false),
        (4..5, false),
        (2..2, false),
        (reversed(3, 2), false),
        (reversed(u32::MAX, 0), false),
    ] {
        let out = DescriptorError::OutOfRange { index: range.end.into(), count: 4 };
        let found = run.part(range.clone()).map(drop);
        assert_eq!(found, if is_inside { Ok(()) } else { Err(out) }, "{range:?}");
    }
    // A part is copied from its own slots: a table of another part is another table.
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    let [all, front, back] = [run.all(), run.part(0..2).expect("inside"), run.part(2..4).expect("inside")];
    let starts = [[all].as_slice(), &[front], &[back], &[front, back], &[back, front]]
        .map(|sources| tables.table(sources).map(|table| (table.start(), table.len())).expect("there is room"));
    assert_eq!(starts, [(0, 4), (4, 2), (6, 2), (0, 4), (8, 4)]);
    drop(tables);
    frame.discard();
}

#[test]
fn identical_tables_share_slots_and_each_write_makes_another_table() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 8));
    let [mut one, two] = [(); 2].map(|()| written(&cpu, 2, &buffer));
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    let first = tables.table(&[one.all()]).expect("room");
    assert_eq!((first.start(), first.len()), (0, 2));
    assert_eq!(tables.table(&[one.all()]), Ok(first));
    assert_eq!(tables.table(&[two.all()]).map(|table| table.start()), Ok(2), "equal views, but other writes");
    let again = heap.frame_descriptors(&frame).expect("its own frame").table(&[one.all()]).expect("room");
    assert_eq!(again, first, "the tables of a frame are shared");
    one.write(1, &view(&buffer)).expect("a storage buffer");
    assert_eq!(tables.table(&[one.all()]).map(|table| table.start()), Ok(4), "a write in between");
    let GpuHandle(start) = heap.gpu_handle(0, &frame);
    assert_eq!(tables.gpu_handle(again), GpuHandle(start));
    let direct = tables.table_of(&[view(&buffer), view(&buffer)]).expect("room");
    assert_eq!((direct.start(), direct.len(), tables.gpu_handle(direct)), (6, 2, GpuHandle(start + 192)));
    assert_eq!(tables.table_of(&[]), Err(DescriptorError::ZeroCount));
    assert_eq!(tables.table(&[]), Err(DescriptorError::ZeroCount));
    let expected = VisibleStatistics {
        frame_slots: 16,
        frame_used: 8,
        frame_high_water: 8,
        persistent_slots: 8,
        persistent_free: 8,
        waiting_count: 0,
        tables_made: 4,
        tables_shared: 2,
        heap_count: 1,
    };
    assert_eq!(heap.statistics(), expected);
    drop(tables);
    end(&world, frame);
    let after = VisibleStatistics { frame_used: 0, ..expected };
    assert_eq!(heap.statistics(), after, "the frame is complete");
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    tables.table(&[one.all()]).expect("room");
    assert_eq!((heap.statistics().tables_made, heap.statistics().tables_shared), (5, 2), "another frame");
    drop(tables);
    frame.discard();
}

#[test]
fn tables_are_in_chunks_until_the_frame_region_is_full() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 32));
    let run = written(&cpu, 20, &buffer);
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    let mut other = heap.frame_descriptors(&frame).expect("its own frame");
    let part = |range| [run.part(range).expect("inside")];
    // Chunks have 4 slots: the second table of 3 needs another one.
    for (range, start, used) in [(0..3, 0, 4), (3..6, 4, 8), (6..7, 7, 8)] {
        let table = tables.table(&part(range)).expect("room");
        assert_eq!((table.start(), heap.statistics().frame_used), (start, used));
    }
    assert_eq!(other.table(&part(7..8)).map(|table| table.start()), Ok(8), "another thread has its own chunk");
    assert_eq!(other.table(&part(8..11)).map(|table| table.start()), Ok(9));
    // Four slots are left: one is taken from a chunk, the rest is too short.
    assert_eq!(tables.table(&part(11..12)).map(|table| table.start()), Ok(12));
    let full = DescriptorError::Full { region: Region::Frame, need: 4, free: 0, largest_free: 0 };
    assert_eq!(tables.table(&part(12..16)), Err(full));
    assert_eq!(tables.table(&part(12..15)).map(|table| table.start()), Ok(13), "the rest of the chunk");
    let too_many = DescriptorError::TooMany { count: 17, max: 16 };
    assert_eq!(tables.table(&part(0..17)), Err(too_many));
    drop((tables, other));
    end(&world, frame);
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    assert_eq!(tables.table(&part(0..16)).map(|table| table.len()), Ok(16), "the whole region");
    let full = DescriptorError::Full { region: Region::Frame, need: 1, free: 0, largest_free: 0 };
    assert_eq!(tables.table(&part(0..1)), Err(full));
    drop(tables);
    frame.discard();
}

/// If the frame region has fewer slots than a chunk, a table gets the slots that it needs.
#[test]
fn a_table_that_fits_is_written_although_a_chunk_does_not_fit() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 16));
    let run = written(&cpu, 15, &buffer);
    let part = |range| [run.part(range).expect("inside")];
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    assert_eq!(tables.table(&part(0..13)).map(|table| table.start()), Ok(0));
    let full = DescriptorError::Full { region: Region::Frame, need: 4, free: 3, largest_free: 3 };
    assert_eq!(tables.table(&part(0..4)), Err(full));
    assert_eq!(tables.table(&part(0..2)).map(|table| table.start()), Ok(13));
    assert_eq!(tables.table(&part(1..2)).map(|table| table.start()), Ok(15), "a chunk of one slot");
    drop(tables);
    frame.discard();
}

#[test]
fn each_persistent_slot_is_written_once() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 200, 0), cpu(&world, 16));
    let shown = written(&cpu, 4, &buffer);
    let mut run = heap.allocate(130).expect("room");
    assert_eq!((run.start(), run.len()), (16, 130), "behind the frame region");
    // The written slots are at both sides of a word of 64 bits.
    for index in [0, 1, 63, 64, 65, 127, 128, 129] {
        assert_eq!(run.write(index, &view(&buffer)), Ok(()), "slot {index}");
        assert_eq!(run.write(index, &view(&buffer)), Err(DescriptorError::InUse { index }));
        assert_eq!(run.copy(index, &[shown.part(0..1).expect("inside")]), Err(DescriptorError::InUse { index }));
    }
    for (index, count, refused) in [
        (60, 4, Some(DescriptorError::InUse { index: 63 })),
        (2, 4, None),
        (2, 1, Some(DescriptorError::InUse { index: 2 })),
        (5, 2, Some(DescriptorError::InUse { index: 5 })),
        (6, 2, None),
        (66, 1, None),
        (123, 4, None),
        (124, 4, Some(DescriptorError::InUse { index: 124 })),
        (129, 2, Some(DescriptorError::OutOfRange { index: 130, count: 130 })),
        (130, 1, Some(DescriptorError::OutOfRange { index: 130, count: 130 })),
    ] {
        let found = run.copy(index, &[shown.part(0..count).expect("inside")]);
        assert_eq!(found.err(), refused, "{count} from slot {index} on");
    }
    assert_eq!(run.write(130, &view(&buffer)), Err(DescriptorError::OutOfRange { index: 130, count: 130 }));
    // The slots are those of the driver's heap.
    let slots: Vec<u32> = [0, 1, 2, 5, 6, 7, 63, 64, 65, 66, 123, 126, 127, 128, 129].map(|index| 16 + index).into();
    let frame = world.timeline().begin();
    let bound = *heap.bind(&frame).expect("room").bound(HeapKind::Resources).expect("of that kind");
    use ringfence::sim::{Command, DescriptorUse, Kernel};
    let descriptors = slots.iter().map(|slot| DescriptorUse { heap: bound, slot: *slot, writes: false }).collect();
    let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run: Box::new(|_| {}) };
    let signal = (world.fence(), frame.value());
    world.device.submit(0, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
    let value = world.timeline().submitted(frame).expect("in order").value;
    assert!(world.timeline().wait(value, std::time::Duration::from_secs(60)).expect("the device is not lost"));
    assert_eq!(world.device.hazards(), [], "every slot has a view");
}

#[test]
fn the_persistent_region_refuses_with_its_free_slots() {
    let (world, _buffer) = world();
    let mut heap = heap(&world, 8, 0);
    let full =
        |need, free, largest_free| Some(DescriptorError::Full { region: Region::Persistent, need, free, largest_free });
    assert_eq!(heap.allocate(0).err(), Some(DescriptorError::ZeroCount));
    assert_eq!(heap.allocate(9).err(), full(9, 8, 8));
    let mut runs = [2, 3, 3].map(|count| heap.allocate(count).expect("room")).map(Some);
    assert_eq!(heap.allocate(1).err(), full(1, 0, 0));
    runs[0] = None;
    runs[2] = None;
    assert_eq!(heap.statistics().waiting_count, 2);
    world.memory.reclaim();
    assert_eq!((heap.statistics().persistent_free, heap.statistics().waiting_count), (5, 0));
    assert_eq!(heap.allocate(4).err(), full(4, 5, 3));
    assert_eq!(Allocate::allocate(&mut heap, 8, 1).err(), full(8, 5, 3), "as many as the region has");
    assert_eq!(Allocate::allocate(&mut heap, 9, 1).err(), Some(DescriptorError::TooMany { count: 9, max: 8 }));
    let huge = Some(DescriptorError::TooMany { count: 1 << 33, max: 8 });
    assert_eq!(Allocate::allocate(&mut heap, 1 << 33, 1).err(), huge);
    assert_eq!(heap.allocate(3).map(|run| run.start()), Ok(21));
}

#[test]
fn a_run_is_freed_in_its_own_heap() {
    let (world, _buffer) = world();
    let mut heap = heap(&world, 8, 0);
    let samplers =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: 1, persistent_slots: 8, ..Default::default() };
    let mut other = ShaderVisibleHeap::<Device>::new(&world.memory, samplers).expect("small");
    let runs = [2, 3].map(|count| heap.allocate(count).expect("room"));
    let [own, foreign] = runs;
    assert_eq!(Allocate::free(&mut heap, own), Ok(()));
    assert_eq!(Allocate::free(&mut other, foreign), Err(FreeError::Foreign { offset: 18, size: 3 }));
    let (mut one, mut two) = (cpu(&world, 8), cpu(&world, 8));
    let runs = [2, 4].map(|count| one.allocate(count).expect("room"));
    let [own, foreign] = runs;
    let offset = foreign.start().into();
    assert_eq!(Allocate::free(&mut one, own), Ok(()));
    assert_eq!(Allocate::free(&mut two, foreign), Err(FreeError::Foreign { offset, size: 4 }));
    assert_eq!((one.statistics().free_size, one.statistics().live_count), (8, 0), "it was freed in its heap");
}

#[test]
fn a_heap_grows_up_to_its_largest_number_of_slots() {
    let (world, buffer) = world();
    let heap = heap(&world, 8, 40);
    let mut kept = heap.allocate(8).expect("room");
    kept.write(7, &view(&buffer)).expect("a storage buffer");
    let earlier = world.timeline().begin();
    let old = heap.gpu_handle(23, &earlier);
    assert_eq!(heap.grow(0), Err(DescriptorError::ZeroCount));
    assert_eq!(heap.grow(17), Err(DescriptorError::TooMany { count: 41, max: 40 }));
    assert_eq!((heap.slots(), heap.statistics().heap_count), (24, 1));
    assert_eq!(heap.grow(4), Ok(()));
    assert_eq!((heap.slots(), heap.statistics().heap_count), (28, 2));
    assert_eq!(heap.gpu_handle(23, &earlier), old, "an earlier frame uses the old heap");
    let later = world.timeline().begin();
    assert_ne!(heap.gpu_handle(23, &later), old);
    assert_eq!(heap.grow(13), Err(DescriptorError::TooMany { count: 41, max: 40 }));
    assert_eq!(heap.grow(12), Ok(()));
    assert_eq!((heap.slots(), heap.statistics().persistent_slots), (40, 24));
    assert_eq!(heap.grow(1), Err(DescriptorError::TooMany { count: 41, max: 40 }));
    // The slots of each call are a range of their own.
    let mut starts = [12, 4].map(|count| heap.allocate(count).expect("room").start());
    starts.sort_unstable();
    assert_eq!(starts, [24, 28]);
    earlier.discard();
    later.discard();
    world.memory.reclaim();
    assert_eq!(heap.statistics().heap_count, 1, "the old heaps are destroyed");
    let fixed =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: 1, persistent_slots: 8, ..Default::default() };
    let fixed = ShaderVisibleHeap::<Device>::new(&world.memory, fixed).expect("small");
    assert_eq!(fixed.grow(1), Err(DescriptorError::TooMany { count: 10, max: 0 }), "it has no largest number");
}

/// The view of each slot is in the new heap, and in the heap that grows from that one.
#[test]
fn views_stay_in_their_slots_when_the_heap_grows() {
    let (world, buffer) = world();
    let heap = heap(&world, 8, 64);
    let mut run = heap.allocate(8).expect("room");
    run.write(0, &view(&buffer)).expect("a storage buffer");
    run.write(7, &view(&buffer)).expect("a storage buffer");
    use ringfence::sim::{Command, DescriptorUse, Kernel};
    for more in [8, 4] {
        heap.grow(more).expect("there is room");
        let frame = world.timeline().begin();
        let bound = *heap.bind(&frame).expect("room").bound(HeapKind::Resources).expect("of that kind");
        let descriptors = [16, 23].map(|slot| DescriptorUse { heap: bound, slot, writes: false }).into();
        let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run: Box::new(|_| {}) };
        let signal = (world.fence(), frame.value());
        world.device.submit(0, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
        let value = world.timeline().submitted(frame).expect("in order").value;
        assert!(world.timeline().wait(value, std::time::Duration::from_secs(60)).expect("the device is not lost"));
        world.memory.reclaim();
        assert_eq!(world.device.hazards(), [], "{more} more slots");
    }
}

/// A binding that the program keeps also keeps its heap, after the heap was replaced and its frames are complete.
#[test]
fn a_replaced_heap_stays_while_a_binding_has_it() {
    let (world, _buffer) = world();
    let heap = heap(&world, 8, 64);
    let frame = world.timeline().begin();
    let binding = heap.bind(&frame).expect("room");
    heap.grow(8).expect("there is room");
    end(&world, frame);
    world.memory.reclaim();
    assert_eq!(heap.statistics().heap_count, 2);
    drop(binding);
    (0..2).for_each(|_| _ = world.memory.reclaim());
    assert_eq!(heap.statistics().heap_count, 1);
    assert_eq!(world.device.hazards(), []);
}

#[test]
fn a_binding_has_one_heap_of_a_kind_and_is_set_once() {
    let (world, _buffer) = world();
    let heap = heap(&world, 8, 0);
    let samplers = ShaderVisibleDesc { kind: HeapKind::Samplers, ..Default::default() };
    let samplers = ShaderVisibleHeap::<Device>::new(&world.memory, samplers).expect("small");
    let frame = world.timeline().begin();
    let bind = || heap.bind(&frame).expect("room");
    let kind = HeapKind::Resources;
    assert_eq!(bind().and(&heap).err(), Some(DescriptorError::AlreadyBound { kind }));
    let mut both: Binding<Device> = bind().and(&samplers).expect("another kind");
    assert!(both.bound(HeapKind::Resources).is_some() && both.bound(HeapKind::Samplers).is_some());
    assert!(both.bound(HeapKind::RenderTargets).is_none());
    assert_eq!(both.set_once().map(Iterator::count), Ok(2));
    assert_eq!(both.set_once().map(Iterator::count), Err(DescriptorError::AlreadyBound { kind }));
    let mut set = bind();
    assert_eq!(set.set_once().map(Iterator::count), Ok(1));
    let kind = HeapKind::Samplers;
    assert_eq!(set.and(&samplers).err(), Some(DescriptorError::AlreadyBound { kind }), "it was set");
    frame.discard();
}

#[test]
fn sources_have_the_kind_the_types_and_the_allocator_of_the_heap() {
    let (world, buffer) = world();
    let (other_world, other_buffer) = self::world();
    let heap = heap(&world, 8, 0);
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    let foreign = written(&cpu(&other_world, 8), 1, &other_buffer);
    assert_eq!(tables.table(&[foreign.all()]), Err(DescriptorError::Foreign));
    let types = ViewTypes::STORAGE_BUFFER;
    let desc = CpuHeapDesc { types, ..Default::default() };
    let few = written(&CpuDescriptorHeap::new(&world.memory, desc).expect("small"), 1, &buffer);
    let wrong = DescriptorError::WrongType { heap: ViewTypes::all(), found: types };
    assert_eq!(tables.table(&[few.all()]), Err(wrong));
    let samplers = CpuHeapDesc { kind: HeapKind::Samplers, types, ..Default::default() };
    let samplers = CpuDescriptorHeap::new(&world.memory, samplers).expect("small");
    let mut sampler = samplers.allocate(1).expect("room");
    sampler.write(0, &View::sampler(SamplerDesc::default()).expect("valid")).expect("of its kind");
    let wrong = DescriptorError::WrongKind { heap: HeapKind::Resources, found: HeapKind::Samplers };
    assert_eq!(tables.table(&[sampler.all()]), Err(wrong));
    let own = ShaderVisibleDesc { kind: HeapKind::Samplers, ..Default::default() };
    let own = ShaderVisibleHeap::new(&world.memory, own).expect("small");
    let mut of_samplers = own.frame_descriptors(&frame).expect("its own frame");
    assert!(of_samplers.table(&[sampler.all()]).is_ok(), "samplers have no types");
    let desc = CpuHeapDesc { types: ViewTypes::SAMPLED_TEXTURE, ..Default::default() };
    let textures = CpuDescriptorHeap::new(&world.memory, desc).expect("small");
    let refused = textures.allocate(1).expect("room").write(0, &view(&buffer));
    let wrong = DescriptorError::WrongType { heap: ViewTypes::SAMPLED_TEXTURE, found: types };
    assert_eq!(refused, Err(wrong));
    drop((tables, of_samplers));
    frame.discard();
}

#[test]
fn a_slot_that_is_allocated_again_is_unwritten() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 8));
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    for count in [1, 2, 4] {
        let run = written(&cpu, count, &buffer);
        let start = run.start();
        assert!(tables.table(&[run.all()]).is_ok());
        drop(run);
        let again = cpu.allocate(count).expect("room");
        assert_eq!(again.start(), start, "the same slots");
        assert_eq!(tables.table(&[again.all()]), Err(DescriptorError::Unwritten { index: 0 }));
    }
    drop(tables);
    frame.discard();
}

#[test]
fn empty_blocks_are_destroyed_after_their_grace() {
    let (world, _buffer) = world();
    let cpu = cpu(&world, 8);
    drop(cpu.allocate(8).expect("room"));
    // The first call starts the grace of two calls.
    let counts = [(); 4].map(|()| {
        world.memory.reclaim();
        cpu.statistics().block_count
    });
    assert_eq!(counts, [1, 1, 0, 0]);
}

#[test]
fn tables_have_the_requested_capacity_or_half_of_the_longest_run() {
    for (persistent_slots, taken, requested, capacity) in [
        (8, 0, 8, Ok(8)),
        (8, 0, 1, Ok(1)),
        (100, 0, BindlessDesc::CAPACITY, Ok(50)),
        (101, 0, BindlessDesc::CAPACITY, Ok(51)),
        (100, 30, BindlessDesc::CAPACITY, Ok(35)),
        (1, 0, BindlessDesc::CAPACITY, Ok(1)),
        (4096, 0, BindlessDesc::CAPACITY, Ok(4096)),
        (4095, 0, BindlessDesc::CAPACITY, Ok(2048)),
        (5000, 0, BindlessDesc::CAPACITY, Ok(4096)),
        (8, 0, 9, Err((9, 8, 8))),
        (8, 3, 6, Err((6, 5, 5))),
        (8, 8, BindlessDesc::CAPACITY, Err((1, 0, 0))),
    ] {
        let (world, _buffer) = world();
        let heap = heap(&world, persistent_slots, 0);
        let _taken = (taken > 0).then(|| heap.allocate(taken).expect("room"));
        let desc = BindlessDesc { capacity: requested, ..Default::default() };
        let found = BindlessTable::new(&world.memory, &heap, desc).map(|table| {
            assert_eq!((table.free_count(), table.live_count()), (table.capacity(), 0));
            table.capacity()
        });
        let full =
            |(need, free, largest_free)| DescriptorError::Full { region: Region::Persistent, need, free, largest_free };
        assert_eq!(found, capacity.map_err(full), "{requested} of {persistent_slots} slots, {taken} taken");
    }
}

#[test]
fn a_full_table_says_its_entries_and_the_free_slots_of_its_heap() {
    let (world, buffer) = world();
    let heap = heap(&world, 8, 0);
    let desc = BindlessDesc { capacity: 3, clear_freed: false };
    let table = BindlessTable::new(&world.memory, &heap, desc).expect("room");
    let entries = [(); 3].map(|()| table.insert(&view(&buffer)).expect("room"));
    assert_eq!(entries.each_ref().map(|entry| entry.slot()), [16, 17, 18]);
    assert_eq!((table.live_count(), table.free_count(), table.is_settled()), (3, 0, true));
    let full = DescriptorError::TableFull { entries: 3, heap_free: 5 };
    assert_eq!(table.insert(&view(&buffer)).err(), Some(full));
    let [first, second, third] = entries;
    let index = second.index();
    let other = BindlessTable::new(&world.memory, &heap, desc).expect("room");
    assert_eq!(other.remove(index), Err(DescriptorError::ForeignEntry { slot: 17 }));
    assert_eq!(table.remove(index), Ok(()));
    assert_eq!(table.remove(index), Err(DescriptorError::Stale { slot: 17, generation: 1 }));
    assert_eq!((table.live_count(), table.free_count(), table.is_settled()), (2, 0, false));
    world.memory.reclaim();
    assert_eq!((table.live_count(), table.free_count(), table.is_settled()), (2, 1, true));
    let again = table.insert(&view(&buffer)).expect("room");
    assert_eq!((again.slot(), again.index().generation()), (17, 3));
    assert!(table.is_live(&again) && !table.is_live(index));
    drop((first, second, third));
}

/// Returns the snapshot of each region.
fn regions(world: &Fixture) -> Vec<DescriptorSnapshot> {
    world.memory.snapshot().descriptors
}

#[test]
fn a_snapshot_has_the_slots_of_each_region() {
    let (world, buffer) = world();
    let heap = heap(&world, 20, 64);
    let desc = BindlessDesc { capacity: 6, clear_freed: true };
    let table = BindlessTable::new(&world.memory, &heap, desc).expect("room");
    let cpu = cpu(&world, 16);
    let run = written(&cpu, 4, &buffer);
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    tables.table(&[run.part(0..3).expect("inside")]).expect("room");
    tables.table(&[run.part(0..3).expect("inside")]).expect("room");
    tables.table(&[run.part(1..4).expect("inside")]).expect("room");
    // One entry stays, two wait for the frame. One run stays, one waits.
    let entries = [(); 3].map(|()| table.insert(&view(&buffer)).expect("room"));
    let [_kept, removed, other] = entries;
    drop((removed, other));
    let (_held, released) = (heap.allocate(5).expect("room"), heap.allocate(2).expect("room"));
    drop(released);
    let shown = |region: &str| DescriptorSnapshot {
        name: "shown".into(),
        kind: "resources".into(),
        region: region.into(),
        heap_count: 1,
        ..Default::default()
    };
    let persistent =
        DescriptorSnapshot { slot_count: 20, used_count: 13, waiting_count: 2, largest_free: 7, ..shown("persistent") };
    let of_frame = DescriptorSnapshot {
        slot_count: 16,
        used_count: 8,
        high_water: Some(8),
        largest_free: 8,
        tables_made: 2,
        tables_shared: 1,
        ..shown("frame")
    };
    let bindless =
        DescriptorSnapshot { slot_count: 6, used_count: 3, waiting_count: 2, largest_free: 3, ..shown("bindless") };
    let cpu_only = DescriptorSnapshot {
        name: "CPU-only descriptors".into(),
        slot_count: 16,
        used_count: 4,
        largest_free: 8,
        ..shown("CPU-only")
    };
    let found = regions(&world);
    for expected in [persistent, of_frame, bindless, cpu_only] {
        assert!(found.contains(&expected), "{expected:?} is missing in {found:?}");
    }
    assert_eq!(found.len(), 4, "the table has no staged views yet: {found:?}");
    drop(tables);
    end(&world, frame);
    let found = regions(&world);
    let of = |region: &str| found.iter().find(|found| found.region == region).expect("the region has slots");
    assert_eq!((of("persistent").used_count, of("persistent").waiting_count), (11, 0));
    assert_eq!((of("bindless").used_count, of("bindless").waiting_count, of("bindless").largest_free), (1, 0, 5));
    assert_eq!((of("frame").used_count, of("frame").high_water, of("frame").largest_free), (0, Some(8), 16));
    drop((run, cpu));
    (0..4).for_each(|_| _ = world.memory.reclaim());
    assert!(regions(&world).iter().all(|found| found.region != "CPU-only"), "a heap without slots is omitted");
}

#[test]
fn equal_samplers_have_one_slot_while_one_of_them_is_used() {
    let (world, _buffer) = world();
    let desc =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: 3, persistent_slots: 4, ..Default::default() };
    let heap = ShaderVisibleHeap::<Device>::new(&world.memory, desc).expect("small");
    let desc = BindlessDesc { capacity: 2, clear_freed: true };
    let samplers = SamplerTable::new(&world.memory, &heap, desc).expect("room");
    let of = |level_bias| samplers.get(SamplerDesc { level_bias, ..Default::default() });
    let (first, same, other) = (of(0.0).expect("room"), of(0.0).expect("room"), of(1.0).expect("room"));
    assert_eq!(([first.slot(), same.slot(), other.slot()], samplers.distinct_count()), ([3, 3, 4], 2));
    let full = DescriptorError::TableFull { entries: 2, heap_free: 2 };
    assert_eq!(of(2.0).err(), Some(full));
    drop(first);
    world.memory.reclaim();
    assert_eq!(samplers.distinct_count(), 2, "one of two users is left");
    let third = of(0.0).expect("the same slot");
    assert_eq!(third.slot(), 3);
    drop((same, third));
    assert_eq!(samplers.distinct_count(), 1);
    world.memory.reclaim();
    assert_eq!(of(2.0).map(|sampler| sampler.slot()), Ok(3), "the slot is free");
}

#[test]
fn every_algorithm_divides_the_slots_of_a_heap() {
    for (algorithm, run, used) in
        [(SlotAlgorithm::Buddy, 3, 4), (SlotAlgorithm::FreeList, 3, 3), (SlotAlgorithm::Tlsf, 3, 3)]
    {
        let (world, _buffer) = world();
        let desc = ShaderVisibleDesc { frame_slots: 1, persistent_slots: 8, algorithm, ..Default::default() };
        let heap = ShaderVisibleHeap::<Device>::new(&world.memory, desc).expect("small");
        let run = heap.allocate(run).expect("room");
        assert_eq!((run.len(), 8 - heap.statistics().persistent_free), (run.len(), used), "{algorithm:?}");
    }
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let desc = CpuHeapDesc::default();
    assert_eq!((desc.kind, desc.types, desc.block_slots), (HeapKind::Resources, ViewTypes::all(), 256));
    assert_eq!((desc.algorithm, desc.empty_blocks_kept, desc.empty_block_grace), (SlotAlgorithm::Buddy, 1, 120));
    assert_eq!((BindlessDesc::CAPACITY, BindlessDesc::default().capacity), (4096, 4096));
}

/// Returns the first byte that each slot shows, in a frame that is open.
fn first_bytes(world: &Fixture, heap: &ShaderVisibleHeap<Device>, frame: Frame, slots: &[u32]) -> Vec<u8> {
    use ringfence::sim::{Command, DescriptorUse, Kernel, KernelMemory};
    let bound = *heap.bind(&frame).expect("room").bound(HeapKind::Resources).expect("of that kind");
    let (sender, receiver) = std::sync::mpsc::channel();
    let run = Box::new(move |memory: &mut KernelMemory| {
        let bytes = memory.descriptors.iter().map(|shown| shown[0]).collect();
        sender.send(bytes).expect("the test waits");
    });
    let descriptors = slots.iter().map(|slot| DescriptorUse { heap: bound, slot: *slot, writes: false }).collect();
    let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run };
    let signal = (world.fence(), frame.value());
    world.device.submit(0, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    assert!(world.device.run_until_idle());
    receiver.try_recv().expect("the kernel has run")
}

#[test]
fn a_part_of_a_run_shows_its_own_slots() {
    let (world, _buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 16));
    let buffers = [1, 2, 3, 4].map(|byte| {
        let desc = BufferDesc { size: 1024, usage: BufferUsage::STORAGE };
        let how = AllocationDesc { location: ringfence::Location::Upload, ..Default::default() };
        let mut buffer = world.memory.create_buffer(&desc, how).expect("room");
        buffer.write(0, &[byte; 1024]).expect("mapped");
        buffer
    });
    let _first = written(&cpu, 2, &buffers[0]);
    let mut run = cpu.allocate(4).expect("room");
    (0..4).for_each(|slot| run.write(slot, &view(&buffers[slot as usize])).expect("a storage buffer"));
    for (ranges, expected) in [
        (&[(0, 4)][..], &[1, 2, 3, 4][..]),
        (&[(1, 3)], &[2, 3]),
        (&[(3, 4), (0, 1)], &[4, 1]),
        (&[(2, 4), (1, 2), (2, 3)], &[3, 4, 2, 3]),
    ] {
        let frame = world.timeline().begin();
        let sources: Vec<_> = ranges.iter().map(|(start, end)| run.part(*start..*end).expect("inside")).collect();
        let table = heap.frame_descriptors(&frame).expect("its own frame").table(&sources).expect("room");
        let slots: Vec<_> = (table.start()..table.start() + table.len()).collect();
        assert_eq!(first_bytes(&world, &heap, frame, &slots), expected, "{ranges:?}");
        world.memory.reclaim();
    }
    let mut persistent = heap.allocate(3).expect("room");
    persistent.copy(1, &[run.part(2..4).expect("inside")]).expect("unwritten");
    persistent.write(0, &view(&buffers[1])).expect("unwritten");
    let slots = [0, 1, 2].map(|index| persistent.start() + index);
    assert_eq!(first_bytes(&world, &heap, world.timeline().begin(), &slots), [2, 3, 4]);
    assert_eq!(world.device.hazards(), []);
}

/// A frame gets the slots of complete frames, also if the program has not called `reclaim`.
#[test]
fn a_full_frame_region_looks_for_complete_frames() {
    let (world, buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 32));
    let run = written(&cpu, 16, &buffer);
    let frame = world.timeline().begin();
    heap.frame_descriptors(&frame).expect("its own frame").table(&[run.all()]).expect("the whole region");
    let next = world.timeline().begin();
    let full = DescriptorError::Full { region: Region::Frame, need: 16, free: 0, largest_free: 0 };
    let table = || heap.frame_descriptors(&next).expect("its own frame").table(&[run.all()]).map(|table| table.len());
    assert_eq!(table(), Err(full), "as many slots as the region has");
    let signal = (world.fence(), frame.value());
    world.device.submit(0, &[], vec![], signal).expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    assert!(world.device.run_until_idle());
    assert_eq!(table(), Ok(16));
    next.discard();
}

#[test]
fn a_cached_slot_counts_as_free_and_as_a_run() {
    let (world, _buffer) = world();
    let cpu = cpu(&world, 1);
    let held = cpu.allocate(1).expect("room");
    let found = |cpu: &CpuDescriptorHeap<Device>| {
        let found = cpu.statistics();
        (found.capacity, found.free_size, found.largest_free, found.live_count)
    };
    assert_eq!(found(&cpu), (1, 0, 0, 1));
    drop(held);
    assert_eq!(found(&cpu), (1, 1, 1, 0));
}

#[test]
fn a_region_without_slots_is_not_in_the_snapshot() {
    for (frame_slots, persistent_slots, expected) in
        [(0, 8, &["persistent"][..]), (16, 0, &["frame"]), (1, 1, &["persistent", "frame"])]
    {
        let (world, _buffer) = world();
        let desc = ShaderVisibleDesc { frame_slots, persistent_slots, ..Default::default() };
        let _heap = ShaderVisibleHeap::<Device>::new(&world.memory, desc).expect("small");
        let found = regions(&world);
        assert_eq!(found.iter().map(|found| found.region.as_str()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn bound_constants_have_the_view_of_their_slot() {
    use ringfence::ConstantBuffers;
    use ringfence::upload::ConstantsDesc;
    let (world, _buffer) = world();
    let (heap, cpu) = (heap(&world, 8, 0), cpu(&world, 256));
    let desc = ConstantsDesc { dynamic_slots: 64, ..Default::default() };
    let constants = ConstantBuffers::new(&world.memory, desc, cpu.clone()).expect("there is room");
    let frame = world.timeline().begin();
    let mut writer = constants.writer(&frame).expect("its own frame");
    let bound = [1, 2, 3].map(|byte| {
        let mut content = constants.dynamic(256).expect("small");
        content.set(0, &[byte; 256]).expect("inside");
        let bound = writer.bind(&content).expect("room");
        assert_eq!(writer.bind(&content).map(|again| again.view == bound.view), Ok(true), "the same slot");
        bound
    });
    let [one, two, three] = bound.each_ref().map(|bound| bound.view.as_ref().expect("a small buffer"));
    assert!(one != two && two != three && one == &one.clone());
    let CpuHandle(first) = one.cpu_handle();
    assert_eq!((two.cpu_handle(), three.cpu_handle()), (CpuHandle(first + 32), CpuHandle(first + 64)));
    let mut other = constants.dynamic(300).expect("small");
    other.set(0, &[4; 300]).expect("inside");
    let other = writer.bind(&other).expect("room").view.expect("a small buffer");
    assert!(one != &other, "slot 0 of another pool");
    let table = heap.frame_descriptors(&frame).expect("its own frame");
    let table = { table }.table(&[three.source(), one.source(), two.source(), other.source()]).expect("room");
    drop(writer);
    let slots = [0, 1, 2, 3].map(|index| table.start() + index);
    assert_eq!(first_bytes(&world, &heap, frame, &slots), [3, 1, 2, 4]);
    assert_eq!(world.device.hazards(), []);
}
