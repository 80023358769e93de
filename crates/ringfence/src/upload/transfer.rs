//! Uploads on a copy queue: they run while other queues work, and submissions that use the uploaded resources wait for
//! one point.
//!
//! ```text
//!   copy queue    │ upload, upload, upload ─▶ submit ─▶ SyncPoint { copy timeline, 17 }
//!   main queue    │ …frame…   …frame…                     └─▶ waits for it ─▶ draws with what was uploaded
//! ```
//!
//! With Vulkan the copy queue may be of another family: then exclusive resources need a queue family ownership
//! transfer, see `vulkan::CopyRecorder::release_to` and `acquire`, and another one back, with its `release`, before a
//! part of them is uploaded again. A resource that is overwritten as a whole needs none back.

use std::fmt;

use ringfence_core::sync::SyncPoint;

use super::{BatchError, TexelTarget, Texels, UploadBatch, UploadError, UploadRing, UploadWriter};
use crate::device::{Create, Device};
use ringfence_memory::lifetime::{Frame, FrameError, Timeline};
use ringfence_memory::{Buffer, Resource, ResourceKind, Texture};

/// Collects uploads for a copy queue, one submission at a time. For one thread; each thread may have its own.
pub struct TransferQueue<D: Device> {
    timeline: Timeline<D>,
    writer: Option<UploadWriter<D>>,
    ring: UploadRing<D>,
    /// There iff something was gathered since the last submission.
    frame: Option<Frame>,
    /// Whether the frame's value was given to the program, which may have submitted it.
    was_tried: bool,
    batch: UploadBatch<D>,
}

/// Why an upload was not added. Earlier uploads are not affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The destination is of another allocator, which would not wait for the copy before it destroys the resource.
    #[error("the destination is of another allocator than the ring")]
    ForeignDestination,
    /// It was not staged.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// It does not fit into its destination.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// Why nothing was submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError<E> {
    /// The program's submission failed. All uploads are kept, to be submitted by the next call.
    #[error("the copies were not submitted: {0}")]
    Submit(E),
    /// The program has submitted a later value of the timeline itself.
    #[error(transparent)]
    Frame(FrameError),
}

impl<D: Device> TransferQueue<D> {
    /// Makes a collector of uploads through `ring`, for the queue of this timeline. Other code that submits to the
    /// queue has to keep the order of the frames' values.
    #[must_use]
    pub fn new(timeline: Timeline<D>, ring: UploadRing<D>) -> Self {
        Self { timeline, writer: None, ring, frame: None, was_tried: false, batch: UploadBatch::new() }
    }

    /// Stages bytes for `offset` of a buffer. Waits only if the ring is full.
    ///
    /// They go to the object that the buffer has now, which is not moved until [`TransferQueue::submit`]. If the buffer is
    /// resized or replaced before that, recording the batch is refused ([`BatchError::Exchanged`]): discard the uploads
    /// then, and stage them again.
    ///
    /// # Errors
    /// As [`UploadWriter::write`] and [`UploadBatch::copy`]; [`TransferError::ForeignDestination`].
    pub fn upload(&mut self, bytes: &[u8], to: &Buffer<D>, offset: u64) -> Result<(), TransferError> {
        self.check_destination(to)?;
        self.gather(|writer, batch| Ok(batch.copy(&writer.write(bytes, 4)?, to, offset)?))
    }

    /// Stages texels for a texture.
    ///
    /// # Errors
    /// As [`UploadWriter::write_texels`] and [`UploadBatch::copy_texels`]; [`TransferError::ForeignDestination`].
    pub fn upload_texels(
        &mut self,
        texels: &Texels<&[u8]>,
        to: &Texture<D>,
        at: TexelTarget,
    ) -> Result<(), TransferError> {
        self.check_destination(to)?;
        self.gather(|writer, batch| Ok(batch.copy_texels(&writer.write_texels(texels)?, to, at)?))
    }

    /// Has `add` stage something, in a frame that begins if none is being gathered. One that was begun for what is
    /// refused ends at once: it would hold back all that is retired until something is submitted.
    fn gather(
        &mut self,
        add: impl FnOnce(&mut UploadWriter<D>, &mut UploadBatch<D>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let gathered = match self.prepare_writer() {
            Ok(()) => add(self.writer.as_mut().expect("made just now"), &mut self.batch),
            Err(error) => Err(error.into()),
        };
        if self.batch.is_empty() && !self.was_tried {
            self.end_frame();
        }
        gathered
    }

    fn check_destination<K: ResourceKind>(&self, to: &Resource<D, K>) -> Result<(), TransferError>
    where
        D: Create<K>,
    {
        if self.ring.is_of(to.shared()) { Ok(()) } else { Err(TransferError::ForeignDestination) }
    }

    /// Makes the writer one for the frame that is being gathered.
    fn prepare_writer(&mut self) -> Result<(), UploadError> {
        let frame = self.frame.get_or_insert_with(|| self.timeline.begin());
        match &mut self.writer {
            Some(writer) if writer.point() == frame.point() => {}
            Some(writer) => writer.begin(frame)?,
            None => self.writer = Some(self.ring.writer(frame)?),
        }
        Ok(())
    }

    /// Calls `submit` to record and submit the collected uploads and to signal the value that it gets on the queue's
    /// fence; returns the point that submissions which use the resources have to wait for. `None` if there is nothing
    /// to upload.
    ///
    /// If `submit` panics, the uploads are kept, as after an error.
    ///
    /// # Errors
    /// The error of `submit`; all is kept then, and the next call tries again with the same value.
    pub fn submit<E>(
        &mut self,
        submit: impl FnOnce(&mut UploadBatch<D>, u64) -> Result<(), E>,
    ) -> Result<Option<SyncPoint>, SubmitError<E>> {
        let Some(frame) = &self.frame else { return Ok(None) };
        self.was_tried = true;
        // The frame stays open meanwhile: if the closure panics, what is staged stays in use.
        submit(&mut self.batch, frame.value()).map_err(SubmitError::Submit)?;
        self.batch.clear();
        self.was_tried = false;
        let Some(frame) = self.frame.take() else { return Ok(None) };
        self.timeline.submitted(frame).map(Some).map_err(SubmitError::Frame)
    }

    /// Discards the uploads since the last submission. If a submission of them has failed, its frame is dropped rather
    /// than discarded, as a part may be under way: its bytes, and whatever is retired from then on, are kept until a
    /// later value is reached ([`Frame`]). Where it is known that nothing is under way, use [`TransferQueue::discard`].
    pub fn abandon(&mut self) {
        self.batch.clear();
        self.end_frame();
    }

    /// Discards the uploads since the last submission, none of which was submitted or will be: nothing waits for them.
    /// For a submission that the driver has refused.
    ///
    /// The caller of [`Allocator::timeline`](ringfence_memory::Allocator::timeline) promised that this is true.
    pub fn discard(&mut self) {
        self.was_tried = false;
        self.abandon();
    }

    fn end_frame(&mut self) {
        let was_tried = std::mem::take(&mut self.was_tried);
        // Only the program submits, and it was not asked to.
        self.frame.take().filter(|_| !was_tried).into_iter().for_each(Frame::discard);
    }

    /// The ring that it stages through.
    #[must_use]
    pub fn ring(&self) -> &UploadRing<D> {
        &self.ring
    }
}

impl<D: Device> Drop for TransferQueue<D> {
    fn drop(&mut self) {
        self.end_frame();
    }
}

impl<D: Device> fmt::Debug for TransferQueue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferQueue").field("frame", &self.frame).field("batch", &self.batch).finish_non_exhaustive()
    }
}
