//! Loom models of the points that a retired item waits for while frames begin and end on other threads. They check the
//! section "Proof that no item is released too early" of `ringfence_lockfree::retire_bin`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-timeline --lib --release models`

use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::thread;
use ringfence_lockfree::clock::Clock;

use crate::frame::OpenFrame;
use crate::lifetimes::Lifetimes;
use crate::primitive::Ordering;
use crate::{RetireBin, sim};

fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

struct World {
    lifetimes: Lifetimes<sim::Device>,
    clock: Arc<Clock>,
    bin: RetireBin<u32>,
    /// Set after a frame that uses the object has begun.
    used: AtomicBool,
}

impl World {
    fn new() -> Self {
        // With thread slot 0, this thread retires into the shard of that slot. No other thread of the models retires
        // items.
        ringfence_lockfree::thread_slot::take_slot(0);
        let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
        let lifetimes = Lifetimes::default();
        // SAFETY: the fence belongs to the device, which keeps it alive.
        let clock = unsafe { lifetimes.register(&device, device.create_fence(0)) }.expect("the device is not lost");
        Self { lifetimes, clock, bin: RetireBin::with_shards(1), used: AtomicBool::new(false) }
    }

    fn passed(&self, reached: u64) -> Vec<u32> {
        let mut out = Vec::new();
        self.bin.collect([reached].as_slice(), usize::MAX, &mut out);
        out
    }
}

#[test]
fn what_a_frame_uses_that_had_begun_waits_for_it() {
    model(3, || {
        let world = Arc::new(World::new());
        assert_eq!(world.lifetimes.begin(&world.clock), 1);
        // The shard caches the set of this turn.
        world.lifetimes.retire_into(&world.bin, 0);
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            assert_eq!(other.lifetimes.begin(&other.clock), 2);
            other.used.store(true, Ordering::Release);
        });
        let used = world.used.load(Ordering::Acquire);
        world.lifetimes.retire_into(&world.bin, 7);
        let early = world.passed(1);
        assert!(early.contains(&0), "frame 1 is complete, and no other frame had begun when the item was retired");
        assert!(!used || !early.contains(&7), "frame 2 uses it");
        other.join().unwrap();
    });
}

#[test]
fn the_end_of_one_frame_does_not_hide_another() {
    model(3, || {
        let world = Arc::new(World::new());
        world.lifetimes.begin(&world.clock);
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            assert_eq!(other.clock.submit(1), Ok(()));
            other.clock.leave(1);
        });
        let value = world.lifetimes.begin(&world.clock);
        world.lifetimes.retire_into(&world.bin, 7);
        other.join().unwrap();
        assert_eq!(world.passed(value - 1), [], "it waits for the latest frame");
        assert_eq!(world.passed(value), [7]);
    });
}

/// While a frame is being dropped, its value counts as open or as unknown, never as complete.
#[test]
fn a_frame_that_is_dropped_is_not_over_before_a_later_one() {
    model(3, || {
        let world = Arc::new(World::new());
        world.lifetimes.begin(&world.clock);
        world.lifetimes.retire_into(&world.bin, 7);
        let other = Arc::clone(&world);
        let other = thread::spawn(move || other.clock.leave(1));
        assert_eq!(world.clock.passed(0), 0);
        world.lifetimes.retire_into(&world.bin, 8);
        other.join().unwrap();
        assert_eq!(world.clock.passed(0), 0);
        assert_eq!(world.passed(world.clock.passed(0)), [], "the dropped frame may be under way");
        let value = world.lifetimes.begin(&world.clock);
        assert_eq!(world.clock.submit(value), Ok(()));
        assert_eq!(world.passed(world.clock.passed(value)), [7, 8]);
    });
}

#[test]
fn a_frame_that_was_submitted_is_not_open_for_a_thread_that_knows() {
    model(None, || {
        let world = Arc::new(World::new());
        let value = world.lifetimes.begin(&world.clock);
        let closes = world.clock.closes();
        let mut open = OpenFrame { clock: Arc::clone(&world.clock), value, closes };
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            assert_eq!(other.clock.submit(value), Ok(()));
            other.used.store(true, Ordering::Release);
        });
        let known = world.used.load(Ordering::Acquire);
        let is_open = open.is_open();
        assert!(!(known && is_open));
        other.join().unwrap();
        assert!(!open.is_open());
    });
}
