//! Copies to resources from when they are gathered until they arrive or are lost: what resources, batches of copies and
//! their allocator share.
//!
//! ```text
//!   gathered ── recorded ──▶ waits for the end of its frame ──┬─ submitted ─────────▶ it arrives
//!      │                                                      └─ discarded, dropped ▶ lost
//!      ├─ cleared, dropped ─────────────────────────────────────────────────────────▶ lost
//!      └─ the resource has another object by then ──▶ refused, when it is to be recorded
//! ```
//!
//! As long as copies are gathered and not recorded, no defragmentation moves their destination. A resource of which
//! copies are lost says so, and what debugging knows of it, an `L`, is kept to be reported.
//!
//! | operation | cost |
//! |---|---|
//! | add a destination | O(1) |
//! | check, record, clear | O(destinations) |
//! | settle, once a reclaim | O(deliveries whose frames are open), one read without any |

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::PoisonError;

use crate::clock::{End, Watch};
use crate::primitive::{AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use ringfence_core::sync::SyncPoint;
use crate::ticket::Ticket;

/// What a resource knows of the copies to it. Made with the first of them.
#[derive(Debug, Default)]
pub struct Content {
    /// Another number after each exchange of the resource's object.
    object: AtomicU32,
    is_lost: AtomicBool,
    /// Released by its owner: nothing of it is missed.
    is_dropped: AtomicBool,
}

impl Content {
    /// The resource has another object from now on, or another resource takes its place.
    pub fn note_exchanged(&self) {
        self.object.fetch_add(1, Ordering::Release);
    }

    /// Its owner has released it.
    pub fn note_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    /// Copies to it were lost.
    pub fn note_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Returns `true` if copies to it were lost since the last call of [`Content::take_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// As [`Content::is_lost`], once.
    #[must_use]
    pub fn take_lost(&self) -> bool {
        self.is_lost.swap(false, Ordering::AcqRel)
    }
}

/// A destination of copies that are gathered.
pub struct Target<L> {
    content: Arc<Content>,
    /// The number of the object that the copies go to.
    object: u32,
    /// That of its resource.
    pub user_data: u64,
    kept: Option<Kept>,
    /// Whether its owner stages the same bytes again after a frame that was not submitted.
    is_restaged: bool,
    /// By what debugging knows it.
    known_as: Option<Box<L>>,
}

impl<L: Clone> Target<L> {
    /// One of which a resource knows `content`. `known_as` is by what debugging knows it.
    #[must_use]
    pub fn new(content: &Arc<Content>, user_data: u64, is_restaged: bool, known_as: Option<L>) -> Self {
        let object = content.object.load(Ordering::Acquire);
        let content = Arc::clone(content);
        Self { content, object, user_data, kept: None, is_restaged, known_as: known_as.map(Box::new) }
    }

    /// Whether it is a destination of the resource that knows `content`.
    #[must_use]
    pub fn is_of(&self, content: &Arc<Content>) -> bool {
        Arc::ptr_eq(&self.content, content)
    }

    /// Whether its resource has another object than the one that the copies go to.
    #[must_use]
    pub fn is_exchanged(&self) -> bool {
        self.content.object.load(Ordering::Acquire) != self.object
    }

    /// Keeps what is gathered for it from being moved.
    #[must_use]
    pub fn kept(self, ticket: Option<&Arc<Ticket>>) -> Self {
        Self { kept: ticket.map(Kept::new), ..self }
    }

    /// The same once more, for a delivery that is gathered further.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { content, object, user_data, kept, is_restaged, known_as } = self;
        let (content, kept) = (Arc::clone(content), kept.as_ref().map(|kept| Kept::new(&kept.ticket)));
        let (object, user_data, is_restaged) = (*object, *user_data, *is_restaged);
        Self { content, object, user_data, kept, is_restaged, known_as: known_as.clone() }
    }
}

/// A range that is not moved for as long as this lives, or until it is released.
struct Kept {
    ticket: Arc<Ticket>,
    is_kept: AtomicBool,
}

impl Kept {
    fn new(ticket: &Arc<Ticket>) -> Self {
        ticket.keep();
        Self { ticket: Arc::clone(ticket), is_kept: AtomicBool::new(true) }
    }

    fn release(&self) {
        if self.is_kept.swap(false, Ordering::AcqRel) {
            self.ticket.release();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.release();
    }
}

/// Copies that are recorded together, in one frame.
pub struct Delivery<L: Clone> {
    /// Where they go.
    pub targets: Vec<Target<L>>,
    /// The frame; several, if it is not known which of those that were open.
    frames: Vec<(SyncPoint, Watch)>,
    is_recorded: AtomicBool,
    /// Those of the allocator whose resources they go to.
    pub losses: Option<Arc<Losses<L>>>,
}

impl<L: Clone> Delivery<L> {
    /// Returns `true` once it was recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Adds a frame that it may be recorded in.
    pub fn watch(&mut self, frame: SyncPoint, watch: impl FnOnce() -> Option<Watch>) {
        if self.frames.iter().all(|(known, _)| *known != frame)
            && let Some(watch) = watch()
        {
            self.frames.push((frame, watch));
        }
    }

    /// It is recorded: it arrives if its frame is submitted.
    pub fn record(self: &Arc<Self>) {
        if self.is_recorded.swap(true, Ordering::AcqRel) {
            return;
        }
        self.targets.iter().filter_map(|target| target.kept.as_ref()).for_each(Kept::release);
        if let Some(losses) = &self.losses {
            losses.settle();
            losses.add(Arc::clone(self));
        }
    }

    fn ended(&self, end: End) -> bool {
        self.frames.iter().any(|(_, watch)| watch.end() == end)
    }

    /// It does not arrive. `is_submitted` says that the owners of what is staged again know nothing of that.
    fn lose(&self, is_submitted: bool) {
        for target in self.targets.iter().filter(|target| is_submitted || !target.is_restaged) {
            if target.content.is_dropped.load(Ordering::Acquire) {
                continue;
            }
            target.content.note_lost();
            if let (Some(known), Some(losses)) = (&target.known_as, &self.losses) {
                push(&losses.found, L::clone(known), |_| ());
            }
        }
    }

    /// No batch has it any more: without having been recorded, it is lost.
    pub fn close(&mut self) {
        if !self.is_recorded() && !self.targets.is_empty() {
            self.lose(self.ended(End::Submitted));
        }
        self.targets.clear();
        self.frames.clear();
        self.is_recorded = AtomicBool::new(false);
    }
}

impl<L: Clone> Default for Delivery<L> {
    fn default() -> Self {
        Self { targets: Vec::new(), frames: Vec::new(), is_recorded: AtomicBool::new(false), losses: None }
    }
}

impl<L: Clone> Drop for Delivery<L> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The deliveries of an allocator that wait for the end of their frames, and what was lost.
pub struct Losses<L: Clone> {
    recorded_count: AtomicUsize,
    recorded: Mutex<Vec<Arc<Delivery<L>>>>,
    /// What debugging is to report.
    found: Mutex<Vec<L>>,
}

/// What panics while it is locked has changed nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends a value, and calls `then` with the new length under the lock. Host memory is allocated without the lock: a global
/// allocator of the program's may call the library again within an allocation.
fn push<T>(mutex: &Mutex<Vec<T>>, value: T, then: impl FnOnce(usize)) {
    let mut room = Vec::new();
    loop {
        let mut list = lock(mutex);
        let count = list.len();
        if count < list.capacity() || count < room.capacity() {
            if count == list.capacity() {
                room.append(&mut list);
                core::mem::swap(&mut *list, &mut room);
            }
            list.push(value);
            then(count + 1);
            return;
        }
        drop(list);
        room = Vec::with_capacity((2 * count).max(4));
    }
}

impl<L: Clone> Default for Losses<L> {
    fn default() -> Self {
        let (recorded, found) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        Self { recorded_count: AtomicUsize::new(0), recorded, found }
    }
}

impl<L: Clone> Losses<L> {
    fn add(&self, delivery: Arc<Delivery<L>>) {
        push(&self.recorded, delivery, |count| self.recorded_count.store(count, Ordering::Release));
    }

    /// Takes one out whose frames are over.
    fn take_over(&self) -> Option<Arc<Delivery<L>>> {
        if self.recorded_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut recorded = lock(&self.recorded);
        let at = recorded.iter().position(|delivery| !delivery.ended(End::Open))?;
        let over = recorded.swap_remove(at);
        self.recorded_count.store(recorded.len(), Ordering::Release);
        Some(over)
    }

    /// Finds out what has become of deliveries whose frames are over.
    pub fn settle(&self) {
        while let Some(over) = self.take_over() {
            if !over.frames.is_empty() && !over.ended(End::Submitted) {
                over.lose(false);
            }
        }
    }

    /// Forgets all that waits: the allocator is at its end.
    pub fn forget(&self) {
        let recorded = core::mem::take(&mut *lock(&self.recorded));
        self.recorded_count.store(0, Ordering::Release);
        drop(recorded);
    }

    /// Takes out what debugging is to report.
    #[must_use]
    pub fn take_found(&self) -> Vec<L> {
        core::mem::take(&mut *lock(&self.found))
    }
}
