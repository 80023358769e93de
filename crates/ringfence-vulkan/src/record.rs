//! Copies into a Vulkan command buffer.
//!
//! ```text
//!   vkCmdPipelineBarrier   one memory barrier for all buffers, one image barrier per subresource
//!   vkCmdCopyBuffer …      one call for each pair of source and destination
//!   vkCmdCopyBufferToImage one call for each box of texels in a layer
//!   vkCmdPipelineBarrier   the same barriers, in the other direction
//! ```
//!
//! One memory barrier covers all buffers, because drivers do not handle a barrier for a single buffer more precisely.
//! The size of the call then stays the same for any number of buffers. Only a transfer of ownership needs a barrier for
//! each buffer.

use ash::vk;
use smallvec::SmallVec;

mod transfer;

use super::device::Device;
use ringfence_hal::record::{
    CopyRegion, Record, TexelRead, TexelRegion, TextureAspects, TextureCopy, TextureParts, TextureTarget,
};

/// The queue families between which ownership of the resources is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Handover {
    from: u32,
    to: u32,
}

impl Handover {
    /// No ownership transfer.
    const NONE: Self = Self { from: vk::QUEUE_FAMILY_IGNORED, to: vk::QUEUE_FAMILY_IGNORED };
}

/// Recorder of copies into a command buffer.
pub struct CopyRecorder<'a> {
    device: &'a ash::Device,
    commands: vk::CommandBuffer,
    /// Layout of textures before and after the copies.
    layout: vk::ImageLayout,
    handover: Option<Handover>,
}

impl<'a> CopyRecorder<'a> {
    /// Returns a recorder for a command buffer. Unless [`texture_layout`](Self::texture_layout) is called, textures
    /// must be in the layout `GENERAL` before the copies (unless their contents are discarded), and they are in
    /// `GENERAL` afterwards.
    ///
    /// # Safety
    /// The command buffer must belong to the device. While the recorder exists, only the calling thread may record the
    /// command buffer, and no render pass may be active in it.
    #[must_use]
    pub const unsafe fn new(device: &'a ash::Device, commands: vk::CommandBuffer) -> Self {
        Self { device, commands, layout: vk::ImageLayout::GENERAL, handover: None }
    }

    /// Sets the layout of textures: they must be in it before the copies (unless their contents are discarded), and are
    /// in it after the copies.
    #[must_use]
    pub const fn texture_layout(mut self, layout: vk::ImageLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets an ownership transfer: [`Record::end_copies`] releases the destinations of the copies from queue family
    /// `from` to family `to`. Sets none if both families are equal. Transfer commands and copies of whole textures
    /// release nothing.
    ///
    /// The command buffer must be submitted to a queue of `from`. Before a queue of `to` uses the resources, it must
    /// record [`CopyRecorder::acquire`] with the batch's targets (`UploadBatch::targets`). The resources must have
    /// exclusive sharing mode, and `from` must own them: it is the first family to use them, or it has acquired them.
    #[must_use]
    pub fn release_to(mut self, from: u32, to: u32) -> Self {
        self.handover = (from != to).then_some(Handover { from, to });
        self
    }

    /// Records a release of resources from queue family `from`. The command buffer must be submitted to a queue of
    /// `from`. Family `to` can then [acquire](CopyRecorder::acquire) the resources with their contents. Textures keep
    /// their layout. Records nothing if both families are equal.
    ///
    /// A release is needed before an upload to part of a resource if a queue of another family has used the resource.
    /// That queue releases the resource, and the copy queue acquires the resource before the copies.
    ///
    /// # Safety
    /// The rules of [`Record::end_copies`].
    pub unsafe fn release(
        &mut self,
        from: u32,
        to: u32,
        buffers: &[vk::Buffer],
        textures: &[TextureTarget<vk::Image>],
    ) {
        let scope = Scope { before: vk::AccessFlags::MEMORY_WRITE, after: vk::AccessFlags::empty() };
        self.hand_over(Handover { from, to }, scope, buffers, textures);
    }

    /// Records the acquisition, by queue family `to`, of resources that family `from` has released to it. The command
    /// buffer must be submitted to a queue of `to`, and the submission must wait for the one with the release.
    ///
    /// # Safety
    /// The rules of [`Record::end_copies`].
    pub unsafe fn acquire(
        &mut self,
        from: u32,
        to: u32,
        buffers: &[vk::Buffer],
        textures: &[TextureTarget<vk::Image>],
    ) {
        let scope = Scope { before: vk::AccessFlags::empty(), after: EVERYTHING };
        self.hand_over(Handover { from, to }, scope, buffers, textures);
    }

    fn hand_over(
        &self,
        handover: Handover,
        scope: Scope,
        buffers: &[vk::Buffer],
        textures: &[TextureTarget<vk::Image>],
    ) {
        if handover.from != handover.to {
            let recorder = Self { handover: Some(handover), ..*self };
            recorder.barriers(scope, buffers, textures, |_| (self.layout, self.layout), ALL);
        }
    }

    /// Returns the layout of textures during copies to them.
    fn copy_layout(&self) -> vk::ImageLayout {
        match self.layout {
            vk::ImageLayout::GENERAL => vk::ImageLayout::GENERAL,
            _ => vk::ImageLayout::TRANSFER_DST_OPTIMAL,
        }
    }

    fn barriers(
        &self,
        Scope { before, after }: Scope,
        buffers: &[vk::Buffer],
        textures: &[TextureTarget<vk::Image>],
        layouts: impl Fn(&TextureTarget<vk::Image>) -> (vk::ImageLayout, vk::ImageLayout),
        to: vk::PipelineStageFlags,
    ) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(before).dst_access_mask(after)];
        let handover = self.handover.unwrap_or(Handover::NONE);
        // Without the feature `separateDepthStencilLayouts`, a barrier must name both depth and stencil, even if only
        // one of them is copied.
        let images: SmallVec<[_; 32]> = textures
            .iter()
            .map(|target| {
                let part = one_subresource(target.aspects, target.mip, target.layer);
                Scope { before, after }.image(target.texture, part, layouts(target), handover)
            })
            .collect();
        let handed_over = if self.handover.is_some() { buffers } else { &[] };
        let owned: SmallVec<[_; 32]> = handed_over
            .iter()
            .map(|&buffer| {
                vk::BufferMemoryBarrier::default()
                    .src_access_mask(before)
                    .dst_access_mask(after)
                    .src_queue_family_index(handover.from)
                    .dst_queue_family_index(handover.to)
                    .buffer(buffer)
                    .size(vk::WHOLE_SIZE)
            })
            .collect();
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded, and the caller of `begin_copies` promised that the resources
        // are alive.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, ALL, to, none, &memory, &owned, &images) };
    }
}

/// Layouts of an image in a copy of the whole image: before, during and after it.
#[derive(Clone, Copy)]
struct Layouts {
    before: vk::ImageLayout,
    during: vk::ImageLayout,
    after: vk::ImageLayout,
}

impl CopyRecorder<'_> {
    /// Returns the layouts of the source and of the destination of a copy between textures.
    fn whole_layouts(&self) -> [Layouts; 2] {
        let (general, after) = (vk::ImageLayout::GENERAL, self.layout);
        let during = |layout| if self.layout == general { general } else { layout };
        [
            Layouts { before: self.layout, during: during(vk::ImageLayout::TRANSFER_SRC_OPTIMAL), after },
            Layouts {
                before: vk::ImageLayout::UNDEFINED,
                during: during(vk::ImageLayout::TRANSFER_DST_OPTIMAL),
                after,
            },
        ]
    }

    /// Records one barrier with all textures of the copies: a transition to their layouts during the copies, or to
    /// those after them.
    fn whole_barriers(&self, scope: Scope, copies: &[TextureCopy<vk::Image>], is_begin: bool) {
        let [source, destination] = self.whole_layouts();
        let images: SmallVec<[_; 32]> = copies
            .iter()
            .flat_map(|copy| [(copy.src, source, &copy.parts), (copy.dst, destination, &copy.parts)])
            .map(|(image, layouts, parts)| {
                let Layouts { before, during, after } = layouts;
                let layouts = if is_begin { (before, during) } else { (during, after) };
                scope.image(image, all_subresources(parts), layouts, Handover::NONE)
            })
            .collect();
        let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        // SAFETY: the command buffer is being recorded, and the caller of `copy_textures` promised that the textures
        // are alive.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, all, all, none, &[], &[], &images) };
    }

    /// Records one barrier for all reads. The barrier contains each mip level of a layer once, even if several boxes of
    /// it are read.
    fn read_barrier(
        &self,
        Scope { before, after }: Scope,
        reads: &[TexelRead<vk::Image, vk::Buffer>],
        layouts: (vk::ImageLayout, vk::ImageLayout),
    ) {
        let place = |read: &TexelRead<_, _>| (read.src, read.region.mip, read.region.layer);
        let is_first = |index: usize| !reads[..index].iter().rev().any(|read| place(read) == place(&reads[index]));
        let on_device = Scope { before, after: after & !vk::AccessFlags::HOST_READ };
        let images: SmallVec<[_; 32]> = reads
            .iter()
            .enumerate()
            .filter(|(index, _)| is_first(*index))
            .map(|(_, TexelRead { src, aspects, region, .. })| {
                let part = one_subresource(*aspects, region.mip, region.layer);
                on_device.image(*src, part, layouts, Handover::NONE)
            })
            .collect();
        let memory = [vk::MemoryBarrier::default().src_access_mask(before).dst_access_mask(after)];
        let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        let to = if after.contains(vk::AccessFlags::HOST_READ) { all | vk::PipelineStageFlags::HOST } else { all };
        // SAFETY: the command buffer is being recorded, and the caller of `read_texels` promised that the textures are
        // alive.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, all, to, none, &memory, &[], &images) };
    }
}

fn all_subresources(parts: &TextureParts) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: aspects(parts.aspects),
        base_mip_level: 0,
        level_count: parts.mips,
        base_array_layer: 0,
        layer_count: parts.layers,
    }
}

/// Returns Vulkan's aspects for the portable ones.
pub(super) fn aspects(aspects: TextureAspects) -> vk::ImageAspectFlags {
    let pairs = [
        (TextureAspects::COLOR, vk::ImageAspectFlags::COLOR),
        (TextureAspects::DEPTH, vk::ImageAspectFlags::DEPTH),
        (TextureAspects::STENCIL, vk::ImageAspectFlags::STENCIL),
    ];
    let present = pairs.into_iter().filter(|(aspect, _)| aspects.contains(*aspect));
    present.fold(vk::ImageAspectFlags::empty(), |all, (_, aspect)| all | aspect)
}

/// Returns a copy of each mip level, with all layers.
fn mip_copies(parts: &TextureParts) -> SmallVec<[vk::ImageCopy; 16]> {
    let copies = (0..parts.mips).map(|mip| {
        let [width, height, depth] = parts.extent(mip);
        let layers = vk::ImageSubresourceLayers {
            aspect_mask: aspects(parts.aspects),
            mip_level: mip,
            base_array_layer: 0,
            layer_count: parts.layers,
        };
        let extent = vk::Extent3D { width, height, depth };
        vk::ImageCopy { src_subresource: layers, dst_subresource: layers, extent, ..Default::default() }
    });
    copies.collect()
}

/// Memory accesses of a barrier: it makes the writes of `before` available, and visible to `after`.
#[derive(Clone, Copy)]
struct Scope {
    before: vk::AccessFlags,
    after: vk::AccessFlags,
}

impl Scope {
    /// Returns a barrier for part of an image, with a transition from the old to the new layout.
    fn image(
        self,
        image: vk::Image,
        part: vk::ImageSubresourceRange,
        (old, new): (vk::ImageLayout, vk::ImageLayout),
        Handover { from, to }: Handover,
    ) -> vk::ImageMemoryBarrier<'static> {
        vk::ImageMemoryBarrier::default()
            .src_access_mask(self.before)
            .dst_access_mask(self.after)
            .old_layout(old)
            .new_layout(new)
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
            .image(image)
            .subresource_range(part)
    }
}

const ALL: vk::PipelineStageFlags = vk::PipelineStageFlags::ALL_COMMANDS;
const EVERYTHING: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::MEMORY_READ.as_raw() | vk::AccessFlags::MEMORY_WRITE.as_raw());

fn one_subresource(all: TextureAspects, mip: u32, layer: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: aspects(all),
        base_mip_level: mip,
        level_count: 1,
        base_array_layer: layer,
        layer_count: 1,
    }
}

/// Converts a box of texels. Vulkan measures the row length and image height in the buffer in texels, as multiples of
/// whole blocks.
fn buffer_image_copy(region: &TexelRegion) -> vk::BufferImageCopy {
    let [across, down] = region.format.block();
    let row_blocks = region.row_bytes / u64::from(region.block_bytes().max(1));
    let row_texels = row_blocks.saturating_mul(u64::from(across));
    vk::BufferImageCopy {
        buffer_offset: region.buffer_offset,
        buffer_row_length: u32::try_from(row_texels).unwrap_or(u32::MAX),
        buffer_image_height: region.blocks()[1].saturating_mul(down),
        image_subresource: vk::ImageSubresourceLayers {
            aspect_mask: aspects(region.aspect.flag()),
            mip_level: region.mip,
            base_array_layer: region.layer,
            layer_count: 1,
        },
        image_offset: vk::Offset3D { x: region.x as i32, y: region.y as i32, z: region.z as i32 },
        image_extent: vk::Extent3D { width: region.width, height: region.height, depth: region.depth },
    }
}

/// Returns the regions as Vulkan's type, which has the same layout.
fn buffer_copies(regions: &[CopyRegion]) -> &[vk::BufferCopy] {
    use std::mem::{align_of, offset_of, size_of};
    const {
        assert!(size_of::<CopyRegion>() == size_of::<vk::BufferCopy>());
        assert!(align_of::<CopyRegion>() == align_of::<vk::BufferCopy>());
        assert!(offset_of!(CopyRegion, src_offset) == offset_of!(vk::BufferCopy, src_offset));
        assert!(offset_of!(CopyRegion, dst_offset) == offset_of!(vk::BufferCopy, dst_offset));
        assert!(offset_of!(CopyRegion, size) == offset_of!(vk::BufferCopy, size));
    }
    // SAFETY: both types are three 64-bit numbers at the same offsets, as the assertions check, and all bit patterns
    // are valid.
    unsafe { std::slice::from_raw_parts(regions.as_ptr().cast(), regions.len()) }
}

impl Record<Device> for CopyRecorder<'_> {
    unsafe fn begin_copies(&mut self, buffers: &[vk::Buffer], textures: &[TextureTarget<vk::Image>]) {
        // The sources of the copies may have been written on this queue too.
        let after = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
        let before = vk::AccessFlags::MEMORY_WRITE;
        let to = self.copy_layout();
        let from = |target: &TextureTarget<_>| if target.discard { vk::ImageLayout::UNDEFINED } else { self.layout };
        let recorder = Self { handover: None, ..*self };
        recorder.barriers(Scope { before, after }, buffers, textures, |target| (from(target), to), ALL);
    }

    unsafe fn copy_buffer(&mut self, src: &vk::Buffer, dst: &vk::Buffer, regions: &[CopyRegion]) {
        // SAFETY: the caller promises that the regions are inside the buffers, which are alive.
        unsafe { self.device.cmd_copy_buffer(self.commands, *src, *dst, buffer_copies(regions)) };
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &vk::Buffer, dst: &vk::Image, region: &TexelRegion) {
        let copy = buffer_image_copy(region);
        let layout = self.copy_layout();
        // SAFETY: the caller promises that buffer and texture are alive and that the region is inside both.
        // `begin_copies` has transitioned the texture to this layout.
        unsafe { self.device.cmd_copy_buffer_to_image(self.commands, *src, *dst, layout, &[copy]) };
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<vk::Image, vk::Buffer>]) {
        if reads.is_empty() {
            return;
        }
        // The program may have written the buffers.
        let after = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
        let copied = Scope { before: vk::AccessFlags::MEMORY_WRITE, after };
        let [source, _] = self.whole_layouts();
        self.read_barrier(copied, reads, (source.before, source.during));
        for TexelRead { src, dst, region, .. } in reads {
            let copy = buffer_image_copy(region);
            // SAFETY: the caller promises that buffer and texture are alive and that the region is inside both. The
            // barrier has transitioned the texture to this layout.
            unsafe { self.device.cmd_copy_image_to_buffer(self.commands, *src, source.during, *dst, &[copy]) };
        }
        let after = EVERYTHING | vk::AccessFlags::HOST_READ;
        let read = Scope { before: vk::AccessFlags::TRANSFER_WRITE, after };
        self.read_barrier(read, reads, (source.during, source.after));
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<vk::Image>]) {
        if copies.is_empty() {
            return;
        }
        let (written, copied) =
            (vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE);
        self.whole_barriers(Scope { before: written, after: copied }, copies, true);
        let [source, destination] = self.whole_layouts().map(|layouts| layouts.during);
        for TextureCopy { src, dst, parts } in copies {
            // SAFETY: the caller promises that both textures are alive and have the size and subresources in `parts`.
            // The barrier has transitioned them to these layouts.
            unsafe {
                self.device.cmd_copy_image(self.commands, *src, source, *dst, destination, &mip_copies(parts));
            }
        }
        let written = vk::AccessFlags::TRANSFER_WRITE;
        self.whole_barriers(Scope { before: written, after: EVERYTHING }, copies, false);
    }

    unsafe fn end_copies(&mut self, buffers: &[vk::Buffer], textures: &[TextureTarget<vk::Image>]) {
        let (before, after) = (vk::AccessFlags::TRANSFER_WRITE, EVERYTHING);
        let recorder = Self { handover: None, ..*self };
        // The host stage is included, because the host may read the buffers once the submission is complete.
        let to = ALL | vk::PipelineStageFlags::HOST;
        recorder.barriers(Scope { before, after }, buffers, textures, |_| (self.copy_layout(), self.layout), to);
        // The release makes the writes available, and the consumer's acquire makes them visible. Neither changes a
        // layout.
        if let Some(Handover { from, to }) = self.handover {
            // SAFETY: the caller promises that the recorder's command buffer and these resources are alive.
            unsafe { self.release(from, to, buffers, textures) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_hal::{Format, TextureAspect};

    #[test]
    fn a_box_of_blocks_is_counted_in_texels() {
        let region = TexelRegion {
            buffer_offset: 64,
            row_bytes: 32,
            format: Format::Bc1Unorm.texels(),
            aspect: TextureAspect::Color,
            mip: 1,
            layer: 2,
            x: 4,
            y: 0,
            z: 3,
            width: 10,
            height: 6,
            depth: 5,
        };
        let copy = buffer_image_copy(&region);
        assert_eq!((copy.buffer_row_length, copy.buffer_image_height), (16, 8));
        assert_eq!((copy.image_extent.width, copy.image_extent.height, copy.image_extent.depth), (10, 6, 5));
        assert_eq!((copy.image_offset.x, copy.image_offset.z), (4, 3));
        let stencil = TexelRegion { format: Format::D24UnormS8Uint.texels(), aspect: TextureAspect::Stencil, ..region };
        let copy = buffer_image_copy(&stencil);
        assert_eq!(copy.image_subresource.aspect_mask, vk::ImageAspectFlags::STENCIL);
        assert_eq!((copy.buffer_row_length, copy.buffer_image_height), (32, 6));
    }
}
