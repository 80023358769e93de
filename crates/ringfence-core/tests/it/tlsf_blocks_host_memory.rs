//! In steady state, neither the ranges nor the blocks allocate host memory.

#[allow(dead_code, reason = "a test program takes what it needs")]
use crate::counting_allocator;

use counting_allocator::host_allocation_count;
use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::tlsf::Tlsf;

/// Fills the blocks, frees every other range, makes requests that fail, and frees the other ranges.
fn round(blocks: &mut Blocks<Tlsf, u32>, live: &mut Vec<BlockAllocation>) {
    for size in (1..400).cycle().take(3000) {
        live.extend(blocks.try_allocate(size, 1 << (size % 6)));
    }
    let mut keep = false;
    live.retain(|allocation| {
        keep = !keep;
        keep || blocks.free(allocation).is_err()
    });
    assert!(blocks.try_allocate(60_000, 1).is_err());
    for allocation in live.drain(..) {
        blocks.free(&allocation).unwrap();
        blocks.free(&allocation).unwrap_err();
    }
    assert!(blocks.take_surplus(0).is_none());
}

#[test]
fn a_second_round_allocates_nothing_on_the_host() {
    let mut blocks = Blocks::new(BlocksDesc::default());
    for heap in 0..8 {
        blocks.insert(heap, Tlsf::new(50_000));
    }
    let mut live = Vec::with_capacity(4000);
    round(&mut blocks, &mut live);
    let before = host_allocation_count();
    round(&mut blocks, &mut live);
    assert_eq!(host_allocation_count(), before);
    assert_eq!((blocks.empty_count(), blocks.validate()), (8, Ok(())));
}

#[test]
fn blocks_that_all_go_empty_and_out_allocate_nothing_on_the_host() {
    let mut blocks = Blocks::new(BlocksDesc::default());
    let ids: Vec<_> = (0..100).map(|heap| blocks.insert(heap, Tlsf::new(64))).collect();
    let held: Vec<_> = ids.iter().map(|id| blocks.allocate_in(*id, 10, 1).unwrap()).collect();
    let before = host_allocation_count();
    held.iter().for_each(|held| blocks.free(held).unwrap());
    assert_eq!(blocks.empty_count(), 100);
    while blocks.take_empty().is_some() {}
    // The drop of a block's allocator frees host memory and allocates none.
    assert_eq!(host_allocation_count(), before);
}
