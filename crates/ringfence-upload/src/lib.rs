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
//! The bytes of a write belong to one frame, or to all frames that are open at the write. They are reused once these
//! frames are complete. If the ring is full, a write does the following:
//!
//! 1. It reads the timelines and frees the bytes of complete frames, without waiting.
//! 2. If the bytes still do not fit, it grows the ring, waits or fails, as [`UploadDesc::when_full`] says. A wait is
//!    for the *oldest* submission only: the write frees the bytes of that submission, and tries again.
//! 3. It never waits for a frame that is not submitted, because that wait could last forever. It returns
//!    [`UploadError::Full`] instead.
//!
//! | operation | cost |
//! |---|---|
//! | [`UploadRing::write`] | O(timelines) + the copy; one short lock, which is not held during the copy |
//! | [`UploadWriter::write`] | the copy, two atomic stores to its own memory, two atomic loads; a lock for each page |
//! | a write to a full ring | one driver call per timeline, then a new buffer, or one wait per submission until the bytes fit |
#![warn(missing_docs)]

mod batch;
mod constants;
mod copy_target;
mod error;
mod fill;
mod frames;
mod pending_copies;
mod readback;
mod reserve;
mod ring;
mod segment;
mod state;
mod texels;
mod transfer;
mod whole_texture;
mod writer;

use ringfence_hal as device;
#[cfg(test)]
use ringfence_sim as sim;
use std::fmt;
use std::time::Duration;

use crate::device::{BufferDesc, BufferUsage, Device, RawBuffer};
use ringfence_core::sync::SyncPoint;
use ringfence_memory::Buffer;
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::{AsBufferSlice, BufferSlice};

pub use batch::{BatchFigures, TexelTarget, UploadBatch};
pub use constants::{
    BoundConstants, ConstantBuffers, ConstantFigures, ConstantViews, ConstantWriter, ConstantsDesc, DynamicConstants,
    StaticConstants,
};
pub use copy_target::CopyTarget;
pub use error::{BatchError, TransferError, UploadError};
use frames::Frames;
pub use readback::{Readback, ReadbackDesc, ReadbackError, ReadbackRing};
pub use ring::UploadRing;
pub use texels::Texels;
pub use transfer::{SubmitError, TransferQueue};
pub use whole_texture::ChainOrder;
pub use writer::UploadWriter;

/// Description of an upload ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadDesc<'a> {
    /// Capacity of the ring, in bytes; for [`WhenFull::Grow`], the initial and smallest capacity. If the capacity is
    /// less than the writes of the frames in flight, writes wait, grow the ring or fail, as `when_full` says.
    /// [`UploadRing::high_water`] reports the bytes that were needed.
    pub capacity: u64,
    /// Usages of the buffer. [`BufferUsage::COPY_SRC`] is added.
    pub usage: BufferUsage,
    /// Behaviour of a write if the ring is full.
    pub when_full: WhenFull,
    /// Location of the buffer: [`Location::Upload`], or [`Location::DeviceUpload`] for bytes that shaders read many
    /// times.
    pub location: Location,
    /// Size of a writer's page, in bytes: an [`UploadWriter`] takes this many bytes from the ring at a time. Limited to
    /// an eighth of `capacity`. The unused rest of a page is lost at the end of the writer's frame, so choose at most
    /// the number of bytes that one thread writes in a frame.
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

/// Behaviour of a write if the ring is still full after the bytes of complete frames were freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// Waits for the oldest submission, repeatedly, for at most `timeout` in total.
    Wait {
        /// The longest wait of one write.
        timeout: Duration,
    },
    /// Returns [`UploadError::Full`] without waiting.
    Fail,
    /// Replaces the buffer with one of at least twice the size, but of at most `capacity_max` bytes. If the ring has
    /// `capacity_max` bytes already, or there is no memory for a larger buffer, waits as [`WhenFull::Wait`] does. The
    /// old buffer is destroyed after the submissions that use it are complete.
    Grow {
        /// Largest capacity of the ring, in bytes.
        capacity_max: u64,
        /// The longest wait of one write, if the ring cannot grow.
        timeout: Duration,
        /// The ring is halved after this many consecutive calls of
        /// [`Allocator::reclaim`](ringfence_memory::Allocator::reclaim) during which at most a quarter of the ring was
        /// in use, but never below its initial capacity. If the program calls `reclaim` once per frame, this is a
        /// number of frames.
        shrink_after: u32,
    },
}

impl WhenFull {
    /// Returns a `Grow` up to `capacity_max` bytes, with a timeout of 10 s. The ring shrinks after 600 calls of
    /// `reclaim`.
    #[must_use]
    pub const fn grow(capacity_max: u64) -> Self {
        Self::Grow { capacity_max, timeout: Duration::from_secs(10), shrink_after: 600 }
    }
}

/// Staged bytes: a range of a ring's buffer. Its fields are those of [`StagedRange`], and can only be read, because
/// views of the bytes are created in safe code.
pub struct Staged<D: Device> {
    pub(crate) range: StagedRange<D>,
    /// Description of the driver's buffer.
    pub(crate) desc: BufferDesc,
    /// Number of the allocator that the buffer and the frames belong to.
    pub(crate) owner: u32,
    /// The frames that may use the bytes; [`Frames::NONE`] for bytes in the program's own buffer.
    pub(crate) frames: Frames,
    /// [`segment::place_hash`] of the buffer; 0 for a buffer that the program cannot copy to, for which no hash is
    /// computed.
    pub(crate) place_hash: u32,
}

/// The range of the driver's buffer in which [`Staged`] bytes are.
pub struct StagedRange<D: Device> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// Offset of the first byte in the buffer, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Device address of the first byte, if the buffer has one.
    pub address: Option<u64>,
}

impl<D: Device> std::ops::Deref for Staged<D> {
    type Target = StagedRange<D>;

    #[inline]
    fn deref(&self) -> &StagedRange<D> {
        &self.range
    }
}

impl<D: Device> Staged<D> {
    /// Describes `size` bytes at `offset` of the program's own buffer, as a source for [`UploadBatch::copy`]. The
    /// result has no device address.
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
        let usage = buffer.desc().map_or(BufferUsage::empty(), |desc| desc.usage);
        let desc = BufferDesc { size: target_size, usage };
        let (buffer, frames) = (buffer.object().clone(), Frames::NONE);
        let range = StagedRange { buffer, offset, size, address: None };
        Ok(Self { range, desc, owner, frames, place_hash })
    }

    /// Does the same as [`Staged::of`], for copies that are recorded in `frame`: they are lost if this frame is not
    /// submitted, whatever becomes of other open frames.
    ///
    /// # Errors
    /// As [`Staged::of`].
    pub fn of_in(buffer: &Buffer<D>, offset: u64, size: u64, frame: &Frame) -> Result<Self, BatchError> {
        Ok(Self { frames: Frames::of(frame.point()), ..Self::of(buffer, offset, size)? })
    }
}

impl<D: Device> Staged<D> {
    /// Returns `true` if the bytes are known to be alive until the frame that signals `point` is complete. Returns
    /// `false` for bytes of the program's own buffer, and for bytes that were written while more than two frames were
    /// open.
    #[must_use]
    pub fn is_for(&self, point: SyncPoint) -> bool {
        self.frames.points(self.owner).any(|frame| frame == point)
    }

    /// Describes bytes that an allocator of constants wrote for the frame that signals `point`, in a buffer described
    /// by `desc`. The program cannot copy to their buffer.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn in_frame(
        (buffer, desc): (RawBuffer<D>, BufferDesc),
        offset: u64,
        size: u64,
        address: Option<u64>,
        point: SyncPoint,
    ) -> Self {
        let (owner, frames) = (point.timeline.owner(), Frames::of(point));
        Self { range: StagedRange { buffer, offset, size, address }, desc, owner, frames, place_hash: 0 }
    }
}

// SAFETY: the ring or the program's buffer was made by the allocator `owner`, and no code changes the range afterwards.
unsafe impl<D: Device> AsBufferSlice<D> for Staged<D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        let Self { range: StagedRange { buffer, offset, size, .. }, desc, owner, .. } = self;
        let desc = (!desc.usage.is_empty()).then_some(*desc);
        BufferSlice { object: buffer, desc, offset: *offset, size: *size, owner: *owner, shared: None }
    }
}

impl<D: Device> Clone for Staged<D> {
    fn clone(&self) -> Self {
        let range = StagedRange { buffer: self.buffer.clone(), ..self.range };
        Self { range, ..*self }
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
