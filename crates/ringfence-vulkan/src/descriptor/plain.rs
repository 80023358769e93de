//! Heaps of plain sets: slots in host memory, and a set that is written from them at a bind.
//!
//! ```text
//!   slots ── written, copied: host memory alone ──▶ dirty
//!   bind  ── dirty ──▶ a set from the pool, all arrays written ──▶ version 7 ── bound, 2 users
//!                                                                  version 6 ── 1 user ──▶ 0: back to the pool
//! ```
//!
//! Pending work uses all that a bound set was written with, read by shaders or not. So a version keeps the views and
//! samplers that its elements show; and a buffer or an image leaves the slots when its owner releases it
//! ([`note_retired`](ringfence_hal::Create::note_retired)): it waits for the frames that had begun by then, and no
//! later bind shows it.
//!
//! A set has an array for each kind of view ([`super::kinds`]). What an element is written with that shows nothing: a
//! null descriptor where the device has those; nothing, where arrays may be partially bound; else what another slot of
//! the same array shows, or a placeholder.

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

/// Descriptors of an array that are written without host memory of their own.
const INLINE: usize = 32;

/// A shader-visible heap of plain sets.
pub(super) struct PlainHeap {
    bindings: types::Bindings,
    layout: vk::DescriptorSetLayout,
    /// Elements of each array.
    slots: u32,
    empty: Empty,
    versions: Lock<Versions>,
}

/// What is written where a slot shows nothing.
enum Empty {
    Null,
    Unwritten,
    Filler(Box<Filler>),
}

struct Versions {
    pool: SetPool,
    /// Whether a slot was written since the newest version.
    dirty: bool,
    /// The newest stands last.
    live: SmallVec<[Version; 4]>,
}

struct Version {
    set: vk::DescriptorSet,
    /// Binds that were not undone.
    users: u32,
    /// What the set was written with.
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
        // SAFETY: the flag is set only where `DeviceDesc` says that its feature is enabled.
        let layout = unsafe { types::make_layout(raw, arrays, slots, facts.stages, Default::default(), flags) };
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => {
                if let Empty::Filler(filler) = empty {
                    // SAFETY: nothing uses it.
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

    /// A slot was written: the next bind takes another set.
    pub(super) fn touch(&self) {
        let mut versions = self.versions.lock();
        versions.dirty = true;
        // Dropped without the lock: views are destroyed.
        let unused = versions.take_newest_if_unused();
        drop(versions);
        drop(unused);
    }

    /// The set for a command buffer: one that shows what the slots show now.
    ///
    /// # Safety
    /// What the slots show is alive.
    pub(super) unsafe fn bind(&self, device: &Device, slots: &[Slot]) -> Result<vk::DescriptorSet, DeviceError> {
        let mut versions = self.versions.lock();
        if versions.dirty || versions.live.is_empty() {
            // SAFETY: the layout is the device's and alive.
            let set = unsafe { versions.pool.take(device.raw()) }?;
            for (binding, descriptor_type) in &self.bindings {
                // SAFETY: nothing uses the set; what the slots show is alive, as the caller promises.
                unsafe { self.write_array(device.raw(), (set, *binding, *descriptor_type), slots) };
            }
            versions.take_newest_if_unused();
            let shown = slots.iter().filter_map(|slot| slot.object.clone()).collect();
            versions.live.push(Version { set, users: 0, _shown: shown });
            versions.dirty = false;
        }
        let newest = versions.live.last_mut().expect("there is one by now");
        newest.users += 1;
        Ok(newest.set)
    }

    /// Writes all elements of an array that are to be written, in runs.
    ///
    /// # Safety
    /// Nothing uses the set; what the slots show is alive.
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
                    // SAFETY: the caller promises that nothing uses the set and that what the slots show is alive.
                    unsafe { write_run(device, (set, binding, descriptor_type), first, &run) };
                    run.clear();
                    first = index + 1;
                }
            }
        }
        // SAFETY: the caller promises that nothing uses the set and that what the slots show is alive.
        unsafe { write_run(device, (set, binding, descriptor_type), first, &run) };
    }

    /// One user less of a version.
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
    /// No pending work uses it, and it is not used again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        // SAFETY: the caller promises that no pending work uses a set of the heap; pool, layout and placeholders are
        // its own.
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

/// What shows nothing, on a device with null descriptors.
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

/// Writes a run of elements.
///
/// # Safety
/// The set has the elements, and nothing uses them; what is shown is alive and of that type.
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
    // SAFETY: the caller promises that the set has these elements and that nothing uses them; the arrays live through
    // the call.
    unsafe { device.update_descriptor_sets(&[write], &[]) };
}
