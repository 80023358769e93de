//! The simulated GPU, for tests of programs: its work runs late, and mistakes are reported as hazards.

pub use ringfence_sim::*;

aliases!("simulated");

/// An allocator over a simulated device.
pub type Allocator = ringfence_memory::Allocator<Device>;
