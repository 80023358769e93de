//! One command buffer: barriers, passes, draws. All of it is plain Vulkan.

use ash::vk;

use crate::pipelines::{Push, STAGES};
use crate::targets::Start;

/// Records commands of a frame. The command buffer is in the recording state while this value exists.
#[derive(Clone, Copy)]
pub struct Recorder<'a> {
    pub device: &'a ash::Device,
    pub commands: vk::CommandBuffer,
}

/// A target of a pass.
#[derive(Clone, Copy)]
pub struct Attachment {
    pub image: vk::Image,
    pub view: vk::ImageView,
    /// View of the target that gets the mean of the samples.
    pub resolve: Option<vk::ImageView>,
    /// `false` if the contents are not needed after the pass.
    pub is_kept: bool,
}

/// A swapchain image to which the picture is copied.
#[derive(Clone, Copy)]
pub struct Shown {
    pub image: vk::Image,
    pub size: [u32; 2],
    pub wait: vk::Semaphore,
    pub signal: vk::Semaphore,
}

pub const COLOUR: vk::ImageLayout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
const DEPTH: vk::ImageLayout = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
const READ: vk::ImageLayout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;

impl Recorder<'_> {
    /// Records the barriers at the beginning of a pass: the dependency, and the layouts of new targets.
    pub fn start(&self, start: &Start, depths: &[vk::Image]) {
        let write = vk::AccessFlags::MEMORY_WRITE;
        let memory = start.depends.then(|| {
            let read = vk::AccessFlags::MEMORY_READ;
            vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(write | read)
        });
        let images: Vec<_> = start
            .discards
            .iter()
            .map(|image| transition(*image, depths.contains(image), vk::ImageLayout::UNDEFINED, None))
            .collect();
        if memory.is_some() || !images.is_empty() {
            self.barrier(memory.as_slice(), &images);
        }
    }

    /// Makes a target readable by shaders.
    pub fn read(&self, image: vk::Image, is_depth: bool) {
        self.barrier(&[], &[transition(image, is_depth, if is_depth { DEPTH } else { COLOUR }, Some(READ))]);
    }

    /// Prepares a texture for a pass that overwrites it, or gives it another layout.
    pub fn change(&self, image: vk::Image, from: vk::ImageLayout, to: vk::ImageLayout) {
        self.barrier(&[], &[transition(image, false, from, Some(to))]);
    }

    fn barrier(&self, memory: &[vk::MemoryBarrier<'_>], images: &[vk::ImageMemoryBarrier<'_>]) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        // SAFETY: see `Recorder`. The images are alive.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, all, all, Default::default(), memory, &[], images) };
    }

    /// Begins a pass that overwrites its targets.
    pub fn begin(&self, [width, height]: [u32; 2], colour: Option<Attachment>, depth: Option<Attachment>) {
        let colours: Vec<_> = colour.map(|target| attachment(target, COLOUR)).into_iter().collect();
        let depth = depth.map(|target| attachment(target, DEPTH));
        let area = vk::Rect2D { extent: vk::Extent2D { width, height }, ..Default::default() };
        let mut info = vk::RenderingInfo::default().render_area(area).layer_count(1).color_attachments(&colours);
        if let Some(depth) = &depth {
            info = info.depth_attachment(depth);
        }
        let (width, height) = (width as f32, height as f32);
        let viewport = vk::Viewport { width, height, max_depth: 1.0, ..Default::default() };
        // SAFETY: see `Recorder`. The views are alive and have the size.
        unsafe {
            self.device.cmd_begin_rendering(self.commands, &info);
            self.device.cmd_set_viewport(self.commands, 0, &[viewport]);
            self.device.cmd_set_scissor(self.commands, 0, &[area]);
        }
    }

    pub fn end(&self) {
        // SAFETY: a pass has begun.
        unsafe { self.device.cmd_end_rendering(self.commands) };
    }

    pub fn pipeline(&self, pipeline: vk::Pipeline, layout: vk::PipelineLayout, push: &Push) {
        // SAFETY: see `Recorder`. The layout has the push constants.
        unsafe {
            self.device.cmd_bind_pipeline(self.commands, vk::PipelineBindPoint::GRAPHICS, pipeline);
            self.device.cmd_push_constants(self.commands, layout, STAGES, 0, bytemuck::bytes_of(push));
        }
    }

    pub fn meshes(&self, vertices: vk::Buffer, indices: vk::Buffer) {
        // SAFETY: see `Recorder`. The buffers are alive.
        unsafe {
            self.device.cmd_bind_vertex_buffers(self.commands, 0, &[vertices], &[0]);
            self.device.cmd_bind_index_buffer(self.commands, indices, 0, vk::IndexType::UINT32);
        }
    }

    /// Draws with the words of an indirect draw.
    pub fn draw_indexed(&self, [indices, instances, first_index, vertex_offset, first_instance]: [u32; 5]) {
        // SAFETY: a pass has begun, and the bound buffers have these vertices and indices.
        unsafe {
            self.device.cmd_draw_indexed(
                self.commands,
                indices,
                instances,
                first_index,
                vertex_offset as i32,
                first_instance,
            );
        }
    }

    /// Copies the picture to a swapchain image.
    pub fn show(&self, picture: vk::Image, size: [u32; 2], shown: Shown) {
        use vk::ImageLayout as Layout;
        self.change(picture, COLOUR, Layout::TRANSFER_SRC_OPTIMAL);
        self.change(shown.image, Layout::UNDEFINED, Layout::TRANSFER_DST_OPTIMAL);
        let layers = vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            layer_count: 1,
            ..Default::default()
        };
        let corners = |[width, height]: [u32; 2]| {
            [vk::Offset3D::default(), vk::Offset3D { x: width as i32, y: height as i32, z: 1 }]
        };
        let blit = vk::ImageBlit::default()
            .src_subresource(layers)
            .src_offsets(corners(size))
            .dst_subresource(layers)
            .dst_offsets(corners(shown.size));
        let (from, to) = (Layout::TRANSFER_SRC_OPTIMAL, Layout::TRANSFER_DST_OPTIMAL);
        // SAFETY: both images are alive and in these layouts.
        unsafe {
            let filter = vk::Filter::LINEAR;
            self.device.cmd_blit_image(self.commands, picture, from, shown.image, to, &[blit], filter);
        }
        self.change(shown.image, to, Layout::PRESENT_SRC_KHR);
    }

    /// Draws a triangle that covers the target.
    pub fn cover(&self) {
        // SAFETY: a pass has begun.
        unsafe { self.device.cmd_draw(self.commands, 3, 1, 0, 0) };
    }
}

fn attachment(target: Attachment, layout: vk::ImageLayout) -> vk::RenderingAttachmentInfo<'static> {
    let store = if target.is_kept { vk::AttachmentStoreOp::STORE } else { vk::AttachmentStoreOp::DONT_CARE };
    let mut clear = vk::ClearValue::default();
    let mut load = vk::AttachmentLoadOp::DONT_CARE;
    if layout == DEPTH {
        clear.depth_stencil = vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 };
        load = vk::AttachmentLoadOp::CLEAR;
    }
    let info = vk::RenderingAttachmentInfo::default()
        .image_view(target.view)
        .image_layout(layout)
        .load_op(load)
        .store_op(store)
        .clear_value(clear);
    match target.resolve {
        Some(view) => {
            info.resolve_mode(vk::ResolveModeFlags::AVERAGE).resolve_image_view(view).resolve_image_layout(layout)
        }
        None => info,
    }
}

/// Returns a barrier for a whole image of one layer. Without `to`, the image becomes an attachment.
fn transition(
    image: vk::Image,
    is_depth: bool,
    from: vk::ImageLayout,
    to: Option<vk::ImageLayout>,
) -> vk::ImageMemoryBarrier<'static> {
    let aspect_mask = if is_depth { vk::ImageAspectFlags::DEPTH } else { vk::ImageAspectFlags::COLOR };
    let range = vk::ImageSubresourceRange { aspect_mask, level_count: 1, layer_count: 1, ..Default::default() };
    vk::ImageMemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
        .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
        .old_layout(from)
        .new_layout(to.unwrap_or(if is_depth { DEPTH } else { COLOUR }))
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(range)
}
