//! Tests of the chain of pools: with threads, with pools that are added and removed, and tests of the rules of
//! `docs/acceptance.md`, which they are named after.

use crate::counting_allocator::host_allocations;
use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_core::range::FreeError;
use ringfence_core::size_class::size_class;
use ringfence_core::testing::cases;
use ringfence_lockfree::pool_chain::{KeepPools, PoolAllocation, PoolChain, PoolStatistics};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

/// Returns a chain whose heaps are numbers, and its blocks, which are all allocated pool by pool.
fn filled(block_count: u32, pool_count: u32) -> (PoolChain<u32>, Vec<PoolAllocation>) {
    let chain = PoolChain::new(16, pool_count);
    let mut live = Vec::new();
    for heap in 0..pool_count {
        live.push(chain.reserve(block_count).unwrap().open(heap));
        live.extend(std::iter::from_fn(|| chain.allocate()));
    }
    (chain, live)
}

fn heaps(chain: &PoolChain<u32>) -> Vec<u32> {
    let mut heaps = Vec::new();
    chain.for_each_pool(&mut |pool| heaps.push(*pool.heap()));
    heaps
}

#[test]
fn seed_003_05_a_full_pool_is_followed_by_the_next() {
    let (chain, mut live) = filled(5, 3);
    let at: Vec<_> = live.iter().map(|allocation| (allocation.pool(), allocation.offset())).collect();
    let mut expected = at.clone();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!((at.len(), expected.len()), (15, 15), "three pools of five blocks, each block once");
    assert_eq!(heaps(&chain), [0, 1, 2]);

    let freed = live.remove(7);
    let place = (freed.pool(), freed.offset());
    chain.free(freed).unwrap();
    let again = chain.allocate().expect("a block of the pool in the middle is free");
    assert_eq!((again.pool(), again.offset()), place);
    assert_eq!(chain.allocate(), None);
    chain.validate().unwrap();

    // If there are many pools, freed blocks in any of them are found before the chain is exhausted.
    let (chain, mut live) = filled(2, 130);
    for thorough in [false, true] {
        for pools in [[0, 1, 129], [63, 64, 65], [2, 127, 128]] {
            let (gone, stay): (Vec<_>, Vec<_>) = live.into_iter().partition(|held| pools.contains(&held.pool()));
            gone.into_iter().for_each(|gone| chain.free(gone).unwrap());
            let next = || if thorough { chain.allocate_thorough() } else { chain.allocate() };
            let again: Vec<_> = std::iter::from_fn(next).collect();
            let mut seen: Vec<_> = again.iter().map(PoolAllocation::pool).collect();
            seen.sort_unstable();
            assert_eq!(seen, pools.map(|pool| [pool; 2]).concat());
            live = stay.into_iter().chain(again).collect();
        }
    }
    chain.validate().unwrap();
}

#[test]
fn a_block_of_the_last_of_many_pools_is_found() {
    let (chain, mut live) = filled(1, 70);
    assert_eq!((chain.block_size(), chain.pool_count_max()), (16, 70));
    chain.free(live.pop().unwrap()).unwrap();
    let again = chain.allocate().expect("one block is free");
    assert_eq!((again.pool(), chain.heap(&again)), (69, Some(&69)));
    let mut indices = Vec::new();
    chain.for_each_pool(&mut |pool| indices.push(pool.index()));
    assert_eq!(indices, (0..70).collect::<Vec<_>>());
}

/// All blocks of a pool are allocated through the bits in `rooms`, also if there are more groups than a word has bits.
#[test]
fn a_large_pool_is_filled_by_what_is_cached() {
    let (chain, live) = filled(9000, 1);
    assert_eq!((live.len(), chain.statistics().live_count), (9000, 9000));
}

#[test]
fn a_pool_shows_its_live_blocks() {
    let (chain, mut live) = filled(4, 1);
    live.sort_unstable_by_key(PoolAllocation::block);
    chain.free(live.remove(1)).unwrap();
    let mut seen = Vec::new();
    chain.for_each_pool(&mut |pool| pool.for_each_live(&mut |span| seen.push((span.offset, span.size, span.slot))));
    assert_eq!(seen, [(0, 16, Some(0)), (32, 16, Some(2)), (48, 16, Some(3))]);
}

#[test]
fn a_place_without_a_heap_does_not_count_as_an_empty_pool_that_is_kept() {
    let (chain, live) = filled(2, 2);
    let (first, second): (Vec<_>, Vec<_>) = live.into_iter().partition(|allocation| allocation.pool() == 0);
    first.into_iter().for_each(|allocation| chain.free(allocation).unwrap());
    assert_eq!(chain.take_empty(), Some(0));
    second.into_iter().for_each(|allocation| chain.free(allocation).unwrap());
    let expected = PoolStatistics { pool_count: 1, empty_pool_count: 1, block_count: 2, live_count: 0 };
    assert_eq!(chain.statistics(), expected);
    let keep = KeepPools { empty_count: 1, grace_ticks: 1 };
    assert_eq!((0..9).find_map(|tick| chain.take_surplus(tick, keep)), None, "it is the only one");
}

#[test]
fn heaps_go_with_their_chain() {
    let heap = Arc::new(());
    let chain = PoolChain::new(1, 2);
    drop(chain.reserve(1).unwrap().open(Arc::clone(&heap)));
    assert_eq!(Arc::strong_count(&heap), 2);
    drop(chain);
    assert_eq!(Arc::strong_count(&heap), 1);
}

#[test]
fn seed_003_06_the_largest_number_of_pools_is_obeyed() {
    let (chain, live) = filled(2, 3);
    assert!(chain.reserve(2).is_none());
    live.into_iter().for_each(|allocation| chain.free(allocation).unwrap());
    assert_eq!(chain.take_empty(), Some(2), "the last");
    let first = chain.reserve(2).unwrap();
    assert!(chain.reserve(2).is_none(), "a reservation counts before its heap is created");
    drop(first);
    let first = chain.reserve(2).expect("a cancelled reservation leaves no trace");
    assert_eq!((first.pool(), first.block_count()), (2, 2));
    chain.validate().unwrap();
}

#[test]
fn seed_003_07_the_result_is_a_heap_and_an_offset_or_nothing() {
    let (chain, live) = filled(3, 2);
    for allocation in &live {
        assert_eq!(chain.heap(allocation), Some(&allocation.pool()), "heaps have the numbers of their pools");
        assert_eq!(allocation.offset(), u64::from(allocation.block()) * 16);
        assert!(chain.is_live(allocation));
    }
    assert_eq!(chain.allocate(), None);
    assert_eq!(chain.allocate_thorough(), None);
}

#[test]
fn fault_11_the_chain_is_not_followed_past_its_end() {
    let none = PoolChain::<()>::new(1, 0);
    assert_eq!((none.allocate(), none.allocate_thorough(), none.take_empty()), (None, None, None));
    assert!(none.reserve(1).is_none());
    for pools in [1, 63, 64, 65] {
        let (chain, live) = filled(1, pools);
        assert_eq!((chain.allocate(), live.len()), (None, pools as usize));
    }
}

#[test]
fn fault_11_a_free_knows_its_pool() {
    let (chain, live) = filled(4, 3);
    let (other, theirs) = filled(4, 2);
    for allocation in live.into_iter().filter(|allocation| allocation.pool() == 1) {
        chain.free(allocation).unwrap();
    }
    let mut live_counts = Vec::new();
    chain.for_each_pool(&mut |pool| live_counts.push(pool.live_count()));
    assert_eq!(live_counts, [4, 0, 4]);

    for allocation in theirs {
        let (offset, size) = (allocation.offset(), allocation.size());
        assert_eq!((chain.heap(&allocation), chain.is_live(&allocation)), (None, false));
        let refused = chain.free(allocation).expect_err("it belongs to the other chain");
        assert_eq!(refused.error, FreeError::Foreign { offset, size });
        other.free(refused.allocation).unwrap();
    }
    let (_, of_many) = filled(1, 70);
    let beyond = of_many.into_iter().next_back().unwrap();
    assert!(matches!(chain.free(beyond).unwrap_err().error, FreeError::Foreign { .. }), "an index without a slot");
    chain.validate().unwrap();
}

#[test]
fn fault_11_192_kib_and_128_kib_do_not_overlap() {
    // Chains by memory type and block size.
    let mut chains: HashMap<(u32, u64), PoolChain<()>> = HashMap::new();
    let mut held: HashMap<(u32, u64), Vec<(u64, u64)>> = HashMap::new();
    for size in [192 << 10, 128 << 10, 64 << 10, 192 << 10, 128 << 10, 64 << 10] {
        let block_size = size_class(size, 256).unwrap();
        let key = (0, block_size);
        let chain = chains.entry(key).or_insert_with(|| PoolChain::new(block_size, 1));
        let got = chain.allocate().unwrap_or_else(|| chain.reserve(4).unwrap().open(()));
        assert!(got.size() >= size);
        held.entry(key).or_default().push((got.offset(), size));
    }
    assert_eq!(chains.len(), 3);
    for (key, ranges) in held {
        assert_eq!(ranges, [(0, key.1), (key.1, key.1)], "one after the other");
    }
}

#[test]
fn neither_allocates_on_the_host() {
    let (chain, mut live) = filled(70, 3);
    let churn = || {
        for _ in 0..20 {
            live.drain(..).for_each(|allocation| chain.free(allocation).unwrap());
            live.extend(std::iter::from_fn(|| chain.allocate()));
            assert_eq!(live.len(), 210);
        }
    };
    assert_eq!(host_allocations(churn), 0);
    chain.validate().unwrap();
}

#[test]
fn places_are_used_again_for_pools_that_fit() {
    let chain = PoolChain::new(1, 2);
    let open_and_close = |count: u32| {
        let reservation = chain.reserve(count).unwrap();
        let (index, granted) = (reservation.pool(), reservation.block_count());
        chain.free(reservation.open(count)).unwrap();
        assert_eq!(chain.take_empty(), Some(count));
        (index, granted)
    };
    assert_eq!(open_and_close(8), (0, 8));
    assert_eq!(open_and_close(3), (0, 3), "it fits in the existing slot");
    assert_eq!(open_and_close(100), (1, 100), "a new slot");
    assert_eq!(open_and_close(200), (1, 100), "limited to the capacity of the slot");
    chain.validate().unwrap();
}

#[test]
fn empty_pools_go_after_their_grace() {
    let (chain, live) = filled(2, 4);
    let keep = KeepPools { empty_count: 1, grace_ticks: 3 };
    assert_eq!(chain.take_surplus(0, keep), None, "all in use");
    live.into_iter().for_each(|allocation| chain.free(allocation).unwrap());
    assert_eq!((10..13).find_map(|tick| chain.take_surplus(tick, keep)), None, "within the grace");
    let mut taken: Vec<_> = std::iter::from_fn(|| chain.take_surplus(13, keep)).collect();
    taken.sort_unstable();
    assert_eq!((taken, heaps(&chain)), (vec![1, 2, 3], vec![0]), "the first is kept");
}

#[test]
fn a_loop_that_allocates_and_frees_keeps_its_pool() {
    let (chain, live) = filled(1, 1);
    live.into_iter().for_each(|allocation| chain.free(allocation).unwrap());
    let keep = KeepPools { empty_count: 0, grace_ticks: 2 };
    for tick in 0..100 {
        chain.free(chain.allocate().unwrap()).unwrap();
        assert_eq!(chain.take_surplus(tick, keep), None, "used since the last tick, though empty at each");
    }
    assert_eq!((100..110).find_map(|tick| chain.take_surplus(tick, keep).map(|_| tick)), Some(101));
    let once = KeepPools { empty_count: 0, grace_ticks: 0 };
    let block = chain.reserve(1).unwrap().open(1);
    chain.free(block).unwrap();
    assert_eq!((chain.take_surplus(200, once), chain.take_surplus(200, once)), (None, None), "not within one tick");
    assert_eq!(chain.take_surplus(201, once), Some(1));
}

#[test]
fn the_end_gives_every_heap() {
    let (chain, live) = filled(2, 3);
    let expected = PoolStatistics { pool_count: 3, empty_pool_count: 0, block_count: 6, live_count: 6 };
    assert_eq!(chain.statistics(), expected);
    assert_eq!(chain.into_heaps().collect::<Vec<_>>(), [0, 1, 2]);
    drop(live);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate(usize),
    Free(usize),
    Grow(u32),
    Cancel,
    Trim,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<usize>().prop_map(Op::Allocate),
        6 => any::<usize>().prop_map(Op::Free),
        2 => (1..40_u32).prop_map(Op::Grow),
        1 => Just(Op::Cancel),
        1 => Just(Op::Trim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]
    #[test]
    fn a_chain_does_as_its_twin(places in 1..5_u32, ops in vec(op(), 0..300)) {
        let chain = PoolChain::new(10, places);
        // For each open pool, its number of blocks and its number of free blocks.
        let mut pools: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let mut blocks: HashMap<u32, u32> = HashMap::new();
        let mut live: Vec<PoolAllocation> = Vec::new();
        let mut next = 0;
        for op in ops {
            match op {
                Op::Allocate(hint) => {
                    let first_with_room = pools.iter().find(|(_, (_, free))| *free != 0).map(|(index, _)| *index);
                    let got = chain.allocate_near(hint);
                    prop_assert_eq!(got.as_ref().map(PoolAllocation::pool), first_with_room);
                    if let Some(got) = got {
                        pools.get_mut(&got.pool()).unwrap().1 -= 1;
                        live.push(got);
                    }
                }
                Op::Free(number) if !live.is_empty() => {
                    let allocation = live.swap_remove(number % live.len());
                    pools.get_mut(&allocation.pool()).unwrap().1 += 1;
                    chain.free(allocation).unwrap();
                }
                Op::Free(_) => {}
                Op::Grow(count) => {
                    let reservation = chain.reserve(count);
                    prop_assert_eq!(reservation.is_some(), pools.len() < places as usize);
                    if let Some(reservation) = reservation {
                        let granted = reservation.block_count();
                        prop_assert!((1..=count).contains(&granted));
                        let first = reservation.open(next);
                        pools.insert(first.pool(), (next, granted - 1));
                        blocks.insert(next, granted);
                        live.push(first);
                        next += 1;
                    }
                }
                Op::Cancel => drop(chain.reserve(3)),
                Op::Trim => {
                    let empty = pools.iter().rev().find(|(_, (heap, free))| blocks[heap] == *free);
                    let empty = empty.map(|(index, (heap, _))| (*index, *heap));
                    prop_assert_eq!(chain.take_empty(), empty.map(|(_, heap)| heap));
                    empty.and_then(|(index, _)| pools.remove(&index));
                }
            }
            chain.validate().unwrap();
            prop_assert_eq!(heaps(&chain), pools.values().map(|(heap, _)| *heap).collect::<Vec<_>>());
            for allocation in &live {
                prop_assert_eq!(chain.heap(allocation), Some(&pools[&allocation.pool()].0));
            }
            prop_assert_eq!(chain.statistics().live_count, live.len() as u64);
        }
    }
}

/// A heap that records if it was taken out, and which of its blocks are allocated.
struct Heap {
    gone: AtomicBool,
    owned: Vec<AtomicBool>,
}

impl Heap {
    fn set_owned(&self, block: u32, now: bool) {
        assert!(!self.gone.load(Relaxed), "a block of a heap that was taken out");
        assert_ne!(self.owned[block as usize].swap(now, Relaxed), now, "two threads own one block");
    }
}

struct Stress {
    chain: PoolChain<Arc<Heap>>,
    growth: Mutex<()>,
    made: AtomicU32,
    taken: AtomicU32,
}

impl Stress {
    const POOL_BLOCKS: u32 = 12;
    /// Minimum number of turns of each thread, and the number of pools that must be removed meanwhile. Both are small
    /// under miri, where a turn takes milliseconds.
    const TURNS: u32 = if cfg!(miri) { 1_000 } else { 50_000 };
    const TAKEN: u32 = if cfg!(miri) { 1 } else { 50 };

    /// Allocates a block by the steps of the module's documentation.
    fn allocate(&self) -> PoolAllocation {
        loop {
            if let Some(allocation) = self.chain.allocate() {
                return allocation;
            }
            let _growing = self.growth.lock().unwrap();
            if let Some(allocation) = self.chain.allocate_thorough() {
                return allocation;
            }
            if let Some(reservation) = self.chain.reserve(Self::POOL_BLOCKS) {
                let count = reservation.block_count();
                self.made.fetch_add(1, Relaxed);
                let owned = (0..count).map(|_| AtomicBool::new(false)).collect();
                return reservation.open(Arc::new(Heap { gone: AtomicBool::new(false), owned }));
            }
        }
    }

    fn free(&self, allocation: PoolAllocation) {
        self.chain.heap(&allocation).unwrap().set_owned(allocation.block(), false);
        self.chain.free(allocation).unwrap();
    }

    fn work(&self, number: usize) {
        let (mut random, mut held) = (number as u64 + 1, Vec::new());
        let mut turn = 0;
        // The second condition ensures enough concurrency on a machine that runs one thread at a time.
        while turn < Self::TURNS || self.taken.load(Relaxed) < Self::TAKEN {
            turn += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = (random >> 33) as usize;
            // The limit alternates, so that pools become full and empty.
            let held_max = if turn / 250 % 2 == 0 { 40 } else { 2 };
            if held.len() < held_max {
                let allocation = self.allocate();
                self.chain.heap(&allocation).unwrap().set_owned(allocation.block(), true);
                held.push(allocation);
            } else {
                self.free(held.swap_remove(pick % held.len()));
            }
            if turn % 500 == 0 {
                held.drain(..).for_each(|allocation| self.free(allocation));
                self.trim();
                thread::yield_now();
            }
        }
        held.into_iter().for_each(|allocation| self.free(allocation));
    }

    fn trim(&self) {
        if let Some(heap) = self.chain.take_empty() {
            heap.gone.store(true, Relaxed);
            assert!(heap.owned.iter().all(|owned| !owned.load(Relaxed)), "taken out in use");
            self.taken.fetch_add(1, Relaxed);
        }
    }

    fn look(&self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            self.chain.for_each_pool(&mut |pool| {
                assert!(!pool.heap().gone.load(Relaxed), "shown after it was taken out");
                pool.for_each_live(&mut |span| assert!(span.slot.unwrap() < Self::POOL_BLOCKS));
            });
            thread::yield_now();
        }
    }
}

#[test]
fn seed_003_05_pools_come_and_go_while_threads_allocate_and_free() {
    let stress = Stress {
        chain: PoolChain::new(64, 16),
        growth: Mutex::new(()),
        made: AtomicU32::new(0),
        taken: AtomicU32::new(0),
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let onlooker = scope.spawn(|| stress.look(&stop));
        let workers: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let stress = &stress;
                    move || stress.work(number)
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Relaxed);
        onlooker.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    let Stress { chain, made, taken, .. } = stress;
    chain.validate().unwrap();
    assert_eq!(chain.statistics().live_count, 0);
    let rest = std::iter::from_fn(|| chain.take_empty()).count() as u32;
    let (made, taken) = (made.into_inner(), taken.into_inner());
    assert_eq!(made, taken + rest, "every heap was returned");
    assert!(chain.into_heaps().next().is_none());
}
