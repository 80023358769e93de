//! Descriptor heaps of Direct3D 12.
//!
//! ```text
//!   HeapKind        ID3D12DescriptorHeap      null descriptor
//!   Resources       CBV_SRV_UAV               of the slot's last kind: reads as zeros
//!   Samplers        SAMPLER                   none in the API; instead, a sampler with nearest filters, clamped
//!   RenderTargets   RTV, CPU-only             RTV of no texture: what is drawn is lost
//!   DepthStencils   DSV, CPU-only             DSV of no texture
//! ```
//!
//! A slot is a range of bytes in the driver's memory; it owns no object. If the runtime supports the query, the device
//! reports the maximum number of slots of a shader-visible heap. Otherwise the maximum is:
//!
//! - for views: 1,000,000 up to resource binding tier 2; as many as fit into the driver's memory at tier 3;
//! - for samplers: 2,048.
//!
//! See [`Features`](super::Features).

mod null;
mod view;

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::*;

use super::device::{Device, name_object};
use super::error;
use null::ViewKinds;
use ringfence_hal::descriptors::{
    BufferViewKind, CpuHandle, DescriptorModel, DescriptorSupport, Descriptors, GpuHandle, HeapDesc, HeapKind,
    HeapStart, PortableView, ViewCopy, ViewTypes,
};
use ringfence_hal::{DeviceError, Driver};
pub use view::View;

/// A descriptor heap of the driver. Clones refer to the same heap.
#[derive(Clone, Debug)]
pub struct DescriptorHeap {
    raw: ID3D12DescriptorHeap,
    kind: HeapKind,
    /// CPU address of the first slot.
    start: usize,
    increment: usize,
    view_kinds: ViewKinds,
}

impl DescriptorHeap {
    /// Returns the driver's heap.
    #[must_use]
    pub fn raw(&self) -> &ID3D12DescriptorHeap {
        &self.raw
    }

    fn handle(&self, slot: u32) -> D3D12_CPU_DESCRIPTOR_HANDLE {
        D3D12_CPU_DESCRIPTOR_HANDLE { ptr: self.start + slot as usize * self.increment }
    }
}

/// Converts a slot's CPU handle to the API's type.
#[must_use]
pub const fn cpu_handle(handle: CpuHandle) -> D3D12_CPU_DESCRIPTOR_HANDLE {
    D3D12_CPU_DESCRIPTOR_HANDLE { ptr: handle.0 as usize }
}

/// Converts a slot's GPU handle to the API's type, for command lists.
#[must_use]
pub const fn gpu_handle(handle: GpuHandle) -> D3D12_GPU_DESCRIPTOR_HANDLE {
    D3D12_GPU_DESCRIPTOR_HANDLE { ptr: handle.0 }
}

fn heap_type(kind: HeapKind) -> D3D12_DESCRIPTOR_HEAP_TYPE {
    match kind {
        HeapKind::Resources => D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV,
        HeapKind::Samplers => D3D12_DESCRIPTOR_HEAP_TYPE_SAMPLER,
        HeapKind::RenderTargets => D3D12_DESCRIPTOR_HEAP_TYPE_RTV,
        HeapKind::DepthStencils => D3D12_DESCRIPTOR_HEAP_TYPE_DSV,
    }
}

// SAFETY: the driver has returned each heap with success, and all handles are inside their heap.
unsafe impl Descriptors for Device {
    type Heap = DescriptorHeap;
    type Bound = DescriptorHeap;
    type View<'a> = View;
    type Leftover = std::convert::Infallible;

    fn descriptor_support(&self) -> DescriptorSupport {
        DescriptorSupport {
            model: DescriptorModel::Heaps,
            constant_alignment: D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT.into(),
            storage_alignment: D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT.into(),
            texel_alignment: 16,
            constant_bytes_max: u64::from(D3D12_REQ_CONSTANT_BUFFER_ELEMENT_COUNT) * 16,
            // The API limits the number of elements, not of bytes.
            storage_bytes_max: self.capabilities().memory_object_bytes_max,
            storage_elements_max: 1 << D3D12_REQ_BUFFER_RESOURCE_TEXEL_COUNT_2_TO_EXP,
            texel_elements_max: 1 << D3D12_REQ_BUFFER_RESOURCE_TEXEL_COUNT_2_TO_EXP,
            slots_own_objects: false,
            anisotropy_max: D3D12_REQ_MAXANISOTROPY as u8,
        }
    }

    fn visible_slots_max(&self, kind: HeapKind, _: ViewTypes) -> u32 {
        match kind {
            HeapKind::Resources => self.features().view_slots_max,
            HeapKind::Samplers => self.features().sampler_slots_max,
            HeapKind::RenderTargets | HeapKind::DepthStencils => 0,
        }
    }

    fn describe_view<'a>(&self, portable: &PortableView<'a, Self>) -> Result<View, DeviceError> {
        if let PortableView::Buffer { view, .. } = portable
            && let BufferViewKind::Texels { format, writes } = view.kind
        {
            self.check_texels(format, writes)?;
        }
        if let PortableView::Texture { desc, view, .. } = portable
            && view.format_in(desc) != desc.format
        {
            self.supported_uses(view.format_in(desc)).check(view.kind.usage(), desc.samples)?;
        }
        view::describe(portable)
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(DescriptorHeap, HeapStart), DeviceError> {
        DeviceError::invalid("a heap must have at least one slot").at_least(desc.slots.into(), 1)?;
        let (kind, of_type) = (desc.kind, heap_type(desc.kind));
        let flags = if desc.shader_visible {
            D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE
        } else {
            D3D12_DESCRIPTOR_HEAP_FLAG_NONE
        };
        let info = D3D12_DESCRIPTOR_HEAP_DESC { Type: of_type, NumDescriptors: desc.slots, Flags: flags, NodeMask: 0 };
        // SAFETY: the description lives through the call.
        let made = unsafe { self.raw().CreateDescriptorHeap::<ID3D12DescriptorHeap>(&info) };
        let raw = made.map_err(error::failed(error::call!(
            "ID3D12Device::CreateDescriptorHeap",
            "the description of a descriptor heap"
        )))?;
        name_object(&raw, desc.name);
        // SAFETY: the objects are alive. The GPU handle is requested only if the heap is shader-visible.
        let (start, increment, gpu) = unsafe {
            let gpu = desc.shader_visible.then(|| raw.GetGPUDescriptorHandleForHeapStart().ptr);
            let increment = self.raw().GetDescriptorHandleIncrementSize(of_type);
            (raw.GetCPUDescriptorHandleForHeapStart().ptr, increment as usize, gpu)
        };
        let at = HeapStart { cpu: start as u64, gpu, increment: increment as u64 };
        let view_kinds = ViewKinds::new(if kind == HeapKind::Resources { desc.slots } else { 0 });
        Ok((DescriptorHeap { raw, kind, start, increment, view_kinds }, at))
    }

    unsafe fn destroy_heap(&self, heap: DescriptorHeap) {
        drop(heap); // the last reference, unless the program holds its own
    }

    unsafe fn write_view(
        &self,
        heap: &DescriptorHeap,
        slot: u32,
        view: &View,
    ) -> Result<Option<Self::Leftover>, DeviceError> {
        if view.kind() != heap.kind {
            return Err(DeviceError::invalid("a descriptor of another kind than the heap's"));
        }
        // SAFETY: the caller promises that the heap has the slot and that the view is valid.
        unsafe { view.write(self.raw(), heap.handle(slot)) };
        heap.view_kinds.note(slot, view);
        Ok(None)
    }

    unsafe fn clear_view(&self, heap: &DescriptorHeap, slot: u32) -> Option<Self::Leftover> {
        let null = heap.view_kinds.null(slot).unwrap_or_else(|| View::null(heap.kind));
        // SAFETY: the caller promises that the heap has the slot; a null descriptor is valid everywhere.
        unsafe { null.write(self.raw(), heap.handle(slot)) };
        None
    }

    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, DescriptorHeap>]) {
        let Some(first) = copies.first() else { return };
        let sources: SmallVec<[_; 32]> = copies.iter().map(|copy| copy.src.handle(copy.src_start)).collect();
        let targets: SmallVec<[_; 32]> = copies.iter().map(|copy| copy.dst.handle(copy.dst_start)).collect();
        let counts: SmallVec<[u32; 32]> = copies.iter().map(|copy| copy.count).collect();
        let (ranges, counts) = (copies.len() as u32, Some(counts.as_ptr()));
        let (targets, sources, of_type) = (targets.as_ptr(), sources.as_ptr(), heap_type(first.dst.kind));
        // SAFETY: the arrays have the given lengths and live through the call; the caller promises that the slots
        // exist, that they have one kind, that the sources are not shader-visible, and that no other thread accesses
        // them.
        unsafe { self.raw().CopyDescriptors(ranges, targets, counts, ranges, sources, counts, of_type) };
        for copy in copies {
            copy.dst.view_kinds.copy(copy.dst_start, &copy.src.view_kinds, copy.src_start, copy.count);
        }
    }

    unsafe fn bind_heap(&self, heap: &DescriptorHeap) -> Result<DescriptorHeap, DeviceError> {
        Ok(heap.clone())
    }

    unsafe fn unbind_heap(&self, _: &DescriptorHeap, bound: DescriptorHeap) {
        drop(bound);
    }

    unsafe fn discard_leftover(&self, leftover: Self::Leftover) {
        match leftover {}
    }
}
