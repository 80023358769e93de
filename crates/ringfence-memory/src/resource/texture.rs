//! Textures: their parts, and another number of mip levels.

use ringfence_timeline::Frame;

use super::{MipSwap, ReplaceError, Resource, replace};
use crate::device::record::TextureParts;
use crate::device::{Device, TexelBox, TexelError, TextureDesc, Textures};
use crate::memory::AllocationDesc;

/// A texture with its memory. See [`Resource`].
///
/// Use it for sampled images and render targets that live longer than a frame. Create it with
/// [`Allocator::create_texture`](crate::Allocator::create_texture), and fill it with an `UploadBatch` of `ringfence`. A
/// drop retires it, as a [`Buffer`](crate::Buffer). Targets of one frame can share memory: see `TransientAllocator` of
/// `ringfence`.
///
/// # Examples
///
/// Uploads all mip levels. `device`, `fence`, `memory` and `timeline` are created as in the example of
/// [`Allocator`](crate::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use std::time::Duration;
/// use ringfence::device::{TextureDesc, TextureUsage};
/// use ringfence::upload::{ChainOrder, UploadDesc};
/// use ringfence::{AllocationDesc, UploadBatch, UploadRing};
///
/// let ring = UploadRing::new(&memory, UploadDesc::default())?;
/// let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
/// let desc = TextureDesc { width: 4, height: 4, mips: 3, usage, ..Default::default() };
/// // On Vulkan, `vulkan::TextureInfo` describes a texture with Vulkan's own flags.
/// let albedo = memory.create_texture(&desc, AllocationDesc { name: "albedo", ..Default::default() })?;
///
/// let (frame, mut batch, mut commands) = (timeline.begin(), UploadBatch::new(), Vec::new());
/// let texels = [9; 4 * (16 + 4 + 1)]; // 4 bytes for each texel of three mip levels
/// batch.upload_texture(&ring, &frame, (&texels, ChainOrder::MipByMip), &albedo)?;
/// // SAFETY: the commands are submitted as `frame`. On Vulkan, they are recorded into a `vulkan::CopyRecorder`.
/// unsafe { batch.record(&mut commands) }?;
/// device.submit(0, &[], commands, (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
/// assert!(!albedo.take_content_lost()); // the frame was submitted
///
/// drop(albedo); // retired until the copies are complete
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 1);
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Texture<D> = Resource<D, Textures>;

impl<D: Device> Texture<D> {
    /// Returns the extent, mips and layers, and the layout of the texels in a buffer. Returns `None` for multi-planar
    /// formats, and if the device does not know the format.
    #[must_use]
    pub fn parts(&self) -> Option<&TextureParts> {
        self.bound.parts.as_ref()
    }

    /// Returns the box of all texels of a mip level, in every layer and depth slice, for copies and readbacks.
    ///
    /// # Errors
    /// [`TexelError::UnknownFormat`] if the device does not know the format ([`Texture::parts`]);
    /// [`TexelError::NoMip`] if there is no such mip level.
    pub fn mip_box(&self, mip: u32) -> Result<TexelBox, TexelError> {
        let parts = self.parts().ok_or(TexelError::UnknownFormat)?;
        let mips = parts.mips;
        if mip < mips { Ok(TexelBox::mip(parts, mip)) } else { Err(TexelError::NoMip { mip, mips }) }
    }

    /// Replaces this texture with one of the same mip chain that has more or fewer mips, for streaming. The first mip
    /// of one of the two must be a mip of the other. Returns the copies to record in `frame`, and the mips that the
    /// program must fill. The new texture is created in the same [`Pool`](crate::Pool), unless the pool was dropped.
    ///
    /// # Errors
    /// An error changes nothing:
    ///
    /// - The frame belongs to another allocator.
    /// - The two textures are not parts of one mip chain, or this one has no portable description ([`Texture::desc`]).
    /// - This texture could not be made resident, or the new one could not be created.
    ///
    /// # Examples
    ///
    /// A streamed texture gets its larger mip levels:
    ///
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::AllocationDesc;
    /// # use ringfence::device::{TextureDesc, TextureUsage};
    /// # let usage = TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    /// let small = TextureDesc { width: 64, height: 64, mips: 7, usage, ..Default::default() };
    /// let large = TextureDesc { width: 256, height: 256, mips: 9, ..small };
    /// let mut rock = memory.create_texture(&small, AllocationDesc::default())?;
    ///
    /// let frame = timeline.begin();
    /// let swap = rock.swap_mips(&frame, &large, AllocationDesc::default())?;
    /// assert_eq!(swap.copies.len(), 7); // record these copies: source, destination, mip levels, extent
    /// assert_eq!((swap.copies[0].src_mip, swap.copies[0].dst_mip), (0, 2));
    /// assert_eq!(swap.to_fill, [0, 1]); // upload these mip levels, for example with `UploadBatch::copy_texels`
    /// # frame.discard();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn swap_mips(
        &mut self,
        frame: &Frame,
        wanted: &TextureDesc,
        desc: AllocationDesc<'_>,
    ) -> Result<MipSwap<D>, ReplaceError> {
        replace::swap_mips(self, frame, wanted, desc)
    }
}
