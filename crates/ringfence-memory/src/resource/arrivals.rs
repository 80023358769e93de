//! What batches of copies have to do with their destinations: none is moved while copies to it are gathered, and one
//! whose copies are lost says so. See [`contents`](crate::memory::contents).

use std::sync::Arc;

use ringfence_core::clock::Watch;
use ringfence_core::sync::{SyncPoint, SyncSet};
use smallvec::SmallVec;

use super::{Resource, ResourceKind};
use crate::device::{Create, Device};
use crate::memory::Shared;
use crate::memory::contents::{Delivery, Losses, Target};
use crate::timeline::Frame;

/// The destinations of copies that are gathered to be recorded together, for a library that gathers them. Clones stand
/// for the same copies: they arrive if one of them is recorded in a frame that is submitted.
#[derive(Default)]
pub struct Arrivals {
    delivery: Option<Arc<Delivery>>,
    /// Earlier ones, for their host memory: some still wait for the end of their frames.
    spares: SmallVec<[Arc<Delivery>; 4]>,
}

/// Copies of a batch whose destination has another object than the one that they go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchanged {
    /// The user data of the first such destination.
    pub user_data: u64,
}

impl Arrivals {
    /// No copies.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether what was added last was recorded already.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.delivery.as_ref().is_none_or(|delivery| delivery.is_recorded())
    }

    /// Adds a destination, which is not moved until the copies are recorded, and the frames that they may be recorded
    /// in: those that are open now, if none are given. `is_restaged` says that the caller stages the same bytes again if
    /// that frame is not submitted.
    pub fn add<D: Create<K> + Device, K: ResourceKind>(
        &mut self,
        to: &Resource<D, K>,
        frames: impl Iterator<Item = SyncPoint>,
        is_restaged: bool,
    ) {
        let shared = to.shared();
        let delivery = self.editable(&shared.losses);
        if delivery.targets.last().is_none_or(|last| !last.is_of(to.content())) {
            delivery.targets.push(target_of(to, is_restaged).kept(to.place().ticket()));
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
    fn editable(&mut self, losses: &Arc<Losses>) -> &mut Delivery {
        if self.delivery.as_mut().is_none_or(|delivery| Arc::get_mut(delivery).is_none()) {
            let at = self.spares.iter_mut().position(|spare| Arc::get_mut(spare).is_some());
            let mut fresh = at.map(|at| self.spares.swap_remove(at)).unwrap_or_default();
            let held = Arc::get_mut(&mut fresh).expect("no other has it");
            held.close();
            if let Some(old) = self.delivery.take() {
                if !old.is_recorded() {
                    held.targets.extend(old.targets.iter().map(Target::again));
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
    pub fn check(&self) -> Result<(), Exchanged> {
        let targets = self.delivery.iter().flat_map(|delivery| &delivery.targets);
        let mut exchanged = targets.filter(|target| target.is_exchanged());
        exchanged.next().map_or(Ok(()), |target| Err(Exchanged { user_data: target.user_data }))
    }

    /// The copies are recorded: they arrive if their frame is submitted.
    pub fn recorded(&self) {
        self.delivery.iter().for_each(Delivery::record);
    }

    /// Forgets the copies: those that were not recorded are lost.
    pub fn clear(&mut self) {
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

fn target_of<D: Create<K> + Device, K: ResourceKind>(to: &Resource<D, K>, is_restaged: bool) -> Target {
    let shared = to.shared();
    let known_as = shared.observers.debug().and_then(|debug| debug.described(shared.key_of(to.place())?));
    Target::new(to.content(), to.user_data(), is_restaged, known_as)
}

/// Notes how a frame ends, if it is open.
fn watch<D: Device>(shared: &Shared<D>, frame: SyncPoint) -> Option<Watch> {
    Some(shared.open_frame(frame)?.watch())
}

impl<D: Create<K> + Device, K: ResourceKind> Resource<D, K> {
    /// The resource gets its contents by copies that the caller was given to record in this frame: they are lost with
    /// it.
    pub(crate) fn await_content(&self, frame: &Frame) {
        let (shared, point) = (self.shared(), frame.point());
        let mut delivery = Delivery::default();
        delivery.losses = Some(Arc::clone(&shared.losses));
        delivery.targets.push(target_of(self, false));
        delivery.watch(point, || watch(shared, point));
        Arc::new(delivery).record();
    }
}
