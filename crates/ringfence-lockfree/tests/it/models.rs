//! Models of the pools: `loom` runs them with every order of the steps of two or three threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --release --test it`
//!
//! Under `loom`, a group has two blocks, and a run of serial numbers is enough for two allocations
//! (`src/primitive.rs`). Heaps are stored in `loom` cells, so a model fails if a heap is read while it is stored or
//! taken out.

use loom::sync::Arc;
use loom::thread;
use ringfence_core::range::Range;
use ringfence_lockfree::fixed_pool::FixedPool;
use ringfence_lockfree::pool_chain::{PoolAllocation, PoolChain};

/// Runs `body` with all orders of steps that have at most `preemptions` preemptions, or with all orders if it is
/// `None`.
fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

/// Runs the bodies concurrently, the last one on this thread, and returns their results.
fn at_once<T: Send + 'static>(bodies: impl IntoIterator<Item = Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
    let mut bodies: Vec<_> = bodies.into_iter().collect();
    let last = bodies.pop().expect("a body");
    let others: Vec<_> = bodies.into_iter().map(thread::spawn).collect();
    let last = last();
    others.into_iter().map(|other| other.join().unwrap()).chain([last]).collect()
}

/// Checks that no block was lost or allocated twice: all blocks are free, and each can be allocated once.
fn check_whole(pool: &FixedPool, count: usize) {
    pool.validate().unwrap();
    assert_eq!(pool.live_count(), 0);
    let all: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
    assert_eq!(all.len(), count);
    all.into_iter().for_each(|range| pool.free(range).unwrap());
    pool.validate().unwrap();
}

fn pair(pool: &Arc<FixedPool>, pairs: usize) -> Box<dyn FnOnce() -> usize + Send> {
    let pool = Arc::clone(pool);
    Box::new(move || {
        let got = (0..pairs).filter_map(|_| pool.allocate().map(|range| pool.free(range).unwrap()));
        got.count()
    })
}

#[test]
fn two_threads_never_get_one_block() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 2));
        let take = || -> Box<dyn FnOnce() -> Range + Send> {
            let pool = Arc::clone(&pool);
            Box::new(move || pool.allocate().expect("two blocks, two threads"))
        };
        let got = at_once([take(), take()]);
        assert_ne!(got[0].slot(), got[1].slot());
        assert_ne!(got[0].serial(), got[1].serial());
        assert_eq!(pool.allocate(), None);
        got.into_iter().for_each(|range| pool.free(range).unwrap());
        check_whole(&pool, 2);
    });
}

#[test]
fn two_threads_share_one_block() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 1));
        let got: usize = at_once([pair(&pool, 1), pair(&pool, 1)]).into_iter().sum();
        assert!(got >= 1, "the first thread gets it");
        check_whole(&pool, 1);
    });
}

#[test]
fn two_threads_fill_and_drain_two_groups() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 3));
        let held = [pool.allocate().unwrap(), pool.allocate().unwrap()];
        let freeing = Arc::clone(&pool);
        let free: Box<dyn FnOnce() -> usize + Send> = Box::new(move || {
            held.into_iter().for_each(|range| freeing.free(range).unwrap());
            2
        });
        let got = at_once([free, pair(&pool, 2)]);
        assert_eq!(got, [2, 2], "one block is always free, and is found");
        check_whole(&pool, 3);
    });
}

/// A free block is found even while another thread has cleared the bit of its group in `rooms`: a thread that finds a
/// group full clears the bit, checks the group again, and sets the bit again if the group has a free block.
#[test]
fn a_free_block_is_found_while_another_thread_takes_the_mark_away() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 4));
        // Both groups are full, and the bit of the second one is still set. One hint used the second group last, the
        // other hint the first group.
        let mut held: Vec<_> = (0..4).map(|_| pool.allocate_near(0).unwrap()).collect();
        pool.free_near(1, held.remove(0)).unwrap();
        held.insert(0, pool.allocate_near(1).unwrap());
        let first = held[3];
        let take = |hint: usize, gone: Option<Range>| -> Box<dyn FnOnce() -> Option<Range> + Send> {
            let pool = Arc::clone(&pool);
            Box::new(move || {
                // Freed with the other hint, so that this hint continues at its own group.
                gone.into_iter().for_each(|gone| pool.free_near(hint ^ 1, gone).unwrap());
                pool.allocate_near(hint)
            })
        };
        let got = at_once([take(0, None), take(1, Some(first))]);
        assert_eq!(
            got.iter().flatten().count(),
            1,
            "there is one block, and it was free before the later thread searched"
        );
        got.into_iter().flatten().for_each(|range| pool.free(range).unwrap());
        held.into_iter().filter(|held| *held != first).for_each(|range| pool.free(range).unwrap());
        check_whole(&pool, 4);
    });
}

#[test]
fn three_threads_and_two_blocks() {
    model(3, || {
        let pool = Arc::new(FixedPool::new(1, 2));
        at_once([pair(&pool, 1), pair(&pool, 1), pair(&pool, 1)]);
        check_whole(&pool, 2);
    });
}

#[test]
fn of_two_that_free_one_range_one_is_obeyed() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 2));
        let range = pool.allocate().unwrap();
        let free = || -> Box<dyn FnOnce() -> bool + Send> {
            let pool = Arc::clone(&pool);
            Box::new(move || pool.free(range).is_ok())
        };
        let obeyed = at_once([free(), free()]);
        assert_eq!(obeyed.into_iter().filter(|obeyed| *obeyed).count(), 1);
        check_whole(&pool, 2);
    });
}

#[test]
fn a_second_free_never_hits_the_next_owner() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 1));
        let range = pool.allocate().unwrap();
        pool.free(range).unwrap();
        let (allocating, freeing) = (Arc::clone(&pool), Arc::clone(&pool));
        let other = thread::spawn(move || allocating.allocate().expect("it is free"));
        assert!(freeing.free(range).is_err());
        let got = other.join().unwrap();
        assert!(pool.is_live(&got));
        pool.free(got).unwrap();
        check_whole(&pool, 1);
    });
}

#[test]
fn a_pool_closes_only_when_it_is_empty() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 3));
        let closing = Arc::clone(&pool);
        let other = thread::spawn(move || closing.close());
        let got = pool.allocate();
        match other.join().unwrap() {
            Some(count) => {
                assert_eq!((count, pool.allocate()), (3, None));
                assert_eq!(got, None, "a live block keeps the pool open");
                assert!(pool.open(3));
            }
            None => got.into_iter().for_each(|range| pool.free(range).unwrap()),
        }
        check_whole(&pool, 3);
    });
}

#[test]
fn closing_and_opening_anew_meets_another_that_closes() {
    model(None, || {
        let pool = Arc::new(FixedPool::new(1, 4));
        let closing = Arc::clone(&pool);
        let other = thread::spawn(move || closing.close());
        let mine = pool.close().map(|_| pool.open_and_allocate(3));
        let theirs = other.join().unwrap();
        match mine {
            Some(Some(range)) => {
                assert!(pool.is_live(&range) && theirs.is_none());
                assert_eq!(pool.block_count(), 3);
                pool.free(range).unwrap();
                check_whole(&pool, 3);
            }
            Some(None) => panic!("the thread that closed a pool can open it"),
            None => assert!(theirs == Some(4) || pool.block_count() == 4),
        }
    });
}

type Chain = Arc<PoolChain<Box<u32>>>;

/// Returns a chain of one pool with its first block in use.
fn chain(block_count: u32, places: u32) -> (Chain, PoolAllocation) {
    let chain = Arc::new(PoolChain::new(1, places));
    let first = chain.reserve(block_count).unwrap().open(Box::new(1));
    (chain, first)
}

fn use_and_free(chain: &Chain, allocation: PoolAllocation) {
    assert!((1..10).contains(&**chain.heap(&allocation).expect("a live block has its heap")));
    chain.free(allocation).unwrap();
}

#[test]
fn a_heap_is_taken_out_only_when_no_block_is_live() {
    model(None, || {
        let (chain, first) = chain(2, 1);
        chain.free(first).unwrap();
        let allocating = Arc::clone(&chain);
        let other = thread::spawn(move || {
            let got = allocating.allocate();
            got.is_some_and(|got| {
                use_and_free(&allocating, got);
                true
            })
        });
        let taken = chain.take_empty();
        let used = other.join().unwrap();
        assert!(taken.is_some() || used, "without a user, the heap is taken out");
        chain.validate().unwrap();
        assert_eq!(chain.allocate().is_some(), taken.is_none());
    });
}

#[test]
fn the_last_free_races_with_taking_the_heap_out() {
    model(None, || {
        let (chain, first) = chain(2, 1);
        let freeing = Arc::clone(&chain);
        let other = thread::spawn(move || use_and_free(&freeing, first));
        let taken = chain.take_empty();
        other.join().unwrap();
        chain.validate().unwrap();
        assert!(taken.is_some() || chain.take_empty().is_some(), "it can be taken out now");
        assert_eq!(chain.allocate(), None);
    });
}

#[test]
fn a_place_is_used_again_while_a_late_thread_allocates() {
    model(None, || {
        let (chain, first) = chain(2, 1);
        chain.free(first).unwrap();
        let allocating = Arc::clone(&chain);
        let other = thread::spawn(move || {
            let got = allocating.allocate().or_else(|| allocating.allocate_thorough());
            got.into_iter().for_each(|got| use_and_free(&allocating, got));
        });
        if chain.take_empty().is_some() {
            let first = chain.reserve(2).expect("a slot is vacant").open(Box::new(2));
            assert_eq!(chain.heap(&first).map(|heap| **heap), Some(2));
            chain.free(first).unwrap();
        }
        other.join().unwrap();
        chain.validate().unwrap();
        assert_eq!(chain.statistics().live_count, 0);
        assert!(chain.take_empty().is_some());
    });
}

#[test]
fn a_full_pool_that_is_freed_into_is_found_again() {
    model(None, || {
        let (chain, first) = chain(1, 1);
        let (asking, freeing) = (Arc::clone(&chain), Arc::clone(&chain));
        // This thread finds the pool full and clears its bit while a block of the pool is freed.
        let ask = thread::spawn(move || asking.allocate());
        freeing.free(first).unwrap();
        let got = ask.join().unwrap();
        got.into_iter().for_each(|got| chain.free(got).unwrap());
        chain.validate().unwrap();
        let again = chain.allocate().expect("its bit is set again");
        chain.free(again).unwrap();
    });
}

#[test]
fn two_threads_grow_the_chain_at_once() {
    model(None, || {
        let chain: Chain = Arc::new(PoolChain::new(1, 2));
        let growing = Arc::clone(&chain);
        let grow = |chain: &Chain, heap| chain.reserve(1).map(|reservation| reservation.open(Box::new(heap)));
        let other = thread::spawn(move || grow(&growing, 1).expect("two places"));
        let mine = grow(&chain, 2).expect("two places");
        let theirs = other.join().unwrap();
        assert_ne!(mine.pool(), theirs.pool());
        assert_eq!((chain.heap(&mine).map(|heap| **heap), chain.heap(&theirs).map(|heap| **heap)), (Some(2), Some(1)));
        assert_eq!(chain.allocate(), None);
        use_and_free(&chain, mine);
        use_and_free(&chain, theirs);
        chain.validate().unwrap();
        assert_eq!(chain.statistics().pool_count, 2);
    });
}

#[test]
fn a_visitor_and_a_taker() {
    model(None, || {
        let (chain, first) = chain(2, 1);
        chain.free(first).unwrap();
        let visiting = Arc::clone(&chain);
        let other = thread::spawn(move || {
            let mut seen = 0;
            visiting.for_each_pool(&mut |pool| seen += **pool.heap());
            seen
        });
        let taken = chain.take_empty();
        let seen = other.join().unwrap();
        assert!(taken.is_some() || seen == 1, "only a visitor can prevent the close");
        chain.validate().unwrap();
        assert_eq!(chain.allocate().is_some(), taken.is_none());
    });
}

#[test]
fn three_threads_allocate_free_and_take() {
    model(3, || {
        let (chain, first) = chain(3, 1);
        let (allocating, freeing) = (Arc::clone(&chain), Arc::clone(&chain));
        let others = [
            thread::spawn(move || allocating.allocate().into_iter().for_each(|got| use_and_free(&allocating, got))),
            thread::spawn(move || use_and_free(&freeing, first)),
        ];
        let taken = chain.take_empty();
        others.into_iter().for_each(|other| other.join().unwrap());
        chain.validate().unwrap();
        assert_eq!(chain.statistics().live_count, 0);
        assert!(taken.is_some() != chain.take_empty().is_some(), "the heap is taken out once");
    });
}

#[test]
fn two_that_take_and_one_that_brings_anew() {
    model(2, || {
        let (chain, first) = chain(2, 1);
        chain.free(first).unwrap();
        let taking = Arc::clone(&chain);
        let other = thread::spawn(move || taking.take_empty().map(|heap| *heap));
        let mine = chain.take_empty().map(|heap| *heap);
        if let Some(reservation) = chain.reserve(2) {
            let first = reservation.open(Box::new(2));
            assert_eq!(chain.heap(&first).map(|heap| **heap), Some(2));
            chain.free(first).unwrap();
        }
        let theirs = other.join().unwrap();
        assert!(mine.is_none() || theirs != mine, "a heap is taken out once");
        chain.validate().unwrap();
    });
}

#[test]
fn a_late_closer_does_not_close_a_larger_pool_in_use() {
    model(3, || {
        let pool = Arc::new(FixedPool::closed(1, 4));
        assert!(pool.open(2));
        let closing = Arc::clone(&pool);
        let late = thread::spawn(move || closing.close());
        let mut last = None;
        if pool.close().is_some() {
            assert!(pool.open(4));
            let all: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
            // The first group is completely free again, as it was when the other closing thread read it.
            last = all.last().copied().filter(|range| range.slot() == 3);
            all.into_iter().filter(|range| range.slot() != 3).for_each(|range| pool.free(range).unwrap());
        }
        let closed = late.join().unwrap();
        assert!(last.is_none() || closed.is_none(), "a block is live");
        assert!(last.is_none_or(|range| pool.is_live(&range) && pool.block_count() == 4));
        pool.validate().unwrap();
    });
}

#[test]
fn taking_that_fails_leaves_the_pool_marked() {
    model(3, || {
        let (chain, first) = chain(3, 1);
        chain.free(first).unwrap();
        let allocating = Arc::clone(&chain);
        // The second allocation may find the pool full, while the first prevents its removal.
        let other = thread::spawn(move || [allocating.allocate(), allocating.allocate()]);
        let taken = chain.take_empty();
        let got = other.join().unwrap();
        assert!(taken.is_none() || got.iter().all(Option::is_none));
        chain.validate().unwrap();
        got.into_iter().flatten().for_each(|got| use_and_free(&chain, got));
        assert!(taken.is_some() || chain.take_empty().is_some());
    });
}

#[test]
fn a_visitor_and_an_opener() {
    model(3, || {
        let chain: Chain = Arc::new(PoolChain::new(1, 1));
        let visiting = Arc::clone(&chain);
        let other = thread::spawn(move || visiting.for_each_pool(&mut |pool| assert_eq!(**pool.heap(), 1)));
        let first = chain.reserve(1).unwrap().open(Box::new(1));
        chain.free(first).unwrap();
        other.join().unwrap();
        chain.validate().unwrap();
    });
}
