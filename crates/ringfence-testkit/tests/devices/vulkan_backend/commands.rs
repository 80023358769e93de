//! Commands on data while textures are in a layout for shaders. The layers report each wrong layout and missing barrier.

use std::time::Duration;

use ash::vk;
use ringfence::commands::{BufferTexels, Commands, DepthStencil, ResolvedLayers, SubresourceRange, TexelOrigin};
use ringfence::device::{BufferDesc, BufferUsage, Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::vulkan::{CopyRecorder, Device};
use ringfence::{AllocationDesc, Allocator, Buffer, Location, Texture, Timeline};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, report};

use crate::vulkan_backend::families::{Queue, with_queue};

const SIDE: u32 = 16;
/// Size of a row of texels of a mip level of 8 texels, in bytes.
const ROW: u64 = 32;

fn texture(memory: &Allocator<Device>, desc: TextureDesc, more: TextureUsage) -> Option<Texture<Device>> {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::SAMPLED | more;
    let desc = TextureDesc { width: SIDE, height: SIDE, usage, ..desc };
    memory.create_texture(&desc, AllocationDesc::default()).ok()
}

#[test]
fn commands_keep_the_layout_of_their_textures() {
    for layout in [vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL, vk::ImageLayout::TRANSFER_SRC_OPTIMAL] {
        with_queue(|gpu, memory, timeline, queue| record_in(gpu, memory, timeline, queue, layout));
    }
}

/// Records every command on textures with mip levels and layers, and compares a level that all of them have changed.
fn record_in(
    gpu: &VulkanGpu,
    memory: &Allocator<Device>,
    timeline: &Timeline<Device>,
    queue: &Queue,
    layout: vk::ImageLayout,
) {
    let plain = TextureDesc { mips: 3, layers: 2, ..Default::default() };
    let many = TextureDesc { samples: 4, ..Default::default() };
    let depth = TextureDesc { format: Format::D32Float, ..plain };
    let target = TextureUsage::RENDER_TARGET;
    let textures = (texture(memory, plain, target), texture(memory, many, target));
    let ((Some(one), Some(many)), Some(depth)) = (textures, texture(memory, depth, TextureUsage::DEPTH_STENCIL)) else {
        return report::skipped("the device lacks a multisampled or depth texture");
    };
    let desc = BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let [buffer, back] = [Location::Device, Location::Readback].map(|location| {
        memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() }).expect("there is room")
    });
    let frame = timeline.begin();
    let value = frame.value();
    queue.submit(None, value, |list| {
        let device = gpu.device();
        // SAFETY: only this thread records the command buffer.
        let mut recorder = unsafe { CopyRecorder::new(device.raw(), list) }.texture_layout(layout);
        // SAFETY: the command buffer is submitted as this frame. Each subresource is written before it is read.
        let mut commands = unsafe { Commands::new(memory, &frame, &mut recorder) }.expect("its own frame");
        let all = SubresourceRange { mip: 0, mips: 3, layer: 0, layers: 2 };
        let whole = TexelBox { layers: 1, ..TexelBox::mip(one.parts().expect("a plain format"), 0) };
        let level = TexelBox { mip: 1, layer: 1, layers: 1, width: 8, height: 8, ..whole };
        let small = TexelBox { x: 2, y: 2, width: 2, height: 2, ..level };
        let at = BufferTexels { offset: 0, row_bytes: ROW, layer_bytes: 0 };
        let mut record = || {
            commands.clear_color(&many, SubresourceRange::one(0, 0), [1.0, 0.0, 0.0, 1.0])?;
            commands.resolve(&many, &one, ResolvedLayers { dst_layer: 1, ..Default::default() })?;
            commands.clear_color(&one, SubresourceRange::one(0, 0), [0.0, 1.0, 0.0, 1.0])?;
            commands.generate_mips(&one)?;
            commands.fill_buffer(&buffer, 0..4096, 0x8040_2010)?;
            commands.copy_buffer_to_box(&buffer, at, &one, &small)?;
            let corner = TexelBox { mip: 1, layer: 0, width: 2, height: 1, ..whole };
            commands.copy_box(&one, &corner, &one, TexelOrigin { mip: 1, layer: 1, x: 6, y: 7, z: 0 })?;
            commands.clear_depth_stencil(&depth, all, DepthStencil::depth(1.0))?;
            let of_depth = TexelBox { aspect: TextureAspect::Depth, ..level };
            let last = TexelOrigin { mip: 1, ..Default::default() };
            commands.copy_box(&depth, &of_depth, &depth, last)?;
            commands.copy_box_to_buffer(&one, &level, &back, at)
        };
        record().expect("the device has the commands");
    });
    timeline.submitted(frame).expect("in order");
    assert!(timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
    let mut found = vec![0; (ROW * 8) as usize];
    back.read(0, &mut found).expect("it is mapped");
    for (index, texel) in found.chunks_exact(4).enumerate() {
        let expected = match (index % 8, index / 8) {
            (2 | 3, 2 | 3) => [0x10, 0x20, 0x40, 0x80],
            (6 | 7, 7) => [0, 255, 0, 255],
            _ => [255, 0, 0, 255],
        };
        assert_eq!(texel, expected, "texel {index} in {layout:?}");
    }
    drop((one, many, depth, buffer, back));
}

/// The program writes buffers with commands of its own. The next commands copy from them and to them, and the layers find no missing
/// barrier.
#[test]
fn copies_come_after_the_programs_own_writes_of_their_buffers() {
    with_queue(|gpu, memory, timeline, queue| {
        let desc = BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        let make =
            |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() }).expect("room");
        let sources = [(); 2].map(|()| make(Location::Device));
        let backs = [(); 2].map(|()| make(Location::Readback));
        let image = texture(memory, TextureDesc::default(), TextureUsage::SAMPLED).expect("every device has it");
        let frame = timeline.begin();
        let value = frame.value();
        queue.submit(None, value, |list| {
            let (device, general) = (gpu.device(), vk::ImageLayout::GENERAL);
            let fill = |source: &Buffer<Device>, word| {
                // SAFETY: the buffer is alive, and only this thread records the command buffer.
                unsafe { device.raw().cmd_fill_buffer(list, *source.object(), 0, vk::WHOLE_SIZE, word) };
            };
            // SAFETY: only this thread records the command buffer.
            let mut recorder = unsafe { CopyRecorder::new(device.raw(), list) }.texture_layout(general);
            let whole = TexelBox::mip(image.parts().expect("a plain format"), 0);
            let at = BufferTexels { offset: 0, row_bytes: u64::from(SIDE) * 4, layer_bytes: 0 };
            // SAFETY: the command buffer is submitted as this frame. Each subresource is written before it is read.
            let mut commands = unsafe { Commands::new(memory, &frame, &mut recorder) }.expect("its own frame");
            fill(&sources[0], 0x0101_0101);
            fill(&backs[0], 0x0303_0303);
            commands.copy_buffer((&sources[0], 0), (&backs[0], 0), 1024).expect("inside both");
            fill(&sources[1], 0x0202_0202);
            commands.copy_buffer_to_box(&sources[1], at, &image, &whole).expect("inside both");
            fill(&backs[1], 0x0303_0303);
            commands.copy_box_to_buffer(&image, &whole, &backs[1], at).expect("inside both");
        });
        timeline.submitted(frame).expect("in order");
        assert!(timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
        let read = |back: &Buffer<Device>| {
            let mut found = [0; 1024];
            back.read(0, &mut found).expect("it is mapped");
            found
        };
        assert_eq!([&backs[0], &backs[1]].map(read), [[1; 1024], [2; 1024]]);
        drop((sources, backs, image));
    });
}
