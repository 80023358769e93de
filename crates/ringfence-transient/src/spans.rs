//! The bytes of a transient heap: their current or last owner, and the time from which a pass may use them.
//!
//! ```text
//!   offset 0         40        64             128
//!          │ depth   │ blur    │ never used    │
//!          │ in use  │ free since { compute: 3 }
//!                      └ may be taken by a pass iff compute 3 comes before it
//! ```
//!
//! Ranges are allocated first fit by address, as engines place transient resources. A pass can take a range only if
//! every use of its bytes comes before that pass. With several queues, it is not sufficient that the range is no longer
//! in use.
//!
//! | operation | cost |
//! |---|---|
//! | fit | O(spans) |
//! | is free | O(log spans + overlapping spans) |
//! | take, free | the same, and moving the later spans |

use std::ops::Range;

use ringfence_core::range::Invalid;
use smallvec::SmallVec;

use super::pass::Clock;

/// Tenant of bytes that were never used, or whose last owner was released.
pub(super) const NO_OBJECT: u32 = u32::MAX;

/// A range of bytes with the same history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) end: u64,
    /// Current or last owner of the bytes.
    pub(super) tenant: u32,
    pub(super) in_use: bool,
    /// Clock at which the last use of a free span is over.
    pub(super) users: Clock,
}

/// The spans of a heap, in ascending order. They cover the heap without gaps.
#[derive(Clone, Debug)]
pub(super) struct Spans(Vec<Span>);

impl Spans {
    pub(super) fn new(bytes: u64) -> Self {
        Self(vec![Span { offset: 0, end: bytes, tenant: NO_OBJECT, in_use: false, users: Clock::default() }])
    }

    /// Returns the lowest aligned offset at which a pass that begins at `clock` may use `size` bytes.
    pub(super) fn fit(&self, size: u64, alignment: u64, clock: &Clock) -> Option<u64> {
        let mut start = None;
        for span in &self.0 {
            if !span.is_free_at(clock) {
                start = None;
                continue;
            }
            let from: u64 = match start {
                Some(from) => from,
                None => span.offset.checked_next_multiple_of(alignment)?,
            };
            if from.checked_add(size)? <= span.end {
                return Some(from);
            }
            start = Some(from);
        }
        None
    }

    /// Returns `true` if a pass that begins at `clock` may use these bytes.
    pub(super) fn is_free(&self, offset: u64, size: u64, clock: &Clock) -> bool {
        self.touching(offset, offset + size).iter().all(|span| span.is_free_at(clock))
    }

    /// Returns the spans that overlap `offset..end`.
    pub(super) fn touching(&self, offset: u64, end: u64) -> &[Span] {
        &self.0[self.indices(offset, end)]
    }

    fn indices(&self, offset: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|span| span.end <= offset);
        let count = self.0[first..].partition_point(|span| span.offset < end);
        first..first + count
    }

    /// Makes `tenant` the owner of `offset..offset + size`.
    pub(super) fn take(&mut self, offset: u64, size: u64, tenant: u32) {
        self.put(Span { offset, end: offset + size, tenant, in_use: true, users: Clock::default() });
    }

    /// Frees a tenant's bytes. They can be reused once the passes of `users` are over.
    pub(super) fn free(&mut self, offset: u64, size: u64, tenant: u32, users: Clock) {
        self.put(Span { offset, end: offset + size, tenant, in_use: false, users });
    }

    fn put(&mut self, new: Span) {
        let touched = self.indices(new.offset, new.end);
        let (first, last) = (self.0[touched.start], self.0[touched.end - 1]);
        let mut parts: SmallVec<[Span; 3]> = SmallVec::new();
        if first.offset < new.offset {
            parts.push(Span { end: new.offset, ..first });
        }
        parts.push(new);
        if last.end > new.end {
            parts.push(Span { offset: new.end, ..last });
        }
        if let [only] = parts.as_slice()
            && touched.len() == 1
        {
            self.0[touched.start] = *only;
        } else {
            self.0.splice(touched, parts);
        }
    }

    /// Removes released tenants, and the completed uses of their bytes. Merges free spans that then have the same
    /// history. Returns the ranges from which uses were removed.
    pub(super) fn tidy(&mut self, is_gone: impl Fn(u32) -> bool, completed: &Clock) -> SmallVec<[Range<u64>; 8]> {
        let mut forgotten = SmallVec::new();
        for span in &mut self.0 {
            if span.tenant != NO_OBJECT && is_gone(span.tenant) {
                span.tenant = NO_OBJECT;
            }
            if span.tenant == NO_OBJECT && span.users != Clock::default() && completed.covers(&span.users) {
                span.users = Clock::default();
                forgotten.push(span.offset..span.end);
            }
        }
        self.0.dedup_by(|next, held| {
            let same = !held.in_use && !next.in_use && held.tenant == next.tenant && held.users == next.users;
            if same {
                held.end = next.end;
            }
            same
        });
        forgotten
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.iter()
    }

    pub(super) fn validate(&self, bytes: u64) -> Result<(), Invalid> {
        let mut at = 0;
        for span in &self.0 {
            Invalid::unless(span.offset == at, "a gap or an overlap between spans", at)?;
            Invalid::unless(span.offset < span.end, "a span is empty", at)?;
            Invalid::unless(!span.in_use || span.tenant != NO_OBJECT, "a span in use has no tenant", at)?;
            at = span.end;
        }
        Invalid::unless(at == bytes, "the last span does not end at the end of the heap", at)
    }
}

impl Span {
    fn is_free_at(&self, clock: &Clock) -> bool {
        !self.in_use && clock.covers(&self.users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;
    use proptest::prelude::*;
    use ringfence_core::sync::TimelineId;

    const BYTES: u64 = 96;

    /// A naive model: the history of each byte separately.
    struct Twin(Vec<(Option<u32>, Clock)>);

    impl Twin {
        fn is_free(&self, offset: u64, size: u64, clock: &Clock) -> bool {
            (offset..offset + size).all(|at| {
                let (tenant, users) = &self.0[at as usize];
                tenant.is_none() && clock.covers(users)
            })
        }

        fn fit(&self, size: u64, alignment: u64, clock: &Clock) -> Option<u64> {
            (0..=BYTES.checked_sub(size)?).filter(|at| at % alignment == 0).find(|at| self.is_free(*at, size, clock))
        }
    }

    proptest! {
        /// A fit finds the same offset as a map of every byte, while resources come and go on three queues and passes
        /// wait for passes of other queues.
        #[test]
        fn a_fit_is_what_a_map_of_every_byte_finds(
            steps in prop::collection::vec(
                (0..4_u8, 0..3_u32, 1..40_u64, 0..4_u32, any::<prop::sample::Index>()),
                1..80,
            )
        ) {
            let (mut spans, mut twin) = (Spans::new(BYTES), Twin(vec![(None, Clock::default()); BYTES as usize]));
            let (mut order, mut live, mut passes) = (Order::new(0), Vec::new(), Vec::new());
            for (tenant, (step, queue, size, shift, which)) in (0..).zip(steps) {
                let waits: Vec<_> = if step == 0 && !passes.is_empty() { vec![*which.get(&passes)] } else { vec![] };
                let pass = order.pass(TimelineId::new(queue), &waits).unwrap();
                passes.push(pass);
                let clock = *order.begin_of(pass);
                if step == 3 && !live.is_empty() {
                    let (tenant, offset, size) = live.swap_remove(which.index(live.len()));
                    let users = Clock::of(pass);
                    spans.free(offset, size, tenant, users);
                    twin.0[offset as usize..(offset + size) as usize].fill((None, users));
                } else {
                    let found = spans.fit(size, 1 << shift, &clock);
                    prop_assert_eq!(found, twin.fit(size, 1 << shift, &clock));
                    if let Some(offset) = found {
                        prop_assert!(spans.is_free(offset, size, &clock));
                        spans.take(offset, size, tenant);
                        twin.0[offset as usize..(offset + size) as usize].fill((Some(tenant), Clock::default()));
                        live.push((tenant, offset, size));
                    }
                }
                if step == 2 {
                    let completed = if shift == 0 { order.end_of_all() } else { Clock::default() };
                    let held = live.clone();
                    spans.tidy(|tenant| tenant % 2 == 0 && !held.iter().any(|live| live.0 == tenant), &completed);
                    // Removing uses is correct only if the later clocks contain them.
                    if shift == 0 {
                        order.refresh_to(completed);
                    }
                }
                spans.validate(BYTES).unwrap();
            }
        }
    }

    #[test]
    fn tidying_forgets_released_tenants_and_completed_uses_and_merges_equal_spans() {
        let mut order = Order::new(1);
        let passes = [(); 3].map(|()| order.pass(ringfence_core::sync::TimelineId::new(0), &[]).expect("one queue"));
        let [one, two, three] = passes.map(Clock::of);
        let list = |spans: &Spans| {
            spans.iter().map(|span| (span.offset, span.end, span.tenant, span.in_use, span.users)).collect::<Vec<_>>()
        };
        let none = Clock::default();
        let mut spans = Spans::new(100);
        spans.free(0, 20, 1, one);
        spans.free(20, 20, 2, two);
        spans.free(40, 20, 3, three);
        spans.take(60, 20, 4);
        // The first and the third tenant are gone; the uses up to the second pass are complete.
        let ranges = |of: &[Range<u64>]| of.iter().map(|bytes| (bytes.start, bytes.end)).collect::<Vec<_>>();
        let forgotten = spans.tidy(|number| [1, 3].contains(&number), &two);
        assert_eq!(ranges(&forgotten), [(0, 20)]);
        let expected = [
            (0, 20, NO_OBJECT, false, none),
            (20, 40, 2, false, two),
            (40, 60, NO_OBJECT, false, three),
            (60, 80, 4, true, none),
            (80, 100, NO_OBJECT, false, none),
        ];
        assert_eq!(list(&spans), expected);
        assert!(spans.tidy(|_| false, &two).is_empty(), "each use is removed once");
        assert_eq!(list(&spans), expected);
        let forgotten = spans.tidy(|number| number == 2, &three);
        assert_eq!(ranges(&forgotten), [(20, 40), (40, 60)]);
        let merged = [(0, 60, NO_OBJECT, false, none), (60, 80, 4, true, none), (80, 100, NO_OBJECT, false, none)];
        assert_eq!(list(&spans), merged);
        spans.validate(100).expect("sound");
        // Adjacent spans of one tenant with equal uses are one span, those in use are not.
        let mut spans = Spans::new(60);
        spans.free(0, 20, 1, one);
        spans.free(20, 20, 1, one);
        spans.free(40, 20, 1, two);
        assert!(spans.tidy(|_| false, &none).is_empty());
        assert_eq!(list(&spans), [(0, 40, 1, false, one), (40, 60, 1, false, two)]);
        let mut spans = Spans::new(60);
        spans.take(0, 20, 1);
        spans.free(20, 20, 1, none);
        spans.take(40, 20, 1);
        assert!(spans.tidy(|_| false, &none).is_empty());
        assert_eq!(spans.iter().count(), 3);
    }
}
