//! A queue, its timeline semaphore, and its command buffers, which are used again once they are complete.
//!
//! ```text
//!   free ──take──▶ recorded ──submit, signals v──▶ busy (v) ──timeline has reached v──▶ free
//! ```

use std::collections::VecDeque;

use ash::vk;

use ringfence::device::DeviceError;
use ringfence::vulkan::device_error;

use super::draw::DrawObjects;

/// Creates a timeline semaphore with the value 0.
pub(super) fn timeline(device: &ash::Device) -> Result<vk::Semaphore, vk::Result> {
    let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: the device was created with timeline semaphores.
    unsafe { device.create_semaphore(&info, None) }
}

pub(super) struct Queue {
    raw: vk::Queue,
    fence: vk::Semaphore,
    pool: vk::CommandPool,
    free: Vec<Batch>,
    /// Pending batches in order, each with the value of the timeline that it signals.
    busy: VecDeque<(u64, Batch)>,
}

/// Objects that one submission needs until it is complete.
pub(super) struct Batch {
    pub(super) commands: vk::CommandBuffer,
    pub(super) draws: DrawObjects,
}

impl Queue {
    pub(super) fn new(device: &ash::Device, family: u32, index: u32) -> Result<Self, vk::Result> {
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the device was created with this queue and with timeline semaphores.
        unsafe {
            let raw = device.get_device_queue(family, index);
            let fence = timeline(device)?;
            let pool = device.create_command_pool(&pool, None);
            let pool = pool.inspect_err(|_| device.destroy_semaphore(fence, None))?;
            Ok(Self { raw, fence, pool, free: Vec::new(), busy: VecDeque::new() })
        }
    }

    pub(super) fn raw(&self) -> vk::Queue {
        self.raw
    }

    pub(super) fn fence(&self) -> vk::Semaphore {
        self.fence
    }

    /// Records a batch by a call of `record`, and submits it.
    pub(super) fn submit(
        &mut self,
        device: &ash::Device,
        waits: &[(vk::Semaphore, u64)],
        signal: u64,
        record: impl FnOnce(&mut Batch) -> Result<(), vk::Result>,
    ) -> Result<(), DeviceError> {
        self.recycle(device).map_err(|error| device_error(error, "recycling a batch"))?;
        let mut batch = self.take(device).map_err(|error| device_error(error, "allocating a batch"))?;
        let done = begin_and_end(device, batch.commands, || record(&mut batch));
        match done.and_then(|()| self.hand_over(device, waits, batch.commands, signal)) {
            Ok(()) => {
                self.busy.push_back((signal, batch));
                Ok(())
            }
            Err(error) => {
                self.take_back(device, batch);
                Err(device_error(error, "submitting a batch"))
            }
        }
    }

    /// Keeps a batch that was not submitted for reuse. Its recording may be incomplete.
    fn take_back(&mut self, device: &ash::Device, mut batch: Batch) {
        // SAFETY: the batch was not submitted.
        unsafe {
            let _ = device.reset_command_buffer(batch.commands, vk::CommandBufferResetFlags::empty());
            batch.draws.clear(device);
        }
        self.free.push(batch);
    }

    /// Keeps the batches that are complete for reuse.
    fn recycle(&mut self, device: &ash::Device) -> Result<(), vk::Result> {
        // SAFETY: the timeline semaphore belongs to the device and is alive.
        let reached = unsafe { device.get_semaphore_counter_value(self.fence) }?;
        while self.busy.front().is_some_and(|(value, _)| *value <= reached)
            && let Some((_, mut batch)) = self.busy.pop_front()
        {
            // SAFETY: the timeline's value shows that the batch is complete.
            unsafe { batch.draws.clear(device) };
            self.free.push(batch);
        }
        Ok(())
    }

    fn take(&mut self, device: &ash::Device) -> Result<Batch, vk::Result> {
        if let Some(batch) = self.free.pop() {
            return Ok(batch);
        }
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the pool belongs to the device, and `&mut self` prevents other uses of the pool.
        let commands = unsafe { device.allocate_command_buffers(&info) }?[0];
        Ok(Batch { commands, draws: DrawObjects::default() })
    }

    fn hand_over(
        &self,
        device: &ash::Device,
        waits: &[(vk::Semaphore, u64)],
        commands: vk::CommandBuffer,
        signal: u64,
    ) -> Result<(), vk::Result> {
        let (fences, values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let (commands, signalled, signal) = ([commands], [self.fence], [signal]);
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values).signal_semaphore_values(&signal);
        let submit = vk::SubmitInfo::default()
            .wait_semaphores(&fences)
            .wait_dst_stage_mask(&stages)
            .command_buffers(&commands)
            .signal_semaphores(&signalled)
            .push_next(&mut timeline);
        // SAFETY: the objects belong to the device and are alive. No other thread uses the queue.
        unsafe { device.queue_submit(self.raw, &[submit], vk::Fence::null()) }
    }

    /// # Safety
    /// No submission to the queue may be pending.
    pub(super) unsafe fn destroy(self, device: &ash::Device) {
        let busy = self.busy.into_iter().map(|(_, batch)| batch);
        // SAFETY: the objects belong to the device. The caller promises that they are unused.
        unsafe {
            busy.chain(self.free).for_each(|batch| batch.draws.destroy(device));
            device.destroy_command_pool(self.pool, None);
            device.destroy_semaphore(self.fence, None);
        }
    }
}

fn begin_and_end(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    record: impl FnOnce() -> Result<(), vk::Result>,
) -> Result<(), vk::Result> {
    let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    // SAFETY: the command buffer belongs to the device and is not pending. Beginning it resets it.
    unsafe { device.begin_command_buffer(commands, &once) }?;
    record()?;
    // SAFETY: it is being recorded.
    unsafe { device.end_command_buffer(commands) }
}
