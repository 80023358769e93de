//! Rings where memory is short, and where the device is lost.

use ringfence::device::DeviceError;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::{
    Allocator, AllocatorDesc, ConstantBuffers, ConstantsDesc, Error, FastConstants, FastConstantsDesc, ReadbackRing,
    Timeline, UploadBatch, UploadDesc, UploadError, UploadRing, WhenFull,
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
        // SAFETY: the fence is the device's, and every frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { device, fence, timeline, memory }
    }

    fn submit(&self, frame: ringfence::Frame) {
        self.device.submit(0, &[], vec![], (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
    }
}

/// No memory object holds more than 64 KiB.
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
    assert_eq!(refused.err(), Some(UploadError::Growth(grown)), "the open frame has all of it");
    assert_eq!((ring.capacity(), ring.snapshot().grow_count), (64 << 10, 0));
    program.submit(frame);
    let frame = program.timeline.begin();
    ring.write(&[1; 60 << 10], 4).expect("now it can wait for the frame before");
    ring.validate().expect("the ring is sound");
    program.submit(frame);
    assert!(program.device.run_until_idle());
    assert_eq!(program.device.take_hazards(), []);
}

/// An open frame has all of the ring: the writes are refused at once.
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
        ring.write(&[1; 4 << 10], 4).expect("the frame before completes");
        assert_eq!(ring.snapshot().wait_count, 1);
        program.submit(frame);
    }
}

#[test]
fn statics_and_pages_without_memory_are_errors_that_change_nothing() {
    let program = Program::new(cramped());
    let desc = ConstantsDesc { dynamic_slots: 16, static_slots: 1024, ..Default::default() };
    let constants = ConstantBuffers::new(&program.memory, desc, ()).expect("small pools fit");
    // 1024 slots of 256 bytes are more than a memory object holds.
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
