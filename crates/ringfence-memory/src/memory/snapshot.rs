//! Everything that is in memory at a moment, as plain data: for reports, leak hunts and tests. O(ranges).

use super::arena::Note;
use super::shared::Shared;
use crate::device::{Device, ResourceClass};

pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};

/// A range that is in use, with what its owner noted of it.
pub(super) fn range_snapshot(offset: u64, bytes: u64, note: Option<&Note>) -> RangeSnapshot {
    let (name, user_data) = note.map_or((String::new(), 0), |note| (note.name.to_string(), note.user_data));
    RangeSnapshot { offset, bytes, name, user_data }
}

impl<D: Device> Shared<D> {
    pub(super) fn snapshot(&self) -> Snapshot {
        let capabilities = self.device.capabilities();
        let statistics = self.statistics();
        let budgets = self.device.budgets();
        let heaps = (0..).zip(&capabilities.memory_heaps).map(|(index, heap)| {
            let told = budgets.as_ref().and_then(|budgets| budgets.get(index as usize));
            HeapSnapshot {
                bytes: heap.bytes,
                device_local: heap.device_local,
                reserved_bytes: self.reserved_bytes(index),
                usage_bytes: told.map(|told| told.usage_bytes),
                budget_bytes: told.map(|told| told.budget_bytes),
            }
        });
        let types = capabilities.memory_types.iter().zip(&statistics.types).map(|(held, statistics)| TypeSnapshot {
            heap: held.heap,
            properties: held.properties.names().map(str::to_owned).collect(),
            statistics: *statistics,
        });
        let mut blocks = Vec::new();
        for arena in &self.arenas {
            arena.snapshot("", &mut blocks);
        }
        for pool in self.custom_pools.read().iter() {
            pool.arena.snapshot(&pool.name, &mut blocks);
        }
        Snapshot {
            version: 1,
            device: capabilities.name.clone(),
            heaps: heaps.collect(),
            types: types.collect(),
            blocks,
            rings: self.rings.snapshot(),
            descriptors: self.descriptor_heaps.snapshot(),
            retired_count: statistics.retired_count,
            calls: statistics.calls,
        }
    }
}

/// What lies in the blocks of a class, where some classes share them.
pub(super) fn class_name(groups: [u8; 3], class: ResourceClass) -> &'static str {
    let [buffer, texture, target] = groups;
    match class {
        ResourceClass::Buffer if buffer == texture && texture == target => "all",
        ResourceClass::Buffer => "buffers",
        ResourceClass::Texture => "textures",
        ResourceClass::RenderTarget => "render targets",
    }
}
