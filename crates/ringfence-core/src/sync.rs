//! Points on timelines. A point is a timeline and a value; it has passed once the timeline has reached the value. A
//! range can be reused once all points that the range waits for have passed.
//!
//! ```text
//!   timeline 1  ──1────────2─────────▶        a queue of the GPU, and the values that its work signals
//!   timeline 0  ──1────2────3────4───▶
//!                      ▲         ▲
//!                      │         └ SyncPoint { timeline: 0, value: 4 }
//!                      └ completed value of timeline 0: 2
//!
//!   SyncSet { 0: 4, 1: 2 }    has passed iff both points have
//! ```
//!
//! The value of a timeline only rises. So a set needs only the largest value of each timeline: once this value is
//! reached, all smaller values are reached too. Each insertion and each query is O(timelines in the set): usually two
//! or three, one per queue.

use alloc::vec::Vec;
use core::fmt;

/// Identifier of a timeline: the number of its owner, and an index. It is unique in the process if the number of the
/// owner is unique.
///
/// An owner numbers its timelines from 0, so it finds a timeline by its index in O(1), and recognises identifiers of
/// other owners ([`TimelineId::index_of`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(u64);

impl TimelineId {
    /// Returns the identifier of timeline `index` without an owner, for programs that use this crate alone.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self::of(0, index)
    }

    /// Returns the identifier of timeline `index` of an owner. Owner 0 means "no owner".
    #[must_use]
    pub const fn of(owner: u32, index: u32) -> Self {
        Self((owner as u64) << 32 | index as u64)
    }

    /// Returns the index among the owner's timelines.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }

    /// Returns the number of the owner. In `ringfence`, the owner is the allocator that created the timeline. Returns 0
    /// if there is no owner.
    #[must_use]
    pub const fn owner(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the index if the timeline belongs to `owner`; otherwise, returns `None`.
    #[inline]
    #[must_use]
    pub const fn index_of(self, owner: u32) -> Option<usize> {
        if self.owner() == owner { Some(self.index()) } else { None }
    }
}

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner() {
            0 => write!(f, "timeline {}", self.index()),
            owner => write!(f, "timeline {} of allocator {owner}", self.index()),
        }
    }
}

impl fmt::Debug for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A moment in the GPU's work: `timeline` reaches `value`.
///
/// `Timeline::submitted` and `Timeline::submit` of `ringfence` return the point of a submission. It is a plain value:
/// use it to wait on the host, to order queues, or to release a resource after certain submissions.
///
/// # Examples
///
/// The graphics queue reads a buffer that the copy queue writes. Each queue has a fence and a timeline.
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # use std::time::Duration;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # use ringfence::{AllocationDesc, Location};
/// # let [copy_fence, graphics_fence] = [device.create_fence(0), device.create_fence(0)];
/// # // SAFETY: each submission below signals the fence of its queue with the value of its frame.
/// # let (copies, graphics) = unsafe { (memory.timeline(copy_fence)?, memory.timeline(graphics_fence)?) };
/// # let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
/// # let create = |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
/// # let (mesh, result) = (create(Location::Device)?, create(Location::Readback)?);
/// # let (mesh_object, result_object) = (*mesh.object(), *result.object());
/// use ringfence::SyncPoint;
/// use ringfence::lifetime::SyncSet;
///
/// let frame = copies.begin();
/// let fill = sim::Command::FillBuffer { dst: mesh_object, offset: 0, size: 256, value: 7 };
/// device.submit(1, &[], vec![fill], (copy_fence, frame.value()))?;
/// let written: SyncPoint = copies.submitted(frame)?;
///
/// let frame = graphics.begin();
/// let (src, dst) = (mesh_object, result_object);
/// let draw = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 256 };
/// // On Vulkan: the submission waits for `written.value` on the semaphore of the copy queue.
/// device.submit(0, &[(copy_fence, written.value)], vec![draw], (graphics_fence, frame.value()))?;
/// let drawn = graphics.submitted(frame)?;
///
/// // SAFETY: no other submission uses the buffer, and `drawn` comes after `written`.
/// unsafe { mesh.retire_after(&SyncSet::from(drawn)) };
/// assert!(graphics.wait_for(drawn, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 1);
/// # let mut bytes = [0; 256];
/// # result.read(0, &mut bytes)?;
/// # assert_eq!(bytes, [7; 256]);
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncPoint {
    /// The timeline.
    pub timeline: TimelineId,
    /// The value that is signalled at that moment.
    pub value: u64,
}

impl SyncPoint {
    /// Creates the point at which `timeline` reaches `value`.
    #[must_use]
    pub const fn new(timeline: TimelineId, value: u64) -> Self {
        Self { timeline, value }
    }
}

impl fmt::Display for SyncPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {} of {}", self.value, self.timeline)
    }
}

/// Progress of timelines, as the caller reports it.
pub trait Progress {
    /// Returns the value that `timeline` has reached.
    fn completed(&self, timeline: TimelineId) -> u64;

    /// Returns `true` if the point has passed.
    fn passed(&self, point: SyncPoint) -> bool {
        point.value <= self.completed(point.timeline)
    }

    /// Returns `true` if every point of the set has passed, or if the set is empty.
    fn passed_all(&self, set: &SyncSet) -> bool {
        set.iter().all(|point| self.passed(point))
    }
}

/// The value that each timeline of one owner has reached, indexed by [`TimelineId::index`]. The owner is not checked.
/// If the index is beyond the end of the slice, the value is 0.
impl Progress for [u64] {
    fn completed(&self, timeline: TimelineId) -> u64 {
        self.get(timeline.index()).copied().unwrap_or(0)
    }
}

impl Progress for Vec<u64> {
    fn completed(&self, timeline: TimelineId) -> u64 {
        self.as_slice().completed(timeline)
    }
}

/// A set of points that must all pass: at most one per timeline, sorted by timeline.
///
/// Up to four points are stored inline; a set over more timelines allocates host memory.
#[derive(Default)]
pub struct SyncSet {
    inline: [Option<SyncPoint>; SyncSet::INLINE],
    /// All points if there are more than [`SyncSet::INLINE`]; otherwise, empty.
    spilled: Vec<SyncPoint>,
}

impl SyncSet {
    const INLINE: usize = 4;

    /// Creates the empty set. It counts as passed.
    #[must_use]
    pub const fn new() -> Self {
        Self { inline: [None; Self::INLINE], spilled: Vec::new() }
    }

    /// Adds a point. If the set already has a point on this timeline, keeps the one with the larger value.
    pub fn insert(&mut self, point: SyncPoint) {
        if !self.spilled.is_empty() {
            return self.insert_spilled(point);
        }
        let len = self.len();
        let at = self.inline[..len].partition_point(|held| held.is_some_and(|held| held.timeline < point.timeline));
        match self.inline.get_mut(at) {
            Some(Some(held)) if held.timeline == point.timeline => held.value = held.value.max(point.value),
            _ if len < Self::INLINE => {
                self.inline.copy_within(at..len, at + 1);
                self.inline[at] = Some(point);
            }
            _ => {
                self.spilled.extend(self.inline.iter().flatten());
                self.inline = [None; Self::INLINE];
                self.insert_spilled(point);
            }
        }
    }

    fn insert_spilled(&mut self, point: SyncPoint) {
        match self.spilled.binary_search_by_key(&point.timeline, |held| held.timeline) {
            Ok(at) => self.spilled[at].value = self.spilled[at].value.max(point.value),
            Err(at) => self.spilled.insert(at, point),
        }
    }

    /// Adds every point of `other`.
    pub fn union(&mut self, other: &Self) {
        for point in other.iter() {
            self.insert(point);
        }
    }

    /// Iterates over the points, sorted by timeline.
    pub fn iter(&self) -> impl Iterator<Item = SyncPoint> + '_ {
        self.inline.iter().flatten().chain(&self.spilled).copied()
    }

    /// Returns the value that the set waits for on `timeline`. Returns `None` if the set has no point on `timeline`.
    #[must_use]
    pub fn value_on(&self, timeline: TimelineId) -> Option<u64> {
        self.iter().find(|point| point.timeline == timeline).map(|point| point.value)
    }

    /// Returns the number of timelines that the set waits for.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.spilled.is_empty() { self.inline.iter().flatten().count() } else { self.spilled.len() }
    }

    /// Returns `true` if the set has no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inline[0].is_none() && self.spilled.is_empty()
    }

    /// Returns `true` if `points` are the points of the set. `points` must be sorted by timeline. Called for each
    /// retired object. `points` is a slice, because a comparison with an iterator is slower.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn is(&self, points: &[SyncPoint]) -> bool {
        if !self.spilled.is_empty() {
            return self.spilled == points;
        }
        let Some((inline, rest)) = self.inline.split_at_checked(points.len()) else { return false };
        inline.iter().zip(points).all(|(held, point)| *held == Some(*point))
            && rest.first().is_none_or(|held| held.is_none())
    }

    /// Removes every point and keeps the host memory.
    pub fn clear(&mut self) {
        self.inline = [None; Self::INLINE];
        self.spilled.clear();
    }
}

impl Clone for SyncSet {
    fn clone(&self) -> Self {
        Self { inline: self.inline, spilled: self.spilled.clone() }
    }

    /// Copies `source` and reuses the host memory of `self`.
    fn clone_from(&mut self, source: &Self) {
        self.inline = source.inline;
        self.spilled.clone_from(&source.spilled);
    }
}

impl From<SyncPoint> for SyncSet {
    fn from(point: SyncPoint) -> Self {
        let mut set = Self::new();
        set.insert(point);
        set
    }
}

impl FromIterator<SyncPoint> for SyncSet {
    fn from_iter<I: IntoIterator<Item = SyncPoint>>(points: I) -> Self {
        let mut set = Self::new();
        set.extend(points);
        set
    }
}

impl Extend<SyncPoint> for SyncSet {
    fn extend<I: IntoIterator<Item = SyncPoint>>(&mut self, points: I) {
        for point in points {
            self.insert(point);
        }
    }
}

impl PartialEq for SyncSet {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Compares point by point, up to the first difference or the first index without a point. Usually a set has one
        // or two points.
        let mut points = self.inline.iter().zip(&other.inline);
        points.find(|(held, there)| held != there || held.is_none()).is_none_or(|(held, there)| held == there)
            && self.spilled == other.spilled
    }
}

impl Eq for SyncSet {}

impl fmt::Debug for SyncSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|point| (point.timeline, point.value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::string::ToString;
    use std::vec;

    fn point(timeline: u32, value: u64) -> SyncPoint {
        SyncPoint::new(TimelineId::new(timeline), value)
    }

    #[test]
    fn a_set_keeps_the_latest_point_of_each_timeline_in_order() {
        // Nine timelines: more than the inline points, with each timeline inserted several times.
        let mut twin = BTreeMap::new();
        let mut set = SyncSet::new();
        for step in 0..64_u64 {
            let (timeline, value) = ((step * 5 % 9) as u32, step * 7 % 13);
            set.insert(point(timeline, value));
            let held = twin.entry(timeline).or_insert(0);
            *held = value.max(*held);
            let expected: vec::Vec<_> = twin.iter().map(|(&timeline, &value)| point(timeline, value)).collect();
            assert_eq!(set.iter().collect::<vec::Vec<_>>(), expected);
            assert_eq!(set.len(), expected.len());
        }
        set.clear();
        assert!(set.is_empty());
    }

    #[test]
    fn timelines_of_two_owners_are_two_timelines() {
        let (one, other) = (TimelineId::of(1, 3), TimelineId::of(2, 3));
        assert_ne!(one, other);
        assert_eq!((one.owner(), one.index(), one.index_of(1), one.index_of(2)), (1, 3, Some(3), None));
        let set: SyncSet = [SyncPoint::new(one, 5), SyncPoint::new(other, 7)].into_iter().collect();
        assert_eq!((set.len(), set.value_on(one), set.value_on(other)), (2, Some(5), Some(7)));
        assert_eq!(one.to_string(), "timeline 3 of allocator 1");
        assert_eq!(TimelineId::new(3).to_string(), "timeline 3");
    }

    #[test]
    fn a_set_passes_when_every_timeline_has() {
        let set: SyncSet = [point(0, 3), point(2, 1)].into_iter().collect();
        assert!(!vec![3].passed_all(&set), "timeline 2 has not begun");
        assert!(!vec![2, 0, 1].passed_all(&set));
        assert!(vec![3, 0, 1].passed_all(&set));
        assert!(vec![0_u64; 0].passed_all(&SyncSet::new()));
    }
}
