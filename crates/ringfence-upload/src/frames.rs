//! The frames that may use staged bytes.

use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};

/// Frames that may use staged bytes: the frame given by the caller, or all frames that were open at the write. Each
/// write of constants returns a `Frames`, so the type is small and records at most `MAX` frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frames {
    values: [u64; Self::MAX],
    indices: [u32; Self::MAX],
    /// Number of frames. If it is above `MAX`, the recorded frames are incomplete and not used.
    count: u32,
}

impl Frames {
    const MAX: usize = 2;

    /// No frames: for bytes in the program's own buffer.
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

    /// Returns `true` if all frames are recorded.
    pub(crate) const fn are_known(self) -> bool {
        self.count as usize <= Self::MAX
    }

    /// Returns the frames as points of the allocator `owner`. Returns no points if there are more than `MAX` frames.
    pub(crate) fn points(self, owner: u32) -> impl Iterator<Item = SyncPoint> {
        let count = if self.are_known() { self.count as usize } else { 0 };
        (0..count).map(move |at| SyncPoint::new(TimelineId::of(owner, self.indices[at]), self.values[at]))
    }
}
