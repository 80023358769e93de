//! A small ring works for a million frames on a device that runs at its own pace.

use ringfence::sim::{BufferRange, Device, Profile, SimOptions};
use ringfence::upload::UploadDesc;
use ringfence::{Allocator, AllocatorDesc, UploadRing};
use std::time::Duration;

#[test]
fn a_ring_of_64_kib_survives_a_million_frames() {
    const FRAMES: u64 = 1_000_000;
    let device = Device::new(Profile::h200(), SimOptions { seed: 5, lateness: 2, ..Default::default() });
    let fence = device.create_fence(0);
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: the fence belongs to the device, and every frame below signals it.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let desc = UploadDesc { capacity: 64 << 10, page_bytes: 4 << 10, ..Default::default() };
    let ring = UploadRing::new(&memory, desc).expect("there is room");
    let (mut writer, mut written, mut writes) = (None, 0, 0);
    let bytes: Vec<u8> = (0..=255).cycle().take(9000).collect();
    for number in 0..FRAMES {
        let frame = timeline.begin();
        let writer = match &mut writer {
            None => writer.insert(ring.writer(&frame).expect("the frame is the allocator's own")),
            Some(writer) => {
                writer.begin(&frame).expect("the frame is the allocator's own");
                writer
            }
        };
        // Sizes from a few bytes to several pages, so that the ring gets full and wraps at every offset.
        let (size, alignment) = (1 + number as usize * 7919 % 9000, 1 << (number % 10));
        let staged = writer.write(&bytes[..size], alignment).expect("there is room, maybe after a wait");
        assert!(staged.offset % alignment == 0 && staged.offset + staged.size <= 64 << 10);
        if number % 1024 == 0 {
            let range = BufferRange::new(staged.buffer, staged.offset, staged.size);
            assert_eq!(device.peek(range).expect("the range is the ring's"), bytes[..size]);
            ring.validate().expect("the ring is sound");
        }
        (written, writes) = (written + size as u64, writes + 1);
        device.submit(0, &[], vec![], (fence, frame.value())).expect("the device is not lost");
        timeline.submitted(frame).expect("in order");
        if number % 3 == 0 {
            memory.reclaim();
        }
    }
    drop(writer);
    let figures = ring.snapshot();
    assert_eq!((figures.written_bytes, memory.statistics().calls.staged), (written, writes));
    assert!(figures.high_water_bytes <= figures.capacity_bytes && figures.wait_count > 0, "{figures:?}");
    assert!(timeline.wait(FRAMES, Duration::MAX).expect("the device is not lost"));
    assert_eq!(device.take_hazards(), []);
}
