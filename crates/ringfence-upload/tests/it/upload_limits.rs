//! Rings and constants when memory is short, when frames are discarded, and when the device is lost.

use ringfence::device::{BufferDesc, BufferUsage, DeviceError};
use ringfence::memory::Error;
use ringfence::placement::FastConstantsDesc;
use ringfence::sim::{Command, Device, Fence, Profile, SimOptions};
use ringfence::upload::{
    BoundConstants, ConstantsDesc, ReadbackDesc, ReadbackError, StaticConstants, UploadDesc, UploadError, WhenFull,
};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, ConstantBuffers, FastConstants, Frame, Location, ReadbackRing, Timeline,
    UploadBatch, UploadRing,
};
use std::time::Duration;

struct Program {
    device: Device,
    fence: Fence,
    timeline: Timeline<Device>,
    memory: Allocator<Device>,
}

impl Program {
    fn new(profile: Profile) -> Self {
        let device = Device::new(profile, SimOptions::default());
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { device, fence, timeline, memory }
    }

    fn submit(&self, frame: Frame) {
        self.submit_commands(frame, vec![]);
    }

    fn submit_commands(&self, frame: Frame, commands: Vec<Command>) {
        self.device.submit(0, &[], commands, (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
    }

    /// Creates constants with small pools that can be read back.
    fn constants(&self) -> ConstantBuffers<Device> {
        let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC;
        let desc = ConstantsDesc { dynamic_slots: 8, static_slots: 4, shrink_after: 3, usage, ..Default::default() };
        ConstantBuffers::new(&self.memory, desc, ()).expect("there is room")
    }

    /// Reads the bound constants after `commands`, in the same frame.
    fn read(&self, frame: Frame, mut commands: Vec<Command>, bound: &BoundConstants<Device, ()>) -> Vec<u8> {
        let desc = AllocationDesc { location: Location::Readback, ..Default::default() };
        let target = BufferDesc { size: bound.size, usage: BufferUsage::COPY_DST };
        let target = self.memory.create_buffer(&target, desc).expect("there is room");
        let (src, src_offset, dst) = (bound.buffer, bound.offset, *target.object());
        commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: bound.size });
        self.submit_commands(frame, commands);
        assert!(self.device.run_until_idle());
        let mut bytes = vec![0; bound.size as usize];
        target.read(0, &mut bytes).expect("readback memory is mapped");
        bytes
    }

    /// Stages the constants in a frame of their own, which is submitted. Returns their number and their contents.
    fn upload(&self, constants: &ConstantBuffers<Device>, all: &[&StaticConstants<Device, ()>]) -> (u64, Vec<u8>) {
        let frame = self.timeline.begin();
        let mut batch = UploadBatch::new();
        let mut writer = constants.writer(&frame).expect("the allocator's own");
        let count = constants.upload_statics(&mut writer, &mut batch).expect("there is room");
        drop(writer);
        let mut commands: Vec<Command> = vec![];
        // SAFETY: the commands are submitted in the frame that the batch was staged in.
        unsafe { batch.record(&mut commands) }.expect("its frame is open");
        self.submit_commands(frame, commands);
        (count, all.iter().map(|held| self.read(self.timeline.begin(), vec![], held.bound())[0]).collect())
    }
}

/// The possible ends of a frame that is not submitted.
const UNSUBMITTED: [fn(Frame); 2] = [Frame::discard, drop::<Frame>];

#[test]
fn the_result_of_a_frame_that_was_not_submitted_never_comes() {
    let program = Program::new(Profile::h200());
    let desc = ReadbackDesc { capacity: 4096, ..Default::default() };
    let ring = ReadbackRing::new(&program.memory, desc).expect("there is room");
    for end in UNSUBMITTED {
        let frame = program.timeline.begin();
        let (point, mut bytes) = (frame.point(), [0; 64]);
        let result = ring.reserve(&frame, 64, 4).expect("there is room");
        let wait = || result.wait(Duration::from_millis(1));
        assert_eq!((result.is_ready(), wait()), (Ok(false), Err(ReadbackError::NotReady { point })));
        end(frame);
        let never = Err(ReadbackError::NotSubmitted { point });
        assert_eq!((result.is_ready(), wait(), result.read(&mut bytes)), (Ok(false), never, never));
        // The value of a later frame covers this frame too.
        let frame = program.timeline.begin();
        let later = ring.reserve(&frame, 64, 4).expect("there is room");
        program.submit(frame);
        assert!(program.device.run_until_idle());
        program.memory.reclaim();
        assert_eq!((result.is_ready(), wait(), result.read(&mut bytes)), (Ok(false), never, never));
        assert_eq!((later.is_ready(), later.wait(Duration::ZERO), later.read(&mut bytes)), (Ok(true), Ok(()), Ok(())));
    }
    program.memory.reclaim();
    assert_eq!(ring.snapshot().used_bytes, 0, "all bytes came back");
}

#[test]
fn static_content_that_a_frame_staged_in_vain_is_staged_again() {
    let program = Program::new(Profile::h200());
    for end in UNSUBMITTED {
        let constants = program.constants();
        let stage = |frame: &Frame| {
            let mut writer = constants.writer(frame).expect("the allocator's own");
            constants.upload_statics(&mut writer, &mut UploadBatch::new()).expect("there is room")
        };
        let mut all: Vec<_> =
            (1..=7).map(|value| constants.create_static(&[value; 64]).expect("there is room")).collect();
        let frame = program.timeline.begin();
        assert_eq!(stage(&frame), 7);
        all[1].update(&[12; 64]).expect("it fits");
        all[2].update(&[13; 100]).expect("it fits");
        assert_eq!(stage(&frame), 2, "twice in one frame");
        all[3].update(&[14; 64]).expect("it fits");
        drop(all.pop());
        end(frame);
        // Another frame ends like that, with newer content of one of them.
        all[4].update(&[15; 64]).expect("it fits");
        let frame = program.timeline.begin();
        assert_eq!(stage(&frame), 6, "all but the one that was dropped");
        end(frame);
        let held: Vec<_> = all.iter().collect();
        assert_eq!(program.upload(&constants, &held), (6, vec![1, 12, 13, 14, 15, 6]), "the latest of each");
        assert_eq!(program.upload(&constants, &held), (0, vec![1, 12, 13, 14, 15, 6]), "once");
        drop(all);
        program.memory.reclaim();
    }
    assert_eq!(program.device.take_hazards(), []);
}

/// Two frames are open: the content that the first one staged without a submission is older than that of the second.
#[test]
fn older_static_content_does_not_come_back_after_newer() {
    let program = Program::new(Profile::h200());
    let constants = program.constants();
    let mut fixed = constants.create_static(&[1; 64]).expect("there is room");
    let early = program.timeline.begin();
    let mut writer = constants.writer(&early).expect("the allocator's own");
    assert_eq!(constants.upload_statics(&mut writer, &mut UploadBatch::new()), Ok(1));
    drop(writer);
    fixed.update(&[2; 64]).expect("it fits");
    assert_eq!(program.upload(&constants, &[&fixed]), (1, vec![2]));
    early.discard();
    assert_eq!(program.upload(&constants, &[&fixed]), (0, vec![2]));
    assert_eq!(program.device.take_hazards(), []);
}

#[test]
fn the_rest_of_a_dynamic_slot_is_0() {
    let program = Program::new(Profile::h200());
    let constants = program.constants();
    for size in [256, 16, 1600, 1100] {
        for value in 1..=20_u8 {
            let mut dynamic = constants.dynamic(size).expect("a size that is served");
            dynamic.set(0, &vec![value; size as usize]).expect("it fits");
            let frame = program.timeline.begin();
            let bound = constants.writer(&frame).expect("the allocator's own").bind(&dynamic).expect("there is room");
            let read = program.read(frame, vec![], &bound);
            let (content, rest) = read.split_at(size as usize);
            assert!(
                content.iter().all(|byte| *byte == value) && rest.iter().all(|byte| *byte == 0),
                "{size}: {read:?}"
            );
            program.memory.reclaim();
        }
    }
    assert_eq!(program.device.take_hazards(), []);
}

#[test]
fn static_pools_that_stay_empty_are_released() {
    let program = Program::new(Profile::h200());
    let constants = program.constants();
    let create = |value: u8, size: usize| constants.create_static(&vec![value; size]).expect("there is room");
    let mut all: Vec<_> = (0..40).map(|value| create(value, 64)).collect();
    let large = create(1, 2000);
    let kept = all.split_off(37);
    assert_eq!(constants.static_pool_count(), 11);
    drop((all, large));
    for count in [10, 10, 10, 10] {
        assert_eq!(constants.static_pool_count(), count);
        program.memory.reclaim();
    }
    assert_eq!(constants.static_pool_count(), 1, "the first reclaim frees the slots, and three more pass");
    let again: Vec<_> = (0..6).map(|value| create(100 + value, 64)).collect();
    assert_eq!(constants.static_pool_count(), 3, "one slot of the pool that was left, and two pools more");
    let held: Vec<_> = kept.iter().chain(&again).collect();
    assert_eq!(program.upload(&constants, &held), (9, vec![37, 38, 39, 100, 101, 102, 103, 104, 105]));
    // A frame that may use a slot keeps its pool.
    let frame = program.timeline.begin();
    drop((kept, again));
    (0..9).for_each(|_| _ = program.memory.reclaim());
    assert_eq!(constants.static_pool_count(), 3);
    program.submit(frame);
    assert!(program.device.run_until_idle());
    (0..4).for_each(|_| _ = program.memory.reclaim());
    assert_eq!(constants.static_pool_count(), 0);
    program.memory.reclaim();
    assert_eq!(program.memory.statistics().retired_count, 0);
    assert_eq!(program.device.take_hazards(), []);
}

#[test]
fn constants_as_large_as_their_page_are_written() {
    let program = Program::new(Profile::h200());
    for page_bytes in [1, 100, 1000, 1024, 65_535] {
        let fast = FastConstants::new(&program.memory, FastConstantsDesc { page_bytes, ..Default::default() });
        let frame = program.timeline.begin();
        let mut writer = fast.writer(&frame).expect("the allocator's own");
        assert_eq!(writer.write(&vec![1; page_bytes as usize]).map(|staged| staged.size), Ok(page_bytes));
        let refused = writer.write(&vec![1; page_bytes as usize + 256]).map(drop);
        let Err(UploadError::TooLarge { size, capacity }) = refused else { panic!("{refused:?}") };
        assert!(size > capacity && (page_bytes..page_bytes + 256).contains(&capacity), "{refused:?}");
        drop(writer);
        program.submit(frame);
    }
}

/// No memory object is larger than 64 KiB.
fn cramped() -> Profile {
    let mut profile = Profile::h200();
    profile.capabilities.memory_object_bytes_max = 64 << 10;
    profile
}

#[test]
fn a_ring_that_cannot_grow_waits_and_says_so_if_that_is_of_no_use() {
    let program = Program::new(cramped());
    let when_full = WhenFull::Grow { capacity_max: 1 << 20, timeout: Duration::MAX, shrink_after: 600 };
    let desc = UploadDesc { capacity: 64 << 10, when_full, ..Default::default() };
    let ring = UploadRing::new(&program.memory, desc).expect("it just fits");
    let frame = program.timeline.begin();
    ring.write(&[1; 60 << 10], 4).expect("there is room");
    let refused = ring.write(&[1; 60 << 10], 4);
    let grown = Error::TooLarge { size: 128 << 10, max: 64 << 10 };
    assert_eq!(refused.err(), Some(UploadError::Growth(grown)), "the open frame uses the whole ring");
    assert_eq!((ring.capacity(), ring.snapshot().grow_count), (64 << 10, 0));
    program.submit(frame);
    let frame = program.timeline.begin();
    ring.write(&[1; 60 << 10], 4).expect("now it can wait for the previous frame");
    ring.validate().expect("the ring is sound");
    program.submit(frame);
    assert!(program.device.run_until_idle());
    assert_eq!(program.device.take_hazards(), []);
}

/// The open frame uses the whole ring, so writes are rejected immediately.
#[test]
fn a_write_that_is_refused_at_once_counts_as_no_wait() {
    let program = Program::new(Profile::h200());
    for timeout in [Duration::MAX, Duration::from_secs(60)] {
        let desc = UploadDesc { capacity: 4 << 10, when_full: WhenFull::Wait { timeout }, ..Default::default() };
        let ring = UploadRing::new(&program.memory, desc).expect("there is room");
        let frame = program.timeline.begin();
        ring.write(&[1; 4 << 10], 4).expect("all of it");
        for _ in 0..5 {
            let refused = ring.write(&[1; 4], 4);
            assert!(matches!(refused, Err(UploadError::Full { waits_for: Some(_), .. })), "{refused:?}");
        }
        let figures = ring.snapshot();
        assert_eq!((figures.wait_count, figures.wait_ns), (0, 0));
        program.submit(frame);
        let frame = program.timeline.begin();
        ring.write(&[1; 4 << 10], 4).expect("the previous frame completes");
        assert_eq!(ring.snapshot().wait_count, 1);
        program.submit(frame);
    }
}

#[test]
fn statics_and_pages_without_memory_are_errors_that_change_nothing() {
    let program = Program::new(cramped());
    let desc = ConstantsDesc { dynamic_slots: 16, static_slots: 1024, ..Default::default() };
    let constants = ConstantBuffers::new(&program.memory, desc, ()).expect("small pools fit");
    // 1024 slots of 256 bytes do not fit into a memory object.
    let refused = constants.create_static(&[1; 64]).err();
    assert!(matches!(refused, Some(UploadError::Growth(Error::TooLarge { .. }))), "{refused:?}");
    assert_eq!(constants.static_pool_count(), 0);
    let large = constants.create_static(&[1; 64 << 10]).expect("a buffer of its own fits");
    assert_eq!(constants.static_pool_count(), 1);
    let fast = FastConstants::new(&program.memory, FastConstantsDesc { page_bytes: 128 << 10, ..Default::default() });
    let frame = program.timeline.begin();
    let mut writer = fast.writer(&frame).expect("the frame is the allocator's own");
    let refused = writer.write(&[1; 4]).err();
    assert!(matches!(refused, Some(UploadError::Growth(Error::TooLarge { .. }))), "{refused:?}");
    assert_eq!(fast.snapshot().capacity_bytes, 0);
    drop((large, writer));
    program.submit(frame);
    assert!(program.device.run_until_idle());
}

#[test]
fn a_lost_device_is_reported_and_nothing_is_waited_for() {
    let program = Program::new(Profile::h200());
    let ring = UploadRing::new(&program.memory, UploadDesc { capacity: 4 << 10, ..Default::default() }).expect("room");
    let results = ReadbackRing::new(&program.memory, Default::default()).expect("there is room");
    let constants = ConstantBuffers::new(&program.memory, ConstantsDesc::default(), ()).expect("there is room");
    let fixed = constants.create_static(&[1; 4]).expect("there is room");
    let frame = program.timeline.begin();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    let mut binder = constants.writer(&frame).expect("the frame is the allocator's own");
    writer.write(&[1; 400], 4).expect("there is room");
    let result = results.reserve(&frame, 64, 4).expect("there is room");
    program.device.lose_device();
    let lost = UploadError::Device(DeviceError::Lost);
    assert!(program.memory.reclaim().device_lost);
    assert_eq!(ring.write(&[1; 4], 4).err(), Some(lost));
    assert_eq!(writer.write(&[1; 4000], 4).err(), Some(lost));
    assert_eq!(constants.upload_statics(&mut binder, &mut UploadBatch::new()).err(), Some(lost));
    assert_eq!(binder.bind(&constants.dynamic(4).expect("served")).err(), Some(lost));
    assert!(result.is_ready().is_err());
    drop((writer, binder, fixed, result));
    frame.discard();
    ring.validate().expect("the ring is sound");
}

#[test]
fn a_ring_in_use_is_not_halved_however_often_is_reclaimed() {
    let program = Program::new(Profile::h200());
    let when_full = WhenFull::Grow { capacity_max: 64 << 10, timeout: Duration::MAX, shrink_after: 3 };
    let desc = UploadDesc { capacity: 8 << 10, when_full, ..Default::default() };
    let ring = UploadRing::new(&program.memory, desc).expect("there is room");
    let frame = program.timeline.begin();
    let mut writer = ring.writer(&frame).expect("its own");
    (0..6).for_each(|_| _ = writer.write(&[1; 8 << 10], 256).expect("the ring grows"));
    let capacity = ring.capacity();
    for _ in 0..20 {
        program.memory.reclaim();
        assert_eq!(ring.capacity(), capacity, "most of it is in use");
    }
    drop(writer);
    program.submit(frame);
    assert!(program.device.run_until_idle());
    (0..20).for_each(|_| _ = program.memory.reclaim());
    assert!(ring.capacity() < capacity, "it is little used now");
}
