//! Errors of binding sparse pages.

use ringfence_memory::Error;

use crate::device::TexelBox;

/// The reason why pages were not bound or unbound. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// The pages are outside of the buffer.
    #[error("pages {first}..{end} are outside the sparse buffer of {page_count} pages")]
    OutOfRange {
        /// The first page of the request.
        first: u64,
        /// The page after the last one.
        end: u64,
        /// Number of pages of the buffer.
        page_count: u64,
    },
    /// The region is outside of the texture or empty, or the texture lacks the region's aspect.
    #[error("{region:?} is outside the sparse texture of {mips} mips and {layers} layers, or is empty")]
    OutsideTexture {
        /// The region of the request.
        region: TexelBox,
        /// Number of mip levels of the texture.
        mips: u32,
        /// Number of array layers of the texture.
        layers: u32,
    },
    /// The memory of the pages could not be allocated.
    #[error(transparent)]
    Memory(#[from] Error),
}
