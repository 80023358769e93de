//! Functions for code that binds resources itself (libraries that suballocate heaps, imports, moves): a resource is
//! measured without memory, and then bound to the caller's place.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use ringfence_decision::{AllocationDesc, Error, padded};

use super::place::Place;
use super::placing::{Made, Measured, Prepared, Unplaced};
use super::shared::Shared;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Device, DeviceError, Kind, Requirements};

impl<D: Device> Shared<D> {
    /// Creates a resource, allocates memory for it and binds it.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`](crate::Allocator::create_buffer).
    pub fn create<K: Kind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        D: Create<K>,
    {
        let (made, needs) = self.create_measured::<K, _>(info, &desc, |unplaced, needs| {
            // SAFETY: the resource was just measured, and is placed once.
            unsafe { self.place::<K>(unplaced, needs, desc) }.map(|made| (made, needs))
        })?;
        self.name_new::<K>(&made.0.object, desc.name);
        Ok((made, needs))
    }

    /// As [`Shared::create`], but `place` chooses the place. The second argument of `place` satisfies the requirements
    /// in every memory type for the location.
    ///
    /// # Errors
    /// As [`Shared::create`], and those of `place`. An error changes nothing.
    ///
    /// # Safety
    /// `place` returns the result of this allocator's [`Shared::place`] or [`Shared::place_at`] for its first argument.
    pub unsafe fn create_with<K: Kind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        place: impl FnOnce(&<D as Create<K>>::Unplaced, Requirements) -> Result<Made<D, K>, Error>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        D: Create<K>,
    {
        let (made, needs) = self.create_measured::<K, _>(info, &desc, |unplaced, needs| {
            let types = self.order.candidates(desc.location, needs.memory_type_bits);
            let wide = types.fold(needs, |needs, memory_type| padded(needs, self.device.capabilities(), memory_type));
            place(unplaced, wide).map(|made| (made, needs))
        })?;
        self.name_new::<K>(&made.0.object, desc.name);
        Ok((made, needs))
    }

    /// Returns the requirements of a resource, without allocating memory for it.
    ///
    /// # Errors
    /// The driver refuses the description, or is out of memory.
    pub fn measure<K: Kind>(&self, info: &<D as Create<K>>::Info<'_>) -> Result<Requirements, DeviceError>
    where
        D: Create<K>,
    {
        self.measure_as::<K>(info, None)
    }

    /// As [`Shared::measure`], for memory that is shared by handles of the kind `share`.
    pub(crate) fn measure_as<K: Kind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        share: Option<ShareKind>,
    ) -> Result<Requirements, DeviceError>
    where
        D: Create<K>,
    {
        let (unplaced, needs) = self.prepare::<K>(info, share)?;
        drop(Prepared::<D, K>::new(&self.device, unplaced));
        Ok(needs)
    }

    /// Returns `true` if `portable`, which was derived from `info`, creates the same resource as `info`.
    pub(crate) fn is_complete_desc<K: Kind>(&self, portable: &K::Desc, info: &<D as Create<K>>::Info<'_>) -> bool
    where
        D: Create<K>,
    {
        let again = Create::<K>::describe(&self.device, portable).ok();
        let again = again.and_then(|again| Create::<K>::key(&self.device, &again));
        again.is_some() && again == Create::<K>::key(&self.device, info)
    }

    /// Binds a resource to allocated memory; frees the memory on failure.
    ///
    /// # Errors
    /// The driver cannot bind the resource.
    ///
    /// # Safety
    /// The resource's requirements allow the type and class of the memory; the range is large enough and aligned.
    pub unsafe fn place_at<K: Kind>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        place: Place<D>,
    ) -> Result<Made<D, K>, DeviceError>
    where
        D: Create<K>,
    {
        let unbound = Unbound::new(self, place);
        let (resource, place) = (Measured::<D, K>(unplaced, PhantomData), unbound.place());
        // SAFETY: the caller promises the same.
        let placed = unsafe { resource.bind(self, self.memory_of(place), place.offset) }?;
        Ok((placed, unbound.bound()))
    }
}

/// A place that is freed on drop: if the driver fails to bind the resource, or if the driver call panics.
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
