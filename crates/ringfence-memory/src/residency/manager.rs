//! What is evicted and when, and how it is made resident again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::{Create, Device, DeviceError};
use crate::memory::{Budget, Place, Residence, Residents, Scratch, Shared};
use crate::resource::{Allocation, Resource, ResourceKind};
use crate::timeline::{Frame, Passed};

/// Keeps memory that submissions use resident, and heaps within their budgets. See the [module](super).
///
/// Cheap to clone; every clone is the same. May be used from any thread.
pub struct Residency<D: Device> {
    shared: Arc<Shared<D>>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    evict_bytes_per_commit_max: u64,
    headroom_bytes: u64,
}

/// The memory that a submission uses. The program keeps it and clears it for the next submission, so that it allocates
/// nothing.
pub struct UseList<D: Device> {
    shared: Arc<Shared<D>>,
    serial: u64,
    uses: Vec<Arc<Residence<D>>>,
}

/// What a commit did, or all commits so far ([`Residency::totals`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Committed {
    /// Memory objects that were brought back.
    pub returned_count: u64,
    /// Bytes of those.
    pub returned_bytes: u64,
    /// Memory objects that were evicted to make room, or because a heap was beyond its budget.
    pub evicted_count: u64,
    /// Bytes of those.
    pub evicted_bytes: u64,
    /// Bytes by which the fullest heap is still beyond its budget, headroom included: the rest is in use.
    pub beyond_budget_bytes: u64,
}

impl Committed {
    fn of<D: Device>(residents: &Residents<D>) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            returned_count: get(&residents.returned.count),
            returned_bytes: get(&residents.returned.bytes),
            evicted_count: get(&residents.evicted.count),
            evicted_bytes: get(&residents.evicted.bytes),
            beyond_budget_bytes: 0,
        }
    }

    /// Each figure of both put together, but for what is beyond the budget.
    fn with(self, other: Self, put: fn(u64, u64) -> u64) -> Self {
        Self {
            returned_count: put(self.returned_count, other.returned_count),
            returned_bytes: put(self.returned_bytes, other.returned_bytes),
            evicted_count: put(self.evicted_count, other.evicted_count),
            evicted_bytes: put(self.evicted_bytes, other.evicted_bytes),
            ..self
        }
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
    /// There is no room for the memory that the submission uses, even with all other memory that is not in use evicted.
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
    pub(crate) unsafe fn new(shared: &Arc<Shared<D>>) -> Self {
        shared.residents.is_managed.store(true, Ordering::Relaxed);
        let limits = Limits { evict_bytes_per_commit_max: 64 << 20, headroom_bytes: 0 };
        Self { shared: Arc::clone(shared), limits }
    }

    /// Sets how many bytes a commit evicts at most of a heap that is beyond its budget while nothing has to be made
    /// resident, so that usage follows a budget that falls over some frames; 64 MiB by default. For what has to be made
    /// resident a commit evicts as much as that needs.
    #[must_use]
    pub fn with_evictions(mut self, bytes_per_commit_max: u64) -> Self {
        self.limits.evict_bytes_per_commit_max = bytes_per_commit_max;
        self
    }

    /// Sets how many bytes below the budget are kept free when something is evicted; 0 by default.
    #[must_use]
    pub fn with_headroom(mut self, bytes: u64) -> Self {
        self.limits.headroom_bytes = bytes;
        self
    }

    /// An empty list.
    #[must_use]
    pub fn list(&self) -> UseList<D> {
        let mut list = UseList { shared: Arc::clone(&self.shared), serial: 0, uses: Vec::new() };
        list.clear();
        list
    }

    /// Makes the listed memory resident, and keeps it so until the frame's submission is complete. Call it before that
    /// submission.
    ///
    /// # Errors
    /// There is no room, the driver failed, or the frame or the list is another allocator's.
    pub fn commit(&self, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        if !Arc::ptr_eq(&list.shared, &self.shared) {
            return Err(ResidencyError::ForeignList);
        }
        if !self.shared.lifetimes.owns(frame) {
            return Err(ResidencyError::ForeignFrame);
        }
        self.shared.commit(&self.limits, list, frame)
    }

    /// What was done so far, by commits and for allocations that needed memory. O(heaps).
    #[must_use]
    pub fn totals(&self) -> Committed {
        let beyond_budget_bytes = self.shared.beyond_budget_bytes(&self.limits);
        Committed { beyond_budget_bytes, ..Committed::of(&self.shared.residents) }
    }

    /// How many memory objects are device-local and not mapped by the host: those that are evicted if nothing in them
    /// forbids it. O(memory objects).
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.shared.residents.each().len()
    }

    /// Bytes of those that are resident. O(memory objects).
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.bytes(false)
    }

    /// Bytes of those that are evicted. O(memory objects).
    #[must_use]
    pub fn absent_bytes(&self) -> u64 {
        self.bytes(true)
    }

    fn bytes(&self, is_evicted: bool) -> u64 {
        let objects = self.shared.residents.each();
        objects.iter().filter(|object| object.is_evicted() == is_evicted).map(|object| object.bytes).sum()
    }
}

impl<D: Device> Clone for Residency<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), limits: self.limits }
    }
}

impl<D: Device> fmt::Debug for Residency<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residency").field("limits", &self.limits).field("totals", &self.totals()).finish()
    }
}

impl<D: Device> UseList<D> {
    /// Clears the list for the next submission, and keeps its memory.
    pub fn clear(&mut self) {
        self.uses.clear();
        // Of all allocators: no two lists of the process have the same number.
        static LISTS: AtomicU64 = AtomicU64::new(0);
        self.serial = LISTS.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// The submission uses this resource. Does nothing if its memory cannot be evicted.
    ///
    /// # Panics
    /// If the resource is of another allocator than the list. Nothing is listed then.
    #[track_caller]
    pub fn add<K: ResourceKind>(&mut self, resource: &Resource<D, K>)
    where
        D: Create<K>,
    {
        assert!(Arc::ptr_eq(resource.shared(), &self.shared), "the resource is of another allocator than the list");
        self.add_place(resource.place());
    }

    /// The submission uses this memory.
    ///
    /// # Panics
    /// As [`UseList::add`].
    #[track_caller]
    pub fn add_allocation(&mut self, allocation: &Allocation<D>) {
        assert!(allocation.is_of(&self.shared), "the allocation is of another allocator than the list");
        self.add_place(allocation.place());
    }

    fn add_place(&mut self, place: &Place<D>) {
        if let Some(residence) = &self.shared.memory_of(place).residence
            && residence.list(self.serial)
        {
            self.uses.push(Arc::clone(residence));
        }
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

impl<D: Device> fmt::Debug for UseList<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UseList({} memory objects)", self.uses.len())
    }
}

impl<D: Device> Shared<D> {
    /// Before a heap stays beyond its budget, what is recycled there goes: it may be all that keeps a block resident.
    fn commit(&self, limits: &Limits, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        let first = self.commit_once(limits, list, frame);
        let most = limits.evict_bytes_per_commit_max;
        let left = match first {
            // As much went as may in one commit: more of it can go in the next.
            Ok(done) if done.returned_bytes == 0 && done.evicted_bytes >= most => return first,
            Ok(done) if done.beyond_budget_bytes > 0 => most.saturating_sub(done.evicted_bytes),
            Err(ResidencyError::NoRoom { .. }) => most,
            _ => return first,
        };
        // With no lock held, since memory may be freed.
        if !self.empty_recycled(|heap| first.is_err() || beyond(&self.budgets.heap(heap), limits) > 0) {
            return first;
        }
        let second = self.commit_once(&Limits { evict_bytes_per_commit_max: left, ..*limits }, list, frame)?;
        Ok(second.with(first.unwrap_or_default(), u64::wrapping_add))
    }

    fn commit_once(&self, limits: &Limits, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
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
        if missing.is_empty() && self.beyond_budget_bytes(limits) == 0 {
            return Ok(Committed::default());
        }
        missing.sort_by_key(Arc::as_ptr);
        missing.dedup_by(|one, other| Arc::ptr_eq(one, other));
        self.budgets.refresh(&self.device);
        let before = Committed::of(&self.residents);
        let mut exchanged = Ok(());
        if !self.residents.all.lock().is_empty() {
            exchanged = self.exchange(limits, missing, passed);
            self.budgets.refresh(&self.device);
        }
        // Also where that failed: the program may free what was to be brought back.
        missing.clear();
        exchanged?;
        let done = Committed::of(&self.residents).with(before, u64::wrapping_sub);
        Ok(Committed { beyond_budget_bytes: self.beyond_budget_bytes(limits), ..done })
    }

    /// Evicts what is beyond the budgets with what is missing, and brings that back.
    fn exchange(
        &self,
        limits: &Limits,
        missing: &[Arc<Residence<D>>],
        passed: &mut Passed,
    ) -> Result<(), ResidencyError> {
        self.lifetimes.read(&self.device, passed)?;
        for heap in 0..self.budgets.heap_count() {
            let needed = missing.iter().filter(|held| held.heap == heap).map(|held| held.bytes).sum::<u64>();
            let wanted = beyond(&self.budgets.heap(heap).more(needed), limits);
            let most = if needed > 0 { wanted } else { wanted.min(limits.evict_bytes_per_commit_max) };
            self.evict_least_used(heap, most, passed)?;
        }
        if !missing.is_empty() {
            self.bring_back(missing, passed)?;
            self.residents.count(|held| &held.returned, missing);
        }
        Ok(())
    }

    /// Bytes by which the fullest heap is beyond its budget, its headroom included.
    fn beyond_budget_bytes(&self, limits: &Limits) -> u64 {
        (0..self.budgets.heap_count()).map(|heap| beyond(&self.budgets.heap(heap), limits)).max().unwrap_or(0)
    }

    /// Brings memory back; if there is no room, with everything evicted that can be.
    fn bring_back(&self, missing: &[Arc<Residence<D>>], passed: &Passed) -> Result<(), ResidencyError> {
        let objects: Vec<_> = missing.iter().map(|residence| residence.pageable.clone()).collect();
        // SAFETY: all are this device's, and evicted, which is changed under the lock alone that is held.
        let make = || unsafe { self.device.make_resident(&objects) };
        let mut made = make();
        if made.is_err_and(DeviceError::is_out_of_memory) {
            for heap in 0..self.budgets.heap_count() {
                self.evict_least_used(heap, u64::MAX, passed)?;
            }
            made = make();
        }
        let missing_bytes = missing.iter().map(|residence| residence.bytes).sum();
        match made {
            Ok(()) => {
                missing.iter().for_each(|residence| self.returned(residence));
                Ok(())
            }
            Err(cause) if cause.is_out_of_memory() => Err(ResidencyError::NoRoom { missing_bytes, cause }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Bytes by which a heap is beyond its budget, its headroom included.
fn beyond(budget: &Budget, limits: &Limits) -> u64 {
    budget.usage_bytes.saturating_add(limits.headroom_bytes).saturating_sub(budget.budget_bytes)
}
