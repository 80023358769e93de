//! Descriptors on Vulkan: bytes in a buffer, one set that is written while it is bound, or plain sets.
//!
//! ```text
//!   DeviceDesc::descriptor_buffer ──▶ Buffers           heap = bytes; bound by address          (bytes.rs)
//!        else update_after_bind ────▶ UpdateAfterBind   heap = one set, written while bound     (set.rs)
//!        else ──────────────────────▶ PlainSets         heap = slots; each bind after a write   (plain.rs, pool.rs)
//!                                                       writes a set from a pool
//! ```
//!
//! In the first two a heap of resources is one set layout with a binding for each type of view, in the order of
//! [`ViewTypes`], each an array over all slots: slot 7 as a storage buffer is element 7 of binding 1. A slot shows one
//! thing, of one type, at a time. A heap of samplers has one binding. Render targets and depth-stencils are image
//! views, which no shader sees. Plain sets have more bindings: one for each kind of image view, as all elements of an
//! array have to be what the shader says of it, read or not ([`Device::descriptor_binding`], [`PlainViews`]).
//!
//! Image views, texel-buffer views and samplers are objects here. A slot owns its object, copies share it, and it goes
//! with the last slot that shows it, once pending work is done with that.
//!
//! Plain sets are for devices without descriptor indexing. Slots that show nothing are null descriptors there
//! (`nullDescriptor` of `VK_EXT_robustness2`), or unwritten (`descriptorBindingPartiallyBound`), or, where the device
//! has neither, placeholders. `VkPhysicalDeviceLimits` allow few slots: 11 of all types on Mesa's software driver, 32
//! of storage buffers alone.

mod bound;
mod bytes;
pub(super) mod facts;
mod filler;
pub(super) mod kinds;
mod plain;
mod pool;
mod set;
mod slots;
mod types;
mod view;

use std::fmt;
use std::sync::Arc;

use ash::vk;
use ringfence_hal::lock::Lock;
use smallvec::SmallVec;

use super::device::Device;
use super::heaps::{Resource, ShowsResources};
pub use bound::Bound;
use bound::How;
use bytes::Bytes;
pub use kinds::PlainViews;
use plain::PlainHeap;
use ringfence_hal::descriptors::{
    DescriptorModel, DescriptorSupport, Descriptors, HeapDesc, HeapKind, HeapStart, PortableView, ViewCopy, ViewTypes,
};
use ringfence_hal::{DeviceError, Numbers};
use set::SetHeap;
use slots::Slots;
pub use view::View;
use view::{Owned, Real, Slot};

/// A heap of descriptors. A copy is the same heap.
#[derive(Clone)]
pub struct DescriptorHeap(Arc<Inner>);

struct Inner {
    kind: HeapKind,
    types: ViewTypes,
    store: Store,
    slots: Lock<Slots>,
}

impl ShowsResources for Inner {
    fn clear_slots_of(&self, resource: Resource) {
        let mut slots = self.slots.lock();
        let shown: SmallVec<[Slot; 2]> = std::iter::from_fn(|| slots.take_showing(resource)).collect();
        if let (Store::Plain(plain), false) = (&self.store, shown.is_empty()) {
            plain.touch();
        }
        // Dropped without the lock: views are destroyed.
        drop(slots);
    }
}

/// How the descriptors are kept.
enum Store {
    /// Nothing but the slots: image views that are used as attachments, and what is CPU-only where sets are plain.
    Slots,
    Set(SetHeap),
    Plain(Box<PlainHeap>),
    Bytes(Bytes),
}

impl Device {
    /// The binding of a heap's set layout whose array shows such views; `None` if no heap has one. On plain sets that
    /// of images depends on view type and format, and that of texels on the format; else on the descriptor type alone,
    /// so that shaders declare several arrays at one binding.
    #[must_use]
    pub fn descriptor_binding(
        &self,
        descriptor_type: vk::DescriptorType,
        view_type: vk::ImageViewType,
        format: vk::Format,
    ) -> Option<u32> {
        self.0.descriptors.binding_of(descriptor_type, kinds::of(descriptor_type, view_type, format))
    }
}

impl DescriptorHeap {
    /// The layout for pipelines; null for heaps that shaders do not see.
    #[must_use]
    pub fn set_layout(&self) -> vk::DescriptorSetLayout {
        match &self.0.store {
            Store::Slots => vk::DescriptorSetLayout::null(),
            Store::Set(set) => set.layout(),
            Store::Plain(plain) => plain.layout(),
            Store::Bytes(bytes) => bytes.layout(),
        }
    }

    /// The image view in a slot, for heaps of render targets and depth-stencils; null if it shows none. It stays alive
    /// until the slot is written again or freed, and what had begun by then is complete.
    #[must_use]
    pub fn image_view(&self, slot: u32) -> vk::ImageView {
        let slots = self.0.slots.lock();
        let object = slots.get(slot as usize).and_then(|slot| slot.object.as_ref());
        object.map_or(vk::ImageView::null(), |object| object.image_view())
    }
}

impl fmt::Debug for DescriptorHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorHeap").field("kind", &self.0.kind).field("layout", &self.set_layout()).finish()
    }
}

impl Device {
    /// Binds heaps to a command buffer, once: the first at set number `first_set` of the layout, the second at the
    /// next. With descriptor buffers, call [`Device::set_heap_offsets`] for other layouts and bind points.
    ///
    /// # Safety
    /// The command buffer is being recorded, is of this device and had no heaps bound; the layout has the heaps' set
    /// layouts there; the heaps are of two kinds at most.
    pub unsafe fn bind_heaps(
        &self,
        heaps: &[&Bound],
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) {
        let buffers: SmallVec<[_; 2]> = heaps.iter().filter_map(|bound| buffer_binding(bound)).collect();
        if let (Some(api), false) = (&self.0.descriptors.buffer_api, buffers.is_empty()) {
            // SAFETY: the caller promises that the commands are being recorded; the buffers are alive and of that
            // usage.
            unsafe { api.cmd_bind_descriptor_buffers(commands, &buffers) };
        }
        // SAFETY: the caller promises that the command buffer is being recorded and that the layout has the heaps'
        // sets.
        unsafe { self.set_heap_offsets(heaps, commands, point, layout, first_set) };
    }

    /// Has another pipeline layout or bind point of the same command buffer go through the same heaps. This binds
    /// nothing else; sets are the same sets.
    ///
    /// # Safety
    /// As [`Device::bind_heaps`], which has been called with the same heaps in the same order.
    pub unsafe fn set_heap_offsets(
        &self,
        heaps: &[&Bound],
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
    ) {
        let (mut number, mut buffer) = (first_set, 0);
        for bound in heaps {
            // SAFETY: the caller promises that the command buffer is being recorded and that the layout has the sets;
            // buffers are numbered in the order in which they were bound.
            unsafe {
                match (bound.how, &self.0.descriptors.buffer_api) {
                    (How::Set(set), _) => {
                        self.raw().cmd_bind_descriptor_sets(commands, point, layout, number, &[set], &[]);
                    }
                    (How::Buffer { .. }, Some(api)) => {
                        api.cmd_set_descriptor_buffer_offsets(commands, point, layout, number, &[buffer], &[0]);
                        buffer += 1;
                    }
                    (How::Buffer { .. }, None) => unreachable!("such a heap is made with the extension only"),
                }
            }
            number += 1;
        }
    }
}

fn buffer_binding(bound: &Bound) -> Option<vk::DescriptorBufferBindingInfoEXT<'static>> {
    match bound.how {
        How::Set(_) => None,
        How::Buffer { address, usage } => {
            Some(vk::DescriptorBufferBindingInfoEXT::default().address(address).usage(usage))
        }
    }
}

// SAFETY: heaps and objects are what the driver made; a slot's object lives as long as the slot shows it, and beyond
// that as long as the policy keeps a leftover.
unsafe impl Descriptors for Device {
    type Heap = DescriptorHeap;
    type Bound = Bound;
    type View<'a> = View;
    type Leftover = Leftover;

    fn descriptor_support(&self) -> DescriptorSupport {
        self.0.descriptors.support()
    }

    fn visible_slots_max(&self, kind: HeapKind, types: ViewTypes) -> u32 {
        self.0.descriptors.slots_max(kind, types)
    }

    fn describe_view<'a>(&self, portable: &PortableView<'a, Self>) -> Result<View, DeviceError> {
        view::describe(self, portable)
    }

    fn make_heap(&self, desc: &HeapDesc<'_>) -> Result<(DescriptorHeap, HeapStart), DeviceError> {
        self.check_whole()?;
        DeviceError::invalid("a heap has at least one slot").at_least(desc.slots.into(), 1)?;
        DeviceError::invalid("a layout of fewer slots than the heap")
            .at_least(desc.layout_slots.into(), desc.slots.into())?;
        let facts = &self.0.descriptors;
        if desc.shader_visible {
            let slots_max = facts.slots_max(desc.kind, desc.types);
            DeviceError::unsupported("this many shader-visible descriptors")
                .at_most(desc.layout_slots.into(), slots_max.into())?;
        }
        let store = match facts.model() {
            _ if !desc.kind.can_be_shader_visible() => Store::Slots,
            DescriptorModel::Buffers => Store::Bytes(Bytes::new(self, desc)?),
            DescriptorModel::PlainSets if !desc.shader_visible => Store::Slots,
            DescriptorModel::PlainSets => Store::Plain(Box::new(PlainHeap::new(self, desc)?)),
            _ => Store::Set(SetHeap::new(self, desc)?),
        };
        let is_plain = facts.model() == DescriptorModel::PlainSets && desc.kind.can_be_shader_visible();
        let counts = is_plain.then(|| Arc::clone(self.0.plain_heaps.counts()));
        let slots = Lock::new(Slots::new(desc.slots, counts));
        let gpu = desc.shader_visible.then_some(0);
        let heap = DescriptorHeap(Arc::new(Inner { kind: desc.kind, types: desc.types, store, slots }));
        if is_plain {
            let heap: Arc<dyn ShowsResources> = heap.0.clone();
            self.0.plain_heaps.add(Arc::downgrade(&heap));
        }
        Ok((heap, HeapStart { cpu: 0, gpu, increment: 1 }))
    }

    unsafe fn destroy_heap(&self, heap: DescriptorHeap) {
        let slots = std::mem::take(&mut *heap.0.slots.lock());
        // SAFETY: the caller promises that nothing uses the heap any more.
        unsafe {
            match &heap.0.store {
                Store::Slots => {}
                Store::Set(set) => set.destroy(self),
                Store::Plain(plain) => plain.destroy(self),
                Store::Bytes(bytes) => bytes.destroy(self),
            }
        }
        drop(slots);
    }

    unsafe fn write_view(
        &self,
        heap: &DescriptorHeap,
        slot: u32,
        view: &View,
    ) -> Result<Option<Leftover>, DeviceError> {
        let real = Real::new(self, heap.0.kind, view)?;
        if heap.0.kind.can_be_shader_visible() && !self.takes(heap, &real) {
            return Err(DeviceError::invalid("a view of a type that the heap was not made for"));
        }
        let mut slots = heap.0.slots.lock();
        let (given, max) = (slot.into(), slots.len() as u64 - 1);
        let none = DeviceError::invalid("a heap has no such slot").with(Numbers::AtMost { given, max });
        let held = slots.get(slot as usize).ok_or(none)?;
        // SAFETY: the caller promises that the slot may be written; the lock keeps others from the set; the view is
        // real.
        unsafe {
            match &heap.0.store {
                Store::Slots => {}
                Store::Set(set) => set.write(self, (slot, held.binding), &real),
                Store::Plain(plain) => plain.touch(),
                Store::Bytes(bytes) => bytes.write(self, (slot, held.binding), &real)?,
            }
        }
        let before = slots.put(slot as usize, real.into_slot());
        Ok(before.object.map(Leftover))
    }

    unsafe fn clear_view(&self, heap: &DescriptorHeap, slot: u32) -> Option<Leftover> {
        let mut slots = heap.0.slots.lock();
        slots.get(slot as usize)?;
        let held = slots.put(slot as usize, Slot::default());
        let binding = held.binding?;
        // SAFETY: the caller promises that the slot may be written; the lock keeps other threads from the set.
        unsafe {
            match &heap.0.store {
                Store::Slots => {}
                Store::Set(set) => set.clear(self, slot, binding),
                Store::Plain(plain) => plain.touch(),
                Store::Bytes(bytes) => bytes.clear(self, slot, binding),
            }
        }
        held.object.map(Leftover)
    }

    unsafe fn copy_views(&self, copies: &[ViewCopy<'_, DescriptorHeap>]) {
        for copy in copies {
            // SAFETY: the caller's promise.
            unsafe { self.copy_run(copy) };
        }
    }

    unsafe fn bind_heap(&self, heap: &DescriptorHeap) -> Result<Bound, DeviceError> {
        let how = match &heap.0.store {
            Store::Slots => return Err(DeviceError::invalid("shaders do not see such a heap")),
            Store::Set(set) => How::Set(set.set()),
            Store::Plain(plain) => {
                // The set is written here: no other thread may write the slots meanwhile.
                let slots = heap.0.slots.lock();
                // SAFETY: the heap is this device's, and what is destroyed is taken out of its slots before.
                How::Set(unsafe { plain.bind(self, &slots) }?)
            }
            Store::Bytes(bytes) => bytes.how(),
        };
        Ok(Bound { layout: heap.set_layout(), how })
    }

    unsafe fn unbind_heap(&self, heap: &DescriptorHeap, bound: Bound) {
        if let (Store::Plain(plain), How::Set(raw)) = (&heap.0.store, bound.how) {
            plain.unbind(raw);
        }
    }

    unsafe fn discard_leftover(&self, leftover: Leftover) {
        drop(leftover);
    }
}

/// An object that a slot showed before. Dropping it destroys it, unless another slot shows it too.
pub struct Leftover(#[allow(dead_code, reason = "held to be dropped")] Arc<Owned>);

impl Device {
    /// Whether a heap has an array for a view.
    fn takes(&self, heap: &DescriptorHeap, real: &Real) -> bool {
        let bindings = self.0.descriptors.bindings(heap.0.kind, heap.0.types);
        bindings.contains(&(real.binding, real.descriptor_type))
    }

    /// # Safety
    /// As [`Descriptors::copy_views`].
    unsafe fn copy_run(&self, copy: &ViewCopy<'_, DescriptorHeap>) {
        let (src, dst) = (copy.src_start as usize, copy.dst_start as usize);
        let count = copy.count as usize;
        // Nothing is released in between: it would be gone from one heap, and come to another that was cleared before.
        let is_plain = self.0.descriptors.model() == DescriptorModel::PlainSets;
        let _held = is_plain.then(|| self.0.plain_heaps.hold());
        // Taken out first: the locks of the two are never held together.
        let shown: SmallVec<[Slot; 16]> = copy.src.0.slots.lock()[src..src + count].iter().cloned().collect();
        let mut slots = copy.dst.0.slots.lock();
        let held = &slots[dst..dst + count];
        // SAFETY: the caller promises that the slots are there and nothing else accesses them; the lock keeps others
        // from the set.
        unsafe {
            match (&copy.src.0.store, &copy.dst.0.store) {
                (Store::Set(from), Store::Set(to)) => to.copy(self, from, copy, held, &shown),
                (Store::Bytes(from), Store::Bytes(to)) => to.copy(self, from, copy, held, &shown),
                (_, Store::Plain(to)) => to.touch(),
                _ => {}
            }
        }
        // What the slots showed before is of no use to pending work: nothing pending reads them.
        (dst..).zip(shown).for_each(|(at, shown)| _ = slots.put(at, shown));
    }
}
