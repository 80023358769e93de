//! Ringfence manages GPU memory, descriptors and their lifetimes.
#![warn(missing_docs)]

pub mod device;
pub mod memory;
