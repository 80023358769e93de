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

    /// Makes a memory object over the bytes that a handle names, mapped as [`Driver::allocate_memory`] does. The handle
    /// is used up, or closed where this fails.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`], [`DeviceError::InvalidInfo`] where the driver sees that the handle is another's;
    /// out of memory, map failed, device lost.
    ///
    /// # Safety
    /// The handle is of the kind in `desc.share`, and `desc` says the size and the memory type that its memory was made
    /// with ([`ShareKind::DmaBuf`]: a memory type that the driver takes for it; others are refused). `tied` is this
    /// device's, unplaced, and as the resource that the memory was tied to, if it was.
    unsafe fn import_memory(
        &self,
        handle: Self::Handle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError>;
}
