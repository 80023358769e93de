//! The tests of the library on simulated devices, in one program. `reentrant_allocator.rs` is another: it replaces the
//! global allocator.

mod ages;
mod alignment;
mod faults;
mod figures;
mod foreign;
mod misuse;
mod no_host_allocation;
mod reentry;
#[cfg(feature = "tracing")]
mod tracing_events;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that parallel tests do not affect a count.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
