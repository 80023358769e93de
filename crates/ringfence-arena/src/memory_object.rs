//! The driver's objects with the library's data: memory objects, buffers and textures.

use std::ops::Range;
use std::sync::Arc;

use ringfence_observe::Watched;

use crate::device::sharing::ShareKind;
use crate::device::{Buffers, Create, Device, DeviceError, Mapped, RawBuffer, RawTexture, Textures};
use crate::residence::ResidencyState;

/// A memory object of the driver and its properties.
pub struct Memory<D: Device> {
    /// The driver's object.
    pub object: D::Memory,
    /// Memory type, an index.
    pub memory_type: u32,
    /// Size in bytes.
    pub size: u64,
    /// The memory object's number in a trace.
    pub block: u64,
    /// Mapped address of the memory's first byte, if the memory is host-visible and the API maps memory objects.
    pub mapped: Option<Mapped>,
    /// Address through which debugging accesses the memory's first byte.
    pub guards: Option<Mapped>,
    /// Kind of the handles by which the memory can be shared, if it was created as shared.
    pub share: Option<ShareKind>,
    /// `true` if another process or allocator created the memory.
    pub is_imported: bool,
    /// The residency state; `Some` if the memory can be evicted.
    pub residence: Option<Arc<ResidencyState<D>>>,
}

impl<D: Device> Memory<D> {
    /// Adds a range that must stay resident.
    pub fn pin(&self) {
        self.residence.iter().for_each(|residence| residence.pin());
    }

    /// Removes a range that must stay resident.
    pub fn unpin(&self) {
        self.residence.iter().for_each(|residence| residence.unpin());
    }

    /// Returns `true` if the memory is evicted.
    pub fn is_evicted(&self) -> bool {
        self.residence.as_ref().is_some_and(|residence| residence.is_evicted())
    }

    /// Makes host writes to bytes `start..end` visible to the device. Makes a driver call only if the memory type needs
    /// flushes.
    ///
    /// # Errors
    /// The driver's error.
    pub fn flush(&self, device: &D, start: u64, end: u64) -> Result<(), DeviceError> {
        let capabilities = device.capabilities();
        if !capabilities.needs_flush(self.memory_type) {
            return Ok(());
        }
        let atom =
            if capabilities.is_non_coherent(self.memory_type) { capabilities.non_coherent_atom_bytes } else { 1 };
        let start = start / atom * atom;
        let end = end.div_ceil(atom).saturating_mul(atom).min(self.size);
        // SAFETY: the range is inside this device's memory, which is mapped as long as it exists, and is atom-aligned.
        unsafe { device.flush(&self.object, start, end - start) }
    }
}

// SAFETY: the addresses come from the device, for this object.
unsafe impl<D: Device> Watched for Memory<D> {
    type Context = D;

    fn memory_type(&self) -> u32 {
        self.memory_type
    }

    fn mapped(&self) -> Option<Mapped> {
        self.mapped
    }

    fn guards(&self) -> Option<Mapped> {
        self.guards
    }

    fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    unsafe fn flush(&self, device: &D, bytes: Range<u64>) -> Result<(), DeviceError> {
        self.flush(device, bytes.start, bytes.end)
    }

    unsafe fn read_device_side(&self, device: &D, first: u64, at: Mapped, into: &mut [u8]) -> bool {
        // SAFETY: the caller promises that the memory belongs to this device and that `at` is the mapped address of its
        // byte `first`; the range is inside.
        device.capabilities().needs_flush(self.memory_type)
            && unsafe { device.read_back(&self.object, first, at, into) }.is_ok()
    }
}

/// The driver's object: a buffer or a texture.
pub enum RawObject<D: Device> {
    /// A buffer.
    Buffer(RawBuffer<D>),
    /// A texture.
    Texture(RawTexture<D>),
}

impl<D: Device> RawObject<D> {
    /// Informs the device that the owner has released the object.
    pub fn note_retired(&self, device: &D) {
        match self {
            Self::Buffer(buffer) => Create::<Buffers>::note_retired(device, buffer),
            Self::Texture(texture) => Create::<Textures>::note_retired(device, texture),
        }
    }

    /// # Safety
    /// As [`Create::destroy`].
    pub unsafe fn destroy(self, device: &D) {
        // SAFETY: the caller promises what `Create::destroy` requires.
        unsafe {
            match self {
                Self::Buffer(buffer) => Create::<Buffers>::destroy(device, buffer),
                Self::Texture(texture) => Create::<Textures>::destroy(device, texture),
            }
        }
    }
}
