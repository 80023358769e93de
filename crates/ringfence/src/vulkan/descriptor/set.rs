//! Heaps that are descriptor sets.
//!
//! ```text
//!   update after bind   master ── bound itself ──▶ written all the while, in slots that nothing pending reads
//!   plain               master ── copied when it was written since ──▶ version 7 ── bound, 2 users
//!                                                                      version 6 ── 1 user ──▶ 0: back to the pool
//! ```

use ash::vk;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::pool::SetPool;
use super::view::{Real, Shown};
use super::{DescriptorHeap, Slot, types};
use crate::device::DeviceError;
use crate::device::descriptors::{DescriptorModel, HeapDesc, HeapKind, ViewCopy, ViewTypes};
use crate::vulkan::Device;

/// A heap that is a set.
pub(super) struct SetHeap {
    kind: HeapKind,
    types: ViewTypes,
    layout: vk::DescriptorSetLayout,
    /// What is written.
    master: vk::DescriptorSet,
    /// Elements of each array.
    slots: u32,
    /// In every slot that shows nothing, where every slot has to show something.
    null_sampler: vk::Sampler,
    bound: Mutex<Versions>,
}

/// Copies of the master, for plain sets; else only the pool that the master is from.
struct Versions {
    pool: SetPool,
    /// Whether each bind takes the master as it is then.
    are_copies: bool,
    /// Whether the master was written since the newest copy.
    dirty: bool,
    /// Sets and how many use them; the newest stands last.
    live: SmallVec<[(vk::DescriptorSet, u32); 4]>,
}

impl SetHeap {
    pub(super) fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        let facts = &device.0.descriptors;
        let plain = facts.model() == DescriptorModel::PlainSets;
        if plain && !facts.desc.null_descriptor && desc.kind == HeapKind::Resources {
            return Err(DeviceError::Unsupported("plain descriptor sets without null descriptors"));
        }
        let (layout_flags, binding_flags, pool_flags) = flags(plain);
        let (raw, bindings) = (device.raw(), types::bindings(desc.kind, desc.types));
        // SAFETY: what the flags ask for is enabled, as `DeviceDesc` says.
        let layout = unsafe {
            types::make_layout(raw, bindings.clone(), desc.layout_slots, facts.stages, layout_flags, binding_flags)
        }?;
        let mut pool = SetPool::new(layout, bindings.map(|(_, of)| of), desc.layout_slots, pool_flags);
        // SAFETY: the layout is the device's and alive.
        let master = match unsafe { pool.take(raw) } {
            Ok(master) => master,
            Err(error) => {
                // SAFETY: nothing uses the layout.
                unsafe { raw.destroy_descriptor_set_layout(layout, None) };
                return Err(error.into());
            }
        };
        let are_copies = plain && desc.shader_visible;
        let bound = Mutex::new(Versions { pool, are_copies, dirty: true, live: SmallVec::new() });
        let null_sampler = vk::Sampler::null();
        let slots = desc.layout_slots;
        let mut heap = Self { kind: desc.kind, types: desc.types, layout, master, slots, null_sampler, bound };
        if plain && let Err(error) = heap.fill_with_nulls(device) {
            // SAFETY: nobody has seen it.
            unsafe { heap.destroy(device) };
            return Err(error);
        }
        Ok(heap)
    }

    /// Every element of a plain set has to be valid.
    fn fill_with_nulls(&mut self, device: &Device) -> Result<(), DeviceError> {
        if self.kind == HeapKind::Samplers {
            // SAFETY: the description is valid.
            self.null_sampler = unsafe { device.raw().create_sampler(&vk::SamplerCreateInfo::default(), None) }?;
        }
        for (binding, _) in types::bindings(self.kind, self.types) {
            // SAFETY: the set is new and nobody has seen it.
            unsafe { self.write_nulls(device, binding, 0, self.slots) };
        }
        Ok(())
    }

    pub(super) fn layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// # Safety
    /// The slot may be written and nobody else touches the set; the view is of a type that the heap has.
    pub(super) unsafe fn write(
        &self,
        device: &Device,
        (slot, before): (u32, Option<u32>),
        real: &Real,
    ) -> Result<(), DeviceError> {
        if !types::bindings(self.kind, self.types).any(|(_, of)| of == real.descriptor_type) {
            return Err(DeviceError::InvalidInfo("a view of a type that the heap was not made for"));
        }
        if let Some(before) = before.filter(|before| *before != real.binding) {
            // SAFETY: as the caller promises.
            unsafe { self.clear(device, slot, before) };
        }
        let write = vk::WriteDescriptorSet::default()
            .dst_set(self.master)
            .dst_binding(real.binding)
            .dst_array_element(slot)
            .descriptor_type(real.descriptor_type);
        let (buffers, images, texels);
        let write = match real.shown {
            Shown::Buffer { buffer, offset, range } => {
                buffers = [vk::DescriptorBufferInfo { buffer, offset, range }];
                write.buffer_info(&buffers)
            }
            Shown::Texels { view, .. } => {
                texels = [view];
                write.texel_buffer_view(&texels)
            }
            Shown::Image(image) => {
                images = [image];
                write.image_info(&images)
            }
        };
        // SAFETY: the caller promises that the slot may be written; what is shown is alive.
        unsafe { device.raw().update_descriptor_sets(&[write], &[]) };
        self.bound.lock().dirty = true;
        Ok(())
    }

    /// Makes the slot show nothing, where the device has a word for that.
    ///
    /// # Safety
    /// As [`SetHeap::write`].
    pub(super) unsafe fn clear(&self, device: &Device, slot: u32, binding: u32) {
        let has_null =
            device.0.descriptors.desc.null_descriptor || self.kind == HeapKind::Samplers && self.has_null_sampler();
        if has_null {
            // SAFETY: as the caller promises.
            unsafe { self.write_nulls(device, binding, slot, 1) };
            self.bound.lock().dirty = true;
        }
    }

    fn has_null_sampler(&self) -> bool {
        self.null_sampler != vk::Sampler::null()
    }

    /// # Safety
    /// As [`SetHeap::write`]; null descriptors are enabled, or there is a sampler for none.
    unsafe fn write_nulls(&self, device: &Device, binding: u32, first: u32, count: u32) {
        let descriptor_type = types::type_of(self.kind, binding);
        let write = vk::WriteDescriptorSet::default()
            .dst_set(self.master)
            .dst_binding(binding)
            .dst_array_element(first)
            .descriptor_type(descriptor_type);
        let buffer = vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE);
        let (buffers, images, texels): (SmallVec<[_; 1]>, SmallVec<[_; 1]>, SmallVec<[_; 1]>);
        let count = count as usize;
        let write = match descriptor_type {
            vk::DescriptorType::UNIFORM_BUFFER | vk::DescriptorType::STORAGE_BUFFER => {
                buffers = SmallVec::from_elem(buffer, count);
                write.buffer_info(&buffers)
            }
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
                texels = SmallVec::from_elem(vk::BufferView::null(), count);
                write.texel_buffer_view(&texels)
            }
            vk::DescriptorType::SAMPLER if !self.has_null_sampler() => return,
            _ => {
                let image = vk::DescriptorImageInfo::default()
                    .sampler(self.null_sampler)
                    .image_layout(vk::ImageLayout::GENERAL);
                images = SmallVec::from_elem(image, count);
                write.image_info(&images)
            }
        };
        // SAFETY: as the caller promises.
        unsafe { device.raw().update_descriptor_sets(&[write], &[]) };
    }

    /// Copies runs of slots of equal type.
    ///
    /// # Safety
    /// As [`copy_views`](crate::device::descriptors::Descriptors::copy_views); nobody else touches this set.
    pub(super) unsafe fn copy(
        &self,
        device: &Device,
        from: &Self,
        copy: &ViewCopy<'_, DescriptorHeap>,
        held: &[Slot],
        shown: &[Slot],
    ) {
        let mut runs: SmallVec<[vk::CopyDescriptorSet<'_>; 16]> = SmallVec::new();
        for (index, (held, shown)) in (0..).zip(held.iter().zip(shown)) {
            if let Some(before) = held.binding.filter(|before| Some(*before) != shown.binding) {
                // SAFETY: as the caller promises.
                unsafe { self.clear(device, copy.dst_start + index, before) };
            }
            let Some(binding) = shown.binding else { continue };
            match runs.last_mut() {
                Some(run)
                    if run.src_binding == binding
                        && run.src_array_element + run.descriptor_count == copy.src_start + index =>
                {
                    run.descriptor_count += 1;
                }
                _ => runs.push(
                    vk::CopyDescriptorSet::default()
                        .src_set(from.master)
                        .src_binding(binding)
                        .src_array_element(copy.src_start + index)
                        .dst_set(self.master)
                        .dst_binding(binding)
                        .dst_array_element(copy.dst_start + index)
                        .descriptor_count(1),
                ),
            }
        }
        // SAFETY: as the caller promises; both sets have these bindings and elements.
        unsafe { device.raw().update_descriptor_sets(&[], &runs) };
        self.bound.lock().dirty = true;
    }

    /// The set for a command buffer: the master, or the newest copy of it.
    ///
    /// # Safety
    /// Nobody writes the heap meanwhile.
    pub(super) unsafe fn bind(&self, device: &Device) -> Result<vk::DescriptorSet, DeviceError> {
        let mut bound = self.bound.lock();
        if !bound.are_copies {
            return Ok(self.master);
        }
        if bound.dirty || bound.live.is_empty() {
            // SAFETY: the layout is the device's and alive.
            let set = unsafe { bound.pool.take(device.raw()) }?;
            // SAFETY: the set is nobody's; nobody writes the master.
            unsafe { self.copy_master(device, set) };
            bound.retire_newest_if_unused();
            bound.live.push((set, 0));
            bound.dirty = false;
        }
        let newest = bound.live.last_mut().expect("there is one by now");
        newest.1 += 1;
        Ok(newest.0)
    }

    /// # Safety
    /// Nothing uses the set, and nobody writes the master.
    unsafe fn copy_master(&self, device: &Device, set: vk::DescriptorSet) {
        let copies: SmallVec<[_; 6]> = types::bindings(self.kind, self.types)
            .map(|(binding, _)| {
                vk::CopyDescriptorSet::default()
                    .src_set(self.master)
                    .src_binding(binding)
                    .dst_set(set)
                    .dst_binding(binding)
                    .descriptor_count(self.slots)
            })
            .collect();
        // SAFETY: as the caller promises.
        unsafe { device.raw().update_descriptor_sets(&[], &copies) };
    }

    /// One user less of a copy.
    pub(super) fn unbind(&self, set: vk::DescriptorSet) {
        let mut bound = self.bound.lock();
        let Some(at) = bound.live.iter().position(|(held, _)| *held == set) else { return };
        bound.live[at].1 -= 1;
        let is_newest = at + 1 == bound.live.len();
        if bound.live[at].1 == 0 && !is_newest {
            bound.live.remove(at);
            bound.pool.put(set);
        }
    }

    /// # Safety
    /// No pending work uses it, and nobody uses it again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        // SAFETY: as the caller promises; a null sampler is passed over.
        unsafe {
            self.bound.lock().pool.destroy(device.raw());
            device.raw().destroy_sampler(self.null_sampler, None);
            device.raw().destroy_descriptor_set_layout(self.layout, None);
        }
    }
}

impl Versions {
    fn retire_newest_if_unused(&mut self) {
        if let Some((set, 0)) = self.live.last().copied() {
            self.live.pop();
            self.pool.put(set);
        }
    }
}

fn flags(
    plain: bool,
) -> (vk::DescriptorSetLayoutCreateFlags, vk::DescriptorBindingFlags, vk::DescriptorPoolCreateFlags) {
    if plain {
        return Default::default();
    }
    (
        vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL,
        vk::DescriptorBindingFlags::UPDATE_AFTER_BIND
            | vk::DescriptorBindingFlags::PARTIALLY_BOUND
            | vk::DescriptorBindingFlags::UPDATE_UNUSED_WHILE_PENDING,
        vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND,
    )
}
