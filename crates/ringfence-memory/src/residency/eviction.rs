//! Evicting memory objects, and making them resident again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_timeline::{Frame, Passed};
use scopeguard::{ScopeGuard, guard};

use crate::device::{Device, DeviceError, MemoryProperties, Priority};
use crate::memory::Shared;
use ringfence_arena::ResidencyState;

impl<D: Device> Shared<D> {
    /// Creates the residency state of new memory. Returns `None` if the memory can never be evicted.
    pub(crate) fn residence(
        &self,
        object: &D::Memory,
        memory_type: u32,
        bytes: u64,
        priority: Priority,
    ) -> Option<Arc<ResidencyState<D>>> {
        let capabilities = self.device.capabilities();
        let held = capabilities.memory_types[memory_type as usize];
        let is_near = held.properties.contains(MemoryProperties::DEVICE_LOCAL);
        let is_mapped = held.properties.contains(MemoryProperties::HOST_VISIBLE);
        if !capabilities.residency || !is_near || is_mapped {
            return None;
        }
        let pageable = self.device.pageable(object)?;
        let tick = self.residents.tick.load(Ordering::Relaxed);
        let residence = Arc::new(ResidencyState::new(pageable, bytes, held.heap, priority, tick));
        self.residents.enlist(&residence);
        Some(residence)
    }

    /// Evicts memory of a heap, the lowest priority first, then the least recently used, until at least `bytes` are
    /// evicted or no more can be evicted. Returns the number of evicted bytes. The lock `calls` is held.
    pub(crate) fn evict_least_used(&self, heap: u32, bytes: u64, passed: &Passed) -> Result<u64, DeviceError> {
        if bytes == 0 {
            return Ok(0);
        }
        let may_go = |held: &Arc<ResidencyState<D>>| {
            held.heap == heap && !held.is_evicted() && !held.is_pinned() && held.is_unused(passed)
        };
        let mut objects: Vec<_> = self.residents.each().into_iter().filter(may_go).collect();
        objects.sort_by_key(|held| held.rank());
        #[cfg(test)]
        {
            let step = self.between_evictions.lock().take();
            step.into_iter().for_each(|step| step());
        }
        let mut sum = 0;
        objects.retain(|held| {
            let goes = sum < bytes && held.take(passed);
            sum += if goes { held.bytes } else { 0 };
            goes
        });
        if objects.is_empty() {
            return Ok(0);
        }
        let pageables: Vec<_> = objects.iter().map(|held| held.pageable.clone()).collect();
        let taken = guard((), |()| objects.iter().for_each(|held| held.set_resident()));
        // SAFETY: all belong to this device and are resident; that state changes only under the lock that is held here.
        // All of their uses are complete, and a later user has promised to commit them first, which takes that lock.
        unsafe { self.device.evict(&pageables) }?;
        ScopeGuard::into_inner(taken);
        objects.iter().for_each(|held| self.budgets.add_absent(held.heap, held.bytes));
        Ok(self.residents.count(|held| &held.evicted, &objects))
    }

    pub(crate) fn returned(&self, residence: &ResidencyState<D>) {
        residence.set_resident();
        self.budgets.remove_absent(residence.heap, residence.bytes);
    }

    /// Evicts memory of a heap for an allocation of `bytes`. Returns `true` if memory was evicted.
    pub(crate) fn relieve(&self, heap: u32, bytes: u64) -> bool {
        if !self.residents.is_managed.load(Ordering::Relaxed) || self.residents.all.lock().is_empty() {
            return false;
        }
        let evicted = {
            let mut scratch = self.residents.calls.lock();
            let passed = &mut scratch.passed;
            let read = self.read(passed);
            read.and_then(|()| self.evict_least_used(heap, bytes, passed)).unwrap_or(0)
        };
        self.budgets.refresh(&self.device);
        evicted > 0
    }

    /// Makes a block resident if it is evicted, because a range without declared uses was allocated in it.
    pub(crate) fn keep_resident(&self, residence: &Arc<ResidencyState<D>>) -> Result<(), DeviceError> {
        let _one_at_a_time = self.residents.calls.lock();
        if !residence.is_evicted() {
            return Ok(());
        }
        // SAFETY: it belongs to this device and is evicted; that state changes only under the lock that is held here.
        unsafe { self.device.make_resident(std::slice::from_ref(&residence.pageable)) }?;
        self.returned(residence);
        self.residents.count(|held| &held.returned, std::slice::from_ref(residence));
        Ok(())
    }

    /// Records that memory is about to be freed. Returns `true` if it is evicted. This state does not change
    /// afterwards.
    pub(crate) fn close_residence(&self, residence: &ResidencyState<D>) -> bool {
        residence.close();
        if residence.is_evicted() {
            // A driver call may be evicting it or making it resident: wait until that call has returned.
            drop(self.residents.calls.lock());
        }
        residence.is_evicted()
    }

    /// Makes memory resident for a copy, and keeps it resident until the frame's point has passed.
    pub(crate) fn hold_resident(
        &self,
        residence: Option<&Arc<ResidencyState<D>>>,
        frame: &Frame,
    ) -> Result<(), DeviceError> {
        let Some(residence) = residence else { return Ok(()) };
        residence.stamp(frame.point(), self.residents.tick.load(Ordering::Relaxed));
        if residence.is_evicted() { self.keep_resident(residence) } else { Ok(()) }
    }
}
