//! Dynamic constants: their content is in host memory and is copied to a ring when it is bound.
//!
//! ```text
//!   set ──▶ version + 1        bind, in frame f
//!                               │ last = { f, version, the ring's buffer }?  ──▶ the earlier location
//!                               │ equal content in this frame?               ──▶ its location
//!                               └ a slot of the ring, a copy                 ──▶ a new location, stored as `last`
//! ```

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use ringfence_core::sync::SyncPoint;

use super::share::{Shares, hash};
use super::{
    ALIGNMENT, BoundConstants, CLASS_BYTES, CLASSES, ConstantBuffers, ConstantFigures, ConstantViews, LARGE, Paired,
    Shared, classify,
};
use crate::device::Device;
use crate::fill::{copy, staged};
use crate::segment::Segment;
use crate::{Frames, UploadBatch, UploadError, UploadWriter};
use ringfence_memory::lifetime::Frame;

/// A constant buffer whose content changes often. Created by [`ConstantBuffers::dynamic`].
pub struct DynamicConstants<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    class: usize,
    content: Box<[u8]>,
    /// Incremented by each change of the content.
    version: u64,
    bound: Mutex<History<D, V::View>>,
    /// Notified when a [`Turn`] ends.
    turn_over: Condvar,
}

/// Longest wait of a bind for another thread that binds the same constants. After this time, the bind makes its own
/// copy.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// History of a buffer's binds.
struct History<D: Device, W> {
    /// The last bind. `None` before the first bind, and while a thread has its [`Turn`].
    last: Option<Last<D, W>>,
    /// The thread that has the turn, identified by the address of one of its thread-locals.
    turn_of: Option<usize>,
    /// The frame whose binds and copies are counted in `binds` and `copies`.
    frame: Option<SyncPoint>,
    binds: u32,
    copies: u32,
    /// Number of binds per copy in the previous frame.
    reads: u32,
}

impl<D: Device, W> History<D, W> {
    const fn new() -> Self {
        Self { last: None, turn_of: None, frame: None, binds: 0, copies: 0, reads: 0 }
    }

    fn count(&mut self, frame: SyncPoint) {
        if self.frame != Some(frame) {
            self.reads = self.binds / self.copies.max(1);
            (self.frame, self.binds, self.copies) = (Some(frame), 0, 0);
        }
        self.binds = self.binds.saturating_add(1);
    }
}

/// The last bind of a buffer.
struct Last<D: Device, W> {
    frame: SyncPoint,
    version: u64,
    place: Place<D, W>,
}

/// Location of a copy of some content.
struct Place<D: Device, W> {
    /// Generation of the ring's buffer. After the ring has replaced its buffer, all contents are copied again.
    generation: u64,
    class: usize,
    /// `true` if the content is in the mirror in device memory.
    promoted: bool,
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
            bound: Mutex::new(History::new()),
            turn_over: Condvar::new(),
        })
    }

    /// Returns the content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the number of changes of the content.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes bytes of the content for later binds. If a byte differs from the old one, increments the version and
    /// returns `true`. The bytes of earlier binds do not change.
    ///
    /// # Errors
    /// [`UploadError::TooLarge`] if the bytes extend past the end. In this case, the content is unchanged.
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

/// The right to read and replace the last bind of a buffer. Only one thread has it at a time. A turn is used instead of
/// a lock, because the thread calls the program's code during its turn (`Clone` and `Drop` of views). If that code
/// panics, the turn ends too.
struct Turn<'a, D: Device, V: ConstantViews<D>> {
    constants: &'a DynamicConstants<D, V>,
    last: Option<Last<D, V::View>>,
    copies: u32,
}

impl<D: Device, V: ConstantViews<D>> DynamicConstants<D, V> {
    /// Counts a bind. Returns the turn, and the number of binds per copy in the previous frame. Returns no turn if this
    /// thread has it already (the program's code has called `bind` again), or if another thread does not end its turn
    /// within [`TURN_WAIT`].
    fn begin_turn(&self, frame: SyncPoint) -> (Option<Turn<'_, D, V>>, u32) {
        thread_local!(static HERE: u8 = const { 0 });
        let here = HERE.with(|here| std::ptr::from_ref(here) as usize);
        let mut history = self.bound.lock();
        history.count(frame);
        while let Some(thread) = history.turn_of {
            if thread == here || self.turn_over.wait_for(&mut history, TURN_WAIT).timed_out() {
                history.copies += 1;
                return (None, history.reads);
            }
        }
        history.turn_of = Some(here);
        (Some(Turn { constants: self, last: history.last.take(), copies: 0 }), history.reads)
    }
}

impl<D: Device, V: ConstantViews<D>> Drop for Turn<'_, D, V> {
    fn drop(&mut self) {
        let mut history = self.constants.bound.lock();
        history.copies += self.copies;
        history.last = self.last.take();
        history.turn_of = None;
        drop(history);
        self.constants.turn_over.notify_all();
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

/// A writer that binds dynamic constants, for one thread and one frame at a time.
pub struct ConstantWriter<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    /// The writer of each class.
    writers: [UploadWriter<D>; CLASSES],
    /// Contents that this writer has copied in this frame.
    shares: Shares<Place<D, V::View>>,
    /// Copies of promoted contents to device memory.
    promoted: UploadBatch<D>,
    figures: ConstantFigures,
    /// Makes the type `!Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

impl<D: Device, V: ConstantViews<D>> ConstantWriter<D, V> {
    pub(super) fn new(buffers: &ConstantBuffers<D, V>, frame: &Frame) -> Result<Self, UploadError> {
        let shared = Arc::clone(&buffers.shared);
        let writer = |class: usize| UploadWriter::new(&shared.dynamic[class], frame);
        let writers = [writer(0)?, writer(1)?, writer(2)?, writer(LARGE)?];
        let (shares, figures) = (Shares::new(), ConstantFigures::default());
        Ok(Self { shared, writers, shares, promoted: UploadBatch::new(), figures, _one_thread: PhantomData })
    }

    /// Starts the next frame: later binds are for `frame`.
    ///
    /// # Errors
    /// The frame belongs to another allocator. After this error, the writer is unchanged.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        for writer in &mut self.writers {
            writer.begin(frame)?;
        }
        self.shares.clear();
        self.promoted.clear();
        self.count();
        Ok(())
    }

    /// Returns the copies of promoted constants to device memory (see [`ConstantsDesc::promote_reads`]). After all
    /// constants of the frame are bound, record these copies into a command list that is submitted in the same frame,
    /// before the lists that use the constants.
    ///
    /// [`ConstantsDesc::promote_reads`]: super::ConstantsDesc::promote_reads
    pub fn promoted(&mut self) -> &mut UploadBatch<D> {
        &mut self.promoted
    }

    /// Returns the statistics of this writer since its frame began.
    #[must_use]
    pub fn figures(&self) -> ConstantFigures {
        self.figures
    }

    /// Binds `constants` for the writer's frame: copies the content, unless this frame already has a copy that can be
    /// used, and returns the location of the copy for shaders. Later changes of the content do not affect the bound
    /// bytes.
    ///
    /// # Errors
    /// As [`UploadWriter::write`]; or [`UploadError::ForeignConstants`] if the buffer was created by other
    /// [`ConstantBuffers`]. After an error, the constants are not bound.
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
        let (turn, reads) = constants.begin_turn(frame);
        let generation = writer.generation();
        let is_there = |last: &&Last<D, V::View>| {
            (last.frame, last.version, last.place.generation) == (frame, constants.version, generation)
        };
        if let Some(last) = turn.as_ref().and_then(|turn| turn.last.as_ref()).filter(is_there) {
            self.figures.unchanged_count += 1;
            return Ok(last.place.bound.clone());
        }
        let promote = self.shared.desc.promote_reads.is_some_and(|wanted| reads >= wanted);
        let place = self.place(constants.class, &constants.content, promote)?;
        let Some(mut turn) = turn else { return Ok(place.bound) };
        let bound = place.bound.clone();
        turn.copies = 1;
        let replaced = turn.last.replace(Last { frame, version: constants.version, place });
        drop(turn);
        drop(replaced);
        Ok(bound)
    }

    /// Returns the location of equal content that this writer has copied in this frame, or copies the content.
    fn place(&mut self, class: usize, content: &[u8], promote: bool) -> Result<Place<D, V::View>, UploadError> {
        if !self.shared.desc.share_equal {
            return self.copy(class, content, promote);
        }
        let (hash, generation) = (hash(content), self.writers[class].generation());
        let wanted = (class, generation, promote);
        let fits = |place: &Place<D, V::View>| (place.class, place.generation, place.promoted) == wanted;
        if let Some(place) = self.shares.find(hash, content, fits) {
            self.figures.shared_count += 1;
            return Ok(place.clone());
        }
        let place = self.copy(class, content, promote)?;
        self.shares.insert(hash, content, place.clone());
        Ok(place)
    }

    fn copy(&mut self, class: usize, content: &[u8], promote: bool) -> Result<Place<D, V::View>, UploadError> {
        let (_, bytes) = classify(content.len() as u64, u64::MAX)?;
        let alignment = CLASS_BYTES.get(class).copied().unwrap_or(ALIGNMENT);
        let Self { shared, writers, promoted, figures, .. } = self;
        if promote && !promoted.takes(writers[class].point().timeline.owner()) {
            return Err(UploadError::ForeignConstants);
        }
        let frames = Frames::of(writers[class].point());
        let place = |segment: &Segment<D>, offset: u64| {
            let paired = segment.paired.as_deref().and_then(|paired| paired.downcast_ref::<Paired<D, V::Heap>>());
            let Paired { heap, mirror } = paired.expect("the ring was created for constants");
            let staged = staged(segment, offset, bytes, frames);
            let (buffer, address, heap, is_promoted) = match mirror {
                Some(mirror) if promote => {
                    promoted.copy_constants(&staged, &mirror.buffer, offset)?;
                    (mirror.buffer.object().clone(), mirror.address, &mirror.heap, true)
                }
                _ => (staged.range.buffer, segment.address, heap, false),
            };
            let view = heap.as_ref().map(|heap| shared.views.view(heap, (offset / bytes) as u32));
            let address = address.map(|base| base + offset);
            let bound = BoundConstants { buffer, offset, size: bytes, address, view };
            Ok::<_, UploadError>(Place { generation: segment.generation, class, promoted: is_promoted, bound })
        };
        let fill = |_, to: &mut [MaybeUninit<u8>]| {
            let (to, rest) = to.split_at_mut(content.len());
            copy(content, to);
            rest.fill(MaybeUninit::new(0));
        };
        let (_, place) = writers[class].write_at(bytes, alignment, fill, place)?;
        let place = place?;
        figures.copy_count += 1;
        figures.copy_bytes += content.len() as u64;
        figures.promoted_count += u64::from(place.promoted);
        Ok(place)
    }

    /// Returns the writer of a class, to stage the content of static buffers.
    pub(super) fn stager(&mut self, class: usize) -> &mut UploadWriter<D> {
        &mut self.writers[class]
    }

    pub(super) fn is_of(&self, shared: &Arc<Shared<D, V>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(super) fn count_static(&mut self, count: u64) {
        self.figures.static_count += count;
    }

    /// Adds this writer's statistics to the shared statistics and resets them.
    fn count(&mut self) {
        self.shared.figures.lock().add(&std::mem::take(&mut self.figures));
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
