//! What a request allows, what was tried for it so far, and why a step failed.

use super::pressure::Tried;
use super::request::AllocationDesc;
use crate::device::DeviceError;

/// What a request allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) within_budget: bool,
    /// Whether the driver may be asked at all.
    pub(crate) may_grow: bool,
    pub(crate) may_trim: bool,
}

impl Terms {
    pub(crate) fn of(desc: &AllocationDesc<'_>) -> Self {
        Self { within_budget: desc.within_budget, may_grow: !desc.never_grow, may_trim: true }
    }
}

/// Why a step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Driver(DeviceError),
    OverBudget,
    MayNotGrow,
    PoolFull,
    NoType,
}

impl Refusal {
    /// Whether another step may succeed.
    pub(crate) fn may_go_on(self) -> bool {
        match self {
            Self::Driver(error) => error.is_out_of_memory(),
            Self::OverBudget | Self::MayNotGrow | Self::PoolFull | Self::NoType => true,
        }
    }
}

/// What was tried for a request so far.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Attempt {
    pub(crate) tried: Tried,
    pub(crate) types: u32,
    pub(crate) best: Option<u32>,
}

impl Attempt {
    /// At one memory type and no other.
    pub(crate) fn at(memory_type: u32) -> Self {
        Self { types: 1 << memory_type, best: Some(memory_type), ..Self::default() }
    }
}
