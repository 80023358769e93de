//! Measures the time of a small write for several numbers of threads: each thread through its own writer, and all
//! threads through the lock of the ring.
//!
//! `cargo run --release -p ringfence-testkit --example upload_threads [DEVICE [WRITES]]`

mod bench;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use bench::{Bench, median, open};
use ringfence::device::Driver;
use ringfence::upload::UploadDesc;
use ringfence::{Allocator, AllocatorDesc, UploadRing};
use ringfence_testkit::Gpu;

const WRITE_BYTES: usize = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().filter(|name| !name.is_empty());
    let writes: usize = arguments.next().map_or(20_000, |count| count.parse().expect("a number of writes"));
    let gpu = open(name);
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{}, {cores} cores: {writes} writes of {WRITE_BYTES} bytes a thread and frame",
        gpu.device().capabilities().name
    );
    {
        let mut bench = Bench::new(&gpu, 2);
        // SAFETY: the bench signals every frame, and is idle when it is dropped.
        let timeline = unsafe { memory.timeline(bench.timeline) }.expect("the device is not lost");
        println!("{:>7} {:>22} {:>22}", "threads", "writer, ns a write", "ring's lock, ns a write");
        for threads in [1, 2, 4, 8, 16] {
            let capacity = (threads * (writes + 256) * WRITE_BYTES * 3).next_multiple_of(4 << 20) as u64;
            let ring =
                UploadRing::new(&memory, UploadDesc { capacity, ..Default::default() }).expect("there is memory");
            let figures: [f64; 2] = [true, false].map(|own| {
                let rounds = (0..9).map(|_| {
                    let frame = timeline.begin();
                    let bytes = [7; WRITE_BYTES];
                    let start = Barrier::new(threads + 1);
                    let elapsed = std::thread::scope(|scope| {
                        for _ in 0..threads {
                            let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
                            let (ring, frame, start) = (&ring, &frame, &start);
                            scope.spawn(move || {
                                start.wait();
                                for _ in 0..writes {
                                    let written = if own {
                                        writer.write(&bytes, 256)
                                    } else {
                                        ring.write_for(frame, &bytes, 256)
                                    };
                                    std::hint::black_box(written.expect("there is room"));
                                }
                            });
                        }
                        start.wait();
                        Instant::now()
                    })
                    .elapsed();
                    let value = bench.submit(|_, _| ());
                    timeline.submitted(frame).expect("in order");
                    bench.wait(value);
                    memory.reclaim();
                    elapsed.as_nanos() as f64 / writes as f64
                });
                median(rounds.collect())
            });
            // If there are more threads than cores, they take turns, so the time on one core is printed.
            let turns = (threads as f64 / cores as f64).max(1.0);
            println!("{threads:>7} {:>22.1} {:>22.1}", figures[0] / turns, figures[1] / turns);
        }
        memory.shutdown(Duration::from_secs(60)).expect("all work is complete");
    }
}
