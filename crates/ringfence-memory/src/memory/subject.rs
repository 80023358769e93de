//! What can be given memory: a resource that was measured, or bytes for a resource that the caller places himself.

use std::marker::PhantomData;

use crate::device::{Create, Device, DeviceError, Kind, Mapped, MemoryDesc, Placed};

/// What the fallback order finds a place for.
pub(crate) trait Subject<D: Device> {
    /// What comes of it.
    type Made;

    /// Puts it at `offset` of `memory`, which is looked up if it takes that. It is used up iff this succeeds.
    ///
    /// # Safety
    /// The memory is of a type and class that its requirements allow, and the range lies inside it, aligned.
    unsafe fn place<'a>(
        &self,
        device: &D,
        memory: impl FnOnce() -> &'a D::Memory,
        offset: u64,
    ) -> Result<Self::Made, DeviceError>
    where
        D: 'a;

    /// Gives it memory of its own. It is used up iff this succeeds.
    ///
    /// # Safety
    /// Its requirements allow `desc`.
    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<(Self::Made, D::Memory), DeviceError>;

    /// Where the host sees what came of it, where the API maps resources.
    fn mapped(made: &Self::Made) -> Option<Mapped> {
        let _ = made;
        None
    }
}

/// A resource that was measured.
pub(crate) struct Unplaced<'a, D: Create<K>, K: Kind>(pub(crate) &'a D::Unplaced, pub(crate) PhantomData<K>);

impl<D: Device + Create<K>, K: Kind> Subject<D> for Unplaced<'_, D, K> {
    type Made = Placed<<D as Create<K>>::Object>;

    unsafe fn place<'a>(
        &self,
        device: &D,
        memory: impl FnOnce() -> &'a D::Memory,
        offset: u64,
    ) -> Result<Self::Made, DeviceError>
    where
        D: 'a,
    {
        // SAFETY: the caller promises the same.
        unsafe { Create::<K>::place(device, self.0, memory(), offset) }
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<(Self::Made, D::Memory), DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { Create::<K>::dedicate(device, self.0, desc) }
    }

    fn mapped(made: &Self::Made) -> Option<Mapped> {
        made.mapped
    }
}

/// Bytes alone.
pub(crate) struct Bytes;

impl<D: Device> Subject<D> for Bytes {
    type Made = ();

    unsafe fn place<'a>(&self, _: &D, _: impl FnOnce() -> &'a D::Memory, _: u64) -> Result<(), DeviceError>
    where
        D: 'a,
    {
        Ok(())
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<((), D::Memory), DeviceError> {
        // SAFETY: the memory type is one of the device's.
        unsafe { device.allocate_memory(desc) }.map(|memory| ((), memory))
    }
}

/// Bytes for a resource that the caller places, which the driver is given if they are its own.
pub(crate) struct BytesFor<'a, D: Create<K>, K: Kind>(pub(crate) &'a D::Unplaced, pub(crate) PhantomData<K>);

impl<D: Device + Create<K>, K: Kind> Subject<D> for BytesFor<'_, D, K> {
    type Made = ();

    unsafe fn place<'a>(&self, _: &D, _: impl FnOnce() -> &'a D::Memory, _: u64) -> Result<(), DeviceError>
    where
        D: 'a,
    {
        Ok(())
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<((), D::Memory), DeviceError> {
        // SAFETY: the caller promises that the requirements allow `desc`, and `Allocator::allocate_for` that the
        // resource is this device's and alive.
        unsafe { Create::<K>::allocate_memory_for(device, self.0, desc) }.map(|memory| ((), memory))
    }
}
