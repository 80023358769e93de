//! Uploads and readback: rings of mapped memory, with constants and batches of copies on top of them.
//!
//! ```text
//!        tail (oldest submission in flight)          head (next write)
//!          ▼                                           ▼
//!   ┌──────┬───────────┬───────────────┬───────────────┬──────────────────────┐
//!   │ free │  frame 3  │    frame 4    │    frame 5    │        free          │
//!   └──────┴───────────┴───────────────┴───────────────┴──────────────────────┘
//!                       ├─page─┼─page─┤
//!                        thread 1  thread 2: each writes into its own page, without a lock
//! ```
//!
//! A write belongs to the frames that are open at that time. Its bytes are reused once these frames are complete. A
//! write to a full ring proceeds as follows:
//!
//! 1. It reads the timelines and frees the bytes of complete frames, without waiting.
//! 2. While there is no space, it waits for the *oldest* submission only, frees its bytes and tries again; or the ring
//!    grows, if it may.
//! 3. It never waits for a frame that is not submitted, since that could wait forever. It returns
//!    [`UploadError::Full`].
//!
//! | operation | cost |
//! |---|---|
//! | [`UploadRing::write`] | O(timelines) + the copy; one short lock, which is not held during the copy |
//! | [`UploadWriter::write`] | the copy, two atomic stores to thread-private memory, two atomic loads; one lock a page |
//! | a write to a full ring | one driver call a timeline, and one wait a submission until there is space |
#![warn(missing_docs)]

mod arrivals;
mod batch;
mod constants;
mod error;
mod fill;
mod frames;
mod readback;
mod reserve;
mod ring;
mod segment;
mod state;
mod texels;
mod transfer;
mod writer;

use ringfence_hal as device;
#[cfg(test)]
use ringfence_sim as sim;
use std::fmt;
use std::time::Duration;

use crate::device::{BufferUsage, Device, RawBuffer};
use ringfence_core::sync::SyncPoint;
use ringfence_memory::Buffer;
use ringfence_memory::memory::Location;

pub use batch::{BatchError, BatchFigures, TexelTarget, UploadBatch};
pub use constants::{
    BoundConstants, ConstantBuffers, ConstantFigures, ConstantViews, ConstantWriter, ConstantsDesc, DynamicConstants,
    StaticConstants,
};
pub use error::UploadError;
use frames::Frames;
pub use readback::{Readback, ReadbackDesc, ReadbackError, ReadbackRing};
pub use ring::UploadRing;
pub use texels::Texels;
pub use transfer::{SubmitError, TransferError, TransferQueue};
pub use writer::UploadWriter;

/// Description of an upload ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadDesc<'a> {
    /// Capacity of the ring, in bytes: enough for all writes of the frames in flight. [`UploadRing::high_water`]
    /// reports the bytes that were needed. A ring that grows starts with this capacity and never has less.
    pub capacity: u64,
    /// Usages of the buffer, in addition to copies from it.
    pub usage: BufferUsage,
    /// Behaviour of a write if the ring is full.
    pub when_full: WhenFull,
    /// Location of the buffer: [`Location::Upload`], or [`Location::DeviceUpload`] for bytes that shaders read many
    /// times.
    pub location: Location,
    /// Bytes that an [`UploadWriter`] takes from the ring at a time; at most an eighth of the ring. The unused rest of
    /// a writer's page is lost at the end of its frame, so choose at most the bytes that a thread writes in a frame.
    pub page_bytes: u64,
    /// Name for reports and for the driver's object.
    pub name: &'a str,
}

impl Default for UploadDesc<'_> {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            usage: BufferUsage::COPY_SRC | BufferUsage::VERTEX | BufferUsage::INDEX | BufferUsage::CONSTANT,
            when_full: WhenFull::Wait { timeout: Duration::from_secs(10) },
            location: Location::Upload,
            page_bytes: 64 << 10,
            name: "upload ring",
        }
    }
}

/// Behaviour of a write that finds the ring full even after it has read the timelines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// Waits for the oldest submission, repeatedly, for at most `timeout` in total.
    Wait {
        /// The longest wait of one write.
        timeout: Duration,
    },
    /// Fails at once.
    Fail,
    /// Creates a buffer of twice the size; waits if the ring has `capacity_max` bytes already. The old buffer is
    /// destroyed after the submissions that use it.
    Grow {
        /// Largest capacity of the ring, in bytes.
        capacity_max: u64,
        /// The longest wait of one write, if the ring cannot grow.
        timeout: Duration,
        /// The ring is halved after this many consecutive calls of [`Allocator::reclaim`](ringfence_memory::Allocator::reclaim) in
        /// which at most a quarter was in use. If each frame calls it once, these are frames.
        shrink_after: u32,
    },
}

impl WhenFull {
    /// Returns a `Grow` up to `capacity_max` bytes, with the default's timeout, that shrinks after 600 frames.
    #[must_use]
    pub const fn grow(capacity_max: u64) -> Self {
        Self::Grow { capacity_max, timeout: Duration::from_secs(10), shrink_after: 600 }
    }
}

/// Staged bytes: a range of a ring's buffer.
pub struct Staged<D: Device> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// Offset of the first byte in the buffer.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Device address of the first byte, if the buffer has one.
    pub address: Option<u64>,
    /// Number of the allocator that the frames belong to.
    pub(crate) owner: u32,
    /// The frames that may use the bytes.
    pub(crate) frames: Frames,
    /// [`segment::place_hash`] of the buffer. 0 if no program can copy to the buffer and the hash was not computed.
    pub(crate) place_hash: u32,
}

impl<D: Device> Staged<D> {
    /// Describes bytes that the program staged in its own buffer, for [`UploadBatch::copy`]. They have no address.
    ///
    /// # Errors
    /// [`BatchError::ZeroSize`]; [`BatchError::OutOfRange`] if the bytes are not inside the buffer.
    pub fn of(buffer: &Buffer<D>, offset: u64, size: u64) -> Result<Self, BatchError> {
        if size == 0 {
            return Err(BatchError::ZeroSize);
        }
        let target_size = buffer.size();
        if offset.checked_add(size).is_none_or(|end| end > target_size) {
            return Err(BatchError::OutOfRange { offset, size, target_size });
        }
        let (owner, place_hash) = (buffer.shared().owner(), segment::place_hash(buffer));
        let (buffer, frames) = (buffer.object().clone(), Frames::NONE);
        Ok(Self { buffer, offset, size, address: None, owner, frames, place_hash })
    }
}

impl<D: Device> Staged<D> {
    /// Describes bytes that an allocator of constants wrote for the frame of `point`. No program can copy to their buffer.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn in_frame(buffer: RawBuffer<D>, offset: u64, size: u64, address: Option<u64>, point: SyncPoint) -> Self {
        let (owner, frames) = (point.timeline.owner(), Frames::of(point));
        Self { buffer, offset, size, address, owner, frames, place_hash: 0 }
    }
}

impl<D: Device> Clone for Staged<D> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), ..*self }
    }
}

impl<D: Device> fmt::Debug for Staged<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({:?} from {}, {} bytes)", self.buffer, self.offset, self.size)
    }
}

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
