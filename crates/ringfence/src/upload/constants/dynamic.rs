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
use crate::upload::fill::{copy, staged};
use crate::upload::segment::Segment;
use crate::upload::{Frames, UploadBatch, UploadError, UploadWriter};
use ringfence_memory::lifetime::Frame;

/// A constant buffer whose content changes often. Made by [`ConstantBuffers::dynamic`].
pub struct DynamicConstants<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    class: usize,
    content: Box<[u8]>,
    /// Rises with each change of the content.
    version: u64,
    bound: Mutex<History<D, V::View>>,
    /// Woken when a turn ends.
    turn_over: Condvar,
}

/// How long a bind waits for another thread's of the same constants, before it makes a copy of its own.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// What is known of a buffer's binds.
struct History<D: Device, W> {
    /// `None` while a thread has its [`Turn`], too.
    last: Option<Last<D, W>>,
    /// The thread whose turn it is: the address of a thread-local of its own.
    turn_of: Option<usize>,
    /// The frame that is counted, its binds and its copies.
    frame: Option<SyncPoint>,
    binds: u32,
    copies: u32,
    /// How often each copy of the frame before was bound.
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

/// What was bound last.
struct Last<D: Device, W> {
    frame: SyncPoint,
    version: u64,
    place: Place<D, W>,
}

/// Where some content is.
struct Place<D: Device, W> {
    /// Which of the ring's buffers it is in: with a new one everything is copied anew.
    generation: u64,
    class: usize,
    /// Whether it is in device memory.
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

    /// Changes bytes of the content for the next bind; returns whether any byte has changed. If so, the version rises;
    /// constants that were bound before keep their content.
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

/// The turn to look at what was bound last, and to replace it: one thread at a time has it, and no lock is held
/// meanwhile, as views are cloned and dropped by the program's code. It ends with a panic too.
struct Turn<'a, D: Device, V: ConstantViews<D>> {
    constants: &'a DynamicConstants<D, V>,
    last: Option<Last<D, V::View>>,
    copies: u32,
}

impl<D: Device, V: ConstantViews<D>> DynamicConstants<D, V> {
    /// Counts a bind; the turn, and how often each copy of the frame before was bound. There is no turn if this thread
    /// has it further up, in the program's own code, or if another thread has it for very long.
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

/// Binds dynamic constants, for one thread and one frame at a time.
pub struct ConstantWriter<D: Device, V: ConstantViews<D>> {
    shared: Arc<Shared<D, V>>,
    /// One a class.
    writers: [UploadWriter<D>; CLASSES],
    /// What this writer has copied in this frame.
    shares: Shares<Place<D, V::View>>,
    /// Copies to device memory of what is read often.
    promoted: UploadBatch<D>,
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
        Ok(Self { shared, writers, shares, promoted: UploadBatch::new(), figures, _one_thread: PhantomData })
    }

    /// Begins a frame: binds from now on are for the submission of `frame`.
    ///
    /// # Errors
    /// The frame is of another allocator; the writer is as before then.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        for writer in &mut self.writers {
            writer.begin(frame)?;
        }
        self.shares.clear();
        self.promoted.clear();
        self.count();
        Ok(())
    }

    /// The copies of promoted constants to device memory (see [`ConstantsDesc::promote_reads`]). Record them once all
    /// constants of the frame are bound, into a command list that is submitted in the same frame, before the lists that
    /// use the constants.
    ///
    /// [`ConstantsDesc::promote_reads`]: super::ConstantsDesc::promote_reads
    pub fn promoted(&mut self) -> &mut UploadBatch<D> {
        &mut self.promoted
    }

    /// What this writer did since its frame began.
    #[must_use]
    pub fn figures(&self) -> ConstantFigures {
        self.figures
    }

    /// Binds `constants` for the writer's frame: copies the content if that was not done yet, and returns where shaders
    /// read it. Later changes of the content do not change it.
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

    /// Equal content that is there already, or a copy.
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
            let Paired { heap, mirror } = paired.expect("what was made for constants");
            let staged = staged(segment, offset, bytes, frames);
            let (buffer, address, heap, is_promoted) = match mirror {
                Some(mirror) if promote => {
                    promoted.copy_constants(&staged, &mirror.buffer, offset)?;
                    (mirror.buffer.object().clone(), mirror.address, &mirror.heap, true)
                }
                _ => (staged.buffer, segment.address, heap, false),
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
