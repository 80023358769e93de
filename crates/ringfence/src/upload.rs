//! Data on its way to the GPU and back: rings of mapped memory, and what is built on them.
//!
//! ```text
//!        tail (oldest submission in flight)          head (next write)
//!          ▼                                           ▼
//!   ┌──────┬───────────┬───────────────┬───────────────┬──────────────────────┐
//!   │ free │  frame 3  │    frame 4    │    frame 5    │        free          │
//!   └──────┴───────────┴───────────────┴───────────────┴──────────────────────┘
//!                       ├─page─┼─page─┤
//!                        thread 1  thread 2: each writes into its own, without a lock
//! ```
//!
//! A write belongs to the frames that are open when it is made; its bytes are reused once these are complete. Short of
//! space, the ring does this, in order:
//!
//! 1. reads the timelines and frees the bytes of complete frames, without waiting;
//! 2. while still short: waits for the *oldest* submission only, frees it, looks again; or grows, if it may;
//! 3. never waits for a frame that is not submitted (it would wait for ever): that is [`UploadError::Full`].
//!
//! | operation | cost |
//! |---|---|
//! | [`UploadRing::write`] | O(timelines) + the copy, one short lock; the copy is made outside of it |
//! | [`UploadWriter::write`] | the copy, two atomic stores to memory of the thread's own, two atomic loads; a lock a page |
//! | short of space | one driver call a timeline, and a wait for each submission that is waited for |

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

use std::fmt;
use std::time::Duration;

use crate::device::{BufferUsage, Device, RawBuffer};
use ringfence_memory::Buffer;
use ringfence_memory::memory::Location;

pub use batch::{BatchError, BatchFigures, TexelTarget, UploadBatch};
pub use constants::{
    BoundConstants, ConstantBuffers, ConstantFigures, ConstantViews, ConstantWriter, ConstantsDesc, DynamicConstants,
    StaticConstants,
};
pub use error::UploadError;
pub(crate) use frames::Frames;
pub use readback::{Readback, ReadbackDesc, ReadbackError, ReadbackRing};
pub use ring::UploadRing;
pub use texels::Texels;
pub(crate) use texels::least_common_multiple;
pub use transfer::{SubmitError, TransferError, TransferQueue};
pub use writer::UploadWriter;

/// How an upload ring is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadDesc<'a> {
    /// Bytes of the ring: as many as the frames in flight write together. [`UploadRing::high_water`] says how much was
    /// needed. A ring that grows begins with this capacity, and never has less.
    pub capacity: u64,
    /// The usages of the buffer, besides copies from it.
    pub usage: BufferUsage,
    /// What to do when it is full.
    pub when_full: WhenFull,
    /// Its location: [`Location::Upload`], or [`Location::DeviceUpload`] for bytes that shaders read many times.
    pub location: Location,
    /// Bytes that an [`UploadWriter`] takes from the ring at a time, at most an eighth of the ring. The rest of a
    /// writer's page is lost when its frame is over: choose no more than a thread writes in a frame.
    pub page_bytes: u64,
    /// A name for reports and for the driver's object.
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

/// What a write does that finds no room even after the timelines were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// Waits for the oldest submission, repeatedly, at most this long in all.
    Wait {
        /// The longest wait of one write.
        timeout: Duration,
    },
    /// Fails at once.
    Fail,
    /// Makes a buffer of twice the size; at `capacity_max` it waits. The old buffer is destroyed after the submissions
    /// that use it.
    Grow {
        /// The most bytes that the ring may have.
        capacity_max: u64,
        /// The longest wait of one write, at the cap.
        timeout: Duration,
        /// The ring is halved once it was at most a quarter full for this many calls of
        /// [`Allocator::reclaim`](crate::Allocator::reclaim) in a row, which are frames if each frame calls it once.
        shrink_after: u32,
    },
}

impl WhenFull {
    /// Grows up to `capacity_max` bytes, waits then as long as the default does, and shrinks after 600 frames.
    #[must_use]
    pub const fn grow(capacity_max: u64) -> Self {
        Self::Grow { capacity_max, timeout: Duration::from_secs(10), shrink_after: 600 }
    }
}

/// Bytes in a ring.
pub struct Staged<D: Device> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// The first byte there.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// The device address of the first byte, if the ring was made with one.
    pub address: Option<u64>,
    /// The number of the allocator whose frames keep the bytes.
    pub(crate) owner: u32,
    /// The frames whose submissions may use the bytes.
    pub(crate) frames: Frames,
    /// [`segment::place_hash`] of the buffer; 0 for one that no program can copy to, if it was not worth the time.
    pub(crate) place_hash: u32,
}

impl<D: Device> Staged<D> {
    /// Bytes that the program staged in a buffer of its own: for [`UploadBatch::copy`]. They have no address.
    ///
    /// # Errors
    /// [`BatchError::ZeroSize`]; [`BatchError::OutOfRange`] if they lie outside the buffer.
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
