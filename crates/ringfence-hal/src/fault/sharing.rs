//! Shared memory through the fault injector. Calls that export or import memory or query a handle can be made to fail.

use super::{Call, FaultInjector};
use crate::sharing::{Share, ShareKind, Tied};
use crate::{DeviceError, MemoryDesc};

// SAFETY: calls that do not fail are forwarded. Imported and exported memory belongs to the inner device, which upholds
// the trait.
unsafe impl<D: Share> Share for FaultInjector<D> {
    type Handle = D::Handle;

    forward! {
        fn share_identity(&self) -> [u8; 32];
        #[fails(ImportTypes)]
        fn import_types(&self, handle: &D::Handle, kind: ShareKind, memory_type: u32) -> Result<u32, DeviceError>;
        #[fails(ExportMemory)]
        unsafe fn export_memory(&self, memory: &D::Memory, kind: ShareKind) -> Result<D::Handle, DeviceError>;
    }

    unsafe fn import_memory(
        &self,
        handle: D::Handle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<D::Memory, DeviceError> {
        self.pass(Call::ImportMemory, Some(desc))?;
        let tied = match tied {
            Tied::Nothing => Tied::Nothing,
            Tied::Buffer(buffer) => Tied::Buffer(buffer),
            Tied::Texture(texture) => Tied::Texture(texture),
        };
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.import_memory(handle, desc, tied) }
    }
}
