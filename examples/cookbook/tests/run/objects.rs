//! Objects that several checks need: uploads, readbacks, an allocator with two queues.

use std::time::Duration;

use ash::vk;
use first_hour::gpu::{Failure, Gpu, PATIENCE, Work};
use ringfence::debugging::DebugDesc;
use ringfence::device::TexelBox;
use ringfence::device::record::{CopyRegion, Record};
use ringfence::device::transfer::Transfer;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::upload::{ReadbackDesc, UploadDesc};
use ringfence::vulkan::{self, CopyRecorder, Device, ReadbackRing, Texture, UploadRing};
use ringfence::{AllocationDesc, AllocatorDesc, Location, SyncPoint};

pub const LAYOUT: vk::ImageLayout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;

pub fn ensure(condition: bool, what: &str) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(what.into()) }
}

pub fn upload_ring(memory: &vulkan::Allocator) -> Result<UploadRing, Failure> {
    Ok(UploadRing::new(memory, UploadDesc { capacity: 1 << 16, ..Default::default() })?)
}

/// Records with `record`, submits, and waits. Textures are in `LAYOUT`.
pub fn submit<T>(
    gpu: &Gpu,
    record: impl FnOnce(&Work, &mut CopyRecorder<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    submit_in(gpu, LAYOUT, record)
}

fn submit_in<T>(
    gpu: &Gpu,
    layout: vk::ImageLayout,
    record: impl FnOnce(&Work, &mut CopyRecorder<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let work = gpu.begin()?;
    let recorded = record(&work, &mut gpu.recorder(&work, layout))?;
    gpu.wait(gpu.submit(work)?)?;
    gpu.memory.reclaim();
    Ok(recorded)
}

/// Returns bytes of a buffer of the device.
pub fn read_buffer(gpu: &Gpu, buffer: vk::Buffer, offset: u64, size: usize) -> Result<Vec<u8>, Failure> {
    let desc = BufferDesc { size: size as u64, usage: BufferUsage::COPY_DST };
    let request = AllocationDesc { name: "back", location: Location::Readback, ..Default::default() };
    let back = gpu.memory.create_buffer(&desc, request)?;
    submit(gpu, |_, recorder| {
        let region = CopyRegion { src_offset: offset, dst_offset: 0, size: size as u64 };
        // SAFETY: both buffers are alive until the submission is complete.
        unsafe { Transfer::<Device>::copy_buffer_regions(recorder, &buffer, back.object(), &[region]) };
        Ok(())
    })?;
    let mut bytes = vec![0; size];
    back.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Returns all layers of a mip level of a texture in `LAYOUT`.
pub fn read_mip(gpu: &Gpu, texture: &Texture, mip: u32) -> Result<Vec<u8>, Failure> {
    read_mip_in(gpu, LAYOUT, texture, mip)
}

/// Returns all layers of a mip level of a texture in `layout`.
pub fn read_mip_in(gpu: &Gpu, layout: vk::ImageLayout, texture: &Texture, mip: u32) -> Result<Vec<u8>, Failure> {
    let ring = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 16, ..Default::default() })?;
    let read = submit_in(gpu, layout, |work, recorder| {
        let parts = texture.parts().ok_or("the texture has no portable description")?;
        let read = ring.reserve_box(&work.frame, texture, &TexelBox::mip(parts, mip))?;
        // SAFETY: texture and ring are alive until the submission is complete.
        unsafe { recorder.read_texels(read.reads()) };
        Ok(read)
    })?;
    let mut texels = vec![0; read.read_bytes() as usize];
    read.read(&mut texels)?;
    Ok(texels)
}

/// An allocator of its own over the device of `Gpu`, and two timelines whose submissions go to the device's queue.
pub struct Queues {
    pub memory: vulkan::Allocator,
    pub timelines: [vulkan::Timeline; 2],
    pub semaphores: [vk::Semaphore; 2],
    pub queue: vk::Queue,
    device: ash::Device,
    pool: vk::CommandPool,
}

impl Queues {
    pub fn new(gpu: &Gpu, heap_bytes: u64) -> Result<Self, Failure> {
        let debug = DebugDesc { leaks: true, ..Default::default() };
        let desc = AllocatorDesc { debug, heap_bytes_max: [heap_bytes; 16], ..Default::default() };
        let device = gpu.memory.device();
        let memory = vulkan::Allocator::over(device.clone(), desc);
        // SAFETY: the objects belong to the device, and `close` destroys them after the allocator has ended. Each
        // timeline has one queue, on which the checks submit its frames in order.
        unsafe {
            let families = device.instance().get_physical_device_queue_family_properties(device.physical());
            let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::GRAPHICS));
            let family = family.ok_or("the device has a queue for graphics")? as u32;
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
            let pool = gpu.device.create_command_pool(&info, None)?;
            let semaphore = || {
                let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
                gpu.device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None)
            };
            let semaphores = [semaphore()?, semaphore()?];
            let timelines = [memory.timeline(semaphores[0])?, memory.timeline(semaphores[1])?];
            let queue = gpu.device.get_device_queue(family, 0);
            Ok(Self { memory, timelines, semaphores, queue, device: gpu.device.clone(), pool })
        }
    }

    /// Returns a command buffer in the recording state.
    pub fn commands(&self) -> Result<vk::CommandBuffer, Failure> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: only this thread uses the pool.
        unsafe {
            let commands = self.device.allocate_command_buffers(&info)?[0];
            self.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            Ok(commands)
        }
    }

    /// Ends the commands and submits them. They signal `value` on one of the two semaphores.
    pub fn submit(&self, which: usize, commands: vk::CommandBuffer, value: u64) -> Result<(), vk::Result> {
        let (values, semaphores, list) = ([value], [self.semaphores[which]], [commands]);
        let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default().command_buffers(&list).signal_semaphores(&semaphores);
        // SAFETY: the commands are being recorded, and only this thread uses the queue.
        unsafe {
            self.device.end_command_buffer(commands)?;
            self.device.queue_submit(self.queue, &[submit.push_next(&mut signal)], vk::Fence::null())
        }
    }

    pub fn wait(&self, which: usize, point: SyncPoint) -> Result<(), Failure> {
        ensure(self.timelines[which].wait(point.value, PATIENCE)?, "the GPU has not reached the point")
    }

    /// Waits for the GPU and destroys everything. Fails if a resource is left.
    pub fn close(self) -> Result<(), Failure> {
        self.memory.shutdown(Duration::from_secs(60))?;
        let leak = self.memory.debug().take_findings().into_iter().next();
        drop((self.timelines, self.memory));
        // SAFETY: `shutdown` has waited for the GPU, and the allocator has ended.
        unsafe {
            self.semaphores.iter().for_each(|semaphore| self.device.destroy_semaphore(*semaphore, None));
            self.device.destroy_command_pool(self.pool, None);
        }
        leak.map_or(Ok(()), |leak| Err(leak.to_string().into()))
    }
}
