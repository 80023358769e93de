//! A handle to the memory of what was made to be shared.

use super::{Share, ShareError, SharedMemory};
use crate::device::Create;
use crate::resource::{Resource, ResourceKind};

impl<D: Share + Create<K>, K: ResourceKind> Resource<D, K> {
    /// Makes a handle to the memory that the resource lies in, and says what an importer has to know. The handle
    /// keeps the bytes alive, and closes when it is dropped. Any number can be made. One driver call.
    ///
    /// # Errors
    /// [`ShareError::NotShared`], also of what was imported itself; or the driver has no handle to give.
    pub fn export(&self) -> Result<(D::Handle, SharedMemory), ShareError> {
        let (shared, memory) = (self.shared(), self.held_memory());
        let kind = memory.share.filter(|_| !memory.is_imported).ok_or(ShareError::NotShared)?;
        // SAFETY: the memory is this device's, alive as long as the resource, and was made for this kind.
        let handle = unsafe { shared.device.export_memory(&memory.object, kind) }?;
        let shared_memory = SharedMemory {
            kind,
            identity: shared.device.share_identity(),
            memory_bytes: memory.size,
            memory_type: memory.memory_type,
            is_tied: self.is_tied(),
            offset: self.offset(),
            size: self.size(),
        };
        Ok((handle, shared_memory))
    }
}
