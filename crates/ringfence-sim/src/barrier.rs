//! Check of the barriers between commands of a submission, for programs that must run on devices where commands
//! overlap.
//!
//! ```text
//!   kernel writes X   UnorderedAccess   kernel writes X      ordered
//!   kernel writes X                     kernel writes X      hazard: both may run at once
//!   kernel writes X   UnorderedAccess   kernel writes Y      hazard if X and Y share bytes: use Aliasing or All
//! ```
//!
//! Done only with [`SimOptions::watches_barriers`](super::SimOptions::watches_barriers), because this device runs the
//! commands of a queue one after the other. The end of a submission acts as every kind of barrier, as between two calls
//! of `ExecuteCommandLists`.

use super::command::{Barrier, Resource};
use super::hazard::{Hazard, HazardKind};
use super::order::Access;
use super::state::State;
use std::collections::BTreeSet;

/// The way in which a command uses bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// Through a kernel, which is not ordered with other commands.
    Kernel,
    /// Through a copy or a fill. Those of one resource run in their order.
    Copy,
}

/// An earlier use in the submission, and the later uses that barriers separate it from.
#[derive(Debug)]
struct Past {
    access: Access,
    how: How,
    /// Separated from later kernels that use the same resource.
    is_flushed: bool,
    /// Separated from every later use of the same resource.
    is_changed: bool,
    /// Separated from later uses of these resources.
    taken_over_by: Vec<u64>,
    /// Indices of the uses that ended before this one began.
    behind: BTreeSet<usize>,
}

impl Past {
    fn is_of(&self, resource: Option<Resource>) -> bool {
        resource.is_none_or(|resource| self.access.label.id == resource.id())
    }

    fn is_apart_from(&self, access: &Access, how: How) -> bool {
        let after = access.label.id;
        if self.access.label.id != after {
            return self.taken_over_by.contains(&after);
        }
        match (self.how, how) {
            (How::Kernel, How::Kernel) => self.is_flushed || self.is_changed,
            (How::Copy, How::Copy) => true,
            _ => self.is_changed,
        }
    }
}

/// Earlier uses of a submission that later ones may overlap.
#[derive(Debug, Default)]
pub(super) struct Overlaps(Vec<Past>);

impl Overlaps {
    pub(super) fn barrier(&mut self, barrier: Barrier) {
        match barrier {
            Barrier::All => self.0.clear(),
            Barrier::UnorderedAccess(resource) => {
                self.0.iter_mut().filter(|past| past.is_of(resource)).for_each(|past| past.is_flushed = true);
            }
            Barrier::Aliasing { before, after } => {
                let over = self.0.iter_mut().filter(|past| past.is_of(before));
                over.for_each(|past| past.taken_over_by.push(after.id()));
            }
            Barrier::Transition(resource) => {
                self.0.iter_mut().filter(|past| past.is_of(Some(resource))).for_each(|past| past.is_changed = true);
            }
        }
    }

    /// Returns the uses that have ended before this one begins: those that a barrier separates from it, and those that
    /// had ended before one of them began.
    fn behind(&self, access: &Access, how: How) -> BTreeSet<usize> {
        let apart = self.0.iter().enumerate().filter(|(_, past)| past.is_apart_from(access, how));
        apart.flat_map(|(at, past)| past.behind.iter().copied().chain([at])).collect()
    }

    /// Returns an earlier use that conflicts with this one, if no barrier separates them.
    fn clash(&self, access: &Access, behind: &BTreeSet<usize>) -> Option<&Access> {
        let clash = |(at, past): &(usize, &Past)| {
            let other = &past.access;
            let shares = other.space == access.space
                && other.range.start < access.range.end
                && access.range.start < other.range.end;
            shares && (other.writes || access.writes) && !behind.contains(at)
        };
        self.0.iter().enumerate().find(clash).map(|(_, past)| &past.access)
    }
}

impl State {
    /// Checks the uses of one command against all earlier uses in `overlaps`, and adds them.
    pub(super) fn watch_overlaps(&mut self, overlaps: &mut Overlaps, uses: &[Access], how: How) {
        let behind: Vec<_> = uses.iter().map(|access| overlaps.behind(access, how)).collect();
        for (access, behind) in uses.iter().zip(&behind) {
            let Some(other) = overlaps.clash(access, behind) else { continue };
            let common = access.range.start.max(other.range.start)..access.range.end.min(other.range.end);
            let hazard = Hazard::about(HazardKind::MissingBarrier, access.label.clone()).other(other.label.clone());
            self.report(hazard.within(access.space_label.clone(), common));
        }
        overlaps.0.extend(uses.iter().zip(behind).map(|(access, behind)| Past {
            access: access.clone(),
            how,
            is_flushed: false,
            is_changed: false,
            taken_over_by: Vec::new(),
            behind,
        }));
    }
}
