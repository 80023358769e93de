//! The copies of a frame, collected, merged and recorded together.
//!
//! ```text
//!   copy(a → B at 0)       sorted, merged                     record
//!   copy(c → D at 64)      B: ring 0..96 → 0..96              begin_copies [B, D]       1 call, 1 barrier each
//!   copy(b → B at 32)  ──▶ D: ring 512..576 → 64..128    ──▶  copy_buffer ring → B      1 call, 1 region
//!                                                             copy_buffer ring → D
//!                                                             end_copies [B, D]         1 call, 1 barrier each
//! ```
//!
//! If the sources of two copies are adjacent and their destinations too, the copies become one region. If copies to a
//! buffer overlap, the later copy wins, as if the copies had been recorded one after the other: the overwritten parts
//! of the earlier copy are not copied. A buffer that a batch copies to cannot be a source of the same batch, because
//! the device may execute the copies of a batch in any order.
//!
//! | operation | cost |
//! |---|---|
//! | add a copy to a buffer | O(1) expected; O(buffers of the batch) for a range of a shared buffer |
//! | add a copy to a texture | O(layers · texture destinations of the batch) |
//! | [`UploadBatch::record`] | first call after a copy was added: O(copies · log copies); later calls: O(regions) |
//! | [`UploadBatch::clear`] | O(copies); keeps the host memory, so that a steady frame allocates none |

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use nohash_hasher::IntMap;
use smallvec::SmallVec;

use super::copy_target::CopyTarget;
use super::error::{BatchError, TransferError, UploadError};
use super::pending_copies::PendingCopies;
use super::whole_texture::{self, ChainOrder};
use super::{Frames, Staged, Texels, UploadRing, segment};
use crate::device::record::{CopyRegion, Record, TexelRegion, TextureParts, TextureTarget};
use crate::device::{Device, RawBuffer, RawTexture, TexelBox, TexelError, check_texels};
use ringfence_memory::extend::{OpenFrame, Shared};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::{Buffer, Texture};

/// A batch of copies from rings, or from the program's own buffers, to buffers and textures. The copies are recorded
/// together: adjacent copies are merged and barriers are grouped. If copies to a buffer overlap, the later one wins.
/// Copies to a texture must not overlap.
///
/// In one batch, a buffer is a source or a destination, not both, because the device may execute the copies of a batch
/// in any order. The batch refuses a copy that breaks this rule. Add the copy to a second batch, and record the second
/// batch after the first.
///
/// A batch belongs to the frame that its sources were staged for. The batch stores the drivers' objects, not the
/// resources. If a destination is dropped while the frame is open, its object lives until the frame is complete.
///
/// [`Defrag`](ringfence_memory::defrag::Defrag) does not move a destination while copies to it are not recorded. If the
/// destination gets another object (`resize`, `replace`, `swap_mips`), recording fails with [`BatchError::Exchanged`],
/// because the copies would write to the old object. Record the batch before the exchange, or add the copies after it.
///
/// Copies are lost if their frame is not submitted, or if the batch is cleared or dropped without being recorded. The
/// batch cannot stage their bytes again, because the ring reuses the bytes after the frame. The program must check
/// [`Resource::take_content_lost`](ringfence_memory::Resource::take_content_lost) and stage lost content again.
///
/// # Examples
///
/// Vertices and indices of a mesh, copied with one call and one barrier for each buffer. `device`, `fence`, `memory`
/// and `timeline` are created as in the example of [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use ringfence::UploadRing;
/// # use ringfence::upload::UploadDesc;
/// # let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
/// # use ringfence::AllocationDesc;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # let create = |size, usage: BufferUsage| {
/// #     memory.create_buffer(&BufferDesc { size, usage: usage | BufferUsage::COPY_DST }, AllocationDesc::default())
/// # };
/// use ringfence::UploadBatch;
///
/// let vertices = create(4096, BufferUsage::VERTEX)?;
/// let indices = create(1024, BufferUsage::INDEX)?;
/// let (frame, mut batch) = (timeline.begin(), UploadBatch::new());
/// batch.copy(&ring.write_for(&frame, &[1; 4096], 4)?, &vertices, 0)?;
/// batch.copy(&ring.write_for(&frame, &[2; 512], 4)?, &indices, 0)?;
/// batch.copy(&ring.write_for(&frame, &[3; 512], 4)?, &indices, 512)?;
/// assert_eq!(batch.figures().region_count, 2); // the two copies to `indices` are one region
///
/// let mut commands = Vec::new(); // on Vulkan: `vulkan::CopyRecorder::new(&device, command_buffer)`
/// // SAFETY: the commands are submitted as `frame`.
/// unsafe { batch.record(&mut commands) }?;
/// device.submit(0, &[], commands, (fence, frame.value()))?;
/// timeline.submitted(frame)?;
///
/// batch.clear(); // keeps its host memory for the next frame
/// assert!(device.run_until_idle());
/// let last = sim::BufferRange::new(*indices.object(), 512, 512);
/// assert_eq!(device.peek(last), Some(vec![3; 512]));
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UploadBatch<D: Device> {
    sources: Vec<RawBuffer<D>>,
    targets: Vec<RawBuffer<D>>,
    /// The index of a buffer in `sources` or `targets`, by [`place_hash`].
    known: HashMap<u32, Role>,
    copies: Vec<Copy>,
    texels: Vec<TexelCopy<RawTexture<D>>>,
    textures: Vec<TextureTarget<RawTexture<D>>>,
    /// Indices in `textures`, by [`part_key`].
    known_parts: IntMap<u64, u32>,
    /// The merged regions, valid if `merged` is set.
    regions: Vec<CopyRegion>,
    groups: Vec<Group>,
    merged: bool,
    /// Number of the allocator that the batch belongs to; 0 if the batch is empty.
    owner: u32,
    /// Granularity of texel copies on the queue, in blocks; 0 for whole mip levels.
    unit: [u32; 3],
    figures: BatchFigures,
    arrivals: PendingCopies,
    /// The frames that the sources were staged for.
    frames: SmallVec<[Frames; 1]>,
    /// Handles of those frames in `frames` that were open when a copy was added. They make later checks cheap.
    open: SmallVec<[OpenFrame; 1]>,
}

/// Statistics of a batch: its copies, calls and barriers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BatchFigures {
    /// Number of requested copies, including copies of texels.
    pub copy_count: u64,
    /// Total size of the copies, in bytes. For textures, the padding between rows and layers is included.
    pub copy_bytes: u64,
    /// Number of regions after merging: one per layer for texels, and at most one per copy for buffers, unless copies
    /// overlap.
    pub region_count: u64,
    /// Number of copy commands.
    pub call_count: u64,
    /// Number of destinations: buffers, and mip levels of texture layers. Each destination needs one barrier before the
    /// copies and one after them. All barriers before the copies are in one call, and all barriers after them in
    /// another.
    pub target_count: u64,
    /// Number of bytes that are not copied, because a later copy of the batch overwrites them.
    pub hidden_bytes: u64,
}

impl BatchFigures {
    /// Returns the number of recorded barriers: two for each destination.
    #[must_use]
    pub const fn barrier_count(&self) -> u64 {
        2 * self.target_count
    }

    /// Returns the number of barriers that the batch saves, compared to two barriers around each copy.
    #[must_use]
    pub const fn barriers_spared(&self) -> u64 {
        (2 * self.copy_count).saturating_sub(self.barrier_count())
    }
}

/// Destination of texels in a texture.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TexelTarget {
    /// The mip level.
    pub mip: u32,
    /// The first array layer.
    pub layer: u32,
    /// X coordinate of the first texel.
    pub x: u32,
    /// Y coordinate of the first texel.
    pub y: u32,
    /// First slice of a three-dimensional texture.
    pub z: u32,
    /// `true` if the previous contents of the mip level may be discarded, in these layers and in all aspects (for
    /// example at the first use of the texture). Not needed if the copy writes all texels of the mip level in all
    /// aspects.
    pub discard: bool,
}

/// Role of a buffer in a batch, with its index in the list of that role.
#[derive(Clone, Copy)]
enum Role {
    Source(u32),
    Target(u32),
}

#[derive(Clone, Copy)]
struct Copy {
    target: u32,
    source: u32,
    region: CopyRegion,
}

impl Copy {
    fn end(&self) -> u64 {
        self.region.dst_offset + self.region.size
    }

    /// Returns the part of the copy that writes `from..to` of the destination. Returns `None` if there is no such part.
    fn part(&self, from: u64, to: u64) -> Option<Self> {
        let CopyRegion { src_offset, dst_offset, .. } = self.region;
        let (from, to) = (from.max(dst_offset), to.min(self.end()));
        let region = CopyRegion {
            src_offset: src_offset + from.checked_sub(dst_offset)?,
            dst_offset: from,
            size: to.checked_sub(from).filter(|size| *size > 0)?,
        };
        Some(Self { region, ..*self })
    }
}

#[derive(Clone)]
struct TexelCopy<T> {
    source: u32,
    texture: T,
    region: TexelRegion,
}

/// Consecutive elements of `regions` that have the same source and the same destination.
#[derive(Clone, Copy)]
struct Group {
    target: u32,
    source: u32,
    first: usize,
    count: usize,
}

impl<D: Device> UploadBatch<D> {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sources: Vec::new(),
            targets: Vec::new(),
            known: HashMap::new(),
            known_parts: IntMap::default(),
            copies: Vec::new(),
            texels: Vec::new(),
            textures: Vec::new(),
            regions: Vec::new(),
            groups: Vec::new(),
            merged: true,
            owner: 0,
            unit: [1; 3],
            figures: BatchFigures::default(),
            arrivals: PendingCopies::new(),
            frames: SmallVec::new(),
            open: SmallVec::new(),
        }
    }

    /// Sets the granularity of texel copies on the queue, in blocks (width, height, depth): on Vulkan, the
    /// `minImageTransferGranularity` of the queue's family, where 0 means whole mip levels. A region may also end at
    /// the end of a mip level. The default is 1, as on graphics and compute queues. The batch refuses copies that break
    /// this granularity. On Vulkan, depth and stencil need a graphics queue, which is not checked.
    #[must_use]
    pub const fn transfer_granularity(mut self, blocks: [u32; 3]) -> Self {
        self.unit = blocks;
        self
    }

    /// Adds a copy of the staged bytes to `offset` of the destination: a buffer, or a range of a buffer
    /// ([`CopyTarget`]). The buffer must have the usage `COPY_DST`. A range of a shared buffer does not report lost
    /// content. O(1) expected for a [`Buffer`]; O(buffers of the batch) for a range of a shared buffer.
    ///
    /// # Errors
    /// - [`BatchError::ZeroSize`], or [`BatchError::OutOfRange`] if the copy writes outside the destination.
    /// - [`BatchError::WritesSource`] if the batch also copies from the destination.
    /// - [`BatchError::ReadsTarget`] if the batch also copies to the source, or if both are the same buffer.
    /// - [`BatchError::FrameOver`] or [`BatchError::Foreign`].
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::UploadRing;
    /// # use ringfence::upload::UploadDesc;
    /// # let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    /// # use ringfence::{AllocationDesc, UploadBatch};
    /// # use ringfence::device::{BufferDesc, BufferUsage};
    /// # let usage = BufferUsage::STORAGE | BufferUsage::COPY_DST;
    /// # let instances = memory.create_buffer(&BufferDesc { size: 4096, usage }, AllocationDesc::default())?;
    /// # let (frame, mut batch, mut commands) = (timeline.begin(), UploadBatch::new(), Vec::new());
    /// // Instance 3 has moved: write its 64 bytes.
    /// let staged = ring.write_for(&frame, &[7; 64], 4)?;
    /// batch.copy(&staged, &instances, 3 * 64)?;
    /// // SAFETY: the commands are submitted as `frame`.
    /// unsafe { batch.record(&mut commands) }?;
    /// # device.submit(0, &[], commands, (fence, frame.value()))?;
    /// # timeline.submitted(frame)?;
    /// # assert!(device.run_until_idle() && device.take_hazards().is_empty());
    /// # let moved = sim::BufferRange::new(*instances.object(), 3 * 64, 64);
    /// # assert_eq!(device.peek(moved), Some(vec![7; 64]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy(&mut self, from: &Staged<D>, to: &impl CopyTarget<D>, offset: u64) -> Result<(), BatchError> {
        self.copy_as(from, to, offset, false)
    }

    /// Adds a copy as [`UploadBatch::copy`] does, for constants of a valid size. If the frame is not submitted, the
    /// destination does not report lost content, because the caller stages the content again or needed it for that
    /// frame only.
    ///
    /// # Errors
    /// [`UploadError::FrameOver`] if another thread has ended the frame.
    pub(super) fn copy_constants(&mut self, from: &Staged<D>, to: &Buffer<D>, offset: u64) -> Result<(), UploadError> {
        match self.copy_as(from, to, offset, true) {
            Err(BatchError::FrameOver { frame, .. }) => Err(UploadError::FrameOver { frame }),
            copied => {
                copied.expect("a slot is inside its pool, and a mirror has the size of its pool");
                Ok(())
            }
        }
    }

    fn copy_as(
        &mut self,
        from: &Staged<D>,
        to: &impl CopyTarget<D>,
        offset: u64,
        restaged: bool,
    ) -> Result<(), BatchError> {
        let slice = to.as_slice();
        let owner = self.check_owners(from, slice.owner)?;
        let (size, target_size) = (from.size, slice.size);
        if size == 0 {
            return Err(BatchError::ZeroSize);
        }
        if offset.checked_add(size).is_none_or(|end| end > target_size) {
            return Err(BatchError::OutOfRange { offset, size, target_size });
        }
        let (object, hash) = (slice.object, to.buffer_hash());
        self.check_frames(from, slice.shared.expect("a copy target refers to its allocator"))?;
        let source = self.known_source(from)?;
        let target = match self.role(object, hash) {
            Some(Role::Source(_)) => return Err(BatchError::WritesSource { offset, size }),
            Some(Role::Target(target)) => Some(target),
            None if from.buffer == *object => return Err(BatchError::ReadsTarget { offset: from.offset, size }),
            None => None,
        };
        // No step below fails.
        let source = source.unwrap_or_else(|| self.add_source(from));
        if let Some(to) = to.resource().filter(|_| target.is_none() || self.arrivals.is_recorded()) {
            self.arrivals.add(to, from.frames.points(owner), restaged);
        }
        let target = target.unwrap_or_else(|| self.add_target(object, hash));
        self.note_frames(from.frames);
        let region = CopyRegion { src_offset: from.offset, dst_offset: slice.offset + offset, size };
        self.copies.push(Copy { target, source, region });
        self.added(owner, size);
        Ok(())
    }

    /// Adds a copy of texels to a texture: one region per layer. The texture must have the usage for copies to it.
    /// O(layers · texture destinations of the batch).
    ///
    /// Within a batch, the copies to one mip level of a layer must not overlap in the same aspect, and either all or
    /// none of these copies set `discard`. A copy of a whole mip level, in all aspects, discards the previous contents
    /// without `discard`. If the contents of a mip level are undefined, copies to a part of it need `discard`.
    ///
    /// # Errors
    /// - The texture does not have the mip level, the layers, the aspect or the texels.
    /// - The texture's format has other texel blocks than the staged texels, or it has several planes.
    /// - The texture is multisampled.
    /// - The region contains only a part of a block, or of a unit that the device or the queue copies as a whole.
    /// - The texels do not fit in the staged bytes.
    /// - The batch copies to the source buffer.
    /// - [`BatchError::FrameOver`] or [`BatchError::Foreign`].
    ///
    /// # Examples
    ///
    /// A glyph of 8 × 8 texels, written into an atlas:
    ///
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::UploadRing;
    /// # use ringfence::upload::UploadDesc;
    /// # let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    /// # use ringfence::device::{Format, TextureDesc, TextureUsage};
    /// # use ringfence::{AllocationDesc, UploadBatch};
    /// # let (format, usage) = (Format::R8Unorm, TextureUsage::SAMPLED | TextureUsage::COPY_DST);
    /// # let desc = TextureDesc { width: 256, height: 256, format, usage, ..Default::default() };
    /// # let atlas = memory.create_texture(&desc, AllocationDesc::default())?;
    /// # let (frame, mut batch, mut commands) = (timeline.begin(), UploadBatch::new(), Vec::new());
    /// use ringfence::upload::{TexelTarget, Texels};
    ///
    /// let texels = ring.write_texels(&frame, &Texels::new(8, 8, 1, &[255; 64]))?;
    /// let discard = true; // the first copy to this mip level; later copies keep its other texels
    /// batch.copy_texels(&texels, &atlas, TexelTarget { x: 16, y: 32, discard, ..Default::default() })?;
    /// // SAFETY: the commands are submitted as `frame`.
    /// unsafe { batch.record(&mut commands) }?;
    /// # device.submit(0, &[], commands, (fence, frame.value()))?;
    /// # timeline.submitted(frame)?;
    /// # assert!(device.run_until_idle() && device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_texels(
        &mut self,
        from: &Texels<Staged<D>>,
        to: &Texture<D>,
        at: TexelTarget,
    ) -> Result<(), BatchError> {
        let owner = self.check_owners(&from.bytes, to.shared().owner())?;
        let TexelTarget { mip, layer, x, y, z, discard } = at;
        let Texels { format, aspect, width, height, depth, layers, row_bytes, slice_bytes, .. } = *from;
        let wanted = TexelBox { aspect, mip, layer, layers, x, y, z, width, height, depth };
        let partial_depth = to.shared().device.capabilities().partial_depth_copies;
        let parts = check_texels(to.parts(), &wanted, Some(format), self.unit, partial_depth)?;
        from.check_staged()?;
        self.check_frames(&from.bytes, to.shared())?;
        let source = self.known_source(&from.bytes)?;
        let discard = discard || wanted.is_whole(&parts);
        // No step below fails.
        let (texture, source) = (to.object(), source.unwrap_or_else(|| self.add_source(&from.bytes)));
        let hash = segment::place_hash(to);
        for index in 0..layers {
            let buffer_offset = from.bytes.offset + u64::from(index) * slice_bytes;
            let layer = layer + index;
            let region =
                TexelRegion { buffer_offset, row_bytes, format, aspect, mip, layer, x, y, z, width, height, depth };
            self.take_over(
                TextureTarget { texture: texture.clone(), mip, layer, aspects: parts.aspects, discard },
                hash,
            );
            self.texels.push(TexelCopy { source, texture: texture.clone(), region });
        }
        self.arrivals.add(to, from.bytes.frames.points(owner), false);
        self.note_frames(from.bytes.frames);
        self.added(owner, from.bytes.size);
        Ok(())
    }

    /// Stages all mip levels and layers of a texture in `ring` for `frame`, and adds their copies. `bytes` contains the
    /// levels and layers in `order`, each tightly packed. If the format has depth and stencil, the depth of each layer
    /// comes before its stencil. The texture must have the usage for copies to it; its previous contents are discarded.
    /// O(bytes + mips · layers · texture destinations of the batch).
    ///
    /// # Errors
    /// - [`UploadError::TexelSize`] if `bytes` does not have exactly the texels of the texture.
    /// - As [`UploadRing::write_texels`], for example if the ring has no room for all of them.
    /// - As [`UploadBatch::copy_texels`].
    ///
    /// After an error, the batch has none of the copies, unless another thread has ended the frame during the call.
    /// Bytes that were staged before the error stay in the ring until the frame is complete.
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::UploadRing;
    /// # use ringfence::upload::UploadDesc;
    /// # let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    /// # use ringfence::device::{TextureDesc, TextureUsage};
    /// # use ringfence::{AllocationDesc, UploadBatch};
    /// # let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
    /// # let (frame, mut batch, mut commands) = (timeline.begin(), UploadBatch::new(), Vec::new());
    /// use ringfence::upload::ChainOrder;
    ///
    /// // A cube map with 8 × 8 texels of 4 bytes on each of its six sides, and two mip levels
    /// let desc = TextureDesc { width: 8, height: 8, layers: 6, mips: 2, usage, ..Default::default() };
    /// let sky = memory.create_texture(&desc, AllocationDesc { name: "sky", ..Default::default() })?;
    /// let bytes = vec![128; 6 * 4 * (8 * 8 + 4 * 4)];
    /// batch.upload_texture(&ring, &frame, (&bytes, ChainOrder::LayerByLayer), &sky)?; // the order of a DDS file
    /// // SAFETY: the commands are submitted as `frame`.
    /// unsafe { batch.record(&mut commands) }?;
    /// # device.submit(0, &[], commands, (fence, frame.value()))?;
    /// # timeline.submitted(frame)?;
    /// # assert!(device.run_until_idle() && device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload_texture(
        &mut self,
        ring: &UploadRing<D>,
        frame: &Frame,
        (bytes, order): (&[u8], ChainOrder),
        to: &Texture<D>,
    ) -> Result<(), TransferError> {
        let parts = *to.parts().ok_or(BatchError::from(TexelError::UnknownFormat))?;
        let runs = whole_texture::runs(&parts, order);
        let needed = runs.iter().map(|run| run.bytes(&parts)).sum::<u64>();
        let given = bytes.len() as u64;
        if needed != given {
            let TextureParts { width, height, depth, layers, format, .. } = parts;
            return Err(UploadError::TexelSize { width, height, depth, layers, format, given, needed }.into());
        }
        let (mut rest, mut staged) = (bytes, Vec::with_capacity(runs.len()));
        for run in runs {
            let (texels, behind) = rest.split_at(run.bytes(&parts) as usize);
            rest = behind;
            let texels = Texels::of(parts.format, parts.extent(run.mip), texels).layers(run.layers).aspect(run.aspect);
            let target = TexelTarget { mip: run.mip, layer: run.layer, discard: true, ..Default::default() };
            staged.push((ring.write_texels(frame, &texels)?, target));
        }
        staged.iter().try_for_each(|(texels, target)| Ok(self.copy_texels(texels, to, *target)?))
    }

    /// Adds a mip level of a layer to the list of destinations, unless it is listed. `hash` is the [`place_hash`] of the
    /// texture. O(1) expected; O(destinations) if textures share memory.
    fn take_over(&mut self, target: TextureTarget<RawTexture<D>>, hash: u32) {
        let (mip, layer) = (target.mip, target.layer);
        let is_it = |held: &TextureTarget<_>| held.texture == target.texture && (held.mip, held.layer) == (mip, layer);
        let index = self.textures.len() as u32;
        let first = *self.known_parts.entry(part_key(hash, mip, layer)).or_insert(index);
        if first == index || !(is_it(&self.textures[first as usize]) || self.textures.iter().any(is_it)) {
            self.textures.push(target);
        }
    }

    /// Returns the number of the allocator that the source, the destination and the batch belong to. Fails if they
    /// belong to different allocators.
    fn check_owners(&self, from: &Staged<D>, target_owner: u32) -> Result<u32, BatchError> {
        let source_owner = from.owner;
        let batch_owner = if self.owner == 0 { source_owner } else { self.owner };
        if (source_owner, target_owner) == (batch_owner, batch_owner) {
            return Ok(batch_owner);
        }
        Err(BatchError::Foreign { source_owner, target_owner, batch_owner })
    }

    /// Fails if the frames that may use the bytes are known and all of them have ended. If the batch already has a
    /// handle of the frame, and no frame has ended since the last call, the check costs a comparison and a read.
    fn check_frames(&mut self, from: &Staged<D>, shared: &Shared<D>) -> Result<(), BatchError> {
        let (mut over, mut is_any_open) = (None, false);
        for frame in from.frames.points(from.owner) {
            over = Some(frame);
            if let Some(known) = self.open.iter_mut().find(|known| known.point() == frame) {
                is_any_open |= known.is_open();
            } else if let Some(open) = shared.open_frame(frame) {
                self.open.push(open);
                is_any_open = true;
            }
        }
        let over = over.filter(|_| !is_any_open);
        over.map_or(Ok(()), |frame| Err(BatchError::FrameOver { frame, size: from.size }))
    }

    fn note_frames(&mut self, frames: Frames) {
        if !self.frames.contains(&frames) {
            self.frames.push(frames);
        }
    }

    /// Fails if all frames of a source have ended, or if a destination was given another object.
    fn check_record(&mut self) -> Result<(), BatchError> {
        let Self { frames, open, owner, .. } = self;
        for frames in frames.iter() {
            let mut is_open = |frame| open.iter_mut().any(|known| known.point() == frame && known.is_open());
            if let Some(frame) = frames.points(*owner).last()
                && !frames.points(*owner).any(&mut is_open)
            {
                return Err(BatchError::FrameOver { frame, size: self.figures.copy_bytes });
            }
        }
        self.arrivals.check().map_err(|exchanged| BatchError::Exchanged { user_data: exchanged.user_data })
    }

    /// Returns `true` if the batch accepts copies of this allocator.
    pub(super) fn takes(&self, owner: u32) -> bool {
        [0, owner].contains(&self.owner)
    }

    fn added(&mut self, owner: u32, bytes: u64) {
        self.owner = owner;
        self.figures.copy_count += 1;
        self.figures.copy_bytes += bytes;
        self.merged = false;
    }

    /// Returns the role of a buffer in this batch, if it has one.
    fn role(&self, buffer: &RawBuffer<D>, hash: u32) -> Option<Role> {
        let at = |list: &[RawBuffer<D>]| list.iter().rposition(|held| held == buffer).map(|index| index as u32);
        let any = || at(&self.sources).map(Role::Source).or_else(|| at(&self.targets).map(Role::Target));
        if hash == 0 {
            return any();
        }
        match *self.known.get(&hash)? {
            role @ Role::Source(index) if self.sources[index as usize] == *buffer => Some(role),
            role @ Role::Target(index) if self.targets[index as usize] == *buffer => Some(role),
            // Another buffer has the same hash. This is rare, so search all buffers.
            _ => any(),
        }
    }

    /// Returns the index of the source if the batch has it already. Fails if the batch copies to this buffer.
    fn known_source(&self, from: &Staged<D>) -> Result<Option<u32>, BatchError> {
        // Most copies have the same source as the copy before.
        if self.sources.last() == Some(&from.buffer) {
            return Ok(Some(self.sources.len() as u32 - 1));
        }
        match self.role(&from.buffer, from.place_hash) {
            Some(Role::Target(_)) => Err(BatchError::ReadsTarget { offset: from.offset, size: from.size }),
            Some(Role::Source(index)) => Ok(Some(index)),
            None => Ok(None),
        }
    }

    fn add_source(&mut self, from: &Staged<D>) -> u32 {
        let index = self.sources.len() as u32;
        self.sources.push(from.buffer.clone());
        self.known.insert(from.place_hash, Role::Source(index));
        index
    }

    fn add_target(&mut self, buffer: &RawBuffer<D>, hash: u32) -> u32 {
        let index = self.targets.len() as u32;
        self.targets.push(buffer.clone());
        if hash != 0 {
            self.known.insert(hash, Role::Target(index));
        }
        index
    }

    /// Returns `true` if another batch has copies to `buffer` that are not recorded. A library that moves the contents
    /// of `buffer` with this batch must wait until the other batch is recorded, because its copies write to the old
    /// place.
    #[must_use]
    pub fn others_write(&self, buffer: &Buffer<D>) -> bool {
        self.arrivals.others_write(buffer)
    }

    /// Returns `true` if the batch has no copies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.texels.is_empty()
    }

    /// Merges the copies and returns the statistics of the batch.
    pub fn figures(&mut self) -> BatchFigures {
        self.merge();
        self.figures
    }

    /// Returns the merged copies between buffers: source, destination, regions. O(copies · log copies) in the first
    /// call after a copy was added.
    pub fn merged(&mut self) -> impl Iterator<Item = (&RawBuffer<D>, &RawBuffer<D>, &[CopyRegion])> {
        self.merge();
        let this = &*self;
        this.groups.iter().map(|group| this.group(group))
    }

    fn group(&self, group: &Group) -> (&RawBuffer<D>, &RawBuffer<D>, &[CopyRegion]) {
        let regions = &self.regions[group.first..group.first + group.count];
        (&self.sources[group.source as usize], &self.targets[group.target as usize], regions)
    }

    /// Records the copies: one call with all barriers before them, then the copies, then one call with all barriers
    /// after them. If the batch is empty, records no command. The batch keeps its copies: call [`UploadBatch::clear`]
    /// before the next frame.
    ///
    /// # Errors
    /// No command is recorded, and the batch is unchanged:
    ///
    /// - [`BatchError::FrameOver`] if all frames that a source was staged for have ended;
    /// - [`BatchError::Exchanged`] if a destination was resized, replaced or moved.
    ///
    /// # Safety
    /// - The frame that the sources were staged for is still open, and these commands are submitted as that frame.
    /// - No destination was dropped before that frame began. Each destination was created with the usage for copies to
    ///   it. No copy writes beyond the size that its destination was described with.
    /// - The [`Staged`] values are unchanged since the ring or [`Staged::of`] returned them. Offsets and pitches of
    ///   texels meet the device's alignments.
    /// - Texels do not overlap. On Direct3D 12, texels of `D24UnormS8Uint` have zeros in the byte next to the depth.
    /// - On Direct3D 12, no destination is in an upload heap.
    pub unsafe fn record(&mut self, into: &mut impl Record<D>) -> Result<(), BatchError> {
        if self.is_empty() {
            return Ok(());
        }
        self.check_record()?;
        self.merge();
        // SAFETY: the caller promises that the resources are alive. The ranges of buffers were checked when they were
        // added, and merged regions of a destination do not overlap.
        unsafe {
            into.begin_copies(&self.targets, &self.textures);
            for group in &self.groups {
                let (src, dst, regions) = self.group(group);
                into.copy_buffer(src, dst, regions);
            }
            for TexelCopy { source, texture, region } in &self.texels {
                into.copy_buffer_to_texture(&self.sources[*source as usize], texture, region);
            }
            into.end_copies(&self.targets, &self.textures);
        }
        self.arrivals.recorded();
        Ok(())
    }

    /// Returns the destinations: buffers, and mip levels of texture layers. On Vulkan, a queue of another family must
    /// acquire each destination that has exclusive sharing mode.
    #[must_use]
    pub fn targets(&self) -> (&[RawBuffer<D>], &[TextureTarget<RawTexture<D>>]) {
        (&self.targets, &self.textures)
    }

    /// Removes all copies and keeps the host memory for later copies. Copies that were not recorded are lost, unless a
    /// clone of the batch is recorded.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.targets.clear();
        self.known.clear();
        self.known_parts.clear();
        self.copies.clear();
        self.texels.clear();
        self.textures.clear();
        self.regions.clear();
        self.groups.clear();
        self.merged = true;
        self.owner = 0;
        self.figures = BatchFigures::default();
        self.arrivals.clear();
        self.frames.clear();
        self.open.clear();
    }

    /// Sorts the copies, removes the overwritten parts and merges adjacent copies.
    fn merge(&mut self) {
        if std::mem::replace(&mut self.merged, true) {
            return;
        }
        if self.overlaps() {
            self.hide();
        }
        let order = |copy: &Copy| (copy.target, copy.source, copy.region.dst_offset);
        self.copies.sort_unstable_by_key(order);
        self.regions.clear();
        self.groups.clear();
        for copy in &self.copies {
            append(&mut self.groups, &mut self.regions, copy);
        }
        self.figures.region_count = (self.regions.len() + self.texels.len()) as u64;
        self.figures.call_count = (self.groups.len() + self.texels.len()) as u64;
        self.figures.target_count = (self.targets.len() + self.textures.len()) as u64;
    }

    /// Returns `true` if two copies write the same bytes. Does not reorder `copies`.
    fn overlaps(&mut self) -> bool {
        let key = |copy: &Copy| (copy.target, copy.region.dst_offset);
        if !self.copies.is_sorted_by_key(key) {
            return self.overlaps_unsorted();
        }
        self.copies.windows(2).any(|pair| pair[0].target == pair[1].target && pair[0].end() > pair[1].region.dst_offset)
    }

    /// Does the same as `overlaps`, for unsorted copies: sorts their destinations in `regions`, which is unused at that
    /// time.
    fn overlaps_unsorted(&mut self) -> bool {
        self.regions.clear();
        self.regions
            .extend(self.copies.iter().map(|copy| CopyRegion { src_offset: u64::from(copy.target), ..copy.region }));
        self.regions.sort_unstable_by_key(|region| (region.src_offset, region.dst_offset));
        let follows = |pair: &[CopyRegion]| pair[0].dst_offset + pair[0].size <= pair[1].dst_offset;
        !self.regions.windows(2).all(|pair| pair[0].src_offset != pair[1].src_offset || follows(pair))
    }

    /// Removes from each copy the parts that a later copy overwrites. Goes through the copies from last to first and
    /// keeps the uncovered parts of each. Covered ranges are merged, so each is visited once. Overlaps are rare, so
    /// this function may allocate.
    fn hide(&mut self) {
        // Ends of the covered ranges, by target and start.
        let mut covered: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        let mut kept: Vec<Copy> = Vec::with_capacity(self.copies.len());
        for copy in self.copies.iter().rev() {
            let (target, start) = (copy.target, copy.region.dst_offset);
            let (mut first, mut end, mut open) = (start, copy.end(), copy.end());
            let mut left = 0;
            let mut keep = |part: Option<Copy>| {
                left += part.map_or(0, |part| part.region.size);
                kept.extend(part);
            };
            while let Some((&(_, from), &to)) = covered.range((target, 0)..=(target, open)).next_back()
                && to >= start
            {
                keep(copy.part(to, open));
                covered.remove(&(target, from));
                (first, end, open) = (first.min(from), end.max(to), from);
            }
            keep(copy.part(start, open));
            covered.insert((target, first), end);
            self.figures.hidden_bytes += copy.region.size - left;
        }
        self.copies = kept;
    }
}

/// Returns a key of a mip level of a layer. Different parts may have the same key.
fn part_key(hash: u32, mip: u32, layer: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(layer << 5 | mip)
}

/// Appends a copy to the regions. If it is adjacent to the last region in both buffers, extends that region instead.
fn append(groups: &mut Vec<Group>, regions: &mut Vec<CopyRegion>, copy: &Copy) {
    let Copy { target, source, region } = *copy;
    if let Some(group) = groups.last_mut()
        && (group.target, group.source) == (target, source)
        && let Some(last) = regions.last_mut()
    {
        let goes_on =
            last.src_offset + last.size == region.src_offset && last.dst_offset + last.size == region.dst_offset;
        if goes_on {
            last.size += region.size;
        } else {
            regions.push(region);
            group.count += 1;
        }
        return;
    }
    groups.push(Group { target, source, first: regions.len(), count: 1 });
    regions.push(region);
}

// Not derived, because that would require `D: Clone`.
impl<D: Device> Clone for UploadBatch<D> {
    fn clone(&self) -> Self {
        Self {
            sources: self.sources.clone(),
            targets: self.targets.clone(),
            known: self.known.clone(),
            known_parts: self.known_parts.clone(),
            copies: self.copies.clone(),
            texels: self.texels.clone(),
            textures: self.textures.clone(),
            regions: self.regions.clone(),
            groups: self.groups.clone(),
            arrivals: self.arrivals.clone(),
            frames: self.frames.clone(),
            open: self.open.clone(),
            ..*self
        }
    }
}

impl<D: Device> Default for UploadBatch<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Device> fmt::Debug for UploadBatch<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadBatch")
            .field("copies", &self.copies.len())
            .field("texels", &self.texels.len())
            .field("targets", &(self.targets.len() + self.textures.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
