//! Descriptors through the fault injector: making a heap, describing and writing a view and binding can fail; the rest
//! is passed on.

use super::{Call, FaultInjector};
use crate::DeviceError;
use crate::descriptors::{
    DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart, PortableView, ViewCopy, ViewTypes,
};

// SAFETY: each call that is not made to fail is forwarded: heaps and slots are the inner device's, which upholds the
// trait.
unsafe impl<D: Descriptors> Descriptors for FaultInjector<D> {
    type Heap = D::Heap;
    type Bound = D::Bound;
    type View<'a> = D::View<'a>;
    type Leftover = D::Leftover;

    fn descriptor_support(&self) -> DescriptorSupport {
        self.inner.descriptor_support()
    }

    fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32 {
        self.inner.visible_slots_max(kind, types)
    }

    fn describe_view<'a>(&self, view: &PortableView<'a, Self>) -> Result<D::View<'a>, DeviceError> {
        self.pass(Call::DescribeView, None)?;
        self.inner.describe_view(&match view {
            PortableView::Buffer { object, desc, view } => {
                PortableView::Buffer { object: *object, desc: *desc, view: *view }
            }
            PortableView::Texture { object, desc, view } => {
                PortableView::Texture { object: *object, desc: *desc, view: view.clone() }
            }
            PortableView::Sampler(desc) => PortableView::Sampler(*desc),
        })
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(D::Heap, HeapStart), DeviceError> {
        self.pass(Call::MakeHeap, None)?;
        self.inner.make_heap(desc)
    }

    unsafe fn destroy_heap(&self, heap: D::Heap) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.destroy_heap(heap) }
    }

    unsafe fn write_view(
        &self,
        heap: &D::Heap,
        slot: u32,
        view: &D::View<'_>,
    ) -> Result<Option<D::Leftover>, DeviceError> {
        self.pass(Call::WriteView, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.write_view(heap, slot, view) }
    }

    unsafe fn clear_view(&self, heap: &D::Heap, slot: u32) -> Option<D::Leftover> {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.clear_view(heap, slot) }
    }

    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, D::Heap>]) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.copy_views(copies) }
    }

    unsafe fn bind_heap(&self, heap: &D::Heap) -> Result<D::Bound, DeviceError> {
        self.pass(Call::BindHeap, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.bind_heap(heap) }
    }

    unsafe fn unbind_heap(&self, heap: &D::Heap, bound: D::Bound) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.unbind_heap(heap, bound) }
    }

    unsafe fn discard_leftover(&self, leftover: D::Leftover) {
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.discard_leftover(leftover) }
    }
}
