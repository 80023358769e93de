//! The simulated GPU, for tests of programs: it executes work late, and reports mistakes as hazards.

pub use ringfence_sim::*;

aliases!("simulated");

/// An allocator over a simulated device.
pub type Allocator = ringfence_memory::Allocator<Device>;
