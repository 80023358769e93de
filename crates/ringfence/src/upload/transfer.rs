//! Uploads on a queue of their own: what is needed soon is copied while the other queues work, and who uses it waits
//! for one point.
//!
//! ```text
//!   copy queue    │ upload, upload, upload ─▶ submit ─▶ SyncPoint { copy timeline, 17 }
//!   main queue    │ …frame…   …frame…                     └─▶ waits for it ─▶ draws with what was uploaded
//! ```
//!
//! With Vulkan the copy queue may be of another family: then resources that are not shared between families have to be
//! handed over, see `vulkan::CopyRecorder::release_to` and `acquire`, and handed back with its `release` before a part of
//! them is uploaded anew. What is overwritten as a whole needs no handing back.

use std::fmt;

use ringfence_core::sync::SyncPoint;

use super::{BatchError, StagedTexels, TexelTarget, Texels, UploadBatch, UploadError, UploadRing, UploadWriter};
use crate::device::Device;
use crate::lifetime::{Frame, FrameError, Timeline};
use crate::resource::{Buffer, Texture};

/// Gathers uploads for a copy queue, one submission at a time. For one thread; several may have one each.
pub struct TransferQueue<D: Device> {
    timeline: Timeline<D>,
    writer: Option<UploadWriter<D>>,
    ring: UploadRing<D>,
    /// There iff something was staged since the last submission.
    frame: Option<Frame>,
    batch: UploadBatch<D>,
}

/// Why an upload was not gathered. What was gathered before still is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// It was not staged.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// It does not fit into its destination.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// Why nothing was submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError<E> {
    /// The program's own submission failed. All that was gathered is kept, to be submitted with the next try.
    #[error("the copies were not submitted: {0}")]
    Submit(E),
    /// The program has submitted a later value to the queue by itself.
    #[error(transparent)]
    Frame(FrameError),
}

impl<D: Device> TransferQueue<D> {
    /// Uploads through a ring of its own, on the queue of this timeline. Whoever else submits to it has to keep the
    /// order of the frames' values.
    #[must_use]
    pub fn new(timeline: Timeline<D>, ring: UploadRing<D>) -> Self {
        Self { timeline, writer: None, ring, frame: None, batch: UploadBatch::new() }
    }

    /// Stages bytes for `offset` of a buffer. Waits for the ring at most.
    ///
    /// # Errors
    /// As [`UploadWriter::write`] and [`UploadBatch::copy`].
    pub fn upload(&mut self, bytes: &[u8], to: &Buffer<D>, offset: u64) -> Result<(), TransferError> {
        let staged = self.writer()?.write(bytes, 4)?;
        Ok(self.batch.copy(&staged, to, offset)?)
    }

    /// Stages texels for a texture.
    ///
    /// # Errors
    /// As [`UploadWriter::write_texels`] and [`UploadBatch::copy_texels`].
    pub fn upload_texels(
        &mut self,
        texels: &Texels<'_>,
        to: &Texture<D>,
        at: TexelTarget,
    ) -> Result<(), TransferError> {
        let staged: StagedTexels<D> = self.writer()?.write_texels(texels)?;
        Ok(self.batch.copy_texels(&staged, to, at)?)
    }

    /// The writer, for the frame that is being gathered; one begins if none is.
    fn writer(&mut self) -> Result<&mut UploadWriter<D>, UploadError> {
        let frame = self.frame.get_or_insert_with(|| self.timeline.begin());
        match &mut self.writer {
            Some(writer) if writer.point() == frame.point() => {}
            Some(writer) => writer.begin(frame)?,
            None => self.writer = Some(self.ring.writer(frame)?),
        }
        Ok(self.writer.as_mut().expect("made just now"))
    }

    /// Has `submit` record and submit what was gathered, signalling the value that it is given on the queue's fence;
    /// gives the point that the users of what was uploaded have to wait for. `None` if nothing was gathered.
    ///
    /// # Errors
    /// What `submit` says; all is kept then, and the next call tries again with the same value.
    pub fn submit<E>(
        &mut self,
        submit: impl FnOnce(&mut UploadBatch<D>, u64) -> Result<(), E>,
    ) -> Result<Option<SyncPoint>, SubmitError<E>> {
        let Some(frame) = self.frame.take() else { return Ok(None) };
        if let Err(error) = submit(&mut self.batch, frame.value()) {
            self.frame = Some(frame);
            return Err(SubmitError::Submit(error));
        }
        self.batch.clear();
        self.timeline.submitted(frame).map(Some).map_err(SubmitError::Frame)
    }

    /// Forgets what was gathered since the last submission.
    pub fn abandon(&mut self) {
        self.batch.clear();
        self.frame = None;
    }

    /// The ring that it stages through.
    #[must_use]
    pub fn ring(&self) -> &UploadRing<D> {
        &self.ring
    }
}

impl<D: Device> fmt::Debug for TransferQueue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferQueue").field("frame", &self.frame).field("batch", &self.batch).finish_non_exhaustive()
    }
}
