//! Memory that is shared with other processes and other APIs: the trait that a device implements for it.
//!
//! ```text
//!   one process                                            another
//!   allocate_memory(MemoryDesc { share }) ─▶ Memory
//!   export_memory ─▶ Handle ─────────── socket ──────────▶ import_memory ─▶ Memory: the same bytes
//! ```
//!
//! Both processes create resources in such memory with [`Create::prepare_shared`].

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

/// A device whose memory can be shared. See the [module](self).
///
/// # Safety
/// The rules of [`Driver`]. Handles belong to the caller, and are closed when they are dropped.
pub unsafe trait Share: Device {
    /// A handle to memory, closed when it is dropped.
    type Handle: fmt::Debug + Send + Sync + 'static;

    /// Returns an identifier of the device and its driver. A handle that only the same driver understands can be
    /// imported if both sides have equal identifiers.
    fn share_identity(&self) -> [u8; 32];

    /// Exports a handle to a memory object. The memory lives as long as a handle or an object imported from one exists.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device lacks the kind of handle. Out of memory, too many handles.
    ///
    /// # Safety
    /// The memory belongs to this device and is alive, and was allocated with [`MemoryDesc::share`] of this kind.
    unsafe fn export_memory(&self, memory: &Self::Memory, kind: ShareKind) -> Result<Self::Handle, DeviceError>;

    /// Returns the memory types that the handle can be imported as, one bit each. By default, that is `memory_type`,
    /// the type of the exported memory, as handles that only the same driver understands require. For a kind that other
    /// devices understand ([`ShareKind::DmaBuf`]), the index may differ, and the device queries the driver.
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
    /// [`DeviceError::Unsupported`]; [`DeviceError::InvalidInfo`] if the driver detects that the handle is of another
    /// kind or device; out of memory; device lost.
    ///
    /// # Safety
    /// - The handle has the kind in `desc.share`.
    /// - `desc` has the size of the exported memory, and its memory type or one of [`Share::import_types`]. Other types
    ///   are refused for [`ShareKind::DmaBuf`].
    /// - `tied` belongs to this device, is unplaced, and has the same description as the resource that the exported
    ///   memory is tied to, if there is one.
    unsafe fn import_memory(
        &self,
        handle: Self::Handle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError>;
}
