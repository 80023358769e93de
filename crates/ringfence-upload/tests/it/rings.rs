//! Rings at their limits: growth and shrinking with open frames, waits, pages, and what is reported about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use ringfence::debugging::DebugDesc;
use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError};
use ringfence::memory::Error;
use ringfence::sim::{BufferRange, Command, Device, Profile};
use ringfence::upload::{Texels, UploadDesc, UploadError, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, UploadBatch, UploadRing};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc};

const KIB: u64 = 1 << 10;

fn fixture(timelines: usize) -> Fixture {
    let allocator = AllocatorDesc { recycled_bytes_max: 0, ..Default::default() };
    Fixture::new(FixtureDesc { timelines, allocator, ..Default::default() })
}

fn grows(capacity_max: u64, shrink_after: u32) -> WhenFull {
    WhenFull::Grow { capacity_max, timeout: Duration::ZERO, shrink_after }
}

fn ring(world: &Fixture, capacity: u64, when_full: WhenFull) -> UploadRing<Device> {
    let desc = UploadDesc { capacity, when_full, name: "staging", ..Default::default() };
    UploadRing::new(&world.memory, desc).expect("there is room")
}

/// Reclaims until nothing changes any more.
fn settle(world: &Fixture) {
    (0..3).for_each(|_| _ = world.memory.reclaim());
}

/// Each replaced buffer is kept, not retired, until the frames that were open at its replacement are over, in whatever
/// order they end. If no frame is open, it is retired at once.
#[test]
fn a_replaced_buffer_is_kept_until_the_frames_of_its_time_are_over() {
    // The frame that ends first, and the retired buffers then: they wait for the other frame, as all retired objects do.
    for (first, retired) in [(0, 1), (1, 0)] {
        let world = fixture(2);
        let ring = ring(&world, 4 * KIB, grows(64 * KIB, 600));
        let begin = |nth: usize| world.timelines[nth].begin();
        let finish = |nth: usize, frame: ringfence::Frame| {
            world.device.submit(nth, &[], vec![], (world.fences[nth], frame.value())).expect("not lost");
            world.timelines[nth].submitted(frame).expect("in order");
            assert!(world.device.run_until_idle());
            settle(&world);
        };
        let buffers = || (world.device.live().buffers, world.memory.statistics().retired_count);
        let one = begin(0);
        ring.write_for(&one, &[1; 5000], 4).expect("the ring grows to 8 KiB");
        assert_eq!((ring.capacity(), buffers()), (8 * KIB, (2, 0)));
        let two = begin(1);
        ring.write_for(&two, &[2; 9000], 4).expect("the ring grows to 16 KiB");
        assert_eq!((ring.capacity(), buffers()), (16 * KIB, (3, 0)));
        settle(&world);
        assert_eq!(buffers(), (3, 0), "both frames are open");
        // The first buffer was replaced during frame `one`, the second one during both.
        let mut frames = [Some(one), Some(two)];
        let mut end = |nth: usize| finish(nth, frames[nth].take().expect("each ends once"));
        end(first);
        assert_eq!(buffers(), (3, retired), "frame {first} is over");
        end(1 - first);
        assert_eq!(buffers(), (1, 0));
        let last = begin(0);
        ring.write_for(&last, &[3; 16 << 10], 4).expect("the ring is empty");
        finish(0, last);
        assert_eq!(ring.snapshot().grow_count, 2);
        drop(ring);
        world.finish();
    }
}

/// A ring shrinks if at most a quarter was in use, one byte more keeps it. It never has less than its initial capacity.
#[test]
fn a_ring_shrinks_after_frames_that_use_a_quarter() {
    for (used, capacities) in [(4096, [8, 4, 4, 4]), (4097, [16, 16, 16, 16]), (2048, [8, 4, 4, 4])] {
        let world = fixture(1);
        let ring = ring(&world, 4 * KIB, grows(64 * KIB, 2));
        let frame = world.timeline().begin();
        ring.write_for(&frame, &[1; 16 << 10], 4).expect("the ring grows to what is needed");
        assert_eq!(ring.capacity(), 16 * KIB);
        world.complete(frame);
        // Counts the use of the large write.
        world.memory.reclaim();
        let seen = capacities.map(|_| {
            (0..2).for_each(|_| {
                let frame = world.timeline().begin();
                ring.write_for(&frame, &vec![2; used.min(ring.capacity() as usize / 4 + used % 2)], 1).expect("room");
                world.complete(frame);
                world.memory.reclaim();
            });
            ring.capacity() / KIB
        });
        assert_eq!(seen, capacities, "{used}");
        let shrinks = u64::from(capacities[0] < 16) * 2;
        assert_eq!((ring.snapshot().shrink_count, ring.snapshot().grow_count), (shrinks, 1), "{used}");
        drop(ring);
        world.finish();
    }
}

/// A full ring reads the timelines before it refuses, waits or grows: bytes of complete frames are free without a
/// reclaim.
#[test]
fn bytes_of_complete_frames_are_found_by_the_next_write() {
    for when_full in [WhenFull::Fail, WhenFull::Wait { timeout: Duration::ZERO }, grows(64 * KIB, 600)] {
        let world = fixture(1);
        let ring = ring(&world, 4 * KIB, when_full);
        for _ in 0..3 {
            let frame = world.timeline().begin();
            ring.write_for(&frame, &[1; 4 << 10], 4).expect("all of it");
            world.submit_frame(frame, vec![]);
            assert!(world.device.run_until_idle());
        }
        let snapshot = ring.snapshot();
        assert_eq!((snapshot.grow_count, snapshot.wait_count, snapshot.wait_ns), (0, 0, 0), "{when_full:?}");
        drop(ring);
        world.memory.reclaim();
        world.finish();
    }
}

/// A write larger than the ring makes it grow to a power of two that holds it, at most to its limit.
#[test]
fn a_write_beyond_the_capacity_makes_the_ring_grow_as_far_as_needed() {
    let max = 40 * KIB;
    for (size, expected) in [
        (4096, Ok(4 * KIB)),
        (4097, Ok(8 * KIB)),
        (8193, Ok(16 * KIB)),
        (33_000, Ok(40 * KIB)),
        (40_960, Ok(40 * KIB)),
        (40_961, Err(UploadError::TooLarge { size: 40_961, capacity: max })),
    ] {
        let world = fixture(1);
        let ring = ring(&world, 4 * KIB, grows(max, 600));
        let frame = world.timeline().begin();
        let written = ring.write_for(&frame, &vec![1; size], 1).map(|_| ring.capacity());
        assert_eq!(written, expected, "{size}");
        assert_eq!(ring.snapshot().grow_count, u64::from(expected.is_ok_and(|capacity| capacity > 4 * KIB)), "{size}");
        frame.discard();
        drop(ring);
        world.finish();
    }
}

/// A write larger than the ring cannot wait for room if the ring cannot grow: it is refused although the ring is empty.
#[test]
fn a_write_beyond_a_ring_that_cannot_grow_is_refused_at_once() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_object_bytes_max = 64 * KIB;
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let when_full = WhenFull::Grow { capacity_max: 1 << 20, timeout: Duration::MAX, shrink_after: 600 };
    let ring = ring(&world, 64 * KIB, when_full);
    let frame = world.timeline().begin();
    let refused = ring.write_for(&frame, &[1; 65 << 10], 4).map(drop);
    let grown = Error::TooLarge { size: 128 * KIB, max: 64 * KIB };
    assert_eq!((refused, ring.snapshot().wait_count), (Err(UploadError::Growth(grown)), 0));
    frame.discard();
    drop(ring);
    world.finish();
}

/// A frame that was dropped may still be submitted, so a wait with a deadline lasts until the deadline and counts. Without
/// a deadline it would never end, so the write is refused at once.
#[test]
fn only_a_wait_with_a_deadline_waits_for_a_dropped_frame() {
    for (timeout, waits) in [(Duration::MAX, 0), (Duration::from_millis(1), 1)] {
        let world = fixture(1);
        let ring = ring(&world, 4 * KIB, WhenFull::Wait { timeout });
        let dropped = world.timeline().begin();
        let point = dropped.point();
        ring.write_for(&dropped, &[1; 4 << 10], 4).expect("all of it");
        drop(dropped);
        let frame = world.timeline().begin();
        let refused = ring.write_for(&frame, &[1; 4], 4).expect_err("the dropped frame has all of it");
        let UploadError::Full { size: 4, free: 0, capacity, waits_for } = refused else { panic!("{refused:?}") };
        assert_eq!((capacity, waits_for), (4 * KIB, Some(point)));
        assert_eq!(ring.snapshot().wait_count, waits, "{timeout:?}");
        let text = refused.to_string();
        let expected =
            format!("4 bytes do not fit: 0 of 4096 bytes are free (the oldest bytes wait for {point}, which is not");
        assert!(text.starts_with(&expected), "{text}");
        frame.discard();
        world.timeline().discard_dropped();
        drop(ring);
        world.memory.reclaim();
        world.finish();
    }
}

#[test]
fn a_ring_that_does_not_wait_says_so() {
    let world = fixture(1);
    let ring = ring(&world, 4 * KIB, WhenFull::Fail);
    let frame = world.timeline().begin();
    ring.write_for(&frame, &[1; 4000], 4).expect("there is room");
    let refused = ring.write_for(&frame, &[1; 97], 4).expect_err("96 bytes are left").to_string();
    assert_eq!(refused, "97 bytes do not fit: 96 of 4096 bytes are free (the ring does not wait)");
    frame.discard();
    drop(ring);
    world.finish();
}

/// Another thread still copies bytes of a frame that is complete. A write that needs these bytes waits for the thread
/// until its deadline: if that is over, the write is refused.
#[test]
fn a_write_waits_for_the_copy_of_another_thread_until_its_deadline() {
    for (timeout, is_written) in [(Duration::ZERO, false), (Duration::from_secs(3600), true)] {
        let world = fixture(1);
        let ring = ring(&world, 4 * KIB, WhenFull::Wait { timeout });
        let (frame, next) = (world.timeline().begin(), world.timeline().begin());
        let mut writer = ring.writer(&frame).expect("its own frame");
        let ((begun, is_begun), (go, goes)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            let copier = scope.spawn(move || {
                let copied = writer.write_with(4096, 4, |to| {
                    begun.send(()).expect("the test waits for it");
                    _ = goes.recv();
                    to.fill(std::mem::MaybeUninit::new(1));
                });
                copied.map(drop)
            });
            is_begun.recv().expect("the copy begins");
            world.submit_frame(frame, vec![]);
            assert!(world.device.run_until_idle());
            let waiter = scope.spawn(|| ring.write_for(&next, &[2; 4096], 4).map(drop));
            if is_written {
                go.send(()).expect("the copy waits for it");
                assert_eq!(waiter.join().expect("no panic"), Ok(()));
            } else {
                let (said, hears) = channel();
                scope.spawn(move || said.send(waiter.join().expect("no panic")));
                let refused = hears.recv_timeout(Duration::from_secs(120));
                go.send(()).expect("the copy waits for it");
                assert!(matches!(refused, Ok(Err(UploadError::Timeout { .. }))), "{refused:?}");
            }
            assert_eq!(copier.join().expect("no panic"), Ok(()));
        });
        next.discard();
        drop(ring);
        world.memory.reclaim();
        world.finish();
    }
}

/// A writer takes a page of an eighth of the ring if there is room for it, otherwise only the bytes of the write. A write
/// that is larger than a page leaves the page to the writes after it.
#[test]
fn a_writer_keeps_its_page_over_larger_writes_and_takes_the_last_bytes() {
    let world = fixture(1);
    let ring = ring(&world, 4000, WhenFull::Fail);
    let frame = world.timeline().begin();
    let mut writer = ring.writer(&frame).expect("its own frame");
    let mut write = |size, alignment| writer.write(&vec![7; size], alignment).map(|staged| staged.offset);
    let sizes = [(100, 4), (600, 1), (50, 4), (100, 1), (500, 1)];
    let offsets = sizes.map(|(size, alignment)| write(size, alignment).expect("room"));
    assert_eq!(offsets, [0, 500, 100, 150, 1536], "a page begins at a multiple of 512");
    ring.write_for(&frame, &[1; 1548], 1).expect("416 bytes are left");
    assert_eq!(write(400, 1), Ok(3584), "less than a page");
    let refused = write(17, 1);
    assert!(matches!(refused, Err(UploadError::Full { size: 17, free: 16, .. })), "{refused:?}");
    drop(writer);
    frame.discard();
    assert_eq!(ring.snapshot().written_bytes, 100 + 600 + 50 + 100 + 500 + 1548 + 400);
    drop(ring);
    world.finish();
}

/// More frames are open than a staged range records, so that a batch checks none of them.
#[test]
fn bytes_for_three_open_frames_are_copied() {
    let world = fixture(3);
    let ring = ring(&world, 4 * KIB, WhenFull::Fail);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let target = world.memory.create_buffer(&BufferDesc { size: 64, usage }, AllocationDesc::default()).expect("room");
    for open in 1..=3 {
        let frames: Vec<_> = world.timelines[..open].iter().map(|timeline| timeline.begin()).collect();
        let value = open as u8;
        let staged = ring.write(&[value; 64], 4).expect("there is room");
        let mut batch = UploadBatch::new();
        batch.copy(&staged, &target, 0).expect("the frames are open");
        let mut commands = Vec::<Command>::new();
        // SAFETY: the commands are submitted as the first frame.
        unsafe { batch.record(&mut commands) }.expect("the frames are open");
        for (nth, frame) in frames.into_iter().enumerate() {
            let commands = std::mem::take(&mut commands);
            world.device.submit(nth, &[], commands, (world.fences[nth], frame.value())).expect("not lost");
            world.timelines[nth].submitted(frame).expect("in order");
        }
        assert!(world.device.run_until_idle());
        world.memory.reclaim();
        assert_eq!(
            world.device.peek(BufferRange::new(*target.object(), 0, 64)),
            Some(vec![value; 64]),
            "{open} frames"
        );
        assert_eq!(ring.snapshot().used_bytes, 0);
    }
    drop((ring, target));
    world.memory.reclaim();
    world.finish();
}

/// The program's callback makes room, and writes to the same ring, which grows meanwhile. The write that called it finds
/// the larger buffer and does not grow the ring again.
#[test]
fn a_ring_that_grew_during_the_eviction_callback_does_not_grow_twice() {
    let world = FaultyFixture::faulty(FixtureDesc::default());
    let desc = UploadDesc { capacity: 16 << 20, when_full: grows(1 << 30, 600), ..Default::default() };
    let ring = Arc::new(UploadRing::new(&world.memory, desc).expect("there is room"));
    let frame = world.timeline().begin();
    ring.write_for(&frame, &vec![1; 16 << 20], 4).expect("all of it");
    // The driver has no memory until the callback runs.
    let error = DeviceError::OutOfDeviceMemory;
    for call in [Call::AllocateMemory, Call::Dedicate] {
        world.faults.add(Rule { call: Some(call), ..Rule::new(error) });
    }
    let (calls, faults) = (Arc::new(AtomicUsize::new(0)), world.faults.clone());
    let (counted, inner, point) = (Arc::clone(&calls), Arc::clone(&ring), world.timeline().clone());
    world.memory.budgets().set_eviction(Some(Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        faults.clear();
        let own = point.begin();
        let written = inner.write_for(&own, &vec![2; 16 << 20], 4);
        own.discard();
        written.is_ok()
    })));
    ring.write_for(&frame, &[3; 1024], 4).expect("the ring has grown");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    world.memory.budgets().set_eviction(None);
    assert_eq!((ring.capacity() >> 20, ring.snapshot().grow_count), (32, 1));
    frame.discard();
    drop(ring);
    world.memory.reclaim();
    world.finish();
}

/// The driver's objects and the allocator's reports have the name of the ring, and a report of all rings lists each once.
#[test]
fn a_ring_is_reported_under_its_name() {
    let debug = DebugDesc { leaks: true, ..Default::default() };
    let allocator = AllocatorDesc { debug, ..Default::default() };
    let world = Fixture::new(FixtureDesc { allocator, ..Default::default() });
    let ring = ring(&world, 4 * KIB, grows(64 * KIB, 600));
    let frame = world.timeline().begin();
    ring.write_for(&frame, &[1; 5000], 4).expect("the ring grows");
    let names: Vec<_> = world.memory.debug().live().iter().map(|live| live.name.to_string()).collect();
    assert_eq!(names, ["staging", "staging"], "the present buffer and the replaced one");
    let rings: Vec<_> =
        world.memory.snapshot().rings.into_iter().map(|ring| (ring.name, ring.capacity_bytes)).collect();
    assert_eq!(rings, [("staging".to_owned(), 8 * KIB)]);
    frame.discard();
    drop(ring);
    world.memory.reclaim();
    world.finish();
}

/// Staged texels have exactly their bytes, and the device address of their first byte, on devices that copy only from
/// aligned offsets.
#[test]
fn staged_texels_have_the_address_of_their_first_byte() {
    for profile in Profile::all() {
        let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
        let usage = BufferUsage::COPY_SRC | BufferUsage::DEVICE_ADDRESS;
        let desc = UploadDesc { capacity: 64 * KIB, usage, when_full: WhenFull::Fail, ..Default::default() };
        let ring = UploadRing::new(&world.memory, desc).expect("there is room");
        let frame = world.timeline().begin();
        let plain = ring.write_for(&frame, &[1; 10], 1).expect("there is room");
        let base = plain.address.map(|address| address - plain.offset);
        // Texels of 12 bytes begin at multiples of 12 bytes, so bytes before them may be lost.
        for (width, height, texel_bytes) in [(3, 3, 4), (5, 1, 12), (1, 7, 12), (2, 2, 16), (4, 3, 12)] {
            let needed = u64::from(width) * u64::from(texel_bytes);
            let bytes = vec![7; needed as usize * height as usize];
            let texels = Texels::new(width, height, texel_bytes, &bytes);
            let staged = ring.write_texels(&frame, &texels).expect("there is room");
            let Texels { row_bytes, bytes, .. } = &staged;
            assert!(bytes.offset.is_multiple_of(texel_bytes.into()), "{staged:?}");
            assert_eq!(bytes.size, row_bytes * u64::from(height - 1) + needed);
            assert_eq!(bytes.address, base.map(|base| base + bytes.offset));
        }
        frame.discard();
        drop(ring);
        world.finish();
    }
}
