//! The functions of a memory object that debugging needs. The allocator implements them.

use std::ops::Range;

use crate::device::{DeviceError, Mapped};

/// A memory object in which ranges are watched.
///
/// # Safety
/// The addresses are those of the object's own memory, and are valid as long as the object is alive.
pub unsafe trait Watched {
    /// Access to the device, to flush and read the bytes.
    type Context;

    /// Returns the memory type.
    fn memory_type(&self) -> u32;

    /// Returns the mapped address of the first byte. Returns `None` if the object is not mapped as a whole.
    fn mapped(&self) -> Option<Mapped>;

    /// Returns the address at which debugging accesses the first byte: in the mapping, or in a buffer over the whole
    /// object. Returns `None` if the host cannot access the object.
    fn guards(&self) -> Option<Mapped>;

    /// Returns `true` if other processes or APIs can also access the object.
    fn is_shared(&self) -> bool;

    /// Makes host writes to these bytes visible to the device, up to whole atoms.
    ///
    /// # Errors
    /// The flush failed.
    ///
    /// # Safety
    /// The memory is alive and belongs to `context`; the bytes are inside it.
    unsafe fn flush(&self, context: &Self::Context, bytes: Range<u64>) -> Result<(), DeviceError>;

    /// Reads the device's view of the bytes that begin at byte `first`, which the host sees at the address `at`.
    /// Returns `false` if the host's view is the same, or if the device's view cannot be read.
    ///
    /// # Safety
    /// The memory is alive and mapped, and belongs to `context`; `at` is the address of byte `first`, and the bytes are
    /// inside the memory.
    unsafe fn read_device_side(&self, context: &Self::Context, first: u64, at: Mapped, into: &mut [u8]) -> bool;
}
