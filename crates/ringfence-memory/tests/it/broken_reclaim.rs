//! The effect of a reclaim that is broken on purpose. The allocator gets a fence that is ahead of the work, so it frees
//! memory that the device still reads. The hazard finder reports this, and the bytes are wrong. With the true fence,
//! the same calls cause no hazard and the bytes are right.

use ringfence::device::{BufferDesc, BufferUsage, Driver};
use ringfence::sim::{Command, Device, HazardKind, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location};

const SIZE: u64 = 4096;

fn buffer(memory: &Allocator<Device>, location: Location, name: &str) -> Buffer<Device> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    memory.create_buffer(&info, AllocationDesc { name, location, ..Default::default() }).expect("there is room")
}

/// Streams two buffers through one range of memory while a copy from the first is delayed. Returns the copied bytes.
fn program(device: &Device, honest: bool) -> Vec<u8> {
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let (work, ahead) = (device.create_fence(0), device.create_fence(0));
    // SAFETY: the fences live as long as the device. `ahead` does not follow the work on purpose: this test is about
    // it.
    let timeline = unsafe { memory.timeline(if honest { work } else { ahead }) }.expect("the device is not lost");

    let mut first = buffer(&memory, Location::Upload, "first");
    first.write(0, &[1; SIZE as usize]).expect("upload memory is mapped");
    let target = buffer(&memory, Location::Device, "target");

    let frame = timeline.begin();
    let (src, dst) = (*first.object(), *target.object());
    let copy = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: SIZE };
    device.pause(0);
    device.submit(0, &[], vec![copy], (work, frame.value())).expect("the device is not lost");
    device.submit(1, &[], vec![], (ahead, frame.value())).expect("the device is not lost");
    let value = frame.value();
    timeline.submitted(frame).expect("in order");
    // SAFETY: the fence belongs to this device.
    assert!(unsafe { device.wait(&ahead, value, std::time::Duration::MAX) }.expect("the device is not lost"));

    drop(first);
    memory.reclaim();
    let mut second = buffer(&memory, Location::Upload, "second");
    second.write(0, &[2; SIZE as usize]).expect("upload memory is mapped");
    device.resume(0);
    // SAFETY: the fence belongs to this device.
    assert!(unsafe { device.wait(&work, value, std::time::Duration::MAX) }.expect("the device is not lost"));
    let range = ringfence::sim::BufferRange::new(*target.object(), 0, SIZE);
    device.peek(range).expect("the target is alive")
}

#[test]
fn an_honest_reclaim_is_silent_and_right() {
    let device = Device::new(Profile::h200(), SimOptions { seed: 5, ..Default::default() });
    assert_eq!(program(&device, true), [1; SIZE as usize]);
    assert_eq!(device.hazards(), []);
}

#[test]
fn a_broken_reclaim_is_found_by_the_hazard_finder_and_by_wrong_bytes() {
    let device = Device::new(Profile::h200(), SimOptions { seed: 5, ..Default::default() });
    assert_eq!(program(&device, false), [2; SIZE as usize], "the copy read the later content");
    let hazards = device.hazards();
    let destroyed = hazards.iter().find(|hazard| hazard.kind == HazardKind::DestroyedWhilePending);
    let text = destroyed.expect("the destruction is found").to_string();
    assert!(text.contains("'first'") && text.contains("queue 0"), "it names the allocation and the queue: {text}");
    let placed = hazards.iter().any(|hazard| hazard.kind == HazardKind::PlacedWhilePending);
    assert!(placed, "so is the reuse of its memory: {hazards:?}");
}
