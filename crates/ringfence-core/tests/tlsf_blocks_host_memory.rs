//! In steady state neither the ranges nor the blocks allocate on the host.

use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::tlsf::Tlsf;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations and reallocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it counts, and otherwise does what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static HOST: Counting = Counting;

/// One round: fill the blocks, give every other range back, refuse what does not fit, empty the rest.
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
    let before = ALLOCATIONS.get();
    round(&mut blocks, &mut live);
    assert_eq!(ALLOCATIONS.get(), before);
    assert_eq!((blocks.empty_count(), blocks.validate()), (8, Ok(())));
}

#[test]
fn blocks_that_all_go_empty_and_out_allocate_nothing_on_the_host() {
    let mut blocks = Blocks::new(BlocksDesc::default());
    let ids: Vec<_> = (0..100).map(|heap| blocks.insert(heap, Tlsf::new(64))).collect();
    let held: Vec<_> = ids.iter().map(|id| blocks.allocate_in(*id, 10, 1).unwrap()).collect();
    let before = ALLOCATIONS.get();
    held.iter().for_each(|held| blocks.free(held).unwrap());
    assert_eq!(blocks.empty_count(), 100);
    while blocks.take_empty().is_some() {}
    // Dropping a block's allocator gives back and takes nothing.
    assert_eq!(ALLOCATIONS.get(), before);
}
