//! Buffers and images, made and destroyed by the driver.
//!
//! ```text
//!   threads ──▶ turn ──▶ vkCreateBuffer, vkCreateImage, vkDestroyBuffer, vkDestroyImage      a driver of NVIDIA's
//!   threads ───────────▶ the same                                                            any other
//! ```
//!
//! NVIDIA's driver takes calls of several threads at once, which then hinder one another. On an H200, 4, 8 and 16
//! threads that take turns make and destroy 6.6, 3.7 and 2.9 times as many buffers as threads that call the driver at
//! once, and 4.2, 3.1 and 3.1 times as many images. As long as one thread makes all calls, it waits for no turn. Mesa's
//! software driver is faster with all threads at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ash::vk;
use ringfence_hal::lock::{Guard, Lock};

use super::device::Device;
use super::error::failed;
use ringfence_hal::DeviceError;

/// How long a thread waits for its turn. After that it calls the driver all the same, which allows that: turns are for
/// speed alone. So nothing hangs where a layer calls the program from within the driver's call.
const PATIENCE: Duration = Duration::from_millis(10);

/// What threads wait for before they have the driver make or destroy an object.
pub(super) struct Turns {
    turn: Option<Lock<()>>,
    /// The thread that alone has come so far, [`NONE`] or [`SEVERAL`].
    sole: AtomicUsize,
}

const NONE: usize = 0;
const SEVERAL: usize = 1;

/// A number that no other living thread has, above [`SEVERAL`].
fn this_thread() -> usize {
    // An address: even, and not null.
    thread_local!(static NUMBER: u16 = const { 0 });
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

impl Turns {
    /// Of a device with this driver.
    pub(super) fn of(driver: vk::DriverId) -> Self {
        let turn = (driver == vk::DriverId::NVIDIA_PROPRIETARY).then(Lock::default);
        Self { turn, sole: AtomicUsize::new(NONE) }
    }

    #[inline]
    fn wait(&self) -> Option<Guard<'_, ()>> {
        let turn = self.turn.as_ref()?;
        if self.is_sole() { None } else { turn.try_lock_for(PATIENCE) }
    }

    /// Whether no other thread has come before. Turns are for speed alone, so that nothing is ordered by it.
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
