//! A frame in steady state creates no driver object and makes no host allocation (rule 5 of the design).

use std::collections::VecDeque;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, UploadRing};
use ringfence_testkit::counting_allocator::host_allocation_count;
use ringfence_testkit::sim::SimGpu;
use ringfence_testkit::{Gpu, Options};

/// Runs `work` and adds its host allocations to `total`.
fn counted<R>(total: &mut u64, work: impl FnOnce() -> R) -> R {
    let before = host_allocation_count();
    let result = work();
    *total += host_allocation_count() - before;
    result
}

/// Number of objects of each kind that a frame creates, and drops at its end.
const OBJECTS: usize = 12;

/// Creates the objects of a frame; includes textures only if `textures` is `true`, because not every API recycles them.
fn objects<G: Gpu>(memory: &Allocator<G::Device>, textures: bool) -> impl Sized + use<G> {
    let (_device, desc) = (memory.device(), AllocationDesc::default());
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let buffer = BufferDesc { size: 8 << 10, usage };
    let info = buffer;
    let buffers: [_; OBJECTS] = std::array::from_fn(|_| memory.create_buffer(&info, desc).expect("there is room"));
    let location = Location::Device;
    let small: [_; OBJECTS] =
        std::array::from_fn(|_| memory.create_small_buffer(buffer, location).expect("there is room"));
    let texture = TextureDesc { width: 64, height: 64, ..Default::default() };
    let info = texture;
    let textures: [_; OBJECTS] =
        std::array::from_fn(|_| textures.then(|| memory.create_texture(&info, desc).expect("there is room")));
    (buffers, small, textures)
}

/// Runs frames without objects, then frames with objects. `textures` is `true` if textures are recycled. Returns the
/// number of host allocations in steady frames.
fn stream<G: Gpu>(gpu: &mut G, textures: bool) -> u64 {
    stream_with(gpu, |_| ()) + stream_with(gpu, |memory| objects::<G>(memory, textures))
}

/// Runs frames, and checks the driver calls in steady frames. Returns the number of host allocations in steady frames.
fn stream_with<G: Gpu, T>(gpu: &mut G, make: impl Fn(&Allocator<G::Device>) -> T) -> u64 {
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    // SAFETY: the fence lives as long as the device, and every frame below is signalled.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let desc = UploadDesc { capacity: 64 << 10, ..Default::default() };
    let ring = UploadRing::new(&memory, desc).expect("there is room");
    let mut in_flight = VecDeque::with_capacity(16);
    let (bytes, mut allocations) = ([7; 5000], 0);
    let mut calls = memory.statistics().calls;
    for number in 0..600 {
        if number == 100 {
            // From here on, all reused containers have their final size.
            allocations = 0;
            calls = memory.statistics().calls;
        }
        // For a few frames, more frames are in flight than in all later ones.
        let is_late = size_of::<T>() > 0 && (50..53).contains(&number);
        while in_flight.len() >= 3 && !is_late {
            let value = in_flight.pop_front().expect("three are in flight");
            let waited = counted(&mut allocations, || timeline.wait(value, Duration::from_secs(30)));
            assert!(waited.expect("the device is not lost"));
        }
        let frame = counted(&mut allocations, || timeline.begin());
        for _ in 0..4 {
            counted(&mut allocations, || ring.write(&bytes, 256)).expect("the ring holds four frames");
        }
        let made = counted(&mut allocations, || make(&memory));
        let value = frame.value();
        let gate = [(gpu.gate(), 1)];
        gpu.submit(0, if is_late { &gate } else { &[] }, &[], value).expect("the device is not lost");
        counted(&mut allocations, || timeline.submitted(frame)).expect("in order");
        counted(&mut allocations, || {
            drop(made);
            memory.reclaim()
        });
        in_flight.push_back(value);
        if is_late && number == 52 {
            gpu.open_gate(1).expect("the device is not lost");
        }
        if number < 100 && !is_late {
            // At first the GPU keeps up, later it falls behind. This must not create objects.
            assert!(timeline.wait(value, Duration::from_secs(30)).expect("the device is not lost"));
            memory.reclaim();
        }
    }
    let after = memory.statistics().calls;
    assert_eq!(after.made(), calls.made(), "driver objects made or destroyed in 500 steady frames");
    assert!(size_of::<T>() == 0 || after.recycled - calls.recycled >= 500 * OBJECTS as u64);
    drop((ring, timeline));
    memory.shutdown(Duration::from_secs(30)).expect("all work is complete");
    allocations
}

/// Only driver objects are counted, because the simulated device itself uses the host's heap.
#[test]
fn a_steady_frame_makes_no_driver_object_on_the_simulated_device() {
    stream(&mut SimGpu::open(&Options::default()).expect("the simulated device always opens"), true);
}

#[cfg(feature = "vulkan")]
#[test]
fn a_steady_frame_makes_nothing_on_vulkan() {
    match ringfence_testkit::vulkan::VulkanGpu::open(&Options::default()) {
        Ok(mut gpu) => assert_eq!(stream(&mut gpu, true), 0, "host allocations in 500 steady frames"),
        Err(ringfence_testkit::OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none() => {
            ringfence_testkit::report::skipped(what);
        }
        Err(error) => panic!("no Vulkan device: {error}"),
    }
}

#[cfg(all(windows, feature = "d3d12"))]
#[test]
fn a_steady_frame_makes_nothing_on_direct3d_12() {
    match ringfence_testkit::d3d12::D3d12Gpu::open(&Options::default()) {
        Ok(mut gpu) => assert_eq!(stream(&mut gpu, false), 0, "host allocations in 500 steady frames"),
        Err(ringfence_testkit::OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_D3D12").is_none() => {
            ringfence_testkit::report::skipped(what);
        }
        Err(error) => panic!("no Direct3D 12 device: {error}"),
    }
}
