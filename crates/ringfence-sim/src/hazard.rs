//! What the simulated device found wrong with the program that drives it.

use super::ids::{Fence, Label, What};
use std::fmt;
use std::ops::Range;

/// A mistake of the program: what was used, by which work, and which work should have been waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hazard {
    /// The kind of mistake.
    pub kind: HazardKind,
    /// The object that was misused.
    pub resource: Label,
    /// The other object, where two are in conflict.
    pub other: Option<Label>,
    /// The memory that the object lies in, if it lies in any.
    pub memory: Option<Label>,
    /// Bytes of that memory (slots of a descriptor heap).
    pub range: Range<u64>,
    /// The work that was still using it.
    pub pending: Option<PendingWork>,
    /// The queue whose new work is in conflict.
    pub queue: Option<usize>,
    /// What is wrong, where the kind alone does not say it; else empty.
    pub detail: &'static str,
}

/// Work that was submitted and that the host does not know to have completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingWork {
    /// Its queue.
    pub queue: usize,
    /// The fence that it signals …
    pub fence: Fence,
    /// … and the value: the sync point that should have been waited for.
    pub value: u64,
    /// Whether it writes what it uses.
    pub writes: bool,
}

/// The kinds of [`Hazard`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HazardKind {
    /// Memory was unmapped and freed while pending work uses it.
    FreedWhilePending,
    /// An object was destroyed while pending work uses it.
    DestroyedWhilePending,
    /// The host wrote what pending work reads or writes.
    HostWriteWhilePending,
    /// The host read what pending work writes.
    ReadBackWhilePending,
    /// A resource was placed where pending work still uses what lay there.
    PlacedWhilePending,
    /// Memory was evicted while pending work uses it.
    EvictedWhilePending,
    /// Work was submitted that uses evicted memory.
    UsedWhileEvicted,
    /// A descriptor was overwritten while pending work uses it.
    DescriptorWhilePending,
    /// Work of two queues uses the same bytes, one of them writes, and nothing orders them.
    QueueConflict,
    /// Two commands of one submission use the same bytes, one of them writes, and no barrier keeps them apart.
    MissingBarrier,
    /// A resource was read where another one, which shares its bytes, has been written over its contents since.
    Overwritten,
    /// A resource was placed over another that is alive, and their sharing of bytes was not declared.
    Overlap,
    /// A buffer and a texture lie closer than `class_granularity_bytes`.
    TooClose,
    /// Memory was freed while a resource still lies in it.
    FreedUnderResource,
    /// An object was used that is destroyed, freed, or was never made.
    Stale,
    /// A range reaches beyond its object.
    OutOfRange,
    /// An offset, a size or a row is not aligned as the device demands.
    Unaligned,
    /// A queue of one family used what is another family's.
    NotOwned,
    /// A fence was signalled with a value that is not above the one that it had.
    FenceNotRising,
    /// Any other rule of the device was broken; the detail names it.
    Misuse,
}

impl HazardKind {
    /// The sentence about the object: what was done to it.
    const fn deed(self) -> &'static str {
        match self {
            Self::FreedWhilePending => "was unmapped and freed",
            Self::DestroyedWhilePending => "was destroyed",
            Self::HostWriteWhilePending => "was written by the host",
            Self::ReadBackWhilePending => "was read by the host",
            Self::PlacedWhilePending => "was taken by a new resource",
            Self::EvictedWhilePending => "was evicted",
            Self::UsedWhileEvicted => "was used by work, but is evicted",
            Self::DescriptorWhilePending => "was overwritten by the host",
            Self::QueueConflict => "was used by two queues that nothing orders",
            Self::MissingBarrier => "was used without a barrier behind an earlier use",
            Self::Overwritten => "was read, but another resource was written over its contents",
            Self::Overlap => "was placed over a resource that is alive",
            Self::TooClose => "was placed too close to a resource of another class",
            Self::FreedUnderResource => "was freed while a resource lies in it",
            Self::Stale => "was used, but is not alive",
            Self::OutOfRange => "was used beyond its end",
            Self::Unaligned => "was used at an offset that is not aligned",
            Self::NotOwned => "was used by a queue family that does not own it",
            Self::FenceNotRising => "was signalled with a value that does not rise",
            Self::Misuse => "was misused",
        }
    }
}

impl Hazard {
    /// A hazard about `resource` of which nothing more is known yet.
    pub(super) const fn about(kind: HazardKind, resource: Label) -> Self {
        Self { kind, resource, other: None, memory: None, range: 0..0, pending: None, queue: None, detail: "" }
    }

    pub(super) fn detail(self, detail: &'static str) -> Self {
        Self { detail, ..self }
    }

    pub(super) fn other(self, other: Label) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Where in which memory.
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
        write!(f, "while work on queue {queue} may still {verb} it; {fence} was to reach {value} first")
    }
}
