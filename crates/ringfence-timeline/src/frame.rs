//! Frames: submissions that are being recorded.

use std::fmt;
use std::sync::Arc;

use ringfence_core::sync::{SyncPoint, TimelineId};
use ringfence_lockfree::clock::{Clock, Watch};

/// A submission that is being recorded, with the value that it will signal.
///
/// A frame ends in one of three ways:
///
/// - [`Timeline::submitted`](crate::Timeline::submitted) declares that it was submitted.
/// - [`Frame::discard`] declares that it was not submitted and will not be.
/// - Dropping the frame declares neither, because an error or a panic may drop it before or after the submission.
///   Objects that were in use while the frame was open, and objects that are retired later, are kept until the fence
///   has reached the frame's value or a later one. [`Timeline::discard_dropped`](crate::Timeline::discard_dropped) ends
///   this wait.
///
/// Create it with [`Timeline::begin`](crate::Timeline::begin) before the first command of the submission is recorded. A
/// resource that is dropped while the frame is open lives until the frame is complete.
///
/// # Examples
///
/// A frame that is submitted, and a frame that is not. `device`, `fence`, `memory` and `timeline` are created as in the
/// example of `Allocator`.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use std::time::Duration;
/// # use ringfence::AllocationDesc;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
/// # let buffer = memory.create_buffer(&desc, AllocationDesc::default())?;
/// let frame = timeline.begin(); // before a command that uses a resource is recorded
/// let fill = sim::Command::FillBuffer { dst: *buffer.object(), offset: 0, size: 256, value: 1 };
/// drop(buffer); // the frame keeps it alive
/// let value = frame.value();
/// device.submit(0, &[], vec![fill], (fence, value))?; // signals the value once its commands are complete
/// let point = timeline.submitted(frame)?;
/// assert_eq!(point.value, value);
///
/// let frame = timeline.begin();
/// // The window was closed: nothing was submitted, so nothing waits for this frame.
/// frame.discard();
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 1);
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped frame keeps its objects alive until a later frame is complete: submit or discard it"]
pub struct Frame {
    pub(crate) clock: Arc<Clock>,
    value: u64,
    /// Keeps the allocator alive: objects that the frame's work may use are not destroyed while the frame is open.
    _allocator: Arc<dyn Send + Sync>,
}

impl Frame {
    /// Creates the frame of a value that `clock` has opened.
    pub(crate) fn opened(clock: Arc<Clock>, value: u64, allocator: Arc<dyn Send + Sync>) -> Self {
        Self { clock, value, _allocator: allocator }
    }

    /// Returns the value that the submission must signal on the timeline's fence.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Returns the point at which the submission is complete.
    #[inline]
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.clock.at(self.value)
    }

    /// Ends the frame as one that was not submitted and never will be: objects no longer wait for the frame. No later
    /// frame gets its value.
    ///
    /// The caller of `Allocator::timeline` promised that no work of a discarded frame is or will be submitted. If the
    /// program does not know if the work was submitted, for example after a submission that failed with an unspecific
    /// error, it must drop the frame instead.
    pub fn discard(self) {
        self.clock.discard(self.value);
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({})", self.point())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.clock.leave(self.value);
    }
}

/// A check if a frame is still open, made for each write that belongs to the frame. The check is one atomic read if no
/// frame of the timeline has ended since the previous check.
#[derive(Clone)]
pub struct OpenFrame {
    pub(crate) clock: Arc<Clock>,
    pub(crate) value: u64,
    /// The value of `Clock::closes` when the frame was last seen to be open.
    pub(crate) closes: u64,
}

impl OpenFrame {
    /// Creates the check for an open frame.
    #[inline]
    pub fn of(frame: &Frame) -> Self {
        let clock = Arc::clone(&frame.clock);
        let closes = clock.closes();
        Self { clock, value: frame.value, closes }
    }

    /// Returns the point that is reached once the frame is complete.
    #[inline]
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.clock.at(self.value)
    }

    /// Returns a watch that reports how the frame ends.
    #[inline]
    pub fn watch(&self) -> Watch {
        self.clock.watch(self.value)
    }

    /// Returns `true` if no frame of the timeline has ended since this frame was last seen to be open. One atomic read.
    #[inline]
    pub fn nothing_closed(&self) -> bool {
        self.clock.closes() == self.closes
    }

    /// Returns `true` if the frame is still open. O(1) if no frame of the timeline has ended since this frame was last
    /// seen to be open; otherwise O(open frames).
    #[inline]
    pub fn is_open(&mut self) -> bool {
        let closes = self.clock.closes();
        if closes == self.closes {
            return true;
        }
        let open = self.clock.is_open(self.value);
        if open {
            self.closes = closes;
        }
        open
    }
}

/// The reason why a frame was not accepted as submitted, with the frame. Nothing has changed: the frame is still open.
///
/// A frame that was refused because a later one was submitted cannot be submitted any more. If its work was submitted
/// nevertheless, drop the frame: objects that it may use are then kept until the later frame's value is reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame was begun on another timeline.
    #[error("the frame with {} was begun on another timeline than {timeline}: pass it to its own", .frame.point())]
    WrongTimeline {
        /// The frame.
        frame: Frame,
        /// The timeline that the caller named.
        timeline: TimelineId,
    },
    /// A later frame was submitted before this one; a fence's value can only rise.
    #[error("{} cannot be submitted after value {submitted}: submit frames in order of their values", .frame.point())]
    OutOfOrder {
        /// The frame.
        frame: Frame,
        /// The latest value that was submitted.
        submitted: u64,
    },
}

impl FrameError {
    /// Returns the frame, still open: submit it on its own timeline, discard it or drop it.
    pub fn into_frame(self) -> Frame {
        match self {
            Self::WrongTimeline { frame, .. } | Self::OutOfOrder { frame, .. } => frame,
        }
    }
}
