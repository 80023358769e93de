//! Replacing a resource that the GPU may be using, without a wait.
//!
//! ```text
//!   frame n    reads old ───────────────────────┐
//!   frame n+1  swap: new is made, copies old ─▶ new are given to record, old is retired
//!              reads new                        │      │
//!                              old is freed after both ┘
//! ```
//!
//! The new resource is created first: if the creation fails, nothing has changed. Until the old one is freed, both need
//! memory. The copies are returned as data. The program must record them in an open frame, *before* any command that
//! reads the new resource. The old resource stays alive and resident at least until that frame is complete. The cost is
//! that of creating the new resource, and O(mips).

use std::fmt;
use std::panic;
use std::sync::Arc;

use ringfence_decision::{Error, rounded};
use ringfence_timeline::Frame;

use super::{Buffer, Resource, ResourceKind, Texture};
use crate::device::record::{CopyRegion, Record};
use crate::device::{BufferInfo, Buffers, Create, Describe, Device, RawBuffer, RawTexture, TextureDesc};
use crate::memory::AllocationDesc;

/// The reason why a resource was not replaced. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The frame belongs to another allocator, so it would not keep the old resource alive.
    #[error("the frame belongs to another allocator than the resource")]
    ForeignFrame,
    /// The bytes to keep exceed one of the two buffers.
    #[error("{keep_bytes} bytes to keep exceed the old buffer ({old_bytes} bytes) or the new one ({new_bytes} bytes)")]
    TooMuchToKeep {
        /// Number of bytes to keep.
        keep_bytes: u64,
        /// Size of the old buffer, in bytes.
        old_bytes: u64,
        /// Size of the new buffer, in bytes.
        new_bytes: u64,
    },
    /// The two textures are not parts of one mip chain.
    #[error("{:?} texels with {} mips and {:?} texels with {} mips are not parts of one mip chain, or differ in \
        dimension, format, layers or samples",
        present.0, present.1, wanted.0, wanted.1)]
    NotOneChain {
        /// Width, height and depth of the current texture in texels, and its number of mips.
        present: ([u32; 3], u32),
        /// Width, height and depth of the wanted texture in texels, and its number of mips.
        wanted: ([u32; 3], u32),
    },
    /// The texture has no portable description ([`Texture::desc`]), so its mips are not known.
    #[error("the texture's format or shape has no portable description")]
    NotDescribed,
    /// The new resource could not be created, or the old one could not be made resident.
    #[error(transparent)]
    Make(#[from] Error),
}

/// A buffer copy on the device, to be recorded in the frame.
pub struct BufferCopy<D: Device> {
    /// Source: the old buffer, alive until the frame is complete.
    pub src: RawBuffer<D>,
    /// Offset of the first byte in the source, in bytes.
    pub src_offset: u64,
    /// Destination: the new buffer.
    pub dst: RawBuffer<D>,
    /// Offset of the first byte in the destination, in bytes.
    pub dst_offset: u64,
    /// Number of bytes.
    pub size: u64,
}

impl<D: Device> BufferCopy<D> {
    /// Records the copy with its barriers. Earlier uses of both buffers on this queue happen before the copy, later uses
    /// after it.
    ///
    /// # Safety
    /// As [`Record::begin_copies`]; the list is submitted as the frame that was passed to [`Buffer::resize`].
    pub unsafe fn record(&self, into: &mut impl Record<D>) {
        let Self { src, src_offset, dst, dst_offset, size } = self;
        let region = CopyRegion { src_offset: *src_offset, dst_offset: *dst_offset, size: *size };
        let targets = std::slice::from_ref(dst);
        // SAFETY: both buffers live until the frame is complete, and the region is inside them. The caller promises the
        // rest.
        unsafe {
            into.begin_copies(targets, &[]);
            into.copy_buffer(src, dst, &[region]);
            into.end_copies(targets, &[]);
        }
    }
}

/// A copy of one mip, with all layers, on the device.
pub struct MipCopy<D: Device> {
    /// Source: the old texture, alive until the frame is complete.
    pub src: RawTexture<D>,
    /// Mip level in the source.
    pub src_mip: u32,
    /// Destination: the new texture.
    pub dst: RawTexture<D>,
    /// Mip level in the destination.
    pub dst_mip: u32,
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
    /// Depth in texels; 1 unless the texture has three dimensions.
    pub depth: u32,
    /// Number of array layers, from layer 0 on.
    pub layers: u32,
}

/// The work that a swap of mips leaves to the program.
pub struct MipSwap<D: Device> {
    /// Copies of the mips that both textures have.
    pub copies: Vec<MipCopy<D>>,
    /// Mips of the new texture that the old one does not have, ascending: the program fills them.
    pub to_fill: Vec<u32>,
}

#[track_caller]
pub(super) fn resize<D: Device>(
    buffer: &mut Buffer<D>,
    frame: &Frame,
    info: &impl Describe<D, Buffers>,
    keep_bytes: u64,
    desc: AllocationDesc<'_>,
) -> Result<Option<BufferCopy<D>>, ReplaceError> {
    let shared = buffer.shared();
    if !shared.lifetimes.owns(frame) {
        return Err(ReplaceError::ForeignFrame);
    }
    let (shared, at) = (Arc::clone(shared), panic::Location::caller());
    let resized = info.with_info(&shared.device, |info| resize_as(buffer, frame, info, keep_bytes, desc, at));
    resized.map_err(Error::from)?
}

fn resize_as<D: Device>(
    buffer: &mut Buffer<D>,
    frame: &Frame,
    info: &BufferInfo<'_, D>,
    keep_bytes: u64,
    desc: AllocationDesc<'_>,
    at: &'static panic::Location<'static>,
) -> Result<Option<BufferCopy<D>>, ReplaceError> {
    let shared = buffer.shared();
    let old_bytes = buffer.size();
    let rounded = rounded::<D, Buffers>(&desc, &shared.device, info);
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
    let new = Buffer::create_at(shared, info, desc, buffer.pool().as_ref(), at)?;
    let (src, dst) = (buffer.object().clone(), new.object().clone());
    buffer.replace_with(new, (keep_bytes > 0).then_some(frame));
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
    let shape = |desc: &TextureDesc| (desc.extent(0), desc.mips);
    let not_one_chain = ReplaceError::NotOneChain { present: shape(&present), wanted: shape(wanted) };
    let (src_first, dst_first) = present.common_mip(wanted).ok_or(not_one_chain)?;
    hold_resident(texture, frame)?;
    let new = Texture::create(shared, wanted, desc, texture.pool().as_ref())?;
    // SAFETY: `info` was created from this description.
    let new = unsafe { new.described(*wanted) };
    let count = (present.mips - src_first).min(wanted.mips - dst_first);
    let copies = (0..count).map(|step| {
        let [width, height, depth] = present.extent(src_first + step);
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
    texture.replace_with(new, (!copies.is_empty()).then_some(frame));
    // The new mips are larger than the old chain, or smaller than its last mip.
    let to_fill = (0..dst_first).chain(dst_first + count..wanted.mips).collect();
    Ok(MipSwap { copies, to_fill })
}

/// Makes the memory of the copy's source resident, and keeps it resident until the frame is complete. This is necessary
/// because the program cannot add the source to a use list after the replacement.
fn hold_resident<D: Device + Create<K>, K: ResourceKind>(
    resource: &Resource<D, K>,
    frame: &Frame,
) -> Result<(), ReplaceError> {
    let residence = resource.held_memory().residence.as_ref();
    resource.shared().hold_resident(residence, frame).map_err(|error| Error::from(error).into())
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
