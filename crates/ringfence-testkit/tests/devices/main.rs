//! The tests of the test kit, in one program. `ci/drivers.sh` runs it on each driver, module by module:
//!
//! | module | tests |
//! |---|---|
//! | `device_suite` | the conformance suite, with a module for each device: `sim`, `vulkan`, `d3d12` |
//! | `vulkan_backend`, `d3d12_backend` | features of a single API |
//! | `faults` | every driver call of every scenario fails |
//! | `steady_state`, `no_host_allocation` | a steady frame makes no driver object and no host allocation |
//! | `two_processes` | memory that a second process imports |
//! | `worlds` | seeded random programs under the hazard finder |

#[cfg(all(windows, feature = "d3d12"))]
mod d3d12_backend;
mod device_suite;
mod faults;
#[cfg(feature = "vulkan")]
mod no_host_allocation;
mod steady_state;
#[cfg(all(unix, feature = "vulkan"))]
mod two_processes;
#[cfg(feature = "vulkan")]
mod vulkan_backend;
mod worlds;

use ringfence_testkit::counting_allocator::CountingAllocator;

/// Counts per thread, so that concurrent tests do not change each other's counts.
#[global_allocator]
static HOST: CountingAllocator = CountingAllocator;
