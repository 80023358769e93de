//! The residency state of a memory object that can be evicted: its pins, its uses, and a flag that is set while it is
//! evicted.
//!
//! ```text
//!   allocation                                   eviction (one at a time)
//!   pins += 1                                    evicted = true
//!   evicted? ── yes: waits for the lock, and     pins != 0? ── yes: evicted = false, not evicted
//!      │         makes it resident                  │
//!      no: it stays resident (pins != 0)            no: the driver evicts it
//! ```
//!
//! Each side writes its own variable before it reads the other's, in one total order (`SeqCst`), so at least one side
//! sees the other. A defragmentation pass follows the same rule: it records the point of its frame as a use, then
//! checks if the memory is evicted. Eviction checks the uses again after it has set `evicted`. Before memory is freed
//! it is pinned, and it stays pinned.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::device::lock::Lock;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};
use ringfence_timeline::Passed;

use crate::device::{Device, Priority};

/// The state of a memory object that can be evicted.
pub struct ResidencyState<D: Device> {
    /// The driver's object to evict.
    pub pageable: D::Pageable,
    /// Size in bytes.
    pub bytes: u64,
    /// Heap of the memory, an index.
    pub heap: u32,
    priority: AtomicU8,
    /// Number of ranges in the memory object that are not evictable.
    pins: AtomicU32,
    evicted: AtomicBool,
    /// `true` if the memory is freed, or is about to be.
    gone: AtomicBool,
    /// Serial number of the latest use list that contains this memory object.
    listed: AtomicU64,
    /// The points with which the uses of the memory end.
    used: Lock<SyncSet>,
    /// Time of the last use, as a count of commits.
    tick: AtomicU64,
}

impl<D: Device> ResidencyState<D> {
    /// Creates the state of resident memory without uses.
    pub fn new(pageable: D::Pageable, bytes: u64, heap: u32, priority: Priority, tick: u64) -> Self {
        Self {
            pageable,
            bytes,
            heap,
            priority: AtomicU8::new(priority as u8),
            pins: AtomicU32::new(0),
            evicted: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            listed: AtomicU64::new(0),
            used: Lock::new(SyncSet::new()),
            tick: AtomicU64::new(tick),
        }
    }

    /// Adds a range whose uses are not declared.
    pub fn pin(&self) {
        self.pins.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a range that must stay resident.
    pub fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns `true` if a range must stay resident.
    pub fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) != 0
    }

    /// Returns `true` if the memory is evicted.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::SeqCst)
    }

    /// If the memory may be evicted, marks it as evicted and returns `true`. The caller holds the lock `calls`.
    pub fn take(&self, passed: &impl Progress) -> bool {
        self.evicted.store(true, Ordering::SeqCst);
        let may_go = !self.is_pinned() && self.is_unused(passed);
        if !may_go {
            self.set_resident();
        }
        may_go
    }

    /// Records that the memory is about to be freed: from now on it is neither evicted nor made resident.
    pub fn close(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.pin();
    }

    /// Returns `true` if the memory was freed, or is about to be.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Marks the memory as resident. The caller holds the lock `calls`.
    pub fn set_resident(&self) {
        self.evicted.store(false, Ordering::SeqCst);
    }

    /// Adds the memory to the use list `serial`. Returns `true` if the list did not contain it yet.
    pub fn list(&self, serial: u64) -> bool {
        self.listed.load(Ordering::Relaxed) != serial && self.listed.swap(serial, Ordering::Relaxed) != serial
    }

    /// Records a use that ends with this point.
    pub fn stamp(&self, point: SyncPoint, tick: u64) {
        self.used.lock().insert(point);
        self.tick.fetch_max(tick, Ordering::Relaxed);
    }

    /// Returns `true` if all uses of the memory are complete.
    pub fn is_unused(&self, passed: &impl Progress) -> bool {
        let mut used = self.used.lock();
        let is_over = passed.passed_all(&used);
        if is_over {
            used.clear();
        }
        is_over
    }

    /// Sets the priority, which decides first which memory is evicted.
    pub fn set_priority(&self, priority: Priority) {
        self.priority.store(priority as u8, Ordering::Relaxed);
    }

    /// Returns the rank of the memory object: its priority, then the time of its last use. Objects with low ranks are
    /// evicted first.
    pub fn rank(&self) -> (u8, u64) {
        (self.priority.load(Ordering::Relaxed), self.tick.load(Ordering::Relaxed))
    }
}

/// Number of memory objects, and their total size in bytes.
#[derive(Default)]
pub struct Tally {
    /// Number of memory objects.
    pub count: AtomicU64,
    /// Total size, in bytes.
    pub bytes: AtomicU64,
}

/// The memory objects of an allocator that have a residency state.
pub struct Residents<D: Device> {
    /// `true` if the program has promised to declare its uses of evictable memory.
    pub is_managed: AtomicBool,
    /// The memory objects; freed ones are removed by a later insertion.
    pub all: Lock<Vec<Weak<ResidencyState<D>>>>,
    /// Held while the driver evicts memory or makes it resident.
    pub calls: Lock<Scratch<D>>,
    /// Number of commits, the clock of the last uses.
    pub tick: AtomicU64,
    /// Evictions.
    pub evicted: Tally,
    /// Memory objects that were made resident again.
    pub returned: Tally,
}

/// Buffers that are kept so that a steady frame allocates no host memory.
pub struct Scratch<D: Device> {
    /// Progress of the timelines.
    pub passed: Passed,
    /// Memory objects that a commit makes resident.
    pub missing: Vec<Arc<ResidencyState<D>>>,
}

impl<D: Device> Default for Residents<D> {
    fn default() -> Self {
        Self {
            is_managed: AtomicBool::new(false),
            all: Lock::new(Vec::new()),
            calls: Lock::new(Scratch { passed: Passed::default(), missing: Vec::new() }),
            tick: AtomicU64::new(0),
            evicted: Tally::default(),
            returned: Tally::default(),
        }
    }
}

impl<D: Device> Residents<D> {
    /// Adds new memory.
    pub fn enlist(&self, residence: &Arc<ResidencyState<D>>) {
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|held| held.strong_count() > 0);
        }
        all.push(Arc::downgrade(residence));
    }

    /// Returns the memory objects that are not freed.
    pub fn each(&self) -> Vec<Arc<ResidencyState<D>>> {
        self.all.lock().iter().filter_map(Weak::upgrade).filter(|held| !held.is_gone()).collect()
    }

    /// Adds objects that were evicted, or were made resident, to a tally. Returns their total size in bytes.
    pub fn count(&self, tally: impl FnOnce(&Self) -> &Tally, objects: &[Arc<ResidencyState<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        let tally = tally(self);
        tally.count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }
}
