//! Deliveries: copies to resources, from the time when they are gathered in a batch until they arrive or are lost. The
//! resources, the batches of copies and the allocator share these types.
//!
//! ```text
//!   gathered ── recorded ──▶ waits for the end of the frame ──┬─ submitted ─────────▶ arrives
//!      │                                                      └─ discarded, dropped ▶ lost
//!      ├─ cleared, dropped ─────────────────────────────────────────────────────────▶ lost
//!      └─ the resource's object was exchanged meanwhile ──▶ recording fails
//! ```
//!
//! While copies are gathered and not recorded, defragmentation does not move their destination. If copies to a resource
//! are lost, `Content::is_lost` returns `true`, and the resource's debug record (type `L`), if there is one, is kept
//! for a report.
//!
//! | operation | cost |
//! |---|---|
//! | add a destination | O(1) |
//! | check, clear | O(destinations) |
//! | record | O(destinations), and a call of settle |
//! | settle, also once per reclaim | O(recorded × (removed + 1) deliveries); one read if none is recorded |

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{OnceLock, PoisonError};

use crate::clock::{End, Watch};
use crate::primitive::{AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::ticket::Ticket;
use ringfence_core::sync::SyncPoint;

/// State of the copies to a resource. Created with the first copy to the resource.
#[derive(Debug, Default)]
pub struct Content {
    /// A counter that increases with each exchange of the resource's object.
    object: AtomicU32,
    /// Number of targets with copies that are neither recorded nor dropped.
    gathered: AtomicU32,
    is_lost: AtomicBool,
    /// `true` once the owner has released the resource. Lost copies are then not reported.
    is_dropped: AtomicBool,
    /// The resource that was filled from this one. Copies to this resource that are lost count as lost for the
    /// successor too.
    successor: OnceLock<Arc<Content>>,
}

impl Content {
    /// Records that `new` is filled from this resource and replaces this resource. Copies to this resource that were
    /// lost before this call and are not reported yet, or that are lost later, count as lost for `new` too. Only the
    /// first call has an effect.
    pub fn pass_losses_to(&self, new: &Arc<Self>) {
        if self.successor.set(Arc::clone(new)).is_ok() && self.is_lost() {
            new.note_lost();
        }
    }

    /// Records that copies to this resource were lost, for the resource and its successors, except those that are
    /// released. Returns `true` if the loss was recorded for one of them.
    fn lose(&self) -> bool {
        let is_here = !self.is_dropped.load(Ordering::Acquire);
        if is_here {
            self.note_lost();
        }
        self.successor.get().is_some_and(|new| new.lose()) | is_here
    }

    /// Records that the resource's object was exchanged, or that another resource has replaced the resource.
    pub fn note_exchanged(&self) {
        self.object.fetch_add(1, Ordering::Release);
    }

    /// Records that the owner has released the resource.
    pub fn note_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    /// Returns the number of targets with copies to the resource that are neither recorded nor dropped.
    #[must_use]
    pub fn gathered(&self) -> u32 {
        self.gathered.load(Ordering::Acquire)
    }

    /// Records that copies to the resource were lost.
    pub fn note_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Returns `true` if copies to the resource were lost since the last call of [`Content::take_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns the same as [`Content::is_lost`], and resets the result to `false`.
    #[must_use]
    pub fn take_lost(&self) -> bool {
        self.is_lost.swap(false, Ordering::AcqRel)
    }
}

/// The destination of gathered copies: a resource.
pub struct Target<L> {
    gathered: Gathered,
    /// Value of `Content::object` when the target was created. If the values differ, the object was exchanged.
    object: u32,
    /// User data of the resource.
    pub user_data: u64,
    /// `true` if the owner copies the same bytes again after a frame that was not submitted.
    is_restaged: bool,
    /// Debug record of the resource.
    known_as: Option<Box<L>>,
}

impl<L: Clone> Target<L> {
    /// Creates a destination for the resource with this `content`. If the resource has a `ticket`, its range is not
    /// moved until the copies are recorded or dropped. `known_as` is the resource's debug record.
    #[must_use]
    pub fn new(
        content: &Arc<Content>,
        ticket: Option<&Arc<Ticket>>,
        user_data: u64,
        is_restaged: bool,
        known_as: Option<L>,
    ) -> Self {
        let object = content.object.load(Ordering::Acquire);
        let gathered = Gathered::new(content, ticket);
        Self { gathered, object, user_data, is_restaged, known_as: known_as.map(Box::new) }
    }

    /// Returns `true` if the destination is the resource with this `content`.
    #[must_use]
    pub fn is_of(&self, content: &Arc<Content>) -> bool {
        Arc::ptr_eq(&self.gathered.content, content)
    }

    /// Returns `true` if the resource's object was exchanged after the copies were gathered.
    #[must_use]
    pub fn is_exchanged(&self) -> bool {
        self.gathered.content.object.load(Ordering::Acquire) != self.object
    }

    /// Returns another target for the same resource, for a further delivery.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { gathered, object, user_data, is_restaged, known_as } = self;
        let gathered = Gathered::new(&gathered.content, gathered.ticket.as_ref());
        let (object, user_data, is_restaged) = (*object, *user_data, *is_restaged);
        Self { gathered, object, user_data, is_restaged, known_as: known_as.clone() }
    }
}

/// Counts gathered copies to a resource and prevents moves of its range, until this value is released or dropped.
struct Gathered {
    content: Arc<Content>,
    ticket: Option<Arc<Ticket>>,
    is_counted: AtomicBool,
}

impl Gathered {
    fn new(content: &Arc<Content>, ticket: Option<&Arc<Ticket>>) -> Self {
        content.gathered.fetch_add(1, Ordering::AcqRel);
        if let Some(ticket) = ticket {
            ticket.keep();
        }
        Self { content: Arc::clone(content), ticket: ticket.cloned(), is_counted: AtomicBool::new(true) }
    }

    fn release(&self) {
        if self.is_counted.swap(false, Ordering::AcqRel) {
            self.content.gathered.fetch_sub(1, Ordering::AcqRel);
            if let Some(ticket) = &self.ticket {
                ticket.release();
            }
        }
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.release();
    }
}

/// Copies that are recorded together in one frame.
pub struct Delivery<L: Clone> {
    /// Destinations of the copies.
    pub targets: Vec<Target<L>>,
    /// The frame of the copies, or all frames in which they may be recorded if the frame is not known.
    frames: Vec<(SyncPoint, Watch)>,
    is_recorded: AtomicBool,
    /// The losses of the allocator that owns the destinations. `None` if losses are not tracked.
    pub losses: Option<Arc<Losses<L>>>,
}

impl<L: Clone> Delivery<L> {
    /// Returns `true` if the copies were recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Adds a frame in which the copies may be recorded. `watch` is called only if the frame was not added before. If
    /// `watch` returns `None`, the frame is not added.
    pub fn watch(&mut self, frame: SyncPoint, watch: impl FnOnce() -> Option<Watch>) {
        if self.frames.iter().all(|(known, _)| *known != frame)
            && let Some(watch) = watch()
        {
            self.frames.push((frame, watch));
        }
    }

    /// Marks the copies as recorded. They arrive if their frame is submitted.
    pub fn record(self: &Arc<Self>) {
        if self.is_recorded.swap(true, Ordering::AcqRel) {
            return;
        }
        self.targets.iter().for_each(|target| target.gathered.release());
        if let Some(losses) = &self.losses {
            losses.settle();
            losses.add(Arc::clone(self));
        }
    }

    fn ended(&self, end: End) -> bool {
        self.frames.iter().any(|(_, watch)| watch.end() == end)
    }

    /// Marks the copies as lost. `is_submitted` is `true` if one of their frames was submitted. If it is `false`, skips
    /// each target with an owner that copies the bytes again (`is_restaged`).
    fn lose(&self, is_submitted: bool) {
        for target in self.targets.iter().filter(|target| is_submitted || !target.is_restaged) {
            if target.gathered.content.lose()
                && let (Some(known), Some(losses)) = (&target.known_as, &self.losses)
            {
                push(&losses.found, L::clone(known), |_| ());
            }
        }
    }

    /// Resets the delivery after its batch has dropped it. If the copies were not recorded, they are reported as lost.
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

/// Deliveries of an allocator that wait for the end of their frames, and the losses to report.
pub struct Losses<L: Clone> {
    recorded_count: AtomicUsize,
    recorded: Mutex<Vec<Arc<Delivery<L>>>>,
    /// Debug records of resources that lost copies.
    found: Mutex<Vec<L>>,
}

/// Locks a list. Poisoning is ignored, because no code panics under the lock after it has changed the list.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends a value, and calls `then` with the new length under the lock. Host memory is allocated without the lock,
/// because the program's global allocator may call the library again.
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

    /// Removes a delivery that has no open frame, and returns it. Returns `None` if there is no such delivery.
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

    /// Removes all deliveries that have no open frame. If a delivery has frames, but none of them was submitted,
    /// reports its copies as lost.
    pub fn settle(&self) {
        while let Some(over) = self.take_over() {
            if !over.frames.is_empty() && !over.ended(End::Submitted) {
                over.lose(false);
            }
        }
    }

    /// Removes all waiting deliveries without a report, when the allocator is dropped.
    pub fn forget(&self) {
        let recorded = core::mem::take(&mut *lock(&self.recorded));
        self.recorded_count.store(0, Ordering::Release);
        drop(recorded);
    }

    /// Removes and returns the debug records of all resources that have lost copies.
    #[must_use]
    pub fn take_found(&self) -> Vec<L> {
        core::mem::take(&mut *lock(&self.found))
    }
}
