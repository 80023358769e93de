//! Who is evicted, when, and how it comes back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::{Create, Device, DeviceError};
use crate::memory::{Budget, Residence, Residents, Scratch, Shared};
use crate::resource::{Allocation, Resource, ResourceKind};
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

impl ResidencyStatistics {
    fn of<D: Device>(residents: &Residents<D>) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut statistics = Self {
            evicted_count: get(&residents.evicted.count),
            evicted_bytes: get(&residents.evicted.bytes),
            returned_count: get(&residents.returned.count),
            returned_bytes: get(&residents.returned.bytes),
            ..Default::default()
        };
        for object in residents.each() {
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

impl<D: Device> Residency<D> {
    /// Memory is evicted from now on.
    ///
    /// # Safety
    /// As for [`Allocator::residency`](crate::Allocator::residency).
    pub(crate) unsafe fn new(shared: &Arc<Shared<D>>, desc: ResidencyDesc) -> Self {
        shared.residents.is_managed.store(true, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), desc }
    }

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
        ResidencyStatistics::of(&self.shared.residents)
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
        let residence = self.shared.memory_of(resource.place()).residence.as_ref();
        add(&mut self.uses, self.serial, residence);
    }

    /// The submission uses this memory.
    ///
    /// # Panics
    /// As [`UseList::add`].
    #[track_caller]
    pub fn add_allocation(&mut self, allocation: &Allocation<D>) {
        assert!(allocation.is_of(&self.shared), "the allocation is of another allocator than the list");
        let residence = self.shared.memory_of(allocation.place()).residence.as_ref();
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

impl<D: Device> Shared<D> {
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
        let is_beyond = (0..self.budgets.heap_count()).any(|heap| beyond(&self.budgets.heap(heap), desc) > 0);
        if missing.is_empty() && !is_beyond {
            return Ok(Committed::default());
        }
        missing.sort_by_key(Arc::as_ptr);
        missing.dedup_by(|one, other| Arc::ptr_eq(one, other));
        self.budgets.refresh(&self.device);
        let mut done = Committed::default();
        if !self.residents.all.lock().is_empty() {
            self.lifetimes.read(&self.device, passed)?;
            for heap in 0..self.budgets.heap_count() {
                let needed = missing.iter().filter(|held| held.heap == heap).map(|held| held.bytes).sum::<u64>();
                let wanted = beyond(&self.budgets.heap(heap).more(needed), desc);
                let most = if needed > 0 { wanted } else { wanted.min(desc.evict_bytes_per_commit_max) };
                done.evicted_bytes += self.evict_least_used(heap, most, passed)?;
            }
            if !missing.is_empty() {
                done.evicted_bytes += self.bring_back(missing, passed)?;
                done.returned_count = missing.len() as u64;
                done.returned_bytes = self.residents.count(|held| &held.returned, missing);
            }
            self.budgets.refresh(&self.device);
        }
        missing.clear();
        done.beyond_budget_bytes =
            (0..self.budgets.heap_count()).map(|heap| beyond(&self.budgets.heap(heap), desc)).max().unwrap_or(0);
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
            for heap in 0..self.budgets.heap_count() {
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
}

/// Bytes by which a heap is beyond its budget, its headroom included.
fn beyond(budget: &Budget, desc: &ResidencyDesc) -> u64 {
    budget.usage_bytes.saturating_add(desc.headroom_bytes).saturating_sub(budget.budget_bytes)
}
