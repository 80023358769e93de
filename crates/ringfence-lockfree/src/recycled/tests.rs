//! Tests of the rules by which objects are kept, and of the limit with several threads.

use std::sync::atomic::AtomicUsize;

use super::*;

/// An object: its recycling data, and a number.
struct Object(Box<Option<Recycling>>, u32);

impl Recyclable for Object {
    fn recycling(&self) -> Option<&Recycling> {
        (*self.0).as_ref()
    }
}

type Objects = Recycled<Object, ()>;

fn key(number: u64) -> Key {
    Key::new(core::array::from_fn(|at| if at == 0 { number } else { 0 }), 1)
}

/// Requests object `number`: returns a recycled object, or a new one of `bytes` bytes.
fn object(objects: &Objects, number: u64, bytes: u64) -> Object {
    let key = key(number);
    let wanted = objects.wanted(&key);
    match objects.take(&wanted) {
        Some(Ok((object, _))) => object,
        Some(Err(_)) => panic!("no two of these keys share a tag"),
        None => Object(Box::new(objects.recycling(&wanted, Held { bytes, kind: 1 }, 0)), number as u32),
    }
}

fn release(objects: &Objects, object: Object) -> Result<(), Object> {
    match object.recycling().is_some_and(|held| objects.would_keep(held)) {
        true => objects.keep(object, drop),
        false => Err(object),
    }
}

fn kept(objects: &Objects) -> (u64, u64) {
    let (mut count, mut bytes) = (0, 0);
    objects.each(|object| {
        count += 1;
        bytes += bytes_of(object);
    });
    (count, bytes)
}

#[test]
fn a_description_that_was_asked_for_once_is_not_kept() {
    let objects = Objects::new(1 << 20, 64);
    let first = object(&objects, 1, 100);
    assert!(release(&objects, first).is_err(), "a description that was requested once is not kept");
    let second = object(&objects, 1, 100);
    assert!(release(&objects, second).is_ok());
    assert_eq!((kept(&objects), objects.taken()), ((1, 100), 0));
    let third = object(&objects, 1, 100);
    assert_eq!((kept(&objects), objects.taken()), ((0, 0), 1));
    assert!(release(&objects, third).is_ok());
    objects.validate().expect("sound");
}

#[test]
fn nothing_is_kept_without_a_clock_or_a_bound() {
    for (bytes_max, grace_ticks) in [(0, 64), (1 << 20, 0)] {
        assert!(!Objects::new(bytes_max, grace_ticks).is_on());
    }
}

#[test]
fn every_word_of_a_key_counts() {
    let tags: Vec<_> = (0..Key::WORDS)
        .flat_map(|word| {
            (0..64).map(move |bit| Key::new(core::array::from_fn(|at| u64::from(at == word) << bit), Key::WORDS))
        })
        .map(|key| key.tag())
        .collect();
    let mut distinct = tags.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), tags.len());
    // Keys with two swapped words have different tags.
    let swapped =
        |one, other| Key::new(core::array::from_fn(|at| [one, other].get(at).copied().unwrap_or(7)), Key::WORDS);
    assert_ne!(swapped(1, 2).tag(), swapped(2, 1).tag());
    let objects = Objects::new(1 << 20, 64);
    let of = |key: &Key| {
        objects.wanted(key);
        objects.recycling(&objects.wanted(key), Held { bytes: 1, kind: 0 }, 0).expect("requested before")
    };
    assert!(of(&key(1)).serves(&key(1)) && !of(&key(1)).serves(&key(2)));
    let longer = Key::new(key(1).words, 5);
    assert!(!of(&key(1)).serves(&longer) && key(1).tag() != longer.tag());
    let all = Key::new(core::array::from_fn(|at| at as u64), Key::WORDS);
    for at in 0..Key::WORDS {
        let other = Key::new(core::array::from_fn(|word| word as u64 ^ u64::from(word == at)), Key::WORDS);
        assert!(of(&all).serves(&all) && !of(&all).serves(&other));
    }
}

#[test]
fn what_is_kept_stays_within_the_bound_and_every_byte_is_counted() {
    for (bytes, bytes_max) in [(1, 10), (100, 1000), (100, 100_000), (4096, 1 << 20), (1 << 20, 1 << 20), (2, 1)] {
        let objects = Objects::new(bytes_max, 64);
        let mut held: Vec<_> = (0..600).map(|_| object(&objects, 1, bytes)).collect();
        for _ in 0..3 {
            let refused = held.drain(..).filter_map(|object| release(&objects, object).err()).count() as u64;
            let (count, sum) = kept(&objects);
            assert!(sum <= bytes_max && count + refused == 600, "{count} kept, {refused} refused");
            assert!(refused <= 1 || sum + bytes > bytes_max, "an object was refused although it fits: {sum}");
            objects.validate().expect("sound");
            held.extend((0..600).map(|_| object(&objects, 1, bytes)));
            assert_eq!(kept(&objects), (0, 0));
            objects.validate().expect("sound");
        }
    }
}

#[test]
fn a_description_that_is_not_asked_for_makes_room_for_one_that_is() {
    let objects = Objects::new(100_000, 1 << 20);
    let old: Vec<_> = (0..1001).map(|_| object(&objects, 1, 100)).collect();
    old.into_iter().for_each(|object| _ = release(&objects, object));
    assert_eq!(kept(&objects), (1000, 100_000));
    let gone = AtomicUsize::new(0);
    // Refusals advance the time, without calls of `age`.
    for _ in 0..40 {
        let held: Vec<_> = (0..10).map(|_| object(&objects, 2, 100)).collect();
        for object in held {
            if !object.recycling().is_some_and(|held| objects.would_keep(held)) {
                continue;
            }
            _ = objects.keep(object, |object| {
                assert_eq!(object.1, 1, "the requested description stays");
                gone.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
    assert_eq!((gone.load(Ordering::Relaxed), kept(&objects)), (1000, (10, 1000)));
    objects.validate().expect("sound");
}

#[test]
fn a_description_ages_by_reclaims() {
    let objects = Objects::new(1 << 20, 64);
    for _ in 0..2 {
        let held = [object(&objects, 1, 100), object(&objects, 1, 100)];
        held.into_iter().for_each(|object| _ = release(&objects, object));
    }
    assert_eq!(kept(&objects), (2, 200));
    let mut gone = 0;
    (1..=64).for_each(|tick| objects.age(tick, |_| gone += 1));
    assert_eq!(gone, 0, "64 reclaims are granted");
    (65..=64 + 2 * AGE_STEP).for_each(|tick| objects.age(tick, |_| gone += 1));
    assert_eq!((gone, kept(&objects)), (2, (0, 0)));
    objects.validate().expect("sound");
}

#[test]
fn objects_of_one_description_may_hold_different_bytes_and_kinds() {
    let objects = Objects::new(1 << 20, 64);
    object(&objects, 1, 100);
    for bytes in [100, 200, 300] {
        let one = object(&objects, 1, bytes);
        let other = object(&objects, 1, bytes);
        assert!(release(&objects, one).is_ok() && release(&objects, other).is_ok());
        objects.validate().expect("sound");
        objects.empty(|kind| kind == 2, |_| panic!("no object has that kind"));
        assert_eq!(kept(&objects).0, 2);
        objects.empty(|kind| kind == 1, drop);
        assert_eq!(kept(&objects), (0, 0));
    }
    objects.validate().expect("sound");
}

#[test]
fn a_closed_store_gives_everything_and_keeps_nothing() {
    let objects = Objects::new(1 << 20, 64);
    let held: Vec<_> = (0..500).map(|_| object(&objects, 1, 100)).collect();
    held.into_iter().for_each(|object| _ = release(&objects, object));
    let late = object(&objects, 1, 100);
    let mut gone = 0;
    objects.close(|_| gone += 1);
    assert_eq!((gone, kept(&objects)), (498, (0, 0)), "the first was not kept, one is in use");
    assert!(release(&objects, late).is_err());
    objects.validate().expect("sound");
}

#[test]
fn threads_never_exceed_the_bound_and_lose_nothing() {
    let objects = Objects::new(100_000, 64);
    let (made, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (objects, made, gone) = (&objects, &made, &gone);
            scope.spawn(move || {
                for round in 0..rounds {
                    let number = (round + thread) % 3;
                    let held: Vec<_> = (0..7).map(|_| object(objects, number, 100 * (number + 1))).collect();
                    for object in held {
                        made.fetch_add(1, Ordering::Relaxed);
                        if let Err(object) = release(objects, object) {
                            object.0.iter().for_each(|held| objects.forget(held));
                            gone.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    assert!(kept(objects).1 <= 100_000);
                    if round % 64 == 63 {
                        objects.age(round, |_| _ = gone.fetch_add(1, Ordering::Relaxed));
                    }
                }
            });
        }
    });
    objects.validate().expect("sound");
    // Each object that was created or taken was put back: it was destroyed, is kept, or was taken again.
    let (count, _) = kept(&objects);
    let (made, gone) = (made.into_inner() as u64, gone.into_inner() as u64);
    assert_eq!(made, gone + count + objects.taken());
}

/// An object that another thread keeps while the objects of its class are taken out is also destroyed after the grace
/// period.
#[test]
fn what_is_kept_while_its_class_is_forgotten_ages_all_the_same() {
    let objects = Objects::new(1 << 20, AGE_STEP);
    let [first, second] = [0, 1].map(|_| object(&objects, 1, 100));
    assert!(objects.would_keep(second.recycling().expect("it was requested before")));
    let mut gone = 0;
    (1..=16 * AGE_STEP).for_each(|tick| objects.age(tick, |_| gone += 1));
    assert!(objects.keep(second, drop).is_ok(), "`would_keep` returned true before");
    (16 * AGE_STEP..=64 * AGE_STEP).for_each(|tick| objects.age(tick, |_| gone += 1));
    assert_eq!((gone, kept(&objects)), (1, (0, 0)));
    drop(first);
    objects.validate().expect("sound");
}
