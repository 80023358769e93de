//! All timelines of an allocator: the points that a retired object waits for, and the progress of each queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use ringfence_lockfree::clock::{Ahead, Clock};
use ringfence_lockfree::retire_bin::{Reading, RetireBin};
use smallvec::SmallVec;

use crate::device::{Device, DeviceError};
use crate::frame::{Frame, OpenFrame};
use crate::primitive::{AtomicU64, Ordering, RwLock};
use crate::timeline::{Timed, Timeline};

/// All timelines of an allocator.
pub struct Lifetimes<D: Device> {
    /// The number of the allocator, which is part of the ids of its timelines.
    owner: u32,
    entries: RwLock<Vec<(Arc<Clock>, D::Fence)>>,
    /// A number, unique among allocators, that changes each time that a frame begins, once the frame's value can be
    /// read. While the number is unchanged, a set of points that was computed for it remains sufficient.
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

impl<D: Device> Default for Lifetimes<D> {
    /// Creates the timelines of a new allocator: none.
    fn default() -> Self {
        Self { owner: next_owner(), entries: RwLock::new(Vec::new()), turn: AtomicU64::new(next_turn()) }
    }
}

impl<D: Device> Lifetimes<D> {
    /// Returns the number of the allocator, which is part of the ids of its timelines.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Adds a timeline for the queue that signals `fence`.
    ///
    /// # Errors
    /// The driver's error if the value of the fence cannot be read, [`DeviceError::Lost`] if the value is [`u64::MAX`],
    /// or [`DeviceError::InvalidInfo`] if it is another value of 2⁶³ or more.
    ///
    /// # Safety
    /// The fence belongs to the owner's device, and outlives the owner and every object that waits for the timeline.
    /// The program follows the rules of `Allocator::timeline`.
    pub unsafe fn timeline(owner: Arc<dyn Timed<D>>, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        // SAFETY: the caller promises the same.
        let clock = unsafe { owner.lifetimes().register(owner.device(), fence) }?;
        Ok(Timeline { shared: owner, clock })
    }

    /// Adds the clock of a timeline, and returns it.
    ///
    /// # Errors
    /// The errors of [`Lifetimes::timeline`].
    ///
    /// # Safety
    /// The requirements of [`Lifetimes::timeline`].
    pub(crate) unsafe fn register(&self, device: &D, fence: D::Fence) -> Result<Arc<Clock>, DeviceError> {
        // SAFETY: the caller promises that the fence belongs to this device and is alive.
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
    pub(crate) fn begin(&self, clock: &Clock) -> u64 {
        let value = clock.open();
        // The turn changes after the new value can be read, so each set that is computed for the new turn contains the
        // value. If several frames begin at the same time, the highest turn is drawn last, when all their values can be
        // read.
        self.turn.fetch_max(next_turn(), Ordering::SeqCst);
        value
    }

    /// Sets `set` to the points that an object retired now must wait for: the latest begun value of each timeline,
    /// unless the timeline was seen to have reached it.
    pub fn begun(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read_recursive().iter() {
            let begun = clock.begun();
            if begun > clock.seen() {
                set.insert(clock.at(begun));
            }
        }
    }

    /// Returns the `turn` for [`RetireBin::retire_tagged`]: a number that changes each time that a frame begins.
    #[inline]
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Returns `true` if all frames that have begun were complete when their timelines were last read. No driver call.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let mut set = SyncSet::new();
        self.begun(&mut set);
        set.is_empty()
    }

    /// Sets `progress` to the value that each timeline was last seen to have reached. No driver call.
    pub fn seen_by_all(&self, progress: &mut Passed) {
        progress.owner = self.owner;
        progress.values.clear();
        let entries = self.entries.read_recursive();
        progress.values.extend(entries.iter().map(|(clock, _)| clock.seen()));
    }

    /// Retires an item that waits for every submission that has begun.
    #[inline]
    pub fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        bin.retire_tagged(self.turn(), |set| self.begun(set), item);
    }

    /// Retires items that wait for every submission that has begun.
    pub fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        bin.retire_all_tagged(self.turn(), |set| self.begun(set), items);
    }

    /// Sets `set` to the latest open frame of each timeline that has one.
    pub fn open(&self, set: &mut SyncSet) {
        set.clear();
        for (clock, _) in self.entries.read_recursive().iter() {
            if let Some(value) = clock.latest_open() {
                set.insert(clock.at(value));
            }
        }
    }

    /// Returns the open frame with the value of a point. Returns `None` if no frame with this value is open, or if the
    /// timeline belongs to another allocator.
    pub fn open_frame(&self, point: SyncPoint) -> Option<OpenFrame> {
        let entries = self.entries.read_recursive();
        let (clock, _) = entries.get(point.timeline.index_of(self.owner)?)?;
        // `closes` is read before `is_open`, so a close in between is seen by the next check.
        let closes = clock.closes();
        clock.is_open(point.value).then(|| OpenFrame { clock: Arc::clone(clock), value: point.value, closes })
    }

    /// Returns `true` if the timeline belongs to this allocator. Points on other timelines never pass for this
    /// allocator.
    pub fn owns_timeline(&self, timeline: TimelineId) -> bool {
        timeline.index_of(self.owner).is_some_and(|index| index < self.entries.read_recursive().len())
    }

    /// Returns the last value that a timeline was seen to reach, or 0 for a timeline of another allocator. No driver
    /// call.
    pub fn seen(&self, timeline: TimelineId) -> u64 {
        let entries = self.entries.read_recursive();
        let entry = timeline.index_of(self.owner).and_then(|index| entries.get(index));
        entry.map_or(0, |(clock, _)| clock.seen())
    }

    /// Reads each timeline once, and sets `progress` to the values. If a timeline cannot be read, uses its last seen
    /// value, and returns an error after all timelines were read.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if a timeline reports it; otherwise, the last error.
    ///
    /// # Safety
    /// `device` is the device of the fences.
    pub unsafe fn read(&self, device: &D, progress: &mut Passed) -> Result<(), DeviceError> {
        progress.owner = self.owner;
        progress.values.clear();
        let mut result = Ok(());
        for (clock, fence) in self.entries.read_recursive().iter() {
            // SAFETY: the caller of `Lifetimes::timeline` promised that the fence outlives the allocator, and the
            // caller of this function that the fence belongs to the device.
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

    /// Returns the value that the GPU has reached, and records the value as seen. One driver call.
    ///
    /// # Safety
    /// As [`Lifetimes::read`].
    pub(crate) unsafe fn completed(&self, device: &D, timeline: TimelineId) -> Result<u64, DeviceError> {
        let (clock, fence) = self.entry(timeline);
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        clock.saw(completed);
        Ok(completed)
    }

    /// Waits until the GPU has reached `point`, at most for `timeout`. Returns `true` if it has.
    ///
    /// # Safety
    /// As [`Lifetimes::read`].
    pub(crate) unsafe fn wait_point(
        &self,
        device: &D,
        point: SyncPoint,
        timeout: Duration,
    ) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entry(point.timeline);
        // SAFETY: as in `read`. No lock is held while waiting.
        let reached = unsafe { device.wait(&fence, point.value, timeout) }?;
        if reached {
            clock.saw(point.value);
        }
        Ok(reached)
    }

    /// Waits for every point of the set, at most until `deadline`. If the frame of a point is not submitted, returns an
    /// error at once. If the frame of a point was dropped and there is no deadline, checks once if the point has
    /// passed, and does not wait.
    ///
    /// # Errors
    /// The reason why a point was not reached.
    ///
    /// # Panics
    /// If a timeline does not belong to this allocator.
    ///
    /// # Safety
    /// As [`Lifetimes::read`].
    pub unsafe fn wait(&self, device: &D, set: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
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
            // SAFETY: the caller promises the same.
            match unsafe { self.wait_point(device, point, timeout) } {
                Ok(true) => {}
                Ok(false) if submitted => return Err(WaitError::Timeout),
                Ok(false) => return Err(WaitError::Unresolved(point)),
                Err(error) => return Err(WaitError::Device(error)),
            }
        }
        Ok(())
    }

    /// Returns `true` if the frame belongs to one of these timelines.
    #[must_use]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.clock.id().owner() == self.owner
    }

    /// Returns `true` if the point has passed. One driver call.
    ///
    /// # Errors
    /// The driver cannot read the timeline.
    ///
    /// # Panics
    /// If the timeline does not belong to this allocator.
    ///
    /// # Safety
    /// As [`Lifetimes::read`].
    pub unsafe fn has_passed(&self, device: &D, point: SyncPoint) -> Result<bool, DeviceError> {
        let (clock, fence) = self.entry(point.timeline);
        // SAFETY: as in `read`.
        let completed = unsafe { device.completed(&fence) }?;
        Ok(point.value <= clock.passed(completed))
    }

    /// Returns the latest submitted point of each timeline that was not seen to have reached this point.
    pub fn submitted(&self) -> SyncSet {
        let entries = self.entries.read_recursive();
        let points = entries.iter().map(|(clock, _)| (clock, clock.submitted()));
        let behind = points.filter(|(clock, submitted)| *submitted > clock.seen());
        behind.map(|(clock, submitted)| clock.at(submitted)).collect()
    }

    /// Returns the oldest open frame of the first timeline that has one, and the number of all open frames. Returns
    /// `None` if no frame is open.
    pub fn open_frames(&self) -> Option<(SyncPoint, usize)> {
        let (mut first, mut count) = (None, 0);
        for (clock, _) in self.entries.read_recursive().iter() {
            let Some((oldest, open)) = clock.oldest_open() else { continue };
            count += open;
            first = first.or_else(|| Some(clock.at(oldest)));
        }
        Some((first?, count))
    }

    /// Returns the latest dropped frame of each timeline, unless the GPU was seen to have reached it or a later frame
    /// was submitted.
    pub fn unresolved(&self) -> SyncSet {
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
    /// Returns the values, in the order of [`TimelineId::index`].
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.values.iter().copied()
    }
}

impl Progress for Passed {
    /// Returns the value that a timeline has reached, or 0 for a timeline of another allocator or one that was added
    /// later.
    #[inline]
    fn completed(&self, timeline: TimelineId) -> u64 {
        let value = timeline.index_of(self.owner).and_then(|index| self.values.get(index));
        value.copied().unwrap_or(0)
    }
}

impl Reading for Passed {}
