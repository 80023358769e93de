//! The order of eviction after a change of priority, what a list contains, and the figures of a commit.

use super::*;
use ringfence::residency::Committed;

/// Eviction follows the priority that was set last.
#[test]
fn a_changed_priority_changes_the_order_of_eviction() {
    let world = Pressed::new();
    let [a, b, c] = [(); 3].map(|()| world.make(Priority::Normal));
    for one in [&a, &b, &c] {
        world.use_all(&[one]).expect("room");
    }
    assert!(c.set_priority(Priority::Lowest) && a.set_priority(Priority::High));
    for expected in [[false, false, true], [false, true, true], [true, true, true]] {
        world.press(1);
        world.use_all(&[]).expect("no memory must become resident");
        assert_eq!([&a, &b, &c].map(|one| world.evicted(one)), expected);
    }
    assert_eq!(world.device.hazards(), []);
}

/// A list contains each memory object once, and none that cannot be evicted. Another list contains it too.
#[test]
fn a_list_contains_a_memory_object_once() {
    let world = Pressed::new();
    let [a, b] = [(); 2].map(|()| world.make(Priority::Normal));
    let near = AllocationDesc { evictable: true, ..Default::default() };
    let shared = [(); 2].map(|()| world.buffer(SIZE, near).expect("room"));
    assert_eq!(shared[0].memory(), shared[1].memory(), "one block");
    let mapped = AllocationDesc { location: ringfence::Location::Upload, ..near };
    let mapped = world.buffer(SIZE, mapped).expect("room");
    let mut list = world.residency.list();
    assert!(list.is_empty());
    list.add(&mapped);
    assert_eq!((list.len(), list.is_empty()), (0, true), "mapped memory stays");
    for (buffer, len) in [(&a, 1), (&a, 1), (&b, 2), (&a, 2), (&shared[0], 3), (&shared[1], 3)] {
        list.add(buffer);
        assert_eq!((list.len(), list.is_empty()), (len, false));
    }
    let mut other = world.residency.list();
    other.add(&a);
    assert_eq!(other.len(), 1);
    list.clear();
    assert!(list.is_empty());
    list.add(&a);
    assert_eq!(list.len(), 1, "a cleared list is a new one");
    assert_eq!(world.residency.object_count(), 3);
    assert_eq!(world.device.hazards(), []);
}

/// The bound on evictions applies to budgets that fall. Memory that must become resident evicts as much as it needs.
#[test]
fn what_must_become_resident_evicts_as_much_as_it_needs() {
    let mut world = Pressed::new();
    let held: Vec<_> = (0..8).map(|_| world.make(Priority::Normal)).collect();
    let all: Vec<_> = held.iter().collect();
    world.use_all(&all).expect("room");
    world.device.set_budget(0, Some(4 * SIZE));
    world.memory.reclaim();
    world.use_all(&[]).expect("no memory must become resident");
    assert_eq!(world.residency.absent_bytes(), 4 * SIZE);
    world.residency = world.residency.with_evictions(SIZE);
    let (gone, here): (Vec<_>, Vec<_>) = all.into_iter().partition(|buffer| world.evicted(buffer));
    let mut list = world.residency.list();
    gone[..3].iter().for_each(|buffer| list.add(buffer));
    let frame = world.timeline().begin();
    let done = world.residency.commit(&list, &frame).expect("room");
    let expected = Committed {
        returned_count: 3,
        returned_bytes: 3 * SIZE,
        evicted_count: 3,
        evicted_bytes: 3 * SIZE,
        beyond_budget_bytes: 0,
    };
    assert_eq!(done, expected);
    world.complete(frame);
    assert_eq!(here.iter().filter(|buffer| world.evicted(buffer)).count(), 3);
    assert_eq!((world.residency.resident_bytes(), world.residency.absent_bytes()), (4 * SIZE, 4 * SIZE));
    let totals = world.residency.totals();
    assert_eq!((totals.evicted_count, totals.evicted_bytes), (7, 7 * SIZE));
    assert_eq!((totals.returned_count, totals.returned_bytes), (3, 3 * SIZE));
    let calls = world.device.calls();
    assert_eq!((calls.evict_bytes, calls.make_resident_bytes), (7 * SIZE, 3 * SIZE));
    assert_eq!(world.device.hazards(), []);
}
