//! The residency manager: eviction, and making memory resident again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_timeline::{Frame, Passed};

use crate::device::{Create, Device, DeviceError};
use crate::memory::{Budget, Place, Shared};
use crate::resource::{Allocation, Resource, ResourceKind};
use ringfence_arena::{ResidencyState, Residents, Scratch};

/// Keeps the memory of submissions resident, and the usage of heaps within their budgets. See the [module](super).
///
/// Cheap to clone; all clones manage the same memory, and each has its own limits ([`Residency::with_evictions`],
/// [`Residency::with_headroom`]). May be used from any thread.
pub struct Residency<D: Device> {
    shared: Arc<Shared<D>>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    evict_bytes_per_commit_max: u64,
    headroom_bytes: u64,
}

/// The memory that a submission uses. The program keeps the list and clears it for the next submission, so that lists
/// allocate no host memory in steady state.
pub struct UseList<D: Device> {
    shared: Arc<Shared<D>>,
    serial: u64,
    uses: Vec<Arc<ResidencyState<D>>>,
}

/// The result of a commit, or of all commits so far ([`Residency::totals`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Committed {
    /// Number of memory objects that were made resident again.
    pub returned_count: u64,
    /// Size of the memory objects that were made resident again, in bytes.
    pub returned_bytes: u64,
    /// Number of memory objects that were evicted to make room, or because a heap exceeded its budget.
    pub evicted_count: u64,
    /// Size of the memory objects that were evicted, in bytes.
    pub evicted_bytes: u64,
    /// Largest number of bytes, over all heaps, by which a heap's usage plus the headroom still exceed its budget.
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

    /// Combines each figure of both with `put`, except `beyond_budget_bytes`, which stays that of `self`.
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

/// The reason why a commit failed. The listed memory must not be used: wait for earlier submissions, or use less
/// memory, and commit again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidencyError {
    /// The frame belongs to another allocator.
    #[error("the frame belongs to another allocator than the listed memory")]
    ForeignFrame,
    /// The list belongs to another allocator.
    #[error("the list belongs to another allocator")]
    ForeignList,
    /// The memory of the submission does not fit, even after all memory that is not in use was evicted.
    #[error(
        "{missing_bytes} bytes could not be made resident: {cause}. Wait for earlier submissions or use less memory"
    )]
    NoRoom {
        /// Size of the listed memory that is evicted, in bytes.
        missing_bytes: u64,
        /// The driver's error.
        cause: DeviceError,
    },
    /// The driver failed for another reason.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> Residency<D> {
    /// Creates the manager: memory may be evicted from now on.
    ///
    /// # Safety
    /// As for [`Allocator::residency`](crate::Allocator::residency).
    pub(crate) unsafe fn new(shared: &Arc<Shared<D>>) -> Self {
        shared.residents.is_managed.store(true, Ordering::Relaxed);
        let limits = Limits { evict_bytes_per_commit_max: 64 << 20, headroom_bytes: 0 };
        Self { shared: Arc::clone(shared), limits }
    }

    /// Sets the maximum number of bytes that a commit evicts from a heap beyond its budget; 64 MiB by default. So if
    /// the budget falls, usage follows over several frames. The commit ends its evictions in a heap with the memory
    /// object that reaches the maximum. If listed memory of the heap must be made resident, the commit ignores the
    /// maximum. It then evicts all bytes by which usage, headroom and this memory exceed the budget, or as many as it
    /// can.
    #[must_use]
    pub fn with_evictions(mut self, bytes_per_commit_max: u64) -> Self {
        self.limits.evict_bytes_per_commit_max = bytes_per_commit_max;
        self
    }

    /// Sets the headroom: the number of bytes below the budget that a commit keeps free by evictions; 0 by default.
    #[must_use]
    pub fn with_headroom(mut self, bytes: u64) -> Self {
        self.limits.headroom_bytes = bytes;
        self
    }

    /// Creates an empty list.
    #[must_use]
    pub fn list(&self) -> UseList<D> {
        let mut list = UseList { shared: Arc::clone(&self.shared), serial: 0, uses: Vec::new() };
        list.clear();
        list
    }

    /// Makes the listed memory resident until the frame's submission is complete, and evicts unused memory of heaps
    /// beyond their budgets. Call it before that submission.
    ///
    /// # Errors
    /// There is no room, the driver failed, or the frame or the list belongs to another allocator.
    pub fn commit(&self, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        if !Arc::ptr_eq(&list.shared, &self.shared) {
            return Err(ResidencyError::ForeignList);
        }
        if !self.shared.lifetimes.owns(frame) {
            return Err(ResidencyError::ForeignFrame);
        }
        self.shared.commit(&self.limits, list, frame)
    }

    /// Returns the totals of all commits, and of all evictions for allocations, so far. O(heaps).
    #[must_use]
    pub fn totals(&self) -> Committed {
        let beyond_budget_bytes = self.shared.beyond_budget_bytes(&self.limits);
        Committed { beyond_budget_bytes, ..Committed::of(&self.shared.residents) }
    }

    /// Returns the number of memory objects of types that are device-local and not host-visible. They can be evicted if
    /// all resources in them are evictable. O(memory objects).
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.shared.residents.each().len()
    }

    /// Returns the total size of the resident memory objects among those of [`Residency::object_count`], in bytes.
    /// O(memory objects).
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.bytes(false)
    }

    /// Returns the total size of the evicted memory objects among those of [`Residency::object_count`], in bytes.
    /// O(memory objects).
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
    /// Clears the list for the next submission, and keeps its host memory.
    pub fn clear(&mut self) {
        self.uses.clear();
        // Shared by all allocators: the number of a list is unique in the process.
        static LISTS: AtomicU64 = AtomicU64::new(0);
        self.serial = LISTS.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// Adds a resource that the submission uses. Does nothing if the resource's memory can never be evicted.
    ///
    /// # Panics
    /// If the resource belongs to another allocator than the list. The list has not changed then.
    #[track_caller]
    pub fn add<K: ResourceKind>(&mut self, resource: &Resource<D, K>)
    where
        D: Create<K>,
    {
        assert!(
            Arc::ptr_eq(resource.shared(), &self.shared),
            "the resource belongs to another allocator than the list"
        );
        self.add_place(resource.place());
    }

    /// Adds memory that the submission uses.
    ///
    /// # Panics
    /// As [`UseList::add`].
    #[track_caller]
    pub fn add_allocation(&mut self, allocation: &Allocation<D>) {
        assert!(allocation.is_of(&self.shared), "the allocation belongs to another allocator than the list");
        self.add_place(allocation.place());
    }

    fn add_place(&mut self, place: &Place<D>) {
        if let Some(residence) = &self.shared.memory_of(place).residence
            && residence.list(self.serial)
        {
            self.uses.push(Arc::clone(residence));
        }
    }

    /// Returns the number of listed memory objects that can be evicted. If an object is added to several lists in turn,
    /// it may count twice in a list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Returns `true` if the list contains no memory object that can be evicted.
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
    /// Commits a list. If a heap would stay above its budget, destroys the heap's recycled objects and tries again,
    /// because a recycled object may be all that keeps a block resident. If there is no room for the listed memory,
    /// does the same in all heaps.
    fn commit(&self, limits: &Limits, list: &UseList<D>, frame: &Frame) -> Result<Committed, ResidencyError> {
        let first = self.commit_once(limits, list, frame);
        let most = limits.evict_bytes_per_commit_max;
        let left = match first {
            // This commit has evicted the maximum; the next commit can evict more.
            Ok(done) if done.returned_bytes == 0 && done.evicted_bytes >= most => return first,
            Ok(done) if done.beyond_budget_bytes > 0 => most.saturating_sub(done.evicted_bytes),
            Err(ResidencyError::NoRoom { .. }) => most,
            _ => return first,
        };
        // Without the lock, because destroying objects may free memory.
        if !self.empty_recycled(|heap| first.is_err() || excess_bytes(&self.budgets.heap(heap), limits) > 0) {
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
            exchanged = self.evict_and_make_resident(limits, missing, passed);
            self.budgets.refresh(&self.device);
        }
        // Cleared on failure too, because the program may free the memory that could not be made resident.
        missing.clear();
        exchanged?;
        let done = Committed::of(&self.residents).with(before, u64::wrapping_sub);
        Ok(Committed { beyond_budget_bytes: self.beyond_budget_bytes(limits), ..done })
    }

    /// Evicts the bytes by which usage, headroom and `missing` (the listed memory that is evicted) exceed the budgets,
    /// within the limits. Then makes `missing` resident.
    fn evict_and_make_resident(
        &self,
        limits: &Limits,
        missing: &[Arc<ResidencyState<D>>],
        passed: &mut Passed,
    ) -> Result<(), ResidencyError> {
        self.read(passed)?;
        for heap in 0..self.budgets.heap_count() {
            let needed = missing.iter().filter(|held| held.heap == heap).map(|held| held.bytes).sum::<u64>();
            let held = self.budgets.heap(heap);
            let wanted = excess_bytes(&Budget { usage_bytes: held.usage_bytes.saturating_add(needed), ..held }, limits);
            let most = if needed > 0 { wanted } else { wanted.min(limits.evict_bytes_per_commit_max) };
            self.evict_least_used(heap, most, passed)?;
        }
        if !missing.is_empty() {
            self.make_resident(missing, passed)?;
            self.residents.count(|held| &held.returned, missing);
        }
        Ok(())
    }

    /// Returns the largest number of bytes by which usage plus headroom exceed the budget of a heap.
    fn beyond_budget_bytes(&self, limits: &Limits) -> u64 {
        (0..self.budgets.heap_count()).map(|heap| excess_bytes(&self.budgets.heap(heap), limits)).max().unwrap_or(0)
    }

    /// Makes memory resident. If there is no room, evicts everything that can be evicted, and tries again.
    fn make_resident(&self, missing: &[Arc<ResidencyState<D>>], passed: &Passed) -> Result<(), ResidencyError> {
        let objects: Vec<_> = missing.iter().map(|residence| residence.pageable.clone()).collect();
        // SAFETY: all belong to this device and are evicted; that state changes only under the lock that is held here.
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

/// Returns the number of bytes by which usage plus headroom exceed the budget of a heap.
fn excess_bytes(budget: &Budget, limits: &Limits) -> u64 {
    budget.usage_bytes.saturating_add(limits.headroom_bytes).saturating_sub(budget.budget_bytes)
}
