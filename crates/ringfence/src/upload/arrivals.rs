//! What batches of copies have to do with their destinations: none is moved while copies to it are gathered, and one
//! whose copies are lost says so. See [`ringfence_lockfree::delivery`].

use std::sync::Arc;

use ringfence_lockfree::clock::Watch;
use ringfence_lockfree::delivery::{self, Losses};
use ringfence_core::sync::{SyncPoint, SyncSet};
use smallvec::SmallVec;

use crate::device::{Create, Device};
use ringfence_memory::debugging::Leak;
use ringfence_memory::extend::Shared;
use ringfence_memory::{Resource, ResourceKind};

type Delivery = delivery::Delivery<Leak>;

/// The destinations of copies that are gathered to be recorded together, for a library that gathers them. Clones stand
/// for the same copies: they arrive if one of them is recorded in a frame that is submitted.
#[derive(Default)]
pub(super) struct Arrivals {
    delivery: Option<Arc<Delivery>>,
    /// Earlier ones, for their host memory: some still wait for the end of their frames.
    spares: SmallVec<[Arc<Delivery>; 4]>,
}

/// Copies of a batch whose destination has another object than the one that they go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exchanged {
    /// The user data of the first such destination.
    pub(super) user_data: u64,
}

impl Arrivals {
    /// No copies.
    #[must_use]
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Whether what was added last was recorded already.
    #[must_use]
    pub(super) fn is_recorded(&self) -> bool {
        self.delivery.as_ref().is_none_or(|delivery| delivery.is_recorded())
    }

    /// Adds a destination, which is not moved until the copies are recorded, and the frames that they may be recorded
    /// in: those that are open now, if none are given. `is_restaged` says that the caller stages the same bytes again if
    /// that frame is not submitted.
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

    /// The delivery that is being gathered, which no other has yet.
    fn editable(&mut self, losses: &Arc<Losses<Leak>>) -> &mut Delivery {
        if self.delivery.as_mut().is_none_or(|delivery| Arc::get_mut(delivery).is_none()) {
            let at = self.spares.iter_mut().position(|spare| Arc::get_mut(spare).is_some());
            let mut fresh = at.map(|at| self.spares.swap_remove(at)).unwrap_or_default();
            let held = Arc::get_mut(&mut fresh).expect("no other has it");
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
        self.delivery.as_mut().and_then(Arc::get_mut).expect("made just now")
    }

    /// Keeps one for its host memory.
    fn keep(&mut self, delivery: Arc<Delivery>) {
        if self.spares.len() < self.spares.inline_size() {
            self.spares.push(delivery);
        }
    }

    /// Refuses copies that would go to another object than their destination has now.
    ///
    /// # Errors
    /// The first of them.
    pub(super) fn check(&self) -> Result<(), Exchanged> {
        let targets = self.delivery.iter().flat_map(|delivery| &delivery.targets);
        let mut exchanged = targets.filter(|target| target.is_exchanged());
        exchanged.next().map_or(Ok(()), |target| Err(Exchanged { user_data: target.user_data }))
    }

    /// The copies are recorded: they arrive if their frame is submitted.
    pub(super) fn recorded(&self) {
        self.delivery.iter().for_each(Delivery::record);
    }

    /// Forgets the copies: those that were not recorded are lost.
    pub(super) fn clear(&mut self) {
        let Some(mut delivery) = self.delivery.take() else { return };
        if let Some(only) = Arc::get_mut(&mut delivery) {
            only.close();
        }
        self.keep(delivery);
    }
}

impl Clone for Arrivals {
    fn clone(&self) -> Self {
        Self { delivery: self.delivery.clone(), spares: SmallVec::new() }
    }
}

/// Notes how a frame ends, if it is open.
fn watch<D: Device>(shared: &Shared<D>, frame: SyncPoint) -> Option<Watch> {
    Some(shared.open_frame(frame)?.watch())
}
