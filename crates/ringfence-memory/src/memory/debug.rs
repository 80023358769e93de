//! What is looked for while the program runs, and what was found.

use std::sync::Arc;

use ringfence_core::range::Invalid;

use super::shared::Shared;
use crate::device::Device;
use crate::observe::debugging::{Finding, GuardCheck, Leak, Operation, Spot};

/// What an allocator's debugging has found: see [`debugging`](crate::debugging). Made by
/// [`Allocator::debug`](crate::Allocator::debug).
pub struct Debug<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> Debug<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// Compares the guards of every live range that has some, and mends those that were written: see
    /// [`debugging`](crate::debugging). O(live ranges); nothing without margins.
    #[must_use]
    pub fn check_guards(&self) -> GuardCheck {
        self.shared.debug.as_ref().map(|debug| debug.check_guards(&self.shared.device)).unwrap_or_default()
    }

    /// What is alive, by name and place of creation, what waits for the device too; nothing unless something is looked
    /// for ([`AllocatorDesc::debug`](crate::AllocatorDesc::debug)). O(live ranges).
    #[must_use]
    pub fn live(&self) -> Vec<Leak> {
        self.shared.debug.as_ref().map(|debug| debug.live()).unwrap_or_default()
    }

    /// What was found since the last call: overruns as they are found, leaks at [`Allocator::shutdown`](crate::Allocator::shutdown). The last 1024.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.shared.debug.as_ref().map(|debug| debug.take_findings()).unwrap_or_default()
    }

    /// What happened last, oldest first: as much as [`DebugDesc::history_count`](crate::DebugDesc::history_count) says.
    #[must_use]
    pub fn history(&self) -> Vec<Operation> {
        self.shared.debug.as_ref().map(|debug| debug.history(None)).unwrap_or_default()
    }

    /// Of what happened last what was about the byte at `spot`: who had it, from when to when. O(history).
    #[must_use]
    pub fn history_of(&self, spot: Spot) -> Vec<Operation> {
        self.shared.debug.as_ref().map(|debug| debug.history(Some(spot))).unwrap_or_default()
    }

    /// Checks every rule of the allocator's own structures. For tests; no other thread may use the allocator meanwhile.
    ///
    /// What threads share without a lock is between two states while one of them changes it, and nothing here holds them
    /// up: a sound allocator that is in use may be reported as unsound.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.shared.validate()
    }
}
