//! Bytes on their way into a ring's buffer: the copy, and what a thread must not do meanwhile.

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::segment::Segment;
use super::{Frames, Staged};
use crate::device::{Device, DeviceError};
use ringfence_memory::memory::Location;
use ringfence_memory::{AccessError, Error};

/// Fills bytes of a ring's buffer and makes them visible to the device.
///
/// # Safety
/// No other host access to these bytes happens at the same time.
pub(super) unsafe fn fill<D: Device>(
    segment: &Segment<D>,
    offset: u64,
    size: u64,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]),
) -> Result<(), DeviceError> {
    let _filling = Filling::begin();
    let fill = |to: *mut u8| {
        // SAFETY: `write_shared` gives a pointer to `size` mapped bytes, which the caller keeps others from.
        fill(unsafe { std::slice::from_raw_parts_mut(to.cast(), size as usize) });
    };
    // SAFETY: the caller promises the same.
    match unsafe { segment.buffer.write_shared(offset, size, fill) } {
        Ok(()) => Ok(()),
        Err(AccessError::Device(error)) => Err(error),
        Err(_) => unreachable!("a ring is mapped as a whole"),
    }
}

/// Refuses a location that the host does not write: at the beginning, rather than with the first write.
pub(super) fn check_location(location: Location) -> Result<(), Error> {
    match location {
        Location::Upload | Location::DeviceUpload => Ok(()),
        Location::Device | Location::Readback => Err(Error::NotHostWritten { location }),
    }
}

thread_local! {
    /// How many copies into rings are under way on this thread.
    static FILLING: Cell<u32> = const { Cell::new(0) };
}

/// A copy that is under way: the program's code may run, and write to the same ring.
pub(super) struct Filling;

impl Filling {
    pub(super) fn begin() -> Self {
        FILLING.set(FILLING.get() + 1);
        Self
    }

    /// Whether this thread is in the middle of a copy: then it must not wait until its end.
    pub(super) fn is_under_way() -> bool {
        FILLING.get() > 0
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        FILLING.set(FILLING.get() - 1);
    }
}

/// Copies bytes; both are of one length.
pub(super) fn copy(bytes: &[u8], to: &mut [MaybeUninit<u8>]) {
    debug_assert_eq!(bytes.len(), to.len());
    // SAFETY: both slices have at least as many bytes as are copied, and `to` is exclusive, so that they lie apart.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_mut_ptr().cast(), bytes.len().min(to.len())) }
}

pub(super) fn staged<D: Device>(segment: &Segment<D>, offset: u64, size: u64, frames: Frames) -> Staged<D> {
    let address = segment.address.map(|base| base + offset);
    let (owner, place_hash) = (segment.buffer.shared().owner(), segment.place_hash);
    Staged { buffer: segment.buffer.object().clone(), offset, size, address, owner, frames, place_hash }
}
