//! Every algorithm that can be chosen, by generated operations: ranges never overlap, `peek` tells what `allocate` does,
//! stale and foreign ranges are refused.

use proptest::prelude::*;
use ringfence_core::algorithm::{Algorithm, AnyAllocator, virtual_allocator};
use ringfence_core::blocks::{Blocks, BlocksDesc};
use ringfence_core::linear_ranges::LinearRanges;
use ringfence_core::range::{AllocError, Allocate, Peek, Range, RangeAllocator};

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
                    prop_assert!(allocator.free(range).is_err(), "it was given back already");
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
            // Which of its blocks comes next is the pool's affair.
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
        let oldest = held.pop_front().expect("four are held");
        assert_eq!(ring.free(oldest), Ok(()));
        let next = ring.allocate(25, 1).expect("as much as was given back");
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

/// What lies in the middle of a full linear block is taken back without becoming free: the block stays full, and is in the
/// index of blocks with room once only when it has room.
#[test]
fn a_full_linear_block_that_takes_back_its_middle_stays_full() {
    let desc = BlocksDesc { basic_size: 4, destroy_threshold: 0, grace_ticks: 0 };
    let mut blocks = virtual_allocator(Algorithm::Linear, desc);
    let held: Vec<_> = (0..4).map(|_| blocks.allocate(1, 1).expect("room")).collect();
    for middle in [1, 2] {
        blocks.free(held[middle]).expect("live");
        blocks.blocks().validate().expect("sound");
    }
    let other = blocks.allocate(1, 1).expect("in a block of its own");
    assert_ne!(blocks.heap(&other), blocks.heap(&held[0]));
    for end in [3, 0] {
        blocks.free(held[end]).expect("live");
        blocks.blocks().validate().expect("sound");
    }
    blocks.trim();
    blocks.blocks().validate().expect("sound");
    blocks.allocate(3, 1).expect("room");
}
