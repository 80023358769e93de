//! Recording of commands for Vulkan, with a full barrier between commands.
//!
//! ```text
//!   ▌ command ▌ command ▌ … ▌ host        ▌ all stages wait for all stages, all writes are made visible
//! ```
//!
//! The first barrier also waits for earlier submissions to the queue. The last one includes the host.

use ash::vk;
use ringfence::device::TextureAspect;
use ringfence::device::record::{Record, TextureTarget};
use ringfence::vulkan::{CopyRecorder, Device};

use super::draw::{Draw, Painter};
use super::queue::Batch;
use crate::{Command, Subresource, TextureRegion};

/// Layout of textures after their first use.
pub(super) const LAYOUT: vk::ImageLayout = vk::ImageLayout::GENERAL;

/// Records the commands in order.
///
/// # Panics
/// If a command draws and `painter` is `None`.
pub(super) fn commands(
    device: &ash::Device,
    painter: Option<&Painter>,
    commands: &[Command<Device>],
    batch: &mut Batch,
) -> Result<(), vk::Result> {
    for command in commands {
        barrier(device, batch.commands, discarded(command));
        match *command {
            Command::Draw { discs, discs_offset, disc_count, target, width, height } => {
                let draw = Draw { discs, discs_offset, disc_count, target, width, height };
                painter.expect("the device can draw").record(device, batch, &draw)?;
            }
            ref transfer => record_transfer(device, batch.commands, transfer),
        }
    }
    host_barrier(device, batch.commands);
    Ok(())
}

/// Records a transfer command: any [`Command`] except a draw.
fn record_transfer(device: &ash::Device, commands: vk::CommandBuffer, command: &Command<Device>) {
    // SAFETY: the resources belong to the device. The creator of the command promises that its ranges are inside them.
    unsafe {
        match *command {
            Command::Upload(ref batch) => {
                let recorded = batch.as_ref().clone().record(&mut CopyRecorder::new(device, commands));
                recorded.expect("its frame is open");
            }
            Command::CopyTextures(ref copies) => CopyRecorder::new(device, commands).copy_textures(copies),
            Command::CopyBufferToTexels { src, ref dst, ref region } => {
                let mut recorder = CopyRecorder::new(device, commands);
                let targets: &[TextureTarget<vk::Image>] = std::slice::from_ref(dst);
                recorder.begin_copies(&[], targets);
                recorder.copy_buffer_to_texture(&src, &dst.texture, region);
                recorder.end_copies(&[], targets);
            }
            Command::ReadTexels(ref reads) => CopyRecorder::new(device, commands).read_texels(reads),
            Command::Transfers(ref list) => {
                list.replay(&mut CopyRecorder::new(device, commands)).expect("Vulkan has the commands");
            }
            Command::CopySubresource { buffer, texture, ref part, into_texture: true, .. } => {
                device.cmd_copy_buffer_to_image(commands, buffer, texture, LAYOUT, &[all_of(part)]);
            }
            Command::CopySubresource { buffer, texture, ref part, .. } => {
                device.cmd_copy_image_to_buffer(commands, texture, LAYOUT, buffer, &[all_of(part)]);
            }
            Command::TakeOver { .. } => {}
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                let region = vk::BufferCopy { src_offset, dst_offset, size };
                device.cmd_copy_buffer(commands, src, dst, &[region]);
            }
            Command::FillBuffer { dst, offset, size, value } => {
                device.cmd_fill_buffer(commands, dst, offset, size, value)
            }
            Command::CopyBufferToTexture { src, dst, region, .. } => {
                device.cmd_copy_buffer_to_image(commands, src, dst, LAYOUT, &[image_copy(&region)]);
            }
            Command::CopyTextureToBuffer { src, dst, region } => {
                device.cmd_copy_image_to_buffer(commands, src, LAYOUT, dst, &[image_copy(&region)]);
            }
            Command::Draw { .. } => unreachable!("the painter records draws"),
        }
    }
}

fn image_copy(region: &TextureRegion) -> vk::BufferImageCopy {
    let row_texels = region.row_bytes / u64::from(region.texel_bytes);
    vk::BufferImageCopy::default()
        .buffer_offset(region.buffer_offset)
        .buffer_row_length(u32::try_from(row_texels).expect("rows are shorter than 2^32 texels"))
        .image_subresource(
            vk::ImageSubresourceLayers::default()
                .aspect_mask(vk::ImageAspectFlags::COLOR)
                .mip_level(region.mip)
                .base_array_layer(region.layer)
                .layer_count(1),
        )
        .image_extent(vk::Extent3D { width: region.width, height: region.height, depth: 1 })
}

/// Returns a copy of a whole subresource. A row length and image height of 0 mean that rows and slices have no padding.
fn all_of(part: &Subresource) -> vk::BufferImageCopy {
    let [width, height, depth] = part.extent;
    vk::BufferImageCopy::default()
        .buffer_offset(part.buffer_offset)
        .image_subresource(
            vk::ImageSubresourceLayers::default()
                .aspect_mask(match part.aspect {
                    TextureAspect::Color => vk::ImageAspectFlags::COLOR,
                    TextureAspect::Depth => vk::ImageAspectFlags::DEPTH,
                    TextureAspect::Stencil => vk::ImageAspectFlags::STENCIL,
                })
                .mip_level(part.mip)
                .base_array_layer(part.layer)
                .layer_count(1),
        )
        .image_extent(vk::Extent3D { width, height, depth })
}

/// If the command discards contents, returns the texture and the subresources that lose them.
fn discarded(command: &Command<Device>) -> Option<(vk::Image, vk::ImageSubresourceRange)> {
    match *command {
        Command::CopyBufferToTexture { dst, region, discard: true, .. } => {
            Some((dst, one_subresource(region.mip, region.layer)))
        }
        Command::CopySubresource { texture, ref part, discard: true, .. } => {
            let aspect_mask = match (part.has_both, part.aspect) {
                (true, _) => vk::ImageAspectFlags::DEPTH | vk::ImageAspectFlags::STENCIL,
                (_, TextureAspect::Color) => vk::ImageAspectFlags::COLOR,
                (_, TextureAspect::Depth) => vk::ImageAspectFlags::DEPTH,
                (_, TextureAspect::Stencil) => vk::ImageAspectFlags::STENCIL,
            };
            Some((texture, one_subresource(part.mip, part.layer).aspect_mask(aspect_mask)))
        }
        Command::Draw { target, .. } => Some((target, one_subresource(0, 0))),
        _ => None,
    }
}

/// Records a full barrier. Transitions the subresource in `discarded` to [`LAYOUT`] and discards its contents.
pub(super) fn barrier(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    discarded: Option<(vk::Image, vk::ImageSubresourceRange)>,
) {
    let (before, after) = (vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
    let memory = [vk::MemoryBarrier::default().src_access_mask(before).dst_access_mask(after)];
    let image = discarded.map(|(image, range)| {
        vk::ImageMemoryBarrier::default()
            .src_access_mask(before)
            .dst_access_mask(after)
            .old_layout(vk::ImageLayout::UNDEFINED)
            .new_layout(LAYOUT)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(image)
            .subresource_range(range)
    });
    let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
    // SAFETY: the command buffer is being recorded, and the image belongs to the device.
    unsafe {
        device.cmd_pipeline_barrier(commands, all, all, none, &memory, &[], image.as_slice());
    }
}

/// Records a barrier that makes earlier writes visible to the host.
pub(super) fn host_barrier(device: &ash::Device, commands: vk::CommandBuffer) {
    let memory = vk::MemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
        .dst_access_mask(vk::AccessFlags::HOST_READ);
    let (from, to) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::HOST);
    // SAFETY: the command buffer is being recorded.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &[memory], &[], &[]) };
}

/// Returns the colour aspect of one mip level of one layer.
pub(super) fn one_subresource(mip: u32, layer: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: mip,
        level_count: 1,
        base_array_layer: layer,
        layer_count: 1,
    }
}
