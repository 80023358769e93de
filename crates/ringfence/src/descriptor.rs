//! Descriptors: which slot of which heap a view gets, and when a slot may be written again.
//!
//! ```text
//!   View ──write──▶ CpuDescriptors                    a run of slots in a CPU-only heap (buddy, growable blocks)
//!                        │
//!        ┌───────────────┼──────── copy, in merged batches ─────────┐
//!        ▼               ▼                                          ▼
//!   ┌───────────────┬───────────────────────────────────────────────────────┐
//!   │ frame region  │ persistent region                                     │   ShaderVisibleHeap: one a kind
//!   │ ring of chunks│ free list:  Persistent │ BindlessTable │ SamplerTable │
//!   └───────────────┴───────────────────────────────────────────────────────┘
//!        ▲                                   │ bind(frame): once a command list
//!     FrameDescriptors ─▶ Table               ▼
//!                                         Binding
//! ```
//!
//! # The rules behind it
//!
//! - *A slot that a shader may still read is never written.* A released slot waits for every submission that had begun
//!   by then; the slots of a frame's tables wait for that frame. [`Allocator::reclaim`](crate::Allocator) frees them.
//! - *A CPU-only descriptor is a value*: it may be written, copied and released at any time. Where it has a driver
//!   object (Vulkan's image views and samplers), the object lives until no submission under way can use it.
//! - *The device has the mechanism only* ([`device::descriptors`](crate::device::descriptors)); this module has the
//!   policy, for every device.
//!
//! # What is in use
//!
//! The device reports its [`DescriptorModel`](crate::device::descriptors::DescriptorModel), in
//! [`Descriptors::descriptor_support`](crate::device::descriptors::Descriptors::descriptor_support):
//!
//! | model | where | what follows |
//! |---|---|---|
//! | `Heaps` | Direct3D 12, simulated | all of this module as it stands |
//! | `Buffers` | Vulkan with `VK_EXT_descriptor_buffer` | the same; each type is an array of its own in one buffer |
//! | `UpdateAfterBind` | Vulkan with descriptor indexing | the same; slots up to the device's limits of such sets |
//! | `PlainSets` | other Vulkan (Mesa's software driver up to 22) | a list sees what was there at its [`ShaderVisibleHeap::bind`]; few slots; image views of each dimension are an array of their own |
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | allocate a CPU-only slot | O(1), one atomic exchange |
//! | – several side by side | O(log slots) under a short lock; a driver call for a new block |
//! | frame descriptors, table | one lock a chunk, O(slots of the table); one driver call for 32 runs of slots |
//! | bindless insert, remove | O(1) under a short lock, one driver call outside of it |
//! | bind | on plain sets O(slots) if the heap was written since the last; else nothing |
//! | reclaim | O(what comes back) |
//!
//! Room is left for `VK_EXT_descriptor_heap`, whose heaps are byte ranges with a
//! reserved part: [`HeapStart`](crate::device::descriptors::HeapStart) has a start and an increment of its own.

mod binding;
mod bindless;
mod constants;
mod cpu;
mod desc;
mod frame_descriptors;
mod heap;
mod persistent;
mod samplers;
mod singles;
mod slots;
mod state;
mod tables;
mod view;
mod visible;

pub use crate::device::descriptors::{DescriptorError, Region};
pub use binding::Binding;
pub use bindless::{BindlessDesc, BindlessEntry, BindlessIndex, BindlessTable};
pub use constants::ConstantView;
pub use cpu::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, TableSource};
pub use desc::{ShaderVisibleDesc, VisibleStatistics};
pub use frame_descriptors::{FrameDescriptors, Table};
pub use heap::Heap;
pub use persistent::Persistent;
pub use ringfence_memory::memory::DescriptorSnapshot;
pub(crate) use ringfence_memory::memory::region;
pub use samplers::{Sampler, SamplerTable};
pub use slots::SlotAllocator;
pub use view::View;
pub use visible::ShaderVisibleHeap;
