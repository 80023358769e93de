//! Passes: targets, their views, their layouts.

use ash::vk;
use ringfence::AllocationDesc;
use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, View};
use ringfence::device::descriptors::{HeapKind, TextureView, TextureViewKind};
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::vulkan::{Device, Texture};

use crate::gpu::{Failure, Gpu, Work};

pub const COLOUR: vk::ImageLayout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
pub const DEPTH: vk::ImageLayout = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;

/// The heaps of the views of targets.
pub struct Views {
    pub colours: CpuDescriptorHeap<Device>,
    pub depths: CpuDescriptorHeap<Device>,
}

/// A texture that passes draw to, and its view.
pub struct Target {
    pub texture: Texture,
    view: CpuDescriptors<Device>,
}

impl Views {
    pub fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let heap = |kind, name| CpuDescriptorHeap::new(&gpu.memory, CpuHeapDesc { kind, name, ..Default::default() });
        let colours = heap(HeapKind::RenderTargets, "colours")?;
        Ok(Self { colours, depths: heap(HeapKind::DepthStencils, "depths")? })
    }

    /// Creates a target for colours that can be read back.
    pub fn colour(&self, gpu: &Gpu, name: &str, [width, height]: [u32; 2]) -> Result<Target, Failure> {
        let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC;
        let desc = TextureDesc { width, height, format: Format::Rgba8Unorm, usage, ..Default::default() };
        let texture = gpu.memory.create_texture(&desc, AllocationDesc { name, ..Default::default() })?;
        let mut view = self.colours.allocate(1)?;
        view.write(0, &View::texture(&texture, TextureView::new(TextureViewKind::RenderTarget, 0..1, 0..1))?)?;
        Ok(Target { texture, view })
    }

    /// Creates a depth target.
    pub fn depth(&self, gpu: &Gpu, name: &str, [width, height]: [u32; 2]) -> Result<Target, Failure> {
        let usage = TextureUsage::DEPTH_STENCIL;
        let desc = TextureDesc { width, height, format: Format::D32Float, usage, ..Default::default() };
        let texture = gpu.memory.create_texture(&desc, AllocationDesc { name, ..Default::default() })?;
        let mut view = self.depths.allocate(1)?;
        let kind = TextureViewKind::DepthStencil;
        view.write(0, &View::texture(&texture, TextureView::new(kind, 0..1, 0..1))?)?;
        Ok(Target { texture, view })
    }
}

/// Returns Vulkan's view of a slot.
pub fn image_view(view: &CpuDescriptors<Device>) -> vk::ImageView {
    view.image_view(0)
}

impl Target {
    pub fn image(&self) -> vk::Image {
        *self.texture.object()
    }

    pub fn view(&self) -> vk::ImageView {
        image_view(&self.view)
    }
}

/// Moves an image with one mip level and one layer to another layout, after all earlier commands.
pub fn change_layout(gpu: &Gpu, work: &Work, image: vk::Image, from: vk::ImageLayout, to: vk::ImageLayout) {
    let aspect_mask = if to == DEPTH { vk::ImageAspectFlags::DEPTH } else { vk::ImageAspectFlags::COLOR };
    let range = vk::ImageSubresourceRange { aspect_mask, level_count: 1, layer_count: 1, ..Default::default() };
    let barrier = vk::ImageMemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
        .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
        .old_layout(from)
        .new_layout(to)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(range);
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    // SAFETY: the command buffer is being recorded outside of a pass, and the image is alive.
    unsafe { gpu.device.cmd_pipeline_barrier(work.commands, all, all, Default::default(), &[], &[], &[barrier]) };
}

/// Begins a pass that clears its targets. `COLOUR` and `DEPTH` are the layouts of the targets.
pub fn begin(gpu: &Gpu, work: &Work, [width, height]: [u32; 2], colour: vk::ImageView, depth: Option<vk::ImageView>) {
    let clear = vk::ClearColorValue { float32: [0.1, 0.2, 0.4, 1.0] };
    let attachment = |view, layout, clear_value| {
        vk::RenderingAttachmentInfo::default()
            .image_view(view)
            .image_layout(layout)
            .load_op(vk::AttachmentLoadOp::CLEAR)
            .store_op(vk::AttachmentStoreOp::STORE)
            .clear_value(clear_value)
    };
    let colours = [attachment(colour, COLOUR, vk::ClearValue { color: clear })];
    let far = vk::ClearValue { depth_stencil: vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 } };
    let depth = depth.map(|view| attachment(view, DEPTH, far));
    let area = vk::Rect2D { extent: vk::Extent2D { width, height }, ..Default::default() };
    let mut info = vk::RenderingInfo::default().render_area(area).layer_count(1).color_attachments(&colours);
    if let Some(depth) = &depth {
        info = info.depth_attachment(depth);
    }
    let viewport = vk::Viewport { width: width as f32, height: height as f32, max_depth: 1.0, ..Default::default() };
    // SAFETY: the command buffer is being recorded. The views are alive and have this size.
    unsafe {
        gpu.device.cmd_begin_rendering(work.commands, &info);
        gpu.device.cmd_set_viewport(work.commands, 0, &[viewport]);
        gpu.device.cmd_set_scissor(work.commands, 0, &[area]);
    }
}

/// Ends the pass.
pub fn end(gpu: &Gpu, work: &Work) {
    // SAFETY: the steps call it once after `begin`.
    unsafe { gpu.device.cmd_end_rendering(work.commands) };
}
