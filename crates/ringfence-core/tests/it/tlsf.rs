//! Tests of two-level segregated fit: comparisons with the naive twin, sizes near 64 bits, and the guarantees of
//! [`Tlsf`].

use crate::common;

use proptest::prelude::*;
use ringfence_core::range::{AllocError, Allocate, FreeError, Peek, Range, RangeAllocator, Serial};
use ringfence_core::testing::{Op, Twin, run, step};
use ringfence_core::tlsf::{NEAR_MISSES, Tlsf};

/// Generates sizes of every magnitude up to `2^bits`, and occasionally 0.
fn sizes(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits, any::<u64>()).prop_map(|(bits, random)| random.checked_shr(64 - bits).unwrap_or(0))
}

fn ops(bits: u32, alignment_bits: u8, count: usize) -> impl Strategy<Value = Vec<Op>> {
    let alignments = prop_oneof![3 => Just(0), 2 => 0..=alignment_bits];
    let op = prop_oneof![
        6 => (sizes(bits), alignments).prop_map(|(size, alignment_log2)| Op::Allocate { size, alignment_log2 }),
        5 => any::<u32>().prop_map(Op::Free),
        1 => any::<u32>().prop_map(Op::FreeAgain),
        1 => any::<u32>().prop_map(Op::FreeForged),
    ];
    prop::collection::vec(op, 1..count)
}

/// Rounds `size` up to its class by the definition: 32 steps in each power of two.
fn rounded(size: u64) -> Option<u64> {
    let step = if size < 32 { 1 } else { 1 << (size.ilog2() - 5) };
    size.checked_next_multiple_of(step)
}

fn longest_hole(tlsf: &Tlsf) -> u64 {
    let mut longest = 0;
    tlsf.for_each_span(&mut |span| {
        if span.slot.is_none() {
            longest = longest.max(span.size);
        }
    });
    longest
}

/// Returns `true` if a request may fail: no hole is as large as the padded size, rounded up to its class.
fn refusal_is_due(tlsf: &Tlsf, size: u64, alignment: u64) -> bool {
    let enough = size.checked_add(alignment - 1).and_then(rounded);
    enough.is_none_or(|enough| longest_hole(tlsf) < enough)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(512)))]

    #[test]
    fn agrees_with_the_twin(capacity in 1_u64..5000, ops in ops(10, 9, 160)) {
        let twin = run(&mut Tlsf::new(capacity), &ops, false);
        prop_assert!(twin.is_ok(), "{}", twin.unwrap_err());
    }

    #[test]
    fn agrees_with_the_twin_when_it_is_tiny(capacity in 1_u64..40, ops in ops(5, 5, 120)) {
        let twin = run(&mut Tlsf::new(capacity), &ops, false);
        prop_assert!(twin.is_ok(), "{}", twin.unwrap_err());
    }

    #[test]
    fn agrees_with_the_twin_near_the_end_of_64_bits(
        capacity in prop_oneof![Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 1), (1_u64 << 62)..],
        ops in ops(64, 62, 120),
    ) {
        let twin = run(&mut Tlsf::new(capacity), &ops, false);
        prop_assert!(twin.is_ok(), "{}", twin.unwrap_err());
    }

    #[test]
    fn refuses_only_when_no_hole_of_the_rounded_size_is_there(capacity in 1_u64..20_000, ops in ops(12, 10, 250)) {
        let mut tlsf = Tlsf::new(capacity);
        let mut live: Vec<Range> = Vec::new();
        for op in ops {
            match op {
                Op::Allocate { size, alignment_log2 } => match tlsf.allocate(size, 1 << alignment_log2) {
                    Ok(range) => live.push(range),
                    Err(AllocError::OutOfSpace { .. }) => {
                        prop_assert!(refusal_is_due(&tlsf, size, 1 << alignment_log2));
                    }
                    Err(_) => prop_assert!(size == 0 || size > capacity),
                },
                Op::Free(number) if !live.is_empty() => {
                    let range = live.swap_remove(number as usize % live.len());
                    prop_assert_eq!(tlsf.free(range), Ok(()));
                }
                _ => {}
            }
        }
        for range in live {
            prop_assert_eq!(tlsf.free(range), Ok(()));
        }
        prop_assert_eq!((tlsf.largest_free(), tlsf.free_size(), tlsf.live_count()), (capacity, capacity, 0));
    }

    #[test]
    fn what_is_asked_for_below_a_limit_lies_below_it_and_in_a_hole(
        capacity in 1_u64..20_000,
        ops in ops(11, 6, 200),
        size in 1_u64..2000,
        alignment_log2 in 0_u32..7,
        limit in 0_u64..22_000,
    ) {
        let mut tlsf = Tlsf::new(capacity);
        run(&mut tlsf, &ops, false).map_err(TestCaseError::fail)?;
        let alignment = 1 << alignment_log2;
        let mut holes = Vec::new();
        tlsf.for_each_span(&mut |span| {
            holes.extend(span.slot.is_none().then_some((span.offset, span.offset + span.size)));
        });
        let (free, live) = (tlsf.free_size(), tlsf.live_count());
        let fits = |hole: &&(u64, u64)| {
            let start = hole.0.next_multiple_of(alignment);
            start + size <= hole.1.min(limit)
        };
        match tlsf.allocate_below(size, alignment, limit) {
            Some(range) => {
                prop_assert!(range.end() <= limit && range.offset() % alignment == 0 && range.size() == size);
                prop_assert!(holes.iter().any(|hole| hole.0 <= range.offset() && range.end() <= hole.1));
                prop_assert_eq!((tlsf.free_size(), tlsf.live_count()), (free - size, live + 1));
                prop_assert_eq!(tlsf.validate(), Ok(()));
                prop_assert_eq!(tlsf.free(range), Ok(()));
            }
            // With at most 64 holes, each one is tried.
            None => prop_assert!(holes.len() > 64 || holes.iter().find(fits).is_none()),
        }
        prop_assert_eq!(tlsf.validate(), Ok(()));
        prop_assert_eq!((tlsf.free_size(), tlsf.live_count()), (free, live));
    }

    #[test]
    fn grants_the_largest_free_size_and_no_more(capacity in 1_u64..20_000, ops in ops(11, 6, 120)) {
        let mut tlsf = Tlsf::new(capacity);
        run(&mut tlsf, &ops, false).map_err(TestCaseError::fail)?;
        let largest = tlsf.largest_free();
        prop_assert!(largest <= longest_hole(&tlsf));
        prop_assert_eq!(largest == 0, longest_hole(&tlsf) == 0);
        prop_assert!(tlsf.allocate(largest + 1, 1).is_err());
        if largest > 0 {
            prop_assert!(tlsf.allocate(largest, 1).is_ok());
        }
        prop_assert_eq!(tlsf.validate(), Ok(()));
    }
}

#[test]
fn seed_000_04_size_zero_and_above_the_capacity_are_refused_as_values() {
    for capacity in [0, 1, 7, 1 << 20, u64::MAX] {
        let mut tlsf = Tlsf::new(capacity);
        assert_eq!(tlsf.allocate(0, 1), Err(AllocError::ZeroSize));
        assert_eq!(tlsf.allocate(1, 0), Err(AllocError::BadAlignment { alignment: 0 }));
        assert_eq!(tlsf.allocate(1, 3), Err(AllocError::BadAlignment { alignment: 3 }));
        if let Some(size) = capacity.checked_add(1) {
            assert_eq!(tlsf.allocate(size, 1), Err(AllocError::TooLarge { size, capacity }));
        }
        assert_eq!(tlsf.validate(), Ok(()));
        assert_eq!(tlsf.largest_free(), capacity);
        if capacity > 0 {
            let whole = tlsf.allocate(capacity, 1 << 63).expect("offset 0 is aligned to everything");
            assert_eq!((whole.offset(), whole.size(), tlsf.largest_free()), (0, capacity, 0));
            assert_eq!(tlsf.allocate(1, 1).map(|range| range.size()), Err(full(1)));
            assert_eq!(tlsf.free(whole), Ok(()));
        }
        assert!(tlsf.is_empty());
    }
}

fn full(size: u64) -> AllocError {
    AllocError::OutOfSpace { size, alignment: 1, free: 0, largest_free: 0 }
}

#[test]
fn seed_000_03_a_foreign_forged_or_stale_range_is_refused() {
    let (mut ours, mut theirs) = (Tlsf::new(100), Tlsf::new(100));
    let (mine, other) = (ours.allocate(10, 1).unwrap(), theirs.allocate(10, 1).unwrap());
    let next = ours.allocate(10, 1).unwrap();
    assert_eq!(ours.free(other), Err(FreeError::Foreign { offset: 0, size: 10 }));
    for forged in [
        Range::new(mine.offset(), mine.size() - 1, mine.slot(), mine.serial()),
        Range::new(mine.offset() + 1, mine.size(), mine.slot(), mine.serial()),
        Range::new(mine.offset(), mine.size(), mine.slot() + 1, mine.serial()),
        Range::new(mine.offset(), mine.size(), u32::MAX, mine.serial()),
        Range::new(mine.offset(), mine.size(), mine.slot(), other.serial()),
        Range::new(next.offset(), next.size(), next.slot(), mine.serial()),
        Range::new(mine.offset(), mine.size(), next.slot(), mine.serial()),
        Range::new(mine.offset(), mine.size(), next.slot(), next.serial()),
    ] {
        assert!(!ours.is_live(&forged), "{forged:?}");
        assert!(ours.free(forged).is_err(), "{forged:?}");
        assert_eq!(ours.validate(), Ok(()));
    }
    assert_eq!(ours.free(mine), Ok(()));
    assert_eq!(ours.free(mine), Err(FreeError::Stale { offset: 0, size: 10 }));
}

/// A range with the slot of the sentinel is refused, for every serial that the links of the sentinel could be read as.
#[test]
fn the_sentinel_cannot_be_freed() {
    let mut tlsf = Tlsf::new(10);
    for number in 1..200_u64 {
        let number = if number < 100 { number } else { (number - 100).max(1) << 32 };
        let serial = Serial::from_u64(number).unwrap();
        for size in [0, 10_u64.wrapping_neg()] {
            assert!(tlsf.free(Range::new(10, size, 0, serial)).is_err());
        }
    }
    assert_eq!(tlsf.validate(), Ok(()));
}

#[test]
fn fault_06_a_stale_range_does_not_free_what_lives_there_now() {
    let mut tlsf = Tlsf::new(64);
    let old = tlsf.allocate(64, 1).unwrap();
    tlsf.free(old).unwrap();
    let new = tlsf.allocate(64, 1).unwrap();
    assert_eq!((old.offset(), old.slot()), (new.offset(), new.slot()), "the same offset and slot");
    assert_eq!(tlsf.free(old), Err(FreeError::Stale { offset: 0, size: 64 }));
    assert!(tlsf.is_live(&new));
}

/// A request can be served from a hole of its own size class. If it were only rounded up, a request of 1000 would skip
/// every hole of 1001.
#[test]
fn near_misses_are_found_within_their_bound() {
    let mut tlsf = Tlsf::new(100 * 1001 + 50 * 990);
    let spans: Vec<_> = (0..100).map(|number| tlsf.allocate(if number % 2 == 0 { 1001 } else { 990 }, 1)).collect();
    let rest = tlsf.allocate(tlsf.largest_free(), 1).unwrap();
    assert_eq!((tlsf.free_size(), rest.size()), (0, 50 * 1001));
    for span in spans.iter().step_by(2) {
        tlsf.free(span.unwrap()).unwrap();
    }
    for _ in 0..50 {
        assert!(tlsf.allocate(1000, 1).is_ok(), "it fits in a hole of 1001");
    }
    assert_eq!(tlsf.allocate(1000, 1).unwrap_err(), tlsf.allocate(1000, 1).unwrap_err(), "a refusal changes nothing");
}

/// At most 32 holes are tried: the only fitting hole is found behind 31 others, and not behind 32.
#[test]
fn no_more_than_the_bound_is_looked_at() {
    for (before, found) in [(NEAR_MISSES - 1, true), (NEAR_MISSES, false)] {
        let mut tlsf = Tlsf::new(4096 * 4);
        let good = tlsf.allocate(203, 1).unwrap();
        let mut bad = Vec::new();
        for _ in 0..before {
            tlsf.allocate(1, 1).unwrap();
            bad.push(tlsf.allocate(200, 1).unwrap());
        }
        tlsf.allocate(tlsf.largest_free(), 1).unwrap();
        tlsf.free(good).unwrap();
        for range in bad {
            tlsf.free(range).unwrap();
        }
        assert_eq!(tlsf.largest_free(), if found { 203 } else { 200 });
        assert_eq!(tlsf.allocate(203, 1).is_ok(), found);
        assert_eq!(tlsf.validate(), Ok(()));
    }
}

#[test]
fn padding_stays_free_and_is_merged_back() {
    let mut tlsf = Tlsf::new(1024);
    let first = tlsf.allocate(1, 1).unwrap();
    let second = tlsf.allocate(100, 256).unwrap();
    assert_eq!((first.offset(), second.offset()), (0, 256));
    assert_eq!(tlsf.free_size(), 1024 - 101, "only the requested units are reserved");
    assert_eq!(tlsf.allocate(255, 1).map(|range| range.offset()), Ok(1), "the padding serves others");
    tlsf.free(second).unwrap();
    tlsf.free(first).unwrap();
    assert_eq!(tlsf.validate(), Ok(()));
}

/// A hole that is smaller than the padded size is found if the request fits at the hole's offset.
#[test]
fn an_aligned_block_below_the_padded_size_is_found() {
    let mut tlsf = Tlsf::new(4096 + 300);
    let head = tlsf.allocate(4096, 1).unwrap();
    assert_eq!(tlsf.allocate(256, 4096).map(|range| range.offset()), Ok(4096), "the last 300 begin at 4096");
    tlsf.free(head).unwrap();
    assert_eq!(tlsf.allocate(4096, 4096).map(|range| range.offset()), Ok(0));
}

/// After a million pairs of frees and allocations on a few thousand spans, the structure is valid, and all spans merge
/// into one.
#[test]
fn a_long_churn_leaves_one_span() {
    let capacity = 40 << 20;
    let mut tlsf = Tlsf::new(capacity);
    let mut live = Vec::new();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for step in 0..400_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if live.len() < 2000 || random & 1 == 0 {
            let size = 1 + (random >> 8) % (1 << (4 + (random >> 32) % 12));
            live.extend(tlsf.allocate(size, 1 << ((random >> 40) % 9)));
        }
        if live.len() > 1000 {
            let range = live.swap_remove((random >> 16) as usize % live.len());
            tlsf.free(range).unwrap();
        }
        if step % 50_000 == 0 {
            assert_eq!(tlsf.validate(), Ok(()));
        }
    }
    for range in live {
        tlsf.free(range).unwrap();
    }
    assert_eq!((tlsf.validate(), tlsf.largest_free()), (Ok(()), capacity));
}

/// Creates a heap that defers merges: 1,500 small ranges are live, 1,500 were freed, and most of the space is free.
fn with_deferring(capacity: u64) -> (Tlsf, Twin) {
    let (mut tlsf, mut twin) = (Tlsf::new(capacity), Twin::default());
    for number in 0..3000 {
        twin.live.push(tlsf.allocate(20 + number % 41, 1).unwrap());
    }
    let mut keep = false;
    twin.live.retain(|&range| {
        keep = !keep;
        keep || tlsf.free(range).is_err()
    });
    (tlsf, twin)
}

/// Returns the number of deferred spans, as `Debug` shows it.
fn deferred_count(tlsf: &Tlsf) -> usize {
    let text = format!("{tlsf:?}");
    let (_, count) = text.split_once("deferred: ").unwrap();
    count.split(|digit: char| !digit.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The limit of deferred spans per class grows with the number of ranges. With many ranges of few sizes, a limit of
/// eight spans would often be reached. With few ranges, a higher limit would leave too little merged space.
#[test]
fn the_more_ranges_the_more_of_a_class_are_deferred() {
    for (ranges, deferred) in [(3_000, 8), (30_000, 14), (100_000, 32)] {
        let mut tlsf = Tlsf::new(ranges * 64 * 4);
        let live: Vec<_> = (0..ranges).map(|_| tlsf.allocate(64, 1).unwrap()).collect();
        for &range in live.iter().step_by(2).take(100) {
            tlsf.free(range).unwrap();
        }
        assert_eq!(deferred_count(&tlsf), deferred, "of {ranges} ranges");
        assert_eq!(tlsf.validate(), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(24)))]

    #[test]
    fn agrees_with_the_twin_while_it_defers(ops in ops(13, 9, 120), large in ops(19, 6, 12)) {
        let (mut tlsf, mut twin) = with_deferring(1 << 19);
        prop_assert!(deferred_count(&tlsf) > 100);
        // The large requests fail, or succeed after the deferred spans were merged.
        for &op in ops.iter().chain(&large).chain(&ops) {
            let stepped = step(&mut tlsf, &mut twin, op, false);
            prop_assert!(stepped.is_ok(), "{op:?}: {}", stepped.unwrap_err());
        }
        for range in twin.live {
            prop_assert_eq!(tlsf.free(range), Ok(()));
        }
        prop_assert_eq!((tlsf.largest_free(), tlsf.free_size(), tlsf.validate()), (1 << 19, 1 << 19, Ok(())));
        prop_assert_eq!(tlsf.allocate(1 << 19, 1).map(|range| range.offset()), Ok(0), "all spans merge again");
    }

    #[test]
    fn what_is_deferred_is_refused_to_no_request(ops in ops(12, 6, 200), size in 1_u64..1 << 19) {
        let (mut tlsf, mut twin) = with_deferring(1 << 19);
        for op in ops {
            // Applies the operation without the checks of `step`.
            match op {
                Op::Allocate { size, alignment_log2 } => twin.live.extend(tlsf.allocate(size, 1 << alignment_log2)),
                Op::Free(number) if !twin.live.is_empty() => {
                    let at = number as usize % twin.live.len();
                    prop_assert_eq!(tlsf.free(twin.live.swap_remove(at)), Ok(()));
                }
                _ => {}
            }
        }
        let (largest, longest) = (tlsf.largest_free(), longest_hole(&tlsf));
        prop_assert_eq!(largest, longest, "deferred spans count as merged");
        prop_assert_eq!(tlsf.allocate(size, 1).is_ok(), size <= largest || !refusal_is_due(&tlsf, size, 1));
        prop_assert_eq!(tlsf.validate(), Ok(()));
    }
}

/// `peek` predicts an allocation from a deferred span, from the free lists, and after the deferred spans were merged.
#[test]
fn peek_tells_the_truth_while_spans_are_deferred() {
    for alignment_log2 in [0, 4, 8] {
        for size in (1..200).chain((200..1 << 19).step_by(4001)) {
            let (mut tlsf, _twin) = with_deferring(1 << 19);
            let peeked = tlsf.peek(size, 1 << alignment_log2);
            assert_eq!(tlsf.allocate(size, 1 << alignment_log2).ok().map(|range| range.offset()), peeked, "{size}");
        }
    }
}

#[test]
fn fault_06_a_deferred_range_is_stale() {
    let (mut tlsf, _twin) = with_deferring(1 << 19);
    let range = tlsf.allocate(777, 1).unwrap();
    tlsf.free(range).unwrap();
    assert!(deferred_count(&tlsf) > 0 && !tlsf.is_live(&range));
    let stale = FreeError::Stale { offset: range.offset(), size: range.size() };
    assert_eq!(tlsf.free(range), Err(stale));
    let again = tlsf.allocate(range.size(), 1).unwrap();
    assert_eq!((again.offset(), again.slot()), (range.offset(), range.slot()), "the latest of its class comes first");
    assert_eq!(tlsf.free(range), Err(stale), "another range has it now");
    // No serial makes a deferred span live, not even one that is equal to the flag and links of the span.
    tlsf.free(again).unwrap();
    for (high, low) in [(1 << 31 | range.size(), 0), (0, u64::from(range.slot())), (1 << 31, 0), (1 << 30, 0)] {
        for low in [low, 0, 1, u64::from(range.slot())] {
            let serial = Serial::from_u64(high << 32 | low | 1 << 62).unwrap();
            let forged = Range::new(range.offset(), range.size(), range.slot(), serial);
            assert!(tlsf.free(forged).is_err(), "{forged:?}");
        }
    }
    assert_eq!(tlsf.validate(), Ok(()));
}

#[test]
fn a_size_beyond_what_rounding_allows_is_forged() {
    let (mut tlsf, _twin) = with_deferring(1 << 19);
    let range = tlsf.allocate(1001, 1).unwrap();
    for size in [1, 500, 870, 1025, 2000, u64::MAX] {
        let forged = Range::new(range.offset(), size, range.slot(), range.serial());
        assert!(tlsf.free(forged).is_err(), "{forged:?}");
    }
    assert_eq!(tlsf.free(range), Ok(()));
}

#[test]
fn a_heap_that_is_nearly_full_defers_nothing_and_rounds_nothing() {
    let mut tlsf = Tlsf::new(3000 * 40);
    let mut live: Vec<_> = (0..2900).map(|number| tlsf.allocate(20 + number % 41, 1).unwrap()).collect();
    for number in 0..1000 {
        tlsf.free(live.swap_remove(number * 7 % 2900)).unwrap();
        live.push(tlsf.allocate(20 + number as u64 % 37, 1).unwrap());
        assert_eq!(deferred_count(&tlsf), 0);
    }
    assert_eq!(tlsf.free_size() + live.iter().map(Range::size).sum::<u64>(), 3000 * 40);
}
