//! Measures the number of allocations and frees per second, in pairs, for the lock-free pools and for allocators with a
//! lock.
//!
//! `cargo run -p ringfence-lockfree --release --example pool_threads [-- SECONDS_PER_FIGURE [THREADS …]]`
//!
//! Each thread owns 500 blocks of 64 KiB. It repeatedly frees a random one of them and allocates another. Each of
//! twenty rounds measures all contestants in turn, so that other load on the machine slows all of them; the example
//! prints the best and the worst round. If the machine has fewer idle cores than threads, the figures do not show
//! contention, because threads that alternate on one core do not collide. This favours designs with one lock or one
//! head. The last two contestants do not detect misuse; the others refuse double frees.

use ringfence_core::range::{Allocate, Range};
use ringfence_core::tlsf::Tlsf;
use ringfence_lockfree::fixed_pool::FixedPool;
use ringfence_lockfree::pool_chain::{PoolAllocation, PoolChain};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LIVE: usize = 500;
const BLOCK: u64 = 64 << 10;
const ROUNDS: usize = 20;

/// An allocator to measure.
trait Contestant: Sync {
    type Block: Send;
    fn take(&self) -> Self::Block;
    fn give(&self, block: Self::Block);
}

impl Contestant for FixedPool {
    type Block = Range;

    fn take(&self) -> Range {
        self.allocate().expect("there are more blocks than live ones")
    }

    fn give(&self, block: Range) {
        self.free(block).expect("it is live");
    }
}

impl Contestant for PoolChain<()> {
    type Block = PoolAllocation;

    fn take(&self) -> PoolAllocation {
        self.allocate().expect("there are more blocks than live ones")
    }

    fn give(&self, block: PoolAllocation) {
        self.free(block).expect("it is live");
    }
}

impl Contestant for Mutex<Tlsf> {
    type Block = Range;

    fn take(&self) -> Range {
        self.lock().unwrap().allocate(BLOCK, 1).expect("there are more blocks than live ones")
    }

    fn give(&self, block: Range) {
        self.lock().unwrap().free(block).expect("it is live");
    }
}

/// The fastest possible pool with a lock: a list of free offsets, without detection of misuse.
struct FreeOffsets(Mutex<Vec<u64>>);

impl Contestant for FreeOffsets {
    type Block = u64;

    fn take(&self) -> u64 {
        self.0.lock().unwrap().pop().expect("there are more blocks than live ones")
    }

    fn give(&self, block: u64) {
        self.0.lock().unwrap().push(block);
    }
}

/// For comparison: a lock-free stack of free blocks with one head, tagged against ABA, without detection of misuse.
struct Stack {
    /// The upper half is the number of changes; the lower half is the index of the first free block, plus 1.
    head: AtomicU64,
    next: Vec<AtomicU32>,
}

impl Stack {
    fn new(count: u32) -> Self {
        let next = (0..=count).map(|block| AtomicU32::new(block.saturating_sub(1))).collect();
        Self { head: AtomicU64::new(u64::from(count)), next }
    }

    fn exchange(&self, new: impl Fn(u32) -> u32) -> u32 {
        use std::sync::atomic::Ordering::{AcqRel, Acquire};
        let mut head = self.head.load(Acquire);
        loop {
            let changed = ((head >> 32).wrapping_add(1) << 32) | u64::from(new(head as u32));
            match self.head.compare_exchange_weak(head, changed, AcqRel, Acquire) {
                Ok(_) => return head as u32,
                Err(seen) => head = seen,
            }
        }
    }
}

impl Contestant for Stack {
    type Block = u32;

    fn take(&self) -> u32 {
        let block = self.exchange(|head| self.next[head as usize].load(Relaxed));
        assert_ne!(block, 0, "there are more blocks than live ones");
        block
    }

    fn give(&self, block: u32) {
        self.exchange(|head| {
            self.next[block as usize].store(head, Relaxed);
            block
        });
    }
}

/// Returns the number of pairs per second of all threads together, in millions.
fn measure<C: Contestant>(contestant: &C, threads: usize, time: Duration) -> f64 {
    let (barrier, stop, pairs) = (Barrier::new(threads + 1), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..threads {
            let (barrier, stop, pairs) = (&barrier, &stop, &pairs);
            scope.spawn(move || {
                let mut held: Vec<C::Block> = (0..LIVE).map(|_| contestant.take()).collect();
                barrier.wait();
                pairs.fetch_add(churn(contestant, &mut held, stop, number as u64 + 1), Relaxed);
                held.into_iter().for_each(|block| contestant.give(block));
            });
        }
        barrier.wait();
        let start = Instant::now();
        thread::sleep(time);
        stop.store(true, Relaxed);
        start
    })
    .elapsed()
    .as_secs_f64()
    .recip()
        * pairs.into_inner() as f64
        / 1e6
}

fn churn<C: Contestant>(contestant: &C, held: &mut Vec<C::Block>, stop: &AtomicBool, mut random: u64) -> u64 {
    let mut pairs = 0;
    while !stop.load(Relaxed) {
        for _ in 0..64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random >> 20) as usize % LIVE;
            contestant.give(held.swap_remove(at));
            held.push(black_box(contestant.take()));
        }
        pairs += 64;
    }
    pairs
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(0.04, |text| text.parse().expect("seconds"));
    let mut counts: Vec<usize> = arguments.map(|text| text.parse().expect("a number of threads")).collect();
    if counts.is_empty() {
        counts = vec![1, 2, 4];
    }
    let time = Duration::from_secs_f64(seconds);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("millions of pairs a second, best (worst) of {ROUNDS} rounds, {LIVE} live a thread, {cores} cores\n");
    println!("| threads | FixedPool | PoolChain | Mutex<Tlsf> | Mutex<Vec<offset>> | tagged stack |");
    println!("|---|---|---|---|---|---|");
    for threads in counts {
        let mut best = [(0_f64, f64::MAX); 5];
        for _ in 0..ROUNDS {
            let figures = round(threads, time);
            best.iter_mut().zip(figures).for_each(|(held, now)| *held = (held.0.max(now), held.1.min(now)));
        }
        let cells: String = best.iter().map(|(best, worst)| format!(" {best:.1} ({worst:.1}) |")).collect();
        println!("| {threads} |{cells}");
    }
}

fn round(threads: usize, time: Duration) -> [f64; 5] {
    let count = (threads * LIVE * 2).next_power_of_two() as u32;
    let chain = PoolChain::new(BLOCK, 64);
    for _ in 0..count.div_ceil(1024) {
        let first = chain.reserve(count.min(1024)).expect("there is a vacant slot").open(());
        chain.give(first);
    }
    [
        measure(&FixedPool::new(BLOCK, count), threads, time),
        measure(&chain, threads, time),
        measure(&Mutex::new(Tlsf::new(BLOCK * u64::from(count))), threads, time),
        measure(&FreeOffsets(Mutex::new((0..count).map(|block| u64::from(block) * BLOCK).collect())), threads, time),
        measure(&Stack::new(count), threads, time),
    ]
}
