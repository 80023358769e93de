//! Eviction of memory, and reports of uses of evicted memory.
//!
//! Evicted memory keeps its contents and does not count as usage of its heap. Three mistakes are hazards: submitting
//! work that uses evicted memory, evicting memory that pending work uses, and evicting memory or making it resident
//! twice in a row. On a real device, work that uses evicted memory is sometimes lost or removes the device. Here it is
//! always reported.

use super::hazard::{Hazard, HazardKind};
use super::ids::Memory;
use super::order::Access;
use super::state::State;
use ringfence_hal::{DeviceError, Priority};

impl State {
    /// Returns the heap and the size of live memory.
    fn heap_and_size(&self, id: u64) -> Option<(usize, u64)> {
        let object = self.memories.get(&id)?;
        let heap = self.profile.capabilities.memory_types[object.memory_type as usize].heap;
        Some((heap as usize, object.size))
    }

    fn check_residency(&self) -> Result<(), DeviceError> {
        self.check_alive()?;
        let has = self.profile.capabilities.residency;
        if has { Ok(()) } else { Err(DeviceError::unsupported("residency")) }
    }

    /// Makes all of `memory` resident, or returns an error and makes none resident. Memory that was freed is ignored,
    /// because on a real device `ID3D12Pageable` keeps the object alive.
    pub(super) fn make_resident(&mut self, memory: &[Memory]) -> Result<(), DeviceError> {
        self.check_residency()?;
        self.counts.make_resident += 1;
        let mut used = self.heap_used.clone();
        for (heap, size) in memory.iter().filter_map(|memory| self.heap_and_size(memory.0)) {
            used[heap] += size;
            if used[heap] > self.profile.capabilities.memory_heaps[heap].bytes {
                return Err(DeviceError::OutOfDeviceMemory);
            }
        }
        for memory in memory {
            self.set_evicted(memory.0, false);
        }
        Ok(())
    }

    pub(super) fn evict(&mut self, memory: &[Memory]) -> Result<(), DeviceError> {
        self.check_residency()?;
        self.counts.evict += 1;
        for memory in memory {
            if let Some((_, size)) = self.heap_and_size(memory.0) {
                self.report_pending(HazardKind::EvictedWhilePending, memory.0, &(0..size), |_| true);
            }
            self.set_evicted(memory.0, true);
        }
        Ok(())
    }

    fn set_evicted(&mut self, id: u64, is_evicted: bool) {
        let Some((heap, size)) = self.heap_and_size(id) else { return };
        let Some(object) = self.memories.get_mut(&id) else { return };
        if object.is_evicted == is_evicted {
            let hazard = Hazard::about(HazardKind::Misuse, object.label.clone());
            return self.report(hazard.detail("made resident or evicted twice in a row"));
        }
        object.is_evicted = is_evicted;
        if is_evicted {
            self.heap_used[heap] -= size;
            self.counts.evict_bytes += size;
        } else {
            self.heap_used[heap] += size;
            self.counts.make_resident_bytes += size;
        }
    }

    pub(super) fn set_priority(&mut self, id: u64, priority: Priority) {
        if let Some(object) = self.memories.get_mut(&id) {
            object.priority = priority;
        }
    }

    /// Reports each use of evicted memory in a new submission.
    pub(super) fn report_evicted(&mut self, uses: &[Access], queue: usize) {
        let is_evicted = |space: u64| self.memories.get(&space).is_some_and(|object| object.is_evicted);
        let found: Vec<_> = uses.iter().filter(|access| is_evicted(access.space)).cloned().collect();
        for Access { label, space_label, range, .. } in found {
            let hazard = Hazard::about(HazardKind::UsedWhileEvicted, label).within(space_label, range);
            self.report(hazard.on_queue(queue));
        }
    }
}
