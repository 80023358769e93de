//! Strategies for sequences of operations, for the tests of all allocators.
#![allow(dead_code, reason = "each test binary uses a part")]

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_core::testing::Op;
#[allow(unused_imports, reason = "each test binary uses a part")]
pub use ringfence_core::testing::cases;

/// Generates sizes for a heap of `capacity`: mostly small, some powers of two, some large, and a few that must be
/// refused.
pub fn sizes(capacity: u64) -> impl Strategy<Value = u64> {
    let (small, quarter, beyond) = ((capacity / 16).max(1), (capacity / 4).max(1), capacity.saturating_add(2));
    prop_oneof![
        6 => 1..=small,
        2 => 1..=quarter,
        2 => (0..=capacity.ilog2()).prop_map(|log2| 1 << log2),
        1 => 0..=beyond,
    ]
}

/// Generates exponents of alignments: mostly 0, some up to the capacity, and a few far above it.
pub fn alignments_log2(capacity: u64) -> impl Strategy<Value = u8> {
    prop_oneof![
        5 => Just(0_u8),
        4 => 0..=capacity.ilog2() as u8,
        1 => 0..64_u8,
    ]
}

/// Generates an operation on a heap of `capacity`. Allocations are slightly more frequent than frees, so that the heap
/// fills up.
pub fn op(capacity: u64) -> impl Strategy<Value = Op> {
    let allocate = (sizes(capacity), alignments_log2(capacity));
    prop_oneof![
        6 => allocate.prop_map(|(size, alignment_log2)| Op::Allocate { size, alignment_log2 }),
        4 => any::<u32>().prop_map(Op::Free),
        1 => any::<u32>().prop_map(Op::FreeAgain),
        1 => any::<u32>().prop_map(Op::FreeForged),
    ]
}

/// Generates up to `count_max` operations on a heap of `capacity`.
pub fn ops(capacity: u64, count_max: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(capacity), 0..=count_max)
}

/// Generates a capacity, and up to `count_max` operations on a heap of this capacity.
pub fn heaps(capacities: impl Strategy<Value = u64>, count_max: usize) -> impl Strategy<Value = (u64, Vec<Op>)> {
    capacities.prop_flat_map(move |capacity| (Just(capacity), ops(capacity, count_max)))
}
