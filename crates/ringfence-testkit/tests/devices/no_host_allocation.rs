//! On a real Vulkan device, a steady frame makes no host allocation. The driver's allocations bypass Rust's allocator
//! and are not counted.

use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc};
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location};
use ringfence_testkit::counting_allocator::host_allocation_count;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, OpenError, Options};

/// Number of frames in which the gate keeps the device two frames behind the host.
const LAGGING_FRAMES: u64 = 100;

#[test]
fn a_steady_frame_on_vulkan_allocates_nothing_on_the_host() {
    let mut gpu = match VulkanGpu::open(&Options::default()) {
        Ok(gpu) => gpu,
        Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none() => {
            return ringfence_testkit::report::skipped(what);
        }
        Err(error) => panic!("no Vulkan device: {error}"),
    };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    // SAFETY: all objects are dropped before the device, and every frame is signalled.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let placement = Placement::new(&memory, PlacementDesc::default()).expect("a sound description");
    let buffer = BufferDesc { size: 4096, usage: BufferUsage::COPY_DST };
    let texture = TextureDesc::default();
    let upload =
        BufferRequest { size: 1000, usage: BufferUsage::CONSTANT, dynamism: Dynamism::Dynamic, ..Default::default() };
    // In the first frames, the device lags as far as the frames allow, so that all reused containers get their final
    // size. In all later frames, it runs freely; only some of these are counted.
    let mut steady = 0;
    for number in 0..300_u64 {
        let before = host_allocation_count();
        let frame = timeline.begin();
        for location in [Location::Device, Location::Upload] {
            let desc = AllocationDesc { location, ..Default::default() };
            (0..10).for_each(|_| drop(memory.create_buffer(&buffer, desc).expect("there is room")));
        }
        drop(memory.create_texture(&texture, AllocationDesc::default()).expect("there is room"));
        (0..10).for_each(|_| drop(placement.create_buffer(&upload).expect("there is room")));
        let count = host_allocation_count() - before;
        let value = frame.value();
        let waits = if number < LAGGING_FRAMES { &[(gpu.gate(), value)][..] } else { &[] };
        gpu.submit(0, waits, &[], value).expect("the device is not lost");
        let before = host_allocation_count();
        timeline.submitted(frame).expect("in order");
        let complete = value.saturating_sub(2);
        if number < LAGGING_FRAMES && complete > 0 {
            gpu.open_gate(complete).expect("the device is not lost");
        } else if number == LAGGING_FRAMES {
            gpu.open_gate(value).expect("the device is not lost");
        }
        timeline.wait(complete, Duration::from_secs(10)).expect("the device is not lost");
        placement.end_frame();
        if number >= 200 {
            steady += count + host_allocation_count() - before;
        }
    }
    assert!(host_allocation_count() > 0, "the count counts");
    assert_eq!(steady, 0);
    gpu.wait_idle().expect("the device is not lost");
    drop((placement, timeline, memory));
    assert_eq!(gpu.close(), Vec::<String>::new());
}
