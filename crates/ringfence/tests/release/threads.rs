//! Threads that make, write and drop through the placement policy while another one ends frames.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence::device::sim::{Command, Device, Profile, SimOptions};
use ringfence::device::{BufferUsage, TextureDesc};
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc};
use ringfence::{Allocator, AllocatorDesc};

use super::world::Dice;

const THREADS: u64 = 4;
const ROUNDS: u64 = 400;

/// Each thread is a recording thread with a queue of its own that reads what the thread made.
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
                let _nobody_works = working.write().expect("no thread fails");
                memory.validate().expect("the allocator is sound");
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        // Whatever ended them: the other thread waits for this.
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|worker| worker.expect("no panic"));
    });
    memory.shutdown(Duration::MAX).expect("the work is complete");
    let hazards: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
    assert!(hazards.is_empty(), "{hazards:#?}");
    drop((placement, memory));
    assert_eq!(device.live(), Default::default());
}

fn work(placement: &Placement<Device>, device: &Device, working: &RwLock<()>, thread: u64) {
    let mut dice = Dice(thread);
    let (queue, fence) = (thread as usize, device.create_fence(0));
    // SAFETY: the fence is the device's, and every submission signals its frame's value.
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
