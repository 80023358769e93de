//! Thread caches under threads that take, put, recall and close, over the chain of real cells: in every order of their steps, and
//! in some orders over memory that is watched.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence --lib --release models`
//! `cargo +nightly miri test -p ringfence --lib models`
//!
//! With `loom` the owners are its own: one that is never dropped fails a model, and so does a world that goes while a thread
//! is still at its thread cache (see [`TryCell`]'s drop). The bytes of the cells are `loom`'s too: two owners of one cell fail it.
//! With miri all of it is real: a pointer that is followed too late, or a reference that lives too long, is found.

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(not(loom))]
use std::{sync::Arc, thread};

use super::*;
use crate::primitive::UnsafeCell;

const CLASS: Class = Class { index: 0, bytes: 256 };

/// The memory of a pool.
struct Bytes(Vec<UnsafeCell<u8>>);

// SAFETY: a byte is touched by the thread that holds its cell alone; that a cell has one holder is what is shown here, and miri watches
// each access. `loom`'s cell may be shared by itself.
#[cfg(not(loom))]
unsafe impl Sync for Bytes {}

impl Ground for Bytes {
    fn offset(&self) -> u64 {
        0
    }

    fn is_evicted(&self) -> bool {
        false
    }
}

type Chain = PoolChain<Bytes>;

/// An allocator, as far as its thread caches know it. All threads have one thread cache.
struct World {
    thread_caches: ThreadCaches<Arc<World>>,
    chains: Chains<Bytes>,
}

/// What a user holds: a cell, and what keeps the world alive.
struct Held {
    ready: Ready,
    owner: Arc<World>,
}

impl World {
    /// With a pool of so many cells, one of them claimed and given back.
    fn new(cells: u32) -> Arc<Self> {
        let world = Self { thread_caches: ThreadCaches::new(), chains: std::array::from_fn(|_| OnceLock::new()) };
        let chain = world.chains[0].get_or_init(|| Chain::new(CLASS.bytes, 1));
        let bytes = Bytes((0..cells).map(|_| UnsafeCell::new(0)).collect());
        give(chain, chain.reserve(cells).expect("the place is free").open(bytes));
        Arc::new(world)
    }

    fn chain(&self) -> &Chain {
        self.chains[0].get().expect("it was made with the world")
    }

    /// A thread has the cell, and no other.
    fn touch(&self, cell: &PoolAllocation) {
        let bytes = &self.chain().heap(cell).expect("a cell that is held").0;
        // SAFETY: `loom` fails the model if another thread is there.
        bytes[cell.block() as usize].with_mut(|byte| unsafe { *byte += 1 });
    }

    fn live(&self) -> u64 {
        self.chain().statistics().live_count
    }
}

impl Drop for World {
    fn drop(&mut self) {
        assert_eq!(self.live(), 0, "every cell came back");
    }
}

/// As the short way does it.
fn take(world: &Arc<World>) -> Option<Held> {
    let (ready, owner) = world.thread_caches.take(CLASS, &world.chains)?;
    world.touch(&ready.cell);
    Some(Held { ready, owner: owner.unwrap_or_else(|| Arc::clone(world)) })
}

/// As the short way back does it: by the owner alone, which is moved.
fn free(held: Held) {
    let Held { ready, owner } = held;
    owner.touch(&ready.cell);
    let (chains, thread_cache) =
        (std::ptr::from_ref(&owner.chains), owner.thread_caches.mine().map(std::ptr::from_ref));
    let thread_cache = thread_cache.expect("a thread took a cell, and all threads have one thread_cache");
    // SAFETY: both are the owner's.
    if let Err((ready, owner)) = unsafe { put(thread_cache, chains, CLASS.index, || ready, owner) } {
        give(owner.chain(), ready().cell);
    }
}

#[cfg(not(loom))]
fn model(_preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    (0..10).for_each(|_| body());
}

#[cfg(loom)]
fn model(preemptions: impl Into<Option<usize>>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(body);
}

/// Allocations that two threads have, and the handle: whichever goes last takes the world along, once.
#[test]
fn the_last_owner_takes_the_world_along_whoever_it_is() {
    model(2, || {
        let world = World::new(2);
        let held = [take(&world).expect("2 cells"), take(&world).expect("2 cells")];
        let others = held.map(|held| thread::spawn(move || free(held)));
        world.thread_caches.close(&world.chains);
        drop(world);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Puts that meet a full cache, owners beyond those that are kept, and a close.
#[test]
fn a_full_stock_gives_back_while_the_handle_goes() {
    model(2, || {
        let world = World::new(4);
        let mut held: Vec<_> = std::iter::from_fn(|| take(&world)).collect();
        assert_eq!(held.len(), 4);
        let mine = held.split_off(2);
        let other = thread::spawn(move || held.into_iter().for_each(free));
        mine.into_iter().for_each(free);
        world.thread_caches.close(&world.chains);
        drop(world);
        other.join().unwrap();
    });
}

/// A cell is one's at a time, whether it comes from the thread cache or from the chain, while a third thread recalls.
#[test]
fn a_cell_is_never_two_owners() {
    model(2, || {
        let world = World::new(2);
        free(take(&world).expect("2 cells"));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || take(&other).into_iter().for_each(free));
        let recalling = Arc::clone(&world);
        let recall = thread::spawn(move || {
            recalling.thread_caches.empty(&recalling.chains);
            let cell = recalling.chain().allocate_thorough();
            cell.into_iter().for_each(|cell| {
                recalling.touch(&cell);
                give(recalling.chain(), cell);
            });
        });
        take(&world).into_iter().for_each(free);
        other.join().unwrap();
        recall.join().unwrap();
        world.thread_caches.validate(&world.chains).unwrap();
        world.thread_caches.close(&world.chains);
        assert_eq!(world.live(), 0);
    });
}

/// What a count takes off was live: it is never more than the chain says afterwards, and never what a user holds.
#[test]
fn a_count_and_a_look_beside_a_thread_that_gives_back() {
    model(3, || {
        let world = World::new(2);
        let held = [take(&world), take(&world)].map(|held| held.expect("2 cells"));
        let other = thread::spawn(move || held.into_iter().for_each(free));
        let cached = world.thread_caches.count(CLASS.index);
        assert!(cached <= world.live(), "what is cached is live, until a thread takes it out");
        let mut shown = 0;
        world.thread_caches.while_empty(&world.chains, &mut || shown = world.live());
        assert!(shown <= 2);
        other.join().unwrap();
        world.thread_caches.while_empty(&world.chains, &mut || assert_eq!(world.live(), 0, "no user has any"));
        world.thread_caches.close(&world.chains);
    });
}

/// A sweep takes from no thread who is at work, and what it takes is found again.
#[test]
fn a_sweep_beside_a_thread_that_takes() {
    model(3, || {
        let world = World::new(2);
        free(take(&world).expect("2 cells"));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || take(&other).into_iter().for_each(free));
        (1..=2).for_each(|tick| world.thread_caches.sweep(tick, &world.chains));
        other.join().unwrap();
        (3..=4).for_each(|tick| world.thread_caches.sweep(tick, &world.chains));
        assert_eq!(world.live(), 0, "no thread uses what is cached");
        assert!(take(&world).map(free).is_some());
        world.thread_caches.close(&world.chains);
    });
}
