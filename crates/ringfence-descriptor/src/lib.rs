//! Descriptors: allocation of slots for views in descriptor heaps, and the time at which a slot may be written again.
//!
//! ```text
//!   View ──write──▶ CpuDescriptors                    a run of slots in a CPU-only heap (blocks; buddy by default)
//!                        │
//!        ┌───────────────┼──────── copy, in merged batches ─────────┐
//!        ▼               ▼                                          ▼
//!   ┌───────────────┬───────────────────────────────────────────────────────┐
//!   │ frame region  │ persistent region                                     │   ShaderVisibleHeap, one for each kind
//!   │ ring of chunks│ free list:  Persistent │ BindlessTable │ SamplerTable │
//!   └───────────────┴───────────────────────────────────────────────────────┘
//!        ▲                                   │ bind(frame): once for each command list
//!     FrameDescriptors ─▶ Table               ▼
//!                                         Binding
//! ```
//!
//! # Rules
//!
//! - *A slot that a shader may still read is never written.* A released slot is freed once every submission that had
//!   begun at its release is complete. The slots of a frame's tables are freed once that frame is complete.
//!   [`Allocator::reclaim`](ringfence_memory::Allocator) frees both.
//! - *A CPU-only descriptor is a value*: it may be written, copied and released at any time. If it has a driver object
//!   (Vulkan's image views and samplers), the object lives until no pending submission can use it.
//! - *A device implements only the mechanism* ([`device::descriptors`]). This crate
//!   implements the policy, which is the same for every device.
//!
//! # Models
//!
//! The device reports its [`DescriptorModel`](crate::device::descriptors::DescriptorModel), in
//! [`Descriptors::descriptor_support`](crate::device::descriptors::Descriptors::descriptor_support):
//!
//! | model | devices | consequences |
//! |---|---|---|
//! | `Heaps` | Direct3D 12, simulated | none |
//! | `Buffers` | Vulkan with `VK_EXT_descriptor_buffer` | each type of view is a separate array in one buffer |
//! | `UpdateAfterBind` | Vulkan with descriptor indexing | the number of slots is limited by the device's update-after-bind limits |
//! | `PlainSets` | other Vulkan (Mesa's software driver up to 22) | a list sees the descriptors as of its [`ShaderVisibleHeap::bind`]; few slots; each kind of image view is a separate array |
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | allocate one CPU-only slot | O(1), one atomic exchange, if the thread's cache has a slot |
//! | allocate several consecutive CPU-only slots | O(log slots + length of the run) under a short lock; a driver call for a new block |
//! | table of a frame | O(slots of the table); one lock for each new chunk; one driver call for up to 32 runs of slots |
//! | bindless insert | O(1) under a short lock; one driver call without the lock (more if the heap can grow) |
//! | bindless remove | O(1) under a short lock |
//! | bind | on plain sets, O(slots) if the heap was written since the last bind; otherwise O(1), no driver call |
//! | reclaim | O(freed slots + applied updates) |
//!
//! Heaps of `VK_EXT_descriptor_heap` are byte ranges with a reserved part. The design allows for them:
//! [`HeapStart`](crate::device::descriptors::HeapStart) contains the address of the first slot and the distance between
//! adjacent slots.
#![warn(missing_docs)]

mod binding;
mod bindless;
#[cfg(feature = "vulkan")]
mod constant_sets;
mod constants;
mod cpu;
#[cfg(all(windows, feature = "d3d12"))]
mod d3d12;
mod desc;
mod frame_descriptors;
mod heap;
mod heap_state;
mod persistent;
mod samplers;
mod single_slots;
mod slot_algorithm;
mod tables;
mod view;
mod visible;
#[cfg(feature = "vulkan")]
mod vulkan;

pub use crate::device::descriptors::{DescriptorError, Region};
pub use binding::Binding;
pub use bindless::{BindlessDesc, BindlessEntry, BindlessIndex, BindlessTable};
#[cfg(feature = "vulkan")]
pub use constant_sets::ConstantSets;
pub use constants::ConstantView;
pub use cpu::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, TableSource};
pub use desc::{ShaderVisibleDesc, VisibleStatistics};
pub use frame_descriptors::{FrameDescriptors, Table};
pub use heap::Heap;
pub use persistent::Persistent;
use ringfence_hal as device;
pub use ringfence_memory::memory::DescriptorSnapshot;
pub(crate) use ringfence_memory::memory::region;
#[cfg(test)]
use ringfence_sim as sim;
pub use samplers::{Sampler, SamplerTable};
pub use slot_algorithm::SlotAlgorithm;
pub use view::View;
pub use visible::ShaderVisibleHeap;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
