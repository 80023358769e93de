//! A GPU in software that runs late, out of step, and finds the mistakes of the program that drives it.
//!
//! ```text
//!   your program ──▶ ringfence ──▶ sim::Device ──▶ hazards(): what was used again too early, by whom, and which
//!        │                             ▲                      sync point should have passed first
//!        └──── submit(queue, waits, commands, signal)
//!
//!   host view ──flush──▶ device view ◀──copies, fills, kernels── queue 0   under one seeded clock: the same seed
//!   (what is mapped)     (GPU bytes)  ◀─────────────────────────── queue 1   and calls give the same bytes and hazards
//! ```
//!
//! - *Late*: work runs when the clock's dice say so, at a submission, a poll or a wait. Memory that is used again too
//!   early therefore holds wrong bytes, as on a real card.
//! - *Simulated time*: a wait never blocks. It lets the clock go on, and gives up as soon as nothing can run any more,
//!   so a wait for what is never signalled ends at once.
//! - *Hazards*: work counts as pending until the host has seen a fence that proves its end; so a mistake is found
//!   whether or not the clock was kind this time. See [`HazardKind`] for the list.
//! - *Profiles*: heaps, types, limits and alignments of four devices are built in ([`Profile`]), as are the prices of
//!   their driver calls ([`Device::calls`]).
//!
//! ```
//! use ringfence_sim::{Device, Profile, SimOptions};
//! use ringfence_hal::Driver;
//!
//! let device = Device::new(Profile::h200(), SimOptions { seed: 7, ..Default::default() });
//! let fence = device.create_fence(0);
//! device.submit(0, &[], vec![], (fence, 1)).unwrap();
//! // SAFETY: the fence is this device's.
//! assert!(unsafe { device.wait(&fence, 1, std::time::Duration::MAX) }.unwrap());
//! assert!(device.hazards().is_empty());
//! ```

mod access;
mod barrier;
mod check;
mod clock;
mod command;
mod counts;
mod descriptor;
mod device;
mod driver;
mod families;
mod hazard;
mod ids;
mod layout;
mod objects;
mod options;
mod order;
mod pages;
mod profile;
mod queue;
mod record;
mod residency;
pub mod rng;
mod sharing;
mod sparse;
mod state;
mod step;
mod store;
mod texels;
mod tiles;

pub use command::{
    Barrier, BufferLayout, BufferRange, Command, DescriptorUse, Kernel, KernelFn, KernelMemory, Resource, TextureRegion,
};
pub use counts::{CallCounts, Live};
pub use descriptor::View;
pub use device::Device;
pub use hazard::{Hazard, HazardKind, PendingWork};
pub use ids::{Buffer, DescriptorHeap, Fence, Label, Memory, Texture, What};
pub use options::SimOptions;
pub use profile::{CostCurve, Costs, Profile};
pub use sharing::SharedHandle;
