//! Waits for fences by system events, which later waits reuse.
//!
//! ```text
//!   wait ── take an event ── SetEventOnCompletion ── sleep until the event or the timeout ── put the event back
//!                                                      │
//!                                                      └─ the fence decides, not the event: sleep again if short
//! ```
//!
//! After a timeout, the driver may still signal the event, even during a later wait that uses the same event. That wait
//! then wakes early, reads its fence, and sleeps again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::{CloseHandle, HANDLE, WAIT_FAILED, WAIT_OBJECT_0};
use windows::Win32::Graphics::Direct3D12::ID3D12Fence;
use windows::Win32::System::Threading::{CreateEventW, WaitForSingleObject};
use windows::core::PCWSTR;

use super::error;
use ringfence_hal::DeviceError;

/// Returns the current value of a fence. When a device is removed, it sets its fences to `u64::MAX`, which ends all
/// waits; this function then returns [`DeviceError::Lost`].
pub(super) fn completed(fence: &ID3D12Fence) -> Result<u64, DeviceError> {
    // SAFETY: a call without arguments on a live object.
    match unsafe { fence.GetCompletedValue() } {
        u64::MAX => Err(DeviceError::Lost),
        value => Ok(value),
    }
}

/// Capacity of the pool, which is reserved when the device is wrapped. Up to this number of concurrent waits, returning
/// an event to the pool needs no host allocation.
const KEPT: usize = 64;

/// Events that no wait is using. The pool never has more events than the largest number of concurrent waits so far.
pub(super) struct Pool(Mutex<Vec<Event>>);

impl Default for Pool {
    /// Creates a pool without events, with capacity for [`KEPT`] events.
    fn default() -> Self {
        Self(Mutex::new(Vec::with_capacity(KEPT)))
    }
}

impl Pool {
    /// Waits until `fence` reaches `value`, for at most `timeout`. Returns `true` if the value is reached, `false` on
    /// timeout.
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

/// An auto-reset event: the system resets it when a wait for it returns.
struct Event {
    handle: HANDLE,
    /// `true` if the driver may still signal the event for an earlier wait.
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
        // SAFETY: the event is open, and stays open while it is pending (see `drop`).
        let asked = unsafe { fence.SetEventOnCompletion(value, self.handle) };
        asked.map_err(error::failed(error::call!("ID3D12Fence::SetEventOnCompletion", "an event for a fence")))?;
        let was_pending = std::mem::replace(&mut self.pending, true);
        loop {
            let signalled = self.sleep(deadline)?;
            if completed(fence)? >= value {
                // If the event was not pending before this wait, the only signal that was due has ended this sleep.
                self.pending = was_pending || !signalled;
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the event is signalled, until the deadline, or for 60 s, whichever is first. Returns `true` if the
    /// event was signalled.
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
        // A pending event stays open. If it were closed, the system could give its handle to another object, which the
        // driver would then signal.
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
