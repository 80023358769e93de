//! Work runs late and out of step, on a clock that depends only on the seed.

use super::gpu::{Gpu, QUEUES, copy, fill};
use ringfence::device::{Buffers, Create, DeviceError, Driver, MemoryDesc, ResourceClass};
use ringfence::sim::{BufferRange, Command, Device, Fence, HazardKind, Kernel, Profile, SimOptions};
use ringfence_core::testing::rng::Rng;
use std::time::{Duration, Instant};

#[test]
fn work_runs_late_and_in_its_queues_order() {
    let mut late = 0;
    for seed in 0..100 {
        let mut gpu = Gpu::new(Profile::h200(), seed);
        let buffer = gpu.host_buffer("target", 4);
        let see = |gpu: &Gpu| gpu.device.peek(BufferRange::new(buffer.buffer, 0, 4)).unwrap();
        for value in 1..=3 {
            gpu.submit(0, &[], vec![fill(buffer.buffer, 4, value)]);
        }
        late += u32::from(see(&gpu) != [3; 4]);
        // The bytes are ahead of the fence by at most the submission that has begun, and never behind it.
        loop {
            let done = gpu.completed(0) as u8;
            let seen = see(&gpu)[0];
            assert!(if done == 0 { seen == 0xcd } else { seen == done }, "seed {seed}: {seen} at {done}");
            if done == 3 {
                break;
            }
        }
        gpu.no_hazard();
    }
    assert!(late > 80, "{late} of 100");
}

#[test]
fn queues_run_out_of_step() {
    let (mut first, mut second) = (0, 0);
    for seed in 0..100 {
        let mut gpu = Gpu::new(Profile::h200(), seed);
        gpu.submit(0, &[], vec![]);
        gpu.submit(1, &[], vec![]);
        loop {
            gpu.device.advance(1);
            match (gpu.completed(0), gpu.completed(1)) {
                (0, 0) => {}
                (1, 0) => break first += 1,
                (0, 1) => break second += 1,
                _ => break,
            }
        }
    }
    assert!(first > 10 && second > 10, "queue 0 first {first} times, queue 1 {second} times");
}

#[test]
fn a_submission_can_be_seen_half_done() {
    let half_done = (0..200).any(|seed| {
        let mut gpu = Gpu::new(Profile::h200(), seed);
        let buffer = gpu.host_buffer("target", 2);
        let fill = |offset| Command::FillBuffer { dst: buffer.buffer, offset, size: 1, value: 1 };
        gpu.submit(0, &[], vec![fill(0), fill(1)]);
        gpu.device.peek(buffer.range(0, 2)) == Some(vec![1, 0xcd])
    });
    assert!(half_done);
}

#[test]
fn waits_hold_a_queue_back() {
    for seed in 0..50 {
        let mut gpu = Gpu::new(Profile::h200(), seed);
        let (source, target) = (gpu.device_buffer("source", 64), gpu.host_buffer("target", 64));
        let written = gpu.submit(0, &[], vec![fill(source.buffer, 64, 5)]);
        let copied = gpu.submit(1, &[written], vec![copy(source.buffer, target.buffer, 64)]);
        gpu.device.pause(0);
        gpu.device.advance(100);
        if gpu.completed(0) == 0 {
            assert_eq!(gpu.completed(1), 0);
            // SAFETY: the fence belongs to this device.
            assert_eq!(unsafe { gpu.device.wait(&copied.0, 1, Duration::MAX) }, Ok(false), "queue 0 stands still");
        }
        gpu.device.resume(0);
        gpu.wait(copied);
        assert_eq!(gpu.read(target, 0, 64), [5; 64]);
        gpu.no_hazard();
    }
}

#[test]
fn a_wait_for_what_no_one_signals_ends_at_once() {
    let mut gpu = Gpu::h200();
    let before = gpu.device.calls().simulated_ns;
    let never = gpu.device.create_fence(3);
    // SAFETY: the fences belong to this device.
    unsafe {
        assert_eq!(gpu.device.wait(&never, 3, Duration::MAX), Ok(true));
        assert_eq!(gpu.device.wait(&never, 4, Duration::MAX), Ok(false));
        let stuck = gpu.submit(0, &[(never, 4)], vec![]);
        assert_eq!(gpu.device.wait(&stuck.0, stuck.1, Duration::MAX), Ok(false));
    }
    assert!(!gpu.device.run_until_idle());
    // On the device's own clock, calls take time and waiting takes none.
    assert!(gpu.device.calls().simulated_ns - before < 1_000_000);
    gpu.no_hazard();
}

#[test]
fn a_wait_keeps_to_its_timeout() {
    let device = Device::new(Profile::h200(), SimOptions { lateness: 1_000_000, ..Default::default() });
    let fence = device.create_fence(0);
    device.submit(0, &[], vec![], (fence, 1)).unwrap();
    let before = device.calls().simulated_ns;
    // SAFETY: the fence belongs to this device.
    assert_eq!(unsafe { device.wait(&fence, 1, Duration::from_micros(50)) }, Ok(false));
    let price = device.profile().costs.wait_ns;
    assert_eq!(device.calls().simulated_ns - before, 50_000 + price);
}

#[test]
fn fences_that_do_not_rise_are_found() {
    let gpu = Gpu::h200();
    let fence = gpu.device.create_fence(0);
    gpu.device.submit(0, &[], vec![], (fence, 2)).unwrap();
    gpu.device.submit(0, &[], vec![], (fence, 3)).unwrap();
    assert!(gpu.device.run_until_idle());
    gpu.no_hazard();
    gpu.device.submit(0, &[], vec![], (fence, 3)).unwrap();
    assert!(gpu.device.run_until_idle());
    assert_eq!(gpu.only_hazard(HazardKind::FenceNotRising).resource.id, fence.id());
}

#[test]
fn a_lost_device_says_so_everywhere_and_blames_no_one() {
    let mut gpu = Gpu::h200();
    let buffer = gpu.host_buffer("lost", 64);
    let point = gpu.submit(0, &[], vec![fill(buffer.buffer, 64, 1)]);
    let (unplaced, _) = gpu.unplaced(64);
    gpu.device.lose_device();
    let lost = Err(DeviceError::Lost);
    let desc = MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type: 1,
        size: 64,
        alignment: 1,
        class: ResourceClass::Buffer,
        name: "",
    };
    // SAFETY: all objects belong to the device and are alive.
    unsafe {
        assert_eq!(gpu.device.completed(&point.0), Err(DeviceError::Lost));
        assert_eq!(gpu.device.wait(&point.0, 1, Duration::MAX), Err(DeviceError::Lost));
        assert_eq!(gpu.device.allocate_memory(&desc).map(|_| ()), lost);
        assert_eq!(gpu.device.flush(&buffer.memory, 0, 64), lost);
        assert_eq!(gpu.device.read_back(&buffer.memory, 0, buffer.mapped.unwrap(), &mut [0; 4]), lost);
    }
    assert_eq!(gpu.device.submit(0, &[], vec![], (point.0, 2)), lost);
    assert!(gpu.device.run_until_idle(), "pending work was dropped");
    gpu.destroy(buffer.buffer);
    gpu.free(buffer.memory);
    // SAFETY: prepared and not placed.
    unsafe { Create::<Buffers>::discard(&gpu.device, unplaced) };
    gpu.no_hazard();
    assert_eq!(gpu.device.live(), Default::default());
}

/// Runs a program full of races and returns all observable results.
fn racy_program(seed: u64) -> (Vec<u8>, Vec<String>, Vec<u64>) {
    let mut gpu = Gpu::new(Profile::h200(), seed);
    let buffer = gpu.host_buffer("battlefield", 64);
    let mut dice = Rng::new(99);
    let mut polls = Vec::new();
    for step in 0..100 {
        let queue = dice.below(QUEUES as u64) as usize;
        let (offset, size) = (dice.below(32), 1 + dice.below(32));
        let range = buffer.range(offset, size);
        let command = if dice.below(2) == 0 {
            Command::FillBuffer { dst: buffer.buffer, offset, size, value: step }
        } else {
            Command::Kernel(Kernel::new(vec![range], vec![range], |memory| memory.writes[0].reverse()))
        };
        gpu.submit(queue, &[], vec![command]);
        polls.push(gpu.completed(dice.below(QUEUES as u64) as usize));
    }
    let hazards = gpu.device.take_hazards().iter().map(ToString::to_string).collect();
    assert!(gpu.device.run_until_idle());
    (gpu.device.peek(buffer.range(0, 64)).unwrap(), hazards, polls)
}

#[test]
fn the_seed_decides_everything() {
    let first = racy_program(1);
    assert!(!first.1.is_empty());
    assert_eq!(first, racy_program(1));
    assert_ne!(first.0, racy_program(2).0);
}

#[test]
fn a_device_is_shared_between_threads() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let fences: Vec<Fence> = (0..3).map(|_| device.create_fence(0)).collect();
    std::thread::scope(|scope| {
        for (queue, fence) in fences.iter().enumerate() {
            let device = device.clone();
            scope.spawn(move || {
                for value in 1..=100 {
                    device.submit(queue, &[], vec![], (*fence, value)).unwrap();
                    // SAFETY: the fence belongs to this device.
                    assert!(unsafe { device.wait(fence, value, Duration::MAX) }.unwrap());
                }
            });
        }
    });
    assert_eq!(device.hazards(), []);
    assert_eq!((device.calls().submit, device.calls().wait), (300, 300));
}

#[test]
fn calls_can_take_their_time() {
    let device = Device::new(Profile::h200(), SimOptions { spends_time: true, ..Default::default() });
    let start = Instant::now();
    let fence = device.create_fence(0);
    for value in 1..=20 {
        device.submit(0, &[], vec![], (fence, value)).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_nanos(20 * device.profile().costs.submit_ns));
}
