//! Timelines: a queue's progress and pending submissions. A [bin](RetireBin) contains items that wait for them.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                │◀── the GPU runs ──▶│◀─ recorded ─▶│
//!                                            └ open frames
//! ```
//!
//! `completed ≤ submitted ≤ begun`. An object that is retired now may be used by any submission that has begun, so it
//! waits for `begun`. If a timeline has completed every submission that was begun, no object waits for it.
//!
//! # How a frame ends
//!
//! | end | declares | objects that were in use while the frame was open |
//! |---|---|---|
//! | [`Timeline::submitted`] | the value will be signalled | wait for its value |
//! | [`Frame::discard`] | it was not and will not be submitted | do not wait for it |
//! | dropped | nothing: an early return or a panic may have come before or after the submission | wait until its value or a later one is reached, as do all objects that are retired before that |
//!
//! Two frames never get the same value. Objects that wait for the value of a discarded frame are released with the next
//! value that is signalled, or as soon as all earlier submissions are complete. A dropped frame is *unresolved* until
//! the fence has reached its value. Submissions of one timeline complete in order, so the signal of a later frame
//! resolves the dropped frame too. Every wait for an unresolved frame has a limit, because its value may never be
//! signalled.
//!
//! | operation | cost |
//! |---|---|
//! | begin, submitted, discard, drop of a frame | O(open frames), one short lock of this timeline |
//! | the set of points that a release waits for | O(timelines), one atomic read each |
//! | reading progress | O(timelines), one driver call each |

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use ringfence_lockfree::clock::{Ahead, Clock, Watch};
use ringfence_lockfree::retire_bin::Reading;
use smallvec::SmallVec;

use crate::device::{Device, DeviceError};
use crate::primitive::{AtomicU64, Ordering, RwLock};
use crate::trace::Event;

pub use ringfence_lockfree::retire_bin::RetireBin;

/// A submission that is being recorded, with the value that it will signal.
///
/// A frame ends in one of three ways. [`Timeline::submitted`] declares that it was submitted. [`Frame::discard`]
/// declares that it was not submitted and will not be. Dropping the frame declares neither, because an error or a panic
/// may drop it before or after the submission. Objects that were in use while the frame was open, and all objects that
/// are retired later, are then kept until the fence has reached the frame's value or a later one, or until
/// [`Timeline::discard_dropped`] is called.
#[must_use = "a dropped frame keeps its objects alive until a later frame is complete: submit or discard it"]
pub struct Frame {
    clock: Arc<Clock>,
    value: u64,
    /// Keeps the allocator alive: objects that the frame's work may use are not destroyed while the frame is open.
    _allocator: Arc<dyn Send + Sync>,
}

impl Frame {
    /// Returns the value that the submission must signal on the timeline's fence.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Returns the point at which the submission is complete.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.clock.at(self.value)
    }

    /// Ends the frame as one that was not submitted and never will be: objects no longer wait for it. Its value is not
    /// used again.
    ///
    /// The caller of [`Allocator::timeline`](crate::Allocator::timeline) promised that this is true. If the program
    /// does not know it, for example after a submission that failed with an unspecific error, it must drop the frame
    /// instead.
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

/// Checks if a frame is still open, for each write that belongs to the frame. The check is one atomic read if no frame
/// of the timeline was submitted or dropped since the previous check.
#[derive(Clone)]
pub struct OpenFrame {
    clock: Arc<Clock>,
    value: u64,
    /// The value of `Clock::closes` when the frame was last seen to be open.
    closes: u64,
}

impl OpenFrame {
    /// Creates the check for an open frame.
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
    pub fn watch(&self) -> Watch {
        self.clock.watch(self.value)
    }

    /// Returns `true` if no frame was closed since this frame was last seen to be open. One atomic read.
    #[inline]
    pub fn nothing_closed(&self) -> bool {
        self.clock.closes() == self.closes
    }

    /// Returns `true` if the frame is still open. O(1) if no frame was closed since the previous call.
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

/// A queue's progress, read from its fence. Created by [`Allocator::timeline`](crate::Allocator::timeline).
///
/// Any number of frames may be open at once; they are submitted in the order of their values. Cheap to clone; every
/// clone is the same timeline.
pub struct Timeline<D: Device> {
    shared: Arc<dyn Timed<D>>,
    clock: Arc<Clock>,
}

/// The owner of timelines, which keep it alive.
pub(crate) trait Timed<D: Device>: Send + Sync {
    fn device(&self) -> &D;

    fn lifetimes(&self) -> &Lifetimes<D>;

    /// Records an event, if a trace is recorded.
    fn record(&self, event: Event<&str>);

    /// Returns a reference to the allocator, for an open frame to hold.
    fn keep(self: Arc<Self>) -> Arc<dyn Send + Sync>;
}

impl<D: Device> Timeline<D> {
    pub(crate) fn new(shared: Arc<dyn Timed<D>>, fence: D::Fence) -> Result<Self, DeviceError> {
        let clock = shared.lifetimes().register(shared.device(), fence)?;
        Ok(Self { shared, clock })
    }

    /// Returns the identity of this timeline.
    #[must_use]
    pub fn id(&self) -> TimelineId {
        self.clock.id()
    }

    /// Begins a frame, which is one submission: objects that are written or retired from now on are kept until the
    /// submission is complete. O(open frames).
    ///
    /// # Panics
    /// If the fence has no value left, because it was signalled with a value near [`u64::MAX`].
    pub fn begin(&self) -> Frame {
        let value = self.shared.lifetimes().begin(&self.clock);
        self.shared.record(Event::FrameBegun { timeline: self.clock.id().index() as u32, value });
        Frame { clock: Arc::clone(&self.clock), value, _allocator: Arc::clone(&self.shared).keep() }
    }

    /// Declares that the work of `frame` is submitted and will signal [`Frame::value`].
    ///
    /// # Errors
    /// The frame belongs to another timeline, or a later frame was submitted before it. The error contains the frame,
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

    /// Declares that no work of the frames that were dropped on this timeline is under way or will be: each was never
    /// submitted, or its work is complete. A program calls it when it ends, after it has waited until its queue is
    /// idle, and submits no further frame. Open frames are not affected.
    ///
    /// The caller of [`Allocator::timeline`](crate::Allocator::timeline) promised that this is true.
    pub fn discard_dropped(&self) {
        self.clock.discard_left();
    }

    /// Returns the value that the GPU has reached. One driver call.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn completed(&self) -> Result<u64, DeviceError> {
        self.shared.lifetimes().completed(self.shared.device(), self.clock.id())
    }

    /// Returns the latest value that was submitted.
    #[must_use]
    pub fn submitted_value(&self) -> u64 {
        self.clock.submitted()
    }

    /// Waits until the GPU has reached `value`, at most for `timeout`, and returns `true` if it has. The value of a
    /// frame that was discarded counts as reached once all frames that were begun before it are complete.
    ///
    /// It also waits for a value that is not submitted yet, because another thread may submit it: if no thread does,
    /// the wait ends with the timeout.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the driver is out of memory.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        let value = self.clock.signalled_with(value);
        self.shared.lifetimes().wait_point(self.shared.device(), self.clock.at(value), timeout)
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

pub(crate) struct Lifetimes<D: Device> {
    /// The number of the allocator, which is part of the ids of its timelines.
    owner: u32,
    entries: RwLock<Vec<(Arc<Clock>, D::Fence)>>,
    /// A number that changes after each frame that has begun, unique among allocators. Until it changes, all retired
    /// objects wait for the same set of points.
    turn: AtomicU64,
}

/// The reason why a wait ended before its points were reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// The frame that would signal this point is not submitted: the wait might never end.
    NotSubmitted(SyncPoint),
    /// The frame that would reach this point was dropped, and the point was not reached in time.
    Unresolved(SyncPoint),
    /// The timeout has passed.
    Timeout,
    /// The driver failed.
    Device(DeviceError),
}

/// Largest value that the fence of a new timeline may have: half of all values are left for the frames of a program.
const COMPLETED_MAX: u64 = u64::MAX >> 1;

/// Returns a number that no other allocator of the process has; never 0.
fn next_owner() -> u32 {
    // Not from `primitive`, because it orders nothing.
    static OWNERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let next = OWNERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owner| owner.checked_add(1));
    next.expect("a process makes fewer than 4 billion allocators")
}

/// Returns a value of [`Lifetimes::turn`] that no allocator has had.
fn next_turn() -> u64 {
    // Not from `primitive`, because `Lifetimes::turn` provides the ordering.
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
        // SAFETY: the caller that passed the fence promised that it belongs to this device and outlives the allocator.
        let completed = unsafe { device.completed(&fence) }?;
        if completed == u64::MAX {
            // The fences of a lost device have this value, and no value is left to be signalled.
            return Err(DeviceError::Lost);
        }
        DeviceError::invalid("the fence of a timeline has too few values left").at_most(completed, COMPLETED_MAX)?;
        loop {
            let count = self.entries.read_recursive().len();
            // Host memory is allocated without the lock, because the program's global allocator may call back in.
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

    /// Begins a frame and returns its value.
    fn begin(&self, clock: &Clock) -> u64 {
        let value = clock.open();
        // The turn changes after the new value can be read, so a set that is cached for this turn contains the value.
        // If several frames begin at the same time, the thread that draws the highest turn draws last, so its set has
        // all their values.
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

    /// Returns the number that [`RetireBin::retire_tagged`] needs: it changes after each frame that has begun.
    #[inline]
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Returns `true` if the GPU was seen to have completed all that has begun. No driver call.
    pub(crate) fn is_idle(&self) -> bool {
        let mut set = SyncSet::new();
        self.begun(&mut set);
        set.is_empty()
    }

    /// Sets `progress` to the value that each timeline was last seen to have reached. No driver call.
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

    /// Retires items that wait for every submission that has begun.
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

    /// Returns the frame of a point, if the frame is open.
    pub(crate) fn open_frame(&self, point: SyncPoint) -> Option<OpenFrame> {
        let entries = self.entries.read_recursive();
        let (clock, _) = entries.get(point.timeline.index_of(self.owner)?)?;
        // `closes` is read before `is_open`, so a close in between is seen by the next check.
        let closes = clock.closes();
        clock.is_open(point.value).then(|| OpenFrame { clock: Arc::clone(clock), value: point.value, closes })
    }

    /// Returns `true` if the timeline belongs to this allocator. A point on another timeline would never pass here.
    pub(crate) fn owns_timeline(&self, timeline: TimelineId) -> bool {
        timeline.index_of(self.owner).is_some_and(|index| index < self.entries.read_recursive().len())
    }

    pub(crate) fn seen(&self, timeline: TimelineId) -> u64 {
        let entries = self.entries.read_recursive();
        let entry = timeline.index_of(self.owner).and_then(|index| entries.get(index));
        entry.map_or(0, |(clock, _)| clock.seen())
    }

    /// Reads each timeline once into `progress`. If a timeline cannot be read, its last seen value is used; the last
    /// such error is returned, device loss before all others.
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

    /// Returns a timeline of this allocator. The caller has refused ids of other allocators.
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

    /// Waits for every point of the set, at most until `deadline`. Returns an error at once if the frame of a point is
    /// not submitted. Without a deadline, a point whose frame was dropped is only checked, not waited for.
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

    /// Returns every point that was submitted and was not seen to be complete.
    pub(crate) fn submitted(&self) -> SyncSet {
        let entries = self.entries.read_recursive();
        let points = entries.iter().map(|(clock, _)| (clock, clock.submitted()));
        let behind = points.filter(|(clock, submitted)| *submitted > clock.seen());
        behind.map(|(clock, submitted)| clock.at(submitted)).collect()
    }

    /// Returns the oldest open frame of the first timeline that has one, and the number of all open frames.
    pub(crate) fn open_frames(&self) -> Option<(SyncPoint, usize)> {
        let (mut first, mut count) = (None, 0);
        for (clock, _) in self.entries.read_recursive().iter() {
            let Some((oldest, open)) = clock.oldest_open() else { continue };
            count += open;
            first = first.or_else(|| Some(clock.at(oldest)));
        }
        Some((first?, count))
    }

    /// Returns, for each timeline, the latest frame that was dropped, unless the GPU was seen to have reached it.
    pub(crate) fn unresolved(&self) -> SyncSet {
        let entries = self.entries.read_recursive();
        let dropped = |clock: &Clock| Some(clock.at(clock.unresolved()?));
        entries.iter().filter_map(|(clock, _)| dropped(clock)).collect()
    }
}

/// The value that each timeline of an allocator has reached, by [`TimelineId::index`].
#[derive(Default, Debug)]
pub struct Passed {
    /// The allocator's number. 0 if the values belong to timelines without an owner.
    owner: u32,
    values: SmallVec<[u64; 8]>,
}

impl Passed {
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.values.iter().copied()
    }
}

impl Progress for Passed {
    /// Returns the value that a timeline has reached; 0 for a foreign timeline, or one that was added later.
    #[inline]
    fn completed(&self, timeline: TimelineId) -> u64 {
        let value = timeline.index_of(self.owner).and_then(|index| self.values.get(index));
        value.copied().unwrap_or(0)
    }
}

impl Reading for Passed {}

#[cfg(all(test, loom))]
mod models;
