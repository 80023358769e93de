//! A place that was allocated, and to which no resource is bound yet.

use std::mem::ManuallyDrop;

use super::place::Place;
use super::shared::Shared;
use crate::device::Device;

/// A place that is freed on drop. So it is freed if the driver fails to bind the resource, even if its call panics.
pub(crate) struct Unbound<'a, D: Device> {
    shared: &'a Shared<D>,
    /// Valid until the drop.
    place: ManuallyDrop<Place<D>>,
}

impl<'a, D: Device> Unbound<'a, D> {
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared<D>, place: Place<D>) -> Self {
        Self { shared, place: ManuallyDrop::new(place) }
    }

    #[inline(always)]
    pub(crate) fn place(&self) -> &Place<D> {
        &self.place
    }

    /// Returns the place, to which a resource is bound now.
    #[inline(always)]
    pub(crate) fn bound(self) -> Place<D> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped or used again, so the place is taken once.
        unsafe { ManuallyDrop::take(&mut held.place) }
    }
}

impl<D: Device> Drop for Unbound<'_, D> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        free(self.shared, unsafe { ManuallyDrop::take(&mut self.place) });
    }
}

#[cold]
#[inline(never)]
fn free<D: Device>(shared: &Shared<D>, place: Place<D>) {
    shared.free_place(place);
}
