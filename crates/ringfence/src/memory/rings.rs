//! The rings of an allocator: told of the device's progress at each reclaim, and shown in snapshots and traces.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::snapshot::RingSnapshot;
use crate::trace::Trace;
use crate::upload::{Recycle, Told};

/// All that live; who is gone is struck off at the next look.
#[derive(Default)]
pub(super) struct Rings(Mutex<Book>);

#[derive(Default)]
struct Book {
    noted: Vec<Noted>,
    made: u64,
}

struct Noted {
    /// Its number in a trace.
    number: u64,
    ring: Weak<dyn Recycle>,
    /// What the trace was told last, without the name; `None` before it was told that the ring is there.
    told: Option<RingSnapshot>,
}

impl Rings {
    pub(super) fn add(&self, ring: &Arc<dyn Recycle>, trace: &Trace) {
        let mut book = self.0.lock();
        book.noted.retain(|noted| noted.is_alive(trace));
        book.made += 1;
        let number = book.made;
        book.noted.push(Noted { number, ring: Arc::downgrade(ring), told: None });
    }

    /// Frees what has passed now, so that few writes have to poll, and looks after those that ask for it. The lock is not
    /// held meanwhile: that may take driver calls.
    pub(super) fn reclaim(&self, told: &Told<'_>) {
        for at in 0.. {
            // One by one: the last owner of a ring may be this loop, and what goes with it is the caller's.
            let ring = match self.0.lock().noted.get(at) {
                Some(noted) => noted.ring.upgrade(),
                None => break,
            };
            if let Some(ring) = ring
                && ring.release(told)
            {
                ring.upkeep();
            }
        }
    }

    pub(super) fn snapshot(&self) -> Vec<RingSnapshot> {
        let book = self.0.lock();
        let alive = book.noted.iter().filter_map(|noted| noted.ring.upgrade());
        alive.filter_map(|ring| Some(RingSnapshot { name: ring.name().to_owned(), ..ring.figures()? })).collect()
    }

    /// Tells the trace of what has changed since the last call.
    pub(super) fn tell(&self, trace: &Trace) {
        if trace.is_on() {
            self.0.lock().noted.retain_mut(|noted| noted.is_alive(trace) && noted.tell(trace));
        }
    }

    /// A new trace knows nothing of them.
    pub(super) fn forget_told(&self) {
        self.0.lock().noted.iter_mut().for_each(|noted| noted.told = None);
    }
}

impl Noted {
    fn is_alive(&self, trace: &Trace) -> bool {
        let is_alive = self.ring.strong_count() > 0;
        if !is_alive && self.told.is_some() {
            trace.ring_gone(self.number);
        }
        is_alive
    }

    /// Always true: it stays noted.
    fn tell(&mut self, trace: &Trace) -> bool {
        let Some(ring) = self.ring.upgrade() else { return true };
        let Some(figures) = ring.figures() else { return true };
        if self.told.is_none() {
            trace.ring_made(self.number, ring.name());
        }
        if self.told.as_ref() != Some(&figures) {
            trace.ring(self.number, &figures);
            self.told = Some(figures);
        }
        true
    }
}
