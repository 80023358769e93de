//! Tests of every [`Algorithm`] with generated operations: ranges never overlap, `peek` predicts `allocate`, and stale
//! and foreign ranges are refused.

use proptest::prelude::*;
use ringfence_core::algorithm::{Algorithm, AnyAllocator, Cutter, EqualBlocks, virtual_allocator};
use ringfence_core::blocks::{Blocks, BlocksDesc};
use ringfence_core::buddy::Buddy;
use ringfence_core::free_list::FreeList;
use ringfence_core::linear_ranges::LinearRanges;
use ringfence_core::range::{AllocError, Allocate, Peek, Range, RangeAllocator};
use ringfence_core::testing::{self, Op as TwinOp, Twin};
use ringfence_core::tlsf::Tlsf;

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Tlsf,
    Algorithm::Buddy { granule: 16 },
    Algorithm::FreeList,
    Algorithm::Linear,
    Algorithm::Equal { block_size: 256 },
];

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate { size: u64, alignment_log2: u32, high: bool },
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1_u64..300, 0_u32..8, any::<bool>()).prop_map(|(size, alignment_log2, high)| Op::Allocate {
            size,
            alignment_log2,
            high
        }),
        any::<usize>().prop_map(Op::Free),
    ]
}

fn overlaps(one: &Range, two: &Range) -> bool {
    one.offset() < two.end() && two.offset() < one.end()
}

proptest! {
    #[test]
    fn ranges_never_overlap_and_peek_tells_the_truth(
        which in 0..ALGORITHMS.len(),
        may_be_high in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let mut allocator = AnyAllocator::new(ALGORITHMS[which], 4000);
        let mut live: Vec<Range> = Vec::new();
        for op in ops {
            match op {
                Op::Allocate { size, alignment_log2, high } if high && may_be_high => {
                    if let Ok(range) = allocator.allocate_high(size, 1 << alignment_log2) {
                        prop_assert!(live.iter().all(|other| !overlaps(other, &range)));
                        live.push(range);
                    }
                }
                Op::Allocate { size, alignment_log2, .. } => {
                    let peeked = allocator.peek(size, 1 << alignment_log2);
                    let granted = allocator.allocate(size, 1 << alignment_log2);
                    prop_assert_eq!(peeked, granted.ok().map(|range| range.offset()));
                    if let Ok(range) = granted {
                        prop_assert!(range.offset() % (1 << alignment_log2) == 0 && range.end() <= 4000);
                        prop_assert!(live.iter().all(|other| !overlaps(other, &range)));
                        live.push(range);
                    }
                }
                Op::Free(index) if !live.is_empty() => {
                    let range = live.swap_remove(index % live.len());
                    prop_assert_eq!(allocator.free(range), Ok(()));
                    prop_assert!(allocator.free(range).is_err(), "it was freed already");
                }
                Op::Free(_) => {}
            }
            allocator.validate().map_err(|invalid| TestCaseError::fail(invalid.to_string()))?;
            prop_assert_eq!(allocator.live_count(), live.len());
            prop_assert!(live.iter().all(|range| allocator.is_live(range)));
        }
        for range in live {
            prop_assert_eq!(allocator.free(range), Ok(()));
        }
        prop_assert_eq!(allocator.free_size(), 4000);
        if matches!(ALGORITHMS[which], Algorithm::Equal { .. }) {
            // The pool chooses the next block, so its offset is not checked.
            prop_assert!(allocator.peek(256, 1).is_some());
        } else {
            prop_assert_eq!(allocator.peek(4000, 1), Some(0));
        }
    }

    #[test]
    fn blocks_peek_at_what_they_then_grant(ops in proptest::collection::vec(op(), 1..150)) {
        let mut blocks = Blocks::new(BlocksDesc::default());
        for heap in 0..3 {
            blocks.insert(heap, AnyAllocator::new(Algorithm::Tlsf, 1500));
        }
        let mut live = Vec::new();
        for op in ops {
            match op {
                Op::Allocate { size, alignment_log2, .. } => {
                    let peeked = blocks.peek(size, 1 << alignment_log2);
                    let granted = blocks.try_allocate(size, 1 << alignment_log2).ok();
                    prop_assert_eq!(peeked, granted.map(|granted| (granted.block(), granted.offset())));
                    live.extend(granted);
                }
                Op::Free(index) if !live.is_empty() => {
                    let allocation = live.swap_remove(index % live.len());
                    prop_assert_eq!(blocks.free(&allocation), Ok(()));
                }
                Op::Free(_) => {}
            }
        }
    }
}

/// Returns the results of all queries of an allocator.
fn answers(asked: &dyn Peek, size: u64, alignment: u64) -> impl PartialEq + std::fmt::Debug {
    let units = [asked.capacity(), asked.free_size(), asked.largest_free()];
    let (place, fits) = (asked.peek(size, alignment), asked.may_hold(size));
    (units, place, fits, asked.live_count(), asked.is_empty(), testing::spans(asked))
}

/// Checks that an [`AnyAllocator`] of this algorithm and `own`, the allocator of the algorithm, give the same results
/// for the same operations.
fn answers_as(algorithm: Algorithm, mut own: impl Peek) {
    let place = |range: Range| (range.offset(), range.size(), range.slot());
    let mut chosen = AnyAllocator::new(algorithm, own.capacity());
    let (mut live, mut random) = (Vec::<(Range, Range)>::new(), 1_u64);
    for step in 0..3000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (what, size, alignment) = (random >> 60, (random >> 33) % 90, 1 << ((random >> 40) % 5));
        if what < 9 {
            let both = (chosen.allocate(size, alignment), own.allocate(size, alignment));
            assert_eq!(both.0.map(place), both.1.map(place), "{algorithm:?}, step {step}");
            live.extend(both.0.ok().zip(both.1.ok()));
        } else if !live.is_empty() {
            let gone = live.swap_remove(size as usize % live.len());
            assert_eq!(chosen.free(gone.0), own.free(gone.1), "{algorithm:?}, step {step}");
        }
        let (ours, theirs) = (answers(&chosen, size, alignment), answers(&own, size, alignment));
        assert_eq!(ours, theirs, "{algorithm:?}, step {step}, {size} units aligned to {alignment}");
    }
}

#[test]
fn the_chosen_algorithm_answers_as_itself() {
    answers_as(Algorithm::Tlsf, Tlsf::new(4000));
    answers_as(Algorithm::Buddy { granule: 16 }, Buddy::new(4000, 16));
    answers_as(Algorithm::FreeList, FreeList::new(4000));
    answers_as(Algorithm::Linear, LinearRanges::new(4000));
    answers_as(Algorithm::Equal { block_size: 48 }, EqualBlocks::new(48, 4000));
}

/// A request of the reported largest free size succeeds, and a request of one more unit fails. A full allocator reports
/// 0.
#[test]
fn the_largest_free_size_is_what_is_granted() {
    let exact: [&mut dyn RangeAllocator; 4] =
        [&mut FreeList::new(400), &mut LinearRanges::new(400), &mut Buddy::new(400, 1), &mut EqualBlocks::new(8, 83)];
    for allocator in exact {
        let mut live = Vec::new();
        for turn in 0.. {
            let largest = allocator.largest_free();
            assert!(allocator.allocate(largest + 1, 1).is_err(), "{largest}, turn {turn}");
            let Ok(range) = allocator.allocate(largest, 1) else {
                assert_eq!(largest, 0, "turn {turn}");
                break;
            };
            // Half of it, so that most spans leave a larger remainder.
            allocator.free(range).expect("live");
            live.push(allocator.allocate(largest.div_ceil(2), 1).expect("less than that"));
        }
        live.into_iter().for_each(|range| allocator.free(range).expect("live"));
    }
}

/// With a capacity of 80 or 83 units, there are ten blocks of 8 units. The spans cover the capacity in both cases, and
/// no block is lost.
#[test]
fn equal_blocks_agree_with_their_twin() {
    for capacity in [80, 83] {
        let mut equal = EqualBlocks::new(8, capacity);
        let (mut twin, mut random) = (Twin::default(), 7_u64);
        for step in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Alternates between filling and draining.
            let takes = (random >> 60) % 4 < if step / 50 % 2 == 0 { 3 } else { 1 };
            let number = (random >> 33) as u32;
            let op = if takes { TwinOp::Allocate { size: 8, alignment_log2: 3 } } else { TwinOp::Free(number) };
            testing::step(&mut equal, &mut twin, op, true).unwrap_or_else(|what| panic!("step {step}, {op:?}: {what}"));
            assert_eq!(equal.peek(8, 1).is_some(), twin.live.len() < 10);
        }
    }
    let mut none = EqualBlocks::new(8, 7);
    assert_eq!((none.capacity(), none.largest_free(), none.allocate(1, 1).is_err()), (7, 0, true));
}

/// Each used span is reported with the slot of its range, from both ends, even after the slot numbers have advanced.
#[test]
fn the_spans_of_a_linear_allocator_name_their_ranges() {
    for high in [false, true] {
        let mut rows = LinearRanges::new(64);
        let mut live = std::collections::VecDeque::new();
        for turn in 0..40_u64 {
            if live.len() == 3 {
                // Low ranges form a ring, high ranges a stack.
                let gone = if high { live.pop_back() } else { live.pop_front() };
                rows.free(gone.expect("three are live")).expect("live");
            }
            let size = 5 + turn % 9;
            let made = if high { rows.allocate_high(size, 1) } else { rows.allocate(size, 1) };
            live.push_back(made.expect("at most three of 13, and the skipped end"));
            rows.validate().expect("sound");
            let mut held: Vec<_> = live.iter().map(|range| (range.offset(), range.size(), range.slot())).collect();
            held.sort_unstable();
            let spans = testing::spans(&rows).into_iter();
            let used: Vec<_> = spans.filter_map(|span| Some((span.offset, span.size, span.slot?))).collect();
            assert_eq!(used, held);
            assert_eq!(rows.capacity(), 64);
        }
    }
}

#[test]
fn a_stack_gives_its_end_back() {
    let mut stack = LinearRanges::new(100);
    let [a, b, c] = [10, 20, 30].map(|size| stack.allocate(size, 1).expect("there is room"));
    assert_eq!(stack.free(b), Ok(()));
    assert_eq!(stack.free_size(), 40, "c is above it");
    assert_eq!(stack.free(c), Ok(()));
    assert_eq!(stack.free_size(), 90);
    assert_eq!(stack.allocate(90, 1).map(|range| range.offset()), Ok(10));
    assert!(stack.is_live(&a));
}

#[test]
fn a_double_stack_grows_from_both_ends() {
    let mut stack = LinearRanges::new(100);
    let low = stack.allocate(60, 1).expect("there is room");
    let high = stack.allocate_high(30, 16).expect("there is room");
    assert_eq!((low.offset(), high.offset()), (0, 64));
    assert!(matches!(stack.allocate_high(5, 1), Err(AllocError::OutOfSpace { .. })));
    assert_eq!(stack.allocate(4, 1).map(|range| range.offset()), Ok(60));
    assert_eq!(stack.free(high), Ok(()));
    assert_eq!(stack.allocate_high(36, 1).map(|range| range.offset()), Ok(64));
}

#[test]
fn a_ring_wraps_to_what_its_oldest_gave_back() {
    let mut ring = LinearRanges::new(100);
    let mut held: std::collections::VecDeque<_> = (0..4).map(|_| ring.allocate(25, 1).expect("room")).collect();
    for round in 0..50_u64 {
        assert!(ring.allocate(1, 1).is_err(), "full");
        let oldest = held.pop_front().expect("four are live");
        assert_eq!(ring.free(oldest), Ok(()));
        let next = ring.allocate(25, 1).expect("as many units as were freed");
        assert_eq!(next.offset(), round % 4 * 25);
        held.push_back(next);
        ring.validate().expect("sound");
    }
}

#[test]
fn a_virtual_allocator_grows_block_by_block() {
    let desc = BlocksDesc { basic_size: 1000, ..Default::default() };
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy { granule: 16 }, Algorithm::FreeList, Algorithm::Linear] {
        let mut numbers = virtual_allocator(algorithm, desc);
        let held: Vec<_> = (0..10).map(|_| numbers.allocate(400, 1).expect("it grows")).collect();
        assert!(numbers.blocks().block_count() >= 5, "{algorithm:?}");
        let large = numbers.allocate(5000, 1).expect("a block of its own size");
        assert!(numbers.heap(&large).is_some());
        numbers.blocks().validate().expect("sound");
        for allocation in held.into_iter().chain([large]) {
            numbers.free(allocation).expect("live");
        }
        numbers.trim();
        assert_eq!(numbers.blocks().block_count(), 0);
    }
}

/// If a range in the middle of a full linear block is freed, its space is not free yet: the block remains full, and is
/// inserted into the index only once it has free space.
#[test]
fn a_full_linear_block_that_takes_back_its_middle_stays_full() {
    let desc = BlocksDesc { basic_size: 4, destroy_threshold: 0, grace_ticks: 0 };
    let mut blocks = virtual_allocator(Algorithm::Linear, desc);
    let held: Vec<_> = (0..4).map(|_| blocks.allocate(1, 1).expect("room")).collect();
    for middle in [1, 2] {
        blocks.free(held[middle]).expect("live");
        blocks.blocks().validate().expect("sound");
    }
    let other = blocks.allocate(1, 1).expect("in a new block");
    assert_ne!(blocks.heap(&other), blocks.heap(&held[0]));
    for end in [3, 0] {
        blocks.free(held[end]).expect("live");
        blocks.blocks().validate().expect("sound");
    }
    blocks.trim();
    blocks.blocks().validate().expect("sound");
    blocks.allocate(3, 1).expect("room");
}

/// An allocation reduces the free size by the units that the range occupies. A range that was freed in the middle of a
/// linear block occupies 0 units.
#[test]
fn what_a_range_takes_is_what_others_cannot_have() {
    let equal = Algorithm::Equal { block_size: 40 };
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy { granule: 16 }, Algorithm::FreeList, Algorithm::Linear, equal]
    {
        let mut ranges = AnyAllocator::cut(algorithm, 4000);
        let mut live = Vec::new();
        for size in [33, 1, 40, 17] {
            let before = ranges.free_size();
            let range = ranges.allocate(size, 1).expect("room");
            assert_eq!(ranges.taken(range.slot(), size), before - ranges.free_size(), "{algorithm:?}, {size}");
            live.push(range);
        }
        ranges.free(live.remove(1)).expect("live");
        let mut taken = Vec::new();
        ranges.for_each_span(&mut |span| taken.extend(span.slot.map(|slot| ranges.taken(slot, span.size))));
        taken.retain(|units| *units != 0);
        taken.sort_unstable();
        let mut expected: Vec<_> = live.iter().map(|range| ranges.taken(range.slot(), range.size())).collect();
        expected.sort_unstable();
        assert_eq!(taken, expected, "{algorithm:?}");
    }
}
