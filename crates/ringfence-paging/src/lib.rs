//! Resources larger than the card, on any device.
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
