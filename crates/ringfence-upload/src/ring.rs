//! The upload ring: the public handle.

use std::fmt;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::Arc;

use ringfence_core::range::Invalid;
use ringfence_core::sync::SyncSet;

use super::fill::{check_location, copy, fill, staged};
use super::state::{Request, Reserved, RingState};
use super::texels::{Layout, Texels};
use super::{Frames, Staged, UploadDesc, UploadError, UploadWriter};
use crate::device::{BufferUsage, Device};
use ringfence_memory::extend::Shared;
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::RingSnapshot;
use ringfence_memory::{Allocator, Error};

/// A ring of mapped memory that all threads may write to. The [crate](crate) describes a write to a full ring.
///
/// For many small writes of one thread, use [`UploadRing::writer`]. If the ring is dropped, its buffer lives until the
/// submissions that use it are complete.
///
/// # Examples
///
/// A hundred frames write their sprites into a ring of 1 MiB. `device`, `fence`, `memory` and `timeline` are created as
/// in the example of [`Allocator`](ringfence_memory::Allocator#examples).
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
/// # let desc = BufferDesc { size: 48 << 10, usage: BufferUsage::COPY_DST };
/// # let back = memory.create_buffer(&desc, AllocationDesc { location: Location::Readback, ..Default::default() })?;
/// # let dst = *back.object();
/// use ringfence::UploadRing;
/// use ringfence::upload::UploadDesc;
///
/// let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
/// for number in 0..100 {
///     let frame = timeline.begin();
///     let sprites = ring.write_for(&frame, &[number; 48 << 10], 4)?; // waits if 21 frames are in flight
///     // Draw with vertices in `sprites.buffer` at `sprites.offset`. Here, a copy reads them.
///     let (src, src_offset, size) = (sprites.buffer, sprites.offset, sprites.size);
///     let draw = sim::Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size };
///     device.submit(0, &[], vec![draw], (fence, frame.value()))?;
///     timeline.submitted(frame)?; // the ring reuses the bytes once the GPU has passed this frame
///     memory.reclaim();
/// }
/// assert!(device.run_until_idle());
/// let mut bytes = [0; 48 << 10];
/// back.read(0, &mut bytes)?;
/// assert_eq!(bytes, [99; 48 << 10]);
/// assert_eq!(ring.capacity(), 1 << 20);
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UploadRing<D: Device> {
    state: Arc<RingState<D>>,
}

impl<D: Device> UploadRing<D> {
    /// Creates a ring for uploads.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`]; or [`Error::NotHostWritten`] if the description's location is neither `Upload`
    /// nor `DeviceUpload`.
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: UploadDesc<'_>) -> Result<Self, Error> {
        check_location(desc.location)?;
        let desc = UploadDesc { usage: desc.usage | BufferUsage::COPY_SRC, ..desc };
        Ok(Self { state: RingState::new(memory, desc, true, None, Location::caller())? })
    }

    /// Copies bytes into the ring, at a multiple of `alignment` (4 for vertices, 256 for constants, 512 for texels; see
    /// [`Capabilities`](crate::device::Capabilities)). Only frames that are open at this call may use the bytes.
    ///
    /// # Errors
    /// No bytes are written if:
    ///
    /// - `bytes` is empty, or `alignment` is not a power of two;
    /// - no frame is open;
    /// - there are more bytes than the ring can ever hold;
    /// - the ring is full, and waiting would not help, is turned off or took too long;
    /// - the device is lost.
    pub fn write(&self, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        let mut users = SyncSet::new();
        self.state.shared().open(&mut users);
        self.write_for_users(&users, bytes, alignment)
    }

    /// Copies plain values into the ring, as [`UploadRing::write`] does.
    ///
    /// # Errors
    /// As [`UploadRing::write`].
    #[cfg(feature = "bytemuck")]
    pub fn write_slice<T: bytemuck::NoUninit>(&self, values: &[T], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write(bytemuck::cast_slice(values), alignment)
    }

    /// Copies bytes into the ring, as [`UploadRing::write`] does, but only `frame` may use them. The bytes are freed
    /// once `frame` is complete, even if other frames were open at this call.
    ///
    /// # Errors
    /// As [`UploadRing::write`]; or the frame belongs to another allocator.
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::UploadRing;
    /// # use ringfence::upload::UploadDesc;
    /// # let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    /// let frame = timeline.begin();
    /// let indices: Vec<u8> = [0_u16, 1, 2].into_iter().flat_map(u16::to_le_bytes).collect();
    /// let staged = ring.write_for(&frame, &indices, 4)?;
    /// // On Vulkan: `vkCmdBindIndexBuffer(commands, staged.buffer, staged.offset, VK_INDEX_TYPE_UINT16)`
    /// assert_eq!((staged.size, staged.offset % 4), (6, 0));
    /// # frame.discard();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_for(&self, frame: &Frame, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write_for_users(&self.state.users_of(frame)?, bytes, alignment)
    }

    fn write_for_users(&self, users: &SyncSet, bytes: &[u8], alignment: u64) -> Result<Staged<D>, UploadError> {
        self.write_for_users_at(users, bytes.len() as u64, alignment, |_, to| copy(bytes, to))
    }

    /// Copies texels into the ring for `frame`, with the offset and row pitch that the device requires.
    ///
    /// # Errors
    /// As [`UploadRing::write_for`]; or [`UploadError::TexelSize`] if `texels` has too few bytes, or if its rows or
    /// slices overlap.
    pub fn write_texels(&self, frame: &Frame, texels: &Texels<&[u8]>) -> Result<Texels<Staged<D>>, UploadError> {
        let (layout, pitches) = Layout::new(self.state.memory.device().capabilities(), texels)?;
        let (size, alignment) = layout.request()?;
        let fill = |offset, to: &mut [MaybeUninit<u8>]| layout.write((texels.bytes, pitches), offset, to);
        let room = self.write_for_users_at(&self.state.users_of(frame)?, size, alignment, fill)?;
        Ok(layout.staged(texels, room))
    }

    /// Reserves `size` bytes, and calls `filling` with their offset in the buffer and with the mapped bytes.
    fn write_for_users_at(
        &self,
        users: &SyncSet,
        size: u64,
        alignment: u64,
        filling: impl FnOnce(u64, &mut [MaybeUninit<u8>]),
    ) -> Result<Staged<D>, UploadError> {
        let reserved = self.state.reserve(users, Request::exactly(size, alignment), None)?;
        let Reserved { segment, range, .. } = &reserved;
        let offset = range.offset();
        // SAFETY: the ring does not hand out these bytes to another thread while the pin is set.
        unsafe { fill(segment, offset, size, |to| filling(offset, to)) }?;
        self.state.count_written(1, size);
        Ok(staged(segment, offset, size, Frames::of_set(users)))
    }

    /// Returns `true` if the ring belongs to this allocator.
    pub(super) fn is_of(&self, shared: &Arc<Shared<D>>) -> bool {
        Arc::ptr_eq(self.state.shared(), shared)
    }

    /// Creates a writer for one thread and for `frame`. The writer takes a page of the ring at a time; a write within
    /// the page takes no lock. Reuse the writer for later frames with [`UploadWriter::begin`]. This call takes one
    /// short lock.
    ///
    /// # Errors
    /// The frame belongs to another allocator.
    pub fn writer(&self, frame: &Frame) -> Result<UploadWriter<D>, UploadError> {
        UploadWriter::new(&self.state, frame)
    }

    /// Returns the present capacity, in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.state.capacity()
    }

    /// Returns the largest number of bytes that were in use at the same time, with padding. It is at most the largest
    /// capacity that the ring has had: a ring that had to wait needs more.
    #[must_use]
    pub fn high_water(&self) -> u64 {
        self.state.high_water()
    }

    /// Returns the statistics of the ring: occupancy, high-water mark, number of waits and their time.
    #[must_use]
    pub fn snapshot(&self) -> RingSnapshot {
        self.state.shown()
    }

    /// Checks every invariant of the ring. For tests.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.state.validate()
    }
}

impl<D: Device> fmt::Debug for UploadRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadRing")
            .field("name", &self.state.config.name)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
