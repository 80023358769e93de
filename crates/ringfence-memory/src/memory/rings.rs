//! The rings of an allocator: notified of the device's progress at each reclaim, and shown in snapshots and traces.

use std::sync::{Arc, Weak};

use ringfence_trace::RingSnapshot;
use smallvec::SmallVec;

use crate::observe::Observers;
use crate::observe::debugging::Watched;
use crate::observe::trace::Event;
use crate::observe::unlocked::{Lock, drop_unlocked};
use crate::timeline::Passed;

/// A ring, or anything else that a reclaim visits so that few writes have to poll.
pub trait ReclaimRing: Send + Sync {
    /// Frees what is complete. Returns whether [`ReclaimRing::upkeep`] is wanted. Ages count the calls that are not
    /// made because memory is short: those are the program's, once a frame.
    fn reclaim(&self, passed: &Passed, device_lost: bool, is_short: bool) -> bool;

    /// What may need driver calls. Called without a lock.
    fn upkeep(&self) {}

    /// Its figures without its name, if snapshots show it as a ring. Makes no host allocation.
    fn figures(&self) -> Option<RingSnapshot>;

    /// Its name in snapshots and traces.
    fn name(&self) -> &str {
        ""
    }
}

/// All that live; dropped rings are removed at the next call.
#[derive(Default)]
pub(crate) struct Rings(Lock<Book>);

/// Rings that were looked at, kept until no lock is held: the last handle drops what goes with a ring, and in that
/// there may be a `Drop` of the program's.
#[derive(Default)]
pub(crate) struct Seen {
    rings: Vec<Arc<dyn ReclaimRing>>,
    /// Those that want [`ReclaimRing::upkeep`], by their place among the others.
    asking: SmallVec<[usize; 8]>,
}

#[derive(Default)]
struct Book {
    noted: Vec<Noted>,
    made: u64,
    /// Kept so that a steady frame makes nothing; empty.
    seen: Vec<Arc<dyn ReclaimRing>>,
}

struct Noted {
    /// Its number in a trace.
    number: u64,
    ring: Weak<dyn ReclaimRing>,
    /// What the trace has recorded last, without the name; `None` before it has recorded the ring.
    recorded: Option<RingSnapshot>,
}

impl Rings {
    pub(crate) fn add(&self, ring: &Arc<dyn ReclaimRing>, to: &Observers<impl Watched>) {
        let mut book = self.0.lock();
        book.noted.retain(|noted| noted.is_alive(to));
        book.made += 1;
        let number = book.made;
        book.noted.push(Noted { number, ring: Arc::downgrade(ring), recorded: None });
    }

    pub(crate) fn all(&self) -> Seen {
        let mut book = self.0.lock();
        let mut rings = std::mem::take(&mut book.seen);
        rings.extend(book.noted.iter().filter_map(|noted| noted.ring.upgrade()));
        Seen { rings, asking: SmallVec::new() }
    }

    /// Frees what has passed now, so that few writes have to poll.
    pub(crate) fn reclaim(&self, seen: &mut Seen, passed: &Passed, device_lost: bool, is_short: bool) {
        let asking = seen.rings.iter().enumerate().filter(|(_, ring)| ring.reclaim(passed, device_lost, is_short));
        seen.asking.extend(asking.map(|(at, _)| at));
    }

    /// Looks after those that asked for it, which may take driver calls, and drops all of them. No lock is held.
    pub(crate) fn look_after(&self, Seen { mut rings, asking }: Seen) {
        asking.iter().for_each(|at| rings[*at].upkeep());
        rings.drain(..).for_each(drop_unlocked);
        let mut book = self.0.lock();
        if book.seen.capacity() < rings.capacity() {
            book.seen = rings;
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<RingSnapshot> {
        let seen = self.all();
        let shown = seen.rings.iter().filter_map(|ring| {
            let figures = ring.figures()?;
            Some(RingSnapshot { name: ring.name().to_owned(), ..figures })
        });
        let shown = shown.collect();
        self.look_after(seen);
        shown
    }

    /// Writes to the trace what has changed since the last call.
    pub(crate) fn tell(&self, seen: &Seen, to: &Observers<impl Watched>) {
        if !to.is_recording() {
            return;
        }
        // In the order in which they are noted: what was seen is alive, and what is new stands behind it.
        let mut rings = seen.rings.iter().peekable();
        self.0.lock().noted.retain_mut(|noted| {
            let is_alive = noted.is_alive(to);
            let is_it = |ring: &&Arc<dyn ReclaimRing>| std::ptr::addr_eq(Arc::as_ptr(ring), noted.ring.as_ptr());
            if let Some(ring) = rings.next_if(is_it) {
                noted.tell(&**ring, to);
            }
            is_alive
        });
    }

    /// A new trace knows nothing of them.
    pub(crate) fn forget_recorded(&self) {
        self.0.lock().noted.iter_mut().for_each(|noted| noted.recorded = None);
    }
}

impl Noted {
    fn is_alive(&self, to: &Observers<impl Watched>) -> bool {
        let is_alive = self.ring.strong_count() > 0;
        if !is_alive && self.recorded.is_some() {
            to.record(|| Event::RingGone { ring: self.number });
        }
        is_alive
    }

    fn tell(&mut self, ring: &dyn ReclaimRing, to: &Observers<impl Watched>) {
        let Some(figures) = ring.figures() else { return };
        if self.recorded.is_none() {
            to.record(|| Event::RingMade { ring: self.number, name: ring.name() });
        }
        if self.recorded.as_ref() != Some(&figures) {
            // Its name was recorded when it was made.
            to.record(|| Event::Ring { ring: self.number, figures: RingSnapshot { name: String::new(), ..figures } });
            self.recorded = Some(figures);
        }
    }
}
