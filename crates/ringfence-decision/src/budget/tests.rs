use std::time::Duration;

use super::*;
use crate::sim;

const BEYOND: Reach = Reach { beyond_budget: true, beyond_window: false };

fn budgets(limit: u64) -> Budgets {
    let mut desc = AllocatorDesc::default();
    desc.heap_bytes_max[0] = limit;
    Budgets::new(&sim::Device::new(sim::Profile::h200(), sim::SimOptions::default()), &desc)
}

#[test]
fn what_one_thread_is_taking_counts_for_the_others() {
    let budgets = budgets(100);
    let first = budgets.take(0, 60, BEYOND).expect("60 of 100");
    assert!(budgets.take(0, 60, BEYOND).is_none(), "beyond the limit, although the driver has not allocated yet");
    assert_eq!(budgets.heap(0).reserved_bytes, 60);
    drop(first);
    assert_eq!(budgets.heap(0).reserved_bytes, 0, "the driver failed");
    budgets.take(0, 60, BEYOND).expect("60 of 100").keep();
    assert_eq!(budgets.heap(0).reserved_bytes, 60);
    budgets.take(0, 40, BEYOND).expect("all of it").keep();
    budgets.remove(0, 100);
    assert!(budgets.take(0, u64::MAX, BEYOND).is_none());
    assert_eq!(budgets.heap(0).reserved_bytes, 0);
}

#[test]
fn threads_that_race_keep_to_the_limit() {
    let budgets = budgets(1000);
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let Some(taken) = budgets.take(0, 300, BEYOND) else { continue };
                    most.fetch_max(budgets.heap(0).reserved_bytes, Ordering::Relaxed);
                    drop(taken);
                }
            });
        }
    });
    assert!(most.into_inner() <= 900);
    assert_eq!(budgets.heap(0).reserved_bytes, 0);
}

#[test]
fn what_others_are_taking_does_not_hide_what_was_given_back() {
    let budgets = budgets(100);
    budgets.take(0, 40, BEYOND).expect("40 of 100").keep();
    let before = budgets.freed_bytes(0);
    drop(budgets.take(0, 20, BEYOND).expect("60 of 100"));
    assert_eq!(budgets.freed_bytes(0), before, "the driver failed");
    let taking = budgets.take(0, 60, BEYOND).expect("all of it");
    budgets.remove(0, 40);
    assert_eq!((budgets.heap(0).reserved_bytes, budgets.freed_bytes(0)), (60, before + 40));
    drop(taking);
}

/// A driver whose budgets take long to read says how long a reading holds. Until then, a frame reads them again only if a
/// memory object was created or freed.
#[test]
fn budgets_that_hold_for_long_are_read_again_only_after_a_change() {
    for (hold_for, is_read_at_once) in [(Duration::ZERO, true), (Duration::from_secs(1 << 20), false)] {
        let profile = sim::Profile { budgets_hold_for: hold_for, ..sim::Profile::h200() };
        let device = sim::Device::new(profile, sim::SimOptions::default());
        let budgets = Budgets::new(&device, &AllocatorDesc::default());
        budgets.refresh_in_frame(&device);
        let read = |bytes| {
            device.set_budget(0, Some(bytes));
            budgets.refresh_in_frame(&device);
            budgets.heap(0).budget_bytes == bytes
        };
        assert_eq!([read(500), read(600)], [is_read_at_once; 2], "{hold_for:?}");
        budgets.take(0, 40, BEYOND).expect("40 of 700").keep();
        assert!(read(700), "a memory object was created");
        assert_eq!(read(800), is_read_at_once, "{hold_for:?}");
        budgets.remove(0, 40);
        assert!(read(900), "a memory object was freed");
    }
}
