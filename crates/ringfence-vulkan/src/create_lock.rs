//! Creation and destruction of buffers and images.
//!
//! ```text
//!   threads ──▶ turn ──▶ vkCreateBuffer, vkCreateImage, vkDestroyBuffer, vkDestroyImage      NVIDIA's driver
//!   threads ───────────▶ vkCreateBuffer, vkCreateImage, vkDestroyBuffer, vkDestroyImage      any other driver
//! ```
//!
//! NVIDIA's driver accepts calls from several threads at once, but such calls slow one another down. Therefore threads
//! take turns: a thread holds a lock during its call, unless it has waited 10 ms for the lock in vain. Until a second
//! thread makes a call, no lock is taken. Objects that are created and destroyed per second on an H200, as a multiple
//! of the number without turns:
//!
//! | threads | buffers | images |
//! |---|---|---|
//! | 4 | 6.6 | 4.2 |
//! | 8 | 3.7 | 3.1 |
//! | 16 | 2.9 | 3.1 |
//! Mesa's software driver is faster without turns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ash::vk;
use ringfence_hal::lock::{Guard, Lock};

use super::device::Device;
use super::error::failed;
use ringfence_hal::DeviceError;

/// Longest wait of a thread for its turn. A thread that has waited this long calls the driver without a turn. Such a
/// call is valid, because turns only affect speed. The limit prevents a deadlock if a layer calls the program from
/// inside a driver call.
const PATIENCE: Duration = Duration::from_millis(10);

/// Lock that threads take before they create or destroy a buffer or image. Only devices with NVIDIA's driver have one.
pub(super) struct CreateLock {
    turn: Option<Lock<()>>,
    /// Number of the only thread that has made a call; [`NONE`] before the first call, [`SEVERAL`] once two threads
    /// have made calls.
    sole: AtomicUsize,
}

const NONE: usize = 0;
const SEVERAL: usize = 1;

/// Returns a number above [`SEVERAL`] that identifies this thread among the living threads.
fn this_thread() -> usize {
    // The address of a `u16` is even and not null, so it is at least 2.
    thread_local!(static NUMBER: u16 = const { 0 });
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

impl CreateLock {
    /// Returns the lock for a device with this driver.
    pub(super) fn of(driver: vk::DriverId) -> Self {
        let turn = (driver == vk::DriverId::NVIDIA_PROPRIETARY).then(Lock::default);
        Self { turn, sole: AtomicUsize::new(NONE) }
    }

    #[inline]
    fn wait(&self) -> Option<Guard<'_, ()>> {
        let turn = self.turn.as_ref()?;
        if self.is_sole() { None } else { turn.try_lock_for(PATIENCE) }
    }

    /// Records this thread as a caller. Returns `true` if no other thread has made a call. Relaxed ordering suffices,
    /// because turns only affect speed.
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
        // SAFETY: the caller promises that the buffer is alive and unused.
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
        // SAFETY: the caller promises that the image is alive and unused.
        unsafe { self.0.device.destroy_image(image, None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_on_one_driver_and_wait_for_none_that_does_not_end() {
        let turns = CreateLock::of(vk::DriverId::NVIDIA_PROPRIETARY);
        assert!((0..3).all(|_| turns.wait().is_none()), "one thread needs no turn");
        std::thread::scope(|scope| _ = scope.spawn(|| assert!(turns.wait().is_some())));
        let turn = turns.wait().expect("no thread has it");
        assert!(turns.wait().is_none(), "this thread has it");
        drop(turn);
        assert!(turns.wait().is_some());
        let turns = CreateLock::of(vk::DriverId::MESA_LLVMPIPE);
        std::thread::scope(|scope| _ = scope.spawn(|| assert!(turns.wait().is_none())));
        assert!(turns.wait().is_none());
    }
}
