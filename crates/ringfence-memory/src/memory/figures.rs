//! The statistics of an allocator, for each frame, and snapshots of all its blocks and ranges.

use std::collections::HashSet;

use ringfence_lockfree::recycled::{Held, Recyclable, Recycling};
use ringfence_observe::Call;
use ringfence_trace::{DriverCalls, HeapSnapshot, Snapshot, Statistics, TypeSnapshot, TypeStatistics};

use super::place::{ArenaRef, PlaceKind};
use super::recycle::memory_of_kind;
use super::shared::{CLASSES, OwnArena, Shared};
use crate::device::Device;
use ringfence_arena::Recycled;

impl<D: Device> Shared<D> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let capabilities = self.device.capabilities();
        let statistics = self.statistics();
        let budgets = self.budgets.reported(&self.device);
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
        let mut recycled = HashSet::new();
        self.recycled.each(|item| {
            let (place, block) = (item.place(), self.memory_of(item.place()).block);
            recycled.extend(match (&place.arena, &place.kind) {
                (ArenaRef::Own(index), PlaceKind::Dedicated { number, .. }) => {
                    Some((Some(*index), Recycled::Dedicated { number: *number }))
                }
                _ => place.is_own_range().then(|| (None, Recycled::Range { block, offset: self.range_offset(place) })),
            });
        });
        let mut blocks = Vec::new();
        for (index, arena) in (0..).zip(&self.arenas) {
            let of_arena = |cached| matches!(cached, Recycled::Dedicated { .. }).then_some(index);
            arena.snapshot("", &|cached| recycled.contains(&(of_arena(cached), cached)), &mut blocks);
        }
        for pool in self.custom_pools.read().iter() {
            pool.arena.snapshot(&pool.name, &|_| false, &mut blocks);
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
        let get = |call| self.observers.calls.get(call);
        let mut types = self.type_statistics();
        let (mut recycled_count, mut recycled_bytes) = (0, 0);
        self.recycled.each(|item| {
            let Some(Held { bytes, kind }) = item.recycling().map(Recycling::held) else { return };
            recycled_count += 1;
            recycled_bytes += bytes;
            let Some((memory_type, is_dedicated)) = memory_of_kind(kind) else { return };
            let of_type = &mut types[memory_type as usize];
            let (counted, of_bytes) = match is_dedicated {
                true => (&mut of_type.dedicated_count, &mut of_type.dedicated_bytes),
                false => (&mut of_type.range_count, &mut of_type.range_bytes),
            };
            // Objects that are created or taken meanwhile may be in one count but not in the other.
            *counted = counted.saturating_sub(1);
            *of_bytes = of_bytes.saturating_sub(bytes);
            if is_dedicated {
                // The memory object still exists without a resource, so it counts as an empty block.
                of_type.block_count += 1;
                of_type.block_bytes += bytes;
                of_type.block_bytes_high_water = of_type.block_bytes_high_water.max(of_type.block_bytes);
            }
        });
        Statistics {
            types,
            recycled_count,
            recycled_bytes,
            retired_count: self.releases.retired.len() as u64,
            rounded_bytes: get(Call::RoundedBytes),
            calls: DriverCalls {
                allocate_memory: get(Call::AllocateMemory),
                free_memory: get(Call::FreeMemory),
                create_object: get(Call::CreateObject),
                destroy_object: get(Call::DestroyObject),
                recycled: self.recycled.taken(),
                placed: get(Call::Place),
                staged: get(Call::Stage),
                wait: get(Call::Wait),
            },
            moved_count: get(Call::Move),
            moved_bytes: get(Call::MovedBytes),
        }
    }
}
