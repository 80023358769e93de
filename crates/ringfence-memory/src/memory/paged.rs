//! Functions for libraries whose objects get their memory page by page, such as `ringfence-sparse`.

use std::sync::Arc;

use ringfence_decision::{AllocationDesc, Error};
use ringfence_observe::{Call, Event};

use super::place::Place;
use super::placing::{Bytes, PlacementRequest};
use super::retired::Retired;
use super::shared::Shared;
use crate::device::lock::{defer, is_locked};
use crate::device::{Device, DeviceError, Requirements};
use crate::resource::Allocation;
use ringfence_arena::RawObject;

impl<D: Device> Shared<D> {
    /// Calls `make` to create a driver's object that has no memory yet. If memory is short, frees unused memory and
    /// calls `make` again.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or the error of `make`.
    pub fn make_paged<R>(&self, make: impl Fn(&D) -> Result<R, DeviceError>) -> Result<R, DeviceError> {
        self.check_lost()?;
        let made = self.make_object(|| make(&self.device))?;
        self.notify(Event::Called(Call::CreateObject));
        Ok(made)
    }

    /// Allocates memory for a page, with the alignment of `page`. Ignores the alignment in `desc`.
    ///
    /// # Errors
    /// As [`Allocator::allocate`](crate::Allocator::allocate).
    #[track_caller]
    pub fn allocate_page(
        self: &Arc<Self>,
        page: Requirements,
        desc: &AllocationDesc<'_>,
    ) -> Result<Allocation<D>, Error> {
        Allocation::new(self, &Bytes, PlacementRequest::new(page, desc), false)
    }

    /// Retires an object with the memory of its pages. Once all submissions that have begun are complete, the object is
    /// destroyed, then its pages are freed.
    ///
    /// # Safety
    /// The object and the pages belong to this allocator, and the object has no other owner.
    pub unsafe fn retire_paged(self: &Arc<Self>, object: RawObject<D>, pages: impl IntoIterator<Item = Allocation<D>>) {
        self.enqueue_paged(object, pages.into_iter().map(|page| page.into_parts().1).collect());
    }

    fn enqueue_paged(self: &Arc<Self>, object: RawObject<D>, pages: Vec<Place<D>>) {
        if self.observers.is_watching() && is_locked() {
            let owner = Arc::clone(self);
            return defer(move || owner.enqueue_paged(object, pages));
        }
        pages.iter().for_each(|page| self.note_retired(page));
        object.note_retired(&self.device);
        self.enqueue(Retired::Paged(Box::new((object, pages))));
        self.write_due();
    }
}
