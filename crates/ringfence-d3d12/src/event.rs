//! Waiting for a fence, with system events that are reused by later waits.
//!
//! ```text
//!   wait ── take an event ── SetEventOnCompletion ── sleep until the event or the timeout ── put the event back
//!                                                      │
//!                                                      └─ the fence decides, not the event: sleep again if short
//! ```
//!
//! After a timeout the driver may still signal the event, at any time during a later wait that uses it. That wait then
//! wakes early, reads its fence and sleeps again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::{CloseHandle, HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows::Win32::Graphics::Direct3D12::ID3D12Fence;
use windows::Win32::System::Threading::{CreateEventW, WaitForSingleObject};
use windows::core::PCWSTR;

use super::error;
use ringfence_hal::DeviceError;

/// Returns the value that a fence has reached. A removed device sets its fences to `u64::MAX` to end all waits; this
/// function reports that value as [`DeviceError::Lost`].
pub(super) fn completed(fence: &ID3D12Fence) -> Result<u64, DeviceError> {
    // SAFETY: a call without arguments on a live object.
    match unsafe { fence.GetCompletedValue() } {
        u64::MAX => Err(DeviceError::Lost),
        value => Ok(value),
    }
}

/// Number of concurrent waits whose events are returned to the pool without a host allocation. The pool reserves this
/// capacity when the device is wrapped.
const KEPT: usize = 64;

/// The events that no wait is using. Their number is at most the largest number of concurrent waits so far.
pub(super) struct Pool(Mutex<Vec<Event>>);

impl Default for Pool {
    /// Creates a pool without events, with capacity for [`KEPT`] events.
    fn default() -> Self {
        Self(Mutex::new(Vec::with_capacity(KEPT)))
    }
}

impl Pool {
    /// Waits until `fence` reaches `value`, for at most `timeout`. Returns `true` if it did.
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

/// An auto-reset event: it resets itself when a wait for it returns.
struct Event {
    handle: HANDLE,
    /// `true` if the driver may still signal the event.
    pending: bool,
}

// SAFETY: a handle to an event may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Result<Self, DeviceError> {
        // SAFETY: no attributes and no name are passed.
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
                // If the event was not pending before this wait, the signal that ended this sleep was the only one due.
                self.pending = was_pending || !signalled;
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the event is signalled or the deadline passes, or for less. Returns `true` if the event was
    /// signalled.
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
        // A pending event stays open: if it were closed, the system could reuse its handle for another object, and the
        // driver would then signal that object.
        if !self.pending {
            // SAFETY: the event is open, only this call closes it, and the driver does not use it any more.
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
        assert_eq!(kept.capacity(), room, "64 events fit without an allocation");
    }
}
