//! Tests of a thread cache step by step, and tests with threads that take, put and close.

use std::sync::Arc;
use std::vec::Vec;

use super::*;

const ROOM: usize = 2 * BATCH_MAX;

fn put_mine<O: Default, const CLASSES: usize>(
    thread_caches: &ThreadCaches<u32, O, CLASSES>,
    class: usize,
    item: u32,
) -> Result<(), u32> {
    let thread_cache = core::ptr::from_ref(thread_caches.mine().expect("it was made"));
    // SAFETY: `thread_caches` is borrowed during the call.
    unsafe { put(thread_cache, class, || item, O::default()) }.map_err(|(item, _)| item())
}

fn take<O, const CLASSES: usize>(thread_caches: &ThreadCaches<u32, O, CLASSES>, class: usize) -> Option<u32> {
    thread_caches.take(class).map(|(item, _)| item)
}

#[test]
fn a_thread_cache_is_filled_in_growing_batches_and_gives_the_last_first() {
    let thread_caches: ThreadCaches<u32> = ThreadCaches::new([ROOM]);
    assert!(thread_caches.mine().is_none() && thread_caches.take(0).is_none());
    let wanted: Vec<_> = (0..8).map(|_| thread_caches.wanted(0)).collect();
    assert_eq!(wanted, [0, 1, 2, 4, 8, 16, 32, 32]);
    let mut items = batch(0..40);
    thread_caches.fill(0, &mut items);
    assert_eq!((items.next(), thread_caches.count(0)), (None, BATCH_MAX));
    assert_eq!((take(&thread_caches, 0), take(&thread_caches, 0)), (Some(31), Some(30)));
    put_mine(&thread_caches, 0, 99).expect("room");
    assert_eq!(thread_caches.peek(0, |item| *item), Some(99));
    assert_eq!(
        (thread_caches.take_item(0), take(&thread_caches, 0)),
        (Some(99), Some(29)),
        "the item used last is taken first"
    );
}

#[test]
fn a_full_thread_cache_refuses_and_hands_its_older_half_over() {
    let thread_caches: ThreadCaches<u32> = ThreadCaches::new([ROOM]);
    thread_caches.wanted(0);
    (0..ROOM as u32).for_each(|item| put_mine(&thread_caches, 0, item).expect("room"));
    assert_eq!(put_mine(&thread_caches, 0, 99), Err(99));
    assert!(thread_caches.older(0).eq(0..ROOM as u32 / 2));
    assert_eq!(thread_caches.older(0).count(), 0, "it is not full");
    let mut too_many = 100..140;
    thread_caches.fill(0, &mut too_many);
    assert_eq!((too_many.len(), thread_caches.count(0)), (8, ROOM));
    thread_caches.validate(|_, _| Ok(())).expect("sound");
}

#[test]
fn a_thread_cache_is_swept_when_it_was_idle_and_a_closed_one_stays_empty() {
    let thread_caches: ThreadCaches<u32> = ThreadCaches::new([ROOM]);
    thread_caches.wanted(0);
    put_mine(&thread_caches, 0, 1).expect("room");
    let mut out = Vec::new();
    thread_caches.sweep(|_, item| out.push(item));
    assert_eq!(out, [], "it was used since the last sweep");
    thread_caches.sweep(|_, item| out.push(item));
    assert_eq!(out, [1]);
    put_mine(&thread_caches, 0, 2).expect("room");
    thread_caches.close(|_, item| out.push(item));
    assert_eq!((out.as_slice(), put_mine(&thread_caches, 0, 3)), ([1, 2].as_slice(), Err(3)));
    thread_caches.fill(0, &mut [4].into_iter());
    assert_eq!((thread_caches.wanted(0), thread_caches.older(0).count()), (0, 0));
    assert_eq!((thread_caches.count(0), put_mine(&thread_caches, 0, 3)), (0, Err(3)));
    thread_caches.validate(|_, _| Ok(())).expect("sound");
}

#[test]
fn classes_have_rooms_of_their_own_and_owners_serve_them_all() {
    let thread_caches: ThreadCaches<u32, Arc<()>, 3> = ThreadCaches::new([4, 2, 1]);
    assert_eq!(thread_caches.wanted(0), 0);
    assert_eq!(put_mine(&thread_caches, 2, 1), Err(1), "a class has no room before its first use");
    assert_eq!(thread_caches.older(2).count(), 0);
    for (class, room) in [(0, 4), (2, 1)] {
        (0..room).for_each(|item| put_mine(&thread_caches, class, item).expect("room"));
        assert_eq!(put_mine(&thread_caches, class, 9), Err(9));
    }
    assert_eq!([0, 1, 2].map(|class| thread_caches.count(class)), [4, 0, 1]);
    let owned: Vec<_> = (0..3).map(|_| thread_caches.take(0).and_then(|(_, owner)| owner)).collect();
    assert!(owned.iter().all(Option::is_some), "each item has an owner");
    assert!(thread_caches.take_owner().is_some() && thread_caches.take(2).is_some());
    assert!(thread_caches.take_owner().is_none());
    assert!(thread_caches.take(0).is_some_and(|(_, owner)| owner.is_none()));
}

#[test]
fn what_is_emptied_comes_with_its_class_and_stays_away_while_work_is_done() {
    let thread_caches: ThreadCaches<u32, (), 2> = ThreadCaches::new([ROOM, ROOM]);
    for class in 0..2 {
        thread_caches.wanted(class);
        (0..50).for_each(|item| put_mine(&thread_caches, class, 100 * class as u32 + item).expect("room"));
    }
    let (mut out, mut worked) = (Vec::new(), 0);
    thread_caches.while_empty(&mut |class, item| out.push((class, item)), &mut || {
        worked += 1;
        assert!(thread_caches.mine().is_some_and(|mine| mine.try_take().is_none()), "taken meanwhile");
    });
    let all = (0..2).flat_map(|class| (0..50).map(move |item| (class, 100 * class as u32 + item)));
    assert!(out.iter().copied().eq(all) && worked == 1);
    put_mine(&thread_caches, 1, 7).expect("room");
    out.clear();
    thread_caches.empty(|class, item| out.push((class, item)));
    assert_eq!(out, [(1, 7)]);
    thread_caches.validate(|_, _| Invalid::unless(false, "no item is checked", 0)).expect("empty");
}

/// After the close, all items and with them the thread caches are dropped, although other threads put and take
/// meanwhile. As with descriptors, only the items keep the thread caches alive.
#[test]
fn the_thread_that_closes_ends_the_circle_while_others_put_and_take() {
    struct Item(Arc<ThreadCaches<Item>>);
    for _ in 0..200 {
        let thread_caches = Arc::new(ThreadCaches::new([ROOM]));
        let gone = Arc::downgrade(&thread_caches);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let thread_caches = Arc::clone(&thread_caches);
                scope.spawn(move || {
                    thread_caches.wanted(0);
                    let mut held: Vec<_> = (0..20).map(|_| Item(Arc::clone(&thread_caches))).collect();
                    drop(thread_caches);
                    while let Some(item) = held.pop() {
                        let thread_cache = item.0.mine().map(core::ptr::from_ref);
                        // SAFETY: the item keeps the thread caches alive.
                        drop(thread_cache.and_then(|mine| unsafe { put(mine, 0, || item, ()) }.err()));
                    }
                });
            }
            thread_caches.close(|_, item| drop(item));
        });
        // Closes a thread cache that was created after the first close. In a real pool, no thread cache is created
        // after the last handle was dropped.
        thread_caches.close(|_, item| drop(item));
        drop(thread_caches);
        assert!(gone.upgrade().is_none());
    }
}
