//! A driver's object without memory of its own, with the [pages](super::table) behind it. One for buffers and textures.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::Sparse;
use super::table::PageTable;
use crate::device::{Create, Device, DeviceError, ResourceClass};
use crate::error::Error;
use crate::memory::{AllocationDesc, Shared};
use crate::resource::ResourceKind;

/// See the [module](self). Dropping it retires the object with all of its memory.
pub(super) struct SparseObject<D: Device + Create<K>, K: ResourceKind> {
    object: ManuallyDrop<<D as Create<K>>::Object>,
    pub(super) table: PageTable<D>,
}

impl<D: Device + Create<K>, K: ResourceKind> SparseObject<D, K> {
    pub(super) fn get(&self) -> &<D as Create<K>>::Object {
        &self.object
    }
}

impl<D: Sparse + Create<K>, K: ResourceKind> SparseObject<D, K> {
    /// Has the driver `make` an object; its needs say what `page_of` a page needs: bytes, memory types, class.
    pub(super) fn new<N>(
        shared: &Arc<Shared<D>>,
        desc: AllocationDesc<'_>,
        make: impl FnOnce(&D) -> Result<(<D as Create<K>>::Object, N), DeviceError>,
        page_of: impl FnOnce(&N) -> (u64, u32, ResourceClass),
    ) -> Result<(Self, N), Error> {
        shared.check_lost()?;
        let (object, needs) = make(&shared.device)?;
        shared.calls.create_object.add(1);
        if !desc.name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<K>::set_name(&shared.device, &object, desc.name) };
        }
        let table = PageTable::new(shared, page_of(&needs), desc);
        Ok((Self { object: ManuallyDrop::new(object), table }, needs))
    }
}

impl<D: Device + Create<K>, K: ResourceKind> Drop for SparseObject<D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        // Before the table, so that the object is destroyed before its memory is free.
        self.table.retire(K::raw::<D>(object));
    }
}
