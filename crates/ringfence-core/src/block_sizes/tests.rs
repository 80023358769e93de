//! Tests of the sizes of blocks.

use std::vec::Vec;

use super::*;

#[test]
fn blocks_double_up_to_the_largest() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let of = |count| sizes.present(count) >> 20;
    assert_eq!([of(0), of(1), of(2), of(6), of(7), of(500)], [4, 8, 16, 256, 256, 256]);
}

#[test]
fn small_heaps_have_small_blocks() {
    assert_eq!(BlockSizes::for_heap(256 << 20, u64::MAX, 256 << 20).max, 32 << 20);
    assert_eq!(
        BlockSizes::for_heap(1 << 20, u64::MAX, 256 << 20),
        BlockSizes { first: 128 << 10, max: 128 << 10, halvings: 3 }
    );
}

#[test]
fn no_block_is_smaller_than_the_driver_makes_it() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 64 << 20).aligned_to(4 << 20);
    assert_eq!([sizes.present(0) >> 20, sizes.present(1) >> 20, sizes.max >> 20], [4, 8, 64]);
    let small = BlockSizes::for_heap(8 << 20, u64::MAX, 64 << 20).aligned_to(4 << 20);
    assert_eq!([small.first, small.max], [1 << 20, 1 << 20], "but the heap's size goes before");
}

#[test]
fn what_is_announced_gets_large_blocks_at_once() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries = |count, bytes: u64| sizes.to_hold(count, bytes << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
    assert_eq!(tries(0, 3000), [256, 128, 64, 32]);
    assert_eq!(tries(0, 5), [8, 4, 2, 1]);
    assert_eq!(tries(6, 5), [256, 128, 64, 32], "no smaller than without an announcement");
}

/// If few memory objects are left, large blocks are tried first, then the regular sizes.
#[test]
fn large_blocks_are_tried_before_the_usual_ones() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries = |count, need: u64, min: u64| {
        sizes.tries_from(count, need << 20, min << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>()
    };
    assert_eq!(tries(0, 1, 1024), [1024, 512, 256, 128, 4, 2, 1]);
    assert_eq!(tries(6, 1, 1024), [1024, 512, 256, 128, 64, 32]);
    assert_eq!(tries(6, 100, 1024), [1024, 512, 256, 128]);
    assert_eq!(tries(3, 1, 0), sizes.tries(3, 1 << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>());
    assert!(tries(0, 1, 1024).len() <= 2 * SIZES_MAX);
    let fixed = BlockSizes::fixed(64 << 20);
    assert_eq!(fixed.tries_from(0, 1, 1 << 30).collect::<Vec<_>>(), [64 << 20], "blocks of one size stay so");
}

#[test]
fn a_refused_block_is_halved_three_times_but_holds_its_request() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries = |count, need: u64| sizes.tries(count, need << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
    assert_eq!(tries(6, 1), [256, 128, 64, 32]);
    assert_eq!(tries(6, 100), [256, 128]);
    assert_eq!(tries(0, 100), [128]);
    assert_eq!(tries(0, 300), [300], "more than a block has");
}
