//! Misuse that compiles is found and named, in release builds too, because no check is a debug assertion
//! (`ci/campaign.sh` runs this file that way). For misuse that does not compile, see `src/impossible.rs`.

use std::time::Duration;

use ringfence::algorithms::range::{Allocate, FreeError, Range, RangeAllocator, Serial};
use ringfence::algorithms::tlsf::Tlsf;
use ringfence::defrag::DefragDesc;
use ringfence::descriptor::{BindlessDesc, DescriptorError, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Requirements, ResourceClass};
use ringfence::lifetime::FrameError;
use ringfence::memory::{AccessError, Error};
use ringfence::sim::{Command, Device, HazardKind, Profile, SimOptions};
use ringfence::transient::{TransientDesc, TransientError};
use ringfence::upload::{ConstantsDesc, SubmitError, UploadDesc, UploadError, WhenFull};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, ConstantBuffers, Location, ShaderVisibleHeap,
    TransientAllocator, UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn world() -> Fixture {
    Fixture::new(FixtureDesc::default())
}

fn buffer(memory: &Allocator<Device>, location: Location) -> Buffer<Device> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
    let usage = if location == Location::Device { usage } else { BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let desc = AllocationDesc { location, name: "misused", ..Default::default() };
    memory.create_buffer(&BufferDesc { size: 256, usage }, desc).expect("there is room")
}

fn copy(from: &Buffer<Device>, to: &Buffer<Device>) -> Command {
    Command::CopyBuffer { src: *from.object(), src_offset: 0, dst: *to.object(), dst_offset: 0, size: 256 }
}

#[test]
fn a_range_that_is_freed_twice_is_stale_and_one_of_another_allocator_foreign() {
    let (mut one, mut other) = (Tlsf::new(1024), Tlsf::new(1024));
    let range = one.allocate(100, 1).expect("room");
    assert_eq!(other.free(range), Err(FreeError::Foreign { offset: 0, size: 100 }));
    one.free(range).expect("live");
    assert_eq!(one.free(range), Err(FreeError::Stale { offset: 0, size: 100 }));
    let reused = one.allocate(100, 1).expect("room");
    assert_eq!(
        one.free(range),
        Err(FreeError::Stale { offset: 0, size: 100 }),
        "although another resource is there now"
    );
    let forged = Range::new(0, 100, reused.slot(), Serial::from_u64(7).expect("not 0"));
    assert!(one.free(forged).is_err() && one.is_live(&reused));
}

/// A generation of 32 bits would wrap here. Serials are 64 bits wide, and continue after a block of 2³² is used up
/// (`range::tests::serials_are_unique_across_sources_and_block_ends`). A year with a billion allocations per second is
/// 2⁵⁵.
#[test]
fn serials_do_not_wrap_in_any_run() {
    let mut heap = Tlsf::new(64);
    let mut last = 0;
    for _ in 0..100_000 {
        let range = heap.allocate(64, 1).expect("room");
        assert!(range.serial().get() > last, "numbers rise, and are never given again");
        last = range.serial().get();
        heap.free(range).expect("live");
    }
}

#[test]
fn a_stale_bindless_index_is_named_with_its_generation() {
    let world = world();
    let desc = ShaderVisibleDesc { frame_slots: 8, persistent_slots: 8, chunk_slots: 4, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&world.memory, desc).expect("small");
    let table =
        BindlessTable::new(&world.memory, &heap, BindlessDesc { capacity: 2, clear_freed: true }).expect("room");
    let shown = buffer(&world.memory, Location::Device);
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    let view = View::buffer(&shown, BufferView { kind, offset: 0, size: 256 }).expect("made for it");
    let index = table.insert(&view).expect("room").into_index();
    table.remove(index).expect("live");
    let stale = DescriptorError::Stale { slot: index.slot(), generation: index.generation() };
    assert_eq!((table.remove(index), table.update(index, &view)), (Err(stale), Err(stale)));
}

#[test]
fn a_transient_handle_of_an_earlier_frame_is_stale() {
    let world = world();
    let mut transient =
        TransientAllocator::new(&world.memory, TransientDesc { heap_bytes: 1 << 20, ..Default::default() });
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    let usage = BufferUsage::COPY_DST;
    let held = execution.acquire_buffer(&BufferDesc { size: 256, usage }, pass, "").expect("room");
    execution.finish(&[]);
    let execution = transient.begin();
    assert!(matches!(execution.buffer(held), Err(TransientError::Stale { .. })));
}

#[test]
fn what_belongs_to_another_allocator_is_refused_by_name() {
    let (one, other) = (world(), world());
    let frame = other.timeline().begin();
    let point = frame.point();
    let ring = UploadRing::new(&one.memory, UploadDesc { capacity: 4096, ..Default::default() }).expect("room");
    assert_eq!(ring.write_for(&frame, &[1; 4], 4).err(), Some(UploadError::ForeignFrame { frame: point }));
    let refused = one.timeline().submitted(frame).expect_err("a frame of another timeline");
    let FrameError::WrongTimeline { frame, timeline } = refused else { panic!("{refused:?}") };
    assert_eq!((frame.point(), timeline), (point, one.timeline().id()));
    assert_ne!(one.timeline().id(), other.timeline().id(), "ids are unique in the process");
    frame.discard();
}

#[test]
fn a_pass_on_another_allocators_timeline_is_refused_by_name() {
    let (one, other) = (world(), world());
    let desc = TransientDesc { heap_bytes: 1 << 20, ..Default::default() };
    let mut transient = TransientAllocator::new(&one.memory, desc);
    let mut execution = transient.begin();
    let queue = other.timeline().id();
    assert_eq!(execution.pass(queue, &[]), Err(TransientError::ForeignQueue { queue }));
    execution.pass(one.timeline().id(), &[]).expect("its own");
}

/// Only `unsafe` code can free a resource in use. The simulated device names the freed resource and the work that used
/// it.
#[test]
fn freed_during_use_is_found_and_named() {
    let world = world();
    let (from, to) = (buffer(&world.memory, Location::Upload), buffer(&world.memory, Location::Device));
    let frame = world.timeline().begin();
    world.device.pause(0);
    world.device.submit(0, &[], vec![copy(&from, &to)], (world.fence(), frame.value())).expect("not lost");
    world.timeline().submitted(frame).expect("in order");
    // SAFETY: violated on purpose. The simulated device reports it, and no host memory is accessed.
    unsafe { from.destroy_now() };
    let found = world.device.take_hazards();
    let named = |text: &str| text.contains("'misused'") && text.contains("queue 0") && text.contains("may still read");
    assert!(
        found.iter().any(|hazard| hazard.kind == HazardKind::DestroyedWhilePending && named(&hazard.to_string())),
        "{found:?}"
    );
    world.device.resume(0);
}

/// The work was submitted, but the frame was neither declared as submitted nor discarded: the resources that it uses
/// are kept, and a ring that waits names the frame. Discarding a frame that was submitted breaks the promise of
/// `Allocator::timeline`, and the simulated device names the resource that was freed during the work.
#[test]
fn a_forgotten_submitted_holds_what_it_uses_and_a_false_discard_is_found_by_the_device() {
    let world = world();
    let desc =
        UploadDesc { capacity: 4096, when_full: WhenFull::Wait { timeout: Duration::MAX }, ..Default::default() };
    let ring = UploadRing::new(&world.memory, desc).expect("room");
    let frame = world.timeline().begin();
    let point = frame.point();
    ring.write_for(&frame, &[1; 3000], 4).expect("room");
    world.device.submit(0, &[], vec![], (world.fence(), frame.value())).expect("not lost");
    let next = world.timeline().begin();
    let refused = ring.write_for(&next, &[1; 3000], 4).err();
    // The device has signalled the value that the program never declared as submitted. So the ring may have space by
    // now; otherwise the error names the frame that it waits for.
    let names =
        |error: &UploadError| matches!(error, UploadError::Full { waits_for: Some(held), .. } if *held == point);
    assert!(refused.as_ref().is_none_or(names), "{refused:?}");
    drop(frame);
    next.discard();

    let held = buffer(&world.memory, Location::Upload);
    let to = buffer(&world.memory, Location::Device);
    let frame = world.timeline().begin();
    world.device.pause(0);
    let _ = world.device.submit(0, &[], vec![copy(&held, &to)], (world.fence(), frame.value()));
    drop(frame);
    drop(held);
    assert_eq!(world.memory.reclaim().objects, 0);
    assert_eq!(world.device.take_hazards(), [], "it is dropped, and may still execute");
    world.device.resume(0);
    world.device.advance(1_000_000);
    assert_eq!(world.memory.reclaim().objects, 1);

    let held = buffer(&world.memory, Location::Upload);
    let frame = world.timeline().begin();
    world.device.pause(0);
    let _ = world.device.submit(0, &[], vec![copy(&held, &to)], (world.fence(), frame.value()));
    frame.discard();
    drop(held);
    world.memory.reclaim();
    let found = world.device.take_hazards();
    assert!(found.iter().any(|hazard| hazard.kind == HazardKind::DestroyedWhilePending), "{found:?}");
    world.device.resume(0);
}

#[test]
fn a_discarded_frame_holds_nothing_for_ever_and_its_value_is_never_given_again() {
    let world = world();
    let frame = world.timeline().begin();
    let value = frame.value();
    drop(buffer(&world.memory, Location::Device));
    assert_eq!(world.memory.reclaim().waiting, 1, "the open frame may use it");
    frame.discard();
    assert_eq!(world.memory.reclaim().objects, 1);
    let next = world.timeline().begin();
    assert!(next.value() > value);
    next.discard();
}

#[test]
fn an_allocator_that_is_dropped_with_live_allocations_lives_as_long_as_they_do() {
    let Fixture { device, memory, timelines, .. } = world();
    let mut held = buffer(&memory, Location::Upload);
    drop((memory, timelines));
    held.write(0, &[7; 256]).expect("it is alive and mapped");
    assert_eq!(device.live().buffers, 1);
    drop(held);
    assert_eq!(device.live(), Default::default());
    assert_eq!(device.hazards(), []);
}

#[test]
fn frames_out_of_order_and_writes_out_of_range_are_named() {
    let world = world();
    let (first, second) = (world.timeline().begin(), world.timeline().begin());
    let (point, later) = (first.point(), second.value());
    // Without it, dropping the allocator would wait for a value that is never signalled, and leak the resources of that
    // frame.
    world.device.submit(0, &[], vec![], (world.fence(), later)).expect("not lost");
    world.timeline().submitted(second).expect("the later one may be submitted first");
    let refused = world.timeline().submitted(first).expect_err("a later one was submitted");
    let FrameError::OutOfOrder { frame, submitted } = refused else { panic!("{refused:?}") };
    assert_eq!((frame.point(), submitted), (point, later));
    frame.discard();
    let mut held = buffer(&world.memory, Location::Upload);
    let refused = held.write(200, &[1; 100]);
    assert!(matches!(refused, Err(AccessError::OutOfRange { offset: 200, size: 100, .. })), "{refused:?}");
    let refused = buffer(&world.memory, Location::Device).write(0, &[1]);
    assert!(matches!(refused, Ok(()) | Err(AccessError::NotMapped)), "{refused:?}");
}

/// The destinations of a pass belong to its run, so a leaked pass does not keep memory alive after the allocator.
#[test]
fn a_pass_that_is_forgotten_leaves_nothing_behind() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    for ends_with_the_run in [true, false] {
        let small = AllocatorDesc { device_block_bytes_max: 256 << 10, ..Default::default() };
        let memory = Allocator::over(device.clone(), small);
        let fence = device.create_fence(0);
        // SAFETY: every frame signals the fence.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let info = BufferDesc { size: 60 << 10, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        let desc = AllocationDesc { movable: true, ..Default::default() };
        let held: Vec<_> = (0..32).map(|_| memory.create_buffer(&info, desc).expect("room")).collect();
        let mut held: Vec<_> =
            held.into_iter().enumerate().filter(|(at, _)| at % 4 == 0).map(|(_, buffer)| buffer).collect();
        memory.reclaim();
        let before = memory.statistics().total().range_count;
        let mut run = memory.defragment(DefragDesc::default());
        let frame = timeline.begin();
        let pass = run.begin_pass(&frame).expect("our own frame");
        let count = pass.moves().len();
        assert!(count > 0);
        std::mem::forget(pass);
        if !ends_with_the_run {
            drop(run.begin_pass(&frame).expect("our own frame"));
            assert!(run.statistics().ignored_count >= count as u64, "those of the pass that was forgotten");
        }
        drop(run);
        assert_eq!(memory.statistics().total().range_count, before, "the room is free again");
        // Another run can move them.
        let mut run = memory.defragment(DefragDesc::default());
        let mut pass = run.begin_pass(&frame).expect("our own frame");
        let moved = held.iter_mut().map(|buffer| usize::from(pass.copy_buffer(buffer).is_ok())).sum::<usize>();
        assert!(moved > 0 && moved == pass.moves().len());
        std::mem::forget(pass);
        drop(run);
        frame.discard();
        memory.debug().validate().expect("sound");
        drop(held);
        memory.shutdown(Duration::MAX).expect("no work is pending");
        drop((memory, timeline));
        assert_eq!(device.live(), Default::default(), "no object outlives the allocator");
    }
}

/// An aliasing resource outside of the memory is rejected, even if offset plus size overflows, and its object is
/// destroyed.
#[test]
fn an_aliasing_resource_far_outside_is_refused_and_not_lost() {
    let world = world();
    let needs = Requirements {
        size: 4096,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let mut first = world.memory.allocate(needs, AllocationDesc::default()).expect("room");
    let mut second = world.memory.allocate(needs, AllocationDesc::default()).expect("room");
    let before = world.device.live();
    for held in [&mut first, &mut second] {
        for offset in [u64::MAX, u64::MAX - 255, 1 << 63, 4096, 3841] {
            let info = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
            let refused = held.create_aliasing_buffer(&info, offset, "").expect_err("outside");
            assert!(matches!(refused, Error::DoesNotFit { offset: at, .. } if at == offset), "{refused}");
        }
    }
    assert_eq!(world.device.live(), before, "no object is lost");
}

/// Tests every description with a location, with each location.
#[test]
fn a_location_that_the_host_does_not_write_is_refused_when_a_ring_is_made() {
    let world = world();
    for location in [Location::Device, Location::Readback] {
        let refused = UploadRing::new(&world.memory, UploadDesc { location, capacity: 4096, ..Default::default() });
        assert_eq!(refused.err(), Some(Error::NotHostWritten { location }));
        let constants = ConstantsDesc { location, ..Default::default() };
        let refused = ConstantBuffers::new(&world.memory, constants, ());
        assert_eq!(refused.err(), Some(Error::NotHostWritten { location }));
    }
    assert_eq!(world.device.live(), Default::default(), "no object was created");
    let frame = world.timeline().begin();
    for location in [Location::Upload, Location::DeviceUpload] {
        let ring = UploadRing::new(&world.memory, UploadDesc { location, capacity: 4096, ..Default::default() });
        ring.expect("room").write_for(&frame, &[1; 4], 4).expect("the host writes it");
        let constants = ConstantsDesc { location, ..Default::default() };
        let constants = ConstantBuffers::new(&world.memory, constants, ()).expect("room");
        let bound = constants.dynamic(16).expect("small");
        constants.writer(&frame).expect("our own").bind(&bound).expect("the host writes it");
    }
    frame.discard();
}

#[test]
fn a_fence_without_values_left_is_refused() {
    let world = world();
    let made = |value| {
        // SAFETY: there are no submissions.
        unsafe { world.memory.timeline(world.device.create_fence(value)) }.map(|timeline| timeline.begin().value())
    };
    let refused = DeviceError::invalid("the fence of a timeline has too few values left");
    for value in [u64::MAX - 1, u64::MAX - 2, 1 << 63] {
        assert_eq!(made(value), refused.at_most(value, u64::MAX >> 1).map(|()| 0));
    }
    assert_eq!(made(u64::MAX >> 1), Ok(1 << 63));
}

/// `use ringfence::*` must not hide a crate of the standard library.
mod all_at_once {
    #[allow(unused_imports, reason = "the import is tested")]
    use ringfence::*;

    #[test]
    fn an_import_of_all_names_hides_no_crate_of_the_standard_library() {
        assert_eq!((core::mem::size_of::<u32>(), std::mem::align_of::<u16>()), (4, 2));
    }
}

/// A wait takes a value of its timeline, or a point, which names its timeline.
#[test]
fn a_wait_for_a_point_of_another_timeline_is_refused() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fences = [0, 0].map(|value| device.create_fence(value));
    // SAFETY: each submission signals the fence of its timeline.
    let [own, other] = fences.map(|fence| unsafe { memory.timeline(fence) }.expect("the device is not lost"));
    let point = own
        .submit(own.begin(), |value| {
            device.submit(0, &[], Vec::<Command>::new(), (fences[0], value)).expect("the device is not lost");
            Ok::<_, FrameError>(())
        })
        .expect("in order");
    assert_eq!(own.wait_for(point, Duration::from_secs(60)), Ok(true));
    let refused = other.wait_for(point, Duration::ZERO);
    assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{refused:?}");
    let later = own.begin().point();
    assert_eq!(own.wait_for(later, Duration::ZERO), Ok(false), "it is not submitted");
}

/// The error of a submission converts to the boxed errors that programs return.
#[test]
fn errors_of_submissions_convert_to_boxed_errors() {
    type Plain = Box<dyn std::error::Error>;
    type Threaded = Box<dyn std::error::Error + Send + Sync>;
    fn plain(error: SubmitError<Plain>) -> Result<(), Plain> {
        Err(error)?
    }
    fn threaded(error: SubmitError<Threaded>) -> Result<(), Threaded> {
        Err(error)?
    }
    let expected = "the copies were not submitted: the queue is lost";
    let error = plain(SubmitError::Submit("the queue is lost".into())).expect_err("an error");
    assert_eq!(error.to_string(), expected);
    let error = threaded(SubmitError::Submit("the queue is lost".into())).expect_err("an error");
    assert_eq!(error.to_string(), expected);
}
