//! The tests of the crate in one program: each structure and its naive twin with generated operations, and tests with
//! threads.
//!
//! Under `--cfg loom`, the program contains only the models.

#[cfg(loom)]
mod models;

#[cfg(not(loom))]
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../../../ringfence-testkit/src/counting_allocator.rs"]
mod counting_allocator;
#[cfg(not(loom))]
mod drive;
#[cfg(not(loom))]
mod fixed_pool;
#[cfg(not(loom))]
mod pool_chain;

/// Counts the host allocations of each thread separately, because the tests of the program run concurrently.
#[cfg(not(loom))]
#[global_allocator]
static HOST: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
