//! Where resources go, as Unreal Engine does it on Direct3D 12: one policy over every device.
//!
//! ```text
//!   buffer ─┬ dynamic ─ upload ─┬ ≤ 64 KiB ─ buddies of 4 MiB (small) ───┐
//!           │                   ├ ≤ 64 MiB ─ pool (big) ─────────────────┤ ranges of shared buffers
//!           │                   └ else ───── stand-alone                 │
//!           └ static ── default ┬ ≤ 64 MiB ─ first pool that supports it ┤
//!                               │            (none: a new one)           └ or placed, each in a heap of the pool
//!                               └ else ───── stand-alone
//!   texture ┬ read back ─ a stand-alone buffer in readback memory
//!           └ else ───── the pool of its kind: small sampled, sampled, render target, storage; too large: stand-alone
//!   fast constants ───── 64 KiB pages from buddies of their own: [`FastConstants`](crate::FastConstants)
//! ```
//!
//! Every threshold is a default of [`PlacementDesc`]. A location remembers its allocator ([`Route`]). It is
//! released as its [`LocationKind`] says, deferred until the submitted work of all queues that had begun is complete,
//! by sync points and not by a count of frames. [`Placement::end_frame`] cleans up, and destroys blocks that were empty
//! for a lag of frames.
//!
//! Where the library decides by itself, as [`Allocator::create_buffer`](crate::Allocator::create_buffer) does, it needs
//! less of the caller; this policy is for programs that want an engine's separation of uses, or its few driver buffers.
//!
//! # Deviations from Unreal Engine
//!
//! - A pool of default buffers supports every usage that it was made for and any less, and copies always.
//! - A sampled texture is *small* by what the driver measured, on every API; Direct3D 12 alone has a 4 KiB alignment
//!   to gain by it, the others gain blocks that do not mix sizes.
//! - Blocks of ranges are driver buffers that the allocator places as it does all others, so that a buddy of 4 MiB does
//!   not cost a memory object.
//! - What finds no room in its pool gets memory of its own before it is an error.

mod aliased;
mod buffers;
mod constants;
mod default_pool;
mod desc;
mod fast_constants;
mod graph;
mod heap_pools;
mod inner;
mod location;
mod policy;
mod range_pool;
mod textures;

pub use aliased::AliasedHeap;
pub use constants::ConstantsLocation;
pub use desc::{BufferRequest, ConstantsLifetime, Dynamism, LocationKind, PlacementDesc, Route, Strategy, TextureKind};
pub use fast_constants::{FastConstants, FastConstantsDesc, FastWriter};
pub use graph::{Provided, ProvidedBuffer, ProvidedTexture};
pub use location::{BufferLocation, TextureLocation};
pub use policy::{Placement, PlacementFigures};
pub use range_pool::PoolFigures;
