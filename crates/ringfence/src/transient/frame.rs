//! What a planned frame is described with, and how good its layout is: plain data.

use ringfence_core::sync::TimelineId;

use super::error::TransientError;
use super::pass::Pass;
use crate::device::{BufferInfo, Device, TextureInfo};

/// A pass of a planned frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePass<'a> {
    /// The queue that it runs on.
    pub queue: TimelineId,
    /// The passes of other queues that it waits for, with all commands, by index in the list; each comes before it
    /// there.
    pub waits: &'a [usize],
    /// The passes of earlier executions that it waits for.
    pub waits_before: &'a [Pass],
}

impl FramePass<'_> {
    /// A pass that waits for nothing but its queue.
    #[must_use]
    pub const fn on(queue: TimelineId) -> Self {
        Self { queue, waits: &[], waits_before: &[] }
    }
}

/// What a resource of a planned frame is described with.
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

/// A resource of a planned frame. Passes are named by index in the list.
pub struct FrameResource<'a, 'i, D: Device> {
    /// What it is.
    pub info: Described<'a, 'i, D>,
    /// The pass that uses it first; every other use comes after that pass.
    pub first: usize,
    /// The passes after which no pass uses it; none if `first` is its only use.
    pub last: &'a [usize],
    /// For debuggers.
    pub name: &'a str,
}

/// Refuses places that the lists do not have.
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
