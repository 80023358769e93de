//! The steps that a queue executes. They contain memory addresses, like recorded GPU work.

use super::command::{DescriptorUse, KernelFn};
use super::order::Access;

/// A memory object and an offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) memory: u64,
    pub(super) offset: u64,
}

impl Address {
    pub(super) fn of(access: &Access) -> Self {
        Self { memory: access.space, offset: access.range.start }
    }
}

/// Rows of equal size, at equal distances (`pitch`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) first: Address,
    pub(super) pitch: u64,
}

/// An operation that a queue executes as a whole.
pub(super) enum Step {
    Copy { src: Rows, dst: Rows, row_bytes: u64, rows: u64 },
    Fill { dst: Address, size: u64, value: u8 },
    Kernel { reads: Vec<Access>, writes: Vec<Access>, descriptors: Vec<DescriptorUse>, run: KernelFn },
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Copy { .. } => "Copy",
            Self::Fill { .. } => "Fill",
            Self::Kernel { .. } => "Kernel",
        })
    }
}

/// The accesses of a submission.
pub(super) type Uses = Vec<Access>;
