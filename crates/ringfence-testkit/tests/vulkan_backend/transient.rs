//! The barriers of transient memory on Vulkan: recorded as their table says, they keep passes apart that share bytes,
//! which synchronization validation checks.

use std::time::Duration;

use ash::vk;
use ringfence::device::Buffers;
use ringfence::transient::{Execution, Pass, Transient, TransientAllocator, TransientDesc};
use ringfence::vulkan::{BufferInfo, Device};
use ringfence::{Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use super::families::Queue;
use super::rig::Rig;

/// Two buffers in a pass that copies, whose bytes two others get: one in a pass that computes, the next in one that
/// copies again. `after` is the second scope of memory barriers; gives what the layers say.
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
    first.iter().for_each(|&held| execution.discard(held, &[copies]).expect("it is in use"));
    let computes = pass(&mut execution);
    let _computed = acquire(&mut execution, 60 << 10, computes);
    let copies_again = pass(&mut execution);
    let last = acquire(&mut execution, 60 << 10, copies_again);
    let depends: Vec<_> = execution.barriers().iter().map(|barrier| (barrier.pass, barrier.depends)).collect();
    assert_eq!(depends, [(computes, true), (copies_again, false)], "the first one serves for both");

    let frame = timeline.begin();
    let value = frame.value();
    let device = gpu.device();
    let device = device.raw();
    queue.submit(None, value, |commands| {
        let fill = |held| {
            let buffer = *execution.buffer(held).expect("a handle of now");
            // SAFETY: the buffer is alive, and the command buffer is being recorded.
            unsafe { device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, 7) };
        };
        first.into_iter().for_each(fill);
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
    let narrow = narrow.expect("it was there a moment ago");
    assert!(narrow.iter().any(|message| message.starts_with("SYNC-HAZARD-WRITE-AFTER-WRITE")), "{narrow:?}");
}
