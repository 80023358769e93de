//! Objects of the program's own that wait for the device as resources do.

use std::sync::Arc;

use super::reclaimed::Reclaimed;
use super::shared::Shared;
use crate::device::{Device, DeviceError};
use crate::timeline::{Passed, RetireBin};

/// What waits for an allocator's timelines. Made by [`Allocator::retirement`](crate::Allocator::retirement).
pub struct Retirement<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> Retirement<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// As [`Allocator::reclaim`](crate::Allocator::reclaim), but destroys `objects_max` resources at the most, so that a frame in which very much
    /// is released does not pay for all of it. The rest is left for the next call, in the order in which it was released.
    /// After a device loss everything goes, as nothing is left to be smooth for.
    pub fn reclaim_at_most(&self, objects_max: usize) -> Reclaimed {
        self.shared.reclaim(objects_max)
    }

    /// Puts an object of the program's own into `bin`, to come out once every submission that has begun is complete,
    /// as if it were a resource of this allocator that is dropped. O(1).
    pub fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        self.shared.lifetimes.retire_into(bin, item);
    }

    /// As [`Retirement::retire_into`](crate::memory::Retirement::retire_into) for each of them, with one step that other threads see instead of one an item. `items`
    /// is empty afterwards, and keeps its memory.
    pub fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        self.shared.lifetimes.retire_all_into(bin, items);
    }

    /// Moves what has passed out of `bin`, `items_max` items at the most, and says how many those were. One driver call
    /// a timeline. Points on timelines of another allocator never pass here: items of several allocators may share a bin,
    /// and each comes out where it was put in.
    ///
    /// # Errors
    /// [`DeviceError::Lost`]: [`RetireBin::collect_all`] gives everything then. Or a driver's failure; nothing has
    /// changed.
    pub fn collect_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        into: &mut Vec<T>,
    ) -> Result<usize, DeviceError> {
        let mut passed = Passed::default();
        self.shared.lifetimes.read(&self.shared.device, &mut passed)?;
        Ok(bin.collect_passed(&passed, items_max, into))
    }

    /// Gives what has passed of `bin` to `each`, as [`RetireBin::release`] does: [`Retirement::collect_from`](crate::memory::Retirement::collect_from) without the
    /// vector.
    ///
    /// # Errors
    /// As [`Retirement::collect_from`](crate::memory::Retirement::collect_from).
    pub fn release_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        each: impl FnMut(T),
    ) -> Result<usize, DeviceError> {
        let mut passed = Passed::default();
        self.shared.lifetimes.read(&self.shared.device, &mut passed)?;
        Ok(bin.release_passed(&passed, items_max, each))
    }
}
