//! Waiting for a fence: events of the operating system, kept for the next wait.
//!
//! ```text
//!   wait ── take an event ── SetEventOnCompletion ── sleep until the event or the timeout ── put the event back
//!                                                      │
//!                                                      └─ the fence decides, not the event: read it, sleep on if short
//! ```
//!
//! An event that timed out is still known to the driver and may be signalled in the middle of a later wait for
//! something else. That wait then wakes early, reads its fence and sleeps on, which is all that comes of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::{CloseHandle, HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows::Win32::Graphics::Direct3D12::ID3D12Fence;
use windows::Win32::System::Threading::{CreateEventW, WaitForSingleObject};
use windows::core::PCWSTR;

use super::error;
use ringfence_hal::DeviceError;

/// The value that a fence has reached. A removed device sets its fences to the largest value there is, so that every
/// wait ends: that value means the loss, not progress.
pub(super) fn completed(fence: &ID3D12Fence) -> Result<u64, DeviceError> {
    // SAFETY: a call without arguments on a live object.
    match unsafe { fence.GetCompletedValue() } {
        u64::MAX => Err(DeviceError::Lost),
        value => Ok(value),
    }
}

/// Waits at once whose events are kept without a host allocation: room for them is made with the device.
const KEPT: usize = 64;

/// The events that no wait is using now; as many as there ever were waits at once.
pub(super) struct Pool(Mutex<Vec<Event>>);

impl Default for Pool {
    /// With room for the events of [`KEPT`] waits, and without an event.
    fn default() -> Self {
        Self(Mutex::new(Vec::with_capacity(KEPT)))
    }
}

impl Pool {
    /// Waits until `fence` reaches `value`, at most for `timeout`; returns whether it did.
    pub(super) fn wait(&self, fence: &ID3D12Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        if completed(fence)? >= value {
            return Ok(true);
        }
        if timeout.is_zero() {
            return Ok(false);
        }
        let mut event = self.take()?;
        let outcome = event.wait(fence, value, timeout);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        outcome
    }

    fn take(&self) -> Result<Event, DeviceError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(Event::new, Ok)
    }
}

/// An event that resets itself when a wait for it returns.
struct Event {
    handle: HANDLE,
    /// Iff the driver may still signal it.
    pending: bool,
}

// SAFETY: a handle to an event may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Result<Self, DeviceError> {
        // SAFETY: neither attributes nor a name are passed.
        let handle = unsafe { CreateEventW(None, false, false, PCWSTR::null()) };
        let handle = handle.map_err(error::failed(error::call!("CreateEventW", "an event")))?;
        Ok(Self { handle, pending: false })
    }

    fn wait(&mut self, fence: &ID3D12Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        let deadline = Instant::now().checked_add(timeout);
        // SAFETY: the event is open, and stays so while it is pending (see `drop`).
        let asked = unsafe { fence.SetEventOnCompletion(value, self.handle) };
        asked.map_err(error::failed(error::call!("ID3D12Fence::SetEventOnCompletion", "an event for a fence")))?;
        let was_pending = std::mem::replace(&mut self.pending, true);
        loop {
            let signalled = self.sleep(deadline)?;
            if completed(fence)? >= value {
                // Unless it was pending before, the signal that ended this sleep was the only one to come.
                self.pending = was_pending || !signalled;
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the event is signalled or the deadline is there, or earlier; returns whether it was signalled.
    fn sleep(&self, deadline: Option<Instant>) -> Result<bool, DeviceError> {
        const LONGEST_MS: u32 = 60_000;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left_ms = left.map_or(LONGEST_MS, |left| left.as_micros().div_ceil(1000).min(LONGEST_MS.into()) as u32);
        // SAFETY: the event is open.
        let woken = unsafe { WaitForSingleObject(self.handle, left_ms) };
        if woken == WAIT_FAILED {
            return Err(error::from_system("WaitForSingleObject"));
        }
        Ok(woken == WAIT_OBJECT_0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // A pending event is left open: its number could become another object's, which the driver would then signal.
        if !self.pending {
            // SAFETY: the event is open, nothing else closes it, and the driver has no more use for it.
            let _ = unsafe { CloseHandle(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_leave_behind_has_room_already() {
        let pool = Pool::default();
        let mut kept = pool.0.lock().unwrap();
        let room = kept.capacity();
        assert!(room >= KEPT);
        kept.extend((0..KEPT).map(|_| Event::new().unwrap()));
        assert_eq!(kept.capacity(), room, "64 events take no host memory more");
    }
}
