//! Points on timelines: what a range waits for before it is used again.
//!
//! ```text
//!   timeline 0  ──1────2────3────4───▶        a queue of the GPU; the values that its work will signal
//!   timeline 1  ──1────────2─────────▶
//!                      ▲         ▲
//!                      └ completed       └ SyncPoint { timeline: 0, value: 4 }
//!
//!   SyncSet { 0: 4, 1: 2 }    has passed iff both points have
//! ```
//!
//! A timeline's value only rises, so one number a timeline is enough in a set: the larger one implies the smaller.
//! All operations are O(timelines in the set), which is the number of queues in use: two or three.

use alloc::vec::Vec;
use core::fmt;

/// Which timeline: a number that no other timeline of the process has, as long as its owner has a number of its own.
///
/// An owner counts its timelines from 0: with the owner known, an id is an index, and looking it up is O(1). The id of
/// another owner is no index, and is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(u64);

impl TimelineId {
    /// The timeline of this index that has no owner: for programs that read their own progress.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self::of(0, index)
    }

    /// The timeline of this index of an owner. Owner 0 is no owner.
    #[must_use]
    pub const fn of(owner: u32, index: u32) -> Self {
        Self((owner as u64) << 32 | index as u64)
    }

    /// Its index among those of its owner.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }

    /// The number of its owner: in `ringfence` the allocator that it was made by. 0 if it has none.
    #[must_use]
    pub const fn owner(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Its index, if it is one of this owner's.
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

/// A moment in the GPU's work: when `timeline` reaches `value`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncPoint {
    /// The timeline.
    pub timeline: TimelineId,
    /// The value that is signalled at that moment.
    pub value: u64,
}

impl SyncPoint {
    /// The point at which `timeline` reaches `value`.
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

/// How far each timeline has come: the only clock that this crate knows.
pub trait Progress {
    /// The value that `timeline` has reached.
    fn completed(&self, timeline: TimelineId) -> u64;

    /// Whether the point has passed.
    fn passed(&self, point: SyncPoint) -> bool {
        point.value <= self.completed(point.timeline)
    }

    /// Whether every point of the set has passed (true of the empty set).
    fn passed_all(&self, set: &SyncSet) -> bool {
        set.iter().all(|point| self.passed(point))
    }
}

/// Completed values by [`TimelineId::index`], of any owner: for the timelines of one owner. One beyond the end has
/// reached 0.
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

/// Points that must all pass: at most one a timeline, sorted by timeline.
///
/// Four timelines are held inline; a set over more of them allocates on the host.
#[derive(Default)]
pub struct SyncSet {
    inline: [Option<SyncPoint>; SyncSet::INLINE],
    /// Holds every point iff there are more than [`SyncSet::INLINE`] of them, else is empty.
    spilled: Vec<SyncPoint>,
}

impl SyncSet {
    const INLINE: usize = 4;

    /// The set that has always passed.
    #[must_use]
    pub const fn new() -> Self {
        Self { inline: [None; Self::INLINE], spilled: Vec::new() }
    }

    /// Adds a point. Of two points on one timeline the later stays.
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

    /// The points, by timeline.
    pub fn iter(&self) -> impl Iterator<Item = SyncPoint> + '_ {
        self.inline.iter().flatten().chain(&self.spilled).copied()
    }

    /// The value that the set waits for on `timeline`.
    #[must_use]
    pub fn value_on(&self, timeline: TimelineId) -> Option<u64> {
        self.iter().find(|point| point.timeline == timeline).map(|point| point.value)
    }

    /// How many timelines the set waits for.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.spilled.is_empty() { self.inline.iter().flatten().count() } else { self.spilled.len() }
    }

    /// Whether the set waits for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inline[0].is_none() && self.spilled.is_empty()
    }

    /// Whether these are the points, given by timeline. Quicker than to iterate: this is asked for each retired object.
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

    /// Forgets every point and keeps the memory.
    pub fn clear(&mut self) {
        self.inline = [None; Self::INLINE];
        self.spilled.clear();
    }
}

impl Clone for SyncSet {
    fn clone(&self) -> Self {
        Self { inline: self.inline, spilled: self.spilled.clone() }
    }

    /// Keeps the memory.
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
        // Point by point, up to the first that neither has: as a rule there are one or two.
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
        // Nine timelines: past the inline points and back over each of them twice.
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
