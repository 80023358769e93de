//! Buffers and images, made and destroyed by the driver.
//!
//! ```text
//!   threads ──▶ turn ──▶ vkCreateBuffer, vkCreateImage, vkDestroyBuffer, vkDestroyImage      a driver of NVIDIA's
//!   threads ───────────▶ the same                                                            any other
//! ```
//!
//! NVIDIA's driver takes calls of several threads at once, which then hinder one another. On an H200, 4, 8 and 16
//! threads that take turns make and destroy 6.6, 3.7 and 2.9 times as many buffers as threads that call the driver at
//! once, and 4.2, 3.1 and 3.1 times as many images; one thread loses up to a tenth with buffers. Mesa's software driver
//! is faster with all threads at once.

use std::time::Duration;

use ash::vk;
use parking_lot::{Mutex, MutexGuard};

use super::device::Device;
use super::error::failed;
use ringfence_hal::DeviceError;

/// How long a thread waits for its turn. After that it calls the driver all the same, which allows that: turns are for
/// speed alone. So nothing hangs where a layer calls the program from within the driver's call.
const PATIENCE: Duration = Duration::from_millis(10);

/// What threads wait for before they have the driver make or destroy an object.
pub(super) struct Turns(Option<Mutex<()>>);

impl Turns {
    /// Of a device with this driver.
    pub(super) fn of(driver: vk::DriverId) -> Self {
        Self((driver == vk::DriverId::NVIDIA_PROPRIETARY).then(Mutex::default))
    }

    #[inline]
    fn wait(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.as_ref().and_then(|turn| turn.try_lock_for(PATIENCE))
    }
}

impl Device {
    /// # Safety
    /// `vkCreateBuffer` accepts `info` on this device.
    #[inline]
    pub(super) unsafe fn create_buffer(&self, info: &vk::BufferCreateInfo<'_>) -> Result<vk::Buffer, DeviceError> {
        let _turn = self.0.turns.wait();
        // SAFETY: the caller promises that `info` is valid.
        unsafe { self.0.device.create_buffer(info, None) }.map_err(failed("vkCreateBuffer"))
    }

    /// # Safety
    /// The buffer is this device's, alive, and unused.
    #[inline]
    pub(super) unsafe fn destroy_buffer(&self, buffer: vk::Buffer) {
        let _turn = self.0.turns.wait();
        // SAFETY: the caller promises that it is alive and unused.
        unsafe { self.0.device.destroy_buffer(buffer, None) }
    }

    /// # Safety
    /// `vkCreateImage` accepts `info` on this device.
    #[inline]
    pub(super) unsafe fn create_image(&self, info: &vk::ImageCreateInfo<'_>) -> Result<vk::Image, DeviceError> {
        let _turn = self.0.turns.wait();
        // SAFETY: the caller promises that `info` is valid.
        unsafe { self.0.device.create_image(info, None) }.map_err(failed("vkCreateImage"))
    }

    /// # Safety
    /// The image is this device's, alive, and unused.
    #[inline]
    pub(super) unsafe fn destroy_image(&self, image: vk::Image) {
        let _turn = self.0.turns.wait();
        // SAFETY: the caller promises that it is alive and unused.
        unsafe { self.0.device.destroy_image(image, None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_on_one_driver_and_wait_for_none_that_does_not_end() {
        let turns = Turns::of(vk::DriverId::NVIDIA_PROPRIETARY);
        let turn = turns.wait().expect("no thread has it");
        assert!(turns.wait().is_none(), "this thread has it");
        drop(turn);
        assert!(turns.wait().is_some());
        assert!(Turns::of(vk::DriverId::MESA_LLVMPIPE).0.is_none());
    }
}
