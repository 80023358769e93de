//! A handle to the memory of what was made to be shared, and what another process has to know of it.

use super::{Resource, ResourceKind};
use crate::device::sharing::{Share, ShareKind};
use crate::device::{Create, DeviceError};
use crate::error::Error;

/// What another process has to know of a handle. Plain data, to be sent along ([`SharedMemory::to_bytes`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedMemory {
    /// What the handle is.
    pub kind: ShareKind,
    /// The device and driver that made it.
    pub identity: [u8; 32],
    /// Bytes of the memory object.
    pub memory_bytes: u64,
    /// The memory type, an index.
    pub memory_type: u32,
    /// Whether the memory object is tied to the one resource.
    pub is_tied: bool,
    /// The resource's first byte in the memory object.
    pub offset: u64,
    /// The bytes that its memory needs.
    pub size: u64,
}

impl SharedMemory {
    /// How long it is as bytes.
    pub const BYTES: usize = 62;

    /// As bytes, integers with the lowest byte first: kind, is tied, memory type, memory bytes, offset, size, identity.
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

    /// From bytes; `None` if they are none of [`SharedMemory::to_bytes`].
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

/// Why memory was not shared. Nothing has changed; a handle that was to be imported is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// It was not made to be shared ([`AllocationDesc::share`](crate::AllocationDesc::share)).
    #[error("the memory was not made to be shared: say so when it is allocated, or allocate in a pool that shares")]
    NotShared,
    /// The handle is of another device or driver, and of a kind that only the same one understands.
    #[error("the {kind:?} handle was made by another device or driver")]
    OtherDevice {
        /// What the handle is.
        kind: ShareKind,
    },
    /// The resource does not lie in the memory as the exporter said.
    #[error("{size} bytes aligned to {alignment} do not lie at {offset} of shared memory of {memory_bytes} bytes")]
    DoesNotFit {
        /// Where it was said to lie.
        offset: u64,
        /// Bytes that it needs.
        size: u64,
        /// The alignment that it needs, in bytes.
        alignment: u64,
        /// Bytes of the memory.
        memory_bytes: u64,
    },
    /// The resource is larger than what was exported: beyond it lie other resources of its block.
    #[error("a resource of {size} bytes was described, and {exported_bytes} bytes were exported")]
    Larger {
        /// Bytes that it needs as described.
        size: u64,
        /// Bytes of the exported one ([`SharedMemory::size`]).
        exported_bytes: u64,
    },
    /// The memory is tied to one resource, so that nothing else can be placed there.
    #[error("the memory is tied to one resource: import it as that")]
    Tied,
    /// The resource could not be made.
    #[error(transparent)]
    Make(#[from] Error),
    /// The driver failed, or does not share.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

pub(super) fn export<D: Share + Create<K>, K: ResourceKind>(
    resource: &Resource<D, K>,
) -> Result<(D::Handle, SharedMemory), ShareError> {
    let (device, memory) = (&resource.shared().device, resource.held_memory());
    let kind = memory.share.filter(|_| !memory.is_imported).ok_or(ShareError::NotShared)?;
    // SAFETY: the memory is this device's, alive as long as the resource, and was made for this kind.
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
