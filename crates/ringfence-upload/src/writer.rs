//! A writer of a ring for one thread. It takes a page of the ring at a time, and allocates linearly in the page.
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
//! | a write that does not fit | the ring's lock, once; possibly a wait |
//! | [`UploadWriter::begin`] | O(1); the rest of the page stays unused |

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::range::align_up;
use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_lockfree::clock::Watch;

use super::fill::{Filling, copy, fill, staged};
use super::segment::Segment;
use super::state::{Request, Reserved, RingState};
use super::texels::{Layout, Texels};
use super::{Frames, Staged, UploadError};
use crate::device::Device;
use ringfence_lockfree::pin::{HeldPin, Pin, Unpin};
use ringfence_memory::extend::OpenFrame;
use ringfence_memory::lifetime::Frame;

/// Minimum alignment of the first byte of a page in the buffer, in bytes.
const PAGE_ALIGNMENT: u64 = 512;

/// A writer into an [`UploadRing`](super::UploadRing), for one thread and one frame at a time.
///
/// A writer may be sent to another thread, but two threads cannot use it at the same time. After the end of its frame,
/// a write fails until [`UploadWriter::begin`] gives the writer its next frame.
pub struct UploadWriter<D: Device> {
    state: Arc<RingState<D>>,
    frame: OpenFrame,
    users: SyncSet,
    page: Option<Page<D>>,
    pin: HeldPin,
    /// Bytes that were written, but not yet added to the ring's statistics.
    written_bytes: u64,
    written_count: u64,
    /// Makes the type `!Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

/// A part of the ring that belongs to one writer.
struct Page<D: Device> {
    segment: Arc<Segment<D>>,
    /// Position of the page in the sequence of all bytes that the segment has handed out.
    position: u64,
    /// Offset of the next write in the buffer, before padding, in bytes.
    next: u64,
    end: u64,
}

impl<D: Device> Page<D> {
    fn place(&self, size: u64, alignment: u64) -> Option<u64> {
        align_up(self.next, alignment).filter(|offset| offset.checked_add(size).is_some_and(|end| end <= self.end))
    }
}

/// A range of the ring's buffer that the writer's pin protects.
struct Target<D: Device> {
    /// The segment of the range. `None` if the range is in the writer's page, to avoid a write to a shared reference
    /// count.
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

    /// Starts the next frame: later writes are for `frame`.
    ///
    /// # Errors
    /// The frame belongs to another allocator. After this error, the writer is unchanged.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        self.users = self.state.users_of(frame)?;
        self.frame = OpenFrame::of(frame);
        self.page = None;
        self.count();
        Ok(())
    }

    /// Returns the point at which the writer's frame is complete.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.frame.point()
    }

    /// Copies bytes into the ring, at a multiple of `alignment`, for the writer's frame.
    ///
    /// # Errors
    /// As [`UploadRing::write`](super::UploadRing::write); or [`UploadError::FrameOver`] if the frame was submitted,
    /// discarded or dropped. After an error, no bytes are written, and the writer stays usable.
    pub fn write(&mut self, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write_with(bytes.len() as u64, alignment, |to| copy(bytes, to))
    }

    /// Writes bytes as [`UploadWriter::write`] does, but `fill` writes them in place. `fill` gets exactly `size` bytes
    /// and must not read them, because reads from this memory may be slow. Bytes that it does not write keep their old
    /// content.
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

    /// Copies texels into the ring, with the offset and row pitch that the device requires.
    ///
    /// # Errors
    /// As [`UploadWriter::write`]; or [`UploadError::TexelSize`] if `texels` has too few bytes, or if its rows or
    /// slices overlap.
    pub fn write_texels(&mut self, texels: &Texels<&[u8]>) -> Result<Texels<Staged<D>>, UploadError> {
        let (layout, pitches) = Layout::new(self.state.memory.device().capabilities(), texels)?;
        let (size, alignment) = layout.request()?;
        let fill = |offset, to: &mut [MaybeUninit<u8>]| layout.write((texels.bytes, pitches), offset, to);
        let (room, ()) = self.write_at(size, alignment, fill, |_, _| ())?;
        Ok(layout.staged(texels, room))
    }

    /// Returns the generation of the ring's present buffer.
    pub(super) fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Acquire)
    }

    pub(super) fn is_open(&mut self) -> bool {
        self.frame.is_open()
    }

    /// Returns a watch that reports how the writer's frame ends.
    pub(super) fn watch(&self) -> Watch {
        self.frame.watch()
    }

    /// Reserves `size` bytes, calls `filling` with their offset in the buffer and with the bytes, then calls `of` with
    /// the segment and the offset. Returns the staged bytes and the result of `of`.
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
        let segment = large.as_ref().or(own).expect("the target is in the page or has its segment");
        // SAFETY: only this writer accesses the bytes: the ring does not hand them out again while the pin is set.
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

    /// Reserves bytes and sets the writer's pin on them, so that the ring does not hand them out again. The caller
    /// clears the pin after the write.
    fn target(&mut self, size: u64, alignment: u64) -> Result<Target<D>, UploadError> {
        if let Some(page) = &mut self.page
            && let Some(offset) = page.place(size, alignment)
        {
            self.pin.set(page.position);
            if page.segment.released.holds(page.position) {
                page.next = offset + size;
                return Ok(Target { large: None, offset });
            }
            // Another thread has submitted the frame during this call, and the frame is complete.
            self.pin.free();
            self.page = None;
            return Err(self.over());
        }
        self.reserve(size, alignment)
    }

    /// Reserves a new page for the write. If the write is larger than a page, reserves exactly its bytes.
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

    /// Adds the writes since the last call to the ring's statistics.
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
