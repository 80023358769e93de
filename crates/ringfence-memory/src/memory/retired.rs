//! What waits for the GPU before it is destroyed.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use ringfence_core::range::Invalid;

use super::place::Place;
use super::raw_object::RawObject;
use crate::device::Device;
use crate::timeline::{Passed, RetireBin};

/// What waits for the GPU.
pub(crate) struct Retired<D: Device> {
    /// The driver's object, unless others share it.
    pub(crate) object: Option<RawObject<D>>,
    /// Where it lies, unless its memory is retired by itself.
    pub(crate) place: Option<Place<D>>,
}

/// What an allocator keeps of releases.
pub(crate) struct Releases<D: Device> {
    pub(crate) retired: RetireBin<Retired<D>>,
    /// What `reclaim` works with, kept so that a steady frame makes nothing. Taken out by the thread that is at it: no lock
    /// is held meanwhile.
    pub(crate) scratch: Mutex<Option<Passed>>,
    /// Counts the calls of reclaim: the clock of empty blocks.
    pub(crate) tick: AtomicU64,
}

impl<D: Device> Releases<D> {
    pub(crate) fn new() -> Self {
        let scratch = Mutex::new(Some(Passed::default()));
        Self { retired: RetireBin::new(), scratch, tick: AtomicU64::new(0) }
    }

    pub(crate) fn retired_count(&self) -> u64 {
        self.retired.len() as u64
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.retired.validate()
    }
}
