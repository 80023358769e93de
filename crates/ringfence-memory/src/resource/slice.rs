//! A range of a driver's buffer, from which views are created.
//!
//! ```text
//!   driver's buffer   ├──────────┤ slice ├────────────────────────┤
//!                     0          offset  offset + size            desc.size
//! ```

use super::{Buffer, SmallBuffer};
use crate::device::{BufferDesc, Device, RawBuffer};
use crate::memory::Shared;

/// A range of a driver's buffer. See [`AsBufferSlice`].
pub struct BufferSlice<'a, D: Device> {
    /// The driver's buffer.
    pub object: &'a RawBuffer<D>,
    /// Description of the driver's buffer. `None` if the buffer was created from a native description that the portable
    /// one cannot express.
    pub desc: Option<BufferDesc>,
    /// Offset of the range in the driver's buffer, in bytes.
    pub offset: u64,
    /// Size of the range, in bytes.
    pub size: u64,
    /// Number of the allocator that the buffer belongs to ([`Shared::owner`]).
    pub owner: u32,
    /// The allocator's state, if the value that this slice comes from has a reference to it. If it is `None`, the
    /// limits of the device are checked when the view is written.
    pub shared: Option<&'a Shared<D>>,
}

/// A value that stands for a range of a driver's buffer: a whole [`Buffer`], a [`SmallBuffer`], or a range of a buffer
/// that a library shares between its users.
///
/// # Safety
/// The allocator `owner` has created the driver's buffer with `desc`. The buffer contains the range, and lives as long
/// as the value.
pub unsafe trait AsBufferSlice<D: Device> {
    /// Returns the range. O(1).
    fn as_slice(&self) -> BufferSlice<'_, D>;
}

// SAFETY: the range is the whole buffer.
unsafe impl<D: Device> AsBufferSlice<D> for Buffer<D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        let (desc, shared) = (self.desc().copied(), self.shared());
        let (owner, shared) = (shared.owner(), Some(&**shared));
        BufferSlice { object: self.object(), desc, offset: 0, size: self.size(), owner, shared }
    }
}

// SAFETY: the range belongs to this value, and keeps the shared buffer alive.
unsafe impl<D: Device> AsBufferSlice<D> for SmallBuffer<D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        let desc = Some(self.shared_desc());
        let (owner, shared) = (self.shared.owner(), Some(&**self.shared));
        BufferSlice { object: self.object(), desc, offset: self.offset(), size: self.size(), owner, shared }
    }
}
