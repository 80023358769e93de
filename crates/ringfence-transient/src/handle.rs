//! The handle of a transient resource.

use std::fmt;
use std::marker::PhantomData;

use super::pass::TransientId;
use crate::device::{Buffers, Textures};

/// Handle of a transient resource, for the execution that acquired the resource. The handle is stale after the next
/// execution begins, and after [`TransientAllocator::trim`](super::TransientAllocator::trim).
pub struct Transient<K> {
    pub(super) owner: u32,
    pub(super) object: u32,
    pub(super) execution: u64,
    /// Number of the acquire.
    pub(super) acquire: u32,
    /// The generation of the object's number.
    pub(super) generation: u32,
    pub(super) kind: PhantomData<K>,
}

/// A transient buffer. See [`Transient`].
pub type TransientBuffer = Transient<Buffers>;
/// A transient texture. See [`Transient`].
pub type TransientTexture = Transient<Textures>;

impl<K> Transient<K> {
    /// Returns the id of the driver's object, as in barriers. No other object of the process ever has this id.
    #[must_use]
    pub fn id(self) -> TransientId {
        TransientId { owner: self.owner, object: self.object, generation: self.generation }
    }
}

impl<K> Clone for Transient<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Transient<K> {}

impl<K> PartialEq for Transient<K> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |handle: &Self| (handle.owner, handle.object, handle.execution, handle.acquire);
        parts(self) == parts(other)
    }
}

impl<K> Eq for Transient<K> {}

impl<K> fmt::Debug for Transient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transient({} of execution {})", self.object, self.execution)
    }
}
