//! The barriers of transient memory on Vulkan separate passes that share bytes. Synchronization validation checks that.

use std::time::Duration;

use ash::vk;
use ringfence::device::{Buffers, Textures};
use ringfence::transient::{Execution, Pass, Transient, TransientDesc};
use ringfence::vulkan::{BufferInfo, Device, TextureInfo};
use ringfence::{Allocator, AllocatorDesc, TransientAllocator};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use super::families::Queue;
use super::rig::Rig;

/// Runs three passes: the first copies into two buffers, a compute pass reuses the bytes of one buffer, and a second
/// copy pass reuses the bytes of the other. `after` is the second scope of the memory barriers. Returns the messages of
/// the layers.
fn three_passes(after: (vk::PipelineStageFlags, vk::AccessFlags)) -> Option<Vec<String>> {
    let gpu = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip).ok()?;
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let queue = Queue::new(&gpu, gpu.queue_family());
    // SAFETY: the one submission signals the semaphore with the value of its frame.
    let timeline = unsafe { memory.timeline(queue.semaphore) }.expect("the device is not lost");
    let mut transient = TransientAllocator::new(&memory, TransientDesc { heap_bytes: 1 << 20, ..Default::default() });
    let mut execution = transient.begin();
    let acquire = |execution: &mut Execution<'_, Device>, size, pass: Pass| -> Transient<Buffers> {
        let info = BufferInfo::new(size, vk::BufferUsageFlags::TRANSFER_DST);
        execution.acquire_buffer(&info, pass, "").expect("there is room")
    };
    let pass = |execution: &mut Execution<'_, Device>| execution.pass(timeline.id(), &[]).expect("a queue");
    let copies = pass(&mut execution);
    let first = [(); 2].map(|()| acquire(&mut execution, 64 << 10, copies));
    let filled = first.map(|held| *execution.buffer(held).expect("it is in use"));
    first.iter().for_each(|&held| execution.discard(held, &[copies]).expect("it is in use"));
    let computes = pass(&mut execution);
    let _computed = acquire(&mut execution, 60 << 10, computes);
    let copies_again = pass(&mut execution);
    let last = acquire(&mut execution, 60 << 10, copies_again);
    let last = *execution.buffer(last).expect("it is in use");
    let depends: Vec<_> = execution.barriers().iter().map(|barrier| (barrier.pass, barrier.depends)).collect();
    assert_eq!(depends, [(computes, true), (copies_again, false)], "the first dependency covers both");

    let frame = timeline.begin();
    let value = frame.value();
    let device = gpu.device();
    let device = device.raw();
    queue.submit(None, value, |commands| {
        let fill = |buffer| {
            // SAFETY: the buffer is alive, and the command buffer is being recorded.
            unsafe { device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, 7) };
        };
        filled.into_iter().for_each(fill);
        for _ in execution.barriers().iter().filter(|barrier| barrier.depends) {
            let (stages, accesses) = after;
            let barrier = vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::MEMORY_WRITE);
            let barrier = [barrier.dst_access_mask(accesses)];
            let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
            // SAFETY: the command buffer is being recorded.
            unsafe { device.cmd_pipeline_barrier(commands, all, stages, none, &barrier, &[], &[]) };
        }
        fill(last);
    });
    let point = timeline.submitted(frame).expect("in order");
    execution.finish(&[point]);
    drop(transient);
    memory.shutdown(Duration::from_secs(60)).expect("the device is not lost");
    drop((queue, timeline, memory));
    Some(gpu.close())
}

#[test]
fn a_dependency_is_for_all_that_comes_and_not_for_its_pass_alone() {
    let (reads, writes) = (vk::AccessFlags::MEMORY_READ, vk::AccessFlags::MEMORY_WRITE);
    let Some(messages) = three_passes((vk::PipelineStageFlags::ALL_COMMANDS, reads | writes)) else { return };
    assert_eq!(messages, Vec::<String>::new());
    let narrow = three_passes((vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE));
    let narrow = narrow.expect("the device opened before");
    assert!(narrow.iter().any(|message| message.starts_with("SYNC-HAZARD-WRITE-AFTER-WRITE")), "{narrow:?}");
}

/// Records a transition that discards a whole texture, as in the table of barriers, and a clear. `source` is the source
/// access of the transition.
fn discard_and_clear(device: &ash::Device, commands: vk::CommandBuffer, image: vk::Image, source: vk::AccessFlags) {
    let range = vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: 0,
        layer_count: 1,
    };
    let barrier = vk::ImageMemoryBarrier::default()
        .src_access_mask(source)
        .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .old_layout(vk::ImageLayout::UNDEFINED)
        .new_layout(vk::ImageLayout::TRANSFER_DST_OPTIMAL)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(range);
    let (all, transfer) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
    let colour = vk::ClearColorValue { float32: [1.0; 4] };
    // SAFETY: the image is alive, and the command buffer is being recorded.
    unsafe {
        device.cmd_pipeline_barrier(commands, all, transfer, Default::default(), &[], &[], &[barrier]);
        device.cmd_clear_color_image(commands, image, vk::ImageLayout::TRANSFER_DST_OPTIMAL, &colour, &[range]);
    }
}

/// Uses two textures in a pass; the next two passes reuse their bytes. Records only the barriers of the table. Returns
/// the messages of the layers.
fn textures_in_three_passes(source: vk::AccessFlags) -> Option<Vec<String>> {
    let gpu = VulkanGpu::open(&Rig::options()).inspect_err(super::rig::skip).ok()?;
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let queue = Queue::new(&gpu, gpu.queue_family());
    // SAFETY: the one submission signals the semaphore with the value of its frame.
    let timeline = unsafe { memory.timeline(queue.semaphore) }.expect("the device is not lost");
    let mut transient = TransientAllocator::new(&memory, TransientDesc { heap_bytes: 1 << 20, ..Default::default() });
    let mut execution = transient.begin();
    let acquire = |execution: &mut Execution<'_, Device>, height, pass: Pass| -> Transient<Textures> {
        let usage = vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED;
        let info = TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 64, height, usage);
        execution.acquire_texture(&info, pass, "").expect("there is room")
    };
    let passes = [(); 3].map(|()| execution.pass(timeline.id(), &[]).expect("a queue"));
    let held = [64, 64].map(|height| acquire(&mut execution, height, passes[0]));
    let image = |execution: &Execution<'_, Device>, held| *execution.texture(held).expect("it is in use");
    let mut images: Vec<_> = held.iter().map(|&texture| image(&execution, texture)).collect();
    held.iter().for_each(|&texture| execution.discard(texture, &[passes[0]]).expect("it is in use"));
    for &pass in &passes[1..] {
        let texture = acquire(&mut execution, 63, pass);
        images.push(image(&execution, texture));
    }
    let depends: Vec<_> = execution.barriers().iter().map(|barrier| (barrier.depends, barrier.discards)).collect();
    assert_eq!(depends, [(false, true), (false, true), (true, true), (false, true)], "one dependency covers both");

    let frame = timeline.begin();
    let value = frame.value();
    let device = gpu.device();
    let device = device.raw();
    queue.submit(None, value, |commands| {
        for (barrier, &image) in execution.barriers().iter().zip(&images) {
            if barrier.depends {
                let (reads, writes) = (vk::AccessFlags::MEMORY_READ, vk::AccessFlags::MEMORY_WRITE);
                let memory = [vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(reads | writes)];
                let (all, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
                // SAFETY: the command buffer is being recorded.
                unsafe { device.cmd_pipeline_barrier(commands, all, all, none, &memory, &[], &[]) };
            }
            discard_and_clear(device, commands, image, source);
        }
    });
    let point = timeline.submitted(frame).expect("in order");
    execution.finish(&[point]);
    drop(transient);
    memory.shutdown(Duration::from_secs(60)).expect("the device is not lost");
    drop((queue, timeline, memory));
    Some(gpu.close())
}

#[test]
fn textures_that_share_bytes_need_the_barriers_of_the_table_and_no_others() {
    let Some(messages) = textures_in_three_passes(vk::AccessFlags::MEMORY_WRITE) else { return };
    assert_eq!(messages, Vec::<String>::new());
}
