//! Tracks, for bytes that several resources share, the resource that wrote them last.
//!
//! ```text
//!   'one' is filled      │ one one one one │ … … │
//!   'two' is filled      │ one one two two │ two │      the second half of 'one' is lost: 'two' has overwritten it
//!   'one' is read        hazard                         unless 'one' is written there again first
//! ```
//!
//! Only ranges of memory in which resources may share bytes are tracked, and only accesses by queues. The state has two
//! parts: for each byte, the resource that wrote it last; for each resource, the bytes that it wrote and that another
//! resource has overwritten since then.
//!
//! A resource that was never written may be read without a hazard: it may be an alias that intentionally reads the
//! bytes of another resource. An aliasing barrier counts as a write of all bytes of its `after` resource.
//!
//! Submissions of different queues are ordered only by waits. Accesses to the same bytes without such an order are
//! reported as [`QueueConflict`](super::HazardKind::QueueConflict), not here.

use super::command::{Barrier, Command};
use super::hazard::{Hazard, HazardKind};
use super::ids::Label;
use super::order::{Access, Key};
use super::state::State;
use std::ops::Range;

/// Contents of the shared bytes of a memory object.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// For each written byte, the resource that wrote it last. The ranges of the entries do not overlap.
    written: Vec<Written>,
    /// Bytes of a resource that another resource has overwritten. The ranges of one resource do not overlap.
    lost: Vec<Lost>,
}

#[derive(Clone, Debug)]
struct Written {
    range: Range<u64>,
    by: Label,
    when: Key,
}

#[derive(Clone, Debug)]
struct Lost {
    range: Range<u64>,
    /// The resource that lost its contents.
    of: u64,
    by: Label,
    when: Key,
}

/// An entry that can be cut to a part of its range.
trait Ranged: Clone {
    fn range(&mut self) -> &mut Range<u64>;
}

impl Ranged for Written {
    fn range(&mut self) -> &mut Range<u64> {
        &mut self.range
    }
}

impl Ranged for Lost {
    fn range(&mut self) -> &mut Range<u64> {
        &mut self.range
    }
}

/// Cuts `range` out of the entries that `wanted` selects. Their parts outside of the range stay in the list. Returns
/// the parts inside the range.
fn cut<T: Ranged>(list: &mut Vec<T>, range: &Range<u64>, wanted: impl Fn(&T) -> bool) -> Vec<T> {
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    list.retain_mut(|entry| {
        let held = entry.range().clone();
        if !wanted(entry) || held.end <= range.start || range.end <= held.start {
            return true;
        }
        let part = |part: Range<u64>, into: &mut Vec<T>| {
            if part.start < part.end {
                let mut entry = entry.clone();
                *entry.range() = part;
                into.push(entry);
            }
        };
        part(held.start..range.start, &mut rest);
        part(range.end..held.end, &mut rest);
        part(held.start.max(range.start)..held.end.min(range.end), &mut out);
        false
    });
    list.append(&mut rest);
    out
}

impl Contents {
    /// Records that resource `by` has written `range` in submission `when`. `is_before(a, b)` returns `true` if
    /// submission `a` is `b` or ended before `b` began.
    fn take(&mut self, range: &Range<u64>, by: &Label, when: Key, is_before: impl Fn(Key, Key) -> bool) {
        cut(&mut self.lost, range, |lost| lost.of == by.id);
        for over in cut(&mut self.written, range, |_| true) {
            if over.by.id != by.id && is_before(over.when, when) {
                cut(&mut self.lost, &over.range, |lost| lost.of == over.by.id);
                self.lost.push(Lost { range: over.range, of: over.by.id, by: by.clone(), when });
            }
        }
        match self.written.last_mut() {
            Some(last) if last.by.id == by.id && last.range.end == range.start => {
                (last.range.end, last.when) = (range.end, when);
            }
            _ => self.written.push(Written { range: range.clone(), by: by.clone(), when }),
        }
    }

    /// Returns a resource that has overwritten contents of resource `of` inside `range`, in submission `when` or in one
    /// that ended before it. Also returns the overwritten range. Returns `None` if there is no such resource.
    fn lost(
        &self,
        range: &Range<u64>,
        of: u64,
        when: Key,
        is_before: impl Fn(Key, Key) -> bool,
    ) -> Option<(Label, Range<u64>)> {
        let overlaps = |lost: &&Lost| lost.range.start < range.end && range.start < lost.range.end;
        let mut own = self.lost.iter().filter(|lost| lost.of == of).filter(overlaps);
        let lost = own.find(|lost| is_before(lost.when, when))?;
        Some((lost.by.clone(), lost.range.start.max(range.start)..lost.range.end.min(range.end)))
    }

    /// Removes all entries of a destroyed resource.
    pub(super) fn forget(&mut self, id: u64) {
        if !self.written.is_empty() {
            self.written.retain(|written| written.by.id != id);
        }
        if !self.lost.is_empty() {
            self.lost.retain(|lost| lost.of != id);
        }
    }
}

/// Accesses of one submission to shared bytes, in the order of the commands.
#[derive(Debug, Default)]
pub(super) struct SharedUses(Vec<Access>);

impl SharedUses {
    /// Adds the accesses of one command to shared bytes, reads before writes.
    pub(super) fn add(&mut self, state: &State, uses: &[Access]) {
        for writes in [false, true] {
            let of = uses.iter().filter(|access| access.writes == writes && state.shares_bytes(access));
            self.0.extend(of.cloned());
        }
    }

    /// For an aliasing barrier, adds a write of all bytes of its `after` resource.
    pub(super) fn add_activation(&mut self, state: &State, command: &Command) {
        let Command::Barrier(Barrier::Aliasing { after, .. }) = command else { return };
        let Some(resource) = state.resources.get(&after.id()) else { return };
        let Some((space, base)) = resource.location else { return };
        let Some(object) = state.memories.get(&space) else { return };
        let (label, space_label) = (resource.label.clone(), object.label.clone());
        let range = base..base + resource.requirements.size;
        self.add(state, &[Access { space, range, writes: true, label, space_label }]);
    }
}

impl State {
    /// Returns `true` if other resources may share these bytes, so their contents are tracked. Memory that is shared
    /// with another process is not tracked, because each process has its own resources for the same bytes.
    fn shares_bytes(&self, access: &Access) -> bool {
        let object = self.memories.get(&access.space);
        object.is_some_and(|object| !object.is_shareable && object.may_share(&access.range))
    }

    /// Updates the contents of shared bytes with the accesses of a submission. Reports reads of overwritten contents.
    pub(super) fn follow_contents(&mut self, when: Key, SharedUses(uses): SharedUses) {
        for access in uses {
            let order = &self.order;
            let Some(object) = self.memories.get_mut(&access.space) else { continue };
            let is_before = |one, other| order.is_before(one, other);
            if access.writes {
                object.contents.take(&access.range, &access.label, when, is_before);
            } else if let Some((by, range)) = object.contents.lost(&access.range, access.label.id, when, is_before) {
                let hazard = Hazard::about(HazardKind::Overwritten, access.label).other(by);
                self.report(hazard.within(access.space_label, range).on_queue(when.0));
            }
        }
    }
}
