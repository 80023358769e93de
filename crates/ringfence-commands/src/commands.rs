//! The recorder of commands on data.
//!
//! ```text
//!   Commands { allocator, frame, recorder }
//!      │ clear_color(texture, range, colour)
//!      ├─ checks: owner, usage, format, range, the device's support ──▶ CommandError, nothing is recorded
//!      └─ Transfer::clear_texture: barrier, command, barrier
//! ```

use std::fmt;
use std::ops::Range;

use ringfence_hal::{BufferDesc, BufferUsage, RawBuffer, TexelBox, TextureDesc};
use ringfence_memory::memory::{AllocationDesc, Location};
use ringfence_memory::{Allocator, Buffer, Frame, Texture};
use ringfence_upload::{CopyTarget, Readback, ReadbackRing};
use smallvec::SmallVec;

use crate::clear::{self, DepthStencil};
use crate::copy::{self, BufferTexels, Rules, TexelCopy, TexelOrigin};
use crate::device::record::CopyRegion;
use crate::device::transfer::{ClearColor, SubresourceRange, Transfer, TransferSupport};
use crate::owned::{Access, Checked, check_aligned};
use crate::resolve::{self, ResolvedLayers};
use crate::{CommandError, mips, readback, replace};

/// Largest size of the buffer that a fill copies from, in bytes.
const FILL_BYTES_MAX: u64 = 64 << 10;

/// Records commands on data into a command list, each with its barriers. The [crate] documentation lists the commands.
///
/// A resource that is dropped after its command was recorded lives until the frame is complete. If the frame is not
/// submitted, the commands do not run. Resources then keep their contents, unless [`Commands::resize_buffer`] or
/// [`Commands::swap_mips`] has replaced them.
pub struct Commands<'a, D: TransferSupport, R: Transfer<D>> {
    memory: &'a Allocator<D>,
    recorder: &'a mut R,
    /// Granularity of texel copies on the queue, in blocks.
    unit: [u32; 3],
    frame: &'a Frame,
}

impl<'a, D: TransferSupport, R: Transfer<D>> Commands<'a, D, R> {
    /// Begins to record commands into `recorder`. Its command list is submitted as `frame`. The frame must belong to a
    /// timeline of `memory`, and all resources of the commands must belong to `memory`.
    ///
    /// # Errors
    /// [`CommandError::ForeignFrame`].
    ///
    /// # Safety
    /// - The command list of the recorder is in the recording state, and its queue supports the commands. Its commands
    ///   are submitted as `frame`, or never.
    /// - Before each command, its textures are in the layout or state of the recorder, except subresources that the
    ///   command overwrites as a whole. Buffers are in the common state on Direct3D 12.
    /// - Other commands in the list, and on other queues, do not use the resources at the same time.
    /// - No resource is replaced or moved between a command and the submission of its frame, except by these commands.
    pub unsafe fn new(memory: &'a Allocator<D>, frame: &'a Frame, recorder: &'a mut R) -> Result<Self, CommandError> {
        if !memory.shared().owns(frame) {
            return Err(CommandError::ForeignFrame { frame: frame.point() });
        }
        Ok(Self { memory, recorder, unit: [1; 3], frame })
    }

    /// Sets the granularity of texel copies on the queue, in blocks (width, height, depth): on Vulkan, the
    /// `minImageTransferGranularity` of its queue family. The default is 1, as on graphics and compute queues.
    #[must_use]
    pub const fn transfer_granularity(mut self, blocks: [u32; 3]) -> Self {
        self.unit = blocks;
        self
    }

    fn checked(&self, command: &'static str) -> Checked {
        Checked { command, owner: self.memory.shared().owner() }
    }

    fn rules(&self) -> Rules {
        Rules::of(self.memory.device().capabilities(), self.unit)
    }

    /// Sets the bytes `range` of a buffer to a value of 32 bits that is repeated. Both ends of the range must be
    /// multiples of 4. If the API has no such command, creates a buffer of at most 64 KiB in upload memory, which is
    /// recycled, and copies from it.
    ///
    /// # Errors
    /// - The usage `COPY_DST` is missing.
    /// - The range is empty, unaligned or outside the buffer.
    /// - The buffer is in upload memory or belongs to another allocator.
    /// - The buffer with the value could not be created.
    pub fn fill_buffer(&mut self, dst: &impl CopyTarget<D>, range: Range<u64>, value: u32) -> Result<(), CommandError> {
        let (offset, size) = (range.start, range.end.saturating_sub(range.start));
        let (object, at) = self.checked("fill_buffer").buffer(dst, Access::Writes, (offset, size))?;
        check_aligned("an offset", at, 4)?;
        check_aligned("a size", size, 4)?;
        if !self.memory.device().has_fill() {
            return self.fill_by_copies(object, at, size, value);
        }
        // SAFETY: the buffer is alive and has the range; `new` has the promises about the list.
        Ok(unsafe { self.recorder.fill_buffer(object, at, size, value) }?)
    }

    /// Fills a range by copies from a buffer with the value.
    fn fill_by_copies(&mut self, dst: &RawBuffer<D>, offset: u64, size: u64, value: u32) -> Result<(), CommandError> {
        let piece = size.min(FILL_BYTES_MAX);
        let desc = BufferDesc { size: piece, usage: BufferUsage::COPY_SRC };
        let at = AllocationDesc { location: Location::Upload, name: "value of a fill", ..Default::default() };
        let mut source = self.memory.create_buffer(&desc, at)?;
        source.write(0, &value.to_le_bytes().repeat(piece as usize / 4))?;
        let regions: SmallVec<[_; 16]> = (0..size.div_ceil(piece))
            .map(|index| CopyRegion {
                src_offset: 0,
                dst_offset: offset + index * piece,
                size: piece.min(size - index * piece),
            })
            .collect();
        // SAFETY: both buffers have the ranges. The frame is open, so the source lives until it is complete.
        unsafe { self.recorder.copy_buffer_regions(source.object(), dst, &regions) };
        Ok(())
    }

    /// Clears subresources of a texture to a colour: `[f32; 4]` for normalized and floating-point formats, `[i32; 4]`
    /// or `[u32; 4]` for integers. All depth slices of a three-dimensional texture are cleared.
    ///
    /// # Errors
    /// - The usage is missing: see the table of the [crate](crate).
    /// - The format has no colour, is block-compressed, or has channels of another type than `color`.
    /// - The range is empty or outside the texture.
    /// - The texture belongs to another allocator.
    /// - The device does not support the clear.
    pub fn clear_color(
        &mut self,
        texture: &Texture<D>,
        range: SubresourceRange,
        color: impl Into<ClearColor>,
    ) -> Result<(), CommandError> {
        let checked = self.checked("clear_color");
        let clear = clear::color(checked, self.memory.device(), texture, range, color.into())?;
        // SAFETY: the texture is alive and has the subresources; `new` has the promises about the list.
        Ok(unsafe { self.recorder.clear_texture(&clear) }?)
    }

    /// Clears the depth, the stencil or both in subresources of a texture. Needs a graphics queue.
    ///
    /// # Errors
    /// - The usage is missing (see the table of the [crate](crate)), or the texture lacks an aspect.
    /// - The depth is not from 0 to 1.
    /// - The range is empty or outside the texture.
    /// - The texture belongs to another allocator.
    pub fn clear_depth_stencil(
        &mut self,
        texture: &Texture<D>,
        range: SubresourceRange,
        value: DepthStencil,
    ) -> Result<(), CommandError> {
        let checked = self.checked("clear_depth_stencil");
        let clear = clear::depth_stencil(checked, self.memory.device(), texture, range, value)?;
        // SAFETY: as in `clear_color`.
        Ok(unsafe { self.recorder.clear_texture(&clear) }?)
    }

    /// Copies `size` bytes from one buffer to another one.
    ///
    /// # Errors
    /// - A usage is missing: see the table of the [crate](crate).
    /// - A range is empty or outside its buffer.
    /// - The source is in readback memory, or the destination in upload memory.
    /// - Both ranges are in one buffer of the driver. Small buffers, and meshes, can share a buffer of the driver.
    /// - A buffer belongs to another allocator.
    pub fn copy_buffer(
        &mut self,
        (src, src_offset): (&impl CopyTarget<D>, u64),
        (dst, dst_offset): (&impl CopyTarget<D>, u64),
        size: u64,
    ) -> Result<(), CommandError> {
        let checked = self.checked("copy_buffer");
        let (src, src_offset) = checked.buffer(src, Access::Reads, (src_offset, size))?;
        let (dst, dst_offset) = checked.buffer(dst, Access::Writes, (dst_offset, size))?;
        if src == dst {
            return Err(CommandError::SameBuffer { size });
        }
        let region = CopyRegion { src_offset, dst_offset, size };
        // SAFETY: both buffers are alive and have the ranges; `new` has the promises about the list.
        unsafe { self.recorder.copy_buffer_regions(src, dst, &[region]) };
        Ok(())
    }

    /// Replaces a buffer with one of another size, and copies the first `keep_bytes` bytes of the old buffer
    /// ([`Buffer::resize`]). The old buffer lives until the frame is complete. If the frame is not submitted, the bytes
    /// are lost.
    ///
    /// # Errors
    /// After an error, nothing has changed.
    ///
    /// - A usage for the copy is missing.
    /// - `keep_bytes` exceeds the size of one of the two buffers.
    /// - A buffer is in memory that the copy cannot access, or belongs to another allocator.
    /// - The new buffer could not be created.
    #[track_caller]
    pub fn resize_buffer(
        &mut self,
        buffer: &mut Buffer<D>,
        desc: &BufferDesc,
        keep_bytes: u64,
        request: AllocationDesc<'_>,
    ) -> Result<(), CommandError> {
        replace::check_buffer(self.checked("resize_buffer"), buffer, desc, keep_bytes, &request)?;
        if let Some(copy) = buffer.resize(self.frame, desc, keep_bytes, request)? {
            let region = CopyRegion { src_offset: copy.src_offset, dst_offset: copy.dst_offset, size: copy.size };
            // SAFETY: the frame keeps the old buffer alive, and both buffers have the range; `new` has the promises
            // about the list.
            unsafe { self.recorder.copy_buffer_regions(&copy.src, &copy.dst, &[region]) };
        }
        Ok(())
    }

    /// Replaces a texture with one of the same mip chain that has more or fewer mips, and copies the mips that both
    /// have ([`Texture::swap_mips`]). Returns the mips that the program must fill. The old texture lives until the
    /// frame is complete. If the frame is not submitted, the contents are lost.
    ///
    /// # Errors
    /// After an error, nothing has changed.
    ///
    /// - A usage for the copies is missing.
    /// - The two textures are not parts of one mip chain.
    /// - The texture has no portable description or belongs to another allocator.
    /// - The new texture could not be created.
    #[track_caller]
    pub fn swap_mips(
        &mut self,
        texture: &mut Texture<D>,
        wanted: &TextureDesc,
        request: AllocationDesc<'_>,
    ) -> Result<Vec<u32>, CommandError> {
        replace::check_texture(self.checked("swap_mips"), self.memory.device(), texture, wanted)?;
        let swap = texture.swap_mips(self.frame, wanted, request)?;
        for copy in swap.copies.iter().flat_map(|copy| replace::mip_copies(wanted.format.texels(), copy)) {
            // SAFETY: the frame keeps the old texture alive, and both textures have the mip; `new` has the promises
            // about the list.
            unsafe { self.recorder.copy_texture_box(&copy) };
        }
        Ok(swap.to_fill)
    }

    /// Copies a box of texels of one texture to another one, or to other subresources of the same one. The texels of
    /// both must have the same size in bytes; on Direct3D 12, the formats may differ only in the type of their
    /// channels.
    ///
    /// # Errors
    /// - A usage is missing: see the table of the [crate](crate).
    /// - The box is not inside a texture, or cuts a block.
    /// - The texels have different sizes, the textures have different dimensions, or the device does not support copies
    ///   between the two formats.
    /// - Source and destination have a subresource in common.
    /// - A texture is multisampled or belongs to another allocator.
    pub fn copy_box(
        &mut self,
        src: &Texture<D>,
        from: &TexelBox,
        dst: &Texture<D>,
        to: TexelOrigin,
    ) -> Result<(), CommandError> {
        let (checked, rules) = (self.checked("copy_box"), self.rules());
        let copy = copy::textures(checked, self.memory.device(), rules, (src, from), (dst, to))?;
        // SAFETY: the textures are alive and contain the boxes, in different subresources; `new` has the promises about
        // the list.
        unsafe { self.recorder.copy_texture_box(&copy) };
        Ok(())
    }

    /// Copies texels from a buffer to a box of a texture.
    ///
    /// # Errors
    /// - A usage is missing: see the table of the [crate](crate).
    /// - The box is not inside the texture or cuts a block, or the texture is multisampled.
    /// - The texels are not inside the buffer.
    /// - An offset or pitch is unaligned, or a pitch is too small.
    /// - The buffer is in readback memory.
    /// - A resource belongs to another allocator.
    pub fn copy_buffer_to_box(
        &mut self,
        src: &impl CopyTarget<D>,
        layout: BufferTexels,
        dst: &Texture<D>,
        to: &TexelBox,
    ) -> Result<(), CommandError> {
        let (checked, rules) = (self.checked("copy_buffer_to_box"), self.rules());
        let from = (src, layout, Access::Reads);
        let copy = TexelCopy::new(checked, self.memory.device(), rules, from, (dst, to))?;
        let targets = copy.targets(dst.object());
        // SAFETY: both resources are alive and have the texels; `new` has the promises about the list.
        unsafe { self.recorder.copy_buffer_to_box(copy.buffer, &targets, &copy.regions) };
        Ok(())
    }

    /// Copies texels from a box of a texture to a buffer.
    ///
    /// # Errors
    /// As [`Commands::copy_buffer_to_box`], but the buffer must not be in upload memory (readback memory is allowed).
    pub fn copy_box_to_buffer(
        &mut self,
        src: &Texture<D>,
        from: &TexelBox,
        dst: &impl CopyTarget<D>,
        layout: BufferTexels,
    ) -> Result<(), CommandError> {
        let (checked, rules) = (self.checked("copy_box_to_buffer"), self.rules());
        let to = (dst, layout, Access::Writes);
        let copy = TexelCopy::new(checked, self.memory.device(), rules, to, (src, from))?;
        // SAFETY: as in `copy_buffer_to_box`.
        unsafe { self.recorder.copy_box_to_buffer(&copy.reads(src)) };
        Ok(())
    }

    /// Copies the bytes `range` of a buffer to the host. Once the frame is complete, [`Readback::to_vec`] returns them.
    /// Before that, it returns [`ReadbackError::NotReady`](ringfence_upload::ReadbackError::NotReady).
    ///
    /// # Errors
    /// - The usage `COPY_SRC` is missing.
    /// - The range is empty or outside the buffer.
    /// - The buffer is in readback memory, which the host reads without a copy.
    /// - The buffer belongs to another allocator.
    /// - [`CommandError::Readback`]: the ring has no room or belongs to another allocator.
    pub fn read_buffer(
        &mut self,
        ring: &ReadbackRing<D>,
        src: &impl CopyTarget<D>,
        range: Range<u64>,
    ) -> Result<Readback<D>, CommandError> {
        let (offset, size) = (range.start, range.end.saturating_sub(range.start));
        let (src, src_offset) = self.checked("read_buffer").buffer(src, Access::Reads, (offset, size))?;
        let result = ring.reserve(self.frame, size, readback::ALIGNMENT)?;
        let region = CopyRegion { src_offset, dst_offset: result.offset(), size };
        // SAFETY: the buffer is alive and has the range; the frame keeps the bytes of the ring; `new` has the promises
        // about the list.
        unsafe { self.recorder.copy_buffer_regions(src, result.buffer(), &[region]) };
        Ok(result)
    }

    /// Copies a box of texels to the host. Once the frame is complete, [`Readback::to_vec`] returns them without
    /// padding: rows of blocks, slice after slice, layer after layer. Before that, it returns
    /// [`ReadbackError::NotReady`](ringfence_upload::ReadbackError::NotReady).
    ///
    /// # Errors
    /// - The usage `COPY_SRC` is missing.
    /// - The box is not inside the texture, or cuts a block.
    /// - The texture is multisampled or belongs to another allocator.
    /// - [`CommandError::Readback`]: the ring has no room or belongs to another allocator.
    pub fn read_texels(
        &mut self,
        ring: &ReadbackRing<D>,
        src: &Texture<D>,
        from: &TexelBox,
    ) -> Result<Readback<D>, CommandError> {
        let (checked, rules) = (self.checked("read_texels"), self.rules());
        let result = readback::texels(checked, rules, ring, self.frame, (src, from))?;
        // SAFETY: as in `read_buffer`.
        unsafe { self.recorder.copy_box_to_buffer(result.reads()) };
        Ok(result)
    }

    /// Resolves layers of a multisampled texture to a texture with one sample per texel and the same format. Needs a
    /// graphics queue.
    ///
    /// # Errors
    /// - A usage is missing: see the table of the [crate](crate).
    /// - The samples, formats or sizes do not fit.
    /// - The format has depth or stencil, or the destination is three-dimensional.
    /// - A layer or mip level is outside its texture.
    /// - A texture belongs to another allocator.
    /// - The device does not support the resolve.
    pub fn resolve(&mut self, src: &Texture<D>, dst: &Texture<D>, at: ResolvedLayers) -> Result<(), CommandError> {
        let resolve = resolve::textures(self.checked("resolve"), self.memory.device(), src, dst, at)?;
        // SAFETY: the textures are alive and have the subresources; `new` has the promises about the list.
        unsafe { self.recorder.resolve_texture(&resolve) };
        Ok(())
    }

    /// Makes all mip levels of all layers from the first mip level, each from the previous level by linear filtering.
    /// The first level must be in the layout of the recorder. Records nothing if the texture has one mip level, but
    /// checks the texture all the same. Needs a graphics queue.
    ///
    /// # Errors
    /// - A usage is missing: see the table of the [crate](crate).
    /// - The format has depth, stencil or integers, or is block-compressed.
    /// - The texture belongs to another allocator.
    /// - [`CommandError::NoMips`], which names the feature that the device lacks.
    pub fn generate_mips(&mut self, texture: &Texture<D>) -> Result<(), CommandError> {
        let chain = mips::chain(self.checked("generate_mips"), self.memory.device(), texture)?;
        let Some(chain) = chain else { return Ok(()) };
        // SAFETY: the texture is alive and its format can be blitted; `new` has the promises about the list.
        Ok(unsafe { self.recorder.blit_mips(&chain) }?)
    }
}

impl<D: TransferSupport, R: Transfer<D>> fmt::Debug for Commands<'_, D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").field("unit", &self.unit).finish_non_exhaustive()
    }
}
