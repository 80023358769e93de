//! Sparse buffers and textures: a page is bound to memory when the program needs it.
//!
//! ```text
//!   SparseBuffer   │ page 0 │ page 1 │ page 2 │ page 3 │ page 4 │ …     addresses, or the tiles of a texture: the
//!   SparseTexture                                                      driver's object
//!                      │        │                  │
//!                      ▼        ▼                  ▼
//!   table           block 3  block 3   none     block 8   none          memory: slots and ranges of the arenas
//!
//!   bind(range), unbind(range) ──▶ batch: runs of pages, as data ──submit(queue)──▶ one call to the driver
//!                                                                       │
//!                                           pages that lose their memory are retired by sync points
//! ```
//!
//! Binds and unbinds are collected in a [batch](SparseBuffer::batch). [`SparseBuffer::submit`] submits the batch to a
//! queue; it is executed in order with the queue's other work. The memory of an unbound page is freed once every
//! submission that had begun before the submit is complete.
//!
//! The pages of a [texture](SparseTexture) are tiles: rectangles of texels, in the size that the device chooses (on
//! Direct3D 12 and most Vulkan devices, the standard sizes). The mips that are too small for tiles are in *mip tails*:
//! one tail for each layer, or one for all layers. A tail is bound as a whole. [`TextureTiling`] describes both.
//!
//! | operation | cost |
//! |---|---|
//! | bind | for each page, an allocation: O(1), and lock-free if pages are slots of a pool, as common sizes are |
//! | unbind | O(log batch) for each page |
//! | submit | O(batch), one driver call; on Direct3D 12, one for each run of pages, wait and signal |
//!
//! Reads of pages without memory return a value that depends on the device ([`UnboundReads`]); writes to them are lost.
//! Sparse textures are two-dimensional, with one sample per texel.
#![warn(missing_docs)]

mod error;
mod resource;
mod table;

use ringfence_hal as device;

pub use error::SparseError;
pub use resource::{PageRun, SparseBuffer, SparseKind, SparseResource, SparseTexture};

pub use crate::device::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
