//! Recording everything that happens to memory.

use std::sync::Arc;

use super::shared::Shared;
use crate::device::Device;
use crate::observe::trace::{StartTraceError, TraceSummary};

/// The recording of an allocator: see [`trace`](crate::trace). Made by [`Allocator::trace`](crate::Allocator::trace).
pub struct Recording<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> Recording<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// Records everything that happens to memory from now on into `to`, until [`Recording::stop`] or until the
    /// allocator is gone: see [`crate::trace`]. Writes come in pieces of 64 KiB or of a quarter of a second, from
    /// [`Allocator::reclaim`](crate::Allocator::reclaim), so that a file needs no buffer of its own.
    ///
    /// A write that fails, or panics, ends the recording and nothing else; `stop` says why. It runs with no lock held,
    /// and may use the allocator.
    ///
    /// # Errors
    /// A recording is under way, something was made already, or the beginning cannot be written.
    pub fn start(&self, to: impl std::io::Write + Send + 'static) -> Result<(), StartTraceError> {
        self.shared.start_trace(Box::new(to))
    }

    /// Ends the recording and says how large it is; `None` if nothing was being recorded. Waits for a write that is under
    /// way on another thread.
    ///
    /// # Errors
    /// Some of it could not be written: what was written before that can be read. Or the write itself asks for it: the
    /// recording goes on then.
    pub fn stop(&self) -> std::io::Result<Option<TraceSummary>> {
        self.shared.stop_trace().transpose()
    }
}
