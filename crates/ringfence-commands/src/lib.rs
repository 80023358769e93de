//! Commands on the data of buffers and textures. [`Commands`] records them into the program's command list, with the
//! barriers that they need.
//!
//! | command | Vulkan | Direct3D 12 | usage | queue |
//! |---|---|---|---|---|
//! | [`fill_buffer`](Commands::fill_buffer) | `vkCmdFillBuffer` | `CopyBufferRegion` from a buffer of at most 64 KiB | `COPY_DST` | any |
//! | [`clear_color`](Commands::clear_color) | `vkCmdClearColorImage` | `ClearRenderTargetView` | `COPY_DST`; Direct3D 12: `RENDER_TARGET` | graphics; Vulkan: also compute |
//! | [`clear_depth_stencil`](Commands::clear_depth_stencil) | `vkCmdClearDepthStencilImage` | `ClearDepthStencilView` | `COPY_DST`; Direct3D 12: `DEPTH_STENCIL` | graphics |
//! | [`copy_buffer`](Commands::copy_buffer) | `vkCmdCopyBuffer` | `CopyBufferRegion` | `COPY_SRC`, `COPY_DST` | any |
//! | [`resize_buffer`](Commands::resize_buffer) | `vkCmdCopyBuffer` | `CopyBufferRegion` | `COPY_SRC`, `COPY_DST` | any |
//! | [`swap_mips`](Commands::swap_mips) | `vkCmdCopyImage` | `CopyTextureRegion` | `COPY_SRC`, `COPY_DST` | as `copy_box` |
//! | [`copy_box`](Commands::copy_box) | `vkCmdCopyImage` | `CopyTextureRegion` | `COPY_SRC`, `COPY_DST` | any; depth and stencil on Vulkan: graphics |
//! | [`copy_buffer_to_box`](Commands::copy_buffer_to_box) | `vkCmdCopyBufferToImage` | `CopyTextureRegion` | `COPY_SRC`, `COPY_DST` | as `copy_box` |
//! | [`copy_box_to_buffer`](Commands::copy_box_to_buffer) | `vkCmdCopyImageToBuffer` | `CopyTextureRegion` | `COPY_SRC`, `COPY_DST` | as `copy_box` |
//! | [`read_buffer`](Commands::read_buffer) | `vkCmdCopyBuffer` | `CopyBufferRegion` | `COPY_SRC` | any |
//! | [`read_texels`](Commands::read_texels) | `vkCmdCopyImageToBuffer` | `CopyTextureRegion` | `COPY_SRC` | as `copy_box` |
//! | [`resolve`](Commands::resolve) | `vkCmdResolveImage` | `ResolveSubresource` | `COPY_SRC`, `COPY_DST` | graphics |
//! | [`generate_mips`](Commands::generate_mips) | `vkCmdBlitImage` | refused: there is no blit | `COPY_SRC` and `COPY_DST` | graphics |
//!
//! Every command checks its arguments first: the allocator of the resources, usages, formats, ranges, aspects, samples,
//! and the support of the device. A command that fails records nothing, and its [`CommandError`] has the numbers.
//!
//! # First use of a texture
//!
//! If a command writes all texels of a subresource, the previous contents and layout of the subresource do not matter.
//! These commands can therefore be the first use of a texture:
//!
//! - a clear of all aspects, a resolve, or a copy to a whole mip level of a format with one aspect,
//! - [`generate_mips`](Commands::generate_mips), for all levels except the first.
//!
//! Other commands need a texture in the layout or state of the recorder.

mod clear;
mod commands;
mod copy;
mod error;
mod mips;
mod owned;
mod readback;
mod replace;
mod resolve;

use ringfence_hal as device;

pub use clear::DepthStencil;
pub use commands::Commands;
pub use copy::{BufferTexels, TexelOrigin};
pub use device::transfer::{ClearColor, SubresourceRange};
pub use error::CommandError;
pub use resolve::ResolvedLayers;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
