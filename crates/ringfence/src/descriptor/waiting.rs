//! Things of a descriptor heap that wait for points.

use ringfence_core::range::Invalid;
use ringfence_core::sync::SyncSet;
use ringfence_memory::extend::{Passed, Shared};
use ringfence_memory::lifetime::RetireBin;

use crate::device::Device;

/// Things that wait for points, put in by any number of threads.
pub(super) struct Waiting<T> {
    bin: RetireBin<T>,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        Self { bin: RetireBin::new() }
    }

    /// Keeps it until every submission that has begun is complete.
    pub(super) fn until_now<D: Device>(&self, shared: &Shared<D>, item: T) {
        shared.retire_into(&self.bin, item);
    }

    /// Keeps it until these points have passed.
    pub(super) fn until(&self, points: &SyncSet, item: T) {
        self.bin.retire(points, item);
    }

    /// Hands out what need not wait any more. No thread that adds something waits meanwhile.
    pub(super) fn release(&self, passed: &Passed, device_lost: bool, each: impl FnMut(T)) {
        if self.bin.is_empty() {
            return;
        }
        if device_lost {
            self.drain().into_iter().for_each(each);
        } else {
            self.bin.release(passed, usize::MAX, each);
        }
    }

    /// Everything, whether it has waited or not.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut all = Vec::new();
        self.bin.collect_all(&mut all);
        all
    }

    pub(super) fn len(&self) -> usize {
        self.bin.len()
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.bin.validate()
    }
}
