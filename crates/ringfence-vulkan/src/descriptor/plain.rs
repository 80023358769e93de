//! Heaps of plain sets. The slots are in host memory. A bind after a write copies them to a new descriptor set.
//!
//! ```text
//!   slots ── written, copied: host memory alone ──▶ dirty
//!   bind  ── dirty ──▶ a set from the pool, all arrays written ──▶ version 7 ── bound, 2 users
//!                                                                  version 6 ── 1 user ──▶ 0: back to the pool
//! ```
//!
//! Pending work uses every descriptor of a bound set, even those that no shader reads. This has two consequences:
//!
//! - A version of the set keeps the views and samplers of its elements alive.
//! - When the owner of a buffer or image releases it, all slots that refer to it are cleared
//!   ([`note_retired`](ringfence_hal::Create::note_retired)). The resource waits for the frames that have begun, and
//!   later binds do not contain it.
//!
//! A set has an array for each kind of view ([`super::kinds`]). Empty elements are written with null descriptors if the
//! device has them (not for samplers). Otherwise, if arrays may be partially bound, empty elements stay unwritten.
//! Otherwise, an empty element of an array of images or samplers repeats the first written descriptor of the array; if
//! there is none, and in arrays of buffers, it is a placeholder.

use std::sync::Arc;

use ash::vk;

use crate::error::failed;
use ringfence_hal::lock::Lock;
use smallvec::SmallVec;

use super::filler::Filler;
use super::pool::SetPool;
use super::view::{Owned, Shown, Slot};
use super::{kinds, types};
use crate::device::Device;
use crate::features::Features;
use ringfence_hal::DeviceError;
use ringfence_hal::descriptors::{HeapDesc, HeapKind};

/// Number of descriptors that are written without a host allocation.
const INLINE: usize = 32;

/// A shader-visible heap of plain sets.
pub(super) struct PlainHeap {
    bindings: types::Bindings,
    layout: vk::DescriptorSetLayout,
    /// Number of elements of each array.
    slots: u32,
    empty: Empty,
    versions: Lock<Versions>,
}

/// Content of the elements of empty slots.
enum Empty {
    Null,
    Unwritten,
    Filler(Box<Filler>),
}

struct Versions {
    pool: SetPool,
    /// `true` if a slot was written after the newest version was created.
    dirty: bool,
    /// Live versions, the newest last.
    live: SmallVec<[Version; 4]>,
}

struct Version {
    set: vk::DescriptorSet,
    /// Number of binds of this version that have not been unbound yet.
    users: u32,
    /// Objects of the descriptors in the set, kept alive.
    _shown: Vec<Arc<Owned>>,
}

impl PlainHeap {
    pub(super) fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        let (raw, facts) = (device.raw(), &device.0.descriptors);
        let empty = if desc.kind == HeapKind::Resources && facts.has(Features::NULL_DESCRIPTOR) {
            Empty::Null
        } else if facts.has(Features::PARTIALLY_BOUND) {
            Empty::Unwritten
        } else {
            Empty::Filler(Box::new(Filler::new(device, desc)?))
        };
        let flags = match empty {
            Empty::Unwritten => vk::DescriptorBindingFlags::PARTIALLY_BOUND,
            Empty::Null | Empty::Filler(_) => vk::DescriptorBindingFlags::empty(),
        };
        let (bindings, slots) = (facts.bindings(desc.kind, desc.types), desc.layout_slots);
        let arrays = bindings.iter().copied();
        // SAFETY: the flag is set only if `DeviceDesc` says that its feature is enabled.
        let layout = unsafe { types::make_layout(raw, arrays, slots, facts.stages, Default::default(), flags) };
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => {
                if let Empty::Filler(filler) = empty {
                    // SAFETY: no work uses the placeholders.
                    unsafe { filler.destroy(device) };
                }
                return Err(failed("vkCreateDescriptorSetLayout")(error));
            }
        };
        let pool = SetPool::new(layout, bindings.iter().map(|(_, of)| *of), slots, Default::default());
        let versions = Lock::new(Versions { pool, dirty: true, live: SmallVec::new() });
        Ok(Self { bindings, layout, slots, empty, versions })
    }

    pub(super) fn layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// Notes that a slot was written. The next bind then creates a version.
    pub(super) fn touch(&self) {
        let mut versions = self.versions.lock();
        versions.dirty = true;
        // Dropped after the lock is released, because the drop destroys views.
        let unused = versions.take_newest_if_unused();
        drop(versions);
        drop(unused);
    }

    /// Returns a set with the current content of the slots, and adds a user to its version.
    ///
    /// # Safety
    /// The resources of the slots are alive.
    pub(super) unsafe fn bind(&self, device: &Device, slots: &[Slot]) -> Result<vk::DescriptorSet, DeviceError> {
        let mut versions = self.versions.lock();
        if versions.dirty || versions.live.is_empty() {
            // SAFETY: the layout belongs to the device and is alive.
            let set = unsafe { versions.pool.take(device.raw()) }?;
            for (binding, descriptor_type) in &self.bindings {
                // SAFETY: no work uses the set, and the caller promises that the resources of the slots are alive.
                unsafe { self.write_array(device.raw(), (set, *binding, *descriptor_type), slots) };
            }
            versions.take_newest_if_unused();
            let shown = slots.iter().filter_map(|slot| slot.object.clone()).collect();
            versions.live.push(Version { set, users: 0, _shown: shown });
            versions.dirty = false;
        }
        let newest = versions.live.last_mut().expect("a version was pushed above");
        newest.users += 1;
        Ok(newest.set)
    }

    /// Writes all elements of an array that have content. Consecutive elements are written by one call.
    ///
    /// # Safety
    /// No work uses the set. The resources of the slots are alive.
    unsafe fn write_array(
        &self,
        device: &ash::Device,
        (set, binding, descriptor_type): (vk::DescriptorSet, u32, vk::DescriptorType),
        slots: &[Slot],
    ) {
        let shown = |slot: &Slot| slot.shown.filter(|_| slot.binding == Some(binding));
        let empty = match &self.empty {
            Empty::Null => Some(null(descriptor_type)),
            Empty::Unwritten => None,
            Empty::Filler(filler) => {
                let other = slots.iter().find_map(shown).filter(|shown| matches!(shown, Shown::Image(_)));
                other.or_else(|| filler.shown(descriptor_type, kinds::kind_at(binding)))
            }
        };
        let (mut first, mut run): (u32, SmallVec<[Shown; INLINE]>) = (0, SmallVec::new());
        for index in 0..self.slots {
            let held = slots.get(index as usize).and_then(shown).or(empty);
            match held {
                Some(held) => run.push(held),
                None => {
                    // SAFETY: the caller promises that no work uses the set and that the resources of the slots are
                    // alive.
                    unsafe { write_run(device, (set, binding, descriptor_type), first, &run) };
                    run.clear();
                    first = index + 1;
                }
            }
        }
        // SAFETY: the caller promises that no work uses the set and that the resources of the slots are alive.
        unsafe { write_run(device, (set, binding, descriptor_type), first, &run) };
    }

    /// Removes one user of a version. If the version has no other user and is outdated, returns its set to the pool.
    pub(super) fn unbind(&self, set: vk::DescriptorSet) {
        let mut versions = self.versions.lock();
        let Some(at) = versions.live.iter().position(|held| held.set == set) else { return };
        versions.live[at].users -= 1;
        let is_current = at + 1 == versions.live.len() && !versions.dirty;
        if versions.live[at].users == 0 && !is_current {
            let unused = versions.live.remove(at);
            versions.pool.put(set);
            drop(versions);
            drop(unused);
        }
    }

    /// # Safety
    /// No pending work uses the heap, and it is not used again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        // SAFETY: the caller promises that no pending work uses a set of the heap. The pool, the layout and the
        // placeholders belong to the heap.
        unsafe {
            let mut versions = self.versions.lock();
            versions.pool.destroy(device.raw());
            versions.live.clear();
            device.raw().destroy_descriptor_set_layout(self.layout, None);
            if let Empty::Filler(filler) = &self.empty {
                filler.destroy(device);
            }
        }
    }
}

impl Versions {
    fn take_newest_if_unused(&mut self) -> Option<Version> {
        self.live.last().filter(|newest| newest.users == 0)?;
        let unused = self.live.pop()?;
        self.pool.put(unused.set);
        Some(unused)
    }
}

/// Returns a null descriptor, for devices that have them.
pub(super) fn null(descriptor_type: vk::DescriptorType) -> Shown {
    let buffer = vk::Buffer::null();
    match descriptor_type {
        vk::DescriptorType::UNIFORM_BUFFER | vk::DescriptorType::STORAGE_BUFFER => {
            Shown::Buffer { buffer, offset: 0, range: vk::WHOLE_SIZE }
        }
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
            Shown::Texels { view: vk::BufferView::null(), buffer, format: vk::Format::UNDEFINED, offset: 0, range: 0 }
        }
        _ => Shown::Image(vk::DescriptorImageInfo::default().image_layout(vk::ImageLayout::GENERAL)),
    }
}

/// Writes consecutive elements of an array.
///
/// # Safety
/// The set has the elements, and no work uses them. The resources are alive and match the type.
pub(super) unsafe fn write_run(
    device: &ash::Device,
    (set, binding, descriptor_type): (vk::DescriptorSet, u32, vk::DescriptorType),
    first: u32,
    run: &[Shown],
) {
    if run.is_empty() {
        return;
    }
    let mut buffers: SmallVec<[vk::DescriptorBufferInfo; INLINE]> = SmallVec::new();
    let mut texels: SmallVec<[vk::BufferView; INLINE]> = SmallVec::new();
    let mut images: SmallVec<[vk::DescriptorImageInfo; INLINE]> = SmallVec::new();
    for shown in run {
        match *shown {
            Shown::Buffer { buffer, offset, range } => {
                buffers.push(vk::DescriptorBufferInfo { buffer, offset, range });
            }
            Shown::Texels { view, .. } => texels.push(view),
            Shown::Image(image) => images.push(image),
        }
    }
    let write = vk::WriteDescriptorSet::default()
        .dst_set(set)
        .dst_binding(binding)
        .dst_array_element(first)
        .descriptor_type(descriptor_type);
    let write = if !buffers.is_empty() {
        write.buffer_info(&buffers)
    } else if !texels.is_empty() {
        write.texel_buffer_view(&texels)
    } else {
        write.image_info(&images)
    };
    // SAFETY: the caller promises that the set has these elements and that no work uses them. The arrays live through
    // the call.
    unsafe { device.update_descriptor_sets(&[write], &[]) };
}
