//! A bare Vulkan queue for measurements: a few command buffers in turn, one timeline semaphore, and timestamps.

use ash::vk;
use ringfence::vulkan::Device;
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};

/// Opens the device with this text in its name, or the best device if `None`.
pub fn open(name: Option<String>) -> VulkanGpu {
    VulkanGpu::open(&Options { name, ..Default::default() }).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    })
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One queue with minimal recording and submission.
pub struct Bench {
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    pub timeline: vk::Semaphore,
    stamps: vk::QueryPool,
    ns_per_tick: f64,
    pub submitted: u64,
}

impl Bench {
    /// Uses the first queue of the device, with `frames` command buffers. No other code may use that queue meanwhile.
    pub fn new(gpu: &VulkanGpu, frames: usize) -> Self {
        let ringfence: Device = gpu.device();
        let device = ringfence.raw().clone();
        let family = gpu.queue_family();
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let timeline = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let stamps = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
        // SAFETY: the device is alive and has the family; the infos are valid.
        unsafe {
            let properties = ringfence.instance().get_physical_device_properties(ringfence.physical());
            let pool = device.create_command_pool(&pool, None).expect("a command pool");
            let buffers =
                vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(frames as u32);
            Self {
                queue: device.get_device_queue(family, 0),
                commands: device.allocate_command_buffers(&buffers).expect("command buffers"),
                timeline: device.create_semaphore(&timeline, None).expect("a timeline"),
                stamps: device.create_query_pool(&stamps, None).expect("a query pool"),
                ns_per_tick: f64::from(properties.limits.timestamp_period),
                pool,
                device,
                submitted: 0,
            }
        }
    }

    /// Records and submits commands. First waits for the submission that used the same command buffer. Returns the
    /// value that the timeline semaphore will reach.
    pub fn submit(&mut self, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) -> u64 {
        let value = self.submitted + 1;
        let frames = self.commands.len() as u64;
        self.wait(value.saturating_sub(frames));
        let commands = self.commands[(value % frames) as usize];
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let (values, buffers, signals) = ([value], [commands], [self.timeline]);
        let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit =
            vk::SubmitInfo::default().command_buffers(&buffers).signal_semaphores(&signals).push_next(&mut signal);
        // SAFETY: the command buffer is not pending after the wait; only this thread uses the queue.
        unsafe {
            self.device.begin_command_buffer(commands, &begin).expect("begin");
            record(&self.device, commands);
            self.device.end_command_buffer(commands).expect("end");
            self.device.queue_submit(self.queue, &[submit], vk::Fence::null()).expect("submit");
        }
        self.submitted = value;
        value
    }

    pub fn wait(&self, value: u64) {
        let (timelines, values) = ([self.timeline], [value]);
        let wait = vk::SemaphoreWaitInfo::default().semaphores(&timelines).values(&values);
        // SAFETY: the timeline is alive.
        unsafe { self.device.wait_semaphores(&wait, u64::MAX) }.expect("the device is not lost");
    }

    /// Records timestamp `index` (0 or 1). It is written once all earlier work is complete.
    #[allow(dead_code, reason = "not every example times on the device")]
    pub fn stamp(stamps: vk::QueryPool, device: &ash::Device, commands: vk::CommandBuffer, index: u32) {
        // SAFETY: the command buffer is being recorded, the query pool has two queries.
        unsafe {
            if index == 0 {
                device.cmd_reset_query_pool(commands, stamps, 0, 2);
            }
            device.cmd_write_timestamp(commands, vk::PipelineStageFlags::ALL_COMMANDS, stamps, index);
        }
    }

    #[allow(dead_code, reason = "not every example times on the device")]
    pub fn stamps(&self) -> vk::QueryPool {
        self.stamps
    }

    /// Returns the time between the two timestamps of the last submission, in nanoseconds. The submission must be
    /// complete.
    #[allow(dead_code, reason = "not every example times on the device")]
    pub fn stamped_ns(&self) -> f64 {
        let mut ticks = [0_u64; 2];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: completed work wrote both queries.
        unsafe { self.device.get_query_pool_results(self.stamps, 0, &mut ticks, flags) }.expect("timestamps");
        ticks[1].wrapping_sub(ticks[0]) as f64 * self.ns_per_tick
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: all work is complete, and none of these objects is used afterwards.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_query_pool(self.stamps, None);
            self.device.destroy_semaphore(self.timeline, None);
            self.device.destroy_command_pool(self.pool, None);
        }
    }
}
