//! Recycled objects under threads that take, keep, age, empty and close: in every order of their steps, and in some
//! orders over memory that is watched.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ringfence-core --lib --release models`
//! `cargo +nightly miri test -p ringfence-core --lib models`
//!
//! An object that two threads have fails a model by its cell, one that is lost or destroyed twice by its count, and
//! bytes that are counted wrong by `validate`. All threads have one thread cache.

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

// SAFETY: the content is touched by the thread that has the object; that it is one is what is shown here. `loom`'s cell
// may be shared by itself.
#[cfg(not(loom))]
unsafe impl Sync for Object {}

impl Recyclable for Box<Object> {
    fn recycling(&self) -> Option<&Recycling> {
        self.recycling.as_ref()
    }
}

/// An allocator, as far as what it recycles knows it.
struct World {
    objects: Recycled<Box<Object>, Arc<World>>,
    /// Objects that were made and not destroyed.
    lives: AtomicU32,
}

/// What a user holds.
struct Owned {
    object: Box<Object>,
    owner: Arc<World>,
}

impl World {
    /// With room for `count` objects. Their description was asked for once, and the thread cache is made: `loom` knows
    /// no order by a `OnceLock`.
    fn new(count: u64) -> Arc<Self> {
        let world = Arc::new(Self { objects: Recycled::new(BYTES * count, 1), lives: AtomicU32::new(0) });
        assert!(world.objects.take(&world.objects.wanted(&key())).is_none());
        world.store().thread_caches.wanted(0);
        world
    }

    fn store(&self) -> &Store<Box<Object>, Arc<World>> {
        self.objects.store.get().expect("a description was asked for")
    }

    fn touch(object: &Object) {
        // SAFETY: `loom` fails the model if another thread is there.
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

/// As the allocator does it: one that is recycled, else a new one.
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

/// The way back, by the owner alone, which is moved.
fn destroy(owned: Owned) {
    let Owned { object, owner } = owned;
    World::touch(&object);
    let kept = match object.recycling().is_some_and(|held| owner.objects.would_keep(held)) {
        // SAFETY: the objects are the owner's.
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

/// Two threads put objects in, and one object fits: the bytes that are kept never exceed the bound, and all of them are
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
        assert_eq!(count, 1, "one fits, and one was given");
        world.close();
    });
}

/// The last handle goes while a thread gives an object back, with the owner that keeps the world: nothing keeps either.
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

/// What a description holds is forgotten, or taken out for memory's sake, while a thread takes and gives back.
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
