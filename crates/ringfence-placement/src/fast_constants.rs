//! Constants of a single frame or draw, in pages that each thread fills linearly.
//!
//! ```text
//!   thread's page   ┌────┬────┬────┬──────────┐
//!                   │ c0 │ c1 │ c2 │          │ ──full, or frame ended ──▶ retired with the frame
//!                   └────┴────┴────┴──────────┘                              │ the frame is complete
//!   buddies         [ ▢ ▢ ▢ ▢ ][ ▢ ▢ ▢ ▢ ]  ◀────────────────────────────────┘
//!   of 1 MiB            └──▶ the next page; a new buddy only if no page is free
//! ```
//!
//! Single constants are not freed; their page is released as a whole. Pages are freed in any order, each when its frame
//! is complete. A slow queue thus delays only its own pages; in a ring it would delay the pages of all queues. A page
//! belongs to one thread until it is released, so a write needs no lock, no pin and no check of progress.
//!
//! | operation | cost |
//! |---|---|
//! | write to the page | O(1), the copy; no shared state. A flush if the memory is not coherent |
//! | take a page | two short locks, O(log pages); if no page is free, driver calls, at worst a new buffer |

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::lock::Lock;
use ringfence_core::buddy::Buddy;
use ringfence_core::linear::Linear;
use ringfence_core::range::AllocError;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::SyncSet;

use super::desc::Route;
use super::location::BufferLocation;
use super::range_pool::{Block, InPool, PoolFigures, RangePool};
use crate::device::{BufferUsage, Device, DeviceError, Mapped};
use ringfence_memory::extend::{Backing, OpenFrame, Passed, ReclaimRing, run_unlocked};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{AccessError, Allocator, Error};
use ringfence_upload::{Staged, UploadError};

/// Description of the pages of fast constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastConstantsDesc<'a> {
    /// Size of a page, in bytes, rounded up to the alignment of constants. Also the largest size of constants.
    pub page_bytes: u64,
    /// Size of a buddy, the driver buffer that pages are allocated from, in bytes. At least the size of a page, rounded
    /// up to a power of two. If there is no memory for a buddy, a page gets a separate buffer.
    pub buddy_bytes: u64,
    /// Largest number of pages in use. A page is in use until its frame is complete.
    pub pages_max: u32,
    /// Usages of the buffers.
    pub usage: BufferUsage,
    /// Location of the pages, which must be host-visible: not [`Location::Device`].
    pub location: Location,
    /// Number of calls of [`Allocator::reclaim`](ringfence_memory::Allocator::reclaim) after which a buddy without a
    /// page in use is destroyed.
    pub shrink_after: u32,
    /// Name for reports and for the drivers' objects.
    pub name: &'a str,
}

/// Largest size of a page or a buddy, in bytes: a power of two that can be doubled.
const BYTES_MAX: u64 = 1 << 62;

impl Default for FastConstantsDesc<'_> {
    /// Pages of 64 KiB, from buddies of 1 MiB; up to 1024 pages.
    fn default() -> Self {
        Self {
            page_bytes: 64 << 10,
            buddy_bytes: 1 << 20,
            pages_max: 1024,
            usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
            location: Location::Upload,
            shrink_after: 600,
            name: "fast constants",
        }
    }
}

struct Page<D: Device> {
    bytes: BufferLocation<D>,
    /// Device address of the first byte, if the buffer has one.
    address: Option<u64>,
}

struct Locked<D: Device> {
    retired: RetireQueue<Page<D>>,
    /// Empty between calls. Kept to reuse its host memory.
    passed: Vec<Page<D>>,
    /// Number of pages that are being written or wait for the device.
    in_use: u32,
    high_water: u32,
    /// Number of calls of `reclaim`: the clock for empty buddies.
    ticks: u64,
}

/// The code that destroys empty buddies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleaning {
    /// Each `reclaim` destroys buddies that were empty for long enough.
    Own,
    /// The placement policy destroys empty buddies.
    Others,
}

struct State<D: Device> {
    memory: Allocator<D>,
    desc: FastConstantsDesc<'static>,
    /// The line of the program that created the fast constants.
    at: &'static panic::Location<'static>,
    /// Alignment of each constant, in bytes: the device's alignment of constants, and at least the
    /// `nonCoherentAtomSize`.
    alignment: u64,
    name: String,
    cleaning: Cleaning,
    buddies: Arc<RangePool<D, Buddy>>,
    books: Lock<Locked<D>>,
    polled: Lock<Passed>,
    written_bytes: AtomicU64,
}

/// Pages for constants that live for one frame. All threads share one value; each thread writes through its own
/// [`FastWriter`].
///
/// When the value and its writers are dropped, the pages are retired: they live until the submissions that use them are
/// complete.
///
/// # Examples
///
/// New constants for each draw of a frame. `device`, `fence`, `memory` and `timeline` are created as in the example of
/// [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # use ringfence::{AllocationDesc, Location};
/// # let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
/// # let back = memory.create_buffer(&desc, AllocationDesc { location: Location::Readback, ..Default::default() })?;
/// # let dst = *back.object();
/// # use std::time::Duration;
/// use ringfence::FastConstants;
/// use ringfence::placement::FastConstantsDesc;
///
/// let constants = FastConstants::new(&memory, FastConstantsDesc::default());
/// let frame = timeline.begin();
/// let mut writer = constants.writer(&frame)?; // one for each thread; later frames reuse it with `begin`
/// let mut commands = Vec::new();
/// for draw in 0..4 {
///     let world = writer.write(&[draw; 64])?;
///     // On Vulkan: bind `world.buffer` with the dynamic offset `world.offset`. Here, a copy reads the constants.
///     let (src, src_offset, dst_offset) = (world.buffer, world.offset, u64::from(draw) * 64);
///     commands.push(sim::Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 64 });
/// }
/// device.submit(0, &[], commands, (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// let mut bytes = [9; 256];
/// back.read(0, &mut bytes)?;
/// assert_eq!((&bytes[..64], &bytes[192..]), (&[0; 64][..], &[3; 64][..]));
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FastConstants<D: Device> {
    state: Arc<State<D>>,
}

impl<D: Device> FastConstants<D> {
    /// Creates pages for constants that live for one frame. No memory is allocated before the first write.
    #[must_use]
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: FastConstantsDesc<'_>) -> Self {
        Self::with_cleaning(memory, desc, Cleaning::Own)
    }

    #[track_caller]
    pub(super) fn with_cleaning(memory: &Allocator<D>, desc: FastConstantsDesc<'_>, cleaning: Cleaning) -> Self {
        let capabilities = memory.device().capabilities();
        let alignment = capabilities.constant_alignment.max(capabilities.buffer_alignment(desc.usage));
        let alignment = alignment.max(capabilities.non_coherent_atom_bytes);
        // A page of 0 bytes refuses all constants as too large. In other pages, constants take multiples of the
        // alignment.
        let page_bytes = desc.page_bytes.checked_next_multiple_of(alignment.max(1)).unwrap_or(BYTES_MAX);
        let desc = FastConstantsDesc { page_bytes: page_bytes.min(BYTES_MAX), ..desc };
        let page_bytes = desc.page_bytes.max(1).next_power_of_two();
        let buddy_bytes_max = page_bytes.saturating_mul(1 << 20).min(BYTES_MAX);
        let buddy_bytes = desc.buddy_bytes.clamp(page_bytes, buddy_bytes_max).next_power_of_two();
        let grace = u64::from(desc.shrink_after.max(1));
        let buddies = RangePool::new(memory.shared(), buddy_bytes, grace, Buddy::new, page_bytes);
        let state = Arc::new(State {
            memory: memory.clone(),
            at: panic::Location::caller(),
            alignment,
            name: desc.name.to_owned(),
            desc: FastConstantsDesc { name: "", ..desc },
            cleaning,
            buddies,
            books: Lock::new(Locked {
                retired: RetireQueue::new(),
                passed: Vec::new(),
                in_use: 0,
                high_water: 0,
                ticks: 0,
            }),
            polled: Lock::new(Passed::default()),
            written_bytes: AtomicU64::new(0),
        });
        let listed: Arc<dyn ReclaimRing> = state.clone();
        memory.shared().add_ring(&listed);
        Self { state }
    }

    /// Creates a writer for one thread and for `frame`. Reuse it for later frames with [`FastWriter::begin`].
    ///
    /// # Errors
    /// The frame belongs to another allocator, or [`FastConstantsDesc::location`] is not host-visible.
    pub fn writer(&self, frame: &Frame) -> Result<FastWriter<D>, UploadError> {
        self.state.check(frame)?;
        if self.state.desc.location == Location::Device {
            return Err(UNSEEN.into());
        }
        Ok(FastWriter {
            state: Arc::clone(&self.state),
            alignment: self.state.alignment,
            frame: OpenFrame::of(frame),
            page: None,
            written_bytes: 0,
            written_count: 0,
            _one_thread: PhantomData,
        })
    }

    /// Returns the statistics. `capacity_bytes` is the total size of the buddies. `used_bytes` counts each page from
    /// its first write until its frame is complete.
    #[must_use]
    pub fn snapshot(&self) -> RingSnapshot {
        RingSnapshot { name: self.state.name.clone(), ..self.state.now() }
    }

    pub(super) fn pool_figures(&self) -> PoolFigures {
        self.state.buddies.figures()
    }

    /// Takes out a buddy that has been empty for long enough. `tick` is the present time on the caller's clock.
    pub(super) fn take_idle(&self, tick: u64) -> Option<Backing<D>> {
        self.state.buddies.take_idle(tick)
    }
}

impl<D: Device> State<D> {
    fn check(&self, frame: &Frame) -> Result<(), UploadError> {
        if !self.memory.shared().owns(frame) {
            return Err(UploadError::ForeignFrame { frame: frame.point() });
        }
        Ok(())
    }

    /// Returns a free page: first from the buddies, then after freeing complete pages, then from a new buddy.
    fn page(&self) -> Result<Page<D>, UploadError> {
        let shared = self.memory.shared();
        shared.check_lost()?;
        if let Some(page) = self.free_page() {
            return Ok(page);
        }
        {
            let mut passed = self.polled.lock();
            shared.read(&mut passed)?;
            self.free_passed(|retired, pages| _ = retired.reclaim(&*passed, |page| pages.push(page)));
        }
        if let Some(page) = self.free_page() {
            return Ok(page);
        }
        let Some(claim) = Claim::take(self) else {
            let capacity = u64::from(self.desc.pages_max).saturating_mul(self.desc.page_bytes);
            return Err(UploadError::Full { size: self.desc.page_bytes, free: 0, capacity, waits_for: None });
        };
        // The driver and the program's eviction callback run here. A panic in them ends the claim.
        let size = self.granule();
        let made = self.buddies.allocate(size, size, |bytes| self.buddy(bytes)).or_else(|_| {
            // Without memory for a whole buddy, there may be memory for one page.
            self.buddies.allocate_in_own_block(size, size, |bytes| self.buddy(bytes))
        });
        Ok(self.found(made?, claim))
    }

    fn granule(&self) -> u64 {
        self.desc.page_bytes.max(1).next_power_of_two()
    }

    fn free_page(&self) -> Option<Page<D>> {
        let claim = Claim::take(self)?;
        let size = self.granule();
        let found = self.buddies.try_allocate(size, size)?;
        Some(self.found(found, claim))
    }

    /// Returns the page for an allocated range, and keeps the count of its claim.
    fn found(&self, found: InPool<D>, claim: Claim<'_, D>) -> Page<D> {
        claim.keep();
        let address = found.address;
        let (shared, location) = (self.memory.shared(), self.desc.location);
        Page { bytes: BufferLocation::in_pool(shared, found, self.desc.page_bytes, location, Route::FastPage), address }
    }

    /// Creates a buddy. The caller must hold no lock, because this calls the driver.
    fn buddy(&self, bytes: u64) -> Result<Block<D>, Error> {
        let FastConstantsDesc { usage, location, .. } = self.desc;
        Block::buffer(self.memory.shared(), bytes, usage, location, (&self.name, self.at))
    }

    /// Returns the statistics without the name.
    fn now(&self) -> RingSnapshot {
        let books = self.books.lock();
        RingSnapshot {
            name: String::new(),
            capacity_bytes: self.buddies.figures().block_bytes,
            used_bytes: u64::from(books.in_use).saturating_mul(self.desc.page_bytes),
            high_water_bytes: u64::from(books.high_water).saturating_mul(self.desc.page_bytes),
            submission_count: books.retired.batches() as u64,
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            ..Default::default()
        }
    }
}

impl<D: Device> Locked<D> {
    /// Counts one more page as in use. Returns `false` if the limit is reached.
    fn take(&mut self, pages_max: u32) -> bool {
        let may = self.in_use < pages_max;
        if may {
            self.in_use += 1;
            self.high_water = self.high_water.max(self.in_use);
        }
        may
    }
}

/// A page that is counted as in use before it is allocated. Dropping the claim, also by a panic in a callback, reverts
/// the count.
struct Claim<'a, D: Device>(&'a State<D>);

impl<'a, D: Device> Claim<'a, D> {
    /// Returns `None` if the limit of pages is reached.
    fn take(state: &'a State<D>) -> Option<Self> {
        let may = state.books.lock().take(state.desc.pages_max);
        may.then(|| Self(state))
    }

    /// Keeps the count, once the page is allocated.
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl<D: Device> Drop for Claim<'_, D> {
    fn drop(&mut self) {
        self.0.books.lock().in_use -= 1;
    }
}

impl<D: Device> State<D> {
    /// Frees the pages that `take_passed` takes out of the queue: those that the device no longer uses.
    fn free_passed(&self, take_passed: impl FnOnce(&mut RetireQueue<Page<D>>, &mut Vec<Page<D>>)) {
        let mut pages = {
            let mut books = self.books.lock();
            let mut pages = std::mem::take(&mut books.passed);
            take_passed(&mut books.retired, &mut pages);
            books.in_use -= pages.len() as u32;
            pages
        };
        // Without the lock, because a subscriber of the device's lifetimes may run.
        let free = |page: Page<D>| {
            // SAFETY: its points have passed.
            unsafe { page.bytes.free_range_now() };
        };
        pages.drain(..).for_each(free);
        self.books.lock().passed = pages;
    }
}

impl<D: Device> ReclaimRing for State<D> {
    fn reclaim(&self, passed: &Passed, device_lost: bool, is_short: bool) -> bool {
        self.free_passed(|retired, pages| {
            let page = |page| pages.push(page);
            if device_lost {
                retired.release_all(page)
            } else {
                retired.reclaim(passed, page)
            };
        });
        self.books.lock().ticks += u64::from(!is_short);
        self.cleaning == Cleaning::Own
    }

    /// Destroys buddies that were empty for long enough.
    fn upkeep(&self) {
        let ticks = self.books.lock().ticks;
        let shared = self.memory.shared();
        let destroy = |backing| {
            // SAFETY: the block was removed from the pool and is empty; its ranges were released by sync points.
            unsafe { shared.free_backing(backing) };
        };
        std::iter::from_fn(|| self.buddies.take_idle(ticks)).for_each(destroy);
    }

    fn figures(&self) -> Option<RingSnapshot> {
        Some(self.now())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl<D: Device> Drop for State<D> {
    /// Closes the pool. Dropping the waiting pages retires them; a buddy is destroyed after its last page.
    fn drop(&mut self) {
        self.buddies.close();
    }
}

/// Error for a location that is not mapped.
const UNSEEN: DeviceError =
    DeviceError::invalid("fast constants need host-visible memory: use a location other than Location::Device");

/// A page that a thread fills linearly.
struct Own<D: Device> {
    page: Page<D>,
    /// Allocator over the bytes of the page.
    bump: Linear,
    /// Pointer to the first byte if the page is mapped and needs no flushes, so that a write is only a copy.
    plain: Option<Mapped>,
}

/// Writes constants for one thread and one frame at a time, into the writer's page.
pub struct FastWriter<D: Device> {
    state: Arc<State<D>>,
    /// Copy of the alignment in `state`.
    alignment: u64,
    frame: OpenFrame,
    page: Option<Own<D>>,
    written_bytes: u64,
    written_count: u64,
    /// Makes the type `!Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

impl<D: Device> FastWriter<D> {
    /// Returns `true` if the writer's pages come from `fast`.
    pub(super) fn is_of(&self, fast: &FastConstants<D>) -> bool {
        Arc::ptr_eq(&self.state, &fast.state)
    }

    /// Starts the next frame: later constants are for `frame`.
    ///
    /// # Errors
    /// The frame belongs to another allocator. After this error, the writer is unchanged.
    pub fn begin(&mut self, frame: &Frame) -> Result<(), UploadError> {
        self.state.check(frame)?;
        self.retire();
        self.frame = OpenFrame::of(frame);
        Ok(())
    }

    /// Copies constants into the writer's page, at the device's alignment. Only the writer's frame may use them. They
    /// are freed with their page.
    ///
    /// # Errors
    /// No bytes are written if:
    ///
    /// - `bytes` is empty or larger than a page;
    /// - the frame was submitted, discarded or dropped;
    /// - all pages are in use, or there is no memory for another page;
    /// - the device is lost.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<Staged<D>, UploadError> {
        let offset = match self.write_plainly(bytes) {
            Some(offset) => offset,
            None => self.write_with_care(bytes)?,
        };
        let size = bytes.len() as u64;
        self.written_bytes += size;
        self.written_count += 1;
        // The value is constructed only here, to avoid a copy through memory.
        let Page { bytes: held, address } = &self.page.as_ref().expect("the write was in a page").page;
        let address = address.map(|base| base + offset);
        let point = self.frame.point();
        let (buffer, offset) = (held.object().clone(), held.offset() + offset);
        Ok(Staged::in_frame((buffer, held.shared_desc()), offset, size, address, point))
    }

    /// Writes the bytes if a plain copy into the present page suffices, and returns their offset in the page. Otherwise
    /// returns `None`.
    #[inline]
    fn write_plainly(&mut self, bytes: &[u8]) -> Option<u64> {
        let own = self.page.as_mut()?;
        let base = own.plain?;
        if !self.frame.nothing_closed() {
            return None;
        }
        // A page is plainly mapped only if the alignment is a power of two. All constants of a page take multiples of
        // the alignment, so the next constant is aligned.
        let offset = own.bump.allocate(padded(bytes, self.alignment), 1).ok()?;
        // SAFETY: the page is mapped from `base` on for the whole length of `bump`. The range at `offset` has `padded`
        // bytes, which is at least the copied length. Only this writer uses the page, and `bump` hands out each byte
        // once.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(offset).as_ptr(), bytes.len()) };
        Some(offset)
    }

    /// Writes in all cases that [`FastWriter::write_plainly`] does not handle. Returns the offset in the page.
    #[cold]
    fn write_with_care(&mut self, bytes: &[u8]) -> Result<u64, UploadError> {
        if !self.frame.is_open() {
            self.retire();
            return Err(UploadError::FrameOver { frame: self.frame.point() });
        }
        let (offset, bump) = self.place(padded(bytes, self.alignment), self.alignment)?;
        let own = self.page.as_mut().expect("`place` returned an offset in a page");
        match own.page.bytes.write(offset, bytes) {
            Ok(()) => own.bump = bump,
            Err(AccessError::Device(error)) => return Err(error.into()),
            Err(AccessError::NotMapped) => return Err(UNSEEN.into()),
            Err(_) => unreachable!("the bump is as long as the page"),
        }
        Ok(offset)
    }

    /// Returns the offset in the page for a write, and the state of the page's allocator after the write. If the page
    /// has no room, takes a new page.
    fn place(&mut self, size: u64, alignment: u64) -> Result<(u64, Linear), UploadError> {
        if let Some(own) = &self.page {
            let mut bump = own.bump.clone();
            if let Ok(offset) = bump.allocate(size, alignment) {
                return Ok((offset, bump));
            }
        }
        // Checked before a page is taken.
        let mut bump = Linear::new(self.state.desc.page_bytes);
        let offset = bump.allocate(size, alignment).map_err(|error| match error {
            AllocError::TooLarge { size, capacity } => UploadError::TooLarge { size, capacity },
            AllocError::BadAlignment { alignment } => UploadError::BadAlignment { alignment },
            _ => UploadError::ZeroSize,
        })?;
        let page = self.state.page()?;
        self.retire();
        let plain = page.bytes.plainly_mapped();
        self.page = Some(Own { page, bump: Linear::new(self.state.desc.page_bytes), plain });
        Ok((offset, bump))
    }

    /// Retires the page until its frame is complete, and adds the writes to the statistics.
    fn retire(&mut self) {
        if let Some(Own { page, .. }) = self.page.take() {
            let (state, users) = (Arc::clone(&self.state), SyncSet::from(self.frame.point()));
            run_unlocked(move || state.books.lock().retired.retire(&users, page));
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

/// Rounds a length up to a multiple of the alignment. A view on Direct3D 12 has such a size, and must not contain other
/// constants. Needs no division. If the alignment is not a power of two, the result is not used, because the page
/// refuses the alignment.
#[inline]
const fn padded(bytes: &[u8], alignment: u64) -> u64 {
    (bytes.len() as u64).wrapping_add(alignment.wrapping_sub(1)) & alignment.wrapping_neg()
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
