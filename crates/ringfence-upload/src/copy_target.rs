//! Buffers, and ranges of buffers, that copies read and write.

use super::segment::place_hash;
use crate::device::Device;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::AsBufferSlice;
use ringfence_memory::{Buffer, SmallBuffer};

/// A buffer or a range of a buffer: a [`Buffer`], a [`SmallBuffer`], a buffer of the placement policy, or a part of a
/// mesh. It is the destination of [`UploadBatch::copy`](super::UploadBatch::copy), and the source or destination of the
/// commands of `ringfence-commands`.
///
/// # Safety
/// - [`AsBufferSlice::as_slice`] returns a range of a live driver's buffer and the description of this buffer. The
///   allocator with the number `owner` has created the buffer. `shared` is `Some`. The range belongs to this value.
/// - If the value is dropped, the driver's buffer stays alive until every frame that had begun at the drop is complete.
pub unsafe trait CopyTarget<D: Device>: AsBufferSlice<D> {
    /// Returns the buffer that reports lost content and is not moved before the copies are recorded. Returns `None` for
    /// a range of a buffer that other ranges share; such a buffer is never moved.
    fn resource(&self) -> Option<&Buffer<D>>;

    /// Returns the location of the memory.
    fn location(&self) -> Location;

    /// Returns a hash of the driver's buffer, the same for all ranges of the buffer. Two buffers may have the same
    /// hash. Returns 0 if no hash is known; copies then search the buffers of their batch.
    #[doc(hidden)]
    fn buffer_hash(&self) -> u32 {
        self.resource().map_or(0, place_hash)
    }
}

// SAFETY: the value is a driver's buffer, and its drop retires it.
unsafe impl<D: Device> CopyTarget<D> for Buffer<D> {
    fn resource(&self) -> Option<&Self> {
        Some(self)
    }

    fn location(&self) -> Location {
        Buffer::location(self)
    }
}

// SAFETY: the range belongs to this buffer, and its drop retires it.
unsafe impl<D: Device> CopyTarget<D> for SmallBuffer<D> {
    fn resource(&self) -> Option<&Buffer<D>> {
        None
    }

    fn location(&self) -> Location {
        SmallBuffer::location(self)
    }
}
