//! Uploads on a copy queue, in parallel to the work of other queues. Submissions that use the uploaded resources wait
//! for one point.
//!
//! ```text
//!   copy queue    │ upload, upload, upload ─▶ submit ─▶ SyncPoint { copy timeline, 17 }
//!   main queue    │ …frame…   …frame…                     └─▶ waits for it ─▶ draws with the resources
//! ```
//!
//! On Vulkan, the copy queue may belong to another queue family. If it does, resources with exclusive sharing mode need
//! a queue family ownership transfer; see `release_to` and `acquire` of `vulkan::CopyRecorder`. Before a part of such a
//! resource is uploaded again, the resource must be transferred back, with `release` on its present queue and `acquire`
//! on the copy queue (both of `CopyRecorder`). A resource that is overwritten completely need not be transferred back.

use std::fmt;

use ringfence_core::sync::SyncPoint;

use super::error::{TransferError, UploadError};
use super::{TexelTarget, Texels, UploadBatch, UploadRing, UploadWriter};
use crate::device::{Create, Device};
use ringfence_memory::lifetime::{Frame, FrameError, Timeline};
use ringfence_memory::{Buffer, Resource, ResourceKind, Texture};

/// A collector of uploads for a copy queue, one submission at a time. One thread uses a collector; each thread may have
/// its own.
pub struct TransferQueue<D: Device> {
    timeline: Timeline<D>,
    writer: Option<UploadWriter<D>>,
    ring: UploadRing<D>,
    /// The frame of the uploads since the last submission, if there are any.
    frame: Option<Frame>,
    /// `true` if the program got the frame's fence value and may have submitted it.
    was_tried: bool,
    batch: UploadBatch<D>,
}

/// Error of [`TransferQueue::submit`].
#[derive(Debug, thiserror::Error)]
pub enum SubmitError<E> {
    /// The program's closure failed. All uploads are kept for the next call.
    #[error("the copies were not submitted: {0}")]
    Submit(E),
    /// The closure has succeeded, but the program has already reported a later value of the timeline as submitted.
    #[error(transparent)]
    Frame(FrameError),
}

impl<D: Device> TransferQueue<D> {
    /// Creates a collector of uploads. `ring` stages their bytes, and the copies are submitted to the queue of
    /// `timeline`. All code that submits to that queue must submit frames in the order of their values.
    #[must_use]
    pub fn new(timeline: Timeline<D>, ring: UploadRing<D>) -> Self {
        Self { timeline, writer: None, ring, frame: None, was_tried: false, batch: UploadBatch::new() }
    }

    /// Stages bytes, and adds a copy of them to `offset` of a buffer. Waits only if the ring is full.
    ///
    /// The copy writes to the present object of the buffer, which is not moved before [`TransferQueue::submit`]. If the
    /// buffer is resized or replaced before `submit`, recording the batch fails with
    /// [`BatchError::Exchanged`](crate::BatchError::Exchanged). In that case, discard the uploads and stage them again.
    ///
    /// # Errors
    /// As [`UploadWriter::write`] and [`UploadBatch::copy`]; [`TransferError::ForeignDestination`].
    pub fn upload(&mut self, bytes: &[u8], to: &Buffer<D>, offset: u64) -> Result<(), TransferError> {
        self.check_destination(to)?;
        self.gather(|writer, batch| Ok(batch.copy(&writer.write(bytes, 4)?, to, offset)?))
    }

    /// Stages texels, and adds a copy of them to a texture. Waits only if the ring is full.
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

    /// Calls `add` with the batch and with the writer for the frame of the uploads. If there are no uploads yet, begins
    /// the frame first. If the batch is still empty afterwards, ends the frame immediately, because an open frame
    /// delays the release of every object that is retired before the next submission.
    fn gather(
        &mut self,
        add: impl FnOnce(&mut UploadWriter<D>, &mut UploadBatch<D>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let gathered = match self.prepare_writer() {
            Ok(()) => add(self.writer.as_mut().expect("just prepared"), &mut self.batch),
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

    /// Prepares the writer for the frame of the uploads. Begins the frame if there is none.
    fn prepare_writer(&mut self) -> Result<(), UploadError> {
        let frame = self.frame.get_or_insert_with(|| self.timeline.begin());
        match &mut self.writer {
            Some(writer) if writer.point() == frame.point() => {}
            Some(writer) => writer.begin(frame)?,
            None => self.writer = Some(self.ring.writer(frame)?),
        }
        Ok(())
    }

    /// Calls `submit` with the batch and a fence value. `submit` must record and submit the copies, and signal the
    /// value on the queue's fence. Returns a point; submissions that use the resources must wait for this point. If
    /// there are no uploads, does not call `submit` and returns `None`.
    ///
    /// If `submit` panics, the uploads are kept, as after an error.
    ///
    /// # Errors
    /// - The error of `submit`: all uploads are kept, and the next call tries again with the same value.
    /// - [`SubmitError::Frame`]: the uploads are no longer in the batch.
    pub fn submit<E>(
        &mut self,
        submit: impl FnOnce(&mut UploadBatch<D>, u64) -> Result<(), E>,
    ) -> Result<Option<SyncPoint>, SubmitError<E>> {
        let Some(frame) = &self.frame else { return Ok(None) };
        self.was_tried = true;
        // The frame stays open during the call, so that the staged bytes stay in use if the closure panics.
        submit(&mut self.batch, frame.value()).map_err(SubmitError::Submit)?;
        self.batch.clear();
        self.was_tried = false;
        let Some(frame) = self.frame.take() else { return Ok(None) };
        self.timeline.submitted(frame).map(Some).map_err(SubmitError::Frame)
    }

    /// Discards the uploads since the last submission. If [`TransferQueue::submit`] has failed for them, the queue may
    /// already execute a part of them. In this case, their frame is dropped, not discarded: its staged bytes, and all
    /// objects that are retired later, are kept until the timeline reaches a later value ([`Frame`]). If certainly no
    /// part of the uploads was submitted, use [`TransferQueue::discard`].
    pub fn abandon(&mut self) {
        self.batch.clear();
        self.end_frame();
    }

    /// Discards the uploads since the last submission, for example after the driver refused a submission. No part of
    /// them may have been submitted, or be submitted later. Their staged bytes no longer wait for the queue.
    ///
    /// The caller of [`Allocator::timeline`](ringfence_memory::Allocator::timeline) has promised this condition, so
    /// this function is safe.
    pub fn discard(&mut self) {
        self.was_tried = false;
        self.abandon();
    }

    fn end_frame(&mut self) {
        let was_tried = std::mem::take(&mut self.was_tried);
        // A frame whose value the program did not get was not submitted, because only the program submits.
        self.frame.take().filter(|_| !was_tried).into_iter().for_each(Frame::discard);
    }

    /// Returns the ring that the uploads are staged in.
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
