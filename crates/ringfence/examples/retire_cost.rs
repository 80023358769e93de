//! The cost of retiring an object and collecting it later, without the driver, in nanoseconds per object.
//!
//! `cargo run --release -p ringfence --example retire_cost [FRAMES]`
//!
//! With few frames, the program is short enough for `valgrind --tool=callgrind`. The difference between two runs is the
//! number of instructions of the additional frames.

use std::time::Instant;

use ringfence::lifetime::{RetireBin, SyncSet};
use ringfence::{Allocator, AllocatorDesc, SyncPoint, Timeline, sim};

const IN_FLIGHT: u64 = 3;

fn main() {
    let most = std::env::args().nth(1).map_or(2_000, |frames| frames.parse().expect("a number of frames"));
    println!("objects of 8 bytes: the bookkeeping alone");
    table::<1>(most);
    println!("objects of 112 bytes, as large as what the allocator keeps of a resource");
    table::<14>(most);
}

fn table<const WORDS: usize>(most: u64) {
    println!(
        "{:>9} {:>8} {:>10} {:>12} {:>12} {:>12}",
        "set", "threads", "objects", "retire ns", "collect ns", "sum ns"
    );
    for (precise, threads, objects) in
        [(false, 1, 10), (false, 1, 100), (false, 1, 1_000), (false, 1, 10_000), (false, 2, 10_000), (true, 1, 1_000)]
    {
        let runs = (0..5).map(|_| run::<WORDS>(precise, threads, objects, most));
        let (retire, collect) = runs.min_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1))).expect("five runs");
        let set = if precise { "its own" } else { "all begun" };
        println!("{set:>9} {threads:>8} {objects:>10} {retire:>12.1} {collect:>12.1} {:>12.1}", retire + collect);
    }
}

/// Runs frames in which each thread retires `objects` objects, on three timelines with three frames in flight. Returns
/// the nanoseconds per object and thread in the median frame: for retiring, and for collecting.
fn run<const WORDS: usize>(precise: bool, threads: u64, objects: u64, most: u64) -> (f64, f64) {
    let memory =
        Allocator::over(sim::Device::new(sim::Profile::h200(), sim::SimOptions::default()), AllocatorDesc::default());
    // SAFETY: there are no submissions.
    let timeline = || unsafe { memory.timeline(memory.device().create_fence(0)) }.expect("the device is not lost");
    let timelines: Vec<Timeline<sim::Device>> = (0..3).map(|_| timeline()).collect();
    let bin = RetireBin::<[u64; WORDS]>::new();
    let frames = most.min(5_000_000 / objects);
    let (mut retire_ns, mut collect_ns) = (Vec::new(), Vec::new());
    let mut passed = Vec::with_capacity((objects * threads) as usize);
    for number in 1..=frames {
        let begun: Vec<_> = timelines.iter().map(Timeline::begin).collect();
        let set: SyncSet = begun.iter().map(ringfence::Frame::point).collect::<Vec<SyncPoint>>().into_iter().collect();
        let work = || {
            let started = Instant::now();
            for index in 0..objects {
                let object = std::hint::black_box([index; WORDS]);
                if precise { bin.retire(&set, object) } else { memory.retirement().retire_into(&bin, object) }
            }
            started.elapsed().as_nanos()
        };
        let ns = if threads == 1 {
            work()
        } else {
            std::thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                running.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u128>() / u128::from(threads)
            })
        };
        for (timeline, frame) in timelines.iter().zip(begun) {
            timeline.submitted(frame).expect("in order");
        }
        retire_ns.push(ns as f64 / objects as f64);
        let started = Instant::now();
        bin.collect([number.saturating_sub(IN_FLIGHT); 3].as_slice(), usize::MAX, &mut passed);
        // A real `reclaim` visits each object, so the measurement includes a visit.
        passed.iter().for_each(|object| _ = std::hint::black_box(object[0]));
        let count = passed.len();
        passed.clear();
        if count > 0 {
            collect_ns.push(started.elapsed().as_nanos() as f64 / count as f64);
        }
    }
    (median(retire_ns), median(collect_ns))
}

/// Returns the time of the median frame. The median excludes frames in which the thread was suspended.
fn median(mut frames: Vec<f64>) -> f64 {
    frames.sort_by(f64::total_cmp);
    frames[frames.len() / 2]
}
