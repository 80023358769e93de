//! A resource that is measured and not placed.

use std::mem::ManuallyDrop;

use crate::device::{Create, Kind};

/// A resource that is measured and not placed: discarded unless it is used up.
pub(crate) struct Prepared<'a, D: Create<K>, K: Kind> {
    device: &'a D,
    /// There until this is dropped.
    unplaced: ManuallyDrop<D::Unplaced>,
}

impl<'a, D: Create<K>, K: Kind> Prepared<'a, D, K> {
    pub(crate) fn new(device: &'a D, unplaced: D::Unplaced) -> Self {
        Self { device, unplaced: ManuallyDrop::new(unplaced) }
    }

    pub(crate) fn get(&self) -> &D::Unplaced {
        &self.unplaced
    }

    /// It was placed.
    pub(crate) fn used_up(self) {
        let mut used = ManuallyDrop::new(self);
        // SAFETY: `used` is never dropped nor used again, so that the value is taken once.
        drop(unsafe { ManuallyDrop::take(&mut used.unplaced) });
    }
}

impl<D: Create<K>, K: Kind> Drop for Prepared<'_, D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards. Nothing has used it up, since it was not
        // placed.
        unsafe { Create::<K>::discard(self.device, ManuallyDrop::take(&mut self.unplaced)) };
    }
}
