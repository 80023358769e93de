//! Tests of the lock-free pool: comparisons with a naive twin, tests with threads, and tests of the rules of
//! `docs/acceptance.md`, which they are named after.

use crate::counting_allocator::host_allocations;
use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_core::range::{FreeError, Range, Serial};
use ringfence_core::testing::cases;
use ringfence_lockfree::fixed_pool::FixedPool;
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate { hint: usize },
    Free(usize),
    FreeAgain(usize),
    FreeForged(usize),
    Close,
    Open(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<usize>().prop_map(|hint| Op::Allocate { hint }),
        6 => any::<usize>().prop_map(Op::Free),
        1 => any::<usize>().prop_map(Op::FreeAgain),
        1 => any::<usize>().prop_map(Op::FreeForged),
        1 => Just(Op::Close),
        1 => (1..400_u32).prop_map(Op::Open),
    ]
}

/// The naive twin of a pool: lists of its live ranges and of some freed ones.
struct Twin {
    capacity: u32,
    block_count: u32,
    live: Vec<Range>,
    dead: Vec<Range>,
    serials: HashSet<Serial>,
}

impl Twin {
    fn step(&mut self, pool: &FixedPool, op: Op) {
        let pick = |ranges: &[Range], number: usize| ranges.get(number % ranges.len().max(1)).copied();
        match op {
            Op::Allocate { hint } => self.allocate(pool, hint),
            Op::Free(number) => {
                let Some(range) = pick(&self.live, number) else { return };
                assert!(pool.is_live(&range));
                assert_eq!(pool.free(range), Ok(()));
                self.live.retain(|held| *held != range);
                self.dead.push(range);
            }
            Op::FreeAgain(number) => {
                let Some(range) = pick(&self.dead, number) else { return };
                assert!(!pool.is_live(&range));
                let stale = FreeError::Stale { offset: range.offset(), size: range.size() };
                assert_eq!(pool.free(range), Err(stale));
            }
            Op::FreeForged(number) => {
                let Some(range) = pick(&self.live, number) else { return };
                let number = range.serial().get();
                for (serial, slot) in [(number + 1, range.slot()), (number - 1, range.slot()), (number, !range.slot())]
                {
                    let serial = Serial::from_u64(serial).unwrap();
                    let forged = Range::new(range.offset(), range.size(), slot, serial);
                    assert!(!pool.is_live(&forged) && pool.free(forged).is_err());
                }
            }
            Op::Close => {
                let closes = self.live.is_empty() && self.block_count != 0;
                assert_eq!(pool.close(), closes.then_some(self.block_count));
                self.block_count = if closes { 0 } else { self.block_count };
            }
            Op::Open(count) => {
                let opens = self.block_count == 0 && count <= self.capacity;
                assert_eq!(pool.open(count), opens);
                self.block_count = if opens { count } else { self.block_count };
            }
        }
    }

    fn allocate(&mut self, pool: &FixedPool, hint: usize) {
        let Some(range) = pool.allocate_near(hint) else {
            return assert_eq!(self.live.len(), self.block_count as usize, "refused, although a block is free");
        };
        assert!(range.slot() < self.block_count && self.live.iter().all(|held| held.slot() != range.slot()));
        assert_eq!((range.offset(), range.size()), (u64::from(range.slot()) * 48, 48));
        assert!(self.serials.insert(range.serial()), "a serial was used twice");
        self.live.push(range);
    }

    fn check(&self, pool: &FixedPool) {
        pool.validate().unwrap();
        assert_eq!((pool.live_count() as usize, pool.block_count()), (self.live.len(), self.block_count));
        assert_eq!(pool.is_empty(), self.live.is_empty());
        let mut seen = Vec::new();
        pool.for_each_live(&mut |range| seen.push(range));
        let mut expected = self.live.clone();
        expected.sort_by_key(Range::offset);
        assert_eq!(seen, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(192)))]
    #[test]
    fn a_pool_does_as_its_twin(
        capacity in prop_oneof![1..20_u32, 1..400_u32, Just(4160)],
        ops in vec(op(), 0..400),
    ) {
        let pool = FixedPool::new(48, capacity);
        let mut twin =
            Twin { capacity, block_count: capacity, live: Vec::new(), dead: Vec::new(), serials: HashSet::new() };
        for op in ops {
            twin.step(&pool, op);
            twin.check(&pool);
        }
    }
}

#[test]
fn seed_003_01_a_pool_cuts_its_heap_into_equal_blocks() {
    for count in [1, 2, 7, 64, 65, 128, 1000, 5000] {
        let pool = FixedPool::new(100, count);
        let mut offsets: Vec<_> = std::iter::from_fn(|| pool.allocate()).map(|range| range.offset()).collect();
        offsets.sort_unstable();
        let expected: Vec<_> = (0..u64::from(count)).map(|block| block * 100).collect();
        assert_eq!(offsets, expected, "every block exactly once");
        pool.validate().unwrap();
    }
}

#[test]
fn seed_003_02_numbers_never_come_again() {
    let pool = FixedPool::new(1, 2);
    let mut seen = HashSet::new();
    let first = pool.allocate().unwrap();
    pool.free(first).unwrap();
    for _ in 0..5000 {
        let range = pool.allocate().unwrap();
        assert!(seen.insert(range.serial()));
        pool.free(range).unwrap();
    }
    assert_eq!(
        pool.free(first),
        Err(FreeError::Stale { offset: 0, size: 1 }),
        "it is still detected several runs later"
    );
    let other = FixedPool::new(1, 2);
    let foreign = other.allocate().unwrap();
    assert!(!seen.contains(&foreign.serial()));
    assert_eq!(pool.free(foreign), Err(FreeError::Foreign { offset: 0, size: 1 }));
    assert_eq!(other.free(foreign), Ok(()));
}

#[test]
fn seed_003_02_neither_allocates_on_the_host() {
    let pool = FixedPool::new(64 << 10, 300);
    let mut live = Vec::with_capacity(300);
    let churn = || {
        for _ in 0..20 {
            live.extend(std::iter::from_fn(|| pool.allocate()));
            assert_eq!(live.len(), 300);
            live.drain(..).for_each(|range| pool.free(range).unwrap());
        }
    };
    assert_eq!(host_allocations(churn), 0);
}

/// Returns the block that each of many hints gets first. It determines the cache lines that a thread with this hint
/// writes.
fn starts(pool: &FixedPool) -> Vec<u32> {
    let start = |hint: usize| {
        let range = pool.allocate_near(hint).expect("it is empty");
        pool.free_near(hint, range).expect("live");
        range.slot()
    };
    let mut starts: Vec<_> = (0..2000).map(start).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

#[test]
fn threads_begin_in_groups_of_their_own() {
    for (blocks, groups, apart) in [(8, 1, 8), (128, 16, 8), (256, 16, 16), (1024, 16, 64), (1 << 14, 64, 256)] {
        let expected: Vec<_> = (0..groups).map(|group| group * apart).collect();
        assert_eq!(starts(&FixedPool::new(1, blocks)), expected, "of {blocks} blocks");
    }
}

#[test]
fn a_thread_goes_on_where_it_last_freed() {
    let pool = FixedPool::new(1, 128);
    let held: Vec<_> = std::iter::from_fn(|| pool.allocate_near(0)).collect();
    let of = |slot: u32| *held.iter().find(|range| range.slot() == slot).expect("all are live");
    pool.free_near(1, of(3)).expect("live");
    pool.free_near(0, of(100)).expect("live");
    assert_eq!(pool.allocate_near(0).map(|range| range.slot()), Some(100), "although 3 is lower");
    pool.free_near(1, of(101)).expect("live");
    assert_eq!(pool.allocate_near(0).map(|range| range.slot()), Some(101), "and stays there");
}

/// If the group that a thread used last is full, the thread continues with the next higher group that has a free block,
/// and after the last group with the first one.
#[test]
fn the_next_group_is_the_one_that_comes_after_the_full_one() {
    // The number of groups, the full group that the thread used last, the groups with a free block, and these groups in
    // the order of use.
    for (groups, last, free, expected) in [
        (16, 5, vec![3, 9, 12], [9, 12, 3]),
        (192, 70, vec![1, 100, 150], [100, 150, 1]),
        (192, 70, vec![66, 100, 150], [100, 66, 150]),
        (192, 72, vec![2, 140, 150], [140, 150, 2]),
    ] {
        let in_group = if groups == 16 { 8 } else { 64 };
        let pool = FixedPool::new(1, groups * in_group);
        let mut held: Vec<_> = std::iter::from_fn(|| pool.allocate_near(0)).map(Some).collect();
        held.sort_unstable_by_key(|range| range.map(|range| range.slot()));
        let mut free_in = |hint, group: u32| {
            let range = held[(group * in_group) as usize].take().expect("once");
            pool.free_near(hint, range).expect("live");
        };
        let other = (1..).find(|hint| (hint * 0x9E37_79B9_7F4A_7C15_u128) as u64 >> 63 != 0).expect("some") as usize;
        free.iter().for_each(|group| free_in(other, *group));
        free_in(0, last);
        let next = || pool.allocate_near(0).map(|range| range.slot() / in_group);
        assert_eq!(next(), Some(last));
        assert_eq!([next(), next(), next()], expected.map(Some), "of {groups} groups, from {last} on");
    }
}

#[test]
fn a_block_behind_the_last_has_no_owner() {
    for count in [5, 8, 64] {
        let pool = FixedPool::new(100, count);
        assert_eq!((pool.block_size(), pool.capacity()), (100, count));
        let held = pool.allocate().expect("it is empty");
        for slot in [count, count + 1, u32::MAX] {
            let forged = Range::new(held.offset(), held.size(), slot, held.serial());
            assert!(!pool.is_live(&forged) && pool.free(forged).is_err(), "slot {slot}");
        }
    }
}

const THREADS: usize = 4;

#[test]
fn seed_003_02_threads_never_share_a_block() {
    // There are few blocks, so that the threads use the same groups, fill them and find them full.
    for (count, held_max) in [(8, 3), (40, 12), (700, 200)] {
        let pool = FixedPool::new(1, count);
        let owned: Vec<AtomicBool> = (0..count).map(|_| AtomicBool::new(false)).collect();
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (pool, owned) = (&pool, &owned);
                scope.spawn(move || churn(pool, owned, number, held_max));
            }
        });
        pool.validate().unwrap();
        assert!(pool.is_empty());
        assert_eq!(std::iter::from_fn(|| pool.allocate()).count(), count as usize, "no block was lost");
    }
}

fn churn(pool: &FixedPool, owned: &[AtomicBool], number: usize, held_max: usize) {
    let mut random = number as u64 + 1;
    let mut held: Vec<Range> = Vec::new();
    for _ in 0..60_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = (random >> 33) as usize;
        if held.len() < held_max && !pick.is_multiple_of(3) {
            let Some(range) = pool.allocate() else { continue };
            assert!(!owned[range.slot() as usize].swap(true, Relaxed), "another thread has it");
            held.push(range);
        } else if !held.is_empty() {
            let range = held.swap_remove(pick % held.len());
            assert!(owned[range.slot() as usize].swap(false, Relaxed));
            assert_eq!(pool.free(range), Ok(()));
            if pick.is_multiple_of(64) {
                assert!(pool.free(range).is_err(), "a second free fails, even if the block is live again");
            }
        }
    }
    held.into_iter().for_each(|range| {
        owned[range.slot() as usize].store(false, Relaxed);
        pool.free(range).unwrap();
    });
}

#[test]
fn seed_003_02_of_two_threads_that_free_one_block_one_is_obeyed() {
    let pool = FixedPool::new(1, 64);
    let obeyed = AtomicU32::new(0);
    let ranges: Vec<Range> = std::iter::from_fn(|| pool.allocate()).collect();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                let freed = ranges.iter().filter(|range| pool.free(**range).is_ok()).count();
                obeyed.fetch_add(freed as u32, Relaxed);
            });
        }
    });
    assert_eq!(obeyed.into_inner(), 64);
    pool.validate().unwrap();
    assert!(pool.is_empty());
}

#[test]
fn closing_races_with_allocations() {
    let pool = FixedPool::new(1, 20);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    if let Some(range) = pool.allocate() {
                        assert_ne!(pool.block_count(), 0, "a live block keeps the pool open");
                        pool.free(range).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut closings = 0;
            while closings < 1000 {
                if pool.close().is_some() {
                    assert_eq!((pool.allocate(), pool.close()), (None, None));
                    assert!(pool.open(1 + closings % 20));
                    closings += 1;
                }
            }
        });
    });
    pool.validate().unwrap();
}

#[test]
#[should_panic(expected = "overflow")]
fn a_pool_beyond_64_bits_is_refused() {
    _ = FixedPool::new(1 << 63, 2);
}
