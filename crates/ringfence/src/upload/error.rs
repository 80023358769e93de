//! Errors of staging, with the numbers that show why.

use ringfence_core::sync::SyncPoint;

use crate::device::{DeviceError, TexelError, TexelFormat};
use ringfence_memory::Error;

/// Why nothing was written. The ring has not changed, except that bytes of complete frames may have been freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// No bytes were given.
    #[error("a write of 0 bytes")]
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    #[error("the alignment {alignment} is not a power of two")]
    BadAlignment {
        /// The requested alignment, in bytes.
        alignment: u64,
    },
    /// The ring can never hold this, however long the wait: make a larger one.
    #[error("{size} bytes never fit in a ring of {capacity} bytes")]
    TooLarge {
        /// The requested bytes.
        size: u64,
        /// The ring's capacity in bytes, or its cap if it grows.
        capacity: u64,
    },
    /// There is no room, and waiting would not help or is turned off ([`WhenFull::Fail`](super::WhenFull::Fail)).
    #[error("{size} bytes do not fit: {free} of {capacity} bytes are free ({})", unsubmitted(.waits_for))]
    Full {
        /// The requested bytes.
        size: u64,
        /// Bytes that are free, maybe in two parts.
        free: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
        /// The point that the oldest bytes wait for, if its frame is not submitted yet, or was dropped.
        waits_for: Option<SyncPoint>,
    },
    /// There is no room, since results that are complete were not dropped.
    #[error("{size} bytes do not fit: the oldest of {capacity} bytes have arrived, and wait to be read or dropped")]
    Unread {
        /// The requested bytes.
        size: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
    },
    /// No frame is open that could use the bytes: begin one first.
    #[error("no frame is open: a write belongs to the submission that is being recorded")]
    NoFrame,
    /// The writer's frame was submitted or dropped: no submission can use these bytes any more.
    #[error("the frame with {frame} is over: it was submitted or dropped")]
    FrameOver {
        /// What the frame signals.
        frame: SyncPoint,
    },
    /// The frame belongs to a timeline of another allocator.
    #[error("the frame with {frame} belongs to another allocator's timeline")]
    ForeignFrame {
        /// What the frame signals.
        frame: SyncPoint,
    },
    /// The constants were made by other `ConstantBuffers` than the writer's, or the batch is another allocator's.
    #[error("the constants, the writer and the batch belong to different constant buffers or allocators")]
    ForeignConstants,
    /// The texture to read back is another allocator's than the ring.
    #[error("a texture of allocator {texture_owner} does not fit a ring of another allocator, {ring_owner}")]
    ForeignTexture {
        /// The number of the ring's allocator.
        ring_owner: u32,
        /// That of the texture's.
        texture_owner: u32,
    },
    /// The bytes of the texels do not match their size.
    #[error("{given} bytes for {width} × {height} × {depth} texels in {layers} layers ({format}), which need {needed}")]
    TexelSize {
        /// Texels across.
        width: u32,
        /// Texels down.
        height: u32,
        /// Slices.
        depth: u32,
        /// Array layers.
        layers: u32,
        /// How they lie in a buffer.
        format: TexelFormat,
        /// Bytes that were given.
        given: u64,
        /// Bytes that they need.
        needed: u64,
    },
    /// The texture has no such texels, or they cannot be copied so.
    #[error(transparent)]
    Texels(#[from] TexelError),
    /// The oldest submission did not complete in time.
    #[error("no room after waiting for {waited_ns} ns")]
    Timeout {
        /// How long was waited.
        waited_ns: u64,
    },
    /// The ring is full, waiting would not help, and there was no memory to grow.
    #[error("there is no room, and none could be made: {0}")]
    Growth(#[from] Error),
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn unsubmitted(point: &Option<SyncPoint>) -> String {
    match point {
        Some(point) => format!("the oldest wait for {point}, which was not reported as submitted"),
        None => "waiting is not wanted".to_owned(),
    }
}
