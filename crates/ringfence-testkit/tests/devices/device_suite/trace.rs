//! Traces. The recorded events are those that happened. Of a damaged trace, the intact part can be read.

use std::io::{self, Write};

use ringfence::debugging::DebugDesc;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Device, Requirements, ResourceClass};
use ringfence::memory::{BlockSnapshot, Snapshot};
use ringfence::trace::{Event, Reader, StartTraceError, State, TraceError};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Timeline, TransientAllocator, UploadRing};
use ringfence_testkit::Gpu;
use ringfence_testkit::fixture::Recording;

use crate::device_suite::rig::{Rig, buffer};

/// Creates and drops buffers over some frames, on several threads. Returns the buffers that remain.
fn churn<D: Device>(memory: &Allocator<D>, timeline: &Timeline<D>) -> Vec<Buffer<D>> {
    let usage = BufferUsage::COPY_DST;
    let mut kept = Vec::new();
    for frame in 0..20 {
        let held = timeline.begin();
        let made = std::thread::scope(|scope| {
            let make = |thread: u64| {
                move || {
                    let size = |index: u64| 256 << ((index * 7 + thread * 3 + frame) % 8);
                    let name =
                        |index: u64| if index.is_multiple_of(3) { String::new() } else { format!("t{thread}/{index}") };
                    let make = |index| buffer(memory, size(index), usage, Location::Device, &name(index));
                    (0..20).map(make).collect::<Vec<_>>()
                }
            };
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(make(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        let mut made = made;
        made.iter_mut().step_by(4).for_each(|buffer| buffer.set_name("renamed"));
        let (keep, dropped): (Vec<_>, Vec<_>) = made.into_iter().enumerate().partition(|(index, _)| index % 9 == 0);
        kept.extend(keep.into_iter().map(|(_, buffer)| buffer));
        drop(dropped);
        // This frame is not submitted. Discarding it releases the objects that waited for it.
        held.discard();
        memory.reclaim();
    }
    kept
}

fn sorted(mut blocks: Vec<BlockSnapshot>) -> Vec<BlockSnapshot> {
    blocks.sort_by_key(|block| block.number);
    blocks
}

/// Removes the parts of a snapshot that a trace does not record.
fn comparable(snapshot: Snapshot) -> Snapshot {
    let mut snapshot = Snapshot { blocks: sorted(snapshot.blocks), ..snapshot };
    snapshot.calls.wait = 0;
    // For pools of small sizes, the allocator counts whole chunks, but the trace counts ranges.
    snapshot.types.iter_mut().for_each(|held| held.statistics.range_bytes_high_water = 0);
    snapshot.heaps.iter_mut().for_each(|heap| (heap.usage_bytes, heap.budget_bytes) = (None, None));
    snapshot
}

fn read(bytes: &[u8]) -> (Vec<Event>, Option<TraceError>) {
    let mut events = Vec::new();
    let reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (events, Some(error)),
    };
    for event in reader {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

fn state(events: &[Event]) -> State {
    let mut state = State::new();
    events.iter().for_each(|event| state.apply(event));
    state
}

/// Records a trace. Returns it with the snapshot at its end.
fn recorded<G: Gpu>(rig: &mut Rig<G>) -> (Vec<u8>, Snapshot) {
    recorded_of(rig, AllocatorDesc::default())
}

fn recorded_of<G: Gpu>(rig: &mut Rig<G>, desc: AllocatorDesc) -> (Vec<u8>, Snapshot) {
    let (memory, timelines) = rig.allocator(desc);
    let recording = Recording::default();
    memory.trace().start(recording.clone()).expect("nothing is recorded yet");
    let kept = churn(&memory, &timelines[0]);
    let large = buffer(&memory, 200 << 20, BufferUsage::COPY_DST, Location::Device, "large");
    let summary = memory.trace().stop().expect("memory can be written").expect("a trace was recorded");
    let snapshot = memory.snapshot();
    assert_eq!(summary.bytes, recording.bytes().len() as u64);
    assert!(memory.trace().stop().expect("nothing is written").is_none(), "it was stopped");
    drop((kept, large));
    memory.shutdown(crate::device_suite::rig::PATIENCE).expect("nothing was submitted");
    (recording.bytes(), snapshot)
}

pub fn a_trace_ends_in_the_state_that_the_allocator_is_in<G: Gpu>(rig: &mut Rig<G>) {
    let (bytes, snapshot) = recorded(rig);
    ends_in(&bytes, snapshot);
}

/// With guards, the owner's range begins after the start of the whole range. Both offsets must be recorded correctly.
pub fn a_trace_of_ranges_with_guards_ends_in_the_state_that_the_allocator_is_in<G: Gpu>(rig: &mut Rig<G>) {
    let (bytes, snapshot) =
        recorded_of(rig, AllocatorDesc { debug: DebugDesc::everything(), ..AllocatorDesc::default() });
    ends_in(&bytes, snapshot);
}

fn ends_in(bytes: &[u8], snapshot: Snapshot) {
    let (events, error) = read(bytes);
    assert!(error.is_none(), "{error:?}");
    let Some(Event::End { event_count }) = events.last() else { panic!("the last event is {:?}", events.last()) };
    assert_eq!(*event_count, events.len() as u64 - 1);
    let state = state(&events);
    assert_eq!((state.odd_count(), state.frame_count()), (0, 20));
    assert_eq!(comparable(state.snapshot()), comparable(snapshot));
    assert!(bytes.len() < 40 * events.len(), "{} bytes for {} events", bytes.len(), events.len());
}

pub fn a_trace_that_is_cut_off_is_read_up_to_the_cut<G: Gpu>(rig: &mut Rig<G>) {
    let (bytes, _) = recorded(rig);
    let (all, _) = read(&bytes);
    for cut in (0..bytes.len()).step_by(bytes.len() / 300 + 1).chain(bytes.len() - 20..bytes.len()) {
        let (events, error) = read(&bytes[..cut]);
        match error.expect("the trace is truncated") {
            TraceError::NotATrace => assert!(cut < 8),
            TraceError::CutOff { at_byte, event_count, .. } => {
                assert_eq!((at_byte, event_count), (cut as u64, events.len() as u64));
            }
            other => panic!("cut at {cut}: {other}"),
        }
        assert!(all.starts_with(&events));
        assert_eq!(state(&events).odd_count(), 0, "no prefix of the trace shows overlapping ranges");
    }
}

pub fn a_damaged_trace_is_read_up_to_the_damage<G: Gpu>(rig: &mut Rig<G>) {
    let (bytes, _) = recorded(rig);
    let (all, _) = read(&bytes);
    for at in (0..bytes.len()).step_by(bytes.len() / 300 + 1).chain(0..40) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let (events, error) = read(&damaged);
        assert!(all.starts_with(&events));
        match error.expect("a changed byte is noticed") {
            TraceError::NotATrace => assert!(at < 8),
            TraceError::Version { found } => assert!((8..12).contains(&at) && found != 1),
            TraceError::Corrupted { at_byte, event_count, .. } => {
                assert!(at_byte <= at as u64 && event_count == events.len() as u64);
            }
            TraceError::CutOff { .. } => {}
            other => panic!("byte {at}: {other}"),
        }
    }
}

pub fn a_trace_begins_with_an_allocator_that_made_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, _timelines) = rig.allocator(AllocatorDesc::default());
    memory.trace().start(Recording::default()).expect("nothing is recorded yet");
    assert!(matches!(memory.trace().start(Recording::default()), Err(StartTraceError::Recording)));
    let _held = buffer(&memory, 256, BufferUsage::COPY_DST, Location::Device, "");
    memory.trace().stop().expect("memory can be written");
    let refused = memory.trace().start(Recording::default());
    assert!(matches!(refused, Err(StartTraceError::NotEmpty { memory_objects: 1 })), "{refused:?}");
}

pub fn a_trace_tells_of_rings_names_and_plans<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    let recording = Recording::default();
    memory.trace().start(recording.clone()).expect("nothing is recorded yet");
    let ring = UploadRing::new(&memory, UploadDesc { capacity: 64 << 10, name: "uploads", ..Default::default() });
    let ring = ring.expect("there is room");
    let gone = UploadRing::new(&memory, UploadDesc { capacity: 4 << 10, name: "gone", ..Default::default() });
    memory.reclaim();
    drop(gone);
    // A slot of a pool, a range of a block, and dedicated memory are renamed; some had a name before, some had none.
    let make = |size, name| buffer(&memory, size, BufferUsage::COPY_DST, Location::Device, name);
    let mut named = [make(256, "before"), make(256, ""), make(300_000, "before"), make(200 << 20, "")];
    for (buffer, name) in named.iter_mut().zip(["slot", "other slot", "range", "own"]) {
        buffer.set_name(name);
    }
    let needs = Requirements {
        size: 70_000,
        alignment: 256,
        memory_type_bits: 1 << named[2].memory_type(),
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let mut loose = memory.allocate(needs, AllocationDesc::default()).expect("there is room");
    loose.set_name("loose");
    let mut most = 0;
    for frame in 1..4_u64 {
        let held = timelines[0].begin();
        (0..3 * frame).for_each(|_| drop(ring.write(&[7; 1000], 256).expect("there is room")));
        most = most.max(ring.snapshot().used_bytes);
        held.discard();
        memory.reclaim();
    }
    let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    let (info, queue) = (info(&memory, 100_000), timelines[0].id());
    let resource = |first, last, name| FrameResource { info: Described::Buffer(&info), first, last, name };
    let resources = [resource(0, &[1], "depth"), resource(2, &[], "bloom")];
    for _ in 0..2 {
        let passes = [FramePass::on(queue); 3];
        transient.plan(&passes, &resources, |_| true).expect("there is room").finish(&[]);
    }
    memory.trace().stop().expect("memory can be written").expect("a trace was recorded");
    let snapshot = memory.snapshot();
    drop((named, loose, ring, transient));
    memory.shutdown(crate::device_suite::rig::PATIENCE).expect("nothing was submitted");

    let (events, error) = read(&recording.bytes());
    assert!(error.is_none(), "{error:?}");
    let state = state(&events);
    assert_eq!(state.odd_count(), 0);
    let read = state.snapshot();
    assert_eq!(read.rings, snapshot.rings, "the remaining range, in its final state");
    assert_eq!(sorted(read.blocks), sorted(snapshot.blocks.clone()));
    let names: Vec<_> = snapshot.blocks.iter().flat_map(|block| &block.ranges).map(|range| &*range.name).collect();
    for name in ["slot", "other slot", "range", "own", "loose"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"before"));
    let ring_used = events.iter().filter_map(|event| match event {
        Event::Ring { figures, .. } => Some(figures.used_bytes),
        _ => None,
    });
    assert_eq!(ring_used.max(), Some(most), "recorded with its high-water mark");
    let plans: Vec<_> = events.iter().filter(|event| matches!(event, Event::Planned { .. })).collect();
    let [Event::Planned { height_bytes, pass_count: 3, resources, .. }] = plans[..] else { panic!("{plans:?}") };
    let lives: Vec<_> = resources.iter().map(|held| (&*held.name, held.first_pass, held.end_pass)).collect();
    assert_eq!(lives, [("depth", 0, 2), ("bloom", 2, 3)]);
    assert!(resources.iter().all(|held| held.offset == 0 && held.bytes == *height_bytes), "they share bytes");
}

fn info<D: Device>(memory: &Allocator<D>, size: u64) -> ringfence::device::BufferInfo<'static, D> {
    let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
    Create::<Buffers>::describe(memory.device(), &desc).expect("a plain buffer")
}

/// A disk with room for this number of bytes.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("the disk is full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn a_full_disk_ends_the_recording_and_nothing_else<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    assert!(matches!(memory.trace().start(Disk(3)), Err(StartTraceError::Io(_))));
    memory.trace().start(Disk(100)).expect("the head has room");
    let kept = churn(&memory, &timelines[0]);
    memory.debug().validate().expect("the allocator is sound");
    drop(kept);
    let error = memory.trace().stop().expect_err("the disk was full");
    assert_eq!(error.to_string(), "the disk is full");
}
