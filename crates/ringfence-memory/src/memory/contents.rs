//! Whether the bytes that copies bring to resources arrive: what resources, batches of copies and the allocator share.
//!
//! ```text
//!   gathered ── recorded ──▶ waits for the end of its frame ──┬─ submitted ─────────▶ it arrives
//!      │                                                      └─ discarded, dropped ▶ lost
//!      ├─ cleared, dropped ─────────────────────────────────────────────────────────▶ lost
//!      └─ the resource has another object by then ──▶ refused, when it is to be recorded
//! ```
//!
//! As long as copies are gathered and not recorded, no defragmentation moves their destination. A resource of which
//! copies are lost says so ([`Resource::take_content_lost`](crate::Resource::take_content_lost)), and debugging finds
//! it ([`Finding::LostContent`](crate::debugging::Finding::LostContent)).
//!
//! | operation | cost |
//! |---|---|
//! | add a destination | O(1) |
//! | check, record, clear | O(destinations) |
//! | settle, once a reclaim | O(deliveries whose frames are open), one read without any |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use ringfence_core::clock::{End, Watch};
use ringfence_core::sync::SyncPoint;
use ringfence_core::ticket::Ticket;
use ringfence_trace::Leak;
use smallvec::SmallVec;

/// What a resource knows of the copies to it. Made with the first of them.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Another number after each exchange of the resource's object.
    object: AtomicU32,
    is_lost: AtomicBool,
    /// Released by its owner: nothing of it is missed.
    is_dropped: AtomicBool,
}

impl Content {
    /// The resource has another object from now on, or another resource takes its place.
    pub(crate) fn note_exchanged(&self) {
        self.object.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn note_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn note_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    pub(crate) fn take_lost(&self) -> bool {
        self.is_lost.swap(false, Ordering::AcqRel)
    }
}

/// A destination of copies that are gathered.
pub(crate) struct Target {
    content: Arc<Content>,
    /// The number of the object that the copies go to.
    object: u32,
    pub(crate) user_data: u64,
    kept: Option<Kept>,
    /// Whether its owner stages the same bytes again after a frame that was not submitted.
    is_restaged: bool,
    /// By what debugging knows it.
    known_as: Option<Box<Leak>>,
}

impl Target {
    /// One of which a resource knows `content`. `known_as` is by what debugging knows it.
    pub(crate) fn new(content: &Arc<Content>, user_data: u64, is_restaged: bool, known_as: Option<Leak>) -> Self {
        let object = content.object.load(Ordering::Acquire);
        let content = Arc::clone(content);
        Self { content, object, user_data, kept: None, is_restaged, known_as: known_as.map(Box::new) }
    }

    /// Whether it is a destination of the resource that knows `content`.
    pub(crate) fn is_of(&self, content: &Arc<Content>) -> bool {
        Arc::ptr_eq(&self.content, content)
    }

    /// Whether its resource has another object than the one that the copies go to.
    pub(crate) fn is_exchanged(&self) -> bool {
        self.content.object.load(Ordering::Acquire) != self.object
    }

    /// Keeps what is gathered for it from being moved.
    pub(crate) fn kept(self, ticket: Option<&Arc<Ticket>>) -> Self {
        Self { kept: ticket.map(Kept::new), ..self }
    }

    pub(crate) fn again(&self) -> Self {
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
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) targets: Vec<Target>,
    /// The frame; several, if it is not known which of those that were open.
    frames: SmallVec<[(SyncPoint, Watch); 1]>,
    is_recorded: AtomicBool,
    pub(crate) losses: Option<Arc<Losses>>,
}

impl Delivery {
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Adds a frame that it may be recorded in.
    pub(crate) fn watch(&mut self, frame: SyncPoint, watch: impl FnOnce() -> Option<Watch>) {
        if self.frames.iter().all(|(known, _)| *known != frame)
            && let Some(watch) = watch()
        {
            self.frames.push((frame, watch));
        }
    }

    /// It is recorded: it arrives if its frame is submitted.
    pub(crate) fn record(self: &Arc<Self>) {
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
                losses.found.lock().push(Leak::clone(known));
            }
        }
    }

    /// No batch has it any more: without having been recorded, it is lost.
    pub(crate) fn close(&mut self) {
        if !self.is_recorded() && !self.targets.is_empty() {
            self.lose(self.ended(End::Submitted));
        }
        self.targets.clear();
        self.frames.clear();
        self.is_recorded = AtomicBool::new(false);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.close();
    }
}

/// The deliveries of an allocator that wait for the end of their frames, and what was lost.
#[derive(Default)]
pub(crate) struct Losses {
    recorded_count: AtomicUsize,
    recorded: Mutex<Vec<Arc<Delivery>>>,
    /// What debugging is to report.
    found: Mutex<Vec<Leak>>,
}

impl Losses {
    fn add(&self, delivery: Arc<Delivery>) {
        let mut room = Vec::new();
        loop {
            let mut recorded = self.recorded.lock();
            let count = recorded.len();
            if count < recorded.capacity() || count < room.capacity() {
                if count == recorded.capacity() {
                    room.append(&mut recorded);
                    std::mem::swap(&mut *recorded, &mut room);
                }
                recorded.push(delivery);
                self.recorded_count.store(count + 1, Ordering::Release);
                return;
            }
            // Host memory is got without the lock: a global allocator of the program's may come back here.
            drop(recorded);
            room = Vec::with_capacity((2 * count).max(4));
        }
    }

    /// Takes one out whose frames are over.
    fn take_over(&self) -> Option<Arc<Delivery>> {
        if self.recorded_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut recorded = self.recorded.lock();
        let at = recorded.iter().position(|delivery| !delivery.ended(End::Open))?;
        let over = recorded.swap_remove(at);
        self.recorded_count.store(recorded.len(), Ordering::Release);
        Some(over)
    }

    /// Finds out what has become of deliveries whose frames are over.
    pub(crate) fn settle(&self) {
        while let Some(over) = self.take_over() {
            if !over.frames.is_empty() && !over.ended(End::Submitted) {
                over.lose(false);
            }
        }
    }

    /// Forgets all that waits: the allocator is at its end.
    pub(crate) fn forget(&self) {
        let recorded = std::mem::take(&mut *self.recorded.lock());
        self.recorded_count.store(0, Ordering::Release);
        drop(recorded);
    }

    pub(crate) fn take_found(&self) -> Vec<Leak> {
        std::mem::take(&mut *self.found.lock())
    }
}
