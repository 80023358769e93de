//! Threads that create, write and drop resources through the placement policy while another thread ends frames.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc};
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc};
use ringfence::sim::{Command, Device, Profile, SimOptions};
use ringfence::{Allocator, AllocatorDesc, Buffer};
use ringfence_core::testing::rng::Rng;

const THREADS: u64 = 4;
const ROUNDS: u64 = 400;

/// Each thread records for its own queue, which reads the resources that the thread created.
#[test]
fn threads_place_and_drop_while_frames_end() {
    let queues = THREADS as usize + 1;
    let device = Device::new(Profile::h200(), SimOptions { seed: 9, queues, ..Default::default() });
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let desc = PlacementDesc { small_block_bytes: 64 << 10, idle_frames: 2, ..Default::default() };
    let placement = Placement::new(&memory, desc).expect("a sound description");
    let (done, working) = (AtomicBool::new(false), RwLock::new(()));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (placement, device, working) = (placement.clone(), device.clone(), &working);
                scope.spawn(move || work(&placement, &device, working, thread))
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                (0..8).for_each(|_| _ = placement.end_frame());
                let _no_thread_works = working.write().expect("no thread fails");
                memory.debug().validate().expect("the allocator is sound");
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        // Set even after a failure, because the other thread waits for it.
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|worker| worker.expect("no panic"));
    });
    memory.shutdown(Duration::MAX).expect("the work is complete");
    let hazards: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
    assert!(hazards.is_empty(), "{hazards:#?}");
    drop((placement, memory));
    assert_eq!(device.live(), Default::default());
}

/// Maximum number of retired objects of a thread that drops, as the module `memory::release` documents.
const WAITING_MAX: u64 = 1024 + 256;

fn small(memory: &Allocator<Device>) -> Buffer<Device> {
    memory
        .create_buffer(&BufferDesc { size: 64, usage: BufferUsage::COPY_DST }, Default::default())
        .expect("there is room")
}

/// If the device has finished with all objects and no thread reclaims, the threads that drop destroy the objects.
#[test]
fn threads_that_drop_destroy_what_the_device_is_done_with() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fence = device.create_fence(0);
    // SAFETY: the fence belongs to the device, and every submission signals its frame's value.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let frame = timeline.begin();
    let value = frame.value();
    // Dropped in an open frame, so none of them may be destroyed before the frame is complete.
    (0..5_000).for_each(|_| drop(small(&memory)));
    assert_eq!(memory.statistics().retired_count, 5_000);
    device.submit(0, &[], vec![], (fence, value)).expect("the device is not lost");
    timeline.submitted(frame).expect("in order");
    assert!(timeline.wait(value, Duration::MAX).expect("the device is not lost"));
    std::thread::scope(|scope| {
        let drops = || (0..20_000).for_each(|_| drop(small(&memory)));
        (0..THREADS - 1).for_each(|_| _ = scope.spawn(drops));
        drops();
    });
    let waiting = memory.statistics().retired_count;
    assert!(waiting <= THREADS * WAITING_MAX, "{waiting} of {} wait", THREADS * 20_000);
    memory.debug().validate().expect("the allocator is sound");
    assert_eq!(memory.reclaim().objects as u64, waiting);
    drop((timeline, memory));
    assert_eq!(device.live(), Default::default());
    assert!(device.take_hazards().is_empty());
}

/// One thread runs many frames, and each is complete before the next one ends. Completed objects never pile up,
/// although no call reclaims, and the device is queried at most once in 32 drops and once per frame.
#[test]
fn what_has_passed_does_not_pile_up_between_frames_and_the_device_is_rarely_asked() {
    const DROPS: u64 = 500;
    let device = Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fence = device.create_fence(0);
    // SAFETY: the fence belongs to the device, and every submission signals its frame's value.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    for _ in 0..100 {
        let frame = timeline.begin();
        let before = device.calls().completed;
        (0..DROPS).for_each(|_| drop(small(&memory)));
        let asked = device.calls().completed - before;
        assert!(asked <= DROPS / 32 + 2, "{asked} times");
        let waiting = memory.statistics().retired_count;
        assert!(waiting <= WAITING_MAX + 2 * DROPS, "{waiting} wait");
        let value = frame.value();
        device.submit(0, &[], vec![], (fence, value)).expect("the device is not lost");
        timeline.submitted(frame).expect("in order");
        assert!(timeline.wait(value, Duration::MAX).expect("the device is not lost"));
    }
    memory.shutdown(Duration::MAX).expect("the work is complete");
    drop((timeline, memory));
    assert_eq!(device.live(), Default::default());
}

fn work(placement: &Placement<Device>, device: &Device, working: &RwLock<()>, thread: u64) {
    let mut dice = Rng::new(thread);
    let (queue, fence) = (thread as usize, device.create_fence(0));
    // SAFETY: the fence belongs to the device, and every submission signals its frame's value.
    let timeline = unsafe { placement.memory().timeline(fence) }.expect("the device is not lost");
    let target = BufferRequest { size: 64, usage: BufferUsage::COPY_DST, ..Default::default() };
    let target = placement.create_buffer(&target).expect("there is room");
    for round in 0..ROUNDS {
        let _works = working.read().expect("no thread fails");
        let frame = timeline.begin();
        let size = 64 + dice.below(100_000);
        let request =
            BufferRequest { size, usage: BufferUsage::COPY_SRC, dynamism: Dynamism::Dynamic, ..Default::default() };
        let mut upload = placement.create_buffer(&request).expect("there is room");
        upload.write(0, &[thread as u8; 64]).expect("an upload is mapped");
        let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
        let constants = writer.write(&[thread as u8; 64]).expect("there is a page");
        let texture = placement.create_texture(&TextureDesc::default(), "").expect("there is room");
        let copy = |src, src_offset| {
            let (dst, dst_offset) = (*target.object(), target.offset());
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 64 }
        };
        let commands = vec![copy(*upload.object(), upload.offset()), copy(constants.buffer, constants.offset)];
        let value = frame.value();
        device.submit(queue, &[], commands, (fence, value)).expect("the device is not lost");
        timeline.submitted(frame).expect("in order");
        drop((upload, texture));
        if round % 4 == 0 {
            assert!(timeline.wait(value, Duration::MAX).expect("the device is not lost"));
        }
    }
}
