//! Resources that need more memory than the device has.
//!
//! ```text
//!   host memory                                     device memory, at most the limit
//!   ┌──────────────────────────────┐                ┌─────────────────────┐
//!   │ contents of every resource   │ ── used ─────▶ │ resources in use,   │
//!   │                              │ ◀── written ── │ and those that will │
//!   └──────────────────────────────┘    no room     │ be used soon        │
//!                                       ──▶ leaves  └─────────────────────┘
//! ```
//!
//! [`Paging`] owns the resources. [`PageUses`] lists those that a frame uses, and [`Paging::commit`] records copies for
//! those that are away (not on the device). If there is no room, others leave: the lowest priority first, then the
//! latest expected next use.
#![warn(missing_docs)]

mod desc;
mod error;
mod handle;
mod host_copy;
mod item;
mod paging;
mod policy;

pub use desc::{PageDesc, PagingDesc, WhenAway};
pub use error::PagingError;
pub use handle::{PageUses, Paged, PagedBuffer, PagedTexture};
pub use paging::{Paging, PagingStep, PagingTotals};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
