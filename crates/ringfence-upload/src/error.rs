//! Errors of writes to rings.

use ringfence_core::sync::SyncPoint;

use crate::device::{DeviceError, TexelError, TexelFormat};
use ringfence_memory::Error;

/// Error of a write to a ring. The ring is unchanged, but it may have freed the bytes of complete frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// The requested size is 0 bytes.
    #[error("a write of 0 bytes: pass at least one byte")]
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    #[error("the alignment {alignment} is not a power of two")]
    BadAlignment {
        /// The requested alignment, in bytes.
        alignment: u64,
    },
    /// The bytes exceed the capacity, so they never fit, even after a wait: create a larger ring.
    #[error("{size} bytes never fit in a ring of {capacity} bytes: create a larger ring")]
    TooLarge {
        /// Requested bytes.
        size: u64,
        /// The ring's capacity in bytes; if the ring grows, its largest capacity. For constants, the largest size of
        /// their buffer.
        capacity: u64,
    },
    /// The ring is full, and waiting would not help or is turned off ([`WhenFull::Fail`](super::WhenFull::Fail)).
    #[error("{size} bytes do not fit: {free} of {capacity} bytes are free ({})", unsubmitted(.waits_for))]
    Full {
        /// Requested bytes.
        size: u64,
        /// Free bytes, possibly in two parts.
        free: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
        /// The point that must pass before the oldest bytes are free, if its frame is not submitted yet or was dropped.
        waits_for: Option<SyncPoint>,
    },
    /// The ring is full of complete results that the program has not dropped.
    #[error("{size} bytes do not fit in a ring of {capacity} bytes: read and drop its oldest complete results")]
    Unread {
        /// Requested bytes.
        size: u64,
        /// The ring's capacity in bytes.
        capacity: u64,
    },
    /// No frame is open that could use the bytes: begin a frame first.
    #[error("no frame is open: begin the frame that will use the bytes")]
    NoFrame,
    /// The writer's frame was submitted, discarded or dropped, so no submission can use these bytes.
    #[error("the frame with {frame} was submitted or dropped: begin the next frame on the writer")]
    FrameOver {
        /// The point that the frame signals.
        frame: SyncPoint,
    },
    /// The frame belongs to a timeline of another allocator.
    #[error("the frame with {frame} belongs to another allocator's timeline")]
    ForeignFrame {
        /// The point that the frame signals.
        frame: SyncPoint,
    },
    /// The constants and the writer belong to different `ConstantBuffers`, or the batch belongs to another allocator.
    #[error("the constants, the writer and the batch belong to different constant buffers or allocators")]
    ForeignConstants,
    /// The texture to read back belongs to another allocator than the ring.
    #[error("the texture belongs to allocator {texture_owner}, the ring to allocator {ring_owner}: use one allocator")]
    ForeignTexture {
        /// Number of the ring's allocator.
        ring_owner: u32,
        /// Number of the texture's allocator.
        texture_owner: u32,
    },
    /// There are too few bytes for the texels, or the given pitches make rows or slices overlap.
    #[error("{given} bytes for {width} × {height} × {depth} texels in {layers} layers ({format}) that need {needed}")]
    TexelSize {
        /// Width in texels.
        width: u32,
        /// Height in texels.
        height: u32,
        /// Depth in slices.
        depth: u32,
        /// Array layers.
        layers: u32,
        /// Format of the texels in the buffer.
        format: TexelFormat,
        /// Given bytes.
        given: u64,
        /// Bytes that the texels need; `u64::MAX` if rows or slices overlap, or if the number exceeds 64 bits.
        needed: u64,
    },
    /// The texels are not inside the texture, or the device cannot copy them.
    #[error(transparent)]
    Texels(#[from] TexelError),
    /// The oldest submissions did not complete within the timeout.
    #[error("the ring is still full after a wait of {waited_ns} ns")]
    Timeout {
        /// Time waited, in nanoseconds.
        waited_ns: u64,
    },
    /// The ring is full, waiting would not help, and there is no memory to grow.
    #[error("the ring is full and cannot grow: {0}")]
    Growth(#[from] Error),
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn unsubmitted(point: &Option<SyncPoint>) -> String {
    match point {
        Some(point) => format!("the oldest bytes wait for {point}, which is not reported as submitted"),
        None => "the ring does not wait".to_owned(),
    }
}
