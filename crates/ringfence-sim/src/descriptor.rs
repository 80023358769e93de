//! Descriptor heaps. Each slot refers to a range of memory for kernels. As on real devices, a slot contains an address,
//! and a kernel reads the slot when it runs. If the slot was overwritten too early, the kernel uses wrong bytes, and a
//! hazard is reported.
//!
//! ```text
//!   make_heap ── CPU-only ────────copy_views──▶ shader-visible ──▶ Kernel::descriptors
//!                  ▲ write_view                     ▲ write_view
//! ```
//!
//! The device checks these rules of Direct3D 12, among others:
//!
//! - Descriptors must not be copied out of shader-visible heaps.
//! - Descriptors may be copied only between heaps of the same [`HeapKind`], for example samplers.
//! - Kernels must not use CPU-only heaps.
//! - The offset of a view in the memory must be aligned.

use super::command::BufferRange;
use super::device::Device;
use super::hazard::{Hazard, HazardKind};
use super::ids::{DescriptorHeap, Label, Texture, What};
use super::layout;
use super::objects::{DescriptorSlots, Shape};
use super::order::Access;
use super::state::State;
use ringfence_hal::descriptors::{
    BufferViewKind, DescriptorModel, DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart, PortableView,
    SamplerDesc, ViewCopy, ViewTypes,
};
use ringfence_hal::{Capabilities, DeviceError, Driver};

/// Maximum number of slots of a shader-visible heap of resources. Every Direct3D 12 device supports this number.
const VISIBLE_RESOURCES_MAX: u32 = 1_000_000;
/// Maximum number of slots of a shader-visible heap of samplers on Direct3D 12.
const VISIBLE_SAMPLERS_MAX: u32 = 2_048;

/// A view of the simulated device.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum View {
    /// An untyped range of a buffer.
    Buffer(BufferRange),
    /// A range of a buffer with a kind of view. The alignment rules of the kind are checked.
    Shown(BufferRange, BufferViewKind),
    /// All texels of a texture, for a kind of heap.
    Texture(Texture, HeapKind),
    /// A sampler, which refers to no bytes.
    Sampler(SamplerDesc),
}

impl View {
    const fn kind(&self) -> HeapKind {
        match self {
            Self::Buffer(_) | Self::Shown(..) => HeapKind::Resources,
            Self::Texture(_, kind) => *kind,
            Self::Sampler(_) => HeapKind::Samplers,
        }
    }
}

impl Device {
    /// Creates a descriptor heap with empty slots.
    #[must_use]
    pub fn create_descriptor_heap(&self, slots: u32, name: &str) -> DescriptorHeap {
        self.with(|state| state.add_heap(None, slots, name))
    }

    /// Writes a buffer range to a slot; `None` clears the slot. An invalid range is reported as a hazard, and clears
    /// the slot. Also reports a hazard if pending work uses the slot.
    pub fn write_descriptor(&self, heap: DescriptorHeap, slot: u32, view: Option<BufferRange>) {
        self.with(|state| {
            let view = view.and_then(|range| state.buffer_access(range, None, true));
            state.set_slot(heap, slot, view);
        });
    }

    /// Destroys a descriptor heap. Reports a hazard if pending work uses it.
    pub fn destroy_descriptor_heap(&self, heap: DescriptorHeap) {
        self.with(|state| {
            let Some(held) = state.descriptor_heaps.remove(&heap.0) else {
                return state.report_stale(What::DescriptorHeap, heap.0, "destroyed twice or never created");
            };
            let all = 0..held.slots.len() as u64;
            state.report_pending(HazardKind::DestroyedWhilePending, heap.0, &all, |_| true);
            state.note_destroyed(held.label);
        });
    }
}

// SAFETY: this device checks all arguments and reports mistakes as hazards.
unsafe impl Descriptors for Device {
    type Heap = DescriptorHeap;
    type Bound = DescriptorHeap;
    type View<'a> = View;
    type Leftover = std::convert::Infallible;

    fn descriptor_support(&self) -> DescriptorSupport {
        let Capabilities { constant_alignment, storage_alignment, texel_alignment, .. } = *self.capabilities();
        DescriptorSupport {
            model: DescriptorModel::Heaps,
            constant_alignment,
            storage_alignment,
            texel_alignment,
            constant_bytes_max: 64 << 10,
            storage_bytes_max: u64::from(u32::MAX),
            storage_elements_max: 1 << 27,
            texel_elements_max: 1 << 27,
            slots_own_objects: false,
            anisotropy_max: 16,
        }
    }

    fn visible_slots_max(&self, kind: HeapKind, _: ViewTypes) -> u32 {
        match kind {
            HeapKind::Resources => VISIBLE_RESOURCES_MAX,
            HeapKind::Samplers => VISIBLE_SAMPLERS_MAX,
            HeapKind::RenderTargets | HeapKind::DepthStencils => 0,
        }
    }

    fn describe_view<'a>(&self, view: &PortableView<'a, Self>) -> Result<View, DeviceError> {
        Ok(match view {
            PortableView::Buffer { object, view, .. } => {
                View::Shown(BufferRange::new(**object, view.offset, view.size), view.kind)
            }
            PortableView::Texture { object, desc, view } => {
                layout::format_support(view.format_in(desc)).check(view.kind.usage(), 1)?;
                View::Texture(**object, view.kind.heap_kind())
            }
            PortableView::Sampler(desc) => View::Sampler(*desc),
        })
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(DescriptorHeap, HeapStart), DeviceError> {
        DeviceError::invalid("a heap must have at least one slot").at_least(desc.slots.into(), 1)?;
        if desc.shader_visible {
            let slots_max = self.visible_slots_max(desc.kind, desc.types);
            DeviceError::unsupported("this many shader-visible descriptors")
                .at_most(desc.slots.into(), slots_max.into())?;
        }
        self.with(|state| {
            state.check_alive()?;
            state.counts.make_heap += 1;
            state.spend(state.profile.costs.object_ns);
            let heap = state.add_heap(Some((desc.kind, desc.shader_visible)), desc.slots, desc.name);
            // Each heap has its own handles, and its CPU and GPU handles differ. As on Direct3D 12, the increment
            // depends on the kind of heap and is not 1.
            let start = heap.0 << 32;
            let gpu = desc.shader_visible.then_some(start | 1 << 62);
            let increment = if desc.kind == HeapKind::Samplers { 16 } else { 32 };
            Ok((heap, HeapStart { cpu: start, gpu, increment }))
        })
    }

    unsafe fn destroy_heap(&self, heap: DescriptorHeap) {
        self.destroy_descriptor_heap(heap);
    }

    unsafe fn write_view(
        &self,
        heap: &DescriptorHeap,
        slot: u32,
        view: &View,
    ) -> Result<Option<Self::Leftover>, DeviceError> {
        self.with(|state| {
            state.check_alive()?;
            state.counts.write_view += 1;
            let made = state.descriptor_heaps.get(&heap.0).and_then(|held| held.made);
            if made.is_some_and(|(kind, _)| kind != view.kind()) {
                return Err(DeviceError::invalid("the kind of the descriptor differs from the heap's"));
            }
            let access = state.view_access(*heap, slot, view).ok_or(DeviceError::invalid("no such view"))?;
            state.set_slot(*heap, slot, Some(access));
            Ok(None)
        })
    }

    unsafe fn clear_view(&self, heap: &DescriptorHeap, slot: u32) -> Option<Self::Leftover> {
        self.with(|state| {
            state.counts.write_view += 1;
            state.set_slot(*heap, slot, None);
        });
        None
    }

    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, DescriptorHeap>]) {
        self.with(|state| {
            state.counts.copy_views += 1;
            copies.iter().for_each(|copy| state.copy_slots(copy));
        });
    }

    unsafe fn bind_heap(&self, heap: &DescriptorHeap) -> Result<DescriptorHeap, DeviceError> {
        self.with(|state| state.bound_heaps += 1);
        Ok(*heap)
    }

    unsafe fn unbind_heap(&self, _: &DescriptorHeap, _: DescriptorHeap) {
        self.with(|state| state.bound_heaps -= 1);
    }

    unsafe fn discard_leftover(&self, leftover: Self::Leftover) {
        match leftover {}
    }
}

impl State {
    /// Adds a heap with empty slots. `made` has the kind of the heap, and `true` if it is shader-visible.
    fn add_heap(&mut self, made: Option<(HeapKind, bool)>, slots: u32, name: &str) -> DescriptorHeap {
        let id = self.draw_id();
        let label = Label::named(What::DescriptorHeap, id, name);
        self.descriptor_heaps.insert(id, DescriptorSlots { label, made, slots: vec![None; slots as usize] });
        DescriptorHeap(id)
    }

    /// Returns the bytes that a view refers to. If the resource is not alive or the range is invalid, reports a hazard
    /// and returns `None`.
    fn view_access(&mut self, heap: DescriptorHeap, slot: u32, view: &View) -> Option<Access> {
        match *view {
            View::Buffer(range) => self.buffer_access(range, None, true),
            View::Shown(range, kind) => self.shown_access(range, kind),
            View::Texture(texture, _) => self.whole_texture(texture),
            View::Sampler(_) => {
                let label = self.descriptor_heaps.get(&heap.0)?.label.clone();
                let range = u64::from(slot)..u64::from(slot) + 1;
                Some(Access { space: heap.0, range, writes: false, space_label: label.clone(), label })
            }
        }
    }

    /// Returns the bytes of a range with a kind of view. If the offset in the buffer (Vulkan's rule) or in the memory
    /// (Direct3D 12's rule) is not aligned for this kind, reports a hazard and returns `None`.
    fn shown_access(&mut self, range: BufferRange, kind: BufferViewKind) -> Option<Access> {
        let access = self.buffer_access(range, None, true)?;
        let Capabilities { constant_alignment, storage_alignment, texel_alignment, .. } = self.profile.capabilities;
        let (alignment, element) = match kind {
            BufferViewKind::Constants => (constant_alignment, 1),
            BufferViewKind::Storage { stride, .. } => (storage_alignment, u64::from(stride.max(4))),
            BufferViewKind::Texels { format, .. } => (texel_alignment, format.texel_bytes()),
        };
        let is_aligned = |at: u64| at.is_multiple_of(alignment);
        if !is_aligned(range.offset) || !is_aligned(access.range.start) || !range.offset.is_multiple_of(element) {
            let hazard = Hazard::about(HazardKind::Unaligned, access.label).within(access.space_label, access.range);
            self.report(hazard.detail("the offset of a view"));
            return None;
        }
        Some(access)
    }

    fn whole_texture(&mut self, texture: Texture) -> Option<Access> {
        let resource = self.resources.get(&texture.0).filter(|held| matches!(held.shape, Shape::Texture(_)));
        let Some((resource, (memory, base))) = resource.and_then(|held| Some((held, held.location?))) else {
            self.report_stale(What::Texture, texture.0, "used by a descriptor");
            return None;
        };
        let space_label = self.memories.get(&memory)?.label.clone();
        let range = base..base + resource.requirements.size;
        Some(Access { space: memory, range, writes: true, label: resource.label.clone(), space_label })
    }

    fn set_slot(&mut self, heap: DescriptorHeap, slot: u32, shown: Option<Access>) {
        let Some(held) = self.descriptor_heaps.get_mut(&heap.0) else {
            return self.report_stale(What::DescriptorHeap, heap.0, "written");
        };
        match held.slots.get_mut(slot as usize) {
            Some(held) => *held = shown,
            None => {
                let label = held.label.clone();
                return self.report_slot(label, slot);
            }
        }
        self.report_overwritten(heap, slot, 1);
    }

    fn report_overwritten(&mut self, heap: DescriptorHeap, slot: u32, count: u32) {
        let range = u64::from(slot)..u64::from(slot) + u64::from(count);
        self.report_pending(HazardKind::DescriptorWhilePending, heap.0, &range, |_| true);
    }

    fn copy_slots(&mut self, copy: &ViewCopy<'_, DescriptorHeap>) {
        let ViewCopy { src, src_start, dst, dst_start, count } = *copy;
        let Some(source) = self.descriptor_heaps.get(&src.0) else {
            return self.report_stale(What::DescriptorHeap, src.0, "copied from");
        };
        let part = source.slots.get(src_start as usize..(src_start as usize).saturating_add(count as usize));
        let (made, label) = (source.made, source.label.clone());
        let Some(shown) = part.map(<[_]>::to_vec) else { return self.report_slot(label, src_start) };
        if made.is_some_and(|(_, visible)| visible) {
            let hazard = Hazard::about(HazardKind::Misuse, label.clone());
            self.report(hazard.detail("descriptors copied out of a shader-visible heap"));
        }
        let Some(target) = self.descriptor_heaps.get_mut(&dst.0) else {
            return self.report_stale(What::DescriptorHeap, dst.0, "copied to");
        };
        let kinds = (made.map(|(kind, _)| kind), target.made.map(|(kind, _)| kind));
        let label = target.label.clone();
        if matches!(kinds, (Some(from), Some(to)) if from != to) {
            let hazard = Hazard::about(HazardKind::Misuse, label);
            return self.report(hazard.detail("descriptors copied between heaps of different kinds"));
        }
        match target.slots.get_mut(dst_start as usize..(dst_start as usize).saturating_add(count as usize)) {
            Some(slots) => slots.clone_from_slice(&shown),
            None => return self.report_slot(label, dst_start),
        }
        self.report_overwritten(*dst, dst_start, count);
    }
}
