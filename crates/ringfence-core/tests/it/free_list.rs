//! Tests of the free list: comparisons with naive twins, and tests of the rules of `docs/acceptance.md`, which they are
//! named after.

use crate::common;

use proptest::prelude::*;
use ringfence_core::free_list::{FreeList, UnknownOffset};
use ringfence_core::range::{AllocError, Allocate, FreeError, Range, RangeAllocator, Serial, Span, align_up};
use ringfence_core::testing::{Op, Twin, spans, step};

/// Returns the offset that best fit must choose: the first aligned offset in the smallest free span that fits; among
/// equals, in the lowest one.
fn best_fit(spans: &[Span], size: u64, alignment: u64) -> Option<u64> {
    let holds = |span: &&Span| {
        let end = align_up(span.offset, alignment).and_then(|start| start.checked_add(size));
        span.slot.is_none() && end.is_some_and(|end| end <= span.offset + span.size)
    };
    let best = spans.iter().filter(holds).min_by_key(|span| (span.size, span.offset))?;
    align_up(best.offset, alignment)
}

fn check_against_naive(list: &mut FreeList, ops: &[Op]) -> Result<Twin, String> {
    let mut twin = Twin::default();
    for (number, &op) in ops.iter().enumerate() {
        let fail = |what: String| format!("step {number}, {op:?}: {what}");
        let (before, live) = (spans(list), twin.live.len());
        step(list, &mut twin, op, true).map_err(fail)?;
        if let Op::Allocate { size, alignment_log2 } = op {
            let expected = if size == 0 { None } else { best_fit(&before, size, 1 << alignment_log2) };
            let placed = twin.live[live..].first().map(Range::offset);
            if placed != expected {
                return Err(fail(format!("placed at {placed:?}, expected {expected:?}")));
            }
        }
        check_lookups(list, &twin).map_err(fail)?;
    }
    Ok(twin)
}

fn check_lookups(list: &FreeList, twin: &Twin) -> Result<(), String> {
    let mut largest = 0;
    for span in spans(list) {
        let live = twin.live.iter().find(|range| range.offset() == span.offset).copied();
        if list.find(span.offset) != live {
            return Err(format!("offset {} leads to {:?}", span.offset, list.find(span.offset)));
        }
        if span.slot.is_none() {
            largest = span.size.max(largest);
        } else if live.is_none_or(|range| range.size() != span.size) {
            return Err(format!("the used span at {} is not as long as its range", span.offset));
        }
    }
    if list.largest_free() == largest { Ok(()) } else { Err(format!("largest is {largest}")) }
}

fn free_all(list: &mut FreeList, live: &[Range]) {
    for range in live {
        list.free(*range).unwrap();
    }
    let whole = Span { offset: 0, size: list.capacity(), slot: None };
    assert_eq!(spans(list).iter().map(|span| Span { slot: None, ..*span }).collect::<Vec<_>>(), [whole]);
    assert_eq!((list.largest_free(), list.free_size()), (list.capacity(), list.capacity()));
    list.validate().unwrap();
}

fn capacities() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..70_u64,
        2 => 1..5000_u64,
        1 => (1_u64 << 63) - 70..(1_u64 << 63) + 70,
        1 => u64::MAX - 70..=u64::MAX,
    ]
}

proptest! {
    #[test]
    fn answers_as_naive_best_fit((capacity, ops) in common::heaps(capacities(), 400)) {
        let mut list = FreeList::new(capacity);
        let twin = check_against_naive(&mut list, &ops).map_err(TestCaseError::fail)?;
        free_all(&mut list, &twin.live);
    }

    /// `free_at` frees a range if and only if a live range begins at the offset.
    #[test]
    fn free_at_frees_what_is_live_and_nothing_else(
        sizes in prop::collection::vec(1..5_u64, 1..30),
        offsets in prop::collection::vec(0..100_u64, 1..60),
    ) {
        let mut list = FreeList::new(64);
        let mut live: Vec<Range> = sizes.iter().filter_map(|&size| list.allocate(size, 1).ok()).collect();
        for offset in offsets {
            let at = live.iter().position(|range| range.offset() == offset);
            let expected = at.map(|at| live.swap_remove(at)).ok_or(UnknownOffset { offset });
            prop_assert_eq!(list.free_at(offset), expected);
            list.validate().unwrap();
            prop_assert_eq!(list.live_count(), live.len());
        }
        free_all(&mut list, &live);
    }
}

/// Returns a full list of `count` ranges of one unit.
fn full(count: u64) -> (FreeList, Vec<Range>) {
    let mut list = FreeList::new(count);
    let ranges = (0..count).map(|_| list.allocate(1, 1).unwrap()).collect();
    (list, ranges)
}

/// Returns the start and end of every free span.
fn free_spans(list: &FreeList) -> Vec<(u64, u64)> {
    let free = spans(list).into_iter().filter(|span| span.slot.is_none());
    free.map(|span| (span.offset, span.offset + span.size)).collect()
}

#[test]
fn seed_000_03_only_what_is_live_is_taken_back() {
    let (mut list, ranges) = full(8);
    let (_other, foreign) = full(8);
    let range = ranges[3];
    let (offset, size, slot, serial) = (range.offset(), range.size(), range.slot(), range.serial());
    assert_eq!(list.free(foreign[3]), Err(FreeError::Foreign { offset, size }));
    let mut forged = vec![
        Range::new(offset, size, slot, Serial::from_u64(u64::MAX).unwrap()),
        Range::new(offset + 1, size, slot, serial),
        Range::new(offset, size + 1, slot, serial),
    ];
    forged.extend([0, slot + 1, slot - 1, u32::MAX].map(|slot| Range::new(offset, size, slot, serial)));
    // A range that differs from a live range only in its serial.
    forged.push(Range::new(ranges[2].offset(), size, ranges[2].slot(), serial));
    for unit in [1, 5, 7] {
        list.free(ranges[unit]).unwrap();
    }
    // Ranges that would match the head or a free block if the two links of its node were read as a serial.
    for number in (1..100).filter_map(|links| Serial::from_u64((links / 10) << 32 | (links % 10))) {
        forged.push(Range::new(8, 0_u64.wrapping_sub(8), 0, number));
        forged.extend([1, 5, 7].map(|unit: usize| Range::new(unit as u64, 1, ranges[unit].slot(), number)));
    }
    for forged in forged {
        assert!(!list.is_live(&forged), "{forged:?}");
        list.free(forged).unwrap_err();
    }
    list.validate().unwrap();
    list.free(range).unwrap();
    assert_eq!(list.free(range), Err(FreeError::Stale { offset, size }));
}

#[test]
fn seed_000_04_zero_and_too_large_fail_as_values() {
    let mut list = FreeList::new(5);
    assert_eq!(list.allocate(0, 1), Err(AllocError::ZeroSize));
    assert_eq!(list.allocate(6, 1), Err(AllocError::TooLarge { size: 6, capacity: 5 }));
    assert_eq!(list.allocate(u64::MAX, 1), Err(AllocError::TooLarge { size: u64::MAX, capacity: 5 }));
    for alignment in [0, 3, u64::MAX] {
        assert_eq!(list.allocate(1, alignment), Err(AllocError::BadAlignment { alignment }));
    }
    let _held = list.allocate(2, 1).unwrap();
    let error = AllocError::OutOfSpace { size: 2, alignment: 4, free: 3, largest_free: 3 };
    assert_eq!(list.allocate(2, 4), Err(error));
    list.validate().unwrap();
}

#[test]
fn seed_000_07_every_block_stands_in_address_order() {
    let mut list = FreeList::new(100);
    let ranges = [10, 20, 30].map(|size| list.allocate(size, 1).unwrap());
    list.free(ranges[1]).unwrap();
    let expected = [(0, 10, true), (10, 20, false), (30, 30, true), (60, 40, false)];
    let walked = spans(&list).into_iter().map(|span| (span.offset, span.size, span.slot.is_some()));
    assert!(walked.eq(expected));
    assert_eq!(format!("{list:?}"), "FreeList { 0..10: used, 10..30: free, 30..60: used, 60..100: free }");
    // Allocates a range with padding before it and a remainder after it, then a range whose padding is in the
    // remainder.
    let aligned = [(8, 16), (20, 32)].map(|(size, alignment)| list.allocate(size, alignment).unwrap());
    let shown = "0..10: used, 10..16: free, 16..24: used, 24..30: free, 30..60: used, 60..64: free, 64..84: used, 84..100: free";
    assert_eq!(format!("{list:?}"), format!("FreeList {{ {shown} }}"));
    list.validate().unwrap();
    list.free(ranges[2]).unwrap();
    list.free(aligned[0]).unwrap();
    assert_eq!(format!("{list:?}"), "FreeList { 0..10: used, 10..64: free, 64..84: used, 84..100: free }");
}

/// Ranges are found by their offsets, and free blocks by their sizes. (`src/free_list.rs` tests that both indexes
/// remain shallow.)
#[test]
fn seed_000_08_lookup_by_offset_and_by_size() {
    let (mut list, ranges) = full(1 << 12);
    for range in &ranges {
        assert_eq!(list.find(range.offset()), Some(*range));
    }
    // Frees holes of 3, 2 and 1 units, in this order of addresses, with used blocks between them.
    for hole in [100..103, 200..202, 300..301] {
        hole.for_each(|unit| list.free(ranges[unit]).unwrap());
    }
    assert_eq!(list.find(200), None);
    assert_eq!(list.find(1 << 20), None);
    assert_eq!([1, 3, 2].map(|size| list.allocate(size, 1).unwrap().offset()), [300, 100, 200]);
}

#[test]
fn seed_000_10_an_exact_fit_does_not_split_and_otherwise_the_low_part_is_handed_out() {
    let (mut list, ranges) = full(8);
    for unit in [1, 4, 5, 6] {
        list.free(ranges[unit]).unwrap();
    }
    let blocks = spans(&list).len();
    assert_eq!(list.allocate(1, 1).unwrap().offset(), 1);
    assert_eq!(spans(&list).len(), blocks, "exact: as many blocks as before");
    assert_eq!(list.allocate(2, 1).unwrap().offset(), 4, "the low part of 4..7");
    assert_eq!(free_spans(&list), [(6, 7)], "the rest is indexed again");
    assert_eq!(list.allocate(1, 1).unwrap().offset(), 6);

    // The same with an alignment. Skipped units remain free and can be allocated.
    let (mut list, ranges) = full(64);
    for hole in [4..8, 17..22, 33..41, 48..60] {
        hole.for_each(|unit| list.free(ranges[unit]).unwrap());
    }
    let blocks = spans(&list).len();
    let exact = list.allocate(4, 4).unwrap();
    assert_eq!((exact.offset(), spans(&list).len()), (4, blocks), "exact: not split");
    assert_eq!(list.allocate(4, 4).unwrap().offset(), 36, "17..22 is smaller, but no aligned range fits");
    assert_eq!(free_spans(&list), [(17, 22), (33, 36), (40, 41), (48, 60)]);
    assert_eq!(list.allocate(2, 4).unwrap().offset(), 20, "exact but for the padding");
    assert_eq!([(1, 1), (3, 1), (3, 1)].map(|(size, at)| list.allocate(size, at).unwrap().offset()), [40, 17, 33]);
    assert_eq!([(4, 8), (8, 4)].map(|(size, at)| list.allocate(size, at).unwrap().offset()), [48, 52]);
    assert_eq!((free_spans(&list), list.largest_free()), (vec![], 0));
}

#[test]
fn seed_000_11_freeing_an_unknown_or_free_offset_is_reported_with_the_offset() {
    let mut list = FreeList::new(64);
    let range = list.allocate(8, 1).unwrap();
    for offset in [1, 8, 64, u64::MAX] {
        assert_eq!(list.free_at(offset), Err(UnknownOffset { offset }));
    }
    assert_eq!(list.free_at(0), Ok(range));
    let error = list.free_at(0).unwrap_err();
    assert_eq!(error, UnknownOffset { offset: 0 });
    assert!(error.to_string().contains("offset 0"), "{error}");
    let stale = list.free(range).unwrap_err();
    assert!(stale.to_string().contains("offset 0"), "{stale}");
    free_all(&mut list, &[]);
}

#[test]
fn seed_000_12_freeing_merges_with_both_neighbours() {
    for (freed_before, merged) in [
        (&[][..], (3, 4)),
        (&[2][..], (2, 4)),
        (&[4][..], (3, 5)),
        (&[2, 4][..], (2, 5)),
        (&[1, 2, 4, 5, 6][..], (1, 7)),
        (&[0, 1, 2, 4, 5, 6, 7][..], (0, 8)),
    ] {
        let (mut list, ranges) = full(8);
        freed_before.iter().for_each(|&unit| list.free(ranges[unit]).unwrap());
        list.free(ranges[3]).unwrap();
        list.validate().unwrap();
        assert_eq!(free_spans(&list), [merged]);
        assert_eq!(list.allocate(merged.1 - merged.0, 1).unwrap().offset(), merged.0, "the size index is right");
    }
}

#[test]
fn fault_06_a_stale_range_frees_nothing_that_lives_at_its_offset_now() {
    let mut list = FreeList::new(8);
    let old = list.allocate(4, 1).unwrap();
    list.free(old).unwrap();
    let new = list.allocate(4, 1).unwrap();
    assert_eq!((new.offset(), new.slot()), (old.offset(), old.slot()));
    assert_eq!(list.free(old), Err(FreeError::Stale { offset: 0, size: 4 }));
    assert!(list.is_live(&new) && !list.is_live(&old));
    assert_eq!(list.find(0), Some(new));
    free_all(&mut list, &[new]);
}

#[test]
#[should_panic(expected = "the capacity is 0")]
fn a_capacity_of_0_is_a_mistake() {
    let _ = FreeList::new(0);
}
