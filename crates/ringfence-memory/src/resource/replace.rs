//! Replacing a resource that the GPU may be using, without a wait.
//!
//! ```text
//!   frame n    reads old ───────────────────────┐
//!   frame n+1  swap: new is made, copies old ─▶ new are given to record, old is retired
//!              reads new                        │      │
//!                                  old goes after both ┘
//! ```
//!
//! The new resource is made first: if that fails, everything is as it was. For a moment both are in memory. What has to
//! be copied is given as data, to be recorded in an open frame *before* anything that reads the new resource; the old
//! one lives at least until that frame is complete, and is resident as long.
//!
//! | operation | cost |
//! |---|---|
//! | replace, resize, swap of mips | that of making the new resource; O(mips) |

use std::fmt;

use super::{Buffer, Resource, ResourceKind, Texture};
use crate::device::{BufferInfo, Buffers, Create, Device, Dimension, RawBuffer, RawTexture, TextureDesc, Textures};
use crate::error::Error;
use crate::memory::AllocationDesc;
use crate::timeline::Frame;

/// Why nothing was replaced. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The frame is of another allocator: it would not keep the old resource alive.
    #[error("the frame is not of the resource's allocator")]
    ForeignFrame,
    /// More bytes are to be kept than one of the two buffers has.
    #[error("{keep_bytes} bytes are to be kept of a buffer of {old_bytes} bytes in one of {new_bytes} bytes")]
    TooMuchToKeep {
        /// What was to be kept.
        keep_bytes: u64,
        /// What the old buffer has.
        old_bytes: u64,
        /// What the new one would have.
        new_bytes: u64,
    },
    /// The two descriptions are not of one mip chain.
    #[error("{:?} texels with {} mips and {:?} texels with {} mips are not parts of one chain of mips, or differ in \
        dimension, format, layers or samples",
        present.0, present.1, wanted.0, wanted.1)]
    NotOneChain {
        /// Texels across, down and deep of the present texture, and its mips.
        present: ([u32; 3], u32),
        /// The same of the wanted one.
        wanted: ([u32; 3], u32),
    },
    /// What the texture was made as has no portable description ([`Texture::desc`]), so that its mips are not known.
    #[error("the texture's format or shape has no portable description")]
    NotDescribed,
    /// The new resource could not be made.
    #[error(transparent)]
    Make(#[from] Error),
}

/// Bytes to be copied on the device, by the recorder of the frame.
pub struct BufferCopy<D: Device> {
    /// Copied from: the old buffer, alive until the frame is complete.
    pub src: RawBuffer<D>,
    /// First byte there.
    pub src_offset: u64,
    /// Copied to.
    pub dst: RawBuffer<D>,
    /// First byte there.
    pub dst_offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A mip of every layer to be copied on the device.
pub struct MipCopy<D: Device> {
    /// Copied from: the old texture, alive until the frame is complete.
    pub src: RawTexture<D>,
    /// Mip level there.
    pub src_mip: u32,
    /// Copied to.
    pub dst: RawTexture<D>,
    /// Mip level there.
    pub dst_mip: u32,
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Texels deep; 1 unless the texture has three dimensions.
    pub depth: u32,
    /// Array layers, from the first on.
    pub layers: u32,
}

/// What a swap of mips leaves to do.
pub struct MipSwap<D: Device> {
    /// What both textures have.
    pub copies: Vec<MipCopy<D>>,
    /// Mips of the new texture that the old one does not have, ascending: the program fills them.
    pub to_fill: Vec<u32>,
}

#[track_caller]
pub(super) fn resize<D: Device>(
    buffer: &mut Buffer<D>,
    frame: &Frame,
    info: &BufferInfo<'_, D>,
    keep_bytes: u64,
    desc: AllocationDesc<'_>,
) -> Result<Option<BufferCopy<D>>, ReplaceError> {
    let shared = buffer.shared();
    if !shared.lifetimes.owns(frame) {
        return Err(ReplaceError::ForeignFrame);
    }
    let old_bytes = buffer.size();
    let rounded = desc.rounded::<D, Buffers>(&shared.device, info);
    let asked = rounded.as_ref().map_or(info, |(rounded, _)| rounded);
    let new_bytes = match Create::<Buffers>::portable(&shared.device, asked) {
        Some(desc) => desc.size,
        None => shared.measure::<Buffers>(asked).map_err(Error::from)?.size,
    };
    if keep_bytes > old_bytes.min(new_bytes) {
        return Err(ReplaceError::TooMuchToKeep { keep_bytes, old_bytes, new_bytes });
    }
    if keep_bytes > 0 {
        hold_resident(buffer, frame)?;
    }
    let new = Buffer::create(shared, info, desc, buffer.pool().as_ref())?;
    let (src, dst) = (buffer.object().clone(), new.object().clone());
    buffer.become_other(new, (keep_bytes > 0).then_some(frame));
    Ok((keep_bytes > 0).then_some(BufferCopy { src, src_offset: 0, dst, dst_offset: 0, size: keep_bytes }))
}

#[track_caller]
pub(super) fn swap_mips<D: Device>(
    texture: &mut Texture<D>,
    frame: &Frame,
    wanted: &TextureDesc,
    desc: AllocationDesc<'_>,
) -> Result<MipSwap<D>, ReplaceError> {
    let shared = texture.shared();
    if !shared.lifetimes.owns(frame) {
        return Err(ReplaceError::ForeignFrame);
    }
    let present = *texture.desc().ok_or(ReplaceError::NotDescribed)?;
    let (src_first, dst_first) = overlap(&present, wanted)?;
    let info = Create::<Textures>::describe(&shared.device, wanted).map_err(Error::from)?;
    hold_resident(texture, frame)?;
    let new = Texture::create(shared, &info, desc, texture.pool().as_ref())?;
    // SAFETY: `info` was described by it.
    let new = unsafe { new.described(*wanted) };
    let count = (present.mips - src_first).min(wanted.mips - dst_first);
    let copies = (0..count).map(|step| {
        let [width, height, depth] = extent(&present, src_first + step);
        MipCopy {
            src: texture.object().clone(),
            src_mip: src_first + step,
            dst: new.object().clone(),
            dst_mip: dst_first + step,
            width,
            height,
            depth,
            layers: present.layers,
        }
    });
    let copies: Vec<_> = copies.collect();
    texture.become_other(new, (!copies.is_empty()).then_some(frame));
    // Large mips are new, and small ones that the old chain did not reach down to.
    let to_fill = (0..dst_first).chain(dst_first + count..wanted.mips).collect();
    Ok(MipSwap { copies, to_fill })
}

/// Brings the memory of what is copied from back, if it is evicted, and holds it until the frame is complete: once it
/// is replaced, no list of uses takes it.
fn hold_resident<D: Device + Create<K>, K: ResourceKind>(
    resource: &Resource<D, K>,
    frame: &Frame,
) -> Result<(), ReplaceError> {
    let residence = resource.held_memory().residence.as_ref();
    resource.shared().hold_resident(residence, frame).map_err(|error| Error::from(error).into())
}

fn extent(desc: &TextureDesc, mip: u32) -> [u32; 3] {
    [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1))
}

/// The first mip that both have: its level here and there.
fn overlap(present: &TextureDesc, wanted: &TextureDesc) -> Result<(u32, u32), ReplaceError> {
    let shape = |desc: &TextureDesc| (extent(desc, 0), desc.mips);
    let refused = ReplaceError::NotOneChain { present: shape(present), wanted: shape(wanted) };
    let is_chain = |desc: &TextureDesc| {
        let side = desc.width.max(desc.height).max(desc.depth);
        side > 0 && (1..=side.ilog2() + 1).contains(&desc.mips)
    };
    // A cube is an array of its faces; not every API tells them apart once they are made.
    let dimension = |desc: &TextureDesc| if desc.dimension == Dimension::Cube { Dimension::D2 } else { desc.dimension };
    let kind = |desc: &TextureDesc| (dimension(desc), desc.format, desc.layers, desc.samples);
    if !is_chain(present) || !is_chain(wanted) || kind(present) != kind(wanted) {
        return Err(refused);
    }
    let level_of = |large: &TextureDesc, small: &TextureDesc| {
        (0..large.mips).find(|&level| extent(large, level) == extent(small, 0))
    };
    match (level_of(present, wanted), level_of(wanted, present)) {
        (Some(level), _) => Ok((level, 0)),
        (None, Some(level)) => Ok((0, level)),
        (None, None) => Err(refused),
    }
}

impl<D: Device> fmt::Debug for BufferCopy<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { src, src_offset, dst, dst_offset, size } = self;
        write!(f, "BufferCopy({size} bytes, {src:?} from {src_offset} to {dst:?} from {dst_offset})")
    }
}

impl<D: Device> fmt::Debug for MipCopy<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { src, src_mip, dst, dst_mip, width, height, depth, layers } = self;
        write!(f, "MipCopy({width}x{height}x{depth}x{layers}, mip {src_mip} of {src:?} to mip {dst_mip} of {dst:?})")
    }
}

impl<D: Device> fmt::Debug for MipSwap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MipSwap").field("copies", &self.copies).field("to_fill", &self.to_fill).finish()
    }
}

#[cfg(test)]
mod tests;
