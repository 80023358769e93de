//! A TLSF heap as growable blocks use it: it parks as it is set, and reports what it has at hand.

use ringfence_core::range::{Allocate, FreeError, Freed, Peek, Range, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// A heap that parks whenever it may, filled by ranges of these sizes; a 64th of it is 100 units.
fn parking(sizes: &[u64]) -> (Tlsf, Vec<Range>) {
    let mut heap = Tlsf::new(6400);
    heap.park_when_told();
    let mut held: Vec<_> = sizes.iter().map(|size| heap.allocate(*size, 1).expect("there is room")).collect();
    if heap.free_size() != 0 {
        held.push(heap.allocate(heap.free_size(), 1).expect("one piece"));
    }
    (heap, held)
}

fn park(heap: &mut Tlsf, range: Range) {
    assert_eq!(heap.free_or_park(range, |_| true), Ok(Freed::Parked));
    assert_eq!(heap.validate(), Ok(()));
}

#[test]
fn what_is_parked_is_told_by_its_units_and_is_welcome_or_not() {
    let (mut heap, held) = parking(&[40, 100, 99]);
    let mut asked = Vec::new();
    let freed = heap.free_or_park(held[0], |units| {
        asked.push(units);
        false
    });
    assert_eq!((freed, asked), (Ok(Freed::Merged { at_most: 40 }), vec![40]));
    assert_eq!(heap.free_or_park(held[0], |_| true), Err(FreeError::Stale { offset: 0, size: 40 }));
    let freed = heap.free_or_park(held[1], |_| panic!("100 are a 64th: it is not asked"));
    assert_eq!(freed, Ok(Freed::Merged { at_most: 140 }));
    park(&mut heap, held[2]);
    assert_eq!((heap.parked_size(), heap.free_size(), heap.live_count()), (99, 239, 1));
    // An allocator that is not made to park parks nothing this way.
    let mut untold = Tlsf::new(6400);
    let range = untold.allocate(40, 1).expect("there is room");
    assert!(matches!(untold.free_or_park(range, |_| true), Ok(Freed::Merged { .. })));
}

#[test]
fn a_parked_span_is_handed_out_whole_if_it_is_parked_aligned_and_near_in_size() {
    let (mut heap, held) = parking(&[5, 70, 75, 70]);
    let gone = held[2];
    assert_eq!((gone.offset(), gone.size()), (75, 75));
    assert_eq!(
        (heap.allocate_parked(gone.slot(), 75, 1), heap.peek_parked(gone.slot(), 1)),
        (None, None),
        "it is in use"
    );
    park(&mut heap, gone);
    for (size, alignment, is_taken) in
        [(76, 1, false), (75, 1, true), (74, 1, true), (60, 1, false), (1, 1, false), (75, 2, false), (75, 64, false)]
    {
        let peeked = heap.peek_parked(gone.slot(), alignment);
        assert_eq!(peeked, (alignment == 1).then_some(75));
        let made = heap.allocate_parked(gone.slot(), size, alignment);
        assert_eq!(made.map(|made| (made.offset(), made.size())), is_taken.then_some((75, 75)), "{size}, {alignment}");
        assert_eq!(heap.parked_size(), if is_taken { 0 } else { 75 });
        if let Some(made) = made {
            assert!(heap.is_live(&made) && !heap.is_live(&gone));
            park(&mut heap, made);
        }
    }
    assert_eq!(heap.allocate_parked(u32::MAX, 75, 1), None, "no such slot");
    // An odd offset and an even one.
    park(&mut heap, held[1]);
    assert_eq!((heap.peek_parked(held[1].slot(), 1), heap.peek_parked(held[1].slot(), 2)), (Some(5), None));
    park(&mut heap, held[3]);
    assert_eq!((heap.peek_parked(held[3].slot(), 2), heap.peek_parked(held[3].slot(), 4)), (Some(150), None));
    assert!(heap.allocate_parked(held[3].slot(), 70, 2).is_some());
    heap.merge_parked();
    assert_eq!(
        (heap.peek_parked(gone.slot(), 1), heap.allocate_parked(gone.slot(), 75, 1)),
        (None, None),
        "it is free"
    );
}

/// Whatever stands where a parked span's units would: numbers, links, what was there before.
#[test]
fn what_is_in_use_or_free_is_no_parked_span_of_any_size() {
    let (mut heap, held) = parking(&[5, 70, 75, 70]);
    park(&mut heap, held[2]);
    heap.merge_parked();
    heap.free(held[0]).expect("live");
    let mut sizes: Vec<_> = (1..7000).collect();
    sizes.extend(held.iter().map(|range| range.serial().get() >> 32));
    for range in &held {
        for alignment in [1, 64] {
            assert!(
                sizes.iter().all(|size| heap.allocate_parked(range.slot(), *size, alignment).is_none()),
                "{range:?}"
            );
        }
    }
    assert_eq!((heap.parked_size(), heap.validate()), (0, Ok(())));
}

/// What has as many units as the size and all that an alignment may skip is found, however many that are shorter stand before it.
#[test]
fn a_span_that_holds_a_request_wherever_it_begins_is_at_hand() {
    // Each begins one after a multiple of four: 10 units do not hold 8 so aligned, 11 do.
    let mut heap = Tlsf::new(200);
    let sizes = [1, 10, 2, 10, 2, 10, 2, 10, 2, 10, 2, 10, 2, 11, 116];
    let held = sizes.map(|size| heap.allocate(size, 1).expect("there is room"));
    let free = |held: Range| matches!(held.size(), 10 | 11);
    held.into_iter().filter(|held| free(*held)).for_each(|held| heap.free(held).expect("live"));
    assert_eq!(heap.peek_at_hand(8, 4), Some(76));
    assert_eq!((heap.peek_at_hand(9, 4), heap.peek_at_hand(8, 8)), (None, None));
}

#[test]
fn parked_spans_count_as_merged_in_the_largest() {
    let (mut heap, held) = parking(&[10; 20]);
    for (number, largest) in [(3, 10), (5, 10), (4, 30), (9, 30), (8, 30), (7, 30), (10, 40), (6, 80)] {
        park(&mut heap, held[number]);
        assert_eq!((heap.largest_free(), heap.largest_at_hand()), (largest, 0), "after {number}");
    }
    // Beside a free one, and between two.
    heap.free(held[11]).expect("live");
    assert_eq!((heap.largest_free(), heap.largest_at_hand()), (90, 10));
    heap.free(held[2]).expect("live");
    assert_eq!((heap.largest_free(), heap.largest_at_hand()), (100, 10));
    assert_eq!(heap.allocate(100, 1).map(|range| range.offset()), Ok(20), "which merges them");
    assert_eq!((heap.largest_free(), heap.validate()), (0, Ok(())));
}

/// The same of one that parks by itself.
#[test]
fn spans_that_a_heap_parked_by_itself_count_as_merged_too() {
    let mut heap = Tlsf::new(1 << 17);
    let mut held = |size: u64, count: usize| -> Vec<Range> {
        (0..count).map(|_| heap.allocate(size, 1).expect("there is room")).collect()
    };
    let (_many, row, large) = (held(4, 1100), held(250, 20), held(500, 240));
    // What is free lies in pieces of 1,500.
    for (at, range) in large.iter().enumerate() {
        assert!(at % 4 == 3 || heap.free(*range).is_ok());
    }
    heap.merge_parked();
    let end = heap.allocate(1600, 1).expect("the end of the heap").size();
    assert_eq!((heap.parked_size(), heap.largest_free(), end), (0, 1500, 1600));
    row[5..13].iter().for_each(|range| heap.free(*range).expect("live"));
    assert_eq!((heap.parked_size(), heap.largest_free(), heap.largest_at_hand()), (2000, 2000, 1500));
    assert_eq!(heap.allocate(2000, 1).map(|range| range.offset()), Ok(row[5].offset()));
}

#[test]
fn a_refusal_at_hand_says_what_would_not_be_refused() {
    let mut heap = Tlsf::new(100);
    assert_eq!((heap.allocate_at_hand(101, 1), heap.allocate_at_hand(u64::MAX, 1)), (Err(100), Err(100)));
    let whole = heap.allocate_at_hand(100, 1).expect("all of it");
    assert_eq!((heap.allocate_at_hand(1, 1), heap.allocate_at_hand(1, 2)), (Err(0), Err(0)));
    assert_eq!((heap.largest_at_hand(), heap.peek_at_hand(1, 1)), (0, None));
    heap.free(whole).expect("live");
    let held: Vec<_> = (0..10).map(|_| heap.allocate(10, 1).expect("there is room")).collect();
    [1, 3].iter().for_each(|at: &usize| heap.free(held[*at]).expect("live"));
    assert_eq!((heap.allocate_at_hand(30, 1), heap.allocate_at_hand(11, 1)), (Err(29), Err(10)));
    assert_eq!(heap.allocate_at_hand(10, 64), Err(10), "there are 10, and not so aligned");
    assert_eq!((heap.largest_at_hand(), heap.peek_at_hand(10, 2), heap.peek_at_hand(10, 4)), (10, Some(30), None));
    // A class of this length holds 16 sizes.
    let mut heap = Tlsf::new(3000);
    let first = [1000, 1, 1000, 999].map(|size| heap.allocate(size, 1).expect("there is room"));
    heap.free(first[2]).expect("live");
    assert_eq!(heap.allocate_at_hand(999, 512), Err(1007), "whatever is in the class may be as long");
}

/// Only a few spans are looked at, and a peek looks at the same.
#[test]
fn a_peek_at_hand_is_what_is_granted_at_hand() {
    let (mut random, mut refused, mut padded) = (1_u64, 0, 0);
    let mut heap = Tlsf::new(5000);
    let mut held: Vec<Range> = Vec::new();
    for step in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (size, alignment) = ((random >> 33) % 200 + 1, 1 << ((random >> 50) % 7));
        if step % 2 == 0 {
            let peeked = heap.peek_at_hand(size, alignment);
            let before = held.iter().any(|range| peeked == Some(range.end()));
            let made = heap.allocate_at_hand(size, alignment);
            assert_eq!(made.ok().map(|made| made.offset()), peeked, "{size} aligned to {alignment}");
            refused += u32::from(peeked.is_none());
            padded += u32::from(peeked.is_some() && !before);
            held.extend(made);
        } else if !held.is_empty() && (random >> 58) < 30 {
            heap.free(held.swap_remove(size as usize % held.len())).expect("live");
        }
    }
    assert!(refused > 500 && padded > 500, "{refused} refused, {padded} behind what alignment skips");
}

#[test]
fn what_is_asked_for_below_a_limit_may_lie_in_what_is_parked() {
    let (mut heap, held) = parking(&[10; 20]);
    park(&mut heap, held[3]);
    park(&mut heap, held[4]);
    assert_eq!(heap.allocate_below(20, 1, 49), None);
    park(&mut heap, held[8]);
    park(&mut heap, held[9]);
    assert_eq!(
        heap.allocate_below(20, 1, 100).map(|range| range.offset()),
        Some(30),
        "both rows are joined: the lower"
    );
    assert_eq!((heap.parked_size(), heap.validate()), (0, Ok(())));
}

#[test]
fn a_span_of_a_class_above_is_found_when_those_of_the_own_do_not_fit() {
    // 8 units one after a multiple of four, and 10 at one.
    let with_two = || {
        let mut heap = Tlsf::new(200);
        let held = [1, 8, 3, 10, 178].map(|size| heap.allocate(size, 1).expect("there is room"));
        heap.free(held[1]).expect("live");
        heap.free(held[3]).expect("live");
        heap
    };
    assert_eq!(with_two().peek_at_hand(8, 4), Some(12));
    assert_eq!(with_two().allocate(8, 4).map(|range| range.offset()), Ok(12));
    assert_eq!(with_two().allocate_below(8, 4, 20).map(|range| range.offset()), Some(12));
    assert_eq!(with_two().allocate_below(8, 4, 19), None);
}

/// The one span below the limit stands behind others that lie above it: behind 63 it is found, behind 64 it is not.
#[test]
fn no_more_than_64_spans_are_looked_at_for_one_below_a_limit() {
    for (above, is_found) in [(63, true), (64, false)] {
        let mut heap = Tlsf::new(2000);
        let mut held = Vec::new();
        for _ in 0..=above {
            held.push(heap.allocate(10, 1).expect("there is room"));
            heap.allocate(1, 1).expect("there is room");
        }
        heap.allocate(heap.free_size(), 1).expect("one piece");
        held.iter().for_each(|range| heap.free(*range).expect("live"));
        assert_eq!(heap.allocate_below(10, 1, 15).map(|range| range.offset()), is_found.then_some(0));
        assert_eq!(heap.validate(), Ok(()));
    }
}
