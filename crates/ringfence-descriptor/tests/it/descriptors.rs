//! Descriptors on the simulated device: long runs, deliberate mistakes, limits, and a naive model.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use ringfence::algorithms::range::Allocate;
use ringfence::descriptor::{
    BindlessDesc, BindlessIndex, CpuDescriptorHeap, CpuHeapDesc, DescriptorError, Persistent, SamplerTable,
    ShaderVisibleDesc, View,
};
use ringfence::device::descriptors::{BufferView, BufferViewKind, Descriptors, HeapKind, SamplerDesc};
use ringfence::device::fault::{Call, FaultInjector, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Format};
use ringfence::sim::{BufferRange, Command, DescriptorUse, Device, HazardKind, Kernel, Profile, SimOptions};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, Location, ShaderVisibleHeap, Timeline,
};
use ringfence_testkit::counting_allocator::held_bytes;
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const BYTES: u64 = 256;

struct Tables(Fixture);

impl Deref for Tables {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl Tables {
    fn new(seed: u64) -> Self {
        let options = SimOptions { seed, ..Default::default() };
        Self(Fixture::new(FixtureDesc { options, ..Default::default() }))
    }

    fn buffer(&self) -> Buffer<Device> {
        let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
        self.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room")
    }

    fn heap(&self, persistent_slots: u32) -> ShaderVisibleHeap<Device> {
        let desc = ShaderVisibleDesc { frame_slots: 64, persistent_slots, chunk_slots: 8, ..Default::default() };
        ShaderVisibleHeap::new(&self.memory, desc).expect("it is small")
    }

    fn table(&self, heap: &ShaderVisibleHeap<Device>, capacity: u32) -> BindlessTable<Device> {
        let desc = BindlessDesc { capacity, clear_freed: true };
        BindlessTable::new(&self.memory, heap, desc).expect("there is room")
    }

    /// Submits a kernel that uses the slots, in a frame of its own.
    fn submit(&self, heap: &ShaderVisibleHeap<Device>, slots: impl IntoIterator<Item = u32>) -> u64 {
        let frame = self.timeline().begin();
        let binding = heap.bind(&frame).expect("no object is created");
        let bound = *binding.bound(HeapKind::Resources).expect("of that kind");
        let descriptors = slots.into_iter().map(|slot| DescriptorUse { heap: bound, slot, writes: false }).collect();
        let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run: Box::new(|_| {}) };
        let signal = (self.fence(), frame.value());
        self.device.submit(0, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
        self.timeline().submitted(frame).expect("in order").value
    }

    /// Creates a buffer of equal bytes.
    fn filled(&self, byte: u8) -> Buffer<Device> {
        let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
        let upload = AllocationDesc { location: Location::Upload, ..Default::default() };
        let mut buffer = self.memory.create_buffer(&desc, upload).expect("there is room");
        buffer.write(0, &[byte; BYTES as usize]).expect("the host writes there");
        buffer
    }

    /// Reads the first byte of the buffer in a slot, in a frame of its own.
    fn first_byte(&self, heap: &ShaderVisibleHeap<Device>, slot: u32) -> u8 {
        let frame = self.timeline().begin();
        let bound = *heap.bind(&frame).expect("no object is created").bound(HeapKind::Resources).expect("bound");
        let found = Arc::new(AtomicU8::new(0));
        let result = Arc::clone(&found);
        let run = Box::new(move |shown: &mut ringfence::sim::KernelMemory| {
            result.store(shown.descriptors[0][0], Ordering::Release);
        });
        let descriptors = vec![DescriptorUse { heap: bound, slot, writes: false }];
        let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run };
        let signal = (self.fence(), frame.value());
        self.device.submit(0, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
        self.wait(self.timeline().submitted(frame).expect("in order").value);
        found.load(Ordering::Acquire)
    }

    fn wait(&self, value: u64) {
        assert!(self.timeline().wait(value, Duration::from_secs(60)).expect("the device is not lost"));
    }
}

fn view(of: &Buffer<Device>) -> View<'_, Device> {
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    View::buffer(of, BufferView { kind, offset: 0, size: BYTES }).expect("it was made for storage")
}

/// Views of the maximum size in bytes and in elements are accepted, and larger ones are rejected.
#[test]
fn a_view_shows_as_much_as_the_device_allows() {
    let tables = Tables::new(1);
    let support = tables.device.descriptor_support();
    let usage = BufferUsage::CONSTANT | BufferUsage::TEXELS;
    let texels = BufferViewKind::Texels { format: Format::R32Float, writes: false };
    let limits = [(BufferViewKind::Constants, support.constant_bytes_max), (texels, 4 * support.texel_elements_max)];
    for (kind, most) in limits {
        let buffer = tables.memory.create_buffer(&BufferDesc { size: most + 256, usage }, AllocationDesc::default());
        let buffer = buffer.expect("there is room");
        View::buffer(&buffer, BufferView { kind, offset: 256, size: most }).expect("all that is allowed");
        let refused = View::buffer(&buffer, BufferView { kind, offset: 0, size: most + 256 }).map(drop);
        assert!(matches!(refused, Err(DescriptorError::BadRange { size, .. }) if size > most), "{refused:?}");
    }
}

/// There are a hundred inserts and a hundred removes per frame, and two or three frames in flight. Each frame reads the
/// indices that it knows. A slot that is reused too early would be a hazard: the device checks every pending
/// descriptor.
#[test]
fn a_million_inserts_and_removes_over_ten_thousand_frames_are_without_hazard_or_growth() {
    const FRAMES: u64 = 10_000;
    const CHANGES: usize = 100;
    let world = Tables::new(3);
    let heap = world.heap(1024);
    let table = world.table(&heap, 1024);
    let buffer = world.buffer();
    let (mut live, mut in_flight) = (VecDeque::new(), VecDeque::new());
    let mut held_after_warm_up = 0;
    for number in 0..FRAMES {
        let most = 2 + (number / 7 % 2) as usize;
        while in_flight.len() > most {
            world.wait(in_flight.pop_front().expect("more than two"));
        }
        for _ in 0..CHANGES {
            if live.len() >= 500 {
                table.remove(live.pop_front().expect("five hundred")).expect("it is live");
            }
            live.push_back(
                table.insert(&view(&buffer)).expect("three frames' removals and 500 fit in 1024").into_index(),
            );
        }
        let used = [0, live.len() / 2, live.len() - 1].map(|at| live[at].slot());
        in_flight.push_back(world.submit(&heap, used));
        world.memory.reclaim();
        if number == 2000 {
            held_after_warm_up = held_bytes();
        }
    }
    let grown = held_bytes() - held_after_warm_up;
    println!("host memory grew by {grown} bytes from frame 2000 to frame {FRAMES}");
    assert!(grown < 16 << 10, "{grown} bytes");
    table.validate().expect("sound");
    heap.validate().expect("sound");
    drop((table, heap, buffer));
    world.0.finish();
}

/// A program that writes the driver's heap directly does not wait as the library does, and the device reports it.
#[test]
fn a_descriptor_that_is_overwritten_while_pending_is_a_hazard() {
    let world = Tables::new(5);
    let heap = world.heap(8);
    let table = world.table(&heap, 8);
    let buffer = world.buffer();
    let index = table.insert(&view(&buffer)).expect("room").into_index();
    world.device.pause(0);
    let value = world.submit(&heap, [index.slot()]);
    let frame = world.timeline().begin();
    let bound = *heap.bind(&frame).expect("room").bound(HeapKind::Resources).expect("of that kind");
    let range = BufferRange::new(*buffer.object(), 0, BYTES);
    world.device.write_descriptor(bound, index.slot(), Some(range));
    let found = world.device.take_hazards();
    assert!(matches!(found.as_slice(), [one] if one.kind == HazardKind::DescriptorWhilePending), "{found:?}");
    frame.discard();
    world.device.resume(0);
    world.wait(value);
    drop((table, heap, buffer));
    world.0.finish();
}

/// If two updates of an entry wait for the device, the later one wins. Each thread has its own queue of waiting
/// changes, so they may be applied in another order.
#[test]
fn of_two_updates_of_an_entry_the_later_one_stays_whichever_threads_make_them() {
    let world = Tables::new(17);
    let heap = world.heap(8);
    let table = world.table(&heap, 4);
    let (first, second) = (world.filled(1), world.filled(2));
    let index = table.insert(&view(&first)).expect("room").into_index();
    for (earlier_elsewhere, later_elsewhere, is_frame_open) in
        [(false, false, true), (true, false, true), (true, false, false), (false, true, true), (true, true, false)]
    {
        let update = |shown: &Buffer<Device>, elsewhere: bool| {
            let update = || table.update(index, &view(shown)).expect("it is live");
            if elsewhere { std::thread::scope(|scope| scope.spawn(update).join().expect("done")) } else { update() }
        };
        for _ in 0..4 {
            let frame = is_frame_open.then(|| world.timeline().begin());
            update(&first, earlier_elsewhere);
            update(&second, later_elsewhere);
            assert!(!table.is_settled());
            frame.into_iter().for_each(|frame| frame.discard());
            world.memory.reclaim();
            assert!(table.is_settled());
            let case = (earlier_elsewhere, later_elsewhere, is_frame_open);
            assert_eq!(world.first_byte(&heap, index.slot()), 2, "{case:?}");
        }
    }
    drop((table, heap, first, second));
    world.0.finish();
}

/// If an entry is updated in every frame, each update still becomes visible once its own frames are complete.
#[test]
fn an_update_is_not_put_off_by_later_ones() {
    let world = Tables::new(19);
    let heap = world.heap(8);
    let table = world.table(&heap, 4);
    let shown = [1, 2].map(|byte| world.filled(byte));
    let index = table.insert(&view(&shown[0])).expect("room").into_index();
    table.update(index, &view(&shown[1])).expect("it is live");
    let open = world.timeline().begin();
    table.update(index, &view(&shown[0])).expect("it is live");
    world.memory.reclaim();
    let end = |frame: ringfence::Frame| {
        let signal = (world.fence(), frame.value());
        world.device.submit(0, &[], vec![], signal).expect("the device is not lost");
        world.wait(world.timeline().submitted(frame).expect("in order").value);
    };
    assert!(!table.is_settled(), "the second waits for the open frame");
    end(open);
    // The second update is not applied yet: only a reclaim does that.
    assert_eq!(world.first_byte(&heap, index.slot()), 2);
    world.memory.reclaim();
    assert!(table.is_settled());
    assert_eq!(world.first_byte(&heap, index.slot()), 1);
    drop((table, heap, shown));
    world.0.finish();
}

/// A sampler that is requested, used and dropped several times per frame uses one slot.
#[test]
fn a_sampler_that_was_dropped_is_revived_as_long_as_its_slot_waits() {
    let world = Tables::new(21);
    let desc =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: 0, persistent_slots: 4, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&world.memory, desc).expect("small");
    let desc = BindlessDesc { capacity: 2, clear_freed: true };
    let samplers = SamplerTable::new(&world.memory, &heap, desc).expect("room");
    let of = |level_bias| SamplerDesc { level_bias, ..Default::default() };
    let frame = world.timeline().begin();
    let slot = samplers.get(of(0.0)).expect("room").slot();
    let written = world.device.calls().write_view;
    for _ in 0..10 {
        let again = samplers.get(of(0.0)).expect("the same slot");
        assert_eq!((again.slot(), samplers.distinct_count()), (slot, 1));
        world.memory.reclaim();
    }
    assert_eq!(
        (samplers.distinct_count(), world.device.calls().write_view),
        (0, written),
        "no sampler was created again"
    );
    let revived = samplers.get(of(0.0)).expect("the same slot");
    let signal = (world.fence(), frame.value());
    world.device.submit(0, &[], vec![], signal).expect("the device is not lost");
    world.wait(world.timeline().submitted(frame).expect("in order").value);
    world.memory.reclaim();
    assert_eq!((revived.slot(), samplers.table().free_count()), (slot, 1), "earlier removals do not free the slot");
    drop(revived);
    world.memory.reclaim();
    assert_eq!(samplers.table().free_count(), 2);
    // A free slot is not revived, and old descriptions are forgotten.
    for bias in 0..10 {
        let other = samplers.get(of(bias as f32)).expect("room");
        samplers.table().validate().expect("sound");
        drop(other);
        world.memory.reclaim();
    }
    drop((samplers, heap));
    world.0.finish();
}

/// Freed slots contain null descriptors, so a late use by a shader is found.
#[test]
fn a_late_use_of_a_removed_entry_shows() {
    let world = Tables::new(7);
    let heap = world.heap(8);
    let table = world.table(&heap, 8);
    let buffer = world.buffer();
    let index = table.insert(&view(&buffer)).expect("room").into_index();
    table.remove(index).expect("it is live");
    world.memory.reclaim();
    let value = world.submit(&heap, [index.slot()]);
    world.wait(value);
    let found = world.device.take_hazards();
    assert!(matches!(found.as_slice(), [one] if one.kind == HazardKind::OutOfRange), "{found:?}");
    drop((table, heap, buffer));
    world.0.finish();
}

/// An entry that outlives its buffer must not show another owner's bytes, whether the object was destroyed or recycled
/// for that owner.
#[test]
fn an_entry_kept_longer_than_its_buffer_is_found_with_and_without_recycling() {
    for recycle in [true, false] {
        let world = Tables::new(8);
        let heap = world.heap(8);
        let table = world.table(&heap, 8);
        let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
        let make = |name| {
            let of = AllocationDesc { name, recycle, ..Default::default() };
            world.memory.create_buffer(&desc, of).expect("there is room")
        };
        // The first object with a description is not kept.
        drop(make("first"));
        world.memory.reclaim();
        let buffer = make("old");
        let index = table.insert(&view(&buffer)).expect("room").into_index();
        let old = buffer.object().id();
        drop(buffer);
        world.memory.reclaim();
        let new = make("new");
        assert_eq!(world.memory.statistics().calls.recycled > 0, recycle);
        let value = world.submit(&heap, [index.slot()]);
        world.wait(value);
        let found = world.device.take_hazards();
        let is_found = |one: &ringfence::sim::Hazard| one.kind == HazardKind::Stale && one.resource.id == old;
        assert!(matches!(found.as_slice(), [one] if is_found(one)), "{found:?}");
        table.update(index, &view(&new)).expect("it is live");
        world.memory.reclaim();
        world.submit(&heap, [index.slot()]);
        assert_eq!(world.device.hazards(), []);
        drop((table, heap, new));
        world.0.finish();
    }
}

/// A slot that the slower of two queues may still use is kept, regardless of the other queue's progress.
#[test]
fn a_slot_waits_for_every_queue_that_had_begun() {
    let world = Tables::new(9);
    let other_fence = world.device.create_fence(0);
    // SAFETY: as for the first.
    let other = unsafe { world.memory.timeline(other_fence) }.expect("the device is not lost");
    let heap = world.heap(4);
    let table = world.table(&heap, 1);
    let buffer = world.buffer();
    let index = table.insert(&view(&buffer)).expect("room").into_index();
    let slow = other.begin();
    let bound = *heap.bind(&slow).expect("room").bound(HeapKind::Resources).expect("of that kind");
    table.remove(index).expect("it is live");
    let value = world.submit(&heap, []);
    world.wait(value);
    world.memory.reclaim();
    assert_eq!(table.free_count(), 0, "the other queue's frame is not even submitted");
    let descriptors = vec![DescriptorUse { heap: bound, slot: index.slot(), writes: false }];
    let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run: Box::new(|_| {}) };
    let signal = (other_fence, slow.value());
    world.device.submit(1, &[], vec![Command::Kernel(kernel)], signal).expect("the device is not lost");
    let point = other.submitted(slow).expect("in order");
    assert!(other.wait(point.value, Duration::from_secs(60)).expect("the device is not lost"));
    world.memory.reclaim();
    assert_eq!(table.free_count(), 1);
    drop((table, heap, buffer, other));
    world.0.finish();
}

#[test]
fn a_lost_device_gives_everything_back_and_new_things_are_typed_errors() {
    let world = Tables::new(11);
    let (heap, buffer) = (world.heap(8), world.buffer());
    let table = world.table(&heap, 4);
    let index = table.insert(&view(&buffer)).expect("room").into_index();
    world.submit(&heap, [index.slot()]);
    table.remove(index).expect("it is live");
    world.device.lose_device();
    assert!(world.memory.reclaim().device_lost);
    assert_eq!(table.free_count(), 4);
    let refused = table.insert(&view(&buffer)).err();
    assert_eq!(refused, Some(DescriptorError::Device(DeviceError::Lost)));
    assert_eq!((table.free_count(), table.live_count()), (4, 0), "a failed call changes nothing");
    let cpu = CpuDescriptorHeap::<Device>::new(&world.memory, CpuHeapDesc::default()).expect("no heap is made yet");
    assert_eq!(cpu.allocate(1).err(), Some(DescriptorError::Device(DeviceError::Lost)));
    assert_eq!(cpu.statistics().block_count, 0);
    table.validate().expect("sound");
    drop((table, heap, buffer, cpu));
    let Tables(Fixture { device, memory, timelines, .. }) = world;
    drop((memory, timelines));
    assert_eq!(device.live(), Default::default());
}

#[test]
fn resources_and_frames_of_another_allocator_are_refused() {
    let (world, other) = (Tables::new(13), Tables::new(14));
    let heap = world.heap(4);
    let table = world.table(&heap, 2);
    let theirs = other.buffer();
    assert_eq!(table.insert(&view(&theirs)).err(), Some(DescriptorError::Foreign));
    assert_eq!(table.free_count(), 2);
    let frame = other.timeline().begin();
    assert_eq!(heap.bind(&frame).err(), Some(DescriptorError::Foreign));
    assert_eq!(heap.frame_descriptors(&frame).err(), Some(DescriptorError::Foreign));
    assert_eq!(BindlessTable::new(&other.memory, &heap, BindlessDesc::default()).err(), Some(DescriptorError::Foreign));
    frame.discard();
    drop((theirs, table, heap));
    world.0.finish();
    other.0.finish();
}

#[derive(Clone, Debug)]
enum Step {
    Insert,
    Remove(usize),
    Update(usize),
    Allocate(u32),
    Free(usize),
    Table(u32),
    Submit,
    Wait,
    Reclaim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Insert),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Update),
        2 => (0..7_u32).prop_map(Step::Allocate),
        2 => any::<usize>().prop_map(Step::Free),
        2 => (1..5_u32).prop_map(Step::Table),
        3 => Just(Step::Submit),
        2 => Just(Step::Wait),
        3 => Just(Step::Reclaim),
    ]
}

#[test]
fn a_run_takes_no_more_descriptors_than_it_has_slots() {
    let world = Tables::new(1);
    let heap = world.heap(24);
    let cpu = CpuDescriptorHeap::<Device>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let buffer = world.buffer();
    let mut shown = cpu.allocate(4).expect("room");
    (0..4).for_each(|index| shown.write(index, &view(&buffer)).expect("a storage buffer"));
    let mut run = heap.allocate(3).expect("room");
    for (index, count) in [(0, 4), (1, 3), (3, 1), (2, 2)] {
        let sources = [shown.part(0..count).expect("at most four")];
        let last = index + u64::from(count) - 1;
        let refused = Err(DescriptorError::OutOfRange { index: last, count: 3 });
        assert_eq!(run.copy(index as u32, &sources), refused, "{count} from slot {index} on");
    }
    run.copy(0, &[shown.part(0..3).expect("of four")]).expect("three slots");
    drop((run, heap, shown, cpu, buffer));
    world.0.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// No slot ever has two owners, work uses every live slot, and the device finds no hazard. A naive model tracks the
    /// owner of each slot.
    #[test]
    fn no_slot_is_ever_two_things_at_once(steps in prop::collection::vec(step(), 1..120), seed in any::<u64>()) {
        let world = Tables::new(seed);
        let heap = world.heap(24);
        let table = world.table(&heap, 8);
        let cpu = CpuDescriptorHeap::<Device>::new(&world.memory, CpuHeapDesc::default()).expect("small");
        let buffer = world.buffer();
        let mut shown = cpu.allocate(4).expect("room");
        (0..4).for_each(|index| shown.write(index, &view(&buffer)).expect("a storage buffer"));
        let mut entries: Vec<BindlessIndex> = Vec::new();
        let mut dead: Vec<BindlessIndex> = Vec::new();
        let mut runs: Vec<Persistent<Device>> = Vec::new();
        // The model: the current content of each slot.
        let mut owners: HashMap<u32, &str> = HashMap::new();
        let mut in_flight = VecDeque::new();
        for step in steps {
            match step {
                Step::Insert => match table.insert(&view(&buffer)) {
                    Ok(entry) => {
                        let index = entry.into_index();
                        prop_assert_eq!(owners.insert(index.slot(), "entry"), None);
                        entries.push(index);
                    }
                    Err(error) => {
                        let full = matches!(error, DescriptorError::TableFull { .. });
                        prop_assert!(full && table.free_count() == 0);
                    }
                },
                Step::Remove(at) if !entries.is_empty() => {
                    let index = entries.swap_remove(at % entries.len());
                    table.remove(index).expect("it is live");
                    owners.remove(&index.slot());
                    dead.push(index);
                }
                Step::Update(at) if !entries.is_empty() && in_flight.is_empty() => {
                    table.update(entries[at % entries.len()], &view(&buffer)).expect("it is live");
                    world.memory.reclaim();
                }
                Step::Allocate(count) => match heap.allocate(count) {
                    Ok(mut run) => {
                        for slot in run.start()..run.start() + run.len() {
                            prop_assert_eq!(owners.insert(slot, "run"), None);
                        }
                        for index in 0..run.len() {
                            let source = shown.part(index % 4..index % 4 + 1).expect("one of four");
                            run.copy(index, &[source]).expect("fresh");
                        }
                        runs.push(run);
                    }
                    Err(DescriptorError::Full { need, largest_free, .. }) => {
                        prop_assert!(need == count && largest_free < need);
                    }
                    Err(error) => prop_assert_eq!((error, count), (DescriptorError::ZeroCount, 0)),
                },
                Step::Free(at) if !runs.is_empty() => {
                    let run = runs.swap_remove(at % runs.len());
                    (run.start()..run.start() + run.len()).for_each(|slot| {
                        owners.remove(&slot);
                    });
                }
                Step::Table(count) => {
                    let frame = world.timeline().begin();
                    let table = heap.frame_descriptors(&frame).expect("its own frame");
                    let made = { table }.table(&[shown.part(0..count.min(4)).expect("one to four")]);
                    if let Ok(made) = made {
                        prop_assert!(made.start() + made.len() <= 64, "inside the frame region");
                    }
                    let signal = (world.fence(), frame.value());
                    world.device.submit(0, &[], vec![], signal).expect("the device is not lost");
                    in_flight.push_back(world.timeline().submitted(frame).expect("in order").value);
                }
                Step::Submit => in_flight.push_back(world.submit(&heap, owners.keys().copied())),
                Step::Wait => {
                    if let Some(value) = in_flight.pop_front() {
                        world.wait(value);
                    }
                }
                Step::Reclaim => drop(world.memory.reclaim()),
                Step::Remove(_) | Step::Update(_) | Step::Free(_) => {}
            }
            table.validate().expect("sound");
            heap.validate().expect("sound");
            cpu.validate().expect("sound");
            prop_assert_eq!(table.live_count() as usize, entries.len());
            prop_assert!(entries.iter().all(|index| table.is_live(*index)));
            prop_assert!(dead.iter().all(|index| !table.is_live(*index)));
        }
        in_flight.into_iter().for_each(|value| world.wait(value));
        drop((table, runs, heap, shown, cpu, buffer));
        world.0.finish();
    }
}

#[test]
fn what_is_refused_of_tables_and_runs_has_its_own_numbers() {
    let world = Tables::new(23);
    let (mut heap, buffer) = (world.heap(16), world.buffer());
    let mut cpu = CpuDescriptorHeap::<Device>::new(&world.memory, CpuHeapDesc::default()).expect("small");
    let mut shown = cpu.allocate(4).expect("room");
    (0..3).for_each(|index| shown.write(index, &view(&buffer)).expect("a storage buffer"));
    let frame = world.timeline().begin();
    let mut tables = heap.frame_descriptors(&frame).expect("its own frame");
    let unwritten = tables.table(&[shown.part(0..2).expect("inside"), shown.part(2..4).expect("inside")]);
    assert_eq!(unwritten, Err(DescriptorError::Unwritten { index: 3 }), "counted from the start of the allocation");
    drop(tables);
    frame.discard();
    for alignment in [0, 3, 12] {
        let bad = Some(DescriptorError::BadAlignment { alignment });
        assert_eq!(Allocate::allocate(&mut cpu, 2, alignment).err(), bad);
        assert_eq!(Allocate::allocate(&mut heap, 2, alignment).err(), bad);
    }
    drop((heap, cpu, shown, buffer));
    world.0.finish();
}

/// An entry is removed when it is dropped, for example by a `?` between two steps, unless its index was kept.
#[test]
fn an_entry_goes_with_its_owner_unless_its_number_is_kept() {
    let world = Tables::new(31);
    let heap = world.heap(8);
    let table = world.table(&heap, 4);
    let buffer = world.buffer();
    let frame = world.timeline().begin();
    let entry = table.insert(&view(&buffer)).expect("room");
    let (slot, number) = (entry.slot(), entry.index());
    assert_eq!((slot, table.live_count(), table.is_live(&entry)), (number.slot(), 1, true));
    drop(entry);
    assert_eq!((table.live_count(), table.is_live(number)), (0, false));
    world.memory.reclaim();
    assert_eq!(table.free_count(), 3, "the frame may read its slot");
    frame.discard();
    world.memory.reclaim();
    assert_eq!(table.free_count(), 4);
    // If the program keeps the index, it must remove the entry itself.
    let kept = table.insert(&view(&buffer)).expect("room").into_index();
    assert!(table.is_live(kept));
    table.remove(kept).expect("it is in the table");
    // After a removal by index, dropping the entry has no effect.
    let entry = table.insert(&view(&buffer)).expect("room");
    table.remove(entry.index()).expect("it is in the table");
    drop(entry);
    // After a replacement, the entry owns the new slot.
    let mut entry = table.insert(&view(&buffer)).expect("room");
    let before = entry.index();
    entry.replace(&view(&buffer)).expect("room");
    assert!(!table.is_live(before) && table.is_live(&entry));
    assert_eq!(table.live_count(), 1);
    // The table is dropped before its entry, whose slot stays until the entry is dropped too.
    drop(table);
    world.memory.reclaim();
    let rest = [(); 4].map(|()| heap.allocate(1).expect("the slots beside the table"));
    assert!(heap.allocate(1).is_err() && rest.iter().all(|run| run.start() != entry.slot()));
    entry.replace(&view(&buffer)).expect("the entry is as before");
    drop((entry, rest));
    world.memory.reclaim();
    let table = world.table(&heap, 8);
    drop((table, heap, buffer));
    world.0.finish();
}

#[test]
fn a_heap_that_was_dropped_keeps_its_place_no_longer_than_work_that_uses_it() {
    let world = Tables::new(32);
    let make = || ShaderVisibleHeap::<Device>::new(&world.memory, ShaderVisibleDesc::default());
    drop(make().expect("the first"));
    let heap = make().expect("no work has used the previous one");
    drop((heap.bind(&world.timeline().begin()), heap));
    let kind = HeapKind::Resources;
    assert_eq!(make().err(), Some(DescriptorError::SecondHeap { kind }), "the frame may have been submitted");
    world.timeline().discard_dropped();
    let heap = make().expect("the frame was discarded");
    assert_eq!(make().err(), Some(DescriptorError::SecondHeap { kind }), "there is one");
    drop(heap);
    world.0.finish();
}

#[test]
fn the_limits_are_those_of_the_device() {
    let world = Tables::new(15);
    assert_eq!(world.device.visible_slots_max(HeapKind::Samplers, Default::default()), 2048);
    let desc = ShaderVisibleDesc { frame_slots: 1 << 20, ..Default::default() };
    let refused = ShaderVisibleHeap::<Device>::new(&world.memory, desc).err();
    assert_eq!(refused, Some(DescriptorError::TooMany { count: (1 << 20) + (48 << 10), max: 1_000_000 }));
    world.0.finish();
}

/// Every driver call that can fail is made to fail, one after the other, in a program that uses all kinds of
/// descriptors.
#[test]
fn each_failing_driver_call_changes_nothing_and_is_a_typed_error() {
    type Faulty = FaultInjector<Device>;

    fn story(memory: &Allocator<Faulty>, timeline: &Timeline<Faulty>) -> Result<(), Box<dyn std::error::Error>> {
        let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
        let buffer = memory.create_buffer(&desc, AllocationDesc::default())?;
        let kind = BufferViewKind::Storage { stride: 0, writes: true };
        let view = View::buffer(&buffer, BufferView { kind, offset: 0, size: BYTES })?;
        let desc = ShaderVisibleDesc { frame_slots: 8, persistent_slots: 8, slots_max: 32, ..Default::default() };
        let heap = ShaderVisibleHeap::new(memory, desc)?;
        let table = BindlessTable::new(memory, &heap, BindlessDesc { capacity: 4, ..Default::default() })?;
        let cpu = CpuDescriptorHeap::new(memory, CpuHeapDesc::default())?;
        let mut shown = cpu.allocate(2)?;
        shown.write(0, &view)?;
        let index =
            table.insert(&view).inspect_err(|_| assert_eq!((table.free_count(), table.live_count()), (4, 0)))?;
        let mut index = index;
        let old = index.index();
        index.replace(&view).inspect_err(|_| assert!(table.is_live(old)))?;
        table.update(&index, &view).inspect_err(|_| assert!(table.is_live(&index)))?;
        let mut run = heap.allocate(2)?;
        run.write(1, &view).inspect_err(|_| assert!(heap.validate().is_ok()))?;
        heap.grow(8).inspect_err(|_| assert_eq!((heap.slots(), heap.statistics().heap_count), (16, 1)))?;
        let frame = timeline.begin();
        heap.frame_descriptors(&frame)?.table(&[shown.part(0..1)?])?;
        heap.frame_descriptors(&frame)?.table_of(&[view])?;
        drop(heap.bind(&frame)?);
        table.validate()?;
        heap.validate()?;
        cpu.validate()?;
        Ok(())
    }

    let calls = [Call::MakeHeap, Call::DescribeView, Call::WriteView, Call::BindHeap];
    for call in calls {
        for nth in 0.. {
            let device = Device::new(Profile::h200(), SimOptions::default());
            let (faulty, faults) = FaultInjector::new(device.clone());
            let memory = Allocator::over(faulty, AllocatorDesc::default());
            // SAFETY: the fence lives as long as the device; no frame is submitted.
            let timeline = unsafe { memory.timeline(device.create_fence(0)) }.expect("the device is not lost");
            faults.add(Rule { call: Some(call), ..Rule::nth(nth, DeviceError::OutOfDeviceMemory) });
            let result = story(&memory, &timeline);
            let failed = result.as_ref().err().and_then(|error| error.downcast_ref::<DescriptorError>());
            let injected = faults.injected() > 0;
            assert_eq!(
                failed.copied(),
                injected.then_some(DeviceError::OutOfDeviceMemory.into()),
                "{call:?} {nth}: {result:?}"
            );
            timeline.discard_dropped();
            drop((memory, timeline));
            assert_eq!(device.hazards(), []);
            assert_eq!(device.live(), Default::default(), "{call:?} {nth}");
            if !injected {
                assert!(nth > 0, "the story makes such a call");
                break;
            }
        }
    }
}
