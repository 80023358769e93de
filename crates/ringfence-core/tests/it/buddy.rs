//! Tests of the buddy allocator: comparisons with naive twins, and tests of the rules of `docs/acceptance.md`, which
//! they are named after.

use crate::common;

use proptest::prelude::*;
use ringfence_core::buddy::Buddy;
use ringfence_core::range::{AllocError, Allocate, FreeError, Peek, Range, RangeAllocator, Serial, Span};
use ringfence_core::testing::{Op, Twin, run, spans, step};

/// A reference for the buddy allocator: it checks every possible node.
struct NaiveBuddy {
    capacity: u64,
    granule: u64,
    used: Vec<Span>,
}

impl NaiveBuddy {
    fn of(buddy: &Buddy) -> Self {
        let used = spans(buddy).into_iter().filter(|span| span.slot.is_some()).collect();
        Self { capacity: buddy.capacity(), granule: buddy.granule(), used }
    }

    fn root_length(&self) -> u64 {
        self.granule * self.capacity.div_ceil(self.granule).next_power_of_two()
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        self.used.iter().all(|used| end <= used.offset || used.offset + used.size <= start)
    }

    fn is_whole_and_free(&self, start: u64, length: u64) -> bool {
        start + length <= self.capacity && self.is_free(start, start + length)
    }

    /// Returns the offset and the reserved size of a range: those of the shortest free node that is long enough; among
    /// equals, of the lowest one.
    fn place(&self, size: u64, alignment: u64) -> Option<(u64, u64)> {
        let root = self.root_length();
        let wanted = size.next_power_of_two().max(alignment).clamp(self.granule, root);
        let mut best: Option<(u64, u64)> = None;
        let mut length = wanted;
        while length <= root {
            for start in (0..self.capacity).step_by(length as usize) {
                let clipped = length.min(self.capacity - start);
                // A node is not free by itself if its parent is whole and free.
                let parent_is_free = length < root && self.is_whole_and_free(start & !length, 2 * length);
                let fits = clipped >= size && self.is_free(start, start + clipped);
                if fits && !parent_is_free && best.is_none_or(|best| (clipped, start) < best) {
                    best = Some((clipped, start));
                }
            }
            length *= 2;
        }
        best.map(|(clipped, start)| (start, clipped.min(wanted)))
    }

    fn largest(&self) -> u64 {
        (1..=self.capacity).rev().find(|&size| self.place(size, 1).is_some()).unwrap_or(0)
    }
}

fn check_against_naive(buddy: &mut Buddy, ops: &[Op]) -> Result<(), String> {
    let mut twin = Twin::default();
    for (number, &op) in ops.iter().enumerate() {
        let before = NaiveBuddy::of(buddy);
        let live = twin.live.len();
        step(buddy, &mut twin, op, false).map_err(|what| format!("step {number}, {op:?}: {what}"))?;
        if let Op::Allocate { size, alignment_log2 } = op {
            let possible = size != 0 && size <= buddy.capacity();
            let expected = if possible { before.place(size, 1 << alignment_log2) } else { None };
            let new = &twin.live[live..];
            let placed = new.first().map(|range| {
                let span = spans(buddy).into_iter().find(|span| span.slot == Some(range.slot())).unwrap();
                (range.offset(), span.size)
            });
            if placed != expected {
                return Err(format!("step {number}, {op:?}: placed at {placed:?}, expected {expected:?}"));
            }
        }
        let largest = NaiveBuddy::of(buddy).largest();
        if buddy.largest_free() != largest {
            return Err(format!("step {number}, {op:?}: largest {}, expected {largest}", buddy.largest_free()));
        }
    }
    Ok(())
}

fn free_all(buddy: &mut Buddy, live: &[Range]) {
    for range in live {
        buddy.free(*range).unwrap();
    }
    let whole = Span { offset: 0, size: buddy.capacity(), slot: None };
    assert_eq!(spans(buddy), [whole], "all spans merge again");
    assert_eq!((buddy.largest_free(), buddy.free_size()), (buddy.capacity(), buddy.capacity()));
    buddy.validate().unwrap();
}

proptest! {
    #[test]
    fn answers_as_a_naive_buddy(granule_log2 in 0..4_u32, (capacity, ops) in common::heaps(1..70_u64, 120)) {
        let mut buddy = Buddy::new(capacity, 1 << granule_log2);
        check_against_naive(&mut buddy, &ops).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn keeps_the_contract_and_merges_all(granule_log2 in 0..6_u32, (capacity, ops) in common::heaps(1..1500_u64, 300)) {
        let mut buddy = Buddy::new(capacity, 1 << granule_log2);
        let twin = run(&mut buddy, &ops, false).map_err(TestCaseError::fail)?;
        free_all(&mut buddy, &twin.live);
    }

    #[test]
    fn keeps_the_contract_with_large_granules(
        (capacity, ops) in common::heaps(prop_oneof![(1 << 62) - 9..=1_u64 << 63, 1_u64 << 50..=1 << 56], 120),
        granule_log2 in prop_oneof![Just(56_u32), Just(60), Just(63)],
    ) {
        let mut buddy = Buddy::new(capacity, 1 << granule_log2);
        let twin = run(&mut buddy, &ops, false).map_err(TestCaseError::fail)?;
        free_all(&mut buddy, &twin.live);
    }
}

#[test]
fn every_capacity_is_granted_whole() {
    for capacity in 1..=130 {
        for granule in [1, 2, 4, 64, 256] {
            let mut buddy = Buddy::new(capacity, granule);
            assert_eq!(buddy.largest_free(), capacity);
            let whole = buddy.allocate(capacity, 1 << 62).unwrap();
            assert_eq!((buddy.free_size(), buddy.largest_free()), (0, 0));
            free_all(&mut buddy, &[whole]);
        }
    }
}

#[test]
fn seed_000_03_only_what_is_live_is_taken_back() {
    let mut buddy = Buddy::new(64, 1);
    let mut other = Buddy::new(64, 1);
    let range = buddy.allocate(8, 1).unwrap();
    let foreign = other.allocate(8, 1).unwrap();
    let (offset, size, slot, serial) = (range.offset(), range.size(), range.slot(), range.serial());
    assert_eq!(buddy.free(foreign), Err(FreeError::Foreign { offset: foreign.offset(), size: 8 }));

    let invented = Serial::from_u64(u64::MAX).unwrap();
    let mut forged = vec![Range::new(offset, size, slot, invented), Range::new(offset + 1, size, slot, serial)];
    forged.push(Range::new(1 << 60, size, slot, serial));
    // The slots of the parent, a child and the buddy, and three slots that are not a node of a range.
    let slots = [slot / 2, 2 * slot, slot ^ 1, 0, 1, u32::MAX];
    forged.extend(slots.map(|slot| Range::new(offset, size, slot, serial)));
    // Ranges with fields of two live ranges, of equal and of different sizes.
    for size in [8, 4] {
        let live = buddy.allocate(size, 1).unwrap();
        for from in 1..7 {
            let pick = |bit: u32| if from >> bit & 1 == 0 { range } else { live };
            forged.push(Range::new(pick(0).offset(), size, pick(1).slot(), pick(2).serial()));
        }
    }
    for forged in forged {
        assert!(!buddy.is_live(&forged), "{forged:?}");
        buddy.free(forged).unwrap_err();
    }
    buddy.validate().unwrap();
    assert!(buddy.is_live(&range) && buddy.live_count() == 3);
    buddy.free(range).unwrap();
    assert_eq!(buddy.free(range), Err(FreeError::Stale { offset, size }));
}

#[test]
fn seed_000_04_zero_and_too_large_fail_as_values() {
    let mut buddy = Buddy::new(5, 1);
    assert_eq!(buddy.allocate(0, 1), Err(AllocError::ZeroSize));
    assert_eq!(buddy.allocate(6, 1), Err(AllocError::TooLarge { size: 6, capacity: 5 }));
    assert_eq!(buddy.allocate(u64::MAX, 1), Err(AllocError::TooLarge { size: u64::MAX, capacity: 5 }));
    for alignment in [0, 3, u64::MAX] {
        assert_eq!(buddy.allocate(1, alignment), Err(AllocError::BadAlignment { alignment }));
    }
    free_all(&mut buddy, &[]);
}

/// Ranges are split off and merged again. (`no_host_allocation.rs` tests that this allocates no host memory.)
#[test]
fn seed_000_05_split_and_merge() {
    let mut buddy = Buddy::new(16, 1);
    let ranges = [1, 1, 2, 4, 8].map(|size| buddy.allocate(size, 1).unwrap());
    assert_eq!(ranges.map(|range| range.offset()), [0, 1, 2, 4, 8]);
    let error = AllocError::OutOfSpace { size: 1, alignment: 1, free: 0, largest_free: 0 };
    assert_eq!(buddy.allocate(1, 1), Err(error));
    buddy.free(ranges[1]).unwrap();
    buddy.free(ranges[2]).unwrap();
    assert_eq!(buddy.largest_free(), 2, "1..2 and 2..4 are not buddies");
    buddy.free(ranges[0]).unwrap();
    assert_eq!(buddy.largest_free(), 4);
    free_all(&mut buddy, &ranges[3..]);
}

#[test]
fn seed_000_06_a_single_descriptor_wastes_nothing_and_a_run_less_than_itself() {
    for size in 1..=64 {
        let mut buddy = Buddy::new(1000, 1);
        buddy.allocate(size, 1).unwrap();
        let waste = 1000 - buddy.free_size() - size;
        assert!(waste < size, "{waste} for {size}");
    }
    let mut buddy = Buddy::new(1000, 1);
    let singles: Vec<_> = (0..1000).map(|_| buddy.allocate(1, 1).unwrap()).collect();
    assert_eq!(buddy.free_size(), 0);
    free_all(&mut buddy, &singles);
}

#[test]
fn the_smallest_sufficient_node_is_split() {
    let mut buddy = Buddy::new(16, 1);
    let large = buddy.allocate(4, 1).unwrap();
    let keeper = buddy.allocate(4, 1).unwrap();
    let small = buddy.allocate(2, 1).unwrap();
    let after = buddy.allocate(2, 1).unwrap();
    buddy.free(large).unwrap();
    buddy.free(small).unwrap();
    assert_eq!(buddy.allocate(1, 1).unwrap().offset(), small.offset(), "not the larger node at offset 0");
    assert!(buddy.is_live(&keeper) && buddy.is_live(&after));
}

#[test]
fn fault_05_a_failed_allocation_changes_nothing() {
    let mut buddy = Buddy::new(5, 1);
    let four = buddy.allocate(4, 1).unwrap();
    let before = spans(&buddy);
    let error = AllocError::OutOfSpace { size: 2, alignment: 1, free: 1, largest_free: 1 };
    assert_eq!(buddy.allocate(2, 1), Err(error));
    assert_eq!(spans(&buddy), before);
    buddy.validate().unwrap();
    buddy.free(four).unwrap();
    let five = buddy.allocate(5, 1).unwrap();
    assert_eq!((five.offset(), five.size()), (0, 5));
}

#[test]
fn fault_06_a_stale_range_frees_nothing_that_lives_at_its_offset_now() {
    let mut buddy = Buddy::new(8, 1);
    let old = buddy.allocate(4, 1).unwrap();
    buddy.free(old).unwrap();
    let new = buddy.allocate(4, 1).unwrap();
    assert_eq!((new.offset(), new.slot()), (old.offset(), old.slot()));
    assert_eq!(buddy.free(old), Err(FreeError::Stale { offset: 0, size: 4 }));
    assert!(buddy.is_live(&new) && !buddy.is_live(&old));
    free_all(&mut buddy, &[new]);
}

#[test]
#[should_panic(expected = "the capacity 0")]
fn a_capacity_of_0_is_a_mistake() {
    let _ = Buddy::new(0, 1);
}

#[test]
#[should_panic(expected = "not a power of two")]
fn a_granule_of_3_is_a_mistake() {
    let _ = Buddy::new(9, 3);
}

#[test]
#[should_panic(expected = "granules are more than")]
fn too_many_granules_are_a_mistake() {
    let _ = Buddy::new(1 << 40, 1);
}

#[test]
fn a_peek_is_what_the_next_allocation_gets() {
    let mut buddy = Buddy::new(64, 1);
    for (size, alignment) in [(3, 1), (8, 8), (1, 1), (16, 16), (5, 4), (64, 1)] {
        let seen = buddy.peek(size, alignment);
        assert_eq!(seen, buddy.allocate(size, alignment).ok().map(|range| range.offset()));
    }
    assert_eq!(buddy.peek(64, 1), None, "the last request failed");
}
