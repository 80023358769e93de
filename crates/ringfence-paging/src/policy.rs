//! The choice of the resources that leave the device.
//!
//! ```text
//!   uses of a resource, in commits:   ■■■■·········■■■■·········■■■■·····?
//!                                         └─ gap ──┘    └─ gap ──┘    └ idle
//!   the gaps repeat  ─▶ the next use is expected one gap after the last use
//!   they do not      ─▶ the longer a resource was not used, the later its next use is expected
//! ```
//!
//! The resource with the latest expected next use leaves first. Belady's optimal policy does the same with the actual
//! next uses. A camera on a closed path and a camera that goes back and forth both have gaps that repeat: each gap is
//! compared with the two gaps before it. Resources of a lower [`Priority`] leave before those of a higher one.
//!
//! | operation | cost |
//! |---|---|
//! | [`Rhythm::used`], [`Rhythm::next_use`] | O(1) |
//! | [`order`] | O(n log n) |

use std::cmp::Reverse;

use ringfence_hal::Priority;

/// Two gaps are equal if they differ by at most 1 / `TOLERANCE` of the longer one.
const TOLERANCE: u64 = 4;

/// The commits that used a resource: the last one, and the gaps between uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rhythm {
    /// The last commit that used the resource; 0 before the first use.
    last: u64,
    /// Lengths of the last two gaps, in commits, the latest first; 0 if there was none.
    gaps: [u64; 2],
    /// `true` if the last gap was as long as one of the two gaps before it.
    is_regular: bool,
}

impl Rhythm {
    /// Records a use in commit `now`.
    pub(crate) fn used(&mut self, now: u64) {
        let gap = now - self.last;
        if self.last != 0 && gap > 1 {
            self.is_regular = are_equal(gap, self.gaps[1]) || are_equal(gap, self.gaps[0]);
            self.gaps = [gap, self.gaps[0]];
        }
        self.last = now;
    }

    /// Returns the last commit that used the resource; 0 before the first use.
    pub(crate) const fn last(self) -> u64 {
        self.last
    }

    /// Returns the number of commits after `now` until the next use is expected.
    pub(crate) fn next_use(self, now: u64) -> u64 {
        let idle = now - self.last;
        // On a path there and back, two gaps alternate, so the next gap equals the one before the last. On a closed
        // path, all gaps are equal.
        let expected = if self.gaps[1] == 0 { self.gaps[0] } else { self.gaps[1] };
        let is_due = idle > expected + expected / TOLERANCE;
        if self.is_regular && !is_due { expected.saturating_sub(idle) } else { idle }
    }
}

fn are_equal(gap: u64, other: u64) -> bool {
    other != 0 && gap.abs_diff(other) * TOLERANCE <= gap.max(other)
}

/// A resource that may leave the device, or give up some of its mip levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// Index of the resource.
    pub(crate) item: u32,
    /// Bytes of device memory that it would free.
    pub(crate) bytes: u64,
    /// Its priority.
    pub(crate) priority: Priority,
    /// Number of commits until its next use is expected.
    pub(crate) next_use: u64,
}

/// Sorts candidates in the order in which they leave.
pub(crate) fn order(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by_key(|candidate| {
        (candidate.priority, Reverse(candidate.next_use), Reverse(candidate.bytes), candidate.item)
    });
}

/// Returns the smallest number of candidates, from the first one on, that free at least `bytes`, and the bytes that
/// these free. If all candidates free less, returns the number and the bytes of all.
pub(crate) fn enough(candidates: &[Candidate], bytes: u64) -> (usize, u64) {
    let mut freed = 0;
    let needed = candidates.iter().take_while(|candidate| {
        let is_short = freed < bytes;
        freed += if is_short { candidate.bytes } else { 0 };
        is_short
    });
    (needed.count(), freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rhythm(uses: impl IntoIterator<Item = u64>) -> Rhythm {
        let mut rhythm = Rhythm::default();
        uses.into_iter().for_each(|now| rhythm.used(now));
        rhythm
    }

    #[test]
    fn the_next_use_is_expected_where_the_gaps_repeat() {
        let table = [
            ("never used again: as long as it was idle", rhythm(5..10), 20, 11),
            ("one gap is no rhythm", rhythm([1, 2, 12, 13]), 16, 3),
            ("a closed path: the gap of 10 again", rhythm([1, 2, 12, 13, 23, 24]), 26, 8),
            ("there and back: gaps of 4 and 16 in turn, 4 is next", rhythm([1, 5, 21, 25, 41]), 42, 3),
            ("overdue: no longer expected", rhythm([1, 2, 12, 13, 23, 24]), 40, 16),
            ("irregular: as long as it was idle", rhythm([1, 4, 40, 41, 50]), 55, 5),
        ];
        for (name, rhythm, now, expected) in table {
            assert_eq!(rhythm.next_use(now), expected, "{name}: {rhythm:?}");
        }
    }

    #[test]
    fn lower_priorities_leave_first_then_later_uses_then_larger_ones() {
        let candidate = |item, bytes, priority, next_use| Candidate { item, bytes, priority, next_use };
        let mut candidates = [
            candidate(0, 10, Priority::High, 900),
            candidate(1, 10, Priority::Normal, 50),
            candidate(2, 10, Priority::Normal, 70),
            candidate(3, 20, Priority::Normal, 50),
            candidate(4, 10, Priority::Low, 1),
        ];
        order(&mut candidates);
        assert_eq!(candidates.map(|candidate| candidate.item), [4, 2, 3, 1, 0]);
        for (bytes, count, freed) in [(0, 0, 0), (1, 1, 10), (10, 1, 10), (11, 2, 20), (40, 3, 40), (999, 5, 60)] {
            assert_eq!(enough(&candidates, bytes), (count, freed), "{bytes} bytes");
        }
    }
}
