//! The frames that staged bytes are for.

use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};

/// Frames whose submissions may use staged bytes: the one that they were staged for, or those that were open. In few
/// bytes, since a write of constants returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frames {
    values: [u64; Self::MAX],
    indices: [u32; Self::MAX],
    /// More than `MAX` if not all are known.
    count: u32,
}

impl Frames {
    const MAX: usize = 2;

    /// Of bytes that the program keeps itself.
    pub(crate) const NONE: Self = Self { values: [0; Self::MAX], indices: [0; Self::MAX], count: 0 };

    #[inline]
    pub(crate) const fn of(point: SyncPoint) -> Self {
        Self { values: [point.value, 0], indices: [point.timeline.index() as u32, 0], count: 1 }
    }

    pub(crate) fn of_set(points: &SyncSet) -> Self {
        let mut frames = Self { count: points.len() as u32, ..Self::NONE };
        for (at, SyncPoint { timeline, value }) in points.iter().take(Self::MAX).enumerate() {
            (frames.values[at], frames.indices[at]) = (value, timeline.index() as u32);
        }
        frames
    }

    /// Whether they are known, all of them.
    pub(crate) const fn are_known(self) -> bool {
        self.count as usize <= Self::MAX
    }

    /// Those that are known, as frames of this allocator.
    pub(crate) fn points(self, owner: u32) -> impl Iterator<Item = SyncPoint> {
        let count = if self.are_known() { self.count as usize } else { 0 };
        (0..count).map(move |at| SyncPoint::new(TimelineId::of(owner, self.indices[at]), self.values[at]))
    }
}
