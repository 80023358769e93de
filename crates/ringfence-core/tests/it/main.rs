//! The tests of the crate in one program: each structure and its naive twin, over generated operations.

mod algorithm;
mod blocks;
mod blocks_asked;
mod buddy;
mod common;
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../../../ringfence-testkit/src/counting_allocator.rs"]
mod counting_allocator;
mod drive;
mod free_list;
mod no_host_allocation;
mod retire;
mod retire_no_host_allocation;
mod ring;
mod ring_no_host_allocation;
mod tlsf;
mod tlsf_blocks_host_memory;
mod tlsf_deferred;
mod tlsf_found;

/// Counts the host allocations of each thread separately, so that concurrent tests do not affect each other's counts.
#[global_allocator]
static HOST: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
