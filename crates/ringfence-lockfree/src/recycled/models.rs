//! Models of recycled objects with threads that take, keep, age, empty and close. `loom` runs them with all orders of
//! the threads' steps that have at most two preemptions; miri runs some orders and checks all memory accesses.
//!
//! - `RUSTFLAGS="--cfg loom" cargo test -p ringfence-lockfree --lib --release models`
//! - `cargo +nightly miri test -p ringfence-lockfree --lib models`
//!
//! A model fails if an object has two owners (detected by a cell), if an object is lost or destroyed twice (detected by
//! a count), or if bytes are counted wrongly (detected by `validate`). All threads share one thread cache.

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(not(loom))]
use std::{sync::Arc, thread};

use super::*;
use crate::primitive::UnsafeCell;

const BYTES: u64 = 100;

struct Object {
    recycling: Option<Recycling>,
    content: UnsafeCell<u32>,
}

// SAFETY: only the owner of an object accesses its content, and the models check that it has one owner. The cell of
// `loom` is `Sync` without this.
#[cfg(not(loom))]
unsafe impl Sync for Object {}

impl Recyclable for Box<Object> {
    fn recycling(&self) -> Option<&Recycling> {
        self.recycling.as_ref()
    }
}

/// The part of an allocator that recycled objects need.
struct World {
    objects: Recycled<Box<Object>, Arc<World>>,
    /// Number of objects that were created and not destroyed.
    lives: AtomicU32,
}

/// An object in use, and the reference that keeps the world alive.
struct Owned {
    object: Box<Object>,
    owner: Arc<World>,
}

impl World {
    /// Creates a world that can keep the bytes of `count` objects. Their description was requested once. The thread
    /// cache is also created here, because `loom` does not model a `OnceLock`.
    fn new(count: u64) -> Arc<Self> {
        let world = Arc::new(Self { objects: Recycled::new(BYTES * count, 1), lives: AtomicU32::new(0) });
        assert!(world.objects.take(&world.objects.wanted(&key())).is_none());
        world.store().thread_caches.wanted(0);
        world
    }

    fn store(&self) -> &Store<Box<Object>, Arc<World>> {
        self.objects.store.get().expect("a description was requested")
    }

    fn touch(object: &Object) {
        // SAFETY: `loom` fails the model if another thread accesses the content.
        object.content.with_mut(|content| unsafe { *content += 1 });
    }

    fn gone(&self, object: Box<Object>) {
        Self::touch(&object);
        self.lives.fetch_sub(1, Ordering::Relaxed);
    }

    fn close(&self) {
        self.objects.close(|object| self.gone(object));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.objects.validate().expect("sound");
        assert_eq!(self.lives.load(Ordering::Relaxed), 0, "each object is destroyed, once");
    }
}

fn key() -> Key {
    Key::new(core::array::from_fn(|at| u64::from(at == 0)), 1)
}

/// Returns an object as an allocator does: a recycled object, or a new one if there is none.
fn make(world: &Arc<World>) -> Owned {
    let key = key();
    let wanted = world.objects.wanted(&key);
    let (object, owner) = match world.objects.take(&wanted) {
        Some(Ok(found)) => found,
        Some(Err(_)) => panic!("there is one description"),
        None => {
            world.lives.fetch_add(1, Ordering::Relaxed);
            let recycling = world.objects.recycling(&wanted, Held { bytes: BYTES, kind: 0 }, 0);
            (Box::new(Object { recycling, content: UnsafeCell::new(0) }), None)
        }
    };
    World::touch(&object);
    Owned { object, owner: owner.unwrap_or_else(|| Arc::clone(world)) }
}

/// Destroys an object as an allocator does: keeps it if possible. The owner is moved into the store.
fn destroy(owned: Owned) {
    let Owned { object, owner } = owned;
    World::touch(&object);
    let kept = match object.recycling().is_some_and(|held| owner.objects.would_keep(held)) {
        // SAFETY: the objects belong to the owner's world.
        true => unsafe { Recycled::keep_with_owner(object, owner, |owner| &owner.objects, |_| ()) },
        false => Err((object, owner)),
    };
    if let Err((object, owner)) = kept {
        owner.gone(object);
    }
}

#[cfg(not(loom))]
fn model(_preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    (0..10).for_each(|_| body());
}

#[cfg(loom)]
fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn an_object_has_one_owner_at_a_time() {
    model(2, || {
        let world = World::new(4);
        destroy(make(&world));
        let theirs = Arc::clone(&world);
        let other = thread::spawn(move || destroy(make(&theirs)));
        destroy(make(&world));
        other.join().unwrap();
        world.close();
    });
}

/// If two threads keep objects and only one object fits, the kept bytes never exceed the limit, and all kept bytes are
/// counted.
#[test]
fn the_bound_holds_while_two_threads_put_in() {
    model(2, || {
        let world = World::new(1);
        let [mine, theirs] = [make(&world), make(&world)];
        let other = thread::spawn(move || destroy(theirs));
        destroy(mine);
        let kept = world.store().reserved.0.load(Ordering::Relaxed);
        assert!(kept <= BYTES, "{kept} bytes are kept");
        other.join().unwrap();
        let mut count = 0;
        world.objects.each(|_| count += 1);
        assert_eq!(count, 1, "one object fits, and one was kept");
        world.close();
    });
}

/// If the last handle is dropped while a thread keeps an object with its owner, the world is dropped: no reference
/// cycle remains.
#[test]
fn a_close_beside_a_thread_that_gives_back_leaves_nothing() {
    model(2, || {
        let world = World::new(4);
        let owned = [make(&world), make(&world)];
        let other = thread::spawn(move || owned.into_iter().for_each(destroy));
        world.close();
        drop(world);
        other.join().unwrap();
    });
}

/// Each object has one owner if the objects of its class are taken out, because of their age or to free memory, while
/// another thread takes and keeps objects.
#[test]
fn what_is_forgotten_beside_a_thread_that_takes_has_one_owner() {
    model(2, || {
        let world = World::new(4);
        destroy(make(&world));
        let theirs = Arc::clone(&world);
        let other = thread::spawn(move || destroy(make(&theirs)));
        (1..=2).for_each(|tick| world.objects.age(tick * AGE_STEP, |object| world.gone(object)));
        world.objects.empty(|_| true, |object| world.gone(object));
        other.join().unwrap();
        world.close();
    });
}
