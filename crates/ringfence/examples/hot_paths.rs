//! A fixed amount of work on each hot path, for counting instructions: `ci/callgrind.sh`.
//!
//! Each path is one function that is not inlined, so that callgrind has a line for it, and does [`OPERATIONS`]
//! operations. The preparation (filling the heap) is not part of this function. The work does not depend on time or
//! chance.

use ringfence_core::blocks::{BlockSource, BlocksDesc, GrowableBlocks};
use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::linear::Linear;
use ringfence_core::range::{Allocate, Range};
use ringfence_core::retire::RetireQueue;
use ringfence_core::ring::Ring;
use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
use ringfence_core::tlsf::Tlsf;
use ringfence_lockfree::fixed_pool::FixedPool;
use std::convert::Infallible;
use std::fmt::Debug;
use std::hint::black_box;

/// Number of allocations, frees, retirements or releases in each path, except in the path `blocks_of_tlsf`.
const OPERATIONS: usize = 20_000;
const OPERATIONS_OF_BLOCKS: usize = 400_000;

/// xorshift64*, which returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a size from 256 to 65,535 units. Each interval between two powers of two is equally likely. Uses
    /// integers only, because floating-point functions of different C libraries execute different numbers of
    /// instructions.
    fn size(&mut self) -> u64 {
        let magnitude = 8 + self.next() % 8;
        (1 << magnitude) + self.next() % (1 << magnitude)
    }
}

/// The live ranges and the steps to execute on them.
struct Churn<T> {
    live: Vec<T>,
    steps: Vec<(usize, u64)>,
}

impl<T: Copy> Churn<T> {
    fn new<A>(allocator: &mut A, count: usize, operations: usize, mut size: impl FnMut(&mut Random) -> u64) -> Self
    where
        A: Allocate<Allocation = T>,
        A::Error: Debug,
    {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let live = (0..count).map(|_| allocator.allocate(size(&mut random), 1).expect("it fits")).collect();
        let step = |_| ((random.next() % count as u64) as usize, size(&mut random));
        let mut churn = Self { live, steps: (0..operations).map(step).collect() };
        // Reaches the steady state, in which the number of holes no longer changes.
        churn.play(allocator);
        churn.steps.truncate(operations / 2);
        churn
    }

    #[inline(always)]
    fn play<A>(&mut self, allocator: &mut A)
    where
        A: Allocate<Allocation = T>,
        A::Error: Debug,
    {
        for &(at, size) in &self.steps {
            allocator.free(self.live[at]).expect("it is live");
            self.live[at] = allocator.allocate(size, 1).expect("it fits");
        }
    }
}

#[inline(never)]
fn tlsf_with_room(tlsf: &mut Tlsf, churn: &mut Churn<Range>) {
    black_box("tlsf_with_room"); // Otherwise the linker merges identical functions.
    churn.play(tlsf);
}

#[inline(never)]
fn tlsf_nearly_full(tlsf: &mut Tlsf, churn: &mut Churn<Range>) {
    black_box("tlsf_nearly_full"); // Otherwise the linker merges identical functions.
    churn.play(tlsf);
}

#[inline(never)]
fn tlsf_one_size(tlsf: &mut Tlsf, churn: &mut Churn<Range>) {
    black_box("tlsf_one_size"); // Otherwise the linker merges identical functions.
    churn.play(tlsf);
}

#[inline(never)]
fn blocks_of_tlsf(
    blocks: &mut GrowableBlocks<Numbers>,
    churn: &mut Churn<<GrowableBlocks<Numbers> as Allocate>::Allocation>,
) {
    churn.play(blocks);
}

#[inline(never)]
fn buddy(buddy: &mut Buddy, churn: &mut Churn<Range>) {
    churn.play(buddy);
}

#[inline(never)]
fn free_list(free_list: &mut FreeList, churn: &mut Churn<Range>) {
    churn.play(free_list);
}

#[inline(never)]
fn fixed_pool(pool: &FixedPool) {
    for _ in 0..OPERATIONS / 4 {
        let pair = [pool.allocate_near(3), pool.allocate_near(3)].map(|range| range.expect("it fits"));
        for range in pair {
            pool.free_near(3, range).expect("it is live");
        }
    }
}

#[inline(never)]
fn ring_allocate_and_release(ring: &mut Ring<u64>) {
    for frame in 0..OPERATIONS as u64 / 100 {
        for _ in 0..100 {
            black_box(ring.allocate(black_box(200), black_box(256), &frame)).expect("it fits");
        }
        ring.release_while(|&tag| tag + 2 <= frame);
    }
}

#[inline(never)]
fn linear_allocate(page: &mut Linear) {
    for _ in 0..OPERATIONS / 200 {
        for _ in 0..200 {
            black_box(page.allocate(black_box(200), black_box(256))).expect("it fits");
        }
        page.reset();
    }
}

#[inline(never)]
fn retire_and_reclaim(queue: &mut RetireQueue<u64>) {
    for frame in 1..=OPERATIONS as u64 / 100 {
        let set = SyncSet::from(SyncPoint::new(TimelineId::new(0), frame));
        for item in 0..100 {
            queue.retire(black_box(&set), item);
        }
        queue.reclaim([frame.saturating_sub(2)].as_slice(), |item| {
            black_box(item);
        });
    }
}

/// A source of blocks of 4 MiB. The blocks have no memory.
struct Numbers;

impl BlockSource for Numbers {
    type Heap = ();
    type Allocator = Tlsf;
    type Error = Infallible;

    fn create(&mut self, size: u64) -> Result<((), Tlsf), Infallible> {
        Ok(((), Tlsf::new(size)))
    }

    fn destroy(&mut self, (): ()) {}
}

/// Fills an allocator with `count` ranges and passes both to `path`.
fn with<A: Allocate>(
    mut allocator: A,
    (count, operations): (usize, usize),
    size: impl FnMut(&mut Random) -> u64,
    path: fn(&mut A, &mut Churn<A::Allocation>),
) where
    A::Allocation: Copy,
    A::Error: Debug,
{
    let mut churn = Churn::new(&mut allocator, count, operations, size);
    path(&mut allocator, &mut churn);
    black_box(&churn.live);
}

fn main() {
    // 4,000 ranges of about 95 MB in total.
    with(Tlsf::new(200 << 20), (4_000, OPERATIONS), Random::size, tlsf_with_room);
    with(Tlsf::new(54 << 20), (4_000, OPERATIONS), Random::size, tlsf_nearly_full);
    with(Tlsf::new(1 << 30), (4_000, OPERATIONS), |_| 64 << 10, tlsf_one_size);
    let desc = BlocksDesc { basic_size: 4 << 20, ..Default::default() };
    with(GrowableBlocks::new(desc, Numbers), (4_000, OPERATIONS_OF_BLOCKS), Random::size, blocks_of_tlsf);
    with(Buddy::new(1 << 16, 1), (1_000, OPERATIONS), |random| 1 + random.next() % 32, buddy);
    with(FreeList::new(1 << 16), (1_000, OPERATIONS), |random| 1 + random.next() % 32, free_list);
    fixed_pool(&FixedPool::new(256, 4096));
    ring_allocate_and_release(&mut Ring::new(1 << 20));
    linear_allocate(&mut Linear::new(64 << 10));
    retire_and_reclaim(&mut RetireQueue::new());
}
