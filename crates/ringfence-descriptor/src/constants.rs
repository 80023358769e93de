//! Views of constants: each slot of a pool of constants has a view in a CPU-only heap.
//!
//! ```text
//!   ConstantBuffers   pool   │ slot 0 │ slot 1 │ slot 2 │ …        one buffer
//!                               ▲        ▲        ▲
//!   CpuDescriptorHeap run    │ view 0 │ view 1 │ view 2 │ …        written once, with the pool
//!                                        └ ConstantView ── source() ──▶ FrameDescriptors::table, Persistent::copy
//! ```
//!
//! Pass the [`CpuDescriptorHeap`], or a clone of it, to
//! [`ConstantBuffers::new`](ringfence_upload::ConstantBuffers::new). Bound constants then have a [`ConstantView`]. The
//! views are released with their pool, or later if a [`ConstantView`] is still alive. The view of dynamic constants is
//! valid for the frame that bound them: the pool's buffer lives until that frame is complete, even if the pool grows or
//! shrinks.
//!
//! | operation | cost |
//! |---|---|
//! | create a pool | one run of CPU-only slots, and one driver call for each slot |
//! | get the view of a slot | one reference count; no driver call |

use std::fmt;
use std::sync::Arc;

use super::{CpuDescriptorHeap, CpuDescriptors, TableSource, View};
use crate::device::descriptors::{BufferView, BufferViewKind, CpuHandle, Descriptors};
use ringfence_memory::{Buffer, Error};
use ringfence_upload::ConstantViews;

/// The CPU-only descriptor of a slot of constants.
pub struct ConstantView<D: Descriptors> {
    run: Arc<CpuDescriptors<D>>,
    slot: u32,
}

impl<D: Descriptors> ConstantView<D> {
    /// Returns the descriptor, as a source for a table.
    #[must_use]
    pub fn source(&self) -> TableSource<'_, D> {
        self.run.part(self.slot..self.slot + 1).expect("every slot has a view")
    }

    /// Returns the host's handle of the descriptor.
    #[must_use]
    pub fn cpu_handle(&self) -> CpuHandle {
        self.run.cpu_handle(self.slot)
    }
}

impl<D: Descriptors> Clone for ConstantView<D> {
    fn clone(&self) -> Self {
        Self { run: Arc::clone(&self.run), slot: self.slot }
    }
}

impl<D: Descriptors> PartialEq for ConstantView<D> {
    /// Returns `true` if both are views of the same slot.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.run, &other.run) && self.slot == other.slot
    }
}

impl<D: Descriptors> fmt::Debug for ConstantView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConstantView({} of {:?})", self.slot, self.run)
    }
}

impl<D: Descriptors> ConstantViews<D> for CpuDescriptorHeap<D> {
    type Heap = Arc<CpuDescriptors<D>>;
    type View = ConstantView<D>;

    /// Creates a run with a view of each slot of the pool.
    ///
    /// # Errors
    /// - The heap is not a heap of resources, does not support views of constants, or belongs to another allocator.
    /// - The heap cannot allocate `slot_count` slots.
    /// - The pool was created without the usage for constants.
    fn make(&self, pool: &Buffer<D>, slot_bytes: u64, slot_count: u32) -> Result<Self::Heap, Error> {
        let mut run = self.allocate(slot_count)?;
        for slot in 0..slot_count {
            let (offset, size) = (u64::from(slot) * slot_bytes, slot_bytes);
            let view = BufferView { kind: BufferViewKind::Constants, offset, size };
            run.write(slot, &View::buffer(pool, view)?)?;
        }
        Ok(Arc::new(run))
    }

    fn view(&self, heap: &Self::Heap, slot: u32) -> ConstantView<D> {
        ConstantView { run: Arc::clone(heap), slot }
    }
}
