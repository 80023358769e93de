//! A handle to the memory of a shared resource, and the description that another process needs to import it.

use ringfence_decision::Error;

use super::{Resource, ResourceKind};
use crate::device::sharing::{Share, ShareKind};
use crate::device::{Create, DeviceError};

/// The description of a handle for another process. Plain data, to be sent with the handle
/// ([`SharedMemory::to_bytes`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedMemory {
    /// Kind of the handle.
    pub kind: ShareKind,
    /// The device and driver that created the handle.
    pub identity: [u8; 32],
    /// Size of the memory object, in bytes.
    pub memory_bytes: u64,
    /// The memory type, an index.
    pub memory_type: u32,
    /// `true` if the memory object was created for the exported resource, so that it accepts no other one.
    pub is_tied: bool,
    /// Offset of the resource's first byte in the memory object.
    pub offset: u64,
    /// Size of the resource's memory, in bytes.
    pub size: u64,
}

impl SharedMemory {
    /// Length of the encoded description, in bytes.
    pub const BYTES: usize = 62;

    /// Encodes the description with integers in little-endian order: `kind`, `is_tied`, `memory_type`, `memory_bytes`,
    /// `offset`, `size`, `identity`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.kind.number(), u8::from(self.is_tied));
        bytes[2..6].copy_from_slice(&self.memory_type.to_le_bytes());
        bytes[6..14].copy_from_slice(&self.memory_bytes.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.offset.to_le_bytes());
        bytes[22..30].copy_from_slice(&self.size.to_le_bytes());
        bytes[30..].copy_from_slice(&self.identity);
        bytes
    }

    /// Decodes a description. Returns `None` if the bytes contain an invalid `kind` or `is_tied`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            kind: ShareKind::from_number(bytes[0])?,
            identity: bytes[30..].try_into().ok()?,
            memory_bytes: long(6)?,
            memory_type: u32::from_le_bytes(bytes[2..6].try_into().ok()?),
            is_tied: match bytes[1] {
                0 => false,
                1 => true,
                _ => return None,
            },
            offset: long(14)?,
            size: long(22)?,
        })
    }
}

/// The reason why memory was not shared. Nothing has changed, except that a handle that was to be imported is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The memory was not created as shared ([`AllocationDesc::share`](crate::AllocationDesc::share)).
    #[error("the memory is not shared: set `AllocationDesc::share`, or allocate in a pool with `PoolDesc::share`")]
    NotShared,
    /// Another device or driver created the handle. Only the device and driver that created a handle of this kind can
    /// import it.
    #[error("the {kind:?} handle was created by another device or driver")]
    OtherDevice {
        /// Kind of the handle.
        kind: ShareKind,
    },
    /// The resource does not fit into the memory at the described offset.
    #[error(
        "{size} bytes aligned to {alignment} do not fit at offset {offset} of shared memory of {memory_bytes} bytes"
    )]
    DoesNotFit {
        /// Offset in the description, in bytes.
        offset: u64,
        /// Size of the resource, in bytes.
        size: u64,
        /// Alignment of the resource, in bytes.
        alignment: u64,
        /// Size of the memory, in bytes.
        memory_bytes: u64,
    },
    /// The resource is larger than the exported one. The bytes after the exported resource may belong to other
    /// resources.
    #[error("the description needs {size} bytes, but only {exported_bytes} bytes were exported")]
    Larger {
        /// Size of the described resource, in bytes.
        size: u64,
        /// Size of the exported resource, in bytes ([`SharedMemory::size`]).
        exported_bytes: u64,
    },
    /// The memory is tied to one resource: no other resource can be placed in it.
    #[error("the memory is tied to one resource: import that resource")]
    Tied,
    /// The resource could not be created.
    #[error(transparent)]
    Make(#[from] Error),
    /// The driver failed, or does not support such sharing.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

pub(super) fn export<D: Share + Create<K>, K: ResourceKind>(
    resource: &Resource<D, K>,
) -> Result<(D::Handle, SharedMemory), ShareError> {
    let (device, memory) = (&resource.shared().device, resource.held_memory());
    let kind = memory.share.filter(|_| !memory.is_imported).ok_or(ShareError::NotShared)?;
    // SAFETY: the memory belongs to this device, lives as long as the resource, and was created for this kind.
    let handle = unsafe { device.export_memory(&memory.object, kind) }?;
    let shared_memory = SharedMemory {
        kind,
        identity: device.share_identity(),
        memory_bytes: memory.size,
        memory_type: memory.memory_type,
        is_tied: resource.place().is_tied(),
        offset: resource.offset(),
        size: resource.memory_bytes(),
    };
    Ok((handle, shared_memory))
}

#[cfg(test)]
mod tests;
