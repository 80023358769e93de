//! An allocator's figures: statistics for each frame, and a snapshot of everything.

use std::sync::atomic::Ordering;

use super::shared::{CLASSES, OwnArena, Shared};
use super::snapshot::{HeapSnapshot, Snapshot, TypeSnapshot};
use super::statistics::{Counter, DriverCalls, Statistics, TypeStatistics};
use crate::device::Device;

impl<D: Device> Shared<D> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let capabilities = self.device.capabilities();
        let statistics = self.statistics();
        let budgets = self.device.budgets();
        let heaps = (0..).zip(&capabilities.memory_heaps).map(|(index, heap)| {
            let reported = budgets.as_ref().and_then(|budgets| budgets.get(index as usize));
            HeapSnapshot {
                bytes: heap.bytes,
                device_local: heap.device_local,
                reserved_bytes: self.budgets.heap(index).reserved_bytes,
                usage_bytes: reported.map(|reported| reported.usage_bytes),
                budget_bytes: reported.map(|reported| reported.budget_bytes),
            }
        });
        let types = capabilities.memory_types.iter().zip(&statistics.types).map(|(held, statistics)| TypeSnapshot {
            heap: held.heap,
            properties: held.properties.iter_names().map(|(name, _)| name.to_owned()).collect(),
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

    fn type_statistics(&self) -> Vec<TypeStatistics> {
        let sum = |arenas: &[OwnArena<D>]| {
            let mut sum = TypeStatistics::default();
            arenas.iter().for_each(|arena| sum.add(&arena.statistics()));
            sum
        };
        let mut types: Vec<_> = self.arenas.chunks(CLASSES.len()).map(sum).collect();
        for pool in self.custom_pools.read().iter() {
            types[pool.arena.desc.memory_type as usize].add(&pool.arena.statistics());
        }
        types
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let get = Counter::get;
        Statistics {
            types: self.type_statistics(),
            retired_count: self.releases.retired.len() as u64,
            calls: DriverCalls {
                allocate_memory: get(&self.calls.allocate_memory),
                free_memory: get(&self.calls.free_memory),
                create_object: get(&self.calls.create_object),
                destroy_object: get(&self.calls.destroy_object),
                placed: get(&self.calls.placed),
                staged: get(&self.calls.staged),
                wait: get(&self.calls.wait),
            },
            moved_count: self.moved.count.load(Ordering::Relaxed),
            moved_bytes: self.moved.bytes.load(Ordering::Relaxed),
        }
    }
}
