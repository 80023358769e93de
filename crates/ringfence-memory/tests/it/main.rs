//! The tests of the memory manager on simulated devices, in one program.

mod broken_reclaim;
mod defrag_campaign;
mod memory;
mod recycled_campaign;
mod release;
mod residency;
mod sharing;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that parallel tests do not affect a count.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
