//! Tests of the bin: comparisons with a list of all items, tests of limits, and tests with threads.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringfence_core::sync::SyncPoint;

use super::*;
use ringfence_core::testing::rng::Rng;

fn set(points: [u64; 3]) -> SyncSet {
    let points = (0..3).zip(points).filter(|&(_, value)| value > 0);
    points.map(|(timeline, value)| SyncPoint::new(TimelineId::new(timeline), value)).collect()
}

/// The bin releases the same items as a list of all items, for generated programs over three independent timelines.
#[test]
fn gives_out_what_a_list_of_everything_would() {
    for seed in 0..if cfg!(miri) { 1 } else { 64 } {
        let mut dice = Rng::new(seed);
        let bin = RetireBin::with_shards(1 + dice.below(3) as usize);
        let mut twin: Vec<(SyncSet, u64)> = Vec::new();
        let (mut begun, mut reached, mut turn) = ([1_u64; 3], [0_u64; 3], 0);
        for number in 0..600 {
            match dice.below(8) {
                0 => (begun[dice.below(3) as usize], turn) = (number + 1, turn + 1),
                1 => {
                    let timeline = dice.below(3) as usize;
                    reached[timeline] += dice.below(begun[timeline] + 1 - reached[timeline]);
                }
                2 | 3 => {
                    let own = set([dice.below(begun[0] + 1), 0, dice.below(begun[2] + 1)]);
                    twin.push((own.clone(), number));
                    // Retires the item in the shard of this thread, or in the shard of another thread.
                    match dice.below(2) {
                        0 => bin.retire(&own, number),
                        _ => put(bin.shard(dice.below(bin.shards().count() as u64) as usize), 0, Some(&own), number),
                    }
                }
                4 => {
                    let max = if dice.below(2) == 0 { usize::MAX } else { dice.below(5) as usize };
                    let passed = |set: &SyncSet| reached.as_slice().passed_all(set);
                    let may_go = twin.iter().filter(|(set, _)| passed(set)).count();
                    let mut out = Vec::new();
                    let count = if dice.below(2) == 0 {
                        bin.collect(reached.as_slice(), max, &mut out)
                    } else {
                        bin.release(reached.as_slice(), max, |item| out.push(item))
                    };
                    assert_eq!((count, out.len()), (may_go.min(max), may_go.min(max)), "seed {seed}");
                    for item in out {
                        let at = twin.iter().position(|&(_, held)| held == item).expect("released once");
                        assert!(passed(&twin.swap_remove(at).0), "seed {seed}: {item} is too early");
                    }
                }
                5 => {
                    let all = set(begun);
                    let mut items: Vec<_> = (0..dice.below(4)).map(|item| 1000 * (item + 1) + number).collect();
                    twin.extend(items.iter().map(|item| (all.clone(), *item)));
                    bin.retire_all_tagged(turn, |tag| tag.clone_from(&all), &mut items);
                    assert!(items.is_empty());
                }
                _ => {
                    let all = set(begun);
                    twin.push((all.clone(), number));
                    bin.retire_tagged(turn, |tag| tag.clone_from(&all), number);
                }
            }
            bin.validate().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            assert_eq!(bin.len(), twin.len(), "seed {seed}");
        }
        let mut rest = Vec::new();
        bin.collect_all(&mut rest);
        assert_eq!(rest.iter().collect::<HashSet<_>>(), twin.iter().map(|(_, item)| item).collect(), "seed {seed}");
        assert!(bin.is_empty());
    }
}

#[test]
fn items_of_a_thread_and_a_frame_keep_their_order_however_few_go_at_a_time() {
    let bin = RetireBin::with_shards(4);
    for item in 0..10 {
        bin.retire_tagged(0, |tag| *tag = set([1, 0, 0]), item);
    }
    let mut out = Vec::new();
    while bin.collect([1].as_slice(), 3, &mut out) > 0 {}
    assert_eq!(out, (0..10).collect::<Vec<_>>());
}

#[test]
fn items_are_released_in_their_order_however_few_go_at_a_time() {
    let bin = RetireBin::with_shards(4);
    bin.retire_all_tagged(0, |tag| *tag = set([1, 0, 0]), &mut (0..10).collect());
    let mut out = Vec::new();
    while bin.release([1].as_slice(), 3, |item| out.push(item)) > 0 {
        bin.validate().expect("sound");
        assert_eq!(bin.len(), 10 - out.len());
    }
    assert_eq!(out, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_panic_of_the_thread_that_releases_loses_the_one_item_that_it_had() {
    let bin = RetireBin::with_shards(1);
    bin.retire_all_tagged(0, |_| {}, &mut (0..5).collect());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bin.release([0].as_slice(), usize::MAX, |item| assert!(item < 2, "on purpose"));
    }));
    assert!(panicked.is_err());
    bin.validate().expect("sound");
    let mut out = Vec::new();
    assert_eq!(bin.release([0].as_slice(), usize::MAX, |item| out.push(item)), 2);
    assert_eq!(out, [3, 4]);
}

#[test]
fn what_is_retired_while_it_releases_waits_for_the_next_time() {
    let bin = RetireBin::with_shards(1);
    bin.retire(&SyncSet::new(), 0);
    let mut out = Vec::new();
    for round in 0..3 {
        let retire = |item| {
            bin.retire_tagged(0, |_| {}, item + 1);
            out.push(item);
        };
        assert_eq!(bin.release([0].as_slice(), usize::MAX, retire), 1, "round {round}");
    }
    assert_eq!((out.as_slice(), bin.len()), ([0, 1, 2].as_slice(), 1));
}

#[test]
fn a_bounded_collection_starves_no_shard() {
    let bin = RetireBin::with_shards(8);
    for (index, shard) in bin.shards().enumerate() {
        (0..10).for_each(|_| put(shard, 0, None, index));
    }
    let mut out = Vec::new();
    (0..9).for_each(|_| assert_eq!(bin.collect([0].as_slice(), 1, &mut out), 1));
    assert_eq!(out.iter().collect::<HashSet<_>>().len(), 9, "one of each shard: {out:?}");
}

/// Adds an item to the shard of any thread, while no other thread uses the bin.
fn put<T>(shard: &Shard<T>, turn: u64, own: Option<&SyncSet>, item: T) {
    let queue = &shard.queues[if own.is_some() { OWN_POINTS } else { ALL_BEGUN }];
    let item = std::iter::once(item);
    match own {
        // SAFETY: only this thread uses the bin.
        Some(points) => unsafe { queue.put(Key::Points(points), |set| set.clone_from(points), item) },
        // SAFETY: as above.
        None => unsafe { queue.put(Key::Turn(turn), |_| {}, item) },
    }
}

/// An item that counts its drops.
struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_bin_that_goes_drops_each_item_once_wherever_it_is() {
    let dropped = AtomicU64::new(0);
    let bin = RetireBin::with_shards(2);
    for round in 0..3 {
        for item in 0..20 {
            bin.retire_tagged(round, |tag| *tag = set([round + 1, 0, 0]), Counted(&dropped));
            bin.retire(&set([0, item / 7, 0]), Counted(&dropped));
        }
        // Some items are released, some have passed but are not released, and some still wait.
        bin.release([1, 1].as_slice(), 3, drop);
    }
    let gone = dropped.load(Ordering::SeqCst);
    assert_eq!((gone, bin.len()), (9, 111));
    drop(bin);
    assert_eq!(dropped.load(Ordering::SeqCst), 120);
}

#[test]
fn a_bin_that_goes_goes_on_where_dropping_an_item_panics() {
    struct Sore<'a>(&'a AtomicU64, bool);
    impl Drop for Sore<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            assert!(!self.1, "on purpose");
        }
    }
    let dropped = AtomicU64::new(0);
    let bin = RetireBin::with_shards(1);
    (0..30).for_each(|item| bin.retire(&SyncSet::new(), Sore(&dropped, item == 11)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bin)));
    assert!(panicked.is_err());
    assert_eq!(dropped.load(Ordering::SeqCst), 30);
}

#[test]
fn what_a_thread_retired_that_has_ended_comes_out_and_the_next_goes_on_in_its_slot() {
    let bin = RetireBin::with_shards(8);
    let mut out = Vec::new();
    for round in 0..10 {
        // There are more threads than own shards. They run concurrently, and in consecutive groups.
        std::thread::scope(|scope| {
            let retire = |thread| {
                let bin = &bin;
                move || {
                    (0..10).for_each(|item| bin.retire_tagged(round, |tag| *tag = set([round, 0, 0]), (thread, item)))
                }
            };
            let threads: Vec<_> = (0..12).map(|thread| scope.spawn(retire(thread))).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        bin.validate().expect("sound");
        assert_eq!(bin.collect([round].as_slice(), usize::MAX, &mut out), 120);
        for thread in 0..12 {
            let items = out.iter().filter(|(of, _)| *of == thread).map(|(_, item)| *item);
            assert!(items.eq(0..10), "the items of a thread keep their order");
        }
        out.clear();
    }
}

#[test]
fn an_item_that_is_dropped_may_retire_others() {
    struct Parent<'a>(&'a RetireBin<Parent<'a>>, u64);
    impl Drop for Parent<'_> {
        fn drop(&mut self) {
            if self.1 > 0 {
                self.0.retire_tagged(self.1, |_| {}, Parent(self.0, self.1 - 1));
                self.0.retire(&SyncSet::new(), Parent(self.0, 0));
            }
        }
    }
    // The bin is leaked, because its items borrow it.
    let bin = Box::leak(Box::new(RetireBin::with_shards(2)));
    bin.retire_tagged(0, |_| {}, Parent(bin, 5));
    let mut released = 0;
    while !bin.is_empty() {
        released += bin.release([0].as_slice(), usize::MAX, drop);
        bin.validate().expect("sound");
    }
    assert_eq!(released, 11);
}

/// Runs a test, and fails after a time limit, so that a deadlock is reported.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    let running = std::thread::spawn(move || {
        test();
        _ = done.send(());
    });
    match is_done.recv_timeout(std::time::Duration::from_secs(120)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("a deadlock"),
        _ => running.join().expect("no panic"),
    }
}

/// The progress is code of the caller, so it may call all functions of the bin.
#[test]
fn progress_may_use_the_bin_that_asks_for_it() {
    struct Nosy<'a>(&'a RetireBin<u64>, Mutex<Vec<u64>>);
    impl Progress for Nosy<'_> {
        fn completed(&self, _: TimelineId) -> u64 {
            let mut out = self.1.lock().expect("no panic");
            self.0.retire(&SyncSet::new(), 100);
            self.0.collect([1].as_slice(), 1, &mut out);
            self.0.release([1].as_slice(), 1, |item| out.push(item));
            self.0.collect_all(&mut out);
            self.0.validate().expect("sound");
            2
        }
    }
    ends(|| {
        let bin = RetireBin::with_shards(2);
        (0..10).for_each(|item| bin.retire(&set([1 + item % 2, 0, 0]), item));
        let nosy = Nosy(&bin, Mutex::new(Vec::new()));
        let mut out = Vec::new();
        bin.collect(&nosy, usize::MAX, &mut out);
        bin.release(&nosy, usize::MAX, |item| out.push(item));
        out.extend(nosy.1.into_inner().expect("no panic"));
        bin.collect_all(&mut out);
        out.retain(|item| *item != 100);
        out.sort_unstable();
        assert_eq!(out, (0..10).collect::<Vec<_>>(), "each once");
    });
}

/// The drop of an item is code of the caller, so it may call all functions of the bin, and may panic.
#[test]
fn an_item_that_is_dropped_may_collect_and_panic_and_nothing_is_lost_or_dropped_twice() {
    struct Sore {
        bin: &'static RetireBin<Sore>,
        dropped: &'static AtomicU64,
        panics: bool,
    }
    impl Drop for Sore {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            let mut out = Vec::new();
            if self.panics {
                self.bin.collect([1].as_slice(), 1, &mut out);
                self.bin.collect_all(&mut out);
                // The items are retired instead of dropped, because this drop panics.
                out.into_iter().for_each(|item| self.bin.retire(&SyncSet::new(), item));
                panic!("on purpose");
            }
        }
    }
    ends(|| {
        let bin: &'static RetireBin<Sore> = Box::leak(Box::new(RetireBin::with_shards(2)));
        let dropped: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        (0..30).for_each(|item| bin.retire(&set([item % 3, 0, 0]), Sore { bin, dropped, panics: item % 5 == 0 }));
        for _ in 0..100 {
            let release = || bin.release([2].as_slice(), usize::MAX, drop);
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(release));
            bin.validate().expect("sound");
        }
        assert_eq!((dropped.load(Ordering::SeqCst), bin.len()), (30, 0));
    });
}

#[test]
fn a_bin_that_goes_goes_on_however_many_items_panic() {
    struct Sore<'a>(&'a AtomicU64, bool);
    impl Drop for Sore<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            assert!(!self.1, "on purpose");
        }
    }
    let dropped = AtomicU64::new(0);
    let bin = RetireBin::with_shards(1);
    (0..30).for_each(|item| bin.retire(&SyncSet::new(), Sore(&dropped, item % 7 == 3)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bin)));
    assert!(panicked.is_err());
    assert_eq!(dropped.load(Ordering::SeqCst), 30);
}

#[test]
fn progress_that_panics_loses_nothing() {
    struct Broken;
    impl Progress for Broken {
        fn completed(&self, _: TimelineId) -> u64 {
            panic!("on purpose")
        }
    }
    let bin = RetireBin::with_shards(1);
    for round in 1..4 {
        (0..6).for_each(|item| bin.retire_tagged(round, |tag| *tag = set([round, 0, 0]), 10 * round + item));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bin.release(&Broken, usize::MAX, drop);
        }));
        assert!(panicked.is_err());
        bin.validate().expect("sound");
    }
    let mut out = Vec::new();
    bin.release([3].as_slice(), usize::MAX, |item| out.push(item));
    assert_eq!(out, [10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35]);
}

/// Threads retire items while frames begin and end and another thread collects. Each item is released once, and only
/// after every frame that had begun when it was retired.
#[test]
fn threads_retire_while_frames_turn_and_nothing_comes_out_early_or_twice() {
    const THREADS: u64 = 4;
    const ITEMS: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let bin = RetireBin::<(u64, u64)>::with_shards(2);
    let [begun, turn, returned, reached] = [1, 0, 1, 0].map(AtomicU64::new);
    let seen = Mutex::new(HashSet::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (bin, begun, turn, returned) = (&bin, &begun, &turn, &returned);
                scope.spawn(move || {
                    for number in 0..ITEMS {
                        // The latest frame whose `begin` has returned. Its work may use the item.
                        let least = returned.load(Ordering::SeqCst);
                        let now = turn.load(Ordering::SeqCst);
                        let tag = |set: &mut SyncSet| {
                            *set = SyncPoint::new(TimelineId::new(0), begun.load(Ordering::SeqCst)).into();
                        };
                        bin.retire_tagged(now, tag, (thread * ITEMS + number, least));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut out = Vec::new();
            while !done.load(Ordering::SeqCst) {
                let value = begun.fetch_add(1, Ordering::SeqCst) + 1;
                turn.fetch_add(1, Ordering::SeqCst);
                returned.store(value, Ordering::SeqCst);
                reached.store(begun.load(Ordering::SeqCst) - 1, Ordering::SeqCst);
                let reached = reached.load(Ordering::SeqCst);
                if value % 2 == 0 {
                    bin.collect([reached].as_slice(), 1000, &mut out);
                } else {
                    bin.release([reached].as_slice(), 1000, |item| out.push(item));
                }
                let mut seen = seen.lock().expect("no panic");
                for (item, least) in out.drain(..) {
                    assert!(least <= reached, "item {item} waits for {least}, {reached} is reached");
                    assert!(seen.insert(item), "item {item} was released twice");
                }
            }
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        done.store(true, Ordering::SeqCst);
    });
    bin.validate().expect("the bin is sound");
    let mut out = Vec::new();
    bin.collect_all(&mut out);
    let mut seen = seen.into_inner().expect("no panic");
    assert!(out.into_iter().all(|(item, _)| seen.insert(item)), "no item was released twice");
    assert_eq!(seen.len() as u64, THREADS * ITEMS);
}

/// `release_unspared` skips the shard of a thread only if this thread releases its own items, and not if it releases
/// the items of all threads.
#[test]
fn what_a_thread_put_in_is_spared_only_if_it_takes_that_out_itself() {
    for takes_own in [false, true] {
        let bin = RetireBin::with_shards(8);
        let ((puts, is_put), (goes, go)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        std::thread::scope(|scope| {
            let bin = &bin;
            scope.spawn(move || {
                if takes_own {
                    bin.release_own(&AllPassed, usize::MAX, drop);
                } else {
                    bin.release_unspared(&AllPassed, usize::MAX, drop);
                }
                bin.retire(&SyncSet::new(), 1);
                puts.send(bin.has_own_shard()).expect("the test waits");
                go.recv().expect("the test goes on");
            });
            if is_put.recv().expect("it is retired") {
                let count = (1..).find(|_| bin.release_unspared(&AllPassed, usize::MAX, drop) == 1);
                assert_eq!(count, Some(if takes_own { SKIPS + 1 } else { 1 }));
            }
            goes.send(()).expect("the thread waits");
        });
    }
}
