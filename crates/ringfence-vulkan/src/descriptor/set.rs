//! Heaps of one descriptor set each. The set is written while it is bound, in slots that no pending work reads.

use ash::vk;

use crate::error::failed;
use smallvec::SmallVec;

use super::plain::{null, write_run};
use super::pool::SetPool;
use super::types;
use super::view::{Real, Slot};
use crate::device::Device;
use crate::features::Features;
use ringfence_hal::DeviceError;
use ringfence_hal::descriptors::{HeapDesc, HeapKind, ViewCopy};
use ringfence_hal::lock::Lock;

/// A heap that is one descriptor set.
pub(super) struct SetHeap {
    kind: HeapKind,
    layout: vk::DescriptorSetLayout,
    set: vk::DescriptorSet,
    /// Pool from which `set` is allocated.
    pool: Lock<SetPool>,
}

impl SetHeap {
    pub(super) fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        let layout_flags = vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL;
        let binding_flags = vk::DescriptorBindingFlags::UPDATE_AFTER_BIND
            | vk::DescriptorBindingFlags::PARTIALLY_BOUND
            | vk::DescriptorBindingFlags::UPDATE_UNUSED_WHILE_PENDING;
        let pool_flags = vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND;
        let (raw, bindings) = (device.raw(), types::bindings(desc.kind, desc.types));
        let stages = device.0.descriptors.stages;
        // SAFETY: `DeviceDesc` says that the features for these flags are enabled.
        let layout = unsafe {
            types::make_layout(raw, bindings.clone(), desc.layout_slots, stages, layout_flags, binding_flags)
        }
        .map_err(failed("vkCreateDescriptorSetLayout"))?;
        let mut pool = SetPool::new(layout, bindings.map(|(_, of)| of), desc.layout_slots, pool_flags);
        // SAFETY: the layout belongs to the device and is alive.
        match unsafe { pool.take(raw) } {
            Ok(set) => Ok(Self { kind: desc.kind, layout, set, pool: Lock::new(pool) }),
            Err(error) => {
                // SAFETY: no object uses the layout.
                unsafe { raw.destroy_descriptor_set_layout(layout, None) };
                Err(error)
            }
        }
    }

    pub(super) fn set(&self) -> vk::DescriptorSet {
        self.set
    }

    pub(super) fn layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// # Safety
    /// The slot may be written, and no other thread accesses the set. The heap has the view's type.
    pub(super) unsafe fn write(&self, device: &Device, (slot, before): (u32, Option<u32>), real: &Real) {
        if let Some(before) = before.filter(|before| *before != real.binding) {
            // SAFETY: the caller promises that the slot may be written and that no other thread accesses the set.
            unsafe { self.clear(device, slot, before) };
        }
        let array = (self.set, real.binding, real.descriptor_type);
        // SAFETY: the caller promises that the slot may be written. The view's resources are alive.
        unsafe { write_run(device.raw(), array, slot, &[real.shown]) };
    }

    /// Writes a null descriptor to the slot if the device has null descriptors. Otherwise, and for samplers, does
    /// nothing.
    ///
    /// # Safety
    /// The slot may be written, and no other thread accesses the set.
    pub(super) unsafe fn clear(&self, device: &Device, slot: u32, binding: u32) {
        let descriptor_type = types::type_of(self.kind, binding);
        if !device.0.descriptors.has(Features::NULL_DESCRIPTOR) || descriptor_type == vk::DescriptorType::SAMPLER {
            return;
        }
        // SAFETY: the caller promises that the slot may be written. Null descriptors are enabled.
        unsafe { write_run(device.raw(), (self.set, binding, descriptor_type), slot, &[null(descriptor_type)]) };
    }

    /// Copies slots. Consecutive slots of one type are copied by one call.
    ///
    /// # Safety
    /// The rules of [`copy_views`](ringfence_hal::descriptors::Descriptors::copy_views). No other thread accesses this
    /// set.
    pub(super) unsafe fn copy<H>(
        &self,
        device: &Device,
        from: &Self,
        copy: &ViewCopy<'_, H>,
        held: &[Slot],
        shown: &[Slot],
    ) {
        let mut runs: SmallVec<[vk::CopyDescriptorSet<'_>; 16]> = SmallVec::new();
        for (index, (held, shown)) in (0..).zip(held.iter().zip(shown)) {
            if let Some(before) = held.binding.filter(|before| Some(*before) != shown.binding) {
                // SAFETY: the caller promises that the slot may be written and that no other thread accesses the set.
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
                        .src_set(from.set)
                        .src_binding(binding)
                        .src_array_element(copy.src_start + index)
                        .dst_set(self.set)
                        .dst_binding(binding)
                        .dst_array_element(copy.dst_start + index)
                        .descriptor_count(1),
                ),
            }
        }
        // SAFETY: the caller promises that the slots may be written and that their resources are alive. Both sets have
        // these bindings and elements.
        unsafe { device.raw().update_descriptor_sets(&[], &runs) };
    }

    /// # Safety
    /// No pending work uses the heap, and it is not used again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        // SAFETY: the caller promises that no pending work uses the set. Pool and layout belong to this heap.
        unsafe {
            self.pool.lock().destroy(device.raw());
            device.raw().destroy_descriptor_set_layout(self.layout, None);
        }
    }
}
