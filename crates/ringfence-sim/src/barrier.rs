//! Check of the barriers between the commands of one submission, for programs that must run on devices that overlap
//! commands.
//!
//! ```text
//!   kernel writes X   UnorderedAccess   kernel writes X      ordered
//!   kernel writes X                     kernel writes X      hazard: both may run at once
//!   kernel writes X   UnorderedAccess   kernel writes Y      hazard if X and Y share bytes: use Aliasing or All
//! ```
//!
//! Enabled by [`SimOptions::watches_barriers`](super::SimOptions::watches_barriers). Without this check, missing
//! barriers stay unnoticed, because this device runs the commands of a queue one after the other. The end of a
//! submission acts as every kind of barrier, as between two calls of `ExecuteCommandLists`.

use super::command::{Barrier, Resource};
use super::hazard::{Hazard, HazardKind};
use super::order::Access;
use super::state::State;
use std::collections::BTreeSet;

/// Way in which a command uses bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// By a kernel. Only barriers order a kernel with other commands.
    Kernel,
    /// By a copy or a fill. Copies and fills of one resource run in the order of their commands.
    Copy,
}

/// An earlier use in the submission. The fields say from which later uses barriers have separated it.
#[derive(Debug)]
struct Past {
    access: Access,
    how: How,
    /// `true` if this use is separated from later kernels that use the same resource. Has an effect only if this use is
    /// by a kernel.
    is_flushed: bool,
    /// `true` if this use is separated from every later use of the same resource.
    is_changed: bool,
    /// Numbers of the resources that an aliasing barrier has named as the next owners of the bytes. This use is
    /// separated from their later uses.
    taken_over_by: Vec<u64>,
    /// Indices of the uses that ended before this use began.
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

/// Earlier uses of a submission. Later uses may overlap them in time.
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

    /// Returns the indices of the uses that end before `access` begins:
    ///
    /// - each use that is separated from `access`, by a barrier or because both are copies or fills of one resource;
    /// - all uses that had ended before such a use began.
    fn behind(&self, access: &Access, how: How) -> BTreeSet<usize> {
        let apart = self.0.iter().enumerate().filter(|(_, past)| past.is_apart_from(access, how));
        apart.flat_map(|(at, past)| past.behind.iter().copied().chain([at])).collect()
    }

    /// Returns an earlier use of the same bytes that conflicts with `access`. Returns `None` if there is none. `behind`
    /// has the uses that end before `access` begins.
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
    /// Reports each use of one command that conflicts with an earlier use in `overlaps`. Then adds the uses of the
    /// command to `overlaps`.
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
