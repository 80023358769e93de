//! The state of a request across its steps: its constraints, what was tried, and why a step failed.
//!
//! ```text
//!   AllocationDesc ──▶ Attempt ── begin(type) ──▶ a step ──▶ served
//!                        ▲                          │
//!                        └──── what was tried ──────┴─▶ Failure, then(next) ──▶ the most informative one ──▶ Error
//! ```
//!
//! All operations are O(1).

use crate::budget::Reach;
use crate::device::DeviceError;
use crate::location::Location;
use crate::pressure::Tried;
use crate::refusals::ObjectKind;
use crate::request::AllocationDesc;

/// The steps that a request allows.
#[derive(Clone, Copy, Debug)]
pub struct Constraints {
    /// `true` if the request fails rather than exceed the budget.
    pub within_budget: bool,
    /// `true` if memory may be requested from the driver.
    pub may_grow: bool,
    /// `true` if empty blocks may be freed.
    pub may_trim: bool,
    /// `true` if a trim must keep the empty blocks that were created for announced allocations
    /// (`MemoryBudgets::reserve`), because the request is another announcement.
    pub spares_announced: bool,
    /// `true` if only a small window can serve the request.
    /// [`window_bytes_max`](crate::AllocatorDesc::window_bytes_max) then does not apply.
    pub beyond_window: bool,
    /// `true` to call the driver and to trim even if that has failed before.
    pub ignores_refusals: bool,
}

impl Constraints {
    /// Returns the limits that a memory object of the request may exceed. `is_last` is `true` for the last of the sizes
    /// that are tried: only this size may exceed a limit.
    #[must_use]
    pub fn reach(self, is_last: bool) -> Reach {
        Reach { beyond_budget: is_last && !self.within_budget, beyond_window: is_last && self.beyond_window }
    }
}

/// A memory object to be requested from the driver.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRequest {
    /// The memory type.
    pub memory_type: u32,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// Purpose of the object.
    pub kind: ObjectKind,
    /// The limits that the object may exceed.
    pub reach: Reach,
}

impl ObjectRequest {
    /// Returns the request for a block.
    #[must_use]
    pub fn block(memory_type: u32, bytes: u64, reach: Reach) -> Self {
        Self { memory_type, bytes, kind: ObjectKind::Block, reach }
    }

    /// Returns the request for dedicated memory.
    #[must_use]
    pub fn dedicated(memory_type: u32, bytes: u64, reach: Reach) -> Self {
        Self { memory_type, bytes, kind: ObjectKind::Dedicated, reach }
    }
}

/// The reason why a step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The driver failed.
    Driver(DeviceError),
    /// The driver has refused this size or a smaller one before, so the driver was not called.
    Refused,
    /// The size exceeds the heap or the largest memory object.
    TooLarge {
        /// The limit, in bytes.
        max: u64,
    },
    /// The size exceeds the budget or a limit of the heap.
    OverBudget,
    /// The request forbids driver calls for memory.
    MayNotGrow,
    /// The pool has no room, and cannot get another block.
    PoolFull,
    /// No memory type is suitable.
    NoType,
}

impl Failure {
    /// Returns `true` if another step of the request may succeed.
    #[must_use]
    pub fn may_go_on(self) -> bool {
        match self {
            Self::Driver(error) => error.is_out_of_memory(),
            Self::Refused
            | Self::TooLarge { .. }
            | Self::OverBudget
            | Self::MayNotGrow
            | Self::PoolFull
            | Self::NoType => true,
        }
    }

    /// Returns `true` if the maximum number of memory objects is reached. All heaps share this maximum, so freeing
    /// memory of any heap may help.
    #[must_use]
    pub fn is_of_every_heap(self) -> bool {
        self == Self::Driver(DeviceError::TooManyObjects)
    }

    /// Returns `true` if memory was short, so the eviction callback may help.
    #[must_use]
    pub fn is_shortage(self) -> bool {
        matches!(self, Self::Driver(_) | Self::Refused | Self::OverBudget)
    }

    /// Returns the more informative of two consecutive failures of a request. A failure of a heap that is large enough
    /// is more informative than `TooLarge`, and than an earlier `NoType`. If neither failure is more informative,
    /// returns `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::NoType, _) | (Self::TooLarge { .. }, _) => next,
            (_, Self::TooLarge { .. }) => self,
            _ => next,
        }
    }
}

/// The state of a request across its steps.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Size of the request, in bytes.
    pub size: u64,
    /// Location of the request.
    pub location: Location,
    /// Memory types that the request allows: bit n for type n.
    pub memory_type_bits: u32,
    /// The steps that the request allows.
    pub constraints: Constraints,
    /// The steps that were tried.
    pub tried: Tried,
    /// Memory types that were tried: bit n for type n.
    pub tried_type_bits: u32,
    /// The memory type that was tried first.
    pub best: Option<u32>,
    /// `true` if a trim released memory, even if this memory is in blocks that are still in use.
    pub has_released: bool,
    /// `true` if a driver call or a trim was skipped because an equal one had failed before.
    pub was_spared: bool,
}

impl Attempt {
    /// Creates the state of a request before its first step.
    #[inline]
    #[must_use]
    pub fn new(size: u64, memory_type_bits: u32, desc: &AllocationDesc<'_>) -> Self {
        let AllocationDesc { location, within_budget, never_grow, .. } = *desc;
        let constraints = Constraints {
            within_budget,
            may_grow: !never_grow,
            may_trim: true,
            spares_announced: false,
            beyond_window: false,
            ignores_refusals: false,
        };
        Self {
            size,
            location,
            memory_type_bits,
            constraints,
            tried: Tried::empty(),
            tried_type_bits: 0,
            best: None,
            has_released: false,
            was_spared: false,
        }
    }

    /// Creates the state of a request that tries only this memory type, and calls the driver even if that has failed
    /// before.
    #[must_use]
    pub fn at(memory_type: u32, size: u64, desc: &AllocationDesc<'_>) -> Self {
        let mut attempt = Self::new(size, 1 << memory_type, desc);
        attempt.constraints.ignores_refusals = true;
        attempt.begin(memory_type);
        attempt
    }

    /// Records that a memory type is about to be tried.
    #[inline]
    pub fn begin(&mut self, memory_type: u32) {
        self.best.get_or_insert(memory_type);
        if self.tried_type_bits & !(1 << memory_type) != 0 {
            self.tried |= Tried::NEXT_TYPE;
        }
        self.tried_type_bits |= 1 << memory_type;
    }
}

#[cfg(test)]
mod tests;
