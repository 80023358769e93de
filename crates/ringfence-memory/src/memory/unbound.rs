//! A place that was found and has no resource yet.

use std::mem::ManuallyDrop;

use super::place::Place;
use super::shared::Shared;
use crate::device::Device;

/// A place that is freed when this is dropped: if the driver does not bind the resource there, or its call panics.
pub(crate) struct Unbound<'a, D: Device> {
    shared: &'a Shared<D>,
    /// There until this is dropped.
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

    /// The resource is bound.
    #[inline(always)]
    pub(crate) fn bound(self) -> Place<D> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped nor used again, so that the place is taken once.
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
