//! Sparse buffers and textures: their pages are bound to memory as they are needed.
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
//! Binds and unbinds are collected in a [batch](SparseBuffer::batch), and [`SparseBuffer::submit`] submits them to a
//! queue, in order with its other work. The memory of a page that is unbound is freed once every submission that had
//! begun by then is complete.
//!
//! A [texture](SparseTexture)'s pages are tiles: rectangles of texels whose size the device says (Direct3D 12's
//! standard shapes, and most devices' under Vulkan). The mips that are too small for tiles are in *mip tails*, one for
//! each layer or one for all, which are bound as a whole. Both are described by [`TextureTiling`].
//!
//! | operation | cost |
//! |---|---|
//! | bind | a page's memory each (O(1), lock-free when pages of 64 KiB are common) |
//! | unbind | O(log batch) a page |
//! | submit | O(batch), one driver call; on Direct3D 12 one a run |
//!
//! Reads of pages without memory give what the device says ([`UnboundReads`]), writes there are lost. Textures have two
//! dimensions, and one sample a texel.

mod error;
mod resource;
mod table;

pub use error::SparseError;
pub use resource::{PageRun, SparseBuffer, SparseKind, SparseResource, SparseTexture};

pub use crate::device::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
