//! Resources are uploaded on a queue of one family and used on a queue of another. Their ownership is transferred there
//! and back.
//!
//! ```text
//!   copy family   copies ▌ release ─┐                       ┌─▶ acquire ▌ copies to a part ▌ release ─┐
//!   main family                     └─▶ acquire ▌ reads ▌ release                                     └─▶ acquire ▌ reads
//! ```
//!
//! On a device with one family (Mesa's software driver), both queues are the same, and ownership is not transferred. On
//! every device, the validation layers report a release without its acquire, wrong layouts and unordered work.

use std::time::Duration;

use ash::vk;
use ringfence::device::record::{TextureAspects, TextureTarget};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, TextureDesc, TextureUsage, Textures};
use ringfence::upload::{TexelTarget, Texels, TransferQueue, UploadDesc};
use ringfence::vulkan::{CopyRecorder, Device};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, SyncPoint, Texture, Timeline, UploadRing};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};

use crate::vulkan_backend::rig::{self, Rig, pattern};

const SIDE: u32 = 64;
const TEXEL_BYTES: usize = (SIDE * SIDE * 4) as usize;
const BYTES: usize = 4096;

/// A queue of a family, with a timeline semaphore.
pub(super) struct Queue {
    family: u32,
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    pub(super) semaphore: vk::Semaphore,
}

impl Queue {
    pub(super) fn new(gpu: &VulkanGpu, family: u32) -> Self {
        let device = gpu.device().raw().clone();
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let semaphore = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive and has a queue of the family; the infos are valid.
        unsafe {
            Self {
                family,
                queue: device.get_device_queue(family, 0),
                pool: device.create_command_pool(&pool, None).expect("a command pool"),
                semaphore: device.create_semaphore(&semaphore, None).expect("a timeline"),
                device,
            }
        }
    }

    /// Records and submits commands. They start once the other queue has reached the value in `wait`.
    pub(super) fn submit(&self, wait: Option<(&Self, u64)>, signal: u64, record: impl FnOnce(vk::CommandBuffer)) {
        let buffer = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let (waits, wait_values): (Vec<_>, Vec<_>) =
            wait.iter().map(|(queue, value)| (queue.semaphore, *value)).unzip();
        let (stages, signals, values) =
            (vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()], [self.semaphore], [signal]);
        let mut timelines = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&values);
        // SAFETY: only this thread uses the pool and the queue; the recorded objects belong to the tests and are alive.
        unsafe {
            let commands = self.device.allocate_command_buffers(&buffer).expect("a command buffer");
            self.device.begin_command_buffer(commands[0], &begin).expect("begin");
            record(commands[0]);
            self.device.end_command_buffer(commands[0]).expect("end");
            let submit = vk::SubmitInfo::default()
                .command_buffers(&commands)
                .wait_semaphores(&waits)
                .wait_dst_stage_mask(&stages)
                .signal_semaphores(&signals)
                .push_next(&mut timelines);
            self.device.queue_submit(self.queue, &[submit], vk::Fence::null()).expect("submitted");
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is idle, and each object is destroyed once.
        unsafe {
            self.device.queue_wait_idle(self.queue).expect("the device is not lost");
            self.device.destroy_semaphore(self.semaphore, None);
            self.device.destroy_command_pool(self.pool, None);
        }
    }
}

/// The destinations of uploads, and the buffer to which they are read back.
struct Uploaded<'a> {
    layout: vk::ImageLayout,
    copy: &'a Queue,
    main: &'a Queue,
    timeline: &'a Timeline<Device>,
    buffer: Buffer<Device>,
    texture: Texture<Device>,
    back: Buffer<Device>,
}

impl<'a> Uploaded<'a> {
    fn new(
        memory: &Allocator<Device>,
        [copy, main]: [&'a Queue; 2],
        timeline: &'a Timeline<Device>,
        layout: vk::ImageLayout,
    ) -> Self {
        let (both, size) = (BufferUsage::COPY_SRC | BufferUsage::COPY_DST, BYTES as u64);
        let buffer = |size, usage, location| {
            let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size, usage }).expect("plain");
            memory.create_buffer(&info, AllocationDesc { location, ..Default::default() }).expect("there is memory")
        };
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::SAMPLED;
        let texture = TextureDesc { width: SIDE, height: SIDE, usage, ..Default::default() };
        let texture = Create::<Textures>::describe(memory.device(), &texture).expect("a plain texture");
        Self {
            layout,
            copy,
            main,
            timeline,
            buffer: buffer(size, both, Location::Device),
            texture: memory.create_texture(&texture, AllocationDesc::default()).expect("there is memory"),
            back: buffer(size + TEXEL_BYTES as u64, BufferUsage::COPY_DST, Location::Readback),
        }
    }

    fn target(&self) -> [TextureTarget<vk::Image>; 1] {
        [TextureTarget {
            texture: self.texture.raw(),
            mip: 0,
            layer: 0,
            aspects: TextureAspects::COLOR,
            discard: false,
        }]
    }

    fn recorder<'l>(&self, queue: &'l Queue, commands: vk::CommandBuffer) -> CopyRecorder<'l> {
        // SAFETY: only this thread records the command buffer, and only until the closure ends.
        unsafe { CopyRecorder::new(&queue.device, commands) }.texture_layout(self.layout)
    }

    /// Uploads bytes to an offset of the buffer, and a square of texels to a corner of the texture. If the main queue
    /// owned both, the upload waits for `released`, the value with which the main queue has released them.
    fn upload(
        &self,
        transfer: &mut TransferQueue<Device>,
        (bytes, offset): (&[u8], u64),
        (texels, side): (&[u8], u32),
        released: Option<u64>,
    ) -> SyncPoint {
        let texels = Texels::new(side, side, 4, texels);
        let corner = TexelTarget { discard: released.is_none(), ..Default::default() };
        transfer.upload(bytes, &self.buffer, offset).expect("there is room");
        transfer.upload_texels(&texels, &self.texture, corner).expect("there is room");
        let point = transfer.submit(|batch, value| -> Result<(), ()> {
            let wait = released.map(|value| (self.main, value));
            self.copy.submit(wait, value, |commands| {
                let (from, to) = (self.copy.family, self.main.family);
                let mut recorder = self.recorder(self.copy, commands).release_to(from, to);
                // SAFETY: the resources outlive the work, and were released if the main queue owned them.
                unsafe {
                    if released.is_some() {
                        recorder.acquire(to, from, &[self.buffer.raw()], &self.target());
                    }
                    batch.record(&mut recorder).expect("its frame is open");
                }
            });
            Ok(())
        });
        point.expect("submitted").expect("something was gathered")
    }

    /// Reads buffer and texture back on the main queue, which then releases them. Returns the value of the release, and
    /// the bytes.
    fn read(&self, uploaded: SyncPoint) -> (u64, Vec<u8>) {
        let frame = self.timeline.begin();
        let value = frame.value();
        self.main.submit(Some((self.copy, uploaded.value)), value, |commands| {
            let (from, to, device) = (self.copy.family, self.main.family, &self.main.device);
            let (buffers, textures) = ([self.buffer.raw()], self.target());
            let mut recorder = self.recorder(self.main, commands);
            let region = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: BYTES as u64 }];
            let texels = [vk::BufferImageCopy::default()
                .buffer_offset(BYTES as u64)
                .image_subresource(vk::ImageSubresourceLayers {
                    aspect_mask: vk::ImageAspectFlags::COLOR,
                    mip_level: 0,
                    base_array_layer: 0,
                    layer_count: 1,
                })
                .image_extent(vk::Extent3D { width: SIDE, height: SIDE, depth: 1 })];
            let host = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)];
            // SAFETY: the resources outlive the work; the work waits until the copy queue has released them.
            unsafe {
                recorder.acquire(from, to, &buffers, &textures);
                device.cmd_copy_buffer(commands, buffers[0], self.back.raw(), &region);
                self.transition(commands, self.layout, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
                let source = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
                device.cmd_copy_image_to_buffer(commands, textures[0].texture, source, self.back.raw(), &texels);
                self.transition(commands, source, self.layout);
                let (copies, hosts) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
                device.cmd_pipeline_barrier(commands, copies, hosts, vk::DependencyFlags::empty(), &host, &[], &[]);
                recorder.release(to, from, &buffers, &textures);
            }
        });
        self.timeline.submitted(frame).expect("in order");
        assert!(self.timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
        let mut read = vec![0; BYTES + TEXEL_BYTES];
        self.back.read(0, &mut read).expect("readback memory is mapped");
        (value, read)
    }

    fn transition(&self, commands: vk::CommandBuffer, from: vk::ImageLayout, to: vk::ImageLayout) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = [vk::ImageMemoryBarrier::default()
            .src_access_mask(access)
            .dst_access_mask(access)
            .old_layout(from)
            .new_layout(to)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(self.texture.raw())
            .subresource_range(vk::ImageSubresourceRange {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                base_mip_level: 0,
                level_count: 1,
                base_array_layer: 0,
                layer_count: 1,
            })];
        // SAFETY: the command buffer is being recorded, and the texture is alive.
        unsafe {
            self.main.device.cmd_pipeline_barrier(commands, all, all, vk::DependencyFlags::empty(), &[], &[], &barrier)
        };
    }
}

/// Runs `test` with an allocator, and a timeline of one queue. Then waits for all work, and checks that the layers are
/// silent and that no object is left.
pub(super) fn with_queue(test: impl FnOnce(&VulkanGpu, &Allocator<Device>, &Timeline<Device>, &Queue)) {
    let gpu = match VulkanGpu::open(&Rig::options()) {
        Ok(gpu) => gpu,
        Err(error) => return rig::skip(&error),
    };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let queue = Queue::new(&gpu, gpu.queue_family());
    // SAFETY: every submitted frame signals the semaphore.
    let timeline = unsafe { memory.timeline(queue.semaphore) }.expect("the device is not lost");
    test(&gpu, &memory, &timeline, &queue);
    memory.shutdown(Duration::from_secs(60)).expect("all work is complete");
    drop((timeline, memory, queue));
    assert_eq!(gpu.close(), Vec::<String>::new());
}

#[test]
fn uploads_go_from_one_queue_family_to_another_and_back() {
    // A machine with several families may have no validation layers. The bytes are checked without them.
    let strict = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    let bare = |error| if strict { Err(error) } else { VulkanGpu::open(&Options::default()) };
    let gpu = match VulkanGpu::open(&Rig::options()).or_else(bare) {
        Ok(gpu) => gpu,
        Err(error) => return rig::skip(&error),
    };
    let (copy, main) = (Queue::new(&gpu, gpu.copy_family()), Queue::new(&gpu, gpu.queue_family()));
    println!("copies on family {}, used on family {}", copy.family, main.family);
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    {
        let [copies, timeline] =
            // SAFETY: each submission signals the value of its frame, and the queues outlive the allocator.
            [&copy, &main].map(|queue| unsafe { memory.timeline(queue.semaphore) }.expect("the device is not lost"));
        let desc = UploadDesc { capacity: 1 << 20, usage: BufferUsage::COPY_SRC, ..Default::default() };
        let mut transfer = TransferQueue::new(copies, UploadRing::new(&memory, desc).expect("there is memory"));
        for layout in [vk::ImageLayout::GENERAL, vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL] {
            let world = Uploaded::new(&memory, [&copy, &main], &timeline, layout);
            let (mut bytes, mut texels) = (pattern(BYTES, 1), pattern(TEXEL_BYTES, 2));
            let uploaded = world.upload(&mut transfer, (&bytes, 0), (&texels, SIDE), None);
            let (value, read) = world.read(uploaded);
            assert!(read == [&bytes[..], &texels[..]].concat(), "{layout:?}: the first upload");
            // A part of each resource is uploaded again. The rest must survive both transfers of ownership.
            let (part, corner) = (pattern(1000, 3), pattern(16 * 16 * 4, 4));
            let uploaded = world.upload(&mut transfer, (&part, 100), (&corner, 16), Some(value));
            bytes[100..1100].copy_from_slice(&part);
            let rows = texels.chunks_exact_mut(SIDE as usize * 4).zip(corner.chunks_exact(16 * 4));
            rows.for_each(|(row, corner)| row[..corner.len()].copy_from_slice(corner));
            let (_, read) = world.read(uploaded);
            assert!(read == [&bytes[..], &texels[..]].concat(), "{layout:?}: the second");
            memory.reclaim();
        }
    }
    memory.shutdown(Duration::from_secs(60)).expect("all is complete");
    drop(memory);
    drop((copy, main));
    let messages = gpu.close();
    assert!(messages.is_empty(), "{messages:#?}");
}
