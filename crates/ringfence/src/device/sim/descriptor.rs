//! Descriptor heaps: slots that show ranges of buffers to kernels. A slot holds an address, as real ones do.

use super::Device;
use super::command::BufferRange;
use super::hazard::HazardKind;
use super::ids::{DescriptorHeap, Label, What};
use super::order::Access;
use super::state::State;

#[derive(Debug)]
pub(super) struct Heap {
    pub(super) label: Label,
    /// The bytes that each slot shows.
    slots: Vec<Option<Access>>,
}

impl Device {
    /// Makes a descriptor heap of empty slots.
    #[must_use]
    pub fn create_descriptor_heap(&self, slots: u32, name: &str) -> DescriptorHeap {
        self.with(|state| {
            let id = state.draw_id();
            let label = Label::named(What::DescriptorHeap, id, name);
            state.descriptor_heaps.insert(id, Heap { label, slots: vec![None; slots as usize] });
            DescriptorHeap(id)
        })
    }

    /// Makes a slot show a range of a buffer, or nothing. A hazard if pending work uses the slot.
    pub fn write_descriptor(&self, heap: DescriptorHeap, slot: u32, view: Option<BufferRange>) {
        self.with(|state| {
            let view = view.and_then(|range| state.buffer_access(range, None, true));
            let Some(held) = state.descriptor_heaps.get_mut(&heap.0) else {
                return state.report_stale(What::DescriptorHeap, heap.0, "written");
            };
            let label = held.label.clone();
            match held.slots.get_mut(slot as usize) {
                Some(held) => *held = view,
                None => return state.report_slot(label, slot),
            }
            let range = u64::from(slot)..u64::from(slot) + 1;
            state.report_pending(HazardKind::DescriptorWhilePending, heap.0, &range, |_| true);
        });
    }

    /// Destroys a descriptor heap. A hazard if pending work uses it.
    pub fn destroy_descriptor_heap(&self, heap: DescriptorHeap) {
        self.with(|state| {
            let Some(held) = state.descriptor_heaps.remove(&heap.0) else {
                return state.report_stale(What::DescriptorHeap, heap.0, "destroyed twice or never made");
            };
            let all = 0..held.slots.len() as u64;
            state.report_pending(HazardKind::DestroyedWhilePending, heap.0, &all, |_| true);
            state.bury(held.label);
        });
    }
}

impl State {
    /// What the slot shows now.
    pub(super) fn descriptor(&self, heap: DescriptorHeap, slot: u32) -> Option<&Access> {
        self.descriptor_heaps.get(&heap.0)?.slots.get(slot as usize)?.as_ref()
    }
}
