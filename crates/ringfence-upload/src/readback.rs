//! Readback: a ring for results from the GPU.
//!
//! ```text
//!   reserve(frame) ──▶ Readback: bytes for the device to write ──record the copy, submit──▶
//!                          │ is_ready? wait?
//!                          ▼
//!                      read ──▶ bytes, the host's caches invalidated        drop ──▶ its bytes are free
//! ```
//!
//! The bytes of a result are reused once its frame is complete *and* the [`Readback`] is dropped. Bytes are reused in
//! the order of their reservation, so a result that is kept also keeps the bytes of all later results. If the ring is
//! full for this reason and cannot grow, a reservation returns [`UploadError::Unread`].
//!
//! | operation | cost |
//! |---|---|
//! | reserve | as a write to an upload ring, without the copy; O(results that are not dropped) |
//! | read | one driver call for progress, the copy, an invalidation if the memory is not coherent |

use std::fmt;
use std::panic;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_core::range::Invalid;
use ringfence_core::sync::{SyncPoint, SyncSet};
use ringfence_lockfree::clock::{End, Watch};
use smallvec::SmallVec;

use super::segment::Segment;
use super::state::{Request, Reserved, RingState};
use super::texels::Layout;
use super::{UploadDesc, UploadError, WhenFull};
use crate::device::record::{TexelRead, TexelRegion};
use crate::device::{
    BufferUsage, Device, DeviceError, RawBuffer, RawTexture, TexelBox, TexelFormat, TextureAspect, check_texels,
};
use ringfence_lockfree::pin::HeldPin;
use ringfence_memory::extend::{OpenFrame, WaitError};
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{AccessError, Allocator, Error, Texture};

/// Description of a readback ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadbackDesc<'a> {
    /// Capacity of the ring, in bytes: enough for all results that are in flight or not dropped yet.
    pub capacity: u64,
    /// Usages of the buffer. [`BufferUsage::COPY_DST`] is added.
    pub usage: BufferUsage,
    /// Behaviour of a reservation if the ring is full.
    pub when_full: WhenFull,
    /// Name for reports and for the driver's object.
    pub name: &'a str,
}

impl Default for ReadbackDesc<'_> {
    fn default() -> Self {
        Self {
            capacity: 16 << 20,
            usage: BufferUsage::COPY_DST,
            when_full: WhenFull::Wait { timeout: Duration::from_secs(10) },
            name: "readback ring",
        }
    }
}

/// Error of a read or of a wait. After [`ReadbackError::Device`], a part of the result may have been copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadbackError {
    /// The submission that writes the result is not complete. Read the result later.
    #[error("the result is ready once {point} has passed")]
    NotReady {
        /// The point at which the result is ready.
        point: SyncPoint,
    },
    /// The frame was discarded, or dropped without [`Timeline::submitted`](ringfence_memory::Timeline::submitted). The
    /// device may not have written the result, so it cannot be read.
    #[error("the frame with {point} was not reported as submitted: its result never arrives")]
    NotSubmitted {
        /// The point of that frame.
        point: SyncPoint,
    },
    /// The destination and the result differ in size.
    #[error("{requested} bytes were requested from a result of {size} bytes")]
    Size {
        /// Requested bytes.
        requested: u64,
        /// Bytes of the result.
        size: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A ring of memory that the device writes and the host reads. All methods may be called from any thread.
///
/// If the ring is dropped, its results ([`Readback`]) stay readable, and the buffer lives until the submissions that
/// use it are complete.
///
/// # Examples
///
/// Reads a counter that the GPU has written, without a wait. `device`, `fence`, `memory` and `timeline` are created as
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
/// # use ringfence::AllocationDesc;
/// # let desc = BufferDesc { size: 4, usage: BufferUsage::STORAGE | BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
/// # let counter = memory.create_buffer(&desc, AllocationDesc::default())?;
/// use ringfence::ReadbackRing;
/// use ringfence::upload::ReadbackDesc;
///
/// let ring = ReadbackRing::new(&memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() })?;
/// let frame = timeline.begin();
/// let visible = ring.reserve(&frame, 4, 4)?;
/// let (src, dst, dst_offset) = (*counter.object(), *visible.buffer(), visible.offset());
/// let count = sim::Command::FillWords { dst: src, offset: 0, size: 4, value: 1000 }; // stands for a compute shader
/// // On Vulkan: `vkCmdCopyBuffer`, then a barrier to `HOST_READ`
/// let copy = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset, size: 4 };
/// device.submit(0, &[], vec![count, copy], (fence, frame.value()))?;
/// timeline.submitted(frame)?;
///
/// while !visible.is_ready()? {
///     device.advance(1); // the program draws further frames
/// }
/// let mut bytes = [0; 4];
/// visible.read(&mut bytes)?;
/// assert_eq!(u32::from_le_bytes(bytes), 1000);
/// drop(visible); // its bytes are free
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReadbackRing<D: Device> {
    state: Arc<RingState<D>>,
}

impl<D: Device> ReadbackRing<D> {
    /// Creates a ring for results of the GPU.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: ReadbackDesc<'_>) -> Result<Self, Error> {
        let ReadbackDesc { capacity, usage, when_full, name } = desc;
        let usage = usage | BufferUsage::COPY_DST;
        let location = Location::Readback;
        let ring = UploadDesc { capacity, usage, when_full, location, page_bytes: 0, name };
        Ok(Self { state: RingState::new(memory, ring, false, None, panic::Location::caller())? })
    }

    /// Reserves bytes for a result of `frame`, at a multiple of `alignment`.
    ///
    /// # Errors
    /// As [`UploadRing::write_for`](super::UploadRing::write_for); or [`UploadError::Unread`] if the ring is full of
    /// complete results that were not dropped.
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::ReadbackRing;
    /// # use ringfence::upload::ReadbackDesc;
    /// # let ring = ReadbackRing::new(&memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() })?;
    /// # use std::time::Duration;
    /// let frame = timeline.begin();
    /// let result = ring.reserve(&frame, 256, 16)?;
    /// // Stands for a copy or a shader that writes 256 bytes at `result.offset()` of `result.buffer()`
    /// let fill = sim::Command::FillBuffer { dst: *result.buffer(), offset: result.offset(), size: 256, value: 7 };
    /// device.submit(0, &[], vec![fill], (fence, frame.value()))?;
    /// timeline.submitted(frame)?;
    /// result.wait(Duration::from_secs(10))?;
    /// assert_eq!(result.to_vec()?, [7; 256]);
    /// # assert!(device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, frame: &Frame, size: u64, alignment: u64) -> Result<Readback<D>, UploadError> {
        let users = self.state.users_of(frame)?;
        let Reserved { segment, range, pin } = self.state.reserve(&users, Request::exactly(size, alignment), None)?;
        let pin = pin.expect("a reservation without a pin returns one");
        let (state, point, watch) = (Arc::clone(&self.state), frame.point(), OpenFrame::of(frame).watch());
        let (layout, reads) = (Layout::line(size), SmallVec::new());
        Ok(Readback { state, segment, offset: range.offset(), layout, reads, point, watch, _pin: pin })
    }

    /// Reserves bytes for texels that `frame` copies, with the offset and row pitch that the device requires. The
    /// texels must have a colour format that is not block-compressed. The program records the copy itself.
    /// [`ReadbackRing::reserve_box`] supports every format and returns the copies to record.
    ///
    /// # Errors
    /// As [`ReadbackRing::reserve`].
    pub fn reserve_texels(
        &self,
        frame: &Frame,
        width: u32,
        height: u32,
        texel_bytes: u32,
    ) -> Result<Readback<D>, UploadError> {
        let (aspect, depth, layers) = (TextureAspect::Color, 1, 1);
        let texels = TexelBox { aspect, mip: 0, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth };
        self.reserve_layout(frame, TexelFormat::color(texel_bytes), &texels)
    }

    /// Reserves bytes for texels of a texture, with the offset and row pitch that the device requires. The program must
    /// record the copies in [`Readback::reads`] in `frame`. The texture must have the usage for copies from it.
    ///
    /// # Errors
    /// As [`ReadbackRing::reserve`]; [`UploadError::ForeignTexture`]; or [`UploadError::Texels`] if the texture does
    /// not have the texels, or if they cannot be copied for one of the reasons that
    /// [`UploadBatch::copy_texels`](super::UploadBatch::copy_texels) lists.
    ///
    /// # Examples
    ///
    /// A screenshot of a render target:
    ///
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// # let fence = device.create_fence(0);
    /// # // SAFETY: each submission below signals the fence with the value of its frame.
    /// # let timeline = unsafe { memory.timeline(fence) }?;
    /// # use ringfence::ReadbackRing;
    /// # use ringfence::upload::ReadbackDesc;
    /// # let ring = ReadbackRing::new(&memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() })?;
    /// # use std::time::Duration;
    /// # use ringfence::AllocationDesc;
    /// # use ringfence::device::{TextureDesc, TextureUsage};
    /// # let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC;
    /// # let desc = TextureDesc { width: 20, height: 10, usage, ..Default::default() };
    /// # let scene = memory.create_texture(&desc, AllocationDesc::default())?;
    /// # let (frame, texture) = (timeline.begin(), *scene.object());
    /// # let mut commands = vec![sim::Command::Clear { texture, value: 200 }];
    /// use ringfence::device::record::Record;
    ///
    /// let whole = scene.mip_box(0)?;
    /// let shot = ring.reserve_box(&frame, &scene, &whole)?;
    /// // SAFETY: texture and ring are alive, and the commands are submitted as `frame`.
    /// unsafe { commands.read_texels(shot.reads()) }; // on Vulkan, `commands` is a `vulkan::CopyRecorder`
    /// device.submit(0, &[], commands, (fence, frame.value()))?;
    /// timeline.submitted(frame)?;
    /// shot.wait(Duration::from_secs(10))?;
    /// assert_eq!(shot.to_vec()?, [200; 20 * 10 * 4]); // without the padding between rows
    /// # assert!(device.take_hazards().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_box(&self, frame: &Frame, from: &Texture<D>, texels: &TexelBox) -> Result<Readback<D>, UploadError> {
        let (ring_owner, texture_owner) = (self.state.shared().owner(), from.shared().owner());
        if ring_owner != texture_owner {
            return Err(UploadError::ForeignTexture { ring_owner, texture_owner });
        }
        let partial_depth = self.state.memory.device().capabilities().partial_depth_copies;
        let parts = check_texels(from.parts(), texels, None, [1; 3], partial_depth)?;
        let mut result = self.reserve_layout(frame, parts.format, texels)?;
        let TexelBox { aspect, mip, layer, layers, x, y, z, width, height, depth } = *texels;
        let (format, row_bytes, layer_bytes) = (parts.format, result.layout.row_bytes, result.layout.layer_bytes);
        let (src, dst, offset) = (from.object(), result.buffer(), result.offset);
        let reads = (0..layers).map(|index| {
            let (buffer_offset, layer) = (offset + u64::from(index) * layer_bytes, layer + index);
            let region =
                TexelRegion { buffer_offset, row_bytes, format, aspect, mip, layer, x, y, z, width, height, depth };
            TexelRead { src: src.clone(), aspects: parts.aspects, dst: dst.clone(), region }
        });
        let reads = reads.collect();
        result.reads = reads;
        Ok(result)
    }

    fn reserve_layout(
        &self,
        frame: &Frame,
        format: TexelFormat,
        texels: &TexelBox,
    ) -> Result<Readback<D>, UploadError> {
        let layout = Layout::of(self.state.memory.device().capabilities(), format, texels)?;
        let (size, alignment) = layout.request()?;
        let mut readback = self.reserve(frame, size, alignment)?;
        readback.offset += layout.skip(readback.offset);
        readback.layout = layout;
        Ok(readback)
    }

    /// Returns the statistics of the ring.
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

/// Bytes of the ring that the device writes a result to. If this value is dropped, the ring frees the bytes once the
/// frame is complete.
#[must_use = "a result that is dropped cannot be read"]
pub struct Readback<D: Device> {
    state: Arc<RingState<D>>,
    segment: Arc<Segment<D>>,
    offset: u64,
    /// Layout of the texels. Bytes that are not texels have the layout of one row.
    layout: Layout,
    /// Copies of the texels to the ring, one per layer.
    reads: SmallVec<[TexelRead<RawTexture<D>, RawBuffer<D>>; 1]>,
    point: SyncPoint,
    /// Reports how the frame ends. The point is not enough, because the points of discarded frames pass too.
    watch: Watch,
    _pin: HeldPin,
}

impl<D: Device> Readback<D> {
    /// Returns the driver's buffer.
    #[must_use]
    pub fn buffer(&self) -> &RawBuffer<D> {
        self.segment.buffer.object()
    }

    /// Returns the offset of the first byte in the buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size of the result in the ring, in bytes. For texels, it includes the padding between rows and
    /// layers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layout.size
    }

    /// Returns the number of bytes that [`Readback::read`] copies. For texels, it excludes the padding between rows and
    /// layers.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        // Does not overflow: at most `layout.size`.
        self.layout.tight()
    }

    /// Returns the row pitch: bytes from one row of blocks to the next.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.layout.row_bytes
    }

    /// Returns the copies of the texels to the ring, one per layer. Record them with
    /// [`Record::read_texels`](crate::device::record::Record::read_texels) in the frame that the bytes were reserved
    /// for. If the bytes were reserved without a texture, returns no copies.
    #[must_use]
    pub fn reads(&self) -> &[TexelRead<RawTexture<D>, RawBuffer<D>>] {
        &self.reads
    }

    /// Returns the point at which the result is ready.
    #[must_use]
    pub fn point(&self) -> SyncPoint {
        self.point
    }

    /// Returns `true` if the frame was submitted and is complete. One driver call.
    ///
    /// # Errors
    /// The driver cannot read the timeline: [`DeviceError::Lost`], or out of memory.
    pub fn is_ready(&self) -> Result<bool, DeviceError> {
        let passed = self.state.shared().has_passed(self.point)?;
        Ok(passed && self.watch.end() == End::Submitted)
    }

    /// Waits until the frame is complete, for at most `timeout`.
    ///
    /// # Errors
    /// [`ReadbackError::NotReady`] if the frame is not complete after `timeout`, or immediately if it is not submitted
    /// yet; [`ReadbackError::NotSubmitted`] if it was discarded or dropped; or the driver failed.
    pub fn wait(&self, timeout: Duration) -> Result<(), ReadbackError> {
        self.check_submission()?;
        let deadline = Instant::now().checked_add(timeout);
        match self.state.shared().wait(&SyncSet::from(self.point), deadline) {
            // The frame may have been discarded during the wait.
            Ok(()) => self.check_submission(),
            Err(WaitError::NotSubmitted(point) | WaitError::Unresolved(point)) => {
                Err(ReadbackError::NotReady { point })
            }
            Err(WaitError::Timeout) => Err(ReadbackError::NotReady { point: self.point }),
            Err(WaitError::Device(error)) => Err(error.into()),
        }
    }

    /// Copies the result into `into`. Rows of blocks, slices and layers of texels follow each other without padding.
    /// The last command of the frame must make the result visible to the host if the API requires it (on Vulkan, a
    /// barrier to `HOST_READ`).
    ///
    /// # Errors
    /// The frame is not complete, or was discarded or dropped; the length of `into` is not [`Readback::read_bytes`]; or
    /// the driver failed.
    pub fn read(&self, into: &mut [u8]) -> Result<(), ReadbackError> {
        self.check_ready()?;
        let (requested, size) = (into.len() as u64, self.read_bytes());
        if requested != size {
            return Err(ReadbackError::Size { requested, size });
        }
        if self.layout.size == size {
            return self.read_at(0, into);
        }
        let Layout { row, rows, .. } = self.layout;
        for (at, to) in self.layout.rows([row, row * rows]) {
            self.read_at(at, &mut into[to as usize..][..row as usize])?;
        }
        Ok(())
    }

    /// Returns the result as a new vector. For texels, rows of blocks, slices and layers follow each other without
    /// padding. [`Readback::read`] does the same without an allocation.
    ///
    /// # Errors
    /// As [`Readback::read`].
    pub fn to_vec(&self) -> Result<Vec<u8>, ReadbackError> {
        self.check_ready()?;
        let mut bytes = vec![0; self.read_bytes() as usize];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn check_submission(&self) -> Result<(), ReadbackError> {
        match self.watch.end() {
            End::Unsubmitted => Err(ReadbackError::NotSubmitted { point: self.point }),
            End::Open | End::Submitted => Ok(()),
        }
    }

    fn check_ready(&self) -> Result<(), ReadbackError> {
        self.check_submission()?;
        if self.is_ready()? { Ok(()) } else { Err(ReadbackError::NotReady { point: self.point }) }
    }

    fn read_at(&self, first: u64, into: &mut [u8]) -> Result<(), ReadbackError> {
        match self.segment.buffer.read(self.offset + first, into) {
            Ok(()) => Ok(()),
            Err(AccessError::Device(error)) => Err(error.into()),
            Err(_) => unreachable!("all of a ring is mapped"),
        }
    }
}

impl<D: Device> fmt::Debug for ReadbackRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadbackRing").field("name", &self.state.config.name).finish_non_exhaustive()
    }
}

impl<D: Device> fmt::Debug for Readback<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, point, .. } = self;
        write!(f, "Readback({:?} from {offset}, {} bytes, at {point})", self.buffer(), self.size())
    }
}
