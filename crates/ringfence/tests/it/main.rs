//! The tests of the library on simulated devices, in one program. `reentrant_allocator.rs` is another: it replaces the
//! global allocator.

mod ages;
mod alignment;
mod broken_reclaim;
mod cpu_descriptors;
mod defrag_campaign;
mod descriptors;
mod fast_constants_misuse;
mod faults;
mod foreign;
mod memory;
mod misuse;
mod no_host_allocation;
mod quiet;
mod recycled_campaign;
mod reentry;
mod release;
mod residency;
mod shared_and_sparse;
mod sim_device;
#[cfg(feature = "tracing")]
mod tracing_events;
mod transient;
mod transient_barriers;
mod transient_plans;
mod upload_batch;
mod upload_generated;
mod upload_limits;
mod upload_million_frames;
mod upload_no_host_allocation;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that parallel tests do not affect a count.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
