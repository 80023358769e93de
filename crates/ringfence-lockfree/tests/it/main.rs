//! The tests of the crate, in one program: each structure beside its naive twin, over generated operations and by threads.
//!
//! Under `--cfg loom` the program contains the models alone.

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

/// Counts by thread, because the tests of the program run beside each other.
#[cfg(not(loom))]
#[global_allocator]
static HOST: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
