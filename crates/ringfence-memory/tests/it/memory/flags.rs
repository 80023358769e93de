//! Booleans and short answers, each with every outcome.

use std::sync::Arc;

use ringfence::device::{BufferDesc, BufferUsage, ResourceClass, TextureDesc, TextureUsage};
use ringfence::memory::{Error, PoolDesc};
use ringfence::sharing::{Share, ShareError, ShareKind};
use ringfence::sim::{self, Profile};
use ringfence::trace::{Event, Reader, StartTraceError};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location, sharing};
use ringfence_memory::extend::{OpenFrame, Passed, ReclaimHeap, Shared};
use ringfence_testkit::fixture::{Fixture, FixtureDesc, Recording};

use crate::memory::world::{KIB, MIB, card, info, needs};

fn fixture(profile: Profile) -> Fixture {
    Fixture::new(FixtureDesc { profile, ..Default::default() })
}

/// Memory is mapped if the host can access it, for every kind of resource.
#[test]
fn a_resource_is_mapped_where_the_host_sees_its_memory() {
    let world = fixture(card(64 * MIB, 64 * MIB));
    for (location, is_mapped) in [(Location::Device, false), (Location::Upload, true), (Location::Readback, true)] {
        let desc = AllocationDesc { location, ..Default::default() };
        let small = BufferDesc { size: 100, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        let mut small = world.memory.create_small_buffer(small, location).expect("room");
        assert_eq!((small.is_mapped(), small.write(0, &[1]).is_ok(), small.size()), (is_mapped, is_mapped, 100));
        for dedicated in [Dedicated::Always, Dedicated::Never] {
            let mut buffer =
                world.memory.create_buffer(&info(KIB), AllocationDesc { dedicated, ..desc }).expect("room");
            assert_eq!((buffer.is_mapped(), buffer.write(0, &[1]).is_ok()), (is_mapped, is_mapped), "{location:?}");
            assert_eq!(buffer.is_dedicated(), dedicated == Dedicated::Always);
            assert_eq!(buffer.location(), location);
        }
    }
    world.finish();
}

/// A resource is movable if it was created so, and while it is not pinned.
#[test]
fn a_resource_is_movable_unless_it_is_pinned() {
    let world = fixture(Profile::h200());
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let [fixed, moving] =
        [AllocationDesc::default(), desc].map(|desc| world.memory.create_buffer(&info(KIB), desc).expect("room"));
    for (pinned, movable) in [(false, true), (true, false), (false, true)] {
        [&fixed, &moving].into_iter().for_each(|buffer| buffer.set_pinned(pinned));
        assert_eq!((fixed.is_movable(), moving.is_movable()), (false, movable));
    }
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..desc };
    assert!(!world.memory.create_buffer(&info(KIB), alone).expect("room").is_movable(), "dedicated memory stays");
    drop((fixed, moving));
    world.finish();
}

/// `nothing_closed` reports closes of any frame since the frame was last seen to be open; `is_open` reports the frame.
#[test]
fn a_frame_is_open_until_it_ends() {
    let world = fixture(Profile::h200());
    let [first, second] = [(); 2].map(|()| world.timeline().begin());
    let mut checks = [OpenFrame::of(&first), OpenFrame::of(&second)];
    assert!(checks.iter().all(OpenFrame::nothing_closed));
    assert!(checks.iter_mut().all(OpenFrame::is_open));
    world.complete(first);
    assert!(!checks[0].nothing_closed() && !checks[1].nothing_closed());
    assert_eq!(checks.each_mut().map(OpenFrame::is_open), [false, true]);
    assert_eq!(checks.each_ref().map(OpenFrame::nothing_closed), [false, true], "it was seen to be open since");
    second.discard();
    assert_eq!(checks.each_ref().map(OpenFrame::nothing_closed), [false, false]);
    assert_eq!(checks.each_mut().map(OpenFrame::is_open), [false, false]);
    world.finish();
}

/// A resource in a pool has the pool's kind of handles, or names the same kind.
#[test]
fn a_pool_shares_by_its_own_kind_alone() {
    let world = fixture(Profile::h200());
    let (own, other) = (Some(ShareKind::Simulated), Some(ShareKind::DmaBuf));
    let pool = |share| {
        let desc = PoolDesc { memory_type: 1, block_bytes: MIB, share, ..Default::default() };
        world.memory.create_pool(desc).expect("such a pool")
    };
    let (sharing, plain) = (pool(own), pool(None));
    assert_eq!((sharing.share(), plain.share()), (own, None));
    for (pool, share, is_exportable) in [
        (&sharing, None, Ok(true)),
        (&sharing, own, Ok(true)),
        (&plain, None, Ok(false)),
        (&plain, own, Err(None)),
        (&sharing, other, Err(own)),
    ] {
        let desc = AllocationDesc { share, ..Default::default() };
        let wrong = is_exportable.err().map(|pool| Error::WrongShare { wanted: share, pool });
        let made = pool.create_buffer(&info(4 * KIB), desc);
        assert_eq!(made.as_ref().err(), wrong.as_ref(), "{share:?}");
        assert_eq!(pool.allocate(needs(4 * KIB, 256), desc).err(), wrong, "{share:?}");
        if let Ok(made) = made {
            assert_eq!(made.export().is_ok(), is_exportable == Ok(true), "{share:?}");
            assert!(!made.is_dedicated());
        }
    }
    drop((sharing, plain));
    world.finish();
}

/// Memory of each type is imported with its own type, by a resource that may be in it. Another resource is refused with
/// the types that it needs.
#[test]
fn memory_is_imported_with_a_type_that_the_resource_allows() {
    let world = fixture(Profile::h200());
    let importer = Fixture::on(&world.device, AllocatorDesc::default());
    let picture = TextureDesc { width: 16, height: 16, usage: TextureUsage::SAMPLED, ..Default::default() };
    for memory_type in 0..5 {
        let at = AllocationDesc { memory_types: 1 << memory_type, ..Default::default() };
        let location = if memory_type < 2 { Location::Device } else { Location::Readback };
        let share = AllocationDesc { share: Some(ShareKind::Simulated), location, ..at };
        let exported = world.memory.create_buffer(&info(64 * KIB), share).expect("room");
        assert_eq!(exported.memory_type(), memory_type);
        let handle = || exported.export().expect("it is shared");
        let (owned, layout) = handle();
        let desc = AllocationDesc::default();
        // SAFETY: the handle is of such a buffer, and the host does not read it.
        let imported = unsafe { sharing::import_buffer(&importer.memory, &info(64 * KIB), owned, &layout, desc) };
        let imported = imported.expect("such a buffer");
        assert_eq!((imported.memory_type(), imported.is_dedicated()), (memory_type, true));
        // A block is imported as a whole, and dedicated memory with its resource alone.
        let desc_of_pool =
            PoolDesc { memory_type, block_bytes: MIB, share: Some(ShareKind::Simulated), ..Default::default() };
        let pool = world.memory.create_pool(desc_of_pool).expect("such a pool");
        let neighbour = pool.create_buffer(&info(64 * KIB), AllocationDesc::default()).expect("room");
        let in_block = pool.create_buffer(&info(64 * KIB), AllocationDesc::default()).expect("room");
        let expected = [Ok((memory_type, MIB, 1)), Err(ShareError::Tied)];
        for (from, expected) in [&in_block, &exported].into_iter().zip(expected) {
            let (owned, layout) = from.export().expect("it is shared");
            assert_eq!((layout.offset, layout.is_tied), (from.offset(), from.is_dedicated()));
            // SAFETY: as above.
            let whole =
                unsafe { sharing::import_memory(&importer.memory, owned, &layout, ResourceClass::Buffer, desc) };
            assert_eq!(whole.map(|whole| (whole.memory_type(), whole.size(), whole.alignment())), expected);
        }
        drop((neighbour, in_block, pool));
        if memory_type >= 2 {
            let (owned, layout) = handle();
            // SAFETY: it is refused.
            let wrong = unsafe { sharing::import_texture(&importer.memory, &picture, owned, &layout, desc) };
            let expected = Error::WrongMemoryType { memory_type, memory_type_bits: 0b11 };
            assert_eq!(wrong.err(), Some(ShareError::Make(expected)));
        }
        drop((imported, exported));
        importer.memory.reclaim();
    }
    assert_eq!(world.device.share_identity(), importer.device.share_identity());
    assert_eq!(importer.memory.budgets().memory_object_count(), 0);
    drop((importer.timelines, importer.memory));
    world.finish();
}

/// A heap of descriptors, as a library registers it. It stays in the list until `is_closed`.
struct Heap(std::sync::atomic::AtomicBool);

impl ReclaimHeap<sim::Device> for Heap {
    fn reclaim(&self, _: &Shared<sim::Device>, _: &Passed, _: bool, _: bool) -> bool {
        !self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn snapshot(&self, _: &mut Vec<ringfence::memory::DescriptorSnapshot>) {}

    unsafe fn destroy(&self, _: &Shared<sim::Device>) {}
}

/// A trace begins before the allocator has memory or descriptor heaps, and while no other trace is recorded.
#[test]
fn a_trace_begins_with_an_empty_allocator() {
    let world = fixture(Profile::h200());
    let (trace, shared) = (world.memory.trace(), world.memory.shared());
    assert!(!shared.is_recording());
    let heap = Arc::new(Heap(false.into()));
    shared.add_heap(Arc::clone(&heap) as Arc<dyn ReclaimHeap<_>>);
    let refused = trace.start(std::io::sink());
    assert!(matches!(refused, Err(StartTraceError::DescriptorHeaps)), "{refused:?}");
    assert!(!shared.is_recording());
    let held = [(); 2].map(|()| {
        let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
        world.memory.create_buffer(&info(KIB), alone).expect("room")
    });
    let refused = trace.start(std::io::sink());
    assert!(matches!(refused, Err(StartTraceError::NotEmpty { memory_objects: 2 })), "{refused:?}");
    heap.0.store(true, std::sync::atomic::Ordering::Relaxed);
    drop(held);
    world.memory.reclaim();
    world.memory.budgets().trim();
    trace.start(std::io::sink()).expect("nothing is left");
    assert!(shared.is_recording());
    let refused = trace.start(std::io::sink());
    assert!(matches!(refused, Err(StartTraceError::Recording)), "{refused:?}");
    assert!(trace.stop().expect("the sink takes all").is_some());
    assert!(!shared.is_recording());
    assert!(trace.stop().expect("nothing is written").is_none());
    world.finish();
}

/// Each reclaim records the value that each timeline has reached, and its own counts.
#[test]
fn a_trace_shows_what_each_reclaim_has_seen() {
    let world = Fixture::new(FixtureDesc { timelines: 2, ..Default::default() });
    let recording = Recording::default();
    world.memory.trace().start(recording.clone()).expect("nothing was created");
    for count in [2, 0, 3] {
        let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
        let made = (0..count).map(|_| world.memory.allocate(needs(KIB, 256), desc).expect("room"));
        drop(made.collect::<Vec<_>>());
        world.complete(world.timeline().begin());
        assert_eq!(world.memory.reclaim().objects, count);
    }
    world.memory.trace().stop().expect("writing to memory succeeds");
    let bytes = recording.bytes();
    let events: Vec<_> = Reader::new(&bytes[..]).expect("a trace").map(|event| event.expect("whole")).collect();
    let seen = events.iter().filter_map(|event| match event {
        Event::Completed { timeline, value } => Some((*timeline as u64, *value)),
        Event::Reclaimed { objects, .. } => Some((9, *objects)),
        _ => None,
    });
    let expected = [(0, 1), (1, 0), (9, 2), (0, 2), (1, 0), (9, 0), (0, 3), (1, 0), (9, 3)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::BlockMade { .. })), 5);
    assert_eq!(count(|event| matches!(event, Event::BlockFreed { .. })), 5);
    assert_eq!(count(|event| matches!(event, Event::FrameBegun { .. })), 3);
    assert_eq!(count(|event| matches!(event, Event::Submitted { .. })), 3);
    world.finish();
}

/// A trace is written while it is recorded, once 64 KiB have gathered.
#[test]
fn a_trace_is_written_before_it_is_stopped() {
    let world = fixture(Profile::h200());
    let recording = Recording::default();
    world.memory.trace().start(recording.clone()).expect("nothing was created");
    let begun = recording.bytes().len();
    let named = AllocationDesc { name: "a name that is written with each allocation", ..Default::default() };
    for _ in 0..40 {
        let made = (0..100).map(|_| world.memory.allocate(needs(KIB, 256), named).expect("room"));
        drop(made.collect::<Vec<_>>());
        world.memory.reclaim();
    }
    let written = recording.bytes().len();
    assert!(written - begun > 128 * KIB as usize, "{begun} bytes, then {written}");
    let summary = world.memory.trace().stop().expect("writing to memory succeeds").expect("it was recorded");
    assert!(summary.bytes as usize == recording.bytes().len(), "{summary:?}");
    world.finish();
}
