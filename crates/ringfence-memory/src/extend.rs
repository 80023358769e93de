//! What libraries need that build on the allocator: rings, descriptor heaps, transient heaps and pools of `ringfence`
//! are made of it, and so may be yours.
//!
//! [`Allocator::shared`](crate::Allocator::shared) gives a [`Shared`]: the allocator without its handle. It lives as
//! long as anything that was made of it. What a reclaim has to visit registers itself: a [`ReclaimRing`] with
//! [`Shared::add_ring`], a [`ReclaimHeap`] with [`Shared::add_heap`], a [`RangeOwner`] with [`Shared::add_pool`].

pub use crate::memory::Made;
pub use crate::memory::Shared;
pub use crate::memory::descriptor_heaps::ReclaimHeap;
pub use crate::memory::place::{Backing, RangeOwner};
pub use crate::memory::rings::ReclaimRing;
pub use crate::memory::shortage::retry_after_eviction;
pub use crate::memory::{Memory, Place};
pub use crate::observe::unlocked::{Lock, drop_unlocked, is_locked};
pub use crate::resource::shared_alignment;
pub use crate::timeline::{OpenFrame, Passed, WaitError};

/// Atomics and cells that `loom` replaces in models.
#[doc(hidden)]
pub mod primitive {
    pub use crate::primitive::*;
}
