//! Shared memory on the simulated device. It is shared between allocators that stand for processes.
//!
//! ```text
//!   memory 7 ◀── owners: 7 itself, handles, imports ──▶ the bytes are freed with the last of them
//!      ▲
//!   imports { 12 → 7 }     placements, flushes and reads of 12 use 7
//! ```

use super::device::Device;
use super::ids::Memory;
use super::state::State;
use ringfence_hal::sharing::{Share, ShareKind, ShareSupport, Tied};
use ringfence_hal::{DeviceError, MemoryDesc, Numbers};

/// A handle to the memory of a simulated device. The bytes exist at least until the handle is dropped.
#[derive(Debug)]
pub struct SharedHandle {
    device: Device,
    memory: u64,
}

impl Drop for SharedHandle {
    fn drop(&mut self) {
        self.device.with(|state| state.free(self.memory));
    }
}

impl Device {
    /// Returns the support of shared memory: only handles of the kind [`ShareKind::Simulated`] are supported.
    pub(super) fn share_support_of(&self, kind: ShareKind) -> ShareSupport {
        let known = kind == ShareKind::Simulated;
        ShareSupport { can_export: known && self.profile().can_export, can_import: known, needs_dedicated: false }
    }
}

pub(super) fn check(kind: ShareKind) -> Result<(), DeviceError> {
    let known = kind == ShareKind::Simulated;
    if known { Ok(()) } else { Err(DeviceError::unsupported("handles of this kind on the simulated device")) }
}

// SAFETY: the bytes of a memory object exist as long as it has an owner. Each handle and each import is an owner.
unsafe impl Share for Device {
    type Handle = SharedHandle;

    fn share_identity(&self) -> [u8; 32] {
        let mut identity = [0; 32];
        let address = std::sync::Arc::as_ptr(&self.shared) as usize;
        identity[..8].copy_from_slice(&(address as u64).to_le_bytes());
        identity
    }

    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<SharedHandle, DeviceError> {
        check(kind)?;
        if !self.profile().can_export {
            return Err(DeviceError::unsupported("exports of this kind on the simulated device"));
        }
        let memory = self.with(|state| state.export(memory.0))?;
        Ok(SharedHandle { device: self.clone(), memory })
    }

    unsafe fn import_memory(
        &self,
        handle: SharedHandle,
        desc: &MemoryDesc<'_>,
        _: Tied<'_, Self>,
    ) -> Result<Memory, DeviceError> {
        check(desc.share.ok_or(DeviceError::invalid("the kind of handle is missing"))?)?;
        if !std::sync::Arc::ptr_eq(&self.shared, &handle.device.shared) {
            return Err(DeviceError::invalid("a handle of another device"));
        }
        self.with(|state| state.import(handle.memory, desc)).map(Memory)
    }
}

impl State {
    fn export(&mut self, id: u64) -> Result<u64, DeviceError> {
        self.check_alive()?;
        let root = self.root(id);
        let object = self.memories.get_mut(&root).filter(|object| object.is_shareable);
        object.ok_or(DeviceError::invalid("memory that was allocated without MemoryDesc::share"))?.owners += 1;
        Ok(root)
    }

    fn import(&mut self, root: u64, desc: &MemoryDesc<'_>) -> Result<u64, DeviceError> {
        self.check_alive()?;
        self.counts.allocate_memory += 1;
        let none = DeviceError::invalid("no such memory").with(Numbers::Given(root));
        let object = self.memories.get_mut(&root).ok_or(none)?;
        DeviceError::invalid("the size differs from that of the exported memory").exactly(desc.size, object.size)?;
        DeviceError::invalid("the memory type differs from that of the exported memory")
            .exactly(desc.memory_type.into(), object.memory_type.into())?;
        object.owners += 1;
        let id = self.draw_id();
        self.imports.insert(id, root);
        Ok(id)
    }
}
