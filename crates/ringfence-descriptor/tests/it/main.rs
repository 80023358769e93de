//! The tests of descriptors on the simulated device, in one program.

mod cpu_descriptors;
mod descriptors;
mod exact;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that parallel tests do not affect a count.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
