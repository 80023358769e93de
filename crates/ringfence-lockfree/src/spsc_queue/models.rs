//! Models of a queue with a producer and a consumer. `loom` runs them with every order of the threads' steps. Its cells
//! check that each item and each set is written before it is read, and that no chunk is reused while a thread reads it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --lib --release models`

use loom::sync::Arc;
use loom::thread;
use ringfence_core::sync::{SyncPoint, TimelineId};

use super::*;

fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

fn set(value: u64) -> SyncSet {
    SyncPoint::new(TimelineId::new(0), value).into()
}

/// A queue that a producer and a consumer share.
struct Shared(SpscQueue<Box<u64>>);

// SAFETY: one thread adds items, one takes them out.
unsafe impl Sync for Shared {}
// SAFETY: one thread adds items, one takes them out.
unsafe impl Send for Shared {}

impl Shared {
    fn push(&self, value: u64, item: u64) {
        let points = set(value);
        let item = std::iter::once(Box::new(item));
        // SAFETY: one thread adds items.
        unsafe { self.0.put(Key::Points(&points), |set| set.clone_from(&points), item) };
    }

    /// Takes out all available items into `into`. Checks that the queue reports correctly if the set of each closed
    /// chunk has passed.
    fn take(&self, head: &mut Head<Box<u64>>, reached: u64, into: &mut Vec<u64>) {
        let mut batches = Vec::new();
        // SAFETY: one thread takes items out.
        let open = unsafe {
            head.take(&self.0, [reached].as_slice(), |passed, points, batch| {
                assert_eq!(passed, [reached].as_slice().passed_all(points));
                batches.push(batch);
            })
        };
        for mut batch in batches.into_iter().chain(open) {
            // SAFETY: the queue is alive.
            unsafe { batch.give(usize::MAX, |item| into.push(*item)) };
            // SAFETY: one thread takes items out.
            unsafe { self.0.return_batch(batch) };
        }
    }
}

/// Each item is taken out once and in order, while chunks of one and two items are filled, closed by another set, and
/// reused.
#[test]
fn each_item_comes_out_once_in_its_order_while_others_are_put_in() {
    model(None, || {
        let shared = Arc::new(Shared(SpscQueue::new()));
        let putting = Arc::clone(&shared);
        let other = thread::spawn(move || {
            for (value, item) in [(1, 1), (1, 2), (2, 3), (3, 4)] {
                putting.push(value, item);
            }
        });
        let (mut head, mut out) = (Head::new(), Vec::new());
        shared.take(&mut head, 3, &mut out);
        shared.take(&mut head, 3, &mut out);
        other.join().unwrap();
        shared.take(&mut head, 3, &mut out);
        assert_eq!(out, [1, 2, 3, 4]);
        assert_eq!(shared.0.pushed(), head.taken());
    });
}

/// The producer reuses a returned chunk while it adds items, and the consumer does not return the open chunk.
#[test]
fn a_chunk_that_has_come_back_is_used_again() {
    model(None, || {
        let shared = Arc::new(Shared(SpscQueue::new()));
        // A chunk of one item is already closed. It can be reused once the consumer has returned it.
        shared.push(1, 1);
        shared.push(2, 2);
        let taking = Arc::clone(&shared);
        let other = thread::spawn(move || {
            let (mut head, mut out) = (Head::new(), Vec::new());
            taking.take(&mut head, 4, &mut out);
            taking.take(&mut head, 4, &mut out);
            (head, out)
        });
        shared.push(3, 3);
        shared.push(4, 4);
        let (mut head, mut out) = other.join().unwrap();
        shared.take(&mut head, 4, &mut out);
        assert_eq!(out, [1, 2, 3, 4]);
    });
}

/// Items with a later point are not released, and earlier items in the same queue do not wait for this point.
#[test]
fn an_open_chunk_is_given_when_its_own_set_has_passed_and_not_before() {
    model(None, || {
        let shared = Arc::new(Shared(SpscQueue::new()));
        let putting = Arc::clone(&shared);
        let other = thread::spawn(move || {
            putting.push(1, 1);
            putting.push(2, 2);
        });
        let mut head = Head::new();
        let (mut early, mut late) = (Vec::new(), Vec::new());
        // SAFETY: this thread takes items out.
        let open = unsafe {
            head.take(&shared.0, [1].as_slice(), |passed, _, mut batch| {
                let into = if passed { &mut early } else { &mut late };
                batch.give(usize::MAX, |item| into.push(*item));
                shared.0.return_batch(batch);
            })
        };
        if let Some(mut batch) = open {
            // SAFETY: the queue is alive, and this thread takes items out.
            unsafe {
                batch.give(usize::MAX, |item| early.push(*item));
                shared.0.return_batch(batch);
            }
        }
        assert!(early.is_empty() || early == [1], "{early:?}");
        assert!(late.is_empty(), "the open chunk is not reported as closed: {late:?}");
        other.join().unwrap();
        shared.take(&mut head, 2, &mut early);
        assert_eq!(early, [1, 2]);
    });
}
