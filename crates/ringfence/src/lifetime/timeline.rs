//! Timelines: a queue's progress, and the submissions that are under way on it.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                │◀── the GPU runs ──▶│◀─ recorded ─▶│
//!                                            └ open frames
//! ```
//!
//! `completed ≤ submitted ≤ begun`. What is let go of now may be used by any submission that has begun, so it waits
//! for `begun`. A timeline that has completed all that was begun holds nothing back. A frame that is dropped without
//! being submitted leaves a gap: its value is never used again, and whatever waits for it is let go of with the next value
//! that is signalled, or as soon as nothing is open or running.
//!
//! | operation | cost |
//! |---|---|
//! | begin, submitted, drop of a frame | O(open frames), one short lock of this timeline |
//! | the set that a release waits for | O(timelines), one atomic read each |
//! | reading progress | O(timelines), one driver call each |

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use smallvec::SmallVec;

use super::RetireBin;
use crate::device::{Device, DeviceError};
use crate::primitive::{AtomicU64, Mutex, Ordering, RwLock};

/// A submission that is being recorded: the value that it will signal, until it is said to be submitted.
///
/// Dropping it says that it will never be submitted.
#[must_use = "a frame that is dropped at once is never submitted"]
pub struct Frame {
    clock: Arc<Clock>,
    value: u64,
    /// What the frame's work may use is not torn down while the frame is open.
    _allocator: Arc<dyn Send + Sync>,
}

impl Frame {
    /// The value that the submission has to signal on the timeline's fence.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// The moment at which the submission is complete.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        SyncPoint::new(self.clock.id, self.value)
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({})", self.point())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.clock.close(self.value);
    }
}

/// Asks whether a frame is still open, as often as somebody writes for it.
///
/// One atomic read, as long as no frame of the timeline was submitted or dropped since the last time.
pub(crate) struct OpenFrame {
    clock: Arc<Clock>,
    value: u64,
    /// What [`Clock::closes`] said when the frame was last seen to be open.
    closes: u64,
}

impl OpenFrame {
    pub(crate) fn of(frame: &Frame) -> Self {
        let clock = Arc::clone(&frame.clock);
        let closes = clock.closes.load(Ordering::Acquire);
        Self { clock, value: frame.value, closes }
    }

    pub(crate) fn point(&self) -> SyncPoint {
        SyncPoint::new(self.clock.id, self.value)
    }

    /// Whether no frame was closed since it was last seen to be open. One read.
    #[inline]
    pub(crate) fn nothing_closed(&self) -> bool {
        self.clock.closes.load(Ordering::Acquire) == self.closes
    }

    pub(crate) fn is_open(&mut self) -> bool {
        let closes = self.clock.closes.load(Ordering::Acquire);
        if closes == self.closes {
            return true;
        }
        let open = self.clock.state.lock().open.contains(&self.value);
        if open {
            self.closes = closes;
        }
        open
    }
}

/// Why a submission was not accepted. Nothing has changed but that the frame is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame was begun on another timeline.
    #[error("the frame with {frame} was said to be submitted on {timeline}")]
    WrongTimeline {
        /// What the frame signals.
        frame: SyncPoint,
        /// Where it was said to be submitted.
        timeline: TimelineId,
    },
    /// A later frame was submitted before this one; a fence's value can only rise.
    #[error("{frame} was submitted after value {submitted}")]
    OutOfOrder {
        /// What the frame signals.
        frame: SyncPoint,
        /// The latest value that was submitted.
        submitted: u64,
    },
}

/// A queue's progress, as its fence tells it. Made by [`Allocator::timeline`](crate::Allocator::timeline).
///
/// Any number of frames may be open at once; they are submitted in the order of their values. Cheap to clone; every
/// clone is the same timeline.
pub struct Timeline<D: Device> {
    shared: Arc<crate::memory::Shared<D>>,
    clock: Arc<Clock>,
}

impl<D: Device> Timeline<D> {
    pub(crate) fn new(shared: Arc<crate::memory::Shared<D>>, fence: D::Fence) -> Result<Self, DeviceError> {
        let clock = shared.lifetimes.register(&shared.device, fence)?;
        Ok(Self { shared, clock })
    }

    /// Which timeline this is.
    #[must_use]
    pub fn id(&self) -> TimelineId {
        self.clock.id
    }

    /// Begins a submission: everything written for the GPU and everything let go of from here on is held until the
    /// submission is complete. O(open frames).
    pub fn begin(&self) -> Frame {
        let value = self.shared.lifetimes.begin(&self.clock);
        self.shared.trace.frame_begun(self.clock.id.index(), value);
        Frame {
            clock: Arc::clone(&self.clock),
            value,
            _allocator: Arc::<crate::memory::Shared<D>>::clone(&self.shared),
        }
    }

    /// Says that the work of `frame` is submitted and will signal [`Frame::value`].
    ///
    /// # Errors
    /// The frame is of another timeline, or a later one was submitted before it.
    pub fn submitted(&self, frame: Frame) -> Result<SyncPoint, FrameError> {
        let point = frame.point();
        if !Arc::ptr_eq(&frame.clock, &self.clock) {
            return Err(FrameError::WrongTimeline { frame: point, timeline: self.clock.id });
        }
        self.clock.submit(point.value).map_err(|submitted| FrameError::OutOfOrder { frame: point, submitted })?;
        self.shared.trace.submitted(self.clock.id.index(), point.value);
        Ok(point)
    }

    /// The value that the GPU has reached. One driver call.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn completed(&self) -> Result<u64, DeviceError> {
        self.shared.lifetimes.completed(&self.shared.device, self.clock.id)
    }

    /// The latest value that was submitted.
    #[must_use]
    pub fn submitted_value(&self) -> u64 {
        self.clock.state.lock().submitted
    }

    /// Waits until the GPU has reached `value`, at most for `timeout`; says whether it has.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.shared.lifetimes.wait_point(&self.shared.device, SyncPoint::new(self.clock.id, value), timeout)
    }
}

// By hand, since a derived one would ask that devices can be cloned.
impl<D: Device> Clone for Timeline<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), clock: Arc::clone(&self.clock) }
    }
}

impl<D: Device> fmt::Debug for Timeline<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({})", self.clock.id)
    }
}

/// The bookkeeping of one timeline.
struct Clock {
    id: TimelineId,
    /// The latest open value, or the latest submitted one if none is open. A copy of what `state` says, for readers.
    begun: AtomicU64,
    /// The value that the GPU was last seen to have reached.
    seen: AtomicU64,
    /// Counts the frames that were submitted or dropped.
    closes: AtomicU64,
    state: Mutex<ClockState>,
}

struct ClockState {
    submitted: u64,
    /// The highest value that was ever begun. No value is given twice, so that progress read at one moment never
    /// covers a frame that begins after it.
    issued: u64,
    /// Values of the frames that are open, ascending, each above `submitted` unless it was overtaken.
    open: SmallVec<[u64; 4]>,
}

impl Clock {
    fn open(&self) -> u64 {
        let mut state = self.state.lock();
        state.issued += 1;
        let value = state.issued;
        state.open.push(value);
        self.begun.store(value, Ordering::SeqCst);
        value
    }

    fn submit(&self, value: u64) -> Result<(), u64> {
        let mut state = self.state.lock();
        let submitted = state.submitted;
        if value <= submitted {
            return Err(submitted);
        }
        state.submitted = value;
        state.open.retain(|open| *open != value);
        self.begun.store(state.begun(), Ordering::SeqCst);
        self.closes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Takes the value off the open ones. Nothing to do if it was submitted.
    fn close(&self, value: u64) {
        let mut state = self.state.lock();
        state.open.retain(|open| *open != value);
        self.begun.store(state.begun(), Ordering::SeqCst);
        self.closes.fetch_add(1, Ordering::Release);
    }

    /// The value up to which everything is over, given what the GPU has reached: if it has reached all that was
    /// submitted and nothing is open, every value ever begun, those of dropped frames too.
    fn passed(&self, completed: u64) -> u64 {
        self.seen.fetch_max(completed, Ordering::AcqRel);
        let state = self.state.lock();
        if state.open.is_empty() && completed >= state.submitted { completed.max(state.issued) } else { completed }
    }
}

impl ClockState {
    fn begun(&self) -> u64 {
        self.open.last().copied().unwrap_or(0).max(self.submitted)
    }
}

/// Every timeline of an allocator.
pub(crate) struct Lifetimes<D: Device> {
    entries: RwLock<Vec<(Arc<Clock>, D::Fence)>>,
    /// Counts the begun frames: as long as it stands, what is let go of waits for the same set.
    turn: AtomicU64,
}

/// Why a wait ended without its points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitError {
    /// The work that would reach this point is not submitted: waiting could last for ever.
    NotSubmitted(SyncPoint),
    /// The time is over.
    Timeout,
    /// The driver failed.
    Device(DeviceError),
}

impl<D: Device> Lifetimes<D> {
    pub(crate) fn new() -> Self {
        Self { entries: RwLock::new(Vec::new()), turn: AtomicU64::new(0) }
    }

    fn register(&self, device: &D, fence: D::Fence) -> Result<Arc<Clock>, DeviceError> {
        // SAFETY: whoever handed the fence over promised that it is this device's and outlives the allocator.
        let completed = unsafe { device.completed(&fence) }?;
        let mut entries = self.entries.write();
        let clock = Arc::new(Clock {
            id: TimelineId::new(entries.len() as u32),
            begun: AtomicU64::new(completed),
            seen: AtomicU64::new(completed),
            closes: AtomicU64::new(0),
            state: Mutex::new(ClockState { submitted: completed, issued: completed, open: SmallVec::new() }),
        });
        entries.push((Arc::clone(&clock), fence));
        Ok(clock)
    }

    /// Begins a frame; its value.
    fn begin(&self, clock: &Clock) -> u64 {
        let value = clock.open();
        // After the value is there to be read: a set that is kept for this turn has it.
        self.turn.fetch_add(1, Ordering::SeqCst);
        value
    }

    /// What something let go of now has to wait for: the latest begun on every timeline that is behind.
    pub(crate) fn begun(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read().iter() {
            let begun = clock.begun.load(Ordering::SeqCst);
            if begun > clock.seen.load(Ordering::Acquire) {
                set.insert(SyncPoint::new(clock.id, begun));
            }
        }
    }

    /// Puts an item down that waits for all that has begun.
    #[inline]
    pub(crate) fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        bin.retire_tagged(self.turn.load(Ordering::SeqCst), |set| self.begun(set), item);
    }

    /// Puts items down that wait for all that has begun.
    pub(crate) fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        bin.retire_all_tagged(self.turn.load(Ordering::SeqCst), |set| self.begun(set), items);
    }

    /// The latest open frame of every timeline that has one: who may use what is written now.
    pub(crate) fn open(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read().iter() {
            if let Some(&value) = clock.state.lock().open.last() {
                set.insert(SyncPoint::new(clock.id, value));
            }
        }
    }

    /// The value that a timeline was last seen to have reached. No driver call.
    pub(crate) fn seen(&self, timeline: TimelineId) -> u64 {
        self.entries.read().get(timeline.index()).map_or(0, |(clock, _)| clock.seen.load(Ordering::Acquire))
    }

    /// Reads each timeline once and says what has passed. One that cannot be read has come as far as it was seen to be;
    /// the last such failure is told, device loss before all others.
    pub(crate) fn read(&self, device: &D, progress: &mut Passed) -> Result<(), DeviceError> {
        progress.0.clear();
        let mut result = Ok(());
        for (clock, fence) in self.entries.read().iter() {
            // SAFETY: the fence's owner promised at `Allocator::timeline` that it outlives the allocator.
            let completed = unsafe { device.completed(fence) }.unwrap_or_else(|error| {
                if result != Err(DeviceError::Lost) {
                    result = Err(error);
                }
                clock.seen.load(Ordering::Acquire)
            });
            progress.0.push(clock.passed(completed));
        }
        result
    }

    fn completed(&self, device: &D, timeline: TimelineId) -> Result<u64, DeviceError> {
        let (clock, fence) = self.entries.read()[timeline.index()].clone();
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        clock.seen.fetch_max(completed, Ordering::AcqRel);
        Ok(completed)
    }

    fn wait_point(&self, device: &D, point: SyncPoint, timeout: Duration) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entries.read()[point.timeline.index()].clone();
        // SAFETY: as in `read`. No lock is held while waiting.
        let reached = unsafe { device.wait(&fence, point.value, timeout) }?;
        if reached {
            clock.seen.fetch_max(point.value, Ordering::AcqRel);
        }
        Ok(reached)
    }

    /// Waits for every point of the set, at most until `deadline`. Waits for nothing that is not submitted.
    pub(crate) fn wait(&self, device: &D, set: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        if let Some(point) = set.iter().find(|point| self.is_open(*point)) {
            return Err(WaitError::NotSubmitted(point));
        }
        for point in set.iter() {
            let timeout = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            match self.wait_point(device, self.clamp(point), timeout) {
                Ok(true) => {}
                Ok(false) => return Err(WaitError::Timeout),
                Err(error) => return Err(WaitError::Device(error)),
            }
        }
        Ok(())
    }

    /// Whether some open frame will reach the point, and no submitted one.
    fn is_open(&self, point: SyncPoint) -> bool {
        let entries = self.entries.read();
        let state = entries[point.timeline.index()].0.state.lock();
        point.value > state.submitted && !state.open.is_empty()
    }

    /// Nothing that was submitted comes after the last submitted value; a dropped frame's value is never signalled.
    fn clamp(&self, point: SyncPoint) -> SyncPoint {
        let submitted = self.entries.read()[point.timeline.index()].0.state.lock().submitted;
        SyncPoint::new(point.timeline, point.value.min(submitted))
    }

    /// Whether the frame is one of these timelines'. A frame of another allocator has the same numbers.
    pub(crate) fn owns(&self, frame: &Frame) -> bool {
        self.entries.read().get(frame.clock.id.index()).is_some_and(|(clock, _)| Arc::ptr_eq(clock, &frame.clock))
    }

    /// Whether the point has passed. One driver call.
    pub(crate) fn has_passed(&self, device: &D, point: SyncPoint) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entries.read()[point.timeline.index()].clone();
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        Ok(point.value <= clock.passed(completed))
    }

    /// Everything that was submitted and was not seen to be complete.
    pub(crate) fn submitted(&self) -> SyncSet {
        let entries = self.entries.read();
        let points = entries.iter().map(|(clock, _)| (clock, clock.state.lock().submitted));
        let behind = points.filter(|(clock, submitted)| *submitted > clock.seen.load(Ordering::Acquire));
        behind.map(|(clock, submitted)| SyncPoint::new(clock.id, submitted)).collect()
    }
}

/// How far each timeline has come, by [`TimelineId::index`].
#[derive(Default, Debug)]
pub(crate) struct Passed(SmallVec<[u64; 8]>);

impl Passed {
    /// By timeline.
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

impl Progress for Passed {
    /// A timeline that was registered after the reading has passed nothing.
    fn completed(&self, timeline: TimelineId) -> u64 {
        self.0.as_slice().completed(timeline)
    }
}

#[cfg(all(test, loom))]
mod models;
