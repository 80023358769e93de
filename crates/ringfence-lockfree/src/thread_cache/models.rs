//! Models of thread caches with threads that take, put, recall and close, for the slots of a pool chain. `loom` runs
//! them with the orders of the threads' steps, most models with at most two or three preemptions; miri runs some orders
//! and checks all memory accesses.
//!
//! - `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --lib --release models`
//! - `cargo +nightly miri test -p ringfence-lockfree --lib models`
//!
//! Under `loom`, the owners are references of `loom`. A model fails if a reference is never dropped, or if a world is
//! dropped while a thread still uses its thread cache (the drop of [`TryCell`] checks this). The bytes of the slots are
//! `loom` cells, so a model fails if a slot has two owners. Miri detects pointers that are used after their memory was
//! freed.

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(not(loom))]
use std::{sync::Arc, thread};

use std::vec::Vec;

use super::*;
use crate::pool_chain::{PoolAllocation, PoolChain};
use crate::primitive::UnsafeCell;

const CLASS: usize = 0;

/// Memory of a pool.
struct Bytes(Vec<UnsafeCell<u8>>);

// SAFETY: only the owner of a slot accesses its byte. The models check that a slot has one owner, and miri checks each
// access. The cell of `loom` is `Sync` without this.
#[cfg(not(loom))]
unsafe impl Sync for Bytes {}

type Chain = PoolChain<Bytes>;

/// The part of an allocator that thread caches need. All threads share one thread cache.
struct World {
    thread_caches: ThreadCaches<PoolAllocation, Arc<World>>,
    chain: Chain,
}

/// A slot in use, and the reference that keeps the world alive.
struct Held {
    slot: PoolAllocation,
    owner: Arc<World>,
}

impl World {
    /// Creates a world with a pool of `slots` free slots.
    fn new(slots: u32) -> Arc<Self> {
        let world = Self { thread_caches: ThreadCaches::new([2]), chain: Chain::new(256, 1) };
        let bytes = Bytes((0..slots).map(|_| UnsafeCell::new(0)).collect());
        world.give(CLASS, world.chain.reserve(slots).expect("a slot is vacant").open(bytes));
        Arc::new(world)
    }

    fn give(&self, _class: usize, slot: PoolAllocation) {
        self.chain.free_near(thread_place(), slot).expect("it is live");
    }

    /// Frees the slots of all thread caches.
    fn recall(&self) {
        self.thread_caches.empty(|class, slot| self.give(class, slot));
    }

    fn sweep(&self) {
        self.thread_caches.sweep(|class, slot| self.give(class, slot));
    }

    fn close(&self) {
        self.thread_caches.close(|class, slot| self.give(class, slot));
    }

    /// Writes to the byte of a slot, so that `loom` checks that only this thread has the slot.
    fn touch(&self, slot: &PoolAllocation) {
        let bytes = &self.chain.heap(slot).expect("the slot is owned").0;
        // SAFETY: `loom` fails the model if another thread accesses the byte.
        bytes[slot.block() as usize].with_mut(|byte| unsafe { *byte += 1 });
    }

    fn live(&self) -> u64 {
        self.chain.statistics().live_count
    }
}

impl Drop for World {
    fn drop(&mut self) {
        assert_eq!(self.live(), 0, "every slot was freed");
    }
}

/// Takes a slot as an allocator does: from the thread cache, or if the cache has none, a batch from the chain.
fn take(world: &Arc<World>) -> Option<Held> {
    let (slot, owner) = world.thread_caches.take(CLASS).or_else(|| {
        let wanted = world.thread_caches.wanted(CLASS);
        let mut slots = (0..=wanted).map_while(|_| world.chain.allocate_near(thread_place()));
        let first = slots.next()?;
        world.thread_caches.fill(CLASS, &mut slots);
        Some((first, None))
    })?;
    world.touch(&slot);
    Some(Held { slot, owner: owner.unwrap_or_else(|| Arc::clone(world)) })
}

/// Frees a slot as an allocator does: into the thread cache, if possible. The owner is moved into the cache.
fn free(held: Held) {
    let Held { slot, owner } = held;
    owner.touch(&slot);
    let Err((slot, owner)) = put_mine(slot, owner) else { return };
    owner.thread_caches.older(CLASS).for_each(|slot| owner.give(CLASS, slot));
    let Err((slot, owner)) = put_mine(slot, owner) else { return };
    owner.give(CLASS, slot);
}

fn put_mine(slot: PoolAllocation, owner: Arc<World>) -> Result<(), (PoolAllocation, Arc<World>)> {
    let thread_cache = owner.thread_caches.mine().map(core::ptr::from_ref);
    let thread_cache = thread_cache.expect("a thread took a slot, and all threads have one thread cache");
    // SAFETY: the thread cache belongs to the owner's world.
    unsafe { put(thread_cache, CLASS, || slot, owner) }.map_err(|(slot, owner)| (slot(), owner))
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

/// If two threads have slots and a third thread owns the handle, the last of the three drops the world, exactly once.
#[test]
fn the_last_owner_takes_the_world_along() {
    model(2, || {
        let world = World::new(2);
        let held = [take(&world).expect("2 slots"), take(&world).expect("2 slots")];
        let others = held.map(|held| thread::spawn(move || free(held)));
        world.close();
        drop(world);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// No slot and no owner is lost if threads put slots into a full cache, with more owners than fit, while the world is
/// closed.
#[test]
fn a_full_thread_cache_gives_back_while_the_handle_goes() {
    model(2, || {
        let world = World::new(4);
        let mut held: Vec<_> = core::iter::from_fn(|| take(&world)).collect();
        assert_eq!(held.len(), 4);
        let mine = held.split_off(2);
        let other = thread::spawn(move || held.into_iter().for_each(free));
        mine.into_iter().for_each(free);
        world.close();
        drop(world);
        other.join().unwrap();
    });
}

/// A slot that is taken from the thread cache or from the chain has one owner at a time, while a third thread frees the
/// cached slots.
#[test]
fn a_slot_never_has_two_owners() {
    model(2, || {
        let world = World::new(2);
        free(take(&world).expect("2 slots"));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || take(&other).into_iter().for_each(free));
        let recalling = Arc::clone(&world);
        let recall = thread::spawn(move || {
            recalling.recall();
            let slot = recalling.chain.allocate_thorough();
            slot.into_iter().for_each(|slot| {
                recalling.touch(&slot);
                recalling.give(CLASS, slot);
            });
        });
        take(&world).into_iter().for_each(free);
        other.join().unwrap();
        recall.join().unwrap();
        world.thread_caches.validate(|_, _| Ok(())).unwrap();
        world.close();
        assert_eq!(world.live(), 0);
    });
}

/// The count of cached slots, which is subtracted from the count of the chain, never exceeds the later count of the
/// chain, and never includes slots in use.
#[test]
fn a_count_and_a_look_beside_a_thread_that_gives_back() {
    model(3, || {
        let world = World::new(2);
        let held = [take(&world), take(&world)].map(|held| held.expect("2 slots"));
        let other = thread::spawn(move || held.into_iter().for_each(free));
        let cached = world.thread_caches.count(CLASS);
        assert!(cached as u64 <= world.live(), "cached slots are live until a thread takes them out");
        let mut shown = 0;
        let mut give = |class, slot| world.give(class, slot);
        world.thread_caches.while_empty(&mut give, &mut || shown = world.live());
        assert!(shown <= 2);
        other.join().unwrap();
        world.thread_caches.while_empty(&mut give, &mut || assert_eq!(world.live(), 0, "no user has a slot"));
        world.close();
    });
}

/// A sweep takes no items from a thread that is using its cache, and no swept item is lost.
#[test]
fn a_sweep_beside_a_thread_that_takes() {
    model(3, || {
        let world = World::new(2);
        free(take(&world).expect("2 slots"));
        let other = Arc::clone(&world);
        let other = thread::spawn(move || take(&other).into_iter().for_each(free));
        (0..2).for_each(|_| world.sweep());
        other.join().unwrap();
        (0..2).for_each(|_| world.sweep());
        assert_eq!(world.live(), 0, "no thread uses a cached slot");
        assert!(take(&world).map(free).is_some());
        world.close();
    });
}

/// An item that keeps the thread caches alive, as a descriptor keeps its heap alive. `loom` detects an item that is
/// never dropped, and a thread cache that is used after its drop.
#[cfg(loom)]
struct Item(Arc<ThreadCaches<Item>>);

#[cfg(loom)]
fn put_back(item: Item) {
    let thread_cache = item.0.mine().map(core::ptr::from_ref);
    // SAFETY: the item keeps the thread caches alive.
    drop(thread_cache.and_then(|mine| unsafe { put(mine, 0, || item, ()) }.err()));
}

#[test]
#[cfg(loom)]
fn the_thread_that_closes_ends_the_circle_while_another_puts_back() {
    loom::model(|| {
        let thread_caches = Arc::new(ThreadCaches::new([2]));
        thread_caches.wanted(0);
        let item = Item(Arc::clone(&thread_caches));
        let other = thread::spawn(move || put_back(item));
        put_back(Item(Arc::clone(&thread_caches)));
        thread_caches.close(|_, item| drop(item));
        drop(thread_caches);
        other.join().unwrap();
    });
}

#[test]
#[cfg(loom)]
fn an_item_is_had_by_one_at_a_time() {
    loom::model(|| {
        let thread_caches: Arc<ThreadCaches<u32>> = Arc::new(ThreadCaches::new([2]));
        thread_caches.wanted(0);
        thread_caches.fill(0, &mut [1].into_iter());
        let theirs = Arc::clone(&thread_caches);
        let other = thread::spawn(move || theirs.take(0));
        let mut found = Vec::new();
        found.extend(thread_caches.take(0).map(|(item, _)| item));
        thread_caches.sweep(|_, item| found.push(item));
        found.extend(other.join().unwrap().map(|(item, _)| item));
        thread_caches.empty(|_, item| found.push(item));
        assert_eq!(found, [1]);
    });
}
