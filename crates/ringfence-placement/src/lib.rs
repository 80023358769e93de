//! The placement policy of Unreal Engine on Direct3D 12, for every device.
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
//!   fast constants ───── 64 KiB pages from separate buddies: [`FastConstants`](crate::FastConstants)
//! ```
//!
//! A *buddy* is a driver buffer that a buddy allocator divides into ranges. The thresholds are the defaults of
//! [`PlacementDesc`]. A location records the part of the policy that serves it ([`Route`]), and its [`LocationKind`]
//! determines how it is released. A release is deferred by sync points, not by a number of frames: the location is kept
//! until all submissions that had begun at the release are complete. [`Placement::end_frame`] reclaims, and destroys
//! blocks that were empty for [`PlacementDesc::idle_frames`].
//!
//! [`Allocator::create_buffer`](ringfence_memory::Allocator::create_buffer) chooses the memory itself and requires
//! fewer decisions of the caller. This policy is for programs that separate resources by use, as engines do, or that
//! want few driver buffers.
//!
//! # Deviations from Unreal Engine
//!
//! - A pool of default buffers serves requests with any subset of its usages, which always include copies.
//! - A sampled texture is *small* by its memory requirements, on every API. On Direct3D 12, small textures can be
//!   aligned to 4 KiB. On other APIs, the gain is that blocks do not mix sizes.
//! - Blocks of ranges are driver buffers that the allocator places like any buffer, so a buddy of 4 MiB needs no memory
//!   object of its own.
//! - If a pool is full and cannot grow, the request gets dedicated memory. The request fails only if there is no
//!   dedicated memory either.
#![warn(missing_docs)]

mod aliased;
mod buffers;
mod compactor;
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
pub use compactor::{Compactor, CompactorDesc, CompactorStep};
pub use constants::ConstantsLocation;
pub use desc::{BufferRequest, ConstantsLifetime, Dynamism, LocationKind, PlacementDesc, Route, Strategy, TextureKind};
pub use fast_constants::{FastConstants, FastConstantsDesc, FastWriter};
pub use graph::{Provided, ProvidedBuffer, ProvidedTexture};
pub use location::{BufferLocation, TextureLocation};
pub use policy::{Placement, PlacementFigures};
pub use range_pool::PoolFigures;
use ringfence_hal as device;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
