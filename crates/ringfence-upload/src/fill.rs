//! Copies into a ring's buffer. A thread is marked while it copies, so that it does not wait for itself.

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::segment::Segment;
use super::{Frames, Staged, StagedRange};
use crate::device::{Device, DeviceError};
use ringfence_memory::memory::Location;
use ringfence_memory::{AccessError, Error};

/// Fills a range of a ring's buffer and makes it visible to the device.
///
/// # Safety
/// The host must not access these bytes in another way at the same time.
pub(super) unsafe fn fill<D: Device>(
    segment: &Segment<D>,
    offset: u64,
    size: u64,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]),
) -> Result<(), DeviceError> {
    let _filling = Filling::begin();
    let fill = |to: *mut u8| {
        // SAFETY: `write_shared` passes a pointer to `size` mapped bytes, and the caller keeps other accesses away.
        fill(unsafe { std::slice::from_raw_parts_mut(to.cast(), size as usize) });
    };
    // SAFETY: the caller promises the same.
    match unsafe { segment.buffer.write_shared(offset, size, fill) } {
        Ok(()) => Ok(()),
        Err(AccessError::Device(error)) => Err(error),
        Err(_) => unreachable!("all of a ring is mapped"),
    }
}

/// Returns an error for a location that the host does not write. Called when a ring is created, so that the first write
/// does not fail for this reason.
pub(super) fn check_location(location: Location) -> Result<(), Error> {
    match location {
        Location::Upload | Location::DeviceUpload => Ok(()),
        Location::Device | Location::Readback => Err(Error::NotHostWritten { location }),
    }
}

thread_local! {
    /// Number of copies into rings in progress on this thread.
    static FILLING: Cell<u32> = const { Cell::new(0) };
}

/// Marks a copy in progress. The copy may call the program's code, which may write to the same ring.
pub(super) struct Filling;

impl Filling {
    pub(super) fn begin() -> Self {
        FILLING.set(FILLING.get() + 1);
        Self
    }

    /// Returns `true` while this thread copies into a ring. The thread must then not wait for the end of a copy,
    /// because the copy may be its own.
    pub(super) fn is_under_way() -> bool {
        FILLING.get() > 0
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        FILLING.set(FILLING.get() - 1);
    }
}

/// Copies bytes between two slices of equal length.
pub(super) fn copy(bytes: &[u8], to: &mut [MaybeUninit<u8>]) {
    debug_assert_eq!(bytes.len(), to.len());
    // SAFETY: both slices have at least the copied number of bytes, and they do not overlap since `to` is exclusive.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_mut_ptr().cast(), bytes.len().min(to.len())) }
}

pub(super) fn staged<D: Device>(segment: &Segment<D>, offset: u64, size: u64, frames: Frames) -> Staged<D> {
    let address = segment.address.map(|base| base + offset);
    let (desc, owner, place_hash) = (segment.desc, segment.buffer.shared().owner(), segment.place_hash);
    let range = StagedRange { buffer: segment.buffer.object().clone(), offset, size, address };
    Staged { range, desc, owner, frames, place_hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_in_memory_that_the_host_writes() {
        for (location, is_written) in [
            (Location::Upload, true),
            (Location::DeviceUpload, true),
            (Location::Device, false),
            (Location::Readback, false),
        ] {
            let refused = Err(Error::NotHostWritten { location });
            assert_eq!(check_location(location), if is_written { Ok(()) } else { refused });
        }
    }

    #[test]
    fn a_thread_is_filling_until_its_last_copy_ends() {
        assert!(!Filling::is_under_way());
        let first = Filling::begin();
        let second = Filling::begin();
        assert!(Filling::is_under_way());
        drop(first);
        assert!(Filling::is_under_way(), "the second copy is in progress");
        assert!(!std::thread::spawn(Filling::is_under_way).join().expect("no panic"), "on this thread only");
        drop(second);
        assert!(!Filling::is_under_way());
    }
}
