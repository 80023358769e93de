//! Memory that is shared with other processes and other APIs: the trait that a device implements to support it.
//!
//! ```text
//!   one process                                            another
//!   allocate_memory(MemoryDesc { share }) ─▶ Memory
//!   export_memory ─▶ Handle ─────────── socket ──────────▶ import_memory ─▶ Memory: the same bytes
//! ```
//!
//! Both processes create the resources in shared memory with [`Create::prepare_shared`].

use std::fmt;

use super::device::{Create, Device, Driver};
use super::error::DeviceError;
use super::memory::MemoryDesc;

pub use super::memory::{ShareKind, ShareSupport};

/// The resource that a dedicated memory object is tied to, if there is one.
pub enum Tied<'a, D: Device> {
    /// No resource.
    Nothing,
    /// A buffer.
    Buffer(&'a <D as Create<super::Buffers>>::Unplaced),
    /// A texture.
    Texture(&'a <D as Create<super::Textures>>::Unplaced),
}

/// A device that can share memory with other processes: it exports memory to handles, and imports memory from handles.
///
/// # Safety
/// The rules of [`Driver`]. A returned handle belongs to the caller, and is closed when it is dropped.
pub unsafe trait Share: Device {
    /// A handle to memory, closed when it is dropped.
    type Handle: fmt::Debug + Send + Sync + 'static;

    /// Returns an identifier of the device and its driver. If a kind of handle is understood only by the same driver, a
    /// handle can be imported only if both processes have equal identifiers.
    fn share_identity(&self) -> [u8; 32];

    /// Exports a handle to a memory object. The memory exists until the memory object, all handles to it, and all
    /// memory objects imported from these handles are freed.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device does not support the kind of handle. Out of memory, too many handles.
    ///
    /// # Safety
    /// The memory belongs to this device and is alive, and was allocated with [`MemoryDesc::share`] of this kind.
    unsafe fn export_memory(&self, memory: &Self::Memory, kind: ShareKind) -> Result<Self::Handle, DeviceError>;

    /// Returns the memory types that the handle can be imported as, one bit each. `memory_type` is the type of the
    /// exported memory. The default returns only this type, which is correct for handles that only the same driver
    /// understands. Other devices may number their memory types differently, so for [`ShareKind::DmaBuf`] the device
    /// must query the driver.
    ///
    /// # Errors
    /// The driver does not recognise the handle.
    fn import_types(&self, handle: &Self::Handle, kind: ShareKind, memory_type: u32) -> Result<u32, DeviceError> {
        let _ = (handle, kind);
        Ok(1_u32.checked_shl(memory_type).unwrap_or(0))
    }

    /// Imports a memory object from a handle. It is mapped as [`Driver::allocate_memory`] maps it, or not mapped if the
    /// driver cannot map it. The call consumes the handle: if it fails, the handle is closed.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]; [`DeviceError::InvalidInfo`] if the driver detects that the handle has another
    /// kind or comes from another device; out of memory; device lost.
    ///
    /// # Safety
    /// - The handle has the kind in `desc.share`.
    /// - `desc` has the size of the exported memory, and its memory type or one of [`Share::import_types`]. For
    ///   [`ShareKind::DmaBuf`], the device refuses other types.
    /// - If the exported memory is tied to a resource, `tied` is an unplaced resource of this device with the same
    ///   description; otherwise, it is [`Tied::Nothing`].
    unsafe fn import_memory(
        &self,
        handle: Self::Handle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError>;
}
