//! Memory objects as debugging sees them.

use std::ops::Range;

use super::memory_object::Memory;
use crate::device::{Device, DeviceError, Mapped};
use crate::observe::debugging::Watched;

impl<D: Device> Watched for Memory<D> {
    type Context = D;

    fn memory_type(&self) -> u32 {
        self.memory_type
    }

    fn mapped(&self) -> Option<Mapped> {
        self.mapped
    }

    fn guards(&self) -> Option<Mapped> {
        self.guards
    }

    fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    fn flush(&self, device: &D, bytes: Range<u64>) -> Result<(), DeviceError> {
        self.flush(device, bytes.start, bytes.end)
    }

    unsafe fn read_device_side(&self, device: &D, first: u64, at: Mapped, into: &mut [u8]) -> bool {
        // SAFETY: this device's memory, mapped at `at` for its byte `first`, as the caller promises; the range is inside.
        device.capabilities().needs_flush(self.memory_type)
            && unsafe { device.read_back(&self.object, first, at, into) }.is_ok()
    }
}
