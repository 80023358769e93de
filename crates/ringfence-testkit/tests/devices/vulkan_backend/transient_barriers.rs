//! The recorded barriers of transient textures that share bytes. Without them, the layers report hazards and wrong layouts.

use std::time::Duration;

use ash::vk;
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::transient::{Execution, Pass, TransientDesc, TransientTexture, VulkanFirstUse};
use ringfence::vulkan::Device;
use ringfence::{AllocationDesc, Buffer, Location, TransientAllocator};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use crate::vulkan_backend::families::with_queue;

const SIDE: u32 = 64;
const BYTES: u64 = SIDE as u64 * SIDE as u64 * 4;
const COLOURS: [[f32; 4]; 3] = [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]];

#[test]
fn textures_that_share_bytes_keep_their_contents_for_their_passes() {
    with_queue(|gpu, memory, timeline, queue| {
        let mut transient = TransientAllocator::new(memory, TransientDesc::default());
        let desc = BufferDesc { size: BYTES * COLOURS.len() as u64, usage: BufferUsage::COPY_DST };
        let location = Location::Readback;
        let back =
            memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() }).expect("there is room");
        // The later frames use the objects of the first one again.
        for number in 0..3 {
            let frame = timeline.begin();
            let value = frame.value();
            let mut execution = transient.begin();
            let mut shared = Vec::new();
            queue.submit(None, value, |list| {
                for (index, colour) in COLOURS.into_iter().enumerate() {
                    let pass = execution.pass(timeline.id(), &[]).expect("a queue");
                    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
                    let desc = TextureDesc { width: SIDE, height: SIDE, usage, ..Default::default() };
                    let target = execution.acquire_texture(&desc, pass, "target").expect("there is room");
                    shared.push(execution.place(target).expect("acquired now"));
                    draw(gpu, &execution, (pass, target), (list, colour), (&back, index as u64 * BYTES));
                    execution.discard(target, &[pass]).expect("in use");
                }
            });
            let point = timeline.submitted(frame).expect("in order");
            execution.finish(&[point]);
            assert!(shared.windows(2).all(|pair| pair[0] == pair[1]), "frame {number}: {shared:?}");
            assert!(timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
            let mut found = vec![0; desc.size as usize];
            back.read(0, &mut found).expect("it is mapped");
            for (texels, colour) in found.chunks_exact(BYTES as usize).zip(COLOURS) {
                let expected = colour.map(|part| if part > 0.5 { 255 } else { 0 });
                assert!(texels.chunks_exact(4).all(|texel| texel == expected), "frame {number}: {colour:?}");
            }
        }
        drop((transient, back));
    });
}

/// Records a pass that clears a target, and copies its texels.
fn draw(
    gpu: &VulkanGpu,
    execution: &Execution<'_, Device>,
    (pass, target): (Pass, TransientTexture),
    (list, colour): (vk::CommandBuffer, [f32; 4]),
    (back, offset): (&Buffer<Device>, u64),
) {
    let aspects = vk::ImageAspectFlags::COLOR;
    let first_use = VulkanFirstUse { layout: vk::ImageLayout::TRANSFER_DST_OPTIMAL, aspects };
    let image = *execution.texture(target).expect("in use");
    let range = vk::ImageSubresourceRange::default().aspect_mask(aspects).level_count(1).layer_count(1);
    let read = vk::ImageMemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .dst_access_mask(vk::AccessFlags::TRANSFER_READ)
        .old_layout(vk::ImageLayout::TRANSFER_DST_OPTIMAL)
        .new_layout(vk::ImageLayout::TRANSFER_SRC_OPTIMAL)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(range);
    let layers = vk::ImageSubresourceLayers::default().aspect_mask(aspects).layer_count(1);
    let region = vk::BufferImageCopy::default()
        .buffer_offset(offset)
        .image_subresource(layers)
        .image_extent(vk::Extent3D { width: SIDE, height: SIDE, depth: 1 });
    let device = gpu.device();
    let (raw, transfer) = (device.raw(), vk::PipelineStageFlags::TRANSFER);
    let (clear, source) = (vk::ClearColorValue { float32: colour }, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
    // SAFETY: only this thread records the command buffer. The image has the usages and the aspect, and lives until the
    // frame is complete. The region is inside the buffer.
    unsafe {
        execution.record_barriers(pass, list, |id| {
            assert_eq!(id, target.id());
            first_use
        });
        raw.cmd_clear_color_image(list, image, first_use.layout, &clear, &[range]);
        raw.cmd_pipeline_barrier(list, transfer, transfer, Default::default(), &[], &[], &[read]);
        raw.cmd_copy_image_to_buffer(list, image, source, back.raw(), &[region]);
    }
}
