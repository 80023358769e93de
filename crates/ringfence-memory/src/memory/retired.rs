//! Retired objects, which wait for the GPU; the result of a reclaim, and the errors of a shutdown.

use std::sync::atomic::AtomicU64;

use ringfence_core::empty_blocks::Unloads;
use ringfence_core::sync::SyncPoint;
use ringfence_timeline::{Passed, RetireBin};

use super::place::Place;
use super::placed_object::Item;
use crate::device::lock::Lock;
use crate::device::{Device, DeviceError};
use ringfence_arena::RawObject;

pub(crate) enum Retired<D: Device> {
    /// An object with its memory, as its handle owned it.
    Item(Item<D>),
    /// A range without an object.
    Place(Place<D>),
    /// An object and the memory of its pages, in one item, so that no thread frees the memory while the object exists.
    Paged(Box<(RawObject<D>, Vec<Place<D>>)>),
    /// An object, and its range.
    Pair(RawObject<D>, Place<D>),
}

pub(crate) struct Releases<D: Device> {
    pub(crate) retired: RetireBin<Retired<D>>,
    /// Buffers of `reclaim`, kept so that a steady frame allocates no host memory. The thread that reclaims takes them
    /// out, and does not hold the lock meanwhile.
    pub(crate) scratch: Lock<Option<Passed>>,
    /// Number of reclaims: the clock for the grace of empty blocks.
    pub(crate) tick: AtomicU64,
    pub(crate) unloads: Lock<Unloads>,
}

impl<D: Device> Releases<D> {
    pub(crate) fn new() -> Self {
        let scratch = Lock::new(Some(Passed::default()));
        Self { retired: RetireBin::new(), scratch, tick: AtomicU64::new(0), unloads: Lock::default() }
    }
}

/// The result of [`Allocator::reclaim`](crate::Allocator::reclaim).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reclaimed {
    /// Number of resources that were released: destroyed, or kept for recycling.
    pub objects: usize,
    /// Number of empty blocks that were freed because they were above the limit of
    /// [`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks), or empty for longer than
    /// [`AllocatorDesc::empty_block_grace`](crate::AllocatorDesc::empty_block_grace). Does not count blocks that were
    /// freed together with their last range because this grace is 0, together with their pool, or by the thread of
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background). A shutdown
    /// counts all memory objects that it frees.
    pub blocks: usize,
    /// Number of resources that are still retired. They wait for the device, for a later call (if this one was
    /// bounded), or for a thread that releases its own objects.
    pub waiting: usize,
    /// `true` if the device is lost. All retired objects were then released.
    pub device_lost: bool,
}

/// The reason why [`Allocator::shutdown`](crate::Allocator::shutdown) failed. Objects in use stay retired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The GPU did not complete the submissions in time.
    #[error("the device did not complete its work within {waited_ns} ns: {waiting} objects still wait for it")]
    Timeout {
        /// Time that the call waited, in nanoseconds.
        waited_ns: u64,
        /// Number of resources that wait for the device.
        waiting: usize,
    },
    /// Frames are open and may still be submitted.
    #[error(
        "{open} frames are open, among them the one with {frame}; {waiting} objects wait: submit or discard the frames"
    )]
    OpenFrames {
        /// Point of the oldest open frame on its timeline.
        frame: SyncPoint,
        /// Number of open frames on all timelines.
        open: usize,
        /// Number of resources that wait for the frames or for the device.
        waiting: usize,
    },
    /// A frame was dropped, neither submitted nor discarded, and its value was not reached in time.
    #[error(
        "the frame with {frame} was dropped, and was not complete within {waited_ns} ns: {waiting} objects still wait \
         (discard a frame that is not submitted, or call `Timeline::discard_dropped`)"
    )]
    DroppedFrame {
        /// Point of the last frame of its timeline that was dropped in this way. The frame signals this point if it was
        /// submitted.
        frame: SyncPoint,
        /// Time that the call waited, in nanoseconds.
        waited_ns: u64,
        /// Number of resources that wait for the frame or for the device.
        waiting: usize,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
