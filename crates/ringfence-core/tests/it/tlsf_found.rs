//! Tests of the choice of the span that serves a request in a TLSF heap, and of the reported longest span.

use ringfence_core::range::{Allocate, Peek, Range, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// If a free span has at least `size + alignment - 1` units, a request finds it, even if its class has many shorter
/// free spans.
#[test]
fn a_span_that_holds_a_request_wherever_it_begins_is_found() {
    // Each span of 10 or 11 units begins one unit after a multiple of four: 8 units aligned to four fit in 11 units,
    // but not in 10.
    let mut heap = Tlsf::new(200);
    let sizes = [1, 10, 2, 10, 2, 10, 2, 10, 2, 10, 2, 10, 2, 11, 116];
    let held = sizes.map(|size| heap.allocate(size, 1).expect("there is room"));
    let free = |held: Range| matches!(held.size(), 10 | 11);
    held.into_iter().filter(|held| free(*held)).for_each(|held| heap.free(held).expect("live"));
    assert_eq!(heap.peek(8, 4), Some(76));
}

#[test]
fn deferred_spans_count_as_merged_in_the_largest() {
    let mut heap = Tlsf::new(1 << 17);
    let mut held = |size: u64, count: usize| -> Vec<Range> {
        (0..count).map(|_| heap.allocate(size, 1).expect("there is room")).collect()
    };
    let (_many, row, large) = (held(4, 1100), held(250, 20), held(500, 240));
    // Frees three of four large ranges, so that the free spans have 1,500 units.
    for (at, range) in large.iter().enumerate() {
        assert!(at % 4 == 3 || heap.free(*range).is_ok());
    }
    heap.merge_deferred();
    let end = heap.allocate(1600, 1).expect("the end of the heap").size();
    assert_eq!((heap.deferred_size(), heap.largest_free(), end), (0, 1500, 1600));
    row[5..13].iter().for_each(|range| heap.free(*range).expect("live"));
    assert_eq!((heap.deferred_size(), heap.largest_free()), (2000, 2000));
    assert_eq!(heap.allocate(2000, 1).map(|range| range.offset()), Ok(row[5].offset()));
}

#[test]
fn a_span_of_a_class_above_is_found_when_those_of_the_own_do_not_fit() {
    // Two free spans: 8 units, which begin one unit after a multiple of four, and 10 units, which begin at a multiple
    // of four.
    let with_two = || {
        let mut heap = Tlsf::new(200);
        let held = [1, 8, 3, 10, 178].map(|size| heap.allocate(size, 1).expect("there is room"));
        heap.free(held[1]).expect("live");
        heap.free(held[3]).expect("live");
        heap
    };
    assert_eq!(with_two().peek(8, 4), Some(12));
    assert_eq!(with_two().allocate(8, 4).map(|range| range.offset()), Ok(12));
    assert_eq!(with_two().allocate_below(8, 4, 20).map(|range| range.offset()), Some(12));
    assert_eq!(with_two().allocate_below(8, 4, 19), None);
}

/// At most 64 spans are tried for a range below a limit: the only span below the limit is found behind 63 others, and
/// not behind 64.
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

#[test]
fn an_exact_heap_defers_no_free_and_rounds_nothing() {
    let mut heap = Tlsf::exact(1 << 17);
    let held: Vec<_> = (0..1100).map(|number| heap.allocate(70 + number % 41, 1).expect("there is room")).collect();
    held[..1000].iter().for_each(|range| heap.free(*range).expect("live"));
    assert_eq!((heap.deferred_size(), heap.validate()), (0, Ok(())));
    let used: u64 = held[1000..].iter().map(Range::size).sum();
    assert_eq!(heap.capacity() - heap.free_size(), used);
}
