//! 64 threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::placement::{Placement, PlacementDesc};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Location};

use crate::memory::world::{KIB, needs, next, world};

#[test]
fn sixty_four_threads_allocate_write_and_free_without_meeting() {
    let world = world(Profile::lavapipe(), AllocatorDesc::default());
    let _maintenance = world.memory.budgets().maintain_in_background().expect("a thread");
    let barrier = Barrier::new(64);
    std::thread::scope(|scope| {
        for thread in 1..=64_u64 {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut held: Vec<(ringfence::memory::Allocation<_>, u8)> = Vec::new();
                barrier.wait();
                for step in 0..400 {
                    let random = next(&mut state);
                    if held.len() < 8 || random.is_multiple_of(2) {
                        let size = 1 + random % if random.is_multiple_of(16) { 256 * KIB } else { 4 * KIB };
                        let upload = AllocationDesc { location: Location::Upload, ..Default::default() };
                        let mut made =
                            world.memory.allocate(needs(size, 1 << (random >> 8 & 7)), upload).expect("room");
                        let mark = (thread as u8) ^ (step as u8);
                        made.write(0, &[mark]).expect("mapped");
                        made.write(size - 1, &[mark]).expect("mapped");
                        held.push((made, mark));
                    } else {
                        let (gone, mark) = held.swap_remove(random as usize % held.len());
                        let mut seen = [0; 1];
                        for at in [0, gone.size() - 1] {
                            gone.read(at, &mut seen).expect("mapped");
                            assert_eq!(seen, [mark], "no other thread wrote there");
                        }
                        if random.is_multiple_of(3) {
                            drop(gone);
                        } else {
                            // SAFETY: no work is ever submitted.
                            unsafe { gone.destroy_now() };
                        }
                    }
                    if random.is_multiple_of(64) {
                        world.memory.reclaim();
                    }
                    if random.is_multiple_of(256) {
                        world.memory.budgets().trim();
                    }
                }
            });
        }
    });
    drop(_maintenance);
    world.finish();
}

#[test]
fn growing_threads_make_no_more_blocks_than_they_need() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let barrier = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                barrier.wait();
                let made = world.memory.allocate(needs(100 * KIB, 256), AllocationDesc::default()).expect("room");
                barrier.wait();
                drop(made);
            });
        }
    });
    assert_eq!(world.memory.statistics().total().block_count, 1, "a thread that waits for a block takes the new one");
    world.finish();
}

/// The memory of a heap is freed with its last share, whether threads release the shares directly or drops help a
/// reclaim.
#[test]
fn heaps_that_are_dropped_beside_a_reclaim_free_their_memory() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("sound");
    let like = TextureDesc { width: 16, height: 16, usage: TextureUsage::SAMPLED, ..Default::default() };
    let heap = || placement.aliased_heap(&like, 64 * KIB, "heap").expect("there is room");
    drop((0..3000).map(|_| heap()).collect::<Vec<_>>());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                world.memory.reclaim();
            }
        });
        (0..20_000).for_each(|_| drop(heap()));
        is_over.store(true, Ordering::Relaxed);
    });
    drop(placement);
    world.finish();
}
