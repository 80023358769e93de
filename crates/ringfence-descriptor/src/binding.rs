//! The heaps that a command list uses, bound once at its beginning.

use std::fmt;
use std::sync::Arc;

use ringfence_core::sync::SyncPoint;
use smallvec::SmallVec;

use super::heap_state::{Core, HeapVersion, Retired};
use super::{DescriptorError, ShaderVisibleHeap};
use crate::device::descriptors::{Descriptors, HeapKind};
use ringfence_memory::lifetime::Frame;

/// The heaps of one command list: at most one heap of resources and one heap of samplers. They are chosen before the
/// list is recorded and cannot change later. `Binding::set` (features `vulkan` and `d3d12`) sets them on the driver's
/// list, once.
///
/// Drop the binding when the list is submitted or discarded. The heaps stay alive until the frame is complete.
#[must_use = "a command list sees no descriptors until the binding is set on it"]
pub struct Binding<D: Descriptors> {
    frame: SyncPoint,
    /// Number of the allocator that all heaps of the binding belong to.
    owner: Option<u32>,
    bound: SmallVec<[Bound<D>; 2]>,
    /// `true` if the binding was set on a list.
    is_set: bool,
}

/// One heap of a binding.
struct Bound<D: Descriptors> {
    core: Arc<Core<D>>,
    version: Arc<HeapVersion<D>>,
    raw: D::Bound,
}

impl<D: Descriptors> Binding<D> {
    pub(super) fn new(frame: &Frame) -> Self {
        Self { frame: frame.point(), owner: None, bound: SmallVec::new(), is_set: false }
    }

    /// Adds a heap of a kind that the binding does not have yet.
    ///
    /// # Errors
    /// - [`DescriptorError::AlreadyBound`] if the binding has a heap of this kind, or was already set on its list.
    /// - [`DescriptorError::Foreign`] if the heap belongs to another allocator than the binding.
    /// - The driver is out of memory.
    ///
    /// After an error, the heaps of the binding are released.
    pub fn and(mut self, heap: &ShaderVisibleHeap<D>) -> Result<Self, DescriptorError> {
        let kind = heap.kind();
        let owner = heap.heap_owner.shared.owner();
        if *self.owner.get_or_insert(owner) != owner {
            return Err(DescriptorError::Foreign);
        }
        if self.is_set || self.bound(kind).is_some() {
            return Err(DescriptorError::AlreadyBound { kind });
        }
        let core = Arc::clone(&heap.heap_owner.state.core);
        let version = Arc::clone(core.versions.read().of(self.frame));
        // SAFETY: the heap belongs to the device and is shader-visible.
        let raw = unsafe { heap.heap_owner.shared.device.bind_heap(version.heap.object()) }?;
        self.bound.push(Bound { core, version, raw });
        Ok(self)
    }

    /// Returns the device's object that the command list binds for the heap of this kind. Returns `None` if the binding
    /// has no heap of this kind.
    #[must_use]
    pub fn bound(&self, kind: HeapKind) -> Option<&D::Bound> {
        self.bound.iter().find(|bound| bound.core.kind == kind).map(|bound| &bound.raw)
    }

    /// Returns all objects that the command list binds, for the one call that sets them.
    ///
    /// # Errors
    /// [`DescriptorError::AlreadyBound`] if this function was called before, because a binding is set once.
    pub fn set_once(&mut self) -> Result<impl Iterator<Item = &D::Bound>, DescriptorError> {
        if std::mem::replace(&mut self.is_set, true) {
            let kind = self.bound.first().map_or(HeapKind::Resources, |bound| bound.core.kind);
            return Err(DescriptorError::AlreadyBound { kind });
        }
        Ok(self.bound.iter().map(|bound| &bound.raw))
    }
}

impl<D: Descriptors> Drop for Binding<D> {
    fn drop(&mut self) {
        for Bound { core, version, raw } in self.bound.drain(..) {
            core.waiting.retire(&self.frame.into(), Retired::Bound(version, raw));
        }
    }
}

impl<D: Descriptors> fmt::Debug for Binding<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.bound.iter().map(|bound| (bound.core.kind, &bound.raw));
        f.debug_map().entries(bound).finish()
    }
}
