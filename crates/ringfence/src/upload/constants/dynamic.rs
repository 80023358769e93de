//! Dynamic constants: content in host memory, copied when it is used.
//!
//! ```text
//!   set ──▶ version + 1        bind, in frame f
//!                               │ last = { f, version, the ring's buffer }?  ──▶ the earlier place
//!                               │ equal content in this frame?               ──▶ its place
//!                               └ a slot of the ring, a copy                 ──▶ a new place, noted as `last`
//! ```

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use ringfence_core::sync::SyncPoint;

use super::share::{Shares, hash};
use super::{ALIGNMENT, BoundConstants, CLASS_BYTES, CLASSES, ConstantBuffers, ConstantFigures, ConstantViews, LARGE};
use super::{Shared, classify};
use crate::device::Device;
use crate::lifetime::Frame;
use crate::upload::ring::copy;
use crate::upload::segment::Segment;
use crate::upload::{Staged, UploadError, UploadWriter};

/// A constant buffer whose content changes often. Made by [`ConstantBuffers::dynamic`].
pub struct DynamicConstants<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    class: usize,
    content: Box<[u8]>,
    /// Rises with each change of the content.
    version: u64,
    last: Mutex<Option<Last<D, V::View>>>,
}

/// What was bound last.
struct Last<D: Device, W> {
    frame: SyncPoint,
    version: u64,
    place: Place<D, W>,
}

/// Where some content is.
struct Place<D: Device, W> {
    /// Which of the ring's buffers it is in: with a new one everything is copied anew (fault 10).
    generation: u64,
    class: usize,
    bound: BoundConstants<D, W>,
}

impl<D: Device, V: ConstantViews<D>> DynamicConstants<D, V> {
    pub(super) fn new(buffers: &ConstantBuffers<D, V>, size: u64) -> Result<Self, UploadError> {
        let (class, _) = classify(size, ConstantBuffers::<D, V>::BYTES_MAX)?;
        Ok(Self {
            shared: Arc::clone(&buffers.shared),
            class,
            content: vec![0; size as usize].into_boxed_slice(),
            version: 0,
            last: Mutex::new(None),
        })
    }

    /// The content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Counts the changes of the content.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes bytes of the content, which the next bind shows; says whether any byte is another now. Where it is, the
    /// version rises; what was bound before keeps the content that it had.
    ///
    /// # Errors
    /// [`UploadError::TooLarge`] if the bytes reach beyond the end; nothing has changed then.
    pub fn set(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, UploadError> {
        let capacity = self.content.len() as u64;
        let end = offset.saturating_add(bytes.len() as u64);
        let place =
            usize::try_from(offset).ok().and_then(|first| self.content.get_mut(first..)?.get_mut(..bytes.len()));
        let Some(place) = place else { return Err(UploadError::TooLarge { size: end, capacity }) };
        let changes = *place != *bytes;
        if changes {
            place.copy_from_slice(bytes);
            self.version += 1;
        }
        Ok(changes)
    }
}

impl<D: Device, V: ConstantViews<D>> fmt::Debug for DynamicConstants<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicConstants")
            .field("size", &self.content.len())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Binds dynamic constants, for one thread and one frame at a time.
pub struct ConstantWriter<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    /// One a class.
    writers: [UploadWriter<D>; CLASSES],
    /// What this writer has copied in this frame.
    shares: Shares<Place<D, V::View>>,
    figures: ConstantFigures,
    /// Not shared between threads.
    _one_thread: PhantomData<Cell<()>>,
}

impl<D: Device, V: ConstantViews<D>> ConstantWriter<D, V> {
    pub(super) fn new(buffers: &ConstantBuffers<D, V>, frame: &Frame) -> Result<Self, UploadError> {
        let shared = Arc::clone(&buffers.shared);
        let writer = |class: usize| UploadWriter::new(&shared.dynamic[class], frame);
        let writers = [writer(0)?, writer(1)?, writer(2)?, writer(LARGE)?];
        let (shares, figures) = (Shares::new(), ConstantFigures::default());
        Ok(Self { shared, writers, shares, figures, _one_thread: PhantomData })
    }

    /// From here on binds are for the submission of `frame`.
    ///
    /// # Errors
    /// The frame is of another allocator; the writer is as before then.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        for writer in &mut self.writers {
            writer.begin(frame)?;
        }
        self.shares.clear();
        self.count();
        Ok(())
    }

    /// What this writer did since its frame began.
    #[must_use]
    pub fn figures(&self) -> ConstantFigures {
        self.figures
    }

    /// Where a shader finds the content of `constants` in the writer's frame: a copy is made if there is none yet.
    /// Later changes of the content do not show there.
    ///
    /// # Errors
    /// As [`UploadWriter::write`]; [`UploadError::ForeignConstants`] if the buffer was made by other
    /// [`ConstantBuffers`]. Nothing was copied then.
    pub fn bind(&mut self, constants: &DynamicConstants<D, V>) -> Result<BoundConstants<D, V::View>, UploadError> {
        if !Arc::ptr_eq(&self.shared, &constants.shared) {
            return Err(UploadError::ForeignConstants);
        }
        let writer = &mut self.writers[constants.class];
        let frame = writer.point();
        if !writer.is_open() {
            return Err(UploadError::FrameOver { frame });
        }
        self.figures.bind_count += 1;
        let mut last = constants.last.lock();
        if let Some(last) = &*last
            && (last.frame, last.version) == (frame, constants.version)
            && last.place.generation == writer.generation()
        {
            self.figures.unchanged_count += 1;
            return Ok(last.place.bound.clone());
        }
        let place = self.place(constants.class, &constants.content)?;
        let bound = place.bound.clone();
        *last = Some(Last { frame, version: constants.version, place });
        Ok(bound)
    }

    /// Equal content that is there already, or a copy.
    fn place(&mut self, class: usize, content: &[u8]) -> Result<Place<D, V::View>, UploadError> {
        if !self.shared.desc.share_equal {
            return self.copy(class, content);
        }
        let (hash, generation) = (hash(content), self.writers[class].generation());
        let fits = |place: &Place<D, V::View>| (place.class, place.generation) == (class, generation);
        if let Some(place) = self.shares.find(hash, content, fits) {
            self.figures.shared_count += 1;
            return Ok(place.clone());
        }
        let place = self.copy(class, content)?;
        self.shares.insert(hash, content, place.clone());
        Ok(place)
    }

    fn copy(&mut self, class: usize, content: &[u8]) -> Result<Place<D, V::View>, UploadError> {
        let (_, bytes) = classify(content.len() as u64, u64::MAX)?;
        let alignment = CLASS_BYTES.get(class).copied().unwrap_or(ALIGNMENT);
        let views = &self.shared.views;
        let place = |segment: &Segment<D>, offset: u64| {
            let heap = segment.paired.as_deref().and_then(|paired| paired.downcast_ref::<V::Heap>());
            (segment.generation, heap.map(|heap| views.view(heap, (offset / bytes) as u32)))
        };
        let fill = |_, to: &mut [std::mem::MaybeUninit<u8>]| copy(content, &mut to[..content.len()]);
        let (staged, (generation, view)) = self.writers[class].write_at(bytes, alignment, fill, place)?;
        let Staged { buffer, offset, size, address } = staged;
        self.figures.copy_count += 1;
        self.figures.copy_bytes += content.len() as u64;
        Ok(Place { generation, class, bound: BoundConstants { buffer, offset, size, address, view } })
    }

    /// The ring's way in, for content of static buffers that is staged.
    pub(super) fn stager(&mut self, class: usize) -> &mut UploadWriter<D> {
        &mut self.writers[class]
    }

    pub(super) fn is_of(&self, shared: &Arc<Shared<D, V>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(super) fn count_static(&mut self, count: u64) {
        self.figures.static_count += count;
    }

    /// Adds to the figures of all what was done since the last time.
    fn count(&mut self) {
        self.shared.counters.add(&self.figures);
        self.figures = ConstantFigures::default();
    }
}

impl<D: Device, W: Clone> Clone for Place<D, W> {
    fn clone(&self) -> Self {
        Self { bound: self.bound.clone(), ..*self }
    }
}

impl<D: Device, V: ConstantViews<D>> Drop for ConstantWriter<D, V> {
    fn drop(&mut self) {
        self.count();
    }
}

impl<D: Device, V: ConstantViews<D>> fmt::Debug for ConstantWriter<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstantWriter").field("figures", &self.figures).finish_non_exhaustive()
    }
}
