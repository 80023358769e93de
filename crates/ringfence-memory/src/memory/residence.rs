//! Memory objects that can be evicted: what pins one, when it was last used, and whether it is resident.
//!
//! ```text
//!   allocation                                   eviction (one at a time)
//!   pins += 1                                    evicted = true
//!   evicted? ── yes: waits for the lock, and     pins != 0? ── yes: evicted = false, left alone
//!      │         brings it back                     │
//!      no: it stays resident, for pins != 0         no: the driver evicts it
//! ```
//!
//! Each side writes its word before it reads the other's, all in one order (`SeqCst`): so that not both can miss. A use
//! that is noted while nothing holds eviction up, by a pass of a defragmentation, does the same: it notes its point,
//! then looks whether the memory is evicted; eviction looks for uses once more after it has said so. Memory that is
//! freed is pinned first, and stays so.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::observe::unlocked::Lock;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};

use crate::device::{Device, Priority};
use crate::timeline::Passed;

pub(crate) struct Residence<D: Device> {
    pub(crate) pageable: D::Pageable,
    pub(crate) bytes: u64,
    pub(crate) heap: u32,
    priority: AtomicU8,
    /// Ranges in it that are not evictable.
    pins: AtomicU32,
    evicted: AtomicBool,
    /// Whether the memory is freed, or about to be.
    gone: AtomicBool,
    /// The list that has it, of those that are being made, latest first.
    listed: AtomicU64,
    /// What uses it.
    used: Lock<SyncSet>,
    /// When it was used last, by the count of commits.
    tick: AtomicU64,
}

impl<D: Device> Residence<D> {
    pub(crate) fn new(pageable: D::Pageable, bytes: u64, heap: u32, priority: Priority, tick: u64) -> Self {
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

    /// Something lies in it whose use is not declared.
    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::SeqCst)
    }

    /// Takes it for eviction; says whether it may go. Eviction's lock is held.
    pub(crate) fn take(&self, passed: &impl Progress) -> bool {
        self.evicted.store(true, Ordering::SeqCst);
        let may_go = !self.is_pinned() && self.is_unused(passed);
        if !may_go {
            self.set_resident();
        }
        may_go
    }

    /// The memory is going to be freed: it is not evicted nor brought back from now on.
    pub(crate) fn close(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.pin();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// It is there again. Eviction's lock is held.
    pub(crate) fn set_resident(&self) {
        self.evicted.store(false, Ordering::SeqCst);
    }

    /// Whether a list did not have it yet.
    pub(crate) fn list(&self, serial: u64) -> bool {
        self.listed.load(Ordering::Relaxed) != serial && self.listed.swap(serial, Ordering::Relaxed) != serial
    }

    /// It is used until this point.
    pub(crate) fn stamp(&self, point: SyncPoint, tick: u64) {
        self.used.lock().insert(point);
        self.tick.fetch_max(tick, Ordering::Relaxed);
    }

    /// Whether everything that uses it is complete.
    pub(crate) fn is_unused(&self, passed: &impl Progress) -> bool {
        let mut used = self.used.lock();
        let is_over = passed.passed_all(&used);
        if is_over {
            used.clear();
        }
        is_over
    }

    pub(crate) fn set_priority(&self, priority: Priority) {
        self.priority.store(priority as u8, Ordering::Relaxed);
    }

    /// The smaller, the earlier it goes.
    pub(crate) fn rank(&self) -> (u8, u64) {
        (self.priority.load(Ordering::Relaxed), self.tick.load(Ordering::Relaxed))
    }
}

/// A counter of things and of their bytes.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// What an allocator knows of memory objects that can be evicted.
pub(crate) struct Residents<D: Device> {
    /// Whether the program has promised to declare what it uses.
    pub(crate) is_managed: AtomicBool,
    pub(crate) all: Lock<Vec<Weak<Residence<D>>>>,
    /// Held while the driver evicts and brings back.
    pub(crate) calls: Lock<Scratch<D>>,
    pub(crate) tick: AtomicU64,
    pub(crate) evicted: Tally,
    pub(crate) returned: Tally,
    /// What a test does, once, between the choice of what is evicted and the eviction.
    #[cfg(test)]
    pub(crate) between: Lock<Option<Box<dyn FnOnce() + Send>>>,
}

/// Kept so that a steady frame makes nothing.
pub(crate) struct Scratch<D: Device> {
    pub(crate) passed: Passed,
    pub(crate) missing: Vec<Arc<Residence<D>>>,
}

impl<D: Device> Residents<D> {
    pub(crate) fn new() -> Self {
        Self {
            is_managed: AtomicBool::new(false),
            all: Lock::new(Vec::new()),
            calls: Lock::new(Scratch { passed: Passed::default(), missing: Vec::new() }),
            tick: AtomicU64::new(0),
            evicted: Tally::default(),
            returned: Tally::default(),
            #[cfg(test)]
            between: Lock::new(None),
        }
    }

    /// Takes new memory in.
    pub(crate) fn enlist(&self, residence: &Arc<Residence<D>>) {
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|held| held.strong_count() > 0);
        }
        all.push(Arc::downgrade(residence));
    }

    pub(crate) fn each(&self) -> Vec<Arc<Residence<D>>> {
        self.all.lock().iter().filter_map(Weak::upgrade).filter(|held| !held.is_gone()).collect()
    }

    /// Counts objects that were evicted, or that were brought back; says how many bytes they have.
    pub(crate) fn count(&self, tally: impl FnOnce(&Self) -> &Tally, objects: &[Arc<Residence<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        let tally = tally(self);
        tally.count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }
}
