//! Destinations of a batch's copies. Defragmentation does not move a destination until the copies to it are recorded.
//! If copies are lost, their destinations are marked. See [`ringfence_lockfree::delivery`].

use std::sync::Arc;

use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_lockfree::clock::Watch;
use ringfence_lockfree::delivery::{self, Losses};
use smallvec::SmallVec;

use crate::device::{Create, Device};
use ringfence_memory::debugging::Leak;
use ringfence_memory::extend::Shared;
use ringfence_memory::{Resource, ResourceKind};

type Delivery = delivery::Delivery<Leak>;

/// The destinations of copies that are recorded together (a *delivery*). A clone refers to the same copies: they arrive
/// if the original or a clone is recorded in a frame that is submitted.
#[derive(Default)]
pub(super) struct PendingCopies {
    delivery: Option<Arc<Delivery>>,
    /// Earlier deliveries, kept to reuse their host memory. Some may still wait for the end of their frames.
    spares: SmallVec<[Arc<Delivery>; 4]>,
}

/// Error: a destination was given another object, and the copies write to its old object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exchanged {
    /// User data of the first such destination.
    pub(super) user_data: u64,
}

impl PendingCopies {
    /// Returns a value without destinations.
    #[must_use]
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if the present delivery is recorded, or if there is none.
    #[must_use]
    pub(super) fn is_recorded(&self) -> bool {
        self.delivery.as_ref().is_none_or(|delivery| delivery.is_recorded())
    }

    /// Returns `true` if other values than this one have copies to the resource that are not recorded.
    #[must_use]
    pub(super) fn others_write<D: Create<K> + Device, K: ResourceKind>(&self, to: &Resource<D, K>) -> bool {
        let own = self.delivery.iter().filter(|delivery| !delivery.is_recorded());
        let own = own.flat_map(|delivery| &delivery.targets).filter(|target| to.is_destination(target));
        to.gathered_count() as usize > own.count()
    }

    /// Adds a destination, which is not moved until the copies are recorded. The copies may be recorded in `frames`. If
    /// `frames` is empty, they may be recorded in the frames that are open at this call. `is_restaged` must be `true`
    /// if the caller stages the same bytes again after a loss; the loss is then not reported.
    pub(super) fn add<D: Create<K> + Device, K: ResourceKind>(
        &mut self,
        to: &Resource<D, K>,
        frames: impl Iterator<Item = SyncPoint>,
        is_restaged: bool,
    ) {
        let shared = to.shared();
        let delivery = self.editable(shared.losses());
        if delivery.targets.last().is_none_or(|last| !to.is_destination(last)) {
            delivery.targets.push(to.destination(is_restaged));
        }
        let mut any = false;
        for point in frames {
            any = true;
            delivery.watch(point, || watch(shared, point));
        }
        if !any {
            let mut open = SyncSet::new();
            shared.open(&mut open);
            open.iter().for_each(|point| delivery.watch(point, || watch(shared, point)));
        }
    }

    /// Returns the present delivery for changes. If a clone shares it, first replaces it with a new delivery, which
    /// gets the destinations of copies that are not recorded.
    fn editable(&mut self, losses: &Arc<Losses<Leak>>) -> &mut Delivery {
        // A recorded delivery may be unshared again, once its frame is over.
        if self.delivery.as_mut().is_none_or(|held| held.is_recorded() || Arc::get_mut(held).is_none()) {
            let at = self.spares.iter_mut().position(|spare| Arc::get_mut(spare).is_some());
            let mut fresh = at.map(|at| self.spares.swap_remove(at)).unwrap_or_default();
            let held = Arc::get_mut(&mut fresh).expect("not shared");
            held.close();
            if let Some(old) = self.delivery.take() {
                if !old.is_recorded() {
                    held.targets.extend(old.targets.iter().map(|target| target.again()));
                }
                self.keep(old);
            }
            held.losses = Some(Arc::clone(losses));
            self.delivery = Some(fresh);
        }
        self.delivery.as_mut().and_then(Arc::get_mut).expect("not shared")
    }

    /// Keeps a delivery, to reuse its host memory.
    fn keep(&mut self, delivery: Arc<Delivery>) {
        if self.spares.len() < self.spares.inline_size() {
            self.spares.push(delivery);
        }
    }

    /// Checks that each destination still has the object that the copies write to.
    ///
    /// # Errors
    /// The first destination that was given another object.
    pub(super) fn check(&self) -> Result<(), Exchanged> {
        let targets = self.delivery.iter().flat_map(|delivery| &delivery.targets);
        let mut exchanged = targets.filter(|target| target.is_exchanged());
        exchanged.next().map_or(Ok(()), |target| Err(Exchanged { user_data: target.user_data }))
    }

    /// Marks the copies as recorded: they arrive if their frame is submitted.
    pub(super) fn recorded(&self) {
        self.delivery.iter().for_each(Delivery::record);
    }

    /// Removes the copies. Copies that were not recorded are lost.
    pub(super) fn clear(&mut self) {
        let Some(mut delivery) = self.delivery.take() else { return };
        if let Some(only) = Arc::get_mut(&mut delivery) {
            only.close();
        }
        self.keep(delivery);
    }
}

impl Clone for PendingCopies {
    fn clone(&self) -> Self {
        Self { delivery: self.delivery.clone(), spares: SmallVec::new() }
    }
}

/// Returns a watch that reports how `frame` ends, or `None` if the frame is not open.
fn watch<D: Device>(shared: &Shared<D>, frame: SyncPoint) -> Option<Watch> {
    Some(shared.open_frame(frame)?.watch())
}
