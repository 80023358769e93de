//! Memory objects as debugging sees them.

use std::ops::Range;

use super::place::Memory;
use super::shared::Shared;
use crate::device::{Device, DeviceError, Mapped};
use crate::observe::debugging::Watched;

impl<D: Device> Watched for Memory<D> {
    type Context = Shared<D>;

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

    fn flush(&self, shared: &Shared<D>, bytes: Range<u64>) -> Result<(), DeviceError> {
        shared.flush_range(self, bytes.start, bytes.end)
    }

    unsafe fn read_device_side(&self, shared: &Shared<D>, first: u64, at: Mapped, into: &mut [u8]) -> bool {
        // SAFETY: this device's memory, mapped at `at` for its byte `first`, as the caller promises; the range is inside.
        shared.device.capabilities().needs_flush(self.memory_type)
            && unsafe { shared.device.read_back(&self.object, first, at, into) }.is_ok()
    }
}
