//! Tests of the rules of `tlsf/deferred.rs`, one test for each.

use ringfence_core::range::{Allocate, Range, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

/// Creates a heap with 1,500 ranges. The first ones have the sizes of `sizes`, the others 20 units each.
fn heap_with(capacity: u64, sizes: &[u64]) -> (Tlsf, Vec<Range>) {
    let mut heap = Tlsf::new(capacity);
    let sizes = sizes.iter().copied().chain(std::iter::repeat(20)).take(1500);
    let held = sizes.map(|size| heap.allocate(size, 1).expect("there is room")).collect();
    (heap, held)
}

/// Returns the number of free units from which a heap with 1,025 to 2,048 spans defers merges.
fn free_min_to_defer(capacity: u64) -> u64 {
    capacity / 16 + capacity / 2 + 1
}

#[test]
fn a_heap_defers_from_so_much_room_on_to_the_unit() {
    // Frees units one by one until the first one is deferred.
    for capacity in [10_000, 12_345, 16_383] {
        let large = free_min_to_defer(capacity) - 400;
        let sizes = [&[1; 1400][..], &[large, capacity - 1498 - large], &[1; 98]].concat();
        let (mut heap, held) = heap_with(capacity, &sizes);
        heap.free(held[1400]).expect("live");
        for range in held[..1400].iter().step_by(2) {
            heap.free(*range).expect("live");
            assert_eq!(
                heap.deferred_size() != 0,
                heap.free_size() >= free_min_to_defer(capacity),
                "{} free",
                heap.free_size()
            );
        }
        assert_ne!(heap.deferred_size(), 0, "a span was deferred");
        assert_eq!(heap.validate(), Ok(()));
    }
}

#[test]
fn half_of_that_room_is_deferred_at_most() {
    let capacity = 1 << 21;
    // Eight ranges of each class from 256 to 4,095 units.
    let sizes: Vec<u64> = (0..128).flat_map(|class| [(32 + class % 32) << (3 + class / 32); 8]).collect();
    let (mut heap, held) = heap_with(capacity, &sizes);
    for range in held[..1024].iter().rev() {
        heap.free(*range).expect("live");
        assert!(heap.deferred_size() <= free_min_to_defer(capacity) / 2 && heap.validate() == Ok(()));
    }
    assert!(heap.deferred_size() > free_min_to_defer(capacity) / 2 - 4096, "{}", heap.deferred_size());
}

/// While spans are deferred, a request below a 64th of the heap is rounded up to its class, and a larger request is
/// not.
#[test]
fn a_64th_of_the_heap_is_neither_deferred_nor_rounded() {
    let capacity = 64 * 2050 + 5;
    let (mut heap, mut held) = heap_with(capacity, &[2050, 20, 2049, 20]);
    let taken = |heap: &mut Tlsf, size| {
        let before = heap.free_size();
        let range = heap.allocate(size, 1).expect("there is room");
        (range, before - heap.free_size())
    };
    assert_eq!(taken(&mut heap, 2001).1, 2001, "no span is deferred yet");
    heap.free(held[0]).expect("live");
    assert_eq!(heap.deferred_size(), 0);
    heap.free(held[2]).expect("live");
    assert_eq!(heap.deferred_size(), 2049);
    assert_eq!(taken(&mut heap, 2050).1, 2050);
    let (range, units) = taken(&mut heap, 1900);
    assert_eq!((range.size(), units), (1900, 1920), "rounded up");
    assert_eq!(taken(&mut heap, 1000).1, 1008);
    held.push(range);
    assert_eq!(heap.validate(), Ok(()));
}

#[test]
fn with_less_room_nothing_is_taken_from_what_is_deferred_or_rounded() {
    let capacity = 1 << 17;
    let (mut heap, held) = heap_with(capacity, &[]);
    let gone = held[700];
    heap.free(gone).expect("live");
    assert_eq!(heap.deferred_size(), 20);
    // The request is larger than a 64th of the heap, so it is not rounded up.
    let filler = heap.free_size() - free_min_to_defer(capacity) + 1;
    heap.allocate(filler, 1).expect("there is room");
    assert_eq!((heap.free_size(), heap.deferred_size()), (free_min_to_defer(capacity) - 1, 20));
    let other = heap.allocate(20, 1).expect("there is room");
    assert_eq!((heap.deferred_size(), other.offset() == gone.offset()), (20, false));
    let before = heap.free_size();
    heap.allocate(1001, 1).expect("there is room");
    assert_eq!(before - heap.free_size(), 1001);
    heap.allocate(heap.free_size(), 1).unwrap_err();
    assert_eq!((heap.deferred_size(), heap.validate()), (0, Ok(())), "the span is merged before a request fails");
}

#[test]
fn after_merging_all_nothing_is_deferred_for_4096_allocations() {
    let (mut heap, mut held) = heap_with(1 << 17, &[]);
    let mut give_back = |heap: &mut Tlsf| {
        heap.free(held.swap_remove(7)).expect("live");
        heap.deferred_size()
    };
    assert_eq!(give_back(&mut heap), 20);
    let free = heap.free_size();
    heap.allocate(free, 1).unwrap_err();
    assert_eq!(give_back(&mut heap), 0);
    for _ in 1..4096 {
        let range = heap.allocate(20, 1).expect("there is room");
        heap.free(range).expect("live");
        assert_eq!(heap.deferred_size(), 0);
    }
    let range = heap.allocate(20, 1).expect("there is room");
    heap.free(range).expect("live");
    assert_eq!((heap.deferred_size(), heap.validate()), (20, Ok(())));
}

#[test]
fn at_most_eight_of_a_class_and_1024_are_deferred() {
    // Nine ranges of each of 166 classes.
    let sizes: Vec<u64> = (0..166).flat_map(|class| [(32 + class % 32) << (1 + class / 32); 9]).collect();
    let (mut heap, held) = heap_with(1 << 23, &sizes);
    for class in 0..128 {
        held[9 * class..9 * class + 8].iter().for_each(|range| heap.free(*range).expect("live"));
    }
    let all = 8 * sizes[..9 * 128].iter().step_by(9).sum::<u64>();
    assert_eq!(heap.deferred_size(), all);
    for full in [held[9 * 128], held[9 * 3 + 8]] {
        heap.free(full).expect("live");
        assert_eq!((heap.deferred_size(), heap.validate()), (all, Ok(())));
    }
    // One deferred span is reused. Then only one more span of its class is deferred.
    let taken = heap.allocate(sizes[9 * 5], 1).expect("there is room");
    assert_eq!(heap.deferred_size(), all - taken.size());
    heap.free(held[9 * 5 + 8]).expect("live");
    assert_eq!(heap.deferred_size(), all);
    heap.free(taken).expect("live");
    assert_eq!((heap.deferred_size(), heap.validate()), (all, Ok(())));
}

#[test]
fn a_heap_says_what_it_may_hold() {
    let mut heap = Tlsf::new(100);
    assert!(heap.may_hold(100) && !heap.may_hold(101));
    let held: Vec<_> = (0..10).map(|_| heap.allocate(10, 1).expect("there is room")).collect();
    assert!(!heap.may_hold(1));
    held.iter().step_by(2).for_each(|range| heap.free(*range).expect("live"));
    assert!(heap.may_hold(10) && !heap.may_hold(20) && !heap.may_hold(51), "50 are free, in tens");
    let (mut heap, held) = heap_with(1 << 17, &[]);
    heap.free(held[3]).expect("live");
    let free = heap.free_size();
    assert!(heap.may_hold(free) && !heap.may_hold(free + 1), "deferred spans count as mergeable");
    let listed = free - 20;
    heap.allocate(listed, 1).expect("it is contiguous");
    assert!(heap.may_hold(20) && !heap.may_hold(21));
}

#[test]
fn the_last_unit_and_the_last_span_are_deferred_and_no_more() {
    // Eight ranges of each class from 1 to 256 units, and one of 264 units.
    let least = |class: u64| if class < 32 { class } else { (32 + class % 32) << (class / 32 - 1) };
    let sizes: Vec<u64> = (1..=128).flat_map(|class| [least(class); 8]).chain([264]).collect();
    let all: u64 = sizes[..1024].iter().sum();
    let capacity = (1..).find(|capacity| free_min_to_defer(*capacity) / 2 == all + 100).expect("some");
    let (mut heap, held) = heap_with(capacity, &sizes);
    let kept = sizes.iter().position(|size| *size == 164).expect("the least of a class");
    for (at, range) in held[..1025].iter().enumerate() {
        assert!(at == kept || heap.free(*range).is_ok());
    }
    assert_eq!(heap.deferred_size(), all + 100, "1,024 spans with the largest number of units");
    heap.free(held[kept]).expect("live");
    assert_eq!((heap.deferred_size(), heap.validate()), (all + 100, Ok(())));
}
