//! The copies of a frame, collected and merged, to be recorded together.
//!
//! ```text
//!   copy(a → B at 0)       sorted, merged                     record
//!   copy(c → D at 64)      B: ring 0..96 → 0..96              begin_copies [B, D]       1 call, 1 barrier a destination
//!   copy(b → B at 32)  ──▶ D: ring 512..576 → 64..128    ──▶  copy_buffer ring → B      1 call, 1 region
//!                                                             copy_buffer ring → D
//!                                                             end_copies [B, D]         1 call, 1 barrier a destination
//! ```
//!
//! Copies whose sources and destinations both lie next to each other become one. Where copies of a batch overlap, the
//! later one wins, as if they had been recorded one after the other: overwritten parts of the earlier one are not
//! copied. For what a batch reads there is no such order: a buffer that it copies to is no source of it.
//!
//! | operation | cost |
//! |---|---|
//! | add a copy | O(1) expected |
//! | [`UploadBatch::record`] | O(copies · log copies) once after the last copy was added; then O(regions) |
//! | [`UploadBatch::clear`] | O(copies); its memory is kept: a steady frame makes nothing |

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use smallvec::SmallVec;

use super::arrivals::Arrivals;
use super::segment::place_hash;
use super::{Frames, Staged, Texels, UploadError};
use crate::device::record::{CopyRegion, Record, TexelRegion, TextureTarget};
use crate::device::{Create, Device, RawBuffer, RawTexture, TexelBox, TexelError, TexelFormat, check_texels};
use ringfence_core::sync::SyncPoint;
use ringfence_memory::extend::{OpenFrame, Shared};
use ringfence_memory::{Buffer, Resource, ResourceKind, Texture};

/// Copies from rings to buffers and textures, to be recorded together: adjacent copies are merged, barriers are
/// grouped, and where copies to a buffer overlap the later one wins. Copies to a texture must not overlap.
///
/// A buffer is a source of a batch or a destination, not both: nothing orders a copy that reads what another one
/// writes. Such a copy is refused; it goes into another batch, which is recorded after this one.
///
/// A batch belongs to the frame that its sources were staged for. It keeps the drivers' objects, not the resources: a
/// destination that is dropped meanwhile lives until the frame is complete.
///
/// As long as a destination has copies that are not recorded, no [`Defrag`](crate::defrag::Defrag) moves it. If it gets
/// another object (`resize`, `replace`, `swap_mips`), recording is refused: the copies would go to the old one
/// ([`BatchError::Exchanged`]). Record the batch before that, or add the copies after it.
///
/// Copies that do not arrive are not staged again, since the ring's bytes are gone with their frame and a batch keeps
/// none: the program, which has the source, asks
/// [`Resource::take_content_lost`](crate::Resource::take_content_lost) and stages it anew. Copies are lost if their frame
/// is not submitted, or if the batch is cleared or dropped without being recorded.
pub struct UploadBatch<D: Device> {
    sources: Vec<RawBuffer<D>>,
    targets: Vec<RawBuffer<D>>,
    /// The index of a buffer in `sources` or `targets`, by [`place_hash`].
    known: HashMap<u32, Role>,
    copies: Vec<Copy>,
    texels: Vec<TexelCopy<RawTexture<D>>>,
    textures: Vec<TextureTarget<RawTexture<D>>>,
    /// What is recorded, once it is `merged`.
    regions: Vec<CopyRegion>,
    groups: Vec<Group>,
    merged: bool,
    /// The number of the allocator that all of it is of; 0 while there is nothing.
    owner: u32,
    /// Blocks of texels that the queue copies at least; 0 for whole mip levels.
    unit: [u32; 3],
    figures: BatchFigures,
    arrivals: Arrivals,
    /// What the sources were staged for.
    frames: SmallVec<[Frames; 1]>,
    /// Those of these frames that were looked up, which were open then.
    open: SmallVec<[OpenFrame; 1]>,
}

/// What a batch does, and what it spared.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BatchFigures {
    /// Requested copies, texels included.
    pub copy_count: u64,
    /// Bytes of the copies; for textures, as laid out in the ring.
    pub copy_bytes: u64,
    /// Regions that are copied: of buffers at most one a copy unless some overlap; of texels one a layer.
    pub region_count: u64,
    /// Calls that copy.
    pub call_count: u64,
    /// Resources that are transitioned to copy destinations, and back: two barriers each, in two calls for all.
    pub target_count: u64,
    /// Bytes that are not copied, as a later copy of the batch overwrites them.
    pub hidden_bytes: u64,
}

impl BatchFigures {
    /// Barriers that are recorded: two for each resource.
    #[must_use]
    pub const fn barrier_count(&self) -> u64 {
        2 * self.target_count
    }

    /// Additional barriers of a program without batches, which records two around each copy.
    #[must_use]
    pub const fn barriers_spared(&self) -> u64 {
        (2 * self.copy_count).saturating_sub(self.barrier_count())
    }
}

/// Why a copy was not added. The batch is as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// There are no bytes to copy.
    #[error("a copy of 0 bytes")]
    ZeroSize,
    /// The bytes lie outside the destination.
    #[error("bytes {offset}..{offset}+{size} lie outside the destination of {target_size} bytes")]
    OutOfRange {
        /// The first requested byte.
        offset: u64,
        /// How many.
        size: u64,
        /// Bytes of the destination.
        target_size: u64,
    },
    /// The texels do not fit the texture, or cannot be copied so.
    #[error(transparent)]
    Texels(#[from] TexelError),
    /// Rows, slices or layers of the staged texels overlap, or do not begin at a block.
    #[error(
        "{row_bytes} bytes from row to row and {slice_bytes} from slice to slice, where a row has {row_needed} in \
         blocks of {block_bytes}, and a slice {slice_needed}"
    )]
    TexelPitch {
        /// Bytes from one row of blocks to the next.
        row_bytes: u64,
        /// Bytes from one slice or layer to the next.
        slice_bytes: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of a row of blocks.
        row_needed: u64,
        /// Bytes of a slice or layer: exactly these for slices, at least these for layers.
        slice_needed: u64,
    },
    /// The texels end beyond the staged bytes.
    #[error("{given} staged bytes for texels of {extent:?} in {layers} layers ({format}), which need {needed}")]
    TexelSize {
        /// Texels across, down and deep.
        extent: [u32; 3],
        /// Array layers.
        layers: u32,
        /// How they lie in the buffer.
        format: TexelFormat,
        /// Bytes that are staged.
        given: u64,
        /// Bytes that the texels need; `u64::MAX` if there is no such number.
        needed: u64,
    },
    /// The copy reads the buffer that it writes, or one that another copy of the batch writes.
    #[error("a copy of {size} bytes from {offset} on of a buffer that the batch copies to")]
    ReadsTarget {
        /// The first byte in the source.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// The copy writes a buffer that another copy of the batch reads.
    #[error("a copy of {size} bytes to {offset} of a buffer that the batch copies from")]
    WritesSource {
        /// The first byte in the destination.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// The source was staged for a frame that was submitted, discarded or dropped: its bytes are used again, for others,
    /// once that frame is complete. Stage it for the frame that is recorded now.
    #[error("{size} bytes were staged for the frame with {frame}, which is over")]
    FrameOver {
        /// What the frame signals.
        frame: SyncPoint,
        /// How many bytes; of all copies of the batch, if it was to be recorded.
        size: u64,
    },
    /// A destination has another object than the one that the copies go to: it was resized, replaced or moved, or its
    /// mips were swapped, after the copies were added. They would not arrive. Clear the batch and add them again.
    #[error("the destination with user data {user_data} was resized, replaced or moved after copies to it were added")]
    Exchanged {
        /// The user data of the destination, of the first one if there are several.
        user_data: u64,
    },
    /// The staged bytes, the destination and the other copies of the batch are not of one allocator, so that no frame
    /// would keep all of them alive.
    #[error(
        "the source is of allocator {source_owner}, the destination of {target_owner}, the batch of {batch_owner}: \
         different ones"
    )]
    Foreign {
        /// The number of the allocator that the source was staged with.
        source_owner: u32,
        /// That of the destination.
        target_owner: u32,
        /// That of the copies that the batch has; the source's, if it has none.
        batch_owner: u32,
    },
}

/// Where texels go in a texture.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TexelTarget {
    /// The mip level.
    pub mip: u32,
    /// The first array layer.
    pub layer: u32,
    /// First texel across.
    pub x: u32,
    /// First texel down.
    pub y: u32,
    /// First slice of a texture of three dimensions.
    pub z: u32,
    /// Whether the previous contents of the mip of these layers, in all aspects, may be discarded (as on its first
    /// use).
    pub discard: bool,
}

/// What a buffer is in a batch, with its index there.
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

    /// The part that writes `from..to` of the destination; `None` if that is none of it.
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

/// Regions of one source and destination.
#[derive(Clone, Copy)]
struct Group {
    target: u32,
    source: u32,
    first: usize,
    count: usize,
}

impl<D: Device> UploadBatch<D> {
    /// A batch without copies.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sources: Vec::new(),
            targets: Vec::new(),
            known: HashMap::new(),
            copies: Vec::new(),
            texels: Vec::new(),
            textures: Vec::new(),
            regions: Vec::new(),
            groups: Vec::new(),
            merged: true,
            owner: 0,
            unit: [1; 3],
            figures: BatchFigures::default(),
            arrivals: Arrivals::new(),
            frames: SmallVec::new(),
            open: SmallVec::new(),
        }
    }

    /// Sets the granularity in which the queue copies texels, in blocks across, down and deep, or up to the end of a
    /// mip level: the `minImageTransferGranularity` of its family on Vulkan, where 0 stands for whole mip levels. By
    /// default any block can be copied, as on queues for graphics and compute. Copies that break this granularity are
    /// refused. Depth and stencil take a queue for graphics on Vulkan, which is not checked.
    #[must_use]
    pub const fn transfer_granularity(mut self, blocks: [u32; 3]) -> Self {
        self.unit = blocks;
        self
    }

    /// Adds a copy of the staged bytes to `offset` of a buffer, which needs the usage for copies to it. O(1) expected.
    ///
    /// # Errors
    /// There are no bytes, or they lie outside the destination; the batch copies to the source or from the destination,
    /// or these are one buffer; [`BatchError::FrameOver`]; or [`BatchError::Foreign`].
    pub fn copy(&mut self, from: &Staged<D>, to: &Buffer<D>, offset: u64) -> Result<(), BatchError> {
        self.copy_as(from, to, offset, false)
    }

    /// As [`UploadBatch::copy`], of constants that fit: their content is not missed if their frame is not submitted,
    /// since it is staged again, or was for that frame alone.
    ///
    /// # Errors
    /// Another thread has ended the frame meanwhile.
    pub(super) fn copy_constants(&mut self, from: &Staged<D>, to: &Buffer<D>, offset: u64) -> Result<(), UploadError> {
        match self.copy_as(from, to, offset, true) {
            Err(BatchError::FrameOver { frame, .. }) => Err(UploadError::FrameOver { frame }),
            copied => {
                copied.expect("a slot lies inside its pool, and a mirror is as large as its pool");
                Ok(())
            }
        }
    }

    fn copy_as(&mut self, from: &Staged<D>, to: &Buffer<D>, offset: u64, restaged: bool) -> Result<(), BatchError> {
        let owner = self.check_owners(from, to)?;
        let (size, target_size) = (from.size, to.size());
        if size == 0 {
            return Err(BatchError::ZeroSize);
        }
        if offset.checked_add(size).is_none_or(|end| end > target_size) {
            return Err(BatchError::OutOfRange { offset, size, target_size });
        }
        let (object, hash) = (to.object(), place_hash(to));
        self.check_frames(from, to.shared())?;
        let source = self.known_source(from)?;
        let target = match self.role(object, hash) {
            Some(Role::Source(_)) => return Err(BatchError::WritesSource { offset, size }),
            Some(Role::Target(target)) => Some(target),
            None if from.buffer == *object => return Err(BatchError::ReadsTarget { offset: from.offset, size }),
            None => None,
        };
        // Nothing fails from here on.
        let source = source.unwrap_or_else(|| self.add_source(from));
        if target.is_none() || self.arrivals.is_recorded() {
            self.arrivals.add(to, from.frames.points(owner), restaged);
        }
        let target = target.unwrap_or_else(|| self.add_target(object, hash));
        self.note_frames(from.frames);
        let region = CopyRegion { src_offset: from.offset, dst_offset: offset, size };
        self.copies.push(Copy { target, source, region });
        self.added(owner, size);
        Ok(())
    }

    /// Adds a copy of texels to a texture, which needs the usage for copies to it: one for each layer. O(layers)
    /// expected.
    ///
    /// Texels of one batch for one mip of one layer must not overlap, and all of them discard or none does.
    ///
    /// # Errors
    /// The texture has no such mip level, layers, aspect or texels; its format has other blocks than the texels, or
    /// several planes; it is multisampled; the region cuts blocks, or units that the device or the queue copies as a
    /// whole; the texels are not all among the staged bytes; the batch copies to their buffer;
    /// [`BatchError::FrameOver`]; or [`BatchError::Foreign`].
    pub fn copy_texels(
        &mut self,
        from: &Texels<Staged<D>>,
        to: &Texture<D>,
        at: TexelTarget,
    ) -> Result<(), BatchError> {
        let owner = self.check_owners(&from.bytes, to)?;
        let TexelTarget { mip, layer, x, y, z, discard } = at;
        let Texels { format, aspect, width, height, depth, layers, row_bytes, slice_bytes, .. } = *from;
        let wanted = TexelBox { aspect, mip, layer, layers, x, y, z, width, height, depth };
        let partial_depth = to.shared().device.capabilities().partial_depth_copies;
        let parts = check_texels(to.parts(), &wanted, Some(format), self.unit, partial_depth)?;
        from.check_staged()?;
        self.check_frames(&from.bytes, to.shared())?;
        let source = self.known_source(&from.bytes)?;
        // Nothing fails from here on.
        let (texture, source) = (to.object(), source.unwrap_or_else(|| self.add_source(&from.bytes)));
        for index in 0..layers {
            let buffer_offset = from.bytes.offset + u64::from(index) * slice_bytes;
            let layer = layer + index;
            let region =
                TexelRegion { buffer_offset, row_bytes, format, aspect, mip, layer, x, y, z, width, height, depth };
            self.take_over(TextureTarget { texture: texture.clone(), mip, layer, aspects: parts.aspects, discard });
            self.texels.push(TexelCopy { source, texture: texture.clone(), region });
        }
        self.arrivals.add(to, from.bytes.frames.points(owner), false);
        self.note_frames(from.bytes.frames);
        self.added(owner, from.bytes.size);
        Ok(())
    }

    /// Lists a mip of a layer that is copied to, unless it is listed.
    fn take_over(&mut self, target: TextureTarget<RawTexture<D>>) {
        let is_it = |held: &TextureTarget<_>| {
            held.texture == target.texture && (held.mip, held.layer) == (target.mip, target.layer)
        };
        // From the back, since the parts of a texture come one after another.
        if !self.textures.iter().rev().any(is_it) {
            self.textures.push(target);
        }
    }

    /// Refuses a source, a destination and a batch that are not all of one allocator; gives the allocator's number.
    fn check_owners<K: ResourceKind>(&self, from: &Staged<D>, to: &Resource<D, K>) -> Result<u32, BatchError>
    where
        D: Create<K>,
    {
        let (source_owner, target_owner) = (from.owner, to.shared().owner());
        let batch_owner = if self.owner == 0 { source_owner } else { self.owner };
        if (source_owner, target_owner) == (batch_owner, batch_owner) {
            return Ok(batch_owner);
        }
        Err(BatchError::Foreign { source_owner, target_owner, batch_owner })
    }

    /// Refuses bytes that no submission may use any more. A compare and a read, if they are for the same frame as those
    /// before and none has ended since.
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

    /// Refuses a batch whose sources or destinations are not any more what they were when copies were added.
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

    /// Whether copies of the allocator of this number may be added.
    pub(super) fn takes(&self, owner: u32) -> bool {
        [0, owner].contains(&self.owner)
    }

    fn added(&mut self, owner: u32, bytes: u64) {
        self.owner = owner;
        self.figures.copy_count += 1;
        self.figures.copy_bytes += bytes;
        self.merged = false;
    }

    /// What a buffer is in this batch, if anything.
    fn role(&self, buffer: &RawBuffer<D>, hash: u32) -> Option<Role> {
        let at = |list: &[RawBuffer<D>]| list.iter().rposition(|held| held == buffer).map(|index| index as u32);
        match *self.known.get(&hash)? {
            role @ Role::Source(index) if self.sources[index as usize] == *buffer => Some(role),
            role @ Role::Target(index) if self.targets[index as usize] == *buffer => Some(role),
            // Another buffer with this hash: rare enough to look through all.
            _ => at(&self.sources).map(Role::Source).or_else(|| at(&self.targets).map(Role::Target)),
        }
    }

    /// The index of a source, if the batch has it already. Refuses a buffer that the batch copies to.
    fn known_source(&self, from: &Staged<D>) -> Result<Option<u32>, BatchError> {
        // Most often the one of the copy before.
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
        self.known.insert(hash, Role::Target(index));
        index
    }

    /// Whether there is nothing to copy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.texels.is_empty()
    }

    /// What the batch does, merged.
    pub fn figures(&mut self) -> BatchFigures {
        self.merge();
        self.figures
    }

    /// The merged copies between buffers: source, destination, regions. O(copies · log copies) the first time.
    pub fn merged(&mut self) -> impl Iterator<Item = (&RawBuffer<D>, &RawBuffer<D>, &[CopyRegion])> {
        self.merge();
        let this = &*self;
        this.groups.iter().map(|group| this.group(group))
    }

    fn group(&self, group: &Group) -> (&RawBuffer<D>, &RawBuffer<D>, &[CopyRegion]) {
        let regions = &self.regions[group.first..group.first + group.count];
        (&self.sources[group.source as usize], &self.targets[group.target as usize], regions)
    }

    /// Records the copies, with the barriers before and after them in two calls. Records nothing if there is nothing to
    /// copy. The batch does not change; [`UploadBatch::clear`] it for the next frame.
    ///
    /// # Errors
    /// [`BatchError::FrameOver`] if the sources were staged for a frame that is over; [`BatchError::Exchanged`]. Nothing
    /// is recorded then, and the batch is as before.
    ///
    /// # Safety
    /// - The frame that the sources were staged for is still open, and what is recorded here is submitted as that
    ///   frame.
    /// - No destination was dropped before that frame began, and each was made to be copied to. Copies lie inside the
    ///   size that it was described with.
    /// - The [`Staged`] values are as the ring or [`Staged::of`] returned them; offset and distances of texels are as
    ///   the device demands.
    /// - Texels do not overlap. Those of `D24UnormS8Uint` have zeros beside their depth on Direct3D 12.
    /// - On Direct3D 12 no destination lies in an upload heap.
    pub unsafe fn record(&mut self, into: &mut impl Record<D>) -> Result<(), BatchError> {
        if self.is_empty() {
            return Ok(());
        }
        self.check_record()?;
        self.merge();
        // SAFETY: the caller promises that the resources are alive; buffers' ranges were checked when they were added,
        // and merged regions of a destination do not overlap.
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

    /// The destinations, for a consumer on another queue family that has to acquire them.
    #[must_use]
    pub fn targets(&self) -> (&[RawBuffer<D>], &[TextureTarget<RawTexture<D>>]) {
        (&self.targets, &self.textures)
    }

    /// Removes all copies and keeps the host memory for the next.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.targets.clear();
        self.known.clear();
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

    /// Sorts, lets later copies hide earlier ones, joins neighbours.
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

    /// Whether some bytes are copied to twice. Leaves the copies in the order in which they were added, unless not.
    fn overlaps(&mut self) -> bool {
        let key = |copy: &Copy| (copy.target, copy.region.dst_offset);
        if !self.copies.is_sorted_by_key(key) {
            return self.overlaps_unsorted();
        }
        self.copies.windows(2).any(|pair| pair[0].target == pair[1].target && pair[0].end() > pair[1].region.dst_offset)
    }

    /// The same, by way of a sorted list of where copies go; the regions serve as its memory.
    fn overlaps_unsorted(&mut self) -> bool {
        self.regions.clear();
        self.regions
            .extend(self.copies.iter().map(|copy| CopyRegion { src_offset: u64::from(copy.target), ..copy.region }));
        self.regions.sort_unstable_by_key(|region| (region.src_offset, region.dst_offset));
        let follows = |pair: &[CopyRegion]| pair[0].dst_offset + pair[0].size <= pair[1].dst_offset;
        !self.regions.windows(2).all(|pair| pair[0].src_offset != pair[1].src_offset || follows(pair))
    }

    /// Cuts out of each copy what a later one goes over. From the last copy back, each takes what is not covered yet,
    /// and covers it; as covered ranges are joined, each of them is met once. Rare, so that it may take its memory.
    fn hide(&mut self) {
        // Where a covered range of a target ends, by where it begins.
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

/// Adds a copy to the regions, joined with the last one if it goes on from there in both buffers.
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

// By hand, since a derived one would ask that devices can be cloned.
impl<D: Device> Clone for UploadBatch<D> {
    fn clone(&self) -> Self {
        Self {
            sources: self.sources.clone(),
            targets: self.targets.clone(),
            known: self.known.clone(),
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
