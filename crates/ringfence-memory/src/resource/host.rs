//! Host access to the bytes of a resource, an allocation or a small buffer.

use smallvec::{SmallVec, smallvec};

use crate::device::{Device, DeviceError, Mapped};
use crate::memory::{Place, Shared};

/// An error of a host access to a resource. No byte was read or written, unless the driver failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The memory is not mapped: it is not host-visible, or the resource aliases an [`Allocation`](crate::Allocation),
    /// which maps the bytes.
    #[error("the resource's memory is not mapped")]
    NotMapped,
    /// The range exceeds the resource.
    #[error("bytes {offset}..{offset}+{size} are outside the resource of {resource_size} bytes")]
    OutOfRange {
        /// First byte of the range.
        offset: u64,
        /// Size of the range, in bytes.
        size: u64,
        /// Size of the resource, in bytes.
        resource_size: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The bytes of a resource, from the first byte of `place` on, and their mapped address.
pub(super) struct HostBytes<'a, D: Device> {
    pub(super) shared: &'a Shared<D>,
    pub(super) place: &'a Place<D>,
    /// The mapped address of the first byte. If it is `Some`, `size` bytes are mapped there.
    pub(super) base: Option<Mapped>,
    pub(super) size: u64,
}

impl<D: Device> HostBytes<'_, D> {
    /// Returns the mapped address of byte `offset`, if `size` bytes from there on are inside the resource.
    pub(super) fn at(&self, offset: u64, size: u64) -> Result<Mapped, AccessError> {
        let base = self.base.ok_or(AccessError::NotMapped)?;
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(AccessError::OutOfRange { offset, size, resource_size: self.size });
        }
        // SAFETY: the offset is inside the bytes, which are all mapped.
        Ok(unsafe { base.add(offset) })
    }

    pub(super) fn flush(&self, offset: u64, size: u64) -> Result<(), AccessError> {
        self.at(offset, size)?;
        Ok(self.shared.flush(self.place, offset, size)?)
    }

    /// Copies `bytes` to `offset` and makes them visible to the device.
    ///
    /// # Safety
    /// No other host access to these bytes happens at the same time. If the memory is not coherent, this applies to all
    /// bytes of their atoms.
    pub(super) unsafe fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let mapped = self.at(offset, bytes.len() as u64)?;
        if self.shared.device.capabilities().is_non_coherent(self.shared.memory_of(self.place).memory_type) {
            // SAFETY: the caller promises the same.
            unsafe { self.refresh_around(offset, bytes.len() as u64) }?;
        }
        // SAFETY: the destination is inside the mapping, and the caller excludes every other host access.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.as_ptr(), bytes.len()) };
        Ok(self.shared.flush(self.place, offset, bytes.len() as u64)?)
    }

    /// Before a write, copies the device's writes to the rest of the atoms into the mapping, because the flush writes
    /// whole atoms.
    ///
    /// # Safety
    /// As [`HostBytes::write`].
    #[cold]
    unsafe fn refresh_around(&self, offset: u64, size: u64) -> Result<(), AccessError> {
        let (first, memory_type) = (self.place.offset, self.shared.memory_of(self.place).memory_type);
        let bytes = first + offset..first + offset + size;
        for rest in self.shared.device.capabilities().rest_of_atoms(memory_type, bytes) {
            let (at, end) = (rest.start.saturating_sub(first), (rest.end - first).min(self.size));
            let mut bytes: SmallVec<[u8; 256]> = smallvec![0; (end - at) as usize];
            if !bytes.is_empty() {
                self.read(at, &mut bytes)?;
                // SAFETY: the bytes are inside the mapping, and the caller excludes every other host access.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(at, end - at)?.as_ptr(), bytes.len()) };
            }
        }
        Ok(())
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let mapped = self.at(offset, into.len() as u64)?;
        let memory = &self.shared.memory_of(self.place).object;
        // SAFETY: the range is inside these bytes, and so inside the memory, which is mapped there.
        Ok(unsafe { self.shared.device.read_back(memory, self.place.offset + offset, mapped, into) }?)
    }
}
