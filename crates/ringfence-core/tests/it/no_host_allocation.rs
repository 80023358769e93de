//! The allocators allocate no host memory while they work.
//!
//! The counting allocator counts the host allocations of each thread separately, so these tests may run concurrently
//! with others.

#[allow(dead_code, reason = "a test program takes what it needs")]
use crate::counting_allocator;

use counting_allocator::host_allocations;
use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Allocate, Range, RangeAllocator};
use std::hint::black_box;

/// Fills the allocator until a request fails, frees every other range, fills the holes, and frees all ranges. `live`
/// must be empty and have enough capacity; it is empty afterwards.
fn churn(allocator: &mut dyn RangeAllocator, live: &mut Vec<Range>) {
    while let Ok(range) = allocator.allocate(1 + live.len() as u64 % 3, 1 << (live.len() % 4)) {
        live.push(range);
    }
    for place in (0..live.len()).step_by(2) {
        allocator.free(live[place]).unwrap();
        allocator.free(live[place]).unwrap_err();
        if let Ok(range) = allocator.allocate(1, 1) {
            live[place] = range;
        }
    }
    for range in live.drain(..) {
        let _ = allocator.free(range);
    }
    assert!(allocator.is_empty());
}

#[test]
fn the_counter_counts() {
    assert_eq!(host_allocations(|| drop(black_box(Box::new(1)))), 1);
}

#[test]
fn seed_000_05_the_buddy_never_allocates_on_the_host() {
    let mut live = Vec::with_capacity(4096);
    let mut buddy = Buddy::new(3000, 1);
    assert_eq!(host_allocations(|| churn(&mut buddy, &mut live)), 0);
}

#[test]
fn fault_04_splits_and_merges_never_allocate_on_the_host() {
    let mut live = Vec::with_capacity(4096);
    let mut list = FreeList::new(3000);
    list.reserve(3000);
    assert_eq!(host_allocations(|| churn(&mut list, &mut live)), 0, "enough host memory was reserved");

    let mut list = FreeList::new(3000);
    assert_ne!(host_allocations(|| churn(&mut list, &mut live)), 0, "it grows");
    assert_eq!(host_allocations(|| churn(&mut list, &mut live)), 0, "the earlier maximum needs no more host memory");
}

#[test]
fn room_for_so_many_ranges_is_room_for_the_last_of_them() {
    let mut list = FreeList::new(2048);
    list.reserve(2048);
    assert_eq!(host_allocations(|| list.reserve(2048)), 0, "it is already reserved");
    let mut fill = || (0..2048).for_each(|_| _ = list.allocate(1, 1).unwrap());
    assert_eq!(host_allocations(&mut fill), 0);
}
