//! A timeline, which begins frames and reads the progress of its queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringfence_core::sync::{SyncPoint, TimelineId};
use ringfence_lockfree::clock::Clock;
use ringfence_trace::Event;

use crate::device::{Device, DeviceError};
use crate::frame::{Frame, FrameError};
use crate::lifetimes::Lifetimes;

/// A queue's progress, read from its fence. Created by `Allocator::timeline`.
///
/// Any number of frames may be open at once. They must be submitted in the order of their values. A clone is cheap, and
/// is the same timeline.
///
/// The program creates one timeline for each queue, and one frame for each submission to the queue. If a timeline is
/// dropped, the allocator still waits for its frames before it frees retired objects.
///
/// # Examples
///
/// A frame loop with two frames in flight. `device`, `fence`, `memory` and `timeline` are created as in the example of
/// `Allocator`.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// use std::time::Duration;
///
/// let mut in_flight = [None; 2]; // the last frame that used each command buffer
/// for number in 0..5 {
///     if let Some(point) = in_flight[number % 2] {
///         assert!(timeline.wait_for(point, Duration::from_secs(10))?); // its command buffer is free
///     }
///     let frame = timeline.begin();
///     // Record commands. On Vulkan, `vkQueueSubmit` signals `frame.value()` on the timeline semaphore.
///     device.submit(0, &[], vec![], (fence, frame.value()))?;
///     in_flight[number % 2] = Some(timeline.submitted(frame)?);
///     memory.reclaim();
/// }
/// assert_eq!(timeline.submitted_value(), 5);
/// assert!(timeline.completed()? >= 3); // at most two frames are in flight
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Timeline<D: Device> {
    pub(crate) shared: Arc<dyn Timed<D>>,
    pub(crate) clock: Arc<Clock>,
}

/// The owner of timelines: an allocator. The timelines keep it alive.
///
/// # Safety
/// Each function returns the same device and the same lifetimes in every call, and the fences of these lifetimes belong
/// to that device.
pub unsafe trait Timed<D: Device>: Send + Sync {
    /// Returns the device of the fences.
    fn device(&self) -> &D;

    /// Returns the timelines.
    fn lifetimes(&self) -> &Lifetimes<D>;

    /// Records an event, if a trace is recorded.
    fn record(&self, event: Event<&str>);

    /// Returns a reference with which an open frame keeps the allocator alive.
    fn keep(self: Arc<Self>) -> Arc<dyn Send + Sync>;
}

impl<D: Device> Timeline<D> {
    /// Returns the identity of this timeline.
    #[must_use]
    pub fn id(&self) -> TimelineId {
        self.clock.id()
    }

    /// Begins a frame, which is one submission. Objects that are written or retired while the frame is open are kept
    /// until the submission is complete. O(open frames).
    ///
    /// # Panics
    /// If the fence has no value left, because it was signalled with a value near [`u64::MAX`].
    pub fn begin(&self) -> Frame {
        let value = self.shared.lifetimes().begin(&self.clock);
        self.shared.record(Event::FrameBegun { timeline: self.clock.id().index() as u32, value });
        Frame::opened(Arc::clone(&self.clock), value, Arc::clone(&self.shared).keep())
    }

    /// Declares that the work of `frame` is submitted and will signal [`Frame::value`].
    ///
    /// # Errors
    /// The frame belongs to another timeline, or a later frame was submitted already. The error contains the frame,
    /// which is still open.
    pub fn submitted(&self, frame: Frame) -> Result<SyncPoint, FrameError> {
        let point = frame.point();
        if !Arc::ptr_eq(&frame.clock, &self.clock) {
            return Err(FrameError::WrongTimeline { frame, timeline: self.clock.id() });
        }
        match self.clock.submit(point.value) {
            Ok(()) => {
                self.shared.record(Event::Submitted { timeline: self.clock.id().index() as u32, value: point.value });
                Ok(point)
            }
            Err(submitted) => Err(FrameError::OutOfOrder { frame, submitted }),
        }
    }

    /// Submits a frame: calls `submit` with [`Frame::value`], then declares the frame as submitted. If `submit` fails,
    /// discards the frame, so that its value is not waited for. Therefore `submit` must fail only if no work that
    /// signals the value was submitted, as the caller of `Allocator::timeline` promised. If `submit` panics, the frame
    /// is dropped.
    ///
    /// # Errors
    /// The error of `submit`, or an error of [`Timeline::submitted`]. If the frame belongs to another timeline,
    /// `submit` is not called.
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// let frame = timeline.begin();
    /// let point = timeline.submit(frame, |value| {
    ///     // On Vulkan: `vkQueueSubmit` with a `vk::TimelineSemaphoreSubmitInfo` that signals `value`
    ///     device.submit(0, &[], vec![], (fence, value))?;
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// assert_eq!(timeline.submitted_value(), point.value);
    ///
    /// let refused = |_value| Err::<(), Box<dyn std::error::Error>>("nothing was submitted".into());
    /// assert!(timeline.submit(timeline.begin(), refused).is_err());
    /// assert!(timeline.wait_for(point, std::time::Duration::MAX)?); // the second frame was discarded
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit<E: From<FrameError>>(
        &self,
        frame: Frame,
        submit: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<SyncPoint, E> {
        if !Arc::ptr_eq(&frame.clock, &self.clock) {
            return Err(FrameError::WrongTimeline { frame, timeline: self.clock.id() }.into());
        }
        match submit(frame.value()) {
            Ok(()) => Ok(self.submitted(frame)?),
            Err(error) => {
                frame.discard();
                Err(error)
            }
        }
    }

    /// Declares that the dropped frames of this timeline have no pending work: each was never submitted, or its work is
    /// complete. A program calls this function at its end, after it has waited until the queue is idle, and submits no
    /// further frame. Open frames are not affected.
    ///
    /// The caller of `Allocator::timeline` promised that this declaration is true.
    pub fn discard_dropped(&self) {
        self.clock.discard_left();
    }

    /// Returns the value that the GPU has reached. One driver call.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn completed(&self) -> Result<u64, DeviceError> {
        // SAFETY: the owner's device is that of its fences.
        unsafe { self.shared.lifetimes().completed(self.shared.device(), self.clock.id()) }
    }

    /// Returns the latest value that was submitted.
    #[must_use]
    pub fn submitted_value(&self) -> u64 {
        self.clock.submitted()
    }

    /// Waits until the GPU has reached `value`, at most for `timeout`, and returns `true` if it has. If the frame of
    /// `value` was discarded, the wait ends when a later value is reached. It ends as soon as all earlier frames are
    /// complete if, when the wait begins, no later frame was submitted or dropped and no earlier frame is open.
    ///
    /// A value that is not submitted yet is also waited for, because another thread may submit it. If no thread submits
    /// it, the wait ends with the timeout.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        let value = self.clock.signalled_with(value);
        // SAFETY: the owner's device is that of its fences.
        unsafe { self.shared.lifetimes().wait_point(self.shared.device(), self.clock.at(value), timeout) }
    }

    /// Waits until the GPU has reached `point`, at most for `timeout`, like [`Timeline::wait`]. [`Timeline::submitted`]
    /// and [`Timeline::submit`] return such a point.
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`], or [`DeviceError::InvalidInfo`] if the point belongs to another timeline.
    pub fn wait_for(&self, point: SyncPoint, timeout: Duration) -> Result<bool, DeviceError> {
        if point.timeline != self.id() {
            return Err(DeviceError::invalid("a wait of a timeline for a point of another timeline"));
        }
        self.wait(point.value, timeout)
    }
}

// By hand: the derived implementation would require `D: Clone`.
impl<D: Device> Clone for Timeline<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), clock: Arc::clone(&self.clock) }
    }
}

impl<D: Device> fmt::Debug for Timeline<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({})", self.clock.id())
    }
}
