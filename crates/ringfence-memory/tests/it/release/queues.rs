//! Three queues out of step, 10,000 frames, random drops: there is no hazard, and no object is held longer than
//! necessary.

use super::world::{Program, QUEUES, set};

const FRAMES: u64 = 10_000;

/// A released object: the last value of each queue that uses it, and the values that the library waits for.
struct Gone {
    users: [u64; QUEUES],
    waits: [u64; QUEUES],
    /// The first frame that ended with all its uses complete.
    free_since: Option<u64>,
}

/// Time for which objects were held beyond their own points.
struct Held {
    objects: u64,
    extra_frames: u64,
}

impl Held {
    fn mean(&self) -> f64 {
        self.extra_frames as f64 / self.objects as f64
    }
}

/// Runs the frames. At the end of each, while the device is paused, exactly the objects that are complete must be
/// destroyed.
fn run(seed: u64, precise: bool) -> Held {
    let mut world = Program::new(seed);
    let (mut gone, mut held) = (Vec::<Gone>::new(), Held { objects: 0, extra_frames: 0 });
    for frame in 0..FRAMES {
        for _ in 0..world.dice.below(4) {
            world.make();
        }
        // Out of step: the first queue gets work in each frame, the others now and then, each at its own rate.
        for queue in 0..QUEUES {
            if world.dice.below(1 + 2 * queue as u64) == 0 {
                world.submit(queue);
            }
        }
        while world.held.len() > 12 || (!world.held.is_empty() && world.dice.below(2) == 0) {
            let at = world.dice.below(world.held.len() as u64) as usize;
            let used = world.held.swap_remove(at);
            let waits = if precise { used.users } else { world.submitted };
            gone.push(Gone { users: used.users, waits, free_since: None });
            if precise {
                // SAFETY: exactly these submissions use it.
                unsafe { used.buffer.retire_after(&set(&world.timelines, used.users)) };
            }
        }
        let reached = world.stand_still();
        let passed = |values: [u64; QUEUES]| (0..QUEUES).all(|queue| values[queue] <= reached[queue]);
        let before = gone.len();
        gone.retain_mut(|item| {
            if passed(item.users) {
                item.free_since.get_or_insert(frame);
            }
            let goes = passed(item.waits);
            if goes {
                held.objects += 1;
                held.extra_frames += frame - item.free_since.expect("it waits for its users");
            }
            !goes
        });
        let reclaimed = world.memory.reclaim();
        // A request may have destroyed some of them before the reclaim.
        assert!(
            reclaimed.objects <= before - gone.len(),
            "seed {seed}, frame {frame}: no object is destroyed too early"
        );
        assert_eq!(reclaimed.waiting, gone.len(), "seed {seed}, frame {frame}: every completed object is destroyed");
        world.no_hazard();
        let ticks = world.dice.below(6);
        world.go_on(ticks);
        for queue in 0..QUEUES {
            let value = world.submitted[queue].saturating_sub(3 + queue as u64 * 2);
            assert!(world.timelines[queue].wait(value, std::time::Duration::MAX).expect("the device is not lost"));
        }
    }
    world.memory.debug().validate().expect("the allocator is sound");
    world.close();
    held
}

#[test]
fn three_queues_out_of_step_hold_nothing_longer_than_its_own_points_where_the_caller_names_them() {
    let held = run(1, true);
    println!("precise: {} objects, {} extra frames on average", held.objects, held.mean());
    assert!(held.objects > 9_000, "{}", held.objects);
    assert_eq!(held.extra_frames, 0);
}

#[test]
fn three_queues_out_of_step_hold_what_is_dropped_for_all_that_had_begun_and_no_longer() {
    let held = run(2, false);
    println!("by default: {} objects, {:.2} extra frames on average", held.objects, held.mean());
    assert!(held.objects > 9_000, "{}", held.objects);
    assert!(held.mean() > 0.0, "slow queues hold objects that they do not use");
}
