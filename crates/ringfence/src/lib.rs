//! Ringfence manages GPU memory, descriptors and their lifetimes.
#![warn(missing_docs)]

pub mod device;

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
