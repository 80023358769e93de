//! One allocator, many threads: pairs of a free and an allocation a second, all threads together. Without a device.

use crate::output::{Report, Row, Value};
use crate::trace::Random;
use offset_allocator::Allocator as OffsetAllocator;
use ringfence::device::{Requirements, ResourceClass};
use ringfence::memory::Allocation;
use ringfence::sim::{self, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_core::range::{Allocate, Range};
use ringfence_core::tlsf::Tlsf;
use ringfence_lockfree::fixed_pool::FixedPool;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Number of live ranges of a thread.
const LIVE: usize = 500;

/// The state that all threads share.
pub trait Shared: Sync {
    type Held: Send;

    fn allocate(&self, thread: usize, size: u64) -> Self::Held;
    fn free(&self, thread: usize, held: Self::Held);
}

/// Returns millions of pairs a second with `threads` threads, measured for `time`.
pub fn pairs<S: Shared>(shared: &S, threads: usize, time: Duration) -> f64 {
    let (stop, done, barrier) = (AtomicBool::new(false), AtomicU64::new(0), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, done, barrier) = (&stop, &done, &barrier);
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 1);
                let mut size = move || random.log_uniform(256, 16 << 10);
                // Sizes are computed before the measurement, to exclude the logarithm.
                let sizes: Vec<_> = (0..4096).map(|_| size()).collect();
                let mut choice = Random::new(thread as u64 + 100);
                let mut live: Vec<_> = (0..LIVE).map(|at| Some(shared.allocate(thread, sizes[at]))).collect();
                barrier.wait();
                let mut count = 0_usize;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        let at = choice.below(LIVE as u64) as usize;
                        if let Some(held) = live[at].take() {
                            shared.free(thread, held);
                        }
                        live[at] = Some(shared.allocate(thread, sizes[count % sizes.len()]));
                        count += 1;
                    }
                }
                done.fetch_add(count as u64, Ordering::Relaxed);
                live.into_iter().flatten().for_each(|held| shared.free(thread, held));
            });
        }
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        start.elapsed()
    });
    done.load(Ordering::Relaxed) as f64 / time.as_secs_f64() / 1e6
}

impl Shared for Mutex<Tlsf> {
    type Held = Range;

    fn allocate(&self, _: usize, size: u64) -> Range {
        self.lock().expect("no thread panics").allocate(size, 256).expect("it fits")
    }

    fn free(&self, _: usize, held: Range) {
        self.lock().expect("no thread panics").free(held).expect("it is live");
    }
}

/// One lock-free pool for each power of two.
struct Pools(Vec<FixedPool>);

impl Shared for Pools {
    type Held = (usize, Range);

    fn allocate(&self, thread: usize, size: u64) -> (usize, Range) {
        let class = size.next_power_of_two().trailing_zeros() as usize - 8;
        (class, self.0[class].allocate_near(thread).expect("each pool holds all"))
    }

    fn free(&self, thread: usize, (class, range): (usize, Range)) {
        self.0[class].free_near(thread, range).expect("it is live");
    }
}

/// The public allocator, on a device that these paths do not call.
struct OfAllocator(Allocator<sim::Device>);

impl OfAllocator {
    fn new() -> Self {
        let device = sim::Device::new(Profile::h200(), SimOptions::default());
        Self(Allocator::over(device, AllocatorDesc::default()))
    }
}

impl Shared for OfAllocator {
    type Held = Allocation<sim::Device>;

    fn allocate(&self, _: usize, size: u64) -> Self::Held {
        let needs = Requirements {
            size,
            alignment: 256,
            memory_type_bits: u32::MAX,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        self.0.allocate(needs, AllocationDesc::default()).expect("there is memory")
    }

    fn free(&self, _: usize, held: Self::Held) {
        // SAFETY: the memory contains no resource.
        unsafe { held.destroy_now() };
    }
}

impl Shared for Mutex<OffsetAllocator> {
    type Held = offset_allocator::Allocation;

    fn allocate(&self, _: usize, size: u64) -> Self::Held {
        // It has no alignment, so the unit is 256 bytes.
        self.lock().expect("no thread panics").allocate(size.div_ceil(256) as u32).expect("it fits")
    }

    fn free(&self, _: usize, held: Self::Held) {
        self.lock().expect("no thread panics").free(held);
    }
}

struct VirtualBlock(Mutex<vk_mem::VirtualBlock>);

impl Shared for VirtualBlock {
    type Held = vk_mem::VirtualAllocation;

    fn allocate(&self, _: usize, size: u64) -> Self::Held {
        let flags = vk_mem::VirtualAllocationCreateFlags::empty();
        let info = vk_mem::VirtualAllocationCreateInfo { size, alignment: 256, user_data: 0, flags };
        // SAFETY: the lock is held.
        unsafe { self.0.lock().expect("no thread panics").allocate(info) }.expect("it fits").0
    }

    fn free(&self, _: usize, mut held: Self::Held) {
        // SAFETY: the lock is held; the allocation came from this block and is freed once.
        unsafe { self.0.lock().expect("no thread panics").free(&mut held) };
    }
}

// SAFETY: VMA's virtual block is a plain structure in host memory, and the lock guards it.
unsafe impl Sync for VirtualBlock {}

fn contenders() -> Vec<(&'static str, bool, Box<dyn Fn(usize, Duration) -> f64>)> {
    const CAPACITY: u64 = 256 << 20;
    vec![
        (
            "ringfence FixedPool, powers of two",
            true,
            Box::new(|threads, time| {
                let blocks = |class| FixedPool::new(256_u64 << class, 64 << 10);
                pairs(&Pools((0..7).map(blocks).collect()), threads, time)
            }),
        ),
        (
            "ringfence Allocator, memory alone",
            true,
            Box::new(|threads, time| pairs(&OfAllocator::new(), threads, time)),
        ),
        (
            "ringfence Tlsf in a mutex",
            true,
            Box::new(|threads, time| pairs(&Mutex::new(Tlsf::new(CAPACITY)), threads, time)),
        ),
        (
            "offset-allocator 0.2 in a mutex",
            false,
            Box::new(|threads, time| {
                pairs(&Mutex::new(OffsetAllocator::with_max_allocs((CAPACITY / 256) as u32, 128 << 10)), threads, time)
            }),
        ),
        (
            "VMA 3.3 virtual block in a mutex",
            false,
            Box::new(|threads, time| {
                let info = vk_mem::VirtualBlockCreateInfo { size: CAPACITY, ..Default::default() };
                let block = vk_mem::VirtualBlock::new(info).expect("it takes host memory alone");
                pairs(&VirtualBlock(Mutex::new(block)), threads, time)
            }),
        ),
    ]
}

pub fn counts(max: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|&count| count <= max).collect()
}

pub fn section(threads_max: usize, repetitions: usize, time: Duration, report: &mut Report) -> std::io::Result<()> {
    let mut rows = Vec::new();
    let contenders = contenders();
    for threads in counts(threads_max) {
        let mut best = vec![0_f64; contenders.len()];
        for _ in 0..repetitions {
            for ((_, _, run), best) in contenders.iter().zip(&mut best) {
                *best = best.max(run(threads, time));
            }
        }
        let peers = contenders.iter().zip(&best).filter(|((_, ours, _), _)| !ours);
        let best_peer = peers.map(|(_, &pairs)| pairs).fold(0.0, f64::max);
        for ((name, ours, _), pairs) in contenders.iter().zip(best) {
            let mut row = Row::new();
            row.push("threads", Value::Number(threads as f64, 0));
            row.push("allocator", Value::Text((*name).into()));
            row.push("million pairs/s", Value::Number(pairs, 2));
            row.push("this / best peer", Value::Number(pairs / best_peer, 2));
            row.hide("ours", Value::Text(ours.to_string()));
            rows.push(row);
        }
    }
    let heading = format!("Threads, no device: {LIVE} live a thread, 256 B to 16 KiB, aligned to 256");
    report.table("threads", &heading, &rows, 0)
}
