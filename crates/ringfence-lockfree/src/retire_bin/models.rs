//! Models of shards with threads that retire and release items, and of the sets of the items. `loom` runs them with all
//! orders of the threads' steps that have at most two or three preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --lib --release models`

use loom::sync::Arc;
use loom::thread;
use ringfence_core::sync::SyncPoint;
use std::vec;

use super::*;

fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

/// Values with which a model is run: `true` for one shard per thread, `false` for one shard that all threads share.
const IN_SLOT: [bool; 2] = [false, true];

/// Sets the thread slot of this thread if `in_slot` is `true`.
fn take_slot(in_slot: bool, thread_slot: usize) {
    if in_slot {
        crate::thread_slot::take_slot(thread_slot);
    }
}

fn point(value: u64) -> SyncSet {
    SyncPoint::new(TimelineId::new(0), value).into()
}

fn take(bin: &RetireBin<u32>, reached: u64) -> Vec<u32> {
    let mut out = Vec::new();
    bin.collect([reached].as_slice(), usize::MAX, &mut out);
    out
}

#[test]
fn each_item_comes_out_once_whichever_thread_takes() {
    for in_slot in IN_SLOT {
        model(2, move || {
            take_slot(in_slot, 0);
            let bin = Arc::new(RetireBin::with_shards(2));
            let putting = Arc::clone(&bin);
            let other = thread::spawn(move || {
                take_slot(in_slot, 1);
                putting.retire(&point(1), 1);
                putting.retire_tagged(1, |set| *set = point(1), 2);
                take(&putting, 1)
            });
            bin.retire(&point(1), 3);
            let mine = take(&bin, 1);
            let theirs = other.join().unwrap();
            bin.validate().unwrap();
            let mut all = [mine, theirs, take(&bin, 1)].concat();
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
            assert!(bin.is_empty());
        });
    }
}

#[test]
fn a_set_is_never_that_of_another_item() {
    for in_slot in IN_SLOT {
        model(2, move || {
            take_slot(in_slot, 0);
            let bin = Arc::new(RetireBin::with_shards(2));
            let putting = Arc::clone(&bin);
            let other = thread::spawn(move || {
                take_slot(in_slot, 1);
                putting.retire_tagged(1, |set| *set = point(1), 1);
            });
            bin.retire_tagged(2, |set| *set = point(2), 2);
            let early = take(&bin, 1);
            other.join().unwrap();
            assert!(!early.contains(&2));
            let mut passed = [early, take(&bin, 1)].concat();
            passed.extend(take(&bin, 2));
            passed.sort_unstable();
            assert_eq!(passed, [1, 2]);
        });
    }
}

#[test]
fn each_item_is_released_once_while_others_retire_and_release() {
    for in_slot in IN_SLOT {
        model(2, move || {
            take_slot(in_slot, 0);
            let bin = Arc::new(RetireBin::with_shards(2));
            bin.retire_tagged(1, |set| *set = point(1), 1);
            let putting = Arc::clone(&bin);
            let other = thread::spawn(move || {
                take_slot(in_slot, 1);
                putting.retire_all_tagged(1, |set| *set = point(1), &mut vec![2, 3]);
                let mut out = Vec::new();
                putting.release([1].as_slice(), 1, |item| out.push(item));
                out
            });
            let mut all = Vec::new();
            bin.release([1].as_slice(), usize::MAX, |item| all.push(item));
            all.extend(other.join().unwrap());
            bin.validate().unwrap();
            bin.release([1].as_slice(), usize::MAX, |item| all.push(item));
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
            assert!(bin.is_empty());
        });
    }
}

#[test]
fn what_a_thread_has_put_in_comes_out_before_the_next_has_its_slot_and_after() {
    model(3, || {
        let bin = Arc::new(RetireBin::with_shards(1));
        let putting = Arc::clone(&bin);
        let other = thread::spawn(move || {
            // Two threads use the thread slot one after the other.
            for item in [1, 2] {
                let putting = Arc::clone(&putting);
                thread::spawn(move || {
                    take_slot(true, 0);
                    putting.retire(&point(1), item);
                })
                .join()
                .unwrap();
            }
        });
        let mut all = take(&bin, 1);
        all.extend(take(&bin, 1));
        other.join().unwrap();
        all.extend(take(&bin, 1));
        assert_eq!(all, [1, 2]);
        bin.validate().unwrap();
    });
}
