//! Memory that is shared with other processes and other APIs: the traits that a device implements for it.
//!
//! ```text
//!   one process                                            another
//!   allocate_memory(MemoryDesc { share }) ─▶ Memory
//!   export_memory ─▶ Handle ─────────── socket ──────────▶ import_memory ─▶ Memory: the same bytes
//! ```
//!
//! A resource that is to lie in such memory is made by [`Create::prepare_shared`], on both sides.

use std::fmt;

use super::device::{Create, Device, Driver};
use super::error::DeviceError;
use super::memory::MemoryDesc;

pub use super::memory::{ShareKind, ShareSupport};

/// The resource that a memory object is made for, if it is tied to one.
pub enum Tied<'a, D: Device> {
    /// To none.
    Nothing,
    /// To this buffer.
    Buffer(&'a <D as Create<super::Buffers>>::Unplaced),
    /// To this texture.
    Texture(&'a <D as Create<super::Textures>>::Unplaced),
}

/// A device whose memory can be shared. See the [module](self).
///
/// # Safety
/// As for [`Driver`]; and handles are the driver's own, closed when they are dropped.
pub unsafe trait Share: Device {
    /// A handle to memory, closed when it is dropped.
    type Handle: fmt::Debug + Send + Sync + 'static;

    /// Which device and driver this is: handles that only the same driver understands are of use where this is equal.
    fn share_identity(&self) -> [u8; 32];

    /// Makes a handle to a memory object, which lives on as long as there is a handle or a memory object made from one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for a kind that the device has not; out of memory, too many handles.
    ///
    /// # Safety
    /// The memory is this device's and alive, and was made with [`MemoryDesc::share`] of this kind.
    unsafe fn export_memory(&self, memory: &Self::Memory, kind: ShareKind) -> Result<Self::Handle, DeviceError>;

    /// The memory types that the device takes a handle for, a bit each: by default that which its memory was made with,
    /// as handles that only the same driver understands demand. For a kind that any device understands
    /// ([`ShareKind::DmaBuf`]) that is the index of another, maybe, and the driver says which.
    ///
    /// # Errors
    /// The driver does not know the handle.
    fn import_types(&self, handle: &Self::Handle, kind: ShareKind, memory_type: u32) -> Result<u32, DeviceError> {
        let _ = (handle, kind);
        Ok(1_u32.checked_shl(memory_type).unwrap_or(0))
    }

    /// Makes a memory object over the bytes that a handle names, mapped as [`Driver::allocate_memory`] does, or not at
    /// all where the driver cannot map it. The handle is used up, or closed where this fails.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`], [`DeviceError::InvalidInfo`] where the driver sees that the handle is another's;
    /// out of memory, device lost.
    ///
    /// # Safety
    /// The handle is of the kind in `desc.share`, and `desc` says the size and the memory type that its memory was made
    /// with, or one of [`Share::import_types`] (others are refused for [`ShareKind::DmaBuf`]). `tied` is this
    /// device's, unplaced, and as the resource that the memory was tied to, if it was.
    unsafe fn import_memory(
        &self,
        handle: Self::Handle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError>;
}
