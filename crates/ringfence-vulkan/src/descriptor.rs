//! Descriptors on Vulkan, in one of three models: bytes in a descriptor buffer, one set that is written while it is
//! bound, or plain sets.
//!
//! ```text
//!   Features::DESCRIPTOR_BUFFER   ──▶ Buffers           heap = bytes; bound by address          (bytes.rs)
//!        else UPDATE_AFTER_BIND ────▶ UpdateAfterBind   heap = one set, written while bound     (set.rs)
//!        else ──────────────────────▶ PlainSets         heap = slots; each bind after a write   (plain.rs, pool.rs)
//!                                                       writes a set from a pool
//! ```
//!
//! In the first two models, a heap of resources has one set layout, with a binding for each type of view, in the order
//! of [`ViewTypes`]. Each binding is an array over all slots: slot 7 as a storage buffer is element 7 of binding 1. A
//! slot contains one view of one type at a time. A heap of samplers has one binding. Heaps of render targets and
//! depth-stencil targets contain image views and have no layout.
//!
//! Plain sets have a binding for each kind of image view ([`Device::descriptor_binding`], [`PlainViews`]), because all
//! elements of an array must match the shader's declaration, even those that are not read.
//!
//! A slot owns the image view, texel-buffer view or sampler that was created for it. Copies of the slot share this
//! object. The object is destroyed when the last of these slots has been overwritten or cleared and pending work is
//! complete.
//!
//! Plain sets are for devices without descriptor indexing. Their empty slots are:
//!
//! - null descriptors, if the device has `nullDescriptor` of `VK_EXT_robustness2` (not for samplers);
//! - otherwise unwritten, if it has `descriptorBindingPartiallyBound`;
//! - otherwise copies of another slot's descriptor, or placeholders.
//!
//! `VkPhysicalDeviceLimits` allow few slots: on Mesa's software driver 11 if the heap has all types of view, and 32 if
//! it has storage buffers only.

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
use super::plain_heaps::{Resource, ShowsResources};
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
pub(super) use view::check_texel_format;
use view::{Owned, Real, Slot};

/// A descriptor heap. Clones refer to the same heap.
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
        // Dropped after the lock is released, because the drop destroys views.
        drop(slots);
    }
}

/// Storage of the descriptors.
enum Store {
    /// No driver object: for image views of attachments, and for CPU-only heaps in the model of plain sets.
    Slots,
    Set(SetHeap),
    Plain(Box<PlainHeap>),
    Bytes(Bytes),
}

impl Device {
    /// Returns the number of the binding that contains views of this type and format. Returns `None` if no heap has
    /// such a binding.
    ///
    /// With plain sets, the binding of an image view depends on its view type and format, and the binding of a texel
    /// buffer on its format. In the other models, the binding depends only on the descriptor type, so shaders declare
    /// several arrays at one binding.
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
    /// Returns the set layout for pipelines. If the heap is not shader-visible, the layout may be null.
    #[must_use]
    pub fn set_layout(&self) -> vk::DescriptorSetLayout {
        match &self.0.store {
            Store::Slots => vk::DescriptorSetLayout::null(),
            Store::Set(set) => set.layout(),
            Store::Plain(plain) => plain.layout(),
            Store::Bytes(bytes) => bytes.layout(),
        }
    }

    /// Returns the image view in a slot of a heap of render targets or depth-stencil targets. Returns null if the slot
    /// is empty. When the slot is written again or freed, the view stays alive until all work that had begun by then is
    /// complete.
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
    /// Binds heaps to a command buffer. Call this once per command buffer. The first heap is bound at set number
    /// `first_set` of the layout, the second heap at the next number.
    ///
    /// For further layouts and bind points of the command buffer, call [`Device::set_heap_offsets`].
    ///
    /// # Safety
    /// The command buffer belongs to this device, is being recorded, and has no heaps bound. The layout has the heaps'
    /// set layouts at these numbers. There are at most two heaps, of different kinds.
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
            // SAFETY: the caller promises that the command buffer is being recorded. The buffers are alive and are
            // descriptor buffers.
            unsafe { api.cmd_bind_descriptor_buffers(commands, &buffers) };
        }
        // SAFETY: the caller promises that the command buffer is being recorded and that the layout has the heaps'
        // sets.
        unsafe { self.set_heap_offsets(heaps, commands, point, layout, first_set) };
    }

    /// Binds the same heaps for another pipeline layout or bind point of the same command buffer. Does not bind
    /// descriptor buffers again; descriptor sets are bound again.
    ///
    /// # Safety
    /// The rules of [`Device::bind_heaps`], which was called with the same heaps in the same order.
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
            // SAFETY: the caller promises that the command buffer is being recorded and that the layout has the sets.
            // Buffers are numbered in the order in which they were bound.
            unsafe {
                match (bound.how, &self.0.descriptors.buffer_api) {
                    (How::Set(set), _) => {
                        self.raw().cmd_bind_descriptor_sets(commands, point, layout, number, &[set], &[]);
                    }
                    (How::Buffer { .. }, Some(api)) => {
                        api.cmd_set_descriptor_buffer_offsets(commands, point, layout, number, &[buffer], &[0]);
                        buffer += 1;
                    }
                    (How::Buffer { .. }, None) => unreachable!("such a heap is created only with the extension"),
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

// SAFETY: heaps and objects come from the driver. A slot's object exists until the slot is overwritten or cleared; the
// caller then owns it as a `Leftover`.
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
        DeviceError::invalid("a heap must have at least one slot").at_least(desc.slots.into(), 1)?;
        DeviceError::invalid("a layout with fewer slots than the heap")
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
        // SAFETY: the caller promises that no work uses the heap any more.
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
            return Err(DeviceError::invalid("a view of a type that the heap was not created for"));
        }
        let mut slots = heap.0.slots.lock();
        let (given, max) = (slot.into(), slots.len() as u64 - 1);
        let none = DeviceError::invalid("a heap has no such slot").with(Numbers::AtMost { given, max });
        let held = slots.get(slot as usize).ok_or(none)?;
        // SAFETY: the caller promises that the slot may be written. The lock keeps other threads from the set. The
        // objects of the view are alive.
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
        // SAFETY: the caller promises that the slot may be written. The lock keeps other threads from the set.
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
            // SAFETY: the caller follows the rules of `copy_views`.
            unsafe { self.copy_run(copy) };
        }
    }

    unsafe fn bind_heap(&self, heap: &DescriptorHeap) -> Result<Bound, DeviceError> {
        let how = match &heap.0.store {
            Store::Slots => return Err(DeviceError::invalid("the heap is not shader-visible")),
            Store::Set(set) => How::Set(set.set()),
            Store::Plain(plain) => {
                // The bind writes the set, so no other thread may write the slots during it.
                let slots = heap.0.slots.lock();
                // SAFETY: the heap belongs to this device. Views of a resource are removed from the slots before the
                // resource is destroyed.
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

/// Driver object of a slot that was overwritten or cleared. Dropping it destroys the object, unless another slot or a
/// bound plain set still owns the object.
pub struct Leftover(#[allow(dead_code, reason = "kept until it is dropped")] Arc<Owned>);

impl Device {
    /// Returns `true` if the heap has an array for this kind of view.
    fn takes(&self, heap: &DescriptorHeap, real: &Real) -> bool {
        let bindings = self.0.descriptors.bindings(heap.0.kind, heap.0.types);
        bindings.contains(&(real.binding, real.descriptor_type))
    }

    /// # Safety
    /// The rules of [`Descriptors::copy_views`].
    unsafe fn copy_run(&self, copy: &ViewCopy<'_, DescriptorHeap>) {
        let (src, dst) = (copy.src_start as usize, copy.dst_start as usize);
        let count = copy.count as usize;
        // Blocks the release of resources during the copy. Otherwise a resource could be released after its views were
        // read from the source, and the copy would write stale views.
        let is_plain = self.0.descriptors.model() == DescriptorModel::PlainSets;
        let _held = is_plain.then(|| self.0.plain_heaps.hold());
        // The source is read first, so that this thread never holds the locks of both heaps at once.
        let shown: SmallVec<[Slot; 16]> = copy.src.0.slots.lock()[src..src + count].iter().cloned().collect();
        let mut slots = copy.dst.0.slots.lock();
        let held = &slots[dst..dst + count];
        // SAFETY: the caller promises that the slots exist and that no other thread accesses them. The lock keeps other
        // threads from the set.
        unsafe {
            match (&copy.src.0.store, &copy.dst.0.store) {
                (Store::Set(from), Store::Set(to)) => to.copy(self, from, copy, held, &shown),
                (Store::Bytes(from), Store::Bytes(to)) => to.copy(self, from, copy, held, &shown),
                (_, Store::Plain(to)) => to.touch(),
                _ => {}
            }
        }
        // The previous objects may be dropped at once, because no pending work reads these slots.
        (dst..).zip(shown).for_each(|(at, shown)| _ = slots.put(at, shown));
    }
}
