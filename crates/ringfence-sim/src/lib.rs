//! A simulated GPU. Each queue runs its work in order but late, so work of different queues may run in any order that
//! the fences allow. The GPU reports mistakes of the program that uses it.
//!
//! ```text
//!   your program ──▶ ringfence ──▶ Device ──▶ hazards(): the object that was reused too early, the work that uses
//!        │                           ▲                    it, and the sync point that the program must wait for
//!        └──── submit(queue, waits, commands, signal)
//!
//!   host view ──flush──▶ device view ◀──copies, fills, kernels── queue 0   under one seeded clock: the same seed
//!   (mapped memory)      (GPU bytes)  ◀─────────────────────────── queue 1   and calls give the same bytes and hazards
//! ```
//!
//! - *Late execution*: at each submission, read of a fence or wait, the seeded clock decides which work runs. If memory
//!   is reused too early, it therefore contains wrong bytes, as on a real GPU.
//! - *Simulated time*: a wait advances simulated time until its fence is reached. If no more work can run, the wait
//!   ends early, so a wait for a value that is never signalled does not hang. Calls take real time only with
//!   [`SimOptions::spends_time`].
//! - *Hazards*: work counts as pending until the host has read a fence value that proves that the work has ended. A
//!   mistake is therefore found even if the work has already run. [`HazardKind`] lists the kinds of mistakes.
//! - *Profiles*: [`Profile`] has memory heaps, memory types, limits and alignments of five devices, and the costs of
//!   their driver calls ([`Device::calls`] adds up the costs).
//!
//! Memory is allocated through [`ringfence_hal`]. Work is submitted through this crate:
//!
//! ```
//! use ringfence_hal::{Driver, MemoryDesc, Priority, ResourceClass};
//! use ringfence_sim::{Device, HazardKind, Profile, SimOptions};
//!
//! let device = Device::new(Profile::h200(), SimOptions { seed: 7, ..Default::default() });
//! let (class, priority) = (ResourceClass::Buffer, Priority::Normal);
//! let desc = MemoryDesc { memory_type: 0, size: 1 << 20, alignment: 1, class, priority, name: "block", share: None };
//! // SAFETY: the device has a memory type 0.
//! let memory = unsafe { device.allocate_memory(&desc) }?;
//!
//! let fence = device.create_fence(0);
//! device.submit(0, &[], vec![], (fence, 1))?;
//! // SAFETY: the fence belongs to this device.
//! assert!(unsafe { device.wait(&fence, 1, std::time::Duration::MAX) }?);
//!
//! // SAFETY: this device checks its arguments and reports mistakes as hazards.
//! unsafe {
//!     device.free_memory(memory);
//!     device.free_memory(memory);
//! }
//! assert_eq!(device.hazards()[0].kind, HazardKind::Stale, "freed twice");
//! # Ok::<(), ringfence_hal::DeviceError>(())
//! ```

mod access;
mod barrier;
mod check;
mod clock;
mod command;
mod contents;
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
mod targets;
mod texel_codec;
mod texels;
mod tiles;
mod transfer;

pub use command::{
    Barrier, BufferLayout, BufferRange, Command, DescriptorUse, Kernel, KernelFn, KernelMemory, Resource, TextureRegion,
};
pub use counts::{CallCounts, Live};
pub use descriptor::View;
pub use device::Device;
pub use hazard::{Hazard, HazardKind, PendingWork};
pub use ids::{Buffer as BufferId, DescriptorHeap, Fence, Label, Memory, Texture as TextureId, What};
pub use options::SimOptions;
pub use profile::{CostCurve, Costs, Profile};
pub use sharing::SharedHandle;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
