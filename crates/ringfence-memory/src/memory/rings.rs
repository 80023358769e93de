//! The rings of an allocator: each reclaim visits them, and snapshots and traces contain their figures.

use std::sync::{Arc, Weak};

use ringfence_observe::{Observers, Watched};
use ringfence_timeline::Passed;
use ringfence_trace::RingSnapshot;
use smallvec::SmallVec;

use crate::device::lock::{Lock, drop_unlocked};
use crate::trace::Event;

/// A ring, or another object that each reclaim visits. Because of the visits, writes to a ring rarely have to read the
/// device's progress.
pub trait ReclaimRing: Send + Sync {
    /// Frees the parts that are complete. Returns `true` if [`ReclaimRing::upkeep`] should be called. A call with
    /// `is_short` is an additional call within a frame, because memory is short: it must not advance the age of
    /// anything.
    fn reclaim(&self, passed: &Passed, device_lost: bool, is_short: bool) -> bool;

    /// Does work that may need driver calls. No lock is held.
    fn upkeep(&self) {}

    /// Returns the ring's figures without its name. Returns `None` if snapshots do not show it as a ring. Allocates no
    /// host memory.
    fn figures(&self) -> Option<RingSnapshot>;

    /// Returns the ring's name for snapshots and traces.
    fn name(&self) -> &str {
        ""
    }
}

/// All live rings. A dropped ring is removed by the next [`Rings::add`], or while a trace is recorded, by the next
/// [`Rings::report`].
#[derive(Default)]
pub(crate) struct Rings(Lock<RingList>);

/// The live rings during a visit. Dropped with no lock held, because that may run the program's code.
#[derive(Default)]
pub(crate) struct Visited {
    rings: Vec<Arc<dyn ReclaimRing>>,
    /// Indices of the rings that need [`ReclaimRing::upkeep`].
    due: SmallVec<[usize; 8]>,
}

#[derive(Default)]
struct RingList {
    entries: Vec<RingEntry>,
    added_count: u64,
    /// An empty vector, kept so that a steady frame allocates no host memory.
    visited: Vec<Arc<dyn ReclaimRing>>,
}

struct RingEntry {
    /// The ring's number in a trace.
    number: u64,
    ring: Weak<dyn ReclaimRing>,
    /// The figures that the trace contains, without the name; `None` if the trace does not contain the ring yet.
    recorded: Option<RingSnapshot>,
}

impl Rings {
    pub(crate) fn add(&self, ring: &Arc<dyn ReclaimRing>, to: &Observers<impl Watched>) {
        let mut list = self.0.lock();
        list.entries.retain(|entry| entry.is_alive(to));
        list.added_count += 1;
        let number = list.added_count;
        list.entries.push(RingEntry { number, ring: Arc::downgrade(ring), recorded: None });
    }

    pub(crate) fn all(&self) -> Visited {
        let mut list = self.0.lock();
        let mut rings = std::mem::take(&mut list.visited);
        rings.extend(list.entries.iter().filter_map(|entry| entry.ring.upgrade()));
        Visited { rings, due: SmallVec::new() }
    }

    /// Frees the completed parts of all rings.
    pub(crate) fn reclaim(&self, visited: &mut Visited, passed: &Passed, device_lost: bool, is_short: bool) {
        let due = visited.rings.iter().enumerate().filter(|(_, ring)| ring.reclaim(passed, device_lost, is_short));
        visited.due.extend(due.map(|(at, _)| at));
    }

    /// Calls `upkeep` on the rings that need it, which may call the driver, then drops all references. No lock is held.
    pub(crate) fn finish_visit(&self, Visited { mut rings, due }: Visited) {
        due.iter().for_each(|at| rings[*at].upkeep());
        rings.drain(..).for_each(drop_unlocked);
        let mut list = self.0.lock();
        if list.visited.capacity() < rings.capacity() {
            list.visited = rings;
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<RingSnapshot> {
        let visited = self.all();
        let shown = visited.rings.iter().filter_map(|ring| {
            let figures = ring.figures()?;
            Some(RingSnapshot { name: ring.name().to_owned(), ..figures })
        });
        let shown = shown.collect();
        self.finish_visit(visited);
        shown
    }

    /// Records the changes since the last call in the trace.
    pub(crate) fn report(&self, visited: &Visited, to: &Observers<impl Watched>) {
        if !to.is_recording() {
            return;
        }
        // Both lists have the same order: visited rings are alive, and new ones are at the end.
        let mut rings = visited.rings.iter().peekable();
        self.0.lock().entries.retain_mut(|entry| {
            let is_alive = entry.is_alive(to);
            let is_it = |ring: &&Arc<dyn ReclaimRing>| std::ptr::addr_eq(Arc::as_ptr(ring), entry.ring.as_ptr());
            if let Some(ring) = rings.next_if(is_it) {
                entry.report(&**ring, to);
            }
            is_alive
        });
    }

    /// Forgets the recorded figures, because a new trace does not contain them.
    pub(crate) fn forget_recorded(&self) {
        self.0.lock().entries.iter_mut().for_each(|entry| entry.recorded = None);
    }
}

impl RingEntry {
    fn is_alive(&self, to: &Observers<impl Watched>) -> bool {
        let is_alive = self.ring.strong_count() > 0;
        if !is_alive && self.recorded.is_some() {
            to.record(|| Event::RingGone { ring: self.number });
        }
        is_alive
    }

    fn report(&mut self, ring: &dyn ReclaimRing, to: &Observers<impl Watched>) {
        let Some(figures) = ring.figures() else { return };
        if self.recorded.is_none() {
            to.record(|| Event::RingMade { ring: self.number, name: ring.name() });
        }
        if self.recorded.as_ref() != Some(&figures) {
            // Its name was recorded when the ring was created.
            to.record(|| Event::Ring { ring: self.number, figures: RingSnapshot { name: String::new(), ..figures } });
            self.recorded = Some(figures);
        }
    }
}
