//! The description of a planned frame.

use ringfence_core::sync::TimelineId;

use super::error::TransientError;
use super::pass::Pass;
use crate::device::{BufferInfo, Device, TextureInfo};

/// A pass of a planned frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePass<'a> {
    /// Timeline of the queue that executes the pass.
    pub queue: TimelineId,
    /// Indices of passes on other queues that all commands of this pass wait for. Each index must be smaller than the
    /// index of this pass.
    pub waits: &'a [usize],
    /// Passes of earlier executions that all commands of this pass wait for.
    pub waits_before: &'a [Pass],
}

impl FramePass<'_> {
    /// Returns a pass that waits only for earlier passes of its queue.
    #[must_use]
    pub const fn on(queue: TimelineId) -> Self {
        Self { queue, waits: &[], waits_before: &[] }
    }
}

/// Description of a resource of a planned frame.
pub enum Described<'a, 'i, D: Device> {
    /// A buffer.
    Buffer(&'a BufferInfo<'i, D>),
    /// A texture.
    Texture(&'a TextureInfo<'i, D>),
}

impl<D: Device> Clone for Described<'_, '_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Described<'_, '_, D> {}

/// A resource of a planned frame. Passes are given by their index in the list of passes.
pub struct FrameResource<'a, 'i, D: Device> {
    /// Description of the resource.
    pub info: Described<'a, 'i, D>,
    /// First pass that uses the resource; every other use comes after that pass.
    pub first: usize,
    /// Last passes that use the resource; empty if `first` is the only use.
    pub last: &'a [usize],
    /// Name for debuggers.
    pub name: &'a str,
}

/// Fails if a pass waits for itself or a later pass, or if a resource is used by a pass that is not in the list.
pub(super) fn check_places<D: Device>(
    passes: &[FramePass<'_>],
    resources: &[FrameResource<'_, '_, D>],
) -> Result<(), TransientError> {
    let bad = |place| Err(TransientError::NotPlanned { place });
    for (at, pass) in passes.iter().enumerate() {
        if let Some(&wait) = pass.waits.iter().find(|wait| **wait >= at) {
            return bad(wait);
        }
    }
    for resource in resources {
        let uses = resource.last.iter().copied().chain([resource.first]);
        if let Some(place) = uses.into_iter().find(|place| *place >= passes.len()) {
            return bad(place);
        }
    }
    Ok(())
}
