//! Fills, clears, copies of boxes, resolves and mip levels in a Vulkan command buffer.
//!
//! ```text
//!   vkCmdPipelineBarrier   all textures of the command into their layouts; a memory barrier for buffers
//!   vkCmdFillBuffer, vkCmdClearColorImage, vkCmdClearDepthStencilImage, vkCmdCopyImage, vkCmdResolveImage
//!   vkCmdBlitImage         one for each mip level, with a barrier between two levels
//!   vkCmdPipelineBarrier   back into the recorder's layout
//! ```

use ash::vk;
use smallvec::SmallVec;

use super::{ALL, CopyRecorder, EVERYTHING, Handover, Scope, aspects};
use crate::device::Device;
use ringfence_hal::record::{Record, TexelRead, TextureAspects};
use ringfence_hal::transfer::{
    ClearColor, ClearTexel, MipChain, SubresourceRange, TexelAlignment, TexelOrigin, TextureBoxCopy, TextureClear,
    TextureResolve, Transfer, TransferSupport,
};
use ringfence_hal::{DeviceError, Format, TexelFormat, TextureAspect, TextureDesc, TextureUsage};

/// Features of a format that a blit needs, with the error text if the format lacks one.
const BLIT_FEATURES: [(vk::FormatFeatureFlags, &str); 3] = [
    (vk::FormatFeatureFlags::BLIT_SRC, "blits from this format (the format lacks BLIT_SRC)"),
    (vk::FormatFeatureFlags::BLIT_DST, "blits to this format (the format lacks BLIT_DST)"),
    (
        vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR,
        "blits of this format with linear filtering (the format lacks SAMPLED_IMAGE_FILTER_LINEAR)",
    ),
];

impl TransferSupport for Device {
    fn has_fill(&self) -> bool {
        true
    }

    fn clear_usage(&self, _: Format) -> TextureUsage {
        TextureUsage::COPY_DST
    }

    /// A texture with the usage `COPY_DST` can be cleared, because its creation has checked the format.
    fn check_clear(&self, _: &TextureDesc, _: &ClearTexel) -> Result<(), DeviceError> {
        Ok(())
    }

    fn check_copy(&self, src: Format, dst: Format) -> Result<(), DeviceError> {
        if src != dst && (src.is_depth_stencil() || dst.is_depth_stencil()) {
            return Err(DeviceError::unsupported("copies between different formats of depth or stencil"));
        }
        Ok(())
    }

    fn check_resolve(&self, desc: &TextureDesc) -> Result<(), DeviceError> {
        if self.format_features(desc.format).contains(vk::FormatFeatureFlags::COLOR_ATTACHMENT) {
            return Ok(());
        }
        Err(DeviceError::unsupported("resolves of this format (the format lacks COLOR_ATTACHMENT)"))
    }

    fn check_blit(&self, desc: &TextureDesc) -> Result<(), DeviceError> {
        let features = self.format_features(desc.format);
        match BLIT_FEATURES.into_iter().find(|(feature, _)| !features.contains(*feature)) {
            Some((_, refused)) => Err(DeviceError::unsupported(refused)),
            None => Ok(()),
        }
    }

    fn texel_alignment(&self, format: TexelFormat, aspect: TextureAspect) -> TexelAlignment {
        TexelAlignment::of_blocks(format, aspect)
    }
}

/// Subresources of an image that a command uses, and their layouts before and during the command.
#[derive(Clone, Copy)]
struct Used {
    image: vk::Image,
    range: vk::ImageSubresourceRange,
    before: vk::ImageLayout,
    during: vk::ImageLayout,
}

const UNDEFINED: vk::ImageLayout = vk::ImageLayout::UNDEFINED;

impl CopyRecorder<'_> {
    /// Returns the layout of a source during a command.
    fn source_layout(&self) -> vk::ImageLayout {
        match self.layout {
            vk::ImageLayout::GENERAL => vk::ImageLayout::GENERAL,
            _ => vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        }
    }

    fn source(&self, image: vk::Image, range: vk::ImageSubresourceRange) -> Used {
        Used { image, range, before: self.layout, during: self.source_layout() }
    }

    fn target(&self, image: vk::Image, range: vk::ImageSubresourceRange, discard: bool) -> Used {
        let before = if discard { UNDEFINED } else { self.layout };
        Used { image, range, before, during: self.copy_layout() }
    }

    /// Records one barrier for all memory and these images.
    fn transfer_barrier(&self, scope: Scope, images: &[vk::ImageMemoryBarrier<'_>], to: vk::PipelineStageFlags) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(scope.before).dst_access_mask(scope.after)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded, and the caller of the command promised that the images are
        // alive.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, ALL, to, none, &memory, &[], images) };
    }

    /// Records a command between its barriers.
    fn between_barriers(&self, used: &[Used], command: impl FnOnce(&ash::Device, vk::CommandBuffer)) {
        let begin = Scope { before: vk::AccessFlags::MEMORY_WRITE, after: TRANSFER };
        let end = Scope { before: vk::AccessFlags::TRANSFER_WRITE, after: EVERYTHING | vk::AccessFlags::HOST_READ };
        let images: SmallVec<[_; 4]> = used.iter().map(|used| begin.of(used, (used.before, used.during))).collect();
        self.transfer_barrier(begin, &images, ALL);
        command(self.device, self.commands);
        let images: SmallVec<[_; 4]> = used.iter().map(|used| end.of(used, (used.during, self.layout))).collect();
        self.transfer_barrier(end, &images, ALL | vk::PipelineStageFlags::HOST);
    }
}

const TRANSFER: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::TRANSFER_READ.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw());

impl Scope {
    /// Returns the barrier of one use. Only the device accesses images.
    fn of(self, used: &Used, layouts: (vk::ImageLayout, vk::ImageLayout)) -> vk::ImageMemoryBarrier<'static> {
        let on_device = Self { after: self.after & !vk::AccessFlags::HOST_READ, ..self };
        on_device.image(used.image, used.range, layouts, Handover::NONE)
    }
}

fn subresources(of: TextureAspects, range: SubresourceRange) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: aspects(of),
        base_mip_level: range.mip,
        level_count: range.mips,
        base_array_layer: range.layer,
        layer_count: range.layers,
    }
}

fn layers(aspect: TextureAspects, mip: u32, layer: u32, layers: u32) -> vk::ImageSubresourceLayers {
    let (base_array_layer, layer_count) = (layer, layers);
    vk::ImageSubresourceLayers { aspect_mask: aspects(aspect), mip_level: mip, base_array_layer, layer_count }
}

const fn clear_color(color: ClearColor) -> vk::ClearColorValue {
    match color {
        ClearColor::Float(float32) => vk::ClearColorValue { float32 },
        ClearColor::Sint(int32) => vk::ClearColorValue { int32 },
        ClearColor::Uint(uint32) => vk::ClearColorValue { uint32 },
    }
}

const fn offset(origin: &TexelOrigin) -> vk::Offset3D {
    vk::Offset3D { x: origin.x as i32, y: origin.y as i32, z: origin.z as i32 }
}

const fn extent([width, height, depth]: [u32; 3]) -> vk::Extent3D {
    vk::Extent3D { width, height, depth }
}

/// Returns the blit that makes a mip level from the previous one, in all layers.
fn mip_blit<T>(chain: &MipChain<T>, mip: u32) -> vk::ImageBlit {
    let corner = |mip| {
        let [x, y, z] = chain.parts.extent(mip).map(|side| side as i32);
        [vk::Offset3D::default(), vk::Offset3D { x, y, z }]
    };
    let of = |mip| layers(chain.parts.aspects, mip, 0, chain.parts.layers);
    vk::ImageBlit {
        src_subresource: of(mip - 1),
        src_offsets: corner(mip - 1),
        dst_subresource: of(mip),
        dst_offsets: corner(mip),
    }
}

impl Transfer<Device> for CopyRecorder<'_> {
    unsafe fn fill_buffer(&mut self, dst: &vk::Buffer, offset: u64, size: u64, value: u32) -> Result<(), DeviceError> {
        self.between_barriers(&[], |device, commands| {
            // SAFETY: the caller promises that the buffer is alive and that the range is inside it and aligned.
            unsafe { device.cmd_fill_buffer(commands, *dst, offset, size, value) };
        });
        Ok(())
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<vk::Image>) -> Result<(), DeviceError> {
        // A barrier must name both depth and stencil, even if only one of them is cleared.
        let target = self.target(clear.texture, subresources(clear.aspects, clear.range), clear.discard);
        let range = [subresources(clear.value.aspects(), clear.range)];
        self.between_barriers(&[target], |device, commands| match clear.value {
            ClearTexel::Color(color) => {
                let value = clear_color(color);
                // SAFETY: the caller promises that the texture is alive and has these subresources. The barrier has
                // transitioned them to this layout.
                unsafe { device.cmd_clear_color_image(commands, target.image, target.during, &value, &range) };
            }
            ClearTexel::DepthStencil { depth, stencil } => {
                let (depth, stencil) = (depth.unwrap_or(0.0), stencil.unwrap_or(0).into());
                let value = vk::ClearDepthStencilValue { depth, stencil };
                // SAFETY: as above.
                unsafe {
                    device.cmd_clear_depth_stencil_image(commands, target.image, target.during, &value, &range);
                }
            }
        });
        Ok(())
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<vk::Image, vk::Buffer>]) {
        // SAFETY: the caller makes the same promise. The barriers include all memory.
        unsafe { self.read_texels(reads) };
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<vk::Image>) {
        let range = |origin: &TexelOrigin| {
            let &TexelOrigin { mip, layer, .. } = origin;
            subresources(copy.aspects, SubresourceRange { mip, mips: 1, layer, layers: copy.layers })
        };
        let side = |origin: &TexelOrigin| layers(copy.aspect.flag(), origin.mip, origin.layer, copy.layers);
        let source = self.source(copy.src, range(&copy.from));
        let target = self.target(copy.dst, range(&copy.to), copy.discard);
        let region = vk::ImageCopy {
            src_subresource: side(&copy.from),
            src_offset: offset(&copy.from),
            dst_subresource: side(&copy.to),
            dst_offset: offset(&copy.to),
            extent: extent(copy.extent),
        };
        self.between_barriers(&[source, target], |device, commands| {
            // SAFETY: the caller promises that the textures are alive and contain the boxes. The barrier has
            // transitioned their subresources to these layouts.
            unsafe {
                device.cmd_copy_image(commands, copy.src, source.during, copy.dst, target.during, &[region]);
            }
        });
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<vk::Image>) {
        let (color, [width, height], count) = (TextureAspects::COLOR, resolve.extent, resolve.layers);
        let range = |mip, layer| subresources(color, SubresourceRange { mip, mips: 1, layer, layers: count });
        let source = self.source(resolve.src, range(0, resolve.src_layer));
        let target = self.target(resolve.dst, range(resolve.dst_mip, resolve.dst_layer), true);
        let region = vk::ImageResolve {
            src_subresource: layers(color, 0, resolve.src_layer, count),
            dst_subresource: layers(color, resolve.dst_mip, resolve.dst_layer, count),
            extent: extent([width, height, 1]),
            ..Default::default()
        };
        self.between_barriers(&[source, target], |device, commands| {
            // SAFETY: the caller promises that the textures are alive and have these subresources. The barrier has
            // transitioned them to these layouts.
            unsafe {
                device.cmd_resolve_image(commands, source.image, source.during, target.image, target.during, &[region]);
            }
        });
    }

    unsafe fn blit_mips(&mut self, chain: &MipChain<vk::Image>) -> Result<(), DeviceError> {
        let (all, mips) = (SubresourceRange::all(&chain.parts), chain.parts.mips);
        let range = |mip, mips| subresources(chain.parts.aspects, SubresourceRange { mip, mips, ..all });
        let first = self.source(chain.texture, range(0, 1));
        let later = self.target(chain.texture, range(1, mips - 1), true);
        let begin = Scope { before: vk::AccessFlags::MEMORY_WRITE, after: TRANSFER };
        let images = [first, later].map(|used| begin.of(&used, (used.before, used.during)));
        self.transfer_barrier(begin, &images, ALL);
        let written = Scope { before: vk::AccessFlags::TRANSFER_WRITE, after: vk::AccessFlags::TRANSFER_READ };
        for mip in 1..mips {
            let blit = [mip_blit(chain, mip)];
            // SAFETY: the caller promises that the texture is alive and that its format can be blitted. The barriers
            // have transitioned its levels to these layouts.
            unsafe {
                self.device.cmd_blit_image(
                    self.commands,
                    chain.texture,
                    first.during,
                    chain.texture,
                    later.during,
                    &blit,
                    vk::Filter::LINEAR,
                );
            }
            let level = Used { range: range(mip, 1), ..later };
            self.transfer_barrier(written, &[written.of(&level, (later.during, first.during))], ALL);
        }
        let end = Scope { before: vk::AccessFlags::TRANSFER_WRITE, after: EVERYTHING };
        // After the last blit, all levels are sources.
        let images = [first, later].map(|used| end.of(&used, (first.during, self.layout)));
        self.transfer_barrier(end, &images, ALL);
        Ok(())
    }
}
