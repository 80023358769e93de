//! Constants of a single frame, or of a single draw: pages that threads bump through (rows 004-7, 004-14, 004-18, 004-27).
//!
//! ```text
//!   thread's page   ┌────┬────┬────┬──────────┐
//!                   │ c0 │ c1 │ c2 │          │ ──over, or its frame is──▶ retired with the frame
//!                   └────┴────┴────┴──────────┘                              │ the frame is complete
//!   free pages      [ ▢ ▢ ▢ ▢ ] ◀────────────────────────────────────────────┘
//!                       └──▶ the next page; a new one only if there is none
//! ```
//!
//! Giving one constant back does nothing, so there is no call for it: its page goes as a whole. Pages go back in any
//! order, each when its own frame is complete; a queue that is late holds up none but its own, as a ring's tail would.
//! A page is one thread's until it lets go of it, so that no lock, no pin and no check of progress is in the way.
//!
//! | operation | cost |
//! |---|---|
//! | a constant that fits in the page | O(1), the copy; nothing is shared between threads |
//! | a page | one short lock; a driver call a timeline if no page is free, and a buffer if none has come back |

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use ringfence_core::linear::Linear;
use ringfence_core::range::AllocError;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::SyncSet;

use super::ring::copy;
use super::{Recycle, Staged, Told, UploadError};
use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device};
use crate::error::{AccessError, Error};
use crate::lifetime::{Frame, OpenFrame, Passed};
use crate::memory::{Allocator, Location, RingSnapshot};
use crate::resource::{AllocationDesc, Buffer};

/// How the pages of fast constants are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastConstantsDesc<'a> {
    /// Bytes of a page; the largest constants that fit.
    pub page_bytes: u64,
    /// The most pages that there may be.
    pub pages_max: u32,
    /// What the bytes may be used for.
    pub usage: BufferUsage,
    /// Where the pages live.
    pub location: Location,
    /// After so many calls of [`Allocator::reclaim`](crate::Allocator::reclaim) the pages go that were not needed in
    /// any of them.
    pub shrink_after: u32,
    /// A name for reports and for the driver's objects.
    pub name: &'a str,
}

impl Default for FastConstantsDesc<'_> {
    /// Pages of 64 KiB, as document 004 has them; up to 1024 of them.
    fn default() -> Self {
        Self {
            page_bytes: 64 << 10,
            pages_max: 1024,
            usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
            location: Location::Upload,
            shrink_after: 600,
            name: "fast constants",
        }
    }
}

struct Page<D: Device> {
    buffer: Buffer<D>,
    address: Option<u64>,
}

struct Books<D: Device> {
    free: Vec<Page<D>>,
    retired: RetireQueue<Page<D>>,
    /// Pages that there are: free, retired, at work, or being made.
    page_count: u32,
    /// The most pages at work or retired at once, ever and since the last look at what is not needed.
    high_water: u32,
    peak: u32,
    ticks: u32,
}

impl<D: Device> Books<D> {
    fn take(&mut self) -> Option<Page<D>> {
        let page = self.free.pop()?;
        self.note();
        Some(page)
    }

    fn in_use(&self) -> u32 {
        self.page_count - self.free.len() as u32
    }

    fn note(&mut self) {
        self.peak = self.peak.max(self.in_use());
        self.high_water = self.high_water.max(self.peak);
    }
}

struct State<D: Device> {
    memory: Allocator<D>,
    desc: FastConstantsDesc<'static>,
    name: String,
    books: Mutex<Books<D>>,
    polled: Mutex<Passed>,
    written_bytes: AtomicU64,
}

/// Pages for constants that live for one frame. Shared by all threads; each writes through a [`FastWriter`] of its own.
///
/// Dropping it and its writers lets go of the pages; they live until the submissions that use them are complete.
pub struct FastConstants<D: Device> {
    state: Arc<State<D>>,
}

impl<D: Device> FastConstants<D> {
    pub(crate) fn new(memory: &Allocator<D>, desc: FastConstantsDesc<'_>) -> Self {
        let books =
            Books { free: Vec::new(), retired: RetireQueue::new(), page_count: 0, high_water: 0, peak: 0, ticks: 0 };
        let state = Arc::new(State {
            memory: memory.clone(),
            name: desc.name.to_owned(),
            desc: FastConstantsDesc { name: "", ..desc },
            books: Mutex::new(books),
            polled: Mutex::new(Passed::default()),
            written_bytes: AtomicU64::new(0),
        });
        let listed: Arc<dyn Recycle> = state.clone();
        memory.shared().add_ring(&listed);
        Self { state }
    }

    /// A writer for one thread, for the submission of `frame`. Keep it, and give it each frame in turn
    /// ([`FastWriter::begin`]).
    ///
    /// # Errors
    /// The frame is of another allocator.
    pub fn writer(&self, frame: &Frame) -> Result<FastWriter<D>, UploadError> {
        self.state.check(frame)?;
        Ok(FastWriter {
            state: Arc::clone(&self.state),
            frame: OpenFrame::of(frame),
            page: None,
            written_bytes: 0,
            written_count: 0,
            _one_thread: PhantomData,
        })
    }

    /// Its figures: the capacity is that of all pages, used are those that wait for the device or are written.
    #[must_use]
    pub fn snapshot(&self) -> RingSnapshot {
        RingSnapshot { name: self.state.name.clone(), ..self.state.now() }
    }
}

impl<D: Device> State<D> {
    fn check(&self, frame: &Frame) -> Result<(), UploadError> {
        if !self.memory.shared().lifetimes.owns(frame) {
            return Err(UploadError::ForeignFrame { frame: frame.point() });
        }
        Ok(())
    }

    /// A free page; one that has come back; a new one.
    fn page(&self) -> Result<Page<D>, UploadError> {
        let shared = self.memory.shared();
        shared.check_lost()?;
        if let Some(page) = self.books.lock().take() {
            return Ok(page);
        }
        {
            let mut passed = self.polled.lock();
            shared.lifetimes.read(&shared.device, &mut passed)?;
            let mut books = self.books.lock();
            let Books { free, retired, .. } = &mut *books;
            retired.reclaim(&*passed, |page| free.push(page));
            if let Some(page) = books.take() {
                return Ok(page);
            }
            if books.page_count >= self.desc.pages_max {
                let capacity = u64::from(books.page_count) * self.desc.page_bytes;
                return Err(UploadError::Full { size: self.desc.page_bytes, free: 0, capacity, waits_for: None });
            }
            books.page_count += 1;
            books.note();
        }
        self.make().map_err(|error| {
            self.books.lock().page_count -= 1;
            error.into()
        })
    }

    /// Made without the lock: it is a driver call.
    fn make(&self) -> Result<Page<D>, Error> {
        let buffer = BufferDesc { size: self.desc.page_bytes, usage: self.desc.usage };
        let info = Create::<Buffers>::describe(self.memory.device(), &buffer)?;
        let desc = AllocationDesc { name: &self.name, location: self.desc.location, ..Default::default() };
        let buffer = self.memory.create_buffer(&info, desc)?;
        let address = buffer.device_address();
        Ok(Page { buffer, address })
    }

    /// Its figures without its name.
    fn now(&self) -> RingSnapshot {
        let books = self.books.lock();
        RingSnapshot {
            name: String::new(),
            capacity_bytes: u64::from(books.page_count) * self.desc.page_bytes,
            used_bytes: u64::from(books.in_use()) * self.desc.page_bytes,
            high_water_bytes: u64::from(books.high_water) * self.desc.page_bytes,
            submission_count: books.retired.batches() as u64,
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            ..Default::default()
        }
    }
}

impl<D: Device> Recycle for State<D> {
    fn release(&self, told: &Told<'_>) -> bool {
        let mut books = self.books.lock();
        let Books { free, retired, .. } = &mut *books;
        if told.device_lost {
            retired.release_all(|page| free.push(page));
        } else {
            retired.reclaim(told.passed, |page| free.push(page));
        }
        books.ticks += 1;
        if books.ticks < self.desc.shrink_after.max(1) {
            return false;
        }
        books.ticks = 0;
        let spare = books.page_count > books.peak;
        if !spare {
            books.peak = books.in_use();
        }
        spare
    }

    /// Lets go of the pages that were not needed for long.
    fn upkeep(&self) {
        let spare = {
            let mut books = self.books.lock();
            let count = books.page_count.saturating_sub(books.peak).min(books.free.len() as u32);
            let at = books.free.len() - count as usize;
            let spare = books.free.split_off(at);
            books.page_count -= count;
            books.peak = books.in_use();
            spare
        };
        drop(spare);
    }

    fn figures(&self) -> Option<RingSnapshot> {
        Some(self.now())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// A page that a thread bumps through.
struct Own<D: Device> {
    page: Page<D>,
    bump: Linear,
}

/// Writes constants for one thread and one frame at a time, into a page of its own.
pub struct FastWriter<D: Device> {
    state: Arc<State<D>>,
    frame: OpenFrame,
    page: Option<Own<D>>,
    written_bytes: u64,
    written_count: u64,
    /// Not shared between threads.
    _one_thread: PhantomData<Cell<()>>,
}

impl<D: Device> FastWriter<D> {
    /// From here on constants are for the submission of `frame`.
    ///
    /// # Errors
    /// The frame is of another allocator; the writer is as before then.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        self.state.check(frame)?;
        self.retire();
        self.frame = OpenFrame::of(frame);
        Ok(())
    }

    /// Copies constants into the thread's page, at the device's alignment for them. They may be used by the writer's
    /// frame; there is nothing to give back.
    ///
    /// # Errors
    /// No bytes, or more than a page; the frame was submitted or dropped; all pages are in use, or there is no memory
    /// for one more; the device is lost. Nothing is written then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Staged<D>, UploadError> {
        let alignment = self.state.memory.device().capabilities().constant_alignment;
        // Views are of whole multiples of the alignment on Direct3D 12: nobody else's bytes are in them.
        let padded = (bytes.len() as u64).next_multiple_of(alignment);
        if !self.frame.is_open() {
            self.retire();
            return Err(UploadError::FrameOver { frame: self.frame.point() });
        }
        let offset = self.place(padded, alignment)?;
        let own = self.page.as_ref().expect("the place lies in a page");
        let size = bytes.len() as u64;
        let fill = |to: *mut u8| {
            // SAFETY: `write_shared` gives a pointer to `size` mapped bytes of the page, which is this writer's alone.
            copy(bytes, unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes.len()) });
        };
        // SAFETY: the page is this writer's alone until it retires it.
        match unsafe { own.page.buffer.write_shared(offset, size, fill) } {
            Ok(()) => {}
            Err(AccessError::Device(error)) => return Err(error.into()),
            Err(AccessError::NotMapped | AccessError::OutOfRange { .. }) => unreachable!("a page is mapped as a whole"),
        }
        self.written_bytes += size;
        self.written_count += 1;
        let address = own.page.address.map(|base| base + offset);
        Ok(Staged { buffer: own.page.buffer.object().clone(), offset, size, address })
    }

    fn place(&mut self, size: u64, alignment: u64) -> Result<u64, UploadError> {
        if let Some(own) = &mut self.page
            && let Ok(offset) = own.bump.allocate(size, alignment)
        {
            return Ok(offset);
        }
        // Refused before a page is spent on it.
        let mut bump = Linear::new(self.state.desc.page_bytes);
        let offset = bump.allocate(size, alignment).map_err(|error| match error {
            AllocError::TooLarge { size, capacity } => UploadError::TooLarge { size, capacity },
            AllocError::BadAlignment { alignment } => UploadError::BadAlignment { alignment },
            _ => UploadError::ZeroSize,
        })?;
        let page = self.state.page()?;
        self.retire();
        self.page = Some(Own { page, bump });
        Ok(offset)
    }

    /// Lets go of the page, for once its frame is complete.
    fn retire(&mut self) {
        if let Some(Own { page, .. }) = self.page.take() {
            self.state.books.lock().retired.retire(&SyncSet::from(self.frame.point()), page);
        }
        if self.written_count > 0 {
            self.state.written_bytes.fetch_add(self.written_bytes, Ordering::Relaxed);
            self.state.memory.shared().count_staged(self.written_count, self.written_bytes);
            (self.written_count, self.written_bytes) = (0, 0);
        }
    }
}

impl<D: Device> Drop for FastWriter<D> {
    fn drop(&mut self) {
        self.retire();
    }
}

impl<D: Device> fmt::Debug for FastConstants<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastConstants").field("name", &self.state.name).finish_non_exhaustive()
    }
}

impl<D: Device> fmt::Debug for FastWriter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastWriter").field("frame", &self.frame.point()).finish_non_exhaustive()
    }
}
