//! Hazards: mistakes of the program that the simulated device finds.

use super::ids::{Fence, Label, What};
use std::fmt;
use std::ops::Range;

/// A mistake of the program: the misused object, the work that uses it, and the sync point that the program should have
/// waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hazard {
    /// The kind of mistake.
    pub kind: HazardKind,
    /// The object that was misused.
    pub resource: Label,
    /// The second object, if two objects conflict.
    pub other: Option<Label>,
    /// The memory or descriptor heap that is affected; `None` if the hazard is not about a range.
    pub memory: Option<Label>,
    /// Affected range of `memory`, in bytes (of a descriptor heap, in slots). Empty if `memory` is `None`.
    pub range: Range<u64>,
    /// The pending work that still uses the object.
    pub pending: Option<PendingWork>,
    /// The queue of the work that caused the hazard; `None` if the host caused it.
    pub queue: Option<usize>,
    /// Further explanation; empty if the kind says enough.
    pub detail: &'static str,
}

/// Submitted work that may still run, as far as the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingWork {
    /// The queue of the work.
    pub queue: usize,
    /// The fence that the work signals.
    pub fence: Fence,
    /// The value that the work signals. The program must wait until `fence` reaches this value.
    pub value: u64,
    /// `true` if the work writes the object.
    pub writes: bool,
}

/// The kinds of [`Hazard`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HazardKind {
    /// Memory was freed, which also unmaps it, while pending work uses it.
    FreedWhilePending,
    /// An object was destroyed or recycled while pending work uses it.
    DestroyedWhilePending,
    /// The host wrote bytes that pending work reads or writes.
    HostWriteWhilePending,
    /// The host read bytes that pending work writes.
    ReadBackWhilePending,
    /// A resource was placed in memory while pending work still uses the previous contents.
    PlacedWhilePending,
    /// Memory was evicted while pending work uses it.
    EvictedWhilePending,
    /// Work was submitted that uses evicted memory.
    UsedWhileEvicted,
    /// A descriptor was overwritten while pending work uses it.
    DescriptorWhilePending,
    /// Two queues use the same bytes, at least one of them writes, and no fence orders the work.
    QueueConflict,
    /// Two commands of one submission use the same bytes, at least one of them writes, and no barrier separates them.
    MissingBarrier,
    /// A resource was read after its contents were overwritten through another resource with the same bytes.
    Overwritten,
    /// A resource was placed over a live resource, although the program did not declare that the two share bytes.
    Overlap,
    /// A buffer and a texture are in the same page of `class_granularity_bytes` bytes.
    TooClose,
    /// Memory was freed while it still contains a resource.
    FreedUnderResource,
    /// An object was used that is destroyed, freed, not placed, or was never created.
    Stale,
    /// A range extends beyond the end of its object, or a descriptor slot does not exist or is empty.
    OutOfRange,
    /// An offset, a size or a row does not have the alignment that the device requires.
    Unaligned,
    /// A queue used a resource that another queue family owns.
    NotOwned,
    /// A fence was signalled with a value that is not larger than its current value.
    FenceNotRising,
    /// Any other rule of the device was broken; `detail` names it.
    Misuse,
}

impl HazardKind {
    /// Returns the predicate of the hazard's message, which follows the name of the object.
    const fn deed(self) -> &'static str {
        match self {
            Self::FreedWhilePending => "was unmapped and freed",
            Self::DestroyedWhilePending => "was destroyed",
            Self::HostWriteWhilePending => "was written by the host",
            Self::ReadBackWhilePending => "was read by the host",
            Self::PlacedWhilePending => "was replaced by a new resource",
            Self::EvictedWhilePending => "was evicted",
            Self::UsedWhileEvicted => "was used by work, but is evicted",
            Self::DescriptorWhilePending => "was overwritten by the host",
            Self::QueueConflict => "was used by two queues that no fence orders",
            Self::MissingBarrier => "was used without a barrier after an earlier use",
            Self::Overwritten => "was read, but another resource was written over its contents",
            Self::Overlap => "was placed over a live resource",
            Self::TooClose => "was placed too close to a resource of another class",
            Self::FreedUnderResource => "was freed while a resource is placed in it",
            Self::Stale => "was used, but is not alive",
            Self::OutOfRange => "was used beyond its end",
            Self::Unaligned => "was used at an offset that is not aligned",
            Self::NotOwned => "was used by a queue family that does not own it",
            Self::FenceNotRising => "was signalled with a value that is not above its current one",
            Self::Misuse => "was misused",
        }
    }
}

impl Hazard {
    /// Returns a hazard of this kind about `resource`. All other fields are empty.
    pub(super) const fn about(kind: HazardKind, resource: Label) -> Self {
        Self { kind, resource, other: None, memory: None, range: 0..0, pending: None, queue: None, detail: "" }
    }

    pub(super) fn detail(self, detail: &'static str) -> Self {
        Self { detail, ..self }
    }

    pub(super) fn other(self, other: Label) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Sets the memory of the object, and the affected range of the memory.
    pub(super) fn within(self, memory: Label, range: Range<u64>) -> Self {
        Self { memory: Some(memory), range, ..self }
    }

    pub(super) fn pending(self, pending: PendingWork) -> Self {
        Self { pending: Some(pending), ..self }
    }

    pub(super) fn on_queue(self, queue: usize) -> Self {
        Self { queue: Some(queue), ..self }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if let Some(memory) = &self.memory {
            let unit = if memory.what == What::DescriptorHeap { "slots" } else { "bytes" };
            write!(f, " ({unit} {}..{} of {memory})", self.range.start, self.range.end)?;
        }
        write!(f, " {}", self.kind.deed())?;
        if let Some(other) = &self.other {
            write!(f, ": {other}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if let Some(queue) = self.queue {
            write!(f, ", by work on queue {queue}")?;
        }
        match &self.pending {
            Some(pending) => write!(f, ", {pending}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, fence, value, writes } = self;
        let verb = if *writes { "write" } else { "read" };
        write!(f, "while work on queue {queue} may still {verb} it; wait until {fence} reaches {value}")
    }
}
