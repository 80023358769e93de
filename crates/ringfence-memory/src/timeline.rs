//! Timelines: a queue's progress and its pending submissions; and the [bin](RetireBin) of items that wait for them.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                │◀── the GPU runs ──▶│◀─ recorded ─▶│
//!                                            └ open frames
//! ```
//!
//! `completed ≤ submitted ≤ begun`. An object that is retired now may be used by any submission that has begun, so it
//! waits for `begun`. A timeline that has completed everything that was begun delays nothing.
//!
//! # How a frame ends
//!
//! | end | what it says | what was in use while the frame was open |
//! |---|---|---|
//! | [`Timeline::submitted`] | its value will be signalled | waits for its value |
//! | [`Frame::discard`] | it was not and will not be submitted | does not wait for it |
//! | dropped | nothing: an early return or a panic may have come before or after the submission | waits for its value or a later one, as does all that is retired until then |
//!
//! No value is given to two frames. Objects that wait for the value of a discarded frame are released with the next
//! value that is signalled, or as soon as all earlier submissions are complete. A frame that is dropped is *unresolved*
//! until the fence has reached its value: submissions of one timeline complete in order, so that the signal of any
//! later frame resolves it. Nothing waits without a bound for the value of an unresolved frame, which may never be
//! signalled.
//!
//! | operation | cost |
//! |---|---|
//! | begin, submitted, discard, drop of a frame | O(open frames), one short lock of this timeline |
//! | the set that a release waits for | O(timelines), one atomic read each |
//! | reading progress | O(timelines), one driver call each |

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_lockfree::clock::{Ahead, Clock, Watch};
use ringfence_lockfree::retire_bin::Reading;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use smallvec::SmallVec;

use crate::device::{Device, DeviceError};
use crate::observe::trace::Event;
use crate::primitive::{AtomicU64, Ordering, RwLock};

pub use ringfence_lockfree::retire_bin::RetireBin;

/// A submission that is being recorded, with the value that it will signal.
///
/// It ends in one of three ways. [`Timeline::submitted`] declares that it was submitted, [`Frame::discard`] that it was
/// not and will not be. Dropping it declares neither, since an error or a panic may drop it before or after the
/// submission: what was in use while it was open, and all that is retired from then on, is kept until the timeline's
/// fence has reached its value or a later one, or [`Timeline::discard_dropped`] says that it never will.
#[must_use = "a frame that is dropped holds what it may use until a later one is complete: submit or discard it"]
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

    /// The point at which the submission is complete.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.clock.at(self.value)
    }

    /// Ends the frame as one that was not submitted and never will be: nothing waits for it any more. No other frame
    /// gets its value.
    ///
    /// The caller of [`Allocator::timeline`](crate::Allocator::timeline) promised that this is true. If it is not
    /// known, as after a submission that failed with an unspecific error, drop the frame instead.
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

/// A check whether a frame is still open, made for each write in it.
///
/// One atomic read, as long as no frame of the timeline was submitted or dropped since the last time.
#[derive(Clone)]
pub struct OpenFrame {
    clock: Arc<Clock>,
    value: u64,
    /// What `Clock::closes` said when the frame was last seen to be open.
    closes: u64,
}

impl OpenFrame {
    /// Of a frame, which is open now.
    pub fn of(frame: &Frame) -> Self {
        let clock = Arc::clone(&frame.clock);
        let closes = clock.closes();
        Self { clock, value: frame.value, closes }
    }

    /// The point that is reached once the frame is complete.
    #[inline]
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.clock.at(self.value)
    }

    /// Notes how the frame ends.
    pub fn watch(&self) -> Watch {
        self.clock.watch(self.value)
    }

    /// Whether no frame was closed since it was last seen to be open. One read.
    #[inline]
    pub fn nothing_closed(&self) -> bool {
        self.clock.closes() == self.closes
    }

    /// Whether the frame is still open. O(1) where no frame was closed since the last time.
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

/// Why a submission was not accepted, with its frame. Nothing has changed: the frame is still open.
///
/// A frame that was refused because a later one was submitted cannot be submitted any more. If its work was submitted
/// nevertheless, drop it: objects that it may use are then kept until the later frame's value is reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame was begun on another timeline.
    #[error("the frame with {} was said to be submitted on {timeline}", .frame.point())]
    WrongTimeline {
        /// The frame.
        frame: Frame,
        /// Where it was said to be submitted.
        timeline: TimelineId,
    },
    /// A later frame was submitted before this one; a fence's value can only rise.
    #[error("{} was submitted after value {submitted}", .frame.point())]
    OutOfOrder {
        /// The frame.
        frame: Frame,
        /// The latest value that was submitted.
        submitted: u64,
    },
}

impl FrameError {
    /// The frame, still open: to be submitted on its own timeline, discarded or dropped.
    pub fn into_frame(self) -> Frame {
        match self {
            Self::WrongTimeline { frame, .. } | Self::OutOfOrder { frame, .. } => frame,
        }
    }
}

/// A queue's progress, read from its fence. Made by [`Allocator::timeline`](crate::Allocator::timeline).
///
/// Any number of frames may be open at once; they are submitted in the order of their values. Cheap to clone; every
/// clone is the same timeline.
pub struct Timeline<D: Device> {
    shared: Arc<dyn Timed<D>>,
    clock: Arc<Clock>,
}

/// What has timelines: they keep it alive.
pub(crate) trait Timed<D: Device>: Send + Sync {
    fn device(&self) -> &D;

    fn lifetimes(&self) -> &Lifetimes<D>;

    /// Has a trace record something, if one is recorded.
    fn record(&self, event: Event<&str>);

    /// What an open frame keeps alive.
    fn keep(self: Arc<Self>) -> Arc<dyn Send + Sync>;
}

impl<D: Device> Timeline<D> {
    pub(crate) fn new(shared: Arc<dyn Timed<D>>, fence: D::Fence) -> Result<Self, DeviceError> {
        let clock = shared.lifetimes().register(shared.device(), fence)?;
        Ok(Self { shared, clock })
    }

    /// Which timeline this is.
    #[must_use]
    pub fn id(&self) -> TimelineId {
        self.clock.id()
    }

    /// Begins a submission: objects that are written or retired from now on are kept until the submission is complete.
    /// O(open frames).
    ///
    /// # Panics
    /// If the fence has no value left, since it was signalled with one near [`u64::MAX`].
    pub fn begin(&self) -> Frame {
        let value = self.shared.lifetimes().begin(&self.clock);
        self.shared.record(Event::FrameBegun { timeline: self.clock.id().index() as u32, value });
        Frame { clock: Arc::clone(&self.clock), value, _allocator: Arc::clone(&self.shared).keep() }
    }

    /// Declares that the work of `frame` is submitted and will signal [`Frame::value`].
    ///
    /// # Errors
    /// The frame is of another timeline, or a later one was submitted before it. The error has the frame, which is open
    /// as before.
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

    /// Declares that no work of the frames that were dropped on this timeline is under way or will be: each was never
    /// submitted, or its work is complete. For the end of a program that has waited for its queue to be idle and
    /// submits no later frame. Open frames are not affected.
    ///
    /// The caller of [`Allocator::timeline`](crate::Allocator::timeline) promised that this is true.
    pub fn discard_dropped(&self) {
        self.clock.discard_left();
    }

    /// The value that the GPU has reached. One driver call.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn completed(&self) -> Result<u64, DeviceError> {
        self.shared.lifetimes().completed(self.shared.device(), self.clock.id())
    }

    /// The latest value that was submitted.
    #[must_use]
    pub fn submitted_value(&self) -> u64 {
        self.clock.submitted()
    }

    /// Waits until the GPU has reached `value`, at most for `timeout`; says whether it has. The value of a frame that
    /// was discarded counts as reached once all that was begun before it is.
    ///
    /// It also waits for a value that is not submitted yet, as another thread may submit it: if none does, the wait
    /// ends with the timeout.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        let value = self.clock.signalled_with(value);
        self.shared.lifetimes().wait_point(self.shared.device(), self.clock.at(value), timeout)
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
        write!(f, "Timeline({})", self.clock.id())
    }
}

pub(crate) struct Lifetimes<D: Device> {
    /// The number of the allocator, which is in the ids of its timelines.
    owner: u32,
    entries: RwLock<Vec<(Arc<Clock>, D::Fence)>>,
    /// Another one after each frame that has begun, and never that of another allocator: as long as it stands, what is
    /// retired waits for the same set.
    turn: AtomicU64,
}

/// Why a wait ended without its points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// The frame that would signal this point is not submitted: the wait might never end.
    NotSubmitted(SyncPoint),
    /// The frame that would reach this point was dropped, and the point was not reached in time.
    Unresolved(SyncPoint),
    /// The time is over.
    Timeout,
    /// The driver failed.
    Device(DeviceError),
}

/// What a new timeline's fence shows at most: values are left for all frames of a program.
const COMPLETED_MAX: u64 = u64::MAX >> 1;

/// A number that no other allocator of the process has; never 0.
fn next_owner() -> u32 {
    // Not in the seam: it orders nothing.
    static OWNERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let next = OWNERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owner| owner.checked_add(1));
    next.expect("a process makes fewer than 4 billion allocators")
}

/// A turn that no allocator has had.
fn next_turn() -> u64 {
    // Not in the seam: `Lifetimes::turn` is what orders.
    static TURNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    TURNS.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}

impl<D: Device> Lifetimes<D> {
    pub(crate) fn new() -> Self {
        Self { owner: next_owner(), entries: RwLock::new(Vec::new()), turn: AtomicU64::new(next_turn()) }
    }

    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    fn register(&self, device: &D, fence: D::Fence) -> Result<Arc<Clock>, DeviceError> {
        // SAFETY: the caller that handed the fence over promised that it is this device's and outlives the allocator.
        let completed = unsafe { device.completed(&fence) }?;
        if completed == u64::MAX {
            // What a lost device's fences show, and no value is left to be signalled.
            return Err(DeviceError::Lost);
        }
        DeviceError::invalid("the fence of a timeline has values left").at_most(completed, COMPLETED_MAX)?;
        loop {
            let count = self.entries.read_recursive().len();
            // Host memory is got without the lock: a global allocator of the program's may come back here.
            let clock = Arc::new(Clock::new(TimelineId::of(self.owner, count as u32), completed));
            let mut grown = Vec::with_capacity(count + 1);
            let mut entries = self.entries.write();
            if entries.len() == count {
                grown.extend(entries.drain(..));
                grown.push((Arc::clone(&clock), fence));
                std::mem::swap(&mut *entries, &mut grown);
                drop(entries);
                return Ok(clock);
            }
        }
    }

    /// Begins a frame; its value.
    fn begin(&self, clock: &Clock) -> u64 {
        let value = clock.open();
        // After the value is there to be read: a set that is kept for this turn has it. Of frames that begin at the
        // same time the last to draw has the higher turn, and its set has the values of all that drew before.
        self.turn.fetch_max(next_turn(), Ordering::SeqCst);
        value
    }

    pub(crate) fn begun(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read_recursive().iter() {
            let begun = clock.begun();
            if begun > clock.seen() {
                set.insert(clock.at(begun));
            }
        }
    }

    /// See [`RetireBin::retire_tagged`].
    #[inline]
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Whether the GPU was seen to have completed all that has begun. No driver call.
    pub(crate) fn is_idle(&self) -> bool {
        let mut set = SyncSet::new();
        self.begun(&mut set);
        set.is_empty()
    }

    /// What each timeline was last seen to have reached. No driver call.
    pub(crate) fn seen_by_all(&self, progress: &mut Passed) {
        progress.owner = self.owner;
        progress.values.clear();
        let entries = self.entries.read_recursive();
        progress.values.extend(entries.iter().map(|(clock, _)| clock.seen()));
    }

    #[inline]
    pub(crate) fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        bin.retire_tagged(self.turn(), |set| self.begun(set), item);
    }

    /// Puts items down that wait for all that has begun.
    pub(crate) fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        bin.retire_all_tagged(self.turn(), |set| self.begun(set), items);
    }

    pub(crate) fn open(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read_recursive().iter() {
            if let Some(value) = clock.latest_open() {
                set.insert(clock.at(value));
            }
        }
    }

    /// The frame of a point, if it is open.
    pub(crate) fn open_frame(&self, point: SyncPoint) -> Option<OpenFrame> {
        let entries = self.entries.read_recursive();
        let (clock, _) = entries.get(point.timeline.index_of(self.owner)?)?;
        // Read before the look, so that a close in between is seen.
        let closes = clock.closes();
        clock.is_open(point.value).then(|| OpenFrame { clock: Arc::clone(clock), value: point.value, closes })
    }

    /// Whether the timeline is one of these: a set that waits for another one would never pass here.
    pub(crate) fn owns_timeline(&self, timeline: TimelineId) -> bool {
        timeline.index_of(self.owner).is_some_and(|index| index < self.entries.read_recursive().len())
    }

    pub(crate) fn seen(&self, timeline: TimelineId) -> u64 {
        let entries = self.entries.read_recursive();
        let entry = timeline.index_of(self.owner).and_then(|index| entries.get(index));
        entry.map_or(0, |(clock, _)| clock.seen())
    }

    /// Reads each timeline once and says what has passed. One that cannot be read has come as far as it was seen to be;
    /// the last such failure is returned, device loss before all others.
    pub(crate) fn read(&self, device: &D, progress: &mut Passed) -> Result<(), DeviceError> {
        progress.owner = self.owner;
        progress.values.clear();
        let mut result = Ok(());
        for (clock, fence) in self.entries.read_recursive().iter() {
            // SAFETY: the fence's owner promised at `Allocator::timeline` that it outlives the allocator.
            let completed = unsafe { device.completed(fence) }.unwrap_or_else(|error| {
                if result != Err(DeviceError::Lost) {
                    result = Err(error);
                }
                clock.seen()
            });
            progress.values.push(clock.passed(completed));
        }
        result
    }

    /// A timeline of this allocator. Ids of others are refused before they come here.
    fn entry(&self, timeline: TimelineId) -> (Arc<Clock>, D::Fence) {
        let index = timeline.index_of(self.owner).expect("the id of one of the allocator's own timelines");
        self.entries.read_recursive()[index].clone()
    }

    fn completed(&self, device: &D, timeline: TimelineId) -> Result<u64, DeviceError> {
        let (clock, fence) = self.entry(timeline);
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        clock.saw(completed);
        Ok(completed)
    }

    fn wait_point(&self, device: &D, point: SyncPoint, timeout: Duration) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entry(point.timeline);
        // SAFETY: as in `read`. No lock is held while waiting.
        let reached = unsafe { device.wait(&fence, point.value, timeout) }?;
        if reached {
            clock.saw(point.value);
        }
        Ok(reached)
    }

    /// Waits for every point of the set, at most until `deadline`. Waits for nothing that is not submitted, and without
    /// a deadline for nothing of a frame that was dropped: that is looked at once.
    pub(crate) fn wait(&self, device: &D, set: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        let ahead = |point: SyncPoint| self.entry(point.timeline).0.ahead(point.value);
        for point in set.iter() {
            if let Ahead::Open(value) = ahead(point) {
                return Err(WaitError::NotSubmitted(SyncPoint::new(point.timeline, value)));
            }
        }
        for SyncPoint { timeline, value } in set.iter() {
            let (value, submitted) = match ahead(SyncPoint::new(timeline, value)) {
                Ahead::Submitted(value) => (value, true),
                Ahead::Open(value) | Ahead::Left(value) => (value, false),
            };
            let point = SyncPoint::new(timeline, value);
            let endless = if submitted { Duration::MAX } else { Duration::ZERO };
            let timeout = deadline.map_or(endless, |at| at.saturating_duration_since(Instant::now()));
            match self.wait_point(device, point, timeout) {
                Ok(true) => {}
                Ok(false) if submitted => return Err(WaitError::Timeout),
                Ok(false) => return Err(WaitError::Unresolved(point)),
                Err(error) => return Err(WaitError::Device(error)),
            }
        }
        Ok(())
    }

    pub(crate) fn owns(&self, frame: &Frame) -> bool {
        frame.clock.id().owner() == self.owner
    }

    pub(crate) fn has_passed(&self, device: &D, point: SyncPoint) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entry(point.timeline);
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        Ok(point.value <= clock.passed(completed))
    }

    /// Everything that was submitted and was not seen to be complete.
    pub(crate) fn submitted(&self) -> SyncSet {
        let entries = self.entries.read_recursive();
        let points = entries.iter().map(|(clock, _)| (clock, clock.submitted()));
        let behind = points.filter(|(clock, submitted)| *submitted > clock.seen());
        behind.map(|(clock, submitted)| clock.at(submitted)).collect()
    }

    /// The oldest open frame of the first timeline that has one, and how many are open on all.
    pub(crate) fn open_frames(&self) -> Option<(SyncPoint, usize)> {
        let (mut first, mut count) = (None, 0);
        for (clock, _) in self.entries.read_recursive().iter() {
            let Some((oldest, open)) = clock.oldest_open() else { continue };
            count += open;
            first = first.or_else(|| Some(clock.at(oldest)));
        }
        Some((first?, count))
    }

    /// Of each timeline the latest frame that was dropped, if the GPU was not seen to have reached its value.
    pub(crate) fn unresolved(&self) -> SyncSet {
        let entries = self.entries.read_recursive();
        let dropped = |clock: &Clock| Some(clock.at(clock.unresolved()?));
        entries.iter().filter_map(|(clock, _)| dropped(clock)).collect()
    }
}

/// How far each timeline of an allocator has come, by [`TimelineId::index`].
#[derive(Default, Debug)]
pub struct Passed {
    /// The allocator's number. With 0, the values are of timelines without an owner.
    owner: u32,
    values: SmallVec<[u64; 8]>,
}

impl Passed {
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.values.iter().copied()
    }
}

impl Progress for Passed {
    /// A timeline that was registered after the reading has passed nothing, nor has one of another allocator.
    #[inline]
    fn completed(&self, timeline: TimelineId) -> u64 {
        let value = timeline.index_of(self.owner).and_then(|index| self.values.get(index));
        value.copied().unwrap_or(0)
    }
}

impl Reading for Passed {}

#[cfg(all(test, loom))]
mod models;
