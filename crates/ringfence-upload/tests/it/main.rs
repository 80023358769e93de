//! The tests of uploads, constants and readback on the simulated device, in one program.

mod batch_rules;
mod constants;
mod exact;
mod quiet;
mod rings;
mod upload_batch;
mod upload_generated;
mod upload_limits;
mod upload_million_frames;
mod upload_no_host_allocation;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that parallel tests do not affect a count.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
