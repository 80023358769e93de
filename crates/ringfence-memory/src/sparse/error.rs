//! What can be asked for, and why it was not bound.

use crate::error::Error;

/// Texels of a mip of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SparseRegion {
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// First texel across.
    pub x: u32,
    /// First texel down.
    pub y: u32,
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
}

/// Why pages were not bound. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// The pages lie outside the buffer.
    #[error("pages {first}..{end} lie outside the sparse buffer of {page_count} pages")]
    OutOfRange {
        /// The first page that was asked for.
        first: u64,
        /// The page after the last one.
        end: u64,
        /// Pages of the buffer.
        page_count: u64,
    },
    /// The texels lie outside the texture, or there are none of them.
    #[error("{region:?} lies outside the sparse texture of {mips} mips and {layers} layers, or is empty")]
    OutsideTexture {
        /// What was asked for.
        region: SparseRegion,
        /// Mip levels of the texture.
        mips: u32,
        /// Array layers of the texture.
        layers: u32,
    },
    /// There is no memory for them.
    #[error(transparent)]
    Memory(#[from] Error),
}
