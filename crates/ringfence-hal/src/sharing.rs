//! Memory that other processes and other APIs see too: what is asked of a device for it.
//!
//! ```text
//!   one process                                            another
//!   allocate_memory(MemoryDesc { share }) ─▶ Memory
//!   export_memory ─▶ Handle ─────────── socket ──────────▶ import_memory ─▶ Memory: the same bytes
//! ```
//!
//! A resource that is to lie in such memory is made by [`Create::prepare_shared`], on both sides.

use std::fmt;

use super::{Create, Device, DeviceError, Driver, MemoryDesc};

/// What a handle to memory is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ShareKind {
    /// A file descriptor that only the same driver on the same device understands (`OPAQUE_FD`).
    OpaqueFd,
    /// A file descriptor of a Linux dma-buf, which other drivers and APIs understand (`DMA_BUF_EXT`).
    DmaBuf,
    /// A Windows handle that only the same driver on the same device understands (`OPAQUE_WIN32`).
    OpaqueWin32,
    /// A Windows handle to a heap of Direct3D 12.
    D3d12Heap,
    /// A handle of the simulated device.
    Simulated,
}

impl ShareKind {
    const ALL: [Self; 5] = [Self::OpaqueFd, Self::DmaBuf, Self::OpaqueWin32, Self::D3d12Heap, Self::Simulated];

    /// As a number, to be sent to another process.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind of that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What a device can do with shared memory for a resource.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShareSupport {
    /// Whether a handle can be made of its memory.
    pub can_export: bool,
    /// Whether its memory can be made from a handle.
    pub can_import: bool,
    /// Whether that takes memory that is tied to the resource: no blocks then.
    pub needs_dedicated: bool,
}

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

    /// Makes a memory object over the bytes that a handle names, mapped as [`Driver::allocate_memory`] does. The handle is used
    /// up, or closed where this fails.
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
