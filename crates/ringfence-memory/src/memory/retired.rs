//! What waits for the GPU before it is destroyed; the result of a reclaim, and the errors of a shutdown.

use std::sync::atomic::AtomicU64;

use ringfence_core::sync::SyncPoint;

use super::bound::Item;
use super::memory_object::RawObject;
use super::place::Place;
use crate::device::{Device, DeviceError};
use crate::observe::unlocked::Lock;
use crate::timeline::{Passed, RetireBin};

pub(crate) enum Retired<D: Device> {
    /// An object with its memory, as its handle owned it.
    Item(Item<D>),
    /// A range without an object.
    Place(Place<D>),
    /// An object, and the memory behind its pages: one item, so that no thread frees the memory under the object.
    Paged(Box<(RawObject<D>, Vec<Place<D>>)>),
    /// An object, and the range that it lay in.
    Pair(RawObject<D>, Place<D>),
}

pub(crate) struct Releases<D: Device> {
    pub(crate) retired: RetireBin<Retired<D>>,
    /// What `reclaim` works with, kept so that a steady frame makes nothing. Taken out by the thread that is at it: no
    /// lock is held meanwhile.
    pub(crate) scratch: Lock<Option<Passed>>,
    /// Counts the calls of reclaim: the clock of empty blocks.
    pub(crate) tick: AtomicU64,
}

impl<D: Device> Releases<D> {
    pub(crate) fn new() -> Self {
        let scratch = Lock::new(Some(Passed::default()));
        Self { retired: RetireBin::new(), scratch, tick: AtomicU64::new(0) }
    }
}

/// What [`Allocator::reclaim`](crate::Allocator::reclaim) did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reclaimed {
    /// Resources that the device was done with: destroyed, or kept for recycling.
    pub objects: usize,
    /// Empty blocks that were freed since their grace was over. Not those that went with their last range, where there
    /// is no grace, or with their pool.
    pub blocks: usize,
    /// Resources that still wait: for the device, for a later call if this one was bounded, or for one by a thread that
    /// reclaims what it has dropped itself while another is in the call.
    pub waiting: usize,
    /// Whether the device is lost. Everything that was waiting for it has been destroyed then.
    pub device_lost: bool,
}

/// Why [`Allocator::shutdown`](crate::Allocator::shutdown) ended early. What was waiting still waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The GPU did not finish what was submitted in time.
    #[error("the device did not finish its work within {waited_ns} ns: {waiting} objects still wait for it")]
    Timeout {
        /// How long was waited.
        waited_ns: u64,
        /// Resources that wait for the device.
        waiting: usize,
    },
    /// Frames are open and may still be submitted.
    #[error("{open} frames are open, among them the one with {frame}: {waiting} objects still wait")]
    OpenFrames {
        /// What the oldest of them on its timeline signals.
        frame: SyncPoint,
        /// How many are open, on all timelines.
        open: usize,
        /// Resources that wait for them or for the device.
        waiting: usize,
    },
    /// A frame was dropped, neither submitted nor discarded, and its value was not reached in time.
    #[error(
        "the frame with {frame} was dropped, and was not complete within {waited_ns} ns: {waiting} objects still wait \
         (if it was not submitted, it had to be discarded; see `Timeline::discard_dropped`)"
    )]
    DroppedFrame {
        /// What the last such frame of its timeline signals, if it was submitted.
        frame: SyncPoint,
        /// How long was waited.
        waited_ns: u64,
        /// Resources that wait for it or for the device.
        waiting: usize,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
