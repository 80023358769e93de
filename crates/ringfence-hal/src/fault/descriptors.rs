//! Descriptors through the fault injector. Calls that create a heap, describe or write a view, or bind a heap can be
//! made to fail; the other calls are forwarded.

use super::{Call, FaultInjector};
use crate::DeviceError;
use crate::descriptors::{
    DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart, PortableView, ViewCopy, ViewTypes,
};

// SAFETY: calls that do not fail are forwarded. Heaps and slots belong to the inner device, which upholds the trait.
unsafe impl<D: Descriptors> Descriptors for FaultInjector<D> {
    type Heap = D::Heap;
    type Bound = D::Bound;
    type View<'a> = D::View<'a>;
    type Leftover = D::Leftover;

    forward! {
        fn descriptor_support(&self) -> DescriptorSupport;
        fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32;
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

    forward! {
        #[fails(MakeHeap)]
        fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(D::Heap, HeapStart), DeviceError>;
        unsafe fn destroy_heap(&self, heap: D::Heap);
        #[fails(WriteView)]
        unsafe fn write_view(
            &self,
            heap: &D::Heap,
            slot: u32,
            view: &D::View<'_>,
        ) -> Result<Option<D::Leftover>, DeviceError>;
        unsafe fn clear_view(&self, heap: &D::Heap, slot: u32) -> Option<D::Leftover>;
        unsafe fn copy_views(&self, copies: &[ViewCopy<'_, D::Heap>]);
        #[fails(BindHeap)]
        unsafe fn bind_heap(&self, heap: &D::Heap) -> Result<D::Bound, DeviceError>;
        unsafe fn unbind_heap(&self, heap: &D::Heap, bound: D::Bound);
        unsafe fn discard_leftover(&self, leftover: D::Leftover);
    }
}
