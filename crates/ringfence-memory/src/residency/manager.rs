//! Who is evicted, when, and how it comes back.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Residence;
#[cfg(test)]
use super::tests;
use crate::device::{Create, Device, DeviceError, MemoryProperties, Priority};
use crate::memory::{Allocation, Allocator, Budget, Shared};
use crate::resource::{Resource, ResourceKind};
use crate::timeline::{Frame, Passed};

/// How a [`Residency`] goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResidencyDesc {
    /// The most bytes that a commit evicts of a heap that is beyond its budget while nothing has to be brought back: so
    /// that a budget that falls is followed over some frames. What is to be brought back makes the room that it needs.
    pub evict_bytes_per_commit_max: u64,
    /// What is kept free below the budget, in bytes, when something is evicted.
    pub headroom_bytes: u64,
}

impl Default for ResidencyDesc {
    /// 64 MiB a commit, no headroom.
    fn default() -> Self {
        Self { evict_bytes_per_commit_max: 64 << 20, headroom_bytes: 0 }
    }
}

/// What an allocator knows of memory objects that can be evicted.
pub(crate) struct Residents<D: Device> {
    /// Whether the program has promised to declare what it uses.
    is_managed: AtomicBool,
    all: Mutex<Vec<Weak<Residence<D>>>>,
    /// Held while the driver evicts and brings back.
    calls: Mutex<Scratch<D>>,
    /// Counts commits.
    tick: AtomicU64,
    evicted_count: AtomicU64,
    evicted_bytes: AtomicU64,
    returned_count: AtomicU64,
    returned_bytes: AtomicU64,
    /// What a test does between the choice of what is evicted and the eviction.
    #[cfg(test)]
    pub(super) between: tests::Between,
}

/// Kept so that a steady frame makes nothing.
struct Scratch<D: Device> {
    passed: Passed,
    missing: Vec<Arc<Residence<D>>>,
}

/// Keeps what is used resident, and what is in memory within its budget. See the [module](super).
///
/// Cheap to clone; every clone is the same. May be used from any thread.
pub struct Residency<D: Device> {
    shared: Arc<Shared<D>>,
    desc: ResidencyDesc,
}

/// The memory that a submission uses. Kept by the program and used again for later ones, so that it need not grow anew.
pub struct UseList<D: Device> {
    shared: Arc<Shared<D>>,
    serial: u64,
    uses: Vec<Arc<Residence<D>>>,
}

/// What a commit did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Committed {
    /// Memory objects that were brought back.
    pub returned_count: u64,
    /// Bytes of those.
    pub returned_bytes: u64,
    /// Bytes that were evicted to that end, or since a heap was beyond its budget.
    pub evicted_bytes: u64,
    /// Bytes by which the fullest heap is beyond its budget all the same, its headroom included: everything else is in use.
    pub beyond_budget_bytes: u64,
}

/// What a residency has done, and how it stands. O(memory objects).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResidencyStatistics {
    /// Memory objects that can be evicted, as far as nothing in them forbids it.
    pub object_count: u64,
    /// Bytes of those that are resident.
    pub resident_bytes: u64,
    /// Bytes of those that are evicted.
    pub absent_bytes: u64,
    /// Memory objects that were evicted so far.
    pub evicted_count: u64,
    /// Bytes of those.
    pub evicted_bytes: u64,
    /// Memory objects that were brought back so far.
    pub returned_count: u64,
    /// Bytes of those.
    pub returned_bytes: u64,
}

/// Why a commit failed. What was listed must not be used: wait for earlier submissions, or use less, and commit again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidencyError {
    /// The frame is of another allocator.
    #[error("the frame is not of the allocator whose memory is listed")]
    ForeignFrame,
    /// The list is of another allocator.
    #[error("the list is of another allocator")]
    ForeignList,
    /// There is no room for what the submission uses, even with everything else evicted that is not in use.
    #[error("{missing_bytes} bytes could not be brought back: {cause}")]
    NoRoom {
        /// Bytes that are listed and evicted.
        missing_bytes: u64,
        /// What the driver says.
        cause: DeviceError,
    },
    /// The driver failed otherwise.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> Allocator<D> {
    /// Keeps evictable memory within its budget from now on: see [`residency`](crate::residency). On a device that has no
    /// such thing it does nothing.
    ///
    /// # Safety
    /// Each submission that touches an [`evictable`](crate::AllocationDesc::evictable) resource lists it in a [`UseList`],
    /// and is submitted only after [`Residency::commit`] has succeeded for that list and the submission's frame.
    #[must_use]
    pub unsafe fn residency(&self, desc: ResidencyDesc) -> Residency<D> {
        self.shared().residents.is_managed.store(true, Ordering::Relaxed);
        Residency { shared: Arc::clone(self.shared()), desc }
    }
}

impl<D: Device> Residency<D> {
    /// An empty list.
    #[must_use]
    pub fn list(&self) -> UseList<D> {
        let mut list = UseList { shared: Arc::clone(&self.shared), serial: 0, uses: Vec::new() };
        list.clear();
        list
    }

    /// Brings back what is listed and evicted, and holds what is listed until the frame's submission is complete. To be
    /// called before that is submitted.
    ///
    /// # Errors
    /// There is no room, the driver failed, or frame or list are another allocator's.
    pub fn commit(&self, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        if !Arc::ptr_eq(&list.shared, &self.shared) {
            return Err(ResidencyError::ForeignList);
        }
        if !self.shared.lifetimes.owns(frame) {
            return Err(ResidencyError::ForeignFrame);
        }
        self.shared.commit(&self.desc, list, frame)
    }

    /// What was done so far, and how it stands.
    #[must_use]
    pub fn statistics(&self) -> ResidencyStatistics {
        self.shared.residents.statistics()
    }
}

impl<D: Device> Clone for Residency<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), desc: self.desc }
    }
}

impl<D: Device> fmt::Debug for Residency<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residency").field("desc", &self.desc).field("statistics", &self.statistics()).finish()
    }
}

impl<D: Device> UseList<D> {
    /// Forgets what is listed, for the next submission.
    pub fn clear(&mut self) {
        self.uses.clear();
        // Of all allocators: no two lists of the process have the same number.
        static LISTS: AtomicU64 = AtomicU64::new(0);
        self.serial = LISTS.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// The submission uses this resource. Nothing to do for one whose memory cannot be evicted.
    ///
    /// # Panics
    /// If the resource is of another allocator than the list. Nothing is listed then.
    #[track_caller]
    pub fn add<K: ResourceKind>(&mut self, resource: &Resource<D, K>)
    where
        D: Create<K>,
    {
        assert!(Arc::ptr_eq(resource.shared(), &self.shared), "the resource is of another allocator than the list");
        let residence = resource.place().memory(&self.shared).residence.as_ref();
        add(&mut self.uses, self.serial, residence);
    }

    /// The submission uses this memory.
    ///
    /// # Panics
    /// As [`UseList::add`].
    #[track_caller]
    pub fn add_allocation(&mut self, allocation: &Allocation<D>) {
        assert!(allocation.is_of(&self.shared), "the allocation is of another allocator than the list");
        let residence = allocation.place().memory(&self.shared).residence.as_ref();
        add(&mut self.uses, self.serial, residence);
    }

    /// How many memory objects are listed that can be evicted. Those that several threads list at once may count twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }
}

fn add<D: Device>(uses: &mut Vec<Arc<Residence<D>>>, serial: u64, residence: Option<&Arc<Residence<D>>>) {
    if let Some(residence) = residence
        && residence.list(serial)
    {
        uses.push(Arc::clone(residence));
    }
}

impl<D: Device> fmt::Debug for UseList<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UseList({} memory objects)", self.uses.len())
    }
}

impl<D: Device> Residents<D> {
    pub(crate) fn new() -> Self {
        Self {
            is_managed: AtomicBool::new(false),
            all: Mutex::new(Vec::new()),
            calls: Mutex::new(Scratch { passed: Passed::default(), missing: Vec::new() }),
            tick: AtomicU64::new(0),
            evicted_count: AtomicU64::new(0),
            evicted_bytes: AtomicU64::new(0),
            returned_count: AtomicU64::new(0),
            returned_bytes: AtomicU64::new(0),
            #[cfg(test)]
            between: Default::default(),
        }
    }

    /// Takes new memory in.
    fn enlist(&self, residence: &Arc<Residence<D>>) {
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|held| held.strong_count() > 0);
        }
        all.push(Arc::downgrade(residence));
    }

    fn each(&self) -> Vec<Arc<Residence<D>>> {
        self.all.lock().iter().filter_map(Weak::upgrade).filter(|held| !held.is_gone()).collect()
    }

    fn count_evicted(&self, objects: &[Arc<Residence<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        self.evicted_count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    fn count_returned(&self, objects: &[Arc<Residence<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        self.returned_count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        self.returned_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    fn statistics(&self) -> ResidencyStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut statistics = ResidencyStatistics {
            evicted_count: get(&self.evicted_count),
            evicted_bytes: get(&self.evicted_bytes),
            returned_count: get(&self.returned_count),
            returned_bytes: get(&self.returned_bytes),
            ..Default::default()
        };
        for object in self.each() {
            statistics.object_count += 1;
            if object.is_evicted() {
                statistics.absent_bytes += object.bytes;
            } else {
                statistics.resident_bytes += object.bytes;
            }
        }
        statistics
    }
}

impl<D: Device> Shared<D> {
    /// What is known of the residency of new memory, if it can be evicted at all.
    pub(crate) fn residence(
        &self,
        object: &D::Memory,
        memory_type: u32,
        bytes: u64,
        priority: Priority,
    ) -> Option<Arc<Residence<D>>> {
        let capabilities = self.device.capabilities();
        let held = capabilities.memory_types[memory_type as usize];
        let is_near = held.properties.contains(MemoryProperties::DEVICE_LOCAL);
        let is_mapped = held.properties.contains(MemoryProperties::HOST_VISIBLE);
        if !capabilities.residency || !is_near || is_mapped {
            return None;
        }
        let pageable = self.device.pageable(object)?;
        let tick = self.residents.tick.load(Ordering::Relaxed);
        let residence = Arc::new(Residence::new(pageable, bytes, held.heap, priority, tick));
        self.residents.enlist(&residence);
        Some(residence)
    }

    fn commit(&self, desc: &ResidencyDesc, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        let tick = self.residents.tick.fetch_add(1, Ordering::Relaxed) + 1;
        let mut scratch = self.residents.calls.lock();
        let Scratch { passed, missing } = &mut *scratch;
        missing.clear();
        for residence in &list.uses {
            residence.stamp(frame.point(), tick);
            if residence.is_evicted() && !residence.is_gone() {
                missing.push(Arc::clone(residence));
            }
        }
        let is_beyond = (0..self.heap_count()).any(|heap| beyond(&self.budget(heap), desc) > 0);
        if missing.is_empty() && !is_beyond {
            return Ok(Committed::default());
        }
        missing.sort_by_key(Arc::as_ptr);
        missing.dedup_by(|one, other| Arc::ptr_eq(one, other));
        self.refresh_budgets();
        let mut done = Committed::default();
        if !self.residents.all.lock().is_empty() {
            self.lifetimes.read(&self.device, passed)?;
            for heap in 0..self.heap_count() {
                let needed = missing.iter().filter(|held| held.heap == heap).map(|held| held.bytes).sum::<u64>();
                let wanted = beyond(&self.budget(heap).more(needed), desc);
                let most = if needed > 0 { wanted } else { wanted.min(desc.evict_bytes_per_commit_max) };
                done.evicted_bytes += self.evict_least_used(heap, most, passed)?;
            }
            if !missing.is_empty() {
                done.evicted_bytes += self.bring_back(missing, passed)?;
                done.returned_count = missing.len() as u64;
                done.returned_bytes = self.residents.count_returned(missing);
            }
            self.refresh_budgets();
        }
        missing.clear();
        done.beyond_budget_bytes =
            (0..self.heap_count()).map(|heap| beyond(&self.budget(heap), desc)).max().unwrap_or(0);
        Ok(done)
    }

    /// Brings memory back; if there is no room, with everything evicted that can be. Says how many bytes that were.
    fn bring_back(&self, missing: &[Arc<Residence<D>>], passed: &Passed) -> Result<u64, ResidencyError> {
        let objects: Vec<_> = missing.iter().map(|residence| residence.pageable.clone()).collect();
        // SAFETY: all are this device's, and evicted, which is changed under the lock alone that is held.
        let make = || unsafe { self.device.make_resident(&objects) };
        let mut evicted = 0;
        let mut made = make();
        if made.is_err_and(DeviceError::is_out_of_memory) {
            for heap in 0..self.heap_count() {
                evicted += self.evict_least_used(heap, u64::MAX, passed)?;
            }
            made = make();
        }
        let missing_bytes = missing.iter().map(|residence| residence.bytes).sum();
        match made {
            Ok(()) => {
                missing.iter().for_each(|residence| self.returned(residence));
                Ok(evicted)
            }
            Err(cause) if cause.is_out_of_memory() => Err(ResidencyError::NoRoom { missing_bytes, cause }),
            Err(error) => Err(error.into()),
        }
    }

    /// Evicts at least `bytes` of a heap, or whatever may go. The lock of calls is held.
    fn evict_least_used(&self, heap: u32, bytes: u64, passed: &Passed) -> Result<u64, DeviceError> {
        if bytes == 0 {
            return Ok(0);
        }
        let may_go = |held: &Arc<Residence<D>>| {
            held.heap == heap && !held.is_evicted() && !held.is_pinned() && held.is_unused(passed)
        };
        let mut objects: Vec<_> = self.residents.each().into_iter().filter(may_go).collect();
        objects.sort_by_key(|held| held.rank());
        #[cfg(test)]
        self.residents.between.run();
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
        // SAFETY: all are this device's and resident, which is changed under the lock alone that is held. All that uses
        // them is complete, and the code that uses them later has promised to commit it before, which takes that lock.
        if let Err(error) = unsafe { self.device.evict(&pageables) } {
            objects.iter().for_each(|held| held.set_resident());
            return Err(error);
        }
        objects.iter().for_each(|held| self.count_absent(held.heap, held.bytes, true));
        Ok(self.residents.count_evicted(&objects))
    }

    fn returned(&self, residence: &Residence<D>) {
        residence.set_resident();
        self.count_absent(residence.heap, residence.bytes, false);
    }

    /// Evicts what may go of a heap, since an allocation needs room there; says whether something went.
    pub(crate) fn relieve(&self, heap: u32, bytes: u64) -> bool {
        if !self.residents.is_managed.load(Ordering::Relaxed) || self.residents.all.lock().is_empty() {
            return false;
        }
        let evicted = {
            let mut scratch = self.residents.calls.lock();
            let passed = &mut scratch.passed;
            let read = self.lifetimes.read(&self.device, passed);
            read.and_then(|()| self.evict_least_used(heap, bytes, passed)).unwrap_or(0)
        };
        self.refresh_budgets();
        evicted > 0
    }

    /// Brings a block back in which something has been allocated whose use is not declared.
    pub(crate) fn keep_resident(&self, residence: &Arc<Residence<D>>) -> Result<(), DeviceError> {
        let _one_at_a_time = self.residents.calls.lock();
        if !residence.is_evicted() {
            return Ok(());
        }
        // SAFETY: it is this device's, and evicted, which is changed under the lock alone that is held.
        unsafe { self.device.make_resident(std::slice::from_ref(&residence.pageable)) }?;
        self.returned(residence);
        self.residents.count_returned(std::slice::from_ref(residence));
        Ok(())
    }

    /// Notes that memory is going to be freed, and says whether it is evicted. Neither changes afterwards.
    pub(crate) fn close_residence(&self, residence: &Residence<D>) -> bool {
        residence.close();
        if residence.is_evicted() {
            // It may be on its way out, or in: the driver's call is made for memory that is there.
            drop(self.residents.calls.lock());
        }
        residence.is_evicted()
    }

    /// Holds memory resident until a point, for a move.
    pub(crate) fn hold_resident(
        &self,
        residence: Option<&Arc<Residence<D>>>,
        frame: &Frame,
    ) -> Result<(), DeviceError> {
        let Some(residence) = residence else { return Ok(()) };
        residence.stamp(frame.point(), self.residents.tick.load(Ordering::Relaxed));
        if residence.is_evicted() { self.keep_resident(residence) } else { Ok(()) }
    }
}

/// Bytes by which a heap is beyond its budget, its headroom included.
fn beyond(budget: &Budget, desc: &ResidencyDesc) -> u64 {
    budget.usage_bytes.saturating_add(desc.headroom_bytes).saturating_sub(budget.budget_bytes)
}

/// Where it has memory of its own, how much that matters from now on.
impl<D: Create<K> + Device, K: ResourceKind> Resource<D, K> {
    /// Says how much its memory matters from now on; `false`, and nothing changes, if it has not got memory of its own: a
    /// block's priority is that of its [`Pool`](crate::Pool). The system is notified where it listens at any time
    /// ([`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority)).
    pub fn set_priority(&self, priority: Priority) -> bool {
        if !self.is_dedicated() {
            return false;
        }
        let memory = self.place().memory(self.shared());
        // SAFETY: the memory is this device's, and lives as long as this value.
        unsafe { self.shared().device.set_priority(&memory.object, priority) };
        if let Some(residence) = &memory.residence {
            residence.set_priority(priority);
        }
        true
    }
}
