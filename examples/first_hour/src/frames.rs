//! The frame loop: three frames in flight, a mesh that is replaced in each frame, render targets that share memory.

use std::collections::{HashMap, VecDeque};

use ash::vk;
use ringfence::SyncPoint;
use ringfence::descriptor::{CpuDescriptors, View};
use ringfence::device::descriptors::HeapKind;
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc, TransientFigures, TransientId};
use ringfence::transient::{TransientTexture, VulkanFirstUse};
use ringfence::upload::{Readback, ReadbackDesc, UploadDesc};
use ringfence::vulkan::{self, Device, ReadbackRing, TextureInfo, TransientAllocator, UploadBatch, UploadRing};

use crate::gpu::{Failure, Gpu, Work};
use crate::mesh::Mesh;
use crate::pass::{self, COLOUR, DEPTH, Views};
use crate::picture::SIZE;
use crate::scene::Scene;
use crate::shapes;

/// Number of frames that the GPU may be behind.
const IN_FLIGHT: usize = 3;
/// The scene is drawn with twice the width and height of the picture.
const LARGE: [u32; 2] = [SIZE[0] * 2, SIZE[1] * 2];
const FROM: vk::ImageLayout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
const TO: vk::ImageLayout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;

pub struct Renderer {
    pub upload: UploadRing,
    readback: ReadbackRing,
    transient: TransientAllocator,
    heaps: Views,
    views: HashMap<TransientId, CpuDescriptors<Device>>,
    scene: Scene,
    sphere: Mesh,
    in_flight: VecDeque<SyncPoint>,
}

impl Renderer {
    pub fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let desc = UploadDesc { capacity: 1 << 20, name: "uploads", ..Default::default() };
        let upload = UploadRing::new(&gpu.memory, desc)?;
        let desc = ReadbackDesc { capacity: 1 << 20, name: "pictures", ..Default::default() };
        let readback = ReadbackRing::new(&gpu.memory, desc)?;
        let desc = TransientDesc { heap_bytes: 4 << 20, name: "targets", ..Default::default() };
        let transient = TransientAllocator::new(&gpu.memory, desc);
        let work = gpu.begin()?;
        let scene = Scene::new(gpu, &upload, &work)?;
        let sphere = make_sphere(gpu, &upload, &work, 0)?;
        let in_flight = VecDeque::from([gpu.submit(work)?]);
        let (heaps, views) = (Views::new(gpu)?, HashMap::new());
        Ok(Self { upload, readback, transient, heaps, views, scene, sphere, in_flight })
    }

    /// Draws a frame. Returns its picture if `is_read` is `true`.
    pub fn frame(&mut self, gpu: &Gpu, number: u32, is_read: bool) -> Result<Option<Readback<Device>>, Failure> {
        while self.in_flight.len() >= IN_FLIGHT {
            let oldest = self.in_flight.pop_front().ok_or("no frame is in flight")?;
            gpu.wait(oldest)?;
        }
        let work = gpu.begin()?;
        // The previous mesh is dropped here, while the GPU may still draw it.
        self.sphere = make_sphere(gpu, &self.upload, &work, number)?;

        // Three passes: draw, shrink, read. `first` and `last` are indices of passes.
        let info = |format, [width, height]: [u32; 2], usage| TextureInfo::new(format, width, height, usage);
        let [attachment, source, destination] = [
            vk::ImageUsageFlags::COLOR_ATTACHMENT,
            vk::ImageUsageFlags::TRANSFER_SRC,
            vk::ImageUsageFlags::TRANSFER_DST,
        ];
        let large = info(vk::Format::R8G8B8A8_UNORM, LARGE, attachment | source);
        let depth = info(vk::Format::D32_SFLOAT, LARGE, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
        let small = info(vk::Format::R8G8B8A8_UNORM, SIZE, source | destination);
        let passes = [FramePass::on(gpu.timeline.id()); 3];
        let resources = [
            FrameResource { info: Described::Texture(&large), first: 0, last: &[1], name: "large" },
            FrameResource { info: Described::Texture(&depth), first: 0, last: &[], name: "depth" },
            FrameResource { info: Described::Texture(&small), first: 1, last: &[2], name: "small" },
        ];
        let execution = self.transient.plan(&passes, &resources, |_| true)?;
        let [large, depth, small]: [TransientTexture; 3] =
            [execution.planned(0)?, execution.planned(1)?, execution.planned(2)?];
        let image = |target| execution.texture(target).copied();
        let mut view = |target: TransientTexture, is_depth| -> Result<vk::ImageView, Failure> {
            if !self.views.contains_key(&target.id()) {
                self.views.insert(target.id(), make_view(&self.heaps, image(target)?, is_depth)?);
            }
            Ok(pass::image_view(&self.views[&target.id()]))
        };
        let (large_view, depth_view) = (view(large, false)?, view(depth, true)?);
        let (large_image, small_image) = (image(large)?, image(small)?);
        // Records the barriers of a pass. The textures that begin in it are then in these layouts.
        let start = |place| {
            let pass = execution.frame_pass(place).ok_or("the frame has three passes")?;
            let first_use = |id| match id {
                id if id == depth.id() => VulkanFirstUse { layout: DEPTH, aspects: vk::ImageAspectFlags::DEPTH },
                id if id == large.id() => VulkanFirstUse { layout: COLOUR, aspects: vk::ImageAspectFlags::COLOR },
                _ => VulkanFirstUse { layout: TO, aspects: vk::ImageAspectFlags::COLOR },
            };
            // SAFETY: the command buffer is being recorded outside of a pass, and the textures have these aspects.
            unsafe { execution.record_barriers(pass, work.commands, first_use) };
            Ok::<_, Failure>(())
        };

        start(0)?;
        pass::begin(gpu, &work, LARGE, large_view, Some(depth_view));
        let binding = self.scene.draw(gpu, &work, &self.sphere, number as f32 * 0.05)?;
        pass::end(gpu, &work);

        start(1)?;
        pass::change_layout(gpu, &work, large_image, COLOUR, FROM);
        shrink(gpu, &work, large_image, small_image);

        start(2)?;
        pass::change_layout(gpu, &work, small_image, TO, FROM);
        let read = if is_read { Some(copy_to_host(gpu, &self.readback, &work, small_image)?) } else { None };

        let point = gpu.submit(work)?;
        drop(binding);
        execution.finish(&[point]);
        self.transient.end_frame();
        self.in_flight.push_back(point);
        gpu.memory.reclaim();
        Ok(read)
    }

    /// Returns the figures of the render targets of the last frame.
    pub fn targets(&self) -> TransientFigures {
        self.transient.figures()
    }

    /// Retires everything.
    pub fn retire(self, gpu: &Gpu) {
        self.scene.retire(gpu);
    }
}

/// Creates the sphere of a frame. Its surface moves.
fn make_sphere(gpu: &Gpu, upload: &UploadRing, work: &Work, number: u32) -> Result<Mesh, Failure> {
    let (vertices, indices) = shapes::sphere(0.2 * (number as f32 * 0.2).sin());
    let mut batch = UploadBatch::new();
    let sphere = Mesh::new(gpu, (upload, &mut batch, work), "sphere", bytemuck::cast_slice(&vertices), &indices)?;
    // SAFETY: the command buffer is submitted as this frame.
    unsafe { batch.record(&mut gpu.recorder(work, vk::ImageLayout::GENERAL)) }?;
    Ok(sphere)
}

fn make_view(heaps: &Views, image: vk::Image, is_depth: bool) -> Result<CpuDescriptors<Device>, Failure> {
    let (format, aspect_mask, kind, heap) = match is_depth {
        true => (vk::Format::D32_SFLOAT, vk::ImageAspectFlags::DEPTH, HeapKind::DepthStencils, &heaps.depths),
        false => (vk::Format::R8G8B8A8_UNORM, vk::ImageAspectFlags::COLOR, HeapKind::RenderTargets, &heaps.colours),
    };
    let range = vk::ImageSubresourceRange { aspect_mask, level_count: 1, layer_count: 1, ..Default::default() };
    let info = vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(format)
        .subresource_range(range);
    // SAFETY: the image is alive, and has this format, one mip level and one layer.
    let view = unsafe { View::native(vulkan::View::Attachment(info), kind) };
    let mut slot = heap.allocate(1)?;
    slot.write(0, &view)?;
    Ok(slot)
}

const COLOUR_LAYERS: vk::ImageSubresourceLayers = vk::ImageSubresourceLayers {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    mip_level: 0,
    base_array_layer: 0,
    layer_count: 1,
};

/// Records a copy of the large picture to the small one. Each texel is the mean of four.
fn shrink(gpu: &Gpu, work: &Work, large: vk::Image, small: vk::Image) {
    let corners =
        |[width, height]: [u32; 2]| [vk::Offset3D::default(), vk::Offset3D { x: width as i32, y: height as i32, z: 1 }];
    let blit = vk::ImageBlit::default()
        .src_subresource(COLOUR_LAYERS)
        .src_offsets(corners(LARGE))
        .dst_subresource(COLOUR_LAYERS)
        .dst_offsets(corners(SIZE));
    // SAFETY: both images are alive, have these sizes, and are in these layouts.
    unsafe { gpu.device.cmd_blit_image(work.commands, large, FROM, small, TO, &[blit], vk::Filter::LINEAR) };
}

/// Records the copy of the small picture to the host.
fn copy_to_host(gpu: &Gpu, ring: &ReadbackRing, work: &Work, small: vk::Image) -> Result<Readback<Device>, Failure> {
    let [width, height] = SIZE;
    let read = ring.reserve_texels(&work.frame, width, height, 4)?;
    let copy = vk::BufferImageCopy {
        buffer_offset: read.offset(),
        buffer_row_length: (read.row_bytes() / 4) as u32,
        image_subresource: COLOUR_LAYERS,
        image_extent: vk::Extent3D { width, height, depth: 1 },
        ..Default::default()
    };
    let to_host = vk::MemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .dst_access_mask(vk::AccessFlags::HOST_READ);
    let (transfer, host) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
    // SAFETY: the image is alive and in this layout. The ring has reserved the bytes for this frame.
    unsafe {
        gpu.device.cmd_copy_image_to_buffer(work.commands, small, FROM, *read.buffer(), &[copy]);
        gpu.device.cmd_pipeline_barrier(work.commands, transfer, host, Default::default(), &[to_host], &[], &[]);
    }
    Ok(read)
}
