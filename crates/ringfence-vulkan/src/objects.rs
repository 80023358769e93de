//! Creation and destruction of buffers and images.
//!
//! ```text
//!   threads ──▶ turn ──▶ vkCreateBuffer, vkCreateImage, vkDestroyBuffer, vkDestroyImage      NVIDIA's driver
//!   threads ───────────▶ the same                                                            any other driver
//! ```
//!
//! NVIDIA's driver accepts calls from several threads at once, but the calls then slow one another down. On an H200, if
//! 4, 8 and 16 threads take turns, they create and destroy 6.6, 3.7 and 2.9 times as many buffers as without turns, and
//! 4.2, 3.1 and 3.1 times as many images. As long as one thread makes all calls, it does not wait. Mesa's software
//! driver is faster without turns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ash::vk;
use ringfence_hal::lock::{Guard, Lock};

use super::device::Device;
use super::error::failed;
use ringfence_hal::DeviceError;

/// Longest wait of a thread for its turn. After that, the thread calls the driver without a turn, which is valid: turns
/// only affect speed. This prevents a deadlock if a layer calls the program from inside a driver call.
const PATIENCE: Duration = Duration::from_millis(10);

/// The lock that threads wait for before they create or destroy an object.
pub(super) struct Turns {
    turn: Option<Lock<()>>,
    /// Number of the only thread that has called so far, [`NONE`] or [`SEVERAL`].
    sole: AtomicUsize,
}

const NONE: usize = 0;
const SEVERAL: usize = 1;

/// Returns a number above [`SEVERAL`] that no other living thread has.
fn this_thread() -> usize {
    // The address of a `u16`, which is even and not null.
    thread_local!(static NUMBER: u16 = const { 0 });
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

impl Turns {
    /// Returns the turns for a device with this driver.
    pub(super) fn of(driver: vk::DriverId) -> Self {
        let turn = (driver == vk::DriverId::NVIDIA_PROPRIETARY).then(Lock::default);
        Self { turn, sole: AtomicUsize::new(NONE) }
    }

    #[inline]
    fn wait(&self) -> Option<Guard<'_, ()>> {
        let turn = self.turn.as_ref()?;
        if self.is_sole() { None } else { turn.try_lock_for(PATIENCE) }
    }

    /// Returns `true` if only this thread has called so far. Relaxed ordering suffices, because turns only affect
    /// speed.
    #[inline]
    fn is_sole(&self) -> bool {
        let sole = self.sole.load(Ordering::Relaxed);
        sole != SEVERAL && (sole == this_thread() || self.come_first(sole))
    }

    #[cold]
    fn come_first(&self, sole: usize) -> bool {
        let next = if sole == NONE { this_thread() } else { SEVERAL };
        let is_first = self.sole.compare_exchange(sole, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_first && next != SEVERAL
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
    /// The buffer belongs to this device, is alive, and is unused.
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
    /// The image belongs to this device, is alive, and is unused.
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
        assert!((0..3).all(|_| turns.wait().is_none()), "one thread needs no turn");
        std::thread::scope(|scope| _ = scope.spawn(|| assert!(turns.wait().is_some())));
        let turn = turns.wait().expect("no thread has it");
        assert!(turns.wait().is_none(), "this thread has it");
        drop(turn);
        assert!(turns.wait().is_some());
        let turns = Turns::of(vk::DriverId::MESA_LLVMPIPE);
        std::thread::scope(|scope| _ = scope.spawn(|| assert!(turns.wait().is_none())));
        assert!(turns.wait().is_none());
    }
}
