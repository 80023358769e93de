//! A thread's own way into a ring: a page at a time, bump by bump.
//!
//! ```text
//!   page     ┌────────┬──┬───────────┬─────────────────┐
//!            │ write 1│▒▒│  write 2  │                 │      ▒ padding
//!            └────────┴──┴───────────┴─────────────────┘
//!           position                 next              end
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | a write that fits in the page | two atomic stores, two loads, the copy |
//! | a write that does not | the ring's lock, once; maybe a wait |
//! | [`UploadWriter::begin`] | O(1); the rest of the page is left |

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_lockfree::clock::Watch;
use ringfence_core::range::align_up;
use ringfence_core::sync::{SyncPoint, SyncSet};

use super::fill::{Filling, copy, fill, staged};
use super::segment::Segment;
use super::state::{Request, Reserved, RingState};
use super::texels::{Layout, Texels};
use super::{Frames, Staged, UploadError};
use crate::device::Device;
use ringfence_lockfree::pin::{HeldPin, Pin, Unpin};
use ringfence_memory::extend::OpenFrame;
use ringfence_memory::lifetime::Frame;

/// Pages begin at multiples of this, so that what is aligned to it in the page is so in the buffer, without padding.
const PAGE_ALIGNMENT: u64 = 512;

/// Writes into an [`UploadRing`](super::UploadRing) for one thread and one frame at a time.
///
/// It may be sent to another thread, and used by one at a time. When its frame is over, it refuses to write until it
/// is given the next one.
pub struct UploadWriter<D: Device> {
    state: Arc<RingState<D>>,
    frame: OpenFrame,
    users: SyncSet,
    page: Option<Page<D>>,
    pin: HeldPin,
    /// Not counted in the ring yet.
    written_bytes: u64,
    written_count: u64,
    /// Not shared between threads.
    _one_thread: PhantomData<Cell<()>>,
}

/// A part of the ring that one writer has.
struct Page<D: Device> {
    segment: Arc<Segment<D>>,
    /// Its place among all that the segment ever gave out.
    position: u64,
    /// Where the next write begins, before padding.
    next: u64,
    end: u64,
}

impl<D: Device> Page<D> {
    fn place(&self, size: u64, alignment: u64) -> Option<u64> {
        align_up(self.next, alignment).filter(|offset| offset.checked_add(size).is_some_and(|end| end <= self.end))
    }
}

/// Bytes of the ring's buffer, where the writer's pin stands.
struct Target<D: Device> {
    /// Where it lies, if not in the writer's page: no count that threads share is touched for a page's writes.
    large: Option<Arc<Segment<D>>>,
    offset: u64,
}

impl<D: Device> UploadWriter<D> {
    pub(super) fn new(state: &Arc<RingState<D>>, frame: &Frame) -> Result<Self, UploadError> {
        let users = state.users_of(frame)?;
        let pin = state.books.lock().pins.claim(Pin::FREE);
        Ok(Self {
            state: Arc::clone(state),
            frame: OpenFrame::of(frame),
            users,
            page: None,
            pin,
            written_bytes: 0,
            written_count: 0,
            _one_thread: PhantomData,
        })
    }

    /// From here on writes are for the submission of `frame`.
    ///
    /// # Errors
    /// The frame is of another allocator; the writer is as before then.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        self.users = self.state.users_of(frame)?;
        self.frame = OpenFrame::of(frame);
        self.page = None;
        self.count();
        Ok(())
    }

    /// The moment at which the submission that it writes for is complete.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.frame.point()
    }

    /// Copies bytes into the ring, at a multiple of `alignment`, for the writer's frame.
    ///
    /// # Errors
    /// As [`UploadRing::write`](super::UploadRing::write); and [`UploadError::FrameOver`] if the frame was submitted or
    /// dropped. Nothing is written then, and the writer is usable.
    pub fn write(&mut self, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write_with(bytes.len() as u64, alignment, |to| copy(bytes, to))
    }

    /// As [`UploadWriter::write`], with the bytes written in place by `fill`. It is given exactly `size` bytes, whose
    /// content is not to be read: the memory may be slow to read. Bytes that it leaves out keep what they hold.
    ///
    /// # Errors
    /// As [`UploadWriter::write`].
    pub fn write_with(
        &mut self,
        size: u64,
        alignment: u64,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Staged<D>, UploadError> {
        self.write_at(size, alignment, |_, to| fill(to), |_, _| ()).map(|(staged, ())| staged)
    }

    /// Writes texels, with the offset and row pitch that the device needs.
    ///
    /// # Errors
    /// As [`UploadWriter::write`]; and [`UploadError::TexelSize`] if fewer bytes were given than the texels have.
    pub fn write_texels(&mut self, texels: &Texels<&[u8]>) -> Result<Texels<Staged<D>>, UploadError> {
        let (layout, pitches) = Layout::new(self.state.memory.device().capabilities(), texels)?;
        let (size, alignment) = layout.request()?;
        let fill = |offset, to: &mut [MaybeUninit<u8>]| layout.write((texels.bytes, pitches), offset, to);
        let (room, ()) = self.write_at(size, alignment, fill, |_, _| ())?;
        Ok(layout.staged(texels, room))
    }

    /// Which of its buffers the ring has now.
    pub(super) fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Acquire)
    }

    pub(super) fn is_open(&mut self) -> bool {
        self.frame.is_open()
    }

    /// Notes how its frame ends.
    pub(super) fn watch(&self) -> Watch {
        self.frame.watch()
    }

    /// Passes `filling` the offset in the buffer, and `of` also which of the ring's buffers it is.
    pub(super) fn write_at<T>(
        &mut self,
        size: u64,
        alignment: u64,
        filling: impl FnOnce(u64, &mut [MaybeUninit<u8>]),
        of: impl FnOnce(&Segment<D>, u64) -> T,
    ) -> Result<(Staged<D>, T), UploadError> {
        if size == 0 {
            return Err(UploadError::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(UploadError::BadAlignment { alignment });
        }
        if !self.frame.is_open() {
            self.page = None;
            return Err(self.over());
        }
        let Target { large, offset } = self.target(size, alignment)?;
        let _unpin = Unpin(&self.pin);
        let own = self.page.as_ref().map(|page| &page.segment);
        let segment = large.as_ref().or(own).expect("the target lies in the page, or brings its segment");
        // SAFETY: the bytes are this writer's alone: the ring gives them to no other thread as long as the pin stands.
        unsafe { fill(segment, offset, size, |to| filling(offset, to)) }?;
        let of = {
            let _filling = Filling::begin();
            of(segment, offset)
        };
        self.written_bytes += size;
        self.written_count += 1;
        Ok((staged(segment, offset, size, Frames::of(self.frame.point())), of))
    }

    fn over(&self) -> UploadError {
        UploadError::FrameOver { frame: self.frame.point() }
    }

    /// Finds room and leaves the pin standing on it.
    fn target(&mut self, size: u64, alignment: u64) -> Result<Target<D>, UploadError> {
        if let Some(page) = &mut self.page
            && let Some(offset) = page.place(size, alignment)
        {
            self.pin.set(page.position);
            if page.segment.released.holds(page.position) {
                page.next = offset + size;
                return Ok(Target { large: None, offset });
            }
            // The frame was submitted and completed while this thread wrote.
            self.pin.free();
            self.page = None;
            return Err(self.over());
        }
        self.reserve(size, alignment)
    }

    /// Takes a page, or, for what is larger than one, just its bytes.
    fn reserve(&mut self, size: u64, alignment: u64) -> Result<Target<D>, UploadError> {
        self.count();
        let page = self.state.page_bytes();
        let request = if size > page {
            Request::exactly(size, alignment)
        } else {
            Request { size, page, alignment: alignment.max(PAGE_ALIGNMENT) }
        };
        let Reserved { segment, range, .. } = self.state.reserve(&self.users, request, Some(&self.pin))?;
        let offset = range.offset();
        if size > page {
            return Ok(Target { large: Some(segment), offset });
        }
        self.page = Some(Page { segment, position: range.position(), next: offset + size, end: range.end() });
        Ok(Target { large: None, offset })
    }

    /// Adds to the ring's figures what was written since the last time.
    fn count(&mut self) {
        if self.written_count > 0 {
            self.state.count_written(self.written_count, self.written_bytes);
            (self.written_count, self.written_bytes) = (0, 0);
        }
    }
}

impl<D: Device> Drop for UploadWriter<D> {
    fn drop(&mut self) {
        self.count();
    }
}

impl<D: Device> fmt::Debug for UploadWriter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadWriter").field("frame", &self.frame.point()).finish_non_exhaustive()
    }
}
