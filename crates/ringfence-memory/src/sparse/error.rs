//! What can be asked for, and why it was not bound.

use crate::device::TexelBox;
use crate::error::Error;

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
    /// The texels lie outside the texture, or there are none of them, or it has no such aspect.
    #[error("{region:?} lies outside the sparse texture of {mips} mips and {layers} layers, or is empty")]
    OutsideTexture {
        /// What was asked for.
        region: TexelBox,
        /// Mip levels of the texture.
        mips: u32,
        /// Array layers of the texture.
        layers: u32,
    },
    /// There is no memory for them.
    #[error(transparent)]
    Memory(#[from] Error),
}
