//! Errors of writes to rings, of batches and of uploads.

use ringfence_core::sync::SyncPoint;

use crate::device::{DeviceError, TexelError, TexelFormat};
use ringfence_memory::Error;

/// Error of a write to a ring. No bytes are reserved, but the ring may have freed the bytes of complete frames, or may
/// have grown.
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
    /// The bytes exceed the largest capacity, so they never fit, even after a wait: create a larger ring.
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
    /// There are too few bytes for the texels (for a whole texture: too few or too many), or the given pitches make
    /// rows or slices overlap.
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

/// Error of a batch. The batch is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The copy has a size of 0.
    #[error("a copy of 0 bytes: pass at least one byte")]
    ZeroSize,
    /// The copy writes outside the destination, or the bytes for [`Staged::of`](super::Staged::of) are outside the
    /// buffer.
    #[error("bytes {offset}..{offset}+{size} are outside the buffer of {target_size} bytes")]
    OutOfRange {
        /// Offset of the first requested byte, in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
        /// Size of the destination or buffer, in bytes.
        target_size: u64,
    },
    /// The texels do not fit the texture, or the device cannot copy them.
    #[error(transparent)]
    Texels(#[from] TexelError),
    /// Rows, slices or layers of the staged texels overlap, rows do not begin at a multiple of a block, or slices are
    /// not adjacent.
    #[error(
        "a row pitch of {row_bytes} bytes or a slice pitch of {slice_bytes} bytes does not fit: a row needs \
         {row_needed} bytes in blocks of {block_bytes} bytes, and at most 2 GiB - 1; a slice {slice_needed} bytes"
    )]
    TexelPitch {
        /// Bytes from one row of blocks to the next.
        row_bytes: u64,
        /// Bytes from one slice or layer to the next.
        slice_bytes: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of a row of blocks.
        row_needed: u64,
        /// Required slice pitch, in bytes: exactly this value for several slices, at least this value for several
        /// layers.
        slice_needed: u64,
    },
    /// The texels do not fit in the staged bytes.
    #[error("{given} bytes are staged, but texels of {extent:?} in {layers} layers ({format}) need {needed} bytes")]
    TexelSize {
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Array layers.
        layers: u32,
        /// Format of the texels in the buffer.
        format: TexelFormat,
        /// Staged bytes.
        given: u64,
        /// Bytes that the texels need; `u64::MAX` if the number exceeds 64 bits.
        needed: u64,
    },
    /// The source and the destination of the copy are the same buffer, or another copy of the batch writes to the
    /// source.
    #[error("the batch writes the source of a copy of {size} bytes at {offset}: record that copy in a later batch")]
    ReadsTarget {
        /// Offset of the first byte in the source, in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
    },
    /// Another copy of the batch reads from the destination.
    #[error("the batch reads the destination of a copy of {size} bytes at {offset}: record that copy in a later batch")]
    WritesSource {
        /// Offset of the first byte in the destination, in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
    },
    /// The source was staged for a frame that was submitted, discarded or dropped. Its bytes are reused once that frame
    /// is complete. Stage the bytes again for the frame that is being recorded.
    #[error("{size} bytes were staged for the frame with {frame}, which has ended: stage them again")]
    FrameOver {
        /// The point that the frame signals.
        frame: SyncPoint,
        /// Staged bytes; an error of [`UploadBatch::record`](super::UploadBatch::record) reports the bytes of all
        /// copies.
        size: u64,
    },
    /// A destination was resized, replaced or moved, or its mips were swapped, after the copies were added, so the
    /// copies would write to its old object. Clear the batch and add the copies again.
    #[error("the destination with user data {user_data} was resized, replaced or moved: clear the batch and refill it")]
    Exchanged {
        /// User data of the first such destination.
        user_data: u64,
    },
    /// The staged bytes, the destination and the batch do not all belong to one allocator, so no frame would keep all
    /// of them alive.
    #[error(
        "the source belongs to allocator {source_owner}, the destination to {target_owner}, the batch to \
         {batch_owner}: use one allocator"
    )]
    Foreign {
        /// Number of the allocator that the source was staged with.
        source_owner: u32,
        /// Number of the destination's allocator.
        target_owner: u32,
        /// Number of the batch's allocator; equal to `source_owner` if the batch is empty.
        batch_owner: u32,
    },
}

/// Error of an upload. Earlier uploads are not affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The destination belongs to another allocator, which would not wait for the copy before it destroys the resource.
    #[error("the destination belongs to another allocator than the ring")]
    ForeignDestination,
    /// The bytes were not staged.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// The batch did not accept the copy.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

fn unsubmitted(point: &Option<SyncPoint>) -> String {
    match point {
        Some(point) => format!("the oldest bytes wait for {point}, which is not reported as submitted"),
        None => "the ring does not wait".to_owned(),
    }
}
