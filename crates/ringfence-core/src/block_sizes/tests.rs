//! Tests of the sizes of blocks.

use std::vec::Vec;

use super::*;

/// The rule as a table: MiB of all blocks, and of the next one.
#[test]
fn blocks_double_and_then_follow_the_bytes_of_all_blocks() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let table = [
        [0, 4],
        [4, 8],
        [12, 16],
        [28, 32],
        [60, 32],
        [2_047, 32],
        [2_048, 64],
        [4_095, 64],
        [4_096, 128],
        [8_192, 256],
        [1 << 40, 256],
    ];
    for [held, next] in table {
        assert_eq!(sizes.present(held << 20) >> 20, next, "{held} MiB");
    }
    assert_eq!(sizes.present(u64::MAX), 256 << 20);
    assert_eq!(BlockSizes::fixed(96 << 20).present(1 << 40), 96 << 20);
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
    assert_eq!([sizes.present(0) >> 20, sizes.present(4 << 20) >> 20, sizes.max >> 20], [4, 8, 64]);
    let small = BlockSizes::for_heap(8 << 20, u64::MAX, 64 << 20).aligned_to(4 << 20);
    assert_eq!([small.first, small.max], [1 << 20, 1 << 20], "but the heap's size goes before");
}

#[test]
fn what_is_announced_gets_large_blocks_at_once() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries =
        |held: u64, bytes: u64| sizes.to_hold(held << 20, bytes << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
    assert_eq!(tries(0, 3000), [256, 128, 64, 32]);
    assert_eq!(tries(0, 5), [8, 4, 2, 1]);
    assert_eq!(tries(8_192, 5), [256, 128, 64, 32], "no smaller than without an announcement");
}

/// If few memory objects are left, large blocks are tried first, then the regular sizes.
#[test]
fn large_blocks_are_tried_before_the_usual_ones() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries = |held: u64, need: u64, min: u64| {
        sizes.tries_from(held << 20, need << 20, min << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>()
    };
    assert_eq!(tries(0, 1, 1024), [1024, 512, 256, 128, 4, 2, 1]);
    assert_eq!(tries(8_192, 1, 1024), [1024, 512, 256, 128, 64, 32]);
    assert_eq!(tries(8_192, 100, 1024), [1024, 512, 256, 128]);
    assert_eq!(tries(28, 1, 0), sizes.tries(28 << 20, 1 << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>());
    assert!(tries(0, 1, 1024).len() <= 2 * SIZES_MAX);
    let fixed = BlockSizes::fixed(64 << 20);
    assert_eq!(fixed.tries_from(0, 1, 1 << 30).collect::<Vec<_>>(), [64 << 20], "blocks of one size stay so");
}

#[test]
fn a_refused_block_is_halved_three_times_but_holds_its_request() {
    let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
    let tries = |held: u64, need: u64| sizes.tries(held << 20, need << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
    assert_eq!(tries(8_192, 1), [256, 128, 64, 32]);
    assert_eq!(tries(8_192, 100), [256, 128]);
    assert_eq!(tries(0, 100), [128]);
    assert_eq!(tries(0, 300), [300], "more than a block has");
}
