//! Objects of the program for one frame in flight: commands, and sets of inputs.

use std::time::Duration;

use ash::vk;

use crate::Failure;
use crate::gpu::Gpu;
use crate::inputs::Inputs;

/// Number of frames that the device may be behind.
pub const IN_FLIGHT: usize = 3;
/// The longest wait for a frame.
pub const WAIT: Duration = Duration::from_secs(60);

pub struct Slot {
    pool: vk::CommandPool,
    pub commands: vk::CommandBuffer,
    pub inputs: Inputs,
    /// Value of the last frame that used the slot.
    pub value: u64,
}

impl Slot {
    pub fn new(gpu: &Gpu) -> Result<Self, vk::Result> {
        // SAFETY: the device is alive and has queue family 0.
        let (pool, commands) = unsafe {
            let pool = gpu.raw().create_command_pool(&vk::CommandPoolCreateInfo::default(), None)?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            (pool, gpu.raw().allocate_command_buffers(&info)?[0])
        };
        Ok(Self { pool, commands, inputs: Inputs::new(gpu.raw())?, value: 0 })
    }

    /// Waits for the frame that used the slot, and begins the commands of the next one.
    pub fn reset(&self, gpu: &Gpu) -> Result<(), Failure> {
        if !gpu.timeline.wait(self.value, WAIT)? {
            return Err("the device needs more than a minute for a frame".into());
        }
        self.inputs.reset()?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the device has finished with the commands.
        unsafe {
            gpu.raw().reset_command_pool(self.pool, Default::default())?;
            Ok(gpu.raw().begin_command_buffer(self.commands, &begin)?)
        }
    }

    pub fn destroy(self, gpu: &Gpu) {
        self.inputs.destroy();
        // SAFETY: the device has finished with the commands.
        unsafe { gpu.raw().destroy_command_pool(self.pool, None) };
    }
}
