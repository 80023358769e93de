//! What all clones of an allocator have together, and nothing else.

use std::sync::Arc;

use super::shared::Shared;
use crate::device::Device;

/// Goes with the last clone of an allocator and the last of its pools.
pub(crate) struct Handle<D: Device>(Arc<Shared<D>>);

impl<D: Device> Handle<D> {
    pub(crate) fn new(shared: &Arc<Shared<D>>) -> Self {
        Self(Arc::clone(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<D>> {
        &self.0
    }
}

impl<D: Device> Drop for Handle<D> {
    fn drop(&mut self) {
        self.0.close_caches();
    }
}
