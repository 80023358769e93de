//! What debugging asks of a memory object. The allocator implements it.

use std::ops::Range;

use crate::device::{DeviceError, Mapped};

/// A memory object in which ranges are watched.
pub(crate) trait Watched {
    /// Through what its bytes are flushed and read.
    type Context;

    fn memory_type(&self) -> u32;

    /// Where the host sees its first byte, where the API maps memory objects.
    fn mapped(&self) -> Option<Mapped>;

    /// Where debugging sees its first byte: through the mapping, or through a buffer over all of it.
    fn guards(&self) -> Option<Mapped>;

    /// Whether other processes or APIs see it too.
    fn is_shared(&self) -> bool;

    /// Has the device see what the host wrote to these bytes, up to whole atoms.
    ///
    /// # Errors
    /// The flush failed.
    fn flush(&self, context: &Self::Context, bytes: Range<u64>) -> Result<(), DeviceError>;

    /// Reads bytes as the device sees them, beginning at `first`, which the host sees at `at`. `false` where that is
    /// what the host sees, or where it cannot be read.
    ///
    /// # Safety
    /// The memory is alive and mapped; `at` is its byte `first`, and the bytes lie inside it.
    unsafe fn read_device_side(&self, context: &Self::Context, first: u64, at: Mapped, into: &mut [u8]) -> bool;
}
