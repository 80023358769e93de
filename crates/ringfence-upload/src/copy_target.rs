//! Destinations of a batch's copies of bytes.

use super::segment::place_hash;
use crate::device::Device;
use ringfence_memory::resource::AsBufferSlice;
use ringfence_memory::{Buffer, SmallBuffer};

/// A destination of [`UploadBatch::copy`](super::UploadBatch::copy): a [`Buffer`] or a [`SmallBuffer`].
pub trait CopyTarget<D: Device>: AsBufferSlice<D> + Target<D> {}

impl<D: Device, T: AsBufferSlice<D> + Target<D>> CopyTarget<D> for T {}

/// The part of [`CopyTarget`] that only this crate implements.
pub trait Target<D: Device> {
    /// Returns a hash of the driver's buffer. Two buffers may have the same hash. Never 0.
    fn place_hash(&self) -> u32;

    /// Returns the buffer that reports lost content and is not moved before the copies are recorded; `None` for a small
    /// buffer, which is never moved.
    fn resource(&self) -> Option<&Buffer<D>>;
}

impl<D: Device> Target<D> for Buffer<D> {
    fn place_hash(&self) -> u32 {
        place_hash(self)
    }

    fn resource(&self) -> Option<&Self> {
        Some(self)
    }
}

impl<D: Device> Target<D> for SmallBuffer<D> {
    fn place_hash(&self) -> u32 {
        // The object stays at its address as long as small buffers share it.
        let at = std::ptr::from_ref(self.object()) as u64;
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
    }

    fn resource(&self) -> Option<&Buffer<D>> {
        None
    }
}
