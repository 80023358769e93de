//! Measures the time of an allocation or free, and the heap size that a sequence of them needs: `cargo run --release
//! --example churn -p ringfence-core`.
//!
//! A trace fills the heap with `live` ranges of log-uniform sizes, then repeatedly frees a random range and allocates a
//! new one. The column "room" is the smallest capacity in which the whole trace succeeds, divided by the largest number
//! of live units of the trace.

use ringfence_core::blocks::{BlockSource, BlocksDesc, GrowableBlocks};
use ringfence_core::range::{Allocate, RangeAllocator};
use ringfence_core::tlsf::Tlsf;
use std::convert::Infallible;
use std::fmt::Debug;
use std::hint::black_box;
use std::time::Instant;

/// Random numbers (xorshift64*). They are the same in every run, and need no other crate.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (low as f64 * (high as f64 / low as f64).powf(unit)) as u64
    }
}

/// A trace: the sizes of the first ranges (`fill`), then pairs of the index of the live range to replace and the new
/// size (`churn`). `peak` is the largest number of live units.
struct Trace {
    fill: Vec<u64>,
    churn: Vec<(usize, u64)>,
    peak: u64,
}

impl Trace {
    fn new(live: usize, low: u64, high: u64, pairs: usize, unit: u64) -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let size = |random: &mut Random| random.log_uniform(low, high).next_multiple_of(unit);
        let fill: Vec<_> = (0..live).map(|_| size(&mut random)).collect();
        let churn: Vec<_> = (0..pairs).map(|_| ((random.next() % live as u64) as usize, size(&mut random))).collect();
        let (mut sizes, mut sum) = (fill.clone(), fill.iter().sum::<u64>());
        let mut peak = sum;
        for &(at, size) in &churn {
            sum = sum - sizes[at] + size;
            sizes[at] = size;
            peak = peak.max(sum);
        }
        Self { fill, churn, peak }
    }

    /// Returns `true` if no request of the trace fails.
    fn fits(&self, capacity: u64, alignment: u64) -> bool {
        let mut tlsf = Tlsf::new(capacity);
        let mut live = Vec::with_capacity(self.fill.len());
        for &size in &self.fill {
            let Ok(range) = tlsf.allocate(size, alignment) else { return false };
            live.push(range);
        }
        self.churn.iter().all(|&(at, size)| {
            tlsf.free(live[at]).expect("it is live");
            tlsf.allocate(size, alignment).map(|range| live[at] = range).is_ok()
        })
    }

    fn room(&self, alignment: u64) -> f64 {
        let (mut low, mut high) = (self.peak, self.peak * 2);
        while high - low > self.peak / 2000 {
            let middle = low + (high - low) / 2;
            if self.fits(middle, alignment) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high as f64 / self.peak as f64
    }

    fn time<A: Allocate>(&self, alignment: u64, mut allocator: A) -> f64
    where
        A::Error: Debug,
        A::Allocation: Copy,
    {
        let mut live: Vec<_> =
            self.fill.iter().map(|&size| allocator.allocate(size, alignment).expect("it fits")).collect();
        let start = Instant::now();
        for &(at, size) in &self.churn {
            allocator.free(live[at]).expect("it is live");
            live[at] = allocator.allocate(size, alignment).expect("it fits");
        }
        let ns = start.elapsed().as_nanos() as f64;
        black_box(&live);
        ns / (2 * self.churn.len()) as f64
    }
}

/// Returns the time of a request that fails, in nanoseconds: 10,000 free spans are in the size class of the request,
/// and all are too small.
fn near_miss_ns() -> f64 {
    let mut tlsf = Tlsf::new(20_000 * 4096);
    let ranges: Vec<_> = (0..20_000).map(|_| tlsf.allocate(4096, 1).expect("it fits")).collect();
    for range in ranges.iter().step_by(2) {
        tlsf.free(*range).expect("it is live");
    }
    let start = Instant::now();
    for _ in 0..10_000 {
        black_box(tlsf.allocate(black_box(4100), 1)).expect_err("no hole is as large");
    }
    assert_eq!(tlsf.free_size(), 10_000 * 4096);
    start.elapsed().as_nanos() as f64 / 10_000.0
}

/// A block source whose heaps have no memory.
struct Source;

impl BlockSource for Source {
    type Heap = ();
    type Allocator = Tlsf;
    type Error = Infallible;

    fn create(&mut self, size: u64) -> Result<((), Tlsf), Infallible> {
        Ok(((), Tlsf::new(size)))
    }

    fn destroy(&mut self, (): ()) {}
}

fn median(mut times: [f64; 5]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[2]
}

fn main() {
    println!("{:36} {:>9} {:>9} {:>7}", "trace, ns/op (median of 5)", "tlsf", "in blocks", "room");
    for (name, live, low, high, unit, alignment) in [
        ("500 live, 256 B to 64 KiB", 500, 256, 64 << 10, 1, 1),
        ("5,000 live, 256 B to 64 KiB", 5_000, 256, 64 << 10, 1, 1),
        ("20,000 live, 256 B to 64 KiB", 20_000, 256, 64 << 10, 1, 1),
        ("20,000 live, 256 B to 64 KiB, by 256", 20_000, 256, 64 << 10, 256, 256),
        ("20,000 live, same, aligned to 256", 20_000, 256, 64 << 10, 1, 256),
        ("2,000 live, 256 B to 4 MiB", 2_000, 256, 4 << 20, 1, 1),
        ("20,000 live, all 64 KiB", 20_000, 64 << 10, 64 << 10, 1, 1),
        ("100,000 live, 256 B to 1 KiB", 100_000, 256, 1 << 10, 1, 1),
    ] {
        let trace = Trace::new(live, low, high, 1_000_000, unit);
        let alone = median([(); 5].map(|()| trace.time(alignment, Tlsf::new(trace.peak * 2))));
        let desc = BlocksDesc { basic_size: 16 << 20, ..Default::default() };
        let blocks = median([(); 5].map(|()| trace.time(alignment, GrowableBlocks::new(desc, Source))));
        println!("{name:36} {alone:9.1} {blocks:9.1} {:7.3}", trace.room(alignment));
    }
    println!("{:36} {:9.1}", "refused among 10,000 near misses", near_miss_ns());
}
