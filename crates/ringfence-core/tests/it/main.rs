//! The tests of the crate in one program: each structure and its naive twin, over generated operations.
//!
//! Under `--cfg loom`, the program has only the models.

#[cfg(loom)]
mod models;

#[cfg(not(loom))]
mod algorithm;
#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod blocks_asked;
#[cfg(not(loom))]
mod buddy;
#[cfg(not(loom))]
mod common;
#[cfg(not(loom))]
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../../../ringfence-testkit/src/counting_allocator.rs"]
mod counting_allocator;
#[cfg(not(loom))]
mod drive;
#[cfg(not(loom))]
mod fixed_pool;
#[cfg(not(loom))]
mod free_list;
#[cfg(not(loom))]
mod no_host_allocation;
#[cfg(not(loom))]
mod pool_chain;
#[cfg(not(loom))]
mod retire;
#[cfg(not(loom))]
mod retire_no_host_allocation;
#[cfg(not(loom))]
mod ring;
#[cfg(not(loom))]
mod ring_no_host_allocation;
#[cfg(not(loom))]
mod tlsf;
#[cfg(not(loom))]
mod tlsf_blocks_host_memory;
#[cfg(not(loom))]
mod tlsf_deferred;
#[cfg(not(loom))]
mod tlsf_found;

/// Counts per thread, so concurrent tests do not affect each other's counts.
#[cfg(not(loom))]
#[global_allocator]
static HOST: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
