//! Whether the commands of a submission are kept apart by barriers, as on devices where commands overlap.
//!
//! ```text
//!   kernel writes X   UnorderedAccess   kernel writes X      ordered
//!   kernel writes X                     kernel writes X      hazard: both may run at once
//!   kernel writes X   UnorderedAccess   kernel writes Y      hazard if X and Y share bytes: that takes Aliasing, or All
//! ```
//!
//! Watched only if [`SimOptions::watches_barriers`](super::SimOptions::watches_barriers) says so: this device itself
//! runs the commands of a queue one after the other. The end of a submission is a barrier of every kind, as between two
//! calls of `ExecuteCommandLists`.

use super::command::{Barrier, Resource};
use super::hazard::{Hazard, HazardKind};
use super::order::Access;
use super::state::State;
use std::collections::BTreeSet;

/// How a command uses bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// Through a kernel: in no order with others.
    Kernel,
    /// A copy or a fill: those of one resource are in their order.
    Copy,
}

/// A use earlier in the submission, and what keeps it apart from those to come.
#[derive(Debug)]
struct Past {
    access: Access,
    how: How,
    /// From kernels of the same resource.
    is_flushed: bool,
    /// From every use of the same resource.
    is_changed: bool,
    /// From these resources.
    taken_over_by: Vec<u64>,
    /// The uses that were over before this one began, by their place.
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

/// The uses of a submission so far that later ones may overlap with.
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

    /// The uses that are over before this one begins: those that a barrier keeps apart from it, and those that were
    /// over before one of them began.
    fn behind(&self, access: &Access, how: How) -> BTreeSet<usize> {
        let apart = self.0.iter().enumerate().filter(|(_, past)| past.is_apart_from(access, how));
        apart.flat_map(|(at, past)| past.behind.iter().copied().chain([at])).collect()
    }

    /// The use before that this one overlaps with, if there is one that nothing keeps apart.
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
    /// Looks at the uses of one command, which come behind all in `overlaps`.
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
